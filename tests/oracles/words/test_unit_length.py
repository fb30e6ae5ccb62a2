"""Edits of rows that keep their length: enumeration, training, texts, and ratios over edits."""

import warnings
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, certify
from structinv.oracles import (
    Box,
    Budget,
    FAdd,
    FDrop,
    FEdit,
    FiniteOracle,
    FScale,
    Protected,
    UnitLength,
    check_oracle,
)
from structinv.utils.exceptions import TextEditsWarning

from ...covering import each_once
from ...other_models.cases import edited

D = 5
VALUES = np.array([0.4, 0.1, 0.9, 0.2, 0.6])
# The oracle, the range of factors, the increases of absent and of present features, protected ones.
KINDS = {
    "fdrop": (FDrop, 0.0, 1.0, 0.0, 0.0, []),
    "fscale": (FScale, 0.5, 2.0, 0.0, 0.0, []),
    "fscale-drop": (lambda K: FScale(K, 0.0, 1.5), 0.0, 1.5, 0.0, 0.0, []),
    "fadd": (FAdd, 1.0, 1.0, 1.0, 0.0, []),
    "fadd-present": (lambda K: FAdd(K, VALUES, present=True), 1.0, 1.0, VALUES, VALUES, []),
    "fedit": (lambda K: FEdit(K, add=VALUES), 0.0, 1.0, VALUES, 0.0, []),
    "fedit-scale": (
        lambda K: FEdit(K, drop=False, add=VALUES, scale=(0.5, 2)), 0.5, 2.0, VALUES, 0.0, []
    ),
    "protected": (lambda K: Protected(FEdit(K, add=VALUES), [0, 3]), 0.0, 1.0, VALUES, 0.0, [0, 3]),
}  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)


def ratios(Z, v, norm):
    sizes = np.linalg.norm(Z, ord=int(norm[1]), axis=-1)
    return Z @ v / np.where(sizes > 0, sizes, np.inf)


def largest(kind, K, x, v, norm):
    """The largest product of an edited row with the length of x, over all features and their values.

    Ratios up to 0, and all for l1, are largest at a corner. Larger ones are largest at the point next to
    ``v / (2 theta)`` for some theta: a grid, and then steps to ``theta = a / (2 q)``.
    """
    _, low, high, absent, present, protected = KINDS[kind]
    raised = x + np.where(x == 0, absent, present)
    ends = np.stack([low * x, high * x, raised, x], axis=1)
    ends[protected] = x[protected, None]
    least, most, best = ends.min(axis=1), ends.max(axis=1), -np.inf
    for some in map(list, combinations(range(D), K)):
        corners = np.array(list(product(*(np.unique(np.append(ends[j], 0.0)) for j in some))))
        inside = np.all((corners >= least[some]) & (corners <= most[some]), axis=1)
        Z = np.repeat(x[None], inside.sum(), axis=0)
        Z[:, some] = corners[inside]
        best = max(best, ratios(Z, v, norm).max())
        thetas = np.geomspace(1e-3, 1e6, 100) if norm == "l2" and K else []
        for _ in range(40 if len(thetas) else 0):
            Z = np.repeat(x[None], len(thetas), axis=0)
            Z[:, some] = np.clip(v[some] / (2 * thetas[:, None]), least[some], most[some])
            found = ratios(Z, v, norm)
            best, z = max(best, found.max()), Z[np.argmax(found)]
            before, thetas = thetas, np.array([z @ v / (2 * z @ z)])
            if found.max() <= 0 or np.array_equal(before, thetas):
                break
    return best * (np.linalg.norm(x, ord=int(norm[1])) if x.any() else 1.0)


