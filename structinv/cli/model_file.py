"""Model files of the command line: those of `structinv.save`, with notes on how rows are read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.opening import is_standard_input
from ..estimators import InvariantStructuredSVC
from ..estimators.classifier import InvariantClassifier
from ..estimators.target_labels import label_name
from ..oracles import Identity
from ..persistence.model_files import model_bytes, read_model
from .kinds import features_from_notes
from .row_files import Labels


@dataclass(frozen=True)
class SavedModel:
    """A fitted classifier with the features that it reads.

    Attributes
    ----------
    classifier : InvariantLinearSVC, InvariantSVC or InvariantStructuredSVC
        Fitted.
    features : Features
    training : dict
        How training ended: rows, status, relative_gap, seconds.
    """

    classifier: Any
    features: Any
    training: dict[str, Any]

    def label_names(self, labels: Iterable[Any]) -> list[str]:
        """Labels as text; SVMlight's whole numbers without the fraction."""
        return [label_name(label) for label in labels]

    def check_labels(self, labels: Labels) -> None:
        """Raise ValueError for labels that training did not have."""
        known = self.classifier.classes_.tolist()
        strange = sorted(set(np.unique(labels).tolist()) - set(known))
        if strange:
            raise ValueError(
                f"labels of DATA must be among {', '.join(self.label_names(known))},"
                f" the model's classes; got {', '.join(self.label_names(strange))}"
            )

    def oracle_name(self) -> str:
        """The oracle with all its parameters."""
        oracle = self.classifier.oracle or Identity()
        listed = ", ".join(f"{name}={value}" for name, value in oracle.get_params(False).items())
        return f"{type(oracle).__name__}({listed})"

    def content(self) -> bytes:
        """What a model file holds; `structinv.load` gives an estimator that takes texts or rows."""
        notes = {"features": self.features.notes(), "training": self.training}
        return model_bytes(self.features.around(self.classifier), notes=notes)


def load_model(path: Path, data: Path | None = None) -> SavedModel:
    """Read a model file; one that asks for types beyond plain values is refused by their names.

    Parameters
    ----------
    path : Path
        "-" is standard input.
    data : Path, optional
        Where the rows come from, which cannot be standard input as well.
    """
    if data is not None and is_standard_input(path) and is_standard_input(data):
        raise ValueError(
            f"MODEL {path} and DATA {data} are both standard input, which holds one of them: name "
            "a file for the other"
        )
    if path.is_dir():
        raise ValueError(f"MODEL must be a file that fit has written, and {path} is a folder")
    standard = str(path) == "-"
    name = "standard input" if standard else str(path)
    model, notes = read_model(sys.stdin.buffer.read() if standard else path.read_bytes(), name)
    if "features" not in notes:
        raise ValueError(
            f"{name} was saved in Python and does not say how files are read: take structinv.load"
        )
    try:
        features, classifier = features_from_notes(notes["features"], model)
        if not isinstance(classifier, (InvariantClassifier, InvariantStructuredSVC)):
            raise ValueError(f"it holds a {type(classifier).__name__}")
        texts = features.task == "texts"
        known = classifier.coef_.shape[1] if texts else classifier.n_features_in_
        if known != features.n_features:
            raise ValueError("its weights do not fit its features")
        return SavedModel(classifier, features, dict(notes["training"]))
    except Exception as error:
        raise ValueError(f"{name} is not a model file of the command line: {error}") from None
