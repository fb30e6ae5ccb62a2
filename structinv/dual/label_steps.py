r"""Steps of the multiclass loss for unperturbed rows, compiled.

An averaged plane of a row :math:`x` with label :math:`c` is an element of the convex hull of its planes
and the null plane. It has a dual variable :math:`\tau_k \ge 0` for every other label, with
:math:`\sum_k \tau_k \le 1`. With word edits it also has deviations :math:`\delta_k`:

.. math:: W = \sum_k (e_c - e_k) \otimes x \circ (\tau_k + \delta_k), \quad
   \sum_j \max\Bigl(\frac{-\delta_{kj}}{1-l}, \frac{\delta_{kj}}{u-1}\Bigr) \le K \tau_k .

Only labels of the active set are stored. An update over all labels adds labels with large violations
and removes labels with tau = 0. A *pool* is an array with the stored pairs of all rows. Row i has the
pairs ``slots[i, 0]`` to ``slots[i, 0] + slots[i, 1] - 1``, with capacity for ``slots[i, 2]``. Weights
have shape (n_features, n_labels), so the labels of a word are contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.jit import LEAN, LEAN_FAST, njit

# Maximum number of labels that join the active set of a row in one update.
NEWCOMERS = 8


class Pairs(NamedTuple):
    """Pools with the pairs of all rows.

    - `slots` (n, 3): start, number and capacity of the pairs of each row
    - `labels, taus` (size,): label and dual variable of each pair
    - `used` (1,): end of the used part
    """

    slots: np.ndarray
    labels: np.ndarray
    taus: np.ndarray
    used: np.ndarray


class LabelWork(NamedTuple):
    """Workspace of one row: values by label, and the labels that compete."""

    score: np.ndarray
    taus: np.ndarray
    change: np.ndarray
    labels: np.ndarray
    inside: np.ndarray


def label_work(n_labels: int) -> LabelWork:
    """Return a workspace of zeros."""
    labels, inside = np.zeros(n_labels + 1, dtype=np.int64), np.zeros(n_labels, dtype=bool)
    score, taus, change = np.zeros((3, n_labels + 1))
    return LabelWork(score[:n_labels], taus, change, labels, inside)


@njit(**LEAN_FAST)
def _score_all(indices, data, start, stop, W, score):
    """Add the scores of a row for all labels, four words at a time for speed."""
    n_labels, j = score.size, start
    while j + 4 <= stop:
        a, b, c, d = indices[j], indices[j + 1], indices[j + 2], indices[j + 3]
        x, y, z, u = data[j], data[j + 1], data[j + 2], data[j + 3]
        for k in range(n_labels):
            score[k] += x * W[a, k] + y * W[b, k] + z * W[c, k] + u * W[d, k]
        j += 4
    while j < stop:
        a, x = indices[j], data[j]
        for k in range(n_labels):
            score[k] += x * W[a, k]
        j += 1


@njit(**LEAN_FAST)
def _score_some(indices, data, start, stop, W, work, size, score):
    """Add the scores of a row for the labels in ``work``."""
    for j in range(start, stop):
        a, x = indices[j], data[j]
        for t in range(size):
            score[work[t]] += x * W[a, work[t]]


@njit(**LEAN)
def _load(pairs, i, work, taus_by_label):
    """Load labels and dual variables of a row; return their number and sum."""
    slots, labels, taus, _ = pairs
    first, size, total = slots[i, 0], slots[i, 1], 0.0
    for t in range(size):
        work[t] = labels[first + t]
        taus_by_label[work[t]] = taus[first + t]
        total += taus[first + t]
    return size, total


@njit(**LEAN)
def place_in(slots, used, i, size):
    """Return the position in a pool at which to store `size` entries of a row.

    If the row has less capacity, this is the end of the used part, with 50 % spare capacity.
    """
    if size > slots[i, 2]:
        slots[i, 0], slots[i, 2] = used[0], size + size // 2
        used[0] += slots[i, 2]
    slots[i, 1] = size
    return slots[i, 0]


@njit(**LEAN)
def _threshold(work, size, tau, score, curve):
    """Return t such that ``max(0, tau * curve + score - t)`` adds up to `curve` (Michelot)."""
    total, active = 0.0, size
    for t in range(size):
        total += tau[work[t]] * curve + score[work[t]]
    cut = (total - curve) / active
    while True:
        total, count = 0.0, 0
        for t in range(size):
            value = tau[work[t]] * curve + score[work[t]]
            if value > cut:
                total += value
                count += 1
        if count >= active or count == 0:
            return cut
        active = count
        cut = (total - curve) / active


@njit(**LEAN)
def _highest(score, inside):
    """Return the label outside the active set with the highest score; -1 if there is none."""
    best, value = -1, -np.inf
    for k in range(score.size):
        if score[k] > value and not inside[k]:
            best, value = k, score[k]
    return best


@njit(**LEAN_FAST)
def _update(indices, data, start, stop, work, change, size, W):
    for j in range(start, stop):
        a, x = indices[j], data[j]
        for t in range(size):
            W[a, work[t]] += change[t] * x


@njit(**LEAN)
def sweep_labels(rows, weights, squares, pairs, W, order, gaps, full, workspace):
    """Update the rows of ``order`` until the pool is full; return their number.

    An update is exact over the competing labels: a projection on a simplex (Crammer and Singer 2001,
    sec. 6; Keerthi et al. 2008). If ``full`` is true, all labels compete and gaps are exact. Otherwise,
    only the labels of the active set compete.
    """
    indptr, indices, data, codes, cost, intercept = rows
    slots, labels, _, used = pairs
    score, taus_by_label, change, work, inside = workspace
    n_labels, last = W.shape[1], W.shape[0] - 1
    for number in range(order.size):
        i = order[number]
        if used[0] + 2 * (slots[i, 1] + NEWCOMERS + 1) > labels.size:
            return number
        c, truth, start, stop = weights[i], codes[i], indptr[i], indptr[i + 1]
        size, total = _load(pairs, i, work, taus_by_label)
        work[size] = truth
        size += 1
        taus_by_label[truth] = max(1.0 - total, 0.0)
        if full:
            for k in range(n_labels):
                score[k] = cost[truth, k] + (W[last, k] if intercept else 0.0)
            _score_all(indices, data, start, stop, W, score)
        else:
            for t in range(size):
                k = work[t]
                score[k] = cost[truth, k] + (W[last, k] if intercept else 0.0)
            _score_some(indices, data, start, stop, W, work, size, score)
        average, best = 0.0, -np.inf
        for t in range(size):
            average += taus_by_label[work[t]] * score[work[t]]
            best = max(best, score[work[t]])
        if full:
            for k in range(n_labels):
                best = max(best, score[k])
        gaps[i] = max(c * (best - average), 0.0)
        if c > 0 and best > average:
            curve = c * (squares[i] + intercept)
            for t in range(size):
                inside[work[t]] = True
            cut = _threshold(work, size, taus_by_label, score, curve)
            if full:
                for _ in range(min(NEWCOMERS, n_labels - size)):
                    k = _highest(score, inside)
                    if score[k] <= cut:
                        break
                    work[size], inside[k] = k, True
                    size += 1
                    cut = _threshold(work, size, taus_by_label, score, curve)
            for t in range(size):
                k = work[t]
                inside[k] = False
                if curve > 0:
                    new = max(taus_by_label[k] * curve + score[k] - cut, 0.0) / curve
                else:
                    new = 1.0 if score[k] == best else 0.0
                    best += new
                change[t] = -c * (new - taus_by_label[k])
                taus_by_label[k] = new
            _update(indices, data, start, stop, work, change, size, W)
            if intercept:
                for t in range(size):
                    W[last, work[t]] += change[t]
            _store(pairs, i, work, size, taus_by_label, truth, full)
        for t in range(size):
            taus_by_label[work[t]] = 0.0
    return order.size


@njit(**LEAN)
def _store(pairs, i, work, size, taus_by_label, truth, full):
    """Store the labels of a row; if ``full``, only those with a positive tau."""
    slots, labels, taus, used = pairs
    count, total = 0, 0.0
    for t in range(size):
        count += work[t] != truth and (taus_by_label[work[t]] > 0 or not full)
        total += taus_by_label[work[t]]
    total -= taus_by_label[truth]
    at = place_in(slots, used, i, count)
    for t in range(size):
        k = work[t]
        if k != truth and (taus_by_label[k] > 0 or not full):
            labels[at], taus[at] = k, taus_by_label[k] / max(total, 1.0)
            at += 1


@njit(**LEAN)
def losses_of_labels(rows, W, losses, score):
    """Compute exact losses of rows at ``W``; ``score`` is a workspace (n_labels,)."""
    indptr, indices, data, codes, cost, intercept = rows
    for i in range(losses.size):
        for k in range(score.size):
            score[k] = cost[codes[i], k] + (W[W.shape[0] - 1, k] if intercept else 0.0)
        _score_all(indices, data, indptr[i], indptr[i + 1], W, score)
        best = -np.inf
        for k in range(score.size):
            best = max(best, score[k])
        losses[i] = best - score[codes[i]]


@njit(**LEAN)
def combine_labels(rows, weights, pairs, W, workspace):
    """Add weighted planes of all rows to ``W``."""
    indptr, indices, data, codes, _, intercept = rows
    slots, labels, taus, _ = pairs
    change, work = workspace.change, workspace.labels
    for i in range(codes.size):
        first, size, total = slots[i, 0], slots[i, 1], 0.0
        for t in range(size):
            work[t], change[t] = labels[first + t], -weights[i] * taus[first + t]
            total -= change[t]
        if total == 0:
            continue
        work[size], change[size] = codes[i], total
        _update(indices, data, indptr[i], indptr[i + 1], work, change, size + 1, W)
        if intercept:
            for t in range(size + 1):
                W[W.shape[0] - 1, work[t]] += change[t]
