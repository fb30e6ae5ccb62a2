"""Checks of parameters of several estimators."""

from __future__ import annotations

from collections.abc import Collection
from inspect import signature
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from ..functionals import Functional
from ..functionals.base import BoundFunctional
from ..losses import REGISTRY as LOSSES
from ..losses import ScalarLoss
from ..oracles import Identity, InvarianceOracle
from ..oracles.arguments import hint_of
from ..oracles.base import as_oracle
from ..solvers import REGISTRY, Solver
from ..utils.matrices import refuse_masked
from ..utils.parameters import check_number

ON_INTERRUPT = ("raise", "return")
# Older versions of scikit-learn never refuse weights of 0.
_REFUSES_ZEROS = "allow_all_zero_weights" in signature(_check_sample_weight).parameters


def check_oracle_type(oracle: Any) -> InvarianceOracle:
    """Return the oracle, or `Identity` for None; TypeError for other types."""
    hint = ""
    if isinstance(oracle, (Functional, BoundFunctional)):
        hint = "; pass functionals as invariances=[...] of InvariantSVC or RepresenterClassifier"
    return as_oracle(oracle, default=Identity(), hint=hint)


def checked_weights(sample_weight: Any, X: Any, part: bool = False) -> np.ndarray:
    """Return sample weights of at least 0; 1 by default.

    All weights of a part of the samples may be 0, if `part` is True.
    """
    refuse_masked("sample_weight", sample_weight)
    rules = {"allow_all_zero_weights": part} if _REFUSES_ZEROS else {}
    try:
        return _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, **rules
        )
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(f"sample_weight must contain numbers: {error}") from None


def as_loss(argument: str, given: Any, allowed: Collection[str]) -> ScalarLoss:
    """Return a loss by name with its default parameters, or a given loss."""
    if isinstance(given, ScalarLoss):
        given.validate()
        return given
    if not isinstance(given, str) or given not in allowed:
        hint = hint_of(given)
        raise ValueError(
            f"{argument} must be one of {list(allowed)} or a ScalarLoss, got {given!r}{hint}"
        )
    return LOSSES[given]()


def check_on_interrupt(value: Any) -> None:
    """Raise ValueError unless `value` is an allowed reaction to Ctrl-C."""
    if not isinstance(value, str) or value not in ON_INTERRUPT:
        raise ValueError(f"on_interrupt must be one of {list(ON_INTERRUPT)}, got {value!r}")


def check_checkpoint(path: Any, seconds: Any) -> None:
    """Raise an error unless path and interval of a checkpoint are valid."""
    if path is not None and not isinstance(path, (str, PathLike)):
        raise TypeError(f"checkpoint must be a path or None, got {path!r}")
    check_number("checkpoint_seconds", seconds, strict=True)


def check_plane_tol(plane_tol: Any, solver: str | Solver) -> None:
    """Raise ValueError if the solver does not support a positive plane tolerance."""
    check_number("plane_tol", plane_tol)
    named = "frank_wolfe" if isinstance(solver, str) and solver == "auto" else solver
    # Names that only some estimators support are methods without planes of blocks.
    known = REGISTRY[named]() if isinstance(named, str) and named in REGISTRY else named
    if plane_tol > 0 and (isinstance(known, str) or "plane_tol" not in known.get_params()):
        raise ValueError(
            "plane_tol must be 0 unless solver is 'auto', 'frank_wolfe', 'representer' or 'svmstruct', "
            f"got plane_tol={plane_tol!r} with solver={solver!r}"
        )
