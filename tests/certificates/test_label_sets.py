"""Margins and counts of wrong rows, over all labelings and changes."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from structinv.certificates.certificate import worst_change, worst_change_in
from structinv.certificates.label_sets import labels_worst_change
from structinv.kernels import Gaussian
from structinv.oracles import Box, FDrop, FiniteOracle, Identity, Rotations, Shared
from structinv.solvers import FrankWolfe, Gap, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Decoding, Layout, Multilabel, Sequence, Structure
from structinv.structures.bound import predicted
from structinv.terms import Objective, WorstCase

from ..oracles.cases import told
from ..structures.cases import CASE, FEATURES, JOINT, LABELS, LENGTHS, examples, joint_features, rows

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


@cache
def features_of_labelings(length: int) -> np.ndarray:
    """What the score of each labeling multiplies, by entry of the rows, and without rows at last."""
    units = np.eye(length * FEATURES).reshape(-1, length, FEATURES)
    none = np.zeros((length, FEATURES))
    tables = [[joint_features(Z, labels) for labels in labelings(length)] for Z in (*units, none)]
    tables = np.array(tables)
    # Joint features are those of no rows, and linear in the rows.
    tables[:-1] -= tables[-1]
    return tables


def heights(w: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The score of each labeling of changed rows."""
    return np.append(Z.ravel(), 1.0) @ (features_of_labelings(len(Z)) @ w)


@cache
def changes_of(name: str, seed: int) -> list:
    """All joint changes of each example."""
    return [[Z for Z, _ in CASE[name].changes(X, y)] for X, y in examples(seed)]


def by_hand(changes, w, y):
    """The margin at worst, and how many positions the worst change makes wrong."""
    every = labelings(len(y))
    own = int(np.flatnonzero(np.all(every == y, axis=1))[0])
    wrong = np.sum(every != y, axis=1)
    margin, most = np.inf, 0
    for Z in changes:
        scores = heights(w, Z)
        margin = min(margin, scores[own] - np.delete(scores, own).max())
        most = max(most, wrong[np.argmax(scores)])
    return margin, most


def bound_by_hand(changes, w, X, y):
    """What the program counts: labelings that beat, at some change, the prediction or the truth."""
    every = labelings(len(y))
    still = int(np.argmax(heights(w, X)))
    own = int(np.flatnonzero(np.all(every == y, axis=1))[0])
    wrong, counts = np.sum(every != y, axis=1), []
    for reference in (still, own):
        beats = np.zeros(len(every), dtype=bool)
        for Z in changes:
            scores = heights(w, Z)
            beats |= scores >= scores[reference]
        counts.append(wrong[beats].max())
    return min(counts)


def check_count(case, changes, count, most, w, X, y):
    """Never below what a change makes wrong; just that where all rows change alike."""
    assert count >= most
    if case.name == "plain" or case.name.startswith("shared"):
        assert count == most
    elif case.name.startswith("union"):
        assert count <= bound_by_hand(changes, w, X, y)
    else:
        assert count == bound_by_hand(changes, w, X, y)


def certified(case, w, seed=0, points=False, structure=None, y=None):
    X, truth, _ = rows(seed)
    labels = (structure or Sequence()).bind(truth if y is None else y, np.arange(LABELS), layout=LAYOUT)
    coef, pairwise = parts_of(w)
    return worst_change(coef, np.zeros(LABELS), case.oracle, labels, X, points, pairwise)


@pytest.mark.parametrize("case", JOINT, ids=str)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_margins_and_counts_are_those_of_all_labelings_and_changes(case, seed):
    """Of weights that are fitted, or drawn at random."""
    for scale in (None, 0.1, 3.0):
        check_margins_and_counts(case, seed, scale)


def check_margins_and_counts(case, seed, scale):
    rng = np.random.default_rng(seed)
    w = model(seed) if scale is None else scale * rng.standard_normal(LABELS * FEATURES + EXTRA)
    found = certified(case, w, seed)
    certificate = found.certificate()
    wrong = 0
    for b, (X, y) in enumerate(examples(seed)):
        changes = changes_of(case.name, seed)[b]
        margin, most = by_hand(changes, w, y)
        assert found.bounds[b] == pytest.approx(margin, abs=1e-9)
        assert found.attacked[b] == pytest.approx(margin, abs=1e-9)
        check_count(case, changes, certificate.most_wrong[b], most, w, X, y)
        wrong += most
    assert certificate.position_accuracy <= 1 - wrong / sum(LENGTHS)
    assert np.all(certificate.exact)
    assert np.all((certificate.most_wrong == 0) >= certificate.correct)


def test_changes_found_lead_to_the_labelings_told():
    for case in JOINT:
        with told(case):
            w = model(1)
            found = certified(case, w, 1, points=True)
            coef, pairwise = parts_of(w)
            led = Sequence().decode(found.points @ coef.T, pairwise, LAYOUT).labels
            np.testing.assert_array_equal(found.labels, led)
            ends = np.cumsum(LENGTHS)[:-1]
            for b, (Z, (_, y), attacked) in enumerate(
                zip(np.split(found.points, ends), examples(1), found.attacked, strict=True)
            ):
                corners = changes_of(case.name, 1)[b]
                assert any(np.allclose(Z, corner) for corner in corners)
                scores = heights(w, Z)
                own = int(np.flatnonzero(np.all(labelings(len(y)) == y, axis=1))[0])
                assert scores[own] - np.delete(scores, own).max() == pytest.approx(attacked, abs=1e-9)


COVER = Rotations(interval=(-10, 10), resolution=2, order=3, shape=(4, 4))


@pytest.mark.parametrize(("oracle", "size"), [(COVER, 3), (FDrop(2), 14)], ids=["cover", "14 labels"])
def test_attacked_margins_of_label_sets_are_those_at_the_points_found(oracle, size):
    """With a cover, and with many labels, bounds are below them."""
    rng = np.random.default_rng(0)
    X, coef = rng.random((8, 16)), rng.standard_normal((size, 16))
    y = X @ coef.T > 0
    layout = Layout.of_lengths([size] * len(X))
    labels = Multilabel().bind(y.ravel().astype(int), np.arange(2), layout=layout)
    found = labels_worst_change(ExplicitSpace(16, size), coef.T.ravel(), oracle, labels, X)
    scores = found.points @ coef.T
    margins = np.where(y, scores, -scores)
    # The best other set changes all labels with negative margins, or the weakest one.
    lost = np.minimum(margins, 0.0).sum(axis=1)
    reached = np.where(lost < 0, lost, margins.min(axis=1))
    np.testing.assert_allclose(found.attacked, reached, rtol=1e-12, atol=1e-12)
    assert np.any(found.bounds < reached - 1e-6)
    assert oracle is not COVER or np.any(reached > 0)


class ByDecoding(Sequence):
    """Bounds by `decode` alone."""

    budgets = True
    best_by_wrong = Structure.best_by_wrong


def test_counts_by_decoding_alone_are_bounds():
    for case in JOINT:
        with told(case):
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
