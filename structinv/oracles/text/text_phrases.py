"""Edits of texts whose features are n-grams of words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import ALL_ROWS, Rows
from .bounded_ratios import BoundedRatios
from .gram_edits import GramRatios
from .ratios import TOLERANCE, Normalization
from .text_grams import Grams
from .text_tokens import (
    Found,
    Placed,
    Search,
    TokenReader,
    Tokens,
    column_names,
    unknown_token,
    without_replacements,
)
from .token_edits import TokenEdits
from .vectorizers import hashes


class Phrases(TokenReader):
    """Tokens of n-grams of words."""

    def __init__(self, step: Any) -> None:
        super().__init__(step)
        if hashes(step):
            raise TypeError(
                "HashingVectorizer must have ngram_range=(1, 1) and analyzer='word' for edits of "
                f"tokens, got ngram_range={step.ngram_range!r} and analyzer={step.analyzer!r}: its "
                "columns mix n-grams"
            )

    def check(self, edits: TokenEdits) -> None:
        if edits.edit == "replace" and self._stops:
            raise without_replacements(
                "stop_words and n-grams together, because a stop word deletes a token", edits
            )

    def counts(self, texts: Sequence[Tokens]) -> sp.csr_matrix:
        return self._grams.counts(self._grams.encoded(map(self._kept, texts)))

    def search(
        self,
        texts: Sequence[Tokens],
        edits: TokenEdits,
        normalization: Normalization,
        tolerance: float = TOLERANCE,
    ) -> Search:
        grams, allowed = self._grams, None
        for text in texts:
            for token in text:
                if " " in token:
                    raise TypeError(
                        f"tokens of {self.name} must not contain blanks if ngram_range includes several "
                        f"tokens, got {token!r}"
                    )
        if edits.allowed is not None:
            known = (grams.numbers.get(token) for token in self.allowed(edits.allowed))
            allowed = np.array(
                sorted({number for number in known if number is not None}), dtype=np.int64
            )
        documents = grams.encoded(map(self._kept, texts))
        most = int(edits.max_changes)
        ratios = GramRatios(documents, normalization, edits.edit, most, tolerance, grams, allowed)
        names = [*grams.names, unknown_token(grams.numbers.__contains__)]
        kept = [[at for at, token in enumerate(text) if token not in self._stops] for text in texts]
        return search_in_places(ratios, names, kept, texts)

    def _kept(self, tokens: Tokens) -> Tokens:
        """Return the tokens that are no stop words."""
        return [token for token in tokens if token not in self._stops] if self._stops else tokens

    @cached_property
    def _grams(self) -> Grams:
        """N-grams of the columns."""
        (least, most), grams = self.step.ngram_range, []
        for name in column_names(self.step):
            tokens = name.split(" ")
            # No text has an n-gram of another length.
            grams.append(tokens if least <= len(tokens) <= most else [f"\0{name}"])
        return Grams(grams)


def search_in_places(
    ratios: BoundedRatios, names: list[str], kept: list[list[int]], texts: Sequence[Tokens]
) -> Search:
    """Return the search for the worst edits, with places in the texts."""

    def worst(V: np.ndarray, assign: np.ndarray, rows: Rows = ALL_ROWS) -> Found:
        best = ratios.worst(V * ratios.normalization.scale, assign, rows)

        def placed(at: int) -> Placed:
            text, edits, kind = best.texts[at], best.edits, best.kinds[at]
            places, n = [*kept[text], len(texts[text])], int(edits.counts[at])
            spots = [places[spot] for spot in edits.spots[at, :n].tolist()]
            if kind == "drop":
                return Placed(spots)
            tokens = [names[token] for token in edits.tokens[at, :n].tolist()]
            return Placed([] if kind == "add" else spots, list(zip(spots, tokens, strict=True)))

        return Found(best.values, best.upper, best.counts, placed)

    return worst
