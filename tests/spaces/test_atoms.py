"""Points that functions expand over, and the table of kernel values at them."""

import numpy as np
import pytest

from structinv.kernels import Gaussian
from structinv.oracles import Identity
from structinv.solvers import REGISTRY, Gap, Status, solve
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import ALL_ROWS

from ..kernel_problems import CACHES, every_cache, problem
from ..oracles.cases import D, Reorderings, Shrinkings
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import EXACT, SETTING, N
from .cases import LINE, Model, Steps


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
        np.testing.assert_array_equal(space.points(keys[order]), model.points[numbers[order]])
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
def test_tables_have_the_precision_of_the_kernel_within_the_cache(kernel, dtype, precision):
    X = np.random.default_rng(0).integers(0, 255, (100, 4)).astype(dtype)
    y = np.arange(100) % 2
    wanted = Gaussian(60.0).matrix(X.astype(float), X.astype(float))
    sign = np.where(y == 1, 1.0, -1.0)
    for cache_mb in (100.0, 0.1, 0.02, 0.0):
        space = KernelSpace(kernel, 4, cache_mb=cache_mb)
        this = Objective(space, [WorstCase(X, y, Identity(), Binary(), 1.0)])
        normals = this.planes(space.zeros()).normals
        gram, atoms = space.gram(normals, normals), space.atoms.slots(normals.points)
        for values in (space.atoms.block(atoms, atoms), space.atoms.square(atoms), gram):
            assert values.dtype == precision
            expected = np.outer(sign, sign) * wanted if values is gram else wanted
            np.testing.assert_allclose(values, expected, atol=1e-5 if precision == np.float32 else 1e-12)
        table = space.atoms.table
        assert (table if table.base is None else table.base).nbytes <= 1e6 * cache_mb


@pytest.mark.parametrize(
    ("dtypes", "cache_mb"),
    [
        ((np.float64, np.int64), 100.0),
        ((np.int64, np.float64), 0.001),
        ((np.float32, np.float64), 100.0),
        ((np.float32, np.float64), 0.001),
        ((np.float32, np.float64), 0.0),
    ],
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


class Coarser(Steps):
    """The same members, as a cover with twice the distance to the farthest element."""

    def mesh(self, rows=ALL_ROWS):
        return 2.0 * super().mesh(rows)


def test_covers_of_the_same_points_keep_their_own_meshes():
    atoms = KernelSpace(Gaussian(), D).atoms
    X = np.eye(D)
    for changes in (LINE.changes(X), Coarser(LINE, X)):
        np.testing.assert_array_equal(atoms.pool(changes).mesh, changes.mesh())
