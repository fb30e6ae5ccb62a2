"""Oracles of token edits of texts: deletion, insertion, replacement."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import (
    Matrix,
    Rows,
    in_threads,
    longest_row,
    row_dots,
    row_sizes,
    short_indices,
    take,
)
from ...utils.parameters import check_integer
from ...utils.resources import check_memory
from ...utils.ties import best_first
from ..base import BoundOracle, CountedChanges, InvarianceOracle, Support
from ..hulls import Hull
from ..identity import Identity
from ..support import DeferredSupport
from ..words.insertions import Insertions
from ..words.word_edits import RowEdits, WordEdits
from ..words.word_hull import WordHull
from .text_grams import CreatableFeatures, Documents, Grams, PlacedEdits, WorstEdits
from .text_knapsack import places_of, worst_words
from .text_paths import worst_deletions
from .text_spots import new_features, worst_spots

WORDS = ("drop", "add", "replace", "edit")
# Number of changed features in memory at a time.
CHANGES_AT_ONCE = 4_000_000


class TokenEdits(InvarianceOracle):
    """Deletion, insertion or replacement of at most `max_changes` tokens of a text.

    The oracle requires texts instead of rows of counts. `structinv.certify` certifies Pipelines of
    a text vectorizer and a linear model. `InvariantTextClassifier` is trained for such edits: pass the
    oracle with texts to its method ``certify``, `security_curve`, `certified_accuracy_scorer` or
    `select_changes`. ``only_for`` restricts it to some labels.

    Parameters
    ----------
    edit : {"drop", "add", "replace", "edit"}
        Kind of edit: "drop" deletes tokens, "add" inserts tokens anywhere, "replace" replaces each
        edited token by any other one. "edit" deletes or inserts in each edit; it supports Pipelines
        only.
    max_changes : int, default=1
        Maximum number of edits per text (>= 0).
    allowed : sequence of str, default=None
        Tokens of features that may be inserted; None allows all of them. Tokens without a feature may
        always be inserted. It must be None if `edit` is "drop".

    See Also
    --------
    FDrop : Removal of features of a sample.
    structinv.InvariantTextClassifier : Text classifier that is robust to token edits.

    Examples
    --------
    >>> from structinv import InvariantTextClassifier
    >>> from structinv.oracles import TokenEdits
    >>> texts, y = ["free money", "see you there"], ["spam", "ham"]
    >>> model = InvariantTextClassifier(C=10.0, random_state=0).fit(texts, y)
    >>> model.certify(texts, y, oracle=TokenEdits("add", 3).only_for("spam")).correct.tolist()
    [False, True]

    A Pipeline of scikit-learn with rows of unit length:

    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import LinearSVC
    >>> from structinv import certify
    >>> pipeline = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(texts, y)
    >>> certify(pipeline, TokenEdits("drop", 1), texts, y).accuracy
    1.0
    """

    supports_sparse = True

    # Without a default of `edit`, a printed oracle always contains the kind of edit.
    def __init__(self, edit: str, max_changes: int = 1, allowed: Any = None) -> None:
        self.edit = edit
        self.max_changes = max_changes
        self.allowed = allowed

    def validate(self, n_features: int | None = None) -> None:
        if not isinstance(self.edit, str) or self.edit not in WORDS:
            raise ValueError(f"edit must be one of {list(WORDS)}, got {self.edit!r}")
        check_integer("max_changes", self.max_changes, least=0)
        if self.allowed is not None and (
            isinstance(self.allowed, (str, bytes)) or not np.iterable(self.allowed)
        ):
            raise TypeError(
                f"allowed must be a sequence of tokens, such as ['free'], got {self.allowed!r}"
            )
        if self.allowed is not None and self.edit == "drop":
            raise ValueError(
                f"allowed must be None if edit is 'drop', got {self.allowed!r}: remove allowed, or set "
                f"edit to 'add' or 'replace'"
            )

    def counted(self) -> CountedChanges:
        return CountedChanges(
            int(self.max_changes), lambda most: TokenEdits(self.edit, most, self.allowed)
        )

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """Raise TypeError, since X does not contain the texts.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples.
        V : ndarray of shape (n_directions, n_features)
            Directions.
        assign : ndarray of int of shape (n_samples,)
            Index of the direction of each sample.
        cost : ndarray of shape (n_samples,), default=None
            Ignored.

        Returns
        -------
        Support
            Never.
        """
        return self.bind(X).support(slice(None), V, assign, cost)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """Raise TypeError, since X does not contain the texts.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels.
        """
        raise TypeError(
            f"{self!r} requires texts instead of rows of numbers: pass it with texts to "
            "structinv.certify, or to the methods of InvariantTextClassifier"
        )


class TextEdits(InvarianceOracle):
    r"""Token edits of given texts, as perturbations of their rows of n-gram features.

    A feature is the count of an n-gram times a fixed weight, or the weight alone if `binary` is true.
    S(x) contains the rows of all edited texts. If their largest ``<v, z>`` has no efficient
    algorithm, S(x) is a relaxation that contains them:

    - Deletions may create any n-gram of three tokens or more, or not, whichever is worse.
    - Inserted tokens create the best n-grams of that many tokens, regardless of their neighbors.
    - If `binary` is true, each deleted one of c occurrences removes 1 / c of the feature.

    Parameters
    ----------
    documents : Documents
        Texts, in the sequence of the rows.
    grams : Grams
        N-grams of the features.
    weights : array of shape (n_features,)
        Weights of the features.
    edit : {"drop", "add", "replace"}
        Kind of edit.
    max_changes : int
        Maximum number of edits per text.
    binary : bool, default=False
        Whether features ignore the number of occurrences.
    allowed : array of int, default=None
        Numbers of the tokens that may be inserted; tokens without a feature are always allowed.
    real : bool, default=False
        Whether `support` returns rows of edited texts. If S(x) is a relaxation, the answer then has an
        upper bound.
    """

    supports_sparse = True

    def __init__(
        self,
        documents: Documents,
        grams: Grams,
        weights: np.ndarray,
        edit: str,
        max_changes: int,
        binary: bool = False,
        allowed: np.ndarray | None = None,
        real: bool = False,
    ) -> None:
        self.documents = documents
        self.grams = grams
        self.weights = weights
        self.edit = edit
        self.max_changes = max_changes
        self.binary = binary
        self.allowed = allowed
        self.real = real

    @property
    def exact(self) -> bool:
        """True if the set contains only rows of edited texts, False for a relaxation."""
        longest = 1 if self.binary or self.edit != "drop" else 2
        return self.grams.longest <= longest

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # Texts and features would be long.
        return f"TokenEdits(edit={self.edit!r}, max_changes={self.max_changes})"

    def counted(self) -> CountedChanges:
        return CountedChanges(int(self.max_changes), lambda most: self._with(max_changes=most))

    def _for_rows(self, rows: np.ndarray) -> TextEdits:
        return self._with(documents=self.documents.take(rows))

    def _with(self, **changed: Any) -> TextEdits:
        return TextEdits(**{**self.get_params(deep=False), **changed})

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        return self.bind(X).support(slice(None), V, assign, cost).with_points()

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        expected = len(self.documents), self.grams.n_features
        if X.shape != expected:
            raise ValueError(
                f"X must have one row per text and one column per feature, {expected}, got {X.shape}"
            )
        return BoundTexts(self, X, y)


class BoundTexts(BoundOracle):
    """Token edits of the texts of one fit or certificate."""

    oracle: TextEdits

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        oracle, X = self.oracle, take(self.rows, rows)
        edits = cache(lambda: self.worst_edits(rows, V, assign))
        if oracle.exact or not oracle.real:

            def maxima() -> tuple[np.ndarray, np.ndarray]:
                worst = edits()
                sizes = row_sizes(X, np.abs(V), assign) + worst.sizes
                return row_dots(X, V, assign) + worst.values, sizes

            return DeferredSupport(X, lambda: self._edited_rows(X, edits().changes), maxima)
        worst = edits()
        numbers = np.arange(self.X.shape[0])[rows]
        counts = oracle.grams.counts(oracle.documents.edited(numbers, worst.edits, oracle.edit))
        points = counted(counts, oracle.weights, oracle.binary)
        unperturbed = row_dots(X, V, assign)
        better = row_dots(points, V, assign) >= unperturbed
        points = sp.vstack([points, X], format="csr")[
            np.where(better, np.arange(len(numbers)), np.arange(len(numbers)) + len(numbers))
        ]
        return Support(points, upper=unperturbed + worst.values)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        # In-hull steps support deletions of counted single words only.
        oracle = self.oracle
        if oracle.max_changes == 0:
            return Identity().bind(self.rows).hull(signs, weights, intercept)
        if oracle.edit != "drop" or oracle.binary or oracle.grams.longest > 1:
            return None
        edits = WordEdits(oracle.max_changes, 0.0, 1.0, np.empty(0), False)
        return WordHull(self.rows, signs, weights, edits, intercept, self._word_counts)

    def edits(self) -> RowEdits | None:
        # The worst insertion of counted single words repeats the best word K times.
        oracle = self.oracle
        if oracle.edit != "add" or oracle.grams.longest > 1 or oracle.max_changes == 0:
            return None
        allowed = self._insertable
        value = np.where(allowed, oracle.weights * (1 if oracle.binary else oracle.max_changes), 0.0)
        most = min(oracle.max_changes, int(allowed.sum())) if oracle.binary else 1
        every = np.ones(self.X.shape[0], dtype=bool)
        edits = RowEdits(most, 1.0, 1.0, value, not oracle.binary, self.rows, every)
        return edits if edits.adds else None

    def insertions(self) -> Insertions | None:
        oracle = self.oracle
        if oracle.edit == "drop" or oracle.max_changes == 0 or oracle.real:
            return None
        orders, most = oracle.grams.orders, np.full(self.X.shape[0], oracle.max_changes)
        values = tuple(
            np.where(self._insertable & (orders == order + 1), oracle.weights, 0.0)
            for order in range(oracle.grams.longest)
        )
        if oracle.edit == "replace":
            most = np.minimum(most, np.diff(oracle.documents.starts))
        every = np.ones(len(most), dtype=bool)
        return Insertions(self.rows, every, values, not oracle.binary, most, self._worst_without)

    def _worst_without(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
        """Return the worst rows without inserted words, their numbers of edits, and their gains."""
        worst = self.worst_edits(rows, V, assign)
        points = self._edited_rows(take(self.rows, rows), worst.removed)
        # An inserted token creates features even if it breaks none, so all edits count.
        all_edits = np.full(len(assign), self.oracle.max_changes)
        counts = all_edits if self.oracle.edit == "add" else worst.edits.counts
        return points, counts, worst.values

    def worst_edits(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> WorstEdits:
        """Return the worst edits of rows along their directions.

        Parameters
        ----------
        rows : slice or array of int
            Numbers of the rows.
        V : array of shape (p, d)
            Directions.
        assign : array of int of shape (n,)
            Index of the direction of each row.

        Returns
        -------
        WorstEdits
            Edits, gains and changes of features.
        """
        gains = np.ascontiguousarray(V, dtype=np.float64) * self.oracle.weights
        return self.worst_of_gains(rows, gains, assign)

    def worst_of_gains(self, rows: Rows, gains: np.ndarray, assign: np.ndarray) -> WorstEdits:
        """Return the worst edits for the gain of each feature along each direction."""
        texts = np.arange(self.X.shape[0], dtype=np.int64)[rows]
        most = self._most(texts)
        what = f"{most} token edits of each of {len(texts)} texts"
        check_memory(what, 24.0 * most * len(texts), "reduce max_changes, or pass fewer texts")
        # The changes of features are in memory for this number of texts.
        size = max(1, CHANGES_AT_ONCE // (most * self._changes_per_edit))
        maximize = self._maximizer(gains, most)
        parts = [
            self._worst_of(
                maximize, texts[first : first + size], assign[first : first + size], most, gains.shape[1]
            )
            for first in range(0, max(len(texts), 1), size)
        ]
        return parts[0] if len(parts) == 1 else WorstEdits.joined(parts)

    def _worst_of(
        self,
        maximize: Callable[..., None],
        texts: np.ndarray,
        assign: np.ndarray,
        most: int,
        n_features: int,
    ) -> WorstEdits:
        n, capacity = len(texts), most * self._changes_per_edit
        counts, n_changes = np.zeros((2, n), dtype=np.int64)
        spots, inserted = np.zeros((n, most), dtype=np.int64), np.full((n, most), -1, dtype=np.int64)
        values, sizes = np.zeros((2, n))
        features, amounts = np.empty((n, capacity), dtype=np.int64), np.empty((n, capacity))

        def maximize_part(part: slice) -> None:
            results = counts[part], spots[part], inserted[part], values[part], sizes[part]
            changes = n_changes[part], features[part], amounts[part]
            maximize(texts[part], assign[part], *results, *changes)

        if self.oracle.max_changes > 0:
            in_threads(maximize_part, n, self._work(texts))
        used = np.arange(capacity) < n_changes[:, None]

        def matrix(mask: np.ndarray) -> sp.csr_matrix:
            owners, places = np.nonzero(mask)
            entries = amounts[owners, places], (owners, features[owners, places])
            return sp.csr_matrix(entries, shape=(n, n_features))

        edits = PlacedEdits.at(counts, spots, self._tokens_of(inserted))
        removed, created = matrix(used & (amounts < 0)), matrix(used & (amounts > 0))
        return WorstEdits(edits, values, sizes, removed, created)

    def _most(self, texts: np.ndarray) -> int:
        """Return the largest number of edits of these texts; at least 1, as a length of arrays."""
        most = int(self.oracle.max_changes)
        if self.oracle.edit != "add" and len(texts):
            starts = self.oracle.documents.starts
            most = min(most, int((starts[texts + 1] - starts[texts]).max()))
        elif self.oracle.binary and self.oracle.grams.longest == 1:
            most = min(most, int(self._insertable.sum()))
        return max(most, 1)

    def _maximizer(self, gains: np.ndarray, most: int) -> Callable[..., None]:
        """Return the function that computes worst edits of some texts, for this kind of edit."""
        oracle, documents, single = self.oracle, self.oracle.documents, self.oracle.grams.longest == 1
        drops, adds = oracle.edit == "drop", oracle.edit == "add"
        rows = self.rows
        ranked, n_ranked = self._ranked(gains, most)
        if oracle.binary and single and not adds:
            word_counts, n_unknown = self._word_counts, self._n_unknown
            first_ranked = ranked[:, 0].copy(), n_ranked[:, 0].copy()

            def by_knapsack(
                texts: Any, assign: Any, counts: Any, spots: Any, inserted: Any, *results: Any
            ) -> None:
                edited = np.full_like(spots, -1)
                widest = (rows.indptr[texts + 1] - rows.indptr[texts]).max(initial=0)
                best = np.empty((widest + 1, most + 1))
                chosen = np.zeros(best.shape, dtype=np.int64)
                marks = np.full(gains.shape[1], -1, dtype=np.int64)
                worst_words(
                    rows.indptr, rows.indices, word_counts, n_unknown, not drops, texts, gains, assign,
                    *first_ranked, most, best, chosen, marks, counts, edited, inserted, *results,
                )  # fmt: skip
                left = np.zeros(rows.shape[1] + 1, dtype=np.int64)
                places_of(documents.starts, documents.tokens, oracle.grams.feature_of, left, texts,
                          counts, edited, spots)  # fmt: skip

            return by_knapsack
        if drops and not single:
            created, exact = self._created, not oracle.binary

            def by_paths(
                texts: Any, assign: Any, counts: Any, spots: Any, inserted: Any, *results: Any
            ) -> None:
                n, longest = oracle.grams.longest, documents.longest(texts)
                best, removal = np.empty((longest + 1, most + 1, n - 1)), np.empty((longest, n + 1))
                previous = np.zeros(best.shape, dtype=np.int64)
                worst_deletions(
                    documents.starts, self._ending, self._fractions, self._may_remain, created.where,
                    created.entries, exact, texts, gains, assign, most, removal, best, previous,
                    np.empty((n - 1, most + 1, most + 1)), counts, spots, *results,
                )  # fmt: skip

            return by_paths

        def by_spots(texts: Any, assign: Any, *results: Any) -> None:
            n, longest, repeats = len(texts), oracle.grams.longest, not oracle.binary
            created = np.empty((n, most, 0 if drops else longest * (longest + 1) // 2), dtype=np.int64)
            creation, scores = np.zeros((n, most)), np.empty(documents.longest(texts))
            if not drops:
                marks = np.full(gains.shape[1], -1, dtype=np.int64)
                new_features(
                    rows.indptr, rows.indices, texts, gains, assign, ranked, n_ranked, repeats, most,
                    marks, created, creation,
                )  # fmt: skip
            worst_spots(
                documents.starts, self._ending, self._fractions, adds, not (adds and single), repeats,
                texts, gains, assign, most, created, creation, scores, np.empty(most, dtype=np.int64),
                *results,
            )  # fmt: skip

        return by_spots

    def _ranked(self, gains: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return insertable features with positive gains by direction and order, best first."""
        oracle, n = self.oracle, self.oracle.grams.longest
        # If features are binary, a text takes the best features that it lacks, so more are listed.
        limit = n * most + self._longest_row if oracle.binary else 1
        limit = min(limit, gains.shape[1])
        ranked = np.full((len(gains), n, max(limit, 1)), -1, dtype=np.int64)
        n_ranked = np.zeros((len(gains), n), dtype=np.int64)
        if oracle.edit == "drop":
            return ranked, n_ranked
        for m in range(n):
            allowed = np.flatnonzero(self._insertable & (oracle.grams.orders == m + 1))
            for p, gain in enumerate(gains[:, allowed]):
                best = np.flatnonzero(gain > 0)
                best = allowed[best[best_first(gain[best], max(limit, 1))]]
                ranked[p, m, : len(best)], n_ranked[p, m] = best, len(best)
        return ranked, n_ranked

    def _edited_rows(self, X: sp.csr_matrix, changes: sp.csr_matrix) -> sp.csr_matrix:
        """Add weighted changes of counts to rows."""
        changes = changes.copy()
        changes.data *= self.oracle.weights[changes.indices]
        return sp.csr_matrix(X + changes)

    def _tokens_of(self, features: np.ndarray) -> np.ndarray:
        """Return the token of each single-token feature; -1 for other features and feature -1."""
        of_feature = np.full(self.X.shape[1] + 1, -1, dtype=np.int64)
        known = np.flatnonzero(self.oracle.grams.feature_of >= 0)
        of_feature[self.oracle.grams.feature_of[known]] = known
        return of_feature[features]

    def _work(self, texts: np.ndarray) -> int:
        starts = self.oracle.documents.starts
        return int((starts[texts + 1] - starts[texts]).sum()) * (1 + self.oracle.max_changes)

    @property
    def _changes_per_edit(self) -> int:
        """Largest number of features that an edit changes."""
        n = self.oracle.grams.longest
        return 2 * n * (n + 1)

    @cached_property
    def rows(self) -> sp.csr_matrix:
        """Rows in the format of the compiled functions."""
        return short_indices(sp.csr_matrix(self.X))

    @cached_property
    def _insertable(self) -> np.ndarray:
        """Mask of the features that inserted tokens can create."""
        return self.oracle.grams.holding(self.oracle.allowed)

    @cached_property
    def _longest_row(self) -> int:
        return longest_row(self.rows.indptr)

    @cached_property
    def _ending(self) -> np.ndarray:
        return self.oracle.grams.ending(self.oracle.documents)

    @cached_property
    def _owners(self) -> np.ndarray:
        """Number of the text of each token."""
        starts = self.oracle.documents.starts
        return np.repeat(np.arange(len(starts) - 1), np.diff(starts))

    def _paired(self, texts: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return a distinct number for each pair of a text and a feature (or -1)."""
        return texts * (self.X.shape[1] + 1) + features + 1

    @cached_property
    def _occurrences(self) -> np.ndarray:
        """Count, in its text, of the feature of each order that ends at each token."""
        return self._counts_of(self._ending)

    def _counts_of(self, ending: np.ndarray) -> np.ndarray:
        """Return the count, in its text, of the feature at each place."""
        pairs = self._paired(self._owners[:, None], ending)
        _, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        return counts[inverse].reshape(pairs.shape)

    @cached_property
    def _fractions(self) -> np.ndarray:
        """Fraction of a feature that is lost with each of its occurrences."""
        if not self.oracle.binary:
            return np.ones(self._ending.shape)
        return 1.0 / self._occurrences

    @cached_property
    def _may_remain(self) -> np.ndarray:
        """Mask of the occurrences without which the feature may remain in the text."""
        if not self.oracle.binary:
            return np.zeros(self._ending.shape, dtype=bool)
        pairs = self._paired(self._owners[:, None], self._ending)
        return (self._occurrences > 1) | np.isin(pairs, np.unique(self._created_pairs[1]))

    @cached_property
    def _created_pairs(self) -> tuple[CreatableFeatures, np.ndarray]:
        """Features that deletions can create, and the number of each pair of text and feature."""
        created = self.oracle.grams.created(self.oracle.documents, int(self.oracle.max_changes))
        owners = np.repeat(self._owners, np.diff(created.where))
        return created, self._paired(owners, created.entries[:, 0])

    @cached_property
    def _created(self) -> CreatableFeatures:
        """Features that deletions can create; binary features only if the text lacks them."""
        created, pairs = self._created_pairs
        if not self.oracle.binary:
            return created
        rows = self.rows
        owners = np.repeat(np.arange(rows.shape[0], dtype=np.int64), np.diff(rows.indptr))
        new = ~np.isin(pairs, self._paired(owners, rows.indices))
        where = np.concatenate([[0], np.cumsum(new)])[created.where]
        return CreatableFeatures(where, created.entries[new])

    @cached_property
    def _word_counts(self) -> np.ndarray:
        """Number of occurrences of each nonzero feature in its text."""
        counts = self.oracle.grams.counts(self.oracle.documents)
        return counts.data.astype(np.int64)

    @cached_property
    def _n_unknown(self) -> np.ndarray:
        """Number of tokens without a feature in each text."""
        unknown = self._ending[:, 0] < 0
        return np.bincount(self._owners[unknown], minlength=self.X.shape[0]).astype(np.int64)


def counted(counts: sp.csr_matrix, weights: np.ndarray, binary: bool) -> sp.csr_matrix:
    """Return features from counts: count times weight, or the weight if `binary`."""
    rows = counts.copy()
    rows.data = np.where(binary, 1.0, rows.data) * weights[rows.indices]
    return rows
