"""The kernel's space against dense matrices over all members, whatever the cache holds."""

import numpy as np
import pytest

from structinv.dual import dual_state
from structinv.dual.case import MOST_MEMBERS
from structinv.dual.member_state import MemberState
from structinv.dual.plane_cache import PlaneCache
from structinv.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from structinv.oracles import FiniteOracle, Identity
from structinv.solvers import (
    REGISTRY,
    Gap,
    Iterations,
    Status,
    SVMStruct,
    solve,
)
from structinv.spaces import KernelSpace
from structinv.spaces import atoms as atoms_module
from structinv.spaces import kernel_space as kernel_module
from structinv.spaces.kernel_space import AtomRows
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import ALL_ROWS

from .kernel_problems import CACHES, every_cache, problem
from .oracle_cases import ORDERS, D, Reorderings, Shrinkings
from .orbit_cases import ORBIT_CASE
from .problems import COSTLY, EXACT, SETTING, SETTINGS, N


class Model:
    """A space over the members of rows, and the same members with their Gram matrix, dense."""

    def __init__(self, cache_mb=100.0, n_outputs=2, kernel=None, oracle=None, seed=0, n_rows=8):
        self.kernel = kernel or Gaussian(1.5)
        self.rng = np.random.default_rng(seed)
        self.X = self.rng.standard_normal((n_rows, 3))
        self.source = (oracle or Shrinkings()).changes(self.X)
        self.space = KernelSpace(self.kernel, 3, n_outputs, cache_mb=cache_mb)
        self.pool = self.space.atoms.pool(self.source)
        orbit = self.source.members()
        self.points = orbit.reshape(-1, 3)
        self.size = orbit.shape[1]
        self.gram = self.kernel.matrix(self.points, self.points)

    def key(self, number):
        """Keys of points, by their number; those behind the members are loose."""
        return self.pool.keys(*np.divmod(number, self.size))

    def add_loose(self, n):
        """New points that belong to no cover."""
        fresh = self.rng.standard_normal((n, 3))
        first = len(self.points)
        self.points = np.vstack([self.points, fresh])
        self.gram = self.kernel.matrix(self.points, self.points)
        keys = self.space.atoms.add_points(fresh, np.zeros((n, 2), dtype=np.int64))
        return np.arange(first, first + n), keys

    def rows_of(self, numbers, keys, sizes):
        """Normals with given points, and the same as a dense array, (m, points, outputs)."""
        K = self.space.n_outputs
        start = np.r_[0, np.cumsum(sizes)]
        coefficients = self.rng.standard_normal((start[-1], K)) * (self.rng.random((start[-1], K)) < 0.8)
        dense = np.zeros((len(sizes), len(self.points), K))
        np.add.at(dense, (np.repeat(np.arange(len(sizes)), sizes), numbers), coefficients)
        return AtomRows(self.space.atoms, keys, coefficients, start), dense

    def normals(self, m, most=3):
        """Rows of none, one or several members, some of them twice."""
        sizes = self.rng.integers(most + 1, size=m)
        numbers = self.rng.integers(self.size * len(self.X), size=sizes.sum())
        return self.rows_of(numbers, self.key(numbers), sizes)

    def padded(self, dense):
        short = len(self.points) - dense.shape[-2]
        return np.concatenate([dense, np.zeros((*dense.shape[:-2], short, dense.shape[-1]))], axis=-2)

    def products(self, left, right):
        left, right = self.padded(left), self.padded(right)
        return np.einsum("mpk,pq,nqk->mn", left, self.gram, right, optimize=True)

    def assert_is(self, f, dense):
        """That an expansion is what dense coefficients say, wherever it may be asked."""
        dense = self.padded(dense)
        there = self.kernel.matrix(self.space.atoms.known, self.points) @ dense
        np.testing.assert_allclose(f.values(), there, atol=1e-11)
        np.testing.assert_allclose(f.function()(self.points), self.gram @ dense, atol=1e-11)
        used = f.support()
        known = self.space.atoms.points(used)
        fresh = self.kernel.matrix(self.points, known) @ f.coefficients[used]
        np.testing.assert_allclose(fresh, self.gram @ dense, atol=1e-11)

    def assert_budget(self):
        table = self.space.atoms.table
        whole = table if table.base is None else table.base
        assert whole.nbytes <= 1e6 * self.space.cache_mb
        assert table.shape[0] <= len(self.space.atoms)


