"""Linear equations of a Gram matrix plus a diagonal, by Cholesky factors.

The factors are in single precision if that is accurate enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, get_lapack_funcs

from .coefficient_objectives import CoefficientProblem

# Maximum number of steps of iterative refinement; accepted residual relative to the right side.
CORRECTIONS, LEFT = 3, 1e-3
# Additions to the diagonal of an indefinite matrix, as fractions of the largest absolute row sum. The
# fraction 1 always suffices.
CORRECTION = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3, 1.0)
# Larger numbers may overflow in single precision.
LARGEST = 1e30


class Equations:
    """Equations of a Gram matrix plus a diagonal, with a border for the free part.

    The equations are ``(G + W^-1) dq - B db = - W^-1 r`` and ``B' dq = - B' q``, for each output.
    The factors are in single precision if a few corrections by the residual, in double precision,
    suffice. Otherwise they are in double precision, and an indefinite matrix is corrected.

    Shapes: `weights` (n,).
    """

    def __init__(self, problem: CoefficientProblem, weights: np.ndarray, *, exact: bool = False) -> None:
        self.problem = problem
        self.exact = exact
        self.used = weights > 0
        self.inverse = np.where(self.used, 1.0 / np.where(self.used, weights, 1.0), 0.0)
        self._outputs: dict[int, _Factors] = {}

    def solve(self, right: np.ndarray, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return dq and db for a right side r and forces q."""
        problem = self.problem
        dq, free = np.zeros(problem.size), np.zeros(problem.basis.shape[1])
        for number, (rows, gram) in enumerate(problem.by_output):
            used_rows = rows[self.used[rows]]
            if len(used_rows) == 0:
                continue
            if number not in self._outputs:
                chosen = None if len(used_rows) == len(rows) else np.flatnonzero(self.used[rows])
                self._outputs[number] = _Factors(gram, chosen, self.inverse[used_rows], self.exact)
            factors = self._outputs[number]
            dq_used = factors.solve(-self.inverse[used_rows] * right[used_rows])
            basis = problem.basis[rows]
            columns = np.flatnonzero(np.any(basis != 0, axis=0))
            if len(columns):
                border = problem.basis[np.ix_(used_rows, columns)]
                inverse_border = np.column_stack([factors.solve(column) for column in border.T])
                excess = -basis[:, columns].T @ forces[rows] - border.T @ dq_used
                free[columns] = np.linalg.lstsq(border.T @ inverse_border, excess, rcond=None)[0]
                dq_used = dq_used + inverse_border @ free[columns]
            dq[used_rows] = dq_used
        return dq, free


class _Factors:
    """Factors of ``A = G + diag(more)`` for the chosen rows of a Gram matrix, or for all (None)."""

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
            self._factorize_corrected()

    def _factorize(self, dtype: Any, extra: float = 0.0) -> bool:
        """Factorize ``A`` with `extra` on the diagonal; return False if that fails."""
        (factorize,) = get_lapack_funcs(("potrf",), dtype=dtype)
        # The matrix is symmetric, so its transpose has the order of memory that LAPACK requires.
        matrix = self.gram.astype(dtype).T
        np.fill_diagonal(matrix, np.diagonal(self.gram) + self.more + extra)
        self.factors, failed = factorize(matrix, lower=True, overwrite_a=True, clean=False)
        return not failed and bool(np.all(np.isfinite(np.diagonal(self.factors))))

    def _factorize_corrected(self) -> None:
        if self._factorize(np.float64):
            return
        largest = float(np.abs(self.gram).sum(axis=1).max())
        if not any(self._factorize(np.float64, share * largest) for share in CORRECTION):
            raise LinAlgError("a Gram matrix contains NaN or infinity")

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return ``A^-1 right``, corrected until the residual is small."""
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
            self._factorize_corrected()
            return self.solve(right)
        return found
