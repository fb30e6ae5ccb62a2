"""Methods on functionals: starts, bounds, outputs, folded kernels."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structinv.functionals import Evaluation, Folded, Gradient, Tangents
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian
from structinv.losses import Absolute, Hinge, Squared
from structinv.losses.combined import Affine
from structinv.oracles import Rotations, Shifts
from structinv.solvers import (
    BMRM,
    Bounds,
    FrankWolfe,
    Gap,
    Iterations,
    Pegasos,
    Representer,
    Seconds,
    Status,
    SVMStruct,
    solve,
)
from structinv.spaces import RepresenterSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, Penalty, WorstCase
from structinv.terms.penalty import FamilyFunctionals

from .cases import FUNCTIONAL_LOSSES as LOSSES
from .cases import FUNCTIONAL_PENALTIES as PENALTIES
from .cases import KERNEL, SIGNS, solved
from .cases import MOONS as X
from .cases import representer_optimum as optimum
from .cases import representer_problem as problem

SOLVERS = {
    "FrankWolfe": FrankWolfe(),
    "SVMStruct": SVMStruct(),
    "BMRM": BMRM(),
    "Pegasos": Pegasos(batch_size=1),
    "newton-cg": Representer("newton-cg"),
    "dual-cd": Representer("dual-cd"),
    "cvxpy": Representer("cvxpy"),
}


@pytest.mark.parametrize("method", ["newton-cg", "dual-cd"])
def test_every_step_brackets_the_optimum(method):
    best = optimum("hinge", "epsilon-insensitive")
    seen = []
    keep = [lambda progress: seen.append(progress.history[-1]) or False]
    this = problem("hinge", "epsilon-insensitive")
    solved(this, method, 1e-8, 300, callbacks=keep, check_always=True)
    assert all(record.dual <= best * (1 + 1e-7) for record in seen)
    assert all(record.primal >= best * (1 - 1e-7) for record in seen)
    assert seen[-1].primal - seen[-1].dual <= 1e-6 * best


@pytest.mark.parametrize("method", ["newton-cg", "dual-cd"])
def test_a_solution_starts_another_weight(method):
    first, second = problem("hinge", "huber", nu=0.05), problem("hinge", "huber", nu=0.06)
    # The first solution is closer: smoothed losses have other slopes at the function than the planes.
    start = solved(first, method, 1e-6, 3000)
    assert solved(first, method, 1e-5, 3000, warm_start=start).iterations == 0
    # Slopes are known, so that a space of its own is no hindrance.
    terms = [first.terms[0], Penalty(first.terms[1].functionals, PENALTIES["huber"], 0.06)]
    for other in (second, Objective(first.space, terms)):
        found = solved(other, method, 1e-5, 3000, warm_start=start)
        assert found.primal == pytest.approx(optimum("hinge", "huber", nu=0.06), rel=2e-5)
        assert found.history[0].dual > 0.5 * found.dual


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("method", ["newton-cg", "dual-cd", "cvxpy"])
def test_a_solution_starts_other_losses(method, loss):
    """Slopes of the first losses are not in the domain of the others' conjugates."""
    this = problem(loss, "absolute", nu=0.5)
    labels, flat = (term.functionals for term in this.terms)
    first = [Penalty(labels, LOSSES["squared hinge"], 5.0), Penalty(flat, Squared(), 0.5)]
    start = solved(Objective(this.space, first), method, 1e-4, 3000)
    assert any(np.any(np.abs(arrays["slopes"]) > 1) for arrays in start.dual_variables)
    solution = solved(this, method, 1e-5, 3000, warm_start=start)
    assert solution.status is Status.CONVERGED
    assert solution.primal == pytest.approx(optimum(loss, "absolute", nu=0.5), rel=2e-5)


class Drifting(FrankWolfe):
    """Has a candidate with wrong cached functionals, as after many steps with rounding errors."""

    def bounds(self, objective, state):
        found = super().bounds(objective, state)
        f = found.f.copy()
        f.know(f.functionals() + 1e-3)
        return Bounds(f, found.dual)


def test_a_certificate_does_not_use_cached_functionals():
    this = problem("hinge", "squared")
    solution = solve(this, Drifting(), Iterations(20), random_state=0)
    truth = this.value(this.space.uncached(solution.f))
    assert solution.primal == pytest.approx(truth.upper, rel=1e-12)


@pytest.mark.parametrize("method", ["newton-cg", "dual-cd", "cvxpy"])
def test_terms_have_any_order_and_may_share_functionals(method):
    first = problem("hinge", "squared")
    labels, flat = first.terms
    halves = [Penalty(labels.functionals, labels.loss, 0.5) for _ in range(2)]
    best = optimum("hinge", "squared")
    for terms in ([flat, labels], [halves[0], flat, halves[1]]):
        solution = solved(Objective(first.space, terms), method, most=3000)
        assert solution.primal == pytest.approx(best, rel=3e-6)
        assert solution.dual == pytest.approx(best, rel=3e-6)


