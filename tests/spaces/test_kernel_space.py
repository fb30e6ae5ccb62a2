"""Kernels' spaces against dense matrices over all members, and continua against dense sampling."""

import operator

import numpy as np
import pytest

from structinv import InvariantSVC
from structinv.kernels import Gaussian, Laplacian, Matern, Polynomial
from structinv.oracles import Box, FiniteOracle
from structinv.solvers import REGISTRY, FrankWolfe, Gap, Status, solve
from structinv.spaces import kernel_space as kernel_module
from structinv.spaces.kernel_space import KernelSpace
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import ALL_ROWS

from ..covering import each_once, slow_unless
from ..kernel_problems import every_cache, problem
from ..oracles.cases import ORDERS, D, Reorderings, Shrinkings
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import EXACT, SETTING, N
from .cases import DIRECTION, LINE, SPACES, Line, Model, every_space

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
    for m, k in ((4, 5), (1, 1)):
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
    ("seed", "representers", "free_degree", "cache_mb"),
    [(number % 4, *space) for number, space in enumerate(SPACES)],
)
def test_sums_and_multiples_update_cached_values(seed, representers, free_degree, cache_mb):
    model = Model(cache_mb, 2, None, representers, free_degree, seed=seed)
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
def test_results_do_not_depend_on_portions(cache_mb, monkeypatch):
    case, setting = ORBIT_CASE["discounted-member"], SETTING["multiclass-slack"]
    answers = []
    for size in (None, 4):
        if size:
            monkeypatch.setattr("structinv.terms.worst_case.ROWS_AT_ONCE", size)
            monkeypatch.setattr(kernel_module, "VALUES_AT_ONCE", 100)
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


def other(grid=5):
    return Line(np.array([0.0, 0.3, -0.9, 0.0, 0.4]), 0.0, 0.8, grid)


def line_function(kernel, setting, oracle=LINE, seed=0, cache_mb=100.0):
    this = problem(oracle, setting, kernel, cache_mb=cache_mb)
    normals = this.planes(this.space.zeros()).normals
    return this, this.space.combine(normals, np.random.default_rng(seed).uniform(-1.5, 1.5, N))


def leads(competitors, values):
    """What each label has more than the true one at each member, (n, s, n_labels)."""
    members = range(values.shape[1])
    labels = [np.full(N, label) for label in range(competitors.n_labels)]
    return np.stack([[competitors.gain_of(values[:, m], k) for m in members] for k in labels]).transpose(
        2, 1, 0
    )


@pytest.mark.parametrize(
    ("kernel", "setting", "cache_mb"),
    each_once(
        [Gaussian(0.8), Gaussian(3.0), Matern(1.0, 1.5), Laplacian(0.4)],
        ["binary", "binary-slack", "multiclass", "multiclass-slack"],
        [100.0, 0.0],
    ),
    ids=repr,
)
def test_between_what_is_found_and_the_bound_lies_the_truth(kernel, setting, cache_mb):
    setting, improved = SETTING[setting], 0
    for seed in range(2):
        this, f = line_function(kernel, setting, seed=seed, cache_mb=cache_mb)
        term = this.terms[0]
        competitors = term.bound_structure.competitors()
        worst = this.space.worst(f, term.bound, ALL_ROWS, competitors)
        members, cover = LINE.dense(setting.X), LINE.changes(setting.X).members()
        true, grid = (
            leads(competitors, f.function()(z.reshape(-1, D)).reshape(*z.shape[:2], -1)).max(axis=1)
            for z in (members, cover)
        )  # fmt: skip
        # The dense sample misses less than this.
        step = 0.5 * 1.5 / 4000 * np.linalg.norm(DIRECTION)
        if np.isfinite(kernel.lipschitz()):
            fine = kernel.lipschitz() * step * 3.0 * np.sqrt(this.space.dot(f, f))
            assert np.all(worst.gains <= true + fine)
        assert np.all(worst.gains >= grid - 1e-12)
        assert np.all(worst.upper >= true + competitors.costs - 1e-12)
        improved += np.count_nonzero(worst.gains > grid + 1e-6)
        chosen = np.argmax(worst.gains + worst.costs, axis=1)
        answer = worst.points(chosen)
        slots = this.space.atoms.slots(answer.points)
        reached = competitors.gain_of(f.function()(this.space.atoms.points(slots)), chosen)
        np.testing.assert_allclose(reached, worst.gains[np.arange(N), chosen], atol=1e-11)
        np.testing.assert_array_equal(answer.gains, worst.gains[np.arange(N), chosen])
        rows, near = this.space.atoms.origins[slots].T
        np.testing.assert_array_equal(rows, np.arange(N))
        away = np.linalg.norm(this.space.atoms.points(slots) - cover[rows, near], axis=1)
        assert np.all(away <= 2.0 * LINE.changes(setting.X).mesh() + 1e-12)
    # A function of Laplacian kernels may be largest at its kinks.
    assert improved > 0 or isinstance(kernel, Laplacian)


