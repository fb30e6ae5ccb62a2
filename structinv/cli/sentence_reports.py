"""Tables for the terminal about labels of sentences."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..model_selection import span_scores
from ..model_selection.spans import SpanScores, are_spans
from .messages import say
from .model_file import SavedModel
from .reports import percent


def sentences_report(console: Console, saved: SavedModel, X: Any, y: list[list[str]]) -> None:
    """Accuracy of tokens and of whole sentences, certified for these; precision, recall, F1 of spans.

    Labels that training did not have count as wrong.
    """
    predicted = [labels.tolist() for labels in saved.classifier.predict(X)]
    right = [
        label == guess
        for labels, guesses in zip(y, predicted, strict=True)
        for label, guess in zip(labels, guesses, strict=True)
    ]
    whole = [labels == guesses for labels, guesses in zip(y, predicted, strict=True)]
    certified, attacked, sure = _certified(saved, X, y, predicted)
    table = Table(title=f"Edits allowed in every token: {escape(saved.oracle_name())}")
    table.add_column("what")
    for name in ("number", "accuracy", "under attack", "certified"):
        table.add_column(name, justify="right")
    tokens = percent(float(np.mean(right))), "", percent(sure / len(right))
    table.add_row("tokens", str(len(right)), *tokens)
    shares = (percent(float(np.mean(share))) for share in (whole, attacked, certified))
    table.add_row("whole sentences", str(len(y)), *shares)
    console.print(table)
    if not are_spans(saved.classifier.classes_):
        return
    try:
        console.print(_spans_table(span_scores(y, predicted)))
    except ModuleNotFoundError as error:
        say(str(error))


def _certified(
    saved: SavedModel, X: Any, y: list[list[str]], predicted: list[list[str]]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Whether each sentence's labels are certified, and whether the changes found leave them.

    And how many tokens stay right at least, whatever changes. A label that training lacked is wrong
    whatever happens; what is predicted stands in its place, so that the other tokens have their bound.
    """
    known = set(saved.classifier.classes_.tolist())
    strange = np.array([sum(label not in known for label in labels) for labels in y])
    if np.any(strange):
        names = ", ".join(sorted(set(chain.from_iterable(y)) - known))
        say(
            f"{np.count_nonzero(strange)} sentences have labels that count as wrong, as training did "
            f"not have them: {names}"
        )
    filled = [
        [label if label in known else guess for label, guess in zip(labels, guesses, strict=True)]
        for labels, guesses in zip(y, predicted, strict=True)
    ]
    certificate = saved.classifier.certify(X, filled)
    sure = np.maximum(0, certificate.lengths - certificate.most_wrong - strange)
    whole = strange == 0
    return certificate.correct & whole, (certificate.attacked > 0) & whole, int(np.sum(sure))


def _spans_table(scores: SpanScores) -> Table:
    table = Table(title="Spans")
    table.add_column("type")
    for name in ("spans", "precision", "recall", "F1"):
        table.add_column(name, justify="right")
    last = next(reversed(scores.by_type), None)
    for name, one in (*scores.by_type.items(), ("all", scores)):
        shares = (percent(share) for share in (one.precision, one.recall, one.f1))
        table.add_row(escape(name), str(one.n_spans), *shares, end_section=name == last)
    return table
