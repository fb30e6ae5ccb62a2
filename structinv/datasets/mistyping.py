"""Noise for text: typos, lost capitals, and unseen words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from ..utils.parameters import check_number

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
# Neighbors of each key.
_BESIDE = {
    letter: (row[place - 1] if place else "") + row[place + 1 : place + 2]
    for row in _ROWS
    for place, letter in enumerate(row)
}
# Number of draws per token, changed or not, so that a lower rate changes a subset of the tokens.
_DRAWS = 5


def mistype(
    sentences: Sequence[Sequence[Any]],
    rate: float,
    kind: Literal["typo", "lower", "unseen", "all"] = "all",
    *,
    known: Collection[str] = (),
    random_state: int | np.random.RandomState | None = None,
) -> list[list[Any]]:
    """Add noise to words of sentences, independently with equal probability.

    - "typo": two adjacent letters are exchanged, or a letter is removed, doubled or replaced by a
      neighboring key, with equal probabilities. Words of one letter and punctuation do not change.
    - "lower": capitals become lower case.
    - "unseen": letters and digits are replaced by others. The new word does not occur in the sentences
      or in `known`. Punctuation does not change.
    - "all": one of the three for each word, with equal probabilities.

    If tokens have several columns, only the first column changes. Parts of speech are thus those of the
    original text. With the same seed, a higher rate changes the same tokens in the same way, and others.

    Parameters
    ----------
    sentences : sequence of sequences of str, or of tuples of str
        Tokens, or the columns of each token, as from `load_conll`.
    rate : float
        Probability of a change for each token, from 0 to 1; 0.3 gives text that is hard to read.
    kind : {"typo", "lower", "unseen", "all"}, default="all"
        Kind of the noise.
    known : collection of str, default=()
        Other words that do not count as unseen, such as those of the training text. The replacements of
        "unseen" differ from them.
    random_state : int, RandomState or None, default=None
        Seed or generator.

    Returns
    -------
    list of lists of str, or of tuples of str
        The changed sentences.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    See Also
    --------
    make_tagged_text : Generated sentences.
    load_conll : Sentences from a file.

    Examples
    --------
    >>> from structinv.datasets import mistype
    >>> mistype([["The", "Chancellor", "resigned"]], 1.0, "typo", random_state=3)
    [['Th', 'hCancellor', 'ressigned']]
    >>> mistype([[("Chancellor", "NNP"), ("of", "IN")]], 1.0, "lower")
    [[('chancellor', 'NNP'), ('of', 'IN')]]
    """
    check_number("rate", rate, maximum=1.0)
    if kind != "all" and kind not in _CHANGES:
        allowed = ", ".join(repr(each) for each in (*_CHANGES, "all"))
        raise ValueError(f"kind must be one of {allowed}, got {kind!r}")
    if isinstance(known, str):
        raise TypeError(f"known must be a collection of words, got {known!r}")
    words = [[_word(token, i, t) for t, token in enumerate(row)] for i, row in enumerate(sentences)]
    seen = {*known, *(word for row in words for word in row)}
    rng = check_random_state(random_state)
    kinds = list(_CHANGES.values()) if kind == "all" else [_CHANGES[kind]]
    draws = iter(rng.random_sample((sum(map(len, words)), _DRAWS)).tolist())
    mistyped = []
    for sentence, row in zip(sentences, words, strict=True):
        changed = []
        for token, word in zip(sentence, row, strict=True):
            chance, which, *more = next(draws)
            if chance < rate:
                word = kinds[int(len(kinds) * which)](word, more, seen)
            changed.append(word if isinstance(token, str) else (word, *token[1:]))
        mistyped.append(changed)
    return mistyped


def _word(token: Any, i: int, t: int) -> str:
    word = token[0] if isinstance(token, (tuple, list)) and len(token) else token
    if not isinstance(word, str):
        raise TypeError(f"sentence {i}, token {t} must be a string or a tuple of strings, got {token!r}")
    return word


def _typo(word: str, draws: Sequence[float], seen: Collection[str]) -> str:
    """Return a typo: the first of four kinds, in cyclic sequence, that changes the word."""
    if len(word) < 2 or not any(letter.isalnum() for letter in word):
        return word
    place = int(draws[1] * (len(word) - 1))
    first, second, rest = word[place], word[place + 1], word[place + 2 :]
    neighbors = _BESIDE.get(second.lower(), "") or second
    key = neighbors[int(draws[2] * len(neighbors))]
    typos = (
        word[:place] + second + first + rest,
        word[: place + 1] + rest,
        word[: place + 1] + second + second + rest,
        word[: place + 1] + (key.upper() if second.isupper() else key) + rest,
    )
    start = int(len(typos) * draws[0])
    return next(typo for typo in typos[start:] + typos[:start] if typo != word)


def _lower(word: str, draws: Sequence[float], seen: Collection[str]) -> str:
    return word.lower()


def _unseen(word: str, draws: Sequence[float], seen: Collection[str]) -> str:
    """Return a new word of the same shape, or a longer one if that is known."""
    if not any(letter.isalnum() for letter in word):
        return word
    rng = Random(int(draws[0] * 2**53))
    made = "".join(_of_the_kind(letter, rng) for letter in word)
    while made in seen or made == word:
        made += str(rng.randrange(10)) if word[-1].isdigit() else _LETTERS[rng.randrange(26)]
    return made


def _of_the_kind(letter: str, rng: Random) -> str:
    if letter.isdigit():
        return str(rng.randrange(10))
    if not letter.isalpha():
        return letter
    drawn = _LETTERS[rng.randrange(26)]
    return drawn.upper() if letter.isupper() else drawn


_CHANGES = {"typo": _typo, "lower": _lower, "unseen": _unseen}
