"""What is done to patches before kernels see them: contrast, whitening, lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..kernels.values import squared_norms

LENGTHS = ("unit", "kept", "given")
# The least length that patches are divided by, in units of their root mean square.
_LEAST = 1e-3
# By how much whitening may miss what commutes with a change.
_COMMUTES = 1e-6


@dataclass
class PatchScaling:
    r"""Contrast normalization, whitening and lengths of patches, learned from training patches.

    .. math:: q = \frac{p - \bar p}{\sqrt{\mathrm{var}(p) + c\, v}}, \quad
       r = (S + e\, s I)^{-1/2} (q - m), \quad u = r / |r|

    with the mean variance v of a training patch, the mean m and covariance S of q and the mean s of
    the diagonal of S (Coates, Ng and Lee 2011), so that c and e have no unit.

    Parameters
    ----------
    contrast : float or None
        c; None leaves contrasts alone.
    whitening : float or None
        e; None for no whitening.
    lengths : {"unit", "kept", "given"}
        Whether patches are divided by their lengths. Flat ones are by a thousandth of the root mean
        square of lengths instead, or noise would count like everything else.
    offset, mean, matrix, least
        What `learn` sets: ``c v``, ``m``, the matrix that whitens, and the least divisor.
    """

    contrast: float | None
    whitening: float | None
    lengths: str
    offset: float = 0.0
    mean: np.ndarray | None = None
    matrix: np.ndarray | None = None
    least: float = 0.0

    def learn(
        self, patches: np.ndarray, changed: Callable[[], Iterable[tuple[float, np.ndarray]]]
    ) -> PatchScaling:
        """Learn from patches (m, d), and from weighted tables of them, changed: what is whitened.

        Parameters
        ----------
        patches : (m, d) array
        changed : callable
            Tells pairs (weight, array (k, d)), portions of the same patches under each change of their
            changes, whose weight each has; asked only where patches are whitened.
        """
        if self.contrast is not None:
            spread = np.mean(np.var(patches, axis=1, dtype=np.float64))
            self.offset = float(self.contrast * spread) or float(np.finfo(patches.dtype).tiny)
        if self.whitening is not None:
            self._learn_covariance(changed(), patches.shape[1])
        found = squared_norms(self._whitened(patches))
        self.least = _LEAST * float(np.sqrt(np.mean(found))) or 1.0
        return self

    def _learn_covariance(self, parts: Iterable[tuple[float, np.ndarray]], d: int) -> None:
        total, first, second = 0.0, np.zeros(d), np.zeros((d, d))
        for weight, part in parts:
            part = self._contrasted(part).astype(np.float64)
            total += weight * len(part)
            first += weight * part.sum(axis=0)
            second += weight * (part.T @ part)
        first, second = first / total, second / total
        values, vectors = linalg.eigh(second - np.outer(first, first))
        values = np.maximum(values, 0.0)
        assert self.whitening is not None
        floor = max(self.whitening * values.mean(), 1e-10 * values.max()) or 1.0
        self.mean, self.matrix = first, (vectors / np.sqrt(values + floor)) @ vectors.T

    def _contrasted(self, patches: np.ndarray) -> np.ndarray:
        if self.contrast is None:
            return patches
        centered = patches - patches.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", centered, centered)[:, None] / patches.shape[1]
        centered /= np.sqrt(variance + patches.dtype.type(self.offset))
        return centered

    def _whitened(self, patches: np.ndarray) -> np.ndarray:
        found = self._contrasted(patches)
        if self.matrix is None or self.mean is None:
            return found
        matrix = self.matrix.astype(found.dtype)
        return found @ matrix - (self.mean @ self.matrix).astype(found.dtype)

    def apply(self, patches: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Patches as kernels see them, and the lengths that count: None where none do."""
        found = self._whitened(patches)
        if self.lengths == "given":
            return found, None
        norms = np.sqrt(squared_norms(found)).astype(found.dtype)
        found = found / np.maximum(norms, found.dtype.type(self.least))[:, None]
        return found, norms if self.lengths == "kept" else None

    def commutes(self, maps: Iterable[np.ndarray]) -> bool:
        """Whether it makes no difference if isometries (d, d) come before or after."""
        return all(self._commutes(each) for each in maps)

    def _commutes(self, each: np.ndarray) -> bool:
        ones = np.ones(len(each))
        if self.contrast is not None and not np.allclose(each @ ones, ones, rtol=0, atol=1e-9):
            return False
        if self.matrix is None or self.mean is None:
            return True
        size = np.abs(self.matrix).max()
        kept = np.allclose(each @ self.matrix, self.matrix @ each, rtol=0, atol=_COMMUTES * size)
        # In units of whitened patches, as only these have a size that is known.
        moved = (each @ self.mean - self.mean) @ self.matrix
        return kept and bool(np.linalg.norm(moved) <= _COMMUTES * self.least / _LEAST)
