"""Check of custom kernels: `check_kernel` and the tested properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..utils.exceptions import CheckError
from ..utils.matrices import refuse_masked
from ..utils.plugins import clone_and_pickle
from .base import Kernel
from .kernel_names import validate_kernel
from .kernel_values import ISOMETRIES, NOTHING, kernel_diagonal, kernel_matrix, kernel_partials

# Relative tolerances: rounding errors in double and in single precision, and numerical derivatives.
_ROUNDING, _SINGLE, _NUMERICAL = 1e-9, 1e-3, 1e-4
# Relative step of numerical derivatives of Phi(s, t).
_STEP = 1e-4


def check_kernel(kernel: Kernel, X: np.ndarray, *, random_state: int | None = 0) -> None:
    """Check that a kernel fulfills the requirements of `Kernel` on these rows.

    The check tests the following:

    - Kernel matrices are finite and symmetric, and `Kernel.diagonal` has their diagonal.
    - If `Kernel.definite` is True, no eigenvalue of the kernel matrix is below 0.
    - Values do not depend on other rows, their storage or precision, nor on earlier calls.
    - Clones and pickles return the same values, and the rows are not modified.
    - `Kernel.lipschitz` bounds the distances of features for pairs of rows near to and far from each
      other.
    - `Kernel.symmetry` and `Kernel.adds_features` hold for random maps.
    - The entries of `Kernel.partials` are derivatives of the values.

    The distribution of `Kernel.spectral_law` and the use of several threads are not checked.

    Parameters
    ----------
    kernel : Kernel
        Kernel to check.
    X : array-like of shape (n_samples, n_features)
        About 10 to 50 rows, as the kernel is used with.
    random_state : int or None, default=0
        Seed of perturbed rows and random maps; None for a random seed.

    Raises
    ------
    CheckError
        If a requirement is violated. The message contains the class and the property.
    TypeError, ValueError
        If `kernel` is not a Kernel, has invalid parameters, or does not return finite arrays of the
        right shape.

    See Also
    --------
    Kernel : Base class with these requirements.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, check_kernel
    >>> X = np.random.default_rng(0).standard_normal((12, 3))
    >>> check_kernel(Gaussian(2.0), X)
    >>> class Wide(Gaussian):
    ...     def lipschitz(self, n_features=None):
    ...         return 0.1
    >>> check_kernel(Wide(2.0), X)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    CheckError: Wide: the Lipschitz constant 0.1 is too small ...
    """
    refuse_masked("X", X)
    X = np.array(X, dtype=np.float64)
    if X.ndim != 2 or len(X) < 2 or not np.all(np.isfinite(X)):
        raise ValueError(f"X must have at least two finite rows, got shape {X.shape}")
    validate_kernel("kernel", kernel, X.shape[1])
    trial = _Trial(kernel, X, np.random.default_rng(random_state))
    for check in _CHECKS:
        check(trial)


@dataclass
class _Trial:
    """A kernel with two sets of rows, and its values there."""

    kernel: Kernel
    X: np.ndarray
    rng: np.random.Generator

    def __post_init__(self) -> None:
        scale = np.std(self.X)
        steps = 10.0 ** self.rng.uniform(-3, 0.5, (len(self.X), 1))
        self.Y = self.X + scale * steps * self.rng.standard_normal(self.X.shape)
        self.diagonal = kernel_diagonal(self.kernel, self.X)
        self.values = kernel_matrix(self.kernel, self.X, self.Y)
        # Largest value: the unit of rounding errors.
        self.unit = float(max(self.diagonal.max(), kernel_diagonal(self.kernel, self.Y).max()))

    def fail(self, message: str) -> None:
        """Raise CheckError with the name of the class."""
        raise CheckError(f"{type(self.kernel).__name__}: {message}")

    def compare(self, found: np.ndarray, wanted: np.ndarray, what: str, rtol: float = _ROUNDING) -> None:
        """Raise CheckError if an entry differs by more than rounding errors."""
        error = float(np.max(np.abs(found - wanted), initial=0.0))
        if not error <= rtol * self.unit:
            self.fail(f"{what}: the largest error is {error:.3g}")


def _check_symmetric(trial: _Trial) -> None:
    kernel, X, Y = trial.kernel, trial.X, trial.Y
    own = kernel_matrix(kernel, X, X)
    trial.compare(own, own.T, "matrix(X, X) must be symmetric")
    trial.compare(kernel_matrix(kernel, Y, X), trial.values.T, "matrix(Y, X) must be matrix(X, Y).T")
    trial.compare(np.diagonal(own), trial.diagonal, "diagonal(X) must be the diagonal of matrix(X, X)")


def _check_definite(trial: _Trial) -> None:
    rows = np.concatenate([trial.X, trial.Y])
    values = np.linalg.eigvalsh(kernel_matrix(trial.kernel, rows, rows))
    if trial.kernel.definite and values[0] < -_ROUNDING * len(rows) * max(values[-1], 0.0):
        trial.fail(
            f"definite must be False, because the kernel matrix has the eigenvalue {values[0]:.3g} "
            f"(largest: {values[-1]:.3g})"
        )


def _check_blocks(trial: _Trial) -> None:
    kernel, X, Y = trial.kernel, trial.X, trial.Y
    before = X.copy(), Y.copy()
    half = len(X) // 2
    for rows in (slice(0, half), slice(half, None), np.arange(len(X))[::-1]):
        part = kernel_matrix(kernel, X[rows], Y[rows])
        trial.compare(part, trial.values[rows][:, rows], "values must not depend on the other rows")
        diagonal = kernel_diagonal(kernel, X[rows])
        trial.compare(diagonal, trial.diagonal[rows], "diagonal must not depend on the other rows")
    if not (np.array_equal(X, before[0]) and np.array_equal(Y, before[1])):
        trial.fail("matrix and diagonal must not modify the rows")


def _check_storage(trial: _Trial) -> None:
    """Compare with rows in other memory, and with copies of the kernel."""
    kernel, X, Y = trial.kernel, trial.X, trial.Y
    wide, columns = np.repeat(X, 2, axis=1)[:, ::2], np.asfortranarray(X)
    calls = [
        ("strided rows must have the same values", kernel, wide, Y),
        ("rows in Fortran order must have the same values", kernel, columns, np.asfortranarray(Y)),
    ]
    for copy in (*clone_and_pickle(kernel, type(kernel).__name__), kernel):
        calls.append(("a clone, a pickle and a second call must agree", copy, X, Y))
    for what, copy, left, right in calls:
        trial.compare(kernel_matrix(copy, left, right), trial.values, what)
    left, right = X.astype(np.float32), Y.astype(np.float32)
    wanted = kernel_matrix(kernel, left.astype(np.float64), right.astype(np.float64))
    what = "rows in float32 must have the same values"
    trial.compare(kernel_matrix(kernel, left, right), wanted, what, _SINGLE)


def _check_lipschitz(trial: _Trial) -> None:
    constant = trial.kernel.lipschitz(trial.X.shape[1])
    if not np.isfinite(constant):
        return
    rows = np.concatenate([trial.X, trial.Y])
    own = kernel_matrix(trial.kernel, rows, rows)
    diagonal = np.diagonal(own)
    distances = diagonal[:, None] + diagonal - 2.0 * own
    squares = np.sum((rows[:, None] - rows) ** 2, axis=2)
    excess = distances - constant**2 * squares
    if np.any(excess > _ROUNDING * trial.unit):
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        needed = np.sqrt(distances[worst] / squares[worst])
        trial.fail(f"the Lipschitz constant {constant:.4g} is too small: a pair needs {needed:.4g}")


def _check_symmetry(trial: _Trial) -> None:
    if trial.kernel.symmetry == NOTHING:
        return
    size = trial.X.shape[1]
    maps: list[Any] = [np.eye(size)[trial.rng.permutation(size)]]
    if trial.kernel.symmetry == ISOMETRIES:
        maps.append(np.linalg.qr(trial.rng.standard_normal((size, size)))[0])
    for matrix in maps:
        found = kernel_matrix(trial.kernel, trial.X @ matrix, trial.Y @ matrix)
        message = f"the symmetry {trial.kernel.symmetry!r} does not hold for a random map"
        trial.compare(found, trial.values, message)


def _check_features(trial: _Trial) -> None:
    if trial.kernel.adds_features:
        twice = kernel_matrix(trial.kernel, np.tile(trial.X, 2), np.tile(trial.Y, 2))
        wanted = kernel_matrix(trial.kernel, 2.0 * trial.X, 2.0 * trial.Y)
        trial.compare(twice, wanted, "adds_features must be False: two equal features do not add up")


def _check_partials(trial: _Trial) -> None:
    """Compare entry (0, 0) with the values, and the others with differences of lower ones."""
    kernel, X, Y = trial.kernel, trial.X, trial.Y
    if not (kernel.uses_distances or kernel.uses_products):
        if kernel.smoothness > 0:
            trial.fail("smoothness must be 0 unless uses_distances or uses_products is True")
        return
    arguments = {
        "distances": np.sum((X[:, None] - Y) ** 2, axis=2) if kernel.uses_distances else None,
        "products": X @ Y.T if kernel.uses_products else None,
    }
    order = int(min(2 * kernel.smoothness, 4))
    partials = kernel_partials(kernel, **arguments, order=order)
    trial.compare(partials[0, 0], trial.values, "entry (0, 0) of partials must have the values")
    for name, step in (("distances", (1, 0)), ("products", (0, 1))):
        if arguments[name] is not None:
            _compare_differences(trial, arguments, partials, name, step, order)


def _compare_differences(
    trial: _Trial, arguments: dict, partials: dict, name: str, step: tuple[int, int], order: int
) -> None:
    given, nothing = arguments[name], np.zeros(trial.values.shape)
    for i, j in sorted(partials):
        target = (i + step[0], j + step[1])
        if sum(target) > order:
            continue
        exact = partials.get(target, nothing)
        # The step is relative to the distance over which the entry changes.
        change = np.abs(partials[i, j]) / np.maximum(np.abs(exact), 1e-300)
        size = _STEP * np.minimum(np.abs(given) + 1e-2 * np.ptp(given), change) + 1e-300
        sides = [
            np.maximum(given + side * size, 0.0 if name == "distances" else -np.inf) for side in (-1, 1)
        ]
        low, high = (
            kernel_partials(trial.kernel, **{**arguments, name: side}, order=order).get((i, j), nothing)
            for side in sides
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            numerical = (high - low) / (sides[1] - sides[0])
        # Derivatives in s may be infinite at 0, and the smallest numbers have few digits.
        compared = np.abs(partials[i, j]) > 1e-250
        if name == "distances":
            compared &= given > 2 * size
        scale = np.abs(exact) + np.abs(numerical) + np.abs(partials[i, j]) / (np.abs(given) + size)
        if np.any((np.abs(exact - numerical) > _NUMERICAL * scale) & compared):
            trial.fail(f"entry {target} of partials is not the derivative of entry {(i, j)}")


_CHECKS = (
    _check_symmetric,
    _check_definite,
    _check_blocks,
    _check_lipschitz,
    _check_symmetry,
    _check_features,
    _check_partials,
    _check_storage,
)
