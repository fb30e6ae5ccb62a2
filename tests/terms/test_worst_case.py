"""Planes of worst cases: portions, memory, and refused rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import Budget, Ellipsoid, FDrop
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary, Layout, Sequence
from structinv.structures.classes import Multiclass
from structinv.terms import WorstCase

LABELS, FEATURES = 3, 4
LENGTHS = (3, 1, 2, 3)


def sequences(seed=0):
    """Return rows, labels, lengths and weights of a few short sequences."""
    rng = np.random.default_rng(seed)
    y = rng.integers(LABELS, size=sum(LENGTHS))
    X = rng.standard_normal((LABELS, FEATURES))[y] + 0.6 * rng.standard_normal((len(y), FEATURES))
    return X, y, LENGTHS, np.array([0.5, 0.2, 0.4, 0.3])


def changed(x, n_drops):
    """Return all inputs with a limited number of features removed."""
    masks = product([0.0, 1.0], repeat=len(x))
    return np.array([x * np.array(mask) for mask in masks if sum(mask) >= len(x) - n_drops])


@pytest.mark.parametrize("structure", [Sequence(), Multiclass()], ids=repr)
@pytest.mark.parametrize("oracle", [FDrop(1), Ellipsoid(np.eye(FEATURES))], ids=["fdrop", "ellipsoid"])
def test_planes_do_not_depend_on_directions_per_call(monkeypatch, oracle, structure):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, FEATURES)), rng.integers(LABELS, size=30)
    layout = None if structure.rowwise else Layout.of_lengths([5] * 6)
    term = WorstCase(X, y, oracle, structure, layout=layout)
    space = ExplicitSpace(FEATURES, LABELS, n_pairwise=term.bound_structure.n_pairwise)
    f = rng.standard_normal(space.size)
    whole = term.planes(space, f)
    for at_once in (1, 4, 8, 10**9):
        monkeypatch.setattr("structinv.oracles.query.WEIGHTS_AT_ONCE", at_once * FEATURES)
        planes = term.planes(space, f)
        np.testing.assert_allclose(planes.upper, whole.upper, atol=1e-9)
        at_f = planes.offsets - space.scores(f, planes.normals)
        np.testing.assert_allclose(at_f, planes.upper, atol=1e-9)


def test_planes_of_a_budget_are_tight_and_below_the_loss():
    X, y, lengths, weights = sequences()
    term = WorstCase(X, y, Budget(FDrop(2)), Sequence(), weights, layout=Layout.of_lengths(lengths))
    n_pairwise, rng = term.bound_structure.n_pairwise, np.random.default_rng(1)
    space = ExplicitSpace(FEATURES, LABELS, n_pairwise=n_pairwise)
    fs = 0.5 * rng.standard_normal((5, space.size))
    losses = [term.values(space, f)[1] for f in fs]
    for f, loss in zip(fs, losses, strict=True):
        planes = term.planes(space, f)
        np.testing.assert_allclose(planes.plane_values, loss)
        np.testing.assert_allclose(planes.offsets - space.scores(f, planes.normals), loss)
        for g, above in zip(fs, losses, strict=True):
            assert np.all(planes.offsets - space.scores(g, planes.normals) <= above + 1e-9)


def test_portions_count_rows(monkeypatch):
    X, y, lengths, weights = sequences()
    monkeypatch.setattr("structinv.terms.worst_case.ROWS_AT_ONCE", 4)
    term = WorstCase(X, y, FDrop(1), Sequence(), weights, layout=Layout.of_lengths(lengths))
    parts = [np.arange(len(lengths))[part] for part in term.portions()]
    assert [part.tolist() for part in parts] == [[0, 1], [2], [3]]
    assert [part.tolist() for part in term.bound_structure.portions(np.array([3, 1, 0, 2]), 4)] == [
        [3, 1], [0], [2],
    ]  # fmt: skip
    # A slice may start after the first example.
    portions = term.bound_structure.portions(slice(1, 4), 4)
    assert [np.arange(len(lengths))[part].tolist() for part in portions] == [[1, 2], [3]]


def test_memory_is_not_cubic_in_the_number_of_labels(monkeypatch):
    """No array has n_labels ** 3 values, or n_labels ** 3 times the number of features."""
    n_labels, rng = 400, np.random.default_rng(0)
    X, y = rng.standard_normal((500, 5)), np.arange(500) % n_labels
    term = WorstCase(X, y, FDrop(1), Multiclass(), 1.0)
    space = ExplicitSpace(5, n_labels)
    largest, zeros = [0], np.zeros

    def watched(shape, *args, **kwargs):
        made = zeros(shape, *args, **kwargs)
        largest[0] = max(largest[0], made.size)
        return made

    monkeypatch.setattr(np, "zeros", watched)
    f = rng.standard_normal(space.size)
    planes = term.planes(space, f)
    monkeypatch.undo()
    assert largest[0] <= 2 * max(n_labels**2, len(X) * n_labels)
    W = space.weights(f)
    for i in range(3):
        gains = [np.max(changed(X[i], 1) @ (W[k] - W[y[i]])) + 1.0 for k in range(n_labels) if k != y[i]]
        assert planes.upper[i] == pytest.approx(max(gains), rel=1e-12)
        assert planes.plane_values[i] == pytest.approx(max(gains), rel=1e-12)


def test_memory_of_planes_does_not_grow_with_the_rows_of_an_example():
    rng = np.random.default_rng(0)
    sizes = []
    for length in (5, 50):
        X, y = rng.standard_normal((4 * length, 3)), np.arange(4 * length) % 2
        term = WorstCase(X, y, FDrop(1), Sequence(), layout=Layout.of_lengths([length] * 4))
        space = ExplicitSpace(3, 2, n_pairwise=8)
        planes = term.planes(space, rng.standard_normal(space.size))
        sizes.append(planes.normals.nbytes)
    assert sizes[0] == sizes[1] == 8 * 4 * (3 * 2 + 8)


def test_rows_in_other_sparse_formats_are_refused():
    with pytest.raises(TypeError, match="X must be an array or a CSR matrix.*tocsr"):
        WorstCase(sp.coo_matrix((3, 4)), np.arange(3) % 2, FDrop(1), Binary())
