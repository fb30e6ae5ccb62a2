"""How files are read, and what all kinds of features have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..datasets.opening import Source
from ..rows import RowFolder, RowSource

Scaling = Literal["count", "log", "tfidf"]


@dataclass(frozen=True)
class ReadOptions:
    """How a training file is read: what `fit` has options for, and what its machine needs."""

    scaling: Scaling
    unit_length: bool
    text_key: str
    label_key: str
    zero_based: bool | None
    # Who takes dense rows only, or None.
    dense_for: str | None
    # What images must have: pixels at the end that are zero in all rows are in no SVMlight file.
    n_features: int = 0


class Features:
    """What reads the rows of a classifier from files.

    Attributes
    ----------
    task : str
        Of `tasks.TASKS`.
    trained_on : str
        What messages call the training file.
    options : frozenset of str
        Options of `fit` that say how such files are read.
    """

    task: ClassVar[str] = "rows"
    trained_on: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()

    @property
    def certified(self) -> str:
        """What certificates are about, where that is not what is edited."""
        return ""

    def read(self, source: Source, ignore_new: bool = False) -> tuple[Any, Any]:
        """Rows with the features of the training file, and labels."""
        raise NotImplementedError

    def read_unlabeled(self, source: Source, ignore_new: bool = False) -> Any:
        """Rows alone."""
        return self.read(source, ignore_new)[0]

    def read_folder(self, rows: RowFolder, ignore_new: bool = False) -> RowSource:
        """Rows of a folder with the features of the training file; ValueError where none can be read."""
        raise ValueError(
            f"the model was trained on {self.trained_on}, and {rows.path} is a folder of rows"
        )

    def around(self, classifier: Any) -> Any:
        """The estimator that takes what the files hold."""
        return classifier
