"""Readers of SVMlight files, tables and texts for the command line."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from ..datasets import load_jsonlines, load_svmlight, load_table
from ..datasets.opening import Kind, Source, in_columns, kind_of, name_of
from ..datasets.readers import line_of_row
from ..datasets.tables import has_texts, load_text_table
from ..estimators.resource_estimates import linear_functions
from ..rows import RowFolder, RowSource
from ..utils.matrices import Matrix
from ..utils.resources import check_memory, free_memory
from ..utils.visible import listed
from .features import Features, ReadOptions, Scaling
from .folder_rows import rows_for

Labels = NDArray[Any]

# Maximum bytes of a dense copy of sparse rows.
DENSE_BYTES = 2e9

# Descriptions of formats in messages.
FORMAT_NAMES = {
    "json": "JSON of texts",
    "svmlight": "SVMlight rows",
    "table": "a table with a header",
    "conll": "sentences in columns",
}


@dataclass(frozen=True)
class NumberedFeatures(Features):
    """Columns of SVMlight files.

    The training file determines the number of the first feature, 0 or 1. A test file without the number
    0 must not shift all columns by one.
    """

    trained_on: ClassVar[str] = FORMAT_NAMES["svmlight"]
    options: ClassVar[frozenset[str]] = frozenset({"zero_based", "memory_limit"})

    n_features: int
    zero_based: bool
    dense: bool = False

    @classmethod
    def learn(cls, source: Source, reading: ReadOptions) -> tuple[Self, Matrix, Labels]:
        """Read a training file.

        By default numbers start at 0 for files with the number 0, otherwise at 1.
        """
        zero_based = reading.zero_based
        X, y = load_svmlight(source, zero_based=zero_based is not False)
        if zero_based is None:
            zero_based = X.nnz > 0 and int(X.indices.min()) == 0
            X = X if zero_based else X[:, 1:]
            if not zero_based and X.shape[1] < reading.n_features:
                warnings.warn(
                    f"{name_of(source)} has no feature number 0, so numbers start at 1: pass "
                    "--zero-based if the first pixel has number 0, otherwise pass --one-based",
                    stacklevel=2,
                )
        X.resize(X.shape[0], max(X.shape[1], reading.n_features))
        if X.shape[1] == 0:
            raise ValueError(
                f"{name_of(source)} contains only labels: at least one row must have a feature"
            )
        dense = reading.dense_for is not None
        if dense:
            X = _dense(X, source, str(reading.dense_for))
        else:
            _check_weights(X, y, source, zero_based)
        return cls(X.shape[1], zero_based, dense), X, y

    def read(self, source: Source, ignore_new: bool = False) -> tuple[Matrix, Labels]:
        """Read rows with the columns of the training file, and labels.

        Missing columns are zero.
        """
        source = _of_kind(source, "svmlight")
        X, y = load_svmlight(source, zero_based=self.zero_based)
        if X.shape[1] > self.n_features and not ignore_new:
            raise ValueError(
                f"{name_of(source)} has feature numbers up to {X.shape[1] - self.zero_based}, but "
                f"MODEL has feature numbers up to {self.n_features - self.zero_based}: pass "
                "--ignore-new-features to ignore larger numbers. The training file was read as "
                f"{'zero' if self.zero_based else 'one'}-based; fit has the options --zero-based and "
                "--one-based"
            )
        X.resize(len(y), self.n_features)
        return (_dense(X, source, "MODEL") if self.dense else X), y

    def read_folder(self, rows: RowFolder, ignore_new: bool = False) -> RowSource:
        if self.dense:
            raise ValueError(
                f"MODEL requires dense rows, but the folder {rows.path} contains sparse rows: pass the "
                "original file"
            )
        return rows_for(self.n_features, {"first_feature": int(not self.zero_based)}, rows, ignore_new)

    def name(self, column: int) -> str:
        """Return the number of a column in files."""
        return str(column + (not self.zero_based))

    def notes(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"kind": "svmlight", "zero_based": self.zero_based, "dense": self.dense}


@dataclass(frozen=True)
class TableFeatures(Features):
    """Columns of a table, identified by their names in the header."""

    trained_on: ClassVar[str] = FORMAT_NAMES["table"]
    options: ClassVar[frozenset[str]] = frozenset({"label_key", "memory_limit"})

    names: tuple[str, ...]
    label_key: str

    @classmethod
    def learn(cls, source: Source, reading: ReadOptions) -> tuple[Self, Matrix, Labels]:
        """Read a training file."""
        X, y, names = load_table(source, reading.label_key)
        assert y is not None
        if not names:
            raise ValueError(
                f"{name_of(source)} contains only labels: at least one column of features is required"
            )
        return cls(tuple(names), reading.label_key), X, y

    def read(self, source: Source, ignore_new: bool = False) -> tuple[Matrix, Labels]:
        """Read labels, and rows with the columns of the training file in their order."""
        X, y, names = load_table(_of_kind(source, "table"), self.label_key)
        assert y is not None
        return self._ordered(X, names, source, ignore_new), y

    def read_unlabeled(self, source: Source, ignore_new: bool = False) -> Matrix:
        """Read rows from a file with or without labels."""
        X, _, names = load_table(_of_kind(source, "table"), self.label_key, required=False)
        return self._ordered(X, names, source, ignore_new)

    def _ordered(self, X: Any, names: list[str], source: Source, ignore_new: bool) -> Matrix:
        missing = [name for name in self.names if name not in names]
        new = [name for name in names if name not in self.names]
        if missing:
            raise ValueError(
                f"{name_of(source)} must have all columns of MODEL, but these are missing: "
                f"{listed(missing)}"
            )
        if new and not ignore_new:
            raise ValueError(
                f"{name_of(source)} has new columns: {listed(new)}. Pass --ignore-new-features to "
                "ignore "
                "them"
            )
        return X[:, [names.index(name) for name in self.names]]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    def name(self, column: int) -> str:
        """Return the name of a column."""
        return self.names[column]

    def notes(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"kind": "table", "names": list(self.names), "label_key": self.label_key}


def load_texts(source: Source, text_key: str, label_key: str | None) -> tuple[list[str], Labels | None]:
    """Read texts and labels from JSON, or from a table."""
    load = load_text_table if kind_of(source) == "table" else load_jsonlines
    return load(source, text_key, label_key)


@dataclass(frozen=True)
class _Texts(Features):
    """Texts and labels, by keys of JSON objects or names of columns."""

    trained_on: ClassVar[str] = FORMAT_NAMES["json"]
    of_texts: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset({"vectorizer", "unit_length", "text_key", "label_key"})

    text_key: str
    label_key: str

    def read(self, source: Source, ignore_new: bool = True) -> tuple[Any, Labels]:
        """Read texts or their rows, and labels; words that the training file lacks are ignored."""
        texts, y = load_texts(self._checked(source), self.text_key, self.label_key)
        assert y is not None
        return self._rows(texts), y

    def read_unlabeled(self, source: Source, ignore_new: bool = True) -> Any:
        """Read texts or their rows from a file with or without labels."""
        texts, _ = load_texts(self._checked(source), self.text_key, None)
        return self._rows(texts)

    def _checked(self, source: Source) -> Source:
        """Return the source; raise ValueError unless it has texts."""
        if kind_of(source) == "table":
            if has_texts(source, self.text_key, self.label_key):
                return source
            raise ValueError(
                f"MODEL requires texts, but {name_of(source)} is a table without a column "
                f"{self.text_key!r}: rename the texts as in the training file"
            )
        return _of_kind(source, "json")

    def _rows(self, texts: list[str]) -> Any:
        return texts


@dataclass(frozen=True)
class DocumentFeatures(_Texts):
    """Unchanged texts, for a classifier of texts that certifies edits of tokens."""

    task: ClassVar[str] = "texts"

    # Empty before training.
    words: tuple[str, ...] = ()

    @classmethod
    def learn(cls, source: Source, reading: ReadOptions) -> tuple[Self, list[str], Labels]:
        """Read a training file."""
        texts, y = load_texts(source, reading.text_key, reading.label_key)
        assert y is not None
        return cls(reading.text_key, reading.label_key), texts, y

    @property
    def n_features(self) -> int:
        """Number of words."""
        return len(self.words)

    def name(self, column: int) -> str:
        """The word of a column."""
        return self.words[column]

    def notes(self) -> dict[str, Any]:
        """Plain values, for a model file; the words are the model's."""
        return {"kind": "documents", "text_key": self.text_key, "label_key": self.label_key}


