"""Changes of whole examples, written out: every joint change of a few short sequences and its grade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from structinv.oracles import (
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
from structinv.structures import Layout, Sequence
from structinv.terms import Objective, WorstCase

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
