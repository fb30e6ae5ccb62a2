"""Changes of whole examples: training, certificates over all labelings and changes, refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from structinv import InvariantStructuredSVC, load, save
from structinv.certificates.certificate import worst_change, worst_change_in
from structinv.dual import dual_state, refusals
from structinv.dual.case import Case, worst_case_of_examples
from structinv.dual.plane_cache import PlaneCache
from structinv.kernels import Gaussian, Linear
from structinv.oracles import Box, Budget, FDrop, FiniteOracle, Identity, Shared, Shifts, check_oracle
from structinv.oracles.base import BoundOracle
from structinv.oracles.third_party import bind
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Decoding, Layout, Sequence, Structure
from structinv.structures.bound import predicted
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

from ..covering import each_once, slow_unless
from ..problems import Chain, assert_brackets
from ..structures.cases import (
    CASE,
    FEATURES,
    JOINT,
    LABELS,
    LENGTHS,
    Turns,
    examples,
    joint_features,
    objective,
    optimum,
    rows,
)

FRANK_WOLFE, PLANES = FrankWolfe(), [SVMStruct(), BMRM()]
N_PAIRWISE = Sequence().n_pairwise(LABELS)


@cache
def best(name: str) -> float:
    return optimum(CASE[name])


# Solvers other than FrankWolfe see planes alone: each case has one of them in turns.
@pytest.mark.parametrize(
    ("case", "solver"),
    slow_unless(
        lambda case, solver: solver in (FRANK_WOLFE, PLANES[JOINT.index(case) % 2]),
        [(case, solver) for case in JOINT for solver in (FRANK_WOLFE, *PLANES)],
    ),
    ids=str,
)
def test_training_reaches_the_optimum_over_labelings_and_changes(case, solver):
    found = solve(objective(case), solver, Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(best(case.name), rel=1e-6)
    assert found.dual == pytest.approx(best(case.name), rel=1e-6)
    assert_brackets(found, best(case.name))


@pytest.mark.parametrize("case", JOINT, ids=str)
def test_a_stream_of_examples_brackets_the_optimum(case):
    found = solve(objective(case), Pegasos(), Gap(0.2), random_state=0)
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
    found = solve(Objective(space, terms), FrankWolfe(), Gap(1e-6), random_state=0)
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


def data(seed=0, n=30):
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


LAYOUT = Layout.of_lengths(LENGTHS)
EXTRA = Sequence().n_pairwise(LABELS)
LISTED = [case for case in JOINT if case.oracle.finite]


@cache
def model(seed: int = 0, noise: float = 0.3) -> np.ndarray:
    """Weights that a fit without changes finds, not all the way, and moved at random."""
    X, y, weights = rows(seed)
    term = WorstCase(X, y, Identity(), Sequence(), 0.2 * weights, layout=LAYOUT)
    space = ExplicitSpace(FEATURES, LABELS, n_pairwise=EXTRA)
    f = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-2), random_state=0).f
    rng = np.random.default_rng(seed)
    flat = np.r_[space.weights(f).ravel(), space.pairwise(f)]
    return flat + noise * np.std(flat) * rng.standard_normal(len(flat))


def parts_of(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of each label, and pairwise weights."""
    return w[: LABELS * FEATURES].reshape(LABELS, FEATURES), w[LABELS * FEATURES :]


def labelings(length: int) -> np.ndarray:
    return np.array(list(product(range(LABELS), repeat=length)))


