"""Worst-case margins of a model: how many rows no allowed change can turn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .exceptions import UnitLengthWarning
from .margins import KernelMargins, LinearMargins, Margins, Scorer
from .matrices import ALL_ROWS, Matrix, Rows, pick, squared_lengths, stack
from .oracles.base import BoundOracle, InvarianceOracle
from .oracles.checked import bind
from .spaces import Expansion, KernelSpace
from .structures import Layout
from .structures.bound import BoundStructure, predicted
from .structures.decodings import decoded
from .structures.layout import laid_out
from .structures.rivals import Rivals
from .terms.scenarios import scenarios_of

# Rows are of length 1 up to this.
UNIT = 1e-5
# An oracle's own rounding, which it adds to its bound, is some times that of a prediction.
SAME = 100.0


@dataclass(frozen=True)
class Certificate:
    """What is proven about rows under all allowed changes.

    A certificate speaks of changes in the feature space that the model was given.

    Attributes
    ----------
    margins : (n,) array
        Lower bounds of the margin of the true class over every other, at the worst member of S(x),
        rounding subtracted; minus infinity where the oracle knows no bound.
    correct : (n,) array of bool
        ``margins > 0``, strictly: no allowed change turns the row.
    attacked : (n,) array
        Margins at the changes that the oracle found; never below the true worst case.
    exact : (n,) array of bool
        Whether both agree up to rounding, so that the margin is the worst one.
    most_wrong : (n,) array of int, or None
        No allowed change makes more rows of an example wrong; None where examples are single rows. A
        bound, which margins that are `exact` do not make so: fewer may go wrong.
    sizes : (n,) array of int, or None
        How many rows each has.
    """

    margins: np.ndarray
    attacked: np.ndarray
    exact: np.ndarray
    most_wrong: np.ndarray | None = None
    sizes: np.ndarray | None = None

    @property
    def correct(self) -> np.ndarray:
        """Rows that no allowed change can turn."""
        return self.margins > 0

    def __str__(self) -> str:
        n, exact = len(self.margins), float(np.mean(self.exact)) if len(self.margins) else 1.0
        what, positions = "rows", ""
        if self.most_wrong is not None:
            what, positions = "examples", f", of positions {self.position_accuracy:.4g}"
        return (
            f"certified accuracy {self.accuracy:.4g} of {n} {what}{positions}, "
            f"{self.attacked_accuracy:.4g} at the changes found, {exact:.0%} of the margins exact"
        )

    @property
    def accuracy(self) -> float:
        """Share of rows that no allowed change can turn: certified accuracy."""
        return float(np.mean(self.correct))

    @property
    def position_accuracy(self) -> float:
        """At least this share of rows is right, whatever changes: a bound, see `most_wrong`."""
        if self.most_wrong is None or self.sizes is None:
            return self.accuracy
        return 1.0 - float(np.sum(self.most_wrong) / np.sum(self.sizes))

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
    most_wrong, sizes : (n,) arrays of int, or None
        See `Certificate`.
    """

    attacked: np.ndarray
    bounds: np.ndarray
    rounding: np.ndarray
    points: Matrix | None
    labels: np.ndarray | None = None
    most_wrong: np.ndarray | None = None
    sizes: np.ndarray | None = None

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
        return Certificate(margins, self.attacked, exact, self.most_wrong, self.sizes)


def warn_of_unit_length(oracle: InvarianceOracle, X: Matrix, stacklevel: int) -> None:
    """Warn where edits are counted and all rows have length 1, which edits of the input would change.

    Rows of a single entry may have it by themselves.
    """
    try:
        oracle.most_changes()
    except NotImplementedError:
        return
    lengths = np.sqrt(squared_lengths(X))
    there = lengths > 0
    entries = np.diff(X.indptr) if sp.issparse(X) else np.count_nonzero(X, axis=1)
    if np.any(entries > 1) and np.all(np.abs(lengths[there] - 1.0) <= UNIT):
        warnings.warn(
            f"all rows have length 1, and {type(oracle).__name__} edits single features of them: of a "
            "text that was scaled so, an edited word changes the length and all other values, which no "
            "certificate here speaks of. Fixed weights keep the meaning (norm=None in TfidfVectorizer), "
            "and structinv.InvariantTextClassifier certifies tokens",
            UnitLengthWarning,
            stacklevel=stacklevel,
        )


