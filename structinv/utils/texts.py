"""Texts: validation, parts that show edits, and visible forms in messages."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

# Kind and text: "kept", "deleted" or "inserted".
Part = tuple[str, str]

# Length of values in messages.
_LENGTH_LIMIT = 40
# Joiners of letters and emoji remain. The other format characters can hide or reorder text.
_JOINERS = "\u200c\u200d"
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def after_edits(parts: Iterable[Part]) -> str:
    """Return the text after the edits, from its parts."""
    return "".join(text for kind, text in parts if kind != "deleted")


def as_texts(X: Any) -> list[str]:
    """Return texts as a list."""
    allowed = "X must be a list of texts"
    if isinstance(X, (str, bytes)):
        raise TypeError(f"{allowed}, got a single {type(X).__name__}; write [text]")
    if isinstance(X, (set, frozenset)):
        raise TypeError(f"{allowed}, got a set, which has no sequence: pass a list")
    if hasattr(X, "columns") or isinstance(X, dict):
        raise TypeError(f"{allowed}, got a {type(X).__name__}: pass the column of texts")
    if sp.issparse(X) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        hint = "; pass the texts without a vectorizer" if sp.issparse(X) else ""
        raise TypeError(f"{allowed}, got a {type(X).__name__}{hint}")
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(f"{allowed}, one dimension, got shape {np.shape(X)}")
    texts = list(X)
    if not texts:
        raise ValueError(f"{allowed}, got an empty list: 0 samples")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            hint = ": decode it" if isinstance(text, bytes) else ""
            shown = repr(text) if len(repr(text)) <= _LENGTH_LIMIT else type(text).__name__
            raise TypeError(f"{allowed}: X[{place}] must be a string, got {shown}{hint}")
    return texts


def visible(text: str) -> str:
    """Return a text with invisible characters as escape sequences.

    Tabs and line ends remain. Control characters, and characters that hide or reorder text, appear as
    in a string of Python. Attackers use them to make an edit invisible, or to control a terminal.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def shown(value: object, most: int = 60) -> str:
    """Return a value as one visible line of about `most` characters."""
    text = visible(shortened(str(value), most))
    return text.replace("\n", "\\n").replace("\t", "\\t")


def shortened(text: str, most: int) -> str:
    """Return a text without its middle if it has more characters than `most`."""
    more = len(text) - most
    if more <= 0:
        return text
    half = most // 2
    return f"{text[:half]} ... ({more} more characters) ... {text[-half:]}"


def listed(names: Iterable[object], most: int = 10) -> str:
    """Return names in one visible line, at most the first ones."""
    each = list(map(shown, names))
    more = len(each) - most
    return ", ".join(each[:most]) + (f" and {more} more" if more > 0 else "")


def _visible(character: str) -> str:
    if character in "\n\t" or character in _JOINERS:
        return character
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")
