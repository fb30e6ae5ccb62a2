"""The best labeling of a sequence against all labelings."""

from itertools import product

import numpy as np
import pytest

from structinv.dual.chain_steps import score
from structinv.structures.sequence import best_labels, viterbi


def random_sequence(n_labels, size, seed):
    """Return potentials after those of other examples, and links, some of them forbidden."""
    rng = np.random.default_rng(seed)
    potentials, links = (
        rng.standard_normal((size + 2, n_labels)),
        rng.standard_normal((n_labels + 2, n_labels)),
    )
    links[1 % n_labels, 0] = -np.inf if n_labels > 1 else 0.0
    return potentials, links


# Labels are taken four at a time: each remainder has an example.
@pytest.mark.parametrize("n_labels", range(1, 7))
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_best_labeling_is_the_best_of_all(n_labels, size):
    potentials, links = random_sequence(n_labels, size, seed=n_labels)
    heights, begin = np.empty((size, n_labels)), 2
    labels = np.zeros(size + 2, dtype=np.int64)
    best_labels(potentials, links, np.array([begin, begin + size]), heights, labels)
    scores = {
        each: links[n_labels, each[0]]
        + sum(potentials[begin + t, k] for t, k in enumerate(each))
        + sum(links[j, k] for j, k in zip(each[:-1], each[1:], strict=True))
        + links[n_labels + 1, each[-1]]
        for each in product(range(n_labels), repeat=size)
    }
    assert tuple(labels[begin:].tolist()) == max(scores, key=scores.__getitem__)
    assert np.all(labels[:begin] == 0)


def test_the_score_is_that_of_its_labeling_to_the_last_bit():
    potentials, links = random_sequence(5, 30, seed=0)
    heights, labels = np.empty((30, 5)), np.zeros(30, dtype=np.int64)
    best_labels(potentials[2:], links, np.array([0, 30]), heights, labels)
    label, highest = viterbi(potentials, 2, 30, links, heights)
    assert label == labels[-1]
    assert highest == score(potentials[2:], links, 30, labels, 0)


def test_ties_prefer_the_first_last_labels():
    labels, heights = np.ones(4, dtype=np.int64), np.empty((4, 3))
    best_labels(np.zeros((4, 3)), np.zeros((5, 3)), np.array([0, 4]), heights, labels)
    np.testing.assert_array_equal(labels, 0)
