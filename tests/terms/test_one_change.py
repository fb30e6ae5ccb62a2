"""Label sets of rows with a common change, against enumeration."""

from __future__ import annotations

from functools import cache, partial
from itertools import product

import cvxpy as cp
import numpy as np
import pytest

from structinv.kernels import Linear
from structinv.oracles import Box, FDrop, Identity, Support
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Layout, Multilabel, Sequence
from structinv.structures.multilabel import pair_counts, positions, tree_of_counts
from structinv.terms import Objective
from structinv.terms.one_change import OneChange, OneChangeSearch

from ..covering import pairs
from ..problems import assert_brackets, minimum
from ..structures.cases import (
    N_FEATURES,
    N_ROWS,
    ORACLES,
    RADIUS,
    SET_COST,
    SET_WEIGHTS,
    SIZE,
    QuarterTurns,
    Unlisted,
    by_pairs,
    changes_of_row,
    heights,
    label_set_problem,
    label_sets,
    pairs_of,
)


@cache
def optimum(number, pairwise):
    """Return the optimum over all label sets and perturbations."""
    X, y = label_sets()
    edges = tree_of_counts(pair_counts(y), len(y)) if pairwise else np.zeros((0, 2), dtype=int)
    W, A = cp.Variable((SIZE, N_FEATURES)), cp.Variable(max(1, 4 * len(edges)))
    total = 0.5 * cp.sum_squares(W) + 0.5 * cp.sum_squares(A)
    for x, truth, weight in zip(X, y, SET_WEIGHTS, strict=True):
        parts = []
        for labels in product([0, 1], repeat=SIZE):
            moved = np.array(labels) - truth
            cost = sum(SET_COST[c][k] for c, k in zip(truth, labels, strict=True))
            part = cp.max(changes_of_row(ORACLES[number], x) @ (W.T @ moved)) + cost
            if pairwise:
                part = part + (pairs_of(labels, edges) - pairs_of(truth, edges)) @ A
            parts.append(part)
        total = total + weight * cp.maximum(*parts)
    return minimum(total)


SOLVERS = [FrankWolfe(), SVMStruct(), BMRM()]


# Every oracle with both structures, and the solvers in turns.
@pytest.mark.parametrize(
    ("oracle", "pairwise", "solver"),
    [
        (oracle, pairwise, SOLVERS[(number + (pairwise is None)) % 3])
        for number, oracle in enumerate(ORACLES)
        for pairwise in (None, "tree")
    ],
    ids=repr,
)
def test_label_sets_reach_the_optimum(oracle, pairwise, solver):
    best = optimum(ORACLES.index(oracle), pairwise)
    for sparse in {False, oracle.supports_sparse}:
        given = label_set_problem(oracle, pairwise, sparse=sparse)
        found = solve(given, solver, Gap(1e-7), random_state=0)
        assert found.status is Status.CONVERGED
        assert found.primal == pytest.approx(best, rel=1e-6)
        assert found.dual == pytest.approx(best, rel=1e-6)
        assert_brackets(found, best)
    # Every oracle with one of the structures.
    if ORACLES.index(oracle) % 2 == (pairwise is not None):
        near = solve(given, Pegasos(), Gap(5e-3), random_state=0)
        assert_brackets(near, best)
        assert near.primal <= best * 1.01


RHO = [1.0, 0.4, 0.2]


@by_pairs
@pytest.mark.parametrize(
    ("oracle", "rho"),
    [*((each, None) for each in ORACLES), (QuarterTurns(), RHO), (Unlisted(), RHO)],
    ids=repr,
)
def test_values_and_planes_equal_enumeration(oracle, rho, pairwise):
    """All labels have the grade of the perturbation that they share."""
    given = label_set_problem(oracle if rho is None else oracle.discounted(rho), pairwise)
    term, space = given.terms[0], given.space
    f = np.random.default_rng(3).standard_normal(space.size)
    X, y = label_sets()
    best = []
    for x, truth in zip(X, y, strict=True):
        every = heights(given, f, x, truth, oracle, lambda number: 1.0 if rho is None else rho[number])
        best.append(max(gain + cost for values in every.values() for gain, cost in values))
    planes = term.planes(space, f)
    at_f = planes.offsets - space.scores(f, planes.normals)
    for found in (*term.values(space, f), planes.plane_values, at_f):
        np.testing.assert_allclose(found, best, atol=1e-9)


