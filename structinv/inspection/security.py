"""Security curves: detection rate against the number of edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length

from ..estimators.inputs import as_labels
from ..oracles import InvarianceOracle
from ..oracles.base import CountedChanges, as_oracle
from ..other_models import certify
from ..utils.parameters import brief, check_integer
from ..utils.summaries import Table, Tabulated
from .detection import check_max_fpr, threshold_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False)
class SecurityCurve(Tabulated):
    """Detection rates of classifiers by the number of edits.

    A sample is detected if its score for `label` is above a threshold. The threshold limits the
    false-positive rate.

    - `n_changes`: allowed numbers of edits
    - `detected` (len(n_changes),): detection rates of each model: fraction of the samples of `label`
      that are detected after every allowed edit
    - `false_positive_rates`: false-positive rate of each model: fraction of the other samples, without
      edits, that are detected
    - `thresholds`: threshold of each model, relative to that of its `predict`
    - `label`: label to detect
    - `max_fpr`: maximum false-positive rate
    - `bounded`: names of the models whose rates are lower bounds, because not all margins are tight
    - `ax_`: axes of the last plot
    - `figure_`: figure of the last plot
    """

    n_changes: list[int]
    detected: dict[str, np.ndarray]
    false_positive_rates: dict[str, float]
    thresholds: dict[str, float]
    label: Any
    max_fpr: float
    bounded: tuple[str, ...] = ()

    def _table(self) -> Table:
        notes = [f"Lower bounds, since not all margins are tight: {', '.join(self.bounded)}."]
        return Table(
            f"Detection rate of {self.label!r} at a false-positive rate of at most {self.max_fpr:g}",
            ["edits", *(f"{count:>6d}" for count in self.n_changes)],
            [(name, *(f"{rate:>6.1%}" for rate in rates)) for name, rates in self.detected.items()],
            notes if self.bounded else [],
        )

    def plot(self, *, ax: Axes | None = None) -> SecurityCurve:
        """Plot detection rates against the number of edits, one line per model."""
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        axes = ax
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.figure(figsize=(4.2, 3.6), layout="constrained").subplots()
        for number, (name, rates) in enumerate(self.detected.items()):
            axes.plot(self.n_changes, rates, marker="osD^vP"[number % 6], markersize=4, label=name)
        axes.set(
            xlabel="number of edits allowed to the attacker",
            ylabel=f"detection rate at {100 * self.max_fpr:.4g}% false-positive rate",
            ylim=(-0.02, 1.02),
        )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.grid(alpha=0.3)
        axes.legend()
        self.ax_: Axes = axes
        self.figure_: Any = axes.figure
        return self


def security_curve(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    oracle: InvarianceOracle,
    n_changes: Sequence[int],
    label: Any,
    max_fpr: float = 0.01,
) -> SecurityCurve:
    """Compute detection rates against the number of edits by an attacker.

    This is the security evaluation curve of Biggio, Fumera and Roli 2014, for the worst case of all
    allowed edits. A sample is detected if its score for `label` is above a threshold. The threshold is
    the smallest number for which at most `max_fpr` of the other samples are detected. It replaces the
    threshold of the model, so moved thresholds do not change the rates. Only samples of `label` are
    edited.

    Scores are margins of `structinv.certify`. The rates are lower bounds, and exact if the certificates
    are tight. Models without certificates, such as forests, are not supported: attack them instead.

    Parameters
    ----------
    models : mapping of str to fitted classifier
        Two-class models by name. All models that `structinv.certify` supports are allowed: linear
        classifiers, naive Bayes, classifiers of structinv, and Pipelines, searches or classifiers with a
        moved threshold around one of these.
    X : array-like or sparse matrix of shape (n_samples, n_features), or input of the models
        Test samples, which should not be training samples. Raw input if the models are Pipelines, texts
        for `InvariantTextClassifier`.
    y : array-like of shape (n_samples,)
        True labels.
    oracle : InvarianceOracle
        Oracle with countable edits, such as `FAdd`, `FDrop`, `FScale`, `FEdit`, or `Protected` with one
        of them. Its own maximum number of edits is replaced by each of `n_changes`.
    n_changes : sequence of int
        Allowed numbers of edits (>= 0).
    label : label
        Label to detect.
    max_fpr : float, default=0.01
        Maximum false-positive rate, in [0, 1).

    Returns
    -------
    SecurityCurve
        Result with the method `plot` and the attributes `n_changes`, `detected` (detection rates of each
        model, by the number of edits), `false_positive_rates`, `thresholds` (relative to those of
        `predict`), `label`, `max_fpr` and `bounded` (names of the models whose rates are lower bounds).
        ``print`` shows a table.

    Raises
    ------
    TypeError, ValueError
        If `models` or `n_changes` is empty, if `label` is not one of the two classes of every model,
        if `y` contains only `label` or does not contain it, or if the edits of the oracle cannot be
        counted. If a model has no certificates, or always predicts the same label.

    See Also
    --------
    explain_edit : Explanation of the worst edit of one sample.
    structinv.certify : Certify any fitted linear classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import LinearSVC
    >>> from structinv.inspection import security_curve
    >>> from structinv.oracles import FAdd
    >>> rng, y = np.random.default_rng(0), np.repeat(["bad", "good"], 100)
    >>> often = (np.arange(8) < 4) == (y[:, None] == "bad")
    >>> X = (rng.random((200, 8)) < np.where(often, 0.6, 0.2)).astype(float)
    >>> models = {"plain": LinearSVC(C=0.1).fit(X[::2], y[::2])}
    >>> curve = security_curve(
    ...     models, X[1::2], y[1::2], oracle=FAdd(1), n_changes=[0, 1, 2], label="bad", max_fpr=0.05
    ... )
    >>> curve.detected["plain"].tolist()
    [0.82, 0.5, 0.32]
    """
    y = np.asarray(as_labels(y))
    check_consistent_length(X, y)
    counted = _check(models, y, oracle, n_changes, label, max_fpr)
    attacked = y == label
    scores = {name: _scores(name, model, counted, X, y, ~attacked) for name, model in models.items()}
    rows, labels = _safe_indexing(X, np.flatnonzero(attacked)), y[attacked]
    detected, false_positive_rates, thresholds = {}, {}, {}
    bounded: tuple[str, ...] = ()
    for name, model in models.items():
        threshold = threshold_at(scores[name], max_fpr)
        thresholds[name] = threshold
        false_positive_rates[name] = float(np.mean(scores[name] > threshold))
        found = [certify(model, counted.at_most(count), rows, labels) for count in n_changes]
        detected[name] = np.array([np.mean(each.margins > threshold) for each in found])
        if not all(np.all(each.exact) for each in found):
            bounded += (name,)
    return SecurityCurve(
        list(n_changes), detected, false_positive_rates, thresholds, label, max_fpr, bounded
    )


def _scores(
    name: str, model: Any, counted: CountedChanges, X: Any, y: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Return the scores of the other samples for the label to detect, without edits.

    They include rounding errors. Models without certificates are found here, before any attack.
    """
    rows = _safe_indexing(X, np.flatnonzero(others))
    try:
        margins = certify(model, counted.at_most(0), rows, y[others]).margins
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"no certificate for models[{name!r}]: {error}") from error
    if np.any(np.isinf(margins)):
        raise ValueError(
            f"models[{name!r}] always predicts the same label, because its threshold is beyond all "
            "scores: pass the classifier inside it, since the curve has its own threshold"
        )
    return -margins


