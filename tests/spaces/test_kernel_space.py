"""Kernel space against dense matrices over all perturbed samples, for any cache size."""

import operator
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from structinv.dual import dual_state
from structinv.dual.case import MOST_MEMBERS
from structinv.dual.member_state import MemberState
from structinv.dual.plane_cache import PlaneCache
from structinv.kernels import Gaussian, Kernel, Laplacian, Polynomial
from structinv.oracles import Identity
from structinv.solvers import REGISTRY, Gap, Status, solve
from structinv.spaces import atoms as atoms_module
from structinv.spaces import kernel_space as kernel_module
from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.kernel_tiles import (
    COLUMNS,
    ROWS,
    expand,
    in_kernel_tiles,
    output_rounding,
    wide_product,
)
from structinv.spaces.point_sums import PointSums
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from ..covering import pairs, slow_unless
from ..kernels.problems import CACHES, every_cache, problem
from ..oracles.cases import ORDERS, D, Reorderings, Shrinkings
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import EXACT, SETTING, N
from .kernel_models import DEGREES, SPACES, Model, every_space

KERNEL = Gaussian(1.5) + Polynomial(2, gamma=0.3)


@pytest.mark.parametrize(
    ("n_outputs", "representers", "free_degree", "cache_mb"),
    slow_unless(
        lambda n_outputs, *space: n_outputs == (1, 3)[SPACES.index(space) % 2],
        [(n_outputs, *space) for n_outputs in (1, 3) for space in SPACES],
    ),
)
def test_operations_are_those_of_dense_arrays(representers, free_degree, cache_mb, n_outputs):
    model = Model(cache_mb, n_outputs, KERNEL, representers, free_degree)
    space = model.space
    for m, k in ((4, 5), (7, 3), (1, 1)):
        # Points that belong to no list, beside members.
        loose, dense_loose = model.rows_of(*model.add_loose(2), [2, 0])
        (left, dense_left), (right, dense_right) = model.mixed(m), model.mixed(k)
        left, dense_left = space.stack([left, loose]), np.concatenate([dense_left, dense_loose])
        wanted = model.products(dense_left, dense_right)
        np.testing.assert_allclose(space.gram(left, right), wanted, atol=1e-10)
        np.testing.assert_allclose(space.gram(right, left), wanted.T, atol=1e-10)
        wanted = model.products(dense_left, dense_left)
        np.testing.assert_allclose(space.gram(left, left), wanted, atol=1e-10)
        weights = model.rng.standard_normal(len(left)) * (model.rng.random(len(left)) < 0.8)
        f, (g, (dense_g, b)) = space.combine(left, weights), model.function()
        dense_f = np.tensordot(weights, dense_left, 1)
        model.assert_is(f, dense_f)
        model.assert_is(g, dense_g, b)
        wanted = dense_f.T @ model.gram @ dense_g
        np.testing.assert_allclose(space.output_gram(f, g), wanted, atol=1e-10)
        assert space.dot(f, g) == pytest.approx(np.trace(wanted), abs=1e-10)
        assert space.dot(g, f) == pytest.approx(np.trace(wanted), abs=1e-10)
        at = model.at(dense_g, b)
        wanted = np.einsum("pk,mpk->m", at, dense_left)
        np.testing.assert_allclose(space.scores(g, left), wanted, atol=1e-10)
        mixed, element = space.mix(left, weights), space.element(g)
        assert len(mixed) == len(element) == 1
        model.assert_is(space.combine(mixed, np.array([2.0])), 2.0 * dense_f)
        model.assert_is(space.combine(element, np.array([-0.5])), -0.5 * dense_g)
        np.testing.assert_allclose(space.scores(g, mixed), [np.sum(at * dense_f)], atol=1e-10)
        both, dense_both = space.stack([left, right]), np.concatenate([dense_left, dense_right])
        part = model.rng.permutation(len(both))[: m + 1]
        assert len(space.atoms) == len(np.unique(space.atoms.keys))
        wanted = model.products(dense_both[part], dense_right)
        np.testing.assert_allclose(space.gram(both[part], right), wanted, atol=1e-10)
        model.assert_budget()


