"""Certificates of sets of labels whose row changes once for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .certificates import (
    ENTRIES_AT_ONCE,
    Certificate,
    KernelMargins,
    WorstChange,
    joined,
    rounding_error,
)
from .matrices import ALL_ROWS, Matrix, Rows, row_sizes, stack, take
from .oracles.base import InvarianceOracle
from .oracles.checked import bind
from .spaces import Element, Space
from .structures import BoundStructure
from .structures.base import decoded
from .terms.one_change import plain_scores
from .terms.one_change_search import MOST_LABELS, OneChangeSearch


@dataclass(frozen=True)
class LabelsCertificate(Certificate):
    """What is proven about sets of labels under all allowed changes; see `Certificate`.

    Attributes
    ----------
    wrong : (n,) array of int
        At most so many labels of the row differ from those certified, whatever the change.
    n_labels : int
    """

    wrong: np.ndarray
    n_labels: int

    @property
    def position_accuracy(self) -> float:
        """A bound from below on the share of labels that are right under the worst changes."""
        return 1.0 - float(np.mean(self.wrong)) / self.n_labels


def labels_worst_change(
    space: Space,
    f: Element,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: Matrix,
    points: bool = True,
) -> WorstChange:
    """The changes that lower the margin of each row's set of labels most, over all other sets.

    The margin is ``min over y' other than y, z in S(x) of f(z, y) - f(z, y')``: exact as the values of
    `OneChange` are, else the bound is that of a change for each label.

    Parameters
    ----------
    space : Space
        With an output for each label.
    f : element
    oracle : InvarianceOracle
        Of a list where functions are not linear in x.
    labels : BoundStructure
        With the labels that are certified, of a structure with ``one_row``.
    X : (n, d) array or CSR matrix
    points : bool, default=True
        Whether the changed rows are wanted.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not fit one another.

    Examples
    --------
    >>> from structinv.oracles import Box
    >>> from structinv.spaces import ExplicitSpace
    >>> from structinv.structures import Multilabel, positions
    >>> X = np.array([[2.0, -1.0]])
    >>> y, layout = positions(X > 0)
    >>> labels = Multilabel().bind(y, np.arange(2), layout=layout)
    >>> labels_worst_change(ExplicitSpace(2, 2), np.eye(2).ravel(), Box(0.5), labels, X).bounds
    array([0.5])
    """
    parts, moved = [], []
    for blocks, search, sizes in _searches(space, f, oracle, labels, X):
        found = search.worst(other=True, points=points)
        reached = found.gains
        rounding = _rounding(search, take(X, blocks), np.maximum(sizes, found.sizes))
        parts.append(WorstChange(-reached, -np.maximum(found.upper, reached), rounding, None))
        if points:
            own: Any = space
            moved.append(own.points(found.points) if _of_a_kernel(space) else found.points)
    return joined(parts, stack(moved) if points else None)


def labels_certificate(
    space: Space, f: Element, oracle: InvarianceOracle, labels: BoundStructure, X: Matrix
) -> LabelsCertificate:
    """What the margins of sets of labels prove, and how many labels can be wrong.

    Whatever is predicted under a change scores there at least as much as the set r that is predicted
    without one, and as the true one, so that no more labels are wrong than in the worst set that some
    change brings up to r, or to the true one. With listed members the predictions themselves are looked
    at, sets that tie with them included.

    Parameters
    ----------
    space, f, oracle, labels, X
        See `labels_worst_change`.
    """
    plain = labels_worst_change(space, f, oracle, labels, X, points=False).certificate()
    extra, n_rows = space.extra(f), X.shape[0]
    codes = labels.codes.reshape(n_rows, -1)
    scores = plain_scores(space, f, X)
    potentials = labels.functions.scores(scores.reshape(-1, 1))
    assert labels.layout is not None
    predicted = decoded(labels.structure, potentials, extra, labels.layout).labels.reshape(codes.shape)
    wrong = np.zeros(n_rows, dtype=np.int64)
    for blocks, search, sizes in _searches(space, f, oracle, labels, X):
        truth, rounding = search.codes, 2.0 * _rounding(search, take(X, blocks), sizes)
        wrong[blocks] = search.against(predicted[blocks]).most_wrong(truth, rounding)
        if not oracle.finite:
            # Of a list the predictions are known; elsewhere either reference may tell more.
            wrong[blocks] = np.minimum(wrong[blocks], search.most_wrong(truth, rounding))
    wrong[plain.correct] = 0
    return LabelsCertificate(plain.margins, plain.attacked, plain.exact, wrong, codes.shape[1])


def _of_a_kernel(space: Space) -> bool:
    return "kernel members" in space.capabilities


def _searches(
    space: Space, f: Element, oracle: InvarianceOracle, labels: BoundStructure, X: Matrix
) -> Iterator[tuple[Rows, OneChangeSearch, np.ndarray]]:
    """Portions of rows, what asks about them, and sizes of sums whose rounding is a share of them."""
    if not isinstance(labels, BoundStructure) or not labels.structure.one_row or labels.layout is None:
        raise TypeError("labels must be bound to a structure whose positions look at one row")
    if len(labels.layout) != X.shape[0]:
        raise ValueError(f"labels are of {len(labels.layout)} rows, and X has {X.shape[0]}")
    bound = bind(oracle, X)
    size = len(labels.codes) // X.shape[0]
    wanted = (X.shape[1], size, labels.n_extra)
    given = (space.n_features, space.n_outputs, space.n_extra)
    if wanted != given:
        raise ValueError(f"the space must have (n_features, n_outputs, n_extra) = {wanted}, got {given}")
    each = 1 << size if size <= MOST_LABELS else size
    if oracle.finite:
        each = bound.size() * max(size, X.shape[1])
    for blocks in labels.portions(ALL_ROWS, size * max(1, ENTRIES_AT_ONCE // each)):
        codes = labels.codes.reshape(-1, size)[blocks]
        costs = np.zeros((*codes.shape, 2))
        search = OneChangeSearch(space, f, bound, labels, blocks, codes, costs)
        yield blocks, search, _sizes(search, take(X, blocks))


def _sizes(search: OneChangeSearch, X: Matrix) -> np.ndarray:
    """Sums of the sizes of all terms of all labels' scores at the members of a list, or the row."""
    space: Any = search.space
    n_rows = X.shape[0]
    if _of_a_kernel(search.space):
        members = search.bound.cover(search.rows).points
        return KernelMargins(space, search.f, search.bound).allowance.of(members).sum(axis=1)
    weights = np.abs(space.weights(search.f)).sum(axis=0)[None]
    nothing = np.zeros(n_rows, dtype=np.int64)
    sizes = row_sizes(X, weights, nothing)
    if search.bound.oracle.finite:
        members = search.bound.cover(search.rows).points
        sizes = np.maximum(sizes, (np.abs(members) @ weights[0]).max(axis=1))
    return sizes + np.abs(space.constants(search.f)).sum()


def _rounding(search: OneChangeSearch, X: Matrix, sizes: np.ndarray) -> np.ndarray:
    """How far rounding can move the difference of two labellings' scores."""
    terms = search.codes.shape[1] + 1.0
    largest = np.abs(search.extra).max(initial=0.0)
    share = 1.0 if _of_a_kernel(search.space) else rounding_error(X, X.dtype)
    return share * sizes * (1.0 + terms / 4) + 4 * np.finfo(float).eps * terms**2 * largest
