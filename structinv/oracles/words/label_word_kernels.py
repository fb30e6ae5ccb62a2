r"""Averaged planes of a joint multiclass loss whose rows may have words rescaled or dropped.

See `label_kernels` for the levels of labels and the pools they are in. Here each pair of a row and a
label also has deviations of few words, which lie in two more pools: word, counted from the row's
first, and size. Those of row i are ``parts[i, 0]`` to ``parts[i, 0] + parts[i, 1] - 1``, pair by pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.jit import njit
from ..label_kernels import place_in
from .word_blocks import step_block
from .word_selection import changing, gains, largest

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Reordering of sums is allowed, infinities keep their meaning.
_FAST: dict[str, Any] = {**_PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}}
# Words whose gain is below this fraction of the multiplier are left unchanged in a visit.
_KEEP = 0.7
# Of a row so many labels are looked at in any case, by how many there are, and may join in a visit.
_SHARE_LOOKED_AT, _LOOKED_AT, NEWCOMERS = 0.15, 16, 17
# Bounds that leave so many labels to be looked at are computed again, with a better guess.
_TOO_MANY = 32
_NOTHING = 1e-12


def workspace(most: int, longest: int, n_labels: int, drop: float, grow: float) -> tuple:
    """Room for a row of at most so many labels and words in `sweep_words`."""
    room = np.empty((11, longest))
    # Of every word: it is there, and can move so far.
    room[7], room[8], room[9] = 1.0, drop, grow
    tables, lists = np.empty((4, most, longest)), np.empty((10, most))
    places = np.empty(most, dtype=np.int64), np.empty(longest, dtype=np.int64)
    return tables, lists, room, np.empty(n_labels), *places


@njit(**_FAST)
def _bound_all(indices, data, start, stop, W, truth, cost, intercept, K, drop, grow, guess, bound):
    """Bounds from above of what each label reaches, near the exact values if the guess is good.

    The K largest gains add up to at most K times any guess of the K-th, and what gains have above it.
    """
    if stop - start <= K or K == 0:
        guess = 0.0
    last, n_labels = W.shape[0] - 1, bound.size
    for k in range(n_labels):
        bound[k] = cost[k] + K * guess
        if intercept:
            bound[k] += W[last, k] - W[last, truth]
    for j in range(start, stop):
        a, x = indices[j], data[j]
        own = W[a, truth]
        for k in range(n_labels):
            b = (own - W[a, k]) * x
            bound[k] += max(max(drop * b, -grow * b) - guess, 0.0) - b


@njit(**_PLAIN)
def _highest(bound):
    """The label of the highest bound."""
    best = 0
    for k in range(1, bound.size):
        if bound[k] > bound[best]:
            best = k
    return best


@njit(**_FAST)
def _products(indices, data, start, stop, W, truth, k, b):
    """What each word adds to the margin against a label; their sum."""
    total = 0.0
    for j in range(start, stop):
        a = np.uint64(indices[j])
        value = (W[a, truth] - W[a, k]) * data[j]
        b[j - start] = value
        total += value
    return total


@njit(**_PLAIN)
def _step(b, total, delta, level, limit, rate, cost, square, size2, length, K, drop, grow, top,
          threshold, room, place):  # fmt: skip
    """Raise the dual in one pair, within a limit of its level; whether it moved, and the new level.

    All is as for two classes when levels are counted in shares of the limit: ``rate`` is the row's
    weight times two, since two rows of weights move, and ``total`` the whole margin. What the K
    largest gains are may be known from a moment before: the step is searched for exactly.
    """
    h, q, kappa, own, dev = room[1], room[2], room[3], room[4], room[6]
    share = 1.0 / limit
    rate, tau = rate * limit, min(level * share, 1.0)
    b0, q0, inner = total, rate * square, tau * total
    count = changing(b, delta, length, drop, grow, _KEEP * threshold, place)
    for t in range(count):
        j = place[t]
        own[t], dev[t] = b[j], delta[j] * share
        q[t] = rate * size2[j]
        inner += own[t] * dev[t]
        b0 -= own[t]
        q0 -= q[t]
    lack = cost - (total - top)
    gap = max(lack, 0.0) - cost * tau + inner
    if gap <= 0:
        return False, level
    gamma, new = step_block(
        tau, cost, lack, gap, rate * square, own, q, room[7], dev, count, b0, q0, threshold, K,
        room[8], room[9], room[7], h, kappa,
    )  # fmt: skip
    if gamma == 0.0:
        return False, level
    for t in range(count):
        old, target = delta[place[t]], limit * kappa[t]
        delta[place[t]] = old + gamma * (target - old) if gamma < 1.0 else target
    return True, limit * new if gamma == 1.0 else level + gamma * (limit * new - level)


@njit(**_FAST)
def _follow(b, total, size, pair, rate, size2, moved, length, intercept, step):
    """Margins against all labels of a row after the point of one has moved."""
    shift = 0.0
    for j in range(length):
        moved[j] *= rate * size2[j]
        shift += moved[j]
    if intercept:
        shift += rate * step
    for t in range(size):
        twice = 2.0 if t == pair else 1.0
        total[t] += twice * shift
        for j in range(length):
            b[t, j] += twice * moved[j]


@njit(**_PLAIN)
def _corner(b, length, K, drop, grow, threshold, point):
    """Factors of the words in the worst change against a label, whose K-th gain is known."""
    left = K
    for j in range(length):
        point[j] = 1.0
        if left > 0 and max(drop * b[j], -grow * b[j]) > threshold:
            point[j], left = (1.0 - drop if b[j] > 0 else 1.0 + grow), left - 1
    for j in range(length):
        if left == 0 or threshold <= 0:
            break
        if max(drop * b[j], -grow * b[j]) == threshold:
            point[j], left = (1.0 - drop if b[j] > 0 else 1.0 + grow), left - 1


@njit(**_PLAIN)
def _wanted(level, free, size, curve, worst, mean, fresh, kept):
    """Levels of the worst changes and of the averages, were all points alike: as without changes.

    They are a projection on a simplex, by Michelot's method; what is left lies on the null plane.
    """
    cut = -np.inf
    while True:
        active, total = 0, -curve
        if free * curve > cut:
            active, total = 1, total + free * curve
        for t in range(size):
            if worst[t] > cut:
                active, total = active + 1, total + worst[t]
            if level[t] > 0 and level[t] * curve + mean[t] > cut:
                active, total = active + 1, total + level[t] * curve + mean[t]
        if active == 0 or not total / active > cut:
            break
        cut = total / active
    for t in range(size):
        fresh[t] = max(worst[t] - cut, 0.0) / curve
        kept[t] = max(level[t] * curve + mean[t] - cut, 0.0) / curve if level[t] > 0 else 0.0


@njit(**_FAST)
def _curvature(points, together, size, size2, length):
    """Squared length of what the weights move by when the points of labels do, and their sum."""
    curve = 0.0
    together[:length] = 0.0
    for t in range(size):
        for j in range(length):
            together[j] += points[t, j]
            curve += size2[j] * points[t, j] * points[t, j]
    for j in range(length):
        curve += size2[j] * together[j] * together[j]
    return curve


@njit(**_FAST)
def _follow_all(b, total, size, rate, size2, points, together, length, intercept, steps, step):
    """Margins against all labels of a row after all points have moved, and so the sum of them."""
    for t in range(size):
        shift = rate * (steps[t] + step) if intercept else 0.0
        for j in range(length):
            moved = rate * size2[j] * (points[t, j] + together[j])
            b[t, j] += moved
            shift += moved
        total[t] += shift


@njit(**_PLAIN)
def _share_out(b, total, delta, level, free, size, rate, square, size2, length, K, drop, grow, worst,
               mean, cuts, intercept, points, fresh, kept, together):  # fmt: skip
    """Move level between the averages of all labels and their worst changes, with an exact search."""
    _wanted(level, free, size, rate * (square + intercept), worst, mean, fresh, kept)
    slope, curve, moved = 0.0, 0.0, 0.0
    for t in range(size):
        less = kept[t] - level[t]
        slope += fresh[t] * worst[t] + (less * mean[t] if level[t] > 0 else 0.0)
        points[t, :length] = 0.0
        if fresh[t] > 0:
            _corner(b[t], length, K, drop, grow, cuts[t], points[t])
            for j in range(length):
                points[t, j] *= fresh[t]
        if level[t] > 0:
            share = less / level[t]
            for j in range(length):
                points[t, j] += less + share * delta[t, j]
        fresh[t] += less
        moved += fresh[t]
        curve += fresh[t] * fresh[t] * intercept
    curve += moved * moved * intercept
    curve = rate * (curve + _curvature(points, together, size, size2, length))
    if not slope > 0:
        return
    gamma = 1.0 if slope >= curve else slope / curve
    for j in range(length):
        together[j] *= gamma
    moved *= gamma
    for t in range(size):
        if gamma == 1.0 and level[t] + fresh[t] <= 0:
            fresh[t], level[t] = -level[t], 0.0
            delta[t, :length] = 0.0
            continue
        fresh[t] *= gamma
        level[t] = max(level[t] + fresh[t], 0.0)
        for j in range(length):
            points[t, j] *= gamma
            delta[t, j] += points[t, j] - fresh[t]
            # Unchanged words must stay so for good, or deviations would no longer be few.
            if abs(delta[t, j]) <= 1e-15 * level[t]:
                delta[t, j] = 0.0
    _follow_all(b, total, size, rate, size2, points, together, length, intercept, fresh, moved)


@njit(**_PLAIN)
def _look(b, total, delta, level, cost, size, length, K, drop, grow, mu, gain, worst, mean, tops,
          cuts):  # fmt: skip
    """What each label reaches at worst, and on average; the sum of the levels and of the averages."""
    free, average = 1.0, 0.0
    for t in range(size):
        guess = mu if cuts[t] < 0 else cuts[t]
        gains(b[t], length, drop, grow, gain)
        tops[t], cuts[t] = largest(gain, length, K, guess)
        worst[t] = cost[t] - total[t] + tops[t]
        mean[t] = np.inf
        if level[t] > 0:
            inner = 0.0
            for j in range(length):
                inner += b[t, j] * delta[t, j]
            mean[t] = cost[t] - total[t] - inner / level[t]
            average += level[t] * mean[t]
            free -= level[t]
    return free, average


@njit(**_PLAIN)
def _improve(b, total, delta, level, cost, size, length, rate, square, size2, K, drop, grow,
             intercept, room, place, worst, mean, tops, cuts, points, fresh, kept):  # fmt: skip
    """A step of all levels where none is left for the worst label, then one of each label's point."""
    before, free, most, least = room[5], 1.0, 0, 0
    for t in range(size):
        free -= level[t]
        most = t if worst[t] > worst[most] else most
        least = t if mean[t] < mean[least] else least
    if free <= _NOTHING and most != least and worst[most] > mean[least]:
        _share_out(b, total, delta, level, max(free, 0.0), size, rate, square, size2, length, K, drop,
                   grow, worst, mean, cuts, intercept, points, fresh, kept, room[0])  # fmt: skip
    for t in range(size):
        limit = 1.0
        for s in range(size):
            limit -= level[s] if s != t else 0.0
        if limit <= _NOTHING or (level[t] == 0 and worst[t] <= 0):
            continue
        for j in range(length):
            before[j] = delta[t, j]
        moved, new = _step(
            b[t], total[t], delta[t], level[t], max(limit, level[t]), 2.0 * rate, cost[t],
            square + intercept, size2, length, K, drop, grow, tops[t], cuts[t], room, place,
        )  # fmt: skip
        if not moved:
            continue
        step = new - level[t]
        for j in range(length):
            before[j] = step + delta[t, j] - before[j]
        level[t] = new
        if new <= 0:
            delta[t, :length] = 0.0
        _follow(b, total, size, t, rate, size2, before, length, intercept, step)