@every_cache
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_operations_are_those_of_dense_arrays(n_outputs, cache_mb):
    model = Model(cache_mb, n_outputs)
    space = model.space
    for m, k in ((4, 5), (7, 3), (1, 1), (6, 9)):
        left, dense_left = model.normals(m)
        right, dense_right = model.normals(k)
        wanted = model.products(dense_left, dense_right)
        np.testing.assert_allclose(space.gram(left, right), wanted, atol=1e-12)
        np.testing.assert_allclose(
            space.gram(left, left), model.products(dense_left, dense_left), atol=1e-12
        )
        weights = model.rng.standard_normal(m)
        f, g = space.combine(left, weights), space.combine(right, np.ones(k))
        dense_f, dense_g = np.tensordot(weights, dense_left, 1), dense_right.sum(axis=0)
        model.assert_is(f, dense_f)
        assert space.dot(f, g) == pytest.approx(
            model.products(dense_f[None], dense_g[None]).item(), abs=1e-11
        )
        assert space.dot(g, f) == pytest.approx(space.dot(f, g), abs=1e-12)
        wanted = model.products(dense_f[None], dense_right)[0]
        np.testing.assert_allclose(space.scores(f, right), wanted, atol=1e-11)
        wanted = np.einsum("pk,pq,ql->kl", dense_f, model.gram, dense_g)
        np.testing.assert_allclose(space.output_gram(f, g), wanted, atol=1e-11)
        for mixed in (space.mix(left, weights), space.element(f)):
            assert len(mixed) == 1
            model.assert_is(space.combine(mixed, np.array([2.0])), 2.0 * dense_f)
        both = space.stack([left, right, left])
        wanted = np.concatenate([dense_left, dense_right, dense_left])
        np.testing.assert_allclose(space.gram(both, both), model.products(wanted, wanted), atol=1e-12)
        order = model.rng.permutation(len(both))[: m + 1]
        part = both[order]
        assert len(part) == m + 1
        wanted = model.products(wanted[order], dense_right)
        np.testing.assert_allclose(space.gram(part, right), wanted, atol=1e-12)
        model.assert_budget()


@pytest.mark.parametrize("seed", range(8))
@every_cache
def test_expansions_carry_their_values_along(cache_mb, seed):
    model = Model(cache_mb, 2, seed=seed)
    space, rng = model.space, model.rng
    mirrors = [(space.zeros(), np.zeros((len(model.points), 2)))]
    for _ in range(40):
        f, dense = mirrors[rng.integers(len(mirrors))]
        g, other = mirrors[rng.integers(len(mirrors))]
        action = rng.integers(8)
        if action == 0:
            rows, new = model.normals(3)
            mirrors.append((space.combine(rows, np.ones(3)), new.sum(axis=0)))
        elif action == 1:
            f.values()
        elif action == 2:
            mirrors.append((f.copy(), dense.copy()))
        elif action == 3:
            f += g
            dense += other
        elif action == 4:
            f -= g
            dense -= other
        elif action == 5:
            f *= 0.5
            dense *= 0.5
        elif action == 6:
            mirrors.append((f + g, dense + other))
            mirrors.append((f - g, dense - other))
        else:
            mirrors.append((np.float64(-0.3) * f, -0.3 * dense))
        mirrors = mirrors[-6:]
    for f, dense in mirrors:
        scale = max(1.0, np.abs(dense).max())
        model.assert_is(f * (1.0 / scale), dense / scale)
        assert space.dot(f, f) == pytest.approx(np.einsum("pk,pq,qk->", dense, model.gram, dense))
    model.assert_budget()


