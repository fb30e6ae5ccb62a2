"""Exact pairwise steps between labelings of examples and between members of rows."""

from __future__ import annotations

import numpy as np

from ..utils.jit import LEAN, njit

# Maximum number of steps on a block, and the fraction of its gap at which they end.
MOST_STEPS = 10
BLOCK_SHARE = 0.1


def mean_plane_values(
    values: np.ndarray,
    codes: np.ndarray,
    costs: np.ndarray,
    grades: np.ndarray,
    member_alphas: np.ndarray,
    moved: tuple[np.ndarray, np.ndarray, np.ndarray],
    listed: np.ndarray,
    alphas: np.ndarray,
    starts: np.ndarray,
    pairwise: np.ndarray,
) -> np.ndarray:
    """Return the mean value of the active planes of each block.

    `values`, (n_outputs, n_rows * s), are function values at the members of the rows. `member_alphas`,
    (n_rows, s, n_labels), are dual variables of the members. `moved` has the pairwise features of listed
    labelings, as CSR arrays. Block b has the labelings from ``listed[b]`` on.
    """
    n_blocks, size = len(starts) - 1, grades.shape[1]
    rows, members, labels = np.nonzero(member_alphas)
    columns = rows * size + members
    plane_values = values[labels, columns] - values[codes[rows], columns]
    plane_values = plane_values + costs[rows, labels] * grades[rows, members]
    owners = np.repeat(np.arange(n_blocks), np.diff(starts))[rows]
    means = np.bincount(owners, member_alphas[rows, members, labels] * plane_values, n_blocks)
    blocks = np.repeat(np.arange(n_blocks), np.diff(listed))
    listed_alphas = alphas[blocks, np.arange(len(blocks)) - listed[blocks]]
    indptr, indices, data = moved
    terms = np.repeat(listed_alphas, np.diff(indptr)) * data * pairwise[indices]
    return means + np.bincount(np.repeat(blocks, np.diff(indptr)), terms, n_blocks)


@njit(cache=True, nogil=True)
def ascend_blocks(
    order, starts, values, kernel, atom_rows, codes, costs, grades, weights, labelings, listed, moved,
    alphas, member_alphas, pairwise, changes,
):  # fmt: skip
    """Do steps in each block of `order` over its stored labelings and members.

    `atom_rows` is the row of `kernel` of each member, -1 for none; `kernel` has one column per member.
    `values`, `alphas`, `member_alphas` and `pairwise` are updated in place. Changes of the atoms'
    coefficients are added to `changes`, (n_outputs, n_rows * s).
    """
    size = grades.shape[1]
    for b in order:
        first, last = starts[b], starts[b + 1]
        begin, end = first * size, last * size
        local = values[:, begin:end].astype(np.float64)
        before = changes[:, begin:end].copy()
        own, atoms = np.zeros((end - begin, end - begin)), np.empty(end - begin, dtype=np.int64)
        for p in range(end - begin):
            if atom_rows[begin + p] >= 0:
                for q in range(end - begin):
                    own[p, q] = kernel[atom_rows[begin + p], begin + q]
        mine = slice(first, last)
        _ascend(
            local, own, atom_rows[begin:end] >= 0, codes[mine], costs[mine], grades[mine], weights[b],
            labelings[mine], listed[b], listed[b + 1] - listed[b], moved, alphas[b], member_alphas[mine],
            pairwise, changes[:, begin:end],
        )  # fmt: skip
        # Changes of the block's atoms update the values at all members of the batch.
        used = 0
        for p in range(begin, end):
            changed = False
            for k in range(values.shape[0]):
                # Columns of changed atoms are moved to the front.
                before[k, used] = changes[k, p] - before[k, p - begin]
                changed |= before[k, used] != 0.0
            if changed:
                atoms[used] = atom_rows[p]
                used += 1
        if used > 0:
            coefficients = np.ascontiguousarray(before[:, :used]).astype(values.dtype)
            moves = np.dot(coefficients, kernel[atoms[:used]])
            for k in range(values.shape[0]):
                for p in range(values.shape[1]):
                    values[k, p] += moves[k, p]


