"""What every kernel is, and what kernels share: precision, norms, tiles, checks of parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from .. import answers
from ..compiled import njit
from ..matrices import in_threads, refuse_half
from .spectral import Spectrum

if TYPE_CHECKING:
    from .combinations import Product, Scaled, Sum

# Values worked on at once: two tiles of float64 stay in a core's cache.
TILE = 2**15

HALF, SINGLE, DOUBLE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
# Of float32 numbers with all their digits.
_LEAST, _MOST = float(np.finfo(SINGLE).tiny), float(np.finfo(SINGLE).max)

# Squares of widths up to here, and of their inverses, are numbers.
LARGEST_WIDTH = 1e150

# Under which maps T of both inputs a kernel keeps its values, `Kernel.symmetry`: few, then more.
NOTHING = "nothing"
PERMUTATIONS = "permutations"
ISOMETRIES = "isometries"
SYMMETRIES = (NOTHING, PERMUTATIONS, ISOMETRIES)

Norms: TypeAlias = tuple[np.ndarray, np.ndarray]
Partials: TypeAlias = dict[tuple[int, int], np.ndarray]


class Kernel(BaseEstimator, ABC):
    """A positive semi-definite function ``k(x, y) = <phi(x), phi(y)>``, parameters only.

    Constructors store their parameters, so that kernels clone, pickle and can be searched over;
    `validate` checks them. Inputs are dense. Answers have the common precision of both inputs:
    float32 if both are, else float64.

    A kernel with derivatives is a function ``Phi(s, t)`` of ``s = |x - y|^2`` and ``t = <x, y>``.
    It says which of the two it reads, by `uses_distances` and `uses_products`, how smooth it is,
    and overrides `_partials`.

    What a class says of its values, `symmetry`, `thread_safe`, `spectrum`, `lipschitz`, `smoothness`,
    `uses_distances`, `uses_products`, `_partials` and `_blurred`, is about the `matrix` that it defines
    or inherits. A class that defines `matrix` anew has none of its parent's, unless it says so again:
    ask by `kernel_symmetry`, `kernel_thread_safe`, `kernel_spectrum`, `kernel_lipschitz`,
    `kernel_smoothness`, `kernel_arguments`.

    ``k1 + k2``, ``k1 * k2`` and ``2.0 * k`` are kernels too.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, Linear
    >>> kernel = 2.0 * Gaussian() + Linear()
    >>> kernel
    Sum(left=Scaled(factor=2.0, kernel=Gaussian()), right=Linear())
    >>> found = kernel.partials(np.array([0.0]), np.array([1.0]), order=1)
    >>> {which: float(values[0]) for which, values in sorted(found.items())}
    {(0, 0): 3.0, (0, 1): 1.0, (1, 0): -1.0}
    """

    # Else NumPy's numbers and arrays would take ``array * kernel`` for themselves, entry by entry.
    __array_ufunc__ = None

    def validate(self, n_features: int | None = None) -> None:
        """Raise ValueError or TypeError if a parameter is out of its range."""

    @abstractmethod
    def matrix(self, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None) -> np.ndarray:
        """The kernel of every row of `X` and every row of `Y`.

        Parameters
        ----------
        X : (n, d) array
        Y : (m, d) array
        norms : pair of arrays, optional
            `half_norms` of both, from a caller that asks about the same rows again and again.

        Returns
        -------
        (n, m) array
            ``k(x_i, y_j)``, an array of the caller's own.
        """

    @abstractmethod
    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """``k(x_i, x_i)`` for every row of `X`, (n,)."""

    def lipschitz(self, n_features: int | None = None) -> float:
        """The least known L with ``|phi(x) - phi(y)| <= L |x - y|``; infinity where there is none.

        Parameters
        ----------
        n_features : int, optional
            Number of coordinates, for kernels whose constant depends on it; without it the answer is
            about any number of them.
        """
        return np.inf

    @property
    def symmetry(self) -> str:
        """Under which linear maps T ``k(T x, T y) = k(x, y)``, as far as is known.

        "isometries": all that keep inner products; "permutations": those that reorder features;
        "nothing", the default.
        """
        return NOTHING

    @property
    def thread_safe(self) -> bool:
        """Whether several threads may ask for `matrix` at once; False, the default, if nobody says so.

        Means over changes are then made by several threads, each with products of its own; those of
        other kernels are asked for by one.
        """
        return False

    @property
    def smoothness(self) -> float:
        """How often k can be differentiated in each argument.

        The largest m such that ``D_x^a D_y^b k`` exists and is continuous for all ``|a|, |b| <= m``,
        as far as is known.
        """
        return 0.0

    @property
    def uses_distances(self) -> bool:
        """Whether `partials` reads squared distances."""
        return False

    @property
    def uses_products(self) -> bool:
        """Whether `partials` reads inner products."""
        return False

    def partials(
        self, distances: np.ndarray | None, products: np.ndarray | None, order: int
    ) -> Partials:
        """All partial derivatives of Phi up to an order.

        Parameters
        ----------
        distances : array, optional
            ``s = |x - y|^2``, at least 0; None will do unless `uses_distances`.
        products : array, optional
            ``t = <x, y>``; None will do unless `uses_products`.
        order : int
            At most ``2 * smoothness``.

        Returns
        -------
        dict
            ``{(i, j): d^(i + j) Phi / ds^i dt^j}`` with ``i + j <= order``: arrays of the caller's
            own, with the shape and precision of the input. Those absent are identically 0. Those
            that are infinite at ``s = 0`` are 0 there, as are the terms of k's derivatives that they
            belong to.

        Raises
        ------
        NotImplementedError
            If the kernel is no function of s and t, or its derivatives are not known.
        ValueError
            If it has fewer derivatives, or an array that it reads is missing.
        """
        refuse_inherited_partials(self, "_partials")
        uses_distances, uses_products = kernel_arguments(self)
        if not (uses_distances or uses_products):
            raise NotImplementedError(f"{_describe(self)} has no derivatives")
        _check_order(self, order)
        for name, values, used in (
            ("distances", distances, uses_distances),
            ("products", products, uses_products),
        ):
            if used and values is None:
                raise ValueError(f"{_describe(self)} needs {name}, got None")
        distances, products = _floats(distances), _floats(products)
        found: Any = self._partials(distances, products, order)
        known: Any = distances if uses_distances else products
        source = answers.method(self, "_partials")
        if not isinstance(found, dict):
            raise TypeError(f"{source} must return a dict of arrays, got {type(found).__name__}")
        shape = known.shape
        return {key: answers.numbers(source, f"entry {key}", v, shape) for key, v in found.items()}

    def __call__(self, X: Any, Y: Any = None) -> Any:
        """The values between rows as scikit-learn asks a kernel for them: looked at, as is the question.

        Parameters
        ----------
        X : (n, d) array-like, or (d,)
            A single row only if `Y` is one, too.
        Y : (m, d) array-like, or (d,), optional
            `X` itself by default.

        Returns
        -------
        (n, m) array, or float
            A number for two single rows, as ``sklearn.metrics.pairwise_kernels`` wants it.

        Raises
        ------
        TypeError, ValueError
            Unless both are dense, finite real numbers with as many features, in more than half
            precision, and where a parameter is out of its range.
        """
        same = Y is None or Y is X
        self.validate()
        rows = _real_rows("X", X)
        others = rows if same else _real_rows("Y", Y)
        if rows.ndim != others.ndim or rows.shape[-1] != others.shape[-1]:
            raise ValueError(
                f"Y must have rows like those of X, which have shape {rows.shape}, got {others.shape}"
            )
        if rows.ndim == 2:
            return kernel_matrix(self, rows, others)
        return float(kernel_matrix(self, rows[None], others[None])[0, 0])

    def _partials(self, distances: Any, products: Any, order: int) -> Partials:
        """`partials` of checked arguments: those that the kernel reads are arrays of floats."""
        raise NotImplementedError(f"{_describe(self)} has no derivatives")

    def blurred(self, variance: float, n_features: int) -> Kernel | None:
        """The mean of ``k(x + e, y + e')`` over Gaussian noise, None where no closed form is known.

        Parameters
        ----------
        variance : float
            Of every coordinate of ``e - e'``. The noises are independent, with mean 0 and
            covariances that are multiples of the identity.
        n_features : int
            Number of coordinates.

        Returns
        -------
        Kernel or None
            The kernel itself if `variance` is 0.
        """
        check_real("variance", variance, strict=False)
        if variance == 0:
            return self
        return self._blurred(float(variance), n_features) if says(self, "_blurred") else None

    def _blurred(self, variance: float, n_features: int) -> Kernel | None:
        """`blurred` by a variance above 0."""
        return None

    def spectrum(self) -> Spectrum | None:
        """The law of w in ``k(x, y) = E cos(<w, x - y>)``; None, the default, where it is not known.

        Random features draw their templates from it.
        """
        return None

    @property
    def _level(self) -> float | None:
        """``k(x, x)`` if it is the same for every x, else None."""
        return None

    def __add__(self, other: Any) -> Sum:
        from .combinations import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Product | Scaled:
        from .combinations import Product

        return Product(self, other) if isinstance(other, Kernel) else self.__rmul__(other)

    def __rmul__(self, other: Any) -> Scaled:
        from .combinations import Scaled

        if not is_real(other):
            return NotImplemented
        check_real("factor", other, strict=False)
        return Scaled(self, other)


def kernel_matrix(
    kernel: Kernel, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None
) -> np.ndarray:
    """``kernel.matrix(X, Y, norms)``, looked at: who builds on a kernel's values asks here.

    Raises
    ------
    TypeError, ValueError
        If it is no finite array of shape (n, m).
    """
    source = answers.method(kernel, "matrix")
    found = answers.ask(kernel, source, kernel.matrix, X, Y, norms)
    return answers.numbers(source, "values", found, (len(X), len(Y)))


def kernel_diagonal(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """``kernel.diagonal(X)``, looked at.

    Raises
    ------
    TypeError, ValueError
        If it is no finite array of shape (n,), or a value is below 0 by more than rounding.
    """
    source = answers.method(kernel, "diagonal")
    found = answers.ask(kernel, source, kernel.diagonal, X)
    found = answers.numbers(source, "values", found, (len(X),))
    if np.min(found, initial=0.0) < -1e-4 * np.max(found, initial=0.0):
        raise ValueError(f"{source} must return values of at least 0, got {found.min():g}")
    return np.maximum(found, 0.0)


def kernel_lipschitz(kernel: Kernel, n_features: int | None = None) -> float:
    """``kernel.lipschitz(n_features)``, looked at; infinity where `matrix` is of another class.

    Raises
    ------
    TypeError, ValueError
        If it is no number of at least 0; infinity is one.
    """
    if not says(kernel, "lipschitz"):
        return np.inf
    source = answers.method(kernel, "lipschitz")
    found = kernel.lipschitz(n_features)
    return answers.number(source, "a constant", found, least=0.0, finite=False)


def kernel_symmetry(kernel: Kernel) -> str:
    """``kernel.symmetry``, looked at; "nothing" where `matrix` is of another class.

    Raises
    ------
    ValueError
        If it is none of the known words.

    Examples
    --------
    >>> from structinv.kernels import Gaussian
    >>> class Stretched(Gaussian):
    ...     def matrix(self, X, Y, norms=None):
    ...         return super().matrix(X * [1.0, 3.0], Y * [1.0, 3.0])
    >>> kernel_symmetry(Gaussian()), kernel_symmetry(Stretched())
    ('isometries', 'nothing')
    """
    if not says(kernel, "symmetry"):
        return NOTHING
    found = kernel.symmetry
    if not isinstance(found, str) or found not in SYMMETRIES:
        source = answers.method(kernel, "symmetry")
        raise ValueError(f"{source} must be one of {list(SYMMETRIES)}, got {found!r}")
    return found


def kernel_smoothness(kernel: Kernel) -> float:
    """``kernel.smoothness``, looked at; 0 where `matrix` is of another class.

    Raises
    ------
    TypeError, ValueError
        If it is no number of at least 0; infinity is one.
    """
    if not says(kernel, "smoothness"):
        return 0.0
    source = answers.method(kernel, "smoothness")
    return answers.number(source, "a number", kernel.smoothness, least=0.0, finite=False)


def kernel_arguments(kernel: Kernel) -> tuple[bool, bool]:
    """``kernel.uses_distances`` and ``kernel.uses_products``; False where `matrix` is of another class.

    Only where they are true is the kernel known to be a function of distances, and of products.
    """
    names = ("uses_distances", "uses_products")
    distances, products = (says(kernel, name) and bool(getattr(kernel, name)) for name in names)
    return distances, products


def kernel_thread_safe(kernel: Kernel) -> bool:
    """``kernel.thread_safe``, looked at; False where `matrix` is of another class.

    Examples
    --------
    >>> from structinv.kernels import CallableKernel, Gaussian
    >>> own = CallableKernel(lambda X, Y: X @ Y.T)
    >>> kernel_thread_safe(2.0 * Gaussian()), kernel_thread_safe(Gaussian() + own)
    (True, False)
    """
    return says(kernel, "thread_safe") and kernel.thread_safe is True


def kernel_spectrum(kernel: Kernel) -> Spectrum | None:
    """``kernel.spectrum()``, looked at; None where `matrix` is of another class.

    Raises
    ------
    TypeError
        If it is neither a Spectrum nor None.
    """
    if not says(kernel, "spectrum"):
        return None
    found = kernel.spectrum()
    if found is not None and not isinstance(found, Spectrum):
        source = answers.method(kernel, "spectrum")
        raise TypeError(f"{source} must return a Spectrum or None, got {found!r}")
    return found


def says(kernel: Kernel, name: str, of: str = "matrix") -> bool:
    """Whether what has this name is about the values of `kernel`, or what else it is `of`.

    It is if the class that defines it also defines `matrix`, or inherits it: a class that overrides
    `matrix` alone has other values than its parent spoke of.
    """
    for kind in type(kernel).__mro__:
        if name in vars(kind):
            return True
        if of in vars(kind):
            break
    return False


def refuse_inherited_partials(kernel: Kernel, name: str) -> None:
    """Raise NotImplementedError if derivatives, by the method of this name, are of another `matrix`."""
    if not says(kernel, name):
        raise NotImplementedError(
            f"{_describe(kernel)} has no derivatives: it defines matrix, and no partials of its own"
        )


def _real_rows(name: str, X: Any) -> np.ndarray:
    """What kernels are asked about, as an array of floats of one or two dimensions."""
    if sp.issparse(X):
        raise TypeError(f"{name} must be dense for a kernel, got {type(X).__name__}: pass X.toarray()")
    refuse_half(name, X)
    rows = np.asarray(X)
    if rows.dtype.kind == "O":
        rows = np.asarray(X, dtype=np.float64)
    if rows.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {rows.dtype}")
    if rows.ndim not in (1, 2):
        hint = f": pass {name}.reshape(len({name}), -1)" if rows.ndim > 2 else ""
        raise ValueError(f"{name} must have shape (n, d), a row an input, got {rows.shape}{hint}")
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if not answers.all_finite(rows):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return rows


def precision(*arrays: np.ndarray) -> np.dtype:
    """float32 if all arrays are, else float64; TypeError for float16, in which kernels lose too much."""
    kinds = [array.dtype for array in arrays]
    if HALF in kinds:
        refuse_half("XY"[kinds.index(HALF)], arrays[kinds.index(HALF)])
    return SINGLE if all(kind == SINGLE for kind in kinds) else DOUBLE


def squared_norms(X: np.ndarray) -> np.ndarray:
    """``|x_i|^2`` of every row, summed in float64."""
    return _squared_norms(np.ascontiguousarray(X))


def half_norms(X: np.ndarray) -> np.ndarray:
    """Half the squared norm of every row, in the precision of `X`, infinite where that has none."""
    # Whoever needs them looks at them.
    with np.errstate(over="ignore"):
        return (0.5 * squared_norms(X)).astype(precision(X), copy=False)


def same_precision(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays in their common precision, uncopied if they are."""
    dtype = precision(X, Y)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)


