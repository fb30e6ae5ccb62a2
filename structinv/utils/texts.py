"""Texts: validation, and parts that show edits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .html import Part

# Length of values in messages.
_LENGTH_LIMIT = 40


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
