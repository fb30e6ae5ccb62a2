"""`Trajectory` and `Sampled`: polynomial curves and lists of members from a function."""

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.oracles import Ellipsoid, Sampled, TangentDerivative, Trajectory, check_oracle
from structinv.utils.exceptions import CheckError
from structinv.utils.matrices import ALL_ROWS

from .oracle_cases import D, row_powers, rows


def bends(X):
    """Coefficients up to the fifth power, (n, 5, d)."""
    parts = [np.roll(X, 1, axis=1), -(X**2), np.sin(3 * X), 0.0 * X, np.roll(X, 2, axis=1) - 0.5]
    return np.stack(parts, axis=1)


def along(X, t, powers):
    return X[:, None] + np.einsum("sk,nkd->nsd", t[:, None] ** np.arange(1, powers.shape[1] + 1), powers)


@pytest.mark.parametrize(
    ("oracle", "error", "message"),
    [
        (Trajectory(row_powers, 2, (0.5, 1.0)), ValueError, r"interval must contain 0.*\(0.5, 1.0\)"),
        (Trajectory(row_powers, 2, (1.0, -1.0)), ValueError, "low <= high"),
        (Trajectory(row_powers, 2, (-1.0, np.nan)), ValueError, "interval must be a finite number"),
        (Trajectory(row_powers, 2, 1.0), TypeError, "interval must be a pair"),
        (Trajectory(row_powers, 0), ValueError, "degree must be an integer of at least 1, got 0"),
        (Trajectory(row_powers, 2, resolution=1), ValueError, "resolution"),
        (Trajectory("powers", 2), TypeError, "function must be callable, got 'powers'"),
        (Trajectory(row_powers, 3), ValueError, r"function must return coefficients of shape"),
        (Trajectory(lambda X: X, 1), ValueError, r"of shape \(8, 1, 5\), got \(8, 5\)"),
        (Trajectory(lambda X: np.nan * X[:, None], 1), ValueError, "coefficients that are not finite"),
        (Trajectory(lambda X: 1j * X[:, None], 1), TypeError, "coefficients as real numbers"),
    ],
)
def test_invalid_parameters_and_functions_raise_with_their_name(oracle, error, message):
    X, y = rows()
    with pytest.raises(error, match=message):
        oracle.bind(X, y)
    with pytest.raises(error, match=message):
        oracle.support(X, np.ones((1, D)), np.zeros(len(X), dtype=int))


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 2.0), (-0.7, 0.0), (0.0, 0.0)])
def test_support_is_at_least_the_maximum_on_a_dense_grid(ends):
    X, y = rows(3)
    oracle = Trajectory(bends, 5, ends)
    check_oracle(oracle, X, y)
    V, assign = np.random.default_rng(0).standard_normal((3, D)), np.arange(len(X)) % 3
    reached = np.sum(oracle.support(X, V, assign).points * V[assign], axis=1)
    grid = along(X, np.linspace(*ends, 20001), bends(X))
    best = np.einsum("nsd,nd->ns", grid, V[assign]).max(axis=1)
    assert np.all(reached >= best - 1e-12)
    np.testing.assert_allclose(reached, best, rtol=0, atol=1e-5)


