"""Faults that were found once, each by the smallest example that shows it."""

from dataclasses import replace

import numpy as np
import pytest

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.dual import dual_state
from structinv.dual.member_state import MemberState
from structinv.kernels import Gaussian
from structinv.oracles import (
    Box,
    Ellipsoid,
    FDrop,
    FiniteOracle,
    Identity,
    Shifts,
    Support,
    TangentDerivative,
)
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Seconds, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace, atoms
from structinv.spaces.atoms import AtomStore
from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.point_sums import PointSums
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase


def data(n=40, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.standard_normal((n, d)))
    return X, np.where(np.arange(n) % 2, 1, -1)


class NonNegativeBox(Box):
    """A box that ends at zero."""

    def support(self, X, V, assign, cost=None):
        return Support(np.maximum(super().support(X, V, assign).points, 0.0))


class StillEllipsoid(Ellipsoid):
    """An ellipsoid that does not move after all."""

    def support(self, X, V, assign, cost=None):
        return Support(X)


class Doubled(Identity):
    """The row or its double."""

    def support(self, X, V, assign, cost=None):
        return Support(np.where(np.sum(X * V[assign], axis=1)[:, None] > 0, 2 * X, X))


class LargerBall(Ellipsoid):
    """Twice the radius, by way of the parent's answer."""

    def support(self, X, V, assign, cost=None):
        return Support(2 * super().support(X, V, assign).points - X)


@pytest.mark.parametrize(
    "oracle",
    [NonNegativeBox(0.1), StillEllipsoid(np.eye(20), 0.5), Doubled(), LargerBall(np.eye(20), 0.1)],
    ids=lambda oracle: type(oracle).__name__,
)
def test_a_subclass_that_answers_for_itself_is_asked(oracle):
    X, y = data()
    found = [
        InvariantLinearSVC(oracle, C=0.5, tol=1e-4, solver=solver, random_state=0).fit(X, y)
        for solver in ("frank_wolfe", "bmrm")
    ]
    first, second = (model.solution_ for model in found)
    assert min(first.gap, second.gap) >= 0
    assert first.primal == pytest.approx(second.primal, rel=3e-4)
    V, codes = found[0].coef_ * np.array([[1.0], [-1.0]]), (y > 0).astype(int)
    points = oracle.support(X, V, codes).points
    reached = y * (points @ found[0].coef_[0] + found[0].intercept_)
    np.testing.assert_allclose(found[0].certify(X, y).margins, reached, atol=1e-10)


def objective(oracle, X, y):
    return Objective(ExplicitSpace(X.shape[1]), [WorstCase(X, y, oracle, Binary(), 1.0)])


class Overstates(SVMStruct):
    def bounds(self, objective, state):
        found = super().bounds(objective, state)
        return replace(found, dual=found.dual + 1e4)


def test_bounds_that_contradict_each_other_are_not_called_converged():
    found = solve(objective(Identity(), *data()), Overstates(), Gap(1e-6), random_state=0)
    assert found.gap < 0
    assert found.status is Status.INCONSISTENT
    assert "check_oracle" in found.status.advice


@pytest.mark.parametrize("labels", [[-1, 1], [5]])
def test_only_for_all_rows_or_none_asks_no_oracle_about_nothing(labels):
    X, y = data()
    tangents = TangentDerivative(lambda rows: np.stack([row[None, :] for row in rows]), 0.1)
    found = solve(objective(tangents.only_for(labels), X, y), FrankWolfe(), Gap(1e-4), random_state=0)
    assert found.status is Status.CONVERGED


