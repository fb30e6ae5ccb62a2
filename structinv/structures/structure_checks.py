"""Tests of a structure of one's own, as scikit-learn's ``check_estimator`` is for estimators."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..utils.exceptions import CheckError
from .base import Structure
from .bound import BoundStructure
from .checked_structure import decoded
from .competitors import Competitors
from .decodings import Decoding, Separation
from .layout import Layout

# Relative difference that rounding explains.
_TOLERANCE = 1e-9
# All labelings of an example are compared, up to so many.
MOST_LABELINGS = 1000
# Levels of the graded potentials that are tried.
N_LEVELS = 3


def check_structure(
    structure: Structure,
    *,
    n_labels: int = 3,
    longest: int = 4,
    trials: int = 30,
    random_state: int | np.random.Generator = 0,
) -> None:
    """Compare what a structure answers with all labelings that it `allows`, on small random examples.

    Random potentials, potentials with ties, labels that are barred, one row, and one example beside
    several are asked about. `decode` and `separate` must find a labeling that no other one beats, or
    say in `upper` by how much it can be; `runner_up` one that differs, and that no other one beats;
    `most_wrong` no fewer rows than differ in one that scores enough. A structure that `budgets` is asked
    about potentials with an axis of levels, too.

    Parameters
    ----------
    structure : Structure
    n_labels : int, default=3
        Labels of the examples; structures of two classes take 2.
    longest : int, default=4
        Most rows of an example; rows are examples of their own where the structure is `rowwise`.
    trials : int, default=30
    random_state : int or Generator, default=0

    Raises
    ------
    CheckError
        If the contract is broken.
    TypeError, ValueError
        If an answer is of another kind; the message names the method.

    Examples
    --------
    >>> from structinv.structures import Sequence, Structure, check_structure
    >>> check_structure(Sequence())
    >>> class Careless(Sequence):
    ...     "Forgets that labels follow one another."
    ...     def decode(self, potentials, pairwise, layout):
    ...         return Decoding(np.argmax(potentials, axis=1))
    >>> check_structure(Careless())  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    CheckError: Careless.decode: a labeling that it does not find scores ...
    """
    if not isinstance(structure, Structure):
        raise TypeError(f"structure must be an instance of a Structure, got {structure!r}")
    for name, value, least in (
        ("n_labels", n_labels, 2),
        ("longest", longest, 1),
        ("trials", trials, 1),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    rng = np.random.default_rng(random_state)
    n_labels = _labels_it_takes(structure, n_labels)
    if not structure.rowwise and n_labels**longest > MOST_LABELINGS:
        raise ValueError(
            f"n_labels ** longest must be at most {MOST_LABELINGS}, since all labelings are compared, "
            f"got {n_labels} ** {longest}"
        )
    if len(structure.functions(n_labels)) != n_labels:
        raise CheckError(f"{_name(structure)}.functions: not one function for each label")
    for number in range(trials):
        lengths = [1] if number == 0 else rng.integers(1, longest + 1, size=rng.integers(1, 4)).tolist()
        if structure.rowwise:
            lengths = [1] * sum(lengths)
        elif structure.one_row:
            lengths = [lengths[0]] * len(lengths)
        case = _drawn(structure, n_labels, lengths, number, rng)
        _check_features(case)
        _check_decode(case)
        _check_separate(case)
        _check_runner_up(case)
        _check_most_wrong(case)
        if structure.budgets:
            leveled = case.with_levels(rng)
            for check in (_check_decode, _check_separate, _check_runner_up, _check_most_wrong):
                check(leveled)


@dataclass
class _Case:
    """Examples to ask about."""

    structure: Structure
    bound: BoundStructure
    potentials: np.ndarray
    barred: np.ndarray
    pairwise: np.ndarray
    layout: Layout
    rests: dict[int, np.ndarray] = field(default_factory=dict)

    def labelings(self, block: int) -> np.ndarray:
        """All labelings of an example, one a row."""
        length = self.layout.lengths[block]
        return np.array(list(product(range(self.bound.n_labels), repeat=length)))

    def scores(self, block: int, potentials: np.ndarray) -> np.ndarray:
        """The score of each of its labelings, at the best levels, from the definition."""
        own, labels = self.own(block, potentials), self.labelings(block)
        each = np.arange(len(own))
        total = np.max([_at(own, each, labels, used).sum(axis=1) for used in _levels(own)], axis=0)
        return total + self.rest(block)

    def rest(self, block: int) -> np.ndarray:
        """What the pairwise weights give each of its labelings; minus infinity for one there is not."""
        if block not in self.rests:
            labels, one = self.labelings(block), self.layout.take(np.array([block]))
            total = np.zeros(len(labels))
            if len(self.pairwise):
                rows = [self.structure.features(each, one, self.bound.n_labels) for each in labels]
                total = np.array([float((row @ self.pairwise)[0]) for row in rows])
            allowed = [self.structure.allows(each, one, self.bound.n_labels)[0] for each in labels]
            self.rests[block] = np.where(allowed, total, -np.inf)
        return self.rests[block]

    def reached(self, block: int, potentials: np.ndarray, found: Decoding | Separation) -> float:
        """The score of the labeling found, at its levels."""
        own, labels = self.own(block, potentials), self.own(block, found.labels)
        levels = None if found.levels is None else self.own(block, found.levels)
        rest = self.rest(block)[self.place(block, found.labels)]
        return float(rest + _at(own, np.arange(len(own)), labels, levels).sum())

    def with_levels(self, rng: np.random.Generator) -> _Case:
        """Examples with potentials that rise with levels, 0 to 2."""
        rise = np.cumsum(rng.random((*self.potentials.shape, N_LEVELS)), axis=2) - 0.5
        return replace(
            self,
            potentials=self.potentials[:, :, None] + rise,
            barred=self.barred[:, :, None] + rise,
        )

    def own(self, block: int, each: np.ndarray) -> np.ndarray:
        """Of an array with an entry a row the part of an example."""
        return each[self.layout.starts[block] : self.layout.starts[block + 1]]

    def place(self, block: int, labels: np.ndarray) -> int:
        """Which of an example's labelings it is given by labels of all rows."""
        own = self.own(block, labels)
        return int(np.flatnonzero(np.all(self.labelings(block) == own, axis=1))[0])


