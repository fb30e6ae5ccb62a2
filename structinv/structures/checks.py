"""Tests of a structure of one's own, as scikit-learn's ``check_estimator`` is for estimators."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .base import Decoding, Structure, decoded
from .bound import BoundStructure
from .layout import Layout
from .rivals import Rivals

_TOLERANCE = 1e-9
MOST_LABELLINGS = 1000


class StructureCheckError(AssertionError):
    """A structure breaks its contract; the message says which part, and shows an example."""


def check_structure(
    structure: Structure,
    *,
    n_labels: int = 3,
    longest: int = 4,
    trials: int = 30,
    random_state: int | np.random.Generator = 0,
) -> None:
    """Compare what a structure answers with all labellings that it `allows`, on small random examples.

    Random potentials, potentials with ties, labels that are barred, one row, and one example beside
    several are asked about. `decode` and `separate` must find a labelling that no other one beats, or
    say in `upper` by how much it can be; `runner_up` one that differs, and that no other one beats.

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
    StructureCheckError
        If the contract is broken.
    TypeError, ValueError
        If an answer is of another kind; the message names the method.

    Examples
    --------
    >>> from structinv.structures import Sequence, Structure, check_structure
    >>> check_structure(Sequence())
    >>> class Careless(Sequence):
    ...     "Forgets that labels follow one another."
    ...     def decode(self, potentials, extra, layout):
    ...         return Decoding(np.argmax(potentials, axis=1))
    >>> check_structure(Careless())  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    StructureCheckError: Careless.decode: a labelling that it does not find scores ...
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
    if not structure.rowwise and n_labels**longest > MOST_LABELLINGS:
        raise ValueError(
            f"n_labels ** longest must be at most {MOST_LABELLINGS}, since all labellings are compared, "
            f"got {n_labels} ** {longest}"
        )
    if len(structure.functions(n_labels)) != n_labels:
        raise StructureCheckError(f"{_name(structure)}.functions: not one function for each label")
    for number in range(trials):
        lengths = [1] if number == 0 else rng.integers(1, longest + 1, size=rng.integers(1, 4)).tolist()
        if structure.rowwise:
            lengths = [1] * sum(lengths)
        elif structure.one_row:
            lengths = [max(2, lengths[0])] * len(lengths)
        case = _drawn(structure, n_labels, lengths, number, rng)
        _check_features(case)
        _check_decode(case)
        _check_separate(case)
        _check_runner_up(case)


@dataclass
class _Case:
    """Examples to ask about."""

    structure: Structure
    bound: BoundStructure
    potentials: np.ndarray
    barred: np.ndarray
    extra: np.ndarray
    layout: Layout

    def labellings(self, block: int) -> np.ndarray:
        """All labellings of an example, one a row."""
        length = self.layout.sizes[block]
        return np.array(list(product(range(self.bound.n_labels), repeat=length)))

    def scores(self, block: int, potentials: np.ndarray) -> np.ndarray:
        """The score of each of its labellings, from the definition."""
        labels, one = self.labellings(block), self.layout.take(np.array([block]))
        own = self.own(block, potentials)
        total = own[np.arange(len(own)), labels].sum(axis=1)
        if len(self.extra):
            rows = [self.structure.features(each, one, self.bound.n_labels) for each in labels]
            total = total + np.array([float((row @ self.extra)[0]) for row in rows])
        allowed = [self.structure.allows(each, one, self.bound.n_labels)[0] for each in labels]
        return np.where(allowed, total, -np.inf)

    def own(self, block: int, each: np.ndarray) -> np.ndarray:
        """Of an array with an entry a row the part of an example."""
        return each[self.layout.starts[block] : self.layout.starts[block + 1]]

    def place(self, block: int, labels: np.ndarray) -> int:
        """Which of an example's labellings it is given by labels of all rows."""
        own = self.own(block, labels)
        return int(np.flatnonzero(np.all(self.labellings(block) == own, axis=1))[0])


def _name(structure: Structure) -> str:
    return type(structure).__name__


