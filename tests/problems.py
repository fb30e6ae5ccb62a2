"""Small training problems, and the smallest value of a program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from structinv.oracles import FiniteOracle, InvarianceOracle
from structinv.solvers import REGISTRY, Solution
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary, Decoding, Layout, Structure
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, Penalty, WorstCase
from structinv.terms.penalty import Functionals

from .oracles.cases import CASES, Case, D

CASE = {case.name: case for case in CASES}
# Pegasos is slow to high accuracy; whatever else is registered has to be exact.
EXACT = sorted(set(REGISTRY) - {"pegasos"})
N = 9
LABELS = 3
COST = [[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.5, 0.0]]


@dataclass(frozen=True)
class Setting:
    """A structure, its labels, weights and intercept: all of a problem but the rows and the oracle."""

    name: str
    structure: Structure
    n_classes: int
    cost: Sequence[Sequence[float]]
    slack: bool
    intercept: bool
    weights: tuple[float, ...]

    @property
    def n_outputs(self) -> int:
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def losses(self) -> dict[str, Any]:
        """What labels cost, as `WorstCase` takes it."""
        return {"cost": self.cost, "rescaling": "slack" if self.slack else "margin"}

    @property
    def y(self) -> np.ndarray:
        return np.arange(N) % self.n_classes

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """Rows around a mean of their class, such that most oracles leave something to learn."""
        rng = np.random.default_rng(4)
        means = np.array([np.full(D, -1.0), np.full(D, 1.0), np.resize([1.0, -1.0], D)])
        X = means[self.y] + rng.standard_normal((N, D))
        X[rng.random((N, D)) < 0.1] = 0.0
        X[-1] = 0.0
        return X

    def __str__(self) -> str:
        return self.name


_unequal = tuple(np.linspace(0.05, 0.6, N))
_some_zero = tuple(np.where(np.arange(N) == 2, 0.0, np.linspace(0.4, 0.1, N)))
_pair = [[0.0, 0.7], [2.0, 0.0]]
SETTINGS = [
    Setting("binary", Binary(), 2, [[0, 1], [1, 0]], False, True, _unequal),
    Setting("binary-slack", Binary(), 2, _pair, True, False, _some_zero),
    Setting("multiclass", Multiclass(), 3, COST, False, False, _some_zero),
    Setting("multiclass-slack", Multiclass(), 3, COST, True, True, _unequal),
]
# Two classes without the in-hull steps, which need one cost or slack rescaling.
COSTLY = Setting("binary-cost", Binary(), 2, _pair, False, True, _unequal)
SETTING = {setting.name: setting for setting in [*SETTINGS, COSTLY]}


def two_settings(case: Case) -> list[Setting]:
    """One of two classes and one of three, of one rescaling: cases have them in turns."""
    return SETTINGS[CASES.index(case) % 2 :: 2]


def objective(
    oracle: InvarianceOracle,
    setting: Setting = SETTINGS[0],
    *,
    sparse: bool = False,
    dtype: type = np.float64,
    factor: float = 1.0,
    penalties: Sequence[Penalty] = (),
) -> Objective:
    """The problem of a setting on the rows of the oracle cases, all weights times `factor`."""
    X = setting.X.astype(dtype)
    X = sp.csr_matrix(X) if sparse else X
    weights = factor * np.array(setting.weights)
    term = WorstCase(X, setting.y, oracle, setting.structure, weights, **setting.losses)
    space = ExplicitSpace(D, setting.n_outputs, intercept=setting.intercept)
    return Objective(space, [term, *penalties])


def minimum(expression: Any, constraints: Sequence[Any] = ()) -> float:
    """The smallest value, to about ten digits."""
    problem = cp.Problem(cp.Minimize(expression), list(constraints))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert problem.status == cp.OPTIMAL, problem.status
    return float(problem.value)


def assert_brackets(solution: Solution, best: float) -> None:
    """``dual <= optimum <= primal`` at each record, up to the rounding of cvxpy's answer."""
    slack = 1e-7 * (1.0 + abs(best))
    assert solution.history
    for record in solution.history:
        assert record.dual <= best + slack, record
        assert record.primal >= best - slack, record
    assert solution.dual <= best + slack
    assert solution.primal >= best - slack


