"""Tokens of texts with one feature each: counts, worst edits, and edited texts."""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from ...utils.exceptions import TextEditsWarning
from ...utils.matrices import ALL_ROWS, Rows
from ...utils.texts import Part, after_edits, shortened
from ..words.bound_edits import RowEdits
from .counted_words import CountedWords
from .ratios import TOLERANCE, Normalization, RatioSearch
from .text_grams import UNKNOWN, TokenTexts
from .token_edits import TokenEdits
from .vectorizers import (
    SIGMA_REASON,
    SIGMA_REMEDY,
    hashes,
    lowers_by_neighbors,
    own_functions,
    signed,
    stop_words,
    tokenizer,
)

Tokens = Sequence[str]
# Number of made-up tokens that are hashed at most, to name a token of a column, and at a time. Of the
# default columns with both signs, the first number misses one in ten million.
_MADE_UP, _AT_ONCE = 2**25, 2**18
# Made-up tokens have letters only, which most patterns of tokens keep.
_LETTERS = str.maketrans("0123456789", "ghijklmnop")


@dataclass(frozen=True)
class Placed:
    """Edits of the tokens of one text.

    - `deleted`: positions of deleted or replaced tokens, increasing
    - `inserted` (int, str): new tokens, each with the position of the token that it precedes or
      replaces; the number of tokens is the position of the end
    """

    deleted: list[int] = field(default_factory=list)
    inserted: list[tuple[int, str]] = field(default_factory=list)

    def applied(self, tokens: Tokens) -> list[str]:
        """Return the tokens after the edits."""
        parts = self.marked(tokens, lambda _, token: token)
        return [token for kind, token in parts if kind != "deleted"]

    def marked(self, tokens: Tokens, shown: Callable[[int, str], str]) -> list[Part]:
        """Return all tokens as parts of the edited text.

        `shown` is a function of the place after the edits and the token.
        """
        parts: list[Part] = []
        n_left = 0
        for place in range(len(tokens) + 1):
            for token in self.before(place):
                parts.append(("inserted", shown(n_left, token)))
                n_left += 1
            if place < len(tokens) and place in self.deleted:
                parts.append(("deleted", tokens[place]))
            elif place < len(tokens):
                parts.append(("kept", shown(n_left, tokens[place])))
                n_left += 1
        return parts

    def before(self, place: int) -> list[str]:
        """Return the tokens that are inserted at a position."""
        return [token for at, token in self.inserted if at == place]


@dataclass(frozen=True)
class Found:
    """Worst edits of some texts along their directions.

    - `values, upper` (n,): scores of the edited texts that are found, and upper bounds of the scores of
      all edited texts
    - `counts`: function that returns the counts of the features of these edited texts, (n, d)
    - `placed`: function from the place of a text among them to its edits
    """

    values: np.ndarray
    upper: np.ndarray
    counts: Callable[[], sp.csr_matrix]
    placed: Callable[[int], Placed]


# Search for the worst edits of some texts: a function of directions, (p, d), that of each text, (n,),
# and the numbers of the texts, all by default.
Search: TypeAlias = Callable[..., Found]


