"""Base class of solvers; status and solution of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..spaces.base import Element
from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.row_arrays import Arrays, fitting
from ..utils.summaries import Table, Tabulated, named_values


class Status(Enum):
    """Reason why a fit ended.

    The status of a fitted estimator is in `solution_.status`, and the recommended next step in
    `solution_.advice`. The values are:

    - "converged": the relative gap is within the tolerance.
    - "within plane_tol": no plane exceeds the stored planes by more than `plane_tol`.
    - "time limit", "iteration limit" and "oracle call limit": a stopping rule ended the fit.
    - "stalled": the gap no longer decreases.
    - "oracle too coarse": the gap is small only for the perturbed samples that the oracle found.
    - "interrupted": Ctrl-C or a callback ended the fit.
    - "not finite": values overflowed.
    - "inconsistent": the lower bound exceeds the objective, for example because an oracle is wrong.
    - "compressed": the model was compressed after the fit.

    See Also
    --------
    Solution : Result of a run with its status and duality gap.
    StopRule : Condition that ends a run.

    Examples
    --------
    >>> from structinv.solvers import Status
    >>> Status.TIME_LIMIT.value
    'time limit'
    >>> Status.TIME_LIMIT.advice
    'allow more seconds, or accept the gap that is reported.'
    """

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
        """Recommended next step for this status."""
        return _ADVICE[self].format(others="")

    def __reduce__(self) -> tuple[type[Status], tuple[str]]:
        # Enums define only __reduce_ex__, and skops calls __reduce__.
        return Status, (self.value,)


# `others` is replaced by the names of other solvers.
_ADVICE = {
    Status.CONVERGED: "the relative gap is within the tolerance.",
    Status.WITHIN_PLANE_TOL: (
        "no new plane exceeds the other planes of its block by more than plane_tol; lower plane_tol for "
        "a smaller gap."
    ),
    Status.TIME_LIMIT: "allow more seconds, or accept the gap that is reported.",
    Status.ITERATION_LIMIT: "allow more iterations, lower C, or scale the features.",
    Status.ORACLE_CALL_LIMIT: "allow more oracle calls, or accept the gap that is reported.",
    Status.STALLED: (
        "the gap no longer decreases: raise tol, scale the features, lower C, or try another "
        "solver{others}; an oracle with loose upper bounds also has this effect."
    ),
    Status.ORACLE_TOO_COARSE: (
        "the solver converged for the perturbed samples that the oracle finds, but the oracle's upper "
        "bounds are too loose to prove a small gap: use an exact oracle, or pass a larger tol. For "
        "images, a list such as degrees=[-5, 5] is exact, and a larger resolution of an interval has "
        "tighter bounds; A @ B is exact for a list B."
    ),
    Status.INTERRUPTED: (
        "the model is the best one so far; fit again to continue, if both fits have warm_start=True or "
        "the same checkpoint."
    ),
    Status.INCONSISTENT: (
        "the lower bound exceeds the objective: an oracle returns points outside the perturbation set "
        "(see check_oracle), a custom argmax misses better labelings (see check_custom), or a kernel is "
        "not positive semi-definite."
    ),
    Status.COMPRESSED: (
        "the model was compressed after the fit, so it is not optimal: compression_error_ is the "
        "largest change of a score at the support vectors; keep more of them for a smaller change."
    ),
    Status.NOT_FINITE: "values overflowed: scale the features or lower C.",
}


# Solvers to try after a run has stalled, except the class of the stalled one.
_OTHERS = {
    "InteriorPoint": "'interior_point' for up to about 1000 weights and any C",
    "SVMStruct": "'svmstruct' for up to some thousand planes",
    "BMRM": "'bmrm' for few features",
    "FrankWolfe": "'frank_wolfe' for many features and a moderate C",
}


@dataclass(frozen=True)
class Record:
    """Bounds of the optimum at one check of a run.

    - `iteration`: number of iterations before the check
    - `oracle_calls`: number of rows for which oracles were called before the check
    - `seconds`: time since the start, with checks, without compilation
    - `primal, dual`: smallest primal value and largest dual value so far
    """

    iteration: int
    oracle_calls: int
    seconds: float
    primal: float
    dual: float


@dataclass(frozen=True, repr=False)
class Solution(Tabulated):
    """Result of a run: a function with its duality gap, status and history.

    The attribute `solution_` of a fitted estimator is a solution.

    Attributes
    ----------
    f : element
        Best function found. If the status is "within plane_tol", it is the optimum over the stored
        planes.
    primal : float
        Upper bound of the objective at `f`, with the upper bounds of oracles.
    dual : float
        Lower bound of the optimum.
    gap : float
        Duality gap ``primal - dual``, absolute.
    relative_gap : float
        Relative duality gap ``gap / max(primal, 1e-12 * objective at zero)``.
    status : Status
        Reason why the run ended.
    history : list of Record
        Primal and dual values at each check of the duality gap.
    dual_variables : list of dict of str to ndarray
        Dual variables of each term, by name. With `f`, they start another run for as many rows. Models
        have them only with ``warm_start=True``.
    iterations : int
        Number of iterations.
    oracle_calls : int
        Number of rows for which oracles were called.
    seconds : float
        Wall time of the run with its final check, without the time for compiling or loading compiled
        functions.
    compile_seconds : float
        Time for compilation in this process during the run. It is 0 for later fits if compiled
        functions can be cached.
    relaxed : bool
        Whether `primal` and `dual` belong to a relaxed loss. `primal` then also bounds the loss itself
        at `f` from above, but `f` minimizes the relaxed loss.
    solver : str
        Class name of the solver.
    outcome : str
        Status. For a relaxed loss it has a suffix, as in "converged on the relaxed loss".
    advice : str
        Recommended next step for this status.

    See Also
    --------
    Status : Reasons why a run ends.
    solve : Function that returns a solution.

    Examples
    --------
    >>> from structinv import InvariantLinearSVC
    >>> model = InvariantLinearSVC().fit([[0.0], [1.0]], [0, 1])
    >>> solution = model.solution_
    >>> solution.status.value
    'converged'
    >>> bool(solution.dual <= solution.primal)
    True
    """

    f: np.ndarray
    primal: float
    dual: float
    gap: float
    relative_gap: float
    status: Status
    history: list[Record]
    dual_variables: list[Arrays]
    iterations: int
    oracle_calls: int
    seconds: float
    compile_seconds: float = 0.0
    relaxed: bool = False
    solver: str = ""

    def _table(self) -> Table:
        values = {
            "primal (objective)": f"{self.primal:.6g}",
            "dual (lower bound)": f"{self.dual:.6g}",
            "relative gap": f"{self.relative_gap:.2g}",
            "iterations": f"{self.iterations} ({self.oracle_calls} oracle calls)",
            "seconds": f"{self.seconds:.3g}",
        }
        if self.compile_seconds:
            values["seconds"] += f", and {self.compile_seconds:.3g} for compilation"
        if self.solver:
            values["solver"] = self.solver
        return named_values(f"Solution: {self.outcome}", values, [f"Advice: {self.advice}"])

    def __getstate__(self) -> dict[str, Any]:
        # Files have one table instead of thousands of records.
        return {**vars(self), "history": np.array([astuple(record) for record in self.history])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        history = [Record(int(one), int(two), *rest) for one, two, *rest in state["history"].tolist()]
        vars(self).update(state, history=history)

    @property
    def outcome(self) -> str:
        """Status, with the suffix "on the relaxed loss" for a relaxed loss."""
        return f"{self.status.value} on the relaxed loss" if self.relaxed else self.status.value

    @property
    def advice(self) -> str:
        """Recommended next step for this status."""
        if self.relaxed and self.status is Status.ORACLE_TOO_COARSE:
            return (
                "the upper bounds of relaxed inference are too loose: lower tol of the structure, or "
                "raise its max_steps; if that does not help, use an exact oracle."
            )
        others = [what for name, what in _OTHERS.items() if name != self.solver]
        return _ADVICE[self.status].format(others=f" ({', '.join(others)})")


@dataclass(frozen=True)
class Start:
    """Function and dual variables from which a run starts.

    Parameters
    ----------
    f : element
        Function of the objective's space.
    dual_variables : list of dict of str to ndarray, optional
        Dual variables of each term. Values that are not feasible are clipped, and arrays of another
        form are left out. A start therefore never leads to a wrong bound.

    See Also
    --------
    Solver.init : Method that takes a start.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.solvers import Start
    >>> Start(np.zeros(2)).dual_variables
    []
    """

    f: Element
    dual_variables: list[Arrays] = field(default_factory=list)


@dataclass(frozen=True)
class Bounds:
    """Candidate function of a solver with a lower bound of the optimum.

    Parameters
    ----------
    f : element
        Candidate for the solution.
    dual : float
        Lower bound of the optimum.
    upper : float, optional
        Objective at `f`, if the solver has just computed it.
    attained : float, optional
        Objective at `f` over the perturbed samples that the oracles found.
    others : tuple of element
        Further candidates. Their values are computed if there is time.

    See Also
    --------
    Solver.bounds : Method that returns bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.solvers import Bounds
    >>> Bounds(np.zeros(2), dual=0.5, upper=1.0)
    Bounds(f=array([0., 0.]), dual=0.5, upper=1.0, attained=None, others=())
    """

    f: Element
    dual: float
    upper: float | None = None
    attained: float | None = None
    others: tuple[Element, ...] = ()


class Solver(BaseEstimator, ABC):
    """Base class of solvers of convex objectives with cutting planes.

    The constructor stores the parameters. The state has all values that change during a run.

    Attributes
    ----------
    min_iterations : int
        Minimum number of iterations before a run can end as stalled. Larger values suit solvers with
        short steps.
    still_iterations : int
        Minimum number of iterations before a run ends because its gap has not decreased at all. It can
        be smaller than `min_iterations` if every iteration of the solver should improve a bound.

    See Also
    --------
    solve : Loop that runs a solver until a stopping rule ends it.

    Examples
    --------
    >>> from structinv.solvers import BMRM, Solver
    >>> isinstance(BMRM(), Solver)
    True
    """

    min_iterations: int = 500
    still_iterations: int = 500

    def validate(self, objective: Objective) -> None:
        """Raise ValueError if a parameter or the objective is not supported.

        Parameters
        ----------
        objective : Objective
            Objective to minimize.
        """

    @abstractmethod
    def init(self, objective: Objective, rng: np.random.Generator, start: Start | None = None) -> Any:
        """Return the initial state of a run.

        Parameters
        ----------
        objective : Objective
            Objective to minimize.
        rng : numpy.random.Generator
            Source of all random numbers of the run.
        start : Start, optional
            Function and dual variables of an earlier run, whose objective may differ. A solver without
            dual variables can compute its first planes at the function.

        Returns
        -------
        object
            State of the run. Only the solver depends on its type.
        """

    @abstractmethod
    def step(self, objective: Objective, state: Any) -> float | None:
        """Do one iteration.

        A solver calls ``objective.out_of_time()`` between portions of its work. No portion takes longer
        than a pass of the oracles. Once it returns True, also in the first step, the solver skips the
        remaining work. The state must then be valid for `bounds` and `dual_variables`, as after any
        other step. The estimate is then infinite, because the gap of skipped blocks is unknown.

        Parameters
        ----------
        objective : Objective
            Objective to minimize.
        state : object
            State of the run, changed in place.

        Returns
        -------
        float or None
            Estimate of the absolute duality gap. `solve` calls `bounds` if the estimate is small,
            and every ten steps. Without an estimate (None) it calls `bounds` after every step.
        """

    def finished(self, objective: Objective, state: Any) -> bool:
        """Return whether a parameter of the solver ends the run; False by default.

        Parameters
        ----------
        objective : Objective
            Objective to minimize.
        state : object
            State of the run.

        Returns
        -------
        bool
            Whether further steps would not change the solution, for example because no plane exceeds
            the others by more than `plane_tol`.
        """
        return False

    @abstractmethod
    def bounds(self, objective: Objective, state: Any) -> Bounds:
        """Return the candidate and the dual value, recomputed from the state.

        Once ``objective.out_of_time()`` returns True, a solver does not call oracles for the value of
        the candidate. `solve` computes it for the certificate.

        Parameters
        ----------
        objective : Objective
            Objective to minimize.
        state : object
            State of the run.

        Returns
        -------
        Bounds
            Candidate with its bounds.
        """

    def dual_variables(self, objective: Objective, state: Any) -> list[Arrays]:
        """Return the dual variables of each term; none by default.

        Parameters
        ----------
        objective : Objective
            Objective to minimize.
        state : object
            State of the run.

        Returns
        -------
        list of dict of str to ndarray
            Dual variables by name, for `init`. They must not share memory with the state.
        """
        return []


def check_planes(solver: str, objective: Objective, *, free: bool = False, sums: bool = False) -> None:
    """Raise ValueError unless a solver supports the terms and the space.

    All terms must have planes, and the norm must include all of f unless `free` is True. `sums` is True
    for solvers that do not need planes of single rows.
    """
    if not sums and any(term.planes_are_sums for term in objective.terms):
        raise ValueError(
            f"{solver} requires planes of single rows, but these rows are read in blocks: use "
            "solver='frank_wolfe' or 'bmrm'"
        )
    if objective.space.n_free and not free:
        raise ValueError(
            f"{solver} does not support functions with an unpenalized part, such as a constant: use "
            "Representer, set bias=False in the estimator, or use a kernel that contains a constant"
        )
    for term in objective.terms:
        if not term.has_planes:
            raise ValueError(
                f"{solver} requires losses with a derivative, but a loss written in cvxpy has none: "
                "use Representer(method='cvxpy')"
            )


def planes_at(objective: Objective, start: Start) -> PlaneSet:
    """Return the planes of all weighted blocks at the function of a start.

    Each plane has all dual variables of its block. If the worst perturbed sample of every block is
    unique, this is the dual point of the start.
    """
    planes, taus = objective.planes(start.f), np.zeros(objective.n_blocks)
    edges = zip(objective.first, objective.first[1:], start.dual_variables, strict=False)
    for first, last, arrays in edges:
        taus[first:last] = fitting(arrays, {"taus": taus[first:last]})["taus"]
    used = np.flatnonzero(objective.weights > 0)
    alphas = np.clip(taus[used], 0.0, 1.0)
    return PlaneSet(planes.normals[used], planes.offsets[used], used, alphas)


def by_term(objective: Objective, taus: np.ndarray) -> list[Arrays]:
    """Return the sums of the dual variables of blocks, by term."""
    return [{"taus": own} for own in np.split(taus, objective.first[1:-1])]
