"""Base class and options for the conversion of files to folders of rows."""

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

# Default number of columns for hashed words.
HASHED = 2**20

# Options for reading files; `RowFile.options` lists those that a class uses.
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
    """Values of the options of `convert`; `passed` has the names on the command line."""

    dtype: str
    n_features: int | None
    zero_based: bool | None
    vocabulary: Path | None
    text_key: str
    label_key: str | None
    passed: Set[str]


class RowFile(ABC):
    """File of rows, read in blocks."""

    options: ClassVar[frozenset[str]]
    n_features: int | None
    notes: dict[str, Any]
    total: int | None

    @abstractmethod
    def blocks(self, writer: RowWriter) -> Iterator[tuple[Matrix, Any]]:
        """Yield rows and labels (or None).

        The caller appends each block to the writer before the next one is read.
        """

    @abstractmethod
    def done(self) -> int:
        """Return the amount read so far, in the unit of `total`."""


def refuse_unused(
    kind: type[RowFile], name: str, given: Conversion, more: Set[str] = frozenset()
) -> None:
    """Raise ValueError for an option that this kind of file does not use."""
    for option in OPTIONS:
        if option in given.passed and option not in kind.options | more:
            raise ValueError(
                f"{OPTIONS[option]} has no effect on the format of {name}: remove the option"
            )


def word_counts(given: Conversion) -> tuple[Any, int, dict[str, Any]]:
    """Return a vectorizer of words, its number of columns and notes for the manifest."""
    if given.vocabulary is None:
        n_features = HASHED if given.n_features is None else given.n_features
        hashing = HashingVectorizer(
            n_features=n_features, alternate_sign=False, norm=None, dtype=np.dtype(given.dtype).type
        )
        return hashing, n_features, {"vectorizer": "hashing"}
    if given.n_features is not None:
        raise ValueError("--n-features has no effect with --vocabulary: remove one of them")
    words = _vocabulary(given.vocabulary)
    counting = CountVectorizer(vocabulary=words, dtype=np.dtype(given.dtype).type)
    return counting, len(words), {"vectorizer": "counts", "vocabulary": str(given.vocabulary)}


def _vocabulary(path: Path) -> list[str]:
    """Read a file with one word per line; the line's number, from 0, is the column."""
    try:
        words = [line.strip() for line in path.read_text(encoding="utf-8-sig").rstrip().split("\n")]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error.reason}): convert it to UTF-8") from None
    seen: dict[str, int] = {}
    for number, word in enumerate(words, start=1):
        if not word:
            raise ValueError(f"{path}, line {number} is empty: each line must contain one word")
        if word in seen:
            raise ValueError(
                f"{path}, line {number} repeats {word!r} of line {seen[word]}: remove one of them"
            )
        seen[word] = number
    return words
