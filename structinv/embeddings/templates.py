"""Templates of random features: random directions, drawn by several methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from ..kernels import Kernel
from ..kernels.spectral_distributions import Spectrum, normals
from ..utils import plugins

# Maximum number of dimensions of SciPy's Sobol sequence.
_MOST_DIMENSIONS = 21201


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
            f"Matern or RationalQuadratic, got {kernel!r}; OrbitNystroem supports any kernel"
        )
    if kind in ROTATED and spectrum.scales(np.array([0.5])) is None:
        raise ValueError(
            f"templates={kind!r} requires a kernel of Euclidean distances, got {kernel!r}; use "
            "'gaussian' or 'quasi'"
        )
    return spectrum


def _independent(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw independent frequencies (Rahimi and Recht 2007)."""
    return _frequencies(spectrum, rng.random((size, spectrum.n_uniforms(d))), d)


def _quasi(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a scrambled Sobol sequence (Avron, Sindhwani, Yang and Mahoney 2016)."""
    from scipy.stats.qmc import Sobol  # takes a while to import

    n_uniforms = spectrum.n_uniforms(d)
    if n_uniforms > _MOST_DIMENSIONS:
        raise ValueError(
            f"templates='quasi' supports at most {_MOST_DIMENSIONS} dimensions, got {n_uniforms}; use "
            "'orthogonal' or 'gaussian'"
        )
    points = Sobol(n_uniforms, rng=rng).random_base2(int(size - 1).bit_length())
    return _frequencies(spectrum, points[:size], d)


def _orthogonal(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw blocks of d orthogonal directions (Yu et al. 2016)."""
    directions = np.empty((size, d))
    for first in range(0, size, d):
        part = directions[first : first + d]
        basis, triangle = np.linalg.qr(rng.standard_normal((d, len(part))))
        # Without the signs, the basis is not uniformly distributed.
        part[:] = (basis * np.sign(np.diagonal(triangle))).T
    return directions * _lengths(spectrum, size, d, rng)


def _fastfood(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw blocks of ``S H G P H B``, the first d columns (Le, Sarlos and Smola 2013)."""
    width = 1 << int(d - 1).bit_length()
    directions = np.empty((size, d))
    for first in range(0, size, width):
        block = np.zeros((width, d))
        np.fill_diagonal(block, rng.choice([-1.0, 1.0], d))
        _hadamard(block)
        block = block[rng.permutation(width)]
        normal = rng.standard_normal(width)
        block *= normal[:, None]
        _hadamard(block)
        # All rows of the full matrix have the same length.
        block /= np.sqrt(width) * np.linalg.norm(normal)
        directions[first : first + width] = block[: size - first]
    return directions * _lengths(spectrum, size, width, rng)


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


def _hadamard(block: np.ndarray) -> None:
    """Multiply the columns of (2^q, d) with the Walsh-Hadamard matrix, in place."""
    half = 1
    while half < len(block):
        pairs = block.reshape(-1, 2, half, block.shape[1])
        upper = pairs[:, 0].copy()
        pairs[:, 0] += pairs[:, 1]
        np.subtract(upper, pairs[:, 1], out=pairs[:, 1])
        half *= 2


TEMPLATES: dict[str, Callable[[Spectrum, int, int, np.random.Generator], np.ndarray]] = {
    "orthogonal": _orthogonal,
    "gaussian": _independent,
    "quasi": _quasi,
    "fastfood": _fastfood,
}
# Methods that rotate frequencies in all directions.
ROTATED = frozenset({"orthogonal", "fastfood"})
