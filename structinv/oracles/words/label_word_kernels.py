r"""In-hull steps of the multiclass loss for rescaled or removed words, compiled.

`label_kernels` describes pairs of a row and a label, and the pools with their dual variables. Here each
pair also has deviations, most of them zero. Two more pools store the others: ``words`` has the position
of the word in its row, and ``deviations`` the value. Row i has the entries ``parts[i, 0]`` to
``parts[i, 0] + parts[i, 1] - 1``, sorted by pair. Pair p has ``sizes[p]`` of them.
"""

from __future__ import annotations

import numpy as np

from ...utils.jit import FAST, PLAIN, njit
from ..label_kernels import place_in
from .word_blocks import step_block
from .word_edits import Moves
from .word_selection import changing, gains, largest

# Words without a deviation are not updated if their gain is below this fraction of the K-th gain.
_KEEP = 0.7
# If all labels compete, at least this number of labels with a bound above the averaged violation is
# evaluated: a fraction of all labels, up to a maximum. Maximum number of labels that become active in an
# update.
_EVALUATED_FRACTION, _EVALUATED, NEWCOMERS = 0.15, 16, 17
# After this number of evaluated labels, the bounds are computed again with a better guess.
_TOO_MANY = 32
_NOTHING = 1e-12


def workspace(most: int, longest: int, n_labels: int, moves: Moves) -> tuple:
    """Return workspaces for rows with at most `most` labels and `longest` words."""
    vectors = np.empty((11, longest))
    # Base, largest decrease and largest increase of each word, as in `word_blocks`.
    vectors[7], vectors[8], vectors[9] = 1.0, moves.drop, moves.grow
    tables, lists = np.empty((4, most, longest)), np.empty((10, most))
    places = np.empty(most, dtype=np.int64), np.empty(longest, dtype=np.int64)
    return tables, lists, vectors, np.empty(n_labels), *places


@njit(**PLAIN)
def _moves_of(moves, i, mu, recent):
    """Return the edits of a row, without changes outside ``changed``, and a guess of its K-th gain.

    Without an earlier update, the guess is the K-th gain of the row before.
    """
    if not moves.changed[i]:
        return moves.most, 0.0, 0.0, 0.0
    return moves.most, moves.drop, moves.grow, mu[i] if mu[i] > 0 else recent