def test_several_outputs_are_several_problems():
    families = [family.bind(X).parts(KERNEL) for family in (Evaluation(), Gradient())]
    representers = Representers(KERNEL, families)
    signs = np.column_stack([SIGNS, np.roll(SIGNS, 3), -SIGNS])

    def value(n_outputs, signs, method):
        space = RepresenterSpace(representers, 2, n_outputs, free_degree=0)
        terms = [
            Penalty(FamilyFunctionals(representers, 0, n_outputs), Affine(Hinge(), signs.ravel()), 1.0),
            Penalty(FamilyFunctionals(representers, 1, n_outputs), Squared(), 0.05),
        ]
        return solved(Objective(space, terms), method, 1e-8).primal

    single = sum(value(1, column, "newton-cg") for column in signs.T)
    for method in ("newton-cg", "cvxpy"):
        assert value(3, signs, method) == pytest.approx(single, rel=1e-6)


# A bundle takes as long as all others, and several times as long for several classes.
@pytest.mark.parametrize(
    ("n_classes", "others"),
    [
        (2, ["FrankWolfe", "SVMStruct", "BMRM"]),
        (3, ["FrankWolfe", "SVMStruct"]),
        pytest.param(3, ["BMRM"], marks=pytest.mark.slow),
    ],
)
def test_worst_case_over_shifts_with_penalty_along_rotations(n_classes, others):
    rng = np.random.default_rng(4)
    images, codes = rng.random((8, 16)), np.arange(8) % n_classes
    kernel, n_outputs = Gaussian(1.5), 1 if n_classes == 2 else n_classes
    output = Binary() if n_classes == 2 else Multiclass()
    turns = Tangents(Rotations(degrees=[-10, 10], shape=(4, 4)))
    found = {}
    for name in ("dual-cd", *others):
        representers = Representers(kernel, [turns.bind(images).parts(kernel)])
        space = RepresenterSpace(representers, 16, n_outputs)
        flat = Penalty(FamilyFunctionals(representers, 0, n_outputs), Absolute(), 0.1)
        worst = WorstCase(images, codes, Shifts(1, shape=(4, 4)), output, 2.0)
        objective = Objective(space, [worst, flat])
        stop = Gap(1e-4) | Seconds(60)
        found[name] = solve(objective, SOLVERS[name], stop, random_state=0)
        assert found[name].status is Status.CONVERGED
    best = max(solution.dual for solution in found.values())
    assert all(solution.primal <= best * (1 + 2e-4) for solution in found.values())


@pytest.mark.parametrize(
    ("loss", "method"),
    [("worst case", "dual-cd"), ("CvxpyLoss", "cvxpy"), ("logistic", "newton-cg")],
)
@pytest.mark.parametrize("order", [1, -1])
def test_the_method_is_that_of_the_most_difficult_term(loss, method, order):
    this = problem(loss, "squared")
    this = Objective(this.space, this.terms[::order])
    assert Representer().resolved(this) == method
    Representer().validate(this)


@pytest.mark.parametrize("most_factorized", [0, 3000])
def test_folding_equals_not_folding(monkeypatch, most_factorized):
    from structinv.functionals import folding

    monkeypatch.setattr(folding, "MOST_FACTORIZED", most_factorized)
    folded = Folded(KERNEL, [Gradient().bind(X)], 0.05, tol=1e-12)
    plain = Representers(folded, [Evaluation().bind(X).parts(folded)])
    space = RepresenterSpace(plain, 2)
    found = []
    for objective in (
        Objective(space, [Penalty(FamilyFunctionals(plain, 0), LOSSES["logistic"], 1.0)]),
        problem("logistic", "squared"),
    ):
        found.append(solved(objective, gap=1e-13, most=100))
    assert found[0].primal == pytest.approx(found[1].primal, rel=1e-8)
    points = np.random.default_rng(0).standard_normal((6, 2))
    functions = [solution.f.function()(points) for solution in found]
    np.testing.assert_allclose(*functions, atol=1e-8)
    np.testing.assert_allclose(folded.diagonal(X), np.diagonal(folded.matrix(X, X)), atol=1e-9)


def test_folding_ignores_families_of_weight_zero():
    families = [Evaluation().bind(X), Gradient().bind(X), Evaluation().bind(X[:5])]
    folded = Folded(KERNEL, families, [0.0, 0.05, 2.0])
    positive = Folded(KERNEL, families[1:], [0.05, 2.0])
    np.testing.assert_allclose(folded.matrix(X, X), positive.matrix(X, X), atol=1e-12)


