"""Changes of whole examples and of label sets, written out: every joint change and its grade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import (
    Box,
    Budget,
    FDrop,
    FiniteOracle,
    FScale,
    Identity,
    InvarianceOracle,
    LinearChanges,
    Shared,
)
from structinv.spaces import ExplicitSpace
from structinv.structures import Decoding, Layout, Multilabel, Sequence
from structinv.structures.graph import GraphLayout
from structinv.structures.multilabel import positions
from structinv.terms import Objective, WorstCase
from structinv.terms.one_change import OneChange

from ..problems import minimum

LABELS, FEATURES = 3, 3
LENGTHS = (2, 1, 3, 2)
COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [1.0, 1.5, 0.0]])

# Of a joint change: a changed row for each position, and the grade of each position's cost.
Change = tuple[np.ndarray, np.ndarray]
Changes = Callable[[np.ndarray, np.ndarray], list[Change]]


class Turns(FiniteOracle):
    """The row, its features turned by one place, and its negative, halved."""

    def orbit(self, X: np.ndarray) -> np.ndarray:
        return np.stack([X, np.roll(X, 1, axis=1), -0.5 * X], axis=1)


class Maps(FiniteOracle):
    """Fixed linear maps."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def maps(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        return np.stack([np.eye(FEATURES), *(rng.standard_normal((2, FEATURES, FEATURES)))])

    def orbit(self, X: np.ndarray) -> np.ndarray:
        return np.einsum("sij,nj->nsi", self.maps(), X)

    def changes(self, X: np.ndarray, y: Any = None) -> LinearChanges:
        return LinearChanges(X, [sp.csr_matrix(each) for each in self.maps()])


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, and weights of the examples."""
    rng = np.random.default_rng(seed)
    y = rng.integers(LABELS, size=sum(LENGTHS))
    X = rng.standard_normal((LABELS, FEATURES))[y] + 0.6 * rng.standard_normal((len(y), FEATURES))
    return X, y, np.array([0.5, 0.2, 0.4, 0.3])


def examples(seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and labels by example."""
    X, y, _ = rows(seed)
    ends = np.cumsum(LENGTHS)[:-1]
    return list(zip(np.split(X, ends), np.split(y, ends), strict=True))


def plain(X: np.ndarray) -> Change:
    return X, np.ones(len(X))


def each_of(members: Callable[[np.ndarray, Any], list[tuple[np.ndarray, float]]]) -> Changes:
    """Every position takes one of its members, with its grade."""

    def changes(X: np.ndarray, y: np.ndarray) -> list[Change]:
        lists = [members(x, label) for x, label in zip(X, y, strict=True)]
        return [
            (np.array([z for z, _ in chosen]), np.array([grade for _, grade in chosen]))
            for chosen in product(*lists)
        ]

    return changes


def listed(oracle: FiniteOracle, grades: Any = None) -> Callable[..., list[tuple[np.ndarray, float]]]:
    def members(x: np.ndarray, label: Any) -> list[tuple[np.ndarray, float]]:
        found = oracle.orbit(x[None])[0]
        return list(zip(found, np.ones(len(found)) if grades is None else grades, strict=True))

    return members


def alike(oracle: FiniteOracle, grades: Any = None) -> Changes:
    """All positions take the same member."""

    def changes(X: np.ndarray, y: np.ndarray) -> list[Change]:
        found = oracle.orbit(X)
        own = np.ones(found.shape[1]) if grades is None else grades
        return [(found[:, m], np.full(len(X), own[m])) for m in range(found.shape[1])]

    return changes


def edits(budget: int, factors: tuple[float, ...], grades: Any = None, labels: Any = None) -> Changes:
    """At most so many entries of all rows are multiplied, all grades by how many are."""

    def changes(X: np.ndarray, y: np.ndarray) -> list[Change]:
        free = np.ones(len(y), bool) if labels is None else np.isin(y, labels)
        found = []
        for factor in product((1.0, *factors), repeat=X.size):
            table = np.reshape(factor, X.shape)
            used = int(np.sum(table != 1.0))
            if used <= budget and np.all(table[~free] == 1.0):
                grade = 1.0 if grades is None else grades[used]
                found.append((X * table, np.full(len(X), grade)))
        return found

    return changes


