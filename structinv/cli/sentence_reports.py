"""Tables for the terminal about labels of sentences."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..model_selection import SpanScores, span_scores
from ..model_selection.spans import are_spans
from .messages import say
from .model_file import SavedModel
from .reports import percent


def sentences_report(console: Console, saved: SavedModel, X: Any, y: list[list[str]]) -> None:
    """Accuracy of tokens and of whole sentences, certified for these; precision, recall, F1 of spans."""
    truth = np.array(list(chain.from_iterable(y)))
    saved.check_labels(truth)
    predicted = [labels.tolist() for labels in saved.classifier.predict(X)]
    right = truth == np.array(list(chain.from_iterable(predicted)))
    whole = [labels == guess for labels, guess in zip(y, predicted, strict=True)]
    certificate = saved.classifier.certify(X, y)
    table = Table(title=f"Edits allowed in every token: {escape(saved.oracle_name())}")
    table.add_column("what")
    for name in ("number", "accuracy", "under attack", "certified"):
        table.add_column(name, justify="right")
    table.add_row("tokens", str(len(truth)), percent(float(np.mean(right))), "", "")
    shares = (np.mean(whole), certificate.attacked_accuracy, certificate.accuracy)
    table.add_row("whole sentences", str(len(y)), *(percent(float(share)) for share in shares))
    console.print(table)
    if not are_spans(saved.classifier.classes_):
        return
    try:
        console.print(_spans_table(span_scores(y, predicted)))
    except ModuleNotFoundError as error:
        say(str(error))


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
