"""Ratios of counted words, over their edits."""

from itertools import combinations

import numpy as np
import pytest

from structinv.oracles.ratio_kernels import skyband
from structinv.oracles.text.counted_words import CountedWords
from structinv.oracles.text.ratios import Normalization, RatioSearch, WordChanges


def counted(indptr, indices, plus):
    """Texts whose tokens raise their counts."""
    parts = (indices, plus, np.zeros(len(plus)), np.zeros(len(indptr) - 1))
    return CountedWords(np.array(indptr), *(np.asarray(part, dtype=np.int32) for part in parts))


@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_tight_between_deletions_and_insertions(seed):
    # Deletions gain more score than insertions, which add length. The worst edits mix both.
    rng = np.random.default_rng(seed)
    own, d = 24, 400
    scale = np.r_[rng.uniform(2, 6, own), rng.uniform(5, 9, d - own)]
    v = np.r_[-rng.uniform(1, 5, own), rng.uniform(0.5, 1.6, d - own)]
    words = counted([0, own], np.arange(own), np.ones(own))
    every, none = np.ones(d, dtype=bool), np.zeros(d, dtype=bool)
    normalization = Normalization("binary", "l2", scale)
    search = RatioSearch(words, normalization, "edit", 10, every, none)
    found = search.worst(v[None], np.zeros(1, dtype=np.int64))
    assert found.values[0] < 0
    assert found.upper[0] - found.values[0] < 1e-6


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("terms", ["counts", "binary", "sublinear"])
def test_ratios_below_zero_agree_with_an_enumeration_of_counts(terms, norm):
    rng, counts, p, most = np.random.default_rng(0), np.array([2, 1, 3, 1, 1]), 150, 4
    own, d = len(counts), 8
    V = -rng.uniform(0.5, 5.0, (p, d)) * np.where(
        np.arange(d) < own, 1.0, rng.choice([-0.3, 0.3, 1.0], (p, 1))
    )
    normalization = Normalization(terms, norm, rng.uniform(1.0, 6.0, d))
    plus, places = np.tile(counts, p), np.tile(np.arange(own), p)
    words = counted(np.arange(p + 1) * own, places, plus)
    every, none = np.ones(d, dtype=bool), np.zeros(d, dtype=bool)
    found = RatioSearch(words, normalization, "edit", most, every, none).worst(V, np.arange(p))
    steps = np.vstack(
        [np.zeros(d, dtype=np.int64), np.eye(d, dtype=np.int64), -np.eye(d, dtype=np.int64)]
    )
    edits = steps[:1]
    for _ in range(most):
        edits = np.unique((edits[:, None] + steps).reshape(-1, d), axis=0)
    texts = edits + np.r_[counts, np.zeros(d - own, dtype=np.int64)]
    values = normalization.values(texts[np.all(texts >= 0, axis=1)])
    sizes = normalization.lengths(values) @ normalization.squares
    sizes = np.sqrt(sizes) if norm == "l2" else sizes
    wanted = (values @ V.T / sizes[:, None]).max(axis=0)
    assert np.mean(wanted < 0) > 0.5
    np.testing.assert_allclose(found.upper, wanted, rtol=1e-9)
    np.testing.assert_allclose(found.values, wanted, rtol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_words_to_insert_are_found_behind_all_those_of_a_text(sign):
    # The words of the text are better than absent ones: shorter, or longer for scores below zero. Before
    # them comes an absent word without use.
    for own in range(12, 40):
        scale = np.r_[np.full(own, 3.0), 3.0 - 0.1 * sign, 3.0 + sign * np.arange(1, 5) / 100]
        v = np.r_[5.0 + np.arange(own) / 10, 0.001, 4.4 - np.arange(4) / 10]
        if sign < 0:
            v = np.r_[-50.0, -0.02 - np.arange(own - 1) / 1e4, -40.0, -0.05 - np.arange(4) / 1e2]
        words, d = counted([0, own], np.arange(own), np.ones(own)), len(v)
        every, none = np.ones(d, dtype=bool), np.zeros(d, dtype=bool)
        search = RatioSearch(words, Normalization("binary", "l2", scale), "add", 2, every, none)
        found = search.worst(v[None], np.zeros(1, dtype=np.int64))
        texts = [[*range(own), *new] for n in range(3) for new in combinations(range(own, d), n)]
        ratios = [v[text].sum() / np.linalg.norm(scale[text]) for text in texts]
        np.testing.assert_allclose([found.values[0], found.upper[0]], max(ratios), rtol=1e-9)
        assert len(texts[np.argmax(ratios)]) == own + 2


def test_words_that_are_deleted_and_inserted_again_are_unchanged():
    words, rows, starts = counted([0, 1, 3], [5, 3, 4], np.ones(3)), np.array([1]), np.array([0, 2])
    moves, added = np.array([-1, -1]), np.array([[7, 3]])
    found = WordChanges(words, rows, starts, *np.zeros((2, 1)), moves, added, np.array([[1, 1]]))
    assert found.of(0) == {4: -1, 7: 1}
    assert found.counts(8).toarray().tolist() == [[0, 0, 0, 1, 0, 0, 0, 1]]


def dominates(v, s, ordered, one, other):
    """Whether a word precedes another one that has no larger value."""
    key = {int(j): (s[j], -v[j], at) for at, j in enumerate(ordered)}
    return key[one] < key[other] and v[one] >= v[other]


def test_words_with_few_dominating_ones_are_kept():
    rng = np.random.default_rng(0)
    for _ in range(200):
        d, most = rng.integers(1, 25), int(rng.integers(1, 6))
        v, s = np.round(rng.normal(size=d), 1), rng.integers(1, 5, d).astype(float)
        ordered, kept = np.argsort(s, kind="stable"), np.empty(d, dtype=np.int64)
        found = kept[: skyband(v, s, ordered, most, kept)]
        wanted = [
            j for j in range(d) if sum(dominates(v, s, ordered, i, j) for i in range(d) if i != j) < most
        ]
        assert sorted(found) == wanted
