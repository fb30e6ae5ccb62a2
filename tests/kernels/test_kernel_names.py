"""Kernels by name, functions and tables as kernels, and refused declarations."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from structinv.kernels import Gaussian, Kernel
from structinv.kernels.kernel_names import (
    CallableKernel,
    PrecomputedKernel,
    as_kernel,
    resolve_gamma,
    validate_kernel,
)

from .cases import rows


@pytest.mark.parametrize(
    "name", ["adds_features", "definite", "thread_safe", "uses_distances", "uses_products"]
)
def test_declarations_must_be_bool(name):
    kind = type("Vague", (Gaussian,), {"__module__": __name__, name: "perhaps"})
    with pytest.raises(TypeError, match=f"Vague.{name} must be True or False, got 'perhaps'"):
        validate_kernel("kernel", kind())


@pytest.mark.parametrize("word", ["translations", None, ["isometries"], np.array(["nothing"])])
def test_unknown_symmetries_are_errors(word):
    class Wordy(Gaussian):
        symmetry = word

    for kernel in (
        Wordy(),
        Wordy() + Gaussian(),
        Gaussian() * Wordy(),
        Wordy() + Wordy(),
        2.0 * Wordy(),
    ):
        with pytest.raises(ValueError, match=r"Wordy.symmetry must be one of \['nothing', "):
            validate_kernel("kernel", kernel)


def test_a_function_is_a_kernel():
    X, Y = rows(70), rows(9, seed=1)
    kernel = CallableKernel(rbf_kernel)
    assert np.array_equal(kernel.matrix(X, Y), rbf_kernel(X, Y))
    np.testing.assert_allclose(kernel.diagonal(X), np.ones(70))
    products = CallableKernel(lambda X, Y: X @ Y.T)
    np.testing.assert_allclose(products.diagonal(X), np.sum(X**2, axis=1))
    single = X.astype(np.float32)
    assert products.matrix(single, single).dtype == np.float32


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X, Y: np.ones(len(X)), r"must return an array of shape \(3, 2\), got \(3,\)"),
        (lambda X, Y: np.ones((len(Y), len(X))), r"shape \(3, 2\), got \(2, 3\)"),
        (lambda X, Y: np.full((len(X), len(Y)), np.nan), "finite"),
    ],
)
def test_values_of_callable_kernels_are_checked(function, message):
    with pytest.raises(ValueError, match=f"kernel .*lambda.*{message}"):
        CallableKernel(function).matrix(rows(3), rows(2))


def test_precomputed_kernel_reads_row_numbers():
    gram = rows(4, 6)
    kernel = PrecomputedKernel(gram)
    X, Y = np.array([[3.0], [0.0]]), np.array([[5.0], [1.0], [1.0]])
    assert np.array_equal(kernel.matrix(X, Y), gram[[3, 0]][:, [5, 1, 1]])
    assert np.array_equal(kernel.diagonal(X), gram[[3, 0], [3, 0]])
    assert as_kernel("precomputed", gamma="scale", degree=3, coef0=0.0, X=gram).gram is gram


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
@pytest.mark.parametrize("sparse", [False, True])
def test_gamma_is_resolved_as_in_svc(gamma, sparse):
    X, y = 3 * rows(40) + 1, np.arange(40) % 2
    X[X < 0] = 0
    X = sp.csr_matrix(X) if sparse else X
    theirs = SVC(gamma=gamma).fit(X, y)._gamma
    assert resolve_gamma(gamma, X) == pytest.approx(theirs, rel=1e-14)
    constant = np.ones((4, 3))
    assert resolve_gamma("scale", constant) == 1.0


def test_kernel_names_are_those_of_scikit_learn():
    X = 2 * rows(30)
    settings = {"gamma": 0.3, "degree": 4, "coef0": 0.5, "X": X}

    def found(kernel, **changes):
        return as_kernel(kernel, **(settings | changes))

    np.testing.assert_allclose(found("rbf").matrix(X, X), rbf_kernel(X, gamma=0.3))
    np.testing.assert_allclose(
        found("rbf", gamma="scale").matrix(X, X), rbf_kernel(X, gamma=1 / (5 * np.var(X)))
    )
    np.testing.assert_allclose(found("poly").matrix(X, X), polynomial_kernel(X, None, 4, 0.3, 0.5))
    np.testing.assert_allclose(found("laplacian").matrix(X, X), laplacian_kernel(X, gamma=0.3))
    np.testing.assert_allclose(found("linear").matrix(X, X), X @ X.T)
    assert isinstance(found(rbf_kernel), CallableKernel)
    own = Gaussian(3.0)
    copy = found(own)
    assert copy is not own
    assert copy.sigma == 3.0
    assert isinstance(copy, Kernel)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"kernel": "sigmoid"},
            ValueError,
            r"kernel must be one of \['laplacian', .*'rbf'\].*'sigmoid'",
        ),
        ({"kernel": Gaussian(-1)}, ValueError, "sigma"),
        ({"gamma": 0}, ValueError, "gamma must be 'scale', 'auto' or a number above 0, got 0"),
        ({"gamma": "large"}, ValueError, "gamma .* got 'large'"),
        ({"kernel": "poly", "degree": 0}, ValueError, "degree"),
        ({"kernel": "poly", "coef0": -1}, ValueError, "coef0"),
    ],
)
def test_wrong_choices_are_errors_by_name(changes, error, message):
    settings = {"kernel": "rbf", "gamma": "scale", "degree": 3, "coef0": 0.0, "X": rows(5)}
    with pytest.raises(error, match=message):
        as_kernel(**(settings | changes))
