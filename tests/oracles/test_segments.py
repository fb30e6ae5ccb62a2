"""Lines and curves around a row: `Segment`, `Offset`, `Trajectory`, `Sampled` and `LocalTangents`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC, LinearSVC

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.datasets import make_signals
from structinv.oracles import (
    Ellipsoid,
    FiniteOracle,
    LocalTangents,
    Offset,
    Protected,
    Sampled,
    Segment,
    TangentDerivative,
    Trajectory,
    check_oracle,
    local_tangents,
)
from structinv.oracles.local_tangents import _nearest
from structinv.utils.exceptions import CheckError
from structinv.utils.matrices import ALL_ROWS

from .cases import D, row_powers, rows


def bends(X):
    """Coefficients up to the fifth power, (n, 5, d)."""
    parts = [np.roll(X, 1, axis=1), -(X**2), np.sin(3 * X), 0.0 * X, np.roll(X, 2, axis=1) - 0.5]
    return np.stack(parts, axis=1)


def along(X, t, powers):
    return X[:, None] + np.einsum("sk,nkd->nsd", t[:, None] ** np.arange(1, powers.shape[1] + 1), powers)


LINES = [Segment(0.3, 1.7, resolution=5), Segment(0.1, 1.0), Offset(0.8, resolution=6)]


class Mirrored(FiniteOracle):
    """Reverse the features."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


class Doubled(FiniteOracle):
    """The row and its double."""

    def orbit(self, X):
        return np.stack([X, 2.0 * X], axis=1)


ENDS = [(-1.0, 1.0), (0.0, 2.0), (-0.3, 0.5)]
# Covers, and the least share of the mesh that a member is away from them.
COVERS = [(line, 0.99) for line in LINES]
COVERS += [(Trajectory(lambda X: X[:, None], 1, ends, resolution=12), 0.99) for ends in ENDS]
COVERS += [(Trajectory(bends, 5, ends, resolution=12), 0.0) for ends in ENDS]
COVERS += [(LINES[2] @ LINES[0], 0.5), (LINES[0] @ Mirrored(), 0.5), (LINES[0] @ Doubled(), 0.5)]


@pytest.mark.parametrize(("oracle", "tight"), COVERS)
def test_the_mesh_is_the_largest_distance_from_the_cover(oracle, tight):
    X, _ = rows()
    cover = oracle.changes(X)
    np.testing.assert_array_equal(cover.members()[:, 0], X)
    members = oracle.sample(X, 20000, np.random.default_rng(0))
    for z, points, mesh in zip(members, cover.members(), cover.mesh(), strict=True):
        away = np.linalg.norm(z[:, None] - points, axis=2).min(axis=1).max()
        assert tight * mesh <= away <= mesh * (1 + 1e-12) + 1e-15


def test_the_mesh_of_a_segment_after_an_offset_is_infinite():
    assert np.all(np.isinf((Segment(0.3, 1.7) @ Offset(0.8)).changes(rows()[0]).mesh()))


# The bound between the points of the cover is wider than the gap asked for.
@pytest.mark.filterwarnings("ignore:InvariantSVC ended with status 'oracle too coarse'")
def test_compositions_of_factor_and_offset_are_certified():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.where(y[:, None] == 1, [2.0, -2.0], [-2.0, 2.0]) + 0.1 * rng.standard_normal((40, 2))
    oracle = Offset(0.5, resolution=33) @ Segment(0.8, 1.25, resolution=33)
    model = InvariantSVC(oracle, C=10.0, gamma=0.2, tol=0.1).fit(X, y)
    assert model.solution_.relative_gap < 1.0
    assert model.certify(X, y).accuracy == 1.0


def test_member_names_have_factors_and_offsets():
    X, _ = rows()
    assert Segment(0.5, 2.0, resolution=4).changes(X).names == ["identity", "x 0.5", "x 1.5", "x 2"]
    assert Offset(1.0, resolution=3).bind(X).changes().names == ["identity", "-1", "+1"]
    np.testing.assert_array_equal(Segment(0.5, 2.0, resolution=4).changes(X).members()[:, 1], X / 2)
    np.testing.assert_array_equal(Offset(1.0, resolution=3).changes(X).members()[:, 2], X + 1)
    assert Segment(1, 1).bind(X).changes().names == ["identity"]
    np.testing.assert_array_equal(Segment(1, 1).changes(X).mesh(), 0.0)


