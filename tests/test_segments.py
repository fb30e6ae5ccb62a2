"""`Segment` and `Offset`: rescaled samples and shifted baselines."""

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

from structinv import InvariantSVC
from structinv.datasets import make_signals
from structinv.oracles import FiniteOracle, Offset, Segment
from structinv.utils.matrices import ALL_ROWS

from .oracle_cases import rows

LINES = [Segment(0.3, 1.7, resolution=5), Segment(0.1, 1.0), Offset(0.8, resolution=6)]


class Mirrored(FiniteOracle):
    """Reverse the features."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


@pytest.mark.parametrize(
    ("oracle", "error", "message"),
    [
        (Segment(1.5, 2.0), ValueError, r"low must be at most 1.*low=1.5 and high=2.0"),
        (Segment(0.1, 0.9), ValueError, "high at least 1"),
        (Segment(np.nan, 2.0), ValueError, "low must be a finite number"),
        (Segment(0.5, np.inf), ValueError, "high must be a finite number"),
        (Segment(0.5, 2.0, resolution=1), ValueError, "resolution must be an integer of at least 2"),
        (Offset(-1.0), ValueError, "limit must be at least 0, got -1.0"),
        (Offset(np.nan), ValueError, "limit must be a finite number"),
        (Offset(1.0, resolution=0), ValueError, "resolution"),
    ],
)
def test_parameters_out_of_range_raise_with_their_name(oracle, error, message):
    X, y = rows()
    with pytest.raises(error, match=message):
        oracle.bind(X, y)
    with pytest.raises(error, match=message):
        oracle.changes(X)


@pytest.mark.parametrize(
    ("oracle", "tight"),
    [*((line, 0.99) for line in LINES),
     (Offset(0.8, resolution=6) @ Segment(0.3, 1.7, resolution=5), 0.5),
     (Segment(0.3, 1.7, resolution=5) @ Mirrored(), 0.5)],
    ids=str,
)  # fmt: skip
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
    assert Segment(0.5, 2.0, resolution=4).bind(X).changes().names == [
        "identity",
        "x 0.5",
        "x 1.5",
        "x 2",
    ]
    assert Offset(1.0, resolution=3).bind(X).changes().names == ["identity", "-1", "+1"]
    np.testing.assert_array_equal(Segment(0.5, 2.0, resolution=4).changes(X).members()[:, 1], X / 2)
    np.testing.assert_array_equal(Offset(1.0, resolution=3).changes(X).members()[:, 2], X + 1)
    assert Segment(1, 1).bind(X).changes().names == ["identity"]
    np.testing.assert_array_equal(Segment(1, 1).changes(X).mesh(), 0.0)


@pytest.mark.parametrize("oracle", LINES, ids=repr)
def test_refining_finds_the_nearest_member_to_a_point_on_the_line(oracle):
    X, _ = rows()
    target = oracle.sample(X, 1, np.random.default_rng(1))[:, 0]
    cover = oracle.changes(X)
    nearest = np.argmin(np.linalg.norm(cover.members() - target[:, None], axis=2), axis=1)
    found = oracle.changes(X).refine(ALL_ROWS, nearest, lambda z: -np.linalg.norm(z - target, axis=1))
    assert np.max(np.linalg.norm(found - target, axis=1)) < 1e-3
    with pytest.raises(ValueError, match="index must contain 8 numbers from 0"):
        oracle.changes(X).points(ALL_ROWS, np.full(len(X), 99))


@pytest.mark.parametrize("oracle", LINES, ids=repr)
def test_lines_have_in_hull_steps(oracle):
    X, _ = rows()
    assert oracle.bind(X).hull(np.ones(len(X)), np.ones(len(X)), True) is not None


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
