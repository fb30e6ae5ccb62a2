"""Templates of random features: random directions, drawn by several methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from ..kernels import Kernel
from ..kernels.spectral_distributions import Spectrum, normals
from ..utils import plugins


def draw_templates(
    kind: str, spectrum: Spectrum, size: int, n_features: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw frequencies of a kernel's spectrum, (size, n_features) of float64."""
    return TEMPLATES[kind](spectrum, size, n_features, rng)


def unit_templates(kind: str, size: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Draw directions of length 1, (size, n_features) of float64."""
    directions = draw_templates(kind, normals(1.0), size, n_features, rng)
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def check_templates(kind: Any) -> None:
    """Raise ValueError unless `kind` is the name of a method to draw templates."""
    if not isinstance(kind, str) or kind not in TEMPLATES:
        raise ValueError(f"templates must be one of {sorted(TEMPLATES)}, got {kind!r}")


def spectrum_of(kernel: Kernel, kind: str) -> Spectrum:
    """Return the spectrum of a kernel, for a method to draw templates."""
    spectrum = kernel.spectral_law()
    if not isinstance(spectrum, Spectrum):
        raise TypeError(
            "kernel must be a function of x - y with a known spectrum, such as Gaussian, Laplacian, "
            f"Matern, got {kernel!r}; OrbitNystroem supports any kernel"
        )
    if kind == "orthogonal" and spectrum.scales(np.array([0.5])) is None:
        raise ValueError(
            f"templates='orthogonal' requires a kernel of Euclidean distances, got {kernel!r}; use "
            "'gaussian'"
        )
    return spectrum


def _independent(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw independent frequencies (Rahimi and Recht 2007)."""
    return _frequencies(spectrum, rng.random((size, spectrum.n_uniforms(d))), d)


def _orthogonal(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw blocks of d orthogonal directions (Yu et al. 2016)."""
    directions = np.empty((size, d))
    for first in range(0, size, d):
        part = directions[first : first + d]
        basis, triangle = np.linalg.qr(rng.standard_normal((d, len(part))))
        # Without the signs, the basis is not uniformly distributed.
        part[:] = (basis * np.sign(np.diagonal(triangle))).T
    return directions * _lengths(spectrum, size, d, rng)


def _frequencies(spectrum: Spectrum, uniforms: np.ndarray, d: int) -> np.ndarray:
    """Return validated frequencies of a spectrum for uniform numbers, (size, d)."""
    source = plugins.method(spectrum, "frequencies")
    frequencies = spectrum.frequencies(uniforms, d)
    return plugins.numbers(source, "frequencies", frequencies, (len(uniforms), d)).astype(np.float64)


def _lengths(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw lengths of d standard normal coordinates, times the spectrum's scales, (size, 1)."""
    source = plugins.method(spectrum, "scales")
    scales = plugins.numbers(source, "scales", spectrum.scales(_stratified(size, rng)), (size,))
    # Quantiles of the chi distribution.
    return (np.sqrt(2.0 * gammaincinv(0.5 * d, _stratified(size, rng))) * scales)[:, None]


def _stratified(size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw uniform numbers in [0, 1), one in each of `size` equal parts, shuffled."""
    return (rng.permutation(size) + rng.random(size)) / size


TEMPLATES: dict[str, Callable[[Spectrum, int, int, np.random.Generator], np.ndarray]] = {
    "orthogonal": _orthogonal,
    "gaussian": _independent,
}
