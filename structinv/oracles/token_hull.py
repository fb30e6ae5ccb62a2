"""Dual state of the two-class hinge loss on counted words, whose occurrences may be deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..compiled import njit
from ..matrices import Matrix
from .word_blocks import step_block
from .word_hull import DeviatingHull
from .word_kernels import deviate, move_words

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
# Words whose gain is below this fraction of the row's last multiplier are left unchanged in a visit.
_KEEP = 0.7


class TokenHull(DeviatingHull):
    r"""Dual state of the hinge loss under deleted tokens.

    .. math:: w = \sum_i c_i y_i\, x_i \circ (\tau_i + \delta_i), \quad -\tau_i \le \delta_{ij} \le 0,
       \quad -\sum_j n_{ij} \delta_{ij} \le K \tau_i ,

    with n the number of occurrences: a word of n occurrences takes n deletions to go, each a share
    1 / n of it.

    Parameters
    ----------
    X, signs, weights, intercept
        As for `IdentityHull`; the intercept is never changed.
    tallies : (nnz,) array
        How often each word occurs in its text.
    max_changes : int
        Number K of tokens that may be deleted.
    """

    shares = False

    def __init__(
        self,
        X: sp.csr_matrix,
        signs: np.ndarray,
        weights: np.ndarray,
        tallies: np.ndarray,
        max_changes: int,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, signs, weights, intercept)
        self.tallies = np.asarray(tallies, dtype=np.float64)
        self.max_changes = int(max_changes)

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        X = self.X
        _sweep(
            X.indptr, X.indices, X.data, self.tallies, self.delta, self.signs, self.weights,
            self.squares, self.levels, self.mu, self.max_changes, self.intercept, f, order, gaps,
        )  # fmt: skip

    def losses(self, f: np.ndarray) -> np.ndarray:
        X = self.X
        return _losses(
            X.indptr, X.indices, X.data, self.tallies, self.signs, self.max_changes, self.intercept, f
        )

    def restore(self, normals: Matrix, levels: np.ndarray) -> None:
        """See `Hull.restore`; what does not fit the bounds or the budget is shrunk until it does."""
        super().restore(normals, levels)
        X, N = self.X, sp.csr_matrix(normals)
        deviate(
            X.indptr, X.indices, X.data, N.indptr, N.indices, N.data, self.signs, self.levels,
            self.max_changes, 1.0, 0.0, self.tallies, np.zeros(X.shape[1]), self.delta,
        )  # fmt: skip


@njit(**_PLAIN)
def _top(gain, tally, length, most, order):
    """What the best `most` tokens win, and the last of them (0 if there are fewer that win)."""
    count = 0
    for t in range(length):
        order[count] = t
        count += gain[t] > 0.0
    left, total = float(most), 0.0
    # Selection is enough: few words are taken.
    for place in range(count):
        best = place
        for t in range(place + 1, count):
            if gain[order[t]] > gain[order[best]]:
                best = t
        order[place], order[best] = order[best], order[place]
        word = order[place]
        taken = min(left, tally[word])
        total += taken * gain[word]
        left -= taken
        if left <= 0.0:
            return total, gain[word]
    return total, 0.0


@njit(**_PLAIN)
def _losses(indptr, indices, data, tallies, signs, most, intercept, f):
    longest = 1
    for i in range(signs.size):
        longest = max(longest, indptr[i + 1] - indptr[i])
    gain, order = np.empty(longest), np.empty(longest + 1, dtype=np.int64)
    losses = np.empty(signs.size)
    for i in range(signs.size):
        start, length, margin = indptr[i], indptr[i + 1] - indptr[i], 0.0
        for t in range(length):
            b = signs[i] * data[start + t] * f[indices[start + t]]
            margin += b
            gain[t] = b / tallies[start + t]
        if intercept:
            margin += signs[i] * f[f.size - 1]
        losses[i] = max(0.0, 1.0 - margin + _top(gain, tallies[start:], length, most, order)[0])
    return losses


@njit(**_PLAIN)
def _sweep(
    indptr, indices, data, tallies, delta, signs, weights, squares, levels, mu, most, intercept, f,
    order, gaps,
):  # fmt: skip
    """Improve the block of each row in ``order``; ``delta``, ``levels``, ``mu``, ``f``, ``gaps`` change.

    Words that are, or may become, changed are solved for together with the level; the others enter as
    two sums.
    """
    longest = 1
    for i in range(signs.size):
        longest = max(longest, indptr[i + 1] - indptr[i])
    whole, gain = np.empty(longest), np.empty(longest)
    place, found = np.empty(longest, dtype=np.int64), np.empty(longest + 1, dtype=np.int64)
    room = np.empty((7, longest))
    b, q, dev, h, kappa, side, cap = (
        room[0], room[1], room[2], room[3], room[4], room[5], room[6]
    )  # fmt: skip
    base, grow, last = np.ones(longest), np.zeros(longest), f.size - 1
    for i in order:
        c = weights[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        start, length, level = indptr[i], indptr[i + 1] - indptr[i], levels[i]
        total = 0.0
        for t in range(length):
            whole[t] = signs[i] * data[start + t] * f[indices[start + t]]
            gain[t] = whole[t] / tallies[start + t]
            total += whole[t]
        top, threshold = _top(gain, tallies[start:], length, most, found)
        b0, q0 = total, c * squares[i]
        if intercept:
            b0 += signs[i] * f[last]
            q0 += c
        lack, inner, count = 1.0 - (b0 - top), level * b0, 0
        cut = _KEEP * min(threshold, mu[i])
        for t in range(length):
            if delta[start + t] == 0.0 and not gain[t] > cut:
                continue
            x = data[start + t]
            place[count], b[count], dev[count] = start + t, whole[t], delta[start + t]
            q[count] = c * x * x
            cap[count] = tallies[start + t]
            side[count] = 1.0 / tallies[start + t]
            inner += whole[t] * dev[count]
            b0 -= whole[t]
            q0 -= q[count]
            count += 1
        gap = max(lack, 0.0) - level + inner
        gaps[i] = max(c * gap, 0.0)
        mu[i] = threshold
        if gap <= 0:
            continue
        gamma, new = step_block(
            level, 1.0, lack, gap, c * squares[i], b, q, base, dev, count, b0, q0, threshold, most, side,
            grow, cap, h, kappa,
        )  # fmt: skip
        if gamma == 0.0:
            continue
        levels[i] = new if gamma == 1.0 else level + gamma * (new - level)
        move_words(
            indices, data, delta, start, start + length, place, count, levels[i] - level, kappa, gamma,
            c * signs[i], f,
        )  # fmt: skip
        if intercept:
            f[last] += c * signs[i] * (levels[i] - level)