@njit(**_PLAIN)
def _load(slots, labels, levels, sizes, parts, words, deviations, i, length, work, level, delta):
    """The labels of a row with their levels and deviations; their number."""
    first, at = slots[i, 0], parts[i, 0]
    for t in range(slots[i, 1]):
        work[t], level[t] = labels[first + t], levels[first + t]
        delta[t, :length] = 0.0
        for e in range(at, at + sizes[first + t]):
            delta[t, words[e]] = deviations[e]
        at += sizes[first + t]
    return slots[i, 1]


@njit(**_PLAIN)
def _store(slots, labels, levels, sizes, parts, words, deviations, used, i, length, work, level,
           delta, size, forget):  # fmt: skip
    """Write the labels of a row back, but for the first so many of those that have no level."""
    kept, entries = 0, 0
    for t in range(size):
        if level[t] > 0 or t >= forget:
            kept += 1
            for j in range(length):
                entries += delta[t, j] != 0
    at, e = place_in(slots, used, 0, i, kept), place_in(parts, used, 1, i, entries)
    for t in range(size):
        if level[t] > 0 or t >= forget:
            labels[at], levels[at], sizes[at] = work[t], level[t], 0
            for j in range(length):
                if delta[t, j] != 0:
                    words[e], deviations[e] = j, delta[t, j]
                    sizes[at] += 1
                    e += 1
            at += 1


