"""In-hull steps for boxes, zonotopes, ellipsoids and unperturbed rows."""

import copy

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles.affine_hull import BoxHull, EllipsoidHull, ZonotopeHull
from structinv.oracles.hulls import IdentityHull

N, D, T = 24, 6, 3
CASES = [
    "identity",
    "identity on sparse rows",
    "box",
    "zonotope",
    "zonotope per row",
    "collinear per row",
    "ellipsoid",
    "ellipsoid per row",
    "full ellipsoid",
]
every_case = pytest.mark.parametrize("case", CASES)


class Problem:
    """Random rows with sets; `reach` is the largest decrease of a margin."""

    def __init__(self, case, intercept=False, seed=0, dtype=np.float64, scale=1.0):
        rng = np.random.default_rng(seed)
        self.case, self.intercept = case, intercept
        self.X = rng.normal(size=(N, D)).astype(dtype)
        self.X[3] = 0.0
        self.y = np.where(self.X[:, 0] + rng.normal(size=N) > 0, 1.0, -1.0)
        self.c = rng.uniform(0.05, 0.4, N)
        self.c[[5, 11]] = 0.0
        shape = (N, T, D) if "per row" in case else (T, D)
        self.F = rng.normal(size=(D, D) if "full" in case else shape).astype(dtype)
        if "per row" in case:
            self.F[7] = 0.0
        if "collinear" in case:
            self.F[:, 1] = 2 * self.F[:, 0]
        self.ball = "ellipsoid" in case
        self.bounds = scale * rng.uniform(0.05, 0.3, D if case == "box" else T)
        if self.ball:
            self.bounds = 0.3 * scale

    def hull(self):
        start = (self.X, self.y, self.c, self.intercept)
        if "identity" in self.case:
            rows = sp.csr_matrix(self.X) if "sparse" in self.case else self.X
            return IdentityHull(rows, *start[1:])
        if self.case == "box":
            return BoxHull(*start, self.bounds)
        if self.ball:
            return EllipsoidHull(*start, np.swapaxes(self.F, -1, -2), self.bounds)
        return ZonotopeHull(*start, self.F, self.bounds)

    def reach(self, w):
        if "identity" in self.case:
            return np.zeros(N)
        h = w if self.case == "box" else self.F @ w
        size = self.bounds * np.linalg.norm(h, axis=-1) if self.ball else np.abs(h) @ self.bounds
        return np.broadcast_to(size, N)

    def losses(self, f):
        bias = f[D] if self.intercept else 0.0
        return np.maximum(0, 1 - self.y * (self.X @ f[:D] + bias) + self.reach(f[:D]))

    def value(self, f):
        return 0.5 * f @ f + self.c @ self.losses(f)

    def optimum(self):
        """Optimum by cvxpy."""
        w, b = cp.Variable(D), cp.Variable() if self.intercept else 0.0
        margins = cp.multiply(self.y, self.X.astype(np.float64) @ w + b)
        if "identity" in self.case:
            reach = 0.0
        elif self.case == "box":
            reach = self.bounds @ cp.abs(w)
        else:
            blocks = self.F if self.F.ndim == 3 else [self.F]
            size = [
                self.bounds * cp.norm(G @ w) if self.ball else self.bounds @ cp.abs(G @ w)
                for G in np.asarray(blocks, dtype=np.float64)
            ]
            reach = cp.hstack(size) if len(size) > 1 else size[0]
        loss = self.c @ cp.pos(1 - margins + reach)
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 0.5 * b**2 + loss))
        accuracy = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
        return problem.solve(solver=cp.CLARABEL, **accuracy)


def run(problem, hull, passes, f=None):
    """Sweep in random order; yield the parameters and the gaps after each sweep."""
    rng, gaps = np.random.default_rng(0), np.full(N, np.nan)
    f = np.zeros(D + problem.intercept) if f is None else f
    for _ in range(passes):
        hull.sweep(f, rng.permutation(N), gaps)
        yield f, gaps


def swept(problem, passes):
    """Return a hull after this number of sweeps, and the parameters."""
    hull = problem.hull()
    *_, (f, _gaps) = run(problem, hull, passes)
    return hull, f


def planes(hull):
    return hull.normals_of(np.arange(N)), hull.taus.copy()


def dual(hull, f):
    return hull.offset - 0.5 * f @ f


def solved(problem, hull, tol):
    for f, _gaps in run(problem, hull, 20000, hull.combination()):
        if problem.value(f) - dual(hull, f) <= tol * problem.value(f):
            return f
    raise AssertionError("no convergence")


@pytest.mark.parametrize("intercept", [False, True])
@every_case
def test_the_dual_reaches_the_optimum_from_below(case, intercept):
    problem = Problem(case, intercept)
    hull, best, last = problem.hull(), problem.optimum(), 0.0
    for f, gaps in run(problem, hull, 100):
        now = dual(hull, f)
        assert last - 1e-12 <= now <= best * (1 + 1e-8)
        assert np.all(gaps >= 0)
        assert np.all(gaps[problem.c == 0] == 0)
        last = now
    assert problem.value(solved(problem, hull, 1e-8)) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("weight", [1e-4, 1e3])
