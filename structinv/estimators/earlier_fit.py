"""Start of a fit: zero, a warm start, or a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..solvers import Solution, Solver, Status
from ..solvers.checkpoint import Checkpoint
from ..solvers.warm_start import fitting, sound_start
from ..terms import Objective
from .fingerprint import digest, is_reliable

# Parameters that may change when a fit continues from a checkpoint.
OF_THE_RUN = frozenset({"tol", "max_seconds", "verbose", "random_state", "cache_mb", "on_interrupt"})
OF_THE_RUN |= {"warm_start", "checkpoint", "checkpoint_seconds", "max_support_vectors", "memory_limit"}
# Planes stay valid bounds if these change; a changed oracle has a separate check.
OF_THE_WEIGHTS = frozenset(["C", "class_weight", "sample_weight", "nu", "solver", "plane_tol", "oracle"])
# A plane of a sum of rows is valid only for the same weights up to a factor.
OF_SINGLE_ROWS = frozenset({"class_weight", "sample_weight"})


class EarlierFit:
    """State of an earlier fit of the same rows, and the state for a later fit."""

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
        """Discard the result of a run, but count its seconds."""
        self.used += seconds
        if self.checkpoint is not None:
            self.checkpoint.begin_anew(seconds)

    def start(self, objective: Objective, solver: Solver) -> Solution | None:
        """Return the solution to start from, or None to start from zero."""
        requested = [name for name, on in self._requests() if on]
        if requested and not solver.starts_from_planes(objective):
            raise ValueError(
                f"{requested[0]} requires a solver that can continue an earlier fit, got {solver!r}: "
                "pass solver='auto', or a Representer with another method than 'cvxpy'"
            )
        left = None if self.checkpoint is None else self.checkpoint.start(objective)
        if left is not None:
            earlier = fitting(objective, _start(*left))
            if is_reliable(getattr(self.estimator, "oracle", None)):
                return earlier
            return sound_start(objective, solver, earlier, same_oracle=False, same_sum=True)
        before = getattr(self.estimator, "_belongs_", {})
        if not self.estimator.warm_start or not self._same_but(before, self.free):
            return None
        solver.validate(objective)
        earlier = self.estimator.solution_
        if earlier.status in (Status.INCONSISTENT, Status.NOT_FINITE) or earlier.planes is None:
            # The planes are not reliable, or a model from a file has none.
            return None
        return sound_start(
            objective,
            solver,
            fitting(objective, earlier),
            same_oracle=self._same_oracle(before),
            same_sum=self._same_but(before, self.free - OF_SINGLE_ROWS),
        )

    def _same_oracle(self, before: dict[str, str]) -> bool:
        """Return True if S(x) is certainly unchanged; third-party code may have changed."""
        same = before.get("oracle") == self.parts.get("oracle")
        return same and is_reliable(getattr(self.estimator, "oracle", None))

    def _requests(self) -> list[tuple[str, bool]]:
        return [("warm_start", self.estimator.warm_start), ("checkpoint", self.checkpoint is not None)]

    def _same_but(self, before: dict[str, str], free: frozenset[str]) -> bool:
        """Return True if the earlier fit has the same inputs, except those in `free`."""
        kept = [
            {name: text for name, text in each.items() if name not in free}
            for each in (before, self.parts)
        ]
        return bool(before) and kept[0] == kept[1]

    @contextmanager
    def rescued(self) -> Iterator[None]:
        """Write the checkpoint if an OSError of a disk or a cluster ends the run."""
        try:
            yield
        except OSError:
            if self.checkpoint is not None:
                self.checkpoint.rescue()
            raise

    def keep(self, solution: Solution) -> None:
        """Store the fingerprints of the fit, and write or delete the checkpoint."""
        self.estimator._belongs_ = self.parts if self.estimator.warm_start else {}
        if self.checkpoint is not None:
            self.checkpoint.close(solution)


def _opened(estimator: Any, path: Any, parts: dict[str, str]) -> Checkpoint:
    return Checkpoint(path, float(estimator.checkpoint_seconds), parts)


def _start(f: Any, planes: Any) -> Solution:
    """Return an unfinished solution."""
    return Solution(f, np.inf, -np.inf, np.inf, np.inf, Status.INTERRUPTED, [], planes, 0, 0, 0.0)


def _parts(estimator: BaseEstimator, X: Any, y: np.ndarray, sample_weight: Any) -> dict[str, str]:
    """Return the fingerprint of each input of a fit."""
    version: Any = sys.modules[__name__.partition(".")[0]].__dict__["__version__"]
    weights = None if sample_weight is None else np.asarray(sample_weight)
    parts = {"structinv": str(version), "X": digest(X), "y": digest(y), "sample_weight": digest(weights)}
    # Image oracles without a shape use that of the stack of images.
    parts["shape_in_"] = digest(getattr(estimator, "shape_in_", None))
    for name, value in estimator.get_params(deep=False).items():
        if name not in OF_THE_RUN:
            parts[name] = digest(value)
    return parts