def dropped(budget: int) -> Callable[..., list[tuple[np.ndarray, float]]]:
    def members(x: np.ndarray, label: Any) -> list[tuple[np.ndarray, float]]:
        masks = product((1.0, 0.0), repeat=len(x))
        return [(x * np.array(m), 1.0) for m in masks if m.count(0.0) <= budget]

    return members


def either(*parts: Changes) -> Changes:
    return lambda X, y: [change for part in parts for change in part(X, y)]


@dataclass(frozen=True)
class JointCase:
    """An oracle, and all joint changes of an example by definition (corners of continua)."""

    name: str
    oracle: InvarianceOracle
    changes: Changes = field(repr=False)

    def __str__(self) -> str:
        return self.name


BY_MEMBER, BY_TOTAL = [1.0, 0.6, 0.2], [1.0, 0.7, 0.1]
JOINT = [
    JointCase("plain", Identity(), lambda X, y: [plain(X)]),
    JointCase("each-list", Turns(), each_of(listed(Turns()))),
    JointCase("each-drop", FDrop(1), each_of(dropped(1))),
    JointCase("each-list-graded", Turns().discounted(BY_MEMBER), each_of(listed(Turns(), BY_MEMBER))),
    JointCase("shared", Shared(Turns()), alike(Turns())),
    JointCase("shared-linear", Shared(Maps()), alike(Maps())),
    JointCase("shared-graded", Shared(Turns().discounted(BY_MEMBER)), alike(Turns(), BY_MEMBER)),
    JointCase("shared-union-inside", Shared(Turns() | Maps()), either(alike(Turns()), alike(Maps()))),
    JointCase("budget-drop", Budget(FDrop(2)), edits(2, (0.0,))),
    JointCase("budget-scale", Budget(FScale(1, 0.5, 2.0)), edits(1, (0.5, 2.0))),
    JointCase("budget-none", Budget(FDrop(0)), lambda X, y: [plain(X)]),
    JointCase("budget-graded", Budget(FDrop(2).discounted(BY_TOTAL)), edits(2, (0.0,), BY_TOTAL)),
    JointCase("budget-only_for", Budget(FDrop(2).only_for([0, 2])), edits(2, (0.0,), labels=[0, 2])),
    JointCase(
        "budget-only_for-graded",
        Budget(FDrop(2).only_for([1]).discounted(BY_TOTAL)),
        edits(2, (0.0,), BY_TOTAL, labels=[1]),
    ),
    JointCase(
        "budget-graded-only_for",
        Budget(FDrop(2).discounted(BY_TOTAL).only_for([1])),
        edits(2, (0.0,), BY_TOTAL, labels=[1]),
    ),
    JointCase(
        "union-outside", Shared(Turns()) | Budget(FDrop(1)), either(alike(Turns()), edits(1, (0.0,)))
    ),
    JointCase("union-with-each", FDrop(1) | Shared(Maps()), either(each_of(dropped(1)), alike(Maps()))),
    JointCase(
        "union-graded",
        Shared(Turns()) | Budget(FDrop(1).discounted([1.0, 0.3])),
        either(alike(Turns()), edits(1, (0.0,), [1.0, 0.3])),
    ),
]
CASE = {case.name: case for case in JOINT}


def objective(case: JointCase) -> Objective:
    X, y, weights = rows()
    term = WorstCase(
        X, y, case.oracle, Sequence(), weights, layout=Layout.of_lengths(LENGTHS), cost=COST
    )
    return Objective(ExplicitSpace(FEATURES, LABELS, n_pairwise=Sequence().n_pairwise(LABELS)), [term])


