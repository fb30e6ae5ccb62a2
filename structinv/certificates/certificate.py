"""Certified accuracy and worst-case margins of a model over perturbation sets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles import Identity
from ..oracles.base import BoundOracle, InvarianceOracle
from ..oracles.query import Violations
from ..oracles.third_party import bind
from ..spaces import ExplicitSpace
from ..spaces.base import Element, Space
from ..structures import Layout
from ..structures.bound import BoundStructure, predicted
from ..structures.competitors import Competitors
from ..structures.decodings import Decoding, laid_out
from ..structures.inference import decoded
from ..terms.worst_case import scenarios_of
from ..utils.exceptions import TextEditsWarning
from ..utils.matrices import (
    ALL_ROWS,
    Matrix,
    Rows,
    first_best,
    pick,
    row_max,
    squared_lengths,
    stack,
    take,
)
from ..utils.summaries import Table, Tabulated, how_many, named_values, number_of, one_line, share

# Tolerance for rows of length 1.
UNIT = 1e-5
# In most data, the first rows show that lengths differ.
FIRST_ROWS = 64
# Approximate number of rows to check, spread over all rows.
ROWS_TO_CHECK = 1024
# Names of values in the printed form, with and without labels.
LABELED = "certified accuracy", "certified positions", "attacked accuracy"
UNLABELED = "unchanged predictions", "unchanged positions", "unchanged by attacks"
# Tolerance for tight bounds, in rounding errors of a prediction: oracles add larger errors.
SAME = 100.0


@dataclass(frozen=True, repr=False)
class Certificate(Tabulated):
    """Worst-case margins of samples, and the proof that predictions are correct.

    With true labels, a certificate proves that predictions are correct. Without labels, it proves that
    predictions do not change, whether they are correct or not: margins are those of the predicted label.

    The proof holds for every declared perturbation, for each oracle. The search for attacks may miss the
    worst perturbation. `margins` are then lower bounds, and a sample without a proof may be safe. The
    printed form marks accuracies as tight or as bounds. If the attacked accuracy equals the certified
    one, it has no line, and the certified one is attained.

    A certificate holds for perturbations of the input of the model. In a Pipeline, this can be the input
    of the last step. Each array has one entry per sample, or per example of a structured model.

    Attributes
    ----------
    margins : ndarray of shape (n,)
        Lower bounds of the worst-case margins, with rounding errors subtracted. They are minus infinity
        if the oracle has no upper bound.
    correct : ndarray of bool of shape (n,)
        ``margins > 0``: no perturbation makes the prediction wrong; without labels, none changes it. At
        a margin of exactly 0, the sample is not certified, although `predict` may return the true class.
    attacked : ndarray of shape (n,)
        Margins at the most damaging perturbations that the oracle finds. They are at least the
        worst-case margins. Where `exact` is False, another perturbation may be worse.
    exact : ndarray of bool of shape (n,)
        True if the margin is tight: `margins` and `attacked` agree up to rounding errors.
    most_wrong : ndarray of int of shape (n,) or None
        Upper bound of the number of wrong rows of an example, over all perturbations; without labels, of
        changed rows. It may be loose even if `exact` is True. None for models that label samples
        separately.
    lengths : ndarray of int of shape (n,) or None
        Number of rows of each example.
    labels_given : bool, default=True
        True if the margins are those of true labels, False if they are those of predicted labels.
    perturbations : str or None, default=None
        Short form of the oracle, such as "FDrop(max_changes=3)"; None if unknown.

    See Also
    --------
    structinv.certify : Certificate of any fitted linear classifier.
    worst_change : Most damaging perturbations of a linear model.
    PredictionBounds : Counterpart for regression.

    Examples
    --------
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.oracles import FDrop
    >>> X, y = [[3, 3, 0], [2, 2, 0], [0, 0, 3], [0, 0, 2]], ["spam", "spam", "ham", "ham"]
    >>> model = InvariantLinearSVC(FDrop(1), random_state=0).fit(X, y)
    >>> X_test, y_test = [[4, 4, 0], [2, 0, 3], [3, 3, 0]], ["spam", "spam", "ham"]
    >>> certificate = model.certify(X_test, y_test)
    >>> certificate
    Certificate of 3 samples
      perturbations       FDrop(max_changes=1)
      certified accuracy  0.3333 (1 of 3), tight
      tight margins       3 of 3
    >>> certificate.correct
    array([ True, False, False])

    Without labels, an unchanged prediction may be wrong:

    >>> model.certify(X_test)
    Certificate of 3 samples, without labels
      perturbations          FDrop(max_changes=1)
      unchanged predictions  0.6667 (2 of 3), tight
      tight margins          3 of 3
    """

    margins: np.ndarray
    attacked: np.ndarray
    exact: np.ndarray
    most_wrong: np.ndarray | None = None
    lengths: np.ndarray | None = None
    labels_given: bool = True
    perturbations: str | None = None

    @property
    def correct(self) -> np.ndarray:
        """True for each sample whose prediction no perturbation makes wrong.

        Without labels, it is True for each sample whose prediction no perturbation changes.
        """
        return self.margins > 0

    @classmethod
    def join(cls, parts: Sequence[Certificate]) -> Certificate:
        """Concatenate certificates of samples or of examples.

        Parameters
        ----------
        parts : sequence of Certificate
            Certificates.

        Returns
        -------
        Certificate
            Certificate of all samples, in order. It is one without labels if any part is.
        """
        names = "margins", "attacked", "exact", "most_wrong", "lengths"
        return cls(
            **{name: all_of(parts, name) for name in names},
            labels_given=all(part.labels_given for part in parts),
            perturbations=common([part.perturbations for part in parts]),
        )

    def _table(self) -> Table:
        n, what = len(self.margins), "sample" if self.most_wrong is None else "example"
        title = f"Certificate of {number_of(n, what)}" + (
            "" if self.labels_given else ", without labels"
        )
        if n == 0:
            return named_values(title, {})
        certified, positions, attacked = LABELED if self.labels_given else UNLABELED
        values = {} if self.perturbations is None else {"perturbations": self.perturbations}
        survived = self.attacked > 0
        is_tight = np.array_equal(self.correct, survived)
        kind = "tight" if np.all(self.exact) else "attained by attacks"
        values[certified] = f"{share(self.correct)}, {kind if is_tight else 'lower bound'}"
        if self.most_wrong is not None:
            values[positions] = f"{self.position_accuracy:.4g}, lower bound"
        if not is_tight:
            values[attacked] = f"{share(survived)}, upper bound"
        values["tight margins"] = how_many(self.exact)
        notes = []
        unbounded = int(np.count_nonzero(np.isneginf(self.margins)))
        if unbounded:
            notes.append(
                f"{number_of(unbounded, 'margin is', 'margins are')} -inf: the oracle has no upper "
                f"bound for this model, or the output structure forbids the labels of these {what}s."
            )
        elif not np.all(self.exact):
            notes.append(
                "A margin is tight if some perturbation attains it. The other margins are lower bounds: "
                "the true worst-case margins may be larger."
            )
        lost = int(np.count_nonzero(self.exact & (self.attacked > 0) & ~self.correct))
        if lost:
            notes.append(
                f"{number_of(lost, 'positive margin is', 'positive margins are')} smaller than the "
                f"rounding errors of predictions, so these {what}s are not certified. Pass X as "
                "float64, or subtract the mean of each column before the fit."
            )
        return named_values(title, values, notes)

    @property
    def accuracy(self) -> float:
        """Certified accuracy: the fraction of samples (or examples) that are `correct`.

        It is a lower bound of the accuracy under the worst perturbation.
        Without labels, it is the fraction of predictions that no perturbation changes.
        """
        return float(np.mean(self.correct))

    @property
    def position_accuracy(self) -> float:
        """Lower bound of the fraction of rows with correct labels, from `most_wrong`.

        Without labels, it is a lower bound of the fraction of rows with unchanged labels.
        """
        if self.most_wrong is None or self.lengths is None:
            return self.accuracy
        return 1.0 - float(np.sum(self.most_wrong) / np.sum(self.lengths))

    @property
    def attacked_accuracy(self) -> float:
        """Attacked accuracy: the fraction of samples with a positive attacked margin.

        It is an upper bound of the accuracy under the worst perturbation, since the search may miss it.
        A margin of 0 counts as an error, also if `predict` selects the true label.

        Without labels, it is the fraction of predictions that no perturbation found changes.
        """
        return float(np.mean(self.attacked > 0))


@dataclass(frozen=True)
class WorstChange:
    """Most damaging perturbation of each example that an oracle finds.

    - `attacked` (n,): margins at these perturbations
    - `bounds` (n,): lower bounds of the margins over all perturbations
    - `rounding` (n,): bound of the rounding error of a prediction, for both
    - `points` (n_rows, d): perturbed rows, if requested
    - `labels` (n_rows,): index of the predicted class at the perturbed rows, or of the given class if
      its margin is positive
    - `most_wrong` (n,): upper bound of the number of wrong rows of an example
    - `lengths` (n,): number of rows of each example
    """

    attacked: np.ndarray
    bounds: np.ndarray
    rounding: np.ndarray
    points: Matrix | None
    labels: np.ndarray | None = None
    most_wrong: np.ndarray | None = None
    lengths: np.ndarray | None = None

    def certificate(
        self, oracle: InvarianceOracle | None = None, *, labels_given: bool = True
    ) -> Certificate:
        """Return the certificate, with rounding errors subtracted."""
        margins = self.bounds - self.rounding
        # Equal infinities have the difference 0.
        difference = np.subtract(
            self.attacked,
            self.bounds,
            out=np.zeros(len(margins)),
            where=self.attacked != self.bounds,
        )
        exact = np.abs(difference) <= SAME * self.rounding
        return Certificate(
            margins,
            self.attacked,
            exact,
            self.most_wrong,
            self.lengths,
            labels_given,
            None if oracle is None else described(oracle),
        )


def described(oracle: InvarianceOracle) -> str:
    """Return the short form of an oracle for printed results, with its note."""
    text, counted = one_line(oracle), oracle.counted()
    if counted is not None and counted.note:
        text = f"{text}; {counted.note}"
    return f"none: the oracle is {text}" if isinstance(oracle, Identity) else text


def common(values: Sequence[str | None]) -> str | None:
    """Return the value that all parts have, or None."""
    return values[0] if values and len(set(values)) == 1 else None


def warn_of_row_lengths(oracle: InvarianceOracle, X: Matrix, stacklevel: int) -> None:
    """Warn of rows whose lengths do not suit the edits of an oracle.

    An edit of a normalized text changes the length, and therefore all other values. There is no warning
    of edits of single features if every row has a single entry: such rows may have length 1 without
    normalization.
    """
    counted = oracle.counted()
    if counted is None or counted.most == 0 or (counted.tokens and not counted.norm):
        return
    entries = np.diff(X.indptr) if sp.issparse(X) else np.count_nonzero(X, axis=1)
    step = max(1, X.shape[0] // ROWS_TO_CHECK)
    norm = counted.norm or "l2"
    of_length_1 = _of_unit_length(X[:FIRST_ROWS], norm) and _of_unit_length(X[::step], norm)
    tokens = f"certify edits of tokens with certify(pipeline, TokenEdits('drop', {counted.most}), texts)"
    message = ""
    if counted.norm and not of_length_1:
        message = (
            f"not all rows have length 1 with norm={norm!r}, so these certificates do not hold for "
            "edits of the text. UnitLength is for rows that no step changes after their division by "
            f"the length: remove such steps, or {tokens}"
        )
    elif not counted.norm and of_length_1 and np.any(entries > 1):
        message = (
            f"all rows have Euclidean length 1, and {type(oracle).__name__} edits single features. "
            "In a normalized text, an edited word changes all features, so these certificates do not "
            "hold for edits of the text. Pass UnitLength(oracle), such as "
            f"UnitLength(FDrop({counted.most})), which divides edited rows by their length, or {tokens}"
        )
    if message:
        warnings.warn(message, TextEditsWarning, stacklevel=stacklevel)


def _of_unit_length(X: Matrix, norm: str) -> bool:
    """Return True if all nonzero rows have length 1."""
    lengths = np.asarray(abs(X).sum(axis=1)).ravel() if norm == "l1" else np.sqrt(squared_lengths(X))
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
    """Find the perturbations of each example that minimize the margin of its labels.

    The worst-case margin of a linear model for a single row is ``min over y' of (b_y - b_y') -
    sigma_S(w_y' - w_y)``. The oracle's upper bounds give a lower bound of it.

    In a kernel's space, the elements of S(x) are enumerated, because its convex hull does not bound f.
    Margins are tight if S(x) is a list. For a cover, its best element is refined, and the bound adds
    ``|f| L mesh``, where L is the kernel's Lipschitz constant. The oracle must have an orbit or a cover
    there.

    The arguments are those of `worst_change`.
    """
    if not isinstance(labels, BoundStructure):
        raise TypeError(
            f"labels must be a BoundStructure, got {type(labels).__name__}: bind a structure to labels"
        )
    required, given = (labels.n_outputs, X.shape[1]), (space.n_outputs, space.n_features)
    if required != given:
        raise ValueError(f"the space must have (n_outputs, n_features) = {required}, got {given}")
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
    """Find the perturbations that minimize the margins of a linear model.

    Shapes: `coef` (n_outputs, d), `intercept` (n_outputs,), `X` (n, d), `pairwise` (n_pairwise,).
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
    """Return a linear model with pairwise weights as an element of a space."""
    tail = np.zeros(0) if pairwise is None else pairwise
    space = ExplicitSpace(coef.shape[1], len(coef), intercept=True, n_pairwise=len(tail))
    f = np.empty(space.size)
    table = space.table(f)
    table[:-1], table[-1], space.pairwise(f)[:] = coef.T, intercept, tail
    return space, f


class _Portion:
    """Some examples whose margins are computed together."""

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
        # Margins do not depend on costs.
        codes = labels.codes[self.rows]
        # In the order of the gains of two labels.
        costs = np.zeros((labels.n_labels, len(codes))).T
        self.competitors = Competitors(labels.functions, codes, costs, slack=False)
        self.several = layout is not None
        self.layout = laid_out(layout, len(codes))

    def worst(self, points: bool) -> WorstChange:
        """Return the worst perturbations and the largest numbers of wrong rows."""
        codes, layout = self.competitors.codes, self.layout
        each = [
            self._violations(levels, self.rows, self.competitors, points) for levels in self.scenarios
        ]
        margins = [Violations.of_levels(found) for found in each]
        nearest = [self._nearest(found, codes, layout) for found in margins]
        competitors, attacked, bounds = zip(*nearest, strict=True)
        scenario = first_best(-np.transpose(attacked))
        rounding = [self._rounding_of(found, layout) for found in margins]
        # A labeling that is not allowed is never predicted, so its margin is minus infinity.
        change = WorstChange(
            np.where(self.allowed, np.min(attacked, axis=0), -np.inf),
            np.where(self.allowed, np.min(bounds, axis=0), -np.inf),
            np.max(rounding, axis=0),
            None,
        )
        owners, every = layout.owners, np.arange(layout.n_rows)
        labels = np.array([competitor.labels for competitor in competitors])[scenario[owners], every]

        def points_of(rows: np.ndarray) -> Matrix:
            levels = [0 if other.levels is None else other.levels for other in competitors]
            level = np.array(np.broadcast_arrays(*levels, every)[:-1])[scenario[owners], every]
            chosen = np.where(np.isin(every, rows), scenario[owners], -1)
            return self._points(chosen, level, labels, each)

        change, others = self._at_points(change, labels, points_of)
        change = replace(change, labels=np.where((change.attacked > 0)[owners], codes, others))
        if points:
            change = replace(change, points=points_of(every))
        if not self.several:
            return change
        proven = [bound - error > 0 for bound, error in zip(bounds, rounding, strict=True)]
        wrong = self._most_wrong(margins, proven)
        return replace(change, most_wrong=wrong, lengths=layout.lengths)

    def _at_points(
        self, change: WorstChange, labels: np.ndarray, points_of: Callable[[np.ndarray], Matrix]
    ) -> tuple[WorstChange, np.ndarray]:
        """Return the smaller margins of other labelings at the points, and these labelings.

        If the oracle is inexact, the point that it finds for one label may raise the score of another
        label more than the point that it finds for the latter.
        """
        blocks = np.flatnonzero(change.bounds < change.attacked - SAME * change.rounding)
        if (self.labels.n_labels == 2 and not self.several) or not len(blocks):
            return change, labels
        layout, rows = self.layout.take(blocks), self.layout.rows(blocks)
        space = self.space.of_rows(pick(self.rows, rows, self.layout.n_rows))
        scores, codes = space.values(self.f, points_of(rows)), self.competitors.codes[rows]
        found, others = margins_at(scores, self.labels, codes, self.pairwise, layout)
        is_less = found < change.attacked[blocks]
        attacked, labels = change.attacked.copy(), labels.copy()
        attacked[blocks[is_less]] = found[is_less]
        is_other = is_less[layout.owners]
        labels[rows[is_other]] = others[is_other]
        return replace(change, attacked=attacked, bounds=np.minimum(change.bounds, attacked)), labels

    def _violations(
        self, levels: Sequence[BoundOracle], rows: Rows, competitors: Competitors, points: bool
    ) -> list[Violations]:
        """Return the score differences to the given labels, per level of a scenario."""
        return [
            self.space.worst(self.f, each, rows, competitors, points, rounding=True) for each in levels
        ]

    def _nearest(
        self, violations: Violations, codes: np.ndarray, layout: Layout
    ) -> tuple[Decoding, np.ndarray, np.ndarray]:
        """Return the labeling with the smallest margin, this margin, and a lower bound.

        Margin and bound are infinite if there is no other labeling.
        """
        labels, pairwise = self.labels, self.pairwise
        score = labels.structure.score(violations.gains, codes, pairwise, layout)
        other = labels.runner_up(violations.gains, codes, pairwise, layout)
        above: Any = other.upper
        if not np.array_equal(violations.upper, violations.gains):
            above = labels.runner_up(violations.upper, codes, pairwise, layout).upper
        reached = labels.structure.score(violations.gains, other.labels, pairwise, layout, other.levels)
        is_absent = other.upper == -np.inf
        # The labeling found also bounds the margin, even if inference for the bounds is inexact.
        above = np.maximum(above, reached)
        return (
            other,
            np.where(is_absent, np.inf, score - reached),
            np.where(is_absent, np.inf, score - above),
        )

    def _rounding_of(self, violations: Violations, layout: Layout) -> np.ndarray:
        """Bound the rounding error of each labeling's margin, (n_blocks,)."""
        each: Any = violations.rounding
        rounding = row_max(each.reshape(layout.n_rows, -1))
        if not self.several:
            return rounding
        return rounding_of_sums(layout.sums(rounding), layout.lengths + 1.0, self.pairwise)

    def _points(
        self, scenario: np.ndarray, level: np.ndarray, labels: np.ndarray, each: list[list[Violations]]
    ) -> Matrix:
        """Return the worst points for a label of each row, by its scenario and level."""
        places, parts = [], []
        for number, levels in enumerate(each):
            for which, violations in enumerate(levels):
                rows = np.flatnonzero((scenario == number) & (level == which))
                if len(rows):
                    places.append(rows)
                    parts.append(self.space.points(violations.take(rows).points(labels[rows]).points))
        return parts[0] if len(parts) == 1 else stack(parts)[np.argsort(np.concatenate(places))]

    def _most_wrong(self, margins: list[Violations], proven: list[np.ndarray]) -> np.ndarray:
        """Bound the number of wrong rows of each block over all scenarios."""
        counts = np.zeros(len(self.layout), dtype=np.int64)
        for levels, violations, is_certified in zip(self.scenarios, margins, proven, strict=True):
            blocks = np.flatnonzero(~(is_certified & self.allowed))
            if len(blocks):
                wrong = self._wrong_in(levels, violations, blocks)
                counts[blocks] = np.maximum(counts[blocks], wrong)
        return counts

    def _wrong_in(
        self, levels: Sequence[BoundOracle], margins: Violations, blocks: np.ndarray
    ) -> np.ndarray:
        """Bound the number of wrong rows of blocks in one scenario.

        The prediction scores at least as much as any reference: the given labeling, if it is allowed,
        and the prediction for unperturbed rows. With a single perturbation, the prediction is known.
        """
        places_of_blocks, layout = self.layout.rows(blocks), self.layout.take(blocks)
        codes, violations = (
            self.competitors.codes[places_of_blocks],
            margins.take(places_of_blocks),
        )
        changes = levels[0].changes()
        numbers = None if changes is None else changes.listed_in()[1]
        if len(levels) == 1 and numbers is not None and len(numbers) == 1:
            best = decoded(self.labels.structure, violations.gains, self.pairwise, layout).labels
            return self._counted(violations, best, layout, codes, 2.0)
        counts, rows = layout.lengths.copy(), pick(self.rows, places_of_blocks, self.layout.n_rows)
        scores = self.space.values(self.f, take(levels[0].X, rows))
        unperturbed = predicted(
            self.labels.structure, self.labels.n_labels, scores, self.pairwise, layout
        )
        allowed = np.flatnonzero(self.allowed[blocks])
        if len(allowed):
            places, part = layout.rows(allowed), layout.take(allowed)
            counts[allowed] = self._counted(violations.take(places), codes[places], part, codes[places])
        differing = np.flatnonzero(layout.sums(unperturbed != codes) > 0)
        if len(differing):
            places, part = layout.rows(differing), layout.take(differing)
            competitors = self.competitors.take(places_of_blocks[places])
            competitors = replace(competitors, codes=unperturbed[places])
            rows = pick(rows, places, len(places_of_blocks))
            against = Violations.of_levels(self._violations(levels, rows, competitors, False))
            wrong = self._counted(against, unperturbed[places], part, codes[places])
            counts[differing] = np.minimum(counts[differing], wrong)
        return counts

    def _counted(
        self,
        margins: Violations,
        reference: np.ndarray,
        layout: Layout,
        codes: np.ndarray,
        roundings: float = 1.0,
    ) -> np.ndarray:
        """Bound the number of wrong labels in labelings that score at least a reference."""
        score = self.labels.structure.score(margins.gains, reference, self.pairwise, layout)
        thresholds = score - roundings * self._rounding_of(margins, layout)
        return self.labels.most_wrong(margins.upper, codes, thresholds, self.pairwise, layout)


def rounding_of_sums(rounding: np.ndarray, terms: Any, pairwise: np.ndarray) -> np.ndarray:
    """Return the rounding errors of margins of labelings, from those of single rows."""
    # Sums over the rows add 2 rounding units per term. `rounding` has at least 8 units, so a quarter of
    # it covers them.
    largest = np.abs(pairwise).max(initial=0.0)
    return np.asarray(rounding * (1.0 + terms / 4) + 4 * np.finfo(float).eps * terms**2 * largest)


def margins_at(
    scores: np.ndarray,
    labels: BoundStructure,
    codes: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the margins of labelings at given scores, and the best other labelings."""
    potentials = labels.functions.scores(scores)
    other = labels.runner_up(potentials, codes, pairwise, layout).labels
    own, reached = (
        labels.structure.score(potentials, each, pairwise, layout) for each in (codes, other)
    )
    return own - reached, other


def joined(parts: Sequence[WorstChange], points: Matrix | None) -> WorstChange:
    """Concatenate the results of several parts, with the points of all."""
    names = "attacked", "bounds", "rounding", "labels", "most_wrong", "lengths"
    return WorstChange(points=points, **{name: all_of(parts, name) for name in names})


def all_of(parts: Sequence[Any], name: str) -> Any:
    """Concatenate an attribute of several parts, or return None without it."""
    values = [getattr(part, name) for part in parts]
    return None if values and values[0] is None else np.concatenate(values)
