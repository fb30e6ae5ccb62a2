"""Solutions as starts of other runs: bounds stay valid."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone

from structinv import InvariantLinearSVC, InvariantSVC, RepresenterClassifier
from structinv.functionals import Gradient
from structinv.losses import Absolute, Squared
from structinv.oracles import Box, Ellipsoid, FAdd, FDrop, FiniteOracle, FScale, Identity, Shifts
from structinv.solvers import REGISTRY, FrankWolfe, Gap, Iterations, Start, Status, solve
from structinv.terms import Penalty

from ..covering import each_once, pairs, slow_unless
from ..optima import optimum
from ..oracles.cases import D
from ..problems import SETTING, LinearFunctionals, assert_brackets, counts, objective
from .cases import TURNS, WITH_VARIABLES, every_solver, tolerance_of


@every_solver
def test_a_solution_starts_another_c(name):
    best = optimum("fdrop", "binary", 1.5)
    stop = Gap(0.5 * tolerance_of(name))
    start = solve(objective(FDrop(2)), REGISTRY[name](), stop, random_state=0)
    problem = objective(FDrop(2), factor=1.5)
    warm = solve(problem, REGISTRY[name](), stop, warm_start=start, random_state=0)
    cold = solve(problem, REGISTRY[name](), Iterations(1), random_state=0)
    assert warm.status is Status.CONVERGED
    assert_brackets(warm, best)
    assert warm.primal <= best * (1 + tolerance_of(name))
    assert warm.history[0].primal < cold.history[0].primal
    if name in WITH_VARIABLES:
        gaps = [run.history[0].primal - run.history[0].dual for run in (warm, cold)]
        assert gaps[0] < 0.5 * gaps[1]


@pytest.mark.parametrize(
    ("name", "setting"),
    slow_unless(
        lambda name, setting: (
            name in WITH_VARIABLES or setting == TURNS[sorted(REGISTRY).index(name) % 3]
        ),
        list(product(sorted(REGISTRY), TURNS)),
    ),
)
def test_a_solution_starts_a_larger_set(name, setting):
    where, stop = SETTING[setting], Gap(0.5 * tolerance_of(name))
    start = solve(objective(FDrop(1), where), REGISTRY[name](), stop, random_state=0)
    problem = objective(FDrop(2), where)
    warm = solve(problem, REGISTRY[name](), stop, warm_start=start, random_state=0)
    assert warm.status is Status.CONVERGED
    assert_brackets(warm, optimum("fdrop", setting))
    if name in WITH_VARIABLES and setting != "multiclass-slack":
        # Variables of the smaller set are feasible for the larger one: nothing is lost on the way.
        assert warm.history[0].dual == pytest.approx(start.dual, rel=1e-9)


@cache
def start_of(source, setting, tolerance):
    """A solution that several solvers start from."""
    problem = objective(FDrop(2), SETTING[setting])
    return solve(problem, REGISTRY[source](), Gap(tolerance), random_state=0)


# Each pair in one of the settings, in turns; those with variables in that of the first one.
@pytest.mark.parametrize(
    ("name", "source", "setting"),
    slow_unless(
        lambda name, source, setting: (
            setting == TURNS[(sorted(REGISTRY).index(name) + sorted(REGISTRY).index(source)) % 3]
        ),
        list(product(sorted(REGISTRY), sorted(REGISTRY), TURNS)),
    ),
)
def test_a_solution_of_one_solver_starts_another(name, setting, source):
    best, tolerance = optimum("fdrop", setting), max(tolerance_of(name), tolerance_of(source))
    start = start_of(source, setting, tolerance)
    problem = objective(FDrop(2), SETTING[setting])
    again = solve(problem, REGISTRY[name](), Gap(2 * tolerance), warm_start=start, random_state=0)
    assert again.status is Status.CONVERGED
    assert_brackets(again, best)
    assert again.history[0].primal <= start.primal * (1 + 1e-9)
    if {name, source} <= WITH_VARIABLES and setting != "multiclass-slack":
        assert again.iterations == 0


@pytest.mark.parametrize("name", ["frank_wolfe", "interior_point", "svmstruct"])
@pytest.mark.parametrize("setting", ["binary", "binary-slack"])
def test_a_start_has_the_dual_value_of_its_variables(setting, name):
    # With small weights all rows have a loss, so that the worst label of each is unique.
    this, solver = objective(Identity(), SETTING[setting], factor=0.01), REGISTRY[name]()
    solution = solve(this, solver, Gap(1e-6), random_state=0)
    state = solver.init(this, np.random.default_rng(1), Start(solution.f, solution.dual_variables))
    assert solver.bounds(this, state).dual == pytest.approx(solution.dual, rel=1e-6)


@pytest.mark.parametrize(
    ("oracle", "taus", "name"),
    pairs([Identity(), FDrop(2), Ellipsoid(np.eye(D))], [5.0, -5.0], ["interior_point", "svmstruct"]),
    ids=str,
)
def test_variables_of_a_start_are_clipped_to_feasible_ones(name, taus, oracle):
    this, solver = objective(oracle), REGISTRY[name]()
    best = solve(this, FrankWolfe(), Gap(1e-9), random_state=0)
    start = Start(best.f, [{"taus": np.where(np.arange(9) < 4, taus, 0.5)}])
    state = solver.init(this, np.random.default_rng(0), start)
    assert solver.bounds(this, state).dual <= best.primal
    (found,) = solver.dual_variables(this, state)
    assert np.all((found["taus"] >= 0) & (found["taus"] <= 1))
    assert_brackets(solve(this, solver, Iterations(3), warm_start=start, random_state=0), best.primal)


def with_flat(loss, nu):
    family = LinearFunctionals(np.random.default_rng(2).standard_normal((3, D)))
    return objective(Box(0.3), penalties=[Penalty(family, loss(), nu)])


@cache
def best_with_flat(loss, nu):
    return solve(with_flat(loss, nu), REGISTRY["interior_point"](), Gap(1e-9), random_state=0).primal


@pytest.mark.parametrize("loss", [Squared, Absolute])
@every_solver
def test_a_solution_starts_another_weight_of_a_penalty(name, loss):
    stop = Gap(tolerance_of(name))
    runs = {}
    for nu in (0.5, 0.1):
        problem = with_flat(loss, nu)
        runs[nu] = problem, solve(problem, REGISTRY[name](), stop, random_state=0)
    again = solve(runs[0.5][0], REGISTRY[name](), stop, warm_start=runs[0.5][1], random_state=0)
    assert again.status is Status.CONVERGED
    if name == "frank_wolfe":
        assert again.iterations == 0
    problem, cold = runs[0.1]
    warm = solve(problem, REGISTRY[name](), stop, warm_start=runs[0.5][1], random_state=0)
    assert warm.status is Status.CONVERGED
    # The middle of the cold run's bounds need not be near enough to the optimum.
    assert_brackets(warm, best_with_flat(loss, 0.1))
    assert warm.primal == pytest.approx(cold.primal, rel=max(2e-5, 2 * tolerance_of(name)))


@every_solver
def test_warm_starts_of_other_problems_have_valid_bounds(name):
    start = solve(objective(FDrop(2)), REGISTRY[name](), Gap(1e-2), random_state=0)
    weights = SETTING["binary"].weights[::-1]
    reweighted = objective(FDrop(2), replace(SETTING["binary"], weights=weights))
    tight = solve(reweighted, REGISTRY["frank_wolfe"](), Gap(1e-8), random_state=0)
    for solver in REGISTRY:
        if solver == "representer":
            continue
        found = solve(reweighted, REGISTRY[solver](), Gap(5e-2), warm_start=start, random_state=0)
        assert_brackets(found, tight.primal)
        with pytest.raises(ValueError, match="warm_start must be a solution of an objective with as"):
            solve(
                objective(FDrop(2), SETTING["multiclass"]),
                REGISTRY[solver](),
                warm_start=start,
                random_state=0,
            )


SOLVERS = ["frank_wolfe", "svmstruct", "bmrm", "pegasos"]
TOLERANCE = {"pegasos": 0.1}


def linear(oracle, solver="frank_wolfe", **parameters):
    tol = TOLERANCE.get(solver, 1e-3)
    shared = {"C": 0.1, "tol": tol, "random_state": 0, "max_seconds": 60, "warm_start": True}
    return InvariantLinearSVC(oracle, solver=solver, **{**shared, **parameters})


def check_sound(model, X, y):
    """Both runs bound the same optimum."""
    warm, cold = model.solution_, clone(model).fit(X, y).solution_
    assert warm.status is cold.status is Status.CONVERGED
    assert warm.dual <= cold.primal * (1 + 1e-9)
    assert cold.dual <= warm.primal * (1 + 1e-9)
    return warm, cold


class Reversal(FiniteOracle):
    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


CHANGES = [
    (FDrop(1), {}),
    (FDrop(1), {"C": 0.2}),
    (FDrop(1), {"class_weight": {"a": 2.0}}),
    (FDrop(1), {"oracle": FDrop(2)}),
    (FDrop(2), {"oracle": FDrop(1)}),
    (FDrop(2), {"oracle": FDrop(2).discounted(0.5)}),
    (FDrop(3), {"oracle": FDrop(1)}),
    (Box(0.2), {"oracle": Box(0.1)}),
    (Box(0.2), {"oracle": FDrop(1)}),
    (Shifts(1, shape=(3, 4)), {"C": 0.15}),
    (Shifts(1, shape=(3, 4)), {"oracle": Shifts(2, shape=(3, 4))}),
    (Shifts(2, shape=(3, 4)), {"oracle": Shifts(1, shape=(3, 4))}),
    (Shifts(1, shape=(3, 4)), {"oracle": Box(0.1)}),
]


def in_turn(at, solver, n_classes):
    """One solver in turns for each change, with two classes or three."""
    return (at + SOLVERS.index(solver)) % 4 == 0 and (at // 4 + at) % 2 == n_classes - 2


@pytest.mark.parametrize(
    ("oracle", "change", "solver", "n_classes"),
    slow_unless(
        lambda oracle, change, *turn: in_turn(CHANGES.index((oracle, change)), *turn),
        [(*change, solver, n) for change in CHANGES for solver in SOLVERS for n in (2, 3)],
    ),
    ids=str,
)
def test_linear_warm_starts_have_valid_bounds(solver, oracle, change, n_classes):
    X, y = counts(n_classes)
    model = linear(oracle, solver).fit(X, y)
    model.set_params(**change).fit(X, y)
    warm, cold = check_sound(model, X, y)
    if not change and solver == "frank_wolfe":
        assert warm.iterations == 0 < cold.iterations


@pytest.mark.parametrize(
    "sources", [("frank_wolfe", "svmstruct"), ("svmstruct", "bmrm"), ("bmrm", "frank_wolfe")], ids=str
)
def test_another_solver_continues(sources):
    X, y = counts()
    model = linear(FScale(2), sources[0]).fit(X, y)
    model.set_params(solver=sources[1]).fit(X, y)
    check_sound(model, X, y)


def other_values(X):
    other = X.copy()
    other[0, 0] += 1.0
    return other


# Fits that differ from the first one in their rows, labels or losses.
OTHERS = {
    "rows": lambda X, y: (X[::-1], y, {}),
    "one value": lambda X, y: (other_values(X), y, {}),
    "labels": lambda X, y: (X, y[::-1], {}),
    "names of labels": lambda X, y: (X, np.char.upper(y), {}),
    "fewer rows": lambda X, y: (X[:-3], y[:-3], {}),
    "fewer features": lambda X, y: (X[:, :-1], y, {}),
    "no intercept": lambda X, y: (X, y, {"fit_intercept": False}),
    "costs": lambda X, y: (X, y, {"cost": [[0, 2], [1, 0]]}),
    "slack": lambda X, y: (X, y, {"rescaling": "slack"}),
    "another loss": lambda X, y: (X, y, {"loss": "squared_hinge"}),
    "another smooth loss": lambda X, y: (X, y, {"loss": "logistic", "oracle": None}),
    "added words": lambda X, y: (X, y, {"oracle": FAdd(1)}),
}


@pytest.mark.parametrize(("name", "solver"), each_once(list(OTHERS), SOLVERS))
def test_fits_of_other_problems_have_valid_bounds(name, solver):
    X, y = counts()
    model = linear(FDrop(1), solver).fit(X, y)
    rows, labels, change = OTHERS[name](X, y)
    check_sound(model.set_params(**change).fit(rows, labels), rows, labels)


def test_a_fit_without_warm_start_is_no_start():
    X, y = counts()
    model = linear(FDrop(1), warm_start=False).fit(X, y)
    assert model.fit(X, y).n_iter_ > 0
    assert model.set_params(warm_start=True).fit(X, y).n_iter_ > 0
    assert model.fit(X, y).n_iter_ == 0
    assert model.set_params(warm_start=False).fit(X, y).n_iter_ > 0


class Moody(FiniteOracle):
    """Answers otherwise than before without a parameter that says so."""

    factor = 3.0

    def orbit(self, X):
        return np.stack([X, Moody.factor * X], axis=1)


@pytest.mark.parametrize("solver", ["svmstruct", "frank_wolfe"])
def test_a_hidden_change_of_the_oracle_leads_to_no_wrong_bound(monkeypatch, solver):
    X, y = counts()
    monkeypatch.setattr(Moody, "factor", -1.0)
    model = linear(Moody(), solver, tol=1e-5).fit(X, y)
    monkeypatch.setattr(Moody, "factor", 1.0)
    model.fit(X, y)
    check_sound(model, X, y)


KERNEL_CHANGES = [
    (None, {}),
    (Shifts(1, shape=(3, 4)), {"C": 0.15}),
    (Shifts(1, shape=(3, 4)), {"gamma": 0.02}),
    (Shifts(1, shape=(3, 4)), {"oracle": Shifts(2, shape=(3, 4))}),
    (Shifts(2, shape=(3, 4)), {"oracle": Shifts(1, shape=(3, 4))}),
    (None, {"class_weight": {"a": 2.0}}),
]


@pytest.mark.parametrize(
    ("change", "solver", "cache_mb"), each_once(KERNEL_CHANGES, SOLVERS, [10, 0.02]), ids=str
)
def test_kernel_warm_starts_have_valid_bounds(solver, change, cache_mb):
    oracle, change = change
    X, y = counts(2 if solver == "pegasos" else 3, n=45)
    tol = TOLERANCE.get(solver, 1e-3)
    model = InvariantSVC(oracle, gamma=0.03, C=0.1, solver=solver, tol=tol, cache_mb=cache_mb)
    model.set_params(warm_start=True, random_state=0).fit(X, y)
    model.set_params(**change).fit(X, y)
    warm, cold = check_sound(model, X, y)
    if not change and solver == "frank_wolfe" and cache_mb == 10:
        assert warm.iterations == 0 < cold.iterations


@pytest.mark.parametrize(
    ("solver", "change", "loss"),
    each_once(
        ["newton-cg", "dual-cd", "frank_wolfe"],
        [{}, {"C": 1.2}, {"nu": 0.13}, {"class_weight": {"a": 2.0}}],
        ["hinge", "logistic"],
    ),
    ids=str,
)
def test_representer_fits_continue(solver, change, loss):
    X, y = counts(n=30)
    model = RepresenterClassifier(gamma=0.03, invariances=[Gradient()], nu=0.1, solver=solver, loss=loss)
    model.set_params(warm_start=True, random_state=0).fit(X, y).set_params(**change).fit(X, y)
    warm, cold = check_sound(model, X, y)
    assert change or warm.iterations < cold.iterations


def test_images_of_another_shape_are_other_images():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 36)), np.arange(40) % 2
    model = InvariantSVC(Shifts(1), C=0.3, warm_start=True, solver="bmrm", random_state=0)
    model.fit(X.reshape(40, 4, 9), y).fit(X.reshape(40, 9, 4), y)
    cold = clone(model).fit(X.reshape(40, 9, 4), y)
    assert model.solution_.dual <= cold.solution_.primal


@pytest.mark.parametrize("n_classes", [2, 3])
def test_planes_of_dropped_words_start_lists_of_dense_rows(n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (30, 6)).astype(float), rng.integers(0, n_classes, 30)
    model = linear(FDrop(1)).fit(X, y)
    check_sound(model.set_params(oracle=Reversal()).fit(X, y), X, y)
