"""Working sets of planes: tolerances, rows without weight, bundles."""

import numpy as np
import pytest

from structinv.dual import dual_state
from structinv.kernels import Gaussian
from structinv.oracles import Box, Shifts
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Seconds, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.atoms import AtomStore
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from .cases import Turned, data, machine


@pytest.mark.parametrize("solver", [SVMStruct(), BMRM(), Pegasos()], ids=repr)
def test_rows_of_no_weight_make_no_atoms(solver):
    weights = np.where(np.arange(40) < 10, 1.0, 0.0)
    this, term = machine(weights=weights)
    found = solve(this, solver, Gap(1e-2), random_state=0)
    assert found.status is Status.CONVERGED
    assert np.all(weights[this.space.atoms.origins[:, 0]] > 0)


def test_within_epsilon_means_that_the_planes_found_are_used_up():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 5))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(100) > 0, 1, -1)
    this = Objective(KernelSpace(Gaussian(3.0), 5), [WorstCase(X, y, Turned(), Binary(), 100.0)])
    found = solve(this, SVMStruct(1e-3), Gap(1e-9) | Seconds(30), random_state=0)
    assert found.status is Status.WITHIN_PLANE_TOL
    assert found.gap <= 1.1 * 1e-3 * this.weights.sum()


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


def test_a_bundle_of_long_sums_needs_no_table_of_all_their_terms(monkeypatch):
    asked, block = [], AtomStore.block

    def watched(self, left, right):
        asked.append(len(left) * len(right) / max(1, len(self)) ** 2)
        return block(self, left, right)

    monkeypatch.setattr(AtomStore, "block", watched)
    this, _ = machine(cache_mb=0.0)
    assert solve(this, BMRM(), Gap(1e-3), random_state=0).status is Status.CONVERGED
    assert max(asked) <= 1.0


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
