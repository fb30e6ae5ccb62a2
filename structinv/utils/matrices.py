"""Rows of dense or CSR matrices: take, join, multiply; choices among ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from .jit import LEAN, njit
from .resources import allowed_threads, controller

Rows: TypeAlias = slice | np.ndarray
# An array or a CSR matrix; type checkers cannot distinguish SciPy's types.
Matrix: TypeAlias = Any

ALL_ROWS = slice(None)
CSR_ARRAYS = ("data", "indices", "indptr")
# Maximum number of threads of a product, and values per thread.
MOST_THREADS = 8
VALUES_A_THREAD = 100_000
# Dense rows per portion of a product.
COMBINED_AT_ONCE = 4096
# Entries of sparse rows per portion: few enough for the cache of a core.
ENTRIES_AT_ONCE = 2**15
# Length of rows for which the maximum of a transposed copy is faster.
SHORT = 16
# Values are equal if they differ by at most this fraction: processors add up numbers in another order.
# `Support.rounding` covers it, so certificates are valid for every choice.
TIES = 32 * float(np.finfo(np.float64).eps)


def take(X: Matrix, rows: Rows) -> Matrix:
    """Return rows of `X` in the given order.

    The result is `X` itself for all rows, and a view for consecutive rows.
    """
    if not isinstance(rows, slice):
        return X[rows]
    if rows == ALL_ROWS:
        return X
    first, last, step = rows.indices(X.shape[0])
    if not sp.issparse(X) or step != 1 or last <= first:
        return X[rows]
    # SciPy would copy the entries, even if the arrays are passed to its constructor.
    entries = slice(X.indptr[first], X.indptr[last])
    part = sp.csr_matrix((last - first, X.shape[1]), dtype=X.dtype)
    part.data, part.indices = X.data[entries], X.indices[entries]
    part.indptr = X.indptr[first : last + 1] - X.indptr[first]
    return part


def refuse_masked(
    name: str, given: Any, hint: str = "fill the masked values first, since they would be used as data"
) -> None:
    """Raise TypeError for a masked array, or a list that contains one."""
    listed = isinstance(given, (list, tuple))
    for number, part in enumerate(given if listed else [given]):
        if isinstance(part, np.ma.MaskedArray):
            place = f"{name}[{number}]" if listed else name
            raise TypeError(f"{place} must be an array without a mask, got a masked array: {hint}")


def refuse_half_or_masked(name: str, X: Any) -> None:
    """Raise TypeError for masked arrays, and for float16 arrays or columns."""
    refuse_masked(name, X)
    listed = isinstance(X, (list, tuple))
    kinds = [getattr(row, "dtype", None) for row in X] if listed else [getattr(X, "dtype", None)]
    if hasattr(X, "columns"):
        kinds = list(X.dtypes)
    if any(isinstance(kind, np.dtype) and kind == np.float16 for kind in kinds):
        better = f"np.array({name}, dtype=np.float32)" if listed else f"{name}.astype(np.float32)"
        raise TypeError(f"{name} must have dtype float32 or float64, got float16: pass {better}")


def independent(rows: Matrix, given: Any) -> Matrix:
    """Return checked rows that the caller cannot overwrite, as a copy if necessary.

    Read-only rows, such as those of a memory-mapped file, are not copied.
    """
    if sp.issparse(rows):
        parts = [(getattr(rows, name), getattr(given, name, None)) for name in CSR_ARRAYS]
        shared = any(other is not None and np.may_share_memory(own, other) for own, other in parts)
        return rows.copy() if shared and _is_writable(rows.data) else rows
    shared = rows is given or rows.base is not None
    if shared and hasattr(given, "iloc"):
        # The conversion of a data frame with several arrays is a copy, and then no row is a view.
        shared = np.may_share_memory(rows, np.asarray(given.iloc[:1]))
    return np.array(rows, order="K") if shared and _is_writable(rows) else rows


def _is_writable(array: Any) -> bool:
    """Return True if an array or the array that it is a view of is writable."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def check_indices(name: str, X: Any, first: int = 0) -> None:
    """Raise ValueError if a sparse matrix has invalid indices.

    Compiled functions would read outside the arrays. scikit-learn checks only the values. Objects other
    than sparse matrices are ignored. `first` is the number of the first row, for messages.
    """
    if not sp.issparse(X):
        return
    if X.format == "coo":
        pairs = zip(X.coords, X.shape, strict=True)
        reason = next(filter(None, (_outside(part, size) for part, size in pairs)), "")
    else:
        reason = _wrong_places(X if X.format in ("csr", "csc", "bsr") else X.tocsr(), first)
    if reason:
        raise ValueError(f"{name} must have {reason}")


