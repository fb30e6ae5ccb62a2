"""Precision, recall and F1 of labeled spans (chunks, named entities), by seqeval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..utils.summaries import Table

# Begin, inside, end and single; L and U are end and single in other schemes. "O" is outside.
_PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")


@dataclass(frozen=True)
class SpanScores:
    """Precision, recall and F1 of predicted spans.

    A span is correct if its type, its first and its last token are correct.

    Attributes
    ----------
    precision : float
        Fraction of correct spans among the predicted ones; 0 if there is no predicted span.
    recall : float
        Fraction of predicted spans among the true ones; 0 if there is no true span.
    f1 : float
        Harmonic mean of precision and recall.
    n_spans : int
        Number of true spans.
    by_type : dict of str to SpanScores
        Scores of each type of span, such as "NP", in alphabetical sequence.

    See Also
    --------
    span_scores : Function that returns this result.

    Examples
    --------
    >>> from structinv.model_selection import SpanScores, span_scores
    >>> truth, predicted = [["B-NP", "O", "B-VP"]], [["B-NP", "O", "O"]]
    >>> scores = span_scores(truth, predicted)
    >>> isinstance(scores, SpanScores), scores.precision, scores.recall
    (True, 1.0, 0.5)
    """

    precision: float
    recall: float
    f1: float
    n_spans: int
    by_type: dict[str, SpanScores] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        rows = [
            (name, str(one.n_spans), *(f"{rate:.1%}" for rate in (one.precision, one.recall, one.f1)))
            for name, one in (*self.by_type.items(), ("all", self))
        ]
        return Table("Spans", ["type", "spans", "precision", "recall", "F1"], rows).html()


def span_scores(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]) -> SpanScores:
    """Compute precision, recall and F1 of predicted spans, in total and by type.

    Spans have the definition of conlleval of CoNLL-2000: an "I-NP" without a preceding "B-NP" or "I-NP"
    starts a span. The function requires seqeval (Nakayama 2018), in the extra "sequences".

    Parameters
    ----------
    y_true : sequence of sequence of str
        True labels in IOB2 or a similar scheme, such as "B-NP", "I-NP" and "O".
    y_pred : sequence of sequence of str
        Predicted labels, with the lengths of `y_true`.

    Returns
    -------
    SpanScores
        Scores of all spans, and of each type.

    Raises
    ------
    ValueError
        If lengths differ, or if a label has another form. The message contains the number of the
        sequence.
    ModuleNotFoundError
        If seqeval is not installed.

    See Also
    --------
    span_f1_scorer : Scorer for `scoring` in scikit-learn.

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
            'span scores require seqeval, which is not installed: pip install "structinv[sequences]"'
        ) from None
    truth, guess = [list(labels) for labels in y_true], [list(labels) for labels in y_pred]
    if not any(label != "O" for labels in (*truth, *guess) for label in labels):
        return SpanScores(0.0, 0.0, 0.0, 0)
    report = classification_report(truth, guess, output_dict=True, zero_division=0)
    averages = {name: report.pop(name) for name in ("micro avg", "macro avg", "weighted avg")}
    by_type = {name: _scores(report[name]) for name in sorted(report)}
    return _scores(averages["micro avg"], by_type)


def span_f1_scorer(estimator: Any, X: Any, y: Sequence[Sequence[str]]) -> float:
    """Compute F1 of predicted spans, for `scoring` in scikit-learn.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator of sequences.
    X : list of sequences
        Examples for `predict`.
    y : sequence of sequence of str
        True labels of spans in IOB2 or a similar scheme.

    Returns
    -------
    float
        F1 over all types of spans.

    Raises
    ------
    ValueError, ModuleNotFoundError
        If `span_scores` raises them.

    See Also
    --------
    span_scores : Precision, recall and F1 by type.

    Examples
    --------
    >>> from structinv.model_selection import span_f1_scorer
    >>> class Echo:
    ...     def predict(self, X):
    ...         return X
    >>> span_f1_scorer(Echo(), [["B-NP", "O"]], [["B-NP", "O"]])
    1.0
    """
    return span_scores(y, estimator.predict(X)).f1


def are_spans(labels: Iterable[Any]) -> bool:
    """Return True if labels describe spans: strings such as "B-NP", "I-NP" and "O"."""
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
            invalid = next((label for label in labels if not _is_of_span(label)), None)
            if invalid is not None:
                raise ValueError(
                    f"labels of spans must be O, B-NP, I-NP or similar, got {invalid!r} in {name}[{i}]"
                )


def _scores(row: dict[str, Any], by_type: dict[str, SpanScores] | None = None) -> SpanScores:
    return SpanScores(
        precision=float(row["precision"]),
        recall=float(row["recall"]),
        f1=float(row["f1-score"]),
        n_spans=int(row["support"]),
        by_type=by_type or {},
    )
