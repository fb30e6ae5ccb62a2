"""Equal candidates: the first is chosen, wherever rounding puts the last bits."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

from structinv import InvariantLinearSVC, InvariantSVC, InvariantTextClassifier
from structinv.certificates.certificate import worst_change
from structinv.inspection import explain_edit
from structinv.kernels import CallableKernel
from structinv.metrics import nearest
from structinv.oracles import (
    FAdd,
    FDrop,
    FEdit,
    FiniteOracle,
    FScale,
    Identity,
    LinearChanges,
    Permutations,
    Shifts,
)
from structinv.oracles.third_party import bind
from structinv.report.writing import _chosen
from structinv.structures.classes import Multiclass
from structinv.utils.matrices import TIES, best_first, first_best

NOISE = [2.0**-52 * np.random.default_rng(seed).integers(-9, 10, size=9) for seed in range(6)]


class Spots(FiniteOracle):
    """The row, then it with one of its features raised."""

    def orbit(self, X):
        return X[:, None] + np.vstack([np.zeros(X.shape[1]), np.eye(X.shape[1])])


class SpotMaps(FiniteOracle):
    """The same for rows of ones, as maps."""

    def orbit(self, X):
        return self.changes(X).members()

    def changes(self, X, y=None):
        d = X.shape[1]
        return LinearChanges(
            X, [sp.csr_array(np.eye(d)), *(sp.csr_array(np.diag(1.0 + row)) for row in np.eye(d))]
        )


ONES, MIDDLE, FIRST = np.ones((1, 9)), np.eye(9)[4:5], np.eye(9)[0]
HALF = 1.0 * (np.arange(9) < 4)[None]
# Each has an oracle, a row, a direction, and the member that is chosen.
CASES = {
    "deleted words": (FDrop(2), ONES, -ONES, [0, 0, 1, 1, 1, 1, 1, 1, 1]),
    "rescaled words": (FScale(2, low=0.5, high=2.0), ONES, -ONES, [0.5, 0.5, 1, 1, 1, 1, 1, 1, 1]),
    "added words": (FAdd(2), HALF, ONES, [1, 1, 1, 1, 1, 1, 0, 0, 0]),
    "edited words": (FEdit(2), HALF, 1 - 2 * HALF, [0, 0, 1, 1, 0, 0, 0, 0, 0]),
    "graded deletions": (FDrop(2).discounted([1.0, 0.9, 0.8]), ONES, -ONES, [0, 0, 1, 1, 1, 1, 1, 1, 1]),
    "a list": (Spots(), ONES, ONES, 1 + FIRST),
    "a list of maps": (SpotMaps(), ONES, ONES, 1 + FIRST),
    "a graded list": (Spots().discounted(0.9), ONES, ONES, 1 + FIRST),
    "a union": (Spots() | FAdd(1), 0 * ONES, ONES, FIRST),
    "maps after deletions": (SpotMaps() @ FDrop(1), ONES, ONES, 1 + FIRST),
    "shifts": (Shifts(1), MIDDLE, ONES - 3 * MIDDLE, np.eye(9)[1]),
    "graded shifts": (Shifts(1).discounted(0.9), MIDDLE, ONES - 3 * MIDDLE, np.eye(9)[1]),
    "permutations": (Permutations((3, 3), axes="both"), MIDDLE, ONES, MIDDLE[0]),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("name", CASES)
def test_the_first_of_equal_members_is_chosen(name, noise):
    oracle, X, V, expected = CASES[name]
    answer = bind(oracle, X, np.zeros(1)).support(
        slice(None), V * (1 + noise), np.zeros(1, int), np.ones(1)
    )
    points = answer.points
    assert (points.toarray() if sp.issparse(points) else points)[0].tolist() == list(expected)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("kind", ["drop", "replace", "add"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2)])
@pytest.mark.parametrize("binary", [False, True])
def test_the_first_of_equal_tokens_is_edited(kind, ngram_range, binary, noise):
    words = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    vectorizer = CountVectorizer(ngram_range=ngram_range, binary=binary, token_pattern=r"\w")
    model = InvariantTextClassifier(kind, 2, vectorizer).fit(
        [" ".join(words), "j k l", "k l j"], [1, 0, 0]
    )
    gains = np.zeros(model.coef_.shape)
    for word in words:
        gains[0, model.vectorizer_.vocabulary_[word]] = 1.0 + noise[words.index(word)]
    for word in "jkl":
        gains[0, model.vectorizer_.vocabulary_[word]] = -1.0 - noise["jkl".index(word)]
    model.coef_ = gains
    (parts,) = model._worst_case_parts([" ".join(words)], [1])
    edited = [text for kind, text in parts if kind == "deleted"]
    inserted = [text.strip() for kind, text in parts if kind == "inserted"]
    assert edited == ([] if kind == "add" else ["a", "b"]), parts
    assert set(inserted) <= set("jk"), parts


@pytest.mark.parametrize("noise", NOISE)
def test_the_first_of_equal_members_attacks_a_kernel_machine(noise):
    kernel = CallableKernel(lambda A, B: (A * (1 + noise)) @ B.T)
    model = InvariantSVC(kernel=kernel, C=1.0, tol=1e-6).fit(np.vstack([ONES, -ONES]), [1, 0])
    assert model.worst_case(-ONES, [0], oracle=Spots()).tolist() == (-ONES + FIRST).tolist()


@pytest.mark.parametrize("noise", NOISE)
def test_the_first_of_equal_labels_is_the_strongest_competitor(noise):
    coef, labels = np.zeros((4, 9)), Multiclass().bind(np.array([1]), np.arange(4))
    coef[:, 0] = [2.0, 5.0, 2.0, 2.0] * (1 + noise[:4])
    change = worst_change(coef, np.zeros(4), FDrop(0), labels, ONES)
    assert change.labels.tolist() == [1]
    wrong = worst_change(-coef, np.zeros(4), FDrop(0), labels, ONES)
    assert wrong.labels.tolist() == [0]


@pytest.mark.parametrize("noise", NOISE)
def test_equal_edits_are_listed_by_number(noise):
    model = InvariantLinearSVC(FDrop(3), random_state=0).fit(np.vstack([ONES, -ONES]), [1, 0])
    model.coef_ = (1 + noise)[None]
    model.coef_[0, 5] = 2.0
    assert explain_edit(model, ONES, [1]).features.tolist() == [5, 0, 1]


@pytest.mark.parametrize("noise", NOISE)
def test_equal_rows_of_a_report_are_listed_by_number(noise):
    subject = SimpleNamespace(correct=np.arange(9) != 1)
    certificate = SimpleNamespace(attacked=1 + noise)
    assert _chosen(subject, certificate, 3).tolist() == [0, 2, 3]


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("noise", NOISE)
def test_the_first_of_equal_distances_is_the_nearest(noise, k):
    far = np.eye(9) * (1 + noise)
    assert nearest(Identity(), 0 * ONES, far, k)[1].tolist() == [list(range(k))]


def test_equal_means_values_that_differ_by_rounding_errors():
    values = 1 + np.array([[0.0, TIES / 2, 2 * TIES]])
    assert first_best(values).tolist() == [2]
    assert first_best(values[:, :2]).tolist() == [0]
    assert best_first(values[0]).tolist() == [2, 0, 1]
    assert first_best(np.array([[-np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 1.0]])).tolist() == [
        1,
        0,
        0,
    ]
    assert best_first(np.zeros(0)).tolist() == []
