"""Answers of structures of users' own are checked by name."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.structures import Decoding, Sequence, check_structure

from .cases import bound_sequence


class Narrow(Sequence):
    def best_by_wrong(self, potentials, codes, pairwise, layout):
        return super().best_by_wrong(potentials, codes, pairwise, layout)[:, :-1]


def test_best_by_wrong_of_wrong_shape_raises():
    with pytest.raises(ValueError, match=r"Narrow\.best_by_wrong must return scores of shape"):
        check_structure(Narrow())


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("allows", r"must return allows of shape \(1,\), got \(2,\)"),
        ("most_wrong", r"must return counts of shape \(1,\), got \(2,\)"),
        ("pairwise_score", r"must return pairwise_score of shape \(1,\), got \(2,\)"),
    ],
)
def test_shapes_of_optional_methods_are_checked(method, message):
    def twice(self, *arguments):
        return np.repeat(getattr(super(Twice, self), method)(*arguments), 2)

    Twice = type("Twice", (Sequence,), {method: twice})
    refused = pytest.raises(ValueError, match=f"Twice.{method} {message}")
    with refused:
        check_structure(Twice())
    labels = bound_sequence(structure=Twice())
    pairwise, potentials = np.zeros(labels.n_pairwise), np.zeros((3, labels.n_labels))
    with refused:
        if method == "allows":
            labels.allowed()
        elif method == "most_wrong":
            labels.most_wrong(potentials, labels.codes, np.zeros(1), pairwise, labels.layout)
        else:
            labels.pairwise_gain(
                Decoding(labels.codes, np.zeros(1)), labels.codes, pairwise, labels.layout
            )