@pytest.mark.parametrize(
    "oracle",
    [*LINES, Trajectory(bends, 5, (-0.2, 0.3), resolution=7), Protected(Segment(0.3, 1.7), [0, 3])],
)
def test_refining_finds_the_nearest_member_to_a_point_on_the_line(oracle):
    X, _ = rows()
    target = oracle.sample(X, 1, np.random.default_rng(1))[:, 0]
    cover = oracle.changes(X)
    nearest = np.argmin(np.linalg.norm(cover.members() - target[:, None], axis=2), axis=1)
    found = oracle.changes(X).refine(ALL_ROWS, nearest, lambda z: -np.linalg.norm(z - target, axis=1))
    assert np.max(np.linalg.norm(found - target, axis=1)) < 1e-3
    with pytest.raises(ValueError, match="index must contain 8 numbers from 0"):
        oracle.changes(X).points(ALL_ROWS, np.full(len(X), 99))


def standardized(X):
    X = X - X.mean(axis=1, keepdims=True)
    return X / X.std(axis=1, keepdims=True)


def test_the_seed_decides():
    X, y = make_signals(30, 20, random_state=3)
    again, y_again = make_signals(30, 20, random_state=np.random.RandomState(3))
    assert np.array_equal(X, again)
    assert np.array_equal(y, y_again)
    assert X.shape == (30, 20)
    assert X.dtype == np.float64
    assert not np.array_equal(X, make_signals(30, 20, random_state=4)[0])


def test_both_classes_are_in_the_smallest_draw():
    for seed in range(20):
        assert sorted(make_signals(2, random_state=seed)[1]) == ["rest", "task"]


def test_scale_and_offset_change_only_factor_and_constant():
    settings = {"n_features": 40, "noise": 0.0, "random_state": 0}
    plain, y = make_signals(200, scale=(1.0, 1.0), offset=0.0, **settings)
    moved, y_moved = make_signals(200, scale=(0.5, 3.0), offset=1.5, **settings)
    assert np.array_equal(y, y_moved)
    ones = np.ones(40)
    found = np.array([
        np.linalg.lstsq(np.column_stack([row, ones]), changed, rcond=None)[0]
        for row, changed in zip(plain, moved, strict=True)
    ])  # fmt: skip
    rebuilt = found[:, :1] * plain + found[:, 1:]
    np.testing.assert_allclose(rebuilt, moved, atol=1e-12)
    factors, levels = found.T
    assert 0.5 <= factors.min() < 0.6 < 2.5 < factors.max() <= 3.0
    assert -1.5 <= levels.min() < -1.3 < 1.3 < levels.max() <= 1.5
    # Log-uniform: the middle of the factors is the geometric mean of the limits.
    assert np.median(factors) == pytest.approx(np.sqrt(1.5), rel=0.15)
    assert abs(np.log(factors)[y == "task"].mean() - np.log(factors)[y == "rest"].mean()) < 0.25


def test_noise_is_not_multiplied():
    settings = {"n_features": 32, "offset": 0.0, "random_state": 0}
    for scale in ((0.1, 0.1), (5.0, 5.0)):
        without, _ = make_signals(100, scale=scale, noise=0.0, **settings)
        noisy, _ = make_signals(100, scale=scale, noise=0.3, **settings)
        assert np.std(noisy - without) == pytest.approx(0.3, rel=0.05)


def test_the_quicker_rhythm_is_the_task():
    X, y = make_signals(400, 64, noise=0.0, random_state=1)
    power = np.abs(np.fft.rfft(standardized(X), axis=1)) ** 2
    turns = np.argmax(power[:, 2:7], axis=1) + 2
    assert np.mean(turns[y == "rest"] <= 3) > 0.9
    assert np.mean(turns[y == "task"] >= 4) > 0.9


def test_classes_are_separable_only_after_normalization():
    X, y = make_signals(200, random_state=0)
    X_new, y_new = make_signals(500, random_state=1)
    assert LinearSVC(C=0.1).fit(standardized(X), y).score(standardized(X_new), y_new) < 0.6
    plain = SVC(gamma=0.03, C=10).fit(X, y).score(X_new, y_new)
    easy = SVC(gamma=0.03, C=10).fit(standardized(X), y).score(standardized(X_new), y_new)
    assert plain < 0.88 < 0.94 < easy


