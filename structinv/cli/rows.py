"""From a file to rows: features that are numbered already, or words of a text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize

from ..datasets import load_jsonlines, load_svmlight

Scaling = Literal["count", "log", "tfidf"]
Labels = NDArray[Any]

_TEXT_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz")


def is_text(path: Path) -> bool:
    """Whether a file holds JSON lines of text, by its name; all others are SVMlight files."""
    return path.name.lower().endswith(_TEXT_ENDINGS)


@dataclass(frozen=True)
class NumberedFeatures:
    """Columns of SVMlight files.

    Where numbering starts is settled once, at training: a test file that happens not to use
    number 0 must not move all columns by one.
    """

    n_features: int
    zero_based: bool

    @classmethod
    def learn(cls, path: Path, zero_based: bool | None) -> tuple[Self, sparse.csr_matrix, Labels]:
        """Read a training file; None for `zero_based` finds out whether it uses number 0."""
        X, y = load_svmlight(path, zero_based=zero_based is not False)
        if zero_based is None:
            zero_based = X.nnz > 0 and int(X.indices.min()) == 0
            X = X if zero_based else X[:, 1:]
        if X.shape[1] == 0:
            raise ValueError(f"{path} has labels only: no row has a feature")
        return cls(X.shape[1], zero_based), X, y

    def read(self, path: Path, ignore_new: bool = False) -> tuple[sparse.csr_matrix, Labels]:
        """Rows with the columns of the training file, and labels; missing columns are zero."""
        if is_text(path):
            raise ValueError(f"the model was trained on SVMlight rows, and {path} is text")
        X, y = load_svmlight(path, zero_based=self.zero_based)
        if X.shape[1] > self.n_features and not ignore_new:
            raise ValueError(
                f"{path} has features up to number {X.shape[1] - self.zero_based}, the model knows"
                f" {self.n_features - self.zero_based}; --ignore-new-features drops the others"
            )
        X.resize(len(y), self.n_features)
        return X, y

    def read_unlabelled(self, path: Path, ignore_new: bool = False) -> sparse.csr_matrix:
        """Rows alone; the format asks for labels, which are not used."""
        return self.read(path, ignore_new)[0]

    def name(self, column: int) -> str:
        """The column's number as files write it."""
        return str(column + (not self.zero_based))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"kind": "svmlight", **asdict(self)}


@dataclass(frozen=True)
class TextFeatures:
    """Words of a text: counts, logarithms log(1 + count), or counts times a weight per word."""

    words: tuple[str, ...]
    scaling: Scaling
    weights: NDArray[np.float64] | None
    unit_length: bool
    text_key: str
    label_key: str

    @classmethod
    def learn(
        cls, path: Path, *, scaling: Scaling, unit_length: bool, text_key: str, label_key: str
    ) -> tuple[Self, sparse.csr_matrix, Labels]:
        """Read a training file and collect its words."""
        texts, y = load_jsonlines(path, text_key, label_key)
        assert y is not None
        vectorizer = CountVectorizer(dtype=np.float64)
        try:
            counts = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        weights = TfidfTransformer().fit(counts).idf_ if scaling == "tfidf" else None
        words = tuple(vectorizer.get_feature_names_out().tolist())
        features = cls(words, scaling, weights, unit_length, text_key, label_key)
        return features, features._scaled(counts), y

    def read(self, path: Path, ignore_new: bool = True) -> tuple[sparse.csr_matrix, Labels]:
        """Rows with the words of the training file, and labels; other words never count."""
        texts, y = self._load(path, self.label_key)
        assert y is not None
        return self._rows(texts), y

    def read_unlabelled(self, path: Path, ignore_new: bool = True) -> sparse.csr_matrix:
        """Rows alone, from a file that need not have labels."""
        return self._rows(self._load(path, None)[0])

    def _load(self, path: Path, label_key: str | None) -> tuple[list[str], Labels | None]:
        if not is_text(path):
            raise ValueError(
                f"the model was trained on text, so DATA must end in"
                f" {', '.join(_TEXT_ENDINGS)}; got {path}"
            )
        return load_jsonlines(path, self.text_key, label_key)

    def _rows(self, texts: list[str]) -> sparse.csr_matrix:
        vectorizer = CountVectorizer(vocabulary=self.words, dtype=np.float64)
        return self._scaled(vectorizer.transform(texts))

    def _scaled(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        if self.scaling == "log":
            np.log1p(counts.data, out=counts.data)
        if self.weights is not None:
            counts = counts @ sparse.diags(self.weights).tocsr()
        return normalize(counts) if self.unit_length else counts

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.words)

    def name(self, column: int) -> str:
        """The word of a column."""
        return self.words[column]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a model file; one string of words is small and quick to load."""
        # Words match \w+, so none holds a line break.
        return {"kind": "text", **asdict(self), "words": "\n".join(self.words)}


Features = NumberedFeatures | TextFeatures


def features_from_dict(state: dict[str, Any]) -> Features:
    """The features that `to_dict` described."""
    values = dict(state)
    kind = values.pop("kind")
    if kind == "svmlight":
        return NumberedFeatures(**values)
    if kind == "text":
        return TextFeatures(**{**values, "words": tuple(values["words"].split("\n"))})
    raise ValueError(f"unknown kind of features {kind!r}")