def test_a_copy_is_independent():
    model = Model()
    rows, dense = model.normals(4)
    f = model.space.combine(rows, np.ones(4))
    f.values()
    other = f.copy()
    other += model.space.combine(model.normals(5)[0], np.ones(5))
    other *= 3.0
    model.assert_is(f, dense.sum(axis=0))
    g = f.copy()
    f += f
    model.assert_is(f, 2.0 * dense.sum(axis=0))
    model.assert_is(g, dense.sum(axis=0))


@every_cache
def test_nothing_is_a_sum_of_nothing(cache_mb):
    model = Model(cache_mb)
    space, zero = model.space, model.space.zeros()
    rows, dense = model.normals(5)
    none, hollow = rows[:0], space.element(zero)
    assert (len(none), len(hollow), len(space.stack([none, none]))) == (0, 1, 0)
    f = space.combine(rows, np.ones(5))
    assert space.dot(zero, zero) == space.dot(zero, f) == space.dot(f, zero) == 0.0
    assert space.scores(f, none).shape == (0,)
    np.testing.assert_array_equal(space.scores(f, hollow), [0.0])
    np.testing.assert_array_equal(space.scores(zero, rows), np.zeros(5))
    np.testing.assert_array_equal(space.gram(hollow, rows), np.zeros((1, 5)))
    np.testing.assert_array_equal(space.gram(rows, space.stack([hollow, hollow])), np.zeros((5, 2)))
    assert space.gram(none, rows).shape == (0, 5)
    assert space.gram(none, none).shape == (0, 0)
    for sum_of_none in (space.combine(none, np.zeros(0)), space.combine(hollow, np.ones(1)), f - f):
        assert len(sum_of_none.support()) == 0
        model.assert_is(sum_of_none, 0.0 * dense.sum(axis=0))
        model.assert_is(sum_of_none + f, dense.sum(axis=0))
    assert np.all(zero.function()(model.points) == 0)
    np.testing.assert_allclose(space.scores(f, space.stack([hollow, rows]))[1:], space.scores(f, rows))


@every_cache
def test_loose_points_are_atoms_like_others(cache_mb):
    model = Model(cache_mb)
    space = model.space
    total, sum_of_all = space.zeros(), np.zeros((len(model.points), 2))
    for round_ in range(5):
        members = model.rng.integers(24, size=3)
        numbers, keys = model.add_loose(4)
        numbers = np.r_[numbers, members, numbers[:2]]
        keys = np.r_[keys, model.key(members), keys[:2]]
        rows, dense = model.rows_of(numbers, keys, [2, 0, 3, 4])
        f = space.combine(rows, np.arange(4.0))
        model.assert_is(f, np.tensordot(np.arange(4.0), dense, 1))
        np.testing.assert_allclose(space.gram(rows, rows), model.products(dense, dense), atol=1e-12)
        if round_ % 2:
            total.values()
        total += f
        sum_of_all = model.padded(sum_of_all) + np.tensordot(np.arange(4.0), dense, 1)
        model.assert_is(total, sum_of_all)
        model.assert_budget()
    assert len(space.atoms) == len(np.unique(space.atoms.keys))


@every_cache
def test_two_pools_share_a_space(cache_mb):
    model = Model(cache_mb)
    space = model.space
    Z = model.rng.standard_normal((6, 3))
    other = space.atoms.pool(Reorderings([[0, 1, 2], [2, 1, 0]]).changes(Z))
    members = np.stack([Z, Z[:, ::-1]], axis=1).reshape(-1, 3)
    first = len(model.points)
    model.points = np.vstack([model.points, members])
    model.gram = model.kernel.matrix(model.points, model.points)
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
def test_atoms_know_where_they_come_from(cache_mb):
    model = Model(cache_mb)
    model.space.atoms.slots(model.normals(20)[0].keys)
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


def test_all_members_are_known_only_if_the_cache_has_room():
    for cache_mb, known in zip(CACHES, (24, 0, 0, 0), strict=True):
        model = Model(cache_mb)
        assert model.space.atoms.n_known == known
        assert (model.pool.mesh is not None) == bool(known)