def worst_change(
    coef: np.ndarray,
    intercept: np.ndarray,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: Matrix,
    points: bool = True,
    extra: np.ndarray | None = None,
) -> WorstChange:
    """The changes that lower the margin of each example's labelling most, over all other labellings.

    The margin of a linear model at the worst change is, for a single row,
    ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)``, bounded by the oracle's upper bounds.

    Parameters
    ----------
    coef : (n_outputs, d) array
    intercept : (n_outputs,) array
    oracle : InvarianceOracle
    labels : BoundStructure
        With the labels that are certified.
    X : (n, d) array or CSR matrix
    points : bool, default=True
        Whether the changed rows are wanted.
    extra : (n_extra,) array, optional
        Parameters that no input multiplies.

    Returns
    -------
    WorstChange
        Of the examples; points are those of all rows.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not fit one another.
    """
    if not isinstance(labels, BoundStructure):
        raise TypeError(f"labels must be a structure bound to labels, got {type(labels).__name__}")
    bound = bind(oracle, X, labels.classes[labels.codes])
    if np.shape(coef) != (labels.n_outputs, X.shape[1]) or np.shape(intercept) != (labels.n_outputs,):
        raise ValueError(
            f"coef and intercept must have shapes {(labels.n_outputs, X.shape[1])} and "
            f"{(labels.n_outputs,)}, got {np.shape(coef)} and {np.shape(intercept)}"
        )
    return _worst(LinearMargins(coef, intercept, bound), labels, points, extra)


def _worst(
    scorer: Scorer,
    labels: BoundStructure,
    points: bool,
    extra: np.ndarray | None = None,
) -> WorstChange:
    """The worst changes of all examples, a portion of rows at a time."""
    extra = np.zeros(0) if extra is None else np.asarray(extra)
    if extra.shape != (labels.n_extra,):
        raise ValueError(f"extra must have shape ({labels.n_extra},), got {extra.shape}")
    scenarios = scenarios_of(scorer.bound, labels)
    most = scorer.rows_at_once(labels.n_labels * sum(map(len, scenarios)))
    parts, allowed = [], labels.allowed()
    for blocks in labels.portions(ALL_ROWS, most):
        portion = _Portion(scorer, scenarios, labels, blocks, extra, allowed[blocks])
        parts.append(portion.worst(points))
    return joined(parts, stack([part.points for part in parts]) if points else None)


class _Portion:
    """Some examples that are asked about together."""

    def __init__(
        self,
        scorer: Scorer,
        scenarios: list[tuple[BoundOracle, ...]],
        labels: BoundStructure,
        blocks: Rows,
        extra: np.ndarray,
        allowed: np.ndarray,
    ) -> None:
        self.labels, self.extra, self.allowed = labels, extra, allowed
        self.scenarios = [[scorer.at(level) for level in levels] for levels in scenarios]
        self.rows, layout = labels.rows(blocks)
        # Margins know of no cost, and of no rescaling by it.
        rivals = labels.rivals(self.rows)
        self.rivals = replace(rivals, costs=np.zeros(rivals.costs.shape), slack=False)
        self.several = layout is not None
        self.layout = laid_out(layout, len(rivals))

    def worst(self, points: bool) -> WorstChange:
        """The worst changes, and how many rows are wrong at most."""
        codes, layout = self.rivals.codes, self.layout
        each = [self._asked(scorers, self.rows, self.rivals, points) for scorers in self.scenarios]
        margins = [found for found, _ in each]
        nearest = [found.nearest(self.labels, codes, self.extra, layout) for found in margins]
        rivals, attacked, bounds = zip(*nearest, strict=True)
        scenario = np.argmin(attacked, axis=0)
        rounding = [found.rounding_of(layout, self.extra, self.several) for found in margins]
        # A labelling that there is not is never predicted.
        change = WorstChange(
            np.where(self.allowed, np.min(attacked, axis=0), -np.inf),
            np.where(self.allowed, np.min(bounds, axis=0), -np.inf),
            np.max(rounding, axis=0),
            None,
        )
        owners, every = layout.owners, np.arange(layout.n_rows)
        labels = np.array([rival.labels for rival in rivals])[scenario[owners], every]
        leads = np.where((change.attacked > 0)[owners], codes, labels)
        change = replace(change, labels=leads)
        if points:
            levels = [0 if rival.levels is None else rival.levels for rival in rivals]
            level = np.array(np.broadcast_arrays(*levels, every)[:-1])[scenario[owners], every]
            kept = [kept for _, kept in each]
            change = replace(change, points=self._points(scenario[owners], level, labels, kept))
        if not self.several:
            return change
        proven = [bound - room > 0 for bound, room in zip(bounds, rounding, strict=True)]
        wrong = self._most_wrong(margins, proven)
        return replace(change, most_wrong=wrong, sizes=layout.sizes)

    @staticmethod
    def _asked(
        scorers: Sequence[Scorer], rows: Rows, rivals: Rivals, points: bool
    ) -> tuple[Margins, list[Any]]:
        """The margins in a scenario, and what its levels kept for points."""
        found: Any = [scorer.margins(rows, rivals, points) for scorer in scorers]
        return Margins.of_levels([each for each, _ in found]), [kept for _, kept in found]

    def _points(
        self, scenario: np.ndarray, level: np.ndarray, labels: np.ndarray, kept: list[list[Any]]
    ) -> Matrix:
        """The worst members for a label of each row, each in a scenario and at a level of its own."""
        n_rows, places, parts = len(labels), [], []
        for number, scorers in enumerate(self.scenarios):
            for which, scorer in enumerate(scorers):
                mine = np.flatnonzero((scenario == number) & (level == which))
                if len(mine) == n_rows:
                    return scorer.points(self.rows, self.rivals, labels, kept[number][which])
                if len(mine):
                    own: Any = scorer.some(kept[number][which], mine)
                    rows = pick(self.rows, mine, n_rows)
                    places.append(mine)
                    parts.append(scorer.points(rows, self.rivals.take(mine), labels[mine], own))
        return stack(parts)[np.argsort(np.concatenate(places))]

    def _most_wrong(self, margins: list[Margins], proven: list[np.ndarray]) -> np.ndarray:
        """How many rows of each block are wrong at most, the most of all scenarios."""
        counts = np.zeros(len(self.layout), dtype=np.int64)
        for scorers, found, right in zip(self.scenarios, margins, proven, strict=True):
            blocks = np.flatnonzero(~(right & self.allowed))
            if len(blocks):
                wrong = self._wrong_in(scorers, found, blocks)
                counts[blocks] = np.maximum(counts[blocks], wrong)
        return counts

    def _wrong_in(self, scorers: Sequence[Scorer], margins: Margins, blocks: np.ndarray) -> np.ndarray:
        """How many rows are wrong at most in a scenario: whatever is predicted beats every labelling.

        So it does the given one, if there is such a labelling, and the one predicted without changes; or
        where nothing but one change can be, the one predicted then.
        """
        mine, layout = self.layout.rows(blocks), self.layout.take(blocks)
        codes, own = self.rivals.codes[mine], margins.take(mine)
        if len(scorers) == 1 and scorers[0].at_one_point:
            best = decoded(self.labels.structure, own.reached, self.extra, layout).labels
            return self._counted(own, best, layout, codes, 2.0)
        counts, rows = layout.sizes.copy(), pick(self.rows, mine, self.layout.n_rows)
        scores = scorers[0].scores(rows)
        still = predicted(self.labels.structure, self.labels.n_labels, scores, self.extra, layout)
        allowed = np.flatnonzero(self.allowed[blocks])
        if len(allowed):
            places, part = layout.rows(allowed), layout.take(allowed)
            counts[allowed] = self._counted(own.take(places), codes[places], part, codes[places])
        apart = np.flatnonzero(layout.sums(still != codes) > 0)
        if len(apart):
            places, part = layout.rows(apart), layout.take(apart)
            rivals = replace(self.rivals.take(mine[places]), codes=still[places])
            against, _ = self._asked(scorers, pick(rows, places, len(mine)), rivals, False)
            found = self._counted(against, still[places], part, codes[places])
            counts[apart] = np.minimum(counts[apart], found)
        return counts

    def _counted(
        self,
        margins: Margins,
        reference: np.ndarray,
        layout: Layout,
        codes: np.ndarray,
        roundings: float = 1.0,
    ) -> np.ndarray:
        """How many labels differ from the codes at most, of labellings that reach the reference."""
        own = self.labels.structure.score(margins.reached, reference, self.extra, layout)
        floors = own - roundings * margins.rounding_of(layout, self.extra, self.several)
        return self.labels.most_wrong(margins.highest, codes, floors, self.extra, layout)