@njit(cache=True, nogil=True)
def _ascend(
    local, kernel, atom_rows, codes, costs, grades, weight, labelings, first, n_listed, moved, alphas,
    member_alphas, pairwise, changes,
):  # fmt: skip
    """Do pairwise steps in one block until its gap over the stored planes is a tenth."""
    shape = costs.shape
    best, members = np.empty(shape), np.empty(shape, dtype=np.int64)
    mean, alpha = np.empty(shape), np.empty(shape)
    direction, products = np.zeros(local.shape), np.empty(local.shape)
    moving = np.zeros(len(pairwise))
    target = -1.0
    for _ in range(MOST_STEPS):
        _between_members(local, kernel, atom_rows, codes, costs, grades, weight, member_alphas, changes)
        up, down, gap, used = _pair(
            local, atom_rows, codes, costs, grades, member_alphas, labelings, first, n_listed, moved,
            alphas, pairwise, best, members, mean, alpha,
        )  # fmt: skip
        if target < 0.0:
            target = BLOCK_SHARE * gap
        if weight * gap <= 1e-15 or gap <= target or up == down:
            break
        limit = 1.0 - used if down < 0 else alphas[down]
        advantage = _toward(
            up, down, labelings, codes, best, members, mean, alpha, member_alphas, direction
        )
        for j, sign in ((up, -1.0), (down, 1.0)):
            if j >= 0:
                for e in range(moved[0][first + j], moved[0][first + j + 1]):
                    moving[moved[1][e]] += sign * moved[2][e]
                    advantage -= sign * moved[2][e] * pairwise[moved[1][e]]
        curvature = _multiplied(direction, kernel, products)
        for p in range(len(moving)):
            curvature += moving[p] * moving[p]
        step = limit
        if weight * curvature * limit > advantage:
            step = advantage / (weight * curvature)
        if step > 0.0:
            for t in range(len(codes)):
                c = codes[t]
                new = labelings[t, up] if up >= 0 else c
                old = labelings[t, down] if down >= 0 else c
                if new != old and new != c:
                    member_alphas[t, members[t, new], new] += step
                if new != old and old != c and alpha[t, old] > 0.0:
                    left = 1.0 - step / alpha[t, old]
                    for m in range(member_alphas.shape[1]):
                        member_alphas[t, m, old] *= left if left > 0.0 else 0.0
            if up >= 0:
                alphas[up] += step
            if down >= 0:
                alphas[down] = 0.0 if step == limit else alphas[down] - step
            size = weight * step
            for k in range(local.shape[0]):
                for p in range(local.shape[1]):
                    local[k, p] += size * products[k, p]
                    changes[k, p] += size * direction[k, p]
            for p in range(len(moving)):
                pairwise[p] += size * moving[p]
        for p in range(len(moving)):
            moving[p] = 0.0
        for k in range(local.shape[0]):
            for p in range(local.shape[1]):
                direction[k, p] = 0.0
        if step <= 0.0:
            break
    # Remove rounding errors from labels that no active labeling has.
    for t in range(len(codes)):
        for k in range(member_alphas.shape[2]):
            active = False
            for j in range(n_listed):
                active |= alphas[j] > 0.0 and labelings[t, j] == k and k != codes[t]
            if not active:
                for m in range(member_alphas.shape[1]):
                    member_alphas[t, m, k] = 0.0


@njit(**LEAN)
def _pair(
    local, atom_rows, codes, costs, grades, member_alphas, labelings, first, n_listed, moved, alphas,
    pairwise, best, members, mean, alpha,
):  # fmt: skip
    """Return the best labeling, the worst active one, the gap and the sum of dual variables.

    Labeling -1 is the true one. Arrays receive the worst stored member of each row and label, and the
    mean value of the active members.
    """
    n_rows, n_labels = costs.shape
    size = grades.shape[1]
    for t in range(n_rows):
        c = codes[t]
        for k in range(n_labels):
            best[t, k], members[t, k], mean[t, k], alpha[t, k] = -np.inf, -1, 0.0, 0.0
        for m in range(size):
            p = t * size + m
            if not atom_rows[p]:
                continue
            for k in range(n_labels):
                plane_value = local[k, p] - local[c, p] + costs[t, k] * grades[t, m]
                if plane_value > best[t, k]:
                    best[t, k], members[t, k] = plane_value, m
                if member_alphas[t, m, k] > 0.0:
                    mean[t, k] += member_alphas[t, m, k] * plane_value
                    alpha[t, k] += member_alphas[t, m, k]
        best[t, c], mean[t, c] = 0.0, 0.0
        for k in range(n_labels):
            if alpha[t, k] > 0.0:
                mean[t, k] /= alpha[t, k]
    up, highest, down, lowest, total, used = -1, 0.0, -2, np.inf, 0.0, 0.0
    for j in range(n_listed):
        plane_value = 0.0
        for e in range(moved[0][first + j], moved[0][first + j + 1]):
            plane_value += moved[2][e] * pairwise[moved[1][e]]
        average = plane_value
        for t in range(len(codes)):
            k = labelings[t, j]
            if k != codes[t]:
                plane_value += best[t, k]
                average += mean[t, k]
        if plane_value > highest:
            up, highest = j, plane_value
        if alphas[j] > 0.0:
            used += alphas[j]
            total += alphas[j] * average
            if average < lowest:
                down, lowest = j, average
    if 1.0 - used > 1e-15 and lowest > 0.0:
        down = -1
    if down == -2:
        down = up
    return up, down, highest - total, used


