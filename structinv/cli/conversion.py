"""What converting asks of a file of rows, and what its options say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from ..rows import RowWriter
from ..utils.matrices import Matrix

# Columns of hashed words where nothing else is asked for.
HASHED = 2**20

# Options that say how files are read; each kind of file names those that it heeds.
OPTIONS = {
    "zero_based": "--zero-based/--one-based",
    "n_features": "--n-features",
    "vocabulary": "--vocabulary",
    "text_key": "--text-key",
    "label_key": "--label-key",
    "unlabeled": "--unlabeled",
}


@dataclass(frozen=True)
class Conversion:
    """What the options say; `told` has the names of those that were given."""

    dtype: str
    n_features: int | None
    zero_based: bool | None
    vocabulary: Path | None
    text_key: str
    label_key: str | None
    told: Set[str]


class RowFile(ABC):
    """A file of rows of some kind.

    Attributes
    ----------
    options : frozenset of str
        The options of `OPTIONS` that it heeds.
    n_features : int or None
        Number of columns, if it is known ahead.
    notes : dict
        For the manifest.
    total : int or None
        How much there is to read, in bytes or rows; None if nobody knows.
    """

    options: ClassVar[frozenset[str]]
    n_features: int | None
    notes: dict[str, Any]
    total: int | None

    @abstractmethod
    def blocks(self, writer: RowWriter) -> Iterator[tuple[Matrix, Any]]:
        """Rows and labels, or None, to be appended to the writer before the next are asked for."""

    @abstractmethod
    def done(self) -> int:
        """How much is read so far, as `total` counts it."""


def refuse_idle(kind: type[RowFile], name: str, asked: Conversion, more: Set[str] = frozenset()) -> None:
    """Raise for an option that was given and has no say about this kind of file; `more` have one."""
    for option in OPTIONS:
        if option in asked.told and option not in kind.options | more:
            raise ValueError(
                f"{OPTIONS[option]} has no say in how {name} is read, a file of another kind"
            )


def word_counts(asked: Conversion) -> tuple[Any, int, dict[str, Any]]:
    """A vectorizer that counts words, its number of columns, and notes for the manifest."""
    if asked.vocabulary is None:
        n_features = HASHED if asked.n_features is None else asked.n_features
        hashing = HashingVectorizer(
            n_features=n_features, alternate_sign=False, norm=None, dtype=np.dtype(asked.dtype).type
        )
        return hashing, n_features, {"vectorizer": "hashing"}
    if asked.n_features is not None:
        raise ValueError("--n-features has no say where --vocabulary gives the words")
    words = _vocabulary(asked.vocabulary)
    counting = CountVectorizer(vocabulary=words, dtype=np.dtype(asked.dtype).type)
    return counting, len(words), {"vectorizer": "counts", "vocabulary": str(asked.vocabulary)}


def _vocabulary(path: Path) -> list[str]:
    """Words of a file, one a line; the line's number, from 0, is the column."""
    try:
        words = [line.strip() for line in path.read_text(encoding="utf-8-sig").rstrip().split("\n")]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error.reason})") from None
    seen: dict[str, int] = {}
    for number, word in enumerate(words, start=1):
        if not word:
            raise ValueError(f"{path}, line {number}: a word is needed, and the line is empty")
        if word in seen:
            raise ValueError(f"{path}, line {number}: {word!r} is in line {seen[word]}, too")
        seen[word] = number
    return words
