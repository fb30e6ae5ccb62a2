"""Sequences: labels that may follow each other, wrong positions, examples of one row, certificates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.certificates.certificate import worst_change
from structinv.oracles import FDrop, Identity
from structinv.solvers import FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Layout, Sequence, Structure
from structinv.terms import Objective, WorstCase

from .cases import FEATURES as N_FEATURES
from .cases import LABELS as N_LABELS
from .cases import bound_sequence, broken, rows


def test_iob2_forbids_chunks_that_start_inside():
    classes = np.array(["B-NP", "B-VP", "I-NP", "I-VP", "O"])
    structure = Sequence("iob2").prepared(classes, np.zeros(0, dtype=int), None)
    assert structure.prepared(classes, np.zeros(0, dtype=int), None) is structure
    for labels in product(range(5), repeat=3):
        names, before = classes[list(labels)], ("O", *classes[list(labels)][:-1])
        fine = all(
            name[0] != "I" or (last != "O" and last[2:] == name[2:])
            for last, name in zip(before, names, strict=True)
        )
        allowed = structure.allows(np.array(labels), Layout.of_lengths([3]), 5)
        assert allowed[0] == fine, names
        potentials = np.eye(5)[list(labels)]
        found = structure.decode(potentials, np.zeros(35), Layout.of_lengths([3])).labels
        assert structure.allows(found, Layout.of_lengths([3]), 5)[0]


@pytest.mark.parametrize("allowed", ["iob2", {("O", "O"), ("O", "B-x"), ("B-x", "I-x"), ("I-x", "O")}])
def test_the_first_label_is_allowed_or_not_whatever_the_example_before(allowed):
    classes = np.array(["B-x", "I-x", "O"])
    structure, any_first = Sequence(allowed).prepared_by(classes, ()), allowed != "iob2"
    for last, first in product(range(3), repeat=2):
        found = structure.allows(np.array([last, first]), Layout.of_lengths([1, 1]), 3)
        assert found.tolist() == [any_first or classes[label] != "I-x" for label in (last, first)]


def test_a_training_labeling_that_is_forbidden_is_named():
    X, y = np.eye(4), np.array(["a", "b", "b", "a"])
    structure, layout = Sequence({("a", "b"), ("b", "b")}), Layout.of_lengths([2, 2])
    with pytest.raises(ValueError, match=r"that of example 1, \['b', 'a'\]"):
        WorstCase(X, y, Identity(), structure, layout=layout)
    X, y = np.eye(3), np.array(["O", "B-x", "I-x"])
    WorstCase(X, y, Identity(), Sequence("iob2"), layout=Layout.of_lengths([1, 2]))
    with pytest.raises(ValueError, match=r"that of example 1, \['I-x'\]"):
        WorstCase(X, y, Identity(), Sequence("iob2"), layout=Layout.of_lengths([2, 1]))


ByDecoding = broken("ByDecoding", budgets=True, best_by_wrong=Structure.best_by_wrong)


@pytest.mark.parametrize("structure", [Sequence(), ByDecoding()], ids=repr)
def test_labelings_exactly_at_the_threshold_count(structure):
    labels = bound_sequence(structure=structure)
    potentials, pairwise = np.zeros((3, labels.n_labels)), np.zeros(labels.n_pairwise)
    for threshold, most in ((0.0, 3), (1e-9, 0)):
        found = labels.most_wrong(
            potentials, labels.codes, np.array([threshold]), pairwise, labels.layout
        )
        assert found.tolist() == [most]


@pytest.mark.parametrize("solver", [FrankWolfe(), SVMStruct()], ids=repr)
def test_examples_of_one_row_need_no_layout(solver):
    """Examples of one row have weights of the first and last label, too."""
    X, y, _ = rows()
    found = []
    for layout in (None, Layout.of_rows(len(y))):
        term = WorstCase(X, y, FDrop(1), Sequence(), 0.5, layout=layout)
        space = ExplicitSpace(N_FEATURES, N_LABELS, n_pairwise=Sequence().n_pairwise(N_LABELS))
        found.append(solve(Objective(space, [term]), solver, Gap(1e-7), random_state=0))
        assert np.any(space.pairwise(found[-1].f) != 0)
    one, other = found
    assert one.status is other.status is Status.CONVERGED
    assert one.primal == pytest.approx(other.primal, rel=1e-6)


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([(0, 1)], ValueError, "sequences of any length"),
        ("iob2", ValueError, "requires labels"),
        ("bio", TypeError, "allowed must be None"),
        (3, TypeError, "allowed must be None"),
        ([(0, 1, 2)], TypeError, r"got the item \(0, 1, 2\)"),
    ],
)
def test_wrong_pairs_of_labels_are_refused_by_name(pairs, error, message):
    with pytest.raises(error, match=message):
        bound_sequence([0, 1, 1], Sequence(pairs))


ROWS = np.zeros((3, 4))
KINDS = ("csc", "coo", "lil")
FORMATS = "X must be an array or a CSR matrix.*tocsr"


@pytest.mark.parametrize(
    ("X", "coef", "pairwise", "error", "message"),
    [
        (ROWS, ROWS[:2], None, ValueError, "pairwise must have shape"),
        (ROWS, ROWS[:2].T, np.zeros(8), ValueError, "coef and intercept must have shapes"),
        *((sp.csr_matrix((3, 4)).asformat(kind), ROWS[:2], None, TypeError, FORMATS) for kind in KINDS),
    ],
)
def test_wrong_arguments_of_certificates_are_refused_by_name(X, coef, pairwise, error, message):
    with pytest.raises(error, match=message):
        worst_change(coef, np.zeros(2), FDrop(1), bound_sequence(), X, pairwise=pairwise)
