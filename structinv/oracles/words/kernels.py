r"""Worst edits of sparse rows, compiled: rescaling, removal and addition of words.

Let :math:`v` be a direction, :math:`[l, u]` the range of the factors, and :math:`a_j` the largest
increase of word j. The gain of an edit of word j of a row :math:`x` is

.. math:: g_j = \max\bigl(0, (l - 1) v_j x_j, (u - 1) v_j x_j, a_j v_j\bigr).

The last term applies to absent words, or to all words. The best K edits have the K largest gains.
Words that may be added are sorted once per direction. A row takes the best K of them that it lacks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...utils.jit import LEAN, LEAN_FAST, njit
from ...utils.matrices import TIES, best_first

# Maximum number of interpolated cuts in `largest`. Later cuts are elements, so that the search ends.
_GUESSES = 12
# If at most this number of elements is missing, `largest` selects them one by one.
_FEW = 2
# Largest k for which `best_gains` inserts each candidate into a list of the best k.
LISTED = 16
# Fraction of a guessed cut that candidates exceed. With a larger one, more guesses exclude a best gain.
_BELOW = 0.5
# Number of rows of the workspace of `worst_edits`.
WORK_ROWS = 4
# After this number of evaluated labels, the bounds are computed again with a better guess.
_TOO_MANY = 32


class Moves(NamedTuple):
    """Rescaling of the words of rows, in the format of the compiled functions.

    - `most`: maximum number of rescaled words of a row
    - `drop, grow`: largest decrease and increase of a factor
    - `changed` (n,): mask of the rows that may change
    """

    most: int
    drop: float
    grow: float
    changed: np.ndarray


class Allowed(NamedTuple):
    """Fields of `WordEdits`; without values, no word may be added."""

    most: int
    low: float
    high: float
    value: np.ndarray
    present: bool


class Ranks(NamedTuple):
    """Words with a positive gain of addition, best first, per direction.

    - `start` (p + 1,): first word of each direction in `order`
    """

    start: np.ndarray
    order: np.ndarray


class Asked(NamedTuple):
    """Directions of rows: ``V[assign[i]]`` with V (p, d) and assign (n,).

    Number p is the direction ``-V[0]``.

    - `rho` (K + 1,), `cost` (n,): grades of the numbers of edits, and cost of each row; rho may be empty
    """

    V: np.ndarray
    assign: np.ndarray
    rho: np.ndarray
    cost: np.ndarray


class Maxima(NamedTuple):
    """Largest scores of rows (n,), bounds of ``<|v|, |z|>``, and grades."""

    values: np.ndarray
    sizes: np.ndarray
    grades: np.ndarray


class Edited(NamedTuple):
    """Edited entries (nnz,), added words (n, K) and their numbers (n,); may be empty."""

    data: np.ndarray
    added: np.ndarray
    n_added: np.ndarray


class LabelRows(NamedTuple):
    """CSR rows with labels, in the format of the compiled functions.

    - `codes` (n,): true label of each row
    - `cost` (n_labels, n_labels): cost of each label per true label
    - `intercept`: whether the last row of the weights belongs to a constant feature
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    codes: np.ndarray
    cost: np.ndarray
    intercept: bool

    def part(self, rows: slice) -> LabelRows:
        """Return some consecutive rows."""
        indptr = self.indptr[rows.start : rows.stop + 1]
        return self._replace(indptr=indptr, codes=self.codes[rows])


class Competitors(NamedTuple):
    """Workspace: the labels that compete in one row.

    - `labels` (most,): their numbers
    - `taus, totals, costs` (most,): dual variables, margins and costs
    - `worst, mean` (most,): violations at the worst and at the averaged points
    - `tops, cuts` (most,): sum of the K largest gains, and the K-th largest gain
    - `products, deltas` (most, longest): contributions of words to the margins, and deviations
    - `bounds` (n_labels,): upper bounds of the violations of all labels
    - `gains` (longest,): gains of the words for one label
    """

    labels: np.ndarray
    taus: np.ndarray
    totals: np.ndarray
    costs: np.ndarray
    worst: np.ndarray
    mean: np.ndarray
    tops: np.ndarray
    cuts: np.ndarray
    products: np.ndarray
    deltas: np.ndarray
    bounds: np.ndarray
    gains: np.ndarray