@pytest.mark.parametrize(
    ("seed", "space", "cache_mb"),
    pairs(range(4), [(False, None), *((True, degree) for degree in DEGREES)], CACHES),
)
def test_sums_and_multiples_update_cached_values(seed, space, cache_mb):
    model = Model(cache_mb, 2, None, *space, seed=seed)
    rng = model.rng
    mirrors = [(model.space.zeros(), model.nothing())]
    for _ in range(40):
        f, dense = mirrors[rng.integers(len(mirrors))]
        g, other = mirrors[rng.integers(len(mirrors))]
        both = list(zip(dense, [part.copy() for part in other], strict=True))
        action = rng.integers(10)
        if action == 0:
            mirrors.append(model.function(*(rng.random(3) < 0.6)))
        elif action == 1:
            f.values()
        elif action == 2 and model.n_functionals:
            f.functionals()
        elif action == 3:
            mirrors.append((f.copy(), tuple(part.copy() for part in dense)))
        elif action in (4, 5):
            f, sign = (operator.iadd(f, g), 1.0) if action == 4 else (operator.isub(f, g), -1.0)
            for part, more in both:
                part += sign * more
        elif action == 6:
            f *= 0.5
            for part in dense:
                part *= 0.5
        elif action in (7, 8):
            made, sign = (f + g, 1.0) if action == 7 else (f - g, -1.0)
            mirrors.append((made, tuple(part + sign * more for part, more in both)))
        else:
            mirrors.append((np.float64(-0.3) * f, tuple(-0.3 * part for part in dense)))
        mirrors = mirrors[-6:]
    for f, dense in mirrors:
        scale = max(1.0, *(np.abs(part).max(initial=0.0) for part in dense))
        model.assert_is(f * (1.0 / scale), *(part / scale for part in dense))
        norm = np.sum(dense[0] * (model.gram @ dense[0]))
        assert model.space.dot(f, f) == pytest.approx(norm, abs=1e-9)
    model.assert_budget()


@every_space
def test_empty_combination_is_zero(representers, free_degree, cache_mb):
    model = Model(cache_mb, 2, None, representers, free_degree)
    space, zero = model.space, model.space.zeros()
    rows, f = model.mixed(3)[0], model.function(free=False)[0]
    none, hollow, m = rows[:0], space.element(zero), len(rows)
    assert (len(none), len(hollow), len(space.stack([none, none]))) == (0, 1, 0)
    assert space.dot(zero, zero) == space.dot(zero, f) == space.dot(f, zero) == 0.0
    assert space.scores(f, none).shape == (0,)
    np.testing.assert_array_equal(space.scores(f, hollow), [0.0])
    np.testing.assert_array_equal(space.scores(zero, rows), np.zeros(m))
    np.testing.assert_array_equal(space.gram(hollow, rows), np.zeros((1, m)))
    np.testing.assert_array_equal(space.gram(rows, space.stack([hollow, hollow])), np.zeros((m, 2)))
    assert space.gram(none, rows).shape == (0, m)
    assert space.gram(none, none).shape == (0, 0)
    for sum_of_none in (
        zero,
        space.combine(none, np.zeros(0)),
        space.combine(hollow, np.ones(1)),
        f - f,
    ):
        assert len(sum_of_none.support()) == 0
        model.assert_is(sum_of_none, *model.nothing())
    np.testing.assert_allclose(space.scores(f, space.stack([hollow, rows]))[1:], space.scores(f, rows))