def optimum(case: JointCase) -> float:
    """The optimum over all labelings and changes, in cvxpy."""
    w = cp.Variable(LABELS * FEATURES + Sequence().n_pairwise(LABELS))
    _, _, weights = rows()
    total = 0.5 * cp.sum_squares(w)
    for (X, y), weight in zip(examples(), weights, strict=True):
        normals, costs = [], []
        for Z, grades in case.changes(X, y):
            own = joint_features(Z, y)
            for labels in product(range(LABELS), repeat=len(y)):
                normals.append(joint_features(Z, np.array(labels)) - own)
                costs.append(float(np.sum(grades * COST[y, list(labels)])))
        planes = np.unique(np.column_stack([normals, costs]).round(12), axis=0)
        total = total + weight * cp.max(planes[:, :-1] @ w + planes[:, -1])
    return minimum(total)


def joint_features(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What a labeling's score multiplies: weights by output, then transitions, start and end."""
    table, pairs = np.zeros((LABELS, X.shape[1])), np.zeros((LABELS, LABELS))
    ends = np.zeros((2, LABELS))
    for x, label in zip(X, labels, strict=True):
        table[label] += x
    for before, after in zip(labels[:-1], labels[1:], strict=True):
        pairs[before, after] += 1
    ends[0, labels[0]] += 1
    ends[1, labels[-1]] += 1
    return np.r_[table.ravel(), pairs.ravel(), ends.ravel()]


def broken(name, base=Sequence, **methods):
    return type(name, (base,), methods)


def decode_with(change):
    """Return the best labels, with a bound that is shifted by a number."""

    def decode(self, potentials, pairwise, layout):
        found = Sequence.decode(self, potentials, pairwise, layout)
        return Decoding(found.labels, self.score(potentials, found.labels, pairwise, layout) + change)

    return decode


def bound_sequence(y=(0, 1, 1), structure=None, **given):
    """Labels of one sequence of three rows."""
    return (structure or Sequence()).bind(np.array(y), **{"layout": Layout.of_lengths([3]), **given})


def drawn(seed, *, forest=False, n_labels=LABELS, n_features=2, largest=6):
    """Return three random graphs, potentials with forbidden labels, weights and a labeling."""
    rng = np.random.default_rng(seed)
    sizes, edges = rng.integers(1, largest, size=3), []
    for size in sizes:
        if forest:
            places = rng.permutation(size)
            tree = [(rng.integers(u), u) for u in range(1, size) if rng.random() < 0.8]
            pairs = [(places[u], places[v])[:: rng.choice([1, -1])] for u, v in tree]
        else:
            pairs = [(u, v) for u, v in product(range(size), repeat=2) if u != v and rng.random() < 0.4]
        edges.append(pairs)
    features = [rng.standard_normal((len(each), n_features)) for each in edges]
    layout = GraphLayout.of_graphs(sizes.tolist(), edges, features)
    potentials = rng.standard_normal((layout.n_rows, n_labels))
    pairwise = rng.choice([0.3, 3.0]) * rng.standard_normal(layout.edge_features.shape[1] * n_labels**2)
    if seed % 3 == 0:
        potentials, pairwise = np.round(potentials), np.round(pairwise)
    if seed % 2 and n_labels > 2:
        potentials[np.arange(layout.n_rows), rng.integers(n_labels, size=layout.n_rows)] = -np.inf
    return layout, potentials, pairwise, rng.integers(n_labels, size=layout.n_rows)


def prepared(structure, layout, n_labels=LABELS):
    return structure.prepared(np.arange(n_labels), np.zeros(layout.n_rows, dtype=int), layout)


def edge_scores(layout, pairwise, n_labels):
    """Return the score of each pair of labels of each edge, from the definition."""
    tables = pairwise.reshape(-1, n_labels, n_labels)
    return np.einsum("ej,jkl->ekl", layout.edge_features, tables)


def enumerated(layout, potentials, pairwise):
    """Return all labelings of each graph, and their scores from the definition."""
    n_labels = potentials.shape[1]
    table = edge_scores(layout, pairwise, n_labels)
    for b in range(len(layout)):
        own = potentials[layout.starts[b] : layout.starts[b + 1]]
        labelings = np.array(list(product(range(n_labels), repeat=len(own))))
        scores = own[np.arange(len(own)), labelings].sum(axis=1)
        for e in range(layout.edge_starts[b], layout.edge_starts[b + 1]):
            u, v = layout.edges[e]
            scores = scores + table[e, labelings[:, u], labelings[:, v]]
        yield b, slice(*layout.starts[b : b + 2]), labelings, scores


def place(labelings, labels):
    return int(np.flatnonzero(np.all(labelings == labels, axis=1))[0])


def grid(height, width):
    cells = np.arange(height * width).reshape(height, width)
    right = np.column_stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()])
    return np.vstack([right, np.column_stack([cells[:-1].ravel(), cells[1:].ravel()])])


