r"""Steps of the multiclass loss for rescaled or removed words, compiled.

`label_steps` describes pairs of a row and a label, and the pools with their dual variables. Here each
pair also has deviations, most of them zero. Two more pools store the others: ``words`` has the position
of the word in its row, and ``deviations`` the value. Row i has the entries ``parts[i, 0]`` to
``parts[i, 0] + parts[i, 1] - 1``, sorted by pair. Pair p has ``sizes[p]`` of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..oracles.words.kernels import (
    Competitors,
    bound_all,
    changing,
    competitors,
    gains,
    largest,
    margin_against,
    worst_label,
)
from ..utils.jit import LEAN, LEAN_FAST, njit
from .label_steps import place_in
from .word_steps import KEEP, NOTHING, Block, Listed, listed, step_block

# If all labels compete, at least this number of labels with a bound above the averaged violation is
# evaluated: a fraction of all labels, up to a maximum. Maximum number of labels that become active in an
# update.
_EVALUATED_FRACTION, _EVALUATED, NEWCOMERS = 0.15, 16, 17
# Pairs with at most this fraction of the largest gap of a pair of the row do no step of their own.
SMALL_GAP = 0.1


class Deviations(NamedTuple):
    """Pools with the deviations of all pairs.

    - `slots` (n, 3): start, number and capacity of the deviations of each row
    - `sizes` (n_pairs,): number of deviations of each pair
    - `words, values` (size,): place of the word in its row, and its deviation
    - `used` (1,): end of the used part
    """

    slots: np.ndarray
    sizes: np.ndarray
    words: np.ndarray
    values: np.ndarray
    used: np.ndarray


class Workspace(NamedTuple):
    """Workspace for one row.

    - `now`: the labels that compete
    - `before_taus` (most,), `before_deltas` (most, longest): dual variables and deviations before
    - `points` (most, longest), `steps, targets` (most,): a step of all pairs
    - `squares, moved` (longest,): squares of the entries, and changes of words
    - `listed, place` (longest,): words of a step of one pair, and their places
    """

    now: Competitors
    before_taus: np.ndarray
    before_deltas: np.ndarray
    points: np.ndarray
    steps: np.ndarray
    targets: np.ndarray
    squares: np.ndarray
    moved: np.ndarray
    listed: Listed
    place: np.ndarray


def workspace(most: int, longest: int, n_labels: int, drop: float, grow: float) -> Workspace:
    """Return a workspace for rows with at most `most` labels and `longest` words."""
    lists, tables, vectors = np.empty((3, most)), np.empty((2, most, longest)), np.empty((2, longest))
    now, words = competitors(most, longest, n_labels), listed(longest, drop, grow)
    place = np.empty(longest, dtype=np.int64)
    return Workspace._make((now, lists[0], *tables, *lists[1:], *vectors, words, place))


@njit(**LEAN)
def _step(work, t, length, edits, rate, square, limit):
    """Update pair t; return the number of its listed words and the step of its dual variable.

    The number is -1 if nothing has changed. The listed words receive the changes of their deviations.
    The dual variable is at most ``limit``. Divided by this limit, the block is that of two classes.
    ``rate`` is twice the weight of the row, since a step changes the weights of two labels. The K
    largest gains may come from before a step of another pair: the line search is exact, so the dual
    objective does not decrease.
    """
    now, words, place, (K, drop, grow) = work.now, work.listed, work.place, edits
    b, delta, size2 = now.products[t], now.deltas[t], work.squares
    products, q, dev, kappa = words.products, words.curvatures, words.deviations, words.amounts
    tau, cost, total, threshold = now.taus[t], now.costs[t], now.totals[t], now.cuts[t]
    scale = 1.0 / limit
    rate, scaled_tau = rate * limit, min(tau * scale, 1.0)
    b0, q0, inner = total, rate * square, scaled_tau * total
    count = changing(b, delta, length, drop, grow, KEEP * threshold, place)
    for s in range(count):
        j = place[s]
        products[s], dev[s] = b[j], delta[j] * scale
        q[s] = rate * size2[j]
        inner += products[s] * dev[s]
        b0 -= products[s]
        q0 -= q[s]
    violation = cost - (total - now.tops[t])
    gap = max(violation, 0.0) - cost * scaled_tau + inner
    if gap <= 0:
        return -1, 0.0
    block = Block(scaled_tau, cost, violation, gap, rate * square, b0, q0, threshold, K)
    gamma, new = step_block(block, words, count)
    if gamma == 0.0:
        return -1, 0.0
    new = limit * new if gamma == 1.0 else tau + gamma * (limit * new - tau)
    for s in range(count):
        old, target = delta[place[s]], limit * kappa[s] if new > 0 else 0.0
        delta[place[s]] = old + gamma * (target - old) if gamma < 1.0 and new > 0 else target
        dev[s] = delta[place[s]] - old
    now.taus[t] = new
    return count, new - tau


@njit(**LEAN_FAST)
def _update_margins(work, size, pair, length, count, rate, intercept, step):
    """Update the margins against all labels of a row after a step of one pair.

    A step changes the weights of the true label and of the label of the pair, so its own margin changes
    twice as much.
    """
    b, total, size2, moved = work.now.products, work.now.totals, work.squares, work.moved
    changes, place, shift = work.listed.deviations, work.place, 0.0
    for j in range(length):
        moved[j] = rate * step * size2[j]
    for s in range(count):
        moved[place[s]] += rate * changes[s] * size2[place[s]]
    for j in range(length):
        shift += moved[j]
    if intercept:
        shift += rate * step
    for t in range(size):
        twice = 2.0 if t == pair else 1.0
        total[t] += twice * shift
        for j in range(length):
            b[t, j] += twice * moved[j]


@njit(**LEAN_FAST)
def _edited_factors(b, length, edits, threshold, point):
    """Write the factor of each word after edits with a gain above a threshold; return their number."""
    _, drop, grow = edits
    edited = 0.0
    for j in range(length):
        value = b[j]
        above = max(drop * value, -grow * value) > threshold
        point[j] = (1.0 - drop if value > 0 else 1.0 + grow) if above else 1.0
        edited += 1.0 if above else 0.0
    return edited


@njit(**LEAN)
def _worst_factors(b, length, edits, threshold, point):
    """Write the factor of each word after the worst edits; ``threshold`` is the K-th largest gain."""
    K, drop, grow = edits
    left = K - _edited_factors(b, length, edits, threshold, point)
    for j in range(length):
        if left <= 0 or threshold <= 0:
            break
        if max(drop * b[j], -grow * b[j]) == threshold:
            point[j], left = (1.0 - drop if b[j] > 0 else 1.0 + grow), left - 1


@njit(**LEAN)
def _targets(work, free, size, curve):
    """Compute new dual variables of the worst edited and of the averaged point of each label.

    They would be optimal if all points were equal. They are a projection on a simplex, by Michelot's
    method. The null plane gets the remainder.
    """
    tau, worst, mean = work.now.taus, work.now.worst, work.now.mean
    worst_target, mean_target, cut = work.steps, work.targets, -np.inf
    while True:
        active, total = 0, -curve
        if free * curve > cut:
            active, total = 1, total + free * curve
        for t in range(size):
            if worst[t] > cut:
                active, total = active + 1, total + worst[t]
            if tau[t] > 0 and tau[t] * curve + mean[t] > cut:
                active, total = active + 1, total + tau[t] * curve + mean[t]
        if active == 0 or not total / active > cut:
            break
        cut = total / active
    for t in range(size):
        worst_target[t] = max(worst[t] - cut, 0.0) / curve
        mean_target[t] = max(tau[t] * curve + mean[t] - cut, 0.0) / curve if tau[t] > 0 else 0.0


@njit(**LEAN_FAST)
def _curvature(points, point_sum, size, size2, length):
    """Write the sum of the changes of all labels; return the squared norm of the change of W."""
    curve = 0.0
    point_sum[:length] = 0.0
    for t in range(size):
        for j in range(length):
            point_sum[j] += points[t, j]
            curve += size2[j] * points[t, j] * points[t, j]
    for j in range(length):
        curve += size2[j] * point_sum[j] * point_sum[j]
    return curve


@njit(**LEAN_FAST)
def _update_all_margins(work, size, length, rate, intercept, step):
    """Update the margins against all labels of a row after a step of all pairs."""
    b, total, size2 = work.now.products, work.now.totals, work.squares
    points, point_sum, steps = work.points, work.moved, work.steps
    for t in range(size):
        shift = rate * (steps[t] + step) if intercept else 0.0
        for j in range(length):
            moved = rate * size2[j] * (points[t, j] + point_sum[j])
            b[t, j] += moved
            shift += moved
        total[t] += shift


@njit(**LEAN)
def _step_all(work, size, length, edits, rate, square, free, intercept):
    """Move dual variables of all labels from averaged to worst points, with one line search."""
    tau, delta, worst, mean = work.now.taus, work.now.deltas, work.now.worst, work.now.mean
    points, steps, targets, point_sum = work.points, work.steps, work.targets, work.moved
    _targets(work, free, size, rate * square)
    slope, curvature, total_step = 0.0, 0.0, 0.0
    for t in range(size):
        # Labels without a dual variable have a target of 0.
        change = targets[t] - tau[t]
        slope += steps[t] * worst[t] + (change * mean[t] if tau[t] > 0 else 0.0)
        if steps[t] > 0:
            _worst_factors(work.now.products[t], length, edits, work.now.cuts[t], points[t])
        else:
            points[t, :length] = 0.0
        ratio = change / tau[t] if tau[t] > 0 else 0.0
        for j in range(length):
            points[t, j] = points[t, j] * steps[t] + (change + ratio * delta[t, j])
        steps[t] += change
        total_step += steps[t]
        curvature += steps[t] * steps[t] * intercept
    curvature += total_step * total_step * intercept
    curvature = rate * (curvature + _curvature(points, point_sum, size, work.squares, length))
    if not slope > 0:
        return
    gamma = 1.0 if slope >= curvature else slope / curvature
    for j in range(length):
        point_sum[j] *= gamma
    total_step *= gamma
    for t in range(size):
        if gamma == 1.0 and tau[t] + steps[t] <= 0:
            steps[t], tau[t] = -tau[t], 0.0
            delta[t, :length] = 0.0
            continue
        steps[t] *= gamma
        tau[t] = max(tau[t] + steps[t], 0.0)
        for j in range(length):
            points[t, j] *= gamma
            delta[t, j] += points[t, j] - steps[t]
            # Deviations of unchanged words are rounding errors. Zeros are not stored.
            if abs(delta[t, j]) <= 1e-15 * tau[t]:
                delta[t, j] = 0.0
    _update_all_margins(work, size, length, rate, intercept, total_step)


@njit(**LEAN)
def _evaluate(now, size, length, edits, mu):
    """Compute the violations of active labels at their worst and averaged points.

    Returns the sum of dual variables times violations at the averaged points.
    """
    K, drop, grow = edits
    tau, total, cost, b, delta = now.taus, now.totals, now.costs, now.products, now.deltas
    worst, mean, tops, cuts, gain, average = now.worst, now.mean, now.tops, now.cuts, now.gains, 0.0
    for t in range(size):
        gains(b[t], length, drop, grow, gain)
        tops[t], cuts[t] = largest(gain, length, K, mu)
        worst[t] = cost[t] - total[t] + tops[t]
        mean[t] = np.inf
        if tau[t] > 0:
            inner = 0.0
            for j in range(length):
                inner += b[t, j] * delta[t, j]
            mean[t] = cost[t] - total[t] - inner / tau[t]
            average += tau[t] * mean[t]
    return average


@njit(**LEAN)
def _improve(work, size, length, edits, rate, square, intercept):
    """Update the pairs of a row: first all together, then those with a large gap one by one."""
    tau, worst, mean = work.now.taus, work.now.worst, work.now.mean
    free, largest_gap, most, least = 1.0, 0.0, 0, 0
    for t in range(size):
        free -= tau[t]
        most = t if worst[t] > worst[most] else most
        least = t if mean[t] < mean[least] else least
    free = max(free, 0.0)
    for t in range(size):
        largest_gap = max(largest_gap, _gap(work.now, t, free + tau[t]))
    if most != least and worst[most] > (min(mean[least], 0.0) if free > NOTHING else mean[least]):
        _step_all(work, size, length, edits, rate, square, free, intercept)
    for t in range(size):
        limit = 1.0
        for s in range(size):
            limit -= tau[s] if s != t else 0.0
        if limit <= NOTHING or not _gap(work.now, t, limit) > SMALL_GAP * largest_gap:
            continue
        count, step = _step(work, t, length, edits, 2.0 * rate, square, max(limit, tau[t]))
        if count >= 0:
            _update_margins(work, size, t, length, count, rate, intercept, step)


@njit(**LEAN)
def _gap(now, t, limit):
    """Return the gap of pair t before the steps, for a largest dual variable."""
    average = now.taus[t] * now.mean[t] if now.taus[t] > 0 else 0.0
    return max(now.worst[t], 0.0) * limit - average


@njit(**LEAN)
def _load(pairs, deviations, i, length, now):
    """Load labels, dual variables and deviations of a row; return the number of labels."""
    slots, labels, taus, _ = pairs
    parts, sizes, words, values, _ = deviations
    first, at = slots[i, 0], parts[i, 0]
    for t in range(slots[i, 1]):
        now.labels[t], now.taus[t] = labels[first + t], taus[first + t]
        now.deltas[t, :length] = 0.0
        for e in range(at, at + sizes[first + t]):
            now.deltas[t, words[e]] = values[e]
        at += sizes[first + t]
    return slots[i, 1]


@njit(**LEAN)
def _store(pairs, deviations, i, length, now, size, forget):
    """Store a row's labels, except those with tau = 0 among the first ``forget`` labels."""
    slots, labels, taus, used = pairs
    parts, sizes, words, values, used_words = deviations
    tau, delta, n_stored, entries = now.taus, now.deltas, 0, 0
    for t in range(size):
        if tau[t] > 0 or t >= forget:
            n_stored += 1
            for j in range(length):
                entries += delta[t, j] != 0
    at, e = place_in(slots, used, i, n_stored), place_in(parts, used_words, i, entries)
    for t in range(size):
        if tau[t] > 0 or t >= forget:
            labels[at], taus[at], sizes[at] = now.labels[t], tau[t], 0
            for j in range(length):
                if delta[t, j] != 0:
                    words[e], values[e] = j, delta[t, j]
                    sizes[at] += 1
                    e += 1
            at += 1


