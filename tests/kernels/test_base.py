"""Kernels of users' own: nobody writes into what they keep, and what they say is looked at."""

import numpy as np
import pytest
from scipy.special import ndtri

from structinv.embeddings import OrbitFourier
from structinv.functionals import Evaluation, Folded, Gradient
from structinv.kernels import REGISTRY, Gaussian, Kernel, Linear, OrbitMean
from structinv.kernels.combinations import Product, Scaled, Sum
from structinv.kernels.kernel_names import validate_kernel
from structinv.kernels.kernel_values import kernel_diagonal, kernel_partials
from structinv.kernels.radial import Spectrum
from structinv.oracles import Flip, Identity

X = np.random.default_rng(0).standard_normal((6, 2))


class Keeping(Kernel):
    """A Gaussian kernel that returns the same arrays, in the same dictionary, in every call."""

    smoothness = 1.0
    uses_distances = True

    def __init__(self):
        self.gram = Gaussian().matrix(X, X)
        self.table = Gaussian().partials(self.distances(), None, 1)

    @staticmethod
    def distances():
        return np.sum((X[:, None] - X[None]) ** 2, axis=2)

    def matrix(self, X, Y, norms=None):
        return self.gram

    def diagonal(self, X):
        return np.diagonal(self.gram)

    def partials(self, distances, products, order):
        return self.table


COMBINATIONS = [
    lambda kernel: kernel + Linear(),
    lambda kernel: kernel + Gaussian(2.0) + kernel,
    lambda kernel: Linear() + kernel,
    lambda kernel: kernel * Gaussian(2.0),
    lambda kernel: 3.0 * kernel,
    lambda kernel: 2.0 * (kernel * kernel) + 0.5 * kernel,
]


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_stored_values_of_a_kernel_are_not_modified(combine):
    kept, wanted = Keeping(), combine(Gaussian()).matrix(X, X)
    for _ in range(2):
        np.testing.assert_allclose(combine(kept).matrix(X, X), wanted, rtol=1e-12)
    np.testing.assert_array_equal(kept.gram, Gaussian().matrix(X, X))


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_stored_derivatives_of_a_kernel_are_not_modified(combine):
    kept = Keeping()
    asked = kept.distances(), X @ X.T, 1
    wanted = combine(Gaussian()).partials(*asked)
    for _ in range(2):
        found = combine(kept).partials(*asked)
        assert found.keys() == wanted.keys()
        for which, values in wanted.items():
            np.testing.assert_allclose(found[which], values, rtol=1e-12)


def test_folding_does_not_modify_stored_values_of_a_kernel():
    kept = Keeping()
    options = {"nu": 0.7}
    folded = Folded(kept, [Evaluation().bind(X)], **options)
    wanted = Folded(Gaussian(), [Evaluation().bind(X)], **options).matrix(X, X)
    for _ in range(2):
        np.testing.assert_allclose(folded.matrix(X, X), wanted, rtol=1e-9)
    np.testing.assert_array_equal(kept.gram, Gaussian().matrix(X, X))


class Stretched(Gaussian):
    """A Gaussian of features of other sizes: what its parent says of its values is false."""

    def matrix(self, X, Y, norms=None):
        return super().matrix(X * [1.0, 3.0], Y * [1.0, 3.0])


class Narrower(Stretched):
    """Inherits `matrix`, and says what is true of it."""

    symmetry = "nothing"

    def lipschitz(self, n_features=None):
        return 3.0 / self.sigma


class Told(Stretched):
    """Defines no `matrix` of its own: a word that is false, but this class's own."""

    symmetry = "permutations"


class Renamed(Gaussian):
    """Changes nothing of its parent's values."""

    def __repr__(self):
        return "Renamed()"


def test_overriding_matrix_resets_the_declarations_of_the_parent():
    for kernel in (Stretched(), 2.0 * Stretched(), Stretched() + Gaussian(), Gaussian() * Stretched()):
        assert kernel.symmetry == "nothing"
        assert kernel.lipschitz() == np.inf
        assert kernel.smoothness == 0.0
        assert kernel.spectral_law() is None
        assert kernel.noise_averaged(0.1, 2) is None
        with pytest.raises(NotImplementedError, match="has no derivatives"):
            kernel_partials(kernel, np.ones(3), np.ones(3), 1)
    for kernel in (Stretched(), 2.0 * Stretched()):
        assert not kernel.uses_distances
        assert not kernel.uses_products
    assert Stretched().noise_averaged(0.0, 2).sigma == 1.0
    assert Narrower().lipschitz() == 3.0
    assert (Told() + Gaussian()).symmetry == "permutations"
    assert Renamed().symmetry == "isometries"
    assert Renamed(0.5).lipschitz() == 2.0
    assert Renamed().spectral_law() is not None
    assert Renamed().smoothness == np.inf
    assert Renamed().uses_distances


class Bent(Gaussian):
    """No function of distances, as its parent is."""

    def matrix(self, X, Y, norms=None):
        return super().matrix(np.tanh(X), np.tanh(Y))


