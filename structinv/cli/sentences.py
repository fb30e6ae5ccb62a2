"""Reader of sentences in columns, with the default features of each token."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Self

from ..datasets import conll_features, load_conll
from ..datasets.conll import Sentence
from ..datasets.opening import Source, name_of
from .features import Features, ReadOptions

# Features of each token of each sentence.
Tokens = list[list[list[str]]]


@dataclass(frozen=True)
class SentenceFeatures(Features):
    """Tokens of sentences; `n_columns` is the number of columns before the label."""

    task: ClassVar[str] = "sentences"
    trained_on: ClassVar[str] = "sentences in columns"

    n_columns: int
    n_features: int

    @classmethod
    def learn(cls, source: Source, reading: ReadOptions) -> tuple[Self, Tokens, list[list[str]]]:
        """Read a training file and count its features."""
        if reading.dense_for is not None:
            raise ValueError(
                f"{reading.dense_for} requires dense rows, but tokens have sparse rows: use an oracle "
                "for sparse rows, such as fscale, fdrop or fadd"
            )
        sentences, labels = load_conll(source)
        assert labels is not None
        X = conll_features(sentences)
        names = {name for tokens in X for name in chain.from_iterable(tokens)}
        return cls(len(sentences[0][0]), len(names)), X, labels

    def read(self, source: Source, ignore_new: bool = True) -> tuple[Tokens, list[list[str]]]:
        """Read tokens and labels of each sentence; unknown features are ignored."""
        sentences, labels = load_conll(source)
        assert labels is not None
        found = len(sentences[0][0])
        if found != self.n_columns:
            raise ValueError(
                f"{name_of(source)} must have {self.n_columns + 1} columns like the training file, of "
                f"which the last is the label, got {found + 1}"
            )
        return conll_features(sentences), labels

    def read_sentences(self, source: Source) -> tuple[Tokens, list[Sentence]]:
        """Read tokens and all columns of each sentence, with or without labels."""
        sentences, _ = load_conll(source, labeled=False)
        found, wanted = len(sentences[0][0]), self.n_columns
        if found not in (wanted, wanted + 1):
            raise ValueError(
                f"{name_of(source)} must have {wanted} columns like the training file, or {wanted + 1} "
                f"with labels, got {found}"
            )
        tokens = [[cells[:wanted] for cells in sentence] for sentence in sentences]
        return conll_features(tokens), sentences

    def notes(self) -> dict[str, Any]:
        """Return plain values for a model file; the model stores the features."""
        return {"kind": "conll", "n_columns": self.n_columns}