@every_case
def test_extreme_weights_keep_the_bounds(case, weight):
    problem = Problem(case, True, seed=1)
    problem.c *= weight
    hull, best = problem.hull(), problem.optimum()
    for f, _gaps in run(problem, hull, 200):
        assert dual(hull, f) <= best * (1 + 1e-7) <= problem.value(f) * (1 + 2e-7)
    np.testing.assert_allclose(f, hull.combination(), rtol=0, atol=1e-11 * max(1, weight))


@every_case
def test_float32_rows_reach_the_same_optimum(case):
    problem = Problem(case, True, seed=2, dtype=np.float32)
    hull = problem.hull()
    f = solved(problem, hull, 1e-7)
    assert problem.value(f) == pytest.approx(problem.optimum(), rel=1e-6)
    np.testing.assert_allclose(f, hull.combination(), rtol=0, atol=1e-12)


@every_case
def test_f_is_the_combination_of_valid_planes(case):
    problem = Problem(case, True, seed=3)
    hull = problem.hull()
    for f, _gaps in run(problem, hull, 20):
        np.testing.assert_allclose(f, hull.combination(), rtol=0, atol=1e-12)
    normals, levels = planes(hull)
    assert np.all((levels >= 0) & (levels <= 1 + 1e-12))
    rng = np.random.default_rng(0)
    for g in rng.normal(size=(50, D + 1)) * np.logspace(-2, 2, 50)[:, None]:
        plane = levels - normals @ g[:D] - problem.y * levels * g[D]
        assert np.all(plane <= problem.losses(g) + 1e-11 * np.abs(g).sum())


@pytest.mark.parametrize("intercept", [False, True])
@every_case
def test_gaps_before_updates_add_up_to_the_duality_gap(case, intercept):
    problem = Problem(case, intercept, seed=4)
    hull, f = swept(problem, 3)
    arrival = np.zeros(N)
    for i in range(N):
        copy.deepcopy(hull).sweep(f.copy(), np.array([i]), arrival)
    gap = problem.value(f) - dual(hull, f)
    assert arrival.sum() == pytest.approx(gap, rel=1e-9)


@every_case
def test_an_updated_row_has_no_gap(case):
    hull, f = swept(Problem(case, True, seed=5), 3)
    gaps = np.zeros(N)
    for _ in range(15):
        hull.sweep(f, np.array([0]), gaps)
    assert gaps[0] <= 1e-9


@pytest.mark.parametrize("case", CASES[1:])
def test_sets_of_size_zero_match_the_identity(case):
    problem, plain = Problem(case, True, scale=0.0), Problem("identity", True)
    passes = [run(each, each.hull(), 15) for each in (problem, plain)]
    for (f, gaps), (g, other_gaps) in zip(*passes, strict=True):
        np.testing.assert_allclose(f, g, atol=1e-9)
        np.testing.assert_allclose(gaps, other_gaps, atol=1e-9)


@every_case
def test_restore_continues_from_planes(case):
    problem = Problem(case, True, seed=6)
    (hull, f), other = swept(problem, 10), problem.hull()
    other.restore(*planes(hull))
    g = other.combination()
    np.testing.assert_allclose(g, f, atol=1e-9)
    assert dual(other, g) == pytest.approx(dual(hull, f), abs=1e-9)
    assert dual(other, g) <= problem.value(f)
    *_, (f, _gaps) = run(problem, hull, 5, f)
    *_, (g, _gaps) = run(problem, other, 5, g)
    np.testing.assert_allclose(f, g, atol=1e-6)


@pytest.mark.parametrize("scale", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("case", CASES[1:])
def test_restore_from_planes_of_another_radius_is_valid(case, scale):
    problem = Problem(case, True)
    first, f = swept(Problem(case, True, scale=scale), 10)
    hull, best = problem.hull(), problem.optimum() * (1 + 1e-8)
    hull.restore(*planes(first))
    g = hull.combination()
    if scale < 1:
        np.testing.assert_allclose(g, f, atol=1e-9)
    assert dual(hull, g) <= best
    for now, _gaps in run(problem, hull, 5, g):
        assert dual(hull, now) <= best


@every_case
def test_restore_accepts_planes_of_the_plain_loss(case):
    first, f = swept(Problem("identity", True), 10)
    problem = Problem(case, True)
    hull = problem.hull()
    hull.restore(*planes(first))
    np.testing.assert_allclose(hull.combination(), f, atol=1e-12)


def test_row_without_effect_has_the_full_level():
    hull = BoxHull(np.zeros((2, D)), np.ones(2), np.ones(2), False, np.zeros(D))
    gaps = np.zeros(2)
    hull.sweep(np.zeros(D), np.arange(2), gaps)
    np.testing.assert_array_equal(hull.taus, 1.0)
    np.testing.assert_array_equal(gaps, 1.0)