def _wrong_places(X: Any, first: int) -> str:
    """Return the rule that a matrix in a compressed format violates, or an empty string."""
    n_outer, n_inner = X.shape if X.format != "csc" else X.shape[::-1]
    if X.format == "bsr":
        n_outer, n_inner = n_outer // X.blocksize[0], n_inner // X.blocksize[1]
    indptr, indices = X.indptr, X.indices
    if indptr.shape != (n_outer + 1,) or indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        return f"an increasing indptr of {n_outer + 1} numbers from 0"
    if indices.shape != (indptr[-1],) or len(X.data) != indptr[-1]:
        got = f"{len(indices)} and {len(X.data)}"
        return f"indices and values of {indptr[-1]} entries, as in indptr, got {got}: call prune()"
    outer = "column" if X.format == "csc" else "row"
    return _outside(
        indices, n_inner, lambda at: f" in {outer} {first + np.searchsorted(indptr, at, 'right') - 1}"
    )


def _outside(indices: np.ndarray, size: int, place: Callable[[int], str] = lambda at: "") -> str:
    """Return the rule of the first index outside the shape, or an empty string."""
    if len(indices) == 0 or (indices.min() >= 0 and indices.max() < size):
        return ""
    at = int(np.argmax((indices < 0) | (indices >= size)))
    return f"indices from 0 to {size - 1}, got {indices[at]}{place(at)}"


def indices_increase(X: sp.csr_matrix) -> bool:
    """Return True if the indices of every row of a CSR matrix are sorted and unique."""
    falls = X.indices[1:] <= X.indices[:-1]
    first = X.indptr[1:-1]
    # The first entry of a row may have a smaller index than the last one of the row before.
    falls[first[(first > 0) & (first < X.nnz)] - 1] = False
    return not np.any(falls)


def floating(X: Matrix) -> Matrix:
    """Return `X` if its dtype is floating, otherwise a copy in float64."""
    return X if X.dtype.kind == "f" else X.astype(np.float64)


def csr(X: Matrix) -> sp.csr_matrix:
    """Return `X` as a CSR matrix with a floating dtype, without a copy if possible."""
    if sp.issparse(X):
        return floating(X)
    # SciPy would build index arrays of all entries first.
    X = np.ascontiguousarray(floating(X))
    indptr = np.zeros(len(X) + 1, dtype=np.int64)
    _count_entries(X, indptr)
    kind = _index_kind(indptr[-1], X.shape[1])
    rows = sp.csr_matrix(X.shape, dtype=X.dtype)
    rows.indices, rows.data = np.empty(indptr[-1], dtype=kind), np.empty(indptr[-1], dtype=X.dtype)
    _write_entries(X, rows.indices, rows.data)
    rows.indptr = indptr.astype(kind)
    return rows


def _index_kind(n_entries: int, n_columns: int) -> type[np.signedinteger]:
    """Return the smallest index dtype for these numbers of entries and columns."""
    return np.int32 if max(n_entries, n_columns) <= np.iinfo(np.int32).max else np.int64


def dense(X: Any) -> np.ndarray:
    """Return a dense array; `X` itself if it is one."""
    return X.toarray() if sp.issparse(X) else X


def dense_rows(X: Matrix, rows: Any = ALL_ROWS) -> np.ndarray:
    """Return the given rows as a dense array."""
    return dense(take(X, rows) if isinstance(rows, slice) else X[rows])


def pick(rows: Rows, chosen: np.ndarray, n_rows: int) -> Rows:
    """Select the items `chosen` from a selection `rows`, which has `n_rows` rows."""
    if len(chosen) == n_rows:
        return rows
    if isinstance(rows, slice):
        start, step = rows.start or 0, rows.step or 1
        return start + step * chosen
    return rows[chosen]


def count(rows: Rows, n_rows: int) -> int:
    """Return the number of rows in a selection from `n_rows` rows."""
    if isinstance(rows, slice):
        return len(range(*rows.indices(n_rows)))
    return len(rows)


def stack(parts: Sequence[Matrix]) -> Matrix:
    """Stack the rows of all parts; the result is CSR if any part is."""
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        return sp.csr_matrix(sp.vstack(parts, format="csr"))
    return np.vstack(parts)