def _labels_it_takes(structure: Structure, n_labels: int) -> int:
    if not structure.labelled:
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
    layout = Layout.of_lengths(lengths)
    grouped = None if structure.rowwise else layout
    if structure.labelled:
        structure = structure.prepared(np.arange(n_labels), rng.integers(n_labels, size=n_rows), grouped)
        extra = np.zeros(structure.n_extra(n_labels))
        # A labelling that there is.
        y = decoded(structure, rng.standard_normal((n_rows, n_labels)), extra, layout).labels
        cost = rng.random((n_labels, n_labels)) * (1.0 - np.eye(n_labels))
        bound = structure.bind(y, np.arange(n_labels), layout=grouped, cost=cost)
    else:
        bound = structure.bind(rng.standard_normal(n_rows), layout=grouped)
    potentials, extra = rng.standard_normal((n_rows, n_labels)), rng.standard_normal(bound.n_extra)
    if number % 3 == 1:
        # Ties: few values, and no extra parameters.
        potentials, extra = np.round(potentials), np.zeros(bound.n_extra)
    barred = potentials.copy()
    if n_labels > 2:
        barred[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = -np.inf
    return _Case(structure, bound, potentials, barred, extra, layout)


def _check_features(case: _Case) -> None:
    """Features of an example do not depend on the others."""
    n_labels = case.bound.n_labels
    together = case.structure.features(case.bound.codes, case.layout, n_labels) @ case.extra
    for block in range(len(case.layout)):
        own, one = case.own(block, case.bound.codes), case.layout.take(np.array([block]))
        alone = case.structure.features(own, one, n_labels) @ case.extra
        if np.max(np.abs(alone - together[block]), initial=0.0) > _TOLERANCE:
            raise StructureCheckError(
                f"{_name(case.structure)}.features: example {block} has other features beside others"
            )


def _check_best(
    case: _Case, method: str, potentials: np.ndarray, found: Decoding, allowed: Any = None
) -> None:
    """Compare a labelling of each example, and its bound, with all that are allowed."""
    for block in range(len(case.layout)):
        scores = case.scores(block, potentials)
        if allowed is not None:
            scores = np.where(allowed(block), scores, -np.inf)
        best, reached = scores.max(), scores[case.place(block, found.labels)]
        if best == -np.inf:
            continue
        bound = reached if found.upper is None else found.upper[block]
        room = _TOLERANCE * (1.0 + abs(best))
        if not bound >= best - room:
            raise StructureCheckError(
                f"{_name(case.structure)}.{method}: a labelling that it does not find scores "
                f"{best:.6g}, and its own {reached:.6g}, with a bound of {bound:.6g}, for\n{potentials}"
            )
        if not bound >= reached - room:
            raise StructureCheckError(
                f"{_name(case.structure)}.{method}: its bound {bound:.6g} is below what its own "
                f"labelling scores, {reached:.6g}"
            )


def _check_decode(case: _Case) -> None:
    for potentials in (case.potentials, case.barred):
        before = potentials.copy()
        found = decoded(case.structure, potentials, case.extra, case.layout)
        if not np.array_equal(before, potentials):
            raise StructureCheckError(f"{_name(case.structure)}.decode: changes the potentials")
        _check_best(case, "decode", potentials, found)


@dataclass
class _Found:
    gains: np.ndarray
    costs: np.ndarray
    upper: np.ndarray


def _check_separate(case: _Case) -> None:
    """The most violated labelling, with bounds that are tight and with such that are not."""
    rivals: Rivals = case.bound.rivals()
    every = np.arange(len(rivals))
    gains = case.potentials - case.potentials[every, rivals.codes][:, None]
    wrong = np.arange(rivals.n_labels) != rivals.codes[:, None]
    for loose in (0.0, 0.5):
        upper = gains + rivals.costs + loose * wrong
        found = _Found(gains, rivals.costs, upper)
        layout = None if case.structure.rowwise else case.layout
        answer = case.bound.separate(rivals, found, case.extra, layout)
        for block in range(len(case.layout)):
            truth = case.place(block, rivals.codes)
            reached, above = (case.scores(block, each) for each in (gains + rivals.costs, upper))
            finite = np.isfinite(reached)
            value = reached[case.place(block, answer.labels)] - reached[truth]
            room = _TOLERANCE * (1.0 + np.abs(reached[finite]).max())
            if answer.upper[block] < max(0.0, (above - above[truth]).max()) - room:
                raise StructureCheckError(
                    f"{_name(case.structure)}.separate: upper {answer.upper[block]:.6g} is below a "
                    f"labelling that wins {(above - above[truth]).max():.6g}"
                )
            if value < -room:
                raise StructureCheckError(
                    f"{_name(case.structure)}.separate: its labelling does worse than the true one"
                )


def _check_runner_up(case: _Case) -> None:
    codes = case.bound.codes
    layout = None if case.structure.rowwise else case.layout
    found = case.bound.runner_up(case.potentials, codes, case.extra, layout)

    def other(block: int) -> np.ndarray:
        return np.any(case.labellings(block) != case.own(block, codes), axis=1)

    for block in range(len(case.layout)):
        if not other(block)[case.place(block, found.labels)]:
            raise StructureCheckError(
                f"{_name(case.structure)}.runner_up: gives the labelling that it was to differ from"
            )
    _check_best(case, "runner_up", case.potentials, found, other)