def heights(w: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The score of each labeling of changed rows."""
    return np.array([joint_features(Z, labels) @ w for labels in labelings(len(Z))])


def by_hand(case, w, X, y):
    """The margin at worst, and how many positions the worst change makes wrong."""
    every = labelings(len(y))
    own = int(np.flatnonzero(np.all(every == y, axis=1))[0])
    wrong = np.sum(every != y, axis=1)
    margin, most = np.inf, 0
    for Z, _ in case.changes(X, y):
        scores = heights(w, Z)
        margin = min(margin, scores[own] - np.delete(scores, own).max())
        most = max(most, wrong[np.argmax(scores)])
    return margin, most


def bound_by_hand(case, w, X, y):
    """What the program counts: labelings that beat, at some change, the prediction or the truth."""
    every = labelings(len(y))
    still = int(np.argmax(heights(w, X)))
    own = int(np.flatnonzero(np.all(every == y, axis=1))[0])
    wrong, counts = np.sum(every != y, axis=1), []
    for reference in (still, own):
        beats = np.zeros(len(every), dtype=bool)
        for Z, _ in case.changes(X, y):
            scores = heights(w, Z)
            beats |= scores >= scores[reference]
        counts.append(wrong[beats].max())
    return min(counts)


def check_count(case, count, w, X, y):
    """Never below what a change makes wrong; just that where all rows change alike."""
    _, most = by_hand(case, w, X, y)
    assert count >= most
    if case.name == "plain" or case.name.startswith("shared"):
        assert count == most
    elif case.name.startswith("union"):
        assert count <= bound_by_hand(case, w, X, y)
    else:
        assert count == bound_by_hand(case, w, X, y)


def certified(case, w, seed=0, points=False, structure=None, y=None):
    X, truth, _ = rows(seed)
    labels = (structure or Sequence()).bind(truth if y is None else y, np.arange(LABELS), layout=LAYOUT)
    coef, pairwise = parts_of(w)
    return worst_change(coef, np.zeros(LABELS), case.oracle, labels, X, points, pairwise)


@pytest.mark.parametrize("case", JOINT, ids=str)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scale", [None, 0.1, 3.0])
def test_margins_and_counts_are_those_of_all_labelings_and_changes(case, seed, scale):
    """Of weights that are fitted, or drawn at random."""
    rng = np.random.default_rng(seed)
    w = model(seed) if scale is None else scale * rng.standard_normal(LABELS * FEATURES + EXTRA)
    found = certified(case, w, seed)
    certificate = found.certificate()
    wrong = 0
    for b, (X, y) in enumerate(examples(seed)):
        margin, most = by_hand(case, w, X, y)
        assert found.bounds[b] == pytest.approx(margin, abs=1e-9)
        assert found.attacked[b] == pytest.approx(margin, abs=1e-9)
        check_count(case, certificate.most_wrong[b], w, X, y)
        wrong += most
    assert certificate.position_accuracy <= 1 - wrong / sum(LENGTHS)
    assert np.all(certificate.exact)
    assert np.all((certificate.most_wrong == 0) >= certificate.correct)


@pytest.mark.parametrize("case", JOINT, ids=str)
def test_changes_found_lead_to_the_labelings_told(case):
    w = model(1)
    found = certified(case, w, 1, points=True)
    coef, pairwise = parts_of(w)
    led = Sequence().decode(found.points @ coef.T, pairwise, LAYOUT).labels
    np.testing.assert_array_equal(found.labels, led)
    ends = np.cumsum(LENGTHS)[:-1]
    for Z, (X, y), attacked in zip(
        np.split(found.points, ends), examples(1), found.attacked, strict=True
    ):
        corners = [change for change, _ in case.changes(X, y)]
        assert any(np.allclose(Z, corner) for corner in corners)
        scores = heights(w, Z)
        own = int(np.flatnonzero(np.all(labelings(len(y)) == y, axis=1))[0])
        assert scores[own] - np.delete(scores, own).max() == pytest.approx(attacked, abs=1e-9)


class ByDecoding(Sequence):
    """Bounds by `decode` alone."""

    budgets = True
    best_by_wrong = Structure.best_by_wrong


@pytest.mark.parametrize("case", JOINT, ids=str)
def test_counts_by_decoding_alone_are_bounds(case):
    w = model(1)
    exact = certified(case, w, 1).most_wrong
    bound = certified(case, w, 1, structure=ByDecoding()).most_wrong
    assert np.all(bound >= exact)
    assert np.all(bound <= LENGTHS)


class Told(Sequence):
    """Exact, with bounds that are not."""

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        scores = self.score(potentials, found.labels, pairwise, layout)
        return Decoding(found.labels, scores + 0.1)

    runner_up = Structure.runner_up
    best_by_wrong = Structure.best_by_wrong


@pytest.mark.parametrize("name", ["shared", "each-drop"])
def test_bounds_of_inexact_structures_stay_bounds(name):
    w = model(1)
    exact, told = certified(CASE[name], w, 1), certified(CASE[name], w, 1, structure=Told())
    assert np.all(told.bounds <= exact.bounds - 0.1 + 1e-9)
    assert np.all(told.most_wrong >= exact.most_wrong)


def test_a_labeling_that_is_forbidden_is_wrong_and_uncertified():
    structure = Sequence(allowed={(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)})
    X, _, _ = rows(0)
    y = np.array([0, 0, 1, 0, 2, 2, 1, 1])
    w = model(0)
    found = certified(CASE["plain"], w, structure=structure, y=y)
    assert found.attacked[2] == found.bounds[2] == -np.inf
    certificate = found.certificate()
    assert not certificate.correct[2]
    assert certificate.most_wrong[2] >= 1
    coef, pairwise = parts_of(w)
    known = structure.prepared(np.arange(LABELS), y, LAYOUT)
    led = known.decode(X @ coef.T, pairwise, LAYOUT).labels
    np.testing.assert_array_equal(certificate.most_wrong, LAYOUT.sums(led != y))
    np.testing.assert_array_equal(found.labels, led)


@pytest.mark.parametrize("name", ["each-drop", "each-list", "shared", "union-outside"])
def test_forbidden_labelings_are_no_bound_of_the_number_of_wrong_rows(name):
    pairs = {(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)}
    w = 3.0 * np.random.default_rng(7).standard_normal(LABELS * FEATURES + EXTRA)
    # The best labelings of all, with scores above those of all allowed ones.
    best = [labelings(len(X))[np.argmax(heights(w, X))] for X, _ in examples()]

    def is_allowed(labels):
        return pairs.issuperset(zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True))

    forbidden = [not is_allowed(labels) for labels in best]
    assert any(forbidden)
    structure = Sequence(allowed=pairs)
    found = certified(CASE[name], w, structure=structure, y=np.concatenate(best)).certificate()
    for (X, _), truth, count in zip(examples(), best, found.most_wrong, strict=True):
        every = list(filter(is_allowed, labelings(len(X))))
        for Z, _ in CASE[name].changes(X, truth):
            reached = every[np.argmax([joint_features(Z, each) @ w for each in every])]
            assert np.sum(reached != truth) <= count
    assert not np.any(found.correct[forbidden])


def kernel_certificate(case):
    """Of a random expansion over the rows, its function, and random transitions."""
    X, y, _ = rows(1)
    space = KernelSpace(Gaussian(0.5), FEATURES, LABELS)
    labels = Sequence().bind(y, np.arange(LABELS), layout=LAYOUT)
    term = WorstCase(X, y, Identity(), Sequence(), layout=LAYOUT)
    rng = np.random.default_rng(3)
    keys = space.atoms.pool(term.bound.changes()).keys(np.arange(len(X)), np.zeros(len(X), dtype=int))
    coefficients = rng.standard_normal((len(X), LABELS))
    f = space.combine(space.normals(keys, coefficients), np.ones(len(X)))
    pairwise = 0.3 * rng.standard_normal(EXTRA)
    found = worst_change_in(space, f, case.oracle, labels, X, True, pairwise)
    return found, f.function(), pairwise


@pytest.mark.parametrize("case", LISTED, ids=str)
def test_kernel_margins_are_those_of_all_labelings_and_changes(case):
    found, function, pairwise = kernel_certificate(case)
    tail = np.r_[np.zeros(LABELS * FEATURES), pairwise]
    ends = np.cumsum(LENGTHS)[:-1]
    for b, (X, y) in enumerate(examples(1)):
        every = labelings(len(y))
        own = int(np.flatnonzero(np.all(every == y, axis=1))[0])
        margins = []
        for Z, _ in [*case.changes(X, y), (np.split(found.points, ends)[b], None)]:
            each = function(Z)[np.arange(len(y)), every].sum(axis=1)
            scores = each + [joint_features(Z, labels) @ tail for labels in every]
            margins.append(scores[own] - np.delete(scores, own).max())
        assert found.attacked[b] == pytest.approx(min(margins), abs=1e-9)
        assert margins[-1] == pytest.approx(min(margins), abs=1e-9)


def test_single_rows_have_the_accuracy_of_rows():
    X, y, _ = rows()
    labels = Sequence().bind(y, np.arange(LABELS))
    w = model(0)
    coef, pairwise = parts_of(w)
    found = worst_change(coef, np.zeros(LABELS), FDrop(1), labels, X, False, pairwise).certificate()
    assert found.position_accuracy == pytest.approx(found.accuracy)
    assert replace(found, most_wrong=None).position_accuracy == found.accuracy
    assert "certified positions" in str(found)


@pytest.mark.parametrize("oracle", [Identity(), Box(0.0)], ids=str)
def test_labels_lost_in_the_sums_over_long_examples_are_not_certified(oracle):
    """The first row has a score of 1, and each other one too little to change that sum."""
    layout, y = Layout.of_lengths([100]), np.ones(100, dtype=int)
    X = np.zeros((100, 2))
    X[0, 0], X[1:, 1] = 1.0, 0.4 * np.finfo(float).eps
    coef, pairwise = np.array([[1.0, 0.0], [1.0, 1.0]]), np.zeros(Sequence().n_pairwise(2))
    pairwise[[0, 3]] = 2.0**-33
    labels = Sequence().bind(y, np.arange(2), layout=layout)
    found = worst_change(coef, np.zeros(2), oracle, labels, X, False, pairwise).certificate()
    wrong = np.sum(predicted(Sequence(), 2, X @ coef.T, pairwise, layout) != y)
    assert wrong == 100
    assert found.attacked[0] > 0
    assert not found.correct[0]
    assert found.most_wrong[0] >= wrong


def exactly(coef, pairwise, Z, truth):
    """The margin of a labeling, in exact arithmetic."""
    every, weights = labelings(len(Z)), list(map(Fraction, pairwise.tolist()))
    scores = [
        [sum(map(Fraction.__mul__, map(Fraction, w), map(Fraction, z))) for w in coef.tolist()]
        for z in Z.tolist()
    ]
    sums = []
    for labels in every:
        # How often the labeling has each pairwise weight.
        times = joint_features(np.zeros(Z.shape), labels)[LABELS * FEATURES :]
        sums.append(sum(w * int(count) for w, count in zip(weights, times, strict=True)))
        sums[-1] += sum(scores[t][label] for t, label in enumerate(labels))
    own = int(np.flatnonzero(np.all(every == truth, axis=1))[0])
    return sums[own] - max(sums[:own] + sums[own + 1 :])


class Raised(FiniteOracle):
    """Two features may be raised alike."""

    def orbit(self, X):
        return np.stack([X, X + 1e8 * (np.arange(FEATURES) < 2)], axis=1)


@pytest.mark.parametrize("large", ["pairwise weights", "perturbations"])
def test_margins_are_below_exact_ones_where_large_terms_cancel(large):
    rng = np.random.default_rng(0)
    coef, pairwise = rng.standard_normal((LABELS, FEATURES)), rng.standard_normal(EXTRA)
    X, y, n = rng.standard_normal((60, FEATURES)), rng.integers(LABELS, size=60), 20
    if large == "perturbations":
        oracle = Shared(Raised())
        coef[:, 1] = -coef[:, 0]
    else:
        oracle, pairwise = Identity(), 1e8 * pairwise
    labels = Sequence().bind(y, np.arange(LABELS), layout=Layout.of_lengths([3] * n))
    found = worst_change(coef, np.zeros(LABELS), oracle, labels, X, False, pairwise).certificate()
    members = X[None] if large == "pairwise weights" else Raised().orbit(X).swapaxes(0, 1)
    for b, (truth, bound) in enumerate(zip(np.split(y, n), found.margins.tolist(), strict=True)):
        for each in members:
            assert bound <= exactly(coef, pairwise, each[3 * b : 3 * b + 3], truth)


def test_very_long_examples_have_the_bound_by_decoding(monkeypatch):
    w = model(1)
    exact = certified(CASE["budget-drop"], w, 1).most_wrong
    bound = certified(CASE["budget-drop"], w, 1, structure=ByDecoding()).most_wrong
    monkeypatch.setattr("structinv.structures.inference.MOST_STEPS", 0.0)
    found = certified(CASE["budget-drop"], w, 1).most_wrong
    np.testing.assert_array_equal(found, bound)
    assert np.all(found >= exact)


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
