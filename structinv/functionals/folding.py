"""Squared penalties folded into the kernel, so that a plain kernel machine remains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_diagonal, kernel_matrix
from .base import BoundFunctional
from .representers import Representers

# Up to so many functionals their Gram matrix is factorized.
MOST_FACTORIZED = 3000
MOST_STEPS = 1000
COLUMNS_AT_ONCE = 64


class Folded(Kernel):
    """The kernel of ``|f|^2 + 2 sum_j nu_j (L_j f)^2``, a norm that has squared penalties in it.

    ``k~(x, y) = k(x, y) - z(x)' (G + diag(1 / (2 nu)))^-1 z(y)`` with ``z_j(x) = L_j k(., x)`` and G the
    Gram matrix of the functionals, by Woodbury's formula. A plain machine with this kernel and the
    same C has the optimum that the penalized one has with `kernel`, and the same function. It pays
    where many fits share the penalties: each point costs one system of equations, by factors of G
    where it is small, else by conjugate gradients with fast products.

    A constant that the machine leaves unpenalized, as `sklearn.svm.SVC` does, is the same in both only
    if no functional sees constants, as derivatives and differences do not: `sees_constants` tells.
    Where one does, `free_constant` folds the constant in as well: eliminating the bordered system
    adds ``c(x) c(y) / s`` with ``c = 1 - z' M^-1 L1``, ``s = L1' M^-1 L1``, M the matrix above and L1
    what the functionals are of 1, and the machine then needs no constant of its own.

    Parameters
    ----------
    kernel : Kernel
    families : sequence of BoundFunctional
    nu : float or sequence of float, default=1.0
        Weight of each family's squares, at least 0.
    free_constant : bool, default=False
        Whether functions have a constant part that only the squares pay for.
    tol : float, default=1e-10
        Relative residual at which the equations count as solved.
    cache_mb : float, default=1000
        Memory for the kernel's values, and as much again for solved points.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Folded, Gradient
    >>> from structinv.kernels import Linear
    >>> flat = Folded(Linear(), [Gradient().bind(np.zeros((1, 1)))], nu=1.5)
    >>> flat.matrix(np.array([[2.0]]), np.array([[2.0]]))
    array([[1.]])
    """

    # What has been solved.
    _made: _Equations | None = None

    def __init__(
        self,
        kernel: Kernel,
        families: Sequence[BoundFunctional],
        nu: float | ArrayLike = 1.0,
        *,
        free_constant: bool = False,
        tol: float = 1e-10,
        cache_mb: float = 1000.0,
    ) -> None:
        self.kernel = kernel
        self.families = families
        self.nu = nu
        self.free_constant = free_constant
        self.tol = tol
        self.cache_mb = cache_mb

    def validate(self, n_features: int | None = None) -> None:
        self.kernel.validate(n_features)
        _check_nu(self.nu, len(self.families))
        for family in self.families:
            if not isinstance(family, BoundFunctional):
                raise TypeError(f"families must hold bound functionals, got {family!r}")
            if n_features is not None and family.X.shape[1] != n_features:
                raise ValueError(
                    f"families must be bound to rows of {n_features} features, got {family.X.shape[1]}"
                )

        if self.free_constant and not self.sees_constants:
            raise ValueError(
                "free_constant must be False where no functional sees constants, which nothing would "
                "then pay for; leave the constant to the machine"
            )

    @property
    def sees_constants(self) -> bool:
        """Whether a functional of a weight above 0 is other than zero on constants."""
        return bool(np.any(self._equations().representers.monomials(0)))

    def matrix(self, X: np.ndarray, Y: np.ndarray, norms: Any = None) -> np.ndarray:
        total = kernel_matrix(self.kernel, X, Y, norms)
        equations = self._equations()
        if equations.representers.size == 0:
            return total
        # Kernels of others may keep what they return.
        total = total.copy()
        fewer, more = (X, Y) if len(X) < len(Y) else (Y, X)
        for first in range(0, len(fewer), COLUMNS_AT_ONCE):
            part = slice(first, first + COLUMNS_AT_ONCE)
            moved = equations.representers.values(equations.solved(fewer[part]), more)
            if fewer is X:
                total[part] -= moved.T.astype(total.dtype)
            else:
                total[:, part] -= moved.astype(total.dtype)
        if self.free_constant:
            total += np.outer(*(equations.constants(each) for each in (X, Y))).astype(total.dtype)
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
        if self.free_constant:
            total += (self._equations().constants(X) ** 2).astype(total.dtype)
        return total

    def lipschitz(self, n_features: int | None = None) -> float:
        """That of the kernel: folding shortens all distances; infinity with a free constant."""
        return np.inf if self.free_constant else self.kernel.lipschitz(n_features)

    def _equations(self) -> _Equations:
        """The equations of the penalties, made once."""
        found = self._made
        if found is None:
            # `validate` itself asks whether functionals see constants.
            _check_nu(self.nu, len(self.families))
            weights = np.broadcast_to(np.asarray(self.nu, dtype=float), (len(self.families),))
            used = [number for number in range(len(self.families)) if weights[number] > 0]
            parts = [self.families[number].parts(self.kernel) for number in used]
            representers = Representers(self.kernel, parts, self.cache_mb)
            sizes = [rows.stop - rows.start for rows in representers.slices]
            found = _Equations(representers, 0.5 / np.repeat(weights[used], sizes), self.tol)
            self._made = found
        return found

    def set_params(self, **parameters: Any) -> Folded:
        """See `sklearn.base.BaseEstimator.set_params`; what has been solved is forgotten."""
        self._made = None
        return super().set_params(**parameters)

    def __getstate__(self) -> dict[str, Any]:
        """Without what has been solved."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_made", None)
        return state