@dataclass(frozen=True)
class TextFeatures(_Texts):
    """Words of texts: counts, log(1 + count), or weighted counts."""

    options: ClassVar[frozenset[str]] = _Texts.options | {"memory_limit"}

    vectorizer: Pipeline

    @classmethod
    def learn(cls, source: Source, reading: ReadOptions) -> tuple[Self, Matrix, Labels]:
        """Read a training file and collect its words."""
        if reading.dense_for is not None:
            raise ValueError(
                f"{reading.dense_for} requires dense rows, but texts have sparse rows with one column "
                "per word: train on SVMlight rows or a table, or use an oracle for sparse rows, such "
                "as fscale, fdrop or fadd"
            )
        texts, y = load_texts(source, reading.text_key, reading.label_key)
        assert y is not None
        vectorizer = _vectorizer(reading.scaling, reading.unit_length)
        try:
            X = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise ValueError(f"{name_of(source)}: {error}") from None
        return cls(reading.text_key, reading.label_key, vectorizer), X, y

    def _rows(self, texts: list[str]) -> Matrix:
        return self.vectorizer.transform(texts)

    def texts(self, source: Source) -> list[str]:
        return load_texts(source, self.text_key, None)[0]

    @property
    def word_vectorizer(self) -> CountVectorizer:
        """Vectorizer of the words."""
        return self.vectorizer[0]

    @property
    def certified(self) -> str:
        """Note: certificates apply to feature values, not to tokens."""
        steps = (_STEP_NAMES[name] for name in self.vectorizer.named_steps if name != "words")
        values = " and ".join(steps) or "counts"
        return f"certificates apply to feature values ({values}), not to tokens of the text"

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.vectorizer[0].vocabulary_)

    def name(self, column: int) -> str:
        """The word of a column."""
        return str(self.vectorizer[0].get_feature_names_out()[column])

    def notes(self) -> dict[str, Any]:
        """Plain values, for a model file; the words are the model's."""
        return {"kind": "text", "text_key": self.text_key, "label_key": self.label_key}

    def around(self, classifier: Any) -> Pipeline:
        return Pipeline([*self.vectorizer.steps, ("classifier", classifier)])