class TokenReader(ABC):
    """Reader of the tokens of texts, as a vectorizer reads them."""

    # Whether the worst edits are found.
    exact = False

    def __init__(self, step: Any) -> None:
        self.step = step
        self._split = tokenizer(step)
        self._stops = stop_words(step)

    @property
    def name(self) -> str:
        """Name of the vectorizer."""
        return type(self.step).__name__

    @abstractmethod
    def check(self, edits: TokenEdits) -> None:
        """Raise TypeError for edits that have no certificate."""

    def tokens(self, text: str) -> Tokens:
        """Return the tokens of a text, stop words included."""
        return self._split(text)

    def warn_of_neighbors(self, texts: Sequence[str], tokens: Sequence[Tokens], stacklevel: int) -> None:
        """Warn if edits of a word of these texts may change other tokens."""
        if lowers_by_neighbors(self.step, texts):
            reason, remedy = SIGMA_REASON.format(self.name), SIGMA_REMEDY
        else:
            place = self._with_neighbors(texts, tokens) if own_functions(self.step) else None
            if place is None:
                return
            reason = f"{self.name} reads words together with others in {shortened(texts[place], 40)!r}"
            remedy = "use functions and patterns that read each word alone"
        warnings.warn(
            f"{reason}, so an edit of one word may change several tokens. These certificates hold for "
            f"edits of tokens, not for edits of the text: {remedy}",
            TextEditsWarning,
            stacklevel=stacklevel + 1,
        )

    def _with_neighbors(self, texts: Sequence[str], tokens: Sequence[Tokens]) -> int | None:
        """Return the place of the first text whose tokens are not those of its words, or None."""
        for place, (text, found) in enumerate(zip(texts, tokens, strict=True)):
            if list(found) != [token for word in text.split() for token in self._split(word)]:
                return place
        return None

    @abstractmethod
    def counts(self, texts: Sequence[Tokens]) -> sp.csr_matrix:
        """Return the counts of the features of texts, given as tokens, (n, d)."""

    @abstractmethod
    def search(
        self,
        texts: Sequence[Tokens],
        edits: TokenEdits,
        normalization: Normalization,
        tolerance: float = TOLERANCE,
    ) -> Search:
        """Return the search for the worst edits of texts."""

    def row_edits(
        self, rows: sp.csr_matrix, edits: TokenEdits, normalization: Normalization
    ) -> RowEdits | None:
        """Describe edits of texts as edits of their rows; None if they are not."""
        return None

    def allowed(self, entries: Sequence[Any]) -> list[str]:
        """Return allowed tokens as the vectorizer reads them."""
        found = [list(self.tokens(str(entry))) for entry in entries]
        for entry, tokens in zip(entries, found, strict=True):
            if len(tokens) != 1:
                raise ValueError(
                    f"allowed must contain single tokens of {self.name}, got {entry!r}, which it reads "
                    f"as {tokens}"
                )
        return [tokens[0] for tokens in found]

    def parts(
        self, texts: Sequence[str], tokens: Sequence[Tokens], placed: Sequence[Placed]
    ) -> list[list[Part]]:
        """Return the parts of edited texts.

        Each part has a kind, "kept", "deleted" or "inserted", and its text.
        """
        found = []
        for place, each in enumerate(zip(texts, tokens, placed, strict=True)):
            parts = self._parts_of(*each)
            if parts is None:
                raise ValueError(
                    f"{self.name} would split the edited text X[{place}] into other tokens than the "
                    f"intended ones: {shortened(texts[place], 40)!r}. Certificates are valid. Leave "
                    "this text out, or use functions and patterns that read each word alone"
                )
            found.append(parts)
        return found

    def _parts_of(self, text: str, tokens: Tokens, placed: Placed) -> list[Part] | None:
        """Return the parts of an edited text, or None if it would have other tokens."""
        intended = placed.applied(tokens)
        if intended == list(tokens):
            return [("kept", text)]
        parts = [(kind, part) for kind, part in self._parts(text, tokens, placed) if part]
        return parts if list(self.tokens(after_edits(parts))) == intended else None

    def _parts(self, text: str, tokens: Tokens, placed: Placed) -> list[Part]:
        """Return the text with edits between its other characters, or the tokens in sequence."""
        step = self.step
        if callable(step.analyzer) or step.tokenizer is not None:
            blank = len(placed.applied(tokens)) - 1
            return placed.marked(tokens, lambda at, token: token + " " * (at < blank))
        prepared, pattern = step.build_preprocessor()(text), re.compile(step.token_pattern)
        # Letters keep their case if they keep their places.
        text = text if len(prepared) == len(text) else prepared
        spans = [found.span(pattern.groups) for found in pattern.finditer(prepared)]
        parts, at = [], 0
        for place, (start, stop) in enumerate(spans):
            new = " ".join(placed.before(place))
            if place in placed.deleted:
                parts += [("kept", text[at:start]), ("deleted", text[start:stop]), ("inserted", new)]
                at = stop
            elif new:
                parts += [("kept", text[at:start]), ("inserted", f"{new} ")]
                at = start
        end = [("inserted", f" {token}") for token in placed.before(len(spans))]
        return [*parts, ("kept", text[at:]), *end]


