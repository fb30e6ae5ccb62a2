"""Families of functionals: closed forms, families that are the same, and refused parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from structinv.functionals import (
    Difference,
    DirectionalDerivative,
    Evaluation,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
)
from structinv.kernels import Gaussian, Polynomial
from structinv.oracles import FDrop, Identity, TangentDerivative

from .cases import D, N, rows, swaps

coordinates = st.floats(-3.0, 3.0).map(lambda t: round(t, 3))


def points(n, d=D):
    return arrays(np.float64, (n, d), elements=coordinates)


@settings(max_examples=30)
@given(X=points(4), Y=points(3), sigma=st.floats(0.3, 4.0))
def test_gradients_of_a_gaussian_are_equations_6_and_7_of_zhang_lee_and_teh(X, Y, sigma):
    kernel = Gaussian(sigma)
    found = Gradient().bind(X).gram(kernel, Gradient().bind(Y)).reshape(4, D, 3, D)
    d = X[:, None] - Y[None]
    k = np.exp(-np.sum(d**2, axis=2) / (2 * sigma**2))
    outer = np.eye(D) - np.einsum("ijp,ijq->ijpq", d, d) / sigma**2
    wanted = np.einsum("ij,ijpq->ipjq", k, outer) / sigma**2
    np.testing.assert_allclose(found, wanted, atol=1e-11 * (1 + 1 / sigma**4))
    values = Evaluation().bind(X).gram(kernel, Gradient().bind(Y)).reshape(4, 3, D)
    np.testing.assert_allclose(values, k[:, :, None] * d / sigma**2, atol=1e-11 * (1 + 1 / sigma**3))


def test_a_laplacian_is_the_sum_of_its_squares():
    X = rows(12)
    X[3] = X[4]
    f = np.random.default_rng(3).standard_normal(12)
    for width in (None, 0.7):
        (part,) = GraphLaplacian(3, width).bind(X).parts(Gaussian())
        distance = np.linalg.norm(X[:, None] - X[None], axis=2) + 1e9 * np.eye(12)
        near = np.argsort(distance, axis=1, kind="stable")[:, :3]
        joined = np.zeros((12, 12), dtype=bool)
        joined[np.repeat(np.arange(12), 3), near.ravel()] = True
        weights = np.ones((12, 12)) if width is None else np.exp(-(distance**2) / (2 * width**2))
        weights = np.where(joined | joined.T, weights, 0.0)
        wanted = f @ (np.diag(weights.sum(axis=1)) - weights) @ f
        assert np.sum((part.mix @ f) ** 2) == pytest.approx(wanted)


def test_equivalent_families_have_equal_inner_products():
    X, kernel = rows(), Gaussian(1.1) + Polynomial(2, gamma=0.3)
    orbit = swaps().orbit(X)
    differences = TransformDifference(swaps()).bind(X).representers(kernel, X)
    values = Evaluation().bind(orbit[:, 1:].reshape(-1, D)).representers(kernel, X)
    own = np.repeat(Evaluation().bind(X).representers(kernel, X), 2, axis=1)
    np.testing.assert_allclose(differences, values - own, atol=1e-12)
    gradient = Gradient().bind(X).gram(kernel)
    for same in (
        PartialDerivative([0, 1, 2]),
        DirectionalDerivative(np.eye(D)),
        Tangents(TangentDerivative(np.eye(D), 1.0)),
    ):
        np.testing.assert_allclose(same.bind(X).gram(kernel), gradient, atol=1e-12)


@pytest.mark.parametrize(
    ("family", "error", "message"),
    [
        (Evaluation([N]), ValueError, "rows must contain integers from 0 to 5"),
        (PartialDerivative([0, D]), ValueError, "features must contain column numbers, from 0 to 2"),
        (PartialDerivative([0, 1, 1]), ValueError, "a mask must contain booleans"),
        (PartialDerivative(["a"]), ValueError, "because X has no column names"),
        (SecondDerivative("a", 0), ValueError, "i must contain"),
        (DirectionalDerivative([1.0, 2.0]), ValueError, r"directions must have shape.*got \(2,\)"),
        (DirectionalDerivative([np.nan, 1.0, 0.0]), ValueError, "directions must be finite"),
        (Tangents(FDrop(1)), NotImplementedError, "FDrop does not define tangents"),
        (TransformDifference(FDrop(1)), NotImplementedError, "FDrop does not define an orbit"),
        (TransformDifference(Identity()), ValueError, "list perturbed samples other than the sample"),
        (Difference([[0, N]]), ValueError, "pairs must contain integers from 0 to 5"),
        (Difference([0, 1]), ValueError, r"pairs must have shape \(m, 2\)"),
        (Difference([[0, 1]], weights=[1.0, 2.0]), ValueError, "weights"),
        (GraphLaplacian(n_neighbors=N), ValueError, "n_neighbors must be .* at most 5, the number of"),
        (GraphLaplacian(2, width=-1.0), ValueError, "width"),
        (LocalAverage(-0.5), ValueError, "width"),
        (LocalAverage(1.0, n_nodes=0), ValueError, "n_nodes"),
    ],
    ids=str,
)
def test_invalid_parameters_of_functionals_are_errors(family, error, message):
    with pytest.raises(error, match=message):
        family.bind(rows())
