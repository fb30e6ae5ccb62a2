"""Structures of single rows: two classes with one function, or any number with a function each."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Structure
from .competitors import Competitors, LabelFunctions
from .decodings import Decoding, Separation
from .layout import Layout

_ZERO_AND_F = LabelFunctions(np.zeros(2, dtype=np.int64), np.array([0.0, 1.0]))


class RowStructure(Structure):
    """A structure whose examples are single rows: the label of highest potential wins."""

    rowwise = True
    rescalings: tuple[str, ...] = ("margin", "slack")

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        """See `Structure.decode`; of equals the first."""
        return Decoding(np.argmax(potentials, axis=1))

    def separate(
        self, competitors: Competitors, found: Any, pairwise: np.ndarray, layout: Layout
    ) -> Separation:
        reached = found.gains + found.costs
        labels = np.argmax(reached, axis=1)
        # The true label wins nothing against itself, so that nothing is below zero.
        wins = np.max(reached, axis=1) > 0
        upper = np.max(found.upper, axis=1)
        return Separation(np.where(wins, labels, competitors.codes), np.maximum(0.0, upper))

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        others = potentials.copy()
        others[np.arange(len(codes)), codes] = -np.inf
        labels = np.argmax(others, axis=1)
        return Decoding(labels, others[np.arange(len(codes)), labels])

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        """See `Structure.best_by_wrong`; exact."""
        own = np.take_along_axis(potentials, codes[:, None], axis=1)[:, 0]
        highest: Any = self.runner_up(potentials, codes, pairwise, layout).upper
        return np.column_stack([own, highest])


class Binary(RowStructure):
    """Two classes, one function; the larger label is the positive one.

    The loss is ``max(0, D - G y f(z))`` at the worst member z of S(x), which by default equals
    scikit-learn's ``LinearSVC(loss="hinge")`` where nothing may change. The function is the positive
    label's score; the other one's is zero.

    Examples
    --------
    >>> import numpy as np
    >>> Binary().bind(np.array(["ham", "spam", "ham"])).codes
    array([0, 1, 0])
    """

    def check_classes(self, classes: np.ndarray) -> None:
        """See `Structure.check_classes`: exactly two."""
        if len(classes) != 2:
            raise ValueError(f"Binary needs two classes in y, got {len(classes)}: {classes[:5]}")

    def functions(self, n_labels: int) -> LabelFunctions:
        """See `Structure.functions`: zero, and f."""
        return _ZERO_AND_F


class Multiclass(RowStructure):
    """Joint multiclass: ``max over y' of G(y,y') [f(z,y') - f(z,y)] + D(y,y')`` (Teo 2007, eq. 2).

    Examples
    --------
    >>> import numpy as np
    >>> bound = Multiclass().bind(np.array([0, 1]), cost=[[0, 1], [5, 0]])
    >>> bound.competitors(slice(None)).costs
    array([[0., 1.],
           [5., 0.]])
    """
