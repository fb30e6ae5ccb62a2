"""Parts of functionals: scaled, mixed and blurred; parts that are wrong."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.functionals import Functional, PartialDerivative
from structinv.functionals.parts import Derivatives, Gradients, SecondDerivatives, Values
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Linear

from .cases import D, N, check_functional, rows


class OfParts(Functional):
    """A family of the parts that a function makes; right, if they are."""

    def __init__(self, make):
        self.make = make

    def parts(self, X, kernel):
        return self.make(X)


def slopes(X, number):
    return [Derivatives(X, directions=np.full((len(X), 1, X.shape[1]), number))]


def mixed(X, mix):
    return [Values(X, mix)]


PLANTED = {
    "sizes": (lambda X: [Values(X), Values(X[1:])], r"parts of one size, got sizes \[5, 6\]"),
    "features": (lambda X: [Values(np.hstack([X, X]))], r"points of shape \(u, 3\)"),
    "not finite": (lambda X: [Values(np.where(X > 1, np.nan, X))], "not finite"),
    "mix": (lambda X: mixed(X, sp.identity(N, format="csr") * np.inf), "mix that are not finite"),
    "wide": (
        lambda X: mixed(X, sp.csr_matrix((2, N + 1))),
        r"mix of shape \(size, 6\), with one column per atom",
    ),
    "dense": (lambda X: mixed(X, np.eye(N)), "must return a sparse matrix as mix, got ndarray"),
    "slopes": (lambda X: slopes(X, np.nan), "directions that are not finite"),
    "blur": (lambda X: [Values(X, blur=-1.0)], "blur of at least 0, got -1.0"),
    "no parts": (lambda X: [], "at least one Part"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_wrong_parts_are_errors(name):
    make, message = PLANTED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        OfParts(make).bind(rows()).gram(Gaussian())


def test_parts_are_scaled_and_mixed_as_matrices_are():
    X, kernel = rows(), Gaussian(1.2)
    mix = sp.csr_matrix(np.random.default_rng(0).standard_normal((4, N)))
    directions = np.random.default_rng(1).standard_normal((N, D))
    bare = SecondDerivatives(X, left=directions, right=directions)
    for part in (Values(X), Values(X, blur=0.3), PartialDerivative([1]).bind(X).parts(kernel)[0], bare):
        plain = Representers(kernel, [[part]]).gram()
        mixed = Representers(kernel, [[replace(part, mix=mix).scaled(-3.0)]])
        wanted = 9.0 * mix @ plain @ mix.T
        np.testing.assert_allclose(mixed.gram(), wanted, atol=1e-11)
        np.testing.assert_allclose(mixed.apply(np.eye(4)), wanted, atol=1e-11)
        np.testing.assert_allclose(mixed.gram(np.array([2]), np.array([0, 3])), wanted[[2]][:, [0, 3]])


def test_blurred_derivatives_are_derivatives_of_the_average():
    check_functional(OfParts(blurred_slopes), rows(4, 2), Gaussian(1.1) + Linear())
    check_functional(OfParts(blurred_bends), rows(4, 2), Gaussian(1.1))


def blurred_slopes(X):
    return [Gradients(X, blur=0.3), Gradients(X).scaled(-1.0)]


def blurred_bends(X):
    directions = np.ones_like(X)
    return [SecondDerivatives(X, left=directions, right=X, blur=0.2)]