def test_functionals_of_kernels_that_override_matrix_are_not_folded():
    at, mirrored = Evaluation().bind(X + 1.0), OrbitMean(Flip(shape=(1, 2)), Bent())
    for kernel in (
        Bent(),
        2.0 * Bent(),
        Bent() + Gaussian(),
        Gaussian() * Bent(),
        Gaussian() + mirrored,
    ):
        np.testing.assert_allclose(at.gram(kernel), kernel.matrix(X + 1.0, X + 1.0), rtol=1e-12)
        with pytest.raises(
            (ValueError, NotImplementedError), match="has (no derivatives|them up to order 0)"
        ):
            Gradient().bind(X).gram(kernel)


class Below(Gaussian):
    def diagonal(self, X):
        return np.full(len(X), -1.0)


def test_a_diagonal_below_0_is_refused_by_name():
    np.testing.assert_array_equal(kernel_diagonal(Gaussian(), X), 1.0)
    with pytest.raises(ValueError, match=r"Below\.diagonal must return values of at least 0, got -1"):
        kernel_diagonal(Below(), X)


@pytest.mark.parametrize("kind", REGISTRY.values())
def test_combinations_have_the_symmetry_of_their_parts(kind):
    kernel = kind()
    for one in (kernel + kernel, kernel * kernel, 2.0 * kernel):
        assert one.symmetry == kernel.symmetry != "nothing"


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


class Drawn(Spectrum):
    """Gives what it is told to give."""

    def __init__(self, frequencies, scales):
        self.found = frequencies, scales

    def n_uniforms(self, n_features):
        return n_features

    def frequencies(self, uniforms, n_features):
        return self.found[0](uniforms)

    def scales(self, uniforms):
        return self.found[1](uniforms)


class Spectral(Gaussian):
    def __init__(self, frequencies=ndtri, scales=np.ones_like):
        self.frequencies = frequencies
        self.scales = scales

    sigma = 1.0

    def spectral_law(self):
        return Drawn(self.frequencies, self.scales)


@pytest.mark.parametrize("templates", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda u: u[:-1], r"must return {what} of shape"),
        (lambda u: np.full_like(u, np.nan), r"returned {what} that are not finite"),
        (lambda u: u.tolist(), r"must return {what} as an array"),
    ],
)
def test_frequencies_of_a_spectrum_are_checked(templates, wrong, message):
    what = "scales" if templates == "orthogonal" else "frequencies"
    features = OrbitFourier(Identity(), Spectral(**{what: wrong}), 8, templates=templates)
    message = message.format(what=what)
    with pytest.raises((TypeError, ValueError), match=rf"Drawn.{what} {message}"):
        features.fit(X)
    features.set_params(kernel=Spectral()).fit(X)
    whole = OrbitFourier(Identity(), Gaussian(), 8, templates=templates).fit(X)
    np.testing.assert_allclose(features.templates_, whole.templates_, rtol=1e-12)


@pytest.mark.parametrize("kind", [Sum, Product, Scaled])
def test_combinations_that_override_matrix_have_no_derivatives(kind):
    class Own(kind):
        def matrix(self, X, Y, norms=None):
            return 3.0 * super().matrix(X, Y)

    kernel = Own(Gaussian()) if kind is Scaled else Own(Gaussian(), Gaussian(2.0))
    with pytest.raises(NotImplementedError, match="has no derivatives"):
        kernel_partials(kernel, np.ones(3), np.ones(3), 1)
    assert (2.0 * Gaussian()).partials(np.ones(3), None, 1)


class Mixed(Gaussian):
    """A kernel whose first derivative alone is in double precision."""

    def partials(self, distances, products, order):
        found = super().partials(distances, products, order)
        return {key: values.astype("f8" if key == (1, 0) else "f4") for key, values in found.items()}


def test_products_of_entries_of_several_precisions_are_in_the_higher_one():
    # The first of the three terms of the second derivative is in single precision.
    found = kernel_partials(Mixed() * Mixed(), np.linspace(0, 2, 5, dtype=np.float32), None, 2)[2, 0]
    assert found.dtype == np.float64


class Fourfold(Gaussian):
    """Four times its parent, whose values are 1 at equal inputs."""

    def lipschitz(self, n_features=None):
        return 2.0

    def matrix(self, X, Y, norms=None):
        return 4.0 * super().matrix(X, Y)

    def diagonal(self, X):
        return 4.0 * super().diagonal(X)


def test_products_have_no_lipschitz_constant_from_an_overridden_diagonal():
    assert Fourfold().lipschitz() == 2.0
    assert (4.0 * Gaussian() * Gaussian()).lipschitz() == pytest.approx(np.sqrt(8.0))
    for product in (Fourfold() * Gaussian(), Gaussian() * (2.0 * Fourfold()), Gaussian() * Fourfold()):
        assert product.lipschitz() == np.inf