def holds(dtype: np.dtype, *values: float) -> bool:
    """Whether float32, if it is that, has these numbers of at least 0 neither infinite nor cut short."""
    return dtype == DOUBLE or all(value == 0 or _LEAST <= value <= _MOST for value in values)


def in_double(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Its values of float32 rows, worked out in float64: for what float32 does not hold."""
    values = kernel.matrix(X.astype(np.float64), Y.astype(np.float64))
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def is_real(value: Any) -> bool:
    """Whether it is a real number, and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_real(name: str, value: Any, *, strict: bool = True) -> None:
    """Raise TypeError or ValueError unless `value` is finite and above 0, or 0 if not `strict`."""
    allowed = "a number above 0" if strict else "a number of at least 0"
    if not is_real(value):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    if not (0 < value < np.inf or (value == 0 and not strict)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def check_width(name: str, value: Any, largest: float = LARGEST_WIDTH) -> None:
    """Raise TypeError or ValueError unless it is a number above 0 whose square is far from no number.

    Examples
    --------
    >>> check_width("sigma", 1e-200)
    Traceback (most recent call last):
        ...
    ValueError: sigma must be a number from 1e-150 to 1e+150, got 1e-200: scale the features
    """
    check_real(name, value)
    if not 1.0 / largest <= float(value) <= largest:
        raise ValueError(
            f"{name} must be a number from {1.0 / largest:g} to {largest:g}, got {value!r}: "
            "scale the features"
        )


def _describe(kernel: Kernel) -> str:
    """The kernel with all its parameters; its repr leaves out defaults."""
    parameters = kernel.get_params(deep=False).items()
    return f"{type(kernel).__name__}({', '.join(f'{name}={value!r}' for name, value in parameters)})"


def _check_order(kernel: Kernel, order: Any) -> None:
    if not isinstance(order, Integral) or isinstance(order, bool):
        raise TypeError(f"order must be an integer of at least 0, got {order!r}")
    if int(order) < 0:
        raise ValueError(f"order must be an integer of at least 0, got {order!r}")
    smoothness = kernel_smoothness(kernel)
    if int(order) > 2 * smoothness:
        m = int(smoothness)
        known = f"derivatives up to {_ordinal(m)} order in each argument" if m else "no derivatives"
        raise ValueError(
            f"{_describe(kernel)} has {known}; this needs {_ordinal((int(order) + 1) // 2)} order"
        )


def _ordinal(number: int) -> str:
    words = ("zeroth", "first", "second", "third", "fourth")
    return words[number] if number < len(words) else f"{number}th"


def _floats(values: Any) -> np.ndarray | None:
    if values is None:
        return None
    values = np.asarray(values)
    return values.astype(precision(values), copy=False)


def in_tiles(
    values: np.ndarray,
    transform: Callable[[np.ndarray, slice], Any],
    *,
    cost: int = 1,
    least_rows: int = 1,
) -> np.ndarray:
    """`values` with every tile of rows changed in place while the cache holds it.

    ``transform(tile, rows)`` is told which rows the tile has; `cost` is its work on a value,
    relative to an exponential. It may ask for more rows than the cache holds.
    """
    n_rows, n_columns = values.shape
    step = max(least_rows, TILE // max(1, n_columns))

    def work(part: slice) -> None:
        for first in range(part.start, part.stop, step):
            rows = slice(first, min(first + step, part.stop))
            transform(values[rows], rows)

    # A thread costs as much as some hundred thousand exponentials.
    in_threads(work, n_rows, values.size * cost // 4)
    return values


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _squared_norms(X):
    norms = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += np.float64(X[i, j]) * X[i, j]
        norms[i] = total
    return norms
