"""Classifiers of `fit`, from options."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators import InvariantLinearSVC, InvariantStructuredSVC, InvariantTextClassifier
from ..estimators.row_inputs import as_bytes
from ..estimators.target_labels import label_name
from ..oracles import REGISTRY, Identity
from ..solvers import REGISTRY as SOLVERS
from ..solvers import Status
from ..structures import Sequence
from ..utils.jit import Stopwatch
from ..utils.texts import listed

# Perturbations of `fit`: edits of tokens, and oracles that need only a number of edits.
OF_TEXTS = ("edit", "drop", "add", "replace")
OF_FEATURES = ("fdrop", "fscale", "fadd", "fedit")


def build(kind: str, oracle: str | None, most: int | None, only: list[Any] | None, **given: Any) -> Any:
    """Return an unfitted classifier for a kind of samples; None means a default."""
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("solver", "auto") not in ("auto", *SOLVERS):
        names = ", ".join(["auto", *sorted(SOLVERS)])
        raise ValueError(f"--solver must be one of {names}, got {given['solver']!r}")
    oracles = OF_TEXTS if kind == "texts" else ("identity", *OF_FEATURES)
    oracle = oracle or oracles[0]
    if oracle not in oracles:
        raise ValueError(f"--oracle must be one of {', '.join(oracles)} for {kind}, got {oracle!r}")
    if (most is None) != (oracle == "identity"):
        verb = "has no" if oracle == "identity" else "requires"
        raise ValueError(f"--oracle {oracle} {verb} --max-changes")
    if kind == "texts":
        return InvariantTextClassifier(oracle, most, only_for=only, **given)
    changes = Identity() if most is None else REGISTRY[oracle](max_changes=most)
    changes = changes if only is None else changes.only_for(only)
    if kind == "rows":
        return InvariantLinearSVC(changes, **given)
    return InvariantStructuredSVC(Sequence(), oracle=changes, **given)


def labels_that_change(text: str | None, labels: np.ndarray) -> list[Any] | None:
    """Return the labels in ``--only-for``."""
    if text is None:
        return None
    names = {label_name(label): label for label in np.unique(labels).tolist()}
    parts = [text] if text in names else text.split(",")
    for part in parts:
        if part not in names:
            raise ValueError(f"--only-for must list labels of DATA ({listed(names)}), got {part!r}")
    return [names[part] for part in parts]


def limit_of_memory(text: str | None) -> str | float | None:
    """Check ``--memory-limit``: a number of bytes, or text such as 4GB."""
    try:
        limit = text if text is None or text.strip()[-1:].isalpha() else float(text)
        as_bytes(limit)
    except ValueError:
        raise ValueError(
            f"--memory-limit must be a size such as 4GB, or a number of bytes above 0, got {text!r}"
        ) from None
    return limit


def train(classifier: Any, X: Any, y: Any) -> tuple[dict[str, Any], bool]:
    """Fit in place; return a summary and whether Ctrl-C ended the fit."""
    watch = Stopwatch()
    interrupted = False
    try:
        classifier.fit(X, y)
    except KeyboardInterrupt:
        # An interrupted fit has a model unless Ctrl-C came before the first solution.
        if getattr(classifier, "solution_", None) is None:
            raise
        interrupted = True
    solution = classifier.solution_
    training = {
        "seconds": watch.seconds,
        "relative_gap": float(solution.relative_gap),
        "status": str(solution.status.value),
    }
    return training, interrupted or solution.status is Status.INTERRUPTED


def why_not_saved(training: dict[str, Any], tol: float, interrupted: bool) -> str | None:
    """Return why a model is not saved, with advice; None if it is saved."""
    if training["status"] == Status.INCONSISTENT.value:
        return (
            "the lower bound of the objective exceeds its value, so rounding errors are larger than the "
            "gap. Rescale the features to smaller values."
        )
    if not interrupted or training["relative_gap"] <= tol:
        return None
    return (
        f"training was interrupted at the relative gap {training['relative_gap']:.1e}, above --tol "
        f"{tol:g}. Pass --max-seconds to save the model after this time."
    )
