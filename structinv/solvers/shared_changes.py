r"""Master program with extra weights for perturbations that all rows share.

If :math:`S(x) = x + \{\sum_k \theta_k r_k : |\theta_k| \le 1\}` for every row, the worst-case loss is
the loss of the unperturbed row, with a margin that is equal for all rows:

.. math:: \max_{z \in S(x)} \pm\langle w, z \rangle
   = \pm\langle w, x \rangle + \sum_k |\langle w, r_k \rangle| .

Planes of rows need very many corners of the perturbation sets to approximate that sum. With one extra
weight for each part, :math:`s_k \ge |\langle w, r_k \rangle|`, planes of unperturbed rows suffice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dual.margin_steps import KINDS
from ..oracles.finite_oracles import FiniteOracle
from ..spaces import ExplicitSpace
from ..spaces.base import Element, Space
from ..spaces.tensor_rows import TensorRows
from ..terms import Objective, Term, WorstCase
from ..terms.planes import Planes, PlaneSet
from ..terms.worst_case import WorstMargin
from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense, dense_rows

# Weight of the penalty on extra weights that are too small, relative to the sum of the rows' weights.
# It exceeds the decrease of the rows' losses per unit: slopes are at most 1. Slopes of squared hinges
# are at most 2 on average, because the objective is at most that of zero.
STEEPNESS = 4.0
# Smallest extra weight of an initial point. At 0 the oracle `EitherSign` may return the wrong sign.
TINY = 1e-12
# Maximum number of weights for dense rows.
MOST_WEIGHTS = 2000


class Program:
    """Program of a cutting-plane method; here the original objective.

    Shapes: `ridge` (size,).
    """

    ridge: Any = 1.0

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def begin(self, planes: PlaneSet) -> PlaneSet:
        """Return initial planes for planes of the original objective."""
        return planes

    def lifted(self, f: Element) -> Element:
        """Return the program's best element for one of the original objective."""
        return f

    def function(self, f: Element) -> Element:
        """Return the original objective's element for an element of the program."""
        return f

    def planes(self, found: PlaneSet) -> PlaneSet:
        """Return planes of the original objective for planes of the program."""
        return found


class SpreadProgram(Program):
    """Program with one extra weight per direction of the perturbations.

    These weights follow those of the features. A dual point of the program gives one of the original
    objective. The dual variables of the two planes of a direction determine the position of all rows
    between both ends.

    Shapes: `directions` (t, d).
    """

    def __init__(self, objective: Objective, directions: np.ndarray) -> None:
        term: Any = objective.terms[0]
        self.directions = directions
        self.n_rows, self.n_features = term.X.shape
        self.width = self.n_features + len(directions)
        shared = np.ones((self.n_rows, len(directions)))
        rows = term.on_rows(np.hstack([dense_rows(term.X), shared]), EitherSign(len(directions)))
        original: Any = objective.space
        space = SpreadSpace(self.width, intercept=original.intercept)
        space.parts = np.s_[self.n_features : self.width]
        self.ridge = np.ones(space.size)
        self.ridge[space.parts] = 0.0
        parts = SpreadTerm(self._normals(space.size), STEEPNESS * float(term.weights.sum()))
        super().__init__(_LiftedObjective(objective, space, [rows, parts]))

    def _normals(self, size: int) -> np.ndarray:
        """Return the normals of the planes of all directions, one end after the other, (2 t, size)."""
        t, d = self.directions.shape
        normals = np.zeros((2, t, size))
        normals[0, :, :d], normals[1, :, :d] = -self.directions, self.directions
        normals[:, np.arange(t), d + np.arange(t)] = 1.0
        return normals.reshape(2 * t, -1)

    def begin(self, planes: PlaneSet) -> PlaneSet:
        # The given planes belong to corners of the perturbation sets, and are invalid here. Start with
        # the planes of all directions.
        parts: Any = self.objective.terms[1]
        blocks = self.n_rows + np.tile(np.arange(parts.n_blocks), 2)
        return PlaneSet(parts.normals, np.zeros(len(blocks)), blocks, np.zeros(len(blocks)))

    def lifted(self, f: Element) -> Element:
        # Extra weights are as small as the other weights allow, but positive.
        needed = np.abs(self.directions @ f[: self.n_features])
        return np.insert(f, self.n_features, np.maximum(needed, TINY))

    def function(self, f: Element) -> Element:
        return np.delete(f, np.s_[self.n_features : self.width])

    def planes(self, planes: PlaneSet) -> PlaneSet:
        # Move the points of the planes as the dual variables of the directions determine.
        (t, d), original = self.directions.shape, planes.normals
        normals = original.toarray() if isinstance(original, TensorRows) else dense(original)
        of_rows, parts = np.flatnonzero(planes.blocks < self.n_rows), planes.blocks >= self.n_rows
        numbers, alphas = planes.blocks[parts] - self.n_rows, planes.alphas[parts]
        ends = np.sign(np.einsum("jd,jd->j", normals[parts, :d], self.directions[numbers]))
        alpha, signed_sum = (np.bincount(numbers, each, minlength=t) for each in (alphas, alphas * ends))
        shift = np.divide(signed_sum, alpha, out=np.zeros(t), where=alpha > 0)
        # Slope of the loss: the oracle chooses the signs of the extra features that increase the loss.
        slopes = -normals[of_rows, d]
        new_normals = np.delete(normals[of_rows], np.s_[d : self.width], axis=1)
        new_normals[:, :d] += slopes[:, None] * (shift @ self.directions)
        return PlaneSet(
            new_normals, planes.offsets[of_rows], planes.blocks[of_rows], planes.alphas[of_rows]
        )