@njit(**FAST)
def _bound_all(indices, data, start, stop, W, truth, cost, intercept, K, drop, grow, guess, bound):
    """Compute upper bounds of the worst violations of all labels.

    ``guess`` estimates the K-th largest gain. For any guess g, the K largest gains add up to at most K g
    plus the sum of ``max(gain - g, 0)``. The bound is tight if g is the K-th largest gain.
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
        true_weight = W[a, truth]
        for k in range(n_labels):
            b = (true_weight - W[a, k]) * x
            bound[k] += max(max(drop * b, -grow * b) - guess, 0.0) - b


@njit(**PLAIN)
def _largest_bound(bound):
    """Return the label with the largest bound."""
    best = 0
    for k in range(1, bound.size):
        if bound[k] > bound[best]:
            best = k
    return best


@njit(**FAST)
def _products(indices, data, start, stop, W, truth, k, b):
    """Write the contribution of each word to the margin against label ``k``; return the sum."""
    total = 0.0
    for j in range(start, stop):
        a = np.uint64(indices[j])
        value = (W[a, truth] - W[a, k]) * data[j]
        b[j - start] = value
        total += value
    return total


@njit(**PLAIN)
def _step(b, total, delta, tau, limit, rate, cost, square, size2, length, K, drop, grow, top,
          threshold, vectors, place):  # fmt: skip
    """Update one pair; return True if its plane has changed, and its dual variable.

    The dual variable is at most ``limit``. Divided by this limit, the block is that of two classes.
    ``rate`` is twice the weight of the row, since a step changes the weights of two labels. ``total`` is
    the margin. ``top`` and ``threshold`` may come from before a step of another pair: the line search is
    exact, so the dual objective does not decrease.
    """
    h, q, kappa, products, dev = vectors[1], vectors[2], vectors[3], vectors[4], vectors[6]
    scale = 1.0 / limit
    rate, scaled_tau = rate * limit, min(tau * scale, 1.0)
    b0, q0, inner = total, rate * square, scaled_tau * total
    count = changing(b, delta, length, drop, grow, _KEEP * threshold, place)
    for t in range(count):
        j = place[t]
        products[t], dev[t] = b[j], delta[j] * scale
        q[t] = rate * size2[j]
        inner += products[t] * dev[t]
        b0 -= products[t]
        q0 -= q[t]
    violation = cost - (total - top)
    gap = max(violation, 0.0) - cost * scaled_tau + inner
    if gap <= 0:
        return False, tau
    gamma, new = step_block(
        scaled_tau, cost, violation, gap, rate * square, products, q, vectors[7], dev, count, b0, q0,
        threshold, K, vectors[8], vectors[9], vectors[7], h, kappa,
    )  # fmt: skip
    if gamma == 0.0:
        return False, tau
    for t in range(count):
        old, target = delta[place[t]], limit * kappa[t]
        delta[place[t]] = old + gamma * (target - old) if gamma < 1.0 else target
    return True, limit * new if gamma == 1.0 else tau + gamma * (limit * new - tau)


@njit(**FAST)
def _update_margins(b, total, size, pair, rate, size2, moved, length, intercept, step):
    """Update the margins against all labels of a row after a step of one pair.

    A step changes the weights of the true label and of the label of the pair, so its own margin changes
    twice as much.
    """
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


@njit(**PLAIN)
def _worst_factors(b, length, K, drop, grow, threshold, point):
    """Write the factor of each word after the worst edits; ``threshold`` is the K-th largest gain."""
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


@njit(**PLAIN)
def _targets(tau, free, size, curve, worst, mean, worst_target, mean_target):
    """Compute new dual variables of the worst edited and of the averaged point of each label.

    They would be optimal if all points were equal. They are a projection on a simplex, by Michelot's
    method. The null plane gets the remainder.
    """
    cut = -np.inf
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


@njit(**FAST)
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


@njit(**FAST)
def _update_all_margins(b, total, size, rate, size2, points, point_sum, length, intercept, steps, step):
    """Update the margins against all labels of a row after a step of all pairs."""
    for t in range(size):
        shift = rate * (steps[t] + step) if intercept else 0.0
        for j in range(length):
            moved = rate * size2[j] * (points[t, j] + point_sum[j])
            b[t, j] += moved
            shift += moved
        total[t] += shift


@njit(**PLAIN)
def _step_all(b, total, delta, tau, free, size, rate, square, size2, length, K, drop, grow,
              worst_violations, mean_violations, cuts, intercept, points, new_taus, mean_target,
              point_sum):  # fmt: skip
    """Move dual variables of all labels from averaged to worst points, with one line search."""
    _targets(
        tau,
        free,
        size,
        rate * (square + intercept),
        worst_violations,
        mean_violations,
        new_taus,
        mean_target,
    )
    slope, curvature, total_step = 0.0, 0.0, 0.0
    for t in range(size):
        change = mean_target[t] - tau[t]
        slope += new_taus[t] * worst_violations[t] + (change * mean_violations[t] if tau[t] > 0 else 0.0)
        points[t, :length] = 0.0
        if new_taus[t] > 0:
            _worst_factors(b[t], length, K, drop, grow, cuts[t], points[t])
            for j in range(length):
                points[t, j] *= new_taus[t]
        if tau[t] > 0:
            ratio = change / tau[t]
            for j in range(length):
                points[t, j] += change + ratio * delta[t, j]
        new_taus[t] += change
        total_step += new_taus[t]
        curvature += new_taus[t] * new_taus[t] * intercept
    curvature += total_step * total_step * intercept
    curvature = rate * (curvature + _curvature(points, point_sum, size, size2, length))
    if not slope > 0:
        return
    gamma = 1.0 if slope >= curvature else slope / curvature
    for j in range(length):
        point_sum[j] *= gamma
    total_step *= gamma
    for t in range(size):
        if gamma == 1.0 and tau[t] + new_taus[t] <= 0:
            new_taus[t], tau[t] = -tau[t], 0.0
            delta[t, :length] = 0.0
            continue
        new_taus[t] *= gamma
        tau[t] = max(tau[t] + new_taus[t], 0.0)
        for j in range(length):
            points[t, j] *= gamma
            delta[t, j] += points[t, j] - new_taus[t]
            # Deviations of unchanged words are rounding errors. Zeros are not stored.
            if abs(delta[t, j]) <= 1e-15 * tau[t]:
                delta[t, j] = 0.0
    _update_all_margins(
        b, total, size, rate, size2, points, point_sum, length, intercept, new_taus, total_step
    )


@njit(**PLAIN)
def _evaluate(b, total, delta, tau, cost, size, length, K, drop, grow, mu, gain, worst, mean, tops,
              cuts):  # fmt: skip
    """Compute the violations of active labels at their worst and averaged points.

    Returns 1 minus the sum of the dual variables, and the sum of dual variables times violations at the
    averaged points.
    """
    free, average = 1.0, 0.0
    for t in range(size):
        guess = mu if cuts[t] < 0 else cuts[t]
        gains(b[t], length, drop, grow, gain)
        tops[t], cuts[t] = largest(gain, length, K, guess)
        worst[t] = cost[t] - total[t] + tops[t]
        mean[t] = np.inf
        if tau[t] > 0:
            inner = 0.0
            for j in range(length):
                inner += b[t, j] * delta[t, j]
            mean[t] = cost[t] - total[t] - inner / tau[t]
            average += tau[t] * mean[t]
            free -= tau[t]
    return free, average


@njit(**PLAIN)
def _improve(b, total, delta, tau, cost, size, length, rate, square, size2, K, drop, grow,
             intercept, vectors, place, worst, mean, tops, cuts, points, fresh,
             mean_target):  # fmt: skip
    """Update all pairs of a row: together if the dual variables add up to 1, then one by one."""
    before, free, most, least = vectors[5], 1.0, 0, 0
    for t in range(size):
        free -= tau[t]
        most = t if worst[t] > worst[most] else most
        least = t if mean[t] < mean[least] else least
    if free <= _NOTHING and most != least and worst[most] > mean[least]:
        _step_all(b, total, delta, tau, max(free, 0.0), size, rate, square, size2, length, K, drop,
                  grow, worst, mean, cuts, intercept, points, fresh, mean_target,
                  vectors[0])  # fmt: skip
    for t in range(size):
        limit = 1.0
        for s in range(size):
            limit -= tau[s] if s != t else 0.0
        if limit <= _NOTHING or (tau[t] == 0 and worst[t] <= 0):
            continue
        for j in range(length):
            before[j] = delta[t, j]
        moved, new = _step(
            b[t], total[t], delta[t], tau[t], max(limit, tau[t]), 2.0 * rate, cost[t],
            square + intercept, size2, length, K, drop, grow, tops[t], cuts[t], vectors, place,
        )  # fmt: skip
        if not moved:
            continue
        step = new - tau[t]
        for j in range(length):
            before[j] = step + delta[t, j] - before[j]
        tau[t] = new
        if new <= 0:
            delta[t, :length] = 0.0
        _update_margins(b, total, size, t, rate, size2, before, length, intercept, step)


@njit(**PLAIN)
def _load(slots, labels, taus, sizes, parts, words, deviations, i, length, work, tau, delta):
    """Load labels, dual variables and deviations of a row; return the number of labels."""
    first, at = slots[i, 0], parts[i, 0]
    for t in range(slots[i, 1]):
        work[t], tau[t] = labels[first + t], taus[first + t]
        delta[t, :length] = 0.0
        for e in range(at, at + sizes[first + t]):
            delta[t, words[e]] = deviations[e]
        at += sizes[first + t]
    return slots[i, 1]


@njit(**PLAIN)
def _store(slots, labels, taus, sizes, parts, words, deviations, used, i, length, work, tau,
           delta, size, forget):  # fmt: skip
    """Store a row's labels, except those with tau = 0 among the first ``forget`` labels."""
    n_stored, entries = 0, 0
    for t in range(size):
        if tau[t] > 0 or t >= forget:
            n_stored += 1
            for j in range(length):
                entries += delta[t, j] != 0
    at, e = place_in(slots, used, 0, i, n_stored), place_in(parts, used, 1, i, entries)
    for t in range(size):
        if tau[t] > 0 or t >= forget:
            labels[at], taus[at], sizes[at] = work[t], tau[t], 0
            for j in range(length):
                if delta[t, j] != 0:
                    words[e], deviations[e] = j, delta[t, j]
                    sizes[at] += 1
                    e += 1
            at += 1


