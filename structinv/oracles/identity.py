"""The oracle of no change at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..matrices import Matrix, Rows, csr, floating, products, take
from .arguments import check_directions, grade_profile
from .base import BoundOracle, Hull, Support, dense_rows
from .finite import FiniteOracle
from .hulls import LabelHull
from .identity_hull import IdentityHull
from .label_hull import IdentityLabelHull


class Identity(FiniteOracle):
    """S(x) = {x}: nothing may change, and the worst-case loss is the plain one.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Identity
    >>> X, V = np.array([[1.0, 2.0]]), np.array([[0.0, 3.0]])
    >>> Identity().support(X, V, np.array([0])).points
    array([[1., 2.]])
    """

    supports_sparse = True
    additive = True
    convex = True
    isometric = True
    featurewise = True

    def pullback(self, V: np.ndarray) -> np.ndarray:
        """See `InvarianceOracle.pullback`: the directions themselves."""
        return V[None]

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """`X` itself, not a copy."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        return Support(X)

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """`X` itself, whose grade is 1 whatever `rho` says of changes."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        grade_profile(rho)
        return Support(X, rho=np.ones(X.shape[0]))

    def orbit(self, X: Matrix) -> np.ndarray:
        """The rows themselves, (n, 1, d)."""
        return dense_rows(X)[:, None, :].copy()

    def members(self, X: Matrix, index: np.ndarray) -> np.ndarray:
        return dense_rows(X)

    def member_scores(self, X: Matrix, V: np.ndarray) -> np.ndarray | None:
        """See `InvarianceOracle.member_scores`; None for sparse rows, of which members are dense."""
        if sp.issparse(X) or type(self) is not Identity:
            return None
        scores: np.ndarray = X @ V.astype(X.dtype if X.dtype.kind == "f" else V.dtype).T
        return scores[:, None, :]

    def member_grades(self, size: int, rho: float | Sequence[float]) -> np.ndarray:
        """See `InvarianceOracle.member_grades`: 1 whatever `rho` says of changes."""
        grade_profile(rho)
        return np.ones(size)

    def tangents(self, X: Matrix) -> np.ndarray:
        """No direction, (n, 0, d)."""
        return np.zeros((X.shape[0], 0, X.shape[1]))


class BoundIdentity(BoundOracle):
    """Given rows that do not change."""

    def member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        """See `BoundOracle.member_scores`; of sparse rows too, since `members` leaves them sparse."""
        if sp.issparse(self.X):
            return products(floating(take(self.X, rows)), V.T)[:, None, :]
        return super().member_scores(rows, V)

    def members(self, rows: Rows, index: np.ndarray) -> Matrix:
        """See `BoundOracle.members`; sparse if the rows are."""
        return take(self.X, rows) if sp.issparse(self.X) else super().members(rows, index)

    def edits(self) -> tuple[int, float, float]:
        """See `BoundOracle.edits`; none."""
        return 0, 1.0, 1.0

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull:
        """Dual coordinate ascent, as in liblinear: the hull of a point has only its level."""
        return IdentityHull(floating(self.X), signs, weights, intercept)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull:
        return IdentityLabelHull(csr(self.X), codes, weights, cost, intercept=intercept)