def joined(parts: Sequence[WorstChange], points: Matrix | None) -> WorstChange:
    """Several parts as one, with the points of all."""

    def all_of(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        return None if found[0] is None else np.concatenate(found)

    names = "attacked", "bounds", "rounding", "labels", "most_wrong", "sizes"
    return WorstChange(points=points, **{name: all_of(name) for name in names})


def kernel_worst_change(
    space: KernelSpace,
    f: Expansion,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: np.ndarray,
    points: bool = True,
    extra: np.ndarray | None = None,
) -> WorstChange:
    """`worst_change` of a kernel expansion: members of S(x) are enumerated, its hull says nothing.

    The margins are exact where S(x) is a list. Of a continuum with a cover the best member of the
    cover is improved, and the bound adds ``|f| L mesh``, L being the kernel's Lipschitz constant.

    Parameters
    ----------
    space : KernelSpace
    f : Expansion
    oracle : InvarianceOracle
        With an orbit or a cover.
    labels : BoundStructure
        With the labels that are certified.
    X : (n, d) array
    points : bool, default=True
        Whether the changed rows are wanted.
    extra : (n_extra,) array, optional
        Parameters that no input multiplies.

    Returns
    -------
    WorstChange

    Notes
    -----
    An output at a member z is a sum of m terms ``beta_j k(z_j, z)`` with ``|k(z_j, z)| <=
    sqrt(k(z_j, z_j) k(z, z))``, and each kernel value comes from d products. The allowance for its
    rounding, which margins add up over the two outputs that they compare, is

        eps (8 + sqrt(d) + sqrt(m)) sum_j |beta_j| sqrt(k(z_j, z_j)) max_z sqrt(k(z, z))
        + eps L^2 sum_j |beta_j| |z_j| max_z |z|

    with eps that of the precision in which predictions are computed, and maxima over the members. The
    second line, left out where L is infinite, is what a squared distance loses to cancellation.
    """
    bound = bind(oracle, X, labels.classes[labels.codes])
    return _worst(KernelMargins(space, f, bound), labels, points, extra)
