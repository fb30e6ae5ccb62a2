"""An objective of functionals as a problem in the coefficients of their representers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from ..dual.base import join_planes
from ..dual.penalty_state import slopes_fit
from ..losses import ScalarLoss
from ..losses.combined import ConcatenatedLoss
from ..spaces import RepresenterSpace, Space
from ..spaces.representer_space import RepresenterExpansion
from ..terms import Objective, Term
from ..terms.base import Coordinates
from ..terms.planes import PlaneSet

# What rounding leaves of an equation, as a share of its terms.
ROUNDING = 1e-14
# Of a product of numbers, and of their sums.
UNIT = 2.0 * float(np.finfo(np.float64).eps)
# Of more functionals not all norms are looked up, only so many.
MOST_LOOKED_AT, NORMS_SEEN = 3000, 256


class CoefficientProblem:
    """``1/2 |f|^2 + sum_i c_i r_i(u_i)`` with ``u = G a + B b`` for ``f = sum_i a_i z_i`` and free b.

    By the representer theorem (Zhang, Lee and Teh 2013, theorem 1) nothing is lost by that form. With
    slopes p_i in the domain of r_i* and ``B'(c p) = 0`` the dual value is
    ``- 1/2 |f_p|^2 - sum_i c_i r_i*(p_i)``, f_p the function of ``a = - c p``.

    Parameters
    ----------
    space : RepresenterSpace
    terms : list of Coordinates
        Of the objective's terms, in order.

    Attributes
    ----------
    places : (n,) array of int
        The functional that each i stands for; several may stand for one.
    weights : (n,) array
        The c_i.
    loss : ConcatenatedLoss
    basis : (n, n_free * n_outputs) array
        B.
    """

    def __init__(self, space: RepresenterSpace, terms: list[Coordinates]) -> None:
        self.space = space
        self.terms = terms
        every = np.arange(space.system.size * space.n_outputs)
        self.places = np.concatenate([every[term.places] for term in terms])
        self.weights = np.concatenate([term.weights for term in terms])
        self.sizes = [len(term.weights) for term in terms]
        self.loss: ScalarLoss = ConcatenatedLoss([term.loss for term in terms], self.sizes)
        whole = np.kron(space.functionals_of_basis, np.eye(space.n_outputs))
        self.basis = whole[self.places]
        self._ordered = np.array_equal(self.places, every)

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return len(self.places)

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """``G a``: the functionals of ``sum_i a_i z_i``."""
        found = self.space.system.apply(self._spread(coefficients))
        return found.ravel() if self._ordered else found.ravel()[self.places]

    @cached_property
    def _heights(self) -> np.ndarray:
        """The norms of the representers, (n,); of very many, the largest of some in all places."""
        system = self.space.system
        if system.size <= MOST_LOOKED_AT:
            squares = system.diagonal()
        else:
            some = np.linspace(0, system.size - 1, NORMS_SEEN).astype(int)
            squares = np.full(system.size, system.diagonal(some).max())
        heights = np.sqrt(np.maximum(squares, 0.0))
        return np.repeat(heights, self.space.n_outputs)[self.places]

    def gram(self) -> np.ndarray:
        """G, formed; (n, n)."""
        table = self.space.system.table()
        if self._ordered and self.space.n_outputs == 1:
            return table
        every = np.arange(self.size)
        return self.block(every, every)

    @cached_property
    def by_output(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The coefficients of each output, and G between them: those of other outputs do not meet."""
        table, n_outputs = self.space.system.table(), self.space.n_outputs
        found: list[tuple[np.ndarray, np.ndarray]] = []
        before: tuple[np.ndarray, np.ndarray] | None = None
        for output in range(n_outputs):
            mine = np.flatnonzero(self.places % n_outputs == output)
            own = self.places[mine] // n_outputs
            if before is None or not np.array_equal(before[0], own):
                whole = np.array_equal(own, np.arange(len(table)))
                before = own, table if whole else table[np.ix_(own, own)]
            found.append((mine, before[1]))
        return found

    def formed_product(self, coefficients: np.ndarray) -> np.ndarray:
        """``G a`` by G itself, which is formed."""
        found = np.empty(self.size)
        for mine, gram in self.by_output:
            found[mine] = gram @ coefficients[mine]
        return found

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """G between some coefficients and others."""
        n_outputs = self.space.n_outputs
        (own, k), (other, m) = (np.divmod(self.places[each], n_outputs) for each in (rows, columns))
        found = self.space.system.gram(own, other)
        return found if n_outputs == 1 else found * (k[:, None] == m)

    def _spread(self, coefficients: np.ndarray) -> np.ndarray:
        shape = self.space.system.size, self.space.n_outputs
        if self._ordered:
            return coefficients.reshape(shape)
        total = np.zeros(shape[0] * shape[1])
        np.add.at(total, self.places, coefficients)
        return total.reshape(shape)

    def function(
        self, coefficients: np.ndarray, free: np.ndarray, functionals: np.ndarray | None = None
    ) -> RepresenterExpansion:
        """The element of the space, told what its functionals are if they are all known."""
        shape = self.space.n_free, self.space.n_outputs
        f = self.space.of_representers(self._spread(coefficients), free.reshape(shape))
        if functionals is not None and self._ordered:
            f.know(functionals.reshape(-1, self.space.n_outputs).copy())
        return f

    def losses(self, functionals: np.ndarray) -> float:
        """``sum_i c_i r_i(u_i)``."""
        return float(self.weights @ self.loss.value(functionals))

    def dual_value(self, slopes: np.ndarray, squared_norm: float) -> float:
        """The dual value of slopes whose function has this squared norm, less the rounding of it."""
        forces = self.weights * np.abs(slopes)
        # Large forces of opposite signs may all but cancel.
        lost = UNIT * float(forces @ self._heights) ** 2
        return -0.5 * (squared_norm + lost) - float(self.weights @ self.loss.conjugate(slopes))

    def feasible(self, slopes: np.ndarray) -> np.ndarray:
        """Slopes that satisfy the equation of a free constant: a sign that outweighs the other shrinks.

        Toward zero, which is in the domain of all conjugates, as losses are bounded from below. NaN
        where more than a constant is free and the equations do not hold but for rounding.
        """
        if self.space.n_free > 1:
            forces = self.weights * slopes
            excess = np.abs(self.basis.T @ forces)
            holds = np.all(excess <= 1e-9 * (np.abs(self.basis).T @ np.abs(forces)))
            return slopes if holds else np.full(len(slopes), np.nan)
        for constant in self.basis.T:
            parts = self.weights * slopes * constant
            up, down = parts[parts > 0].sum(), -parts[parts < 0].sum()
            if abs(up - down) > ROUNDING * (up + down):
                heavier = parts > 0 if up > down else parts < 0
                slopes = np.where(heavier, min(up, down) / max(up, down) * slopes, slopes)
        return slopes

    def by_term(self, slopes: np.ndarray) -> list[np.ndarray]:
        """The slopes of each term."""
        return np.split(slopes, np.cumsum(self.sizes)[:-1])


