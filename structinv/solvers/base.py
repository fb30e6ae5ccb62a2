"""What solvers share: their protocol, the status of a run, and the solution it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..spaces.base import Element
from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.summaries import Summarized, Summary


class Status(Enum):
    """Why a run ended; `advice` says what to try."""

    CONVERGED = "converged"
    WITHIN_PLANE_TOL = "within plane_tol"
    TIME_LIMIT = "time limit"
    ITERATION_LIMIT = "iteration limit"
    ORACLE_CALL_LIMIT = "oracle call limit"
    STALLED = "stalled"
    ORACLE_TOO_COARSE = "oracle too coarse"
    INTERRUPTED = "interrupted"
    NOT_FINITE = "not finite"
    INCONSISTENT = "inconsistent"
    COMPRESSED = "compressed"

    @property
    def advice(self) -> str:
        """One sentence on what to do about it."""
        return _ADVICE[self].format(others="")

    def __reduce__(self) -> tuple[type[Status], tuple[str]]:
        # Enums define only __reduce_ex__, and skops calls __reduce__.
        return Status, (self.value,)


# `others` are solvers to try.
_ADVICE = {
    Status.CONVERGED: "the relative gap is within the tolerance.",
    Status.WITHIN_PLANE_TOL: (
        "no change violates a row's planes by more than the solver's plane_tol; lower it for a smaller "
        "gap."
    ),
    Status.TIME_LIMIT: "allow more seconds, or accept the gap that is reported.",
    Status.ITERATION_LIMIT: "allow more iterations, lower C, or scale the features.",
    Status.ORACLE_CALL_LIMIT: "allow more oracle calls, or accept the gap that is reported.",
    Status.STALLED: (
        "the gap has stopped shrinking: raise tol, scale the features, lower C, or try another "
        "solver{others}; an oracle with loose bounds also ends like this."
    ),
    Status.ORACLE_TOO_COARSE: (
        "the solver is done with the changes that the oracle finds, but the oracle cannot bound "
        "what it misses, so no gap is certified: use an exact oracle or combination."
    ),
    Status.INTERRUPTED: "the model is the best one so far; fit again to go on.",
    Status.INCONSISTENT: (
        "the lower bound lies above the value: an oracle answers with points outside its set (see "
        "check_oracle), an argmax of your own misses better labelings (see check_custom), a warm start "
        "came from other rows or a larger set, or a kernel is not positive semi-definite."
    ),
    Status.COMPRESSED: (
        "the function was made shorter after its fit, so that it is not the best one: "
        "compression_error_ bounds what that changed; compress less for less of it."
    ),
    Status.NOT_FINITE: "values overflowed: scale the features or lower C.",
}


# What else to try where a run has stalled, by the class of the solver.
_OTHERS = {
    "InteriorPoint": "'interior_point' for up to 1000 weights or so, however large C is",
    "SVMStruct": "'svmstruct' for up to some thousand planes",
    "BMRM": "'bmrm' for few features",
    "FrankWolfe": "'frank_wolfe' for many features and a moderate C",
}


@dataclass(frozen=True)
class Record:
    """One check of a run.

    Parameters
    ----------
    iteration : int
    rows_asked : int
        Rows that oracles had been asked by then.
    seconds : float
        Time since the start, the checks included, compiling not.
    primal, dual : float
        Bounds of the optimum found so far, primal being the smallest value and dual the largest.
    """

    iteration: int
    rows_asked: int
    seconds: float
    primal: float
    dual: float


@dataclass(frozen=True, repr=False)
class Solution(Summarized):
    """A function, and how far from the optimum it can be.

    Attributes
    ----------
    f : element
        The best one found; where a run ended within plane_tol, that of its planes.
    primal : float
        Objective at `f`, oracles bounded from above.
    dual : float
        Lower bound of the optimum.
    gap : float
        ``primal - dual``, absolute.
    relative_gap : float
        ``gap / max(primal, 1e-12 * objective at zero)``.
    status : Status
    history : list of Record
    planes : PlaneSet
        The dual point; a warm start for other weights, or a larger set on the same rows.
    iterations : int
    rows_asked : int
    seconds : float
        Wall time of the run with its final checks, without the time for compiling functions or
        loading compiled ones.
    compile_seconds : float
        In which functions were compiled meanwhile, by this fit or another one of the process; on a
        machine's first fit only, where they can be kept.
    relaxed : bool
        Whether `primal` and `dual` are those of a relaxed loss, the best of which is another function
        than that of the loss itself; `primal` bounds the loss itself at `f`, too.
    solver : str
        The class of the solver.
    outcome : str
        The status in words, with the loss that it is about: "converged on the relaxed loss".
    advice : str
        What to do about it.
    """

    f: np.ndarray
    primal: float
    dual: float
    gap: float
    relative_gap: float
    status: Status
    history: list[Record]
    planes: PlaneSet
    iterations: int
    rows_asked: int
    seconds: float
    compile_seconds: float = 0.0
    relaxed: bool = False
    solver: str = ""

    def _summary(self) -> Summary:
        values = {
            "objective": f"{self.primal:.6g}",
            "lower bound": f"{self.dual:.6g}",
            "relative gap": f"{self.relative_gap:.2g}",
            "iterations": f"{self.iterations} ({self.rows_asked} oracle calls)",
            "seconds": f"{self.seconds:.3g}",
        }
        if self.compile_seconds:
            values["seconds"] += f", and {self.compile_seconds:.3g} for compilation"
        if self.solver:
            values["solver"] = self.solver
        return Summary(f"Solution: {self.outcome}", values, [f"Advice: {self.advice}"])

    @property
    def outcome(self) -> str:
        """The status in words, with the loss that it belongs to."""
        return f"{self.status.value} on the relaxed loss" if self.relaxed else self.status.value

    @property
    def advice(self) -> str:
        """Recommended next step for this status."""
        if self.relaxed and self.status is Status.ORACLE_TOO_COARSE:
            return (
                "the bounds of relaxed inference are this loose: lower tol of the structure, or raise "
                "its max_steps, unless it is the oracle that cannot bound what it misses."
            )
        others = [what for name, what in _OTHERS.items() if name != self.solver]
        return _ADVICE[self.status].format(others=f" ({', '.join(others)})")


@dataclass(frozen=True)
class Bounds:
    """What a solver knows at a check: a candidate, its value where known, and a dual value.

    Parameters
    ----------
    f : element
    dual : float
    upper : float, optional
        The objective at `f`, if the solver has just computed it.
    attained : float, optional
        Its value at `f` over the changes that the oracles found.
    others : tuple of element
        Further candidates, whose values are computed if there is time.
    """

    f: Element
    dual: float
    upper: float | None = None
    attained: float | None = None
    others: tuple[Element, ...] = ()


class Solver(BaseEstimator, ABC):
    """A way to lower an objective. It sees planes and the space, and keeps no clock.

    The constructor stores parameters; all that changes in a run is in the state.

    Attributes
    ----------
    takes_sums : bool
        Whether a run can start from planes of the sum of all blocks; of single blocks, otherwise.
    min_iterations : int
        Iterations before a run may count as stalled: many, of solvers whose steps are small and cheap.
    """

    takes_sums: bool = False
    min_iterations: int = 500

    def validate(self, objective: Objective) -> None:
        """Raise ValueError for a parameter out of range, or an objective that is not sound for it."""

    @abstractmethod
    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> Any:
        """A state to start from; `planes` of an earlier solution if there are any."""

    def starts_from_planes(self, objective: Objective) -> bool:
        """Whether `init` makes use of planes; it does, by default."""
        return True

    def checks_planes(self, objective: Objective) -> bool:
        """Whether `init` drops, or mends, planes that do not bound the losses; no, by default."""
        return False

    @abstractmethod
    def step(self, objective: Objective, state: Any) -> float | None:
        """One iteration; an estimate of the absolute gap if the solver has one, None otherwise.

        Where None is returned the run is checked after every step, otherwise when the estimate is
        promising, and now and then.

        A solver keeps no clock, but asks ``objective.out_of_time()`` between portions of its work, none
        of which takes longer than a pass of the oracles. Once the answer is True it leaves the rest: the
        state must then be one that `bounds` and `planes` can be asked about, as after any other step,
        and an estimate is infinite, since blocks that were not visited have a gap that nobody measured.
        A cut may come anywhere, in the first step too.
        """

    def finished(self, objective: Objective, state: Any) -> bool:
        """Whether all that the solver's own parameters let it do is done; no, by default."""
        return False

    @abstractmethod
    def bounds(self, objective: Objective, state: Any) -> Bounds:
        """The candidate and the dual value, recomputed from the state.

        Once ``objective.out_of_time()`` is True, the values of a candidate that a pass of the oracles
        would tell are left to the loop, to which they are the certificate.
        """

    @abstractmethod
    def planes(self, objective: Objective, state: Any) -> PlaneSet:
        """The dual point as planes with masses."""


def check_planes(solver: str, objective: Objective, *, free: bool = False, sums: bool = False) -> None:
    """Raise ValueError, naming the solver, unless all terms have planes and the norm sees all of f.

    `sums` says whether the solver can do without planes of single rows.
    """
    if objective.planes_are_sums and not sums:
        raise ValueError(
            f"{solver} asks for planes of single rows, and these rows are read in blocks: take "
            "solver='frank_wolfe' or 'bmrm'"
        )
    if objective.space.n_free and not free:
        raise ValueError(
            f"{solver} does not take a free part of the function, which makes the dual an equation: "
            "Representer does, or take a penalized constant, such as a kernel's; with bias=False "
            "estimators have no free part"
        )
    for term in objective.terms:
        if not term.has_planes:
            raise ValueError(
                f"{solver} needs losses with a derivative, which a loss written in cvxpy does not tell; "
                "Representer(method='cvxpy') takes it"
            )
