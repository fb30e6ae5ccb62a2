"""Families of functionals: their contract, closed forms, refusals, and products without a matrix."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from structinv.functionals import (
    REGISTRY,
    Difference,
    DirectionalDerivative,
    Evaluation,
    Functional,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
)
from structinv.functionals import fast_products as products_module
from structinv.functionals import representers as representers_module
from structinv.functionals.parts import Derivatives, Gradients, SecondDerivatives, Values
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from structinv.kernels.kernel_names import CallableKernel, PrecomputedKernel
from structinv.oracles import FDrop, Identity, TangentDerivative

from ..covering import slow_unless
from ..oracles.cases import Reorderings
from .cases import CASES, D, N, rows
from .functional_checks import check_functional

KERNELS = [
    Gaussian(1.2),
    Polynomial(3, gamma=0.4),
    Matern(1.5, nu=2.5),
    Gaussian(1.3) + Linear(),
    Gaussian(1.4) * Polynomial(2, gamma=0.5),
    2.5 * Gaussian(0.9),
]
coordinates = st.floats(-3.0, 3.0).map(lambda t: round(t, 3))


def points(n, d=D):
    return arrays(np.float64, (n, d), elements=coordinates)


def half_a_swap(X):
    return (X[:, ::-1] - X)[:, None, :]


def swaps():
    return Reorderings([[0, 1, 2], [2, 1, 0], [1, 0, 2]])


def test_every_registered_family_has_a_case_of_its_class():
    assert {case.name for case in CASES} == set(REGISTRY)
    assert all(type(case.make()) is REGISTRY[case.name] for case in CASES)
    assert len({str(case) for case in CASES}) == len(CASES)


# Each family with two kernels in turns, so that every kind of part meets every kernel.
in_turns = pytest.mark.parametrize(
    ("case", "kernel"),
    slow_unless(
        lambda case, kernel: (KERNELS.index(kernel) - 2 * CASES.index(case)) % len(KERNELS) < 2,
        [(case, kernel) for case in CASES for kernel in KERNELS],
    ),
    ids=str,
)


@in_turns
def test_keeps_the_contract(case, kernel):
    check_functional(case.make(), case.X, kernel)


def test_families_keep_the_contract_for_kernels_of_minimal_smoothness():
    for family in (
        Gradient(),
        PartialDerivative([1]),
        LocalAverage(0.4),
        Tangents(TangentDerivative(half_a_swap, 1.0)),
    ):
        check_functional(family, rows(), Matern(1.3, nu=1.5))
    for family in (Evaluation(), Difference([[0, 1]]), GraphLaplacian(2), TransformDifference(swaps())):
        check_functional(family, rows(), Laplacian(0.5))
        check_functional(family, rows(), CallableKernel(lambda X, Y: (1.0 + X @ Y.T) ** 2))


@pytest.mark.parametrize("family", [Gradient(), LocalAverage(0.4), SecondDerivative(0, 2)], ids=repr)
def test_keeps_the_contract_far_from_the_origin_and_in_other_units(family):
    check_functional(family, rows() + 300.0)
    check_functional(family, 1e-4 * rows(), Gaussian(1e-4))
    check_functional(family, np.repeat(rows(3), 2, axis=0))
    check_functional(family, rows(1))


# -- planted bugs -------------------------------------------------------------------------------------


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


# -- closed forms -------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(("sigma", "width"), [(1.0, 0.3), (0.8, 0.8), (2.0, 1.0)])
def test_local_averages_are_the_corrected_formula(d, sigma, width):
    X, family = rows(4, d), LocalAverage(width)
    squares = np.sum((X[:, None] - X[None]) ** 2, axis=2)

    def kappa(s):
        return np.exp(-squares / (2 * s**2))

    c1, c2 = ((1 + m * width**2 / sigma**2) ** (-d / 2) for m in (1, 2))
    once, twice = np.sqrt(sigma**2 + width**2), np.sqrt(sigma**2 + 2 * width**2)
    gram = family.bind(X).gram(Gaussian(sigma))
    np.testing.assert_allclose(gram, kappa(sigma) + c2 * kappa(twice) - 2 * c1 * kappa(once), atol=1e-13)


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


# -- refusals -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "kernel",
    [Laplacian(), Matern(nu=0.5), CallableKernel(np.dot)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_kernels_without_the_derivatives_are_errors(kernel):
    with pytest.raises(
        ValueError, match=f"Gradients requires .* order 1.*{type(kernel).__name__}.*order 0"
    ):
        Gradient().bind(rows()).gram(kernel)
    with pytest.raises(ValueError, match=r"SecondDerivatives requires .* order 2.*Matern.*order 1"):
        SecondDerivative(0, 0).bind(rows()).gram(Matern(nu=1.5))


def test_quadrature_in_many_features_is_an_error():
    bound = LocalAverage(0.5).bind(rows(4, 10))
    with pytest.raises(ValueError, match=r"LocalAverage has no closed form for Matern.*n_nodes=7 in 10"):
        bound.gram(Matern())
    assert bound.gram(Gaussian(3.0)).shape == (4, 4)
    # 8 nodes in 64 features are 2^192, which is 0 in 64 bits.
    wide = LocalAverage(0.5, n_nodes=np.int64(8)).bind(rows(2, 64))
    with pytest.raises(ValueError, match="LocalAverage has no closed form"):
        wide.gram(Matern())


@pytest.mark.parametrize("X", [np.ones(3), np.ones((2, 2, 2)), 1.0, sp.identity(3)], ids=type)
def test_rows_must_be_a_matrix(X):
    with pytest.raises(ValueError, match=r"X must have shape \(n_samples, n_features\)"):
        Gradient().bind(X)


def test_rows_must_be_finite():
    X = rows()
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match="X must be finite"):
        Gradient().bind(X).gram(Gaussian())


def test_coefficients_of_another_size_are_errors():
    bound = Gradient().bind(rows())
    for c in (np.ones(N), np.ones((N * D, 1))):
        with pytest.raises(ValueError, match=r"coefficients must have shape \(18,\)"):
            bound.product(Gaussian(), c)
    with pytest.raises(ValueError, match=r"coefficients must have shape \(6,\)"):
        bound.product(Gaussian(), np.ones(N * D), Evaluation().bind(rows()))


# -- rows of any kind ---------------------------------------------------------------------------------


def test_values_of_precomputed_kernels_are_functionals():
    table = np.cov(rows(5, 9))
    numbers = np.arange(5.0)[:, None]
    for family in (Evaluation(), Difference([[0, 1], [4, 2]])):
        bound = family.bind(numbers)
        mix = bound.parts(PrecomputedKernel(table))[0].mix
        mix = np.eye(5) if mix is None else mix.toarray()
        wanted = mix @ table @ mix.T
        np.testing.assert_allclose(bound.gram(PrecomputedKernel(table)), wanted, atol=1e-14)
        found = bound.product(PrecomputedKernel(table), np.ones(len(wanted)))
        np.testing.assert_allclose(found, wanted.sum(axis=1), atol=1e-14)


@pytest.mark.parametrize("kernel", [Gaussian(4.0), Polynomial(2, gamma=0.1)], ids=repr)
def test_products_need_no_matrix(kernel):
    X = rows(300, 20)
    c = np.random.default_rng(5).standard_normal(6000)
    found = Gradient().bind(X).product(kernel, c)
    system = Representers(kernel, [Gradient().bind(X).parts(kernel)])
    some = np.array([0, 19, 20, 777, 3141, 5999])
    wanted = system.gram(some, np.arange(6000)) @ c
    np.testing.assert_allclose(found[some], wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    np.testing.assert_allclose(system.gram(some) @ c, wanted, rtol=1e-9)


# -- several families together ------------------------------------------------------------------------


def several(X, kernel):
    families = [
        Evaluation(),
        Gradient(),
        TransformDifference(swaps()),
        LocalAverage(0.6, n_nodes=4),
        SecondDerivative(0, 2),
        SecondDerivative(1, 1),
        PartialDerivative([2, 0]),
    ]
    return [family.bind(X).parts(kernel) for family in families]


@cache
def whole_matrix(kernel):
    """The Gram matrix of all of these families, which is not to be written to."""
    found = Representers(kernel, several(rows(), kernel)).gram()
    found.flags.writeable = False
    return found


CACHES = [1000.0, 0.002, 0.0]


class TestRepresenters:
    @pytest.fixture(params=KERNELS, ids=repr)
    def kernel(self, request):
        return request.param

    @pytest.fixture(params=[CACHES[0], pytest.param(CACHES[1], marks=pytest.mark.slow), CACHES[2]])
    def system(self, request, kernel):
        return Representers(kernel, several(rows(), kernel), cache_mb=request.param)

    @pytest.fixture
    def full(self, kernel):
        return whole_matrix(kernel)

    def close(self, found, wanted):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, wanted, atol=1e-11 * (1.0 + np.abs(wanted).max(initial=0.0)))

    def test_products_are_those_of_the_matrix(self, system, full):
        c = np.random.default_rng(1).standard_normal(system.size)
        for _ in range(2):
            self.close(system.apply(c), full @ c)
        table = np.random.default_rng(2).standard_normal((system.size, 3))
        self.close(system.apply(table), full @ table)
        for rows_of_one in system.slices:
            alone = np.zeros(system.size)
            alone[rows_of_one] = c[rows_of_one]
            self.close(system.apply(alone), full @ alone)
        self.close(system.apply(np.zeros(system.size)), np.zeros(system.size))

    @pytest.mark.parametrize(("cache_mb", "computed"), [(100.0, [3, 3, 6]), (0.0, [3, 6, 9])])
    def test_entries_of_second_derivatives_are_cached_if_there_is_room(
        self, cache_mb, computed, monkeypatch
    ):
        families = [SecondDerivative(0, 1), Gradient(), Evaluation()]
        parts = [family.bind(rows()).parts(Gaussian()) for family in families]
        system = Representers(Gaussian(), parts, cache_mb)
        whole = system.gram()
        compute, calls, found = representers_module.gram_of_atoms, [], []

        def counted(*arguments):
            calls.append(arguments)
            return compute(*arguments)

        monkeypatch.setattr(representers_module, "gram_of_atoms", counted)
        for c in np.random.default_rng(0).standard_normal((3, system.size)):
            self.close(system.apply(c), whole @ c)
            found.append(len(calls))
            if len(found) == 2:
                system.forget()
        assert found == computed

    def test_matrix_of_some_is_part_of_the_matrix(self, system, full):
        rng = np.random.default_rng(3)
        left, right = rng.integers(system.size, size=9), rng.permutation(system.size)[:17]
        for _ in range(2):
            self.close(system.gram(left, right), full[left][:, right])
            self.close(system.gram(right, right), full[right][:, right])
            self.close(system.gram(left), full[left])
            self.close(system.gram(columns=right), full[:, right])
            self.close(system.gram(left[:0], right), full[:0][:, right])
            self.close(system.diagonal(), np.diagonal(full))
            # Once more from the table.
            self.close(system.table(), full)
        self.close(system.apply(full[0]), full @ full[0])

    def test_values_are_sums_of_representers(self, system, kernel):
        points = np.vstack([rows(4, seed=9), rows()[:2]])
        c = np.random.default_rng(4).standard_normal((system.size, 2))
        every = [Evaluation().bind(points).parts(kernel), *system.families]
        columns = np.arange(len(points), len(points) + system.size)
        z = Representers(kernel, every).gram(np.arange(len(points)), columns)
        self.close(system.values(c, points), z @ c)
        self.close(system.values(c[:, 0], points), z @ c[:, 0])
        # The other way round: all functionals of a sum of kernels at points.
        a = np.random.default_rng(5).standard_normal((len(points), 2))
        self.close(system.on_points(points, a), z.T @ a)
        self.close(system.on_points(points, a[:, 1]), z.T @ a[:, 1])
        assert system.on_points(points[:0], a[:0]).shape == (system.size, 2)

    def test_monomials_are_the_functionals_of_1_and_the_coordinates(self, system):
        X = rows()
        one, slopes = np.ones((N, 1)), np.eye(D)
        first = np.hstack([one, X])
        changes = (swaps().orbit(X)[:, 1:] - X[:, None]).reshape(-1, D)
        nothing = np.zeros((N, 1 + D))
        wanted = [
            first,
            np.hstack([np.zeros((N * D, 1)), np.tile(slopes, (N, 1))]),
            np.hstack([np.zeros((len(changes), 1)), changes]),
            nothing,
            nothing,
            nothing,
            np.tile(np.hstack([np.zeros((2, 1)), slopes[[2, 0]]]), (N, 1)),
        ]
        np.testing.assert_allclose(system.monomials(1), np.vstack(wanted), atol=1e-13)
        np.testing.assert_allclose(system.monomials(0), np.vstack(wanted)[:, :1], atol=1e-13)

    def test_blocks_do_not_matter(self, system, full, monkeypatch):
        for module in (products_module, representers_module):
            monkeypatch.setattr(module, "VALUES_AT_ONCE", 20)
        c = np.random.default_rng(6).standard_normal(system.size)
        self.close(system.apply(c), full @ c)
        points = rows(7, seed=8)
        z = system.on_points(points, np.eye(7))
        self.close(system.values(c, points), z.T @ c)


def test_the_gram_matrix_must_fit_in_the_cache():
    parts = several(rows(), Gaussian())
    assert Representers(Gaussian(), parts, cache_mb=8 * 66**2 / 1e6).fits
    assert not Representers(Gaussian(), parts, cache_mb=8 * 66**2 / 1e6 - 1e-6).fits


def test_families_share_points_that_are_equal():
    X = rows()
    parts = [[Values(X)], [Gradients(X.copy())], [Values(X + 1.0)], [Values(X, blur=0.5)]]
    assert len(Representers(Gaussian(), parts)._sites) == 3


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


def test_gram_matrices_are_formed_in_tiles(monkeypatch):
    from structinv.functionals import representers

    family = LocalAverage(0.3).bind(rows())
    expected = family.gram(Gaussian()), Gradient().bind(rows()).gram(Gaussian(), family)
    monkeypatch.setattr(representers, "ENTRIES_AT_ONCE", 20)
    np.testing.assert_allclose(family.gram(Gaussian()), expected[0], atol=1e-14)
    again = Gradient().bind(rows()).gram(Gaussian(), family)
    np.testing.assert_allclose(again, expected[1], atol=1e-14)
