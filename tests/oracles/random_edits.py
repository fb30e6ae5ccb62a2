"""Members of every oracle's set, drawn from the definition of the set and not from the oracle's code.

An edit takes m copies of a row, (m, d), the row's label, a generator and a direction to lean to, (m, d),
and gives m members of S(x). Half of the draws lean: they take the corners that go along the direction,
with some of the signs turned, since edits without a purpose seldom come near the border.
"""

import numpy as np
import scipy.sparse as sp
from scipy import ndimage

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles.listed_changes import listed

from .cases import (
    FACTOR,
    LOCAL_FACTOR,
    ORDERS,
    RADII,
    TANGENTS,
    VALUES,
    D,
    row_factor,
    row_lags,
    row_powers,
    row_tangents,
    row_tangents_alone,
    rows,
    turn,
)


def nothing(x, label, rng, lean):
    return x


def _signs(rng, lean):
    """Signs at random, or those of the direction with some turned, or numbers between them."""
    signs = np.where(rng.random(lean.shape) < 0.15, -1.0, 1.0) * np.sign(lean)
    free = rng.random((len(lean), 1)) < 0.5
    signs = np.where(free, rng.choice([-1.0, 1.0], lean.shape), signs)
    inner = rng.random((len(lean), 1)) < 0.3
    return np.where(inner, signs * rng.random(lean.shape), signs)


def words(K, low, high):
    def edit(x, label, rng, lean):
        up = x * _signs(rng, lean) > 0
        factors = np.where(up, high, low)
        inner = rng.random(x.shape) < 0.2
        factors = np.where(inner, rng.uniform(low, high, x.shape), factors)
        # The words that matter most, some others, or any.
        worth = np.abs(x * lean) * rng.uniform(0.5, 1.5, x.shape)
        worth = np.where(rng.random((len(x), 1)) < 0.4, rng.random(x.shape), worth)
        place = np.argsort(np.argsort(-worth, axis=1), axis=1)
        return np.where(place < rng.integers(0, K + 1, (len(x), 1)), factors * x, x)

    return edit


def added(K, low, high, value, present=False):
    """Up to K words multiplied, or raised where they are absent, or anywhere."""

    def edit(x, label, rng, lean):
        raised = x + np.where((x == 0) | present, value, 0.0) * rng.choice([1.0, 1.0, 0.4], x.shape)
        factor = np.where(x * _signs(rng, lean) > 0, high, low)
        changed = np.where((x == 0) | present, raised, factor * x)
        worth = (changed - x) * lean * rng.uniform(0.5, 1.5, x.shape)
        worth = np.where(rng.random((len(x), 1)) < 0.4, rng.random(x.shape), worth)
        place = np.argsort(np.argsort(-worth, axis=1), axis=1)
        return np.where(place < rng.integers(0, K + 1, (len(x), 1)), changed, x)

    return edit


def of_length(edit):
    """What an edit makes of the row, with the row's l1 length."""

    def edited(x, label, rng, lean):
        made, wanted = edit(x, label, rng, lean), np.abs(x).sum(axis=1, keepdims=True)
        lengths = np.abs(made).sum(axis=1, keepdims=True)
        return made * np.where(wanted > 0, wanted, 1.0) / np.where(lengths > 0, lengths, 1.0)

    return edited


def box(radius):
    return lambda x, label, rng, lean: x + np.broadcast_to(radius, x.shape) * _signs(rng, lean)


def _each(value, x):
    """An array for each row: a function of the rows, or the same for all."""
    return value(x) if callable(value) else np.broadcast_to(value, (len(x), *np.shape(value)))


def ball(factor, radius):
    def edit(x, label, rng, lean):
        F = _each(factor, x)
        along = np.einsum("mdr,md->mr", F, lean)
        noise = np.linalg.norm(along, axis=1, keepdims=True) * rng.choice([0.0, 0.1, 1.0], (len(x), 1))
        u = along + noise * rng.standard_normal(along.shape)
        length = np.linalg.norm(u, axis=1, keepdims=True)
        u = u / np.where(length > 0, length, 1.0) * rng.choice([1.0, 0.5], (len(x), 1))
        return x + radius * np.einsum("mdr,mr->md", F, u)

    return edit


def steps(tangents, bounds):
    def edit(x, label, rng, lean):
        T = _each(tangents, x)
        t = _signs(rng, np.einsum("mtd,md->mt", T, lean))
        return x + np.einsum("mt,mtd->md", t * np.asarray(bounds), T)

    return edit


def steps_between(direction, low, high):
    def edit(x, label, rng, lean):
        u = direction(x)
        t = _signs(rng, np.sum(u * lean, axis=1, keepdims=True))
        return x + np.where(t > 0, high, -low) * t * u

    return edit


