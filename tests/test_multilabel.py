"""Sets of labels of rows that change once for all of them, against all sets and all changes."""

from __future__ import annotations

from functools import cache
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from structinv.kernels import Linear
from structinv.objective import Objective, OneChange
from structinv.oracles import Box, FDrop, FiniteOracle, Identity
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace, KernelSpace
from structinv.structures import Layout, Multilabel, check_structure, positions
from structinv.structures.multilabel import mutual_information, tree_of
from structinv.terms import one_change_search

from .problems import assert_brackets, minimum

N, FEATURES, SIZE = 8, 3, 3
WEIGHTS = np.linspace(0.2, 0.6, N)
COST = [[0.0, 0.7], [1.5, 0.0]]
RADIUS = 0.3


class Turns(FiniteOracle):
    """The first two features may be turned by a quarter, either way."""

    def orbit(self, X):
        left, right = X.copy(), X.copy()
        left[:, 0], left[:, 1] = -X[:, 1], X[:, 0]
        right[:, 0], right[:, 1] = X[:, 1], -X[:, 0]
        return np.stack([X, left, right], axis=1)


class Unlisted(FiniteOracle):
    """Turns whose members nobody lists: questions about directions only."""

    finite = False
    orbit = Turns.orbit

    def support(self, X, V, assign, cost=None):
        return FiniteOracle.support(self, X, V, assign, cost)


def data():
    """Rows and sets of labels, the last of which hangs on the first two."""
    rng = np.random.default_rng(1)
    X = np.round(rng.standard_normal((N, FEATURES)), 1)
    y = (X[:, :2] + 0.5 * rng.standard_normal((N, 2)) > 0).astype(int)
    return X, np.column_stack([y, y.any(axis=1)])


def changes(oracle, x):
    """Every member of S(x), or its corners."""
    if isinstance(oracle, FDrop):
        kept = [mask for mask in product([0.0, 1.0], repeat=len(x)) if sum(mask) >= len(x) - 1]
        return np.array(kept) * x
    if isinstance(oracle, Box):
        return x + RADIUS * np.array(list(product([-1.0, 1.0], repeat=len(x))))
    if isinstance(oracle, Turns | Unlisted):
        return oracle.orbit(x[None])[0]
    return x[None]


ORACLES = [Identity(), Turns(), Unlisted(), FDrop(1), Box(RADIUS)]
by_oracle = pytest.mark.parametrize("oracle", ORACLES, ids=repr)
by_pairs = pytest.mark.parametrize("pairwise", [None, "tree"])


def problem(oracle, pairwise, *, sparse=False, space=ExplicitSpace):
    X, y = data()
    codes, layout = positions(y)
    rows = sp.csr_matrix(X) if sparse else X
    term = OneChange(rows, codes, oracle, Multilabel(pairwise), WEIGHTS, layout=layout, cost=COST)
    return Objective(space(FEATURES, SIZE, n_extra=term.labels.n_extra), [term])


def pairs_of(labels, edges):
    """Which entry of each edge's table a set of labels has."""
    chosen = np.zeros((len(edges), 2, 2))
    for e, (s, t) in enumerate(edges):
        chosen[e, labels[s], labels[t]] = 1.0
    return chosen.ravel()


@cache
def optimum(number, pairwise):
    """The optimum over all sets of labels and all changes."""
    X, y = data()
    edges = tree_of(y) if pairwise else np.zeros((0, 2), dtype=int)
    W, A = cp.Variable((SIZE, FEATURES)), cp.Variable(max(1, 4 * len(edges)))
    total = 0.5 * cp.sum_squares(W) + 0.5 * cp.sum_squares(A)
    for x, truth, weight in zip(X, y, WEIGHTS, strict=True):
        parts = []
        for labels in product([0, 1], repeat=SIZE):
            moved = np.array(labels) - truth
            cost = sum(COST[c][k] for c, k in zip(truth, labels, strict=True))
            part = cp.max(changes(ORACLES[number], x) @ (W.T @ moved)) + cost
            if pairwise:
                part = part + (pairs_of(labels, edges) - pairs_of(truth, edges)) @ A
            parts.append(part)
        total = total + weight * cp.maximum(*parts)
    return minimum(total)


@by_pairs
@by_oracle
@pytest.mark.parametrize("solver", [FrankWolfe(), SVMStruct(), BMRM()], ids=lambda one: type(one).__name__)
def test_sets_of_labels_reach_the_optimum(oracle, pairwise, solver):
    best = optimum(ORACLES.index(oracle), pairwise)
    found = solve(problem(oracle, pairwise), solver, Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert found.dual == pytest.approx(best, rel=1e-6)
    assert_brackets(found, best)
