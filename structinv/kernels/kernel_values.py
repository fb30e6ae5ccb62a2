"""Values of kernels: validation, precision, norms, tiles, exponentials, cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from numbers import Real
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..oracles.cache import Record
from ..utils import plugins
from ..utils.jit import njit
from ..utils.matrices import contiguous_read_only, in_threads, refuse_half_or_masked

if TYPE_CHECKING:
    from .base import Kernel, Partials

Norms: TypeAlias = tuple[np.ndarray, np.ndarray]

# Values of `Kernel.symmetry`, from the smallest to the largest set of linear maps.
NOTHING = "nothing"
PERMUTATIONS = "permutations"
ISOMETRIES = "isometries"
SYMMETRIES = (NOTHING, PERMUTATIONS, ISOMETRIES)
# Boolean attributes that a kernel declares.
_FLAGS = ("definite", "thread_safe", "uses_distances", "uses_products", "adds_features")

# Number of values per tile: two tiles of float64 fit in the cache of a core.
TILE = 2**15

HALF, SINGLE, DOUBLE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
# Range of normal float32 numbers.
_LEAST, _MOST = float(np.finfo(SINGLE).tiny), float(np.finfo(SINGLE).max)


def precision(*arrays: np.ndarray) -> np.dtype:
    """Return float32 if all arrays are, else float64; raise TypeError for float16."""
    kinds = [array.dtype for array in arrays]
    if HALF in kinds:
        refuse_half_or_masked("XY"[kinds.index(HALF)], arrays[kinds.index(HALF)])
    return SINGLE if all(kind == SINGLE for kind in kinds) else DOUBLE


def squared_norms(X: np.ndarray) -> np.ndarray:
    """Compute ``|x_i|^2`` of every row, summed in float64.

    Shapes: `X` (n, d).
    """
    norms = np.empty(len(X))
    _sum_squares(contiguous_read_only(X), norms)
    return norms


def half_norms(X: np.ndarray) -> np.ndarray:
    """Compute half the squared norm of every row, in the precision of `X`.

    Norms that overflow are infinite.

    Shapes: `X` (n, d).
    """
    # Callers check for infinity.
    with np.errstate(over="ignore"):
        return (0.5 * squared_norms(X)).astype(precision(X), copy=False)


def same_precision(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both arrays in their common precision, without a copy if they have it."""
    dtype = precision(X, Y)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)


def holds(dtype: np.dtype, *values: float) -> bool:
    """Return True if the values (>= 0) are zero or normal numbers of this type."""
    return dtype == DOUBLE or all(value == 0 or _LEAST <= value <= _MOST for value in values)