def _levels(own: np.ndarray) -> list[Any]:
    """All levels of an example's rows that add up to the last one at most; None where there are none."""
    if own.ndim == 2:
        return [None]
    every = product(range(own.shape[2]), repeat=len(own))
    return [np.array(each) for each in every if sum(each) < own.shape[2]]


def _at(own: np.ndarray, each: np.ndarray, labels: np.ndarray, levels: Any) -> np.ndarray:
    """Potentials of labels at the levels given."""
    return own[each, labels] if own.ndim == 2 else own[each, labels, levels]


def _name(structure: Structure) -> str:
    return type(structure).__name__


def _labels_it_takes(structure: Structure, n_labels: int) -> int:
    if not structure.labeled:
        return len(structure.functions(n_labels))
    try:
        structure.check_classes(np.arange(n_labels))
    except ValueError:
        structure.check_classes(np.arange(2))
        return 2
    return n_labels


def _drawn(
    structure: Structure, n_labels: int, lengths: list[int], number: int, rng: np.random.Generator
) -> _Case:
    n_rows = sum(lengths)
    layout = structure.drawn(lengths, rng)
    grouped = None if structure.rowwise else layout
    if structure.labeled:
        structure = structure.prepared(np.arange(n_labels), rng.integers(n_labels, size=n_rows), grouped)
        pairwise = np.zeros(structure.n_pairwise(n_labels))
        # A labeling that there is.
        y = decoded(structure, rng.standard_normal((n_rows, n_labels)), pairwise, layout).labels
        cost = rng.random((n_labels, n_labels)) * (1.0 - np.eye(n_labels))
        bound = structure.bind(y, np.arange(n_labels), layout=grouped, cost=cost)
    else:
        bound = structure.bind(rng.standard_normal(n_rows), layout=grouped)
    potentials, pairwise = (
        rng.standard_normal((n_rows, n_labels)),
        rng.standard_normal(bound.n_pairwise),
    )
    if number % 3 == 1:
        # Ties: few values, and no pairwise weights.
        potentials, pairwise = np.round(potentials), np.zeros(bound.n_pairwise)
    barred = potentials.copy()
    if n_labels > 2:
        barred[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = -np.inf
    return _Case(structure, bound, potentials, barred, pairwise, layout)


def _check_features(case: _Case) -> None:
    """Features of an example do not depend on the others, and scores are what features say."""
    n_labels = case.bound.n_labels
    together = case.structure.features(case.bound.codes, case.layout, n_labels) @ case.pairwise
    for block in range(len(case.layout)):
        own, one = case.own(block, case.bound.codes), case.layout.take(np.array([block]))
        alone = case.structure.features(own, one, n_labels) @ case.pairwise
        if np.max(np.abs(alone - together[block]), initial=0.0) > _TOLERANCE:
            raise CheckError(
                f"{_name(case.structure)}.features: example {block} has other features beside others"
            )
    scores = case.structure.pairwise_score(case.bound.codes, case.pairwise, case.layout, n_labels)
    off = np.flatnonzero(np.abs(scores - together) > _TOLERANCE)
    if len(off):
        raise CheckError(
            f"{_name(case.structure)}.pairwise_score: example {off[0]} has {scores[off[0]]:.12g}, its "
            f"features times the parameters are {together[off[0]]:.12g}"
        )


def _check_best(
    case: _Case, method: str, potentials: np.ndarray, found: Decoding, allowed: Any = None
) -> None:
    """Compare a labeling of each example, and its bound, with all that are allowed."""
    for block in range(len(case.layout)):
        scores = case.scores(block, potentials)
        if allowed is not None:
            scores = np.where(allowed(block), scores, -np.inf)
        best, reached = scores.max(), case.reached(block, potentials, found)
        if best == -np.inf:
            continue
        bound = reached if found.upper is None else found.upper[block]
        room = _TOLERANCE * (1.0 + abs(best))
        if not bound >= best - room:
            raise CheckError(
                f"{_name(case.structure)}.{method}: a labeling that it does not find scores "
                f"{best:.6g}, and its own {reached:.6g}, with a bound of {bound:.6g}, for\n{potentials}"
            )
        if not bound >= reached - room:
            raise CheckError(
                f"{_name(case.structure)}.{method}: its bound {bound:.6g} is below what its own "
                f"labeling scores, {reached:.6g}"
            )


def _of_shares(case: _Case, potentials: np.ndarray, found: Any) -> np.ndarray:
    """The score of shares of labels, of each example."""
    each = np.where(found.shares > 0, potentials, 0.0) * found.shares
    return case.layout.sums(each.sum(axis=1)) + found.features @ case.pairwise


def _check_shares(case: _Case, method: str, potentials: np.ndarray, found: Any) -> None:
    """Shares reach no less than the labels beside them, and no more than the bound."""
    reached = _of_shares(case, potentials, found)
    scores = case.structure.score(potentials, found.labels, case.pairwise, case.layout)
    room = _TOLERANCE * (1.0 + np.abs(reached))
    wrong = np.flatnonzero((reached < scores - room) | (reached > found.upper + room))
    if len(wrong):
        b = wrong[0]
        raise CheckError(
            f"{_name(case.structure)}.{method}: its shares score {reached[b]:.6g}, which is not between "
            f"{scores[b]:.6g}, what its labeling does, and its bound {found.upper[b]:.6g}"
        )


def _check_decode(case: _Case) -> None:
    for potentials in (case.potentials, case.barred):
        before = potentials.copy()
        found = decoded(case.structure, potentials, case.pairwise, case.layout)
        if not np.array_equal(before, potentials):
            raise CheckError(f"{_name(case.structure)}.decode: changes the potentials")
        _check_best(case, "decode", potentials, found)
        if found.shares is not None:
            _check_shares(case, "decode", potentials, found)


def _check_separate(case: _Case) -> None:
    """The most violated labeling, with bounds that are tight and with such that are not."""
    competitors: Competitors = case.bound.competitors()
    every = np.arange(len(competitors))
    gains = case.potentials - case.potentials[every, competitors.codes][:, None]
    wrong = np.arange(competitors.n_labels) != competitors.codes[:, None]
    costs = (
        competitors.costs
        if gains.ndim == 2
        else np.repeat(competitors.costs[:, :, None], N_LEVELS, axis=2)
    )
    for loose in (0.0, 0.5):
        upper = gains + costs + loose * (wrong if gains.ndim == 2 else wrong[:, :, None])
        found = SimpleNamespace(gains=gains, costs=costs, upper=upper)
        layout = None if case.structure.rowwise else case.layout
        answer = case.bound.separate(competitors, found, case.pairwise, layout)
        for block in range(len(case.layout)):
            truth = case.place(block, competitors.codes)
            reached, above = (case.scores(block, each) for each in (gains + costs, upper))
            finite = np.isfinite(reached)
            value = case.reached(block, gains + costs, answer) - reached[truth]
            if answer.shares is not None:
                value = _of_shares(case, gains + costs, answer)[block] - reached[truth]
            room = _TOLERANCE * (1.0 + np.abs(reached[finite]).max())
            if answer.upper[block] < max(0.0, (above - above[truth]).max()) - room:
                raise CheckError(
                    f"{_name(case.structure)}.separate: upper {answer.upper[block]:.6g} is below a "
                    f"labeling that wins {(above - above[truth]).max():.6g}"
                )
            if value < -room:
                raise CheckError(
                    f"{_name(case.structure)}.separate: its labeling does worse than the true one"
                )


def _check_runner_up(case: _Case) -> None:
    codes = case.bound.codes
    layout = None if case.structure.rowwise else case.layout
    found = case.bound.runner_up(case.potentials, codes, case.pairwise, layout)

    def other(block: int) -> np.ndarray:
        return np.any(case.labelings(block) != case.own(block, codes), axis=1)

    for block in range(len(case.layout)):
        if not other(block)[case.place(block, found.labels)]:
            raise CheckError(
                f"{_name(case.structure)}.runner_up: gives the labeling that it was to differ from"
            )
    _check_best(case, "runner_up", case.potentials, found, other)


def _check_most_wrong(case: _Case) -> None:
    """At floors that all labelings reach, some of them, and the best one only."""
    codes, layout = case.bound.codes, case.layout
    every = [case.scores(block, case.potentials) for block in range(len(layout))]
    finite = [scores[np.isfinite(scores)] for scores in every]
    for share in (0.0, 0.6, 1.0):
        floors = np.array([np.quantile(scores, share) for scores in finite]) - _TOLERANCE
        found = case.bound.most_wrong(case.potentials, codes, floors, case.pairwise, layout)
        for block, scores in enumerate(every):
            differ = np.sum(case.labelings(block) != case.own(block, codes), axis=1)
            most = np.max(differ[scores >= floors[block] + _TOLERANCE])
            if found[block] < most:
                raise CheckError(
                    f"{_name(case.structure)}.most_wrong: {found[block]} rows, where {most} differ in a "
                    "labeling that scores enough"
                )
