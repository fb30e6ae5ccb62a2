"""The search for the largest ratio of score and length over edits of words."""

import numpy as np
import pytest

from structinv.oracles.text.ratios import CountedWords, Normalization, RatioSearch, WordChanges


@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_tight_between_deletions_and_insertions(seed):
    # Deletions gain more score than insertions, which add length. The worst edits mix both.
    rng = np.random.default_rng(seed)
    own, d = 24, 400
    scale = np.r_[rng.uniform(2, 6, own), rng.uniform(5, 9, d - own)]
    v = np.r_[-rng.uniform(1, 5, own), rng.uniform(0.5, 1.6, d - own)]
    ones = np.ones(own, dtype=np.int64)
    words = CountedWords(np.array([0, own]), np.arange(own), ones, 0 * ones, np.zeros(1, dtype=np.int64))
    every, none = np.ones(d, dtype=bool), np.zeros(d, dtype=bool)
    normalization = Normalization("binary", "l2", scale)
    search = RatioSearch(words, normalization, "edit", 10, every, none)
    found = search.worst(v[None], np.zeros(1, dtype=np.int64))
    assert found.values[0] < 0
    assert found.upper[0] - found.values[0] < 1e-6


def test_words_that_are_deleted_and_inserted_again_are_unchanged():
    none = np.zeros(2, dtype=np.int64)
    words = CountedWords(np.array([0, 2]), np.array([3, 4]), np.ones(2, dtype=np.int64), none, none[:1])
    found = WordChanges(
        np.zeros(1), np.zeros(1), np.array([-1, -1]), np.array([[3, 7]]), np.array([[1, 1]])
    )
    assert found.of(words, 0) == {4: -1, 7: 1}
    assert found.edited(words, 8).toarray().tolist() == [[0, 0, 0, 1, 0, 0, 0, 1]]
