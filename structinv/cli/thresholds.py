"""Threshold of a classifier for a false-positive rate on held-out samples."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, StratifiedShuffleSplit
from sklearn.utils import _safe_indexing

from ..estimators.target_labels import label_name
from ..estimators.unknown_texts import without_warnings_of_unknown_texts
from ..inspection.detection import ROUNDING, positive_label, threshold_at, without_edits
from ..oracles import Identity
from ..other_models.thresholds import with_threshold_zero
from ..rows import RowSource, SomeRows

# Share of the samples that set the threshold.
SHARE = 0.2


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
