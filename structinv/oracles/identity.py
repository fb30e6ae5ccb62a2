"""The oracle without perturbations, for plain training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating, products, take
from .arguments import check_directions, grade_profile
from .base import BoundOracle, Support
from .changes import Changes, LinearChanges
from .finite_oracles import FiniteOracle
from .support import Costs, Grades
from .words.bound_edits import RowEdits


class Identity(FiniteOracle):
    """No perturbation: S(x) = {x}, and the worst-case loss is the plain loss.

    `support` returns `X` itself, not a copy. Grades are always 1.

    See Also
    --------
    InvarianceOracle : Base class of all oracles.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Identity
    >>> X, V = np.array([[1.0, 2.0]]), np.array([[0.0, 3.0]])
    >>> Identity().support(X, V, np.array([0])).points
    array([[1., 2.]])
    """

    supports_sparse = True
    _enumerates = False
    additive = True
    convex = True

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        if rho is None:
            return Support(X)
        grade_profile(rho)
        return Support(X, rho=np.ones(X.shape[0]))

    def orbit(self, X: Matrix) -> np.ndarray:
        self._check_rows(X)
        return dense_rows(X)[:, None, :].copy()

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        return IdentityChanges(X)

    def tangents(self, X: Matrix) -> np.ndarray:
        self._check_rows(X)
        return np.zeros((X.shape[0], 0, X.shape[1]))


class IdentityChanges(Changes):
    """List with the unperturbed samples only."""

    @property
    def size(self) -> int:
        return 1

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        members = dense_rows(floating(take(self.X, rows)))[:, None, :].copy()
        return members if numbers is None else members[:, numbers]

    def points(self, rows: Rows, index: np.ndarray) -> Matrix:
        """Return the rows themselves, sparse if `X` is sparse."""
        return take(self.X, rows)

    def adjoint(self, V: np.ndarray) -> np.ndarray:
        return V[None]

    def linear(self) -> LinearChanges:
        return LinearChanges(self.X, [sp.identity(self.X.shape[1], format="csr")])

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray:
        """Compute `scores`, also for sparse rows, because `points` are sparse."""
        return products(floating(take(self.X, rows)), V.T)[:, None, :]

    def _profile(self, rho: float | Sequence[float]) -> np.ndarray:
        """Return the grade 1 after validation of `rho`."""
        grade_profile(rho)
        return np.ones(1)


class BoundIdentity(BoundOracle):
    """Unperturbed samples of one fit."""

    def edits(self) -> RowEdits:
        """Return a description with 0 edits."""
        every = np.ones(self.X.shape[0], dtype=bool)
        return RowEdits(0, 1.0, 1.0, np.empty(0), False, self.X, every)
