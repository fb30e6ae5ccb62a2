"""Text vectorizers of scikit-learn: values of features, and tokens of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from .ratios import NORMS, Normalization
from .text_grams import TokenTexts

# Parts of a token_pattern that match no blanks: groups, quantifiers, letters and sets of letters.
_UNITS = re.compile(r"\(\?u\)|\(\?:|\((?!\?)|[)|*+?]|\{[\d,]+\}|\\[bBwdS]|\[(?:\\.|[^\]\\])+\]|\w")
_BLANKS = [chr(code) for code in range(0x3001) if chr(code).isspace()]
# Preprocessors that do not read words together.
_LETTER_BY_LETTER = None, str.lower, str.casefold
_SIGMA = "\u03a3"
# Reason and remedy of `lowers_by_neighbors`, for messages.
SIGMA_REASON = "{}(lowercase=True) converts the letter \u03a3 by its neighbors"
SIGMA_REMEDY = "pass preprocessor=str.casefold"


# Subclasses may differ. Users of such a step have already imported its module.
@cache
def vectorizers() -> tuple[type, ...]:
    """Return the text vectorizers of scikit-learn."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

    return CountVectorizer, TfidfVectorizer, HashingVectorizer


def hashes(step: Any) -> bool:
    """Return True for a vectorizer that hashes its tokens."""
    return type(step) is vectorizers()[2]


def signed(step: Any) -> bool:
    """Return True for a vectorizer whose tokens may lower a count."""
    return hashes(step) and step.alternate_sign and not step.binary


def tokenizer(step: Any) -> Callable[[str], Sequence[str]]:
    """Return the function from a text to its tokens, stop words included."""
    if callable(step.analyzer):
        return step.build_analyzer()
    prepare, split = step.build_preprocessor(), step.build_tokenizer()
    return lambda text: split(prepare(step.decode(text)))


def stop_words(step: Any) -> frozenset[str]:
    """Return the tokens that have no feature in any text."""
    return frozenset(() if callable(step.analyzer) else step.get_stop_words() or ())


def keeps_all_words(step: Any) -> bool:
    """Return True if each token of a fit gets a feature, except stop words."""
    if hashes(step) or step.vocabulary is not None or step.max_features is not None:
        return False
    words = callable(step.analyzer) or (step.analyzer == "word" and step.ngram_range == (1, 1))
    # The number 1 is a count of texts, and 1.0 a fraction of them.
    least, most = (step.min_df, type(step.min_df)), (step.max_df, type(step.max_df))
    return words and least == (1, int) and most == (1.0, float)


def fit_words(step: Any, texts: Sequence[str]) -> TokenTexts:
    """Fit the vocabulary of a vectorizer that keeps all words, and return tokens.

    All texts are one document with each word once, because scikit-learn counts slowly. The idf weights
    are therefore not those of the texts.
    """
    build = step.build_analyzer
    found: list[TokenTexts] = []

    def build_analyzer() -> Callable[[Sequence[str]], list[str]]:
        # The analyzer of scikit-learn warns of stop words.
        analyze, stops = build(), stop_words(step)
        split = analyze if callable(step.analyzer) else tokenizer(step)

        def words_of(document: Sequence[str]) -> list[str]:
            found.append(TokenTexts.of(map(split, document)))
            return [name for name in found[0].names if name not in stops]

        return words_of

    step.build_analyzer = build_analyzer
    try:
        step.fit([texts])
    finally:
        del step.build_analyzer
    return found[0]


def idf_of(step: Any, counts: sp.csr_matrix) -> np.ndarray:
    """Return the idf weights of a vectorizer for counts of features."""
    from sklearn.feature_extraction.text import TfidfTransformer

    single = np.dtype(step.dtype) == np.float32
    given = counts.astype(np.float32) if single else counts
    return TfidfTransformer(smooth_idf=step.smooth_idf).fit(given).idf_


def check_input(step: Any) -> None:
    """Raise TypeError for a vectorizer that reads files."""
    if step.input != "content":
        raise TypeError(
            f"{type(step).__name__} must have input='content' for edits of tokens, got "
            f"input={step.input!r}"
        )


def normalization_of(step: Any) -> Normalization:
    """Return the values and the norm of a fitted vectorizer."""
    n_features = step.n_features if hashes(step) else len(step.vocabulary_)
    terms, norm = "binary" if step.binary else "counts", getattr(step, "norm", None)
    if getattr(step, "sublinear_tf", False) and not step.binary:
        terms = "sublinear"
    check_norm(norm)
    scale = np.ones(n_features)
    return Normalization(terms, norm, scale * step.idf_ if getattr(step, "use_idf", False) else scale)


def unit_of_rows(step: Any) -> float:
    """Return the rounding unit of the rows of a vectorizer."""
    dtype = np.dtype(step.dtype)
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def lowers_by_neighbors(step: Any, texts: Iterable[Any]) -> bool:
    """Return True if lower case depends on other letters, in one of these texts.

    `str.lower` converts a capital sigma at the end of a word to another letter. Marks such as an
    apostrophe between two tokens do not end a word.
    """
    lowers = not callable(step.analyzer) and step.lowercase and step.preprocessor is None
    return bool(lowers and any(isinstance(text, str) and _SIGMA in text for text in texts))


def own_functions(step: Any) -> dict[str, Any]:
    """Return the parameters by which a vectorizer may read words together."""
    words = step.analyzer == "word"
    pattern = step.token_pattern if words and step.tokenizer is None else None
    given = {
        "analyzer": step.analyzer if callable(step.analyzer) else None,
        "preprocessor": None if step.preprocessor in _LETTER_BY_LETTER else step.preprocessor,
        "strip_accents": step.strip_accents if callable(step.strip_accents) else None,
        "tokenizer": step.tokenizer if words else None,
        "token_pattern": None if pattern is None or _between_blanks(pattern) else pattern,
    }
    return {name: value for name, value in given.items() if value is not None}


def _between_blanks(pattern: str) -> bool:
    """Return True if the matches of a pattern neither contain nor depend on blanks around them."""
    units = _UNITS.findall(pattern)
    classes = [unit for unit in units if unit.startswith("[")]
    return "".join(units) == pattern and not any(
        re.match(unit, blank) for unit in classes for blank in _BLANKS
    )


def check_norm(norm: Any) -> None:
    """Raise TypeError for a norm of rows that the search does not support."""
    if norm not in NORMS:
        raise TypeError(f"norm must be 'l2', 'l1' or None for edits of tokens, got norm={norm!r}")
