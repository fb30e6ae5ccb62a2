"""Features of tokens in sentences, as strings, by the templates of CRFsuite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

# Fields and offsets; the joined values are one feature.
Template: TypeAlias = tuple[tuple[str, int], ...]

_OFFSETS = (-2, -1, 0, 1, 2)

# Templates of words.
WORD_TEMPLATES: tuple[Template, ...] = (
    *((("w", offset),) for offset in _OFFSETS),
    (("w", -1), ("w", 0)),
    (("w", 0), ("w", 1)),
)
# Templates of parts of speech, the second column.
POS_TEMPLATES: tuple[Template, ...] = (
    *((("pos", offset),) for offset in _OFFSETS),
    *((("pos", offset), ("pos", offset + 1)) for offset in (-2, -1, 0, 1)),
    *((("pos", offset), ("pos", offset + 1), ("pos", offset + 2)) for offset in (-2, -1, 0)),
)
_FORMS = ("lower", "shape", *(f"{end}{k}" for end in ("prefix", "suffix") for k in (1, 2, 3)))
# Templates of word forms, instead of parts of speech.
FORM_TEMPLATES: tuple[Template, ...] = (
    *(((form, 0),) for form in _FORMS),
    *((("shape", offset),) for offset in (-1, 1)),
    *((("suffix3", offset),) for offset in (-1, 1)),
)

# Features of the first and of the last token, which have only one neighbor.
FIRST, LAST = "__BOS__", "__EOS__"


def conll_features(sentences: Sequence[Sequence[str | Sequence[str]]]) -> list[list[list[str]]]:
    """Return features of tokens as lists of strings, by the templates of CRFsuite.

    For tokens with parts of speech in the second column, the 19 templates are those of the chunking
    example of CRFsuite (Okazaki 2007):

    - the words ``w[-2]`` to ``w[2]`` around the token, and the pairs ``w[-1]|w[0]`` and ``w[0]|w[1]``;
    - the parts of speech ``pos[-2]`` to ``pos[2]``, and their four pairs and three triples of neighbors.

    A template that reaches beyond the sentence gives no feature. The first token has the feature
    ``__BOS__``, the last token ``__EOS__``.

    If there is no second column, the features are the seven templates of words, and these word forms
    instead of parts of speech:

    - ``lower[0]``, and the first and last letters ``prefix1[0]`` to ``prefix3[0]`` and ``suffix1[0]``
      to ``suffix3[0]``;
    - ``shape`` and ``suffix3`` of the token's neighbors, and ``shape[0]``. The shape has X for capitals,
      x for other letters and 0 for digits, once per run.

    The third and later columns, such as lemmas or chunks, add their values at the token and its
    neighbors: ``column3[-1]``, ``column3[0]``, ``column3[1]``.

    Parameters
    ----------
    sentences : sequence of sequences of str, or of tuples of str
        Tokens, or the columns of each token, as from `load_conll`.

    Returns
    -------
    list of lists of lists of str
        Features of each token of each sentence, as input of structured estimators and of
        `TokenVectorizer`.

    Raises
    ------
    TypeError, ValueError
        If a token is neither a string nor a tuple of strings, or if tokens have different numbers of
        columns. The message has the sentence and the token.

    See Also
    --------
    load_conll : Sentences from a file.
    structinv.estimators.InvariantStructuredSVC : Estimator for sentences.

    Examples
    --------
    >>> from structinv.datasets import conll_features
    >>> features = conll_features([[("He", "PRP"), ("reckons", "VBZ")]])
    >>> features[0][1]
    ['w[-1]=He', 'w[0]=reckons', 'w[-1]|w[0]=He|reckons', 'pos[-1]=PRP', 'pos[0]=VBZ',
     'pos[-1]|pos[0]=PRP|VBZ', '__EOS__']
    """
    width = _check(sentences)
    templates = [*WORD_TEMPLATES, *(POS_TEMPLATES if width > 1 else FORM_TEMPLATES)]
    more = [f"column{number}" for number in range(3, width + 1)]
    templates += [((name, offset),) for name in more for offset in (-1, 0, 1)]
    names = ["w", "pos", *more]
    # Most features occur many times, so each string is stored and hashed once.
    known: dict[str, str] = {}
    features = []
    for sentence in sentences:
        tokens = [(token,) if isinstance(token, str) else token for token in sentence]
        columns = zip(*tokens, strict=True)
        fields: dict[str, Sequence[str]] = dict(zip(names, columns, strict=False))
        if width == 1 and tokens:
            fields.update(_forms(fields["w"]))
        features.append(_applied(templates, fields, len(tokens), known))
    return features


def _applied(
    templates: Sequence[Template], fields: dict[str, Sequence[str]], length: int, known: dict[str, str]
) -> list[list[str]]:
    """Return the features of a sentence's tokens, template by template."""
    features: list[list[str]] = [[] for _ in range(length)]
    for template in templates:
        name = "|".join(f"{field}[{offset}]" for field, offset in template) + "="
        start = max(0, -template[0][1])
        stop = min(length, length - template[-1][1])
        if start >= stop:
            continue
        columns = [fields[field][start + offset : stop + offset] for field, offset in template]
        values = columns[0] if len(columns) == 1 else map("|".join, zip(*columns, strict=True))
        for place, value in enumerate(values, start):
            feature = name + value
            features[place].append(known.setdefault(feature, feature))
    if length:
        features[0].append(FIRST)
        features[-1].append(LAST)
    return features


def _forms(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the forms of words."""
    forms = {"lower": [word.lower() for word in words], "shape": [shape(word) for word in words]}
    for k in (1, 2, 3):
        forms[f"prefix{k}"] = [word[:k] for word in words]
        forms[f"suffix{k}"] = [word[-k:] for word in words]
    return forms


def shape(word: str) -> str:
    """Return the shape of a word: the kinds of its letters, once per run."""
    kinds = ""
    for letter in word:
        kind = "x" if letter.isalpha() else letter
        kind = "0" if letter.isdigit() else "X" if letter.isupper() else kind
        if not kinds.endswith(kind):
            kinds += kind
    return kinds


def _check(sentences: Sequence[Sequence[str | Sequence[str]]]) -> int:
    """Return the number of columns of every token."""
    if isinstance(sentences, str):
        raise TypeError(f"sentences must be a list of lists of tokens, got {sentences!r}")
    width = 0
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            raise TypeError(f"sentence {i} must be a list of tokens, got {sentence!r}: split it first")
        for t, token in enumerate(sentence):
            cells = (token,) if isinstance(token, str) else token
            if not isinstance(cells, tuple | list) or set(map(type, cells)) != {str}:
                raise TypeError(
                    f"sentence {i}, token {t} must be a string or a tuple of strings, got {token!r}"
                )
            width = width or len(cells)
            if len(cells) != width:
                raise ValueError(
                    f"sentence {i}, token {t} must have the {width} columns of the first token, got "
                    f"{len(cells)}"
                )
    return width
