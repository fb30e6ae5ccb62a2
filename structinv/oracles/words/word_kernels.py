r"""In-hull steps of the hinge loss for rescaled or removed words, compiled.

At most :math:`K` entries (words) of a sparse row :math:`x` may change. Each is multiplied by a factor in
:math:`[l, u]`, where :math:`0 \le l \le 1 \le u`. The worst-case hinge loss of a row with sign
:math:`y` is

.. math:: \ell(w) = \max\bigl(0, 1 - \min_{z \in S(x)} y \langle w, z\rangle\bigr).

An averaged plane is an element of the convex hull of the planes of this maximum and the null plane. It
has a dual variable :math:`\tau \in [0, 1]` ("level" in code) and a deviation :math:`\delta_j` per word:

.. math:: a = y\, x \circ (\tau + \delta), \quad
   \delta_j = -(1-l)\kappa_j \text{ or } (u-1)\kappa_j, \quad
   0 \le \kappa_j \le \tau, \quad \sum_j \kappa_j \le K \tau.
"""

from __future__ import annotations

from ...utils.jit import FAST, PLAIN, njit
from .word_blocks import step_block
from .word_selection import changing, gains, largest, products

# Words without a deviation are not updated if their gain is below this fraction of the row's last
# multiplier. The step over the other words still increases the dual objective.
_KEEP = 0.7
# Number of rows of the workspace of `sweep_words`.
WORK_ROWS = 11


@njit(**FAST)
def move_words(indices, data, delta, start, stop, place, count, step_tau, target, gamma, rate, f):
    """Move deviations by a fraction gamma of the way to their targets; update f."""
    if step_tau != 0:
        scale = rate * step_tau
        for j in range(start, stop):
            f[indices[j]] += scale * data[j]
    # Changes are computed from stored values, so that f remains consistent with them.
    for t in range(count):
        j = place[t]
        old = delta[j]
        delta[j] = target[t] if gamma == 1.0 else old + gamma * (target[t] - old)
        f[indices[j]] += rate * data[j] * (delta[j] - old)


@njit(**PLAIN)
def sweep_words(indptr, indices, data, delta, signs, weights, square, tau, mu, moves, intercept,
                f, order, gaps, work, place):  # fmt: skip
    """Update the block of each row in ``order``.

    This modifies ``delta``, ``tau``, ``mu``, ``f`` and ``gaps``. `word_blocks` describes the step of a
    row. The listed words are those with a deviation or a large gain. Rows without ``moves.changed[i]``
    have neither.

    The workspaces ``work`` (`WORK_ROWS` rows) and ``place`` (integers) have one column more than the
    longest row.
    """
    size, gain, b, q, dev, h, kappa = (
        work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    )  # fmt: skip
    K, drop, grow, changed = moves
    base, drops, grows, cap, last = work[7], work[8], work[9], work[10], f.size - 1
    for t in range(base.size):
        base[t], drops[t], grows[t], cap[t] = 1.0, drop, grow, 1.0
    for i in order:
        c = weights[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        start, stop, level = indptr[i], indptr[i + 1], tau[i]
        length, count, above, deviations = stop - start, 0, 0, delta[start:stop]
        total, _ = products(indices[start:stop], data[start:stop], signs[i], f, size)
        top, threshold = 0.0, 0.0
        if changed[i]:
            # The K-th gain changes little between updates, so words far below it are skipped.
            cut = _KEEP * mu[i]
            if cut > 0:
                count = changing(size, deviations, length, drop, grow, cut, place)
                for t in range(count):
                    value = size[place[t]]
                    gain[above] = max(drop * value, -grow * value)
                    above += gain[above] > cut
            if above < K or cut == 0:
                gains(size, length, drop, grow, gain)
                above = length
            top, threshold = largest(gain, above, K, mu[i])
            if above == length:
                count = changing(size, deviations, length, drop, grow, _KEEP * threshold, place)
        b0, q0 = total, c * square[i]
        if intercept:
            b0 += signs[i] * f[last]
            q0 += c
        violation, inner = 1.0 - (b0 - top), level * b0
        for t in range(count):
            j = place[t]
            x = data[start + j]
            b[t], dev[t], q[t] = size[j], delta[start + j], c * x * x
            inner += b[t] * dev[t]
            b0 -= b[t]
            q0 -= q[t]
            place[t] = start + j
        gap = (violation if violation > 0 else 0.0) - level + inner
        gaps[i] = 0.0 if gap < 0 else c * gap
        mu[i] = threshold
        if gap <= 0:
            continue
        gamma, new = step_block(
            level, 1.0, violation, gap, c * square[i], b, q, base, dev, count, b0, q0, threshold, K,
            drops, grows, cap, h, kappa,
        )  # fmt: skip
        if gamma == 0.0:
            continue
        tau[i] = new if gamma == 1.0 else level + gamma * (new - level)
        move_words(
            indices, data, delta, start, stop, place, count, tau[i] - level, kappa, gamma,
            c * signs[i], f,
        )  # fmt: skip
        if intercept:
            f[last] += c * signs[i] * (tau[i] - level)
