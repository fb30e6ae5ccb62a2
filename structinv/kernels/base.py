"""What every kernel is: values, derivatives, and what it says of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from ..oracles.arguments import real_rows
from ..utils import plugins
from ..utils.parameters import check_integer, check_number
from .checked_kernel import NOTHING, kernel_matrix
from .frequencies import Spectrum
from .values import Norms, describe, floats, is_real

if TYPE_CHECKING:
    from .combinations import Product, Scaled, Sum

Partials: TypeAlias = dict[tuple[int, int], np.ndarray]

# What classes declare about the values of `matrix`.
_OF_MATRIX = {"symmetry", "thread_safe", "spectral_law", "lipschitz", "smoothness", "uses_distances"}
_OF_MATRIX |= {"uses_products", "adds_features", "partials", "_partials", "_blurred", "_stacked"}


class Kernel(BaseEstimator, ABC):
    """A positive semi-definite function ``k(x, y) = <phi(x), phi(y)>``, parameters only.

    Constructors store their parameters, so that kernels clone, pickle and can be searched over;
    `validate` checks them. Inputs are dense. Answers have the common precision of both inputs:
    float32 if both are, else float64.

    A kernel with derivatives is a function ``Phi(s, t)`` of ``s = |x - y|^2`` and ``t = <x, y>``.
    It says which of the two it reads, by `uses_distances` and `uses_products`, how smooth it is,
    and overrides `_partials`.

    A subclass that overrides `matrix` does not inherit what its parents declare about their values:
    `symmetry`, `thread_safe`, `spectral_law`, `lipschitz`, `smoothness`, `uses_distances`,
    `uses_products`, `adds_features` and the derivatives. The defaults of this class apply to those that
    it does not declare itself.

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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        plugins.reset_declarations(cls, Kernel, {"matrix"}, _OF_MATRIX)
        plugins.reset_declarations(cls, Kernel, {"diagonal"}, {"_level"})

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
    def definite(self) -> bool:
        """Whether it is positive semi-definite by construction; True, the default.

        A kernel of which that is not so, or not known, says False: machines then look at the eigenvalues
        of their training rows, and warn if one is below 0.
        """
        return True

    # Of the table of the training rows that it was mended with, if it was.
    min_eigenvalue: float | None = None

    def prepared(self, X: np.ndarray) -> Kernel:
        """This kernel as a machine uses it whose training rows are `X`: itself, by default.

        Kernels that are mended with training rows return what they were mended to.
        """
        return self

    @property
    def adds_features(self) -> bool:
        """Whether two equal features count as much as one of twice the size; no, by default.

        It is so for functions of ``sum_k |x_k - y_k|``.
        """
        return False

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
        uses_distances, uses_products = self.uses_distances, self.uses_products
        if not (uses_distances or uses_products):
            raise NotImplementedError(f"{describe(self)} has no derivatives")
        _check_order(self, order)
        for name, values, used in (
            ("distances", distances, uses_distances),
            ("products", products, uses_products),
        ):
            if used and values is None:
                raise ValueError(f"{describe(self)} needs {name}, got None")
        distances, products = floats(distances), floats(products)
        found: Any = self._partials(distances, products, order)
        known: Any = distances if uses_distances else products
        source = plugins.method(self, "_partials")
        if not isinstance(found, dict):
            raise TypeError(f"{source} must return a dict of arrays, got {type(found).__name__}")
        shape = known.shape
        return {key: plugins.numbers(source, f"entry {key}", v, shape) for key, v in found.items()}

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
        rows = real_rows("X", X)
        others = rows if same else real_rows("Y", Y)
        if rows.ndim != others.ndim or rows.shape[-1] != others.shape[-1]:
            raise ValueError(
                f"Y must have rows like those of X, which have shape {rows.shape}, got {others.shape}"
            )
        if rows.ndim == 2:
            return kernel_matrix(self, rows, others)
        return float(kernel_matrix(self, rows[None], others[None])[0, 0])

    def _partials(self, distances: Any, products: Any, order: int) -> Partials:
        """`partials` of checked arguments: those that the kernel reads are arrays of floats."""
        raise NotImplementedError(f"{describe(self)} has no derivatives")

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
        check_number("variance", variance)
        if variance == 0:
            return self
        return self._blurred(float(variance), n_features)

    def _blurred(self, variance: float, n_features: int) -> Kernel | None:
        """`blurred` by a variance above 0."""
        return None

    def spectral_law(self) -> Spectrum | None:
        """The law of w in ``k(x, y) = E cos(<w, x - y>)``; None, the default, where it is not known.

        Random features draw their templates from it.
        """
        return None

    def _stacked(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        """The kernel of points (n, s, d) and others (n, t, d) of the same row, (n, s, t).

        None, the default, where there is no short cut.
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
        check_number("factor", other)
        return Scaled(self, other)


def _check_order(kernel: Kernel, order: Any) -> None:
    check_integer("order", order, least=0)
    smoothness = kernel.smoothness
    if int(order) > 2 * smoothness:
        m = int(smoothness)
        known = f"derivatives up to {_ordinal(m)} order in each argument" if m else "no derivatives"
        raise ValueError(
            f"{describe(kernel)} has {known}; this needs {_ordinal((int(order) + 1) // 2)} order"
        )


def _ordinal(number: int) -> str:
    words = ("zeroth", "first", "second", "third", "fourth")
    return words[number] if number < len(words) else f"{number}th"
