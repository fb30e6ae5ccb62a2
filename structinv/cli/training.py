"""Classifiers of `fit`, from options, and their thresholds."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, StratifiedShuffleSplit
from sklearn.utils import _safe_indexing

from ..estimators import InvariantLinearSVC, InvariantStructuredSVC, InvariantTextClassifier
from ..estimators.inputs import as_bytes, label_name
from ..estimators.text import without_warnings_of_unknown_texts
from ..inspection.detection import ROUNDING, positive_label, threshold_at, without_edits
from ..oracles import REGISTRY, Identity
from ..other_models.thresholds import with_threshold_zero
from ..rows import RowSource, SomeRows
from ..solvers import REGISTRY as SOLVERS
from ..solvers import Status
from ..structures import Sequence
from ..utils.jit import Stopwatch
from ..utils.texts import listed

# Perturbations of `fit`: edits of tokens, and oracles that need only a number of edits.
OF_TEXTS = ("edit", "drop", "add", "replace")
OF_FEATURES = ("fdrop", "fscale", "fadd", "fedit")
# Share of the samples that set the threshold.
SHARE = 0.2


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


class Threshold:
    """Threshold for a false-positive rate, on a fifth of each class.

    Training uses the other samples."""

    def __init__(self, classifier: Any, X: Any, y: np.ndarray, max_fpr: float, seed: int) -> None:
        if not 0 < max_fpr < 1:
            raise ValueError(f"--max-fpr must be above 0 and below 1, such as 0.01, got {max_fpr}")
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) != 2:
            raise ValueError(f"--max-fpr requires two classes, but DATA has {len(classes)}: remove it")
        self.max_fpr = max_fpr
        self.label, _ = positive_label(classifier.oracle or Identity(), classes)
        n_others, needed = int(np.sum(y != self.label)), ceil((1.0 - ROUNDING) / max_fpr)
        if SHARE * counts.min() < 1 or int(SHARE * n_others) < needed:
            raise ValueError(
                f"--max-fpr {max_fpr:g} requires at least {ceil(needed / SHARE)} samples without the "
                f"label {label_name(self.label)}, since a fifth of them sets the threshold, but DATA "
                f"has {n_others}: pass a larger rate, or more data"
            )
        split = StratifiedShuffleSplit(1, test_size=SHARE, random_state=seed)
        ((train, test),) = split.split(np.zeros((len(y), 1)), y)
        self.training = _part(X, np.sort(train)), y[np.sort(train)]
        self.X, self.y = _part(X, np.sort(test)), y[np.sort(test)]

    def moved(self, classifier: Any) -> Any:
        """Return a copy of a fitted classifier whose threshold 0 has at most the rate.

        A score of 0 means the threshold for the rate; it is part of the intercept.
        """
        oracle = without_edits(classifier.oracle or Identity())
        with without_warnings_of_unknown_texts():
            margins = classifier.certify(self.X, self.y, oracle=oracle).margins
        threshold = threshold_at(-margins[self.y != self.label], self.max_fpr)
        fixed = FixedThresholdClassifier(
            FrozenEstimator(classifier),
            threshold=float(np.nextafter(threshold, np.inf)),
            pos_label=self.label,
            response_method="decision_function",
        )
        return with_threshold_zero(fixed)[1]

    def notes(self, classifier: Any) -> dict[str, Any]:
        """Return the rates of a classifier on these samples, for its file and reports."""
        found, own = classifier.predict(self.X) == self.label, self.y == self.label
        return {
            "detected_label": label_name(self.label),
            "max_fpr": self.max_fpr,
            "held_out": len(self.y),
            "held_out_false_positives": float(np.mean(found[~own])),
            "held_out_detected": float(np.mean(found[own])),
        }


def _part(X: Any, rows: np.ndarray) -> Any:
    return SomeRows(X, rows) if isinstance(X, RowSource) else _safe_indexing(X, rows)


def threshold_note(training: dict[str, Any]) -> list[str]:
    """Return a sentence on a threshold from the notes of a model file, if it has one."""
    if "max_fpr" not in training:
        return []
    found, detected = training["held_out_false_positives"], training["held_out_detected"]
    return [
        f"The threshold is set for at most {100 * training['max_fpr']:.4g} % false positives. On "
        f"{training['held_out']} held-out samples, which training did not use, there are "
        f"{100 * found:.2g} % false positives, and {100 * detected:.3g} % of "
        f"{training['detected_label']} are detected."
    ]