def _check_nu(nu: Any, n_families: int) -> None:
    weights = np.asarray(nu, dtype=float)
    if weights.shape not in ((), (n_families,)) or np.any(~(weights >= 0)):
        raise ValueError(f"nu must be a number of at least 0, or {n_families} of them, got {nu!r}")


class _Equations:
    """``(G + diag(shift)) c = z(x)`` for points x, solved ones kept."""

    def __init__(self, representers: Representers, shift: np.ndarray, tol: float) -> None:
        self.representers = representers
        self.shift = shift
        self.tol = tol
        self.known: dict[bytes, np.ndarray] = {}
        self._factors: Any = None
        self._constants: tuple[np.ndarray, float] | None = None

    def solved(self, points: np.ndarray) -> np.ndarray:
        """The solution of each point, (n_functionals, n)."""
        names = [point.tobytes() for point in points]
        new = [number for number, name in enumerate(names) if name not in self.known]
        fresh = self._solve(points[new]) if new else np.zeros((self.representers.size, 0))
        columns = dict(zip((names[number] for number in new), fresh.T, strict=True))
        found = np.column_stack([columns[n] if n in columns else self.known[n] for n in names])
        room = self.representers.cache_bytes / (8.0 * self.representers.size)
        if len(self.known) + len(columns) <= room:
            self.known.update(columns)
        return found

    def _solve(self, points: np.ndarray) -> np.ndarray:
        return self._inverse(self.representers.on_points(points, np.eye(len(points))))

    def constants(self, points: np.ndarray) -> np.ndarray:
        """``c(x) / sqrt(s)``: what the constant has come to, (n,)."""
        if self._constants is None:
            seen = self.representers.monomials(0)
            turned = self._inverse(seen)
            self._constants = turned[:, 0], float(np.sum(seen * turned))
        turned, square = self._constants
        return (1.0 - self.representers.values(turned, points)) / np.sqrt(square)

    def _inverse(self, right: np.ndarray) -> np.ndarray:
        """The solutions for some right-hand sides."""
        if self.representers.size <= MOST_FACTORIZED and self.representers.fits:
            if self._factors is None:
                table = self.representers.table().copy()
                table[np.diag_indices(len(table))] += self.shift
                self._factors = cho_factor(table, overwrite_a=True)
            return cho_solve(self._factors, right)
        return conjugate_gradients(self._times, right, self.shift, self.tol)

    def _times(self, coefficients: np.ndarray) -> np.ndarray:
        return self.representers.apply(coefficients) + self.shift[:, None] * coefficients


def conjugate_gradients(
    times: Callable[[np.ndarray], np.ndarray], right: np.ndarray, scale: np.ndarray, tol: float
) -> np.ndarray:
    """Solve ``A C = B`` for positive definite A, all columns at once, preconditioned by `scale`.

    Parameters
    ----------
    times : callable
        From (n, k) to A times it.
    right : (n, k) array
    scale : (n,) array
        A diagonal near A.
    tol : float
        Relative residual at which a column is done.

    Returns
    -------
    (n, k) array

    Raises
    ------
    ValueError
        If a column is not done after many steps.
    """
    found, residual = np.zeros_like(right), right.copy()
    going = np.arange(right.shape[1])
    goal = tol * np.linalg.norm(right, axis=0)
    turned = residual / scale[:, None]
    direction, level = turned.copy(), np.sum(residual * turned, axis=0)
    for _ in range(MOST_STEPS):
        going = going[np.linalg.norm(residual[:, going], axis=0) > goal[going]]
        if len(going) == 0:
            return found
        own = direction[:, going]
        moved = times(own)
        length = level[going] / np.sum(own * moved, axis=0)
        found[:, going] += length * own
        residual[:, going] -= length * moved
        turned = residual[:, going] / scale[:, None]
        after = np.sum(residual[:, going] * turned, axis=0)
        direction[:, going] = turned + after / level[going] * own
        level[going] = after
    raise ValueError(
        f"the equations of the folded kernel are not solved to {tol:g} after {MOST_STEPS} steps: "
        "lower nu, or raise tol"
    )
