"""Kernel matrices with squared penalties folded in, for many weights.

The folded kernel is ``K - B'(G + t I)^-1 B`` with ``t = 1 / (2 nu)`` and the Gram matrix G of the
functionals. B has the functionals of the kernel's columns (`structinv.functionals.Folded`). The folded
kernel depends on neither labels nor C. Weights are ``nu = c / (n s)``, where s is the mean of
``|z_j|^2`` over the functionals, so one list of c is for all families. For gradients all weights share
a Krylov space, for other families the eigenvectors of G.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.linalg import eigh

from structinv.functionals import (
    Evaluation,
    Functional,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    Tangents,
)
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian
from structinv.oracles import LocalTangents

PLAIN, GRADIENT, TANGENTS, AVERAGE, GRAPH = "plain", "gradient", "tangents", "average", "graph"
FAMILIES = (PLAIN, GRADIENT, TANGENTS, AVERAGE, GRAPH)
LINEAR = "linear"
DERIVATIVE_CS = (0.1, 1.0, 10.0, 100.0)
OTHER_CS = (0.1, 10.0, 1e3, 1e5)
NEIGHBORS = (5, 10)
LARGE = 1000
MOST_STEPS = 400


@dataclass
class Table:
    """Columns of a kernel matrix: values between all rows and some rows.

    `nu` is the weight that is folded in, and `places` has the column of each row, -1 for none.
    """

    family: str
    factor: float
    name: str
    nu: float
    values: np.ndarray
    places: np.ndarray

    def between(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Values between rows and rows among the columns."""
        return self.values[np.ix_(rows, self.places[columns])]

    def among(self, rows: np.ndarray) -> np.ndarray:
        """Values among rows, symmetric."""
        square = self.between(rows, rows)
        return (square + square.T) / 2


def shared_solutions(
    representers: Representers, right: np.ndarray, shifts: np.ndarray, tol: float
) -> np.ndarray:
    """Solve ``(G + t I) c = right`` for several t in one Krylov space (Lanczos)."""
    norm = float(np.linalg.norm(right))
    basis, diagonal, beside = [right / norm], [], []
    before = np.zeros_like(right)
    for _ in range(MOST_STEPS):
        moved = representers.apply(basis[-1]) - (beside[-1] if beside else 0.0) * before
        diagonal.append(float(basis[-1] @ moved))
        moved -= diagonal[-1] * basis[-1]
        beside.append(float(np.linalg.norm(moved)))
        size = len(diagonal)
        small = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
        goal = np.zeros(size)
        goal[0] = norm
        found = [np.linalg.solve(small + shift * np.eye(size), goal) for shift in shifts]
        if all(beside[-1] * abs(each[-1]) <= tol * norm for each in found):
            return np.column_stack(basis) @ np.column_stack(found)
        before = basis[-1]
        basis.append(moved / beside[-1])
    raise ValueError(f"not solved to {tol:g} after {MOST_STEPS} steps")