# Descriptions of the steps that modify values.
_STEP_NAMES = {
    "log": "log(1 + count)",
    "weights": "weighted counts",
    "length": "scaled to length 1",
}


def _of_kind(source: Source, wanted: Kind) -> Source:
    """Return the source, or raise ValueError if its format is not that of the training file."""
    found = kind_of(source)
    # Tables may contain blank lines. Only files detected as SVMlight rows can be sentences in columns.
    columns = found == "svmlight" and in_columns(source)
    if found != wanted or columns:
        content = f"looks like {FORMAT_NAMES['conll']}" if columns else f"contains {FORMAT_NAMES[found]}"
        if wanted == "json" and found == "svmlight" and not columns:
            # Plain text is detected as SVMlight rows, the format of unrecognized files.
            content = 'is not JSON: each text must be a line such as {"text": "..."}'
        raise ValueError(f"MODEL requires {FORMAT_NAMES[wanted]}, but {name_of(source)} {content}")
    return source


def _vectorizer(scaling: Scaling, unit_length: bool) -> Pipeline:
    steps: list[tuple[str, Any]] = [("words", CountVectorizer(dtype=np.float64))]
    if scaling == "log":
        # Programs may set data frames as the output globally, but sparse rows do not fit into a data
        # frame.
        log = FunctionTransformer(np.log1p, accept_sparse=True).set_output(transform="default")
        steps.append(("log", log))
    if scaling == "tfidf":
        steps.append(("weights", TfidfTransformer(norm=None)))
    if unit_length:
        steps.append(("length", Normalizer().set_output(transform="default")))
    return Pipeline(steps)


def _dense(X: sparse.csr_matrix, source: Source, user: str) -> NDArray[np.float64]:
    size = 8.0 * X.shape[0] * X.shape[1]
    if size > DENSE_BYTES:
        raise ValueError(
            f"{user} requires dense rows, but the {X.shape[0]} rows of {X.shape[1]} features in "
            f"{name_of(source)} would take {size / 1e9:.1f} GB (at most "
            f"{DENSE_BYTES / 1e9:g}): use fewer rows or features, or an oracle for sparse "
            "rows, such as fscale, fdrop or fadd"
        )
    return X.toarray()


def _check_weights(X: sparse.csr_matrix, y: Labels, source: Source, zero_based: bool) -> None:
    """Raise MemoryError if the weights do not fit; the message names the largest feature's line."""
    n_classes = len(np.unique(y))
    n_outputs = 1 if n_classes <= 2 else n_classes
    needed = linear_functions(X.shape[1], n_outputs)
    if X.nnz == 0 or needed <= free_memory():
        return
    largest = int(np.argmax(X.indices))
    line = line_of_row(source, int(np.searchsorted(X.indptr, largest, side="right")) - 1)
    number = int(X.indices[largest]) + (not zero_based)
    check_memory(
        f"{name_of(source)}, line {line} has feature number {number}, the largest: "
        f"training with weights for {X.shape[1]} features",
        needed,
        "hash the features, or number them without gaps",
    )
