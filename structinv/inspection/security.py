"""How many attacked rows a filter still catches, against how much the attacker may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length

from ..foreign import certify
from ..oracles import InvarianceOracle
from ..oracles.base import CountedChanges, as_oracle
from ..utils.parameters import check_integer
from ..utils.summaries import Tabulated
from .figures import single_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False)
class SecurityCurve(Tabulated):
    """Detection rates at a rate of false alarms, by model and number of changes.

    Attributes
    ----------
    n_changes : list of int
        How many changes are allowed.
    detected : dict of str to (k,) array
        By model, the share of the rows of `label` that raise an alarm whatever so many changes do.
    false_alarms : dict of str to float
        By model, the share of the other rows that raise one; they are not changed.
    thresholds : dict of str to float
        By model, the least score of an alarm, larger for more of `label`.
    label : label
        What the alarm is for.
    max_fpr : float
        Largest allowed false-positive rate.
    ax_ : matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    See Also
    --------
    security_curve : Compute the curve of fitted models.
    """

    n_changes: list[int]
    detected: dict[str, np.ndarray]
    false_alarms: dict[str, float]
    thresholds: dict[str, float]
    label: Any
    max_fpr: float

    def __str__(self) -> str:
        head = "  ".join(f"{count:>6d}" for count in self.n_changes)
        width = max([len("changes"), *map(len, self.detected)])
        lines = [
            f"Detection rate of {self.label!r} at a false-positive rate of at most {self.max_fpr:g}",
            f"  {'changes':<{width}}  {head}",
        ]
        for name, rates in self.detected.items():
            cells = "  ".join(f"{rate:>6.1%}" for rate in rates)
            lines.append(f"  {name:<{width}}  {cells}")
        return "\n".join(lines)

    def plot(self, *, ax: Axes | None = None) -> SecurityCurve:
        """Plot detection rates against the number of changes, one line per model.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        curve : SecurityCurve
            The curve itself, with `ax_` and `figure_`.
        """
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        axes = single_axes(ax, 4.2, 3.6)
        for number, (name, rates) in enumerate(self.detected.items()):
            axes.plot(self.n_changes, rates, marker="osD^vP"[number % 6], markersize=4, label=name)
        axes.set(
            xlabel="changes allowed to the attacker",
            ylabel=f"detected at {100 * self.max_fpr:.4g}% false alarms",
            ylim=(-0.02, 1.02),
        )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.grid(alpha=0.3)
        axes.legend()
        self.ax_, self.figure_ = axes, axes.figure
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
    """Detection rate of attacked rows, at a rate of false alarms, against the number of changes.

    An alarm is a score of at least a threshold: the least one at which no more than `max_fpr` of the
    rows of other labels, which nobody attacks, raise an alarm. Rows of `label` are attacked with
    each number of changes, in the worst way: exact for every linear model where the oracle is (the
    security evaluation curve of Biggio, Fumera and Roli 2014, with the worst attack in place of a
    found one).

    Parameters
    ----------
    models : mapping of str to fitted classifier
        Two-class models by name: whatever `structinv.certify` takes.
    X : (n, n_features) array-like or sparse matrix, or what Pipelines take
        Rows that no model was trained on.
    y : (n,) array-like
        True labels.
    oracle : InvarianceOracle
        What an attacker may change, counted: `FAdd`, `FDrop`, `FScale` or `FEdit`, also `Protected`.
        How many changes it allows itself does not matter.
    n_changes : sequence of int
        Numbers of changes, 0 for none.
    label : label
        What the alarm is for.
    max_fpr : float, default=0.01
        Most false alarms allowed, in [0, 1).

    Returns
    -------
    SecurityCurve

    Raises
    ------
    TypeError, ValueError
        If `models` or `n_changes` is empty, if a model is not of two classes, one of them `label`,
        if there are no rows of `label` or no others, or if the changes of the oracle cannot be counted.

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
    y = np.asarray(y)
    check_consistent_length(X, y)
    counted = _check(models, y, oracle, n_changes, label, max_fpr)
    attacked = y == label
    detected, false_alarms, thresholds = {}, {}, {}
    for name, model in models.items():
        sign = 1.0 if model.classes_[1] == label else -1.0
        others = sign * model.decision_function(_safe_indexing(X, np.flatnonzero(~attacked)))
        threshold = _threshold(others, max_fpr)
        thresholds[name] = threshold
        false_alarms[name] = float(np.mean(others >= threshold))
        rows, labels = _safe_indexing(X, np.flatnonzero(attacked)), y[attacked]
        least = [certify(model, counted.at_most(count), rows, labels).margins for count in n_changes]
        detected[name] = np.array([np.mean(margins >= threshold) for margins in least])
    return SecurityCurve(list(n_changes), detected, false_alarms, thresholds, label, max_fpr)


def _threshold(scores: np.ndarray, max_fpr: float) -> float:
    """The least number that no more than a share of the scores reaches."""
    falling = np.sort(scores)[::-1]
    most = int(np.floor(max_fpr * len(falling) * (1.0 + 1e-12)))
    return float(np.nextafter(falling[most], np.inf))


def _check(
    models: Any, y: np.ndarray, oracle: Any, n_changes: Any, label: Any, max_fpr: Any
) -> CountedChanges:
    """How changes count; TypeError or ValueError unless there is a question that can be answered."""
    if not isinstance(models, Mapping):
        raise TypeError(f"models must be a mapping of names to fitted classifiers, got {models!r}")
    if not models:
        raise ValueError("models must hold a classifier, got none")
    if not isinstance(max_fpr, Real) or isinstance(max_fpr, bool):
        raise TypeError(f"max_fpr must be a number in [0, 1), got {max_fpr!r}")
    if not 0 <= float(max_fpr) < 1:
        raise ValueError(f"max_fpr must be in [0, 1), got {max_fpr!r}")
    as_oracle(oracle)
    if len(n_changes) == 0:
        raise ValueError("n_changes must hold a number of changes, got none")
    for count in n_changes:
        check_integer("n_changes", count, least=0)
    counted = oracle.counted()
    if counted is None or counted.grades is not None:
        raise ValueError(f"oracle must allow changes that can be counted, got {oracle!r}")
    for name, model in models.items():
        classes = np.asarray(getattr(model, "classes_", []))
        if len(classes) != 2 or label not in classes.tolist():
            raise ValueError(
                f"models must be fitted to two classes, one of them label={label!r}, got "
                f"{classes.tolist()} for {name!r}"
            )
    count = int(np.sum(y == label))
    if count in (0, len(y)):
        raise ValueError(f"y must hold label={label!r} and another label, got {count} of {len(y)} rows")
    return counted
