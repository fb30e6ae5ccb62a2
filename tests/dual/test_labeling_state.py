"""Sequences whose functions live in a kernel's space, against cvxpy on all labelings and members."""

import pickle

import numpy as np
import pytest

from structinv.dual import dual_state, refusals
from structinv.dual.labeling_state import LabelingState
from structinv.dual.labeling_steps import ascend_blocks
from structinv.dual.plane_cache import PlaneCache
from structinv.estimators.kernel_machine import compacted
from structinv.kernels import Gaussian
from structinv.oracles import Identity
from structinv.solvers import REGISTRY, FrankWolfe, Gap, Iterations, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Decoding, Structure
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

from ..covering import each_once, slow_unless
from ..kernel_problems import KERNELS
from ..oracles.cases import D
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import EXACT, LABELS, assert_brackets, chain_rows
from .cases import LAYOUT, N_EXTRA
from .cases import chain_optimum as optimum
from .cases import chain_problem as problem

CASES = ["identity", "union", "only_for-union", "discounted"]
every_case = pytest.mark.parametrize("name", CASES)


def of_a_polynomial(solver, tol):
    """One case by default, as each needs an optimum of its own."""
    cases = [(name, solver, "polynomial", tol) for name in CASES]
    return slow_unless(lambda name, *_: name == "union", cases)