@njit(**_PLAIN)
def _write(indices, data, start, stop, W, truth, work, size, level, delta, old_level, old_delta, rate,
           intercept):  # fmt: skip
    """Move the weights by what has changed of a row's points, as it is stored."""
    last = W.shape[0] - 1
    for t in range(size):
        step, k = level[t] - old_level[t], work[t]
        for j in range(start, stop):
            change = step + delta[t, j - start] - old_delta[t, j - start]
            if change != 0:
                a, moved = np.uint64(indices[j]), rate * data[j] * change
                W[a, truth] += moved
                W[a, k] -= moved
        if intercept:
            W[last, truth] += rate * step
            W[last, k] -= rate * step


@njit(**_PLAIN)
def _ask(
    indices, data, start, stop, W, truth, cost, intercept, K, drop, grow, bound, always, average,
    best, threshold, work, size, b, delta, level, total, costs, worst, mean, tops, cuts, gain,
):  # fmt: skip
    """Look at labels in the order of their bounds until none can beat the worst; some of them join.

    How many labels the row has then, what the worst reaches, and its K-th gain.
    """
    length, last, looked, most = stop - start, W.shape[0] - 1, 0, size + always + 1
    while True:
        k = _highest(bound)
        # Written so that numbers that are none end it, too.
        if not bound[k] > best and (looked >= always or not bound[k] > average):
            return size, best, threshold
        bound[k], looked = -np.inf, looked + 1
        margin = _products(indices, data, start, stop, W, truth, k, b[size])
        if intercept:
            margin += W[last, truth] - W[last, k]
        gains(b[size], length, drop, grow, gain)
        top, cut = largest(gain, length, K, threshold)
        value = cost[k] - margin + top
        if value > best:
            best, threshold = value, cut
        if value > average and size < most:
            work[size], level[size], total[size], costs[size] = k, 0.0, margin, cost[k]
            worst[size], mean[size], tops[size], cuts[size] = value, np.inf, top, cut
            delta[size, :length] = 0.0
            size += 1
        if looked == _TOO_MANY:
            _bound_all(
                indices, data, start, stop, W, truth, cost, intercept, K, drop, grow, threshold, bound
            )
            bound[truth] = -np.inf
            for t in range(size):
                bound[work[t]] = -np.inf


