"""Changes of whole examples: training, certificates over all labelings and changes, refusals."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from structinv import InvariantStructuredSVC, load, save
from structinv.dual import dual_state, refusals
from structinv.dual.case import Case, worst_case_of_examples
from structinv.dual.plane_cache import PlaneCache
from structinv.kernels import Linear
from structinv.oracles import Budget, FDrop, FiniteOracle, Identity, Shared, Shifts, check_oracle
from structinv.oracles.base import BoundOracle, CountedChanges
from structinv.oracles.third_party import bind
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Decoding, Layout, Sequence
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import ALL_ROWS

from ..covering import each_once, slow_unless
from ..problems import Chain, assert_brackets
from ..structures.cases import (
    CASE,
    FEATURES,
    JOINT,
    LABELS,
    LENGTHS,
    Turns,
    objective,
    optimum,
    rows,
)
from . import cases
from .cases import Loose, told

LAYOUT = Layout.of_lengths(LENGTHS)
FRANK_WOLFE, PLANES = FrankWolfe(), [SVMStruct(), BMRM()]
N_PAIRWISE = Sequence().n_pairwise(LABELS)


@cache
def best(name: str) -> float:
    return optimum(CASE[name])


def in_turns(case, solver):
    """Solvers other than FrankWolfe see planes alone: every other case has one of them in turns.

    The order of the grades and labels of a budget does not change the problem.
    """
    if solver is FRANK_WOLFE:
        return case.name != "budget-graded-only_for"
    return JOINT.index(case) % 4 == 2 * PLANES.index(solver)


@pytest.mark.parametrize(
    ("case", "solver"),
    slow_unless(in_turns, [(case, solver) for case in JOINT for solver in (FRANK_WOLFE, *PLANES)]),
    ids=str,
)
def test_training_reaches_the_optimum_over_labelings_and_changes(case, solver):
    found = solve(objective(case), solver, Gap(5e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(best(case.name), rel=1e-6)
    assert found.dual == pytest.approx(best(case.name), rel=1e-6)
    assert_brackets(found, best(case.name))


def test_a_stream_of_examples_brackets_the_optimum():
    for case in JOINT:
        with told(case):
            found = solve(objective(case), Pegasos(), Gap(0.5), random_state=0)
            assert_brackets(found, best(case.name))
            assert np.isfinite(found.gap)


@pytest.mark.parametrize(
    ("case", "cache_mb"),
    each_once([case for case in JOINT if case.oracle.finite], [100.0, 0.0]),
    ids=str,
)
def test_a_linear_kernel_reaches_the_optimum_of_the_linear_machine(case, cache_mb):
    terms = objective(case).terms
    space = KernelSpace(Linear(), FEATURES, LABELS, cache_mb=cache_mb, n_pairwise=N_PAIRWISE)
    found = solve(Objective(space, terms), FrankWolfe(), Gap(8e-6), random_state=0)
    assert found.primal == pytest.approx(best(case.name), rel=1e-5)
    assert_brackets(found, best(case.name))


@pytest.mark.parametrize("cache_mb", [100.0, 0.0])
def test_all_members_of_a_shared_change_are_one_list(cache_mb):
    term = objective(CASE["shared"]).terms[0]
    space = KernelSpace(Linear(), FEATURES, LABELS, cache_mb=cache_mb, n_pairwise=N_PAIRWISE)
    solution = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-2), random_state=0)
    assert len(space.atoms.pools) == 1
    _, members = space.atoms.origins[solution.f.support()].T
    assert set(members) == {0, 1, 2}


N_LABELS, N_FEATURES = 3, 9
SHIFTS = Shifts(1, shape=(1, N_FEATURES), fill="nearest")
ORACLES = [Shared(SHIFTS), Budget(FDrop(2)), Shared(SHIFTS) | Budget(FDrop(1))]


def data(seed=0, n=20):
    rng = np.random.default_rng(seed)
    # A bump for each label, which stays apart from the others when it is shifted by one place.
    means = 3.0 * np.eye(N_FEATURES)[1::3]
    y = [rng.integers(N_LABELS, size=rng.integers(1, 6)) for _ in range(n)]
    return [means[each] + 0.7 * rng.standard_normal((len(each), N_FEATURES)) for each in y], y


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_estimators_train_certify_and_keep(oracle, tmp_path):
    X, y = data()
    model = InvariantStructuredSVC(Sequence(), oracle=oracle, C=0.3, tol=1e-3, random_state=0).fit(X, y)
    found = model.certify(X, y)
    assert model.solution_.relative_gap <= 1e-3
    assert (
        found.accuracy
        <= found.attacked_accuracy
        <= np.mean([np.array_equal(*pair) for pair in zip(model.predict(X), y, strict=True)])
    )
    changed, labels = model.worst_case(X, y)
    at_worst = np.mean(np.concatenate(labels) == np.concatenate(y))
    assert found.position_accuracy <= at_worst
    assert found.position_accuracy <= model.score(X, y)
    for points, led in zip(changed, labels, strict=True):
        np.testing.assert_array_equal(model.predict([points])[0], led)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.certify(X, y).margins, found.margins)
    assert clone(model).get_params()["oracle"] is not oracle


def test_kernels_take_shared_changes_and_no_budget():
    X, y = data(2)
    model = InvariantStructuredSVC(
        Sequence(), oracle=Shared(SHIFTS), kernel="rbf", C=10.0, random_state=0
    )
    found = model.fit(X, y).certify(X, y)
    assert 0 < found.position_accuracy <= model.score(X, y)
    with pytest.raises(TypeError, match="Budget"):
        clone(model).set_params(oracle=Budget(FDrop(1))).fit(X, y)


def term(oracle, structure=None):
    X, y, weights = rows()
    return WorstCase(X, y, oracle, structure or Sequence(), weights, layout=LAYOUT)


def test_structures_without_budgets_raise():
    assert not Chain.budgets
    with pytest.raises(ValueError, match="oracle must not be a Budget for Chain"):
        term(Budget(FDrop(1)), Chain())
    assert len(term(Shared(Turns()), Chain()).scenarios) == 3


class Narrow(Sequence):
    def decode(self, potentials, pairwise, layout):
        return Decoding(super().decode(potentials, pairwise, layout).labels)


def test_overridden_decoding_disables_budgets_unless_declared():
    assert Sequence.budgets
    assert not Narrow.budgets
    assert type("Said", (Narrow,), {"budgets": True}).budgets


def test_joint_perturbations_require_lists_of_planes():
    for case in [case for case in JOINT if case.oracle.whole_example]:
        with told(case):
            problem = objective(case)
            made = problem.terms[0]
            joint = case.name != "budget-none"
            assert made.joint == joint
            assert (
                isinstance(dual_state(made, problem.space, np.random.default_rng(0)), PlaneCache)
                or not joint
            )
            if joint:
                assert "plane_cache" not in refusals(made, problem.space)
                # Labels with a function each come so far as to be asked whether rows change together.
                each = made.bound_structure.functions.are_one_each and not made.relaxed
                reason = worst_case_of_examples(Case(made, problem.space))
                assert "depend on each other" in reason if each else reason


@pytest.mark.parametrize(
    "case", slow_unless(lambda case: JOINT.index(case) % 4 == 0, [(case,) for case in JOINT]), ids=str
)
def test_examples_of_one_sample_use_the_inner_oracle(case):
    X, y, _ = rows()
    check_oracle(case.oracle, X, y)
    for labels in (Multiclass(), Sequence()):
        made = WorstCase(X, y, case.oracle, labels)
        assert not made.joint
        assert made.scenarios == [(made.bound,)]
    again = clone(case.oracle)
    assert again.get_params().keys() == case.oracle.get_params().keys()


class Lone(BoundOracle):
    """Third-party scenarios."""

    def __init__(self, oracle, X, y, answer):
        super().__init__(oracle, X, y)
        self.answer = answer

    def scenarios(self):
        return self.answer(self)


class Theirs(FiniteOracle):
    whole_example = True

    def __init__(self, answer):
        self.answer = answer

    def orbit(self, X):
        return np.stack([X, -X], axis=1)

    def bind(self, X, y=None):
        return Lone(self, X, y, self.answer)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda own: None, TypeError, "Theirs.scenarios must return a list of joint perturbations"),
        (lambda own: [], TypeError, "Theirs.scenarios must return a list of joint perturbations"),
        (lambda own: [own], TypeError, "as tuples of BoundOracles"),
        (lambda own: [()], ValueError, "nonempty tuples of BoundOracles"),
        (lambda own: [(BoundOracle(own.oracle, own.X[:1]),)], ValueError, "BoundOracles with rows"),
    ],
)
def test_third_party_scenarios_are_validated(answer, error, message):
    with pytest.raises(error, match=message):
        term(Theirs(answer))


class Negated(BoundOracle):
    """The negated rows without the rows."""

    def support(self, rows, V, assign, cost=None):
        answer = super().support(rows, V, assign, cost)
        return type(answer)(-self.X[rows])

    def changes(self):
        return None


def test_a_third_party_scenario_need_not_contain_the_samples():
    made = term(Theirs(lambda own: [(bind(Identity(), own.X),), (Negated(own.oracle, own.X),)]))
    space = ExplicitSpace(3, 3, n_pairwise=Sequence().n_pairwise(3))
    f = np.random.default_rng(0).standard_normal(space.size)
    X, y, weights = rows()
    plain = WorstCase(X, y, Identity(), Sequence(), weights, layout=LAYOUT)
    turned = WorstCase(-X, y, Identity(), Sequence(), weights, layout=LAYOUT)
    both = np.maximum(plain.values(space, f)[0], turned.values(space, f)[0])
    np.testing.assert_allclose(made.values(space, f)[0], both)
    np.testing.assert_allclose(made.planes(space, f).plane_values, both)


class Rough(Sequence):
    """Exact, with bounds that are less exact for larger potentials."""

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        scores = self.score(potentials, found.labels, pairwise, layout)
        return Decoding(found.labels, scores + 2.0 * layout.sums(np.ptp(potentials, axis=1)))


def test_the_bound_of_a_plane_is_the_highest_of_all_scenarios():
    made = term(Shared(Turns()), Rough())
    space = ExplicitSpace(3, 3, n_pairwise=N_PAIRWISE)
    X, y, weights = rows()
    parts = [
        WorstCase(turned, y, Identity(), Rough(), weights, layout=LAYOUT)
        for turned in Turns().orbit(X).swapaxes(0, 1)
    ]
    differ = False
    for seed in range(5):
        f = np.random.default_rng(seed).standard_normal(space.size)
        upper, attained = zip(*(part.values(space, f) for part in parts), strict=True)
        planes = made.planes(space, f)
        np.testing.assert_allclose(planes.upper, np.max(upper, axis=0))
        np.testing.assert_allclose(planes.plane_values, np.max(attained, axis=0))
        differ = differ or np.any(np.argmax(upper, axis=0) != np.argmax(attained, axis=0))
    assert differ


@pytest.mark.parametrize("name", ["budget-drop", "budget-only_for-graded", "budget-scale"])
def test_budgets_support_sparse_samples(name):
    X, y, weights = rows()
    X[np.abs(X) < 0.3] = 0.0
    space = ExplicitSpace(3, 3, n_pairwise=Sequence().n_pairwise(3))
    f = np.random.default_rng(0).standard_normal(space.size)
    found = []
    for own in (X, sp.csr_matrix(X)):
        made = WorstCase(own, y, CASE[name].oracle, Sequence(), weights, layout=LAYOUT)
        planes = made.planes(space, f)
        np.testing.assert_allclose(made.values(space, f)[0], planes.upper)
        found.append(planes)
    np.testing.assert_allclose(found[0].plane_values, found[1].plane_values)
    written = [each.normals.toarray() if sp.issparse(each.normals) else each.normals for each in found]
    np.testing.assert_allclose(*written, atol=1e-12)


def test_portions_do_not_change_the_result(monkeypatch):
    for name in ("union-outside", "budget-graded"):
        problem = objective(CASE[name])
        f = np.random.default_rng(0).standard_normal(problem.space.size)
        whole = problem.terms[0].planes(problem.space, f)
        with monkeypatch.context() as patch:
            patch.setattr("structinv.terms.worst_case.NUMBERS_AT_ONCE", 30)
            parts = problem.terms[0].planes(problem.space, f)
            some = problem.terms[0].planes(problem.space, f, np.array([3, 1]))
        np.testing.assert_allclose(parts.plane_values, whole.plane_values)
        np.testing.assert_allclose(some.normals, whole.normals[[3, 1]])


def reached(bound, V, assign, cost):
    answer = bound.support(ALL_ROWS, V, assign, cost)
    grades = 1.0 if answer.rho is None else answer.rho
    return np.sum(answer.points * V[assign], axis=1) + cost * grades


def test_scenarios_of_examples_of_one_sample_match_the_oracle():
    X, y, _ = rows()
    rng = np.random.default_rng(1)
    asked = rng.standard_normal((2, X.shape[1])), np.arange(len(X)) % 2, rng.random(len(X))
    for case in JOINT:
        with told(case):
            bound = bind(case.oracle, X, y)
            # The last level of a scenario may use up the whole budget.
            found = np.max([reached(levels[-1], *asked) for levels in bound.scenarios()], axis=0)
            np.testing.assert_allclose(found, reached(bound, *asked))


class LooseEdits(Loose):
    """Boxes by a number of edits, with grades, and with bounds that are too large by 1."""

    def counted(self):
        return CountedChanges(2, lambda number: Loose(0.5 * number), [1.0, 0.5, 0.25])


def test_bounds_of_budgets_add_the_cost_at_the_grade_of_all_edits():
    X, V = cases.rows(4)[0], np.ones((1, cases.D))
    assign, cost = np.zeros(len(X), dtype=int), np.linspace(0.0, 2.0, len(X))
    scenarios = Budget(LooseEdits(1.0)).bind(X).scenarios()
    for levels, grade in zip(scenarios, [1.0, 0.5, 0.25], strict=True):
        for number, level in enumerate(levels):
            upper = level.support(ALL_ROWS, V, assign, cost).upper
            wanted = X.sum(axis=1) + 0.5 * number * cases.D + 1.0 + grade * cost
            np.testing.assert_allclose(upper, wanted)
