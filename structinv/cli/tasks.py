"""What commands do with rows, with texts and with sentences, for each kind of features."""

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
        Of a saved model, data and what is asked: parts of what is written, and how many labels each has.
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
    predict: Callable[[SavedModel, Data, PredictOptions], Iterator[Written]]
    explains: bool
    chooses_weight: bool
    has_intercept: bool


def task_of(features: Any) -> Task:
    """What to do with what these features read."""
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