def problem(seed, n=9):
    """Rows of several densities, some of unit length or with ties, and a direction for each."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, D)) * (rng.random((n, D)) < rng.choice([0.3, 0.6, 1.0], (n, 1)))
    X[::4] = np.round(2 * X[::4])
    X[1::4] /= np.maximum(np.linalg.norm(X[1::4], axis=1, keepdims=True), 1e-9)
    X[2::8] *= rng.choice([-1.0, 1.0], X[2::8].shape)
    V = rng.standard_normal((n, D)) + rng.choice([0.0, 0.0, -1.5, 1.0], (n, 1))
    V[::5] = np.round(V[::5])
    return X, V


@every_kind
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_bounds_and_points_agree_with_an_enumeration(kind, norm):
    for K in (0, 1, 2, 4):
        X, V = problem(K)
        oracle, each = UnitLength(KINDS[kind][0](K), norm), np.arange(len(X))
        answer = oracle.support(X, V, each)
        for x, v, z, upper in zip(X, V, answer.points, answer.upper, strict=True):
            wanted, size = largest(kind, K, x, v, norm), np.abs(v).sum() * (1.0 + np.abs(x).sum())
            assert oracle.contains(x, z)
            assert upper >= wanted - 1e-10 * size
            assert upper >= z @ v - 1e-12 * size
            assert z @ v <= wanted + 1e-5 * size
            if norm == "l1":
                assert z @ v == pytest.approx(wanted, abs=1e-9 * size)
            if wanted > 0:
                assert z @ v >= wanted - 1e-4 * size
            # The bound has the sign of the largest product, so that predictions are certified exactly.
            assert upper <= 0 or wanted >= -1e-9 * size


@pytest.mark.parametrize("seed", range(5))
def test_additions_of_large_values_bring_a_product_below_zero_closest_to_zero(seed):
    """The gains of such additions grow with their squares, and not in the order of the weights."""
    rng = np.random.default_rng(seed)
    values, x, v = np.r_[1.0, rng.uniform(2.0, 6.0, 6)], np.zeros(7), rng.uniform(0.0, 0.02, 7)
    x[0], v[0] = 1.0, -1.0
    answer = UnitLength(FAdd(1, values)).support(x[None], v[None], np.zeros(1, dtype=int))
    Z = x + np.diag(values)[1:]
    wanted = (Z @ v / np.linalg.norm(Z, axis=1)).max()
    assert wanted < 0
    assert answer.upper[0] >= wanted - 1e-12
    assert answer.points[0] @ v == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("kind", "norm"), each_once(list(KINDS), ["l1", "l2"]))
def test_oracles_of_unit_length_fulfill_the_requirements(kind, norm):
    X, _ = problem(7)
    check_oracle(UnitLength(KINDS[kind][0](2), norm), X[:4], n_directions=2)


numbers = st.floats(-3.0, 3.0, allow_nan=False, width=32).map(lambda t: round(t, 3))
vectors = st.lists(numbers, min_size=D, max_size=D).map(np.array)


@every_kind
@settings(max_examples=15)
@given(x=vectors, v=vectors, norm=st.sampled_from(["l1", "l2"]), seed=st.integers(0, 99))
def test_members_do_not_exceed_the_bound(kind, x, v, norm, seed):
    oracle = UnitLength(KINDS[kind][0](2), norm)
    answer = oracle.support(x[None], v[None], np.array([0]))
    members = oracle.sample(x[None], 40, np.random.default_rng(seed))[0]
    assert np.all(members @ v <= answer.upper + 1e-9 * (1.0 + np.abs(v).sum() * np.abs(x).sum()))
    assert oracle.contains(x, answer.points[0])
    assert all(oracle.contains(x, z) for z in members[:5])


def test_edited_rows_have_the_length_of_the_row():
    X = np.array([[0.6, 0.8, 0.0], [3.0, 0.0, 4.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    V = np.array([[-1.0, 2.0, 1.0], [-1.0, -1.0, -1.0]])
    added = UnitLength(FEdit(2, add=0.5)).support(X, V, np.zeros(4, dtype=int)).points
    np.testing.assert_allclose(np.linalg.norm(added, axis=1), [1.0, 5.0, 1.0, 2.0])
    removed = UnitLength(FDrop(2)).support(X, V, np.ones(4, dtype=int)).points
    np.testing.assert_array_equal(removed, np.zeros(X.shape))


def test_few_directions_of_many_rows_in_any_storage():
    rng = np.random.default_rng(0)
    X = sp.random(300, 40, 0.2, format="csr", random_state=0)
    V, assign = rng.standard_normal((3, 40)), rng.integers(3, size=300)
    oracle = UnitLength(FEdit(3, add=0.3))
    answer = oracle.support(X, V, assign)
    other = oracle.support(X.toarray(), V, assign)
    np.testing.assert_array_equal(answer.points.toarray(), other.points)
    for i in range(0, 300, 50):
        alone = oracle.support(X[[i]], V[assign[[i]]], np.array([0]))
        np.testing.assert_array_equal(alone.points.toarray()[0], other.points[i])
        assert alone.upper[0] == answer.upper[i]


class RemovedShares(FiniteOracle):
    """One feature times each factor of a grid, with the length of the row."""

    def orbit(self, X):
        shares = 1.0 - np.linspace(0.0, 1.0, 400) ** 2
        members = np.repeat(X[:, None], D * len(shares), axis=1)
        for j in range(D):
            members[:, j * len(shares) : (j + 1) * len(shares), j] *= shares
        lengths = np.linalg.norm(members, axis=2, keepdims=True)
        members *= np.linalg.norm(X, axis=1)[:, None, None] / np.where(lengths > 0, lengths, 1.0)
        first = np.arange(members.shape[1]) % len(shares) != 0
        return np.concatenate([X[:, None], members[:, first]], axis=1)


@pytest.mark.parametrize(
    "solver",
    ["frank_wolfe", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bmrm", "svmstruct"))],
)
def test_training_agrees_with_a_list_of_edited_rows(solver):
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    X = rng.random((20, D)) + np.where(
        y[:, None] == 1, [1.0, 1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.3, 1.0, 1.0]
    )
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    fitted = [
        InvariantLinearSVC(oracle, C=2.0, tol=1e-4, solver=solver, random_state=0)
        for oracle in (UnitLength(FDrop(1)), RemovedShares())
    ]
    ours, listed = (model.fit(X, y) for model in fitted)
    assert ours.solution_.gap <= 1e-4 * ours.solution_.primal
    np.testing.assert_allclose(ours.decision_function(X), listed.decision_function(X), atol=1e-2)


TEXTS = ["free money now", "lunch today then", "free lunch money money", "today now then lunch now"] * 2
Y = np.array([1, 0, 1, 0] * 2)


@pytest.mark.parametrize("sublinear", [False, True])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_certificates_hold_for_words_deleted_before_the_vectorizer(norm, sublinear):
    K = 2
    model = make_pipeline(TfidfVectorizer(norm=norm, sublinear_tf=sublinear), LinearSVC(C=10.0))
    model.fit(TEXTS, Y)
    rows = model[0].transform(TEXTS)
    margins = certify(model[1], UnitLength(FDrop(K), norm), rows, Y).margins
    lowest = []
    for text, label in zip(TEXTS, Y, strict=True):
        changed = [" ".join(tokens) for tokens in edited(text.split(), "drop", K, ())]
        lowest.append(np.min((2 * label - 1) * model.decision_function(changed)))
    assert np.all(np.array(lowest) >= margins - 1e-9)
    # The certificate removes all occurrences of a word as one edit.
    distinct = [len(set(text.split())) == len(text.split()) for text in TEXTS]
    np.testing.assert_allclose(np.array(lowest)[distinct], margins[distinct], atol=1e-6)


def test_normalized_rows_have_no_warning_with_unit_length():
    for machine in (InvariantLinearSVC(random_state=0), LinearSVC()):
        model = make_pipeline(TfidfVectorizer(), machine).fit(TEXTS, Y)
        said = r"all rows have Euclidean length 1, and FDrop edits.*Pass UnitLength\(oracle\), such as"
        with pytest.warns(TextEditsWarning, match=said):
            certify(model, FDrop(2), TEXTS, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error", TextEditsWarning)
            for oracle in (UnitLength(FDrop(2)), UnitLength(FDrop(2)).only_for([1]), FDrop(0)):
                assert certify(model, oracle, TEXTS, Y).accuracy > 0


@pytest.mark.parametrize(
    ("steps", "norm"),
    [
        ([TfidfVectorizer(), MaxAbsScaler()], "l2"),
        ([TfidfVectorizer(norm=None)], "l2"),
        ([TfidfVectorizer(norm="l1")], "l2"),
        ([TfidfVectorizer()], "l1"),
    ],
    ids=["scaled", "counts", "sums", "other norm"],
)
def test_rows_of_other_lengths_have_a_warning_with_unit_length(steps, norm):
    model = make_pipeline(*steps, LinearSVC()).fit(TEXTS, Y)
    with pytest.warns(TextEditsWarning, match=f"not all rows have length 1 with norm='{norm}'"):
        certify(model, UnitLength(FDrop(2), norm).only_for([1]), TEXTS, Y)
    fitting = make_pipeline(TfidfVectorizer(norm=norm), LinearSVC()).fit(TEXTS, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TextEditsWarning)
        certify(fitting, UnitLength(FDrop(2), norm), TEXTS, Y)


def test_wrong_parts_and_norms_raise():
    for part in (Box(0.1), FDrop(1).only_for(1), FDrop(1) | FAdd(1), UnitLength(FDrop(1))):
        with pytest.raises(ValueError, match=r"UnitLength: oracle must be FDrop, .* apply only_for and"):
            UnitLength(part).validate()
    with pytest.raises(ValueError, match="norm must be 'l1' or 'l2', got 'max'"):
        UnitLength(FDrop(1), norm="max").validate()
    with pytest.raises(ValueError, match="number of features that may be added, got 9"):
        UnitLength(FAdd(9)).support(np.eye(3), np.eye(3), np.arange(3))


def test_edits_are_counted():
    counted = UnitLength(FDrop(3), "l1").only_for(1).counted()
    assert counted.most == 3
    assert repr(counted.at_most(2)) == repr(UnitLength(FDrop(2), "l1").only_for(1))
    assert len(Budget(UnitLength(FDrop(2))).bind(np.eye(3)).scenarios()[0]) == 3
