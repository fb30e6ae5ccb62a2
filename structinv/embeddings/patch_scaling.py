"""Preprocessing of image patches: contrast normalization, whitening, lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..kernels.kernel_utils import squared_norms

LENGTHS = ("unit", "kept", "given")
# The smallest divisor of patches, in units of the root mean square of their lengths.
_LEAST = 1e-3
# Tolerance for whitening to commute with a transformation.
_COMMUTES = 1e-6


@dataclass
class PatchScaling:
    r"""Contrast normalization, whitening and lengths of patches.

    .. math:: q = \frac{p - \bar p}{\sqrt{\mathrm{var}(p) + c\, v}}, \quad
       r = (S + e\, s I)^{-1/2} (q - m), \quad u = r / |r|

    The mean variance of a training patch is v. The mean and covariance of q are m and S, and s is the
    mean of the diagonal of S. So c and e have no unit (Coates, Ng and Lee 2011).

    - `contrast`: the number c; None for no contrast normalization
    - `whitening`: the number e; None for no whitening
    - `lengths`: treatment of lengths. "unit" divides by them, "kept" divides and returns them, "given"
      does not divide
    - `offset, mean, matrix, least`: set by `learn`: ``c v``, ``m``, the whitening matrix, and the
      smallest divisor
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
        """Learn the parameters of contrast, whitening and lengths from patches.

        Shapes: `patches` (m, d).
        """
        if self.contrast is not None:
            spread = np.mean(np.var(patches, axis=1, dtype=np.float64))
            self.offset = float(self.contrast * spread) or float(np.finfo(patches.dtype).tiny)
        if self.whitening is not None:
            self._learn_covariance(changed(), patches.shape[1])
        squares = squared_norms(self._whitened(patches))
        self.least = _LEAST * float(np.sqrt(np.mean(squares))) or 1.0
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
        patches = self._contrasted(patches)
        if self.matrix is None or self.mean is None:
            return patches
        matrix = self.matrix.astype(patches.dtype)
        return patches @ matrix - (self.mean @ self.matrix).astype(patches.dtype)

    def apply(self, patches: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return scaled patches, and their lengths if features are proportional to them."""
        scaled = self._whitened(patches)
        if self.lengths == "given":
            return scaled, None
        norms = np.sqrt(squared_norms(scaled)).astype(scaled.dtype)
        scaled = scaled / np.maximum(norms, scaled.dtype.type(self.least))[:, None]
        return scaled, norms if self.lengths == "kept" else None

    def commutes(self, maps: Iterable[np.ndarray]) -> bool:
        """Return True if scaling commutes with all these isometries (d, d)."""
        return all(self._commutes(each) for each in maps)

    def _commutes(self, each: np.ndarray) -> bool:
        ones = np.ones(len(each))
        if self.contrast is not None and not np.allclose(each @ ones, ones, rtol=0, atol=1e-9):
            return False
        if self.matrix is None or self.mean is None:
            return True
        size = np.abs(self.matrix).max()
        commutes = np.allclose(each @ self.matrix, self.matrix @ each, rtol=0, atol=_COMMUTES * size)
        # `shift` is in units of whitened patches, and ``least / _LEAST`` is the root mean
        # square of their lengths.
        shift = (each @ self.mean - self.mean) @ self.matrix
        return commutes and bool(np.linalg.norm(shift) <= _COMMUTES * self.least / _LEAST)