class Flat:
    """Terms that squared gradients subtract from kernel columns, kept in a file."""

    def __init__(self, X: np.ndarray, sigma: float, file: Path | None) -> None:
        large = len(X) > LARGE
        self.X = X.astype(np.float32) if large else X
        self.tol = 1e-4 if large else 1e-6
        self.kernel = Gaussian(sigma)
        self.nus = np.array(DERIVATIVE_CS) * sigma**2 / len(X)
        self.file = file
        self.known: dict[int, np.ndarray] = {}
        if self.file and self.file.is_file():
            with np.load(self.file) as kept:
                if np.allclose(kept["nus"], self.nus):
                    self.known = dict(zip(kept["rows"].tolist(), kept["columns"], strict=True))

    def add(self, rows: np.ndarray) -> None:
        """Compute the columns of these rows."""
        new = [int(row) for row in rows if int(row) not in self.known]
        if not new:
            return
        parts = Gradient().bind(self.X).parts(self.kernel)
        representers = Representers(self.kernel, [parts])
        for row in new:
            right = representers.on_points(self.X[row : row + 1], np.ones(1))
            found = shared_solutions(representers, right, 0.5 / self.nus, self.tol)
            self.known[row] = representers.values(found, self.X).T
        if self.file:
            rows = np.array(list(self.known))
            np.savez(self.file, nus=self.nus, rows=rows, columns=np.array(list(self.known.values())))

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of rows for each weight, (n_weights, n, n_rows)."""
        return np.array([self.known[row] for row in rows.tolist()]).transpose(1, 2, 0)


@dataclass
class Width:
    """All tables of one width, `factor` times the median distance."""

    X: np.ndarray
    sigma: float
    factor: float
    columns: np.ndarray

    def __post_init__(self) -> None:
        self.kernel = Gaussian(self.sigma)
        self.plain = self.kernel.matrix(self.X, self.X)
        self.places = np.full(len(self.X), -1)
        self.places[self.columns] = np.arange(len(self.columns))

    def _table(self, family: str, name: str, nu: float, less: np.ndarray | float) -> Table:
        name = f"{family}, width {self.factor:g}{name}"
        values = self.plain[:, self.columns] - less
        return Table(family, self.factor, name, nu, values, self.places)

    def without(self) -> Table:
        """Return the unchanged kernel."""
        return self._table(PLAIN, "", 0.0, 0.0)

    def gradients(self, flat: Flat) -> Iterator[Table]:
        """Flat along every feature at all rows; `flat` has the columns."""
        for c, nu, less in zip(DERIVATIVE_CS, flat.nus, flat.columns(self.columns), strict=True):
            yield self._table(GRADIENT, f", c {c:g}", nu, less)

    def tangents(self) -> Iterator[Table]:
        """Flat along the directions in which neighbors spread."""
        return self._of_functionals(TANGENTS, Tangents(LocalTangents(self.X)))

    def averages(self) -> Iterator[Table]:
        """Average under noise with half the length scale of the kernel."""
        noise = LocalAverage(0.5 * self.sigma / np.sqrt(self.X.shape[1]))
        return self._of_functionals(AVERAGE, noise)

    def graph(self) -> Iterator[Table]:
        """Return the penalty of LapSVC as n functionals with the same sum of squares."""
        for neighbors in NEIGHBORS:
            [edges] = GraphLaplacian(neighbors).bind(self.X).parts(self.kernel)
            values, vectors = np.linalg.eigh((edges.mix.T @ edges.mix).toarray())
            root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
            seen = root @ self.plain
            yield from self._folded(GRAPH, f", {neighbors} near", seen @ root.T, seen, edges.size)

    def _of_functionals(self, family: str, functional: Functional) -> Iterator[Table]:
        bound = functional.bind(self.X)
        gram, seen = bound.gram(self.kernel), bound.gram(self.kernel, Evaluation().bind(self.X))
        return self._folded(family, "", gram, seen, len(gram))

    def _folded(
        self, family: str, name: str, gram: np.ndarray, seen: np.ndarray, n_functionals: int
    ) -> Iterator[Table]:
        """A table for each weight, by the eigenvectors of the Gram matrix."""
        scale = len(self.X) * float(np.trace(gram)) / n_functionals
        values, vectors = eigh(gram, driver="evd", check_finite=False)
        turned = vectors.T @ seen
        for c in OTHER_CS:
            shifted = np.maximum(values, 0.0)[:, None] + 0.5 * scale / c
            less = turned.T @ (turned[:, self.columns] / shifted)
            yield self._table(family, f"{name}, c {c:g}", c / scale, less)


def all_tables(
    X: np.ndarray, median: float, factors: Sequence[float], columns: np.ndarray, flats: dict[float, Flat]
) -> list[Table]:
    """Return matrices of all families and length scales, the simplest first."""
    widths = [Width(X, factor * median, factor, columns) for factor in factors]
    found = [one.without() for one in widths]
    for one in widths:
        found += one.gradients(flats[one.factor]) if one.factor in flats else ()
    for make in (Width.tangents, Width.averages, Width.graph):
        for one in widths:
            found += make(one)
    products = X @ X[columns].T / np.mean(np.sum(X**2, axis=1))
    return [*found, Table(LINEAR, 1.0, LINEAR, 0.0, products, widths[0].places)]
