"""In-hull steps of rows on polynomial curves."""

import copy

import numpy as np
import pytest

from structinv.oracles.curve_hull import CurveHull
from structinv.oracles.identity_hull import IdentityHull

N, D = 20, 6
GRID = 4001


class Problem:
    """Random rows on curves; losses by a dense grid of places."""

    def __init__(self, degree, intercept=False, seed=0, ends=(-1.5, 2.0), scale=0.2, dtype=np.float64):
        rng = np.random.default_rng(seed)
        self.intercept, self.ends = intercept, ends
        self.X = rng.standard_normal((N, D)).astype(dtype)
        self.X[3] = 0.0
        self.y = np.where(self.X[:, 0] + rng.standard_normal(N) > 0, 1.0, -1.0)
        self.c = rng.uniform(0.05, 0.4, N)
        self.c[[5, 11]] = 0.0
        reach = 2.0 ** np.arange(1, degree + 1)
        self.powers = (scale * rng.standard_normal((N, degree, D)) / reach[:, None]).astype(dtype)
        self.powers[7] = 0.0

    def hull(self):
        return CurveHull(self.X, self.y, self.c, self.intercept, self.powers, self.ends)

    def losses(self, f):
        t = np.linspace(*self.ends, GRID)
        along = t[:, None] ** np.arange(1, self.powers.shape[1] + 1)
        bias = f[D] if self.intercept else 0.0
        margins = (self.X @ f[:D])[:, None] + (self.powers @ f[:D]) @ along.T + bias
        return np.maximum(0.0, 1.0 - np.min(self.y[:, None] * margins, axis=1))

    def value(self, f):
        return 0.5 * f @ f + self.c @ self.losses(f)


def run(problem, hull, passes, f=None, seed=0):
    rng = np.random.default_rng(seed)
    gaps = np.full(N, np.nan)
    f = np.zeros(D + problem.intercept) if f is None else f
    for _ in range(passes):
        hull.sweep(f, rng.permutation(N), gaps)
        yield f, gaps


def dual(hull, f):
    return hull.offset - 0.5 * f @ f


every_degree = pytest.mark.parametrize("degree", [1, 2, 3, 5])


@pytest.mark.parametrize("intercept", [False, True])
@every_degree
def test_rises_to_the_optimum_from_below(degree, intercept):
    problem = Problem(degree, intercept)
    hull, last = problem.hull(), 0.0
    for f, gaps in run(problem, hull, 400):
        assert dual(hull, f) >= last - 1e-12
        assert np.all(gaps >= 0)
        assert np.all(gaps[problem.c == 0] == 0)
        last = dual(hull, f)
    value = problem.value(f)
    # The grid misses less than a millionth.
    assert last <= value * (1 + 1e-6)
    assert value - last <= 1e-6 * value
    np.testing.assert_allclose(f, hull.combination(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("weight", [1e-4, 1e3])
@every_degree
def test_extreme_weights_keep_the_bracket(degree, weight):
    problem = Problem(degree, True, seed=1)
    problem.c *= weight
    hull = problem.hull()
    best = min(problem.value(f) for f, _ in run(problem, hull, 300))
    assert dual(hull, hull.combination()) <= best * (1 + 1e-6)


@every_degree
def test_planes_touch_the_losses_from_below(degree):
    problem = Problem(degree, True, seed=3)
    hull = problem.hull()
    *_, _last = run(problem, hull, 20)
    normals, levels = hull.planes()
    assert np.all((levels >= 0) & (levels <= 1 + 1e-12))
    rng = np.random.default_rng(0)
    for g in rng.normal(size=(50, D + 1)) * np.logspace(-2, 2, 50)[:, None]:
        plane = levels - normals @ g[:D] - problem.y * levels * g[D]
        assert np.all(plane <= problem.losses(g) + 1e-5 * np.abs(g).sum())


@pytest.mark.parametrize("intercept", [False, True])
@every_degree
def test_gaps_on_arrival_add_up_to_the_duality_gap(degree, intercept):
    problem = Problem(degree, intercept, seed=4)
    hull = problem.hull()
    *_, (f, _gaps) = run(problem, hull, 3)
    arrival = np.zeros(N)
    for i in range(N):
        copy.deepcopy(hull).sweep(f.copy(), np.array([i]), arrival)
    assert arrival.sum() == pytest.approx(problem.value(f) - dual(hull, f), rel=1e-4)


@every_degree
def test_a_visited_row_is_left_without_a_gap(degree):
    problem = Problem(degree, True, seed=5)
    hull = problem.hull()
    *_, (f, _gaps) = run(problem, hull, 3)
    gaps = np.zeros(N)
    for _ in range(15):
        hull.sweep(f, np.array([0]), gaps)
    assert gaps[0] <= 1e-9


def test_rows_that_do_not_move_are_those_of_the_plain_loss():
    problem = Problem(2, True, ends=(0.0, 0.0))
    hull, plain = problem.hull(), IdentityHull(problem.X, problem.y, problem.c, True)
    for (f, gaps), (g, others) in zip(run(problem, hull, 10), run(problem, plain, 10), strict=True):
        np.testing.assert_allclose(f, g, atol=1e-9)
        np.testing.assert_allclose(gaps, others, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every_degree
def test_restore_continues_where_planes_left(degree, dtype):
    problem = Problem(degree, True, seed=6, dtype=dtype)
    hull, other = problem.hull(), problem.hull()
    *_, (f, _gaps) = run(problem, hull, 10)
    other.restore(*hull.planes())
    g = other.combination()
    # Places are found again by least squares.
    np.testing.assert_allclose(g, f, atol=1e-4)
    assert dual(other, g) == pytest.approx(dual(hull, f), abs=1e-4)
    assert dual(other, g) <= problem.value(f)


def test_restore_moves_planes_of_a_larger_set_into_this_one():
    small, large = Problem(2, True, seed=7), Problem(2, True, seed=7, scale=2.0)
    first, hull = large.hull(), small.hull()
    *_, (f, _gaps) = run(large, first, 10)
    hull.restore(*first.planes())
    best = min(small.value(g) for g, _ in run(small, small.hull(), 100))
    assert dual(hull, hull.combination()) <= best * (1 + 1e-6)
    levels = hull.planes()[1]
    assert np.all((levels >= 0) & (levels <= 1 + 1e-12))
