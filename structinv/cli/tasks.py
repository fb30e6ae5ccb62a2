"""Actions of the commands for rows, for texts and for sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console

from .kinds import Data
from .model_file import SavedModel
from .predictions import PredictOptions, Written, predict_rows, predict_sentences
from .reports import evaluation_report
from .row_files import Labels
from .sentence_reports import sentences_report


@dataclass(frozen=True)
class Task:
    """Actions that differ between rows, texts and sentences.

    - `labels`: function of y that returns all labels as an array
    - `counts`: function of features and X that returns the size of the data, such as numbers of rows
    - `evaluate`: function of a console, a saved model, data, X and y that prints the report
    - `predict`: function of a saved model, data and `PredictOptions`
    - `explains`: whether `explain` supports the task
    - `chooses_weight`: whether ``--C auto`` supports the task
    - `has_intercept`: whether linear models have an optional intercept
    """

    labels: Callable[[Any], Labels]
    counts: Callable[[Any, Any], dict[str, int]]
    evaluate: Callable[[Console, SavedModel, Data, Any, Any], None]
    predict: Callable[[SavedModel, Data, PredictOptions], Iterator[Written]]
    explains: bool
    chooses_weight: bool
    has_intercept: bool


def task_of(features: Any) -> Task:
    """Return the task of these features."""
    return TASKS[features.task]


TASKS: dict[str, Task] = {
    "rows": Task(
        labels=np.asarray,
        counts=lambda features, X: {"rows": int(X.shape[0]), "features": int(X.shape[1])},
        evaluate=evaluation_report,
        predict=predict_rows,
        explains=True,
        chooses_weight=True,
        has_intercept=True,
    ),
    "texts": Task(
        labels=np.asarray,
        counts=lambda features, X: {"texts": len(X)},
        evaluate=evaluation_report,
        predict=predict_rows,
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
        predict=predict_sentences,
        explains=False,
        chooses_weight=False,
        has_intercept=False,
    ),
}
