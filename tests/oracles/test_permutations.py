"""`Permutations` of rows, or of rows and columns, of matrices."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from structinv import InvariantLinearSVC
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Permutations, Weighted, check_oracle
from structinv.oracles.images.image_maps import ImageShape
from structinv.oracles.listed_changes import averaged


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def molecules(rng, n=6, r=5):
    """Symmetric matrices, some with zero rows and columns."""
    X = rng.standard_normal((n, r, r))
    X = X + X.swapaxes(1, 2)
    X[::3, -2:] = 0.0
    X[::3, :, -2:] = 0.0
    return X.reshape(n, -1)


def shuffled(X, oracle, rng):
    """Permute every matrix differently."""
    found = np.empty_like(X)
    for row, x in enumerate(X):
        matrix = x.reshape(oracle.shape)
        order = rng.permutation(len(matrix))
        columns = order if oracle.axes == "both" else np.arange(matrix.shape[1])
        found[row] = matrix[np.ix_(order, columns)].ravel()
    return found


def reordered(x, oracle):
    matrix = x.reshape(oracle.shape)
    for order in itertools.permutations(range(len(matrix))):
        columns = list(order) if oracle.axes == "both" else slice(None)
        yield matrix[list(order)][:, columns].ravel()


@pytest.mark.parametrize(
    "oracle",
    [
        Permutations((4, 2)),
        Permutations((1, 8)),
        Permutations((8, 1)),
        Permutations((2, 4), noise=np.inf),
        Permutations([np.int64(4), 2], noise=0),
        Permutations(ImageShape(4, 2)),
    ],
)
def test_row_permutations_pass_check_oracle(oracle, rng):
    check_oracle(oracle, rng.standard_normal((6, 8)))


@pytest.mark.parametrize("r", [1, 3])
def test_permutations_of_both_axes_pass_check_oracle(r, rng):
    check_oracle(Permutations((r, r), "both"), rng.standard_normal((6, r * r)))


@pytest.mark.parametrize("oracle", [Permutations((3, 3)), Permutations((3, 3), "both")])
def test_the_orbit_lists_the_group(oracle, rng):
    X = rng.standard_normal((4, 9))
    orbit = oracle.orbit(X)
    for x, members in zip(X, orbit, strict=True):
        np.testing.assert_array_equal(members, list(reordered(x, oracle)))
    assert len(oracle.changes(X).names) == 6
    law = averaged(oracle, 9)
    np.testing.assert_array_equal(law.on(X).members(), orbit)
    np.testing.assert_array_equal(law.weights, 1 / 6)


@pytest.mark.parametrize("oracle", [Permutations((6, 2)), Permutations((4, 4), "both")])
def test_support_is_the_maximum_over_the_list(oracle, rng):
    d = oracle.shape[0] * oracle.shape[1]
    X, V = rng.standard_normal((5, d)), rng.standard_normal((3, d))
    assign = np.array([0, 2, 1, 1, 0])
    answer = oracle.support(X, V, assign)
    assert answer.upper is None
    wanted = [max(z @ V[a] for z in reordered(x, oracle)) for x, a in zip(X, assign, strict=True)]
    np.testing.assert_allclose(np.einsum("nd,nd->n", answer.points, V[assign]), wanted, rtol=1e-12)
    assert all(oracle.contains(x, z) for x, z in zip(X, answer.points, strict=True))


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize(
    "oracle", [Permutations((5, 5), "both"), Permutations((5, 5)), Permutations((12, 2))]
)
def test_members_do_not_depend_on_the_order_of_the_input(oracle, noise, rng):
    oracle = clone(oracle).set_params(noise=noise)
    d = oracle.shape[0] * oracle.shape[1]
    X = molecules(rng) if d == 25 else rng.standard_normal((6, d))
    law = averaged(oracle, d, 7, 3)
    wanted = law.on(X).members()
    assert noise == 0 or len(np.unique(wanted[1], axis=0)) > 1
    for _ in range(5):
        np.testing.assert_array_equal(law.on(shuffled(X, oracle, rng)).members(), wanted)


@pytest.mark.parametrize("axes", ["rows", "both"])
def test_draws_are_sorts_by_norm_plus_noise(axes, rng):
    X, size = molecules(rng), 4
    members = averaged(Permutations((5, 5), axes, noise=0.3), 25, size, 11).on(X).members()
    noise = 0.3 * np.random.default_rng(11).standard_normal((size, 5))
    for x, found in zip(X, members, strict=True):
        matrix = x.reshape(5, 5)
        norms = np.linalg.norm(matrix, axis=1)
        ranked = np.argsort(-norms, kind="stable")
        for z, shift in zip(found, noise, strict=True):
            order = ranked[np.argsort(-(norms[ranked] + shift), kind="stable")]
            columns = order if axes == "both" else np.arange(5)
            np.testing.assert_array_equal(z.reshape(5, 5), matrix[np.ix_(order, columns)])


def test_infinite_noise_draws_uniform_permutations(rng):
    law = averaged(Permutations((3, 3), "both", noise=np.inf), 9, 6000, 2)
    X, V = rng.standard_normal((2, 9)), rng.standard_normal((3, 9))
    members = law.on(X).members()
    np.testing.assert_allclose(
        np.einsum("spd,nd->nsp", law.adjoint(V), X), members @ V.T, rtol=1e-12, atol=1e-12
    )
    _, counts = np.unique(members[0], axis=0, return_counts=True)
    assert len(counts) == 6
    # Six standard deviations of a count.
    assert np.all(np.abs(counts - 1000) < 6 * np.sqrt(1000 * 5 / 6))


class TestContains:
    def test_permuted_rows_are_members_up_to_rounding(self):
        x = np.array([1.0, 5.0, 1.0 + 1e-15, 2.0, 3.0, 3.0])
        z = np.array([1.0, 2.0, 3.0, 3.0, 1.0 + 1e-15, 5.0])
        assert Permutations((3, 2)).contains(x, z)
        assert not Permutations((3, 2)).contains(x, z + np.eye(6)[0] * 1e-3)
        assert not Permutations((3, 2)).contains(x, np.array([1.0, 2.0, 1.0, 2.0, 3.0, 3.0]))

    def test_both_axes_require_a_list(self, rng):
        x = rng.standard_normal(9)
        oracle = Permutations((3, 3), "both")
        assert oracle.contains(x, oracle.orbit(x[None])[0, 4])
        assert not oracle.contains(x, Permutations((3, 3)).orbit(x[None])[0, 4])
        with pytest.raises(NotImplementedError, match="does not define contains for more than 6 rows"):
            Permutations((7, 7), "both").contains(np.ones(49), np.ones(49))


class TestRefused:
    def test_large_groups_require_n_draws(self):
        for axes in ("rows", "both"):
            with pytest.raises(ValueError, match="n_draws must be an integer, because Permutations"):
                averaged(Permutations((7, 7), axes), 49)
        assert Permutations((6, 1)).finite
        assert not Permutations((7, 1)).finite
        assert not Permutations((10**6, 1)).finite

    def test_large_quadratic_assignments_raise(self, rng):
        X, y = rng.standard_normal((6, 49)), np.arange(6) % 2
        with pytest.raises(NotImplementedError, match="and 7 x 7 matrices.*quadratic"):
            InvariantLinearSVC(Permutations((7, 7), "both")).fit(X, y)
        with pytest.raises(NotImplementedError, match="not support grades of more than 6 rows"):
            Permutations((7, 7)).discounted(0.5).support(X, np.ones((1, 49)), np.zeros(6, int))


def test_kernels_of_uneven_orders_weigh_each_pair():
    x, z = np.random.default_rng(0).standard_normal((2, 3, 6))
    weights = np.arange(1.0, 7.0) / 21.0
    found = OrbitMean(Weighted(Permutations((3, 2)), 5.0 * weights), Gaussian(0.7)).matrix(x, z)
    left, right = (Permutations((3, 2)).orbit(each) for each in (x, z))
    values = Gaussian(0.7).matrix(left.reshape(-1, 6), right.reshape(-1, 6)).reshape(3, 6, 3, 6)
    np.testing.assert_allclose(found, np.einsum("iajb,a,b->ij", values, weights, weights), rtol=1e-12)
