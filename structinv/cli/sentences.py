"""From a file of sentences in columns to rows: features of each token by the default template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from scipy import sparse
from sklearn.pipeline import Pipeline

from ..datasets import conll_features, load_conll
from ..datasets.conll import Sentence
from ..datasets.opening import Source, name_of
from ..estimators import TokenVectorizer

if TYPE_CHECKING:
    from .rows import Reading

Rows = list[sparse.csr_matrix]


@dataclass(frozen=True)
class SentenceFeatures:
    """Tokens of sentences, with so many columns before the label."""

    task: ClassVar[str] = "sentences"

    vectorizer: TokenVectorizer
    n_columns: int

    @classmethod
    def learn(cls, source: Source, reading: Reading) -> tuple[Self, Rows, list[list[str]]]:
        """Read a training file and collect its features."""
        if reading.dense_for is not None:
            raise ValueError(
                f"{reading.dense_for} takes dense rows, and tokens have a column for every feature: "
                "take an oracle for sparse rows, fscale or fdrop"
            )
        sentences, labels = load_conll(source)
        assert labels is not None
        vectorizer = TokenVectorizer()
        X = vectorizer.fit_transform(conll_features(sentences))
        return cls(vectorizer, len(sentences[0][0])), X, labels

    def read(self, source: Source, ignore_new: bool = True) -> tuple[Rows, list[list[str]]]:
        """Rows of each sentence, and labels; features that training did not have never count."""
        sentences, labels = load_conll(source)
        assert labels is not None
        found = len(sentences[0][0])
        if found != self.n_columns:
            raise ValueError(
                f"{name_of(source)} must have {self.n_columns} columns and the label, as the training "
                f"file had, got {found + 1} columns"
            )
        return self.vectorizer.transform(conll_features(sentences)), labels

    def read_sentences(self, source: Source) -> tuple[Rows, list[Sentence]]:
        """Rows of each sentence, and all columns of the file, which need not have labels."""
        sentences, _ = load_conll(source, labelled=False)
        found, wanted = len(sentences[0][0]), self.n_columns
        if found not in (wanted, wanted + 1):
            raise ValueError(
                f"{name_of(source)} must have {wanted} columns, as the training file had before its "
                f"labels, or {wanted + 1} with labels, got {found}"
            )
        tokens = [[cells[:wanted] for cells in sentence] for sentence in sentences]
        return self.vectorizer.transform(conll_features(tokens)), sentences

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return self.vectorizer.n_columns_

    def notes(self) -> dict[str, Any]:
        """Plain values, for a model file; the features are the model's."""
        return {"kind": "conll", "n_columns": self.n_columns}

    def around(self, classifier: Any) -> Pipeline:
        """The estimator that takes what `conll_features` gives."""
        return Pipeline([("features", self.vectorizer), ("classifier", classifier)])