def _check(
    models: Any, y: np.ndarray, oracle: Any, n_changes: Any, label: Any, max_fpr: Any
) -> CountedChanges:
    """Return the edits by number; raise TypeError or ValueError for invalid arguments."""
    if not isinstance(models, Mapping):
        raise TypeError(f"models must be a mapping of names to fitted classifiers, got {brief(models)}")
    if not models:
        raise ValueError("models must contain at least one classifier, got none")
    check_max_fpr(max_fpr)
    as_oracle(oracle)
    if isinstance(n_changes, str) or not hasattr(n_changes, "__len__"):
        hint = f": pass [{n_changes}]" if isinstance(n_changes, Integral) else ""
        raise TypeError(f"n_changes must be a list of integers, got {brief(n_changes)}{hint}")
    if len(n_changes) == 0:
        raise ValueError("n_changes must contain at least one number of edits, got none")
    for count in n_changes:
        check_integer("n_changes", count, least=0)
    counted = oracle.counted()
    if counted is None or counted.grades is not None:
        raise ValueError(
            "oracle must have edits that can be counted, such as FDrop, FScale, FAdd or FEdit, got "
            f"{oracle!r}"
        )
    for name, model in models.items():
        classes = np.asarray(getattr(model, "classes_", []))
        if len(classes) != 2 or label not in classes.tolist():
            raise ValueError(
                f"models must be fitted to two classes, one of them label={label!r}, got "
                f"{classes.tolist()} for {name!r}"
            )
    count = int(np.sum(y == label))
    if count in (0, len(y)):
        raise ValueError(
            f"y must contain label={label!r} and another label, got {count} of {len(y)} rows"
        )
    return counted
