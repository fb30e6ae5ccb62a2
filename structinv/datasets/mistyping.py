"""Text that is typed badly: words with typos, without capitals, or that nobody has seen before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from sklearn.utils import check_random_state

from ..utils.parameters import check_number

Kind: TypeAlias = Literal["typo", "lower", "unseen"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
# Keys beside each letter's own.
_BESIDE = {
    letter: (row[place - 1] if place else "") + row[place + 1 : place + 2]
    for row in _ROWS
    for place, letter in enumerate(row)
}
# Numbers that each token draws, changed or not: so a lower rate changes fewer of the same.
_DRAWS = 5


def mistype(
    sentences: Sequence[Sequence[Any]],
    rate: float,
    kind: Literal["typo", "lower", "unseen", "all"] = "all",
    *,
    known: Collection[str] = (),
    random_state: int | np.random.RandomState | None = None,
) -> list[list[Any]]:
    """Mistype words of sentences, each with the same chance and independently of the others.

    - "typo": two neighboring letters change places, a letter is left out or doubled, or the key beside
      it is hit, each as often; words of one letter and signs stay.
    - "lower": capitals become small letters; words without capitals stay.
    - "unseen": letters become other letters and digits other digits, so that no such word is among
      the sentences or `known`; signs stay.
    - "all": one of the three for each word, each as often.

    Of tokens with several columns the first changes; parts of speech stay those of the text as it was.
    With one seed, what a rate changes a higher one changes alike.

    Parameters
    ----------
    sentences : sequence of sequences of str, or of tuples of str
        Tokens, or the columns of each, as `load_conll` gives them.
    rate : float
        The chance of each token, from 0 to 1; 0.3 is text that is hard to read.
    kind : {"typo", "lower", "unseen", "all"}, default="all"
    known : collection of str, default=()
        More words that unseen ones must differ from, such as those of the training text.
    random_state : int, RandomState or None, default=None
        Seed or generator.

    Returns
    -------
    list of lists of str, or of tuples of str
        As many tokens as before.

    Raises
    ------
    TypeError, ValueError
        If an argument is none of these.

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
    made = []
    for sentence, row in zip(sentences, words, strict=True):
        changed = []
        for token, word in zip(sentence, row, strict=True):
            chance, which, *more = next(draws)
            if chance < rate:
                word = kinds[int(len(kinds) * which)](word, more, seen)
            changed.append(word if isinstance(token, str) else (word, *token[1:]))
        made.append(changed)
    return made


def _word(token: Any, i: int, t: int) -> str:
    word = token[0] if isinstance(token, (tuple, list)) and len(token) else token
    if not isinstance(word, str):
        raise TypeError(f"sentence {i}, token {t} must be a string or a tuple of strings, got {token!r}")
    return word


def _typo(word: str, draws: Sequence[float], seen: Collection[str]) -> str:
    """One slip of the fingers; the first of four kinds, from the one drawn on, that changes the word."""
    if len(word) < 2 or not any(letter.isalnum() for letter in word):
        return word
    place = int(draws[1] * (len(word) - 1))
    first, second, rest = word[place], word[place + 1], word[place + 2 :]
    beside = _BESIDE.get(second.lower(), "") or second
    hit = beside[int(draws[2] * len(beside))]
    slips = (
        word[:place] + second + first + rest,
        word[: place + 1] + rest,
        word[: place + 1] + second + second + rest,
        word[: place + 1] + (hit.upper() if second.isupper() else hit) + rest,
    )
    start = int(len(slips) * draws[0])
    return next(slip for slip in slips[start:] + slips[:start] if slip != word)


def _lower(word: str, draws: Sequence[float], seen: Collection[str]) -> str:
    return word.lower()


def _unseen(word: str, draws: Sequence[float], seen: Collection[str]) -> str:
    """A word of the same shape, longer by letters where so short a one is known."""
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


_CHANGES = dict(zip(get_args(Kind), (_typo, _lower, _unseen), strict=True))
