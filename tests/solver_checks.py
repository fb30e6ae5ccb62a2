"""`check_solver`: the requirements of a solver, tested on small problems with known optima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone

from structinv.functionals.applied_families import LinearFunctionals
from structinv.losses import Squared
from structinv.oracles import Box, Ellipsoid, FDrop, InvarianceOracle
from structinv.solvers.base import Solution, Solver, Status
from structinv.solvers.loop import solve
from structinv.solvers.reference import Reference
from structinv.solvers.stopping import Gap, Iterations, OracleCalls, Progress, Seconds, StopRule
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary, Multiclass, Structure
from structinv.terms import Objective, Penalty, Term, WorstCase
from structinv.terms.planes import PlaneSet
from structinv.utils.exceptions import CheckError

# Relative gap of the reference solutions.
_REFERENCE_GAP = 1e-8


def check_solver(solver: Solver, *, tolerance: float = 1e-5, random_state: int = 0) -> None:
    """Raise CheckError if a solver misses an optimum, has invalid bounds or is not repeatable."""
    for number, (name, make) in enumerate(_PROBLEMS.items()):
        try:
            solver.validate(make(1.0))
        except ValueError:
            if number == 0:
                raise
            continue
        trial = _Trial(solver, name, make, _reference(name), tolerance, random_state)
        for check in _CHECKS:
            check(trial)


def _worst(
    X: np.ndarray,
    codes: np.ndarray,
    oracle: InvarianceOracle,
    structure: Structure,
    C: float,
    cost: Any = None,
) -> Term:
    return WorstCase(X, codes, oracle, structure, C * np.linspace(0.2, 1.0, len(X)), cost=cost)


def _rows(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    codes = np.arange(9) % n_classes
    return rng.standard_normal((n_classes, 4))[codes] + rng.standard_normal((9, 4)), codes


def _two_class(C: float) -> Objective:
    X, codes = _rows(2)
    space = ExplicitSpace(4, intercept=True)
    return Objective(space, [_worst(X, codes, FDrop(1), Binary(), C)])


def _multiclass(C: float) -> Objective:
    X, codes = _rows(3)
    cost = np.array([[0, 1, 2], [0.5, 0, 1], [1, 3, 0]])
    oracle = Ellipsoid(np.eye(4)[:, :2], 0.4)
    return Objective(ExplicitSpace(4, 3), [_worst(X, codes, oracle, Multiclass(), C, cost)])


def _penalized(C: float) -> Objective:
    X, codes = _rows(2)
    family = LinearFunctionals(np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 2.0, 1.0, 1.0]]))
    terms = [_worst(X, codes, Box(0.2), Binary(), C), Penalty(family, Squared(), 2.0 * C)]
    return Objective(ExplicitSpace(4), terms)


_PROBLEMS: dict[str, Callable[[float], Objective]] = {
    "two classes": _two_class,
    "several classes": _multiclass,
    "a loss and a squared penalty": _penalized,
}


@cache
def _reference(name: str) -> Solution:
    found = solve(
        _PROBLEMS[name](1.0), Reference(), Gap(_REFERENCE_GAP) | Iterations(500), random_state=0
    )
    assert found.status is Status.CONVERGED, f"Reference failed on {name}: {found}"
    return found


@dataclass
class _Trial:
    """Solver on one problem, with the optimum between the bounds of `reference`."""

    solver: Solver
    name: str
    make: Callable[[float], Objective]
    reference: Solution
    tolerance: float
    random_state: int

    def __post_init__(self) -> None:
        self.solution = self.run(Gap(self.tolerance))

    @property
    def slack(self) -> float:
        """Expected rounding error of the objective."""
        return 1e-9 * (1.0 + abs(self.reference.primal))

    def run(
        self,
        stop: StopRule,
        *,
        solver: Solver | None = None,
        C: float = 1.0,
        warm_start: Solution | None = None,
        callbacks: tuple[Callable[[Progress], bool | None], ...] = (),
    ) -> Solution:
        """Run the solver with the seed of the trial."""
        solver, seed = solver or self.solver, self.random_state
        return solve(self.make(C), solver, stop, warm_start, callbacks, random_state=seed)

    def require(self, holds: bool, message: str) -> None:
        """Raise CheckError with the names of solver and problem unless `holds`."""
        if not holds:
            raise CheckError(f"{type(self.solver).__name__} on {self.name}: {message}")

    def require_usable(self, solution: Solution, when: str) -> None:
        """Raise CheckError unless f is finite and the bounds contain the optimum."""
        self.require(bool(np.all(np.isfinite(solution.f))), f"f is not finite after {when}")
        best = (self.reference.dual - self.slack, self.reference.primal + self.slack)
        records: list[Any] = [*solution.history, solution]
        for record in records:
            self.require(
                record.dual <= best[1],
                f"the dual value {record.dual!r} lies above the optimum {best[1]!r} after {when}",
            )
            self.require(
                record.primal >= best[0],
                f"the primal value {record.primal!r} lies below the optimum {best[0]!r} after {when}",
            )

    def proven(self, planes: PlaneSet) -> float:
        """Return the dual value of planes with their dual variables."""
        objective = self.make(1.0)
        f, offset = planes.total(objective.space, objective.weights, objective.lower_bounds)
        return offset - 0.5 * objective.space.dot(f, f)

    def numbers(self, solution: Solution) -> list[np.ndarray]:
        """Return all numbers of a solution, with explicit normals."""
        planes, space = solution.planes, self.make(1.0).space
        rows = [space.combine(planes.normals, unit) for unit in np.eye(len(planes))]
        return [solution.f.copy(), *(planes.__dict__[k].copy() for k in _NUMBERS), *rows]


_NUMBERS = ("offsets", "blocks", "alphas")


def _check_optimum(trial: _Trial) -> None:
    solution, best = trial.solution, trial.reference.primal
    trial.require_usable(solution, "a full run")
    excess = (solution.primal - best) / best
    trial.require(
        excess <= trial.tolerance and solution.status is Status.CONVERGED,
        f"misses the optimum: ended with status {solution.status.value!r}, a value {excess:.2g} "
        f"(relative) above it and a relative gap of {solution.relative_gap:.2g}; the relative gap must "
        f"be at most {trial.tolerance:.2g}",
    )


def _check_planes(trial: _Trial) -> None:
    proven, claimed = trial.proven(trial.solution.planes), trial.solution.dual
    trial.require(
        abs(proven - claimed) <= trial.slack + trial.tolerance * abs(claimed),
        f"the returned planes prove a dual value of {proven!r}, not {claimed!r}",
    )


def _check_restart(trial: _Trial) -> None:
    again = trial.run(Gap(1.01 * trial.tolerance), warm_start=trial.solution)
    trial.require_usable(again, "a restart")
    trial.require(
        again.status is Status.CONVERGED and len(again.history) == 1,
        f"a warm start from its own solution did not end at the first check: {again}",
    )


def _check_start_untouched(trial: _Trial) -> None:
    before = trial.numbers(trial.solution)
    trial.run(Gap(trial.tolerance) | Iterations(20), C=2.0, warm_start=trial.solution)
    after = trial.numbers(trial.solution)
    same = all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
    trial.require(same, "a run changed the solution of its warm start")


def _check_repeatable(trial: _Trial) -> None:
    copy = clone(trial.solver)
    trial.require(
        repr(copy.get_params()) == repr(trial.solver.get_params()),
        "a clone has other parameters",
    )
    for solver, who in ((trial.solver, "a second run"), (copy, "a run of a clone")):
        again = trial.run(Gap(trial.tolerance), solver=solver)
        same = np.array_equal(again.f, trial.solution.f) and again.dual == trial.solution.dual
        trial.require(same, f"{who} with the same random_state returned other numbers")


def _check_cut_short(trial: _Trial) -> None:
    limits = {
        Seconds(0): Status.TIME_LIMIT,
        OracleCalls(0): Status.ORACLE_CALL_LIMIT,
        Iterations(0): Status.ITERATION_LIMIT,
        Iterations(2): Status.ITERATION_LIMIT,
    }
    for stop, status in limits.items():
        solution = trial.run(stop)
        trial.require_usable(solution, f"{stop}")
        done = solution.status is Status.CONVERGED and solution.relative_gap <= 0
        trial.require(
            solution.status is status or done,
            f"{stop} ended with status {solution.status.value!r}",
        )


def _check_interrupt(trial: _Trial) -> None:
    def press(progress: Progress) -> None:
        raise KeyboardInterrupt

    solution = trial.run(Gap(trial.tolerance), callbacks=(press,))
    trial.require_usable(solution, "Ctrl-C")
    trial.require(solution.status is Status.INTERRUPTED, f"Ctrl-C ended with {solution.status.value!r}")


_CHECKS: tuple[Callable[[_Trial], None], ...] = (
    _check_optimum,
    _check_planes,
    _check_restart,
    _check_start_untouched,
    _check_repeatable,
    _check_cut_short,
    _check_interrupt,
)
