"""Start of a fit: zero, a warm start or a checkpoint; fingerprints of inputs."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..rows import SlicedRows
from ..rows.sources import MatrixRows
from ..solvers import Solution, Solver, Status
from ..solvers.checkpoint import Checkpoint
from ..solvers.warm_start import fitting, sound_start
from ..terms import Objective
from ..terms.blockwise_term import BlockSizes

# Parameters that may change when a fit continues from a checkpoint.
OF_THE_RUN = frozenset({"tol", "max_seconds", "verbose", "random_state", "cache_mb", "on_interrupt"})
OF_THE_RUN |= {"warm_start", "checkpoint", "checkpoint_seconds", "max_support_vectors", "memory_limit"}
# Planes stay valid bounds if these change; a changed oracle has a separate check.
OF_THE_WEIGHTS = frozenset(["C", "class_weight", "sample_weight", "nu", "solver", "plane_tol", "oracle"])
# A plane of a sum of rows is valid only for the same weights up to a factor.
OF_SINGLE_ROWS = frozenset({"class_weight", "sample_weight"})
# Maximum length of values in clear text, for messages.
SHOWN = 40
# Packages whose code is identified by the version, not by a hash.
RELEASED = ("structinv", "sklearn", "numpy", "scipy", "abc", "builtins")


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


def digest(value: Any) -> str:
    """Return a text that is equal for equal values, also in other processes.

    The text of a short value is the value. Estimators, such as oracles, are represented by class and
    parameters. Classes and functions outside of libraries are represented by their code, since it may
    change under the same name.
    """
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        text = repr(value.item() if isinstance(value, np.generic) else value)
        return text if len(text) <= SHOWN else _hashed(text.encode())
    if sp.issparse(value):
        rows = sp.csr_matrix(value)
        return _hashed(
            *(digest(part).encode() for part in (rows.shape, rows.data, rows.indices, rows.indptr))
        )
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, MatrixRows):
        return digest(value.X)
    if isinstance(value, SlicedRows):
        cuts = value.cuts(BlockSizes.values)
        blocks = (value.block(cut.start, cut.stop) for cut in cuts)
        return _hashed(*(digest(block).encode() for block in blocks))
    if isinstance(value, dict):
        pairs = sorted((digest(key), digest(each)) for key, each in value.items())
        return _hashed(repr(pairs).encode())
    if isinstance(value, (list, tuple)):
        return _hashed(repr([digest(each) for each in value]).encode())
    if isinstance(value, BaseEstimator):
        return _hashed(_of_class(type(value)).encode(), digest(value.get_params(deep=False)).encode())
    return _of_object(value)


def is_reliable(value: Any) -> bool:
    """Return True if `digest` detects every change: there is no third-party code."""
    if value is None or isinstance(value, (bool, int, float, str, np.generic)) or sp.issparse(value):
        return True
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    if isinstance(value, dict):
        return all(is_reliable(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return all(is_reliable(each) for each in value)
    released = type(value).__module__.partition(".")[0] in RELEASED
    return released and isinstance(value, BaseEstimator) and is_reliable(value.get_params(deep=False))


def _of_array(array: np.ndarray) -> str:
    head = f"{array.dtype.str} {array.shape}".encode()
    if array.dtype.hasobject:
        return _hashed(head, *(f"{type(each).__name__} {each!r}".encode() for each in array.ravel()))
    return _hashed(head, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _of_class(kind: type) -> str:
    """Return the fingerprint of a class, with its code if it is not part of a library.

    Classes of libraries are named by their package, since modules and bases may change.
    """
    parts: list[str] = []
    named: list[type] = []
    for each in kind.__mro__:
        package = each.__module__.partition(".")[0]
        if package not in RELEASED:
            parts.append(f"{each.__module__}.{each.__qualname__}")
            members = sorted(vars(each).items())
            parts += [
                name + _of_code(member.__code__)
                for name, member in members
                if isinstance(member, FunctionType)
            ]
        elif not any(issubclass(other, each) for other in named):
            parts.append(f"{package}.{each.__qualname__}")
            named.append(each)
    return _hashed(*(part.encode() for part in parts))


def _of_code(code: CodeType) -> str:
    constants = [_of_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return _hashed(code.co_code, repr((constants, code.co_names, code.co_varnames)).encode())


def _of_object(value: Any) -> str:
    """Return the fingerprint of another object; that of its identity if it cannot be pickled."""
    if isinstance(value, type):
        return _of_class(value)
    if isinstance(value, FunctionType) and value.__closure__ is None:
        return _hashed(value.__qualname__.encode(), _of_code(value.__code__).encode())
    try:
        return _hashed(_of_class(type(value)).encode(), pickle.dumps(value))
    except Exception:  # third-party classes may raise any exception
        return _hashed(repr((type(value).__qualname__, id(value))).encode())


def _hashed(*parts: Any) -> str:
    hashing = hashlib.blake2b(digest_size=16)
    for part in parts:
        # The lengths separate the parts.
        hashing.update(len(part).to_bytes(8, "little"))
        hashing.update(part)
    return hashing.hexdigest()
