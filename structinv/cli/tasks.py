"""What commands do with rows, with texts and with sentences, for each kind of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console

from ..datasets.conll import conll_bytes
from ..datasets.opening import Source
from .messages import say
from .model_file import SavedModel
from .reports import evaluation_report
from .row_files import Labels
from .sentence_reports import sentences_report


@dataclass(frozen=True)
class Asked:
    """Options of `predict`."""

    scores: bool
    threshold: float | None
    certify: bool
    ignore_new_features: bool


@dataclass(frozen=True)
class Task:
    """What differs between rows and sentences.

    Attributes
    ----------
    labels : callable
        All labels of y, as an array.
    counts : callable
        Of features and X how much there is, by name, "rows" and "features" among it.
    evaluate : callable
        Prints the report on a saved model, X and y.
    predict : callable
        Of a saved model, a source and what is asked: what is written, and how many labels.
    explains : bool
        Whether `explain` can show a row.
    chooses_weight : bool
        Whether ``--C auto`` can compare held-out folds.
    has_intercept : bool
        Whether linear machines have one that can be left out.
    """

    labels: Callable[[Any], Labels]
    counts: Callable[[Any, Any], dict[str, int]]
    evaluate: Callable[[Console, SavedModel, Any, Any], None]
    predict: Callable[[SavedModel, Source, Asked], tuple[bytes, int]]
    explains: bool
    chooses_weight: bool
    has_intercept: bool


def task_of(features: Any) -> Task:
    """What to do with what these features read."""
    return TASKS[features.task]


def _predict_rows(saved: SavedModel, source: Source, asked: Asked) -> tuple[bytes, int]:
    """A line a row: the label, decision values, whether it is certified."""
    classifier = saved.classifier
    if asked.threshold is not None and (asked.certify or len(classifier.classes_) != 2):
        why = "the model has more than two classes"
        why = "--certify is about the threshold 0" if asked.certify else why
        raise ValueError(f"--threshold cannot be used here: {why}")
    X = saved.features.read_unlabelled(source, asked.ignore_new_features)
    labels = classifier.predict(X)
    if asked.threshold is not None:
        labels = classifier.classes_[(classifier.decision_function(X) > asked.threshold).astype(int)]
    columns = [saved.label_names(labels)]
    if asked.scores:
        table = np.asarray(classifier.decision_function(X)).reshape(len(labels), -1)
        columns += [[repr(float(value)) for value in column] for column in table.T]
    if asked.certify:
        columns.append(_certified(saved, X))
    lines = ["\t".join(cells) for cells in zip(*columns, strict=True)]
    return "".join(f"{line}\n" for line in lines).encode(), len(lines)


def _predict_sentences(saved: SavedModel, source: Source, asked: Asked) -> tuple[bytes, int]:
    """The columns of the file, the label, and whether that of the whole sentence is certified."""
    for option, given in (("--scores", asked.scores), ("--threshold", asked.threshold is not None)):
        if given:
            raise ValueError(f"{option} is about rows, and the model labels whole sentences")
    X, sentences = saved.features.read_sentences(source)
    columns = [saved.classifier.predict(X)]
    if asked.certify:
        sure = _certified(saved, X)
        columns.append([[word] * len(tokens) for word, tokens in zip(sure, sentences, strict=True)])
    added = [list(zip(*each, strict=True)) for each in zip(*columns, strict=True)]
    filled = [
        [(*cells, *more) for cells, more in zip(tokens, labels, strict=True)]
        for tokens, labels in zip(sentences, added, strict=True)
    ]
    blanks = any(" " in cell for tokens in filled for cells in tokens for cell in cells)
    return conll_bytes(filled, separator="\t" if blanks else " "), sum(map(len, filled))


def _certified(saved: SavedModel, X: Any) -> list[str]:
    """Whether each prediction is certified; and a word on what the certificate is about."""
    about = f"; {saved.features.certified}" if saved.features.certified else ""
    say(f"certified against the edits that the model allows: {saved.oracle_name()}{about}")
    return ["yes" if each else "no" for each in saved.classifier.certify(X).correct]


TASKS: dict[str, Task] = {
    "rows": Task(
        labels=np.asarray,
        counts=lambda features, X: {"rows": int(X.shape[0]), "features": int(X.shape[1])},
        evaluate=evaluation_report,
        predict=_predict_rows,
        explains=True,
        chooses_weight=True,
        has_intercept=True,
    ),
    "texts": Task(
        labels=np.asarray,
        counts=lambda features, X: {"texts": len(X)},
        evaluate=evaluation_report,
        predict=_predict_rows,
        explains=True,
        chooses_weight=True,
        has_intercept=True,
    ),
    "sentences": Task(
        labels=lambda y: np.array(list(chain.from_iterable(y))),
        counts=lambda features, X: {
            "sentences": len(X),
            "rows": sum(map(len, X)),
            "features": features.n_features,
        },
        evaluate=sentences_report,
        predict=_predict_sentences,
        explains=False,
        chooses_weight=False,
        has_intercept=False,
    ),
}