@njit(**LEAN)
def _update_weights(rows, i, W, work, size, rate):
    """Add the change of a row's averaged planes to W."""
    indptr, indices, data, codes, _, intercept = rows
    start, truth, last, delta, old_delta = (
        indptr[i], codes[i], W.shape[0] - 1, work.now.deltas, work.before_deltas
    )  # fmt: skip
    now, steps = work.now, work.steps
    for t in range(size):
        steps[t] = now.taus[t] - work.before_taus[t]
        if intercept:
            W[last, truth] += rate * steps[t]
            W[last, now.labels[t]] -= rate * steps[t]
    for j in range(start, indptr[i + 1]):
        a, x, total = np.uint64(indices[j]), rate * data[j], 0.0
        for t in range(size):
            moved = x * (steps[t] + delta[t, j - start] - old_delta[t, j - start])
            W[a, now.labels[t]] -= moved
            total += moved
        W[a, truth] += total


@njit(**LEAN)
def _moves_of(moves, i, mu, recent):
    """Return the allowed edits of a row, and a guess of its K-th gain.

    Without an earlier update, the guess is the K-th gain of the row before.
    """
    if not moves.changed[i]:
        return (moves.most, 0.0, 0.0), 0.0
    return (moves.most, moves.drop, moves.grow), mu[i] if mu[i] > 0 else recent