@njit(**PLAIN)
def _update_weights(indices, data, start, stop, W, truth, work, size, tau, delta, old_tau,
                    old_delta, rate, intercept):  # fmt: skip
    """Add the change of a row's averaged planes to W."""
    last = W.shape[0] - 1
    for t in range(size):
        step, k = tau[t] - old_tau[t], work[t]
        for j in range(start, stop):
            change = step + delta[t, j - start] - old_delta[t, j - start]
            if change != 0:
                a, moved = np.uint64(indices[j]), rate * data[j] * change
                W[a, truth] += moved
                W[a, k] -= moved
        if intercept:
            W[last, truth] += rate * step
            W[last, k] -= rate * step


@njit(**PLAIN)
def _worst_label(
    indices, data, start, stop, W, truth, cost, intercept, K, drop, grow, bound, n_always, average,
    best, threshold, work, size, b, delta, tau, total, costs, worst, mean, tops, cuts, gain,
):  # fmt: skip
    """Evaluate labels, the largest bound first, until no other label can have a larger violation.

    Labels with a violation above ``average`` become active. Returns the number of active labels, the
    largest violation, and the K-th largest gain of its label.
    """
    length, last, n_evaluated, most = stop - start, W.shape[0] - 1, 0, size + n_always + 1
    while True:
        k = _largest_bound(bound)
        # NaN also ends the loop.
        if not bound[k] > best and (n_evaluated >= n_always or not bound[k] > average):
            return size, best, threshold
        bound[k], n_evaluated = -np.inf, n_evaluated + 1
        margin = _products(indices, data, start, stop, W, truth, k, b[size])
        if intercept:
            margin += W[last, truth] - W[last, k]
        gains(b[size], length, drop, grow, gain)
        top, cut = largest(gain, length, K, threshold)
        value = cost[k] - margin + top
        if value > best:
            best, threshold = value, cut
        if value > average and size < most:
            work[size], tau[size], total[size], costs[size] = k, 0.0, margin, cost[k]
            worst[size], mean[size], tops[size], cuts[size] = value, np.inf, top, cut
            delta[size, :length] = 0.0
            size += 1
        if n_evaluated == _TOO_MANY:
            _bound_all(
                indices, data, start, stop, W, truth, cost, intercept, K, drop, grow, threshold, bound
            )
            bound[truth] = -np.inf
            for t in range(size):
                bound[work[t]] = -np.inf


