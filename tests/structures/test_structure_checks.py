"""`check_structure` finds what is wrong with a structure, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.structures import Decoding, Graph, RowStructure, Sequence, Structure, check_structure
from structinv.utils.exceptions import CheckError

from .cases import broken, decode_with


def best_alone(self, potentials, pairwise, layout):
    return Decoding(np.argmax(potentials, axis=1))


def scaled_features(self, labels, layout, n_labels):
    return Sequence.features(self, labels, layout, n_labels) * (2.0 + len(layout))


def counts_less(self, *asked):
    return Sequence.best_by_wrong(self, *asked) - 0.1


BROKEN = [
    broken("Blind", decode=best_alone),
    broken("Boastful", decode=decode_with(-0.1)),
    broken("Greedy", RowStructure,
           decode=lambda self, potentials, *_: Decoding(np.zeros(len(potentials), dtype=int))),
    broken("Same", runner_up=lambda self, potentials, codes, pairwise, layout:
           Decoding(codes.copy(), np.zeros(len(layout)))),
    broken("Leaky", features=scaled_features),
    broken("Vain", pairwise_score=lambda self, *asked: Sequence.pairwise_score(self, *asked) + 1.0),
    broken("Short", best_by_wrong=counts_less),
]  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_structures_are_found(kind):
    with pytest.raises(CheckError, match=kind.__name__):
        check_structure(kind())


class OneChosen(Structure):
    """Exactly one row of each example has label 1, so an example of one row has a single labeling."""

    def decode(self, potentials, pairwise, layout):
        gains = potentials[:, 1] - potentials[:, 0]
        labels = np.zeros(len(gains), dtype=int)
        labels[np.lexsort((-gains, layout.owners))[layout.starts[:-1]]] = 1
        return Decoding(labels)

    def allows(self, labels, layout, n_labels):
        return layout.sums(labels == 1) == 1


def test_examples_may_have_a_single_labeling():
    check_structure(OneChosen(), n_labels=2)


def test_check_structure_still_compares_other_labelings_of_one_chosen_row():
    class Careless(OneChosen):
        def runner_up(self, potentials, codes, pairwise, layout):
            return Decoding(codes.copy())

    with pytest.raises(CheckError, match="Careless.runner_up: the labeling must differ"):
        check_structure(Careless(), n_labels=2)


@pytest.mark.parametrize(
    ("structure", "options", "error", "message"),
    [
        (Sequence(), {"n_labels": 30, "longest": 30}, ValueError, "all labelings are compared"),
        (Sequence(), {"trials": 0}, ValueError, "trials must be at least 1"),
        (Sequence(), {"longest": 0}, ValueError, "longest must be at least 1"),
        (Sequence(), {"n_labels": 1}, ValueError, "n_labels must be at least 2"),
        (Sequence, {}, TypeError, "instance of a Structure"),
    ],
)
def test_wrong_arguments_of_the_check_are_refused_by_name(structure, options, error, message):
    with pytest.raises(error, match=message):
        check_structure(structure, **options)


class Overstated(Graph):
    """Relaxed inference whose shares have a smaller score than its labels."""

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        if found.fractions is None:
            return found
        fractions = np.eye(potentials.shape[1])[found.labels]
        return Decoding(found.labels, found.upper, fractions=fractions, features=found.features)


class Unbalanced(Graph):
    """Relaxed inference whose shares do not add up to 1."""

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        features = self.features(found.labels, layout, potentials.shape[1])
        return Decoding(
            found.labels, found.upper, fractions=np.zeros(potentials.shape), features=features
        )


def test_check_structure_finds_invalid_fractions():
    with pytest.raises(CheckError, match=r"Overstated\.decode: the score of its fractions"):
        check_structure(Overstated("relaxed"), n_labels=2, longest=6, trials=60)
    with pytest.raises(ValueError, match=r"Unbalanced\.decode must return fractions of at least 0"):
        check_structure(Unbalanced("relaxed"))
