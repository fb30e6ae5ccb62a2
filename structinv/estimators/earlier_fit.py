"""Where a fit starts: at nothing, at what the last fit found, or at what a killed one left in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..solvers import Solution, Solver, Status
from ..solvers.checkpoint import Checkpoint
from ..solvers.warm_start import fitting, sound_start
from ..terms import Objective
from .fingerprint import digest, tells_all

# What a fit may be given anew without becoming another one.
OF_THE_RUN = frozenset({"tol", "max_seconds", "verbose", "random_state", "cache_mb", "on_interrupt"})
OF_THE_RUN |= {"warm_start", "checkpoint", "checkpoint_seconds", "max_support_vectors", "memory_limit"}
# What planes bound, they bound whatever these are; the oracle is looked at on its own.
OF_THE_WEIGHTS = frozenset(["C", "class_weight", "sample_weight", "nu", "solver", "plane_tol", "oracle"])
# Planes of a sum of rows need the rows' weights to be what they were, but for a factor.
OF_SINGLE_ROWS = frozenset({"class_weight", "sample_weight"})


class EarlierFit:
    """What an earlier fit of the same rows has left, and what this one leaves to the next.

    Parameters
    ----------
    estimator : BaseEstimator
        With `warm_start`, `checkpoint` and `checkpoint_seconds`.
    X, y, sample_weight
        As checked.
    free : frozenset of str, default=OF_THE_WEIGHTS
        Parameters that planes of single rows do not depend on.

    Attributes
    ----------
    used : float
        Seconds of the fit before the run under way: before it was killed, or began anew.

    Raises
    ------
    ValueError
        If the checkpoint is of another fit.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: np.ndarray,
        sample_weight: Any,
        free: frozenset[str] = OF_THE_WEIGHTS,
    ) -> None:
        self.estimator = estimator
        self.free = free
        self.parts: dict[str, str] = {}
        path = estimator.checkpoint
        if estimator.warm_start or path is not None:
            self.parts = _parts(estimator, X, y, sample_weight)
        self.checkpoint = None if path is None else _opened(estimator, path, self.parts)
        self.used = 0.0 if self.checkpoint is None else self.checkpoint.used

    def begin_anew(self, seconds: float) -> None:
        """Give up what a run of so many seconds has found; they are used up all the same."""
        self.used += seconds
        if self.checkpoint is not None:
            self.checkpoint.begin_anew(seconds)

    def start(self, objective: Objective, solver: Solver) -> Solution | None:
        """A solution to start from; None to start afresh."""
        wanted = [name for name, on in self._wishes() if on]
        if wanted and not solver.starts_from_planes(objective):
            raise ValueError(
                f"{wanted[0]} needs a solver that starts from planes, got {solver!r}, which hands the "
                "whole problem to a program"
            )
        left = None if self.checkpoint is None else self.checkpoint.start(objective)
        if left is not None:
            earlier = fitting(objective, _start(*left))
            if tells_all(getattr(self.estimator, "oracle", None)):
                return earlier
            return sound_start(objective, solver, earlier, same_oracle=False, same_sum=True)
        before = getattr(self.estimator, "_belongs_", {})
        if not self.estimator.warm_start or not self._same_but(before, self.free):
            return None
        solver.validate(objective)
        earlier = self.estimator.solution_
        if earlier.status in (Status.INCONSISTENT, Status.NOT_FINITE) or earlier.planes is None:
            # Nothing to rely on, or a model from a file, which need not hold its planes.
            return None
        return sound_start(
            objective,
            solver,
            fitting(objective, earlier),
            same_oracle=self._same_oracle(before),
            same_sum=self._same_but(before, self.free - OF_SINGLE_ROWS),
        )

    def _same_oracle(self, before: dict[str, str]) -> bool:
        """Whether S(x) is certainly what it was, which code of third parties cannot tell."""
        same = before.get("oracle") == self.parts.get("oracle")
        return same and tells_all(getattr(self.estimator, "oracle", None))

    def _wishes(self) -> list[tuple[str, bool]]:
        return [("warm_start", self.estimator.warm_start), ("checkpoint", self.checkpoint is not None)]

    def _same_but(self, before: dict[str, str], free: frozenset[str]) -> bool:
        """Whether the fit before this one was about the same, but for some parameters."""
        # Parameters that are younger than the fit before, as of a model from a file.
        missing = {name: told for name, told in _defaults(self.estimator).items() if name in self.parts}
        kept = [
            {name: told for name, told in each.items() if name not in free}
            for each in (missing | before, self.parts)
        ]
        return bool(before) and kept[0] == kept[1]

    @contextmanager
    def rescued(self) -> Iterator[None]:
        """Write the checkpoint if something outside of this process ends a run: a disk, or a cluster."""
        try:
            yield
        except OSError:
            if self.checkpoint is not None:
                self.checkpoint.rescue()
            raise

    def keep(self, solution: Solution) -> None:
        """Remember what the solution belongs to, and leave the file as it should be found."""
        self.estimator._belongs_ = self.parts if self.estimator.warm_start else {}
        if self.checkpoint is not None:
            self.checkpoint.close(solution)


def _opened(estimator: Any, path: Any, parts: dict[str, str]) -> Checkpoint:
    return Checkpoint(path, float(estimator.checkpoint_seconds), parts)


def _start(f: Any, planes: Any) -> Solution:
    """What there is of a solution that was not finished."""
    return Solution(f, np.inf, -np.inf, np.inf, np.inf, Status.INTERRUPTED, [], planes, 0, 0, 0.0)


def _parts(estimator: BaseEstimator, X: Any, y: np.ndarray, sample_weight: Any) -> dict[str, str]:
    """A fingerprint of each thing that a fit is about."""
    version: Any = sys.modules[__name__.partition(".")[0]].__dict__["__version__"]
    weights = None if sample_weight is None else np.asarray(sample_weight)
    parts = {"structinv": str(version), "X": digest(X), "y": digest(y), "sample_weight": digest(weights)}
    # Image oracles and families without a shape take that of the stack of images.
    parts["shape_in_"] = digest(getattr(estimator, "shape_in_", None))
    for name, value in estimator.get_params(deep=False).items():
        if name not in OF_THE_RUN:
            parts[name] = digest(value)
    return parts


def _defaults(estimator: BaseEstimator) -> dict[str, str]:
    """What the fingerprint of each parameter is by default."""
    parameters = signature(type(estimator)).parameters.values()
    return {
        each.name: digest(each.default) for each in parameters if each.default is not Parameter.empty
    }
