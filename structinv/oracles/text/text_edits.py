"""Tokens of a text that are deleted, inserted or replaced."""

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

WORDS = ("drop", "add", "replace")
# Changes of features that are listed at once.
CHANGES_AT_ONCE = 4_000_000


class TokenEdits(InvarianceOracle):
    """At most `max_changes` tokens of a text are deleted, inserted or replaced.

    What `InvariantTextClassifier` is trained for, and certifies: an oracle of texts, which rows of
    counts do not tell. It goes where an oracle is asked for beside texts: into ``certify``,
    `security_curve`, `certified_accuracy_scorer` and `select_changes`, also as ``only_for`` some labels.

    Parameters
    ----------
    edit : {"drop", "add", "replace"}, default="drop"
        What happens to tokens: they are deleted, others are inserted anywhere, or they are replaced by
        any one token each.
    max_changes : int, default=1
        To how many tokens of a text, at least 0.
    allowed : sequence of str, optional
        Tokens that can come in, of those that are in features; all by default. Tokens that are in no
        feature always can.

    Examples
    --------
    >>> from structinv import InvariantTextClassifier
    >>> texts, y = ["free money", "see you there"], ["spam", "ham"]
    >>> model = InvariantTextClassifier(C=10.0, random_state=0).fit(texts, y)
    >>> model.certify(texts, y, oracle=TokenEdits("add", 3).only_for("spam")).correct.tolist()
    [False, True]
    """

    supports_sparse = True

    def __init__(self, edit: str = "drop", max_changes: int = 1, allowed: Any = None) -> None:
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
                f"allowed names tokens that can come in, and with edit='drop' none does: leave it out, "
                f"got {self.allowed!r}"
            )

    def counted(self) -> CountedChanges:
        return CountedChanges(
            int(self.max_changes), lambda most: TokenEdits(self.edit, most, self.allowed)
        )

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """Refused: rows do not tell the texts."""
        return self.bind(X).support(slice(None), V, assign, cost)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """Refused: rows do not tell the texts."""
        raise TypeError(
            f"{self!r} changes tokens of texts, which rows of numbers do not tell: it goes with "
            "InvariantTextClassifier"
        )


