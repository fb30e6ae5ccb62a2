"""Generators of mail and of signals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from ..utils.parameters import check_integer, check_number

_N_STRONG = 16  # indicative words per class
_STRONG_RATE = 0.3  # fraction of the mails of a class with a given indicative word
_STRONG_LEAK = 0.01  # the same in the other class
_WEAK_SHARE = 0.25  # fraction of the vocabulary with a small preference, half of it for each class
_WEAK_TILT = 1.2  # log odds of such a word in its class
_MEDIAN_LENGTH = 80  # words in a mail
_SHORTEST = 16  # features; shorter signals have too few values per cycle
_SLOW = (2.0, 3.5)  # cycles of the rhythm per signal
_QUICK = (3.5, 5.0)
_STRENGTH = 0.3  # standard deviation of the logarithm of the amplitude of the wave
_MOMENT = (0.3, 0.7)  # position of the wave of both classes, as a fraction of the signal
_WIDTH = 0.08  # width of the wave, as a fraction of the signal


def make_mail_like(
    n_samples: int = 2000,
    n_features: int = 2000,
    *,
    shift: float = 0.0,
    spam_share: float = 0.4,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[sparse.csr_matrix, NDArray[np.str_]]:
    """Generate word counts that resemble mail, with adaptive spammers.

    Word frequencies follow a Zipf distribution, and lengths have a long tail. A few words strongly
    indicate one class. A quarter of the vocabulary has a small preference for one class.

    A classifier without worst-case training relies on the indicative words, and spammers change these.
    They remove each indicative word of spam with probability `shift`. They insert indicative words of
    ham with `shift` times the frequency in ham. Ham does not change.

    The indicative words depend only on `n_features`, not on the seed or the shift. Several draws can
    therefore serve as training and test data.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of mails (>= 2).
    n_features : int, default=2000
        Number of words (>= 100).
    shift : float, default=0.0
        Adaptation of the spammers, from 0 (none) to 1 (complete).
    spam_share : float, default=0.4
        Expected fraction of spam, strictly between 0 and 1. Both classes occur.
    random_state : int, RandomState or None, default=None
        Seed or generator.

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features), int64
        Word counts.
    y : ndarray of shape (n_samples,)
        Labels "ham" or "spam".

    See Also
    --------
    make_signals : Signals with random amplitudes and baselines.

    Examples
    --------
    >>> from structinv.datasets import make_mail_like
    >>> X, y = make_mail_like(n_samples=300, n_features=500, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((300, 500), ['ham', 'spam'])
    """
    for name, value, least in (("n_samples", n_samples, 2), ("n_features", n_features, 100)):
        check_integer(name, value, least)
    check_number("shift", shift, maximum=1.0)
    check_number("spam_share", spam_share, strict=True)
    if not spam_share < 1:
        raise ValueError(f"spam_share must lie strictly between 0 and 1, got {spam_share!r}")
    rng = check_random_state(random_state)
    spam = rng.uniform(size=n_samples) < spam_share
    spam[:2] = True, False
    rng.shuffle(spam)

    spam_words, ham_words, lean = _vocabulary(n_features)
    X = _ordinary_words(spam, lean, rng)
    in_spam = np.where(spam, _STRONG_RATE * (1 - shift), _STRONG_LEAK)
    in_ham = np.where(spam, max(_STRONG_RATE * shift, _STRONG_LEAK), _STRONG_RATE)
    for words, rate in ((spam_words, in_spam), (ham_words, in_ham)):
        X = X + _telltale_words(words, rate, n_features, rng)
    X.sort_indices()
    return X, np.where(spam, "spam", "ham")


def _vocabulary(n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indicative words of both classes, and each word's preference: 1 spam, -1 ham."""
    order = np.random.RandomState(n_features).permutation(n_features)
    spam_words, ham_words = order[:_N_STRONG], order[_N_STRONG : 2 * _N_STRONG]
    n_lean = int(_WEAK_SHARE * n_features / 2)
    lean = np.zeros(n_features)
    lean[order[2 * _N_STRONG :][:n_lean]] = 1.0
    lean[order[2 * _N_STRONG :][n_lean : 2 * n_lean]] = -1.0
    return spam_words, ham_words, lean


def _ordinary_words(spam: np.ndarray, lean: np.ndarray, rng: Any) -> sparse.csr_matrix:
    n_samples, n_features = len(spam), len(lean)
    lengths = np.ceil(rng.lognormal(np.log(_MEDIAN_LENGTH), 0.8, size=n_samples)).astype(np.intp)
    row = np.repeat(np.arange(n_samples), lengths)
    word = np.empty(len(row), dtype=np.intp)
    zipf = 1.0 / (np.arange(n_features) + 10.0)
    for is_spam, sign in ((True, 0.5), (False, -0.5)):
        chance = zipf * np.exp(sign * _WEAK_TILT * lean)
        here = spam[row] == is_spam
        word[here] = rng.choice(n_features, size=here.sum(), p=chance / chance.sum())
    count = np.ones(len(row), dtype=np.int64)
    return sparse.csr_matrix((count, (row, word)), shape=(n_samples, n_features))


def _telltale_words(words: np.ndarray, rate: np.ndarray, n_features: int, rng: Any) -> sparse.csr_matrix:
    row, which = np.nonzero(rng.uniform(size=(len(rate), len(words))) < rate[:, None])
    count = 1 + rng.poisson(0.5, size=len(row)).astype(np.int64)
    return sparse.csr_matrix((count, (row, words[which])), shape=(len(rate), n_features))


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
    low, high = _check_signals(n_samples, n_features, scale, offset, noise)
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


def _rhythms(time: np.ndarray, task: np.ndarray, rng: Any) -> np.ndarray:
    slow, quick = (rng.uniform(*limits, size=len(task)) for limits in (_SLOW, _QUICK))
    cycles, phase = np.where(task, quick, slow)[:, None], rng.uniform(size=(len(task), 1))
    return np.sin(2 * np.pi * (cycles * time + phase))


def _waves(time: np.ndarray, n_samples: int, rng: Any) -> np.ndarray:
    moments = rng.uniform(*_MOMENT, size=(n_samples, 1))
    amplitudes = np.exp(_STRENGTH * rng.standard_normal((n_samples, 1)))
    return amplitudes * np.exp(-(((time - moments) / _WIDTH) ** 2) / 2)


def _check_signals(
    n_samples: Any, n_features: Any, scale: Any, offset: Any, noise: Any
) -> tuple[float, float]:
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