@njit(**_PLAIN)
def sweep_words(
    indptr, indices, data, codes, weights, square, cost, intercept, K, drop, grow, mu,
    slots, labels, levels, sizes, parts, words, deviations, used, W, order, gaps, least, full,
    tables, lists, room, bound, work, place,
):  # fmt: skip
    """Improve the pairs of each row in ``order``; how many rows were done before a pool was full.

    Rows with a gap of at most ``least`` take no step. With ``full`` all labels compete and gaps are
    exact: labels are asked in the order of their bounds until none can beat the worst. Without it,
    those that the row keeps. The last arguments are a workspace; see `workspace`.
    """
    n_labels, last, recent = W.shape[1], W.shape[0] - 1, 0.0
    b, delta, old, points = tables[0], tables[1], tables[2], tables[3]
    level, before, total, costs, worst, mean = lists[0], lists[1], lists[2], lists[3], lists[4], lists[5]
    tops, cuts, fresh, kept, size2 = lists[6], lists[7], lists[8], lists[9], room[10]
    always = int(_SHARE_LOOKED_AT * n_labels)
    always = max(1, min(always, _LOOKED_AT))
    for number in range(order.size):
        i = order[number]
        start, stop, c, truth = indptr[i], indptr[i + 1], weights[i], codes[i]
        length, enough = stop - start, 2 * (slots[i, 1] + NEWCOMERS + 1)
        if used[0] + enough > labels.size or used[1] + enough * length > words.size:
            return number
        gaps[i] = 0.0
        if c == 0:
            continue
        # Rows of one kind have similar gains: those of the last one are better than nothing.
        guess = mu[i] if mu[i] > 0 else recent
        if full:
            _bound_all(
                indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, guess, bound
            )
            bound[truth] = -np.inf
        size = _load(
            slots, labels, levels, sizes, parts, words, deviations, i, length, work, level, delta
        )
        held = size
        for t in range(size):
            k = work[t]
            bound[k], costs[t], cuts[t] = -np.inf, cost[truth, k], -1.0
            total[t] = _products(indices, data, start, stop, W, truth, k, b[t])
            if intercept:
                total[t] += W[last, truth] - W[last, k]
        _, average = _look(
            b, total, delta, level, costs, size, length, K, drop, grow, guess, room[0], worst, mean,
            tops, cuts,
        )  # fmt: skip
        best, threshold = 0.0, guess
        for t in range(size):
            if worst[t] > best:
                best, threshold = worst[t], cuts[t]
        if full:
            size, best, threshold = _ask(
                indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, bound,
                always, average, best, threshold, work, size, b, delta, level, total, costs,
                worst, mean, tops, cuts, room[0],
            )  # fmt: skip
            mu[i] = recent = threshold
        gaps[i] = max(c * (best - average), 0.0)
        if gaps[i] <= least:
            continue
        for j in range(length):
            size2[j] = np.float64(data[start + j]) * data[start + j]
        for t in range(size):
            before[t] = level[t]
            for j in range(length):
                old[t, j] = delta[t, j]
        _improve(b, total, delta, level, costs, size, length, c, square[i], size2, K, drop, grow,
                 intercept, room, place, worst, mean, tops, cuts, points, fresh, kept)  # fmt: skip
        _write(indices, data, start, stop, W, truth, work, size, level, delta, before, old, c, intercept)
        _store(slots, labels, levels, sizes, parts, words, deviations, used, i, length, work, level,
               delta, size, held if full else 0)  # fmt: skip
    return order.size


@njit(**_PLAIN)
def losses_words(indptr, indices, data, codes, cost, intercept, K, drop, grow, mu, W, losses,
                 tables, lists, room, bound, work, place):  # fmt: skip
    """Exact losses of rows at ``W``; ``mu`` says where the K-th gain of a row was last.

    The last arguments are a workspace for one label; see `workspace`.
    """
    b, delta, recent = tables[0], tables[1], 0.0
    for i in range(losses.size):
        start, stop, truth = indptr[i], indptr[i + 1], codes[i]
        # As in `sweep_words`.
        guess = mu[i] if mu[i] > 0 else recent
        _bound_all(
            indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, guess, bound
        )
        bound[truth] = -np.inf
        # No label reaches the average that one needs to join.
        _, losses[i], recent = _ask(
            indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, bound, 0,
            np.inf, 0.0, guess, work, 0, b, delta, lists[0], lists[2], lists[3], lists[4], lists[5],
            lists[6], lists[7], room[0],
        )  # fmt: skip
