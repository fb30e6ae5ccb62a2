"""Unsupported joint perturbations raise errors before any work."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from structinv import InvariantStructuredSVC
from structinv.dual import dual_state, refusals
from structinv.dual.case import Case, worst_case_of_examples
from structinv.dual.plane_cache import PlaneCache
from structinv.oracles import Box, Budget, FDrop, FiniteOracle, Identity, Shared, Shifts, check_oracle
from structinv.oracles.base import BoundOracle
from structinv.oracles.checked_oracle import bind
from structinv.spaces import ExplicitSpace
from structinv.structures import Decoding, Layout, Sequence
from structinv.structures.classes import Multiclass
from structinv.terms import WorstCase

from .covering import slow_unless
from .joint_cases import CASE, JOINT, LENGTHS, Maps, Turns, objective, rows
from .problems import Chain

LAYOUT = Layout.of_lengths(LENGTHS)


def term(oracle, structure=None):
    X, y, weights = rows()
    return WorstCase(X, y, oracle, structure or Sequence(), weights, layout=LAYOUT)


REFUSED = {
    "label-in-shared": (Shared(Turns().only_for(1)), ValueError, "they depend on the label"),
    "label-in-union": (Shared(Turns() | Maps().only_for(1)), ValueError, "they depend on the label"),
    "words": (Shared(FDrop(1)), ValueError, "Shared: oracle must be finite"),
    "mixed": (Shared(Turns() | Box(0.1)), ValueError, "Shared: oracle must be finite"),
    "no-oracle": (Shared(3), TypeError, "oracle must be an InvarianceOracle"),
    "shared-shared": (Shared(Shared(Turns())), ValueError, "Shared: oracle must perturb each sample"),
    "shared-budget": (Budget(Shared(Turns())), ValueError, "Budget: oracle must perturb each sample"),
    "budget-list": (Budget(Turns()), ValueError, "Budget: oracle must be FDrop, FScale, FAdd or FEdit"),
    "budget-box": (Budget(Box(0.1)), ValueError, "Budget: oracle must be FDrop, FScale, FAdd or FEdit"),
    "budget-graded-twice": (
        Budget(FDrop(1).discounted(0.5).discounted(0.5)),
        ValueError,
        "Budget: oracle must be FDrop, FScale, FAdd or FEdit",
    ),
    "rising": (
        Budget(FDrop(2).discounted([1.0, 0.2, 0.8])),
        ValueError,
        "grades must not increase with the number of edits",
    ),
    "grades": (
        Budget(FDrop(2).discounted([1.0, 0.2])),
        ValueError,
        "rho must be a number, or have 3 entries",
    ),
    "only_for-union": (
        (FDrop(1) | Budget(FDrop(1))).only_for(1),
        ValueError,
        "only_for: oracle must perturb each sample independently",
    ),
    "discounted": (
        Budget(FDrop(1)).discounted(0.5),
        ValueError,
        "discounted: oracle must perturb each sample.*write Shared",
    ),
    "after": (
        Shared(Turns()) @ Maps(),
        ValueError,
        r"each part of @ must perturb each sample.*Shared\(left",
    ),
    "before": (Maps() @ Shared(Turns()), ValueError, r"each part of @ must perturb each sample"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_joint_perturbations_raise_with_their_name(name):
    oracle, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        term(oracle)
    if error is ValueError:
        X, y, _ = rows()
        blocks = np.split(X, LAYOUT.starts[1:-1])
        with pytest.raises(error, match=message):
            InvariantStructuredSVC(Sequence(), oracle=oracle).fit(
                blocks, np.split(y, LAYOUT.starts[1:-1])
            )


def test_shared_infinite_sets_raise():
    between = Shifts(interval=(0.5, 1.0), shape=(1, 3))
    with pytest.raises(ValueError, match="Shared: oracle must be finite"):
        Shared(between).validate(3)
    Shared(Shifts(1, shape=(1, 3))).validate(3)


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


@pytest.mark.parametrize("case", [case for case in JOINT if case.oracle.whole_example], ids=str)
def test_joint_perturbations_require_lists_of_planes(case):
    problem = objective(case)
    made = problem.terms[0]
    joint = case.name != "budget-none"
    assert made.joint == joint
    assert isinstance(dual_state(made, problem.space, np.random.default_rng(0)), PlaneCache) or not joint
    if joint:
        assert "plane_cache" not in refusals(made, problem.space)
        # Labels with a function each come so far as to be asked whether rows change together.
        each = made.labels.functions.are_one_each and not made.relaxed
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


@pytest.mark.parametrize("case", JOINT, ids=str)
def test_scenarios_of_examples_of_one_sample_match_the_oracle(case):
    X, y, _ = rows()
    bound = bind(case.oracle, X, y)
    rng = np.random.default_rng(1)
    V, assign, cost = rng.standard_normal((2, X.shape[1])), np.arange(len(X)) % 2, rng.random(len(X))

    def reached(level):
        answer = level.support(slice(None), V, assign, cost)
        grades = 1.0 if answer.rho is None else answer.rho
        return np.sum(answer.points * V[assign], axis=1) + cost * grades

    # The last level of a scenario may use up the whole budget.
    found = np.max([reached(levels[-1]) for levels in bound.scenarios()], axis=0)
    np.testing.assert_allclose(found, reached(bound))