@pytest.mark.parametrize("setting", ["binary-slack", "multiclass-slack"])
def test_the_bound_is_the_best_of_the_cover_and_norm_times_distance(setting):
    setting, kernel = SETTING[setting], Matern(2.0, 2.5)
    this, f = line_function(kernel, setting, LINE.only_for([1]))
    term, cover = this.terms[0], LINE.changes(setting.X)
    competitors = term.bound_structure.competitors()
    worst = this.space.worst(f, term.bound, ALL_ROWS, competitors)
    used = f.support()
    atoms, beta = this.space.atoms.points(used), f.coefficients[used]
    for i, code in enumerate(competitors.codes):
        members = cover.members()[i] if setting.y[i] == 1 else setting.X[i : i + 1]
        for label in set(range(competitors.n_labels)) - {code}:
            g = -beta @ competitors.normals(np.full(N, label))[i]
            norm = np.sqrt(g @ kernel.matrix(atoms, atoms) @ g)
            best = (kernel.matrix(members, atoms) @ g).max() + competitors.costs[i, label]
            reach = kernel.lipschitz() * norm * cover.mesh()[i] if setting.y[i] == 1 else 0.0
            assert worst.upper[i, label] == pytest.approx(best + reach, rel=1e-9, abs=1e-11)


class Thinned(Line):
    """A line whose list has few of the points of its grid."""

    def changes(self, X, y=None):
        return super().changes(X).take([0, 1, self.grid])


@pytest.mark.parametrize("cache_mb", [100.0, 0.0])
def test_a_selection_of_a_cover_proves_nothing_about_the_rest(cache_mb):
    line, kernel = Thinned(DIRECTION, grid=9), Gaussian(0.8)
    this, f = line_function(kernel, SETTING["binary"], line, cache_mb=cache_mb)
    term = this.terms[0]
    competitors = term.bound_structure.competitors()
    worst = this.space.worst(f, term.bound, ALL_ROWS, competitors)
    members, listed = line.dense(term.bound.X), line.changes(term.bound.X).members()
    true, own = (
        leads(competitors, f.function()(z.reshape(-1, D)).reshape(*z.shape[:2], -1)).max(axis=1)
        for z in (members, listed)
    )
    assert np.all(worst.gains >= own - 1e-12)
    assert np.all(worst.upper >= true + competitors.costs - 1e-12)
    slots = this.space.atoms.slots(worst.points(1 - competitors.codes).points)
    rows, near = this.space.atoms.origins[slots].T
    assert np.all(near < 3)
    away = this.space.atoms.points(slots) - listed[rows, near]
    assert np.all(np.linalg.norm(away, axis=1) <= 1.5 / 8 * np.linalg.norm(DIRECTION) + 1e-12)


class Some(FiniteOracle):
    """A list that is a selection of another."""

    def orbit(self, X):
        return self.changes(X).members()

    def changes(self, X, y=None):
        return Shrinkings().changes(X).take([0, 2])


def test_support_vectors_have_the_numbers_of_a_selected_list():
    X, y = SETTING["binary"].X, SETTING["binary"].y
    model = InvariantSVC(Some(), kernel=Gaussian(0.8), solver="svmstruct", random_state=0).fit(X, y)
    members = Some().orbit(X)[model.support_, model.support_members_]
    np.testing.assert_array_equal(members, model.support_vectors_)
    assert set(model.support_members_) == {0, 1}


LINES = {
    "line": lambda grid: Line(DIRECTION, grid=grid),
    "only_for": lambda grid: Line(DIRECTION, grid=grid).only_for([1]),
    "union": lambda grid: Line(DIRECTION, grid=grid) | other(grid).only_for([0, 2]),
    "union-finite": lambda grid: Shrinkings() | Line(DIRECTION, grid=grid),
}


