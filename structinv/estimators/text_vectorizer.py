"""Transform texts to weighted counts of words and n-grams; apply edits to texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..oracles.text.text_edits import counted
from ..oracles.text.text_grams import Documents, Grams, PlacedEdits
from ..utils.html import Part
from ..utils.parameters import check_boolean

WEIGHTS = ("counts", "binary", "idf")
TOKENS = r"(?u)\b\w\w+\b"
# An artificial token repeats this letter, fewer times than the limit.
_LETTER, _LENGTH_LIMIT = "z", 40


class TextVectorizer(
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # type: ignore[call-arg]
):
    """Transformer of texts to counts of words and n-grams with fixed weights.

    Tokens and n-grams are those of scikit-learn's `CountVectorizer`, except for lower case: each letter
    is converted alone. Rows are not normalized to unit length. A deleted token therefore changes only
    the features that contain it.

    Parameters
    ----------
    ngram_range : tuple (min_n, max_n), default=(1, 1)
        Minimum and maximum number of tokens per feature (1 <= min_n <= max_n). Increase max_n for
        features of phrases.
    weights : {"counts", "binary", "idf"}, default="counts"
        Values of the features: the number of occurrences, 1 per occurring feature, or the number of
        occurrences times ``log((1 + n) / (1 + df)) + 1``. In n training texts, df texts contain the
        feature. Choose "idf" to give rare features more weight.
    lowercase : bool, default=True
        If True, convert texts to lower case before tokenization. Each letter is converted alone: a Greek
        sigma is the same letter everywhere in a word. Pass False if case is informative.
    token_pattern : str
        Regular expression of a token, with at most one group. By default a token has at least two
        letters, digits or underscores, as in `CountVectorizer`.
    min_df : int or float, default=1
        Minimum number of training texts per feature, or their fraction if it is a float. Increase it for
        fewer features.
    max_features : int or None, default=None
        Maximum number of features; the most frequent ones remain. Decrease it for a smaller model.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column of each feature.
    weights_ : ndarray of shape (n_features,)
        Weight of one occurrence of each feature.

    See Also
    --------
    InvariantTextClassifier : Classifier of texts with this transformer.
    sklearn.feature_extraction.text.CountVectorizer : Counts without weights.

    Examples
    --------
    >>> from structinv.estimators import TextVectorizer
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
        """Raise ValueError or TypeError if a parameter is not valid."""
        if not isinstance(self.weights, str) or self.weights not in WEIGHTS:
            raise ValueError(f"weights must be one of {list(WEIGHTS)}, got {self.weights!r}")
        given, allowed = self.ngram_range, "ngram_range must be a pair (min_n, max_n) of integers, "
        pair = isinstance(given, (tuple, list)) and len(given) == 2
        if not pair or any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) for n in given):
            raise TypeError(f"{allowed}got {given!r}")
        if not 1 <= given[0] <= given[1]:
            raise ValueError(f"{allowed}1 <= min_n <= max_n, got {given!r}")
        check_boolean("lowercase", self.lowercase)
        if not isinstance(self.token_pattern, str):
            raise TypeError(f"token_pattern must be a regular expression, got {self.token_pattern!r}")
        try:
            groups = re.compile(self.token_pattern).groups
        except re.error as error:
            raise ValueError(
                f"token_pattern must be a valid regular expression, got {self.token_pattern!r}: {error}"
            ) from None
        if groups > 1:
            raise ValueError(f"token_pattern must have one group at most, got {self.token_pattern!r}")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features of training texts.

        Parameters
        ----------
        X : array-like of shape (n_samples,) of str
            Texts.
        y : None
            Ignored.

        Returns
        -------
        TextVectorizer
            This transformer.

        Raises
        ------
        ValueError, TypeError
            If `X` is not a list of texts, or if no text contains a token.
        """
        from sklearn.feature_extraction.text import CountVectorizer

        self.validate()
        texts = as_texts(X)
        words = CountVectorizer(
            preprocessor=self._prepared,
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
                    f"at least one token or n-gram must occur in min_df of the {len(texts)} texts, got "
                    f"min_df={self.min_df!r}: decrease min_df"
                ) from None
            if "empty vocabulary" not in str(error):
                raise
            raise ValueError(
                f"X must contain a text with a token of token_pattern {self.token_pattern!r} and an "
                f"n-gram of ngram_range {tuple(self.ngram_range)}, got none in {len(texts)} texts"
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
        """Transform texts to rows.

        Parameters
        ----------
        X : array-like of shape (n_samples,) of str
            Texts.

        Returns
        -------
        CSR matrix of shape (n_samples, n_features)
            Rows of weighted counts, float64.

        Raises
        ------
        ValueError, TypeError
            If `X` is not a list of texts.
        """
        check_is_fitted(self)
        return self.rows(self.documents(as_texts(X)))

    def documents(self, texts: Sequence[str]) -> Documents:
        """Convert texts to numbers of tokens.

        Parameters
        ----------
        texts : sequence of str
            Texts.

        Returns
        -------
        Documents
            Tokens of all texts.
        """
        return self.grams.encoded(map(self.tokens, texts))

    def rows(self, documents: Documents) -> sp.csr_matrix:
        """Convert numbers of tokens to rows.

        Parameters
        ----------
        documents : Documents
            Tokens of all texts.

        Returns
        -------
        CSR matrix of shape (n_samples, n_features)
            Rows of weighted counts, float64.
        """
        return counted(self.grams.counts(documents), self.weights_, self.weights == "binary")

    def tokens(self, text: str) -> list[str]:
        """Split a text into tokens.

        Parameters
        ----------
        text : str
            Text.

        Returns
        -------
        list of str
            Tokens, in the sequence of the text.
        """
        return self._pattern.findall(self._prepared(text))

    def edited(self, text: str, edit: str, spots: np.ndarray, tokens: np.ndarray) -> list[Part]:
        """Return the parts of a text with deleted, replaced or inserted tokens.

        Parameters
        ----------
        text : str
            Text before the edits.
        edit : {"drop", "add", "replace"}
            Kind of edit. An inserted token comes before the token at its position.
        spots : ndarray of shape (n,) of int
            Positions of the edited tokens, increasing. The number of tokens is the position of the end.
        tokens : ndarray of shape (n,) of int
            Numbers of the inserted tokens; negative for an artificial token.

        Returns
        -------
        list of (kind, text)
            Parts in the sequence of the text: "kept", "deleted" or "inserted" with the text.

        Raises
        ------
        ValueError
            If `token_pattern` does not find the intended tokens in the edited text.
        """
        group = self._pattern.groups
        spans = [found.span(group) for found in self._pattern.finditer(self._prepared(text))]
        parts: list[Part] = []
        at = 0
        for spot, token in zip(spots.tolist(), tokens.tolist(), strict=True):
            start, stop = spans[spot] if spot < len(spans) else (len(text), len(text))
            new = "" if edit == "drop" else self.grams.names[token] if token >= 0 else self.made_up
            if edit == "add":
                new, stop = (f" {new}" if spot == len(spans) else f"{new} "), start
            changed = [("kept", text[at:start]), ("deleted", text[start:stop]), ("inserted", new)]
            parts += [(kind, part) for kind, part in changed if part]
            at = stop
        parts += [("kept", text[at:])] if at < len(text) else []
        self._check_intended_tokens(after_edits(parts), text, edit, spots, tokens)
        return parts

    def _check_intended_tokens(
        self, edited: str, text: str, edit: str, spots: np.ndarray, tokens: np.ndarray
    ) -> None:
        """Raise ValueError if the tokens of the edited text are not the intended ones."""
        one = np.zeros(1, dtype=np.int64)
        edits = PlacedEdits(one + len(spots), spots[None], tokens[None])
        intended = self.documents([text]).edited(one, edits, edit)
        if not np.array_equal(intended.tokens, self.documents([edited]).tokens):
            raise ValueError(
                f"worst_case cannot write an edited text, because token_pattern {self.token_pattern!r} "
                "would split it into other tokens. Certificates are valid. Pass a token_pattern with "
                "matches that do not depend on neighboring tokens, such as the default"
            )

    def numbers_of(self, tokens: Sequence[str]) -> np.ndarray:
        """Return the numbers of tokens that are part of features.

        Parameters
        ----------
        tokens : sequence of str
            Tokens.

        Returns
        -------
        ndarray of int
            Distinct numbers, increasing.

        Raises
        ------
        ValueError
            If a token is not part of a feature.
        """
        prepared = [self._prepared(str(token)) for token in tokens]
        missing = [token for token in prepared if token not in self.grams.numbers]
        if missing:
            raise ValueError(
                f"allowed must contain tokens of features, got {missing[:5]}: remove them, because "
                "tokens without a feature can always be inserted"
            )
        return np.array(sorted({self.grams.numbers[token] for token in prepared}), dtype=np.int64)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_features,)
            Words and n-grams.
        """
        check_is_fitted(self)
        return np.array(list(self.vocabulary_), dtype=object)

    @cached_property
    def grams(self) -> Grams:
        """Features as tuples of token numbers."""
        single = self.ngram_range[1] == 1
        return Grams([[name] if single else name.split(" ") for name in self.vocabulary_])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without values that can be computed again."""
        return {name: value for name, value in super().__getstate__().items() if name != "grams"}

    @property
    def made_up(self) -> str:
        """Artificial token that is not part of a feature."""
        for times in range(1, _LENGTH_LIMIT):
            token = _LETTER * times
            if token not in self.grams.numbers and self.tokens(token) == [token]:
                return token
        raise ValueError(
            f"token_pattern must match repetitions of the letter {_LETTER}, because a repetition "
            f"without a feature is the placeholder of inserted tokens, got {self.token_pattern!r}"
        )

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.token_pattern)

    def _prepared(self, text: str) -> str:
        return fold(text) if self.lowercase else text

    def _check_tokens(self, texts: Sequence[str]) -> None:
        """Raise ValueError for tokens with blanks, since n-grams would be ambiguous."""
        for text in texts:
            for token in self.tokens(text):
                if " " in token:
                    raise ValueError(
                        "token_pattern must not match blanks if ngram_range includes several tokens, "
                        f"got the token {token!r}"
                    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def fold(text: str) -> str:
    """Return a text in lower case; each character is converted alone to one.

    An edit of a token thus never changes another token, and all positions remain. In `str.lower`, a
    capital sigma depends on its neighbors, and a dotted capital I becomes a letter and a mark between
    tokens.

    Examples
    --------
    >>> fold("ΟΔΟΣ 5"), fold("İstanbul")
    ('οδοσ 5', 'istanbul')
    """
    return text.replace("Σ", "σ").replace("ς", "σ").replace("İ", "i").lower()


def after_edits(parts: Iterable[Part]) -> str:
    """Return the text after the edits, from its parts.

    Examples
    --------
    >>> after_edits([("deleted", "free"), ("kept", " lunch "), ("inserted", "now")])
    ' lunch now'
    """
    return "".join(text for kind, text in parts if kind != "deleted")


def as_texts(X: Any) -> list[str]:
    """Return texts as a list.

    Raises
    ------
    TypeError, ValueError
        If `X` is not a list, an array or a column of strings, or if it is empty.

    Examples
    --------
    >>> as_texts(("free money", "see you"))
    ['free money', 'see you']
    """
    allowed = "X must be a list of texts"
    if isinstance(X, (str, bytes)):
        raise TypeError(f"{allowed}, got a single {type(X).__name__}; write [text]")
    if isinstance(X, (set, frozenset)):
        raise TypeError(f"{allowed}, got a set, which has no sequence: pass a list")
    if hasattr(X, "columns") or isinstance(X, dict):
        raise TypeError(f"{allowed}, got a {type(X).__name__}: pass the column of texts")
    if sp.issparse(X) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        hint = "; pass the texts without a vectorizer" if sp.issparse(X) else ""
        raise TypeError(f"{allowed}, got a {type(X).__name__}{hint}")
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(f"{allowed}, one dimension, got shape {np.shape(X)}")
    texts = list(X)
    if not texts:
        raise ValueError(f"{allowed}, got an empty list: 0 samples")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            hint = ": decode it" if isinstance(text, bytes) else ""
            shown = repr(text) if len(repr(text)) <= _LENGTH_LIMIT else type(text).__name__
            raise TypeError(f"{allowed}: X[{place}] must be a string, got {shown}{hint}")
    return texts
