"""Transform sequences of tokens with named features to rows of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from math import isfinite
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..utils.parameters import check_integer

_STRINGS = (list, tuple, set, frozenset)
_FORMS = "a dict of features or a list of strings"


class TokenVectorizer(
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # type: ignore[call-arg]
):
    """Transformer of sequences of tokens with named features to rows of numbers.

    A token is a dict of features, or a list, tuple or set of strings. Each string is a feature, and its
    value is its number of occurrences. Values of a dict have the forms and names of python-crfsuite:

    - a number or a boolean is the value of the feature ``name``;
    - a string v makes the feature ``name:v`` of value 1;
    - a list, tuple or set of strings makes one such feature for each string;
    - a dict makes features with the prefix ``name:``.

    Columns have the sequence of the first occurrence of their features. The rare features of a sequence
    thus have adjacent columns. Features of a set are sorted by name. Features without an occurrence in
    training are dropped. With `n_hashed`, scikit-learn's `FeatureHasher` gives each name a column and a
    sign.
    """

    vocabulary_: dict[str, int] | None
    n_columns_: int

    def __init__(self, n_hashed: int | None = None) -> None:
        self.n_hashed = n_hashed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns."""
        self.fit_rows(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **unused: Any) -> list[sp.csr_matrix]:
        """Learn the columns and return the rows of each sequence.

        Returns shape (n_tokens, n_columns).
        """
        return _split(*self.fit_rows(X))

    def transform(self, X: Any) -> list[sp.csr_matrix]:
        """Return the rows of each sequence.

        Returns shape (n_tokens, n_columns).
        """
        return _split(*self.rows(X))

    def fit_rows(self, X: Any) -> tuple[sp.csr_matrix, np.ndarray]:
        """Learn the columns and return the rows of all sequences.

        Returns `rows` (n_tokens, n_columns), `lengths` (n_sequences,).
        """
        check_integer("n_hashed", self.n_hashed, optional=True)
        tokens, lengths = _read(X)
        if np.any(lengths == 0):
            raise ValueError(
                f"X[{int(np.argmin(lengths))}] must have at least one token, got an empty sequence"
            )
        if self.n_hashed is None and not any(tokens):
            raise ValueError("X must have features, got none in any token")
        self.learn(chain.from_iterable(tokens))
        return _rows(tokens, self.vocabulary_, self.n_columns_), lengths

    def learn(self, names: Iterable[str]) -> None:
        """Assign columns to names, in their sequence; duplicates are ignored."""
        self.vocabulary_ = None
        if self.n_hashed is not None:
            self.n_columns_ = int(self.n_hashed)
            return
        each = dict.fromkeys(names)
        self.vocabulary_ = dict(zip(each, range(len(each)), strict=True))
        self.n_columns_ = len(each)

    def rows(self, X: Any) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return the rows of all sequences in one matrix.

        Returns `rows` (n_tokens, n_columns), `lengths` (n_sequences,).
        """
        check_is_fitted(self, "n_columns_")
        tokens, lengths = _read(X)
        rows = _rows(tokens, self.vocabulary_, self.n_columns_)
        if len(tokens) and rows.nnz == 0:
            warnings.warn(
                "X has no feature of the training data, so predictions ignore X: "
                "check the names of features",
                UserWarning,
                stacklevel=2,
            )
        return rows, lengths

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns.

        Returns shape (n_columns,).
        """
        check_is_fitted(self, "n_columns_")
        names = self.vocabulary_ or (f"hashed{k}" for k in range(self.n_columns_))
        return np.array(list(names), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        return tags


def are_tokens(X: Any) -> bool:
    """Return True if `X` contains tokens with named features, not rows of numbers.

    The first nonempty sequence decides. `TokenVectorizer` checks the other sequences.
    """
    if not isinstance(X, (list, tuple, np.ndarray)):
        return False
    for sequence in X:
        if not isinstance(sequence, (list, tuple)):
            return isinstance(sequence, str)
        for token in sequence:
            if isinstance(token, (Mapping, set, frozenset, str, bytes)):
                return True
            if not isinstance(token, (list, tuple)):
                return False
            if len(token):
                return isinstance(token[0], (str, bytes))
    return False


def can_be_tokens(X: Any) -> bool:
    """Return True if `X` can be a list of tokens without any feature."""
    tokens = (sequence if isinstance(sequence, (list, tuple)) else [sequence] for sequence in X)
    return all(isinstance(each, (list, tuple)) and not each for each in chain.from_iterable(tokens))


def _read(X: Any) -> tuple[list[Any], np.ndarray]:
    """Return all tokens, as dicts of numbers or lists of strings, and the length of each sequence."""
    if isinstance(X, str) or not isinstance(X, (list, tuple, np.ndarray)):
        raise TypeError(f"X must be a list of sequences of tokens, got {_shown(X)}")
    if not len(X):
        raise ValueError("X must contain at least one sequence, got none")
    for i, sequence in enumerate(X):
        if not isinstance(sequence, (list, tuple)):
            raise TypeError(
                f"X[{i}] must be a list of tokens, each {_FORMS}, got {_shown(sequence)}: pass one "
                "sentence as [x]"
            )
    first = next(chain.from_iterable(X), None)
    read = _numbers if isinstance(first, Mapping) else _strings
    tokens = []
    for i, sequence in enumerate(X):
        for t, token in enumerate(sequence):
            try:
                tokens.append(read(token))
            except (TypeError, ValueError) as error:
                raise type(error)(f"X[{i}], position {t}: {error}") from None
    return tokens, np.array([len(sequence) for sequence in X], dtype=np.intp)


def _strings(token: Any) -> Any:
    """Return the features of a list; those of a set are sorted."""
    if isinstance(token, (str, bytes)):
        raise TypeError(
            f"a token must be {_FORMS}, got the word {_shown(token)}: pass one sentence as [x], and "
            "compute features of words with structinv.datasets.conll_features"
        )
    if not isinstance(token, _STRINGS):
        raise TypeError(f"tokens must be all dicts or all lists of strings, got {_shown(token)}")
    if not set(map(type, token)) <= {str}:
        for feature in token:
            if not isinstance(feature, str):
                raise TypeError(
                    f"features must be strings, got {_shown(feature)}: use dicts for numbers"
                )
    return sorted(token) if isinstance(token, (set, frozenset)) else token


def _numbers(token: Any) -> dict[str, float]:
    """Return the features of a dict with numbers as values, as in python-crfsuite."""
    if not isinstance(token, Mapping):
        raise TypeError(f"tokens must be all dicts or all lists of strings, got {_shown(token)}")
    features: dict[str, float] = {}
    for name, value in token.items():
        if not isinstance(name, str):
            raise TypeError(f"names of features must be strings, got {_shown(name)}")
        if isinstance(value, str):
            features[f"{name}:{value}"] = 1.0
        elif isinstance(value, (Real, np.bool_)):
            features[name] = float(value)
            if not isfinite(value):
                raise ValueError(f"values of features must be finite, got {value} for {name!r}")
        elif isinstance(value, Mapping):
            features.update((f"{name}:{inner}", each) for inner, each in _numbers(value).items())
        elif isinstance(value, _STRINGS) and all(isinstance(each, str) for each in value):
            features.update((f"{name}:{each}", 1.0) for each in _strings(value))
        else:
            raise TypeError(
                f"the value of {name!r} must be a string, a number, a list of strings or a dict of "
                f"these, got {_shown(value)}"
            )
    return features


def _rows(tokens: list[Any], vocabulary: dict[str, int] | None, n_columns: int) -> sp.csr_matrix:
    from sklearn.feature_extraction import DictVectorizer, FeatureHasher

    if not tokens:
        return sp.csr_matrix((0, n_columns))
    are_dicts = isinstance(tokens[0], Mapping)
    if vocabulary is None:
        kind = "dict" if are_dicts else "string"
        rows = FeatureHasher(n_columns, input_type=kind).transform(tokens)
    elif are_dicts:
        # A global set_output(transform="pandas") does not support sparse rows.
        vectorizer = DictVectorizer().set_output(transform="default")
        vectorizer.vocabulary_, vectorizer.feature_names_ = vocabulary, vocabulary
        rows = vectorizer.transform(tokens)
    else:
        rows = _counted(tokens, vocabulary)
    rows = sp.csr_matrix(rows, dtype=np.float64)
    rows.eliminate_zeros()
    return rows


def _counted(tokens: list[Any], vocabulary: dict[str, int]) -> sp.csr_matrix:
    """Return the counts of features; about four times faster than DictVectorizer."""
    places = map(vocabulary.get, chain.from_iterable(tokens), repeat(-1))
    found = np.fromiter(places, dtype=np.int64)
    ends = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.cumsum([len(token) for token in tokens], out=ends[1:])
    known = found >= 0
    kept = np.concatenate([[0], np.cumsum(known)])[ends]
    rows = sp.csr_matrix((np.ones(kept[-1]), found[known], kept), (len(tokens), len(vocabulary)))
    rows.sum_duplicates()
    return rows


def _split(rows: sp.csr_matrix, lengths: np.ndarray) -> list[sp.csr_matrix]:
    ends = np.cumsum(lengths)
    return [rows[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
