"""Base class and options of the readers of training files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..datasets.opening import Source
from ..rows import RowFolder, RowSource

Scaling = Literal["count", "log", "tfidf"]


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a training file, and requirements of the classifier."""

    scaling: Scaling
    unit_length: bool
    text_key: str
    label_key: str
    zero_based: bool | None
    # The option that requires dense rows, or None.
    dense_for: str | None
    # Number of pixels of images: SVMlight files omit trailing pixels that are zero in all rows.
    n_features: int = 0


class Features:
    """Reader of the rows of a classifier."""

    task: ClassVar[str] = "rows"
    trained_on: ClassVar[str]
    of_texts: ClassVar[bool] = False
    options: ClassVar[frozenset[str]] = frozenset()

    @property
    def certified(self) -> str:
        """Note on the scope of certificates; empty if it is clear."""
        return ""

    def read(self, source: Source, ignore_new: bool = False) -> tuple[Any, Any]:
        """Read labels, and rows with the features of the training file."""
        raise NotImplementedError

    def read_unlabeled(self, source: Source, ignore_new: bool = False) -> Any:
        """Read rows without labels."""
        return self.read(source, ignore_new)[0]

    def read_folder(self, rows: RowFolder, ignore_new: bool = False) -> RowSource:
        """Return the rows of a folder with the features of the training file."""
        raise ValueError(
            f"MODEL was trained on {self.trained_on}, but {rows.path} is a folder of rows: pass a file"
        )

    def texts(self, source: Any) -> list[str] | None:
        """Return the texts of a file whose rows are values of words, or None."""
        return None

    @property
    def word_vectorizer(self) -> Any:
        """Vectorizer of the words of these texts, or None."""
        return None

    def around(self, classifier: Any) -> Any:
        """Return an estimator that accepts the content of the files."""
        return classifier
