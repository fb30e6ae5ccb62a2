"""Precision, recall and F1 of labeled spans (chunks, named entities)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

# Begin, inside, end and single; L and U are end and single in other schemes. "O" is outside.
_PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")
# Prefixes of the first and of the last token of a span.
_FIRST, _LAST = "BSU", "ESLU"


def span_scores(
    y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Compute precision, recall and F1 of predicted spans, by type and in total.

    Spans have the definition of conlleval of CoNLL-2000: an "I-NP" without a preceding "B-NP" or "I-NP"
    starts a span. A predicted span is correct if its type, its first and its last token are correct.

    Parameters
    ----------
    y_true : sequence of sequence of str
        True labels in IOB2 or a similar scheme, such as "B-NP", "I-NP" and "O".
    y_pred : sequence of sequence of str
        Predicted labels, with the lengths of `y_true`.

    Returns
    -------
    dict of str to dict
        Scores of each type, such as "NP", in alphabetical sequence, and of "all" spans. They have the
        names "precision", "recall", "f1-score" and "support", the number of true spans. Scores without
        a span are 0.

    Raises
    ------
    ValueError
        If lengths differ, or if a label has another form. The message contains the number of the
        sequence.

    See Also
    --------
    span_f1_scorer : Scorer for `scoring` in scikit-learn.

    Examples
    --------
    >>> from structinv.model_selection import span_scores
    >>> y_true = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP"]]
    >>> scores = span_scores(y_true, [["B-NP", "B-NP", "B-VP", "O"], ["B-NP"]])
    >>> scores["all"]["precision"], round(scores["all"]["recall"], 3), scores["VP"]["f1-score"]
    (0.5, 0.667, 1.0)
    """
    _check(y_true, y_pred)
    wanted, found = (
        {(i, *span) for i, row in enumerate(y) for span in _spans(row)} for y in (y_true, y_pred)
    )
    counts = [Counter(span[1] for span in spans) for spans in (wanted & found, found, wanted)]
    types = sorted(counts[1] | counts[2])
    scores = {name: _scores(*(count[name] for count in counts)) for name in types}
    return scores | {"all": _scores(*(count.total() for count in counts))}


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
    ValueError
        If `span_scores` raises it.

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
    return span_scores(y, estimator.predict(X))["all"]["f1-score"]


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
        for name, labels in (("y_true", truth), ("y_pred", guess)):
            invalid = next((label for label in labels if not _is_of_span(label)), None)
            if invalid is not None:
                raise ValueError(
                    f"labels of spans must be O, B-NP, I-NP or similar, got {invalid!r} in {name}[{i}]"
                )


def _spans(labels: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield type, start and end of each span."""
    start = 0
    for t, (before, after) in enumerate(pairwise(["O", *labels, "O"])):
        same = before[2:] == after[2:] and before[0] not in _LAST and after[0] not in _FIRST
        if before != "O" and not same:
            yield before[2:], start, t
        if after != "O" and not same:
            start = t


def _scores(correct: int, found: int, wanted: int) -> dict[str, float]:
    return {
        "precision": correct / max(found, 1),
        "recall": correct / max(wanted, 1),
        "f1-score": 2 * correct / max(found + wanted, 1),
        "support": wanted,
    }