@njit(**LEAN)
def _toward(up, down, labelings, codes, best, members, mean, alpha, member_alphas, direction):
    """Compute the direction from one labeling to another; return its gain."""
    gained, size = 0.0, member_alphas.shape[1]
    for t in range(len(codes)):
        c = codes[t]
        new = labelings[t, up] if up >= 0 else c
        old = labelings[t, down] if down >= 0 else c
        if new == old:
            continue
        gained += best[t, new] - mean[t, old]
        if new != c:
            direction[c, t * size + members[t, new]] += 1.0
            direction[new, t * size + members[t, new]] -= 1.0
        # Very small dual variables may have a sum of 0.
        if old != c and alpha[t, old] > 0.0:
            for m in range(size):
                share = member_alphas[t, m, old] / alpha[t, old]
                if share > 0.0:
                    direction[c, t * size + m] -= share
                    direction[old, t * size + m] += share
    return gained


@njit(**LEAN)
def _between_members(local, kernel, atom_rows, codes, costs, grades, weight, member_alphas, changes):
    """Do an exact step from the lowest active member to the highest, for each row and label."""
    n_rows, size, n_labels = member_alphas.shape
    for t in range(n_rows):
        c = codes[t]
        for k in range(n_labels):
            up, highest, down, lowest = -1, -np.inf, -1, np.inf
            for m in range(size):
                if member_alphas[t, m, k] > 0.0:
                    down = m
                    break
            if down < 0:
                continue
            for m in range(size):
                p = t * size + m
                if not atom_rows[p]:
                    continue
                plane_value = local[k, p] - local[c, p] + costs[t, k] * grades[t, m]
                if plane_value > highest:
                    up, highest = m, plane_value
                if member_alphas[t, m, k] > 0.0 and plane_value < lowest:
                    down, lowest = m, plane_value
            a, z = t * size + up, t * size + down
            curvature = 2.0 * (kernel[a, a] + kernel[z, z] - 2.0 * kernel[a, z])
            if up == down or highest <= lowest:
                continue
            step = member_alphas[t, down, k]
            if weight * curvature * step > highest - lowest:
                step = (highest - lowest) / (weight * curvature)
                member_alphas[t, down, k] -= step
            else:
                member_alphas[t, down, k] = 0.0
            member_alphas[t, up, k] += step
            size_of_step = weight * step
            for p in range(local.shape[1]):
                change = size_of_step * (kernel[a, p] - kernel[z, p])
                local[c, p] += change
                local[k, p] -= change
            changes[c, a] += size_of_step
            changes[k, a] -= size_of_step
            changes[c, z] -= size_of_step
            changes[k, z] += size_of_step


@njit(**LEAN)
def _multiplied(direction, kernel, products):
    """Compute the direction's values at all members of the block; return its squared norm."""
    square = 0.0
    for k in range(direction.shape[0]):
        for q in range(direction.shape[1]):
            products[k, q] = 0.0
        for p in range(direction.shape[1]):
            factor = direction[k, p]
            if factor != 0.0:
                for q in range(direction.shape[1]):
                    products[k, q] += factor * kernel[p, q]
        for p in range(direction.shape[1]):
            if direction[k, p] != 0.0:
                square += direction[k, p] * products[k, p]
    return square
