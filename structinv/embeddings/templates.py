"""Templates of random features: directions that inputs are compared with, drawn in several ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from ..kernels import Kernel
from ..kernels.frequencies import Spectrum, normals
from ..utils import plugins

# What SciPy has direction numbers of Sobol's sequence for.
_MOST_DIMENSIONS = 21201


def draw_templates(
    kind: str, spectrum: Spectrum, size: int, n_features: int, rng: np.random.Generator
) -> np.ndarray:
    """Frequencies of a kernel's spectrum, (size, n_features) of float64.

    Parameters
    ----------
    kind : {"orthogonal", "gaussian", "quasi", "fastfood"}
    spectrum : Spectrum
    size, n_features : int
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If the kind does not go with the spectrum, or with so many features.
    """
    return TEMPLATES[kind](spectrum, size, n_features, rng)


def unit_templates(kind: str, size: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Directions of length 1, (size, n_features) of float64."""
    found = draw_templates(kind, normals(1.0), size, n_features, rng)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def check_templates(kind: Any) -> None:
    """Raise ValueError unless it names a way to draw templates."""
    if not isinstance(kind, str) or kind not in TEMPLATES:
        raise ValueError(f"templates must be one of {sorted(TEMPLATES)}, got {kind!r}")


def spectrum_of(kernel: Kernel, kind: str) -> Spectrum:
    """The spectrum of a kernel, with which this kind of templates goes.

    Raises
    ------
    TypeError
        If the kernel has none that is known.
    ValueError
        If the kind needs frequencies whose distribution is the same in all directions.
    """
    found = kernel.spectral_law()
    if not isinstance(found, Spectrum):
        raise TypeError(
            "kernel must be a function of x - y with a spectrum that is known, such as Gaussian, "
            "Laplacian, Matern or RationalQuadratic (OrbitNystroem takes any kernel), got "
            f"{kernel!r}"
        )
    if kind in ROTATED and found.scales(np.array([0.5])) is None:
        raise ValueError(
            f"templates={kind!r} needs a kernel of Euclidean distances, as it turns frequencies into "
            f"all directions; take 'gaussian' or 'quasi' for {kernel!r}"
        )
    return found


def _independent(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Rahimi and Recht (2007)."""
    return _frequencies(spectrum, rng.random((size, spectrum.n_uniforms(d))), d)


def _quasi(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Avron, Sindhwani, Yang and Mahoney (2016), with Sobol's points, scrambled."""
    from scipy.stats.qmc import Sobol  # takes a while to import

    n_uniforms = spectrum.n_uniforms(d)
    if n_uniforms > _MOST_DIMENSIONS:
        raise ValueError(
            f"templates='quasi' has sequences for at most {_MOST_DIMENSIONS} dimensions, and "
            f"{n_uniforms} are needed; take 'orthogonal' or 'gaussian'"
        )
    points = Sobol(n_uniforms, rng=rng).random_base2(int(size - 1).bit_length())
    return _frequencies(spectrum, points[:size], d)


def _orthogonal(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Yu, Suresh, Choromanski, Holtmann-Rice and Kumar (2016): by blocks of d directions."""
    directions = np.empty((size, d))
    for first in range(0, size, d):
        part = directions[first : first + d]
        found, signs = np.linalg.qr(rng.standard_normal((d, len(part))))
        # Without the signs, a basis is not uniformly distributed.
        part[:] = (found * np.sign(np.diagonal(signs))).T
    return directions * _lengths(spectrum, size, d, rng)


def _fastfood(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Le, Sarlos and Smola (2013): ``S H G P H B``, by blocks, of which the first d columns count."""
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
    """What a spectrum makes of uniform numbers, validated, (size, d)."""
    source = plugins.method(spectrum, "frequencies")
    found = spectrum.frequencies(uniforms, d)
    return plugins.numbers(source, "frequencies", found, (len(uniforms), d)).astype(np.float64)


def _lengths(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Of vectors with d standard normal coordinates, times the scales of the spectrum, (size, 1)."""
    source = plugins.method(spectrum, "scales")
    found = spectrum.scales(_stratified(size, rng))
    scales = plugins.numbers(source, "scales", found, (size,))
    # Quantiles of the chi distribution.
    return (np.sqrt(2.0 * gammaincinv(0.5 * d, _stratified(size, rng))) * scales)[:, None]


def _stratified(size: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers that are uniform in [0, 1), one in each of `size` equal parts, in random order."""
    return (rng.permutation(size) + rng.random(size)) / size


def _hadamard(block: np.ndarray) -> None:
    """Multiply the columns of (2^q, d) with the matrix of Walsh and Hadamard, in place."""
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
# Kinds that turn frequencies into all directions.
ROTATED = frozenset({"orthogonal", "fastfood"})
