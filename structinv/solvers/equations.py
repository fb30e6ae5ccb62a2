"""Equations of a Gram matrix with a diagonal added, by factors of single precision where these do."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, get_lapack_funcs

from .coefficients import CoefficientProblem

# Corrections by what is left, and how small that is to be, relative to the right side.
CORRECTIONS, LEFT = 3, 1e-3
# Added to the diagonal where rounding, or a kernel that is none, has made the matrix indefinite: shares
# of the largest sum over a row, all of which is always enough.
MENDING = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3, 1.0)
# Numbers beyond are none in single precision.
LARGEST = 1e30


class Equations:
    """``(G + W^-1) dq - B db = - W^-1 r`` and ``B' dq = - B' q``, output by output.

    The factors are of single precision as long as a few corrections by the residual, in double
    precision, make up for it. Where an indefinite matrix is not mended, LinAlgError is raised.

    Parameters
    ----------
    problem : CoefficientProblem
    weights : (n,) array
        The diagonal of W; where it is 0, dq is 0.
    exact : bool, default=False
        Whether factors are of double precision from the start, and of the matrix as it is.
    """

    def __init__(self, problem: CoefficientProblem, weights: np.ndarray, *, exact: bool = False) -> None:
        self.problem = problem
        self.exact = exact
        self.kept = weights > 0
        self.inverse = np.where(self.kept, 1.0 / np.where(self.kept, weights, 1.0), 0.0)
        self._outputs: dict[int, _Factors] = {}

    def solve(self, right: np.ndarray, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """dq and db for a right side r and forces q."""
        problem = self.problem
        moved, free = np.zeros(problem.size), np.zeros(problem.basis.shape[1])
        for number, (mine, gram) in enumerate(problem.by_output):
            own = mine[self.kept[mine]]
            if len(own) == 0:
                continue
            if number not in self._outputs:
                chosen = None if len(own) == len(mine) else np.flatnonzero(self.kept[mine])
                self._outputs[number] = _Factors(gram, chosen, self.inverse[own], self.exact)
            factors = self._outputs[number]
            found = factors.solve(-self.inverse[own] * right[own])
            basis = problem.basis[mine]
            seen = np.flatnonzero(np.any(basis != 0, axis=0))
            if len(seen):
                border = problem.basis[np.ix_(own, seen)]
                of_border = np.column_stack([factors.solve(column) for column in border.T])
                excess = -basis[:, seen].T @ forces[mine] - border.T @ found
                free[seen] = np.linalg.lstsq(border.T @ of_border, excess, rcond=None)[0]
                found = found + of_border @ free[seen]
            moved[own] = found
        return moved, free


class _Factors:
    """Solves with ``A = G + diag(more)`` of some rows of a Gram matrix; all where none are chosen."""

    def __init__(
        self, gram: np.ndarray, chosen: np.ndarray | None, more: np.ndarray, exact: bool
    ) -> None:
        self.gram = gram if chosen is None else gram[np.ix_(chosen, chosen)]
        self.more = more
        self.exact = exact
        self.scale = 1.0 / np.sqrt(np.abs(np.diagonal(self.gram)) + more)
        self.single = not exact and float(more.max()) < LARGEST and self._factorize(np.float32)
        if exact and not self._factorize(np.float64):
            raise LinAlgError("a Gram matrix is not positive definite")
        if not exact and not self.single:
            self._factorize_mended()

    def _factorize(self, dtype: Any, extra: float = 0.0) -> bool:
        """Whether there are factors, of ``A`` with something extra on the diagonal."""
        (factorize,) = get_lapack_funcs(("potrf",), dtype=dtype)
        # Symmetric, so that rows may stand for columns.
        own = self.gram.astype(dtype).T
        np.fill_diagonal(own, np.diagonal(self.gram) + self.more + extra)
        self.factors, failed = factorize(own, lower=True, overwrite_a=True, clean=False)
        return not failed and bool(np.all(np.isfinite(np.diagonal(self.factors))))

    def _factorize_mended(self) -> None:
        if self._factorize(np.float64):
            return
        largest = float(np.abs(self.gram).sum(axis=1).max())
        if not any(self._factorize(np.float64, share * largest) for share in MENDING):
            raise LinAlgError("a Gram matrix has numbers that are none")

    def solve(self, right: np.ndarray) -> np.ndarray:
        """``A^-1 right``, corrected until little is left."""
        if self.exact:
            return cho_solve((self.factors, True), right, check_finite=False)
        length = float(np.linalg.norm(self.scale * right))
        found = np.zeros(len(right))
        rest = right
        for _ in range(1 + CORRECTIONS):
            dtype = self.factors.dtype
            found += cho_solve((self.factors, True), rest.astype(dtype), check_finite=False)
            rest = right - self.gram @ found - self.more * found
            left = float(np.linalg.norm(self.scale * rest))
            if left <= LEFT * length:
                return found
        if self.single:
            self.single = False
            self._factorize_mended()
            return self.solve(right)
        return found