def competitors(most: int, longest: int, n_labels: int) -> Competitors:
    """Return a workspace for rows with at most `most` labels and `longest` words."""
    lists, tables = np.empty((7, most)), np.empty((2, most, longest))
    labels, bounds, gains = np.empty(most, dtype=np.int64), np.empty(n_labels), np.empty(longest)
    return Competitors._make((labels, *lists, *tables, bounds, gains))


@njit(**LEAN)
def gather(indices, data, v, b):
    """Write ``v[indices[t]] * data[t]`` to ``b[t]``.

    Unsigned indices avoid a comparison with zero. Scalar loads are faster here than vector loads.
    """
    for t in range(indices.size):
        b[t] = v[np.uint64(indices[t])] * data[t]


@njit(**LEAN_FAST)
def products(indices, data, sign, v, b):
    """Write signed products of a row with ``v``; return their sum and absolute sum."""
    total, size = 0.0, 0.0
    gather(indices, data, v, b)
    for t in range(indices.size):
        value = sign * b[t]
        b[t] = value
        total += value
        size += abs(value)
    return total, size


@njit(**LEAN_FAST)
def gains(b, length, drop, grow, gain):
    """Write the gain ``max(drop * b, -grow * b)`` of the best edit of each word."""
    for t in range(length):
        gain[t] = max(drop * b[t], -grow * b[t])


@njit(**LEAN_FAST)
def changing(b, delta, length, drop, grow, cut, place):
    """Write positions of words with a deviation or gain above ``cut``; count them."""
    count = 0
    for t in range(length):
        place[count] = t
        count += (max(drop * b[t], -grow * b[t]) > cut) | (delta[t] != 0)
    return count


@njit(**LEAN_FAST)
def _weigh(gain, count, cut):
    """Return the number of elements above a cut, the number equal to it, and the sum above it."""
    above, level, total = 0.0, 0.0, 0.0
    for t in range(count):
        value = gain[t]
        above += 1.0 if value > cut else 0.0
        level += 1.0 if value == cut else 0.0
        total += value if value > cut else 0.0
    return above, level, total


@njit(**LEAN)
def largest(gain, count, k, guess):
    """Return the sum of the k largest positive elements of an array, and a cut.

    The cut separates the k-th largest element from the next one: at most k elements are above it, and
    the missing ones equal it. It is 0 if fewer than k elements are positive, and infinite for k = 0. The
    sum does not depend on the guess, to the last bit. A guess may therefore come from another row.

    Shapes: `gain` (n,).
    """
    if k <= 0:
        return 0.0, np.inf
    # `above_low` and `above_high` are the numbers of elements above `low` and `high`; -1 if unknown.
    low, above_low, high, above_high = 0.0, -1.0, np.inf, -1.0
    cut = guess if 0 < guess < np.inf and count > k else 0.0
    total = 0.0
    for step in range(_GUESSES + count):
        above, level, total = _weigh(gain, count, cut)
        if above <= k and (above + level >= k or cut <= 0):
            if above < k and cut > 0 and above + level == k:
                # Sum all k elements in one pass, so that the rounding does not depend on the cut.
                _, _, total = _weigh(gain, count, np.nextafter(cut, 0.0))
            elif above < k:
                total += (k - above) * cut
            return total, cut
        if above > k:
            low, above_low = cut, above
        else:
            high, above_high = cut, above
        few = high < np.inf and (k - above_high <= _FEW or step >= _GUESSES)
        if above_low < 0:
            cut = 0.5 * high if step == 0 else 0.0
        elif high == np.inf:
            cut = total / above
        else:
            cut = low + (high - low) * (above_low - k) / (above_low - above_high)
        if few or (above_low >= 0 and not low < cut < high):
            # The largest element below `high`, so that the search ends; infinity at most once.
            cut = 0.0
            for t in range(count):
                if cut < gain[t] and (gain[t] < high or above_high < 0):
                    cut = gain[t]
    return total, cut


@njit(**LEAN)
def _candidates(gain, step, count, cut, kept):
    """Write the elements above a cut, without branches; return their number."""
    size, at = 0, 0
    for _ in range(count):
        kept[size] = gain[at]
        size += gain[at] > cut
        at += step
    return size


