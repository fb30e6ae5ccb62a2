"""Dual states with averaged planes of rows, for in-hull steps."""

from __future__ import annotations

import numpy as np

from ..oracles.hulls import Hull, LabelHull
from ..spaces.base import Element
from ..structures import Multiclass
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import DualState, FocusedSweeps, rows_at_once
from .case import Case

# For at most this number of labels, every visit includes all of them.
FEW_LABELS = 4
# Number of products between two checks of the time.
PRODUCTS_AT_ONCE = 100_000_000


class HullState(FocusedSweeps, DualState):
    """One averaged plane per row, updated in the convex hull of S(x) by the oracle.

    Shapes: `signs` (n_rows,), `factor` (n_rows,).
    """

    name = "hull"

    packs_rows = True
    quick_value = True

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.averaged_rows(case) or needs.two_classes(case)
        # D max(0, 1 - y f) is the two-class loss with D as a factor of the weight.
        if not reason and not case.term.labels.slack and np.any(case.others != 1.0):
            return "costs differ from 1, and rescaling is 'margin'"
        if not reason and case.hull is None:
            return f"{case.oracle} has no in-hull steps for these rows"
        return reason

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        assert case.hull is not None
        self.hull: Hull = case.hull
        self.term = term = case.term
        self.space = case.space
        self.signs = case.signs
        self.factor = others = case.others
        self.rng = rng
        self.rows = np.flatnonzero(term.weights * others > 0)
        self.gaps = np.zeros(len(others))
        self.rows_at_once = rows_at_once(term.bound.X)

    @property
    def offset(self) -> float:
        return self.hull.offset

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        self.hull.sweep(f, order, self.gaps)

    def value(self, f: Element) -> tuple[float, float]:
        losses = self.hull.losses(f)
        if losses is None:
            return self.term.total(self.space, f)
        value = float(self.term.weights @ (self.factor * losses))
        return value, value

    def combination(self) -> Element:
        return self.hull.combination()

    def arrays(self) -> Arrays:
        return {"gaps": self.gaps.astype(np.float32), **self.hull.arrays()}

    def _start(self, arrays: Arrays, f: Element) -> int:
        self.gaps[:] = arrays["gaps"]
        self.hull.start(arrays)
        return 0


class LabelState(FocusedSweeps, DualState):
    """One averaged plane for each row and each label with a positive dual variable."""

    name = "labels"

    packs_rows = True
    quick_value = True
    far_off, enough = 0.4, 0.3

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.averaged_rows(case)
        if not reason and type(case.term.labels.structure) is not Multiclass:
            return "the structure is not several classes with one function each"
        if not reason and case.term.labels.slack:
            return "rescaling is 'slack'"
        if not reason and case.label_hull is None:
            return f"{case.oracle} has no in-hull steps for several labels"
        return reason

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        assert case.label_hull is not None
        self.hull: LabelHull = case.label_hull
        self.term = term = case.term
        self.space = case.space
        labels = term.labels
        self.codes = labels.codes
        self.weights = term.weights
        self.cost = labels.cost
        self.rng = rng
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(len(term.weights))
        self.rows_at_once = rows_at_once(term.bound.X, PRODUCTS_AT_ONCE // self.space.n_outputs)

    @property
    def offset(self) -> float:
        return self.hull.offset

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        # Additional passes include only a few labels of each row.
        every_label = not again or self.space.n_outputs <= FEW_LABELS
        self.hull.sweep(self.space.table(f), order, self.gaps, every_label)

    def value(self, f: Element) -> tuple[float, float]:
        value = float(self.weights @ self.hull.losses(self.space.table(f)))
        return value, value

    def combination(self) -> Element:
        return self.hull.combination().ravel()

    def arrays(self) -> Arrays:
        return {"gaps": self.gaps.astype(np.float32), **self.hull.arrays()}

    def _start(self, arrays: Arrays, f: Element) -> int:
        self.gaps[:] = arrays["gaps"]
        self.hull.start(arrays)
        return 0
