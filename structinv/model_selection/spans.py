"""Precision, recall and F1 of spans, such as chunks or names: counted by seqeval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Begin, inside, end and single, and what IOBES has for the last two in other schemes; "O" is outside.
_PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")


@dataclass(frozen=True)
class SpanScores:
    """How many spans were found, and how many of those found are right.

    A span is right if its type, its first and its last token are.

    Attributes
    ----------
    precision : float
        Share of the predicted spans that are right; 0 if there are none.
    recall : float
        Share of the true spans that are predicted; 0 if there are none.
    f1 : float
        Their harmonic mean.
    n_spans : int
        Number of true spans.
    by_type : dict of str to SpanScores
        The same of each type of span, such as "NP", in alphabetical order.
    """

    precision: float
    recall: float
    f1: float
    n_spans: int
    by_type: dict[str, SpanScores] = field(default_factory=dict)


def span_scores(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]) -> SpanScores:
    """Score predicted spans of sequences, over all types and for each.

    Spans are read as conlleval of CoNLL-2000 reads them: an "I-NP" that follows no "B-NP" or "I-NP"
    starts a span. Needs seqeval (Nakayama 2018), in the extra "sequences".

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        Labels in IOB2 or a scheme like it, such as "B-NP", "I-NP", "O"; as many in `y_pred` as in
        `y_true`.

    Returns
    -------
    SpanScores

    Raises
    ------
    ValueError
        If lengths differ (of which sequence), or a label is none of spans.
    ModuleNotFoundError
        If seqeval is not installed.

    Examples
    --------
    >>> from structinv.model_selection import span_scores
    >>> y_true = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP"]]
    >>> scores = span_scores(y_true, [["B-NP", "B-NP", "B-VP", "O"], ["B-NP"]])
    >>> scores.precision, round(scores.recall, 3), scores.by_type["VP"].f1
    (0.5, 0.667, 1.0)
    """
    _check(y_true, y_pred)
    try:
        from seqeval.metrics import classification_report
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'spans are counted by seqeval, which is not installed: pip install "structinv[sequences]"'
        ) from None
    truth, guess = [list(labels) for labels in y_true], [list(labels) for labels in y_pred]
    if not any(label != "O" for labels in (*truth, *guess) for label in labels):
        return SpanScores(0.0, 0.0, 0.0, 0)
    report = classification_report(truth, guess, output_dict=True, zero_division=0)
    averages = {name: report.pop(name) for name in ("micro avg", "macro avg", "weighted avg")}
    by_type = {name: _scores(report[name]) for name in sorted(report)}
    return _scores(averages["micro avg"], by_type)


def span_f1_scorer(estimator: Any, X: Any, y: Sequence[Sequence[str]]) -> float:
    """F1 of an estimator's spans, for `scoring` of GridSearchCV and its like.

    Parameters
    ----------
    estimator : fitted estimator of sequences
    X : list of sequences
    y : sequence of sequences of str
        Labels of spans, see `span_scores`.

    Returns
    -------
    float

    Raises
    ------
    ValueError, ModuleNotFoundError
        See `span_scores`.

    Examples
    --------
    >>> class Echo:
    ...     def predict(self, X):
    ...         return X
    >>> span_f1_scorer(Echo(), [["B-NP", "O"]], [["B-NP", "O"]])
    1.0
    """
    return span_scores(y, estimator.predict(X)).f1


def are_spans(labels: Iterable[Any]) -> bool:
    """Whether labels tell spans: strings such as "B-NP" or "I-NP", and "O".

    Examples
    --------
    >>> are_spans(["B-NP", "O"]), are_spans(["NN", "DT"]), are_spans(["O"])
    (True, False, False)
    """
    found = set(labels)
    return all(map(_is_of_span, found)) and found != {"O"} and bool(found)


def _is_of_span(label: Any) -> bool:
    return isinstance(label, str) and (label == "O" or (label[:2] in _PREFIXES and len(label) > 2))


def _check(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]) -> None:
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"y_pred must have as many sequences as y_true, {len(y_true)}, got {len(y_pred)}"
        )
    for i, (truth, guess) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(truth) != len(guess):
            raise ValueError(
                f"y_pred[{i}] must have as many labels as y_true[{i}], {len(truth)}, got {len(guess)}"
            )
    for name, sequences in (("y_true", y_true), ("y_pred", y_pred)):
        for i, labels in enumerate(sequences):
            strange = next((label for label in labels if not _is_of_span(label)), None)
            if strange is not None:
                raise ValueError(
                    f"labels of spans must be O or such as B-NP and I-NP, got {strange!r} in {name}[{i}]"
                )


def _scores(row: dict[str, Any], by_type: dict[str, SpanScores] | None = None) -> SpanScores:
    return SpanScores(
        precision=float(row["precision"]),
        recall=float(row["recall"]),
        f1=float(row["f1-score"]),
        n_spans=int(row["support"]),
        by_type=by_type or {},
    )
