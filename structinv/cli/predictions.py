"""Labels for rows and for sentences, as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..datasets.conll import conll_bytes
from ..rows import RowFolder
from ..utils.files import written_atomically
from .kinds import Data, unlabeled
from .messages import progress_of, say
from .model_file import SavedModel
from .parts import parts_of
from .writing import is_standard

# Some bytes to write, and how many labels they hold.
Written = tuple[bytes, int]


@dataclass(frozen=True)
class PredictOptions:
    """Options of `predict`."""

    scores: bool
    threshold: float | None
    certify: bool
    ignore_new_features: bool


def write_labels(output: Path, parts: Iterator[Written], data: Data) -> int:
    """Write labels as they come; how many there are. A file appears when all are written."""
    if is_standard(output):
        return _print(parts)
    total = data.shape[0] if isinstance(data, RowFolder) else None
    n_labels = 0
    with progress_of("predicting", total) as show, written_atomically(output) as stream:
        for content, n_more in parts:
            stream.write(content)
            n_labels += n_more
            show(n_labels)
    return n_labels


def _print(parts: Iterator[Written]) -> int:
    n_labels = 0
    try:
        for content, n_more in parts:
            typer.echo(content, nl=False)
            n_labels += n_more
    except KeyboardInterrupt:
        if n_labels == 0:
            raise
        say(f"interrupted after {n_labels} labels")
        raise typer.Exit(130) from None
    return n_labels


def predict_rows(saved: SavedModel, data: Data, asked: PredictOptions) -> Iterator[Written]:
    """A line a row: the label, decision values, whether it is certified."""
    if asked.threshold is not None and (asked.certify or len(saved.classifier.classes_) != 2):
        why = "the model has more than two classes"
        why = "--certify is about the threshold 0" if asked.certify else why
        raise ValueError(f"--threshold cannot be used here: {why}")
    X = unlabeled(saved.features, data, asked.ignore_new_features)
    if asked.certify:
        _say_what_is_certified(saved)
    for rows, _ in parts_of(X):
        lines = ["\t".join(cells) for cells in zip(*_columns(saved, rows, asked), strict=True)]
        yield "".join(f"{line}\n" for line in lines).encode(), len(lines)


def _columns(saved: SavedModel, X: Any, asked: PredictOptions) -> list[list[str]]:
    """What is written of some rows."""
    classifier = saved.classifier
    labels = classifier.predict(X)
    if asked.threshold is not None:
        labels = classifier.classes_[(classifier.decision_function(X) > asked.threshold).astype(int)]
    columns = [saved.label_names(labels)]
    if asked.scores:
        table = np.asarray(classifier.decision_function(X)).reshape(len(labels), -1)
        columns += [[repr(float(value)) for value in column] for column in table.T]
    if asked.certify:
        columns.append(_certified(saved, X))
    return columns


def predict_sentences(saved: SavedModel, data: Data, asked: PredictOptions) -> Iterator[Written]:
    """The columns of the file, the label, and whether that of the whole sentence is certified."""
    for option, given in (("--scores", asked.scores), ("--threshold", asked.threshold is not None)):
        if given:
            raise ValueError(f"{option} is about rows, and the model labels whole sentences")
    source = saved.features.read_folder(data) if isinstance(data, RowFolder) else data
    X, sentences = saved.features.read_sentences(source)
    columns = [saved.classifier.predict(X)]
    if asked.certify:
        _say_what_is_certified(saved)
        sure = _certified(saved, X)
        columns.append([[word] * len(tokens) for word, tokens in zip(sure, sentences, strict=True)])
    added = [list(zip(*each, strict=True)) for each in zip(*columns, strict=True)]
    filled = [
        [(*cells, *more) for cells, more in zip(tokens, labels, strict=True)]
        for tokens, labels in zip(sentences, added, strict=True)
    ]
    blanks = any(" " in cell for tokens in filled for cells in tokens for cell in cells)
    yield conll_bytes(filled, separator="\t" if blanks else " "), sum(map(len, filled))


def _say_what_is_certified(saved: SavedModel) -> None:
    about = f"; {saved.features.certified}" if saved.features.certified else ""
    say(f"certified against the edits that the model allows: {saved.oracle_name()}{about}")


def _certified(saved: SavedModel, X: Any) -> list[str]:
    """Whether each prediction is certified."""
    return ["yes" if each else "no" for each in saved.classifier.certify(X).correct]
