"""Every structure against enumeration, and what it learns from parts of the examples."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.structures import (
    REGISTRY,
    Decoding,
    Graph,
    Layout,
    Multilabel,
    Sequence,
    Structure,
    check_structure,
)
from structinv.structures.graph import GraphLayout
from structinv.structures.multilabel import positions

from ..structures.cases import broken, decode_with


def loose(self, potentials, pairwise, layout):
    """Return inexact labels with a valid bound."""
    return Decoding(
        np.argmax(potentials, axis=1), decode_with(1.0)(self, potentials, pairwise, layout).upper
    )


Loose = broken("Loose", decode=loose, runner_up=Structure.runner_up)
TRANSITIONS = {(0, 0), (0, 1), (1, 2), (2, 0), (2, 1)}


@pytest.mark.parametrize("trials", [12, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "structure", [*(REGISTRY[name]() for name in sorted(REGISTRY)), Loose(), Sequence(TRANSITIONS)]
)
def test_structures_keep_the_contract(structure, trials):
    check_structure(structure, trials=trials)


def iob2():
    labels = np.array(["B-x", "I-x", "O", "B-y", "O", "B-x"])
    return Sequence("iob2"), labels, Layout.of_lengths([2, 1, 1, 2])


def label_sets():
    y = np.random.default_rng(0).integers(2, size=(8, 4))
    y[:, 3] = y[:, 0]
    return Multilabel("tree"), *positions(y)


def graphs():
    edges = [[], [], [(0, 1)], [(1, 0), (0, 2)]]
    features = [np.ones((len(each), 2)) for each in edges]
    return Graph(), np.arange(7) % 2, GraphLayout.of_graphs([1, 1, 2, 3], edges, features)


@pytest.mark.parametrize("make", [iob2, label_sets, graphs])
def test_summaries_of_partitions_equal_those_of_all_examples(make):
    structure, labels, layout = make()
    classes, codes = np.unique(labels, return_inverse=True)
    known = structure.prepared(classes, codes, layout)
    parts = [np.arange(0, 1), np.arange(1, 2), np.arange(2, len(layout))]
    told = [structure.summary(labels[layout.rows(part)], layout.take(part)) for part in parts]
    found = structure.prepared_by(classes, told)
    assert found is not structure
    assert vars(found).keys() == vars(known).keys()
    for name, value in vars(known).items():
        np.testing.assert_array_equal(vars(found)[name], value)
    assert found.prepared(classes, codes, layout) is found


@pytest.mark.parametrize("structure", [Graph("exact"), Graph("relaxed")], ids=repr)
def test_graphs_keep_the_contract_of_structures(structure):
    check_structure(structure, trials=8)
    check_structure(structure, n_labels=2, longest=6, trials=4)


def test_trees_keep_the_contract_of_structures():
    check_structure(Multilabel("tree"), longest=5, trials=20)
