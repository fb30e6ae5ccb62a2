"""Texts as counts of words and n-grams, each times a fixed weight, and edits of the texts themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.validation import check_is_fitted

from ..oracles.text.text_edits import counted
from ..oracles.text.text_grams import Documents, Grams, PlacedEdits
from ..utils.parameters import check_boolean

WEIGHTS = ("counts", "binary", "idf")
TOKENS = r"(?u)\b\w\w+\b"
# A made-up token is one letter so often.
_LETTER, _LONGEST_MADE_UP = "z", 40


class TextVectorizer(
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # type: ignore[call-arg]
):
    """Rows of words and n-grams in which each occurrence has a fixed weight, whatever else is there.

    Tokens and n-grams are those of scikit-learn's CountVectorizer. Rows are not scaled to unit length,
    so that a token that is deleted moves what it is part of, and nothing else.

    Parameters
    ----------
    ngram_range : (int, int), default=(1, 1)
        Least and largest number of tokens of a feature.
    weights : {"counts", "binary", "idf"}, default="counts"
        A feature is how often it occurs; 1 if it occurs; or how often it occurs times
        ``log((1 + n) / (1 + df)) + 1``, with df of the n training texts that have it.
    lowercase : bool, default=True
    token_pattern : str
        What a token is, as of CountVectorizer: two letters, digits or underscores at least.
    min_df : int or float, default=1
        In how many training texts a feature must be, or in what share of them.
    max_features : int, optional
        Only so many of the most frequent features are kept.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        The column of each feature.
    weights_ : (n_features,) array
        What an occurrence counts.

    Examples
    --------
    >>> vectorizer = TextVectorizer(weights="binary").fit(["free money money", "see you"])
    >>> vectorizer.get_feature_names_out().tolist()
    ['free', 'money', 'see', 'you']
    >>> vectorizer.transform(["Money, money!"]).toarray().tolist()
    [[0.0, 1.0, 0.0, 0.0]]
    """

    vocabulary_: dict[str, int]
    weights_: np.ndarray

    def __init__(
        self,
        ngram_range: tuple[int, int] = (1, 1),
        weights: str = "counts",
        lowercase: bool = True,
        token_pattern: str = TOKENS,
        min_df: float = 1,
        max_features: int | None = None,
    ) -> None:
        self.ngram_range = ngram_range
        self.weights = weights
        self.lowercase = lowercase
        self.token_pattern = token_pattern
        self.min_df = min_df
        self.max_features = max_features

    def validate(self) -> None:
        """Raise ValueError or TypeError if a parameter is out of its range."""
        if not isinstance(self.weights, str) or self.weights not in WEIGHTS:
            raise ValueError(f"weights must be one of {list(WEIGHTS)}, got {self.weights!r}")
        given, wanted = self.ngram_range, "ngram_range must be a pair (least, largest) of integers, "
        pair = isinstance(given, (tuple, list)) and len(given) == 2
        if not pair or any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) for n in given):
            raise TypeError(f"{wanted}got {given!r}")
        if not 1 <= given[0] <= given[1]:
            raise ValueError(f"{wanted}1 <= least <= largest, got {given!r}")
        check_boolean("lowercase", self.lowercase)
        if not isinstance(self.token_pattern, str):
            raise TypeError(f"token_pattern must be a regular expression, got {self.token_pattern!r}")
        try:
            groups = re.compile(self.token_pattern).groups
        except re.error as error:
            raise ValueError(f"token_pattern {self.token_pattern!r} is no regular expression: {error}") \
                from None  # fmt: skip
        if groups > 1:
            raise ValueError(f"token_pattern must have one group at most, got {self.token_pattern!r}")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features of training texts.

        Parameters
        ----------
        X : list or array of str
        y : ignored

        Raises
        ------
        ValueError, TypeError
            For what is no list of texts, and for texts without a token.
        """
        self.validate()
        texts = as_texts(X)
        words = CountVectorizer(
            lowercase=bool(self.lowercase),
            token_pattern=self.token_pattern,
            ngram_range=tuple(self.ngram_range),
            min_df=self.min_df,
            max_features=self.max_features,
        )
        try:
            counts = words.fit_transform(texts)
        except ValueError as error:
            if "min_df" in str(error) or "After pruning" in str(error):
                raise ValueError(
                    f"min_df must leave a token or n-gram that so many of the {len(texts)} texts have, "
                    f"got {self.min_df!r}"
                ) from None
            if "empty vocabulary" not in str(error):
                raise
            raise ValueError(
                f"X must hold a text with a token, and n-grams of {tuple(self.ngram_range)} tokens, as "
                f"token_pattern {self.token_pattern!r} tells them; got none in {len(texts)} texts"
            ) from None
        vocabulary = {str(name): int(column) for name, column in words.vocabulary_.items()}
        if self.ngram_range[1] > 1:
            self._check_tokens(texts)
        self.vocabulary_ = dict(sorted(vocabulary.items(), key=lambda pair: pair[1]))
        self.weights_ = np.ones(len(vocabulary))
        if self.weights == "idf":
            found = np.bincount(counts.indices, minlength=counts.shape[1])
            self.weights_ = np.log((1 + counts.shape[0]) / (1 + found)) + 1.0
        self.__dict__.pop("grams", None)
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """The row of each text, float64.

        Parameters
        ----------
        X : list or array of str

        Raises
        ------
        ValueError, TypeError
            For what is no list of texts.
        """
        check_is_fitted(self)
        return self.rows(self.documents(as_texts(X)))

    def documents(self, texts: Sequence[str]) -> Documents:
        """Texts as numbers of tokens."""
        return self.grams.encoded([self.tokens(text) for text in texts])

    def rows(self, documents: Documents) -> sp.csr_matrix:
        """The row of each text."""
        return counted(self.grams.counts(documents), self.weights_, self.weights == "binary")

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, in their order."""
        return self._pattern.findall(self._prepared(text))

    def edited(self, text: str, words: str, spots: np.ndarray, tokens: np.ndarray) -> str:
        """A text after its edits: tokens deleted, replaced, or put before others.

        Parameters
        ----------
        text : str
        words : {"drop", "add", "replace"}
        spots : (n,) array of int
            The tokens meant, rising; their number for the end of the text.
        tokens : (n,) array of int
            Numbers of the tokens that come in, negative for a made-up one.
        """
        prepared = self._prepared(text)
        # Letters that change their length with their case would shift all that follow.
        base = text if len(prepared) == len(text) else prepared
        group = self._pattern.groups
        spans = [found.span(group) for found in self._pattern.finditer(prepared)]
        parts, at = [], 0
        for spot, token in zip(spots.tolist(), tokens.tolist(), strict=True):
            start, stop = spans[spot] if spot < len(spans) else (len(base), len(base))
            new = "" if words == "drop" else self.grams.names[token] if token >= 0 else self.made_up
            if words == "add":
                new, stop = (f" {new}" if spot == len(spans) else f"{new} "), start
            parts += [base[at:start], new]
            at = stop
        return self._found_again("".join([*parts, base[at:]]), text, words, spots, tokens)

    def _found_again(
        self, edited: str, text: str, words: str, spots: np.ndarray, tokens: np.ndarray
    ) -> str:
        """The edited text; ValueError if its tokens are not those meant, as of unusual patterns."""
        one = np.zeros(1, dtype=np.int64)
        edits = PlacedEdits(one + len(spots), spots[None], tokens[None])
        meant = self.documents([text]).edited(one, edits, words)
        if not np.array_equal(meant.tokens, self.documents([edited]).tokens):
            raise ValueError(
                f"token_pattern {self.token_pattern!r} does not find the tokens of an edited text "
                "again: the worst edit cannot be written, though it is certified against"
            )
        return edited

    def numbers_of(self, tokens: Sequence[str]) -> np.ndarray:
        """The numbers of tokens that are in features, rising.

        Raises
        ------
        ValueError
            For tokens that are in none.
        """
        wanted = [self._prepared(str(token)) for token in tokens]
        missing = [token for token in wanted if token not in self.grams.numbers]
        if missing:
            raise ValueError(
                f"allowed must hold tokens that are in features, got {missing[:5]}: those that are in "
                "none can always come in"
            )
        return np.array(sorted({self.grams.numbers[token] for token in wanted}), dtype=np.int64)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The words and n-grams of the columns, (n_features,)."""
        check_is_fitted(self)
        return np.array(list(self.vocabulary_), dtype=object)

    @cached_property
    def grams(self) -> Grams:
        """The features as tokens."""
        single = self.ngram_range[1] == 1
        return Grams([[name] if single else name.split(" ") for name in self.vocabulary_])

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        return {name: value for name, value in super().__getstate__().items() if name != "grams"}

    @property
    def made_up(self) -> str:
        """A token that is in no feature."""
        for times in range(1, _LONGEST_MADE_UP):
            token = _LETTER * times
            if token not in self.grams.numbers and self.tokens(token) == [token]:
                return token
        raise ValueError(
            f"token_pattern {self.token_pattern!r} takes no token of the letter {_LETTER} that is new"
        )

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.token_pattern)

    def _prepared(self, text: str) -> str:
        return text.lower() if self.lowercase else text

    def _check_tokens(self, texts: Sequence[str]) -> None:
        """Raise ValueError for tokens with blanks in them, of which n-grams could not be told apart."""
        for text in texts:
            for token in self.tokens(text):
                if " " in token:
                    raise ValueError(
                        f"token_pattern must not match blanks where ngram_range goes beyond single "
                        f"tokens, got {token!r}"
                    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def as_texts(X: Any) -> list[str]:
    """Texts as a list.

    Raises
    ------
    TypeError, ValueError
        For anything but a list, an array or a column of strings, and for none of them.

    Examples
    --------
    >>> as_texts(("free money", "see you"))
    ['free money', 'see you']
    """
    wanted = "X must be a list of texts"
    if isinstance(X, (str, bytes)):
        raise TypeError(f"{wanted}, got a single {type(X).__name__}; write [text]")
    if isinstance(X, (set, frozenset)):
        raise TypeError(f"{wanted}, got a set, which has no order")
    if hasattr(X, "columns") or isinstance(X, dict):
        raise TypeError(f"{wanted}, got a {type(X).__name__}: take the column that holds them")
    if sp.issparse(X) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        hint = "; they are counted here, without a vectorizer before" if sp.issparse(X) else ""
        raise TypeError(f"{wanted}, got a {type(X).__name__}{hint}")
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(f"{wanted}, one dimension, got shape {np.shape(X)}")
    texts = list(X)
    if not texts:
        raise ValueError(f"{wanted}, got none of them: 0 samples")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            hint = ": decode it" if isinstance(text, bytes) else ""
            shown = repr(text) if len(repr(text)) <= _LONGEST_MADE_UP else type(text).__name__
            raise TypeError(f"{wanted}: X[{place}] must be a string, got {shown}{hint}")
    return texts