def in_double(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Compute the values of float32 rows in float64, against overflow."""
    values = kernel.matrix(X.astype(np.float64), Y.astype(np.float64))
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def describe(kernel: Kernel) -> str:
    """Return the kernel with all its parameters; its repr leaves out defaults."""
    parameters = kernel.get_params(deep=False).items()
    return f"{type(kernel).__name__}({', '.join(f'{name}={value!r}' for name, value in parameters)})"


def is_real(value: Any) -> bool:
    """Return True for a real number that is not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def in_tiles(
    values: np.ndarray,
    transform: Callable[[np.ndarray, slice], Any],
    *,
    cost: int = 1,
    least_rows: int = 1,
) -> np.ndarray:
    """Transform tiles of rows in place, in several threads; tiles fit in the cache.

    ``transform(tile, rows)`` receives a tile and its slice of rows. `cost` is its work per value,
    relative to an exponential. Tiles have at least `least_rows` rows.
    """
    n_rows, n_columns = values.shape
    step = max(least_rows, TILE // max(1, n_columns))

    def work(part: slice) -> None:
        for first in range(part.start, part.stop, step):
            rows = slice(first, min(first + step, part.stop))
            transform(values[rows], rows)

    # Starting a thread takes as long as a few hundred thousand exponentials.
    in_threads(work, n_rows, values.size * cost // 4)
    return values


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _sum_squares(X, norms):
    # NumPy's sequence of summation depends on the number of rows; here a row has one norm in all blocks.
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += np.float64(X[i, j]) * X[i, j]
        norms[i] = total


def check_rows(X: Any, Y: Any) -> None:
    """Raise TypeError or ValueError unless `X` and `Y` are valid arrays of rows."""
    for name, rows in (("X", X), ("Y", Y))[: 1 if Y is X else 2]:
        refuse_half_or_masked(name, rows)
        if not isinstance(rows, np.ndarray):
            raise TypeError(
                f"{name} must be an array, got {type(rows).__name__}; lists and data frames are "
                "supported by kernel(X, Y)"
            )
        if rows.dtype.kind not in "fiub":
            raise TypeError(f"{name} must contain real numbers, got dtype {rows.dtype}")
        if rows.ndim != 2:
            hint = f": pass {name}.reshape(len({name}), -1)" if rows.ndim > 2 else ""
            raise ValueError(f"{name} must have shape (n_samples, n_features), got {rows.shape}{hint}")
        if not plugins.all_finite(rows):
            raise ValueError(f"{name} must be finite, got NaN or infinity")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"Y must have the {X.shape[1]} features of X, got {Y.shape[1]}")


# ``exp(x) = 2^n exp(r)`` with |r| <= log(2) / 2. log(2) is split in two parts; n times the first is
# exact. The polynomial of r begins with ``1 + r + r^2 / 2`` (Moshier 1992, Cephes, expf).
_PER_LOG_2, _LOG_2, _REST = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_SIXTH, _FIFTH = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3)
_FOURTH, _THIRD = np.float32(8.3334519073e-3), np.float32(4.1665795894e-2)
_SECOND, _HALF = np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_ONE, _ZERO, _BIAS, _DIGITS = np.float32(1), np.float32(0), np.int32(127), np.int32(23)
# Below this, exp(x) is subnormal in float32.
_LEAST_EXPONENT = np.float32(-87.3)


def exponentials(values: np.ndarray) -> np.ndarray:
    """Compute ``exp(x)`` of numbers of at most 0, in place.

    In float32 the relative error is at most one unit in the last place of 1, and values below 1.2e-38
    become 0. This is several times as fast as NumPy on processors without AVX-512.
    """
    if values.dtype == np.float32 and values.flags.c_contiguous:
        _exponentials(values.reshape(-1))
        return values
    return np.exp(values, out=values)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _exponentials(values):
    for u in range(values.shape[0]):
        x = values[u] if values[u] > _LEAST_EXPONENT else _LEAST_EXPONENT
        n = np.rint(x * _PER_LOG_2)
        r = (x - n * _LOG_2) - n * _REST
        high = (((_SIXTH * r + _FIFTH) * r + _FOURTH) * r + _THIRD) * r + _SECOND
        power = np.int32((np.int32(n) + _BIAS) << _DIGITS).view(np.float32)
        value = ((high * r + _HALF) * (r * r) + r + _ONE) * power
        values[u] = value if values[u] > _LEAST_EXPONENT else _ZERO


class RowCache:
    """Cache of results for arrays of rows, such as ``k(x, x)``, by their values.

    An array that was modified in place has another digest. The cache stores digests and results of the
    last arrays, not the arrays.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[tuple[Any, ...], Record] = OrderedDict()
        self._lock = Lock()

    def get(self, X: np.ndarray, key: Any, make: Callable[[], Any]) -> Any:
        """Return the result for an array, computed if it is not cached; do not modify it.

        Shapes: `X` (n, d).
        """
        numbers = np.ascontiguousarray(X)
        digest = blake2b(numbers.data if numbers.size else b"", digest_size=16).digest()
        table = digest, X.shape, X.dtype
        with self._lock:
            record = self._known.get(table)
        if record is None or record.key != key:
            record = Record(key, make())
        with self._lock:
            self._known[table] = record
            self._known.move_to_end(table)
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return record.made


def kernel_matrix(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None
) -> np.ndarray:
    """Return ``kernel.matrix(X, Y, norms)`` and check that it is finite.

    Shapes: `X` (n, d), `Y` (m, d).
    """
    values = kernel.matrix(X, Y, norms)
    return plugins.numbers(plugins.method(kernel, "matrix"), "values", values, (len(X), len(Y)))


def kernel_table(kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms) -> np.ndarray:
    """Return the values of `kernel_matrix` without a check for overflow.

    The caller checks the results that it computes from the values.
    """
    values = kernel.matrix(X, Y, norms)
    return plugins.table(plugins.method(kernel, "matrix"), "values", values, (len(X), len(Y)))


def kernel_diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Return ``kernel.diagonal(X)`` and check that it is finite and at least 0.

    Shapes: `X` (n, d).
    """
    source = plugins.method(kernel, "diagonal")
    values = plugins.numbers(source, "values", kernel.diagonal(X), (len(X),))
    if np.min(values, initial=0.0) < -1e-4 * np.max(values, initial=0.0):
        raise ValueError(f"{source} must return values of at least 0, got {values.min():g}")
    return np.maximum(values, 0.0)


def kernel_partials(
    kernel: Kernel, distances: np.ndarray | None, products: np.ndarray | None, order: int
) -> Partials:
    """Return validated results of `Kernel.partials` for validated arguments."""
    kernel._check_arguments(distances, products, order)
    distances, products = (
        None if values is None else np.asarray(values).astype(precision(np.asarray(values)), copy=False)
        for values in (distances, products)
    )
    entries: Any = kernel.partials(distances, products, order)
    source = plugins.method(kernel, "partials")
    if not isinstance(entries, dict):
        raise TypeError(f"{source} must return a dict of arrays, got {type(entries).__name__}")
    used: Any = distances if kernel.uses_distances else products
    return {
        key: plugins.numbers(source, f"entry {key}", values, used.shape)
        for key, values in entries.items()
    }


def check_declarations(kernel: Kernel, n_features: int | None = None) -> None:
    """Raise TypeError or ValueError for invalid declarations of a third-party kernel."""
    if not plugins.is_third_party(kernel):
        return
    declared: Any = kernel
    for name in _FLAGS:
        if not isinstance(getattr(declared, name), (bool, np.bool_)):
            source = plugins.method(kernel, name)
            raise TypeError(f"{source} must be True or False, got {getattr(declared, name)!r}")
    symmetry, source = declared.symmetry, plugins.method(kernel, "symmetry")
    if not isinstance(symmetry, str) or symmetry not in SYMMETRIES:
        raise ValueError(f"{source} must be one of {list(SYMMETRIES)}, got {symmetry!r}")
    source = plugins.method(kernel, "smoothness")
    plugins.number(source, "a number", declared.smoothness, least=0.0, finite=False)
    source = plugins.method(kernel, "lipschitz")
    if not callable(declared.lipschitz):
        raise TypeError(
            f"{source} must be a method with the argument n_features, got {declared.lipschitz!r}"
        )
    plugins.number(source, "a constant", declared.lipschitz(n_features), least=0.0, finite=False)
