"""Token edits of given texts, as perturbations of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...utils.matrices import Matrix, Rows
from ...utils.ties import TIES
from ..base import BoundOracle, CountedChanges, InvarianceOracle
from ..combinators import counted_inside
from ..support import Support, rounding_bound
from .ratios import TOLERANCE
from .text_tokens import Search
from .token_edits import TokenEdits

if TYPE_CHECKING:
    from .read_texts import ReadTexts

# Number of steps that compute a normalized row: values, squares, root and quotient.
STEPS = 4


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
        texts = "\n".join(map(" ".join, self.texts.tokens)).encode(errors="surrogatepass")
        normalization = self.texts.normalization
        return {
            "edits": self.edits,
            "tokens": np.frombuffer(texts, dtype=np.uint8),
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

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        texts, found = self.oracle.texts, self._search(V, np.asarray(assign, dtype=np.int64), rows)
        upper = found.upper if self.oracle.bounds else None
        dtype = np.dtype(texts.reader.step.dtype)
        unit = float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)
        points = texts.normalized(found.counts())
        return _TextSupport(points, upper, norm=texts.normalization.norm, unit=unit)

    @cached_property
    def _search(self) -> Search:
        return self.oracle.texts.search(self.oracle.edits, self.oracle.tolerance)


@dataclass(frozen=True)
class _TextSupport(Support):
    """Rows of the worst edited texts, with rounding errors of all edited texts."""

    norm: str | None = None
    # Rounding unit of the rows of the vectorizer.
    unit: float = 0.0

    def rounding(
        self, V: np.ndarray, sizes: np.ndarray, assign: np.ndarray, constant_sizes: np.ndarray
    ) -> np.ndarray:
        """Bound the rounding errors of scores, from the largest sum of absolute terms."""
        factor = max(1.0, self.unit / float(np.finfo(np.float64).eps))
        if self.norm is None:
            return factor * super().rounding(V, sizes, assign, constant_sizes)
        squared = (sizes * sizes).sum(axis=1)
        largest = np.sqrt(squared) if self.norm == "l2" else sizes.max(axis=1, initial=0.0)
        size = largest[assign]
        bound = (1 + STEPS) * rounding_bound(self.points, size + constant_sizes)
        return factor * bound + 2 * TIES * size
