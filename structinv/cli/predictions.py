"""Results of `evaluate` and `predict`: tables of the report, and labels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..datasets.conll import conll_bytes
from ..estimators import InvariantStructuredSVC
from ..estimators.inputs import in_blocks, label_name
from ..model_selection import span_scores
from ..model_selection.entity_scores import are_spans
from ..other_models import certify
from ..report.sections import accuracy
from ..report.sentences import SentenceSubject
from ..report.subject import Subject
from ..rows import RowSource
from ..utils.files import written_atomically
from ..utils.summaries import Table, percent
from ..utils.texts import shortened, shown, visible
from .data import Samples
from .models import SavedModel
from .output import MOST_SHOWN, is_standard, status

_SPAN_RATES = "precision", "recall", "f1-score"


def write_labels(output: Path, parts: Iterator[bytes]) -> None:
    """Write labels; a file is created after all labels are written."""
    if not is_standard(output):
        with status("predicting"), written_atomically(output) as stream:
            for content in parts:
                stream.write(content)
        return
    for content in parts:
        typer.echo(_for_terminal(content) if sys.stdout.isatty() else content, nl=False)


def _for_terminal(content: bytes) -> bytes:
    """Return lines with visible characters only; words of a file could control the terminal."""
    lines = content.decode().split("\n")
    return "\n".join(visible(shortened(line, MOST_SHOWN)) for line in lines).encode()


def predictions(saved: SavedModel, samples: Samples, scores: bool, certified: bool) -> Iterator[bytes]:
    """Yield lines with labels, and with decision values and certificates if wanted."""
    if samples.kind == "sentences":
        yield _sentences(saved.model, samples, certified)
        return
    X = samples.X
    blocks = in_blocks(X, lambda rows, _: rows) if isinstance(X, RowSource) else [X]
    for rows in blocks:
        columns = [_names(saved.model.predict(rows))]
        if scores:
            table = np.asarray(saved.model.decision_function(rows)).reshape(len(columns[0]), -1)
            columns += [[repr(float(value)) for value in column] for column in table.T]
        if certified:
            columns.append(_certified(saved.model, rows))
        yield "".join("\t".join(cells) + "\n" for cells in zip(*columns, strict=True)).encode()


def _sentences(model: Any, samples: Samples, certified: bool) -> bytes:
    """Return all columns of DATA, the label, and yes or no for certified sentences."""
    added = [[_names(labels) for labels in model.predict(samples.X)]]
    if certified:
        answers = _certified(model, samples.X)
        added.append([[word] * len(x) for word, x in zip(answers, samples.X, strict=True)])
    filled = [
        [(*cells, *more) for cells, *more in zip(tokens, *columns, strict=True)]
        for tokens, *columns in zip(samples.sentences, *added, strict=True)
    ]
    blanks = any(" " in cell for tokens in filled for cells in tokens for cell in cells)
    return conll_bytes(filled, separator="\t" if blanks else " ")


def _names(labels: Any) -> list[str]:
    """Return labels in one line each; whole numbers have no fraction."""
    names = {label: shown(label_name(label), MOST_SHOWN) for label in set(labels.tolist())}
    return [names[label] for label in labels.tolist()]


def _certified(model: Any, X: Any) -> list[str]:
    """Return "yes" or "no" for each prediction: whether it is certified."""
    structured = isinstance(model, InvariantStructuredSVC)
    found = model.certify(X) if structured else certify(model, None, X)
    return ["yes" if each else "no" for each in found.correct]


def evaluation(subject: Subject) -> list[str]:
    """Return paragraphs and tables of the report, without its pictures."""
    own = subject.certificate(subject.oracle)
    sections = {
        "DATA": subject.data(),
        "ACCURACY": accuracy(subject, own, []),
        "CLASSES": subject.classes(own),
        "FEATURES": subject.number_of_features(),
    }
    lines = []
    for title, content in sections.items():
        if not content:
            continue
        lines.append(f"\n{title}")
        for each in content:
            if isinstance(each, Table):
                lines.append(each.text().lstrip("\n"))
            # Pictures are HTML.
            elif type(each) is str:
                lines.append(shown(each, MOST_SHOWN))
    if subject.space:
        lines.append(f"\nNote: {shown(subject.space, MOST_SHOWN)}.")
    return [*lines, *_spans(subject)]


def _spans(subject: Subject) -> Iterator[str]:
    """Yield precision, recall and F1 of spans, for sentences with labels of spans."""
    if not isinstance(subject, SentenceSubject) or not are_spans(subject.model.classes_):
        return
    found = span_scores(subject.y, [labels.tolist() for labels in subject.model.predict(subject.X)])
    rows = [
        (name, str(scores["support"]), *(percent(scores[each]) for each in _SPAN_RATES))
        for name, scores in found.items()
    ]
    yield "\nSPANS"
    yield Table("", ["type", "spans", "precision", "recall", "F1"], rows).text().lstrip("\n")
