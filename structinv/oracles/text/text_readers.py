"""Choice of the reader of tokens for text vectorizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .text_chunks import Chunks
from .text_phrases import Phrases
from .text_tokens import TokenReader, Words


def readers(steps: Sequence[Any]) -> list[TokenReader]:
    """Return readers of the same tokens, one for each vectorizer.

    Tokens are words if all vectorizers have the same tokens. Otherwise blanks separate them.
    """
    if (
        any(step.analyzer in ("char", "char_wb") for step in steps)
        or len(set(map(_splitting, steps))) > 1
    ):
        return [Chunks(step) for step in steps]
    return [
        Words(step) if callable(step.analyzer) or tuple(step.ngram_range) == (1, 1) else Phrases(step)
        for step in steps
    ]


def _splitting(step: Any) -> tuple[Any, ...]:
    """Return the parameters of a vectorizer that determine its tokens."""
    own = step.analyzer if callable(step.analyzer) else None
    return own, step.preprocessor, step.tokenizer, step.token_pattern, step.lowercase, step.strip_accents