def test_a_row_that_is_left_alone_is_one_known_point():
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


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("cache_mb", [0.1, 0.02, 0.0])
def test_the_table_keeps_its_budget_for_rows_of_any_type(cache_mb, dtype):
    X = np.random.default_rng(0).integers(0, 255, (100, 4)).astype(dtype)
    y = np.arange(100) % 2
    space = KernelSpace(Gaussian(60.0), 4, cache_mb=cache_mb)
    this = Objective(space, [WorstCase(X, y, Identity(), Binary(), 1.0)])
    planes = this.planes(space.zeros())
    gram = space.gram(planes.normals, planes.normals)
    table = space.atoms.table
    assert (table if table.base is None else table.base).nbytes <= 1e6 * cache_mb
    sign = np.where(y == 1, 1.0, -1.0)
    wanted = np.outer(sign, sign) * Gaussian(60.0).matrix(X.astype(float), X.astype(float))
    np.testing.assert_allclose(gram, wanted, atol=1e-5)
    assert gram.dtype == (np.float32 if dtype == np.float32 else np.float64)


@pytest.mark.parametrize("cache_mb", [100.0, 0.001, 0.0])
@pytest.mark.parametrize(
    "dtypes", [(np.float64, np.int64), (np.int64, np.float64), (np.float32, np.float64)]
)
def test_rows_of_two_types_keep_their_digits(dtypes, cache_mb):
    rng = np.random.default_rng(1)
    X, Z = (3.0 * rng.standard_normal((7, 3))).astype(dtypes[0]), (3.0 * rng.standard_normal((9, 3)))
    Z = Z.astype(dtypes[1])
    space = KernelSpace(Gaussian(3.0), 3, cache_mb=cache_mb)
    terms = [WorstCase(A, np.arange(len(A)) % 2, Identity(), Binary(), 1.0) for A in (X, Z)]
    planes = Objective(space, terms).planes(space.zeros())
    slots = space.atoms.slots(planes.normals.keys)
    np.testing.assert_array_equal(space.atoms.points(slots), np.vstack([X, Z]))
    f = space.combine(planes.normals, np.ones(16))
    np.testing.assert_allclose(
        f.values()[space.atoms.places[slots]], f.function()(np.vstack([X, Z])), atol=1e-5
    )


@every_cache
@pytest.mark.parametrize("setting", [*SETTINGS, COSTLY], ids=str)
@pytest.mark.parametrize("name", ["union", "compose", "only_for-discounted"])
def test_planes_touch_the_losses_from_below(name, setting, cache_mb):
    case = ORBIT_CASE[name]
    this = problem(case.oracle, setting, Gaussian(2.0), cache_mb=cache_mb)
    space = this.space
    f = space.combine(this.planes(space.zeros()).normals, np.linspace(0.2, 1.5, N))
    losses = enumerated_losses(f, case, setting)
    for blocks in (None, np.array([4, 1, 8])):
        chosen = ALL_ROWS if blocks is None else blocks
        planes = this.planes(f, blocks)
        np.testing.assert_allclose(planes.upper, losses[chosen], atol=1e-11)
        np.testing.assert_allclose(planes.heights, losses[chosen], atol=1e-11)
        heights = planes.offsets - space.scores(f, planes.normals)
        np.testing.assert_allclose(heights, losses[chosen], atol=1e-11)
        for factor in (0.0, 0.5, -1.0, 3.0):
            g = factor * f
            under = planes.offsets - space.scores(g, planes.normals)
            assert np.all(under <= enumerated_losses(g, case, setting)[chosen] + 1e-11)
    value = this.value(f)
    wanted = 0.5 * space.dot(f, f) + np.array(setting.weights) @ losses
    assert value.upper == pytest.approx(wanted, rel=1e-12)
    assert value.attained == pytest.approx(wanted, rel=1e-12)