@njit(**LEAN)
def best_gains(gain, step, count, k, guess, kept, best):
    """Return the results of `largest` for every step-th element.

    It is faster for small k. A good guess leaves few candidates. Their best k are added up in decreasing
    order, so that the sum does not depend on the guess.

    Workspaces: `kept` (n,), `best` (min(k, LISTED),).
    """
    if k <= 0:
        return 0.0, np.inf
    if k > LISTED:
        return largest(kept, _candidates(gain, step, count, 0.0, kept), k, guess)
    size = _candidates(gain, step, count, _BELOW * guess, kept)
    if size < k and guess > 0:
        size = _candidates(gain, step, count, 0.0, kept)
    for m in range(k):
        best[m] = 0.0
    for t in range(size):
        value = kept[t]
        for m in range(k):
            # The larger one stays, and the smaller one moves on: branches on data are slow.
            above = best[m]
            best[m] = max(above, value)
            value = min(above, value)
    total = 0.0
    for m in range(k):
        total += best[m]
    return total, best[k - 1]


@njit(**LEAN)
def ordered(gain, count, k):
    """Move the k largest positive elements to the front, in decreasing order.

    Returns their number. Other elements may be overwritten.
    """
    _, cut = largest(gain, count, k, 0.0)
    size, level = 0, 0
    for t in range(count):
        level += gain[t] > cut
    level = k - level if cut > 0 else 0
    for t in range(count):
        value = gain[t]
        tied = value == cut and level > 0
        if value > cut or tied:
            level -= tied
            gain[size] = value
            size += 1
    # Shell's sort: insertion sort with decreasing strides.
    stride = 1
    while 3 * stride < size:
        stride = 3 * stride + 1
    while stride > 0:
        for t in range(stride, size):
            value, at = gain[t], t
            while at >= stride and gain[at - stride] < value:
                gain[at] = gain[at - stride]
                at -= stride
            gain[at] = value
        stride //= 3
    return size


def ranked(V: np.ndarray, value: np.ndarray, most: int) -> Ranks:
    """Return at least the best `most` words to add, per direction.

    Shapes: `V` (p, d), `value` (d,).
    """
    words, most = [], max(most, 1)
    for v in V:
        gain = value * v
        places = np.flatnonzero(gain > 0)
        places = places[best_first(gain[places], most if len(places) > 2 * most else None)]
        words.append(places)
    start = np.cumsum([0, *map(len, words)])
    return Ranks(start, np.concatenate([*words, np.empty(0, dtype=np.intp)]))


@njit(**LEAN)
def _is_absent(indices, data, start, stop, word):
    """Return whether a row with sorted words lacks a word, or stores a zero for it."""
    end = stop
    while start < stop:
        middle = (start + stop) // 2
        if indices[middle] < word:
            start = middle + 1
        else:
            stop = middle
    return start == end or indices[start] != word or data[start] == 0


@njit(**LEAN)
def worst_edits(rows, asked, allowed, ranks, maxima, edited, work, places):
    r"""Maximize the scores of rows over their word edits, with graded costs if given.

    .. math:: \max_{k \le K}\; \langle v, x_i \rangle + \sum_{m \le k} g_{(m)} + r_i \rho_k .

    If gains are equal, the first words of the row come before later ones and before added words.

    Workspaces: `work` (WORK_ROWS, longest row + K + 1), `places` (2, longest row + K + 1).
    """
    indptr, indices, data = rows
    V, assign, rho, cost = asked
    K, low, high, value, present = allowed
    ranks_start, order = ranks
    values, sizes, grades = maxima
    edited_data, added, n_added = edited
    b, gain, kept, best, guess = work[0], work[1], work[2], work[3], 0.0
    candidates, chosen = places[0], places[1]
    for i in range(assign.size):
        start, length, a = indptr[i], indptr[i + 1] - indptr[i], assign[i]
        v, sign = (V[a], 1.0) if a < V.shape[0] else (V[0], -1.0)
        stop, count = start + length, length
        score, abs_score = products(indices[start:stop], data[start:stop], sign, v, b)
        gains(b, length, low - 1.0, 1.0 - high, gain)
        if value.size:
            for t in range(length if present else 0):
                if data[start + t] != 0:
                    j = indices[start + t]
                    gain[t] = max(gain[t], value[j] * sign * v[j])
            r = ranks_start[a]
            while r < ranks_start[a + 1] and count < length + K:
                j = order[r]
                gain[count], candidates[count] = value[j] * sign * v[j], j
                count += _is_absent(indices, data, start, stop, j)
                r += 1
        left, total_gain = K, 0.0
        if rho.size:
            for t in range(count):
                kept[t] = gain[t]
            found, left, cut, total = ordered(kept, count, K), 0, np.inf, 0.0
            reached = cost[i] * rho[0]
            for k in range(found):
                total += kept[k]
                graded = total + cost[i] * rho[k + 1]
                if graded > reached:
                    reached, left, cut, total_gain = graded, k + 1, kept[k], total
            grades[i] = rho[left]
            values[i] = score + reached
        else:
            # If words of the row may not change, only added words have gains.
            first = length if low == high and not present else 0
            total_gain, cut = best_gains(gain[first:], 1, count - first, K, guess, kept, best)
            # Guess for the next row, which often has similar gains.
            guess = 0.5 * (guess + cut) if K > 0 else guess
            values[i] = score + total_gain
        sizes[i] = max(high, 1.0) * abs_score + (total_gain if value.size else 0.0)
        if n_added.size == 0:
            continue
        n_added[i] = 0
        # Choose the words with gains above the cut, then the first ones with gains equal to it, up to K.
        size = 0
        for t in range(count):
            chosen[size] = t
            size += gain[t] > cut * (1.0 + TIES)
        for t in range(count if size < left and cut > 0 else 0):
            if size < left and abs(gain[t] - cut) <= TIES * cut:
                chosen[size] = t
                size += 1
        for r in range(size):
            t = chosen[r]
            if t >= length:
                added[i, n_added[i]] = candidates[t]
                n_added[i] += 1
                continue
            j, factor = indices[start + t], low if b[t] < 0 else high
            rescaled = (1.0 + TIES) * (factor - 1.0) * b[t]
            if present and data[start + t] != 0 and value[j] * sign * v[j] > rescaled:
                edited_data[start + t] += value[j]
            else:
                edited_data[start + t] *= factor


