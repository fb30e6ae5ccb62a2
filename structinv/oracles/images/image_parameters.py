"""Parameters of image oracles: values, intervals, distributions, random draws."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from scipy import stats

from ...utils.parameters import check_integer, check_number

# Number of nodes of the table for the inversion of a distribution function.
_NODES = 2001


def listed(name: str, values: Any) -> tuple[float, ...]:
    """Return the distinct values of a finite set, in the given sequence."""
    parts = values.tolist() if isinstance(values, np.ndarray) else values
    parts = (parts,) if isinstance(parts, Real) else parts
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise TypeError(f"{name} must be a number or a sequence of numbers, got {values!r}")
    parts = tuple(parts)
    if not parts:
        raise ValueError(f"{name} must have at least one value, got {values!r}")
    # Oracles validate their values in every call, so the usual case is vectorized.
    if not set(map(type, parts)) <= {float, np.float64} or not np.all(np.isfinite(parts)):
        for part in parts:
            check_number(name, part, minimum=-np.inf)
    return tuple(dict.fromkeys(map(float, parts)))


def interval(name: str, between: Any) -> tuple[float, float]:
    """Return both ends of an interval of values, validated."""
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
    """Raise unless `n_draws` is an integer of at least 0 and `rng` a NumPy generator."""
    check_integer("n_draws", n_draws, least=0)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, such as numpy.random.default_rng(0), got {rng!r}"
        )


def check_distribution(owner: str, known: tuple[str, ...], distribution: Any, spread: Any) -> None:
    """Raise unless the distribution is allowed and `spread` fits it."""
    if distribution not in known:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(f"distribution of {owner} must be one of {names}, got {distribution!r}")
    if spread is None:
        if distribution != "uniform":
            raise ValueError(
                f"spread must be a number above 0 if distribution is {distribution!r}, got None"
            )
        return
    check_number("spread", spread, minimum=-np.inf)
    if spread <= 0:
        raise ValueError(f"spread must be above 0, got {spread!r}")
    if distribution == "uniform":
        others = " or ".join(repr(name) for name in known if name != "uniform")
        raise ValueError(
            f"spread must be None if distribution is 'uniform', got {spread!r}: remove spread, or set "
            f"distribution to {others}"
        )


def log_density(
    distribution: str, values: np.ndarray, neutral: float, spread: float | None
) -> np.ndarray:
    """Return the logarithm of a density with its maximum at `neutral`.

    An additive constant is omitted. The lognormal density is a density of the
    logarithm of the value.
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
    """Draw random values of a distribution truncated to an interval."""
    if low == high:
        return np.full(size, low)
    if distribution == "uniform":
        return rng.uniform(low, high, size)
    assert spread is not None
    if distribution == "normal":
        values = _truncated_normal(low, high, neutral, spread, size, rng)
    elif distribution == "lognormal":
        ends = np.log(low), np.log(high)
        values = np.exp(_truncated_normal(*ends, np.log(neutral), spread, size, rng))
    else:
        values = _truncated_vonmises(low, high, neutral, spread, size, rng)
    return np.clip(values, low, high)


def _truncated_normal(
    low: float,
    high: float,
    mean: float,
    spread: float,
    size: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    ends = (low - mean) / spread, (high - mean) / spread
    return stats.truncnorm.rvs(*ends, loc=mean, scale=spread, size=size, random_state=rng)


def _truncated_vonmises(
    low: float,
    high: float,
    neutral: float,
    spread: float,
    size: tuple[int, ...],
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw angles in degrees by inversion of a tabulated distribution function.

    SciPy inverts this distribution function one number at a time, which is slow.
    """
    # The density has a period of 360 degrees. Its peaks may be narrow, so each has its own nodes.
    first, last = np.floor((low - neutral) / 360.0), np.ceil((high - neutral) / 360.0)
    periods = 360.0 * np.arange(first, last + 1)
    peaks = (neutral + periods[:, None] + spread * np.linspace(-8.0, 8.0, _NODES)).ravel()
    nodes = np.unique(np.clip(np.r_[np.linspace(low, high, _NODES), peaks], low, high))
    logs = log_density("vonmises", nodes, neutral, spread)
    density = np.exp(logs - np.max(logs))
    steps = np.diff(nodes) * (density[1:] + density[:-1]) / 2
    integral = np.r_[0.0, np.cumsum(steps)]
    return np.interp(rng.uniform(0.0, integral[-1], size), integral, nodes)
