"""Worst-case margins of a model: how many rows no allowed change can turn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles.base import BoundOracle, InvarianceOracle
from ..oracles.checked_oracle import bind
from ..oracles.query import Violations
from ..spaces import ExplicitSpace, Space
from ..spaces.base import Element
from ..structures import Layout
from ..structures.bound import BoundStructure, predicted
from ..structures.checked_structure import decoded
from ..structures.competitors import Competitors
from ..structures.decodings import Decoding
from ..structures.layout import laid_out
from ..terms.scenarios import scenarios_of
from ..utils.exceptions import UnitLengthWarning
from ..utils.matrices import ALL_ROWS, Matrix, Rows, pick, squared_lengths, stack, take
from ..utils.summaries import Summarized, Summary, share

# Rows are of length 1 up to this.
UNIT = 1e-5
# Most rows are of other lengths, and the first ones tell.
FIRST_ROWS = 64
# Of many rows so many, spread over all of them, are looked at.
ROWS_TO_LOOK_AT = 1024
# An oracle's own rounding, which it adds to its bound, is some times that of a prediction.
SAME = 100.0


@dataclass(frozen=True, repr=False)
class Certificate(Summarized):
    """What is proven about rows under all allowed changes.

    A certificate speaks of changes in the feature space that the model was given.

    Attributes
    ----------
    margins : (n,) array
        Lower bounds of the margin of the true class over every other, at the worst member of S(x),
        rounding subtracted; minus infinity where the oracle knows no bound.
    correct : (n,) array of bool
        ``margins > 0``, strictly: no allowed change turns the row. A margin of exactly 0 is not enough,
        though `predict` decides such ties for one of the classes, which may be the true one.
    attacked : (n,) array
        Margins at the changes that the oracle found; never below the true worst case.
    exact : (n,) array of bool
        Whether both agree up to rounding, so that the margin is the worst one.
    most_wrong : (n,) array of int, or None
        No allowed change makes more rows of an example wrong; None where examples are single rows. A
        bound, which margins that are `exact` do not make so: fewer may go wrong.
    lengths : (n,) array of int, or None
        How many rows each has.
    """

    margins: np.ndarray
    attacked: np.ndarray
    exact: np.ndarray
    most_wrong: np.ndarray | None = None
    lengths: np.ndarray | None = None

    @property
    def correct(self) -> np.ndarray:
        """Rows that no allowed change can turn."""
        return self.margins > 0

    @classmethod
    def join(cls, parts: Sequence[Certificate]) -> Certificate:
        """Certificates of single rows, one behind the other."""
        names = "margins", "attacked", "exact"
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def _summary(self) -> Summary:
        n, what = len(self.margins), "samples" if self.most_wrong is None else "examples"
        if n == 0:
            return Summary(f"Certificate of 0 {what}", {})
        values = {"certified accuracy": share(self.correct)}
        if self.most_wrong is not None:
            values["certified positions"] = f"{self.position_accuracy:.4g} (lower bound)"
        values |= {"attacked accuracy": share(self.attacked > 0), "tight margins": share(self.exact)}
        notes = []
        unbounded = np.count_nonzero(np.isneginf(self.margins))
        if unbounded:
            notes.append(
                f"{unbounded} margins are -inf: the oracle has no upper bound for this model, or the "
                f"output structure forbids the labels of these {what}."
            )
        elif not np.all(self.exact):
            notes.append(
                "Margins that are not tight are lower bounds: the worst perturbation found attains more."
            )
        return Summary(f"Certificate of {n} {what}", values, notes)

    @property
    def accuracy(self) -> float:
        """Share of rows that no allowed change can turn: certified accuracy."""
        return float(np.mean(self.correct))

    @property
    def position_accuracy(self) -> float:
        """At least this share of rows is right, whatever changes: a bound, see `most_wrong`."""
        if self.most_wrong is None or self.lengths is None:
            return self.accuracy
        return 1.0 - float(np.sum(self.most_wrong) / np.sum(self.lengths))

    @property
    def attacked_accuracy(self) -> float:
        """Share of rows that the changes found by the oracle do not turn."""
        return float(np.mean(self.attacked > 0))


@dataclass(frozen=True)
class WorstChange:
    """The worst change of each example that an oracle finds against its labels.

    Attributes
    ----------
    attacked : (n,) array
        Margins at the changes found.
    bounds : (n,) array
        Lower bounds of the margins at all allowed changes.
    rounding : (n,) array
        How far a prediction's rounding can move either.
    points : (n_rows, d) array or CSR matrix, or None
        The changed rows, if they were wanted.
    labels : (n_rows,) array of int, or None
        To which labels the changes found lead, as places among the classes: the given ones where their
        margin is above 0.
    most_wrong, lengths : (n,) arrays of int, or None
        See `Certificate`.
    """

    attacked: np.ndarray
    bounds: np.ndarray
    rounding: np.ndarray
    points: Matrix | None
    labels: np.ndarray | None = None
    most_wrong: np.ndarray | None = None
    lengths: np.ndarray | None = None

    def certificate(self) -> Certificate:
        """What this proves, rounding subtracted."""
        margins = self.bounds - self.rounding
        # Equal where both are infinite.
        apart = np.subtract(
            self.attacked,
            self.bounds,
            out=np.zeros(len(margins)),
            where=self.attacked != self.bounds,
        )
        exact = np.abs(apart) <= SAME * self.rounding
        return Certificate(margins, self.attacked, exact, self.most_wrong, self.lengths)


def warn_of_unit_length(oracle: InvarianceOracle, X: Matrix, stacklevel: int) -> None:
    """Warn where edits are counted and all rows have length 1, which edits of the input would change.

    Rows of a single entry may have it by themselves.
    """
    if oracle.counted() is None:
        return
    entries = np.diff(X.indptr) if sp.issparse(X) else np.count_nonzero(X, axis=1)
    step = max(1, X.shape[0] // ROWS_TO_LOOK_AT)
    if np.any(entries > 1) and _of_unit_length(X[:FIRST_ROWS]) and _of_unit_length(X[::step]):
        warnings.warn(
            f"all rows have length 1, and {type(oracle).__name__} edits single features of them: of a "
            "text that was scaled so, an edited word changes the length and all other values, which no "
            "certificate here speaks of. Fixed weights keep the meaning (norm=None in TfidfVectorizer), "
            "and structinv.InvariantTextClassifier certifies tokens",
            UnitLengthWarning,
            stacklevel=stacklevel,
        )


def _of_unit_length(X: Matrix) -> bool:
    """Whether all rows have length 1, but those of zeros."""
    lengths = np.sqrt(squared_lengths(X))
    return bool(np.all((np.abs(lengths - 1.0) <= UNIT) | (lengths == 0)))


def worst_change_in(
    space: Space,
    f: Element,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: Matrix,
    points: bool = True,
    pairwise: np.ndarray | None = None,
) -> WorstChange:
    """The changes that lower the margin of each example's labeling most, over all other labelings.

    The margin of a linear model at the worst change is, for a single row,
    ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)``, bounded by the oracle's upper bounds. In a
    kernel's space members of S(x) are enumerated, since its convex hull says nothing there: the margins
    are exact where S(x) is a list. Where it has a cover the best member of that is improved, and the
    bound adds ``|f| L mesh``, L being the kernel's Lipschitz constant. See `worst_change` for the
    arguments; in a kernel's space the oracle has an orbit or a cover.
    """
    if not isinstance(labels, BoundStructure):
        raise TypeError(f"labels must be a structure bound to labels, got {type(labels).__name__}")
    wanted, given = (labels.n_outputs, X.shape[1]), (space.n_outputs, space.n_features)
    if wanted != given:
        raise ValueError(f"the space must have (n_outputs, n_features) = {wanted}, got {given}")
    bound = bind(oracle, X, labels.classes[labels.codes])
    pairwise = np.zeros(0) if pairwise is None else np.asarray(pairwise)
    if pairwise.shape != (labels.n_pairwise,):
        raise ValueError(f"pairwise must have shape ({labels.n_pairwise},), got {pairwise.shape}")
    scenarios = scenarios_of(bound, labels)
    most = space.certified_at_once(bound, labels.n_labels * sum(map(len, scenarios)))
    parts, allowed = [], labels.allowed()
    for blocks in labels.portions(ALL_ROWS, most):
        portion = _Portion(space, f, scenarios, labels, blocks, pairwise, allowed[blocks])
        parts.append(portion.worst(points))
    return joined(parts, stack([part.points for part in parts]) if points else None)


def worst_change(
    coef: np.ndarray,
    intercept: np.ndarray,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: Matrix,
    points: bool = True,
    pairwise: np.ndarray | None = None,
) -> WorstChange:
    """The changes that lower the margin of each labeling of a linear model most.

    Parameters
    ----------
    coef : (n_outputs, d) array
        Weights.
    intercept : (n_outputs,) array
        Constants.
    oracle : InvarianceOracle
    labels : BoundStructure
        With the labels that are certified, as ``structure.bind(y)`` gives it.
    X : (n, d) array or CSR matrix
    points : bool, default=True
        Whether the changed rows are wanted.
    pairwise : (n_pairwise,) array, optional
        Parameters that no input multiplies.

    Returns
    -------
    WorstChange
        Of the examples; points are those of all rows.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not fit one another.

    Examples
    --------
    The margin 2 of a row falls by 0.5 times the absolute weight:

    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> from structinv.structures import Binary
    >>> X, labels = np.array([[2.0]]), Binary().bind(np.array([1]), np.array([-1, 1]))
    >>> worst_change(np.array([[1.0]]), np.zeros(1), Box(0.5), labels, X).attacked
    array([1.5])
    """
    if np.ndim(coef) != 2 or np.shape(intercept) != np.shape(coef)[:1]:
        raise ValueError(
            "coef and intercept must have shapes (n_outputs, n_features) and (n_outputs,), got "
            f"{np.shape(coef)} and {np.shape(intercept)}"
        )
    return worst_change_in(*linear_function(coef, intercept), oracle, labels, X, points, pairwise)


def linear_function(
    coef: np.ndarray, intercept: np.ndarray, pairwise: np.ndarray | None = None
) -> tuple[ExplicitSpace, np.ndarray]:
    """A linear model as an element of a space, with parameters that no input multiplies."""
    own = np.zeros(0) if pairwise is None else pairwise
    space = ExplicitSpace(coef.shape[1], len(coef), intercept=True, n_pairwise=len(own))
    table = np.column_stack([coef, intercept]).T.ravel()
    return space, np.concatenate([table, own]).astype(np.float64, copy=False)


class _Portion:
    """Some examples that are asked about together."""

    def __init__(
        self,
        space: Space,
        f: Element,
        scenarios: list[tuple[BoundOracle, ...]],
        labels: BoundStructure,
        blocks: Rows,
        pairwise: np.ndarray,
        allowed: np.ndarray,
    ) -> None:
        self.space, self.f, self.scenarios = space, f, scenarios
        self.labels, self.pairwise, self.allowed = labels, pairwise, allowed
        self.rows, layout = labels.rows(blocks)
        # Margins know of no cost, and of no rescaling by it.
        competitors = labels.competitors(self.rows)
        self.competitors = replace(competitors, costs=np.zeros(competitors.costs.shape), slack=False)
        self.several = layout is not None
        self.layout = laid_out(layout, len(competitors))

    def worst(self, points: bool) -> WorstChange:
        """The worst changes, and how many rows are wrong at most."""
        codes, layout = self.competitors.codes, self.layout
        each = [self._asked(levels, self.rows, self.competitors, points) for levels in self.scenarios]
        margins = [Violations.of_levels(found) for found in each]
        nearest = [self._nearest(found, codes, layout) for found in margins]
        competitors, attacked, bounds = zip(*nearest, strict=True)
        scenario = np.argmin(attacked, axis=0)
        rounding = [self._rounding_of(found, layout) for found in margins]
        # A labeling that there is not is never predicted.
        change = WorstChange(
            np.where(self.allowed, np.min(attacked, axis=0), -np.inf),
            np.where(self.allowed, np.min(bounds, axis=0), -np.inf),
            np.max(rounding, axis=0),
            None,
        )
        owners, every = layout.owners, np.arange(layout.n_rows)
        labels = np.array([competitor.labels for competitor in competitors])[scenario[owners], every]
        leads = np.where((change.attacked > 0)[owners], codes, labels)
        change = replace(change, labels=leads)
        if points:
            levels = [
                0 if competitor.levels is None else competitor.levels for competitor in competitors
            ]
            level = np.array(np.broadcast_arrays(*levels, every)[:-1])[scenario[owners], every]
            change = replace(change, points=self._points(scenario[owners], level, labels, each))
        if not self.several:
            return change
        proven = [bound - room > 0 for bound, room in zip(bounds, rounding, strict=True)]
        wrong = self._most_wrong(margins, proven)
        return replace(change, most_wrong=wrong, lengths=layout.lengths)

    def _asked(
        self, levels: Sequence[BoundOracle], rows: Rows, competitors: Competitors, points: bool
    ) -> list[Violations]:
        """What labels exceed the given ones by at the levels of a scenario."""
        return [
            self.space.worst(self.f, each, rows, competitors, points, rounding=True) for each in levels
        ]

    def _nearest(
        self, found: Violations, codes: np.ndarray, layout: Layout
    ) -> tuple[Decoding, np.ndarray, np.ndarray]:
        """The labeling other than the codes that comes nearest to them, the margin there, and a bound.

        Infinite where there is no other labeling.
        """
        labels, pairwise = self.labels, self.pairwise
        own = labels.structure.score(found.gains, codes, pairwise, layout)
        other = labels.runner_up(found.gains, codes, pairwise, layout)
        above: Any = other.upper
        if not np.array_equal(found.upper, found.gains):
            above = labels.runner_up(found.upper, codes, pairwise, layout).upper
        reached = labels.structure.score(found.gains, other.labels, pairwise, layout, other.levels)
        none = other.upper == -np.inf
        # What was found bounds the margin as well, however badly a structure answers for the bounds.
        above = np.maximum(above, reached)
        return other, np.where(none, np.inf, own - reached), np.where(none, np.inf, own - above)

    def _rounding_of(self, found: Violations, layout: Layout) -> np.ndarray:
        """How far rounding can move the margin of a labeling, (n_blocks,)."""
        each: Any = found.rounding
        rounding = layout.sums(each.reshape(layout.n_rows, -1).max(axis=1))
        if not self.several:
            return rounding
        # Sums over the rows round as well; a score's own rounding is some of at least 8 terms.
        terms = layout.lengths + 1.0
        largest = np.abs(self.pairwise).max(initial=0.0)
        return rounding * (1.0 + terms / 4) + 4 * np.finfo(float).eps * terms**2 * largest

    def _points(
        self, scenario: np.ndarray, level: np.ndarray, labels: np.ndarray, each: list[list[Violations]]
    ) -> Matrix:
        """The worst members for a label of each row, each in a scenario and at a level of its own."""
        places, parts = [], []
        for number, levels in enumerate(each):
            for which, found in enumerate(levels):
                mine = np.flatnonzero((scenario == number) & (level == which))
                if len(mine):
                    places.append(mine)
                    parts.append(self.space.points(found.take(mine).points(labels[mine]).points))
        return parts[0] if len(parts) == 1 else stack(parts)[np.argsort(np.concatenate(places))]

    def _most_wrong(self, margins: list[Violations], proven: list[np.ndarray]) -> np.ndarray:
        """How many rows of each block are wrong at most, the most of all scenarios."""
        counts = np.zeros(len(self.layout), dtype=np.int64)
        for levels, found, right in zip(self.scenarios, margins, proven, strict=True):
            blocks = np.flatnonzero(~(right & self.allowed))
            if len(blocks):
                wrong = self._wrong_in(levels, found, blocks)
                counts[blocks] = np.maximum(counts[blocks], wrong)
        return counts

    def _wrong_in(
        self, levels: Sequence[BoundOracle], margins: Violations, blocks: np.ndarray
    ) -> np.ndarray:
        """How many rows are wrong at most in a scenario: whatever is predicted beats every labeling.

        So it does the given one, if there is such a labeling, and the one predicted without changes; or
        where nothing but one change can be, the one predicted then.
        """
        mine, layout = self.layout.rows(blocks), self.layout.take(blocks)
        codes, own = self.competitors.codes[mine], margins.take(mine)
        changes = levels[0].changes()
        numbers = None if changes is None else changes.listed_in()[1]
        if len(levels) == 1 and numbers is not None and len(numbers) == 1:
            best = decoded(self.labels.structure, own.gains, self.pairwise, layout).labels
            return self._counted(own, best, layout, codes, 2.0)
        counts, rows = layout.lengths.copy(), pick(self.rows, mine, self.layout.n_rows)
        scores = self.space.values(self.f, take(levels[0].X, rows))
        still = predicted(self.labels.structure, self.labels.n_labels, scores, self.pairwise, layout)
        allowed = np.flatnonzero(self.allowed[blocks])
        if len(allowed):
            places, part = layout.rows(allowed), layout.take(allowed)
            counts[allowed] = self._counted(own.take(places), codes[places], part, codes[places])
        apart = np.flatnonzero(layout.sums(still != codes) > 0)
        if len(apart):
            places, part = layout.rows(apart), layout.take(apart)
            competitors = replace(self.competitors.take(mine[places]), codes=still[places])
            found = self._asked(levels, pick(rows, places, len(mine)), competitors, False)
            against = Violations.of_levels(found)
            wrong = self._counted(against, still[places], part, codes[places])
            counts[apart] = np.minimum(counts[apart], wrong)
        return counts

    def _counted(
        self,
        margins: Violations,
        reference: np.ndarray,
        layout: Layout,
        codes: np.ndarray,
        roundings: float = 1.0,
    ) -> np.ndarray:
        """How many labels differ from the codes at most, of labelings that reach the reference."""
        own = self.labels.structure.score(margins.gains, reference, self.pairwise, layout)
        floors = own - roundings * self._rounding_of(margins, layout)
        return self.labels.most_wrong(margins.upper, codes, floors, self.pairwise, layout)


def joined(parts: Sequence[WorstChange], points: Matrix | None) -> WorstChange:
    """Several parts as one, with the points of all."""

    def all_of(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        return None if found[0] is None else np.concatenate(found)

    names = "attacked", "bounds", "rounding", "labels", "most_wrong", "lengths"
    return WorstChange(points=points, **{name: all_of(name) for name in names})
