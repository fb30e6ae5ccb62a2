"""Model files of the commands, and DATA in the form of a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from ..estimators import InvariantStructuredSVC
from ..estimators.base import InvariantEstimator
from ..estimators.inputs import label_name
from ..oracles import Identity, InvarianceOracle
from ..other_models.layers import layers
from ..persistence.model_files import read_model
from ..report.subject import Subject
from ..report.writing import subject_of
from ..rows import RowFolder
from ..utils.resources import check_memory
from ..utils.texts import listed, shown
from .data import Format, Samples, read, with_features, with_tokens
from .options import check_fitting


@dataclass(frozen=True)
class SavedModel:
    """Estimator of a model file.

    - `model`: fitted estimator
    - `notes`: notes of `fit` on the training data and the training; empty for files of Python
    - `facts`: name, hash and versions of the file, for reports
    """

    model: Any
    notes: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def takes(self) -> str:
        """Kind of samples of the model: texts, rows or sentences."""
        parts = layers(self.model)
        first = next(iter(parts.steps), parts.last)
        if isinstance(first, InvariantStructuredSVC):
            return "sentences"
        return "texts" if get_tags(first).input_tags.string else "rows"

    @property
    def oracle(self) -> InvarianceOracle:
        """Perturbations of the training."""
        return getattr(layers(self.model).last, "oracle", None) or Identity()

    def check_declares(self) -> None:
        """Raise ValueError for a classifier that is not of this library."""
        last = layers(self.model).last
        if is_classifier(last) and not isinstance(last, InvariantEstimator):
            example = 'TokenEdits("edit", 5), texts' if self.takes == "texts" else "FDrop(5), X"
            raise ValueError(
                f"MODEL declares no perturbations: it ends in {type(last).__name__}. Certify linear "
                f"classifiers and naive Bayes in Python: structinv.certify(model, {example}, y)"
            )

    @property
    def _takes_sparse(self) -> bool:
        """True if all estimators in the model, and the perturbations, support sparse rows."""
        parts = layers(self.model)
        tags = [get_tags(each).input_tags for each in (*parts.steps, parts.last)]
        return self.oracle.supports_sparse and all(each.sparse for each in tags)

    def samples(
        self, data: Path, label_key: str | None, zero_based: bool | None, ignore_new: bool
    ) -> Samples:
        """Read DATA in the form of the model."""
        first = self.notes.get("first_feature", 1) if zero_based is None else int(not zero_based)
        otherwise = Format.CONLL if self.takes == "sentences" else Format.TABLE
        key = label_key or self.notes.get("label_key", "label")
        samples = read(data, None, key, first, otherwise)
        if samples.kind != self.takes:
            raise ValueError(f"MODEL takes {self.takes}, but {samples.name} has {samples.kind}")
        check_fitting(
            samples, label_key=label_key, zero_based=zero_based, ignore_new_features=ignore_new or None
        )
        if samples.kind == "rows":
            n_features = getattr(self.model, "n_features_in_", samples.X.shape[1])
            notes = {**self.notes, "columns": self._columns}
            samples = with_features(samples, notes, n_features, ignore_new)
            if not sparse.issparse(samples.X) or self._takes_sparse:
                return samples
            needed = 8.0 * samples.X.shape[0] * samples.X.shape[1]
            check_memory("the dense rows of this MODEL", needed, "pass fewer rows of DATA at a time")
            return replace(samples, X=samples.X.toarray())
        if samples.kind == "texts":
            return samples
        return with_tokens(samples, self.notes.get("n_columns"), self.model.classes_)

    @property
    def _columns(self) -> list[str] | None:
        """Names of the features in the order of the model, None if the model has none."""
        names = list(getattr(self.model, "feature_names_in_", ())) or None
        return self.notes.get("columns", names)

    def labels(self, samples: Samples) -> Any:
        """Return labels as classes of the model; sentences may have other labels."""
        if samples.kind == "sentences":
            return samples.labels
        names = {label_name(label): label for label in self.model.classes_.tolist()}
        found = [label_name(label) for label in samples.labels.tolist()]
        unknown = sorted(set(found) - set(names))
        if unknown:
            raise ValueError(
                f"labels of {samples.name} must be among the classes of MODEL, {listed(names)}; got "
                f"{listed(unknown)}"
            )
        return np.array([names[name] for name in found])

    def subject(self, samples: Samples, shape: Any = None, **facts: str) -> Subject:
        """Return the subject of a report on labeled data."""
        self.check_declares()
        names = self.feature_names(samples)
        more: dict[str, Any] = {} if names is None else {"feature_name": names.__getitem__}
        more |= {"facts": {**self.facts, **facts}, "training": self.notes.get("training", {})}
        return subject_of(self.model, samples.X, self.labels(samples), shape, **more)

    def feature_names(self, samples: Samples) -> list[str] | None:
        """Return names of features in DATA, or None for the names in the model."""
        if samples.kind != "rows" or layers(self.model).steps:
            return None
        if "columns" in samples.notes:
            return self._columns or samples.notes["columns"]
        first = samples.notes.get("first_feature", 0)
        return [str(column) for column in range(first, samples.X.shape[1] + first)]


def load_model(path: Path) -> SavedModel:
    """Read a model file."""
    content = path.read_bytes()
    model, header = read_model(content, str(path))
    facts = {
        "Model file": str(path),
        "Model file, SHA-256": sha256(content).hexdigest(),
        "Fitted with": ", ".join(
            f"{library} {number}" for library, number in header["libraries"].items()
        ),
        "Date of the fit": "not stored in model files",
    }
    return SavedModel(model, header["notes"], facts)


def data_facts(data: Path, samples: Samples) -> dict[str, str]:
    """Return the name and the hash of the test data."""
    if isinstance(samples.X, RowFolder):
        files = sorted(path for path in data.iterdir() if path.is_file())
        lines = "".join(f"{_hash(path)}  {path.name}\n" for path in files)
        digest = f"{sha256(lines.encode()).hexdigest()} (of the output of sha256sum *)"
    else:
        digest = samples.digest or _hash(data)
    return {"Test data": shown(samples.name), "Test data, SHA-256": digest}


def _hash(path: Path) -> str:
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