def sampled_members(name, X, y):
    """Very many members of each row of the sets above."""
    one, two = LINES["line"](5).dense(X, 800), other().dense(X, 800)
    if name == "only_for":
        one = np.where((y == 1)[:, None, None], one, X[:, None, :])
    if name == "union":
        return np.concatenate([one, np.where((y != 1)[:, None, None], two, X[:, None, :])], axis=1)
    if name == "union-finite":
        return np.concatenate([one, np.stack([X, 0.5 * X, -0.25 * X], axis=1)], axis=1)
    return one


def sampled_value(name, setting, solution, factor):
    members = sampled_members(name, setting.X, setting.y)
    values = solution.f.function()(members.reshape(-1, D)).reshape(*members.shape[:2], -1)
    sign = np.where(setting.y == 1, -1.0, 1.0)
    losses = np.maximum(0.0, 1.0 + (sign[:, None] * values[:, :, 0]).max(axis=1))
    space = KernelSpace(solution.f.atoms.kernel, D)
    space.atoms = solution.f.atoms
    return 0.5 * space.dot(solution.f, solution.f) + factor * np.array(setting.weights) @ losses


# Every line with both grids, and all kernels and solvers in turns.
@pytest.mark.parametrize(
    ("name", "grid", "kernel", "solver"),
    [
        (
            name,
            grid,
            (Gaussian(3.0), Polynomial(2, 1.0, 0.1))[(i + j) % 2],
            EXACT[(2 * i + j) % len(EXACT)],
        )
        for i, name in enumerate(sorted(LINES))
        for j, grid in enumerate((3, 600))
    ],
    ids=str,
)
def test_a_run_over_a_continuum_never_converges_falsely(name, grid, kernel, solver):
    setting, factor = SETTING["binary"], 5.0
    this = problem(LINES[name](grid), setting, kernel, factor=factor)
    solution = solve(this, REGISTRY[solver](), Gap(1e-2), random_state=0)
    # The value over a dense sample is the true one but for a hair, and above the optimum.
    true = sampled_value(name, setting, solution, factor)
    assert solution.primal >= true - 1e-9 * true
    for entry in solution.history:
        assert entry.dual <= true + 1e-5 * true
    if solution.status is Status.CONVERGED:
        assert solution.primal - solution.dual <= 1e-2 * solution.primal
        assert true - solution.dual <= 1e-2 * true
    else:
        assert solution.status is Status.ORACLE_TOO_COARSE
    fine = grid == 600 and np.isfinite(kernel.lipschitz())
    assert (solution.relative_gap <= 1.5e-2) == fine


def test_a_bound_that_is_infinite_spares_the_rows_that_may_not_change():
    setting, kernel = SETTING["multiclass"], Polynomial(2, 1.0, 0.1)
    this, f = line_function(kernel, setting, LINE.only_for([1]))
    upper = this.planes(f).upper
    np.testing.assert_array_equal(np.isinf(upper), setting.y == 1)
    assert this.planes(this.space.zeros()).upper.max() <= 3.0


@pytest.mark.parametrize("name", ["compose", "compose-labels", "union-discounted"])
def test_combinations_with_a_continuum_can_be_solved(name):
    oracle = {
        "compose": LINE @ other(),
        "compose-labels": LINE @ other().only_for([1]),
        "union-discounted": LINE | Shrinkings().only_for([1]).discounted(0.4),
    }[name]
    setting = SETTING["binary"]
    this = problem(oracle, setting, Gaussian(3.0), factor=5.0)
    solution = solve(this, FrankWolfe(), Gap(1e-2), random_state=0)
    assert solution.status is Status.ORACLE_TOO_COARSE
    members = other().dense(setting.X, 60)
    if name != "union-discounted":
        if name == "compose-labels":
            members = np.where((setting.y == 1)[:, None, None], members, setting.X[:, None])
        n, s, _ = members.shape
        members = LINE.dense(members.reshape(-1, D), 60).reshape(n, -1, D)
        values = solution.f.function()(members.reshape(-1, D)).reshape(n, -1)
        sign = np.where(setting.y == 1, -1.0, 1.0)
        losses = np.maximum(0.0, 1.0 + (sign[:, None] * values).max(axis=1))
        true = 0.5 * this.space.dot(solution.f, solution.f) + 5.0 * np.array(setting.weights) @ losses
        assert solution.dual <= true


def test_an_oracle_without_an_orbit_is_refused_by_name():
    this = problem(Box(0.5), SETTING["binary"], Gaussian())
    with pytest.raises(NotImplementedError, match="Box does not define an orbit or a cover"):
        solve(this, FrankWolfe(), random_state=0)