def select(choice: np.ndarray, parts: Sequence[Matrix]) -> Matrix:
    """Return a matrix with row i of part ``choice[i]``; all parts are equally long."""
    if len(parts) == 1:
        return parts[0]
    if not any(sp.issparse(part) for part in parts):
        chosen = np.array(parts[0], copy=True)
        for number, part in enumerate(parts[1:], start=1):
            mask = choice == number
            chosen[mask] = part[mask]
        return chosen
    place = np.argsort(np.argsort(choice, kind="stable"), kind="stable")
    grouped = stack([part[choice == number] for number, part in enumerate(parts)])
    return grouped[place]


class CsrArrays(NamedTuple):
    """Rows of a CSR matrix, in the format of the compiled functions."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


def csr_arrays(X: sp.csr_matrix, part: slice = ALL_ROWS) -> CsrArrays:
    """Return the arrays of neighboring rows; positions of entries are those in `X`."""
    indptr = X.indptr if part == ALL_ROWS else X.indptr[part.start : part.stop + 1]
    return CsrArrays(indptr, X.indices, X.data)


def with_data(X: sp.csr_matrix, data: np.ndarray) -> sp.csr_matrix:
    """Return a CSR matrix with new values that shares the index arrays of `X`."""
    # The constructor would copy 64-bit indices into 32-bit ones.
    other = sp.csr_matrix(X.shape, dtype=data.dtype)
    other.data, other.indices, other.indptr = data, X.indices, X.indptr
    return other


def short_indices(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return the matrix with 32-bit indices if these suffice; the values are shared.

    SciPy returns both index dtypes, and compiled functions would be compiled for each.
    """
    kind = _index_kind(X.nnz, X.shape[1])
    if X.indices.dtype == X.indptr.dtype == kind:
        return X
    shorter = with_data(X, X.data)
    shorter.indices, shorter.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    return shorter


def read_only(X: Any) -> Any:
    """Return a read-only view of an array or CSR matrix."""
    if sp.issparse(X):
        locked = with_data(X, read_only(X.data))
        locked.indices, locked.indptr = read_only(X.indices), read_only(X.indptr)
        return locked
    if not isinstance(X, np.ndarray):
        return X
    locked = X.view()
    locked.flags.writeable = False
    return locked


def contiguous_read_only(X: np.ndarray) -> np.ndarray:
    """Return a C-contiguous read-only array.

    Functions are compiled separately for each memory order and for read-only arrays.
    """
    return read_only(np.ascontiguousarray(X))


def contiguous_writable(X: np.ndarray) -> np.ndarray:
    """Return a C-contiguous writable array, a copy if necessary.

    Functions with compiled helpers in common then use one version of the helpers.
    """
    return np.require(X, requirements=["C", "W"])


def scale_rows(X: Matrix, factors: np.ndarray) -> Matrix:
    """Multiply row i by ``factors[i]``."""
    if sp.issparse(X):
        return with_data(X, X.data * np.repeat(factors, np.diff(X.indptr)))
    return X * factors[:, None]


