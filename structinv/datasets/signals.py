"""Generated signals of unknown size and zero level, for demonstrations and tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..utils.parameters import check_integer, check_number

_SHORTEST = 16  # features, below which the quicker rhythm has too few values a turn
_SLOW = (2.0, 3.5)  # turns of the rhythm in a recording
_QUICK = (3.5, 5.0)
_STRENGTH = 0.3  # standard deviation of the logarithm of the wave's height
_MOMENT = (0.3, 0.7)  # of the wave that both classes have, as a share of the recording
_WIDTH = 0.08  # of a wave, as a share of the recording


def make_signals(
    n_samples: int = 200,
    n_features: int = 32,
    *,
    scale: Sequence[float] = (0.25, 4.0),
    offset: float = 2.0,
    noise: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Generate short signals whose size and zero level carry no information.

    Each signal looks like a piece of an electroencephalogram: a rhythm of height 1 and of any phase,
    slower in "rest" than in "task", and a wave at some moment that has nothing to do with the label.
    The whole is multiplied by a factor, log-uniform between the limits of `scale`, a constant, uniform
    within `offset`, is added, and then white noise. Neither factor nor constant depends on the label.
    As phases are random, no linear function tells the classes apart.

    Parameters
    ----------
    n_samples : int, default=200
        Number of signals, at least 2.
    n_features : int, default=32
        Values of a signal, at equal distances in time, at least 16.
    scale : (low, high) of float, default=(0.25, 4.0)
        Limits of the factors, above 0; both 1 for none.
    offset : float, default=2.0
        How far the zero level moves up or down, at least 0. Rhythm and wave are about 1 high before
        they are scaled.
    noise : float, default=0.1
        Standard deviation of the noise of each value, at least 0. It is that of the recorder, which
        the factor does not multiply: small signals have more of it for their size.
    random_state : int, RandomState or None, default=None
        Seed or generator.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
    y : ndarray of shape (n_samples,)
        "rest" or "task", each as likely; both occur.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    See Also
    --------
    structinv.oracles.Segment, structinv.oracles.Offset : the two changes as oracles.

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
    turns, phase = np.where(task, quick, slow)[:, None], rng.uniform(size=(len(task), 1))
    rhythms: NDArray[np.float64] = np.sin(2 * np.pi * (turns * time + phase))
    return rhythms


def _waves(time: NDArray[np.float64], n_samples: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    moments = rng.uniform(*_MOMENT, size=(n_samples, 1))
    heights = np.exp(_STRENGTH * rng.standard_normal((n_samples, 1)))
    waves: NDArray[np.float64] = heights * np.exp(-(((time - moments) / _WIDTH) ** 2) / 2)
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