class Chain(Structure):
    """Sequences of labels by brute force: a transform a position, transitions as pairwise weights.

    With slack rescaling the cost of a whole labeling, the number of wrong positions, is a factor.
    """

    def __init__(self, slack: bool = False) -> None:
        self.slack = slack

    def n_pairwise(self, n_labels: int) -> int:
        return n_labels**2

    def features(self, labels, layout, n_labels):
        rows = itertools.pairwise(layout.starts)
        return np.array([transitions(labels[None, a:b])[0] for a, b in rows], dtype=float)

    def decode(self, potentials, pairwise, layout):
        chosen = []
        for first, last in itertools.pairwise(layout.starts):
            labels, at = sequences(last - first), np.arange(first, last)
            scores = potentials[at, labels].sum(axis=1) + transitions(labels) @ pairwise
            chosen.append(labels[np.argmax(scores)])
        return Decoding(np.concatenate(chosen))

    def separate(self, competitors, found, pairwise, layout):
        if not self.slack:
            return super().separate(competitors, found, pairwise, layout)
        chosen = []
        for first, last in itertools.pairwise(layout.starts):
            truth, at = competitors.codes[first:last], np.arange(first, last)
            labels = sequences(last - first)
            moved = transitions(labels) - transitions(truth[None, :])
            factor = np.sum(labels != truth, axis=1)
            cost = found.costs[at, labels].sum(axis=1)
            value = factor * (found.gains[at, labels].sum(axis=1) + moved @ pairwise) + cost
            reach = (found.upper - found.costs)[at, labels].sum(axis=1)
            bound = np.max(factor * (reach + moved @ pairwise) + cost)
            best = np.argmax(value)
            chosen.append((labels[best], bound, factor[best]))
        labels, bounds, factor = zip(*chosen, strict=True)
        return Decoding(np.concatenate(labels), np.array(bounds), scale=np.array(factor, dtype=float))


@cache
def sequences(length: int) -> np.ndarray:
    """All sequences of labels, one a row."""
    return np.array(list(product(range(LABELS), repeat=length)))


def transitions(labels: np.ndarray) -> np.ndarray:
    """How often each pair of labels follows one another in each row, flat."""
    pairs = labels[:, :-1] * LABELS + labels[:, 1:]
    return (pairs[:, :, None] == np.arange(LABELS**2)).sum(axis=1)


@cache
def chain_rows() -> tuple[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray]:
    """Rows, labels, lengths of the sequences and their weights."""
    rng = np.random.default_rng(6)
    lengths = (3, 2, 1, 3, 2)
    y = rng.integers(LABELS, size=sum(lengths))
    X = rng.standard_normal((LABELS, D))[y] + 0.7 * rng.standard_normal((len(y), D))
    return X, y, lengths, np.array([0.2, 0.5, 0.3, 0.1, 0.4])


def chain_objective(oracle: InvarianceOracle, rescaling: str) -> Objective:
    X, y, lengths, weights = chain_rows()
    space = ExplicitSpace(D, LABELS, intercept=True, n_pairwise=LABELS**2)
    return Objective(
        space,
        [
            WorstCase(
                X, y, oracle, Chain(rescaling == "slack"), weights, layout=Layout.of_lengths(lengths)
            )
        ],
    )


def two_classes(n=60, d=12, seed=0):
    """Rows of two classes that a plane through 0 parts."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X @ rng.standard_normal(d) > 0).astype(int)


def counts(n_classes=2, n=60, d=12, seed=0):
    """Word counts whose rates differ between classes, and labels as strings."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    rates = rng.gamma(1.0, 1.0, (n_classes, d))
    return rng.poisson(0.8 * rates[codes]).astype(float), np.array(["a", "b", "c"])[codes]


class LinearFunctionals(Functionals):
    """Functionals ``L_j f = <a_j, w>`` of a function with explicit weights w.

    Shapes: `coefficients` (m, n_outputs * n_features).
    """

    def __init__(self, coefficients):
        self.coefficients = coefficients

    @property
    def size(self):
        return self.coefficients.shape[0]

    def validate(self, space):
        assert self.coefficients.shape[1] == space.n_outputs * space.n_features

    def apply(self, space, f):
        return self.coefficients @ space.weights(f).ravel()

    def combine(self, space, coefficients):
        element = space.zeros()
        weights = space.weights(element)
        weights[...] = (self.coefficients.T @ coefficients).reshape(weights.shape)
        return element


def strokes(n_classes=2, n=14, seed=0, dtype=np.float64):
    """Small images with a bright corner, edge or center, and labels as strings."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    X = 0.5 * rng.standard_normal((n, 9))
    X[np.arange(n), np.array([0, 1, 4])[codes]] += 1.0
    X[codes == 1] -= 0.3
    return X.astype(dtype), np.array(["arc", "bar", "cap"])[codes]


class Nudges(FiniteOracle):
    """Inputs, and inputs a little larger: an orbit for rows of any length."""

    def orbit(self, X):
        return np.stack([X, 1.01 * X], axis=1)


def check_bounds(model, optimum):
    """The optimum of another fit lies within the bounds of a model, which are as close as asked for."""
    found, best = model.solution_, optimum.solution_
    assert found.status.value == "converged"
    assert found.dual <= best.primal * (1 + 1e-9)
    assert found.primal >= best.dual * (1 - 1e-9)
    assert found.relative_gap <= model.tol
    duals = [record.dual for record in found.history]
    assert duals == sorted(duals)
