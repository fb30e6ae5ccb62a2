"""Checks before training and explanation; messages name options."""

from __future__ import annotations

from math import isqrt
from typing import Any

from ..estimators import InvariantSVC
from ..oracles import InvarianceOracle
from ..solvers import REGISTRY
from .model_file import SavedModel
from .tasks import task_of


def check_solver(name: str) -> None:
    """Raise ValueError if ``--solver`` has an unknown name."""
    names = ["auto", *sorted(REGISTRY)]
    if name not in names:
        raise ValueError(f"--solver must be one of {', '.join(names)}, got {name!r}")


def check_rows(classifier: Any, oracle: str | None, features: Any, X: Any, y: Any) -> None:
    """Raise ValueError if the oracle does not support these rows or the kernel.

    Shapes: `X` (n_samples, n_features), `y` (n_samples,).
    """
    changes: InvarianceOracle = classifier.oracle
    _check_shape(changes, features, X.shape[1])
    if not isinstance(classifier, InvariantSVC) or changes.bind(X[:1], y[:1]).changes() is not None:
        return
    advice = ", or use matrices with at most 6 rows" if oracle == "permutations" else ""
    raise ValueError(f"--oracle {oracle} does not support --kernel: omit --kernel{advice}")


def check_explains(saved: SavedModel) -> None:
    """Raise ValueError if `explain` does not support the model."""
    if not task_of(saved.features).explains:
        raise ValueError("explain requires a model of rows or texts, but MODEL is a model of sentences")
    if isinstance(saved.classifier, InvariantSVC):
        raise ValueError("explain requires a linear model, but MODEL has a kernel")


def _check_shape(oracle: Any, features: Any, n_features: int) -> None:
    """Raise ValueError for images that are not square, without ``--shape``."""
    square = isqrt(n_features) ** 2 == n_features
    if square or getattr(oracle, "shape", "") is not None:
        return
    message = (
        "--shape must be height x width, or height x width x channels, if images are not square, but "
        f"the rows have {n_features} features: pass --shape"
    )
    if getattr(features, "zero_based", None) is False:
        message += ". Feature numbers start at 1: pass --zero-based if the first pixel has number 0"
    raise ValueError(message)