@njit(**LEAN)
def label_maxima(rows, table, codes, K, low, high, found, sizes, work, guess):
    r"""Maximize the score gain of each label over the factors of the words of a row.

    .. math:: \max_{z \in S(x_i)} \langle w_k - w_c, z \rangle
       = \langle w_k - w_c, x_i \rangle + \sum_{t \le K} g_{(t)} ,

    .. math:: g_j = \max\bigl(0, (l - 1) b_j, (u - 1) b_j\bigr), \quad b_j = (w_k - w_c)_j x_{ij}

    The function does not store ``w_k - w_c`` as directions, since there are n_labels^2 of them. `sizes`
    are bounds of ``<|w_k| + |w_c|, |z|>``.

    Shapes: `table` (d, n_labels), `codes` (n,), `found, sizes` (n, n_labels), `work` (n_labels * longest
    row + longest row + LISTED,), `guess` (n_labels,).
    """
    indptr, indices, data = rows
    n_labels = table.shape[1]
    best, others = work[:LISTED], work[LISTED:]
    for i in range(codes.size):
        start, length, c = indptr[i], indptr[i + 1] - indptr[i], codes[i]
        total, size = found[i], sizes[i]
        kept, gain = others[:length], others[length:]
        for k in range(n_labels):
            total[k], size[k] = 0.0, 0.0
        for e in range(length):
            row, x = table[np.uint64(indices[start + e])], data[start + e]
            true_weight, of_labels = row[c], gain[e * n_labels :]
            for k in range(n_labels):
                b = (row[k] - true_weight) * x
                total[k] += b
                size[k] += abs(row[k] * x)
                of_labels[k] = max((low - 1.0) * b, (high - 1.0) * b)
        own = size[c]
        for k in range(n_labels):
            size[k] = max(high, 1.0) * (size[k] + own)
            if k != c:
                top, cut = best_gains(gain[k:], n_labels, length, K, guess[k], kept, best)
                total[k] += top
                guess[k] = 0.5 * (guess[k] + cut) if K > 0 else 0.0


@njit(**LEAN_FAST)
def _loss(b, drop, grow, guess):
    """Return the part of a word in the bound of a violation, from its part of the margin."""
    return max(max(drop * b, -grow * b) - guess, 0.0) - b