@every_cache
def test_two_pools_share_a_space(cache_mb):
    model = Model(cache_mb)
    space = model.space
    Z = model.rng.standard_normal((6, 3))
    other = space.atoms.pool(Reorderings([[0, 1, 2], [2, 1, 0]]).changes(Z))
    first = model.add(np.stack([Z, Z[:, ::-1]], axis=1).reshape(-1, 3))[0]
    for _ in range(4):
        there, here = model.rng.integers(12, size=4), model.rng.integers(first, size=4)
        numbers = np.r_[there + first, here]
        keys = np.r_[other.keys(*np.divmod(there, 2)), model.key(here)]
        order = model.rng.permutation(8)
        rows, dense = model.rows_of(numbers[order], keys[order], [3, 1, 0, 4])
        np.testing.assert_allclose(space.gram(rows, rows), model.products(dense, dense), atol=1e-12)
        model.assert_is(space.combine(rows, np.ones(4)), dense.sum(axis=0))
        model.assert_budget()


@every_cache
def test_atoms_store_row_and_variant(cache_mb):
    model = Model(cache_mb)
    model.space.atoms.slots(model.normals(20)[0].points)
    atoms = model.space.atoms
    pooled = len(atoms)
    assert pooled > 5
    rows, members = atoms.origins.T
    np.testing.assert_array_equal(atoms.points(np.arange(pooled)), model.source.points(rows, members))
    origins = np.array([[5, 1], [6, 2]])
    keys = atoms.add_points(np.ones((2, 3)), origins)
    slots = atoms.slots(keys)
    np.testing.assert_array_equal(atoms.origins[slots], origins)
    np.testing.assert_array_equal(atoms.points(slots), np.ones((2, 3)))


def test_all_points_are_known_only_if_the_cache_is_large_enough():
    for cache_mb, known in zip(CACHES, (24, 0, 0, 0), strict=True):
        model = Model(cache_mb)
        assert model.space.atoms.n_known == known
        assert (model.pool.mesh is not None) == bool(known)


def test_unperturbed_row_is_one_known_point():
    X, y = np.random.default_rng(0).standard_normal((5, 3)), np.array([0, 1, 0, 0, 1])
    source = Reorderings([[0, 1, 2], [2, 1, 0], [1, 0, 2]]).only_for(1).changes(X, y)
    space = KernelSpace(Gaussian(1.0), 3)
    pool = space.atoms.pool(source)
    assert space.atoms.n_known == 3 + 2 * 3
    rows, members = np.divmod(np.arange(15), 3)
    keys = pool.keys(rows, members)
    np.testing.assert_array_equal(keys[y[rows] == 0], pool.keys(rows, 0 * rows)[y[rows] == 0])
    orbit = source.members().reshape(-1, 3)
    np.testing.assert_array_equal(space.points(keys), orbit)
    slots = space.atoms.slots(keys)
    np.testing.assert_array_equal(space.atoms.points(slots), orbit)
    assert len(space.atoms) == 9
    np.testing.assert_array_equal(space.atoms.origins[slots[y[rows] == 0], 1], 0)


class InDouble(Gaussian):
    """Kernel with values in float64 for any dtype."""

    def matrix(self, X, Y, norms=None):
        return super().matrix(X.astype(np.float64), Y.astype(np.float64))


