"""Output of `predict`: labels of rows and of sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..datasets.conll import Sentence, conll_bytes
from ..estimators.target_labels import label_name
from ..estimators.unknown_texts import warn_of_unknown_rows
from ..rows import RowFolder
from ..utils.files import written_atomically
from ..utils.visible import shortened, shown, visible
from .kinds import Data, unlabeled
from .messages import MOST_SHOWN, USUALLY, begin, progress_of, say
from .model_file import SavedModel
from .parts import parts_of
from .writing import is_standard

# Bytes to write, and the number of labels in them.
Written = tuple[bytes, int]


@dataclass(frozen=True)
class PredictOptions:
    """Options of `predict`."""

    scores: bool
    threshold: float | None
    certify: bool
    ignore_new_features: bool


def write_labels(output: Path, parts: Iterator[Written], data: Data) -> int:
    """Write labels, and return their number.

    A file is created after all labels are written.
    """
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
    n_labels, terminal = 0, sys.stdout.isatty()
    try:
        for content, n_more in parts:
            typer.echo(_for_terminal(content) if terminal else content, nl=False)
            n_labels += n_more
    except KeyboardInterrupt:
        if n_labels == 0:
            raise
        say(f"interrupted after {n_labels} labels")
        raise typer.Exit(130) from None
    return n_labels


def _for_terminal(content: bytes) -> bytes:
    """Return lines with visible characters only; words of a file could control the terminal."""
    lines = content.decode().split("\n")
    return "\n".join(visible(shortened(line, MOST_SHOWN)) for line in lines).encode()


def predict_rows(saved: SavedModel, data: Data, options: PredictOptions) -> Iterator[Written]:
    """Yield one line per row: label, decision values, and yes or no for certified."""
    if options.threshold is not None and (options.certify or len(saved.classifier.classes_) != 2):
        reason = "--threshold requires two classes, but MODEL has more"
        reason = "--certify uses the threshold 0" if options.certify else reason
        raise ValueError(f"{reason}: remove --threshold")
    X = unlabeled(saved.features, data, options.ignore_new_features)
    if options.certify:
        _print_perturbations(saved)
        warn_of_unknown_words(saved, data, X)
    begin("certifying" if options.certify else "predicting", USUALLY)
    for rows, _ in parts_of(X):
        lines = ["\t".join(cells) for cells in zip(*_columns(saved, rows, options), strict=True)]
        yield "".join(f"{line}\n" for line in lines).encode(), len(lines)


def warn_of_unknown_words(saved: SavedModel, data: Data, X: Any) -> None:
    """Warn of texts without a known word, if the classifier has only their rows."""
    texts = None if isinstance(data, RowFolder) else saved.features.texts(data)
    if texts is not None:
        warn_of_unknown_rows(texts, X, saved.features.word_vectorizer, saved.classifier, stacklevel=2)


def _columns(saved: SavedModel, X: Any, options: PredictOptions) -> list[list[str]]:
    """Return the columns of the output for some rows."""
    classifier = saved.classifier
    labels = classifier.predict(X)
    if options.threshold is not None:
        labels = classifier.classes_[(classifier.decision_function(X) > options.threshold).astype(int)]
    # One line per row, also for labels with line ends.
    names = {label: shown(label_name(label), MOST_SHOWN) for label in classifier.classes_.tolist()}
    columns = [[names[label] for label in labels.tolist()]]
    if options.scores:
        table = np.asarray(classifier.decision_function(X)).reshape(len(labels), -1)
        columns += [[repr(float(value)) for value in column] for column in table.T]
    if options.certify:
        columns.append(_certified(saved, X))
    return columns


def predict_sentences(saved: SavedModel, data: Data, options: PredictOptions) -> Iterator[Written]:
    """Yield all sentences with predicted labels.

    The columns are those of the file, the label, and yes or no for certified sentences.
    """
    for option, given in (("--scores", options.scores), ("--threshold", options.threshold is not None)):
        if given:
            raise ValueError(
                f"{option} is for rows and texts, but MODEL is a model of sentences: remove the option"
            )
    source = saved.features.read_folder(data) if isinstance(data, RowFolder) else data
    X, sentences = saved.features.read_sentences(source)
    _note_layout(saved, sentences)
    columns = [saved.classifier.predict(X)]
    if options.certify:
        _print_perturbations(saved)
        certified = _certified(saved, X)
        columns.append([[word] * len(tokens) for word, tokens in zip(certified, sentences, strict=True)])
    added = [list(zip(*each, strict=True)) for each in zip(*columns, strict=True)]
    filled = [
        [(*cells, *more) for cells, more in zip(tokens, labels, strict=True)]
        for tokens, labels in zip(sentences, added, strict=True)
    ]
    blanks = any(" " in cell for tokens in filled for cells in tokens for cell in cells)
    yield conll_bytes(filled, separator="\t" if blanks else " "), sum(map(len, filled))


def _note_layout(saved: SavedModel, sentences: list[Sentence]) -> None:
    """Print a note if each line of the input may be a whole sentence."""
    labels = {tokens[0][-1] for tokens in sentences if len(tokens[0]) > saved.features.n_columns}
    if all(len(tokens) == 1 for tokens in sentences) or (
        labels and labels.isdisjoint(saved.classifier.classes_)
    ):
        say(
            "note: lines of DATA may be whole sentences. Pass one token per line, and a blank line "
            "after each sentence"
        )


def _print_perturbations(saved: SavedModel) -> None:
    note = f"; {saved.features.certified}" if saved.features.certified else ""
    if saved.is_restricted:
        note = f"; DATA is read without labels, so all of it counts as perturbed{note}"
    say(f"certified for {saved.perturbations}{note}")
    saved.note_identity()


def _certified(saved: SavedModel, X: Any) -> list[str]:
    """Return "yes" or "no" for each prediction: whether it is certified."""
    return ["yes" if each else "no" for each in saved.classifier.certify(X).correct]