@njit(**LEAN_FAST)
def bound_all(rows, i, W, edits, guess, bounds):
    """Compute upper bounds of the worst violations of all labels.

    ``guess`` estimates the K-th largest gain. For any guess g, the K largest gains add up to at most K g
    plus the sum of ``max(gain - g, 0)``. The bound is tight if g is the K-th largest gain.
    """
    indptr, indices, data, codes, costs, intercept = rows
    K, drop, grow = edits
    start, stop, truth = indptr[i], indptr[i + 1], codes[i]
    cost = costs[truth]
    if stop - start <= K or K == 0:
        guess = 0.0
    last, n_labels = W.shape[0] - 1, bounds.size
    for k in range(n_labels):
        bounds[k] = cost[k] + K * guess
        if intercept:
            bounds[k] += W[last, k] - W[last, truth]
    j = start
    # Four words at a time, because the reads of their weights from memory then overlap.
    while j + 4 <= stop:
        a, b, c, d = (
            np.uint64(indices[j]), np.uint64(indices[j + 1]), np.uint64(indices[j + 2]),
            np.uint64(indices[j + 3]),
        )  # fmt: skip
        x, y, z, u = data[j], data[j + 1], data[j + 2], data[j + 3]
        true_a, true_b, true_c, true_d = W[a, truth], W[b, truth], W[c, truth], W[d, truth]
        for k in range(n_labels):
            bounds[k] += (
                _loss((true_a - W[a, k]) * x, drop, grow, guess)
                + _loss((true_b - W[b, k]) * y, drop, grow, guess)
                + _loss((true_c - W[c, k]) * z, drop, grow, guess)
                + _loss((true_d - W[d, k]) * u, drop, grow, guess)
            )
        j += 4
    while j < stop:
        a, x = np.uint64(indices[j]), data[j]
        true_a = W[a, truth]
        for k in range(n_labels):
            bounds[k] += _loss((true_a - W[a, k]) * x, drop, grow, guess)
        j += 1
    bounds[truth] = -np.inf


@njit(**LEAN)
def _largest_bound(bound):
    """Return the label with the largest bound."""
    best = 0
    for k in range(1, bound.size):
        if bound[k] > bound[best]:
            best = k
    return best


@njit(**LEAN_FAST)
def margin_against(rows, i, W, k, products):
    """Write the parts of the margin against label ``k``; return the margin."""
    indptr, indices, data, codes, _, intercept = rows
    start, truth, last = indptr[i], codes[i], W.shape[0] - 1
    total = 0.0
    for j in range(start, indptr[i + 1]):
        a = np.uint64(indices[j])
        value = (W[a, truth] - W[a, k]) * data[j]
        products[j - start] = value
        total += value
    if intercept:
        total += W[last, truth] - W[last, k]
    return total


@njit(**LEAN)
def worst_label(rows, i, W, edits, work, size, n_always, average, best, threshold):
    """Evaluate labels, the largest bound first, until none can be worse.

    Labels with a violation above ``average`` become active. Returns the number of active labels, the
    largest violation, and the K-th largest gain of its label.
    """
    bounds, (K, drop, grow) = work.bounds, edits
    length, costs = rows.indptr[i + 1] - rows.indptr[i], rows.cost[rows.codes[i]]
    n_evaluated, most = 0, size + n_always + 1
    while True:
        k = _largest_bound(bounds)
        # NaN also ends the loop.
        if not bounds[k] > best and (n_evaluated >= n_always or not bounds[k] > average):
            return size, best, threshold
        bounds[k], n_evaluated = -np.inf, n_evaluated + 1
        margin = margin_against(rows, i, W, k, work.products[size])
        gains(work.products[size], length, drop, grow, work.gains)
        top, cut = largest(work.gains, length, K, threshold)
        value = costs[k] - margin + top
        if value > best:
            best, threshold = value, cut
        if value > average and size < most:
            work.labels[size], work.taus[size], work.costs[size] = k, 0.0, costs[k]
            work.totals[size], work.tops[size], work.cuts[size] = margin, top, cut
            work.worst[size], work.mean[size] = value, np.inf
            work.deltas[size, :length] = 0.0
            size += 1
        if n_evaluated == _TOO_MANY:
            bound_all(rows, i, W, edits, threshold, bounds)
            for t in range(size):
                bounds[work.labels[t]] = -np.inf


@njit(**LEAN)
def label_losses(rows, edits, W, losses, work):
    """Compute exact losses of rows at ``W``, with a workspace for one label."""
    # Guess of the K-th largest gain, from the row before.
    guess = 0.0
    for i in range(losses.size):
        bound_all(rows, i, W, edits, guess, work.bounds)
        # With an infinite average no label becomes active.
        _, losses[i], guess = worst_label(rows, i, W, edits, work, 0, 0, np.inf, 0.0, guess)