# In few dimensions, as those of the polynomial, Frank-Wolfe is slow to high accuracy.
@pytest.mark.parametrize(
    ("name", "solver", "kernel", "tol"),
    [
        *each_once(CASES, EXACT, ["gaussian"], [1e-6]),
        *of_a_polynomial("svmstruct", 1e-6),
        *of_a_polynomial("frank_wolfe", 2e-4),
    ],
)
def test_every_solver_reaches_the_optimum(name, solver, kernel, tol):
    best = optimum(name, kernel)
    this = problem(name, KERNELS[kernel])
    solution = solve(this, REGISTRY[solver](), Gap(tol), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal == pytest.approx(best, rel=tol)
    assert solution.primal == pytest.approx(this.value(this.space.uncached(solution.f)).upper, rel=1e-12)


@pytest.mark.parametrize("cache_mb", [100.0, 0.004, 0.0])
@pytest.mark.parametrize("solver", sorted(REGISTRY))
def test_every_record_brackets_the_optimum(solver, cache_mb):
    this = problem("only_for-union", KERNELS["gaussian"], cache_mb=cache_mb)
    stop = Gap(1e-6) | Iterations(12)
    solution = solve(this, REGISTRY[solver](), stop, random_state=0, check_always=True)
    assert_brackets(solution, optimum("only_for-union", "gaussian"))


def test_operations_are_those_of_dense_arrays():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((7, D))
    space = KernelSpace(Gaussian(1.5), D, 2, n_pairwise=4)
    keys = space.atoms.add_points(points, np.zeros((7, 2), dtype=np.int64))
    groups, table = np.array([0, 2, 2, 7]), Gaussian(1.5).matrix(points, points)
    coefficients, pairwise = rng.standard_normal((7, 2)), rng.standard_normal((3, 4))
    normals = space.normals(keys, coefficients, groups, pairwise)
    owners = np.repeat(np.arange(3), np.diff(groups))
    dense = np.zeros((3, 7, 2))
    np.add.at(dense, (owners, np.arange(7)), coefficients)
    gram = np.einsum("apk,pq,bqk->ab", dense, table, dense) + pairwise @ pairwise.T
    np.testing.assert_allclose(space.gram(normals, normals), gram, atol=1e-12)
    weights = np.array([0.5, -2.0, 0.0])
    f = space.combine(normals, weights)
    np.testing.assert_allclose(space.scores(f, normals), gram @ weights, atol=1e-12)
    assert space.dot(f, f) == pytest.approx(weights @ gram @ weights)
    np.testing.assert_allclose(space.pairwise(f), weights @ pairwise)
    for same in (f.copy(), 2.0 * f - f, space.combine(space.mix(normals, weights), np.ones(1))):
        np.testing.assert_allclose(space.scores(same, normals), gram @ weights, atol=1e-12)
    halves = space.scaled(space.stack([normals[[2, 0]], space.element(f)]), np.array([1.0, 3.0, -1.0]))
    mixing = np.array([[0, 0, 1], [3, 0, 0], -weights])
    np.testing.assert_allclose(space.gram(halves, normals), mixing @ gram, atol=1e-12)
    other = pickle.loads(pickle.dumps(normals))
    small, g = space.compacted(f)
    assert small.dot(g, g) == pytest.approx(space.dot(f, f))
    np.testing.assert_allclose(other.pairwise, pairwise)


# Steps that are compiled once more for single precision are slow.
@pytest.mark.parametrize("solver", [SVMStruct(), pytest.param(FrankWolfe(), marks=pytest.mark.slow)])
def test_single_precision_stays(solver):
    this = problem("union", KERNELS["gaussian"], dtype=np.float32)
    solution = solve(this, solver, Gap(1e-3), random_state=0)
    assert solution.f.values().dtype == np.float32
    assert this.space.atoms.table.dtype == np.float32
    assert solution.primal == pytest.approx(optimum("union", "gaussian"), rel=2e-3)
    assert solution.dual <= optimum("union", "gaussian") + 1e-5


class Agreeing(Structure):
    """All rows of an example have the same label."""

    def decode(self, potentials, pairwise, layout):
        best = np.argmax(layout.sums(potentials), axis=1)
        return Decoding(best[layout.owners])

    def allows(self, labels, layout, n_labels):
        return np.logical_and.reduceat(
            labels == labels[layout.starts[:-1]][layout.owners], layout.starts[:-1]
        )


def agreeing(oracle_name, cache_mb=100.0):
    """Examples whose rows have one label between them, which no input-free parameter tells."""
    X, _, _, weights = chain_rows()
    y = (np.arange(len(LAYOUT)) % LABELS)[LAYOUT.owners]
    space = KernelSpace(Gaussian(2.0), D, LABELS, cache_mb=cache_mb)
    oracle = ORBIT_CASE[oracle_name].oracle
    return Objective(space, [WorstCase(X, y, oracle, Agreeing(), 4.0 * weights, layout=LAYOUT)])


@pytest.mark.parametrize(
    "name", slow_unless(lambda name: name == "only_for-union", [(name,) for name in CASES])
)
def test_other_structures_find_the_same_optimum_by_planes(name):
    this = agreeing(name)
    assert isinstance(dual_state(this.terms[0], this.space, np.random.default_rng(0)), LabelingState)
    found = solve(this, FrankWolfe(), Gap(1e-6), random_state=0)
    wanted = solve(agreeing(name), SVMStruct(), Gap(1e-7), random_state=0)
    assert found.primal == pytest.approx(wanted.primal, rel=1e-6)


@every_case
def test_the_state_is_consistent_after_every_sweep(name):
    this = problem(name, KERNELS["gaussian"])
    term, space = this.terms[0], this.space
    state = dual_state(term, space, np.random.default_rng(0))
    assert isinstance(state, LabelingState)
    f = space.zeros()
    for _ in range(6):
        before = state.offset - 0.5 * space.dot(f, f)
        gap, rows = state.sweep(f)
        assert rows == len(chain_rows()[1])
        assert state.offset - 0.5 * space.dot(f, f) >= before - 1e-12
        whole = state.combination()
        np.testing.assert_allclose(f.values(), whole.values(), atol=1e-10)
        np.testing.assert_allclose(f.pairwise, whole.pairwise, atol=1e-10)


@pytest.mark.parametrize("solver", ["frank_wolfe", "svmstruct", "bmrm"])
def test_solutions_start_their_problem_again(solver):
    first = problem("only_for-union", KERNELS["gaussian"])
    cold = solve(first, REGISTRY[solver](), Gap(1e-4), random_state=0)
    for start in (cold, pickle.loads(pickle.dumps(cold)), compacted(first.space, cold)[1]):
        this = first if start is cold else problem("only_for-union", KERNELS["gaussian"])
        warm = solve(this, REGISTRY[solver](), Gap(1e-4), warm_start=start, random_state=0)
        assert warm.iterations <= (0 if solver == "frank_wolfe" else 1 + cold.iterations)
        assert warm.primal == pytest.approx(cold.primal, rel=1e-4)


def test_members_of_a_smaller_set_start_a_larger_one():
    fewer = problem("identity", KERNELS["gaussian"])
    earlier = solve(fewer, FrankWolfe(), Gap(1e-3), random_state=0)
    this = problem("union", KERNELS["gaussian"])
    solution = solve(this, FrankWolfe(), Gap(1e-4), warm_start=earlier, random_state=0)
    assert_brackets(solution, optimum("union", "gaussian"))
    assert solution.history[0].dual > 0


def test_unsupported_states_have_a_reason():
    this = problem("identity", Gaussian(2.0), cache_mb=0.0)
    assert "is not complete" in refusals(this.terms[0], this.space)["labelings"]
    assert isinstance(dual_state(this.terms[0], this.space, np.random.default_rng(0)), PlaneCache)
    this = problem("identity", Gaussian(2.0))
    assert "plane_tol" in refusals(this.terms[0], this.space, plane_tol=0.1)["labelings"]
    linear = ExplicitSpace(D, LABELS, n_pairwise=N_EXTRA)
    assert refusals(this.terms[0], linear)["labelings"] == "the space has no kernel"
    X, y, _, weights = chain_rows()
    rows = WorstCase(X, y, Identity(), Multiclass(), 1.0, rescaling="slack")
    own = KernelSpace(Gaussian(2.0), D, LABELS)
    assert "slack" in refusals(rows, own)["labelings"]


def test_very_small_alphas_are_moved():
    codes, labelings = np.zeros(1, dtype=np.int64), np.array([[1, 2]])
    alphas, shares = np.array([[1e-18, 0.0]]), np.zeros((1, 1, 3))
    nothing = np.zeros(3, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros(0)
    ascend_blocks(
        np.array([0]), np.array([0, 1]), np.zeros((3, 1)), np.ones((1, 1)), np.array([0]), codes,
        np.array([[0.0, 1.0, 2.0]]), np.ones((1, 1)), np.ones(1), labelings, np.array([0, 2]), nothing,
        alphas, shares, np.zeros(0), np.zeros((3, 1)),
    )  # fmt: skip
    assert alphas[0, 0] == 0.0
    assert 0.0 < alphas[0, 1] <= 1.0
    assert shares.sum() == alphas.sum()