class Words(TokenReader):
    """Tokens with one feature each.

    The code of a token is twice its feature, plus 1 if it lowers the count of a hashed feature.
    """

    exact = True

    def __init__(self, step: Any) -> None:
        super().__init__(step)
        self._names: dict[int, str] = {}
        self._numbers: np.ndarray = np.zeros(0, dtype=np.int64)
        self._n_hashed = 0
        self._known: dict[str, int] = {}
        self._last: tuple[Sequence[Tokens], CountedWords] | None = None
        self.n_features = step.n_features if hashes(step) else len(step.vocabulary_)

    def check(self, edits: TokenEdits) -> None:
        if edits.edit == "replace" and hashes(self.step):
            raise without_replacements(
                "HashingVectorizer, in which every inserted token changes a column", edits
            )

    def counts(self, texts: Sequence[Tokens]) -> sp.csr_matrix:
        words = self._counted(texts)
        shape = len(words), self.n_features
        return sp.csr_matrix((words.counts(), words.indices, words.indptr), shape=shape)

    def search(
        self,
        texts: Sequence[Tokens],
        edits: TokenEdits,
        normalization: Normalization,
        tolerance: float = TOLERANCE,
    ) -> Search:
        words, most = self._counted(texts), int(edits.max_changes)
        if edits.edit in ("drop", "replace"):
            most = min(most, int(np.diff(TokenTexts.of(texts).starts).max(initial=0)))
        masks = self._insertable(edits.allowed)
        search = RatioSearch(words, normalization, edits.edit, most, *masks, tolerance)

        def worst(V: np.ndarray, assign: np.ndarray, rows: Rows = ALL_ROWS) -> Found:
            changes = search.worst(V * normalization.scale, assign, rows)

            def placed(at: int) -> Placed:
                return _placed(self, texts[changes.rows[at]], edits.edit, changes.of(at))

            counts = partial(changes.counts, self.n_features)
            return Found(changes.values, changes.upper, counts, placed)

        return worst

    def row_edits(
        self, rows: sp.csr_matrix, edits: TokenEdits, normalization: Normalization
    ) -> RowEdits | None:
        # Each token must add the same positive number to its own entry of a row.
        scale, most = normalization.scale, int(edits.max_changes)
        if normalization.norm is not None or normalization.terms != "counts" or signed(self.step):
            return None
        if edits.edit not in ("drop", "add") or not np.all(scale > 0):
            return None
        every, none = np.ones(rows.shape[0], dtype=bool), np.empty(0)
        if edits.edit == "add":
            # All insertions are of the best token, so that they are one edit.
            rising, _ = self._insertable(edits.allowed)
            return RowEdits(min(most, 1), 1.0, 1.0, most * scale * rising, True, rows, every)
        units = np.rint(rows.data / scale[rows.indices]).astype(np.int32)
        several = units if units.max(initial=0) > 1 else units[:0]
        return RowEdits(most, 0.0, 1.0, none, False, rows, every, several)

    def codes_of(self, tokens: Tokens) -> list[int]:
        """Return the code of each token; -1 for tokens without a feature."""
        if hashes(self.step):
            missing = [token for token in set(tokens) if token not in self._known]
            if missing:
                self._known.update(zip(missing, self._hashed(missing), strict=True))
            codes = [self._known[token] for token in tokens]
        else:
            find = self.step.vocabulary_.get
            codes = [UNKNOWN if (at := find(token)) is None else 2 * at for token in tokens]
        if self._stops:
            codes = [
                UNKNOWN if token in self._stops else code
                for token, code in zip(tokens, codes, strict=True)
            ]
        return codes

    def name_of(self, code: int) -> str:
        """Return a token with a code."""
        names = self._names
        if code not in names:
            known = self._known if hashes(self.step) else self.step.vocabulary_
            codes = zip(self.codes_of(list(known)), known, strict=True)
            names.update({at: token for at, token in reversed(list(codes)) if at != UNKNOWN})
        # Only hashed columns have no token that is known.
        return names[code] if code in names else self._made_up_of(code)

    def _made_up_of(self, code: int) -> str:
        """Return a made-up token with a code of hashed tokens."""
        if not len(self._numbers):
            self._numbers = np.full(2 * self.n_features, -1, dtype=np.int64)
        while self._numbers[code] < 0 and self._n_hashed < _MADE_UP:
            numbers = range(self._n_hashed, self._n_hashed + _AT_ONCE)
            self._numbers[self._hashed(list(map(_made_up_token, numbers)))] = numbers
            self._n_hashed += _AT_ONCE
        if self._numbers[code] < 0:
            raise ValueError(
                f"no token was found that changes column {code >> 1} of {self.name}: pass allowed, or "
                "fewer columns"
            )
        return _made_up_token(int(self._numbers[code]))

    def _hashed(self, tokens: Sequence[str]) -> list[int]:
        from sklearn.feature_extraction import FeatureHasher

        hasher = FeatureHasher(
            self.n_features, input_type="string", dtype=np.float64, alternate_sign=signed(self.step)
        )
        rows = hasher.transform([token] for token in tokens)
        return (2 * rows.indices.astype(np.int64) + (rows.data < 0)).tolist()

    def _counted(self, texts: Sequence[Tokens]) -> CountedWords:
        """Count the features of texts; the last result is stored, for the same texts."""
        if self._last is None or self._last[0] is not texts:
            read = TokenTexts.of(texts)
            codes = np.array(self.codes_of(read.names), dtype=np.int64)
            self._last = texts, CountedWords.of(read, codes, self.n_features)
        return self._last[1]

    def _insertable(self, allowed: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
        """Return masks of the features whose count an inserted token can raise, and lower."""
        masks = np.zeros((2, self.n_features), dtype=bool)
        if allowed is None:
            masks[: 1 + signed(self.step)] = True
            if not hashes(self.step):
                listed = self.step.vocabulary_
                masks[0, [listed[word] for word in self._stops if word in listed]] = False
        else:
            tokens = self.allowed(allowed)
            codes = np.fromiter(self.codes_of(tokens), np.int64, len(tokens))
            masks[codes[codes >= 0] % 2, codes[codes >= 0] >> 1] = True
        return masks[0], masks[1]


def _made_up_token(number: int) -> str:
    return f"zz{number:x}".translate(_LETTERS)


def _placed(reader: Words, tokens: Tokens, edit: str, changes: dict[int, int]) -> Placed:
    """Return the edits of a text with these changes of counts.

    The first tokens of a feature are deleted, and new tokens come last or replace deleted ones.
    """
    codes = reader.codes_of(tokens)
    fewer: dict[int, int] = {}
    new: list[int] = []
    for feature, move in changes.items():
        # Deleted tokens of one sign change the count like inserted tokens of the other sign.
        code = 2 * feature + (move > 0)
        n_deleted = 0 if edit == "add" else min(abs(move), codes.count(code))
        fewer[code] = fewer.get(code, 0) + n_deleted
        new += [code ^ 1] * (abs(move) - n_deleted)
    fewer[UNKNOWN] = max(0, len(new) - sum(fewer.values())) if edit == "replace" else 0
    places = []
    for place, code in enumerate(codes):
        if fewer.get(code, 0) > 0:
            fewer[code] -= 1
            places.append(place)
    names = [reader.name_of(code) for code in new]
    if edit != "replace":
        return Placed(places, [(len(codes), name) for name in names])
    unknown = unknown_token(lambda name: reader.codes_of([name]) != [UNKNOWN])
    names += [unknown] * (len(places) - len(names))
    return Placed(places, list(zip(places, names, strict=True)))


def unknown_token(is_known: Callable[[str], bool]) -> str:
    """Return a token without a feature."""
    return next(name for times in range(2, 64) if not is_known(name := "z" * times))


def without_replacements(what: str, edits: TokenEdits) -> TypeError:
    """Return the error for replaced tokens, with the edits that include them."""
    return TypeError(
        f"TokenEdits('replace') does not support {what}: use edit='edit' and "
        f"max_changes={2 * edits.max_changes}, which include these edits"
    )


def column_names(step: Any) -> list[str]:
    """Return the names of the columns of a vectorizer with a vocabulary."""
    return sorted(step.vocabulary_, key=step.vocabulary_.__getitem__)
