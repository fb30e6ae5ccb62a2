"""Reports of the evaluation of sentence models, printed to the terminal."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..certificates import Certificate
from ..model_selection import span_scores
from ..model_selection.entity_scores import are_spans
from ..report.sentences import sentence_certificate, unknown_labels_note
from ..utils.summaries import percent
from .kinds import Data
from .messages import USUALLY, begin, escape, say
from .model_file import SavedModel
from .reports import print_line


def sentences_report(
    console: Console, saved: SavedModel, source: Data, X: Any, y: list[list[str]]
) -> None:
    """Print accuracy of tokens and sentences; precision, recall and F1 of spans.

    Labels that the training file lacks count as errors.
    """
    saved.note_identity()
    begin("evaluating", f"{len(X)} sentences; {USUALLY}")
    predicted = [labels.tolist() for labels in saved.classifier.predict(X)]
    correct = [
        label == guess
        for labels, guesses in zip(y, predicted, strict=True)
        for label, guess in zip(labels, guesses, strict=True)
    ]
    whole = [labels == guesses for labels, guesses in zip(y, predicted, strict=True)]
    certificate = _certificate(saved, X, y, predicted)
    print_line(console, f"Accuracy for every token with {escape(saved.perturbations)}")
    table = Table()
    table.add_column("unit")
    for name in ("number", "accuracy", "under attack", "certified"):
        table.add_column(name, justify="right")
    tokens = percent(float(np.mean(correct))), "", percent(certificate.position_accuracy)
    table.add_row("tokens", str(len(correct)), *tokens)
    sentences = (
        percent(float(np.mean(flags)))
        for flags in (whole, certificate.attacked > 0, certificate.correct)
    )
    table.add_row("whole sentences", str(len(y)), *sentences)
    console.print(table)
    if are_spans(saved.classifier.classes_):
        console.print(_spans_table(span_scores(y, predicted)))


def _certificate(
    saved: SavedModel, X: Any, y: list[list[str]], predicted: list[list[str]]
) -> Certificate:
    """Return the certificate of the sentences; print labels that are not classes of the model."""
    classes = set(saved.classifier.classes_.tolist())
    if not classes.issuperset(chain.from_iterable(y)):
        say(unknown_labels_note(y, classes))
    return sentence_certificate(saved.classifier, X, y, predicted)


def _spans_table(scores: dict[str, dict[str, float]]) -> Table:
    table = Table(title="Spans")
    table.add_column("type")
    for name in ("spans", "precision", "recall", "F1"):
        table.add_column(name, justify="right")
    for name, one in scores.items():
        rates = (percent(one[rate]) for rate in ("precision", "recall", "f1-score"))
        table.add_row(escape(name), str(one["support"]), *rates)
    if len(scores) > 1:
        table.rows[-2].end_section = True
    return table
