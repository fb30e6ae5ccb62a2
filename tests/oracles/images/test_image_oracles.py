"""Geometric changes of images, against SciPy, enumeration and dense sampling of the parameter."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, stats
from sklearn.base import clone
from sklearn.datasets import load_digits

from structinv.oracles import (
    Box,
    Flip,
    ImageOracle,
    Rotations,
    Scalings,
    Shears,
    Shifts,
    check_oracle,
    teo2007_transforms,
)
from structinv.oracles.images.image_maps import ImageShape
from structinv.utils.matrices import ALL_ROWS

from ...covering import each_once

SCIPY_MODES = {"zero": "grid-constant", "nearest": "nearest", "reflect": "reflect", "wrap": "grid-wrap"}
SHAPES = [(5, 5), (4, 7), (6, 3, 3), ImageShape(3, 4, 2)]
FAMILIES = [
    Rotations((-25, 90, 130)),
    Shifts([1, 2.3], directions=8),
    Scalings([0.7, 1.4]),
    Shears([-0.3, 0.6]),
    Flip(0),
    Flip(1),
]
CONTINUOUS = [
    Rotations(interval=(-20, 35)),
    Rotations(interval=(10, 20)),
    Rotations(interval=(-180, 180), resolution=5),
    Shifts(interval=(0, 2.5), directions=8),
    Scalings(interval=(0.6, 1.5)),
    Shears(interval=(-0.4, 0.2)),
]


@cache
def digits():
    return load_digits(return_X_y=True)


def images(shape, n=3, seed=0, dtype=np.float64):
    size = np.prod(shape) if isinstance(shape, tuple) else shape.size
    return np.random.default_rng(seed).uniform(0, 255, (n, int(size))).astype(dtype)


def whole(shape):
    return shape if isinstance(shape, ImageShape) else ImageShape(*shape)


def with_params(oracle, **params):
    known = oracle.get_params()
    return clone(oracle).set_params(**{k: v for k, v in params.items() if k in known})


def source_maps(oracle):
    """Matrices and shifts from output to source, from the definitions and not from the oracle."""
    if isinstance(oracle, Rotations):
        angles = np.radians(oracle.degrees)
        return [(np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]]), 0) for t in angles]
    if isinstance(oracle, Shifts):
        steps = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
        steps = steps[: oracle.directions]
        return [(np.eye(2), -t * np.array(u)) for t in oracle.pixels for u in steps]
    if isinstance(oracle, Scalings):
        return [(np.eye(2) / t, 0) for t in oracle.factors]
    if isinstance(oracle, Shears):
        pairs = [([[1, -t], [0, 1]], [[1, 0], [-t, 1]]) for t in oracle.factors]
        return [(np.array(m), 0) for pair in pairs for m in pair]
    return [(np.diag([-1.0, 1.0] if oracle.axis == 0 else [1.0, -1.0]), 0)]


def scipy_orbit(oracle, X, shape, order=1, mode="grid-constant", cval=0.0):
    shape = whole(shape)
    pictures = X.reshape(len(X), shape.height, shape.width, shape.channels)
    center = np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    orbit = [X]
    for matrix, shift in source_maps(oracle):
        out = np.empty(pictures.shape)
        for i in range(len(X)):
            for k in range(shape.channels):
                out[i, :, :, k] = ndimage.affine_transform(
                    pictures[i, :, :, k], matrix, center - matrix @ center + shift,
                    order=order, mode=mode, cval=cval, prefilter=False,
                )  # fmt: skip
        orbit.append(out.reshape(len(X), -1))
    return np.stack(orbit, axis=1)


@pytest.mark.parametrize("fill", SCIPY_MODES)
@pytest.mark.parametrize("oracle", FAMILIES, ids=repr)
def test_transformed_images_equal_those_of_scipy(oracle, fill):
    for shape in SHAPES:
        X = images(shape)
        got = with_params(oracle, shape=shape, fill=fill).orbit(X)
        mode = "grid-constant" if isinstance(oracle, Flip) else SCIPY_MODES[fill]
        wanted = scipy_orbit(oracle, X, shape, mode=mode)
        np.testing.assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.parametrize("fill", ["zero", "nearest", "wrap"])
@pytest.mark.parametrize("shape", [(8, 8), (7, 4)], ids=str)
def test_order_zero_is_the_nearest_pixel(shape, fill):
    # Sources that no rounding error can move to another pixel.
    for oracle in (Rotations([17, -33]), Scalings([0.83, 1.27]), Shears([-0.31, 0.17]), Shifts(1.3)):
        listed = with_params(oracle, pixels=(1.3,))
        X = images(shape)
        got = with_params(listed, shape=shape, fill=fill, order=0).orbit(X)
        np.testing.assert_array_equal(got, scipy_orbit(listed, X, shape, 0, SCIPY_MODES[fill]))


def keys(u):
    u = abs(u)
    if u <= 1:
        return 1.5 * u**3 - 2.5 * u**2 + 1
    return -0.5 * u**3 + 2.5 * u**2 - 4 * u + 2 if u < 2 else 0.0


def test_order_three_is_the_convolution_of_keys():
    shape = (6, 9)
    X = images(shape, n=2)
    got = Rotations(23, shape=shape, order=3, fill="nearest").orbit(X)[:, 1]
    center = np.array([2.5, 4.0])
    matrix = source_maps(Rotations((23,)))[0][0]
    for place in np.ndindex(shape):
        r, c = center + matrix @ (np.array(place) - center)
        value = np.zeros(len(X))
        for i in range(int(np.floor(r)) - 1, int(np.floor(r)) + 3):
            for j in range(int(np.floor(c)) - 1, int(np.floor(c)) + 3):
                pixel = np.clip(i, 0, 5), np.clip(j, 0, 8)
                value += keys(r - i) * keys(c - j) * X.reshape(-1, *shape)[:, pixel[0], pixel[1]]
        np.testing.assert_allclose(got.reshape(-1, *shape)[:, place[0], place[1]], value, atol=1e-9)


@pytest.mark.parametrize("order", [0, 1, 3])
def test_quarter_rotations_whole_shifts_and_flips_are_exact(order):
    X = images((5, 5, 2))
    pictures = X.reshape(-1, 5, 5, 2)
    options = {"shape": (5, 5, 2), "order": order}
    turns = Rotations((90, 180, -90), **options).orbit(X).reshape(-1, 4, 5, 5, 2)
    for member, quarters in ((1, 1), (2, 2), (3, 3)):
        np.testing.assert_array_equal(turns[:, member], np.rot90(pictures, quarters, axes=(1, 2)))
    shifts = Shifts([0, 2], directions=8, fill="wrap", **options)
    for picture, step in zip(
        np.moveaxis(shifts.orbit(X), 1, 0).reshape(-1, 3, 5, 5, 2),
        [(0, 0), (-2, 0), (2, 0), (0, -2), (0, 2), (-2, -2), (-2, 2), (2, -2), (2, 2)],
        strict=True,
    ):
        np.testing.assert_array_equal(picture, np.roll(pictures, step, axis=(1, 2)))
    down = Shifts(2, **options).orbit(X).reshape(-1, 5, 5, 5, 2)[:, 2]
    np.testing.assert_array_equal(down[:, 2:], pictures[:, :3])
    assert not np.any(down[:, :2])
    mirrored = Flip(shape=(5, 5, 2)).orbit(X)[:, 1].reshape(-1, 5, 5, 2)
    np.testing.assert_array_equal(mirrored, pictures[:, :, ::-1])


@pytest.mark.parametrize("oracle", FAMILIES[:-2], ids=repr)
def test_a_number_as_fill_is_the_background(oracle):
    shape = (4, 7)
    X = images(shape)
    white = with_params(oracle, shape=shape, fill=255)
    assert white.changes(X).adjoint(np.ones((1, 28))) is None
    got = white.orbit(X)
    wanted = scipy_orbit(oracle, X, shape, cval=255.0)
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    np.testing.assert_allclose(white.orbit(np.full((1, 28), 255.0)), 255.0)
    V = np.random.default_rng(1).standard_normal((2, 28))
    scores = white.changes(X).scores(ALL_ROWS, V)
    np.testing.assert_allclose(scores, np.einsum("nsd,pd->nsp", got, V), atol=1e-8)
    assert with_params(oracle, shape=shape, fill=0).changes(X).adjoint(V) is not None


@settings(max_examples=20)
@given(
    sides=st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3)),
    value=st.floats(-3, 3),
    order=st.sampled_from([0, 1, 3]),
    fill=st.sampled_from(sorted(SCIPY_MODES)),
    seed=st.integers(0, 99),
)
def test_adjoint_is_the_transpose(sides, value, order, fill, seed):
    options = {"shape": sides, "order": order, "fill": fill}
    X = images(sides, 2, seed)
    V = np.random.default_rng(seed).standard_normal((3, X.shape[1]))
    for oracle in (
        Rotations([60 * value, 7], **options),
        Shifts(abs(value), directions=8, **options),
        Scalings(np.exp(value / 3), **options),
        Shears(value, **options),
        Flip(seed % 2, shape=sides),
    ):
        orbit, maps = oracle.orbit(X), oracle.changes(X).adjoint(V)
        wanted = np.einsum("nsd,pd->nsp", orbit, V)
        np.testing.assert_allclose(np.einsum("nd,spd->nsp", X, maps), wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(oracle.changes(X).scores(ALL_ROWS, V), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("oracle", "fill"), each_once(FAMILIES, ["zero", 255.0]), ids=str)
def test_support_is_the_best_image_for_few_and_many_directions(oracle, fill):
    oracle = with_params(oracle, shape=(4, 7, 2), fill=fill)
    X = images((4, 7, 2), n=40)
    orbit, rng = oracle.orbit(X), np.random.default_rng(3)
    grades, cost = np.r_[1.0, rng.random(orbit.shape[1] - 1)], rng.uniform(0, 1e4, len(X))
    for n_directions in (1, 3, 40):
        V = rng.standard_normal((n_directions, X.shape[1]))
        assign = np.arange(len(X)) % n_directions
        scores = np.einsum("nsd,nd->ns", orbit, V[assign])
        answer = oracle.support(X, V, assign)
        np.testing.assert_allclose(np.sum(answer.points * V[assign], axis=1), scores.max(axis=1))
        assert answer.upper is None
        answer = oracle.support(X, V, assign, cost, list(grades))
        reached = np.sum(answer.points * V[assign], axis=1) + cost * answer.rho
        np.testing.assert_allclose(reached, (scores + cost[:, None] * grades).max(axis=1))


def test_the_identity_and_equal_transformations_are_listed_once():
    X = images((3, 3))
    assert Rotations((0, 10, 10, 360, 370)).orbit(X).shape[1] == 2
    assert Shifts([0, 1]).orbit(X).shape[1] == 5
    assert Scalings((1, 2, 1.0)).orbit(X).shape[1] == 2
    assert Shears([0, 0.1], axes=1).changes(np.zeros((1, 9))).names == ["identity", "shear x 0.1"]
    assert Rotations(-10).changes(np.zeros((1, 9))).names == ["identity", "rotation -10°"]
    assert Shifts(1, directions=8).changes(np.zeros((1, 9))).names[-1] == "shift (1, 1)"
    assert Scalings(0.85).changes(np.zeros((1, 9))).names == ["identity", "scaling 0.85"]
    assert Rotations(interval=(0, 4), resolution=3).changes(np.zeros((1, 9))).names == [
        "identity", "rotation 2°", "rotation 4°",
    ]  # fmt: skip


def members_at(oracle, X, values):
    """Members of a continuous set at many values, by finite oracles of the same family."""
    params = {**oracle.get_params(), "interval": None, oracle.parameter: list(values)}
    return type(oracle)(**params).orbit(X)


def dense_values(oracle, n=401):
    return np.linspace(*oracle.interval, n)


@pytest.mark.parametrize(("oracle", "fill"), each_once(CONTINUOUS, ["zero", "reflect", 255.0]), ids=str)
def test_support_of_an_interval_is_inside_it_and_above_its_cover(oracle, fill):
    oracle = with_params(oracle, fill=fill, resolution=5)
    X = digits()[0][:12]
    V = np.random.default_rng(2).standard_normal((2, 64))
    assign = np.arange(12) % 2
    answer = oracle.support(X, V, assign)
    reached = np.einsum("nd,nd->n", answer.points, V[assign])
    grid = np.einsum("nsd,nd->ns", oracle.changes(X).members(), V[assign]).max(axis=1)
    assert np.all(reached >= grid - 1e-9)
    best = np.einsum("nsd,nd->ns", members_at(oracle, X, dense_values(oracle)), V[assign]).max(axis=1)
    assert np.any(reached > grid + 1e-6) == np.any(best > grid + 1e-6)
    assert np.all(answer.upper >= reached)
    assert np.all(answer.upper <= reached + 1e-11 * 16 * np.abs(V[assign]).sum(axis=1))
    assert not oracle.finite
    assert oracle.changes(X).adjoint(V) is None
    assert oracle.changes(X).scores(ALL_ROWS, V) is None


@pytest.mark.parametrize("oracle", CONTINUOUS, ids=repr)
def test_support_of_other_orders_is_near_the_best_of_many_values(oracle):
    oracle = with_params(oracle, resolution=33, order=3)
    X = digits()[0][:20]
    V = np.random.default_rng(2).standard_normal((1, 64))
    best = (members_at(oracle, X, dense_values(oracle)) @ V[0]).max(axis=1)
    answer = oracle.support(X, V, np.zeros(20, dtype=int))
    assert np.all(answer.upper == np.inf)
    points, same = answer.points, X @ V[0]
    assert np.all(points @ V[0] - same >= 0.95 * (best - same))
    assert np.mean(points @ V[0] - same) >= 0.999 * np.mean(best - same)


@pytest.mark.parametrize("oracle", CONTINUOUS, ids=repr)
def test_refined_images_increase_any_score(oracle):
    oracle = with_params(oracle, shape=(6, 6))
    X = images((6, 6), n=30)
    cover = oracle.changes(X).members()
    rng = np.random.default_rng(0)
    index = rng.integers(cover.shape[1], size=30)
    index[:10] = 0
    near = rng.uniform(0, 255, X.shape)

    def score(z):
        return -np.linalg.norm(z - near, axis=1)

    points = oracle.changes(X).refine(ALL_ROWS, index, score)
    start = oracle.changes(X).points(ALL_ROWS, index)
    np.testing.assert_array_equal(start, cover[np.arange(30), index])
    assert np.all(score(points) >= score(start))
    if oracle.interval != (10, 20):
        assert np.any(score(points)[:10] > score(start)[:10])


@pytest.mark.parametrize("oracle", CONTINUOUS, ids=str)
def test_the_mesh_bounds_the_distance_of_every_image(oracle):
    shape = (4, 5, 2)
    for turn, fill in enumerate(("zero", "nearest", "reflect", "wrap", 255.0), CONTINUOUS.index(oracle)):
        seed, grid = ((0, 3), (1, 9))[turn % 2]
        this = with_params(oracle, shape=shape, fill=fill, resolution=grid)
        X = images(shape, 3, seed)
        X[2] = (X[2] > 200) * 255.0
        cover = this.changes(X)
        points, mesh = cover.members(), cover.mesh()
        members = members_at(this, X, dense_values(this, 161))
        for i in range(len(X)):
            apart = np.linalg.norm(members[i, :, None] - points[i], axis=2).min(axis=1)
            assert apart.max() <= mesh[i] * (1 + 1e-12)
            # Not so loose that it could not fail.
            assert mesh[i] <= 12 * apart.max()
        for order in (0, 3):
            assert np.all(with_params(this, order=order).changes(X).mesh() == np.inf)


@pytest.mark.parametrize(
    "oracle",
    [
        Rotations(interval=(-10, 10), shape=(1, 9), resolution=2),
        Rotations(interval=(-10, 10), shape=(9, 1), resolution=2),
        Rotations(interval=(0, 720), shape=(4, 10), resolution=2, fill="nearest"),
    ],
    ids=repr,
)
def test_the_mesh_bounds_images_on_long_arcs(oracle):
    half = np.indices(oracle.shape)[1] < oracle.shape[1] / 2
    X = 255.0 * np.stack([np.ones(oracle.shape), half]).reshape(2, -1)
    cover, members = oracle.changes(X), members_at(oracle, X, dense_values(oracle))
    apart = np.linalg.norm(members[:, :, None] - cover.members()[:, None], axis=3).min(axis=2)
    assert np.all(apart.max(axis=1) <= cover.mesh() + 1e-9)


def values_of(oracle, drawn, x):
    """The values of drawn members, read off an image whose changes tell them."""
    names = oracle.orbit(x[None])[0]
    return np.array([np.flatnonzero(np.all(names == z, axis=1))[0] for z in drawn])


@pytest.mark.parametrize(
    ("oracle", "density"),
    [
        (Rotations((-30, 10, 60)), lambda t: np.ones(len(t))),
        (Rotations((-30, 10, 60), spread=25), stats.norm(0, 25).pdf),
        (Scalings((0.5, 1.2, 2), spread=0.5), stats.norm(1, 0.5).pdf),
    ],
    ids=lambda value: repr(value) if isinstance(value, (Rotations, Scalings)) else "",
)
def test_random_draws_of_finite_sets_follow_the_density(oracle, density):
    X = images((5, 5), 1)
    drawn = oracle.sample(X, 4000, np.random.default_rng(0))[0]
    counts = np.bincount(values_of(oracle, drawn, X[0]), minlength=4)
    shares = density(np.r_[oracle.neutral, getattr(oracle, oracle.parameter)])
    shares = shares / shares.sum()
    assert stats.chisquare(counts, 4000 * shares).pvalue > 1e-3


def test_an_interval_of_one_value_has_equal_draws():
    oracle = Rotations(interval=(30, 30), spread=5.0)
    members = oracle.sample(images((3, 3)), 2, np.random.default_rng(0))
    np.testing.assert_array_equal(members[:, 0], members[:, 1])


@pytest.mark.parametrize(("spread", "low", "high"), [(20.0, -30.0, 60.0), (5.0, 60.0, 90.0)])
def test_random_rotations_follow_the_density_in_its_tail(spread, low, high):
    # Scores along two sides of a wide ring tell the angle.
    r, c = np.mgrid[-20:21, -20:21]
    X = np.where(np.hypot(r, c) < 18, c, 0.0).reshape(1, -1)
    oracle = Rotations(interval=(low, high), spread=spread)
    z = oracle.sample(X, 500, np.random.default_rng(1))[0]
    half = (np.hypot(r, c) < 16).ravel()
    angles = np.degrees(np.arctan2(-(z * half) @ r.ravel(), (z * half) @ c.ravel()))
    assert angles.min() >= low - 0.1
    assert angles.max() <= high + 0.1
    t = np.linspace(low, high, 20001)
    logs = stats.norm(0, spread).logpdf(t)
    cdf = np.cumsum(np.exp(logs - logs.max()))
    assert stats.kstest(angles, lambda a: np.interp(a, t, cdf / cdf[-1])).pvalue > 1e-3


@pytest.mark.parametrize(
    ("oracle", "near", "ends"),
    [
        (Rotations(1, smoothing=1.3), Rotations([1e-6, -1e-6]), [(1, 2)]),
        (Shears(1, axes=0, smoothing=1.3), Shears([1e-6, -1e-6], axes=0), [(1, 2)]),
        (Scalings(2, smoothing=1.3), Scalings([1 + 1e-6, 1 - 1e-6]), [(1, 2)]),
        (Shifts(1, smoothing=1.3), Shifts(1e-6), [(2, 1), (4, 3)]),
    ],
    ids=lambda value: repr(value) if isinstance(value, ImageOracle) else "",
)
def test_tangents_are_differences_of_a_smoothed_image(oracle, near, ends):
    picture = np.random.default_rng(0).random((12, 12)) * 255
    smooth = ndimage.gaussian_filter(picture, 1.3, mode="constant")
    moved = near.orbit(smooth.reshape(1, -1))[0]
    wanted = [(moved[up] - moved[down]) / 2e-6 for up, down in ends]
    np.testing.assert_allclose(oracle.tangents(picture.reshape(1, -1))[0], wanted, atol=1e-3)


def test_tangents_of_a_background_vanish():
    for fill in ("nearest", 7.0):
        found = Shifts(1, smoothing=2.0, fill=fill).tangents(np.full((1, 36), 7.0))
        np.testing.assert_allclose(found, 0, atol=1e-6)


@pytest.mark.parametrize(
    "oracle",
    [
        teo2007_transforms(),
        Rotations([-10, 10], order=3, fill="reflect"),
        Flip().only_for([0, 8]),
        Box(0.5) @ Rotations([-10, 10]),
        Rotations([-10, 10]) @ Box(0.5),
        pytest.param(Scalings(interval=(0.8, 1.2), order=3), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_image_oracles_satisfy_the_contract_on_digits(oracle):
    X, y = digits()
    check_oracle(oracle, X[:2], y[:2], n_directions=2)


def test_the_list_of_teo_2007_has_its_transformations():
    X = images((28, 28), 1)
    teo = teo2007_transforms().orbit(X)[0]
    assert len(np.unique(teo, axis=0)) == len(teo) == 21
    names = teo2007_transforms().bind(X).changes().names
    assert len(set(names)) == 21
    assert {"shift (2, -2)", "rotation 10°", "scaling 0.85", "shear y 0.15"} <= set(names)
    color = images((8, 8, 3), 1).reshape(8, 8, 3)
    orbit = teo2007_transforms(shape=(8, 8, 3)).orbit(color.reshape(1, -1))[0]
    for k in range(3):
        single = teo2007_transforms().orbit(color[:, :, k].reshape(1, -1))[0]
        np.testing.assert_array_equal(orbit.reshape(-1, 8, 8, 3)[:, :, :, k], single.reshape(-1, 8, 8))


@pytest.mark.parametrize("oracle", [*FAMILIES, *CONTINUOUS], ids=repr)
def test_dtype_is_that_of_the_images(oracle):
    for dtype, out in (("f4", "f4"), ("f8", "f8"), ("u1", "f8")):
        rows, V, assign = images((4, 4)).astype(dtype), np.ones((1, 16)), np.zeros(3, dtype=int)
        changes = oracle.changes(rows)
        made = [
            oracle.support(rows, V, assign).points,
            changes.members(),
            changes.points(ALL_ROWS, assign),
        ]
        made += [oracle.sample(rows, 2, np.random.default_rng(0))]
        made += [] if isinstance(oracle, Flip) else [oracle.tangents(rows)]
        made += [changes.scores(ALL_ROWS, V)] if oracle.finite else []
        assert {part.dtype for part in made} == {np.dtype(out)}


@pytest.mark.parametrize(
    ("oracle", "n_features", "message"),
    [
        (Rotations(10), 10, "shape must be .*not square.*10 features"),
        (Rotations(10, shape=(3, 3)), 10, "10 features of X, got .*9 values"),
        (Rotations(10, shape=(16, 16, 16)), 4096, r"channels.*\(16, 16, 16\).*volumes"),
        (Rotations(10, shape=(3, 4, 5)), 60, r"channels, got \(3, 4, 5\): pass"),
        (Rotations(10, shape=(0, 4)), 0, "height"),
    ],
)
def test_shapes_of_other_rows_raise(oracle, n_features, message):
    X = np.zeros((1, n_features))
    asked = [oracle.bind, oracle.changes, lambda X: oracle.sample(X, 2, np.random.default_rng(0))]
    for view in asked:
        with pytest.raises(ValueError, match=message):
            view(X)


VIEWS = {
    "orbit": lambda oracle, X: oracle.orbit(X),
    "sample": lambda oracle, X: oracle.sample(X, 2, np.random.default_rng(0)),
    "tangents": lambda oracle, X: oracle.tangents(X),
    "support": lambda oracle, X: oracle.support(X, np.ones((1, 16)), np.zeros(3, dtype=int)),
}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        # As many features as a square image would have, if the second axis were the features.
        (np.zeros((3, 16, 16)), r"X must have shape \(n_samples, n_features\), one row per image"),
        (np.zeros(16), r"X must have shape \(n_samples, n_features\).*got \(16,\)"),
        (np.zeros((16, 16)) + 1j, "X must contain real numbers, got complex128"),
        (np.zeros((3, 15)), "shape must be .*not square.*15 features"),
    ],
)
def test_invalid_rows_raise_in_every_method(rows, message):
    for view in VIEWS:
        with pytest.raises(ValueError, match=message):
            VIEWS[view](Shifts(1), rows)


@pytest.mark.parametrize("oracle", [Shifts(1), Rotations(interval=(-10, 10))], ids=repr)
def test_invalid_indices_and_numbers_of_draws_raise(oracle):
    X, rng = images((4, 4)), np.random.default_rng(0)
    last = oracle.changes(X).size - 1
    for index in ([0, last + 1, 0], [0, -1, 0], [0, 0]):
        with pytest.raises(ValueError, match=f"index must contain 3 numbers from 0 to {last}, got"):
            oracle.changes(X).points(ALL_ROWS, index)
    assert oracle.sample(X, 0, rng).shape == (3, 0, 16)
    for size in (-1, 2.0, True, "2"):
        with pytest.raises((TypeError, ValueError), match="n_draws must be an integer of at least 0"):
            oracle.sample(X, size, rng)
    with pytest.raises(TypeError, match="rng must be a numpy.random.Generator"):
        oracle.sample(X, 2, np.random.RandomState(0))


def test_errors_name_missing_methods():
    X, V, assign = images((3, 3)), np.ones((1, 9)), np.zeros(3, dtype=int)
    with pytest.raises(NotImplementedError, match="Rotations does not define orbit"):
        Rotations(interval=(0, 1)).orbit(X)
    with pytest.raises(NotImplementedError, match="Rotations does not support grades"):
        Rotations(interval=(0, 1)).discounted(0.5).support(X, V, assign)
    with pytest.raises(NotImplementedError, match="Rotations cannot be discounted"):
        Rotations(interval=(0, 1)).discounted(0.5).bind(X).changes().grades(slice(None))
    with pytest.raises(NotImplementedError, match="Flip does not define tangents"):
        Flip().tangents(X)
