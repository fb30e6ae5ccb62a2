"""Texts as a fitted vectorizer reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .ratios import TOLERANCE, Normalization
from .text_edits import STEPS, TextEdits
from .text_readers import readers
from .text_tokens import Search, TokenReader, Tokens
from .token_edits import TokenEdits
from .vectorizers import normalization_of


@dataclass(frozen=True)
class ReadTexts:
    """Texts as a fitted vectorizer reads them.

    - `reader`: reader of the tokens
    - `normalization`: values of the features, and norm of the rows
    - `tokens`: tokens of each text
    """

    reader: TokenReader
    normalization: Normalization
    tokens: Sequence[Tokens]

    @classmethod
    def of(cls, vectorizer: Any, texts: Sequence[str]) -> ReadTexts:
        """Read texts."""
        (reader,) = readers([vectorizer])
        return cls(reader, normalization_of(vectorizer), list(map(reader.tokens, texts)))

    @cached_property
    def rows(self) -> sp.csr_matrix:
        """Rows of the texts, (n, d)."""
        return self.normalized(self.reader.counts(self.tokens))

    def normalized(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        """Return the rows of counted features."""
        return self.normalization.rows(counts)

    def take(self, rows: np.ndarray) -> ReadTexts:
        """Return some of the texts."""
        return replace(self, tokens=[self.tokens[row] for row in rows.tolist()])

    def search(self, edits: TokenEdits, tolerance: float = TOLERANCE) -> Search:
        """Return the search for worst edits of these texts."""
        return self.reader.search(self.tokens, edits, self.normalization, tolerance)

    def oracle(self, edits: TokenEdits, tolerance: float = TOLERANCE, bounds: bool = True) -> TextEdits:
        """Return the oracle of edits of these texts."""
        self.reader.check(edits)
        return TextEdits(self, edits, tolerance, bounds)

    def check_rows(self, rows: sp.csr_matrix) -> None:
        """Raise ValueError if the rows of the vectorizer are not those of its tokens."""
        eps = float(np.finfo(np.result_type(rows.dtype, np.float32)).eps)
        difference = abs(rows - self.rows)
        if difference.nnz and difference.max() > 8 * STEPS * eps * abs(self.rows).max():
            raise ValueError(
                "the rows of the vectorizer are not those of its tokens: they differ by up to "
                f"{difference.max():.2g} on the given texts"
            )