class SpreadSpace(ExplicitSpace):
    """Space of weights, some of which are not in the norm."""

    parts: slice = np.s_[:0]

    def dot(self, f: np.ndarray, g: np.ndarray) -> float:
        return float(f @ g - f[self.parts] @ g[self.parts])


class _LiftedObjective(Objective):
    """Objective of a program; oracle calls are counted in the original objective."""

    def __init__(self, original: Objective, space: Space, terms: list[Term]) -> None:
        super().__init__(space, terms)
        self.original = original

    def planes(self, f: Element, blocks: np.ndarray | None = None) -> Planes:
        self.original.oracle_calls += self.original.rows_of_a_pass
        return super().planes(f, blocks)


class EitherSign(FiniteOracle):
    """Oracle that multiplies the last features of a row by 1 or -1."""

    def __init__(self, n_last: int) -> None:
        self.n_last = n_last

    def orbit(self, X: Matrix) -> np.ndarray:
        both = np.repeat(dense_rows(X)[:, None], 2, axis=1)
        both[:, 1, X.shape[1] - self.n_last :] *= -1.0
        return both


class SpreadTerm(Term):
    """Penalty on ``|<w, r_k>|`` above the extra weight of each direction r_k.

    Shapes: `normals` (2 t, size).
    """

    def __init__(self, normals: np.ndarray, weight: float) -> None:
        self.normals = normals
        self.weights = np.full(len(normals) // 2, weight)
        self.lower_bounds = np.zeros(len(self.weights))

    def validate(self, space: Space) -> None:
        if self.normals.shape[1] != len(space.zeros()):
            raise ValueError(f"normals must belong to the space, got shape {self.normals.shape}")

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        both = -space.scores(f, self.normals).reshape(2, -1)
        numbers = np.arange(self.n_blocks)[blocks]
        side = np.argmax(both[:, numbers], axis=0)
        plane_values = both[side, numbers]
        normals = self.normals[side * self.n_blocks + numbers]
        return Planes(normals, np.zeros(len(numbers)), np.maximum(0.0, plane_values), plane_values)

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        upper = self.planes(space, f).upper
        return upper, upper

    def rows_of(self, blocks: Rows) -> int:
        return 0


def program_of(objective: Objective) -> Program:
    """Return the program of a cutting-plane method for an objective."""
    directions = spread_of(objective)
    return Program(objective) if directions is None else SpreadProgram(objective, directions)


def spread_of(objective: Objective) -> np.ndarray | None:
    """Return the directions of all perturbations, (t, d).

    None is returned if `SpreadProgram` does not apply.
    """
    term: Any = objective.terms[0]
    space: Any = objective.space
    if len(objective.terms) > 1 or type(term) not in (WorstCase, WorstMargin):
        return None
    if isinstance(term, WorstMargin) and type(term.loss) not in KINDS:
        return None
    if type(space) is not ExplicitSpace or space.n_outputs > 1 or space.n_pairwise:
        return None
    if space.size >= MOST_WEIGHTS:
        # Return before the oracle creates a large diagonal matrix.
        return None
    if not term.labels.structure.rowwise or term.labels.slack:
        return None
    found = term.bound.spread()
    if found is None:
        return None
    found = found[np.any(found != 0, axis=1)]
    fits = 0 < len(found) <= MOST_WEIGHTS - space.size
    return found if fits else None