def test_the_function_is_called_once_for_all_rows():
    calls = []

    def counted(X):
        calls.append(len(X))
        return row_powers(X)

    X, y = rows()
    bound = Trajectory(counted, 2).bind(X, y)
    none = np.zeros(3, dtype=int)
    for part in (slice(0, 3), np.array([1, 4, 7])):
        bound.support(part, np.ones((1, D)), none)
        bound.changes().points(part, none + 1)
        bound.changes().refine(part, none, lambda z: z[:, 0])
        bound.changes().members(part)
        bound.changes().mesh(part)
        bound.sample(part, 2, np.random.default_rng(0))
    # The last row once more by itself, to see that it is answered alike.
    assert calls == [len(X), 1]


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 2.0), (-0.3, 0.5)])
def test_the_mesh_bounds_the_distance_from_the_cover(ends):
    X, _ = rows(4)
    oracle = Trajectory(bends, 5, ends, resolution=12)
    cover = oracle.changes(X)
    np.testing.assert_array_equal(cover.members()[:, 0], X)
    members = along(X, np.linspace(*ends, 3001), bends(X))
    for z, points, mesh in zip(members, cover.members(), cover.mesh(), strict=True):
        away = np.linalg.norm(z[:, None] - points, axis=2).min(axis=1).max()
        assert away <= mesh
    line = Trajectory(lambda X: X[:, None], 1, ends, resolution=12)
    mesh = line.changes(X).mesh()
    members = line.sample(X, 20000, np.random.default_rng(0))
    for z, points, bound in zip(members, line.changes(X).members(), mesh, strict=True):
        assert np.linalg.norm(z[:, None] - points, axis=2).min(axis=1).max() >= 0.99 * bound


def test_refine_finds_members_between_grid_points():
    X, _ = rows(4)
    oracle = Trajectory(bends, 5, (-0.2, 0.3), resolution=7)
    target = oracle.sample(X, 1, np.random.default_rng(1))[:, 0]
    cover = oracle.changes(X)
    nearest = np.argmin(np.linalg.norm(cover.members() - target[:, None], axis=2), axis=1)
    found = oracle.changes(X).refine(ALL_ROWS, nearest, lambda z: -np.linalg.norm(z - target, axis=1))
    assert np.max(np.linalg.norm(found - target, axis=1)) < 1e-3


def test_member_names_have_the_parameter_values():
    X, _ = rows()
    oracle = Trajectory(row_powers, 2, (-0.5, 1.0), resolution=4)
    assert oracle.bind(X).changes().names == ["identity", "t = -0.5", "t = 0.5", "t = 1"]
    wanted = X + 0.5 * row_powers(X)[:, 0] + 0.25 * row_powers(X)[:, 1]
    np.testing.assert_allclose(oracle.changes(X).members()[:, 2], wanted, rtol=1e-15)
    np.testing.assert_array_equal(oracle.tangents(X), row_powers(X)[:, :1])


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (None, TypeError, "function must be callable, got None"),
        (lambda X: X, ValueError, r"function must return members of shape \(., s, 5\), got"),
        (lambda X: X[:, None, 1:], ValueError, "function must return members of shape"),
        (lambda X: np.inf + X[:, None], ValueError, "members that are not finite"),
        (lambda X: X.tolist(), TypeError, "function must return members as an array"),
    ],
)
def test_invalid_members_raise_with_the_function(function, error, message):
    X, y = rows()
    for ask in (
        lambda: Sampled(function).orbit(X),
        lambda: InvariantLinearSVC(Sampled(function)).fit(X, y),
    ):
        with pytest.raises(error, match=message):
            ask()


def test_functions_that_are_not_pure_per_sample_raise():
    X, y = rows()
    rng = np.random.default_rng(0)

    def centered(X):
        return (X - X.mean(axis=0))[:, None]

    def drawn(X):
        return rng.standard_normal((len(X), 1, X.shape[1]))

    def spoil(X):
        X *= 2.0
        return X[:, None]

    before = X.copy()
    for make in (
        Sampled,
        lambda f: Trajectory(f, 1),
        lambda f: TangentDerivative(f, 0.1),
        lambda f: Ellipsoid(lambda X: f(X).swapaxes(1, 2), 0.1),
    ):
        for function in (centered, drawn):
            with pytest.raises((CheckError, ValueError)):
                check_oracle(make(function), X, y)
            with pytest.raises(ValueError, match="the same .* for a row in every call"):
                InvariantLinearSVC(make(function)).fit(X, y)
        with pytest.raises(ValueError, match="must not change its inputs"):
            InvariantLinearSVC(make(spoil)).fit(X, y)
        np.testing.assert_array_equal(X, before)
