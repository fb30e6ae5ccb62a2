"""Base class of kernels: values, derivatives, properties, sums and products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from ..oracles.arguments import real_rows
from ..oracles.columns import with_numbers
from ..utils import plugins
from ..utils.parameters import check_integer, check_number, columns_of
from .kernel_values import NOTHING, Norms, RowCache, describe, is_real, kernel_matrix

if TYPE_CHECKING:
    from .combinations import Product, Scaled, Sum
    from .radial import Spectrum

Partials: TypeAlias = dict[tuple[int, int], np.ndarray]

# Properties that a class declares about the values of its own `matrix`.
_OF_MATRIX = {"symmetry", "thread_safe", "spectral_law", "lipschitz", "smoothness", "adds_features"}
_OF_MATRIX |= {"uses_distances", "uses_products", "partials", "_check_arguments", "_blurred", "_stacked"}


class Kernel(BaseEstimator, ABC):
    """Positive semi-definite function ``k(x, y) = <phi(x), phi(y)>`` of dense rows.

    Constructors only store their parameters; `validate` checks them. So kernels can be cloned, pickled
    and tuned by grid search. Values have the common precision of both inputs: float32 if both are
    float32, else float64.

    A kernel with derivatives is a function ``Phi(s, t)`` of ``s = |x - y|^2`` and ``t = <x, y>``. Its
    class declares `uses_distances`, `uses_products` and `smoothness`, and overrides `partials`.

    A subclass that overrides `matrix` does not inherit what describes kernel values: `symmetry`,
    `thread_safe`, `spectral_law`, `lipschitz`, `smoothness`, `uses_distances`, `uses_products`,
    `adds_features` and the derivatives. Define them again, or the defaults of this class apply.

    ``k1 + k2``, ``k1 * k2`` and ``2.0 * k`` are also kernels.

    See Also
    --------
    check_kernel : Test the values and the properties of a custom kernel.
    CallableKernel : Kernel of a function ``f(X, Y)``, without a class.
    OrbitMean : Average of any kernel over transformations.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, Linear
    >>> kernel = 2.0 * Gaussian() + Linear()
    >>> kernel
    Sum(left=Scaled(factor=2.0, kernel=Gaussian()), right=Linear())
    >>> derivatives = kernel.partials(np.array([0.0]), np.array([1.0]), order=1)
    >>> {which: float(values[0]) for which, values in sorted(derivatives.items())}
    {(0, 0): 3.0, (0, 1): 1.0, (1, 0): -1.0}
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        plugins.reset_declarations(cls, Kernel, {"matrix"}, _OF_MATRIX)
        plugins.reset_declarations(cls, Kernel, {"diagonal"}, {"_level"})

    # Otherwise NumPy evaluates ``array * kernel`` entry by entry.
    __array_ufunc__ = None
    # Attributes that pickles leave out, because they are computed again.
    _caches: ClassVar[tuple[str, ...]] = ("_results",)
    # Number of cached results: for the training rows, and for the rows of the last call.
    _most_results: ClassVar[int] = 2

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without caches."""
        state: dict[str, Any] = dict(super().__getstate__())
        return {name: value for name, value in state.items() if name not in self._caches}

    def _cached(self, X: np.ndarray, key: Any, make: Callable[[], Any]) -> Any:
        """Return a result for rows by a cache of the most recent arrays, as in `RowCache.get`."""
        cache: RowCache = self.__dict__.setdefault("_results", RowCache(self._most_results))
        return cache.get(X, key, make)

    def validate(self, n_features: int | None = None) -> None:
        """Raise ValueError or TypeError if a parameter is out of its range.

        Parameters
        ----------
        n_features : int, optional
            Number of features, for kernels with parameters that depend on it.
        """

    @abstractmethod
    def matrix(self, X: np.ndarray, Y: np.ndarray, norms: Norms | None = None) -> np.ndarray:
        """Compute the kernel for every row of `X` and every row of `Y`.

        Parameters
        ----------
        X : ndarray of shape (n_samples_X, n_features)
            First input.
        Y : ndarray of shape (n_samples_Y, n_features)
            Second input. If it is the same object as `X`, some kernels compute half the values.
        norms : tuple of two ndarrays, optional
            Half the squared norms of the rows of `X` and of `Y`, if the caller has computed them.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples_Y)
            The values ``k(x_i, y_j)``. The caller may modify this array.
        """

    @abstractmethod
    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Compute ``k(x_i, x_i)`` for every row of `X`.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Input.

        Returns
        -------
        ndarray of shape (n_samples,)
            The values ``k(x_i, x_i)``.
        """

    def lipschitz(self, n_features: int | None = None) -> float:
        """Return the smallest known L with ``|phi(x) - phi(y)| <= L |x - y|``.

        Parameters
        ----------
        n_features : int, optional
            Number of features. Without it, the constant holds for any number.

        Returns
        -------
        float
            The constant L, or infinity if none is known.
        """
        return np.inf

    @property
    def symmetry(self) -> str:
        """Linear maps T with ``k(T x, T y) = k(x, y)``.

        "isometries" are all maps that preserve inner products, and "permutations" are permutations of
        the features. The default "nothing" includes only the identity.
        """
        return NOTHING

    @property
    def definite(self) -> bool:
        """True if the kernel is positive semi-definite by construction.

        The default is True. If it is False, estimators compute the eigenvalues of the kernel matrix of
        their training rows, and warn if one is below 0.
        """
        return True

    # Smallest eigenvalue for the training rows before the spectrum correction; None without correction.
    min_eigenvalue: float | None = None

    def prepared(self, X: np.ndarray) -> Kernel:
        """Return the kernel that an estimator uses after training on these rows.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Training rows.

        Returns
        -------
        Kernel
            The kernel itself by default; a corrected one if the kernel has a spectrum correction.
        """
        return self

    @property
    def adds_features(self) -> bool:
        """True for functions of ``sum_k |x_k - y_k|``; False by default.

        Two equal features then have the effect of one feature of twice the value.
        """
        return False

    @property
    def thread_safe(self) -> bool:
        """True if several threads may call `matrix` at the same time; False by default."""
        return False

    @property
    def smoothness(self) -> float:
        """Number of derivatives with respect to each argument; 0 by default.

        All ``D_x^a D_y^b k`` with ``|a|, |b|`` up to this number exist and are continuous.
        """
        return 0.0

    @property
    def uses_distances(self) -> bool:
        """True if `partials` requires squared distances."""
        return False

    @property
    def uses_products(self) -> bool:
        """True if `partials` requires inner products."""
        return False

    def partials(self, distances: Any, products: Any, order: int) -> Partials:
        r"""Compute all partial derivatives of Phi up to an order.

        With ``k(x, y) = Phi(s, t)`` for ``s = |x - y|^2`` and ``t = <x, y>``, the entry (i, j) is

        .. math:: \frac{\partial^{i + j} \Phi}{\partial s^i\, \partial t^j}(s, t)
            \quad \text{for } i + j \le \text{order}.

        Kernels with derivatives override this method. Where structinv calls it, arguments and results
        are validated.

        Parameters
        ----------
        distances : ndarray or None
            Squared distances s, at least 0. They may be None if `uses_distances` is False.
        products : ndarray or None
            Inner products t, of the shape of `distances`. They may be None if `uses_products` is False.
        order : int
            Largest order, from 0 to ``2 * smoothness``.

        Returns
        -------
        dict
            The entries by their keys (i, j): arrays of the shape and precision of the input, which the
            caller may modify. Missing entries are 0 everywhere. A derivative that is infinite at
            ``s = 0`` is replaced by 0 there: the corresponding term of k's derivatives is 0 as well.

        Raises
        ------
        NotImplementedError
            If the kernel is not a function of s and t, or its derivatives are not known.

        Examples
        --------
        With the Gaussian kernel ``exp(-s / 2)``, each derivative is -1/2 times the previous one:

        >>> import numpy as np
        >>> from structinv.kernels import Gaussian
        >>> squares = np.array([[0.0, 4.0]])
        >>> for which, values in Gaussian().partials(squares, None, order=2).items():
        ...     print(which, values.round(3))
        (0, 0) [[1.    0.135]]
        (1, 0) [[-0.5   -0.068]]
        (2, 0) [[0.25  0.034]]
        """
        raise NotImplementedError(f"{describe(self)} has no derivatives")

    def _check_arguments(self, distances: Any, products: Any, order: int) -> None:
        """Raise an error if `partials` has no result for these arguments; see `kernel_partials`."""
        uses_distances, uses_products = self.uses_distances, self.uses_products
        if not (uses_distances or uses_products):
            raise NotImplementedError(f"{describe(self)} has no derivatives")
        _check_order(self, order)
        for name, values, used in (
            ("distances", distances, uses_distances),
            ("products", products, uses_products),
        ):
            if used and values is None:
                raise ValueError(f"{name} must be an array for {describe(self)}, got None")

    def __call__(self, X: Any, Y: Any = None) -> Any:
        """Compute the kernel matrix of validated rows, as scikit-learn calls a kernel.

        Shapes: `X` (n_samples_X, n_features) or (n_features,), `Y` (n_samples_Y, n_features) or
        (n_features,); returns (n_samples_X, n_samples_Y).
        """
        same, columns = Y is None or Y is X, columns_of(X)
        self.validate()
        kernel, rows = with_numbers(self, columns), real_rows("X", X, columns)
        others = rows if same else real_rows("Y", Y, columns)
        if rows.ndim != others.ndim or rows.shape[-1] != others.shape[-1]:
            raise ValueError(
                f"Y must have rows like those of X, which have shape {rows.shape}, got {others.shape}"
            )
        if rows.ndim == 2:
            return kernel_matrix(kernel, rows, others)
        return float(kernel_matrix(kernel, rows[None], others[None])[0, 0])

    def noise_averaged(self, variance: float, n_features: int) -> Kernel | None:
        """Return the average of ``k(x + e, y + e')`` over independent Gaussian noise.

        Parameters
        ----------
        variance : float
            Variance (>= 0) of every coordinate of ``e - e'``, which has mean 0.
        n_features : int
            Number of features.

        Returns
        -------
        Kernel or None
            The averaged kernel, or None if no closed form is known.
        """
        check_number("variance", variance)
        if variance == 0:
            return self
        return self._blurred(float(variance), n_features)

    def _blurred(self, variance: float, n_features: int) -> Kernel | None:
        """Compute `noise_averaged` for a variance above 0."""
        return None

    def spectral_law(self) -> Spectrum | None:
        """Return the distribution of w in ``k(x, y) = E cos(<w, x - y>)``.

        Random features draw their frequencies from it.

        Returns
        -------
        Spectrum or None
            The distribution, or None if it is not known.
        """
        return None

    def _stacked(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        """Compute the kernel of rows (n, s, d) and (n, t, d) with equal first index, (n, s, t).

        None, the default, if the kernel has no faster way than `matrix`.
        """
        return None

    @property
    def _level(self) -> float | None:
        """The common value of all ``k(x, x)``, or None if they differ."""
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
        check_number("factor", other)
        return Scaled(self, other)


def _check_order(kernel: Kernel, order: Any) -> None:
    check_integer("order", order, least=0)
    smoothness = kernel.smoothness
    if int(order) > 2 * smoothness:
        m = int(smoothness)
        known = f"derivatives up to {_ordinal(m)} order in each argument" if m else "no derivatives"
        raise ValueError(
            f"{describe(kernel)} has {known}, but derivatives up to {_ordinal((int(order) + 1) // 2)} "
            "order are required: use a smoother kernel, such as Gaussian"
        )


def _ordinal(number: int) -> str:
    words = ("zeroth", "first", "second", "third", "fourth")
    return words[number] if number < len(words) else f"{number}th"
