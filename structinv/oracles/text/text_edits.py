"""Texts as a vectorizer reads them, and token edits of them as perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import TIES, Matrix, Rows
from ..base import BoundOracle, CountedChanges, InvarianceOracle
from ..combinators import counted_inside
from ..query import Query, Violations
from ..support import Costs, Grades, Support, rounding_bound
from ..words.bound_edits import RowEdits
from .ratios import TOLERANCE, Normalization
from .text_chunks import Chunks
from .text_grams import TokenTexts
from .text_phrases import Phrases
from .text_tokens import Search, TokenReader, Words
from .token_edits import TokenEdits
from .vectorizers import fit_words, idf_of, keeps_all_words, normalization_of, unit_of_rows

# Number of steps that compute a normalized row: values, squares, root and quotient.
STEPS = 4


@dataclass(frozen=True)
class ReadTexts:
    """Texts as a fitted vectorizer reads them.

    - `reader`: reader of the tokens
    - `normalization`: values of the features, and norm of the rows
    - `tokens`: tokens of each text
    """

    reader: TokenReader
    normalization: Normalization
    tokens: TokenTexts

    @classmethod
    def of(cls, vectorizer: Any, texts: Sequence[str]) -> ReadTexts:
        """Read texts."""
        (reader,) = readers([vectorizer])
        return cls(reader, normalization_of(vectorizer), TokenTexts.of(map(reader.tokens, texts)))

    @classmethod
    def fitted(cls, vectorizer: Any, texts: Sequence[str]) -> ReadTexts:
        """Fit a vectorizer to texts, and read them."""
        if not keeps_all_words(vectorizer):
            return cls.of(vectorizer.fit(texts), texts)
        tokens = fit_words(vectorizer, texts)
        (reader,) = readers([vectorizer])
        if getattr(vectorizer, "use_idf", False):
            vectorizer.idf_ = idf_of(vectorizer, reader.counts(tokens))
        return cls(reader, normalization_of(vectorizer), tokens)

    @cached_property
    def rows(self) -> sp.csr_matrix:
        """Rows of the texts, (n, d)."""
        return self.normalization.rows(self.reader.counts(self.tokens))

    def take(self, rows: np.ndarray) -> ReadTexts:
        """Return some of the texts."""
        return replace(self, tokens=self.tokens.take(rows))

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


class TextEdits(InvarianceOracle):
    """Token edits of given texts, as perturbations of their rows.

    S(x) contains the rows of all edited texts.
    """

    supports_sparse = True

    def __init__(
        self,
        texts: ReadTexts,
        edits: TokenEdits,
        tolerance: float = TOLERANCE,
        bounds: bool = True,
    ) -> None:
        self.texts = texts
        self.edits = edits
        self.tolerance = tolerance
        self.bounds = bounds

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # Texts and features would be long.
        return repr(self.edits)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return what identifies the edits of these texts, in short form."""
        normalization = self.texts.normalization
        return {
            "edits": self.edits,
            "tokens": list(vars(self.texts.tokens).values()),
            "values": [normalization.terms, normalization.norm, normalization.scale],
        }

    def counted(self) -> CountedChanges | None:
        return counted_inside(self.edits, lambda edits: self._with(self.texts, edits))

    def _for_rows(self, rows: np.ndarray) -> TextEdits:
        return self._with(self.texts.take(rows), self.edits)

    def _with(self, texts: ReadTexts, edits: Any) -> TextEdits:
        return TextEdits(texts, edits, self.tolerance, self.bounds)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        return self.bind(X).support(slice(None), V, assign, cost)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        expected = len(self.texts.tokens), len(self.texts.normalization.scale)
        if X.shape != expected:
            raise ValueError(
                f"X must have one row per text and one column per feature, {expected}, got {X.shape}"
            )
        return _BoundTexts(self, X, y)


class _BoundTexts(BoundOracle):
    """Token edits of the texts of one fit or certificate."""

    oracle: TextEdits

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self.oracle._refuse_grades(rho)
        texts, found = self.oracle.texts, self._search(V, np.asarray(assign, dtype=np.int64), rows)
        upper = found.upper if self.oracle.bounds else None
        points, normalization = texts.normalization.rows(found.counts()), texts.normalization
        return _TextSupport(points, upper, norm=normalization.norm, units=_units(texts))

    def unperturbed(self, rows: Rows, query: Query) -> Violations:
        found, texts = super().unperturbed(rows, query), self.oracle.texts
        if found.rounding is not None:
            # The rows of the vectorizer may be in single precision.
            steps = 1 if texts.normalization.norm is None else 1 + STEPS
            found.rounding = steps * _units(texts) * found.rounding
        return found

    def edits(self) -> RowEdits | None:
        texts = self.oracle.texts
        return texts.reader.row_edits(self.X, self.oracle.edits, texts.normalization)

    @cached_property
    def _search(self) -> Search:
        return self.oracle.texts.search(self.oracle.edits, self.oracle.tolerance)


def _units(texts: ReadTexts) -> float:
    """Return the rounding unit of the rows of a vectorizer, as a multiple of that of float64."""
    return max(1.0, unit_of_rows(texts.reader.step) / float(np.finfo(np.float64).eps))


@dataclass(frozen=True)
class _TextSupport(Support):
    """Rows of the worst edited texts, with rounding errors of all edited texts."""

    norm: str | None = None
    # Rounding unit of the rows of the vectorizer, as a multiple of that of float64.
    units: float = 1.0

    def rounding(
        self, V: np.ndarray, sizes: np.ndarray, assign: np.ndarray, constant_sizes: np.ndarray
    ) -> np.ndarray:
        """Bound the rounding errors of scores, from the largest sum of absolute terms."""
        if self.norm is None:
            return self.units * super().rounding(V, sizes, assign, constant_sizes)
        squared = (sizes * sizes).sum(axis=1)
        largest = np.sqrt(squared) if self.norm == "l2" else sizes.max(axis=1, initial=0.0)
        size = largest[assign]
        bound = (1 + STEPS) * rounding_bound(self.points, size + constant_sizes)
        return self.units * bound + 2 * TIES * size


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
