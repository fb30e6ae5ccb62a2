"""The parameter of a family of image changes: its values, its interval, its distribution."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from scipy import stats

from ...utils.parameters import check_integer, check_number

DISTRIBUTIONS = ("uniform", "normal", "vonmises", "lognormal")
# Nodes of the table from which quantiles of a distribution are read.
_NODES = 2001


def listed(name: str, values: Any) -> tuple[float, ...]:
    """The values of a finite set, in the order given: a number stands for one value."""
    parts = values.tolist() if isinstance(values, np.ndarray) else values
    parts = (parts,) if isinstance(parts, Real) else parts
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise TypeError(f"{name} must be a number or a sequence of numbers, got {values!r}")
    parts = tuple(parts)
    if not parts:
        raise ValueError(f"{name} must have at least one value, got {values!r}")
    # Oracles look at their values whenever they are asked: all at once, where there is nothing wrong.
    if not set(map(type, parts)) <= {float, np.float64} or not np.all(np.isfinite(parts)):
        for part in parts:
            check_number(name, part, minimum=-np.inf)
    return tuple(dict.fromkeys(map(float, parts)))


def interval(name: str, between: Any) -> tuple[float, float]:
    """The two ends of an interval of values."""
    if isinstance(between, str) or not isinstance(between, Iterable):
        raise TypeError(f"{name} must be a pair (low, high), got {between!r}")
    ends = tuple(between)
    if len(ends) != 2:
        raise ValueError(f"{name} must be a pair (low, high), got {between!r}")
    for end in ends:
        check_number(name, end, minimum=-np.inf)
    if ends[0] > ends[1]:
        raise ValueError(f"{name} must be a pair (low, high) with low <= high, got {between!r}")
    return float(ends[0]), float(ends[1])


def check_draw(n_draws: Any, rng: Any) -> None:
    """Raise unless `sample` can draw that many members with this generator."""
    check_integer("n_draws", n_draws, least=0)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, such as numpy.random.default_rng(0), got {rng!r}"
        )


def check_distribution(owner: str, known: tuple[str, ...], distribution: Any, spread: Any) -> None:
    """Raise unless a family of changes knows the distribution and has the spread it needs."""
    if distribution not in known:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(f"distribution of {owner} must be one of {names}, got {distribution!r}")
    if spread is None:
        if distribution != "uniform":
            raise ValueError(
                f"spread must be a number above 0 for the distribution {distribution!r}, got None"
            )
        return
    check_number("spread", spread, minimum=-np.inf)
    if spread <= 0:
        raise ValueError(f"spread must be above 0, got {spread!r}")
    if distribution == "uniform":
        others = " or ".join(repr(name) for name in known if name != "uniform")
        raise ValueError(
            f"spread has no say for the distribution 'uniform', got {spread!r}: leave it out, or take "
            f"the distribution {others}"
        )


def log_density(
    distribution: str, values: np.ndarray, neutral: float, spread: float | None
) -> np.ndarray:
    """Logarithm of a density that is largest at the value of no change, up to a constant.

    A lognormal density is one over the logarithm of the value, so that it too is largest there.
    """
    if distribution == "uniform":
        return np.zeros(len(values))
    assert spread is not None
    if distribution == "normal":
        return stats.norm.logpdf(values, neutral, spread)
    if distribution == "lognormal":
        return stats.norm.logpdf(np.log(values), np.log(neutral), spread)
    concentration = np.radians(spread) ** -2.0
    return stats.vonmises.logpdf(np.radians(values - neutral), concentration)


def draw(
    distribution: str,
    low: float,
    high: float,
    neutral: float,
    spread: float | None,
    size: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    """Random values of a distribution that is cut off at the ends of an interval."""
    if low == high:
        return np.full(size, low)
    if distribution == "uniform":
        return rng.uniform(low, high, size)
    assert spread is not None
    if distribution == "normal":
        values = _cut_normal(low, high, neutral, spread, size, rng)
    elif distribution == "lognormal":
        values = np.exp(_cut_normal(np.log(low), np.log(high), np.log(neutral), spread, size, rng))
    else:
        values = _cut_tabulated(low, high, neutral, spread, size, rng)
    return np.clip(values, low, high)


def _cut_normal(
    low: float,
    high: float,
    mean: float,
    spread: float,
    size: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    ends = (low - mean) / spread, (high - mean) / spread
    return stats.truncnorm.rvs(*ends, loc=mean, scale=spread, size=size, random_state=rng)


def _cut_tabulated(
    low: float,
    high: float,
    neutral: float,
    spread: float,
    size: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    """Angles in degrees, by inverting the integral of the density between close nodes.

    SciPy inverts the integral of this density one number at a time, which is slow.
    """
    # The density repeats after a turn, and each of its peaks may be narrow.
    turns = 360.0 * np.arange(np.floor((low - neutral) / 360.0), np.ceil((high - neutral) / 360.0) + 1)
    peaks = (neutral + turns[:, None] + spread * np.linspace(-8.0, 8.0, _NODES)).ravel()
    nodes = np.unique(np.clip(np.r_[np.linspace(low, high, _NODES), peaks], low, high))
    logs = log_density("vonmises", nodes, neutral, spread)
    density = np.exp(logs - np.max(logs))
    steps = np.diff(nodes) * (density[1:] + density[:-1]) / 2
    integral = np.r_[0.0, np.cumsum(steps)]
    return np.interp(rng.uniform(0.0, integral[-1], size), integral, nodes)