@pytest.mark.parametrize(
    ("kernel", "dtype", "precision"),
    [
        (Gaussian(60.0), np.uint8, np.float64),
        (Gaussian(60.0), np.int64, np.float64),
        (Gaussian(60.0), np.float32, np.float32),
        (Gaussian(60.0), np.float64, np.float64),
        (InDouble(60.0), np.float32, np.float64),
    ],
)
@pytest.mark.parametrize("cache_mb", [100.0, 0.1, 0.02, 0.0])
def test_tables_have_the_precision_of_the_kernel_within_the_cache(kernel, dtype, precision, cache_mb):
    X = np.random.default_rng(0).integers(0, 255, (100, 4)).astype(dtype)
    y = np.arange(100) % 2
    space = KernelSpace(kernel, 4, cache_mb=cache_mb)
    this = Objective(space, [WorstCase(X, y, Identity(), Binary(), 1.0)])
    normals = this.planes(space.zeros()).normals
    gram, atoms = space.gram(normals, normals), space.atoms.slots(normals.points)
    where, table, extra = space.atoms.rows_of_table(atoms)
    rows = np.concatenate([table, extra])[where[atoms]][:, space.atoms.places[atoms]]
    wanted = Gaussian(60.0).matrix(X.astype(float), X.astype(float))
    sign = np.where(y == 1, 1.0, -1.0)
    for values in (space.atoms.block(atoms, atoms), space.atoms.square(atoms), rows, gram):
        assert values.dtype == precision
        expected = np.outer(sign, sign) * wanted if values is gram else wanted
        np.testing.assert_allclose(values, expected, atol=1e-5 if precision == np.float32 else 1e-12)
    table = space.atoms.table
    assert (table if table.base is None else table.base).nbytes <= 1e6 * cache_mb


@pytest.mark.parametrize("cache_mb", [100.0, 0.001, 0.0])
@pytest.mark.parametrize(
    "dtypes", [(np.float64, np.int64), (np.int64, np.float64), (np.float32, np.float64)]
)
def test_rows_of_two_dtypes_keep_their_precision(dtypes, cache_mb):
    rng = np.random.default_rng(1)
    X, Z = (3.0 * rng.standard_normal((7, 3))).astype(dtypes[0]), (3.0 * rng.standard_normal((9, 3)))
    Z = Z.astype(dtypes[1])
    space = KernelSpace(Gaussian(3.0), 3, cache_mb=cache_mb)
    terms = [WorstCase(A, np.arange(len(A)) % 2, Identity(), Binary(), 1.0) for A in (X, Z)]
    planes = Objective(space, terms).planes(space.zeros())
    slots = space.atoms.slots(planes.normals.points)
    np.testing.assert_array_equal(space.atoms.points(slots), np.vstack([X, Z]))
    f = space.combine(planes.normals, np.ones(16))
    np.testing.assert_allclose(
        f.values()[space.atoms.places[slots]], f.function()(np.vstack([X, Z])), atol=1e-5
    )


def test_table_changes_to_float64_within_the_cache():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((40, 3)).astype(np.float32), rng.standard_normal((30, 3))
    space = KernelSpace(Gaussian(2.0), 3, cache_mb=40 * 50 * 4 / 1e6)
    atoms = [space.atoms.slots(space.atoms.add_points(P, np.zeros((len(P), 2), int))) for P in (X, Z)]
    assert space.atoms.dtype == np.float64
    assert space.atoms.table.nbytes <= 1e6 * space.cache_mb
    points = np.vstack([X, Z])
    every = np.concatenate(atoms)
    np.testing.assert_allclose(space.atoms.block(every, every), Gaussian(2.0)(points, points), atol=1e-6)


@every_cache
def test_results_do_not_depend_on_portions(cache_mb, monkeypatch):
    case, setting = ORBIT_CASE["discounted-member"], SETTING["multiclass-slack"]
    answers = []
    for size in (None, 4):
        if size:
            monkeypatch.setattr("structinv.terms.worst_case.ROWS_AT_ONCE", size)
            for module in (atoms_module, kernel_module):
                monkeypatch.setattr(module, "VALUES_AT_ONCE", 100)
        this = problem(case.oracle, setting, Gaussian(2.0), cache_mb=cache_mb)
        space = this.space
        f = space.combine(this.planes(space.zeros()).normals, np.linspace(0.2, 1.5, N))
        planes, few = this.planes(f), this.planes(f, np.array([8, 2, 3, 7, 0]))
        members = case.members(setting.X, setting.y).reshape(-1, D)
        answers.append(
            [
                *(
                    getattr(p, part)
                    for p in (planes, few)
                    for part in ("offsets", "upper", "plane_values")
                ),
                space.gram(planes.normals, few.normals),
                f.function()(members),
                this.value(f).upper,
            ]
        )
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_long_lists_are_not_cached(monkeypatch):
    case, setting = ORBIT_CASE["discounted-member"], SETTING["multiclass"]
    this = problem(case.oracle, setting, Gaussian(2.0))
    (term,) = this.terms
    states, ends = [], []
    for most in (MOST_MEMBERS, 1):
        monkeypatch.setattr("structinv.dual.case.MOST_MEMBERS", most)
        states.append(type(dual_state(term, this.space, np.random.default_rng(0))))
        ends.append(solve(this, REGISTRY["frank_wolfe"](), Gap(1e-6), random_state=0).primal)
    assert states == [MemberState, PlaneCache]
    assert ends[1] == pytest.approx(ends[0], rel=2e-6)


