"""Kernel that includes squared penalties, for training without a penalty term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from ..kernels import Kernel
from ..kernels.kernel_values import kernel_diagonal, kernel_matrix
from ..oracles.cache import Record, parameters_of
from .base import BoundFunctional
from .representers import Representers

# Maximum number of functionals whose Gram matrix is factorized.
MOST_FACTORIZED = 3000
MOST_STEPS = 1000
COLUMNS_AT_ONCE = 64


class Folded(Kernel):
    """Kernel with penalties in its norm ``|f|^2 + 2 sum_j nu_j (L_j f)^2``.

    It is ``k~(x, y) = k(x, y) - z(x)' (G + diag(1 / (2 nu)))^-1 z(y)`` by Woodbury's formula. Here
    ``z_j(x) = L_j k(., x)``, and G is the Gram matrix of the functionals. A kernel SVM without
    penalties, with this kernel and the same C, has the same optimal value and function as a penalized
    SVM with `kernel`.

    This kernel saves time if many fits have the same penalties. It solves one linear system per sample,
    by a factorization if G is small, and by conjugate gradients otherwise.

    With an unpenalized intercept, as in `sklearn.svm.SVC`, both SVMs are the same if all functionals are
    0 for constants, such as derivatives and differences.

    Parameters
    ----------
    kernel : Kernel
        Kernel k of the function without penalties.
    families : sequence of BoundFunctional
        Families of functionals at their rows.
    nu : float or sequence of float, default=1.0
        Weight (>= 0) of the squares of each family. Larger weights give smaller values of the
        functionals.
    tol : float, default=1e-10
        Relative residual at which the linear systems count as solved.
    cache_mb : float, default=1000
        Memory for kernel values in units of 10^6 bytes, and the same amount for solved samples.

    See Also
    --------
    structinv.estimators.RepresenterClassifier : Classifier with penalties of any loss.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Folded, Gradient
    >>> from structinv.kernels import Linear
    >>> flat = Folded(Linear(), [Gradient().bind(np.zeros((1, 1)))], nu=1.5)
    >>> flat.matrix(np.array([[2.0]]), np.array([[2.0]]))
    array([[1.]])
    """

    # Linear systems of the penalties, with a cache of solutions.
    _made: Record | None = None
    _caches = ("_made",)

    def __init__(
        self,
        kernel: Kernel,
        families: Sequence[BoundFunctional],
        nu: float | ArrayLike = 1.0,
        *,
        tol: float = 1e-10,
        cache_mb: float = 1000.0,
    ) -> None:
        self.kernel = kernel
        self.families = families
        self.nu = nu
        self.tol = tol
        self.cache_mb = cache_mb

    def validate(self, n_features: int | None = None) -> None:
        self.kernel.validate(n_features)
        _check_nu(self.nu, len(self.families))
        for family in self.families:
            if not isinstance(family, BoundFunctional):
                raise TypeError(f"families must contain bound functionals, got {family!r}")
            if n_features is not None and family.X.shape[1] != n_features:
                raise ValueError(
                    f"families must be bound to rows of {n_features} features, got {family.X.shape[1]}"
                )

    def matrix(self, X: np.ndarray, Y: np.ndarray, norms: Any = None) -> np.ndarray:
        total = kernel_matrix(self.kernel, X, Y, norms)
        equations = self._equations()
        if equations.representers.size == 0:
            return total
        # Third-party kernels may store the arrays that they return.
        total = total.copy()
        fewer, more = (X, Y) if len(X) < len(Y) else (Y, X)
        for first in range(0, len(fewer), COLUMNS_AT_ONCE):
            part = slice(first, first + COLUMNS_AT_ONCE)
            moved = equations.representers.values(equations.solved(fewer[part]), more)
            if fewer is X:
                total[part] -= moved.T.astype(total.dtype)
            else:
                total[:, part] -= moved.astype(total.dtype)
        return total

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        total = kernel_diagonal(self.kernel, X)
        representers = self._equations().representers
        if representers.size == 0:
            return total
        for first in range(0, len(X), COLUMNS_AT_ONCE):
            part = X[first : first + COLUMNS_AT_ONCE]
            seen = representers.on_points(part, np.eye(len(part)))
            moved = np.sum(seen * self._equations().solved(part), axis=0)
            total[first : first + COLUMNS_AT_ONCE] -= moved.astype(total.dtype)
        return total

    def lipschitz(self, n_features: int | None = None) -> float:
        # Penalties only decrease distances.
        return self.kernel.lipschitz(n_features)

    def _equations(self) -> _Equations:
        """Return the linear systems of the penalties, created again if a parameter has changed."""
        key = parameters_of(tuple(self.get_params(deep=False).values()))
        if self._made is None or self._made.key != key:
            _check_nu(self.nu, len(self.families))
            weights = np.broadcast_to(np.asarray(self.nu, dtype=float), (len(self.families),))
            used = [number for number in range(len(self.families)) if weights[number] > 0]
            parts = [self.families[number].parts(self.kernel) for number in used]
            representers = Representers(self.kernel, parts, self.cache_mb)
            sizes = [rows.stop - rows.start for rows in representers.slices]
            shift = 0.5 / np.repeat(weights[used], sizes)
            self._made = Record(key, _Equations(representers, shift, self.tol))
        equations: _Equations = self._made.made
        return equations


def _check_nu(nu: Any, n_families: int) -> None:
    weights = np.asarray(nu, dtype=float)
    if weights.shape not in ((), (n_families,)) or np.any(~(weights >= 0)):
        raise ValueError(f"nu must be a number of at least 0, or {n_families} of them, got {nu!r}")


class _Equations:
    """Linear systems ``(G + diag(shift)) c = z(x)`` for points x, with a cache of solutions."""

    def __init__(self, representers: Representers, shift: np.ndarray, tol: float) -> None:
        self.representers = representers
        self.shift = shift
        self.tol = tol
        self.known: dict[bytes, np.ndarray] = {}
        self._factors: Any = None

    def solved(self, points: np.ndarray) -> np.ndarray:
        """Return the solution for each point, (n_functionals, n)."""
        names = [point.tobytes() for point in points]
        new = [number for number, name in enumerate(names) if name not in self.known]
        fresh = self._solve(points[new]) if new else np.zeros((self.representers.size, 0))
        columns = dict(zip((names[number] for number in new), fresh.T, strict=True))
        solutions = np.column_stack([columns[n] if n in columns else self.known[n] for n in names])
        most = self.representers.cache_bytes / (8.0 * self.representers.size)
        if len(self.known) + len(columns) <= most:
            self.known.update(columns)
        return solutions

    def _solve(self, points: np.ndarray) -> np.ndarray:
        right = self.representers.on_points(points, np.eye(len(points)))
        if self.representers.size > MOST_FACTORIZED or not self.representers.fits:
            return np.column_stack([self._by_gradients(column) for column in right.T])
        if self._factors is None:
            table = self.representers.table().copy()
            table[np.diag_indices(len(table))] += self.shift
            self._factors = cho_factor(table, overwrite_a=True)
        return cho_solve(self._factors, right)

    def _by_gradients(self, right: np.ndarray) -> np.ndarray:
        """Solve the system for one right-hand side by preconditioned conjugate gradients."""

        def times(coefficients: np.ndarray) -> np.ndarray:
            return self.representers.apply(coefficients) + self.shift * coefficients

        shape = len(right), len(right)
        system = LinearOperator(shape, matvec=times, dtype=np.float64)
        scale = LinearOperator(shape, matvec=lambda values: values / self.shift, dtype=np.float64)
        solution, failed = cg(system, right, rtol=self.tol, maxiter=MOST_STEPS, M=scale)
        if failed:
            raise ValueError(
                f"the linear systems of Folded have residuals above tol={self.tol:g} after {MOST_STEPS} "
                "steps: lower nu, or raise tol"
            )
        return solution