@njit(**PLAIN)
def sweep_words(
    indptr, indices, data, codes, weights, square, cost, intercept, moves, mu,
    slots, labels, taus, sizes, parts, words, deviations, used, W, order, gaps, least, full,
    tables, lists, vectors, bound, work, place,
):  # fmt: skip
    """Update the pairs of the rows in ``order`` until a pool is full.

    Returns the number of processed rows. Rows with a gap of at most ``least`` keep their pairs. If
    ``full`` is true, all labels compete and gaps are exact (`_worst_label`). Otherwise, only the active
    labels of the row compete. The last six arguments are the result of `workspace`.
    """
    n_labels, last, recent = W.shape[1], W.shape[0] - 1, 0.0
    b, delta, old_deviations, points = tables[0], tables[1], tables[2], tables[3]
    tau, before, total, costs, worst, mean = lists[0], lists[1], lists[2], lists[3], lists[4], lists[5]
    tops, cuts, fresh, kept, size2 = lists[6], lists[7], lists[8], lists[9], vectors[10]
    n_always = int(_EVALUATED_FRACTION * n_labels)
    n_always = max(1, min(n_always, _EVALUATED))
    for number in range(order.size):
        i = order[number]
        start, stop, c, truth = indptr[i], indptr[i + 1], weights[i], codes[i]
        length, needed = stop - start, 2 * (slots[i, 1] + NEWCOMERS + 1)
        if used[0] + needed > labels.size or used[1] + needed * length > words.size:
            return number
        gaps[i] = 0.0
        if c == 0:
            continue
        K, drop, grow, guess = _moves_of(moves, i, mu, recent)
        if full:
            _bound_all(
                indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, guess, bound
            )
            bound[truth] = -np.inf
        size = _load(slots, labels, taus, sizes, parts, words, deviations, i, length, work, tau, delta)
        n_loaded = size
        for t in range(size):
            k = work[t]
            bound[k], costs[t], cuts[t] = -np.inf, cost[truth, k], -1.0
            total[t] = _products(indices, data, start, stop, W, truth, k, b[t])
            if intercept:
                total[t] += W[last, truth] - W[last, k]
        _, average = _evaluate(
            b, total, delta, tau, costs, size, length, K, drop, grow, guess, vectors[0], worst, mean,
            tops, cuts,
        )  # fmt: skip
        best, threshold = 0.0, guess
        for t in range(size):
            if worst[t] > best:
                best, threshold = worst[t], cuts[t]
        if full:
            size, best, threshold = _worst_label(
                indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, bound,
                n_always, average, best, threshold, work, size, b, delta, tau, total, costs,
                worst, mean, tops, cuts, vectors[0],
            )  # fmt: skip
            mu[i] = threshold
            recent = threshold if moves.changed[i] else recent
        gaps[i] = max(c * (best - average), 0.0)
        if gaps[i] <= least:
            continue
        for j in range(length):
            size2[j] = np.float64(data[start + j]) * data[start + j]
        for t in range(size):
            before[t] = tau[t]
            for j in range(length):
                old_deviations[t, j] = delta[t, j]
        _improve(b, total, delta, tau, costs, size, length, c, square[i], size2, K, drop, grow,
                 intercept, vectors, place, worst, mean, tops, cuts, points, fresh, kept)  # fmt: skip
        _update_weights(
            indices, data, start, stop, W, truth, work, size, tau, delta, before, old_deviations, c,
            intercept,
        )  # fmt: skip
        _store(slots, labels, taus, sizes, parts, words, deviations, used, i, length, work, tau,
               delta, size, n_loaded if full else 0)  # fmt: skip
    return order.size