BAD = {
    "n_samples": [1, True],
    "n_features": [15, 20.0],
    "scale": [2.0, (0.0, 1.0), (2.0, 1.0), (1.0, np.inf), (0.5, 1.0, 2.0), "12"],
    "offset": [-0.1, "much"],
    "noise": [np.nan, -1],
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments_of_signals_are_errors(name):
    for value in BAD[name]:
        with pytest.raises((TypeError, ValueError), match=f"{name} must .*got"):
            make_signals(**{name: value})


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


def test_member_names_have_the_parameter_values():
    X, _ = rows()
    oracle = Trajectory(row_powers, 2, (-0.5, 1.0), resolution=4)
    assert oracle.bind(X).changes().names == ["identity", "t = -0.5", "t = 0.5", "t = 1"]
    wanted = X + 0.5 * row_powers(X)[:, 0] + 0.25 * row_powers(X)[:, 1]
    np.testing.assert_allclose(oracle.changes(X).members()[:, 2], wanted, rtol=1e-15)
    np.testing.assert_array_equal(oracle.tangents(X), row_powers(X)[:, :1])


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


RNG = np.random.default_rng(0)
REFERENCE = RNG.standard_normal((40, 3)) @ RNG.standard_normal((3, 6))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 5),
    m=st.integers(2, 30),
    d=st.integers(1, 130),
    offset=st.sampled_from([0.0, 1e3, 1e8]),
)
def test_neighbors_match_brute_force(seed, n, m, d, offset):
    rng = np.random.default_rng(seed)
    # Whole numbers, so that there are equal distances, without rounding.
    rows, reference = (offset + rng.integers(0, 3, (count, d)) for count in (n, m))
    size = int(rng.integers(1, m + 1))
    found = _nearest(rows, reference, size)
    distances = ((rows[:, None] - reference[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found, np.argsort(distances, axis=1, kind="stable")[:, :size])


def test_stored_members_are_compared_with_their_grades():
    X, rho = rows()[0], [1.0, 0.2, 0.7]
    oracle = Sampled(lambda X: np.stack([2.0 * X, X**2], axis=1))
    V, assign = np.random.default_rng(0).standard_normal((2, D)), np.arange(len(X)) % 2
    cost = np.linspace(0.0, 3.0, len(X))
    found = oracle.bind(X).support(ALL_ROWS, V, assign, cost, rho)
    values = np.einsum("isj,ij->is", oracle.orbit(X), V[assign]) + cost[:, None] * rho
    reached = np.einsum("ij,ij->i", found.points, V[assign]) + cost * found.rho
    np.testing.assert_allclose(reached, values.max(axis=1))


def test_members_of_other_rows_are_listed_anew():
    X, others = rows()[0], rows(1)[0]
    oracle = Sampled(lambda X: np.stack([2.0 * X, X**2], axis=1))
    listed = oracle.bind(X).changes()
    np.testing.assert_array_equal(listed.members(), oracle.orbit(X))
    np.testing.assert_array_equal(listed.on(others).members(), oracle.orbit(others))
    np.testing.assert_array_equal(listed.on(others[:2]).members(), oracle.orbit(others[:2]))


def test_rounding_excludes_no_neighbor_at_an_equal_distance():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        # In few dimensions, many distances of whole numbers are equal.
        X, reference = (rng.integers(0, 3, (count, 3)).astype(float) for count in (5, 25))
        squares = ((X[:, None] - reference[None]) ** 2).sum(axis=2)
        wanted = np.argsort(squares, axis=1, kind="stable")[:, :6]
        np.testing.assert_array_equal(_nearest(X, reference, 6), wanted)


def test_directions_do_not_depend_on_the_blocks_of_rows(monkeypatch):
    X = RNG.standard_normal((30, REFERENCE.shape[1]))
    oracle = LocalTangents(REFERENCE, n_directions=2, n_neighbors=6)
    single = np.concatenate([oracle.tangents(x[None]) for x in X])
    monkeypatch.setattr(local_tangents, "_ROWS_AT_ONCE", 7)
    # Some rows at a time, then some pairs at a time.
    for size in (4 * len(REFERENCE), 5 * REFERENCE.shape[1]):
        monkeypatch.setattr(local_tangents, "_DISTANCES", size)
        directions = oracle.tangents(X)
        # The signs of tangents are arbitrary.
        for found, wanted in zip(directions, single, strict=True):
            np.testing.assert_allclose(found.T @ found, wanted.T @ wanted, atol=1e-10)


def test_ties_of_distances_go_to_the_first_samples():
    X = RNG.standard_normal((60, 6))
    oracle = LocalTangents(REFERENCE, n_directions=2, n_neighbors=6)
    # Twins of reference rows, as resampling makes them.
    twice = LocalTangents(np.vstack([REFERENCE, REFERENCE]), n_directions=2, n_neighbors=12)
    np.testing.assert_allclose(
        np.linalg.norm(twice.tangents(X), axis=2) * np.sqrt(11 / 10),
        np.linalg.norm(oracle.tangents(X), axis=2),
    )