def test_rows_without_loss_add_no_atoms():
    case, setting = ORBIT_CASE["identity"], SETTING["binary"]
    space = KernelSpace(Gaussian(0.1), D)
    this = problem(case.oracle, setting, None, space=space)
    # Narrow and high: every row is right by far.
    f = space.combine(this.planes(space.zeros()).normals, np.full(N, 5.0))
    before = len(space.atoms)
    planes = this.planes(f)
    assert len(planes.normals) == N
    assert len(planes.normals.points) == len(planes.normals.coefficients) == 0
    np.testing.assert_array_equal(planes.offsets, np.zeros(N))
    np.testing.assert_array_equal(space.gram(planes.normals, planes.normals), np.zeros((N, N)))
    assert len(space.atoms) == before


class Counting(Gaussian):
    """Kernel that counts its computed values."""

    def matrix(self, X, Y, *args, **kwargs):
        values = super().matrix(X, Y, *args, **kwargs)
        COUNTED.append(values.size)
        return values


COUNTED: list[int] = []


@pytest.mark.parametrize("solver", EXACT)
def test_only_columns_of_atoms_are_computed(solver):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.where(y[:, None] == 1, 1.0, -1.0) + rng.standard_normal((40, 3))
    COUNTED.clear()
    space = KernelSpace(Counting(2.0), 3)
    this = Objective(space, [WorstCase(X, y, Shrinkings(), Binary(), 1.0)])
    solution = solve(this, REGISTRY[solver](), Gap(1e-4), random_state=0)
    assert solution.status is Status.CONVERGED
    assert len(solution.f.support()) <= len(space.atoms) < 120
    assert sum(COUNTED) == 120 * len(space.atoms)


@pytest.mark.parametrize("representers", [False, True])
def test_compacted_and_adopted_functions_are_the_same(representers):
    model = Model(representers=representers)
    rows, dense = model.mixed(6)
    loose, more = model.rows_of(*model.add_loose(2), [1, 1])
    joined = model.space.stack([rows, loose])
    original = model.space.combine(joined, np.ones(len(joined)))
    space, f = model.space.compacted(original)
    back = model.space.from_arrays(space.arrays_of(f))
    assert model.space.accepts(back)
    again = model.space.adopted(back, [])
    assert again.atoms is model.space.atoms
    assert model.space.dot(again, original) == pytest.approx(model.space.dot(original, original))
    wanted = model.at(model.padded(dense).sum(axis=0) + more.sum(axis=0), f.free if representers else
                      np.zeros((0, 2)))  # fmt: skip
    np.testing.assert_allclose(f.function()(model.points), wanted[model.n_functionals :], atol=1e-10)
    assert space.dot(f, f) == pytest.approx(model.space.dot(original, original))
    if not representers:
        assert len(space.atoms) == len(f.support())
        mine, theirs = f.support(), original.support()
        origins = space.atoms.origins[mine], model.space.atoms.origins[theirs]
        np.testing.assert_array_equal(*origins)


