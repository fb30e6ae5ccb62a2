"""Dual state of text edits that insert features, against planes of the sum."""

import itertools

import numpy as np
import pytest

from structinv.dual import dual_state
from structinv.dual.case import Case
from structinv.dual.insertion_state import InsertionState
from structinv.oracles.text.text_edits import TextEdits, counted
from structinv.oracles.text.text_grams import Grams
from structinv.solvers import BMRM, FrankWolfe, Gap, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from .covering import pairs

SETTINGS = {
    "words": ["add", "replace"],
    "binary": [False, True],
    "longest": [1, 2, 3],
    "changes": [1, 3],
    "only": [None, 1, 0],
    "weight": [0.1, 3.0],
    "allowed": [False, True],
}


def texts(seed=0, n=14):
    """Texts over six tokens and one unknown, some of them empty; and labels."""
    rng = np.random.default_rng(seed)
    names, sizes = [*"abcdef", "?"], rng.integers(0, 7, n)
    y = np.arange(n) % 2
    likely = np.array([[4, 3, 2, 1, 1, 1, 1], [1, 1, 1, 2, 3, 4, 1.0]])
    drawn = [
        rng.choice(7, size, p=likely[label] / likely[label].sum())
        for size, label in zip(sizes, y, strict=True)
    ]
    return [[names[token] for token in text] for text in drawn], y


def problem(words, binary, longest, changes, only, weight, allowed, seed=0):
    """The program of all edits of these texts."""
    known, y = texts(seed)
    orders = range(1, longest + 1)
    found = [gram for order in orders for gram in itertools.product("abcdef", repeat=order)]
    there = {tuple(t[i : i + order]) for t in known for order in orders for i in range(len(t))}
    grams = Grams([gram for gram in found if len(gram) == 1 or gram in there])
    documents = grams.encoded(known)
    rng = np.random.default_rng(seed)
    values = np.ones(grams.n_features) if binary else rng.uniform(0.5, 2.0, grams.n_features)
    chosen = np.arange(3) if allowed else None
    oracle = TextEdits(documents, grams, values, words, changes, binary, chosen)
    X = counted(grams.counts(documents), values, binary)
    changed = oracle if only is None else oracle.only_for(only)
    term = WorstCase(X, y, changed, Binary(), weight)
    return Objective(ExplicitSpace(X.shape[1], intercept=True), [term])


def state_of(objective):
    return dual_state(objective.terms[0], objective.space, np.random.default_rng(0))


@pytest.mark.parametrize(list(SETTINGS), pairs(*SETTINGS.values()))
def test_the_optimum_equals_that_of_planes(words, binary, longest, changes, only, weight, allowed):
    objective = problem(words, binary, longest, changes, only, weight, allowed)
    if words == "replace" or longest > 1:
        assert isinstance(state_of(objective), InsertionState)
    found = solve(objective, FrankWolfe(), Gap(1e-6), random_state=0)
    other = solve(objective, BMRM(), Gap(1e-6), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(other.primal, rel=3e-6)
    for record in found.history:
        assert record.dual <= other.primal * (1 + 1e-9)
        assert record.primal >= other.dual * (1 - 1e-9)


def insertion_state(objective):
    return InsertionState(Case(objective.terms[0], objective.space), np.random.default_rng(0))


def heights(planes, space, f):
    return planes.offsets - space.scores(f, planes.normals)


@pytest.mark.parametrize(
    ("sweeps", "longest", "binary", "words"),
    pairs([1, 4], [1, 2], SETTINGS["binary"], SETTINGS["words"]),
)
def test_planes_bound_the_losses(words, binary, longest, sweeps):
    objective = problem(words, binary, longest, 2, None, 0.7, False, seed=1)
    (term,), space, rng = objective.terms, objective.space, np.random.default_rng(0)
    state, f = insertion_state(objective), space.zeros()
    for _ in range(sweeps):
        state.sweep(f)
    before, f = f, state.combination()
    if state.lost < 1e-12:
        # All that rows add together could be shared out between them.
        np.testing.assert_allclose(f, before, atol=1e-9)
    planes = state.planes()
    np.testing.assert_allclose(
        space.combine(planes.normals, term.weights[planes.blocks] * planes.alphas), f, atol=1e-9
    )
    assert term.weights[planes.blocks] @ (planes.alphas * planes.offsets) == pytest.approx(state.offset)
    for scale in (0.1, 1.0, 10.0):
        for g in scale * rng.standard_normal((20, space.size)):
            _, attained = term.values(space, g)
            assert np.all(heights(planes, space, g) <= attained[planes.blocks] + 1e-9 * scale)
    again = insertion_state(objective)
    again.restore(planes)
    # Where sharing loses something, the planes themselves may be worth more.
    assert again.rest is None or binary
    g = again.combination()
    assert again.offset - 0.5 * g @ g >= state.offset - 0.5 * f @ f - 1e-7
    taken = again.planes()
    for g in rng.standard_normal((20, space.size)):
        _, attained = term.values(space, g)
        assert np.all(heights(taken, space, g) <= attained[taken.blocks] + 1e-9)
