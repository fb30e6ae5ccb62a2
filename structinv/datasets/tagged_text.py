"""Generated sentences with parts of speech and chunks, for demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from ..utils.parameters import check_integer, check_number

# Values and their cumulated probabilities.
Table: TypeAlias = tuple[Sequence[str], np.ndarray]

# Patterns with their frequencies: parts of speech of a phrase, and phrases of a sentence. A punctuation
# mark or a conjunction between phrases is a part of speech outside all chunks.
_PHRASES: dict[str, str] = {
    "NP": "6 DT NN | 4 DT JJ NN | 3 DT NN NN | 4 PRP | 3 NNP | 3 NNP NNP | 3 NNS | 3 JJ NNS | 2 CD NNS"
    " | 1 NNP CC NNP | 1 DT VBG NN | 1 DT RB JJ NN | 1 DT NN CC NN",
    "GENITIVE": "3 POS NN | 2 POS JJ NN | 1 POS NN NN",
    "VP": "6 VBD | 4 VBZ | 4 MD VB | 1 MD RB VB | 2 VBZ VBN | 2 VBD VBN | 1 VBZ RB VBG | 2 VBD TO VB"
    " | 1 VBZ VBN TO VB",
    "INFINITIVE": "3 TO VB | 1 RB TO VB",
    "PP": "9 IN | 1 TO",
    "ADVP": "4 RB | 1 RB RB",
    "SBAR": "1 IN",
    "PRT": "1 RP",
}
_SENTENCES = (
    "6 NP VP NP . | 6 NP VP NP PP NP . | 3 NP PP NP VP NP . | 3 NP GENITIVE VP NP ."
    " | 2 NP VP PRT PP NP . | 3 PP NP , NP VP NP . | 2 ADVP , NP VP PP NP GENITIVE ."
    " | 4 NP VP SBAR NP VP NP . | 3 NP VP NP CC NP VP ADVP . | 3 NP VP NP INFINITIVE NP PP NP ."
    " | 2 SBAR NP VP , NP VP NP ADVP . | 2 NP VP ADVP PP NP , NP VP ."
)
_CHUNKS = {"GENITIVE": "NP", "INFINITIVE": "VP"}

# Common words come first: the k-th has a probability proportional to 1 / (k + 2). Many are in several
# lines.
_WORDS: dict[str, str] = {
    "DT": "the a this that an some each no any",
    "NN": "plan market report deal trade rise offer bank company price group rate sale vote move issue"
    " share talk loss fund cut debt study visit claim week board order",
    "NNS": "plans markets reports deals rates offers banks prices sales talks shares losses funds cuts"
    " debts workers studies claims orders",
    "JJ": "new last public big strong foreign early present average open close light heavy joint dry",
    "RB": "still also now once only early close so well yet again soon",
    "PRP": "it he they she we you",
    "NNP": "May Bush Japan Lawson Moscow March Ford London Dole Price Rose Young Market Bank",
    "CD": "two 1990 ten 12 1.5 six 300 one",
    "VBD": "said cut set rose put let offered reported planned moved closed opened sold visited traded",
    "VBN": "cut set put sold planned reported offered expected closed opened traded shared moved let",
    "VBZ": "plans offers reports deals cuts says moves sets closes has talks claims orders visits",
    "VB": "plan offer report deal trade rise move cut set close open talk order share visit put vote",
    "VBG": "rising trading planning cutting talking opening sharing closing dealing",
    "MD": "will may would could can",
    "TO": "to",
    "IN": "of in that on for as after before so at with since once over up",
    "RP": "up off out over in on",
    "CC": "and or but",
    "POS": "'s '",
    ".": ". . . ! ?",
    ",": ", , ;",
}
# Typical mistakes of taggers.
_TAKEN_FOR = {"NN": "VB", "VB": "NN", "NNS": "VBZ", "VBZ": "NNS", "VBD": "VBN", "VBN": "VBD"}
_TAKEN_FOR |= {"JJ": "NN", "RB": "JJ", "IN": "RB", "RP": "IN", "VBG": "NN", "NNP": "NN"}


def make_tagged_text(
    n_sentences: int = 300,
    *,
    mistaken: float = 0.05,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[list[list[tuple[str, str]]], list[list[str]]]:
    """Generate sentences with parts of speech and, as labels, chunks in IOB2.

    A small grammar combines noun, verb, prepositional, adverbial and subordinate phrases. Many words
    have several possible parts of speech. Some parts of speech are wrong, as in the output of a tagger.
    Neither column alone determines the chunks, so the neighbors of a token are informative.

    Parameters
    ----------
    n_sentences : int, default=300
        Number of sentences (>= 1).
    mistaken : float, default=0.05
        Probability, from 0 to 1, that a part of speech is replaced by a similar one, as a tagger might
        do.
    random_state : int, RandomState or None, default=None
        Seed or generator.

    Returns
    -------
    sentences : list of lists of (token, part of speech)
        Columns of the tokens.
    labels : list of lists of str
        Labels of the tokens: "B-NP" starts a noun phrase, "I-NP" continues it, "O" is outside all
        chunks.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    See Also
    --------
    conll_features : Features of the tokens.
    mistype : Noise for the words.

    Examples
    --------
    >>> from structinv.datasets import make_tagged_text
    >>> sentences, labels = make_tagged_text(100, mistaken=0.0, random_state=0)
    >>> sentences[1][:4]
    [('Moscow', 'NNP'), ('Bush', 'NNP'), ('rose', 'VBD'), ('the', 'DT')]
    >>> labels[1][:4]
    ['B-NP', 'I-NP', 'B-VP', 'B-NP']
    """
    check_integer("n_sentences", n_sentences)
    check_number("mistaken", mistaken, maximum=1.0)
    rng = check_random_state(random_state)
    sentence_table = _patterns(_SENTENCES)
    phrases = {name: _patterns(patterns) for name, patterns in _PHRASES.items()}
    words = {part: _zipf(listed.split()) for part, listed in _WORDS.items()}
    sentences, labels = [], []
    for _ in range(n_sentences):
        tagged = _sentence(sentence_table, phrases, rng)
        tokens = []
        for place, (part, _label) in enumerate(tagged):
            word = _drawn(words[part], rng)
            taken = _TAKEN_FOR.get(part, part) if rng.random_sample() < mistaken else part
            tokens.append((word[:1].upper() + word[1:] if place == 0 else word, taken))
        sentences.append(tokens)
        labels.append([label for _, label in tagged])
    return sentences, labels


def _sentence(table: Table, phrases: dict[str, Table], rng: Any) -> list[tuple[str, str]]:
    """Draw parts of speech with their labels."""
    tagged = []
    for phrase in _drawn(table, rng).split():
        if phrase not in phrases:
            tagged.append((phrase, "O"))
            continue
        chunk = _CHUNKS.get(phrase, phrase)
        for place, part in enumerate(_drawn(phrases[phrase], rng).split()):
            tagged.append((part, f"{'I' if place else 'B'}-{chunk}"))
    return tagged


def _zipf(words: list[str]) -> Table:
    return words, _cumulated([1.0 / (rank + 3) for rank in range(len(words))])


def _patterns(text: str) -> Table:
    """Return the patterns in a text, with their frequencies."""
    pairs = [pattern.split(maxsplit=1) for pattern in text.split(" | ")]
    return [pattern for _, pattern in pairs], _cumulated([int(number) for number, _ in pairs])


def _cumulated(weights: Sequence[float]) -> np.ndarray:
    return np.cumsum(weights) / np.sum(weights)


def _drawn(table: Table, rng: Any) -> str:
    values, cumulated = table
    return values[int(np.searchsorted(cumulated[:-1], rng.random_sample(), side="right"))]
