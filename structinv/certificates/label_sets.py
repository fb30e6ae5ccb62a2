"""Certificates of label sets: one perturbation of a row for all its labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..oracles.base import InvarianceOracle
from ..oracles.listed_changes import listed
from ..oracles.support import rounding_bound
from ..oracles.third_party import bind
from ..spaces.base import NUMBERS_AT_ONCE, Element, Space
from ..spaces.kernel_tiles import output_rounding
from ..structures import Layout
from ..structures.bound import BoundStructure
from ..structures.inference import decoded
from ..terms.one_change import MOST_LABELS, OneChangeSearch, check_one_change
from ..utils.matrices import ALL_ROWS, Matrix, Rows, row_sizes, stack, take
from .certificate import SAME, WorstChange, joined, margins_at, rounding_of_sums


def labels_worst_change(
    space: Space,
    f: Element,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: Matrix,
    points: bool = True,
    pairwise: np.ndarray | None = None,
) -> WorstChange:
    """Find the perturbation of each row that minimizes the margin of its label set.

    The worst-case margin is ``min over y' other than y, z in S(x) of f(z, y) - f(z, y')``. It is exact
    if the values of `OneChange` are. Otherwise the bound is that of a separate perturbation for each
    label.

    The number of wrong labels is bounded as follows. The prediction at a perturbation scores at least as
    much as the set predicted for the unperturbed row, and as the true set. It therefore has no more
    wrong labels than the worst set that some perturbation makes score as much as one of them. If S(x) is
    a list, the predictions themselves are used, with all tied sets.

    The space has one output per label, and the structure is ``one_row``. The oracle must have a list if
    functions are not linear in x. The other arguments are those of `worst_change`.
    """
    check_one_change(space, oracle)
    pairwise = np.asarray(space.pairwise(f) if pairwise is None else pairwise)
    layout, size = _checked(space, labels, X, pairwise)
    scores = space.values(f, X)
    potentials = labels.functions.scores(scores.reshape(-1, 1))
    predicted = decoded(labels.structure, potentials, pairwise, layout).labels.reshape(-1, size)
    parts, moved, wrong = [], [], []
    for blocks, search, sizes in _searches(space, f, oracle, labels, X, pairwise):
        worst = search.worst(other=True)
        reached = worst.gains
        rounding = _rounding(search, take(X, blocks), np.maximum(sizes, worst.sizes))
        place = space.points(worst.points)
        if np.any(worst.upper > reached + SAME * rounding):
            # Another label set may score more at the point found.
            scores, codes = space.values(f, place), labels.codes[layout.rows(blocks)]
            own = scores.reshape(-1, 1), labels, codes, pairwise, layout.take(blocks)
            reached = np.maximum(reached, -margins_at(*own)[0])
        parts.append(WorstChange(-reached, -np.maximum(worst.upper, reached), rounding, None))
        twice = 2.0 * rounding
        most = search.against(predicted[blocks]).most_wrong(search.codes, twice)
        if not oracle.finite:
            # For a list, predictions are known, and the reference has no effect. Otherwise, use the
            # better one.
            most = np.minimum(most, search.most_wrong(search.codes, twice))
        wrong.append(most)
        if points:
            moved.append(place)
    whole = joined(parts, stack(moved) if points else None)
    # Certified rows have no wrong label.
    most = np.where(whole.certificate().correct, 0, np.concatenate(wrong))
    return replace(whole, most_wrong=most, lengths=layout.lengths)


def _of_a_kernel(space: Space) -> bool:
    return "kernel members" in space.capabilities


def _checked(
    space: Space, labels: BoundStructure, X: Matrix, pairwise: np.ndarray
) -> tuple[Layout, int]:
    """Return the layout of positions and the number of positions per row."""
    if not isinstance(labels, BoundStructure) or not labels.structure.one_row or labels.layout is None:
        raise TypeError(
            "labels must be a BoundStructure of one row per example, such as a bound Multilabel"
        )
    if len(labels.layout) != X.shape[0]:
        raise ValueError(f"labels must be for {X.shape[0]} rows, as X has, got {len(labels.layout)}")
    size = len(labels.codes) // X.shape[0]
    required = (X.shape[1], size, labels.n_pairwise)
    given = (space.n_features, space.n_outputs, len(pairwise))
    if required != given:
        raise ValueError(
            f"the space must have (n_features, n_outputs, n_pairwise) = {required}, got {given}"
        )
    return labels.layout, size


def _searches(
    space: Space,
    f: Element,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: Matrix,
    pairwise: np.ndarray,
) -> Iterator[tuple[Rows, OneChangeSearch, np.ndarray]]:
    """Yield portions of rows, their searches, and sums of sizes for rounding errors."""
    bound, size = bind(oracle, X), len(labels.codes) // X.shape[0]
    each = 1 << size if size <= MOST_LABELS else size
    if oracle.finite:
        each = listed(bound).size * max(size, X.shape[1])
    for blocks in labels.portions(ALL_ROWS, size * max(1, NUMBERS_AT_ONCE // each)):
        codes = labels.codes.reshape(-1, size)[blocks]
        costs = np.zeros((*codes.shape, 2))
        search = OneChangeSearch(space, f, bound, labels, blocks, codes, costs, pairwise)
        yield blocks, search, _sizes(search, take(X, blocks))


def _sizes(search: OneChangeSearch, X: Matrix) -> np.ndarray:
    """Return the sum of absolute terms in all labels' scores; for a list, the maximum over variants."""
    space: Any = search.space
    n_rows = X.shape[0]
    if _of_a_kernel(search.space):
        members = listed(search.bound).members(search.rows)
        return output_rounding(space.kernel, search.f, members).sum(axis=1)
    weights = np.abs(space.weights(search.f)).sum(axis=0)[None]
    same_weights = np.zeros(n_rows, dtype=np.int64)
    sizes = row_sizes(X, weights, same_weights)
    if search.bound.oracle.finite:
        members = listed(search.bound).members(search.rows)
        sizes = np.maximum(sizes, (np.abs(members) @ weights[0]).max(axis=1))
    return sizes + np.abs(space.constants(search.f)).sum()


def _rounding(search: OneChangeSearch, X: Matrix, sizes: np.ndarray) -> np.ndarray:
    """Bound the rounding error of the difference between two labelings' scores."""
    bound = sizes if _of_a_kernel(search.space) else rounding_bound(X, sizes)
    return rounding_of_sums(bound, search.codes.shape[1] + 1.0, search.pairwise)