def along(powers, low, high):
    def edit(x, label, rng, lean):
        x_k = powers(x)
        grid = np.linspace(low, high, 61)[:, None] ** np.arange(1, x_k.shape[1] + 1)
        best = np.argmax(np.einsum("mkd,md->mk", x_k, lean) @ grid.T, axis=1)
        picks = np.where(rng.random(len(x)) < 0.5, best, rng.integers(61, size=len(x)))
        return x + np.einsum("mk,mkd->md", grid[picks], x_k)

    return edit


def one_of(*edits):
    """What either edit makes of the row."""

    def edit(x, label, rng, lean):
        made = np.stack([each(x, label, rng, lean) for each in edits])
        return made[rng.integers(len(edits), size=len(x)), np.arange(len(x))]

    return edit


def after(second, first):
    return lambda x, label, rng, lean: second(first(x, label, rng, lean), label, rng, lean)


def if_label(edit, labels):
    return lambda x, label, rng, lean: edit(x, label, rng, lean) if label in labels else x


def keeping(edit, features):
    def kept(x, label, rng, lean):
        mine = np.isin(np.arange(x.shape[1]), features)
        return np.where(mine, x, edit(x, label, rng, lean))

    return kept


def permuted(*orders):
    return one_of(*[lambda x, label, rng, lean, order=order: x[:, order] for order in orders])


def times(*factors):
    return one_of(*[lambda x, label, rng, lean, factor=factor: factor * x for factor in factors])


def warped(*changes, mode="grid-constant"):
    """An image of one row by SciPy; changes go from the output to the source."""

    def edit(x, label, rng, lean):
        center = np.array([0.0, (D - 1) / 2])
        members = [x[0]]
        for matrix, shift in changes:
            offset = center - matrix @ center + shift
            made = ndimage.affine_transform(x[:1], matrix, offset, order=1, mode=mode)
            members.append(made[0])
        return np.stack(members)[rng.integers(len(members), size=len(x))]

    return edit


_fscale, _fdrop = words(2, 0.5, 3.0), words(2, 0.0, 1.0)
_ball, _permuted = ball(FACTOR, 0.5), permuted(*ORDERS)
_fadd = added(2, 1.0, 1.0, 1.0)
_stretched = steps_between(np.array, -0.6, 0.5)
_offset = steps_between(np.ones_like, -0.6, 0.6)

