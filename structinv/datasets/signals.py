"""Generated signals of unknown size and baseline, for demonstrations and tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..utils.parameters import check_integer, check_number

_SHORTEST = 16  # features; shorter signals have too few values per cycle
_SLOW = (2.0, 3.5)  # cycles of the rhythm per signal
_QUICK = (3.5, 5.0)
_STRENGTH = 0.3  # standard deviation of the logarithm of the amplitude of the wave
_MOMENT = (0.3, 0.7)  # position of the wave of both classes, as a fraction of the signal
_WIDTH = 0.08  # width of the wave, as a fraction of the signal


def make_signals(
    n_samples: int = 200,
    n_features: int = 32,
    *,
    scale: Sequence[float] = (0.25, 4.0),
    offset: float = 2.0,
    noise: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Generate signals whose amplitude and baseline do not depend on the label.

    Each signal resembles a piece of an electroencephalogram. A rhythm of amplitude 1 and random phase is
    slower in "rest" than in "task". A wave at a random position does not depend on the label. The signal
    is multiplied by a log-uniform factor between the limits of `scale`. A uniform constant within
    `offset` and white noise are added. Due to the random phases, no linear function separates the
    classes.

    Parameters
    ----------
    n_samples : int, default=200
        Number of signals (>= 2).
    n_features : int, default=32
        Number of equally spaced values per signal (>= 16).
    scale : (low, high) of float, default=(0.25, 4.0)
        Limits of the factors (> 0). ``(1.0, 1.0)`` means no factors.
    offset : float, default=2.0
        Largest absolute value (>= 0) of the baseline. For comparison, rhythm and wave have amplitudes of
        about 1 before the multiplication.
    noise : float, default=0.1
        Standard deviation (>= 0) of the noise of each value. The noise is not multiplied by the factor,
        so weak signals have a lower signal-to-noise ratio.
    random_state : int, RandomState or None, default=None
        Seed or generator.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
        Signals.
    y : ndarray of shape (n_samples,)
        Labels "rest" or "task" with equal probabilities; both occur.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    See Also
    --------
    structinv.oracles.Segment : Oracle for unknown amplitudes.
    structinv.oracles.Offset : Oracle for unknown baselines.

    Examples
    --------
    >>> from structinv.datasets import make_signals
    >>> X, y = make_signals(100, 16, scale=(0.5, 2.0), offset=1.0, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((100, 16), ['rest', 'task'])
    """
    low, high = _check(n_samples, n_features, scale, offset, noise)
    rng = check_random_state(random_state)
    task = rng.uniform(size=n_samples) < 0.5
    task[:2] = True, False
    rng.shuffle(task)

    time = (np.arange(n_features) + 0.5) / n_features
    X = _rhythms(time, task, rng) + _waves(time, n_samples, rng)
    X *= np.exp(rng.uniform(np.log(low), np.log(high), size=(n_samples, 1)))
    X += rng.uniform(-offset, offset, size=(n_samples, 1))
    X += noise * rng.standard_normal(X.shape)
    return X, np.where(task, "task", "rest")


def _rhythms(
    time: NDArray[np.float64], task: NDArray[np.bool_], rng: np.random.RandomState
) -> NDArray[np.float64]:
    slow, quick = (rng.uniform(*limits, size=len(task)) for limits in (_SLOW, _QUICK))
    cycles, phase = np.where(task, quick, slow)[:, None], rng.uniform(size=(len(task), 1))
    rhythms: NDArray[np.float64] = np.sin(2 * np.pi * (cycles * time + phase))
    return rhythms


def _waves(time: NDArray[np.float64], n_samples: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    moments = rng.uniform(*_MOMENT, size=(n_samples, 1))
    amplitudes = np.exp(_STRENGTH * rng.standard_normal((n_samples, 1)))
    waves: NDArray[np.float64] = amplitudes * np.exp(-(((time - moments) / _WIDTH) ** 2) / 2)
    return waves


def _check(n_samples: Any, n_features: Any, scale: Any, offset: Any, noise: Any) -> tuple[float, float]:
    for name, value, least in (("n_samples", n_samples, 2), ("n_features", n_features, _SHORTEST)):
        check_integer(name, value, least)
    for name, value in (("offset", offset), ("noise", noise)):
        check_number(name, value)
    pair = isinstance(scale, Sequence | np.ndarray) and len(scale) == 2
    if not pair or not all(map(_is_finite, scale)) or not 0 < scale[0] <= scale[1]:
        raise ValueError(f"scale must be two finite numbers (low, high), 0 < low <= high, got {scale!r}")
    return float(scale[0]), float(scale[1])


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