def test_folding_refuses_by_name():
    with pytest.raises(ValueError, match="nu must be a number of at least 0, or 1 of them"):
        Folded(KERNEL, [Gradient().bind(X)], [1.0, 2.0]).validate(2)
    with pytest.raises(ValueError, match="bound to rows of 3 features, got 2"):
        Folded(KERNEL, [Gradient().bind(X)]).validate(3)
    with pytest.raises(TypeError, match="families must contain bound functionals"):
        Folded(KERNEL, [Gradient()]).validate(2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "simplex"}, "method must be one of"),
        ({"method": "newton-cg", "plane_tol": 1.0}, "plane_tol must be 0 unless method is 'dual-cd'"),
        ({"method": "cvxpy", "cvxpy_solver": "NONE"}, "cvxpy_solver must be one of"),
        ({"plane_tol": -1.0}, "plane_tol must be a number of at least 0"),
    ],
)
def test_parameters_are_checked_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        solve(problem("hinge", "squared"), Representer(**parameters), random_state=0)


@pytest.mark.parametrize("weight", [1e2, 1e5])
def test_bounds_with_a_free_constant_and_weights_far_apart(weight):
    """The slopes' equation holds but for rounding only after one sign has shrunk."""
    points = np.random.default_rng(0).standard_normal((20, 2))
    signs = np.where(np.arange(20) % 2, 1.0, -1.0)
    kernel = Gaussian(2.0)
    representers = Representers(kernel, [Evaluation().bind(points).parts(kernel)])
    weights = np.where(signs > 0, 1.0 / weight, weight)
    labels = Penalty(FamilyFunctionals(representers, 0), Affine(Hinge(), signs), weights)
    found = []
    objective = Objective(RepresenterSpace(representers, 2, free_degree=0), [labels])
    for each in ("newton-cg", "cvxpy"):
        found.append(solved(objective, each, 1e-5, 200))
    assert all(solution.dual <= solution.primal for solution in found)
    assert found[0].dual <= found[1].primal
    assert found[1].dual <= found[0].primal


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("free", [None, 0])
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_an_optimal_start_ends_a_run(loss, free):
    solution = solved(problem(loss, "absolute", free=free), gap=0.0, most=300)
    assert solution.relative_gap < 1e-6


def test_a_folded_kernel_is_recomputed_after_a_parameter_changes():
    folded = Folded(Gaussian(1.0), [Gradient().bind(X)], 1e-3)
    folded.matrix(X, X)
    folded.set_params(nu=1e2)
    fresh = Folded(Gaussian(1.0), [Gradient().bind(X)], 1e2)
    np.testing.assert_allclose(folded.matrix(X, X), fresh.matrix(X, X), atol=1e-10)
    folded.nu, folded.kernel.sigma = 1e3, 2.0
    fresh = Folded(Gaussian(2.0), [Gradient().bind(X)], 1e3)
    np.testing.assert_allclose(folded.matrix(X, X), fresh.matrix(X, X), atol=1e-10)


@pytest.mark.parametrize("method", ["dual-cd", "cvxpy"])
def test_outputs_share_one_gram_matrix(method, monkeypatch):
    """Nothing as large as the square of functionals times outputs is formed."""
    families = [family.bind(X).parts(KERNEL) for family in (Evaluation(), Gradient())]
    representers = Representers(KERNEL, families)
    signs = np.column_stack([np.roll(SIGNS, shift) for shift in range(5)])
    space = RepresenterSpace(representers, 2, 5)
    terms = [
        Penalty(FamilyFunctionals(representers, 0, 5), Affine(Hinge(), signs.ravel()), 1.0),
        Penalty(FamilyFunctionals(representers, 1, 5), Absolute(), 0.05),
    ]
    from structinv.solvers.coefficients import CoefficientProblem

    def never(*_):
        raise AssertionError

    expected = solved(Objective(space, terms), gap=1e-7)
    monkeypatch.setattr(CoefficientProblem, "block", never)
    found = solved(Objective(space, terms), method, most=2000)
    assert found.primal == pytest.approx(expected.primal, rel=2e-6)


def test_a_gram_matrix_that_cannot_be_factorized():
    """Rows far from zero under a polynomial kernel: rounding exceeds the smallest lengths."""
    from sklearn.datasets import load_digits

    from structinv import RepresenterClassifier
    from structinv.kernels import Polynomial

    rows = 100.0 + load_digits().data[:20]
    model = RepresenterClassifier(Polynomial(3), invariances=[Gradient()], max_seconds=0.5)
    with pytest.warns(ConvergenceWarning):
        model.fit(rows, np.arange(20) % 2)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_weight_of_zero_on_a_loss_with_kinks():
    solution = solved(problem("hinge", "absolute", nu=0.0))
    assert solution.status is Status.CONVERGED
