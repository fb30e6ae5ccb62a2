"""Tests of custom output structures, like scikit-learn's ``check_estimator``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..utils.exceptions import CheckError
from .base import Structure
from .bound import BoundStructure
from .competitors import Competitors
from .decodings import Decoding, Layout
from .inference import decoded, score_of
from .third_party import checked

# Relative tolerance for rounding errors.
_TOLERANCE = 1e-9
# Largest number of labelings of an example: all are compared.
MOST_LABELINGS = 1000
# Number of levels of the tested potentials.
N_LEVELS = 3


def check_structure(
    structure: Structure,
    *,
    n_labels: int = 3,
    longest: int = 4,
    trials: int = 30,
    random_state: int | np.random.Generator = 0,
) -> None:
    """Compare the results of a structure with all possible labelings.

    The examples are small and random. The scores include ties and forbidden labels. Some inputs have a
    single row, others several examples.

    - `decode` and `separate` must return a best labeling, or bound the best value by `upper`.
    - `runner_up` must return the best labeling that differs from the given one.
    - `most_wrong` must be at least the number of wrong rows of every labeling with a score of at least
      the threshold.

    If `budgets` is True, the tests also use scores with an axis of levels. `allows` defines the
    possible labelings.

    Parameters
    ----------
    structure : Structure
        Structure to test.
    n_labels : int, default=3
        Number of labels (>= 2); 2 if the structure supports only two classes.
    longest : int, default=4
        Largest number of rows of an example (>= 1). If the structure is `rowwise`, each row is an
        example.
    trials : int, default=30
        Number of random inputs (>= 1).
    random_state : int or numpy.random.Generator, default=0
        Seed or source of the inputs.

    Raises
    ------
    CheckError
        If a result is wrong.
    TypeError, ValueError
        If a result has a wrong type or shape. The message names the method.

    See Also
    --------
    check_custom : Test a structure of three functions.
    Structure : Base class of structures.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Decoding, Sequence, check_structure
    >>> check_structure(Sequence())
    >>> class Careless(Sequence):
    ...     "Ignores transition weights."
    ...     def decode(self, potentials, pairwise, layout):
    ...         return Decoding(np.argmax(potentials, axis=1))
    >>> check_structure(Careless())  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    CheckError: Careless.decode: another labeling has the score ...
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
            f"n_labels ** longest must be at most {MOST_LABELINGS}, because all labelings are compared, "
            f"got {n_labels} ** {longest}"
        )
    if len(structure.functions(n_labels)) != n_labels:
        raise CheckError(f"{_name(structure)}.functions: must return one function per label")
    for number in range(trials):
        lengths = [1] if number == 0 else rng.integers(1, longest + 1, size=rng.integers(1, 4)).tolist()
        if structure.rowwise:
            lengths = [1] * sum(lengths)
        elif structure.one_row:
            lengths = [lengths[0]] * len(lengths)
        case = _drawn(structure, n_labels, lengths, number, rng)
        case.bound.allowed()
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
    """Random examples for the tests."""

    structure: Structure
    bound: BoundStructure
    potentials: np.ndarray
    barred: np.ndarray
    pairwise: np.ndarray
    layout: Layout
    rests: dict[int, np.ndarray] = field(default_factory=dict)

    def labelings(self, block: int) -> np.ndarray:
        """Return all labelings of an example, one per row."""
        length = self.layout.lengths[block]
        return np.array(list(product(range(self.bound.n_labels), repeat=length)))

    def scores(self, block: int, potentials: np.ndarray) -> np.ndarray:
        """Return the score of each labeling at the best levels, from the definition."""
        some, labels = self.part(block, potentials), self.labelings(block)
        each = np.arange(len(some))
        total = np.max(
            [_at(some, each, labels, used).sum(axis=1) for used in _levels(some)],
            axis=0,
        )
        return total + self.rest(block)

    def rest(self, block: int) -> np.ndarray:
        """Return the pairwise score of each labeling; minus infinity if it is not allowed."""
        if block not in self.rests:
            labels, one = self.labelings(block), self.layout.take(np.array([block]))
            total = np.zeros(len(labels))
            if len(self.pairwise):
                rows = [self.structure.features(each, one, self.bound.n_labels) for each in labels]
                total = np.array([float((row @ self.pairwise)[0]) for row in rows])
            allowed = [self.structure.allows(each, one, self.bound.n_labels)[0] for each in labels]
            self.rests[block] = np.where(allowed, total, -np.inf)
        return self.rests[block]

    def reached(self, block: int, potentials: np.ndarray, found: Decoding) -> float:
        """Return the score of the returned labeling, at its levels."""
        own, labels = self.part(block, potentials), self.part(block, found.labels)
        levels = None if found.levels is None else self.part(block, found.levels)
        rest = self.rest(block)[self.place(block, found.labels)]
        return float(rest + _at(own, np.arange(len(own)), labels, levels).sum())

    def with_levels(self, rng: np.random.Generator) -> _Case:
        """Return a copy with potentials that increase with three levels."""
        rise = np.cumsum(rng.random((*self.potentials.shape, N_LEVELS)), axis=2) - 0.5
        return replace(
            self,
            potentials=self.potentials[:, :, None] + rise,
            barred=self.barred[:, :, None] + rise,
        )

    def part(self, block: int, each: np.ndarray) -> np.ndarray:
        """Return the part of an array with one entry per row that belongs to an example."""
        return each[self.layout.starts[block] : self.layout.starts[block + 1]]

    def place(self, block: int, labels: np.ndarray) -> int:
        """Return the index of an example's labeling, given labels of all rows."""
        labels_of_block = self.part(block, labels)
        return int(np.flatnonzero(np.all(self.labelings(block) == labels_of_block, axis=1))[0])