def enumerated_losses(f, case, setting):
    members, grades = case.members(setting.X, setting.y), case.grades(setting.X, setting.y)
    values = f.function()(members.reshape(-1, D)).reshape(*members.shape[:2], -1)
    if setting.n_outputs == 1:
        values = np.concatenate([np.zeros_like(values), values], axis=2)
    losses = np.zeros(N)
    for i, label in enumerate(setting.y):
        for other in range(setting.n_classes):
            cost = setting.cost[label][other]
            gain = values[i, :, other] - values[i, :, label]
            if other != label:
                reached = (cost if setting.slack else 1.0) * gain + cost * grades[i]
                losses[i] = max(losses[i], reached.max())
    return losses


@every_cache
def test_portions_do_not_matter(cache_mb, monkeypatch):
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
                *(getattr(p, part) for p in (planes, few) for part in ("offsets", "upper", "heights")),
                space.gram(planes.normals, few.normals),
                f.function()(members),
                this.value(f).upper,
            ]
        )
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_very_long_lists_keep_no_table_of_members(monkeypatch):
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


def test_rows_without_a_loss_leave_no_atoms():
    case, setting = ORBIT_CASE["identity"], SETTING["binary"]
    space = KernelSpace(Gaussian(0.1), D)
    this = problem(case.oracle, setting, None, space=space)
    # Narrow and high: every row is right by far.
    f = space.combine(this.planes(space.zeros()).normals, np.full(N, 5.0))
    before = len(space.atoms)
    planes = this.planes(f)
    assert len(planes.normals) == N
    assert len(planes.normals.keys) == len(planes.normals.coefficients) == 0
    np.testing.assert_array_equal(planes.offsets, np.zeros(N))
    np.testing.assert_array_equal(space.gram(planes.normals, planes.normals), np.zeros((N, N)))
    assert len(space.atoms) == before


class Counting(Gaussian):
    """Counts the values that it computes."""

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


def test_compacted_normals_are_the_same_function():
    model = Model(n_outputs=2)
    rows, dense = model.normals(6)
    numbers, keys = model.add_loose(2)
    loose, more = model.rows_of(numbers, keys, [1, 1])
    joined = model.space.stack([rows, loose])
    space, same = model.space.compacted(joined)
    assert len(space.atoms) == len(np.unique(joined.keys))
    assert space.owns(same)
    assert not model.space.owns(same)
    f = space.combine(same, np.ones(8))
    wanted = model.gram @ (model.padded(dense).sum(axis=0) + model.padded(more).sum(axis=0))
    np.testing.assert_allclose(f.function()(model.points), wanted, atol=1e-12)
    original = model.space.combine(joined, np.ones(8))
    assert space.dot(f, f) == pytest.approx(model.space.dot(original, original))
    mine, theirs = (
        each.atoms.slots(each_rows.keys) for each, each_rows in ((space, same), (model.space, joined))
    )
    np.testing.assert_array_equal(space.atoms.origins[mine], model.space.atoms.origins[theirs])


class Broken(FiniteOracle):
    """One member of one row is no number."""

    def orbit(self, X):
        members = np.stack([X, 0.5 * X], axis=1)
        members[-1, 1] = np.nan
        return members


@pytest.mark.parametrize("cache_mb", [100.0, 0.0])
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(2.0),
        Matern(1.0, 2.5),
        Polynomial(),
        Linear(),
        Laplacian(),
    ],
    ids=repr,
)
def test_members_that_are_no_numbers_are_refused(kernel, cache_mb):
    this = problem(Broken(), SETTING["binary"], kernel, cache_mb=cache_mb)
    with pytest.raises(ValueError, match="not finite"):
        solve(this, SVMStruct(), Iterations(3), random_state=0)


def test_a_space_that_does_not_fit_the_rows_is_refused():
    setting = SETTING["multiclass"]
    term = WorstCase(setting.X, setting.y, Reorderings(ORDERS), setting.structure, **setting.losses)
    for space in (KernelSpace(Gaussian(), D), KernelSpace(Gaussian(), D + 1, 3)):
        with pytest.raises(ValueError, match="n_features, n_outputs, n_extra"):
            Objective(space, [term])