class Turned(FiniteOracle):
    """The row, backward, or moved on by one."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1], np.roll(X, 1, axis=1)], axis=1)


def machine(n=40, weights=1.0, cache_mb=100.0, dtype=np.float64):
    """A kernel machine on listed members, and its term."""
    X, y = data(n)
    term = WorstCase(X.astype(dtype), y, Turned(), Binary(), weights)
    return Objective(KernelSpace(Gaussian(3.0), X.shape[1], cache_mb=cache_mb), [term]), term


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("solver", [FrankWolfe, SVMStruct])
def test_a_term_that_counts_nothing_changes_nothing(solver, epsilon):
    X, y = data()
    for oracle, space in [
        (Box(0.1), ExplicitSpace(20)),
        (Turned(), ExplicitSpace(20)),
        (Turned(), KernelSpace(Gaussian(3.0), 20)),
    ]:
        nothing = WorstCase(X[:9], y[:9], oracle, Binary(), 0.0)
        terms = [WorstCase(X, y, oracle, Binary(), 0.1), nothing]
        found = solve(Objective(space, terms), solver(epsilon), Gap(1e-2), random_state=0)
        assert found.status in (Status.CONVERGED, Status.WITHIN_PLANE_TOL)
        found = solve(Objective(space, [nothing]), solver(epsilon), Gap(1e-2), random_state=0)
        assert (found.status, found.primal, found.dual) == (Status.CONVERGED, 0.0, 0.0)


@pytest.mark.parametrize("solver", [Pegasos(batch_size=1), FrankWolfe(plane_tol=1e-3)])
def test_rows_none_of_whose_errors_costs_anything(solver):
    X, y = data()
    cost = [[0, 3], [0, 0]]
    # To 1e-2, as Pegasos at one row a step needs.
    parameters = {"cost": cost, "rescaling": "slack", "solver": solver, "C": 0.1, "tol": 1e-2}
    model = InvariantLinearSVC(FDrop(2), **parameters, random_state=0)
    # Next to no rows of the class that counts, so that batches hold none.
    found = model.fit(X, y, sample_weight=np.where(y < 0, np.arange(40) < 4, 1.0)).solution_
    assert found.dual <= found.primal
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("solver", [SVMStruct(), BMRM(), Pegasos()], ids=repr)
def test_rows_of_no_weight_make_no_atoms(solver):
    weights = np.where(np.arange(40) < 10, 1.0, 0.0)
    this, term = machine(weights=weights)
    found = solve(this, solver, Gap(1e-2), random_state=0)
    assert found.status is Status.CONVERGED
    assert np.all(weights[this.space.atoms.origins[:, 0]] > 0)


@pytest.mark.parametrize("columns", [1, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_atoms_at_once_fill_the_cache_as_far_as_it_goes(monkeypatch, columns, dtype):
    monkeypatch.setattr(atoms, "COLUMNS_WORTH_A_CACHE", columns)
    n = 40
    this, term = machine(cache_mb=columns * 3 * n * dtype().itemsize / 1e6, dtype=dtype)
    state = dual_state(term, this.space, np.random.default_rng(0))
    arrays = {
        "pairs.counts": np.ones(n, dtype=int),
        "pairs.members": np.zeros(n, dtype=int),
        "pairs.labels": 1 - term.bound_structure.codes,
        "pairs.alphas": np.full(n, 0.5),
    }
    state.start(arrays, this.space.zeros())
    assert this.space.atoms.n_cached_rows == columns
    f = state.combination()
    for _ in range(30):
        state.sweep(f)
    best = solve(machine()[0], FrankWolfe(), Gap(1e-6), random_state=0)
    reached = state.offset - 0.5 * this.space.dot(f, f)
    assert reached == pytest.approx(best.dual, rel=1e-4)


def test_what_the_cache_does_not_hold_is_computed_in_portions(monkeypatch):
    monkeypatch.setattr(atoms, "COLUMNS_WORTH_A_CACHE", 1)
    monkeypatch.setattr(atoms, "VALUES_AT_ONCE", 2000)
    largest, whole = [0], AtomStore._fill_rows

    def watched(self, numbers, table):
        largest[0] = max(largest[0], table.size)
        whole(self, numbers, table)

    this, _ = machine(n=200, cache_mb=200 * 3 * 8 / 1e6)
    monkeypatch.setattr(AtomStore, "_fill_rows", watched)
    assert solve(this, FrankWolfe(), Gap(1e-4), random_state=0).status is Status.CONVERGED
    # A portion is full when its last row, of at most three atoms, goes beyond the limit.
    assert largest[0] <= 2000 + 3 * 600


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_inner_products_with_long_sums(n_outputs):
    rng = np.random.default_rng(0)
    space = KernelSpace(Gaussian(2.0), 3, n_outputs)
    points = rng.standard_normal((6, 3))
    keys = space.atoms.add_points(points, np.zeros((6, 2), dtype=int))
    left, right = rng.integers(6, size=9), rng.integers(6, size=12)
    a, b = rng.standard_normal((9, n_outputs)), rng.standard_normal((12, n_outputs))
    first = PointSums(keys[left], a, np.array([0, 0, 4, 9]))
    second = PointSums(keys[right], b, np.array([0, 5, 12]))
    terms = space.kernel.matrix(points, points)[np.ix_(left, right)] * (a @ b.T)
    wanted = np.add.reduceat(np.add.reduceat(terms, [0, 4]), [0, 5], axis=1)
    np.testing.assert_allclose(space.gram(first, second), np.r_[np.zeros((1, 2)), wanted], atol=1e-14)
    np.testing.assert_allclose(space.gram(second, first), np.c_[np.zeros((2, 1)), wanted.T], atol=1e-14)


def test_within_epsilon_means_that_the_planes_found_are_used_up():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 5))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(200) > 0, 1, -1)
    this = Objective(KernelSpace(Gaussian(3.0), 5), [WorstCase(X, y, Turned(), Binary(), 100.0)])
    found = solve(this, SVMStruct(1e-3), Gap(1e-9) | Seconds(30), random_state=0)
    assert found.status is Status.WITHIN_PLANE_TOL
    assert found.gap <= 1.1 * 1e-3 * this.weights.sum()


def test_other_weights_on_the_same_rows_go_on_with_the_same_members():
    this, term = machine()
    earlier = solve(this, FrankWolfe(), Gap(1e-3), random_state=0)
    again = WorstCase(term.X.copy(), data()[1], Turned(), Binary(), 3.0)
    state = dual_state(again, this.space, np.random.default_rng(0))
    assert isinstance(state, MemberState)
    later = solve(
        Objective(this.space, [again]), FrankWolfe(), Gap(1e-5), warm_start=earlier, random_state=0
    )
    cold = solve(machine(weights=3.0)[0], FrankWolfe(), Gap(1e-5), random_state=0)
    assert (later.status, cold.status) == (Status.CONVERGED, Status.CONVERGED)
    assert later.primal == pytest.approx(cold.primal, rel=2e-5)
    assert later.iterations < cold.iterations
    other = WorstCase(term.X + 1.0, data()[1], Turned(), Binary(), 3.0)
    assert not isinstance(dual_state(other, this.space, np.random.default_rng(0)), MemberState)


def test_members_of_a_union_are_asked_for_by_numbers_it_has():
    bound = (Shifts(1, shape=(2, 2)) | Shifts(2, shape=(2, 2))).bind(np.ones((2, 4)))
    for index in ([-1, 0], [0, 9]):
        with pytest.raises(ValueError, match="index must contain numbers of perturbed samples, from 0"):
            bound.changes().points(slice(None), np.array(index))


@pytest.mark.parametrize("solver", [FrankWolfe(plane_tol=0.5), SVMStruct(plane_tol=0.5)])
def test_a_run_that_ends_within_epsilon_returns_the_function_of_its_planes(solver):
    # With a small C the members left out cost so much that zero has the lower objective.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 9))
    y = np.arange(20) % 2
    term = WorstCase(X, y, Shifts([1, 2], directions=8, shape=(3, 3), fill="wrap"), Binary(), 0.5)
    space = KernelSpace(Gaussian(1.0), 9)
    found = solve(Objective(space, [term]), solver, Gap(1e-6), random_state=0)
    assert found.status is Status.WITHIN_PLANE_TOL
    assert found.primal > 10.0
    assert len(found.f.support()) > 0
    if isinstance(solver, FrankWolfe) and "pairs.alphas" in found.dual_variables[0]:
        state = dual_state(term, space, np.random.default_rng(0))
        state.start(found.dual_variables[0], found.f)
        mine = state.combination()
        mine -= found.f
        assert space.dot(mine, mine) < 1e-12


@pytest.mark.parametrize("seed", [0, 2, 3, 16, 17, 28])
def test_bounds_of_float32_rows_that_meet_are_not_inconsistent(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 25))
    X = np.round(rng.standard_normal((n, 16)) * 10).astype(np.float32)
    shifts = Shifts((0.5, 1, 2), directions=8, shape=(4, 4))
    model = InvariantSVC(shifts, kernel="linear", C=0.06, random_state=0)
    assert model.fit(X, np.arange(n) % 5).solution_.status is Status.CONVERGED


def test_a_bundle_of_long_sums_needs_no_table_of_all_their_terms(monkeypatch):
    asked, block = [], AtomStore.block

    def watched(self, left, right):
        asked.append(len(left) * len(right) / max(1, len(self)) ** 2)
        return block(self, left, right)

    monkeypatch.setattr(AtomStore, "block", watched)
    this, _ = machine(cache_mb=0.0)
    assert solve(this, BMRM(), Gap(1e-3), random_state=0).status is Status.CONVERGED
    assert max(asked) <= 1.0


def test_balanced_classes_one_of_which_has_no_sample_that_counts():
    X, y = data()
    model = InvariantLinearSVC(class_weight="balanced")
    assert model.fit(X, y, sample_weight=(y > 0) * 1.0).predict(X).tolist() == [1] * 40