@njit(**PLAIN)
def losses_words(indptr, indices, data, codes, cost, intercept, moves, mu, W, losses,
                 tables, lists, vectors, bound, work, place):  # fmt: skip
    """Compute the exact losses of rows at ``W``.

    ``mu`` has a guess of the K-th largest gain of each row. The last six arguments are the result of
    `workspace` for one label.
    """
    b, delta, recent = tables[0], tables[1], 0.0
    for i in range(losses.size):
        start, stop, truth = indptr[i], indptr[i + 1], codes[i]
        K, drop, grow, guess = _moves_of(moves, i, mu, recent)
        _bound_all(
            indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, guess, bound
        )
        bound[truth] = -np.inf
        # With an infinite average no label becomes active.
        _, losses[i], threshold = _worst_label(
            indices, data, start, stop, W, truth, cost[truth], intercept, K, drop, grow, bound, 0,
            np.inf, 0.0, guess, work, 0, b, delta, lists[0], lists[2], lists[3], lists[4], lists[5],
            lists[6], lists[7], vectors[0],
        )  # fmt: skip
        recent = threshold if moves.changed[i] else recent


@njit(**PLAIN)
def combine_words(indptr, indices, data, codes, weights, intercept, slots, labels, taus, sizes, parts,
                  words, deviations, W):  # fmt: skip
    """Add the weighted sum of the averaged planes of all rows to ``W``."""
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
                moved = weights[i] * data[j] * deviations[e]
                W[indices[j], truth] += moved
                W[indices[j], k] -= moved
            at += sizes[p]
