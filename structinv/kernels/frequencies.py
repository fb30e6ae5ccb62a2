"""Distributions of frequencies whose mean cosines are kernels, for random features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.special import gammaincinv, ndtri

# Uniform numbers are kept so far from 0 and 1, where quantiles are infinite.
_EDGE = 2.0**-53


class Spectrum(ABC):
    """A distribution of frequencies w with ``k(x, y) = E cos(<w, x - y>)`` (Bochner's theorem)."""

    @abstractmethod
    def n_uniforms(self, n_features: int) -> int:
        """How many uniform numbers a frequency is made of."""

    @abstractmethod
    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        """Frequencies, (p, n_features), from numbers in [0, 1), (p, n_uniforms)."""

    def scales(self, uniforms: np.ndarray) -> np.ndarray | None:
        """Of a frequency ``scale * z`` with z of standard normal coordinates: scales, (p,), from (p,).

        None, the default, where frequencies do not have this form: then their law depends on the
        direction, and templates that are made by rotations are none of theirs.
        """
        return None


class NormalMixture(Spectrum):
    """``w = scale * z`` with z standard normal, and a scale that is random or not.

    Parameters
    ----------
    quantile : callable or float
        From numbers in (0, 1) to scales; a number if all scales are the same.

    Examples
    --------
    >>> import numpy as np
    >>> NormalMixture(2.0).frequencies(np.array([[0.5, 0.8413447]]), n_features=2).round(3)
    array([[0., 2.]])
    """

    def __init__(self, quantile: Callable[[np.ndarray], np.ndarray] | float) -> None:
        self._quantile = quantile

    def n_uniforms(self, n_features: int) -> int:
        """A normal number for each coordinate, and one for the scale if it is random."""
        return n_features + callable(self._quantile)

    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        normal = ndtri(_inside(uniforms[:, :n_features]))
        return normal * self.scales(uniforms[:, -1])[:, None]

    def scales(self, uniforms: np.ndarray) -> np.ndarray:
        if callable(self._quantile):
            return self._quantile(_inside(uniforms))
        return np.full(len(uniforms), float(self._quantile))


class Coordinates(Spectrum):
    """Independent coordinates of one distribution.

    Parameters
    ----------
    quantile : callable
        From numbers in (0, 1) to coordinates.
    """

    def __init__(self, quantile: Callable[[np.ndarray], np.ndarray]) -> None:
        self._quantile = quantile

    def n_uniforms(self, n_features: int) -> int:
        """One for each coordinate."""
        return n_features

    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        return self._quantile(_inside(uniforms))


def normals(sigma: float) -> Spectrum:
    """Of a Gaussian of this width: normal coordinates of standard deviation ``1 / sigma``."""
    return NormalMixture(1.0 / float(sigma))


def students(length_scale: float, nu: float) -> Spectrum:
    """Of Matern's kernel: Student's t of ``2 nu`` degrees of freedom, with a random direction.

    Examples
    --------
    The median frequency of one coordinate, a quarter above it, is Cauchy's for nu = 1/2:

    >>> import numpy as np
    >>> drawn = students(2.0, 0.5).frequencies(np.random.default_rng(0).random((20000, 2)), 1)
    >>> bool(abs(np.quantile(drawn, 0.75) - 1 / 2.0) < 0.02)
    True
    """
    length_scale, nu = float(length_scale), float(nu)
    return NormalMixture(lambda u: np.sqrt(nu / gammaincinv(nu, u)) / length_scale)


def gamma_mixture(length_scale: float, alpha: float) -> Spectrum:
    """Of a rational quadratic: normal with a variance drawn from a gamma distribution."""
    length_scale, alpha = float(length_scale), float(alpha)
    return NormalMixture(lambda u: np.sqrt(gammaincinv(alpha, u) / alpha) / length_scale)


def cauchy(gamma: float) -> Spectrum:
    """Of a Laplacian: Cauchy coordinates of scale gamma."""
    return Coordinates(lambda u: float(gamma) * np.tan(np.pi * (u - 0.5)))


def _inside(uniforms: np.ndarray) -> np.ndarray:
    return np.clip(uniforms, _EDGE, 1.0 - _EDGE)
