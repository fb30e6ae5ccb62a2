"""Reports of the evaluation of sentence models, printed to the terminal."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..model_selection import span_scores
from ..model_selection.entity_scores import SpanScores, are_spans
from .messages import say
from .model_file import SavedModel
from .reports import percent, print_line


def sentences_report(console: Console, saved: SavedModel, X: Any, y: list[list[str]]) -> None:
    """Print accuracy of tokens and sentences; precision, recall and F1 of spans.

    Labels that the training file lacks count as errors.
    """
    saved.note_identity()
    predicted = [labels.tolist() for labels in saved.classifier.predict(X)]
    correct = [
        label == guess
        for labels, guesses in zip(y, predicted, strict=True)
        for label, guess in zip(labels, guesses, strict=True)
    ]
    whole = [labels == guesses for labels, guesses in zip(y, predicted, strict=True)]
    certified, attacked, n_certified_tokens = _certified(saved, X, y, predicted)
    print_line(console, f"Accuracy for perturbations of every token, {escape(saved.oracle_name())}")
    table = Table()
    table.add_column("unit")
    for name in ("number", "accuracy", "under attack", "certified"):
        table.add_column(name, justify="right")
    tokens = percent(float(np.mean(correct))), "", percent(n_certified_tokens / len(correct))
    table.add_row("tokens", str(len(correct)), *tokens)
    sentences = (percent(float(np.mean(flags))) for flags in (whole, attacked, certified))
    table.add_row("whole sentences", str(len(y)), *sentences)
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
    """Return whether each sentence is certified and withstands the attack, and a token count.

    The count is a lower bound of the number of correct tokens under any perturbation. An unknown label
    is always an error. The predicted label replaces it, so that the other tokens have a bound.
    """
    classes = set(saved.classifier.classes_.tolist())
    n_unknown = np.array([sum(label not in classes for label in labels) for labels in y])
    if np.any(n_unknown):
        names = ", ".join(sorted(set(chain.from_iterable(y)) - classes))
        say(
            f"{np.count_nonzero(n_unknown)} sentences have labels that are not classes of the model and "
            f"count as errors: {names}"
        )
    filled = [
        [label if label in classes else guess for label, guess in zip(labels, guesses, strict=True)]
        for labels, guesses in zip(y, predicted, strict=True)
    ]
    certificate = saved.classifier.certify(X, filled)
    n_correct = np.maximum(0, certificate.lengths - certificate.most_wrong - n_unknown)
    all_known = n_unknown == 0
    attacked = (certificate.attacked > 0) & all_known
    return certificate.correct & all_known, attacked, int(np.sum(n_correct))


def _spans_table(scores: SpanScores) -> Table:
    table = Table(title="Spans")
    table.add_column("type")
    for name in ("spans", "precision", "recall", "F1"):
        table.add_column(name, justify="right")
    last = next(reversed(scores.by_type), None)
    for name, one in (*scores.by_type.items(), ("all", scores)):
        rates = (percent(rate) for rate in (one.precision, one.recall, one.f1))
        table.add_row(escape(name), str(one.n_spans), *rates, end_section=name == last)
    return table
