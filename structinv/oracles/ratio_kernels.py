"""Compiled search for the largest ratio of score and length over edits of words.

A row has the score ``a = sum_j v_j t(c_j)`` and the length ``sqrt(q)``, with ``q = sum_j s_j t(c_j)^2``.
For the l1 norm, the length is ``q = sum_j s_j |t(c_j)|``. The count ``c_j`` of a word changes by one
with each edit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.jit import LEAN, njit
from ..utils.matrices import TIES

# Number of supporting lines for a row.
_MOST_LINES = 64
# Number of steps of an enumeration.
_MOST_STEPS = 20_000
# Norms, and kinds of edits.
NONE, L1, L2 = 0, 1, 2
DROP, ADD, EITHER, REPLACE = 0, 1, 2, 3


def skyband(v: np.ndarray, s: np.ndarray, ordered: np.ndarray, most: int, kept: np.ndarray) -> int:
    """Write the words that few others dominate to `kept`; return their number.

    At most `most` - 1 others dominate them. A word dominates another one if it has at least its value
    `v`, and precedes it by `s`. Among words of equal `s`, larger values come first, then those that
    precede in `ordered`.

    Shapes: `v` (d,), `s` (d,), `ordered` (n,), `kept` (n,).
    """
    size = max(min(most, len(ordered)), 1)
    return _skyband(v, s, ordered, np.full(size, -np.inf), np.empty(size), kept)


def workspace(most: int, widest: int, n_words: int, n_features: int) -> tuple[Any, ...]:
    """Return arrays for `worst_ratios`.

    Rows have at most `widest` words, and lists at most `n_words`. The arrays are marks of features,
    then those by edit, by word and by line. The tables of `_enumerate` follow.
    """
    n_items = widest + n_words
    return (
        np.full(n_features, -1, dtype=np.int64),
        tuple(np.empty((6, most + 1))),
        tuple(np.empty((6, 2 * most + 1), dtype=np.int64)),
        tuple(np.empty((2, widest, most + 1), dtype=np.int64)),
        tuple(np.zeros((10, widest), dtype=np.int64)),
        tuple(np.empty((4, _MOST_LINES))),
        np.empty(_MOST_LINES, dtype=np.int64),
        np.empty((n_items, 2 * most + 1)),
        np.empty((n_items + 1, most + 1)),
        tuple(np.empty((5, n_items + 1), dtype=np.int64)),
        tuple(np.empty((3, n_items + 1))),
    )


@njit(**LEAN)
def _skyband(v, s, ordered, largest, former, kept):
    """Write the words of `skyband`; `largest` is a heap of the largest values so far."""
    n_kept, first, size = 0, 0, len(largest)
    while first < ordered.size:
        for k in range(size):
            former[k] = largest[k]
        stop = first
        while stop < ordered.size and s[ordered[stop]] == s[ordered[first]]:
            value, at, child = v[ordered[stop]], 0, 1
            stop += 1
            if not value > largest[0]:
                continue
            while child < size:
                if child + 1 < size and largest[child + 1] < largest[child]:
                    child += 1
                if largest[child] >= value:
                    break
                largest[at] = largest[child]
                at, child = child, 2 * child + 1
            largest[at] = value
        least, n_equal = largest[0], 0
        for k in range(size):
            n_equal += (largest[k] == least) - (former[k] == least)
        for t in range(first, stop):
            j = ordered[t]
            if v[j] > least or (v[j] == least and n_equal > 0):
                n_equal -= v[j] == least
                kept[n_kept] = j
                n_kept += 1
        first = stop
    return n_kept


@njit(**LEAN)
def _insert(gain, item, top, codes, n_top, most):
    """Insert a gain into the decreasing largest ones, and its item into `codes`; return their number."""
    if n_top == most and gain - top[most - 1] <= TIES * abs(gain):
        return n_top
    at = n_top if n_top < most else most - 1
    while at > 0 and gain - top[at - 1] > TIES * abs(gain):
        top[at], codes[at] = top[at - 1], codes[at - 1]
        at -= 1
    top[at], codes[at] = gain, item
    return min(n_top + 1, most)


@njit(**LEAN)
def _gains(
    alpha, theta, v, s, indices, counts, down, up, n_own, terms, lengths, zero, most, exact,
    n_free, kept, words, signs, marks, mark, gain_of, top, codes, reached, entries, choices, best, split,
):  # fmt: skip
    """Compute the largest gains of ``alpha a - theta q`` for each number of edits of one row.

    `best[k]` is the largest gain of at most k edits, or of exactly k edits if `exact` is true; then the
    row has `n_free` more tokens whose edit changes nothing. A word of the row may lose `down` and gain
    `up` of its count. If the gains of its edits fall, they are among the largest of all, in `top`.
    Otherwise a dynamic program selects the number of its edits, `reached`. Absent `words` have the
    upper concave envelope of their gains. The count of the word of entry `kept` must not become 0; if
    it is -2, the row is empty and gains a word. Return the lengths of `top` and `entries`.
    """
    n_top, n_listed = 0, 0
    reached[0] = 0.0
    for k in range(1, most + 1):
        reached[k] = -np.inf
    for item in range(n_own + len(words)):
        own = item < n_own
        if own:
            f, x, n_down, n_up = indices[item], counts[item], down[item], up[item]
            cap = min(most, max(n_down, n_up))
        else:
            f, x = words[item - n_own], 0
            if marks[f] == mark:
                continue
            cap = most if terms[zero + 2] != terms[zero + 1] else 1
            sign = signs[item - n_own]
            if cap == 1 and n_top == most and not exact:
                value = alpha * v[f] * terms[sign + zero] - theta * s[f] * lengths[sign + zero]
                if value <= top[most - 1]:
                    continue
            n_down, n_up = (most, 0) if sign < 0 else (0, most)
        weight, fine = alpha * v[f], theta * s[f]
        before = weight * terms[x + zero] - fine * lengths[x + zero]
        gain_of[0], last, falls, highest = 0.0, np.inf, True, 0.0
        stays = own and item == kept
        for k in range(1, cap + 1):
            value = -np.inf
            if k <= n_down and not (stays and terms[x - k + zero] == 0.0):
                value = weight * terms[x - k + zero] - fine * lengths[x - k + zero] - before
            if k <= n_up and not (stays and terms[x + k + zero] == 0.0):
                value = max(value, weight * terms[x + k + zero] - fine * lengths[x + k + zero] - before)
            gain_of[k] = value
            step = value - gain_of[k - 1]
            falls = falls and step <= last
            last, highest = step, max(highest, value)
        if highest <= 0.0 and not exact:
            if kept == -2 and (n_top == 0 or (top[0] <= 0.0 and gain_of[1] > top[0])):
                top[0], codes[0], n_top = gain_of[1], item, 1
            continue
        if n_top == 1 and top[0] <= 0.0 and not exact:
            n_top = 0
        if own and not falls:
            for k in range(most, -1, -1):
                chosen, largest = 0, reached[k]
                for j in range(1, min(k, cap) + 1):
                    value = reached[k - j] + gain_of[j]
                    if value - largest > TIES * abs(value):
                        chosen = j
                    largest = max(largest, value)
                choices[n_listed, k], reached[k] = chosen, largest
            entries[n_listed] = item
            n_listed += 1
            continue
        k = 0
        while k < cap:
            following, slope = k + 1, gain_of[k + 1] - gain_of[k]
            if not falls:
                for j in range(k + 2, cap + 1):
                    if (gain_of[j] - gain_of[k]) / (j - k) > slope:
                        following, slope = j, (gain_of[j] - gain_of[k]) / (j - k)
            if slope <= 0.0 and not exact:
                break
            for _ in range(following - k):
                n_top = _insert(slope, item, top, codes, n_top, most)
            k = following
    for _ in range(min(n_free, most) if exact else 0):
        n_top = _insert(0.0, -1, top, codes, n_top, most)
    for k in range(most + 1):
        best[k], split[k] = -np.inf, 0
        largest = 0.0
        for j in range(k, -1, -1):
            # j edits by the dynamic program, and the others of the largest gains.
            if k - j > n_top:
                if exact:
                    break
            elif k - j > 0:
                largest += top[k - j - 1]
            if reached[j] + largest > best[k]:
                best[k], split[k] = reached[j] + largest, j
    return n_top, n_listed


@njit(**LEAN)
def _choose(
    k, n_top, n_listed, n_own, alpha, theta, v, s, indices, counts, down, up, terms, lengths,
    zero, kept, words, signs, codes, entries, choices, split, used, moves, added, amounts, n_added,
):  # fmt: skip
    """Add the edits of the largest gain for k edits to `moves`, `added` and `amounts`.

    Return the number of added words.
    """
    j = split[k]
    for i in range(min(k - j, n_top)):
        item = codes[i]
        if 0 <= item < n_own:
            used[item] += 1
        elif item >= n_own:
            word, sign, at = words[item - n_own], signs[item - n_own], 0
            while at < n_added and added[at] != word:
                at += 1
            if at == n_added:
                added[at], amounts[at] = word, 0
                n_added += 1
            amounts[at] += sign
    for i in range(n_listed - 1, -1, -1):
        used[entries[i]] += choices[i, j]
        j -= choices[i, j]
    for item in range(n_own):
        n = used[item]
        if n == 0:
            continue
        used[item] = 0
        x, weight, fine = counts[item], alpha * v[indices[item]], theta * s[indices[item]]
        fewer = more = -np.inf
        if n <= down[item] and not (item == kept and terms[x - n + zero] == 0.0):
            fewer = weight * terms[x - n + zero] - fine * lengths[x - n + zero]
        if n <= up[item] and not (item == kept and terms[x + n + zero] == 0.0):
            more = weight * terms[x + n + zero] - fine * lengths[x + n + zero]
        moves[item] += n if more > fewer else -n
    return n_added


@njit(**LEAN)
def _keep(
    value, v, s, indices, counts, n_own, terms, lengths, zero, norm, change, new, amount, n_added,
    moves, added, amounts,
):  # fmt: skip
    """Write the edits of a row if their ratio is larger than `value`.

    Return a and q after the edits, and the larger one of both ratios.
    """
    a, q = 0.0, 0.0
    for item in range(n_own):
        f, x = indices[item], counts[item] + change[item]
        a += v[f] * terms[x + zero]
        q += s[f] * lengths[x + zero]
    for j in range(n_added):
        f, x = new[j], amount[j]
        a += v[f] * terms[x + zero]
        q += s[f] * lengths[x + zero]
    divisor = 1.0 if norm == NONE else (q if norm == L1 else np.sqrt(q))
    ratio = a / divisor if divisor > 0.0 else 0.0
    if ratio - value > TIES * abs(ratio):
        value = ratio
        for item in range(n_own):
            moves[item] = change[item]
        for j in range(len(added)):
            added[j] = new[j] if j < n_added else 0
            amounts[j] = amount[j] if j < n_added else 0
    return a, q, value


@njit(**LEAN)
def _add_item(gains, others, sums, most, budget):
    """Compute the largest gain of an item and others for each number of edits up to `budget`.

    `gains` has the change of a count by `o - most` at place o; `sums` may be `others`.
    """
    for k in range(budget, -1, -1):
        best = -np.inf
        for o in range(most - k, most + k + 1):
            best = max(best, gains[o] + others[k - abs(o - most)])
        sums[k] = best


@njit(**LEAN)
def _enumerate(
    theta, height, value, v, s, indices, counts, down, up, n_own, terms, lengths, zero, most,
    words, signs, marks, mark, a, q, change, new, amount, gains, suffix, prefix, integers, sums,
):  # fmt: skip
    """Compute the largest ratio below 0 of one row, by an enumeration of edits close to the best ones.

    Ratios above `value` require ``a - theta q > -value^2 / (4 |theta|)``, for theta < 0. Edits with such
    gains are few if `height`, the largest ``a - theta q``, is close. The items are the words of the row
    and those to insert. A dynamic program has the largest gain of each suffix of the items and budget.

    Write the best edits if they are better than `value`. Return the largest ratio, the number of
    inserted words (-1 if none is better), and whether the enumeration is complete.
    """
    width, n_items, n_options = most + 1, n_own + len(words), 2 * most + 1
    open_items, fixed, option, budget, chosen = integers
    sum_a, sum_q, sum_gain = sums
    for k in range(width):
        suffix[n_items, k] = prefix[k] = 0.0
    for item in range(n_items):
        n_down, n_up, f, x = most, most, 0, 0
        if item < n_own:
            f, x, n_down, n_up = indices[item], counts[item], down[item], up[item]
        else:
            f = words[item - n_own]
            n_down, n_up = (most, 0) if signs[item - n_own] < 0 else (0, most)
            if marks[f] == mark:
                n_down, n_up = 0, 0
        before = v[f] * terms[x + zero] - theta * s[f] * lengths[x + zero]
        for o in range(n_options):
            move = o - most
            gains[item, o] = -np.inf
            if -n_down <= move <= n_up:
                after = v[f] * terms[x + move + zero] - theta * s[f] * lengths[x + move + zero]
                gains[item, o] = after - before
    for item in range(n_items - 1, -1, -1):
        _add_item(gains[item], suffix[item + 1], suffix[item], most, most)
    # Items with a single possible option are fixed, and the others are enumerated.
    floor = -value * value / (4.0 * abs(theta))
    needed = floor - height + suffix[0, most] - 1e-12 * abs(height)
    n_open, left = 0, most
    for item in range(n_items):
        fixed[item], n_possible = 0, 0
        for o in range(n_options):
            cost, possible = abs(o - most), False
            for k in range(width - cost):
                possible = (
                    possible or prefix[k] + gains[item, o] + suffix[item + 1, most - cost - k] >= needed
                )
            if not possible:
                gains[item, o] = -np.inf
            else:
                n_possible += 1
                fixed[item] = o - most
        if n_possible > 1:
            open_items[n_open] = item
            n_open += 1
        _add_item(gains[item], prefix, prefix, most, most)
        if n_possible == 1:
            left -= abs(fixed[item])
            f = indices[item] if item < n_own else words[item - n_own]
            x = counts[item] if item < n_own else 0
            a += v[f] * (terms[x + fixed[item] + zero] - terms[x + zero])
            q += s[f] * (lengths[x + fixed[item] + zero] - lengths[x + zero])
            needed -= gains[item, fixed[item] + most]
            # The options of fixed items are left out of the sums below.
    for k in range(width):
        suffix[n_open, k] = 0.0
    for i in range(n_open - 1, -1, -1):
        _add_item(gains[open_items[i]], suffix[i + 1], suffix[i], most, left)
    budget[0], sum_a[0], sum_q[0], sum_gain[0], option[0] = left, a, q, 0.0, -1
    depth, n_steps, found = 0, 0, False
    while depth >= 0 and n_steps < _MOST_STEPS:
        n_steps += 1
        if depth == n_open:
            ratio = sum_a[depth] / np.sqrt(sum_q[depth]) if sum_q[depth] > 0.0 else 0.0
            if ratio - value > TIES * abs(ratio):
                value, found = ratio, True
                needed += -value * value / (4.0 * abs(theta)) - floor
                floor = -value * value / (4.0 * abs(theta))
                for i in range(n_open):
                    chosen[i] = option[i] - most
            depth -= 1
            continue
        option[depth] += 1
        o = option[depth]
        if o == n_options:
            depth -= 1
            continue
        item, cost = open_items[depth], abs(o - most)
        if cost > budget[depth] or gains[item, o] == -np.inf:
            continue
        gain = sum_gain[depth] + gains[item, o]
        if gain + suffix[depth + 1, budget[depth] - cost] < needed:
            continue
        f = indices[item] if item < n_own else words[item - n_own]
        x = counts[item] if item < n_own else 0
        move = o - most
        sum_a[depth + 1] = sum_a[depth] + v[f] * (terms[x + move + zero] - terms[x + zero])
        sum_q[depth + 1] = sum_q[depth] + s[f] * (lengths[x + move + zero] - lengths[x + zero])
        sum_gain[depth + 1], budget[depth + 1] = gain, budget[depth] - cost
        depth += 1
        if depth < n_open:
            option[depth] = -1
    n_added = -1
    if found:
        n_added = 0
        for i in range(n_open):
            fixed[open_items[i]] = chosen[i]
        for item in range(n_items):
            if item < n_own:
                change[item] = fixed[item]
            elif fixed[item] != 0:
                new[n_added], amount[n_added] = words[item - n_own], fixed[item]
                n_added += 1
    return value, n_added, depth < 0


@njit(**LEAN)
def largest_below(slopes, heights, n_lines, lowest, highest, used):
    """Return the largest ratio below lines of increasing slope, and its place.

    The ratio is ``a / sqrt(q)``, for a below all lines. The place is the q of this ratio, and the number
    of the line that bounds a there. The lines that bound a for smaller and larger q follow, or -1.
    `used` is a workspace.
    """
    n_used = 0
    for line in range(n_lines):
        # A line bounds no a if it is above the point where the lines on both sides meet.
        while n_used >= 2:
            last, before = used[n_used - 1], used[n_used - 2]
            q = (heights[before] - heights[line]) / (slopes[line] - slopes[before])
            if heights[last] + slopes[last] * q < heights[before] + slopes[before] * q:
                break
            n_used -= 1
        used[n_used] = line
        n_used += 1
    bound, place, best, right = -np.inf, 0.0, 0, highest
    for i in range(n_used):
        line, left = used[i], lowest
        slope, h = slopes[line], heights[line]
        if i + 1 < n_used:
            left = (h - heights[used[i + 1]]) / (slopes[used[i + 1]] - slope)
            left = max(left, lowest)
            if left >= right and right > lowest:
                continue
        for end in range(2):
            q = left if end else right
            reach = (h + slope * q) / np.sqrt(q)
            if reach > bound:
                bound, place, best = reach, q, i
        if slope < 0.0 and h < 0.0 and left < h / slope < right:
            reach = -2.0 * np.sqrt(h * slope)
            if reach > bound:
                bound, place, best = reach, h / slope, i
        right = left
        if left <= lowest:
            break
    before = used[best + 1] if best + 1 < n_used else -1
    after = used[best - 1] if best > 0 else -1
    return bound, place, used[best], before, after


@njit(**LEAN)
def add_line(
    slopes, heights, at_a, at_q, n_lines, theta, height, a, q, lowest, highest, ends, used
):  # fmt: skip
    """Insert a line by slope, and return the largest ratio below all lines.

    The slope of the chord at its place follows. The chord joins the edits on both sides of the place,
    which have the scores `at_a` and squared lengths `at_q`. It is NaN if these lengths are equal.
    `ends` are a and q of the shortest row, then those of the longest row.
    """
    at = n_lines
    while at > 0 and slopes[at - 1] > theta:
        slopes[at], heights[at] = slopes[at - 1], heights[at - 1]
        at_a[at], at_q[at] = at_a[at - 1], at_q[at - 1]
        at -= 1
    slopes[at], heights[at], at_a[at], at_q[at] = theta, height, a, q
    bound, place, at, before, after = largest_below(slopes, heights, n_lines + 1, lowest, highest, used)
    if place < at_q[at]:
        end_a, end_q = (at_a[before], at_q[before]) if before >= 0 else (ends[0], ends[1])
    else:
        end_a, end_q = (at_a[after], at_q[after]) if after >= 0 else (ends[2], ends[3])
    chord = np.nan if end_q == at_q[at] else (at_a[at] - end_a) / (at_q[at] - end_q)
    return bound, place, chord


@njit(**LEAN)
def bounds_below(slopes, heights, n_lines, lowest, highest, bounds, places, used):
    """Compute the largest ratio below the lines of each row, and the q of it.

    The first `n_lines[i]` entries of row i of `slopes` and `heights` are its lines, of increasing slope.
    """
    for i in range(len(n_lines)):
        bounds[i], places[i], _, _, _ = largest_below(
            slopes[i], heights[i], n_lines[i], lowest[i], highest[i], used
        )


@njit(**LEAN)
def _read(
    start, stop, features, plus, minus, edit, rising, falling, binary, most, indices, counts, down, up,
    more_down, more_up,
):  # fmt: skip
    """Write words of one row, their counts, and how far each count may fall and rise.

    For replacements, `more_down` and `more_up` are the changes by insertions. Return the number of edits
    after which all counts are 0, which is larger than `most` if there are no such edits.
    """
    to_zero = 0
    for item in range(stop - start):
        e = start + item
        f, x, fall, rise = features[e], plus[e] - minus[e], plus[e], minus[e]
        more_fall, more_rise = most * falling[f], most * rising[f]
        lowest = highest = most
        if binary:
            # A count that moves away from 0 leaves the value unchanged.
            lowest, highest = min(max(1 + x, 0), most), min(max(1 - x, 0), most)
        if edit == REPLACE:
            more_down[item], more_up[item] = min(more_fall, lowest), min(more_rise, highest)
        elif edit == ADD:
            fall, rise = more_fall, more_rise
        elif edit == EITHER:
            fall, rise = fall + more_fall, rise + more_rise
        indices[item], counts[item] = f, x
        down[item], up[item] = min(fall, lowest), min(rise, highest)
        to_zero += abs(x) if -up[item] <= x <= down[item] else max(most, 1) + 1
    return to_zero


@njit(**LEAN)
def worst_ratios(
    rows, indptr, features, plus, minus, n_unknown, edit, rising, falling, binary, most, enough, V,
    assign, s, terms, lengths, zero, norm, least, where, words, signs, limits, guards, tolerance, starts,
    values, upper, to_zero, moves, added, amounts, room,
):  # fmt: skip
    """Compute the edits with the largest ratio of each row, and an upper bound.

    For ratios above 0, some edits with the largest ratio maximize ``a - theta q`` for a theta, which
    bounds the ratios of all others (Dinkelbach 1967). The lines ``a = H(theta) + theta q`` bound the
    region of all pairs (q, a). The search adds the line that cuts off the largest ratio below the lines.

    Rows have at most `most` edits. If `enough` edits delete all words of a row, its ratio is 0 there,
    and its other edits are apart. If `limits` (n,) is not empty, it has the numbers of edits of rows
    without words. `to_zero` receives the number of edits that delete all words of each row. Row i has
    the changes of its counts in ``moves[starts[i]:]``.

    Shapes: `rows` (n,), `n_unknown` (n_rows,), `V` (p, d), `assign` (n,), `s` (d,), `starts` (n,),
    `values` (n,), `upper` (n,), `to_zero` (n,), `added` (n, most), `amounts` (n, most).
    """
    n_edits, most, replaces = most, added.shape[1], edit == REPLACE
    marks, floats, integers, options, by_word, lines, used, gains, suffix, by_item, sums = room
    gain_of, best, more_best, top, more_top, reached = floats
    codes, more_codes, split, more_split, new, amount = integers
    choices, more_choices = options
    entries, more_entries, taken, change, indices, counts, down, up, more_down, more_up = by_word
    slopes, heights, at_a, at_q = lines
    nothing, no_signs = words[:0], signs[:0]
    for i in range(len(rows)):
        r = rows[i]
        n_own, v, p, first = indptr[r + 1] - indptr[r], V[assign[i]], assign[i], starts[i]
        to_zero[i] = _read(
            indptr[r], indptr[r + 1], features, plus, minus, edit, rising, falling, binary, n_edits,
            indices, counts, down, up, more_down, more_up,
        )  # fmt: skip
        row_moves = moves[first : first + n_own]
        a0, q0, size0 = 0.0, 0.0, 0.0
        for item in range(n_own):
            f, x = indices[item], counts[item]
            marks[f] = i
            a0 += v[f] * terms[x + zero]
            size0 += abs(v[f] * terms[x + zero])
            q0 += s[f] * lengths[x + zero]
            row_moves[item] = 0
        for k in range(added.shape[1]):
            amounts[i, k] = 0
        most, emptied = n_edits, to_zero[i] <= enough
        if len(limits):
            most, emptied = limits[i], True
        elif emptied and edit == DROP and not guards:
            most = max(to_zero[i] - 1, 0)
        divisor = 1.0 if norm == NONE else (q0 if norm == L1 else np.sqrt(q0))
        value = a0 / divisor if divisor > 0.0 else 0.0
        bound, scale = np.inf, (size0 / divisor if divisor > 0.0 else 0.0) + abs(value)
        # Rows without words have the ratio 0.
        floor = -np.inf
        if emptied and n_own == 0 and len(words[where[2 * p] : where[2 * p + 1]]) == 0:
            # No word has a positive weight.
            values[i], upper[i] = 0.0, 0.0
            continue
        if emptied:
            floor = 0.0
            if value < 0.0:
                value = 0.0
                for item in range(n_own):
                    row_moves[item] = -counts[item]
        n_lines, lowest, highest, stage, theta, alpha = 0, least, np.inf, 0, 0.0, 1.0
        end_a, end_q, far_a, far_q = 0.0, 0.0, 0.0, 0.0
        if norm != NONE:
            # The first two lines bound q itself.
            alpha, theta = 0.0, 1.0
        while True:
            # Evaluate the line with this slope: its height, and edits that are on it.
            side = 2 * p + (1 if theta < 0.0 else 0)
            listed = words[where[side] : where[side + 1]]
            listed_signs = signs[where[side] : where[side + 1]]
            gain, n_added = -np.inf, 0
            # Some edits delete all words. If the best ones do, each word in turn is kept.
            one_by_one, n_kept = emptied and guards and (n_own > 0 or replaces), 1
            if one_by_one:
                n_kept = n_own + 1 if n_own > 0 else 0
            for keep in range(n_kept):
                kept = keep - 1 if keep > 0 else -2 if emptied and n_own == 0 else -1
                n_top, n_listed = _gains(
                    alpha, theta, v, s, indices, counts, down, up, n_own, terms, lengths, zero,
                    most, replaces, n_unknown[r], kept, nothing if replaces else listed,
                    no_signs if replaces else listed_signs, marks, i, gain_of, top, codes, reached,
                    entries, choices, best, split,
                )  # fmt: skip
                k, largest = most, best[most]
                if replaces:
                    n_more, n_more_listed = _gains(
                        alpha, theta, v, s, indices, counts, more_down, more_up, n_own, terms,
                        lengths, zero, most, False, 0, -1, listed, listed_signs, marks, i, gain_of,
                        more_top, more_codes, reached, more_entries, more_choices, more_best, more_split,
                    )  # fmt: skip
                    k, largest = 0, 0.0
                    for j in range(1, most + 1):
                        if best[j] + more_best[j] > largest:
                            k, largest = j, best[j] + more_best[j]
                if largest <= gain:
                    continue
                gain, n_added = largest, 0
                for item in range(n_own):
                    change[item] = 0
                if replaces:
                    n_added = _choose(
                        k, n_more, n_more_listed, n_own, alpha, theta, v, s, indices, counts,
                        more_down, more_up, terms, lengths, zero, -1, listed, listed_signs, more_codes,
                        more_entries, more_choices, more_split, taken, change, new, amount, n_added,
                    )  # fmt: skip
                n_added = _choose(
                    k, n_top, n_listed, n_own, alpha, theta, v, s, indices, counts, down, up,
                    terms, lengths, zero, kept, nothing if replaces else listed,
                    no_signs if replaces else listed_signs, codes, entries, choices, split, taken,
                    change, new, amount, n_added,
                )  # fmt: skip
                if one_by_one and keep == 0:
                    remains = False
                    for item in range(n_own):
                        remains = remains or terms[counts[item] + change[item] + zero] != 0.0
                    if remains:
                        break
                    gain, n_added = -np.inf, 0
            height = alpha * a0 - theta * q0 + gain
            a, q, value = _keep(
                value, v, s, indices, counts, n_own, terms, lengths, zero, norm, change, new,
                amount, n_added, row_moves, added[i], amounts[i],
            )  # fmt: skip
            if norm == NONE:
                bound = height
                break
            if stage >= 2 and norm == L1:
                # All of a - theta q <= height, so the ratios are at most theta + height / q.
                stage += 1
                if value > theta and stage < _MOST_LINES:
                    theta = value
                    continue
                bound = theta + max(height, 0.0) / lowest
                break
            if stage == 0:
                if -height < 0.5 * least:
                    floor = 0.0
                lowest = max(-height * (1.0 - 1e-12), least)
                end_a, end_q = a, q
                stage, theta = 1, -1.0
                continue
            if stage == 1:
                highest = height * (1.0 + 1e-12)
                far_a, far_q = a, q
                stage, alpha = 2, 1.0
                if highest < least:
                    # No edit adds a word with a feature to an empty row.
                    bound = 0.0
                    break
                root = np.sqrt(q0) if q0 > 0.0 else np.sqrt(lowest)
                theta = value if norm == L1 else value / (2.0 * root)
                continue
            bound, place, chord = add_line(
                slopes, heights, at_a, at_q, n_lines, theta, height, a, q, lowest, highest,
                (end_a, end_q, far_a, far_q), used,
            )  # fmt: skip
            n_lines += 1
            if bound - value <= tolerance * (scale + abs(bound)) or n_lines == _MOST_LINES:
                break
            # The tangent at this place, or the line through the edits on both sides.
            following = bound / (2.0 * np.sqrt(place))
            if chord >= 0.0 or (chord < 0.0 and value < 0.0):
                following = chord
            known = False
            for line in range(n_lines):
                known = known or abs(slopes[line] - following) <= 1e-13 * abs(following)
            if known:
                break
            theta = following
        if (
            norm == L2
            and value < 0.0
            and not replaces
            and bound - value > tolerance * (scale + abs(bound))
        ):
            # The line with the fewest edits close to it.
            at, slack = -1, np.inf
            for line in range(n_lines):
                if slopes[line] < 0.0 and heights[line] - value * value / (4.0 * slopes[line]) < slack:
                    at, slack = line, heights[line] - value * value / (4.0 * slopes[line])
            if at >= 0:
                side = 2 * p + 1
                listed = words[where[side] : where[side + 1]]
                listed_signs = signs[where[side] : where[side + 1]]
                ratio, n_added, complete = _enumerate(
                    slopes[at], heights[at], value, v, s, indices, counts, down, up, n_own, terms,
                    lengths, zero, most, listed, listed_signs, marks, i, a0, q0, change,
                    new, amount, gains, suffix, gain_of, by_item, sums,
                )  # fmt: skip
                if n_added >= 0:
                    _, _, value = _keep(
                        value, v, s, indices, counts, n_own, terms, lengths, zero, norm, change,
                        new, amount, n_added, row_moves, added[i], amounts[i],
                    )  # fmt: skip
                if complete:
                    bound = ratio
        values[i], upper[i] = value, max(bound, value, floor)
