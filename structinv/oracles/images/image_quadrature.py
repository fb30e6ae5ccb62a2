"""Nodes and weights whose means are those of a distribution over the parameter of image changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ...utils.parameters import check_integer
from .image_parameters import log_density

RULES = ("gauss", "spaced")

# Distributions that repeat after a whole turn.
_PERIODIC = ("uniform", "vonmises")
# Equal distances in units of the spread: the mass of a von Mises peak is then right to 3e-4, as its
# frequencies fall like those of a normal density.
_WIDEST = 1.5
# By how much the logarithm of the density may differ between the ends of a panel.
_STEEPNESS = 4.0
# Where a density is below its largest value by this, in logarithms, it is no number any more.
_NOTHING = 745.0
# Nodes of a panel beyond those that polynomials alone would need.
_SPARE = 32


def check_rule(nodes: Any, rule: Any) -> None:
    """Raise unless there is a rule of this name and with so many nodes."""
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
    """Values between two ends and their probabilities.

    Parameters
    ----------
    nodes : int
    rule : {None, "gauss", "spaced"}
        None is "spaced" for a density that repeats on a whole period and whose peak is not lost between
        two values, else "gauss".
    ends : pair of float
    density : tuple
        Distribution, value of no change and spread, as `log_density` takes them.
    periodic : bool
        Whether nothing distinguishes a change from the one that lies a whole interval further.

    Returns
    -------
    values, weights : (m,) arrays
        Ascending, with weights of sum 1; m is `nodes`, or fewer where the ends are so close that there
        are no other numbers between them.
    """
    distribution, neutral, spread = density
    if rule is None:
        step = (ends[1] - ends[0]) / nodes
        seen = distribution == "uniform" or step <= _WIDEST * (spread or 0.0)
        rule = "spaced" if periodic and distribution in _PERIODIC and seen else "gauss"
    # A lognormal density is one over the logarithm.
    logarithmic = distribution == "lognormal"
    low, high = np.log(ends) if logarithmic else ends
    # Close ends may have the same logarithm.
    if low == high:
        return np.array([ends[0]]), np.ones(1)

    def logs(places: np.ndarray) -> np.ndarray:
        values = np.exp(places) if logarithmic else places
        return log_density(distribution, values, neutral, spread)

    if rule == "gauss":
        breaks = _turning_points(distribution, low, high, np.log(neutral) if logarithmic else neutral)
        # Counted from no change, or what is nearest to it: of close ends the places between them would
        # be no different numbers.
        origin = float(np.clip(np.log(neutral) if logarithmic else neutral, low, high))
        offsets, weights = _gauss(nodes, lambda offsets: logs(origin + offsets), breaks - origin)
        places = origin + offsets
    else:
        steps = np.arange(nodes) / nodes
        if periodic:
            # No change is one of the values, if it lies between the ends at all.
            places = low + np.mod(neutral - low + (high - low) * steps, high - low)
        else:
            places = low + (high - low) * (steps + 0.5 / nodes)
        heights = logs(places)
        weights = np.exp(heights - np.max(heights))
    values = np.clip(np.exp(places) if logarithmic else places, *ends)
    values, same = np.unique(values, return_inverse=True)
    return values, np.bincount(same, weights) / np.sum(weights)


def _turning_points(distribution: str, low: float, high: float, neutral: float) -> np.ndarray:
    """Both ends, and the places between them where the density may be largest or smallest."""
    middle = np.array([neutral])
    if distribution == "vonmises":
        first, last = np.floor((low - neutral) / 180.0), np.ceil((high - neutral) / 180.0)
        middle = neutral + 180.0 * np.arange(first, last + 1)
    return np.unique(np.r_[low, middle[(middle > low) & (middle < high)], high])


def _gauss(nodes: int, logs: Any, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss rule of a density, by the discretized Stieltjes procedure (Gautschi 2004, sec. 2.2).

    The density becomes many weighted points, and the three-term recurrence of the polynomials that
    are orthonormal on these is that of the density, up to rounding; its Jacobi matrix has the nodes
    as eigenvalues (Golub and Welsch 1969).
    """
    points, weights = _panels(nodes, logs, breaks)
    # The recurrence is that of points around 0, of size 1.
    center, size = np.sum(weights * points), 0.0
    size = np.sqrt(np.sum(weights * (points - center) ** 2))
    scaled = (points - center) / size
    diagonal, beside = np.zeros(nodes), np.zeros(nodes)
    before, now = np.zeros(len(points)), np.ones(len(points))
    for k in range(nodes):
        diagonal[k] = np.sum(weights * scaled * now**2)
        following = (scaled - diagonal[k]) * now - (beside[k - 1] if k else 0.0) * before
        beside[k] = np.sqrt(np.sum(weights * following**2))
        before, now = now, following / beside[k]
    found, vectors = eigh_tridiagonal(diagonal, beside[:-1])
    return center + size * found, vectors[0] ** 2


def _panels(nodes: int, logs: Any, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of Gauss-Legendre rules on panels that follow the density, and weights with sum 1."""
    low, high = breaks[:-1], breaks[1:]
    top = np.max(logs(breaks))
    done: list[tuple[np.ndarray, np.ndarray]] = []
    # The density rises or falls all over a panel: its ends tell how steep it is.
    while len(low):
        ends = np.stack([logs(low), logs(high)]) - top
        middle = 0.5 * (low + high)
        steep = np.abs(ends[1] - ends[0]) > _STEEPNESS
        kept = (np.max(ends, axis=0) > -_NOTHING) & (middle > low) & (middle < high)
        done.append((low[kept & ~steep], high[kept & ~steep]))
        low, middle, high = (each[kept & steep] for each in (low, middle, high))
        low, high = np.r_[low, middle], np.r_[middle, high]
    low, high = (np.concatenate(each) for each in zip(*done, strict=True))
    places, shares = np.polynomial.legendre.leggauss(nodes + _SPARE)
    points = 0.5 * ((high + low)[:, None] + (high - low)[:, None] * places)
    weights = (
        0.5 * (high - low)[:, None] * shares * np.exp(logs(points.ravel()) - top).reshape(points.shape)
    )
    order = np.argsort(points.ravel())
    points, weights = points.ravel()[order], weights.ravel()[order]
    return points, weights / np.sum(weights)
