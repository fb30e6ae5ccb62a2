"""Transform sequences of tokens with named features to rows of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..utils.parameters import check_integer

_STRINGS = (list, tuple, set, frozenset)
_FORMS = "a dict of features or a list of strings"
# Between a name and its value, and between the names of nested features.
_SEPARATOR = ":"


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
        hashed = self.n_hashed
        check_integer("n_hashed", hashed, optional=True)
        kind, tokens, lengths = _read(X)
        if np.any(lengths == 0):
            raise ValueError(
                f"X[{int(np.argmin(lengths))}] must have at least one token, got an empty sequence"
            )
        names = [] if hashed is not None else _names(kind, tokens)
        if hashed is None and not names:
            raise ValueError("X must have features, got none in any token")
        # This transformer stays unchanged if a value is not valid.
        trial = TokenVectorizer(hashed)
        trial.learn(names)
        rows = _rows(kind, tokens, lengths, trial.vocabulary_, trial.n_columns_)
        self.learn(names)
        return rows, lengths

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
        kind, tokens, lengths = _read(X)
        rows = _rows(kind, tokens, lengths, self.vocabulary_, self.n_columns_)
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


def _read(X: Any) -> tuple[Literal["dict", "strings"], list[Any], np.ndarray]:
    """Return the kind of tokens, all tokens, and the length of each sequence."""
    if isinstance(X, str) or not isinstance(X, (list, tuple, np.ndarray)):
        raise TypeError(f"X must be a list of sequences of tokens, got {_shown(X)}")
    if not len(X):
        raise ValueError("X must contain at least one sequence, got none")
    for i, sequence in enumerate(X):
        if not isinstance(sequence, (list, tuple)):
            advice = ": pass one sentence as [x]" if isinstance(sequence, Mapping) else ""
            raise TypeError(
                f"X[{i}] must be a list of tokens, each {_FORMS}, got {_shown(sequence)}{advice}"
            )
    lengths = np.array([len(sequence) for sequence in X], dtype=np.intp)
    tokens = list(chain.from_iterable(X))
    kinds = set(map(type, tokens))
    if all(issubclass(kind, Mapping) for kind in kinds):
        good = set(map(type, chain.from_iterable(tokens))) <= {str}
        values = chain.from_iterable(token.values() for token in tokens)
        if not good or not set(map(type, values)) <= {str, bool, int, float}:
            tokens = [_flat(token, where) for token, where in _placed(X)]
        return "dict", tokens, lengths
    if not all(issubclass(kind, _STRINGS) for kind in kinds):
        _refuse_mixed(X)
    if not set(map(type, chain.from_iterable(tokens))) <= {str}:
        _refuse_features(X)
    return "strings", tokens, lengths


def _placed(X: Any) -> Iterator[tuple[Any, str]]:
    """Yield each token and its position, for messages."""
    for i, sequence in enumerate(X):
        for t, token in enumerate(sequence):
            yield token, f"X[{i}], position {t}"


def _refuse_mixed(X: Any) -> None:
    """Raise TypeError for the first token of another kind."""
    first = None
    for token, where in _placed(X):
        if isinstance(token, (str, bytes)):
            raise TypeError(
                f"{where}: a token must be {_FORMS}, got the word {_shown(token)}: pass one sentence as "
                "[x], and compute features of words with structinv.datasets.conll_features"
            )
        if not isinstance(token, (Mapping, *_STRINGS)):
            raise TypeError(f"{where}: a token must be {_FORMS}, got {_shown(token)}")
        kind = "a dict" if isinstance(token, Mapping) else "a list"
        if kind != (first or kind):
            raise TypeError(
                f"{where}: tokens must be all dicts or all lists of strings, got {kind} after "
                f"{'lists' if kind == 'a dict' else 'dicts'}"
            )
        first = kind


def _refuse_features(X: Any) -> None:
    """Raise TypeError for the first feature that is not a string."""
    for token, where in _placed(X):
        for feature in token:
            if not isinstance(feature, str):
                hint = "; use dicts for numeric values" if isinstance(feature, Real) else ""
                raise TypeError(f"{where}: features must be strings, got {_shown(feature)}{hint}")


def _flat(token: Mapping, where: str) -> dict[str, float]:
    """Return the features of a token with numbers as values, as in python-crfsuite."""
    features: dict[str, float] = {}
    for name, value in token.items():
        _check_name(name, where)
        if isinstance(value, Mapping):
            nested = _flat(value, f"{where}, in {name!r}")
            features.update((f"{name}{_SEPARATOR}{inner}", number) for inner, number in nested.items())
        elif isinstance(value, str):
            features[f"{name}{_SEPARATOR}{value}"] = 1.0
        elif isinstance(value, _STRINGS):
            features.update((f"{name}{_SEPARATOR}{each}", 1.0) for each in _strings(name, value, where))
        elif isinstance(value, (Real, np.bool_)):
            features[name] = float(value)
        else:
            _refuse_value(name, value, where)
    return features


def _check_name(name: Any, where: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{where}: names of features must be strings, got {_shown(name)}")


def _strings(name: str, values: Any, where: str) -> Any:
    """Return the strings of a feature; those of a set are sorted."""
    for each in values:
        if not isinstance(each, str):
            _refuse_value(name, values, where)
    return sorted(values) if isinstance(values, (set, frozenset)) else values


def _refuse_value(name: str, value: Any, where: str) -> None:
    raise TypeError(
        f"{where}: the value of {name!r} must be a string, a number, a list of strings or a dict of "
        f"these, got {_shown(value)}"
    )


def _names(kind: str, tokens: list[Any]) -> list[str]:
    """Return all features, in the sequence of their first occurrence."""
    if kind == "dict":
        from sklearn.feature_extraction import DictVectorizer

        vectorizer = DictVectorizer(sort=False, separator=_SEPARATOR)
        found: list[str] = vectorizer.fit(tokens).feature_names_
        return found
    ordered = (sorted(token) if isinstance(token, (set, frozenset)) else token for token in tokens)
    return list(dict.fromkeys(chain.from_iterable(ordered)))


def _rows(
    kind: str,
    tokens: list[Any],
    lengths: np.ndarray,
    vocabulary: dict[str, int] | None,
    n_columns: int,
) -> sp.csr_matrix:
    if not tokens:
        return sp.csr_matrix((0, n_columns))
    rows: Any
    if vocabulary is None:
        rows = _hashed(kind, tokens, n_columns)
    elif kind == "dict":
        from sklearn.feature_extraction import DictVectorizer

        # A global set_output(transform="pandas") does not support sparse rows.
        vectorizer = DictVectorizer(separator=_SEPARATOR).set_output(transform="default")
        vectorizer.vocabulary_, vectorizer.feature_names_ = vocabulary, vocabulary
        rows = vectorizer.transform(tokens)
    else:
        rows = _counted(tokens, vocabulary)
    rows = sp.csr_matrix(rows, dtype=np.float64)
    _check_finite(rows, lengths)
    rows.eliminate_zeros()
    return rows


def _hashed(kind: str, tokens: list[Any], n_columns: int) -> sp.csr_matrix:
    from sklearn.feature_extraction import FeatureHasher

    if kind == "strings":
        return FeatureHasher(n_columns, input_type="string").transform(tokens)
    # The hasher always uses "=" before string values.
    numbers = (
        [
            (f"{name}{_SEPARATOR}{value}", 1.0) if isinstance(value, str) else (name, value)
            for name, value in token.items()
        ]
        for token in tokens
    )
    return FeatureHasher(n_columns, input_type="pair").transform(numbers)


def _check_finite(rows: sp.csr_matrix, lengths: np.ndarray) -> None:
    """Raise ValueError for the first value that is not finite, with its position."""
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        ends = np.cumsum(lengths)
        i = int(np.searchsorted(ends, row, side="right"))
        t = row - int(ends[i] - lengths[i])
        raise ValueError(
            f"X[{i}], position {t}: values of features must be finite, got {rows.data[bad[0]]}"
        )


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
