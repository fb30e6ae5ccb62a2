"""Generated word counts that resemble mail, for demonstrations and tests."""

from __future__ import annotations

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
    _check(n_samples, n_features, shift, spam_share)
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


def _check(n_samples: Any, n_features: Any, shift: Any, spam_share: Any) -> None:
    for name, value, least in (("n_samples", n_samples, 2), ("n_features", n_features, 100)):
        check_integer(name, value, least)
    check_number("shift", shift, maximum=1.0)
    check_number("spam_share", spam_share, strict=True)
    if not spam_share < 1:
        raise ValueError(f"spam_share must lie strictly between 0 and 1, got {spam_share!r}")


def _vocabulary(
    n_features: int,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return indicative words of both classes, and each word's preference: 1 spam, -1 ham."""
    order = np.random.RandomState(n_features).permutation(n_features)
    spam_words, ham_words = order[:_N_STRONG], order[_N_STRONG : 2 * _N_STRONG]
    n_lean = int(_WEAK_SHARE * n_features / 2)
    lean = np.zeros(n_features)
    lean[order[2 * _N_STRONG :][:n_lean]] = 1.0
    lean[order[2 * _N_STRONG :][n_lean : 2 * n_lean]] = -1.0
    return spam_words, ham_words, lean


def _ordinary_words(
    spam: NDArray[np.bool_], lean: NDArray[np.float64], rng: np.random.RandomState
) -> sparse.csr_matrix:
    n_samples, n_features = len(spam), len(lean)
    lengths = np.ceil(rng.lognormal(np.log(_MEDIAN_LENGTH), 0.8, size=n_samples)).astype(np.intp)
    row = np.repeat(np.arange(n_samples), lengths)
    word = np.empty(len(row), dtype=np.intp)
    zipf = 1.0 / (np.arange(n_features) + 10.0)
    for is_spam, sign in ((True, 0.5), (False, -0.5)):
        chance = zipf * np.exp(sign * _WEAK_TILT * lean)
        here = spam[row] == is_spam
        word[here] = rng.choice(n_features, size=here.sum(), p=chance / chance.sum())
    return _counts(row, word, np.ones(len(row), dtype=np.int64), (n_samples, n_features))


def _telltale_words(
    words: NDArray[np.intp],
    rate: NDArray[np.float64],
    n_features: int,
    rng: np.random.RandomState,
) -> sparse.csr_matrix:
    row, which = np.nonzero(rng.uniform(size=(len(rate), len(words))) < rate[:, None])
    count = 1 + rng.poisson(0.5, size=len(row)).astype(np.int64)
    return _counts(row, words[which], count, (len(rate), n_features))


def _counts(
    row: NDArray[np.intp],
    word: NDArray[np.intp],
    count: NDArray[np.int64],
    shape: tuple[int, int],
) -> sparse.csr_matrix:
    return sparse.coo_matrix((count, (row, word)), shape=shape).tocsr()