N_ROWS, N_FEATURES, SIZE = 8, 3, 3
SET_WEIGHTS = np.linspace(0.2, 0.6, N_ROWS)
SET_COST = [[0.0, 0.7], [1.5, 0.0]]
RADIUS = 0.3


class QuarterTurns(FiniteOracle):
    """The first two features may be turned by a quarter, either way."""

    def orbit(self, X):
        left, right = X.copy(), X.copy()
        left[:, 0], left[:, 1] = -X[:, 1], X[:, 0]
        right[:, 0], right[:, 1] = X[:, 1], -X[:, 0]
        return np.stack([X, left, right], axis=1)


class Unlisted(FiniteOracle):
    """Turns whose members nobody lists: questions about directions only."""

    finite = False
    orbit = QuarterTurns.orbit

    def support(self, X, V, assign, cost=None, rho=None):
        return FiniteOracle.support(self, X, V, assign, cost, rho)


def label_sets():
    """Return rows and label sets; the last label depends on the first two."""
    rng = np.random.default_rng(1)
    X = np.round(rng.standard_normal((N_ROWS, N_FEATURES)), 1)
    y = (X[:, :2] + 0.5 * rng.standard_normal((N_ROWS, 2)) > 0).astype(int)
    return X, np.column_stack([y, y.any(axis=1)])


def changes_of_row(oracle, x):
    """Return every element of S(x), or its corners."""
    if isinstance(oracle, FDrop):
        kept = [mask for mask in product([0.0, 1.0], repeat=len(x)) if sum(mask) >= len(x) - 1]
        return np.array(kept) * x
    if isinstance(oracle, Box):
        return x + RADIUS * np.array(list(product([-1.0, 1.0], repeat=len(x))))
    if isinstance(oracle, QuarterTurns | Unlisted):
        return oracle.orbit(x[None])[0]
    return x[None]


ORACLES = [Identity(), QuarterTurns(), Unlisted(), FDrop(1), Box(RADIUS)]
by_pairs = pytest.mark.parametrize("pairwise", [None, "tree"])


def label_set_problem(oracle, pairwise, *, sparse=False, space=ExplicitSpace):
    X, y = label_sets()
    codes, layout = positions(y)
    rows = sp.csr_matrix(X) if sparse else X
    term = OneChange(
        rows, codes, oracle, Multilabel(pairwise), SET_WEIGHTS, layout=layout, cost=SET_COST
    )
    return Objective(space(N_FEATURES, SIZE, n_pairwise=term.bound_structure.n_pairwise), [term])


def pairs_of(labels, edges):
    """Return the entry of each edge's table for a label set."""
    chosen = np.zeros((len(edges), 2, 2))
    for e, (s, t) in enumerate(edges):
        chosen[e, labels[s], labels[t]] = 1.0
    return chosen.ravel()


def heights(problem, f, x, truth, oracle, grade=lambda number: 1.0):
    """Of every set of labels what it has more than the true one, cost and grade included, by change."""
    space, term = problem.space, problem.terms[0]
    W, pairwise = space.weights(f), space.pairwise(f)
    structure = term.bound_structure.structure
    edges = np.zeros((0, 2), dtype=int) if structure.edges is None else structure.edges_
    found = {}
    for labels in product([0, 1], repeat=len(truth)):
        more = (pairs_of(labels, edges) - pairs_of(truth, edges)) @ pairwise
        cost = sum(SET_COST[c][k] for c, k in zip(truth, labels, strict=True))
        found[labels] = [
            (z @ W.T @ (np.array(labels) - truth) + more, cost * grade(number))
            for number, z in enumerate(changes_of_row(oracle, x))
        ]
    return found
