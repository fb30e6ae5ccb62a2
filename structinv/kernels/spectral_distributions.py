"""Spectral distributions of stationary kernels, for random Fourier features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.special import gammaincinv, ndtri

# Uniform numbers keep this distance from 0 and 1, where quantiles are infinite.
_EDGE = 2.0**-53


class Spectrum(ABC):
    """Distribution of frequencies w with ``k(x, y) = E cos(<w, x - y>)`` (Bochner)."""

    @abstractmethod
    def n_uniforms(self, n_features: int) -> int:
        """Return the number of uniform numbers per frequency."""

    @abstractmethod
    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        """Return frequencies, (p, n_features), for numbers in [0, 1), (p, n_uniforms)."""

    def scales(self, uniforms: np.ndarray) -> np.ndarray | None:
        """Return the scales of frequencies ``scale * z`` with standard normal z.

        Both arrays have the shape (p,). None, the default, means that frequencies do not have this form.
        Their distribution then depends on the direction, and rotated templates do not have it.
        """
        return None


class NormalMixture(Spectrum):
    """Frequencies ``scale * z`` with standard normal z and a random or fixed scale."""

    def __init__(self, quantile: Callable[[np.ndarray], np.ndarray] | float) -> None:
        self._quantile = quantile

    def n_uniforms(self, n_features: int) -> int:
        """Return one number per coordinate, and one more for a random scale."""
        return n_features + callable(self._quantile)

    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        normal = ndtri(_inside(uniforms[:, :n_features]))
        return normal * self.scales(uniforms[:, -1])[:, None]

    def scales(self, uniforms: np.ndarray) -> np.ndarray:
        if callable(self._quantile):
            return self._quantile(_inside(uniforms))
        return np.full(len(uniforms), float(self._quantile))


class Coordinates(Spectrum):
    """Frequencies with independent, identically distributed coordinates."""

    def __init__(self, quantile: Callable[[np.ndarray], np.ndarray]) -> None:
        self._quantile = quantile

    def n_uniforms(self, n_features: int) -> int:
        """Return one number per coordinate."""
        return n_features

    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        return self._quantile(_inside(uniforms))


def normals(sigma: float) -> Spectrum:
    """Return the spectrum of `Gaussian`: normal, standard deviation ``1 / sigma``."""
    return NormalMixture(1.0 / float(sigma))


def students(length_scale: float, nu: float) -> Spectrum:
    """Return the spectrum of `Matern`: Student's t with ``2 nu`` degrees of freedom."""
    length_scale, nu = float(length_scale), float(nu)
    return NormalMixture(lambda u: np.sqrt(nu / gammaincinv(nu, u)) / length_scale)


def cauchy(gamma: float) -> Spectrum:
    """Return the spectrum of `Laplacian`: Cauchy coordinates with scale gamma."""
    return Coordinates(lambda u: float(gamma) * np.tan(np.pi * (u - 0.5)))


def _inside(uniforms: np.ndarray) -> np.ndarray:
    return np.clip(uniforms, _EDGE, 1.0 - _EDGE)
