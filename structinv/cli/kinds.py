"""Which features are learned from which kind of file, and which ones a model file has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from ..datasets.opening import Kind, Source, in_columns, kind_of, name_of, rereadable
from ..rows import RowFolder
from ..rows.manifest import MANIFEST
from .features import Features
from .folder_features import FolderFeatures, labels_of
from .row_files import SAID, DocumentFeatures, NumberedFeatures, TableFeatures, TextFeatures
from .sentences import SentenceFeatures

# What DATA names.
Data: TypeAlias = Source | RowFolder

# Options of `fit` that say how files are read; each kind of features names those that it heeds.
READING_OPTIONS = {
    "vectorizer": "--vectorizer",
    "unit_length": "--unit-length",
    "text_key": "--text-key",
    "label_key": "--label-key",
    "zero_based": "--zero-based/--one-based",
    "memory_limit": "--memory-limit",
}

_LEARNERS: dict[Kind, Any] = {
    "svmlight": NumberedFeatures,
    "table": TableFeatures,
    "json": TextFeatures,
    "conll": SentenceFeatures,
}

# Kinds that the content alone tells, for which sentences in columns may be taken.
_BY_CONTENT = ("svmlight", "table")


def data_at(path: Path) -> Data:
    """A file, or a folder of rows.

    Raises
    ------
    ValueError, OSError
        For folders that are no folder of rows, and for files in one.
    """
    if path.is_dir():
        return RowFolder(path)
    if path.name == MANIFEST or (path.suffix == ".npy" and (path.parent / MANIFEST).is_file()):
        raise ValueError(f"{path} is a file of a folder of rows: name the folder, {path.parent}")
    return rereadable(path)


def labeled(features: Features, data: Data, ignore_new: bool) -> tuple[Any, Any]:
    """Rows with the features of the training file, and labels."""
    if isinstance(data, RowFolder):
        return features.read_folder(data, ignore_new), labels_of(data)
    return features.read(data, ignore_new)


def unlabeled(features: Features, data: Data, ignore_new: bool) -> Any:
    """Rows with the features of the training file, alone."""
    if isinstance(data, RowFolder):
        return features.read_folder(data, ignore_new)
    return features.read_unlabeled(data, ignore_new)


def training_file(path: Path, kind: Kind | None, tokens: bool = False) -> tuple[Data, Any]:
    """A training file, and the class that learns features from one of its kind; None finds it out.

    With `tokens` texts stay as they are, for a classifier that knows their tokens.
    """
    source = data_at(path)
    if isinstance(source, RowFolder):
        if kind is not None:
            raise ValueError(f"--format {kind} is for files, and {path} is a folder of rows")
        return source, FolderFeatures
    if kind is None:
        kind = kind_of(source)
        if kind in _BY_CONTENT and in_columns(source):
            raise ValueError(
                f"{name_of(source)} looks like sentences in columns, a token a line and a blank line "
                "after each sentence: add --format conll, or --format "
                f"{kind} if it is {SAID[kind]}"
            )
    return source, DocumentFeatures if tokens and kind == "json" else _LEARNERS[kind]


def features_from_notes(notes: dict[str, Any], model: Any) -> tuple[Any, Any]:
    """The features of a model file, and its classifier."""
    values = dict(notes)
    kind = values.pop("kind")
    if kind == "text":
        return TextFeatures(vectorizer=model[:-1], **values), model[-1]
    if kind == "documents":
        return DocumentFeatures(words=tuple(model.column_names()), **values), model
    if kind == "svmlight":
        return NumberedFeatures(n_features=model.n_features_in_, **values), model
    if kind == "folder":
        return FolderFeatures(n_features=model.n_features_in_, **values), model
    if kind == "conll":
        return SentenceFeatures(n_features=model.n_features_in_, **values), model
    if kind == "table":
        return TableFeatures(names=tuple(values.pop("names")), **values), model
    raise ValueError(f"unknown kind of features {kind!r}")