class TextEdits(InvarianceOracle):
    r"""What `TokenEdits` makes of the rows of given texts.

    Rows are counts of n-grams in given texts, each times a fixed weight, or 1 for each that is there.
    S(x) holds the rows of all edited texts. Where the largest ``<v, z>`` over these is not known, S(x)
    is a larger set that holds them all:

    - an n-gram of three tokens or more that a deletion creates is there, or is not, as is worse;
    - tokens that come in make the best n-grams that so many can make, whatever they are next to;
    - where features count once, a feature of c occurrences loses 1 / c with each that is broken.

    Parameters
    ----------
    documents : Documents
        The texts, in the order of the rows that are bound.
    grams : Grams
        The features.
    weights : (n_features,) array
        What an occurrence counts.
    edit : {"drop", "add", "replace"}
    max_changes : int
    binary : bool
        Whether features count once.
    allowed : array of int, optional
        Numbers of the tokens that can come in; tokens that are in no feature always can.
    real : bool, default=False
        Whether answers are rows of texts that there are, with a bound where a worse one may be.
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
        """Whether the set holds nothing but rows of edited texts."""
        longest = 1 if self.binary or self.edit != "drop" else 2
        return self.grams.longest <= longest

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """What changes; texts and features would be long."""
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
        """See `InvarianceOracle.support`; of all rows that there are texts for."""
        return self.bind(X).support(slice(None), V, assign, cost).with_points()

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        due = len(self.documents), self.grams.n_features
        if X.shape != due:
            raise ValueError(
                f"X must have a row for each text and a column for each feature, {due}, got {X.shape}"
            )
        return BoundTexts(self, X, y)


class BoundTexts(BoundOracle):
    """Edits of given texts."""

    oracle: TextEdits

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        oracle, X = self.oracle, take(self.rows, rows)
        edits = cache(lambda: self.worst_edits(rows, V, assign))
        if oracle.exact or not oracle.real:

            def maxima() -> tuple[np.ndarray, np.ndarray]:
                found = edits()
                sizes = row_sizes(X, np.abs(V), assign) + found.sizes
                return row_dots(X, V, assign) + found.values, sizes

            return DeferredSupport(X, lambda: self._weighed(X, edits().changes), maxima)
        found = edits()
        whole = np.arange(self.X.shape[0])[rows]
        counts = oracle.grams.counts(oracle.documents.edited(whole, found.edits, oracle.edit))
        points = counted(counts, oracle.weights, oracle.binary)
        own = row_dots(X, V, assign)
        better = row_dots(points, V, assign) >= own
        points = sp.vstack([points, X], format="csr")[
            np.where(better, np.arange(len(whole)), np.arange(len(whole)) + len(whole))
        ]
        return Support(points, upper=own + found.values)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        """See `BoundOracle.hull`: where counted single words are deleted, or nothing changes."""
        oracle = self.oracle
        if oracle.max_changes == 0:
            return Identity().bind(self.rows).hull(signs, weights, intercept)
        if oracle.edit != "drop" or oracle.binary or oracle.grams.longest > 1:
            return None
        edits = WordEdits(oracle.max_changes, 0.0, 1.0, np.empty(0), False)
        return WordHull(self.rows, signs, weights, edits, intercept, self._tallies)

    def edits(self) -> RowEdits | None:
        """See `BoundOracle.edits`: single words, the best one K times if that counts."""
        oracle = self.oracle
        if oracle.edit != "add" or oracle.grams.longest > 1 or oracle.max_changes == 0:
            return None
        able = self._able
        value = np.where(able, oracle.weights * (1 if oracle.binary else oracle.max_changes), 0.0)
        most = min(oracle.max_changes, int(able.sum())) if oracle.binary else 1
        every = np.ones(self.X.shape[0], dtype=bool)
        found = RowEdits(most, 1.0, 1.0, value, not oracle.binary, self.rows, every)
        return found if found.adds else None

    def insertions(self) -> Insertions | None:
        """See `BoundOracle.insertions`: of tokens that come in, also in the place of others."""
        oracle = self.oracle
        if oracle.edit == "drop" or oracle.max_changes == 0 or oracle.real:
            return None
        orders, most = oracle.grams.orders, np.full(self.X.shape[0], oracle.max_changes)
        values = tuple(
            np.where(self._able & (orders == order + 1), oracle.weights, 0.0)
            for order in range(oracle.grams.longest)
        )
        if oracle.edit == "replace":
            most = np.minimum(most, np.diff(oracle.documents.starts))
        every = np.ones(len(most), dtype=bool)
        return Insertions(self.rows, every, values, not oracle.binary, most, self._worst_without)

    def _worst_without(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
        """The worst edits without what they make, how many each text has, and what they win."""
        found = self.worst_edits(rows, V, assign)
        points = self._weighed(take(self.rows, rows), found.gone)
        # Tokens come in between others whether these matter or not.
        all_of_them = np.full(len(assign), self.oracle.max_changes)
        counts = all_of_them if self.oracle.edit == "add" else found.edits.counts
        return points, counts, found.values

    def worst_edits(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> WorstEdits:
        """The worst edits of the rows named, each along its direction."""
        whole = np.arange(self.X.shape[0], dtype=np.int64)[rows]
        gains = np.ascontiguousarray(V, dtype=np.float64) * self.oracle.weights
        most = self._most(whole)
        what = f"editing {most} tokens of {len(whole)} texts"
        check_memory(what, 24.0 * most * len(whole), "take fewer changes, or fewer texts")
        # Changes of features are listed for some texts at a time.
        size = max(1, CHANGES_AT_ONCE // (most * self._room))
        ask = self._asker(gains, most)
        parts = [
            self._worst_of(ask, whole[first : first + size], assign[first : first + size], most)
            for first in range(0, max(len(whole), 1), size)
        ]
        return parts[0] if len(parts) == 1 else WorstEdits.joined(parts)

    def _worst_of(
        self, ask: Callable[..., None], whole: np.ndarray, assign: np.ndarray, most: int
    ) -> WorstEdits:
        n, room = len(whole), most * self._room
        counts, n_changes = np.zeros((2, n), dtype=np.int64)
        spots, comes = np.zeros((n, most), dtype=np.int64), np.full((n, most), -1, dtype=np.int64)
        values, sizes = np.zeros((2, n))
        features, amounts = np.empty((n, room), dtype=np.int64), np.empty((n, room))

        def part_of(part: slice) -> None:
            got = counts[part], spots[part], comes[part], values[part], sizes[part], n_changes[part]
            ask(whole[part], assign[part], *got, features[part], amounts[part])

        if self.oracle.max_changes > 0:
            in_threads(part_of, n, self._work(whole))
        there = np.arange(room) < n_changes[:, None]

        def listed(mask: np.ndarray) -> sp.csr_matrix:
            owners, places = np.nonzero(mask)
            entries = amounts[owners, places], (owners, features[owners, places])
            return sp.csr_matrix(entries, shape=(n, self.X.shape[1]))

        edits = PlacedEdits(counts, _rising(counts, spots), self._tokens_of(comes))
        gone, made = listed(there & (amounts < 0)), listed(there & (amounts > 0))
        return WorstEdits(edits, values, sizes, gone, made)

    def _most(self, whole: np.ndarray) -> int:
        """How many edits of these texts there can be; at least 1, for arrays."""
        most = int(self.oracle.max_changes)
        if self.oracle.edit != "add" and len(whole):
            starts = self.oracle.documents.starts
            most = min(most, int((starts[whole + 1] - starts[whole]).max()))
        elif self.oracle.binary and self.oracle.grams.longest == 1:
            most = min(most, int(self._able.sum()))
        return max(most, 1)

    def _asker(self, gains: np.ndarray, most: int) -> Callable[..., None]:
        """Which compiled function answers, with all that does not depend on the rows."""
        oracle, documents, single = self.oracle, self.oracle.documents, self.oracle.grams.longest == 1
        drops, adds = oracle.edit == "drop", oracle.edit == "add"
        rows = self.rows
        ranked, n_ranked = self._ranked(gains, most)
        if oracle.binary and single and not adds:
            tallies, spares = self._tallies, self._spares
            first_ranked = ranked[:, 0].copy(), n_ranked[:, 0].copy()

            def words(whole: Any, assign: Any, counts: Any, spots: Any, comes: Any, *more: Any) -> None:
                edited = np.full_like(spots, -1)
                widest = (rows.indptr[whole + 1] - rows.indptr[whole]).max(initial=0)
                best = np.empty((widest + 1, most + 1))
                taken = np.zeros(best.shape, dtype=np.int64)
                there = np.full(gains.shape[1], -1, dtype=np.int64)
                worst_words(
                    rows.indptr, rows.indices, tallies, spares, not drops, whole, gains, assign,
                    *first_ranked, most, best, taken, there, counts, edited, comes, *more,
                )  # fmt: skip
                left = np.zeros(rows.shape[1] + 1, dtype=np.int64)
                places_of(documents.starts, documents.tokens, oracle.grams.feature_of, left, whole,
                          counts, edited, spots)  # fmt: skip

            return words
        if drops and not single:
            created, exact = self._created, not oracle.binary

            def paths(whole: Any, assign: Any, counts: Any, spots: Any, comes: Any, *more: Any) -> None:
                n, longest = oracle.grams.longest, documents.longest(whole)
                best, away = np.empty((longest + 1, most + 1, n - 1)), np.empty((longest, n + 1))
                came = np.zeros(best.shape, dtype=np.int64)
                worst_deletions(
                    documents.starts, self._ending, self._share, self._fixed, created.where,
                    created.entries, exact, whole, gains, assign, most, away, best, came,
                    np.empty((n - 1, most + 1, most + 1)), counts, spots, *more,
                )  # fmt: skip

            return paths

        def places(whole: Any, assign: Any, *more: Any) -> None:
            n, longest, often = len(whole), oracle.grams.longest, not oracle.binary
            news = np.empty((n, most, 0 if drops else longest * (longest + 1) // 2), dtype=np.int64)
            wins, scores = np.zeros((n, most)), np.empty(documents.longest(whole))
            if not drops:
                there = np.full(gains.shape[1], -1, dtype=np.int64)
                new_features(
                    rows.indptr, rows.indices, whole, gains, assign, ranked, n_ranked, often, most,
                    there, news, wins,
                )  # fmt: skip
            worst_spots(
                documents.starts, self._ending, self._share, adds, not (adds and single), often, whole,
                gains, assign, most, news, wins, scores, np.empty(most, dtype=np.int64), *more,
            )  # fmt: skip

        return places

    def _ranked(self, gains: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Along each direction the features of each order that can come in and win, best first."""
        oracle, n = self.oracle, self.oracle.grams.longest
        # Past those that the longest text has.
        limit = n * most + self._longest_row if oracle.binary else 1
        limit = min(limit, gains.shape[1])
        ranked = np.full((len(gains), n, max(limit, 1)), -1, dtype=np.int64)
        n_ranked = np.zeros((len(gains), n), dtype=np.int64)
        if oracle.edit == "drop":
            return ranked, n_ranked
        for m in range(n):
            able = np.flatnonzero(self._able & (oracle.grams.orders == m + 1))
            for p, gain in enumerate(gains[:, able]):
                best = np.flatnonzero(gain > 0)
                if len(best) > limit:
                    best = best[np.argpartition(-gain[best], limit - 1)[:limit]]
                best = able[best[np.argsort(-gain[best], kind="stable")]]
                ranked[p, m, : len(best)], n_ranked[p, m] = best, len(best)
        return ranked, n_ranked

    def _weighed(self, X: sp.csr_matrix, changes: sp.csr_matrix) -> sp.csr_matrix:
        changes = changes.copy()
        changes.data *= self.oracle.weights[changes.indices]
        return sp.csr_matrix(X + changes)

    def _tokens_of(self, comes: np.ndarray) -> np.ndarray:
        """Numbers of the tokens that are these features by themselves."""
        of_feature = np.full(self.X.shape[1] + 1, -1, dtype=np.int64)
        known = np.flatnonzero(self.oracle.grams.feature_of >= 0)
        of_feature[self.oracle.grams.feature_of[known]] = known
        return of_feature[comes]

    def _work(self, whole: np.ndarray) -> int:
        starts = self.oracle.documents.starts
        return int((starts[whole + 1] - starts[whole]).sum()) * (1 + self.oracle.max_changes)

    @property
    def _room(self) -> int:
        """How many changes of features an edit can make."""
        n = self.oracle.grams.longest
        return 2 * n * (n + 1)

    @cached_property
    def rows(self) -> sp.csr_matrix:
        """The rows as compiled functions take them."""
        return short_indices(sp.csr_matrix(self.X))

    @cached_property
    def _able(self) -> np.ndarray:
        """Which features tokens that come in can make."""
        return self.oracle.grams.holding(self.oracle.allowed)

    @cached_property
    def _longest_row(self) -> int:
        return longest_row(self.rows.indptr)

    @cached_property
    def _ending(self) -> np.ndarray:
        return self.oracle.grams.ending(self.oracle.documents)

    @cached_property
    def _owners(self) -> np.ndarray:
        """The text of each token."""
        starts = self.oracle.documents.starts
        return np.repeat(np.arange(len(starts) - 1), np.diff(starts))

    def _paired(self, texts: np.ndarray, features: np.ndarray) -> np.ndarray:
        """A number for each pair of a text and a feature, -1 being one of its own."""
        return texts * (self.X.shape[1] + 1) + features + 1

    @cached_property
    def _occurrences(self) -> np.ndarray:
        """How often the feature that ends at each token occurs in its text, by order."""
        pairs = self._paired(self._owners[:, None], self._ending)
        _, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        return counts[inverse].reshape(pairs.shape)

    @cached_property
    def _share(self) -> np.ndarray:
        """What of a feature goes with an occurrence."""
        if not self.oracle.binary:
            return np.ones(self._ending.shape)
        return 1.0 / self._occurrences

    @cached_property
    def _fixed(self) -> np.ndarray:
        """Whether a feature need not go with an occurrence: there are others, or can be."""
        if not self.oracle.binary:
            return np.zeros(self._ending.shape, dtype=bool)
        pairs = self._paired(self._owners[:, None], self._ending)
        return (self._occurrences > 1) | np.isin(pairs, self._made_again)

    @cached_property
    def _created_pairs(self) -> tuple[CreatableFeatures, np.ndarray]:
        made = self.oracle.grams.created(self.oracle.documents, int(self.oracle.max_changes))
        owners = np.repeat(self._owners, np.diff(made.where))
        return made, self._paired(owners, made.entries[:, 0])

    @cached_property
    def _made_again(self) -> np.ndarray:
        """Pairs of a text and a feature in it that deletions can create."""
        return np.unique(self._created_pairs[1])

    @cached_property
    def _created(self) -> CreatableFeatures:
        """What deletions create; where features count once, only those that the text lacks."""
        made, pairs = self._created_pairs
        if not self.oracle.binary:
            return made
        rows = self.rows
        owners = np.repeat(np.arange(rows.shape[0], dtype=np.int64), np.diff(rows.indptr))
        new = ~np.isin(pairs, self._paired(owners, rows.indices))
        where = np.concatenate([[0], np.cumsum(new)])[made.where]
        return CreatableFeatures(where, made.entries[new])

    @cached_property
    def _tallies(self) -> np.ndarray:
        """How often each word of the rows occurs in its text."""
        counts = self.oracle.grams.counts(self.oracle.documents)
        return counts.data.astype(np.int64)

    @cached_property
    def _spares(self) -> np.ndarray:
        """How many tokens of each text are no feature."""
        found = self._ending[:, 0] < 0
        return np.bincount(self._owners[found], minlength=self.X.shape[0]).astype(np.int64)


def counted(counts: sp.csr_matrix, weights: np.ndarray, binary: bool) -> sp.csr_matrix:
    """Rows of counted features: each count times its weight, or the weight alone."""
    rows = counts.copy()
    rows.data = np.where(binary, 1.0, rows.data) * weights[rows.indices]
    return rows


def _rising(counts: np.ndarray, spots: np.ndarray) -> np.ndarray:
    """The places of each text in rising order."""
    unused = np.arange(spots.shape[1]) >= counts[:, None]
    return np.sort(np.where(unused, np.iinfo(np.int64).max, spots), axis=1)