@njit(**LEAN)
def sweep_label_words(rows, weights, squares, moves, mu, pairs, deviations, W, order, gaps, least, full,
                      work):  # fmt: skip
    """Update the pairs of the rows in ``order`` until a pool is full.

    Returns the number of processed rows. Rows with a gap of at most ``least`` keep their pairs. If
    ``full`` is true, all labels compete and gaps are exact (`worst_label`). Otherwise, only the active
    labels of the row compete.
    """
    indptr, _, data, codes, cost, intercept = rows
    now, n_labels, recent, delta, tau = work.now, W.shape[1], 0.0, work.now.deltas, work.now.taus
    n_always = int(_EVALUATED_FRACTION * n_labels)
    n_always = max(1, min(n_always, _EVALUATED))
    for number in range(order.size):
        i = order[number]
        start, length, c, truth = indptr[i], indptr[i + 1] - indptr[i], weights[i], codes[i]
        needed = 2 * (pairs.slots[i, 1] + NEWCOMERS + 1)
        if pairs.used[0] + needed > pairs.labels.size:
            return number
        if deviations.used[0] + needed * length > deviations.words.size:
            return number
        gaps[i] = 0.0
        if c == 0:
            continue
        edits, guess = _moves_of(moves, i, mu, recent)
        if full:
            bound_all(rows, i, W, edits, guess, now.bounds)
        size = _load(pairs, deviations, i, length, now)
        n_loaded = size
        for t in range(size):
            k = now.labels[t]
            now.bounds[k], now.costs[t] = -np.inf, cost[truth, k]
            now.totals[t] = margin_against(rows, i, W, k, now.products[t])
        average = _evaluate(now, size, length, edits, guess)
        best, threshold = 0.0, guess
        for t in range(size):
            if now.worst[t] > best:
                best, threshold = now.worst[t], now.cuts[t]
        if full:
            size, best, threshold = worst_label(
                rows, i, W, edits, now, size, n_always, average, best, threshold
            )
            mu[i] = threshold
            recent = threshold if moves.changed[i] else recent
        gaps[i] = max(c * (best - average), 0.0)
        if gaps[i] <= least:
            continue
        for j in range(length):
            work.squares[j] = np.float64(data[start + j]) * data[start + j]
        for t in range(size):
            work.before_taus[t] = tau[t]
            for j in range(length):
                work.before_deltas[t, j] = delta[t, j]
        _improve(work, size, length, edits, c, squares[i] + intercept, intercept)
        _update_weights(rows, i, W, work, size, c)
        _store(pairs, deviations, i, length, now, size, n_loaded if full else 0)
    return order.size


@njit(**LEAN)
def combine_label_words(rows, weights, pairs, deviations, W):
    """Add the weighted sum of the averaged planes of all rows to ``W``."""
    indptr, indices, data, codes, _, intercept = rows
    slots, labels, taus, _ = pairs
    parts, sizes, words, values, _ = deviations
    last = W.shape[0] - 1
    for i in range(codes.size):
        start, at, truth = indptr[i], parts[i, 0], codes[i]
        for p in range(slots[i, 0], slots[i, 0] + slots[i, 1]):
            k, rate = labels[p], weights[i] * taus[p]
            if rate != 0:
                for j in range(start, indptr[i + 1]):
                    W[indices[j], truth] += rate * data[j]
                    W[indices[j], k] -= rate * data[j]
                if intercept:
                    W[last, truth] += rate
                    W[last, k] -= rate
            for e in range(at, at + sizes[p]):
                j = start + words[e]
                moved = weights[i] * data[j] * values[e]
                W[indices[j], truth] += moved
                W[indices[j], k] -= moved
            at += sizes[p]