def _levels(own: np.ndarray) -> list[Any]:
    """Return all levels of an example that add up to at most the last one.

    The list contains only None if the potentials have no axis of levels.
    """
    if own.ndim == 2:
        return [None]
    every = product(range(own.shape[2]), repeat=len(own))
    return [np.array(each) for each in every if sum(each) < own.shape[2]]


def _at(own: np.ndarray, each: np.ndarray, labels: np.ndarray, levels: Any) -> np.ndarray:
    """Return the potentials of labels at these levels."""
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
        # `decoded` returns an allowed labeling.
        y = decoded(structure, rng.standard_normal((n_rows, n_labels)), pairwise, layout).labels
        cost = rng.random((n_labels, n_labels)) * (1.0 - np.eye(n_labels))
        bound = structure.bind(y, np.arange(n_labels), layout=grouped, cost=cost)
    else:
        bound = structure.bind(rng.standard_normal(n_rows), layout=grouped)
    potentials = rng.standard_normal((n_rows, n_labels))
    pairwise = rng.standard_normal(bound.n_pairwise)
    if number % 3 == 1:
        # Rounded potentials without pairwise weights have ties.
        potentials, pairwise = np.round(potentials), np.zeros(bound.n_pairwise)
    barred = potentials.copy()
    if n_labels > 2:
        barred[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = -np.inf
    return _Case(structure, bound, potentials, barred, pairwise, layout)


def _check_features(case: _Case) -> None:
    """Check that examples have separate features, and that scores match features."""
    n_labels = case.bound.n_labels
    together = case.structure.features(case.bound.codes, case.layout, n_labels) @ case.pairwise
    for block in range(len(case.layout)):
        own, one = case.part(block, case.bound.codes), case.layout.take(np.array([block]))
        alone = case.structure.features(own, one, n_labels) @ case.pairwise
        if np.max(np.abs(alone - together[block]), initial=0.0) > _TOLERANCE:
            raise CheckError(
                f"{_name(case.structure)}.features: the features of example {block} must not depend on "
                "other examples"
            )
    scores = checked(case.structure).pairwise_score(
        case.bound.codes, case.pairwise, case.layout, n_labels
    )
    off = np.flatnonzero(np.abs(scores - together) > _TOLERANCE)
    if len(off):
        raise CheckError(
            f"{_name(case.structure)}.pairwise_score: the score of example {off[0]} is "
            f"{scores[off[0]]:.12g}, but its features times the weights are {together[off[0]]:.12g}"
        )


def _check_best(
    case: _Case, method: str, potentials: np.ndarray, decoding: Decoding, allowed: Any = None
) -> None:
    """Compare the labeling of each example, and its bound, with all allowed ones."""
    for block in range(len(case.layout)):
        scores = case.scores(block, potentials)
        if allowed is not None:
            scores = np.where(allowed(block), scores, -np.inf)
        best, reached = scores.max(), case.reached(block, potentials, decoding)
        if best == -np.inf:
            continue
        bound = reached if decoding.upper is None else decoding.upper[block]
        margin = _TOLERANCE * (1.0 + abs(best))
        if not bound >= best - margin:
            raise CheckError(
                f"{_name(case.structure)}.{method}: another labeling has the score {best:.6g}, the "
                f"returned one has {reached:.6g}, with a bound of {bound:.6g}, for\n{potentials}"
            )
        if not bound >= reached - margin:
            raise CheckError(
                f"{_name(case.structure)}.{method}: the bound {bound:.6g} must not be below the score "
                f"of the returned labeling, {reached:.6g}"
            )


def _check_fractions(case: _Case, method: str, potentials: np.ndarray, found: Any) -> None:
    """Check that fractional labelings score between the labels and the bound."""
    reached = score_of(case.structure, potentials, found, case.pairwise, case.layout)
    scores = case.structure.score(potentials, found.labels, case.pairwise, case.layout)
    margin = _TOLERANCE * (1.0 + np.abs(reached))
    wrong = np.flatnonzero((reached < scores - margin) | (reached > found.upper + margin))
    if len(wrong):
        b = wrong[0]
        raise CheckError(
            f"{_name(case.structure)}.{method}: the score of its fractions must be between that of its "
            f"labels, {scores[b]:.6g}, and its bound {found.upper[b]:.6g}, got {reached[b]:.6g}"
        )


def _check_decode(case: _Case) -> None:
    for potentials in (case.potentials, case.barred):
        before = potentials.copy()
        decoding = decoded(case.structure, potentials, case.pairwise, case.layout)
        if not np.array_equal(before, potentials):
            raise CheckError(f"{_name(case.structure)}.decode: must not change the potentials")
        _check_best(case, "decode", potentials, decoding)
        if decoding.fractions is not None:
            _check_fractions(case, "decode", potentials, decoding)


def _check_separate(case: _Case) -> None:
    """Check the loss-augmented argmax, with bounds that are tight or loose."""
    competitors: Competitors = case.bound.competitors()
    every = np.arange(len(competitors))
    gains = case.potentials - case.potentials[every, competitors.codes][:, None]
    wrong = np.arange(competitors.n_labels) != competitors.codes[:, None]
    costs = competitors.costs
    if gains.ndim == 3:
        costs, wrong = np.repeat(costs[:, :, None], N_LEVELS, axis=2), wrong[:, :, None]
    for loose in (0.0, 0.5):
        upper = gains + costs + loose * wrong
        violations = SimpleNamespace(gains=gains, costs=costs, upper=upper)
        layout = None if case.structure.rowwise else case.layout
        answer = case.bound.separate(competitors, violations, case.pairwise, layout)
        for block in range(len(case.layout)):
            truth = case.place(block, competitors.codes)
            reached, above = (case.scores(block, each) for each in (gains + costs, upper))
            finite = np.isfinite(reached)
            value = case.reached(block, gains + costs, answer) - reached[truth]
            if answer.fractions is not None:
                shared = score_of(case.structure, gains + costs, answer, case.pairwise, case.layout)
                value = shared[block] - reached[truth]
            margin = _TOLERANCE * (1.0 + np.abs(reached[finite]).max())
            if answer.upper[block] < max(0.0, (above - above[truth]).max()) - margin:
                raise CheckError(
                    f"{_name(case.structure)}.separate: upper must not be below the largest loss, "
                    f"{(above - above[truth]).max():.6g}, got {answer.upper[block]:.6g}"
                )
            if value < -margin:
                raise CheckError(
                    f"{_name(case.structure)}.separate: the loss of its labeling must not be negative"
                )


def _check_runner_up(case: _Case) -> None:
    codes = case.bound.codes
    layout = None if case.structure.rowwise else case.layout
    decoding = case.bound.runner_up(case.potentials, codes, case.pairwise, layout)

    def other(block: int) -> np.ndarray:
        return np.any(case.labelings(block) != case.part(block, codes), axis=1)

    for block in range(len(case.layout)):
        if not np.any(other(block) & np.isfinite(case.rest(block))):
            # No other labeling is allowed, so the bound of the best one is minus infinity.
            continue
        if not other(block)[case.place(block, decoding.labels)]:
            raise CheckError(
                f"{_name(case.structure)}.runner_up: the labeling must differ from the given one"
            )
    _check_best(case, "runner_up", case.potentials, decoding, other)


def _check_most_wrong(case: _Case) -> None:
    """Check `most_wrong` for thresholds that all, some or only the best labelings attain."""
    codes, layout = case.bound.codes, case.layout
    every = [case.scores(block, case.potentials) for block in range(len(layout))]
    finite = [scores[np.isfinite(scores)] for scores in every]
    for share in (0.0, 0.6, 1.0):
        thresholds = np.array([np.quantile(scores, share) for scores in finite]) - _TOLERANCE
        counts = case.bound.most_wrong(case.potentials, codes, thresholds, case.pairwise, layout)
        for block, scores in enumerate(every):
            differ = np.sum(case.labelings(block) != case.part(block, codes), axis=1)
            most = np.max(differ[scores >= thresholds[block] + _TOLERANCE])
            if counts[block] < most:
                raise CheckError(
                    f"{_name(case.structure)}.most_wrong: must return at least {most}, the number of "
                    f"wrong rows of a sufficient labeling, got {counts[block]}"
                )