def test_space_of_wrong_size_raises():
    setting = SETTING["multiclass"]
    term = WorstCase(setting.X, setting.y, Reorderings(ORDERS), setting.structure, **setting.losses)
    for space in (KernelSpace(Gaussian(), D), KernelSpace(Gaussian(), D + 1, 3)):
        with pytest.raises(ValueError, match="n_features, n_outputs, n_pairwise"):
            Objective(space, [term])


class Counted(Kernel):
    """Gaussian kernel that is not declared thread-safe."""

    def __init__(self):
        self.asked = 0

    def matrix(self, X, Y, norms=None):
        self.asked += 1
        return Gaussian().matrix(X, Y, norms)

    def diagonal(self, X):
        return np.ones(len(X))


def put(into, rows, columns, values):
    into[rows, columns] = values


def points(n, m):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3)), rng.standard_normal((m, 3))


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (1, 1), (70, 5000), (2 * ROWS + 3, COLUMNS + 1)])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Counted()], ids=["rbf", "laplacian", "own"])
def test_tiles_form_the_kernel_matrix(kernel, n, m):
    X, Y = points(n, m)
    found, seen = np.full((n, m), np.nan), np.zeros((n, m), dtype=int)

    def use(rows, columns, values):
        found[rows, columns] = values
        seen[rows, columns] += 1

    in_kernel_tiles(kernel, X, Y, use)
    assert np.all(seen == 1)
    np.testing.assert_allclose(found, kernel.matrix(X, Y), rtol=1e-12)


@pytest.mark.parametrize("n", [40, 90])
def test_values_and_wide_products_do_not_depend_on_threads(monkeypatch, n):
    rng = np.random.default_rng(2)
    X, Y = (rng.standard_normal((m, 300)).astype(np.float32) for m in (n, 2100))
    table = rng.standard_normal((400, 6300)).astype(np.float32)
    left = rng.standard_normal((10, 400)).astype(np.float32)
    found = []
    for threads in (1, 2):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        values, product = np.empty((n, 2100), dtype=np.float32), np.empty((10, 6300), dtype=np.float32)
        with threadpool_limits(threads, user_api="blas"):
            in_kernel_tiles(Gaussian(20.0), X, Y, partial(put, values))
            wide_product(left, table, product)
        found.append((values, product))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


class FromProducts(Kernel):
    """A Gaussian kernel of distances from norms and inner products, which cancel."""

    def matrix(self, X, Y, norms=None):
        squares = np.sum(X**2, axis=1)[:, None] + np.sum(Y**2, axis=1) - 2.0 * X @ Y.T
        return np.exp(-0.5 * squares)

    def diagonal(self, X):
        return np.ones(len(X), dtype=X.dtype)

    def lipschitz(self, n_features=None):
        return 1.0


def test_rounding_bound_includes_distances_that_cancel():
    rng = np.random.default_rng(0)
    centers, points = (100.0 + rng.standard_normal((n, 5)).astype(np.float32) for n in (30, 20))
    space = KernelSpace(FromProducts(), 5, cache_mb=0.0)
    keys = space.atoms.add_points(centers, np.zeros((30, 2), dtype=int))
    terms = PointSums(keys, rng.standard_normal((30, 1)), np.array([0, 30]))
    f = space.combine(terms, np.ones(1))
    exact = Gaussian().matrix(points.astype(float), centers.astype(float)) @ terms.coefficients
    errors = np.abs(space.values(f, points) - exact)
    assert errors.max() > 1e-3
    assert np.all(errors <= output_rounding(space.kernel, f, points[:, None]))


def test_kernel_that_is_not_thread_safe_gets_whole_rows():
    kernel = Counted()
    expand(kernel, *points(600, 3000), np.ones((3000, 1)))
    assert kernel.asked == 1


def test_wide_products():
    rng = np.random.default_rng(0)
    left, table, out = rng.random((3, 200)), rng.random((200, 9000)), np.empty((3, 9000))
    wide_product(left, table, out)
    np.testing.assert_allclose(out, left @ table, rtol=1e-12)
