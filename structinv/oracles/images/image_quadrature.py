"""Quadrature rules for averages over the parameter of image transformations."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ...utils.parameters import check_integer
from .image_parameters import log_density

RULES = ("gauss", "spaced")

# Distributions with a period of 360 degrees.
_PERIODIC = ("uniform", "vonmises")
# Largest distance of equidistant nodes in units of the spread. The error of the integral of a von Mises
# peak is then below 3e-4, since its frequencies decay like those of a normal density.
_WIDEST = 1.5
# Largest difference of the logarithm of the density between the ends of a panel.
_STEEPNESS = 4.0
# A density smaller than its maximum by this, in logarithms, underflows to 0.
_UNDERFLOW = 745.0
# Number of nodes of a panel in addition to those for polynomials.
_SPARE = 32


def check_rule(nodes: Any, rule: Any) -> None:
    """Raise unless `nodes` is a positive integer and `rule` a known rule."""
    check_integer("nodes", nodes)
    if rule is not None and rule not in RULES:
        raise ValueError(f"rule must be None or one of {RULES}, got {rule!r}")


def nodes_and_weights(
    nodes: int,
    rule: str | None,
    ends: tuple[float, float],
    density: tuple[str, float, float | None],
    *,
    periodic: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of a quadrature rule on an interval, and their weights.

    Returns `values, weights` (m,).
    """
    distribution, neutral, spread = density
    if rule is None:
        step = (ends[1] - ends[0]) / nodes
        resolved = distribution == "uniform" or step <= _WIDEST * (spread or 0.0)
        rule = "spaced" if periodic and distribution in _PERIODIC and resolved else "gauss"
    # The lognormal density is a density of the logarithm.
    logarithmic = distribution == "lognormal"
    low, high = np.log(ends) if logarithmic else ends
    # Close ends may have the same logarithm.
    if low == high:
        return np.array([ends[0]]), np.ones(1)

    def logs(places: np.ndarray) -> np.ndarray:
        values = np.exp(places) if logarithmic else places
        return log_density(distribution, values, neutral, spread)

    if rule == "gauss":
        breaks = _extrema(distribution, low, high, np.log(neutral) if logarithmic else neutral)
        # Offsets from the identity, or from the nearest end, lose no digits in short intervals.
        origin = float(np.clip(np.log(neutral) if logarithmic else neutral, low, high))
        offsets, weights = _gauss(nodes, lambda offsets: logs(origin + offsets), breaks - origin)
        places = origin + offsets
    else:
        steps = np.arange(nodes) / nodes
        if periodic:
            # The identity is a node if it lies between the ends.
            places = low + np.mod(neutral - low + (high - low) * steps, high - low)
        else:
            places = low + (high - low) * (steps + 0.5 / nodes)
        log_weights = logs(places)
        weights = np.exp(log_weights - np.max(log_weights))
    values = np.clip(np.exp(places) if logarithmic else places, *ends)
    values, same = np.unique(values, return_inverse=True)
    return values, np.bincount(same, weights) / np.sum(weights)


def _extrema(distribution: str, low: float, high: float, neutral: float) -> np.ndarray:
    """Return both ends, and the extrema of the density between them."""
    middle = np.array([neutral])
    if distribution == "vonmises":
        first, last = np.floor((low - neutral) / 180.0), np.ceil((high - neutral) / 180.0)
        middle = neutral + 180.0 * np.arange(first, last + 1)
    return np.unique(np.r_[low, middle[(middle > low) & (middle < high)], high])


def _gauss(nodes: int, logs: Any, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss rule of a density by the discretized Stieltjes procedure.

    The density is replaced by many weighted points (Gautschi 2004, sec. 2.2). Their orthonormal
    polynomials have the three-term recurrence of the density, up to rounding. The nodes are the
    eigenvalues of the Jacobi matrix of this recurrence (Golub and Welsch 1969).
    """
    points, weights = _panels(nodes, logs, breaks)
    # Points are standardized: mean 0, standard deviation 1.
    center, size = np.sum(weights * points), 0.0
    size = np.sqrt(np.sum(weights * (points - center) ** 2))
    scaled = (points - center) / size
    diagonal, off_diagonal = np.zeros(nodes), np.zeros(nodes)
    before, now = np.zeros(len(points)), np.ones(len(points))
    for k in range(nodes):
        diagonal[k] = np.sum(weights * scaled * now**2)
        following = (scaled - diagonal[k]) * now - (off_diagonal[k - 1] if k else 0.0) * before
        off_diagonal[k] = np.sqrt(np.sum(weights * following**2))
        before, now = now, following / off_diagonal[k]
    eigenvalues, vectors = eigh_tridiagonal(diagonal, off_diagonal[:-1])
    return center + size * eigenvalues, vectors[0] ** 2


def _panels(nodes: int, logs: Any, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points of Gauss-Legendre rules on adaptive panels, and weights with sum 1."""
    low, high = breaks[:-1], breaks[1:]
    top = np.max(logs(breaks))
    done: list[tuple[np.ndarray, np.ndarray]] = []
    # The density is monotone on each panel, so the values at its ends bound its steepness.
    while len(low):
        ends = np.stack([logs(low), logs(high)]) - top
        middle = 0.5 * (low + high)
        steep = np.abs(ends[1] - ends[0]) > _STEEPNESS
        used = (np.max(ends, axis=0) > -_UNDERFLOW) & (middle > low) & (middle < high)
        done.append((low[used & ~steep], high[used & ~steep]))
        low, middle, high = (each[used & steep] for each in (low, middle, high))
        low, high = np.r_[low, middle], np.r_[middle, high]
    low, high = (np.concatenate(each) for each in zip(*done, strict=True))
    places, factors = np.polynomial.legendre.leggauss(nodes + _SPARE)
    points = 0.5 * ((high + low)[:, None] + (high - low)[:, None] * places)
    densities = np.exp(logs(points.ravel()) - top).reshape(points.shape)
    weights = 0.5 * (high - low)[:, None] * factors * densities
    order = np.argsort(points.ravel())
    points, weights = points.ravel()[order], weights.ravel()[order]
    return points, weights / np.sum(weights)