def in_threads(work: Callable[[slice], None], n_rows: int, size: int, most: int | None = None) -> None:
    """Run a function on portions of rows, in several threads if there is enough work.

    All callers in the process share the threads of `allowed_threads`.
    """
    wanted = min(MOST_THREADS, size // VALUES_A_THREAD)
    n_threads = _take_threads(wanted) if wanted > 1 else 0
    try:
        count = max(1, n_threads, 1 if most is None else -(-n_rows // most))
        edges = np.linspace(0, n_rows, max(1, min(count, n_rows)) + 1).astype(int)
        parts = [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]
        if n_threads < 2:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, parts))
    finally:
        _give_back(n_threads)


_threads_lock = Lock()
_threads_taken = 0


def _take_threads(wanted: int) -> int:
    """Reserve free threads, at most the wanted number; return their number."""
    global _threads_taken
    allowed = allowed_threads()
    with _threads_lock:
        n_threads = max(0, min(wanted, allowed - _threads_taken))
        _threads_taken += n_threads
    return n_threads


def _give_back(n_threads: int) -> None:
    global _threads_taken
    with _threads_lock:
        _threads_taken -= n_threads


_blas_lock = Lock()
_blas_users = 0
_blas_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in the whole process, for a `with` statement.

    NumPy and SciPy have separate thread pools with busy waiting. Alternating small products and
    factorizations are ten times slower with both pools than with one thread.
    """
    global _blas_users, _blas_limit
    # The first user sets the limit and the last one removes it; others would restore a limit of one.
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = controller().limit(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.restore_original_limits()


def longest_row(indptr: np.ndarray) -> int:
    """Return the largest number of entries in a CSR row."""
    return int(np.diff(indptr).max(initial=0))


def ranges(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate ranges of integers; also return the range of each integer."""
    which = np.repeat(np.arange(len(lengths)), lengths)
    first = starts - (np.cumsum(lengths) - lengths)
    return first[which] + np.arange(len(which)), which


def squared_lengths(X: Matrix) -> np.ndarray:
    """Return ``|x|^2`` of each row, float64 of shape (n,)."""
    if sp.issparse(X):
        n_rows, found = X.shape[0], np.zeros(X.shape[0])
        # Portions avoid the allocation of squares of all entries.
        step = max(1, ENTRIES_AT_ONCE * n_rows // max(1, X.nnz))
        for first in range(0, n_rows, step):
            starts = X.indptr[first : first + step + 1]
            squares = np.square(X.data[starts[0] : starts[-1]], dtype=np.float64)
            # `reduceat` would return one value for an empty range.
            filled = np.flatnonzero(np.diff(starts))
            if len(filled):
                found[first + filled] = np.add.reduceat(squares, starts[filled] - starts[0])
        return found
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def magnitudes(X: Matrix) -> Matrix:
    """Return the absolute values of a matrix; CSR matrices share the index arrays."""
    return with_data(X, np.abs(X.data)) if sp.issparse(X) else np.abs(X)


def row_sizes(points: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
    """Return ``<V[assign[i]], |points[i]|>`` for every row i, for V >= 0."""
    return row_dots(magnitudes(points), V, assign)


def products(points: Matrix, table: np.ndarray) -> np.ndarray:
    """Return ``points @ table`` of shape (n, p), without a copy of CSR rows."""
    if sp.issparse(points):
        table, found = np.ascontiguousarray(table), np.zeros((points.shape[0], table.shape[1]))
        _products_csr(points.indptr, points.indices, points.data, table, found)
        return found
    if points.dtype == table.dtype or len(points) <= COMBINED_AT_ONCE:
        return np.asarray(points @ table)
    # In portions, since a product with other precision makes a copy of the points.
    portions = range(0, len(points), COMBINED_AT_ONCE)
    return np.concatenate([points[first : first + COMBINED_AT_ONCE] @ table for first in portions])


def add_combinations(points: Matrix, weights: np.ndarray, into: np.ndarray) -> None:
    """Add ``points.T @ weights`` to `into`, without a copy of CSR rows."""
    if sp.issparse(points):
        used = np.empty(weights.shape[1], dtype=np.int64)
        _add_combinations_csr(points.indptr, points.indices, points.data, weights, used, into)
        return
    # In portions, since a product with other precision makes a copy of the points.
    for first in range(0, len(points), COMBINED_AT_ONCE):
        part = slice(first, first + COMBINED_AT_ONCE)
        into += points[part].T @ weights[part]


def row_dots(points: Matrix, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
    """Return ``<V[assign[i]], points[i]>`` for every row i, in float64."""
    V = np.ascontiguousarray(V, dtype=np.float64)
    if sp.issparse(points):
        dots = np.empty(points.shape[0])
        _row_dots_csr(points.indptr, points.indices, points.data, V, assign, dots)
        return dots
    if len(V) == 1:
        return np.asarray(points @ V[0], dtype=np.float64)
    dots = np.empty(len(points))
    _row_dots_dense(np.ascontiguousarray(points), V, assign, dots)
    return dots


@njit(**LEAN)
def _count_entries(X, indptr):
    for i in range(X.shape[0]):
        found = 0
        for k in range(X.shape[1]):
            found += X[i, k] != 0
        indptr[i + 1] = indptr[i] + found


@njit(**LEAN)
def _write_entries(X, indices, data):
    at = 0
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            if X[i, k] != 0:
                indices[at], data[at] = k, X[i, k]
                at += 1


@njit(**LEAN)
def _put_rows(first, indptr, indices, data, all_indices, all_data):
    """Copy row i of a part to the entries from ``first[i]``."""
    for i in range(len(first)):
        shift = first[i] - indptr[i]
        for k in range(indptr[i], indptr[i + 1]):
            all_indices[shift + k] = indices[k]
            all_data[shift + k] = data[k]


@njit(**LEAN)
def _products_csr(indptr, indices, data, table, found):
    if table.shape[1] == 1:
        for i in range(found.shape[0]):
            total = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                total += data[e] * table[indices[e], 0]
            found[i, 0] = total
        return
    for i in range(found.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            row, x = table[indices[e]], data[e]
            for p in range(found.shape[1]):
                found[i, p] += x * row[p]


@njit(**LEAN)
def _add_combinations_csr(indptr, indices, data, weights, used, into):
    n_outputs = weights.shape[1]
    for i in range(weights.shape[0]):
        # With many outputs most weights of a row are zero.
        n_used = 0
        for k in range(n_outputs):
            if weights[i, k] != 0.0:
                used[n_used] = k
                n_used += 1
        for e in range(indptr[i], indptr[i + 1]):
            row, x = into[indices[e]], data[e]
            for t in range(n_used):
                row[used[t]] += weights[i, used[t]] * x


@njit(**LEAN)
def _row_dots_csr(indptr, indices, data, V, assign, dots):
    for i in range(len(dots)):
        v = assign[i]
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += V[v, indices[k]] * data[k]
        dots[i] = total


@njit(**LEAN)
def _row_dots_dense(points, V, assign, dots):
    for i in range(len(dots)):
        v = assign[i]
        total = 0.0
        for k in range(points.shape[1]):
            total += V[v, k] * points[i, k]
        dots[i] = total


def interleave(mask: np.ndarray, inside: Matrix, outside: Matrix) -> Matrix:
    """Merge rows of `inside` where `mask` is True with rows of `outside` elsewhere."""
    if np.all(mask):
        return inside
    if not np.any(mask):
        return outside
    if sp.issparse(inside) and sp.issparse(outside):
        return _interleave_csr(mask, inside, outside)
    place = np.empty(len(mask), dtype=np.intp)
    place[mask] = np.arange(inside.shape[0])
    place[~mask] = inside.shape[0] + np.arange(outside.shape[0])
    return stack([inside, outside])[place]


def _interleave_csr(mask: np.ndarray, inside: Matrix, outside: Matrix) -> Matrix:
    # SciPy would copy both matrices twice and check each copy.
    lengths = np.empty(len(mask), dtype=np.int64)
    lengths[mask], lengths[~mask] = np.diff(inside.indptr), np.diff(outside.indptr)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    arrays = (inside.indices, outside.indices, inside.indptr, outside.indptr)
    kind = np.result_type(*arrays) if ends[-1] <= np.iinfo(np.int32).max else np.dtype(np.int64)
    dtype = np.result_type(inside.dtype, outside.dtype)
    joined = sp.csr_matrix((len(mask), inside.shape[1]), dtype=dtype)
    joined.indptr = ends.astype(kind)
    joined.indices, joined.data = np.empty(ends[-1], dtype=kind), np.empty(ends[-1], dtype=dtype)
    for some, part in ((mask, inside), (~mask, outside)):
        places = ends[:-1][some]
        _put_rows(places, part.indptr, part.indices, part.data, joined.indices, joined.data)
    return joined


def resolution(*arrays: Any) -> float:
    """Return a relative tolerance for equality, for the coarsest dtype of the arrays."""
    floats = [array.dtype for array in arrays if array is not None and array.dtype.kind == "f"]
    return max(1e-9, 16 * max((float(np.finfo(dtype).eps) for dtype in floats), default=0.0))


def rounding(x: np.ndarray, z: np.ndarray) -> float:
    """Return an absolute tolerance for the equality of two points."""
    size = max(float(np.max(np.abs(part), initial=0.0)) for part in (x, z))
    return resolution(x, z) * size


def row_max(values: np.ndarray) -> np.ndarray:
    """Return the largest value of each row, (n,)."""
    if values.shape[1] > SHORT:
        return np.max(values, axis=1)
    # NumPy starts a loop for each row of an array.
    return np.max(np.ascontiguousarray(values.T), axis=0)


def first_best(values: np.ndarray) -> np.ndarray:
    """Return the position of the largest value of each row, the first of equal ones.

    Shapes: `values` (n, m); returns (n,).
    """
    if values.shape[1] == 1:
        return np.zeros(len(values), dtype=np.intp)
    best = row_max(values)[:, None]
    finite = np.isfinite(best)
    least = np.where(finite, best - TIES * np.abs(np.where(finite, best, 0.0)), best)
    return np.argmax((values >= least) | np.isnan(values), axis=1)


def best_first(values: np.ndarray, most: int | None = None) -> np.ndarray:
    """Return the positions of values, the largest first and equal ones in order.

    Shapes: `values` (n,); returns (n,) or (most,).
    """
    if most is not None and len(values) > most:
        last = np.partition(values, -most)[-most]
        places = np.flatnonzero(values >= last - TIES * np.abs(last))
        return places[best_first(values[places])[:most]]
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    falls = ordered[1:] < ordered[:-1] - TIES * np.abs(ordered[:-1])
    groups = np.concatenate([[0], np.cumsum(falls)])[: len(values)]
    return order[np.lexsort((order, groups))]