def test_separate_perturbations_give_an_upper_bound(monkeypatch):
    given = label_set_problem(FDrop(1), "tree")
    f = np.random.default_rng(3).standard_normal(given.space.size)
    exact, _ = given.terms[0].values(given.space, f)
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", 1)
    upper, attained = given.terms[0].values(given.space, f)
    planes = given.terms[0].planes(given.space, f)
    assert np.all(upper >= exact - 1e-12)
    assert np.any(upper > exact + 0.01)
    assert np.all(attained <= exact + 1e-12)
    np.testing.assert_array_equal(planes.upper, upper)
    np.testing.assert_allclose(planes.plane_values, attained, atol=1e-12)
    found = solve(given, FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.status is Status.ORACLE_TOO_COARSE
    monkeypatch.undo()
    best = solve(given, FrankWolfe(), Gap(1e-7), random_state=0)
    assert found.dual <= best.primal + 1e-9
    assert found.primal >= best.dual - 1e-9


@by_pairs
def test_portions_of_directions_do_not_change_the_result(pairwise, monkeypatch):
    given = label_set_problem(Box(RADIUS), pairwise)
    f, g = np.random.default_rng(3).standard_normal((2, given.space.size))
    found = []
    for at_once in (100, 2):
        monkeypatch.setattr("structinv.terms.one_change.WEIGHTS_AT_ONCE", at_once * N_FEATURES)
        planes = given.terms[0].planes(given.space, f)
        at_g = given.space.scores(g, planes.normals)
        found.append([*given.terms[0].values(given.space, f), planes.offsets, planes.upper, at_g])
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(parts, whole, atol=1e-12)


class Careless(Box):
    """A box with exact bounds, of which only the rows themselves are found."""

    def support(self, X, V, assign, cost=None):
        return Support(X, super().support(X, V, assign, cost).values(V, assign))


@pytest.mark.parametrize("most", [12, 1])
@by_pairs
def test_bounds_hold_if_the_oracle_finds_no_worst_point(pairwise, most, monkeypatch):
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    given, (X, y) = label_set_problem(Careless(RADIUS), pairwise), label_sets()
    n_changed = []
    for seed in range(5):
        f = np.random.default_rng(seed).standard_normal(given.space.size)
        upper, attained = given.terms[0].values(given.space, f)
        for i, (x, truth) in enumerate(zip(X, y, strict=True)):
            every = heights(given, f, x, truth, Box(RADIUS))
            values = {labels: max(map(sum, each)) for labels, each in every.items()}
            best = max(values, key=values.__getitem__)
            n_changed.append(np.sum(best != truth))
            assert attained[i] <= values[best] + 1e-9
            assert values[best] <= upper[i] + 1e-9
    assert set(n_changed) >= {1, 2, 3}


def search_of(given, f, codes):
    """A search on all rows against a labeling, without costs."""
    term = given.terms[0]
    own = given.space, f, term.bound, term.bound_structure, slice(None)
    return OneChangeSearch(*own, codes, np.zeros((*codes.shape, 2)))


@pytest.mark.parametrize(
    ("oracle", "pairwise", "most"),
    pairs([QuarterTurns(), FDrop(1), Box(RADIUS)], [None, "tree"], [12, 1]),
    ids=repr,
)
def test_wrong_labels_include_labelings_within_the_rounding(oracle, pairwise, most, monkeypatch):
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    given, (X, y), rounding = label_set_problem(oracle, pairwise), label_sets(), 0.4
    for seed in range(3):
        f = np.random.default_rng(seed).standard_normal(given.space.size)
        codes = np.roll(y, 1, axis=0)
        found = search_of(given, f, codes).most_wrong(y, np.full(N_ROWS, rounding))
        for i in range(N_ROWS):
            scores = {
                labels: np.array([gain for gain, _ in values])
                for labels, values in heights(given, f, X[i], codes[i], oracle).items()
            }
            # The predictions at listed members are known.
            best = np.max(list(scores.values()), axis=0) if oracle.finite else 0.0
            wrong = max(
                np.sum(labels != y[i])
                for labels, own in scores.items()
                if np.any(own >= best - rounding + 1e-9)
            )
            assert found[i] >= wrong
            if most == 12 or oracle.finite:
                assert found[i] == wrong


@pytest.mark.parametrize("most", [12, 1])
@pytest.mark.parametrize("oracle", [FDrop(1), Box(2.0)], ids=str)
def test_sizes_are_at_least_those_at_the_points_found(oracle, most, monkeypatch):
    monkeypatch.setattr("structinv.terms.one_change.MOST_LABELS", most)
    given = label_set_problem(oracle, None, space=partial(ExplicitSpace, intercept=True))
    _, y = label_sets()
    for seed in range(10):
        f = np.random.default_rng(seed).standard_normal(given.space.size)
        weights, constants = np.abs(given.space.weights(f)), np.abs(given.space.constants(f))
        found = search_of(given, f, y).worst(other=True)
        summands = np.abs(found.points) @ weights.T + constants
        assert np.all(found.sizes >= np.sum(summands * (found.labels != y), axis=1) * (1 - 1e-12))


X, LABEL_SETS = label_sets()
CODES, LAYOUT = positions(LABEL_SETS)


def one_change(X=X, codes=CODES, oracle=None, structure=None, layout=LAYOUT, **options):
    return OneChange(X, codes, oracle or Identity(), structure or Multilabel(), layout=layout, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: one_change(layout=Layout.of_lengths([4, 2, *[3] * (N_ROWS - 2)])),
            ValueError,
            "same number of positions for every row",
        ),
        (lambda: one_change(X[:7]), ValueError, "labels for each of 7 rows"),
        (lambda: one_change(oracle=Box(0.1).only_for(1)), ValueError, "only_for"),
        (lambda: one_change(structure=Sequence()), TypeError, "positions share one row"),
        (lambda: one_change(codes=np.arange(len(CODES)) % 3), ValueError, "absent"),
        (lambda: one_change(rescaling="slack"), ValueError, "rescaling must be one of"),
        (
            lambda: Objective(ExplicitSpace(N_FEATURES, SIZE + 1), [one_change()]),
            ValueError,
            "n_outputs",
        ),
        (
            lambda: Objective(KernelSpace(Linear(), N_FEATURES, SIZE), [one_change(oracle=Box(RADIUS))]),
            ValueError,
            "oracle must be finite if functions are not linear",
        ),
    ],
)
def test_wrong_arguments_of_one_change_are_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
