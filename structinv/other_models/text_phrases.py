"""Edits of texts whose features are n-grams of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles.text.bounded_ratios import BoundedChanges
from ..oracles.text.gram_ratios import GramRatios
from ..oracles.text.ratios import Normalization
from ..oracles.text.text_edits import TokenEdits
from ..oracles.text.text_grams import Grams
from .text_features import hashes
from .text_tokens import Found, Placed, TokenReader, Tokens, stop_words, tokenizer


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
        self._split, self._stops = tokenizer(step), stop_words(step)

    def check(self, edits: TokenEdits) -> None:
        if edits.edit == "replace" and self._stops:
            raise TypeError(
                "TokenEdits('replace') does not support stop_words and n-grams together, because a stop "
                f"word deletes a token: certify TokenEdits('edit', {2 * edits.max_changes}), which "
                "includes these edits"
            )

    def tokens(self, text: str) -> Tokens:
        return self._split(text)

    def counts(self, texts: Sequence[Tokens]) -> sp.csr_matrix:
        return self._grams.counts(self._grams.encoded(map(self._kept, texts)))

    def search(
        self, texts: Sequence[Tokens], edits: TokenEdits, normalization: Normalization
    ) -> Callable[[np.ndarray, np.ndarray], Found]:
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
        ratios = GramRatios(documents, normalization, edits.edit, int(edits.max_changes), grams, allowed)

        def worst(V: np.ndarray, assign: np.ndarray) -> Found:
            names = [*grams.names, self._made_up]
            kept = [[at for at, token in enumerate(text) if token not in self._stops] for text in texts]
            ends = [len(text) for text in texts]
            return found_in_places(ratios.worst(V * normalization.scale, assign), names, kept, ends)

        return worst

    def _kept(self, tokens: Tokens) -> Tokens:
        """Return the tokens that are no stop words."""
        return [token for token in tokens if token not in self._stops] if self._stops else tokens

    @property
    def _made_up(self) -> str:
        names = ("z" * times for times in range(2, 64))
        return next(name for name in names if name not in self._grams.numbers)

    @cached_property
    def _grams(self) -> Grams:
        """N-grams of the columns."""
        (least, most), listed = self.step.ngram_range, self.step.vocabulary_
        grams = []
        for name in sorted(listed, key=listed.__getitem__):
            tokens = name.split(" ")
            # No text has an n-gram of another length.
            grams.append(tokens if least <= len(tokens) <= most else [f"\0{name}"])
        return Grams(grams)


def found_in_places(
    changes: BoundedChanges, names: list[str], kept: list[list[int]], ends: list[int]
) -> Found:
    """Return edits with places in the texts.

    Parameters
    ----------
    changes : BoundedChanges
        Bounds and edits.
    names : list of str
        Tokens by number; the last one is that of the number -1.
    kept : list of lists of int
        Places of the tokens that the edits count, for each text.
    ends : list of int
        Number of tokens of each text.
    """

    def placed(text: int) -> Placed:
        edits, kind, places = changes.edits, changes.kinds[text], [*kept[text], ends[text]]
        n = int(edits.counts[text])
        spots = [places[at] for at in edits.spots[text, :n].tolist()]
        if kind == "drop":
            return Placed(spots)
        tokens = [names[token] for token in edits.tokens[text, :n].tolist()]
        return Placed([] if kind == "add" else spots, list(zip(spots, tokens, strict=True)))

    return Found(changes.values, changes.upper, placed)
