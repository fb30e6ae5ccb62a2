"""Several families together: their Gram matrix, products, values and monomials."""

from functools import cache

import numpy as np
import pytest

from structinv.functionals import (
    Evaluation,
    Gradient,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    TransformDifference,
)
from structinv.functionals import fast_products as products_module
from structinv.functionals import representers as representers_module
from structinv.functionals.parts import Gradients, Values
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian

from .cases import KERNELS, D, N, rows, swaps


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
    @pytest.fixture(params=[*enumerate(KERNELS), (1, KERNELS[0]), (2, KERNELS[0])], ids=str)
    def kernel_and_cache(self, request):
        """Every kernel with one room for tables, and one kernel with all of them."""
        number, kernel = request.param
        return kernel, CACHES[number % 3]

    @pytest.fixture
    def kernel(self, kernel_and_cache):
        return kernel_and_cache[0]

    @pytest.fixture
    def system(self, kernel_and_cache):
        kernel, cache_mb = kernel_and_cache
        return Representers(kernel, several(rows(), kernel), cache_mb=cache_mb)

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
            monkeypatch.setattr(module, "VALUES_AT_ONCE", 140)
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


def test_gram_matrices_are_formed_in_tiles(monkeypatch):
    from structinv.functionals import representers

    family = LocalAverage(0.3).bind(rows())
    expected = family.gram(Gaussian()), Gradient().bind(rows()).gram(Gaussian(), family)
    monkeypatch.setattr(representers, "ENTRIES_AT_ONCE", 20)
    np.testing.assert_allclose(family.gram(Gaussian()), expected[0], atol=1e-14)
    again = Gradient().bind(rows()).gram(Gaussian(), family)
    np.testing.assert_allclose(again, expected[1], atol=1e-14)