EDITS = {
    "identity": nothing,
    "fscale": _fscale,
    "fscale-more-than-words": words(99, 0.0, 2.0),
    "fscale-none": nothing,
    "fscale-factor-one": nothing,
    "fdrop": _fdrop,
    "fadd": _fadd,
    "fadd-some": added(2, 1.0, 1.0, VALUES, present=True),
    "fedit": added(2, 0.5, 2.0, 0.7),
    "box": box(0.3),
    "box-radii": box(RADII),
    "box-point": nothing,
    "ellipsoid": _ball,
    "ellipsoid-point": nothing,
    "ellipsoid-rows": ball(row_factor, 0.3),
    "local_tangents": ball(lambda x: np.repeat(LOCAL_FACTOR(x[:1]), len(x), axis=0), 0.5),
    "tangent": steps(TANGENTS, 0.4),
    "tangent-rows": steps(row_tangents, [0.1, 0.3]),
    "tangent-oracle": steps(lambda X: row_factor(X).swapaxes(1, 2), 0.2),
    "segment": _stretched,
    "segment-mirrored": steps_between(np.array, -2.0, 0.0),
    "offset": _offset,
    "offset-none": nothing,
    "trajectory": along(row_powers, -1.0, 1.5),
    "trajectory-one-sided": along(row_powers, 0.0, 0.7),
    "trajectory-line": along(row_tangents_alone, -0.5, 0.25),
    "sampled": one_of(nothing, *(lambda x, *_, k=k: row_lags(x)[:, k] for k in (0, 1))),
    "finite": _permuted,
    "shifts": warped(*((np.eye(2), np.array([0, t])) for t in (-1, -0.5, 0.5, 1)), mode="nearest"),
    "rotations": warped(turn(180), turn(-30)),
    "scalings": warped((np.eye(2) / 0.5, 0.0), (np.eye(2) / 1.6, 0.0)),
    "shears": warped((np.array([[1, -0.4], [0, 1]]), 0.0), (np.array([[1, 0], [-0.4, 1]]), 0.0)),
    "shifts-between": warped(
        *((np.eye(2), np.array([0, s * t])) for t in np.linspace(0.5, 1.7, 31) for s in (-1, 1)),
        mode="nearest",
    ),
    "scalings-between": warped(*((np.eye(2) / t, 0.0) for t in np.linspace(0.5, 1.6, 61))),
    "shears-between": warped(*((np.array([[1, 0], [-t, 1]]), 0.0) for t in np.linspace(-0.8, 0.4, 61))),
    "flip": warped((np.diag([1.0, -1.0]), 0.0)),
    "permutations": lambda x, label, rng, lean: rng.permuted(x, axis=1),
    "weighted": _permuted,
    "unit_length-fdrop": of_length(_fdrop),
    "unit_length-fedit": of_length(added(2, 0.0, 2.0, VALUES)),
    "unit_length-only_for": one_of(if_label(of_length(_fdrop), [1]), if_label(_fadd, [0])),
    "union": one_of(_fscale, _fdrop),
    "union-dense": one_of(box(RADII), _ball),
    "compose-additive": after(box(RADII), _fscale),
    "compose-convex": after(box(RADII), _ball),
    "compose-finite": after(_fscale, _permuted),
    "compose-both-finite": after(times(1.0, 0.5, -0.25), _permuted),
    "compose-linear": after(_permuted, _fscale),
    "compose-identity": _fscale,
    "only_for": if_label(_fscale, [1, 2]),
    "only_for-union": one_of(if_label(_fdrop, [1]), if_label(box(0.3), [0])),
    "only_for-added": one_of(if_label(_fadd, [1]), if_label(_fdrop, [0])),
    "protected-fadd": if_label(keeping(_fadd, [1, 4]), [0, 1]),
    "protected-discounted": keeping(words(3, 0.0, 1.0), [2]),
    "protected-finite": keeping(_permuted, [0]),
    "protected-ellipsoid": keeping(_ball, [0, 3]),
    "only_for-compose": after(if_label(box(RADII), [0]), if_label(_fscale, [0, 1])),
    "discounted-fscale": _fscale,
    "discounted-fdrop": words(3, 0.0, 1.0),
    "discounted-fedit": added(2, 0.0, 1.0, VALUES),
    "discounted-box": box(RADII),
    "discounted-ellipsoid": _ball,
    "discounted-segment": _stretched,
    "discounted-offset": _offset,
    "discounted-finite": _permuted,
    "discounted-union": one_of(_fscale, _fdrop),
    "discounted-member": one_of(_fdrop, words(2, 0.9, 1.1)),
    "discounted-only_for": if_label(_fdrop, [1]),
    "shared": _permuted,
    "budget": if_label(_fdrop, [1]),
    "budget-fadd": _fadd,
    "shared-or-budget": one_of(times(1.0, 0.5, -0.25), _fdrop),
}


def beaten(case, n_edits, seed):
    """How many edits there were, how many fell below a certificate, and the least room above one.

    The room is a margin minus what was certified of it, for a linear model, and for a kernel machine
    where the oracle lists its members; members are those of `EDITS`, of `sample` and of `orbit`.
    """
    X, y = rows(seed)
    made, below, room = 0, 0, np.inf
    for model, certificate in _models(case, X, y):
        per_row = max(1, n_edits // len(X))
        rng = np.random.default_rng(seed)
        for row, (x, label) in enumerate(zip(X, y, strict=True)):
            for members in _members(case, model, X, y, row, x, label, per_row, rng):
                margins = _margins(model, members, label)
                made += len(members)
                below += int(np.sum(margins < certificate.margins[row]))
                room = min(room, float(np.min(margins - certificate.margins[row], initial=np.inf)))
    return made, below, room


def _models(case, X, y):
    linear = InvariantLinearSVC(case.oracle, C=2.0, tol=0.5, random_state=0).fit(X, y)
    yield linear, linear.certify(X, y)
    if case.sparse:
        yield linear, linear.certify(sp.csr_matrix(X), y)
    try:
        machine = InvariantSVC(case.oracle, C=2.0, tol=0.5, random_state=0).fit(X, y)
    except (TypeError, NotImplementedError):
        assert not case.oracle.finite
        return
    yield machine, machine.certify(X, y)


def _members(case, model, X, y, row, x, label, size, rng):
    lean = rng.standard_normal((size, D))
    if isinstance(model, InvariantLinearSVC):
        competitors = rng.choice(np.flatnonzero(model.classes_ != label), size)
        lean = model.coef_[competitors] - model.coef_[label] + 0.1 * lean
    yield EDITS[case.name](np.repeat(x[None], size, axis=0), label, rng, lean)
    bound, own = case.oracle.bind(X, y), np.array([row])
    for draw in (lambda: bound.sample(own, size, rng), lambda: listed(bound).members(own)):
        try:
            yield draw()[0]
        except NotImplementedError:
            continue


def _margins(model, members, label):
    scores = model.decision_function(members)
    return scores[:, label] - np.max(np.delete(scores, label, axis=1), axis=1)
