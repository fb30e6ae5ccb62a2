"""Explicit spaces: normals of several rows, and linear functionals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.functionals import Gradient
from structinv.kernels import Linear
from structinv.spaces import ExplicitSpace

from ..problems import LinearFunctionals
from .cases import D


def test_linear_functionals_are_those_of_the_linear_kernel():
    rng, space = np.random.default_rng(0), ExplicitSpace(D, 2, intercept=True)
    A, Z = rng.standard_normal((5, 2 * D)), rng.standard_normal((4, D))
    family = LinearFunctionals(A)
    family.validate(space)
    assert family.size == 5
    assert family.places() is None
    f, c = rng.standard_normal(len(space.zeros())), rng.standard_normal(5)
    np.testing.assert_allclose(family.apply(space, f), A @ space.weights(f).ravel())
    g = family.combine(space, c)
    weights = space.weights(f).ravel()
    assert space.weights(g).ravel() @ weights == pytest.approx(c @ family.apply(space, f))
    # Gradients of a linear function are its weights.
    bound = Gradient().bind(Z)
    np.testing.assert_allclose(bound.representers(Linear(), Z), np.tile(Z, (1, 4)))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3, 40])
def test_normals_of_several_rows_are_folded_into_one(sparse, n_outputs):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((7, 3)) * (rng.random((7, 3)) < 0.7)
    coefficients = np.where(rng.random((7, n_outputs)) < 0.3, rng.standard_normal((7, n_outputs)), 0)
    starts, pairwise = np.array([0, 2, 3, 7]), rng.standard_normal((3, 5))
    space = ExplicitSpace(3, n_outputs, intercept=True, n_pairwise=5)
    rows = space.normals(sp.csr_matrix(X) if sparse else X, coefficients, starts, pairwise)
    written = rows.toarray() if sp.issparse(rows) else rows
    assert written.shape == (3, space.size)
    whole = np.column_stack([X, np.ones(7)])
    for b, (first, last) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        table = whole[first:last].T @ coefficients[first:last]
        np.testing.assert_allclose(written[b], np.r_[table.ravel(), pairwise[b]], atol=1e-12)
