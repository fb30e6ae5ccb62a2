"""Selection of the features class for a file or for a model file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from ..datasets.opening import Kind, Source, in_columns, kind_of, name_of, rereadable
from ..datasets.tables import has_texts
from ..rows import RowFolder
from ..rows.manifest import MANIFEST
from .features import Features, ReadOptions
from .folder_features import FolderFeatures, labels_of
from .row_files import FORMAT_NAMES, DocumentFeatures, NumberedFeatures, TableFeatures, TextFeatures
from .sentences import SentenceFeatures

# Value of the argument DATA after opening.
Data: TypeAlias = Source | RowFolder

# Advice of readers in training, and for new data.
_ADVICE = {
    ": pass text_key if a column has texts": "",
    "pass text_key": "rename the texts as in the training file",
    "pass label_key": "rename the labels as in the training file",
}

# Options of `fit` for reading files; `Features.options` lists those that a class uses.
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

# Formats detected from the content alone: sentences in columns can look like these.
_BY_CONTENT = ("svmlight", "table")


def data_at(path: Path) -> Data:
    """Open a file or a folder of rows."""
    if path.is_dir():
        return RowFolder(path)
    if path.name == MANIFEST or (path.suffix == ".npy" and (path.parent / MANIFEST).is_file()):
        raise ValueError(f"{path} belongs to a folder of rows: pass the folder, {path.parent}")
    return rereadable(path)


def labeled(features: Features, data: Data, ignore_new: bool) -> tuple[Any, Any]:
    """Read labels, and rows with the features of the training file."""
    if isinstance(data, RowFolder):
        return features.read_folder(data, ignore_new), labels_of(data)
    with _advice_for_new_data():
        return features.read(data, ignore_new)


def unlabeled(features: Features, data: Data, ignore_new: bool) -> Any:
    """Read rows with the features of the training file, without labels."""
    if isinstance(data, RowFolder):
        return features.read_folder(data, ignore_new)
    with _advice_for_new_data():
        return features.read_unlabeled(data, ignore_new)


@contextmanager
def _advice_for_new_data() -> Iterator[None]:
    """Replace the advice of readers: only `fit` has options for keys and columns."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        for of_training, of_new_data in _ADVICE.items():
            text = text.replace(of_training, of_new_data)
        raise ValueError(text) from None


def training_file(
    path: Path, kind: Kind | None, keys: tuple[str, str], tokens: bool = False
) -> tuple[Data, Any]:
    """Open training data and select the features class for its format."""
    source = data_at(path)
    if isinstance(source, RowFolder):
        if kind is not None:
            raise ValueError(
                f"--format {kind} is for files, but {path} is a folder of rows: remove the option"
            )
        return source, FolderFeatures
    if kind is None:
        kind = kind_of(source)
        if kind in _BY_CONTENT and in_columns(source):
            raise ValueError(
                f"{name_of(source)} looks like sentences in columns, with one token per line and a "
                "blank "
                "line after each sentence: pass --format conll, or --format "
                f"{kind} if it contains {FORMAT_NAMES[kind]}"
            )
    if kind == "table" and has_texts(source, *keys):
        kind = "json"
    return source, DocumentFeatures if tokens and kind == "json" else _LEARNERS[kind]


def learned(
    learner: Any, source: Data, reading: ReadOptions, guessed: bool
) -> tuple[Features, Any, Any]:
    """Read training data; errors contain the detected format of a file."""
    try:
        return learner.learn(source, reading)
    except ValueError as error:
        if not guessed or isinstance(source, RowFolder):
            raise
        raise ValueError(
            f"{error}. DATA was detected as {learner.trained_on}: pass --format if it has another format"
        ) from None


def features_from_notes(notes: dict[str, Any], model: Any) -> tuple[Any, Any]:
    """Return the features of a model file and its classifier."""
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
