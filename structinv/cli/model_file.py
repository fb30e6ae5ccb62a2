"""Model files of the command line: `structinv.save` with notes on reading."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.opening import is_standard_input
from ..estimators import InvariantStructuredSVC
from ..estimators.classifier import InvariantClassifier
from ..estimators.target_labels import label_name
from ..oracles import Identity, InvarianceOracle
from ..persistence.model_files import model_bytes, read_model, versions_in
from ..report.subject import Subject
from ..report.writing import subject_of
from ..rows import RowFolder
from ..utils.visible import listed, shown
from .kinds import Data, features_from_notes
from .messages import say
from .phrases import phrase
from .row_files import Labels


@dataclass(frozen=True)
class SavedModel:
    """Fitted classifier with the reader of its features.

    - `classifier`: fitted classifier
    - `features`: reader of files
    - `training`: summary of the fit: size of the data, status and relative_gap; after a fit also seconds
    - `facts`: name, hash and versions of a model file, for reports
    """

    classifier: Any
    features: Any
    training: dict[str, Any]
    facts: dict[str, str] = field(default_factory=dict)

    def label_names(self, labels: Iterable[Any]) -> list[str]:
        """Return labels as visible text; integers of SVMlight files have no fraction."""
        return [shown(label_name(label)) for label in labels]

    def check_labels(self, labels: Labels) -> None:
        """Raise ValueError for labels that are not classes of the model."""
        classes = self.classifier.classes_.tolist()
        unknown = sorted(set(np.unique(labels).tolist()) - set(classes))
        if unknown:
            allowed, got = self.label_names(classes), self.label_names(unknown)
            kinds = _kinds(classes), _kinds(unknown)
            # Labels of two types can look alike.
            alike = bool(set(allowed) & set(got))
            named = [f" ({kind})" if alike else "" for kind in kinds]
            raise ValueError(
                "labels of DATA must be among the model's classes, "
                f"{listed(allowed)}{named[0]}; got {listed(got)}{named[1]}"
            )

    @property
    def perturbations(self) -> str:
        """Perturbations of the oracle, in words."""
        return phrase(self._oracle)

    @property
    def is_restricted(self) -> bool:
        """True if the oracle perturbs rows of some labels only, as with --only-for."""
        oracle = self._oracle
        return oracle.for_any_label() is not oracle

    def note_identity(self) -> None:
        """Print a note on standard error if certificates are for unperturbed data."""
        if isinstance(self._oracle, Identity):
            say("MODEL has no perturbations (--oracle identity): certificates are for unchanged DATA")

    @property
    def _oracle(self) -> InvarianceOracle:
        return self.classifier.oracle or Identity()

    def subject(
        self, source: Data, X: Any, y: Any, shape: Any = None, facts: Mapping[str, str] | None = None
    ) -> Subject:
        """Return the subject of a report on labeled data."""
        texts = None if isinstance(source, RowFolder) else self.features.texts(source)
        return subject_of(
            self.classifier,
            X,
            y,
            shape,
            facts={**self.facts, **(facts or {})},
            training=self.training,
            feature_name=getattr(self.features, "name", None),
            texts=texts,
            vectorizer=self.features.word_vectorizer,
            space=self.features.certified,
        )

    def content(self) -> bytes:
        """Return the bytes of a model file.

        `structinv.load` returns its estimator, which accepts texts or rows.
        """
        # The solution has the run time.
        training = {name: value for name, value in self.training.items() if name != "seconds"}
        notes = {"features": self.features.notes(), "training": training}
        return model_bytes(self.features.around(self.classifier), notes=notes)


def load_model(path: Path, data: Path | None = None) -> SavedModel:
    """Read a model file of the command line."""
    if data is not None and is_standard_input(path) and is_standard_input(data):
        raise ValueError(
            f"MODEL {path} and DATA {data} are both standard input: pass a file for one of them"
        )
    if path.is_dir():
        raise ValueError(f"MODEL must be a file written by fit, got the folder {path}")
    standard = str(path) == "-"
    name = "standard input" if standard else str(path)
    content = sys.stdin.buffer.read() if standard else path.read_bytes()
    model, notes = read_model(content, name)
    if "features" not in notes:
        raise ValueError(
            f"{name} was saved by structinv.save, which does not store the input format: use "
            "structinv.load in Python"
        )
    try:
        features, classifier = features_from_notes(notes["features"], model)
        if not isinstance(classifier, (InvariantClassifier, InvariantStructuredSVC)):
            raise ValueError(f"it contains a {type(classifier).__name__}")
        texts = features.task == "texts"
        n_weights = classifier.coef_.shape[1] if texts else classifier.n_features_in_
        if n_weights != features.n_features:
            raise ValueError(f"it has {n_weights} weights for {features.n_features} features")
        return SavedModel(classifier, features, dict(notes["training"]), _facts(content, name))
    except Exception as error:
        raise ValueError(f"{name} is not a model file of the command line: {error}") from None


def _kinds(labels: Iterable[Any]) -> str:
    """Name the types of labels, such as "strings"."""
    names = {int: "integers", float: "numbers", str: "strings", bool: "booleans"}
    return " and ".join(sorted({names.get(type(each), type(each).__name__) for each in labels}))


def _facts(content: bytes, name: str) -> dict[str, str]:
    versions = versions_in(content, name).items()
    return {
        "Model file": name,
        "Model file, SHA-256": sha256(content).hexdigest(),
        "Fitted with": ", ".join(f"{library} {number}" for library, number in versions),
        "Date of the fit": "not stored in model files",
    }