def coefficient_problem(objective: Objective, solver: str) -> CoefficientProblem:
    """The objective as a problem in coefficients; ValueError, naming the solver, if it is none."""
    space = objective.space
    if not isinstance(space, RepresenterSpace):
        raise ValueError(f"{solver} needs a RepresenterSpace, got a {type(space).__name__}")
    found = [term.coordinates() for term in objective.terms]
    for term, coordinates in zip(objective.terms, found, strict=True):
        if coordinates is None:
            raise ValueError(
                f"{solver} needs terms that are sums of losses of functionals, got a "
                f"{type(term).__name__}; Representer(method='dual-cd') takes it"
            )
    return CoefficientProblem(space, [each for each in found if each is not None])


def planes_of_slopes(
    space: Space, terms: Sequence[Term], blocks: Iterable[int], slopes: Sequence[np.ndarray | None]
) -> PlaneSet:
    """The dual point of penalties: a plane for each term whose slopes are known, of the term's block."""
    numbered = zip(terms, blocks, slopes, strict=True)
    found = [term.plane_of_slopes(space, own, int(i)) for term, i, own in numbered if own is not None]
    return join_planes(space, found)


def slopes_of_planes(
    terms: Sequence[Term], blocks: Iterable[int], planes: PlaneSet
) -> list[np.ndarray | None]:
    """The slopes that planes remember of each term's block, None where they do not fit the term."""
    found: list[np.ndarray | None] = []
    for term, block in zip(terms, blocks, strict=True):
        slopes, own = planes.slopes.get(int(block)), term.coordinates()
        fits = slopes is not None and own is not None and slopes_fit(slopes, own.loss, len(own.weights))
        found.append(slopes if fits else None)
    return found
