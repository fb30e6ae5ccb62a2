"""From a file of sentences in columns to features of each token, by the default template."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Self

from ..datasets import conll_features, load_conll
from ..datasets.conll import Sentence
from ..datasets.opening import Source, name_of
from .features import Features, ReadOptions

# Of each sentence the features of each token.
Tokens = list[list[list[str]]]


@dataclass(frozen=True)
class SentenceFeatures(Features):
    """Tokens of sentences, with so many columns before the label."""

    task: ClassVar[str] = "sentences"
    trained_on: ClassVar[str] = "sentences in columns"

    n_columns: int
    n_features: int

    @classmethod
    def learn(cls, source: Source, reading: ReadOptions) -> tuple[Self, Tokens, list[list[str]]]:
        """Read a training file and count its features."""
        if reading.dense_for is not None:
            raise ValueError(
                f"{reading.dense_for} takes dense rows, and tokens have a column for every feature: "
                "take an oracle for sparse rows, such as fscale, fdrop or fadd"
            )
        sentences, labels = load_conll(source)
        assert labels is not None
        X = conll_features(sentences)
        names = {name for tokens in X for name in chain.from_iterable(tokens)}
        return cls(len(sentences[0][0]), len(names)), X, labels

    def read(self, source: Source, ignore_new: bool = True) -> tuple[Tokens, list[list[str]]]:
        """Tokens of each sentence, and labels; features that training did not have never count."""
        sentences, labels = load_conll(source)
        assert labels is not None
        found = len(sentences[0][0])
        if found != self.n_columns:
            raise ValueError(
                f"{name_of(source)} must have {self.n_columns + 1} columns, the label last, as the "
                f"training file had, got {found + 1}"
            )
        return conll_features(sentences), labels

    def read_sentences(self, source: Source) -> tuple[Tokens, list[Sentence]]:
        """Tokens of each sentence, and all columns of the file, which need not have labels."""
        sentences, _ = load_conll(source, labeled=False)
        found, wanted = len(sentences[0][0]), self.n_columns
        if found not in (wanted, wanted + 1):
            raise ValueError(
                f"{name_of(source)} must have {wanted} columns, as the training file had before its "
                f"labels, or {wanted + 1} with labels, got {found}"
            )
        tokens = [[cells[:wanted] for cells in sentence] for sentence in sentences]
        return conll_features(tokens), sentences

    def notes(self) -> dict[str, Any]:
        """Plain values, for a model file; the features are the model's."""
        return {"kind": "conll", "n_columns": self.n_columns}
