"""Where the function lives: inner products, and how inputs become normals of planes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from .matrices import Matrix, row_dots, scale_rows, stack
from .tensor_rows import TensorRows

Normals: TypeAlias = Matrix | TensorRows


class Answer(Protocol):
    """What an oracle answers; see `structinv.oracles.Support`."""

    @property
    def points(self) -> Matrix:
        """Members of S(x)."""

    @property
    def upper(self) -> np.ndarray | None:
        """Bounds, None if exact."""

    @property
    def rho(self) -> np.ndarray | None:
        """Grades, None if there are none."""


class Question(Protocol):
    """Some rows of a bound oracle, to which a space turns with directions of its own."""

    def support(self, V: np.ndarray, assign: np.ndarray, reward: np.ndarray) -> Answer:
        """The member of each S(x) that is furthest along a direction."""

    def maximum(self, V: np.ndarray, assign: np.ndarray) -> np.ndarray | None:
        """The exact maxima, where they are cheaper than the members that reach them."""

    def orbit(self) -> np.ndarray:
        """All members of each S(x), (n, s, d)."""


@dataclass(frozen=True)
class Furthest:
    """The worst members of S(x) that were found, and what is known of the worst there are.

    Parameters
    ----------
    points : (n, d) array or CSR matrix, or None
        None if they were not asked for.
    gains : (n,) array
        What the function reaches at the points.
    rewards : (n,) array
        Worth of a change, times the grade of the point.
    upper : (n,) array
        Bound on the largest gain plus reward.
    """

    points: Matrix
    gains: np.ndarray
    rewards: np.ndarray
    upper: np.ndarray


class Space(ABC):
    """A Hilbert space of functions f(x, k); solvers use only these operations.

    Elements are arrays, or anything that can be copied, added to (``+=``, ``-=``) and multiplied by
    numbers. Normals of planes are whatever `normals` of the space returns; solvers join them with
    `stack`, pick rows of them with brackets and hand them back.

    Attributes
    ----------
    n_features : int
        Length of an input.
    n_outputs : int
        Number of functions f(., k).
    n_extra : int
        Number of parameters that no input multiplies.
    """

    n_features: int
    n_outputs: int
    n_extra: int = 0

    @abstractmethod
    def furthest(
        self,
        f: np.ndarray,
        question: Question,
        table: np.ndarray,
        codes: np.ndarray,
        worth: np.ndarray,
        points: bool = True,
    ) -> Furthest:
        """Ask where in S(x) the function ``sum_k table[c, k] f(., k)`` is largest, c a row's code.

        Parameters
        ----------
        f : element
        question : Question
        table : (n_classes, n_outputs) array
        codes : (n,) array of int
        worth : (n,) array
            Worth of an ungraded change.
        points : bool, default=True
            Whether the points are wanted, or only what is reached there.
        """

    @abstractmethod
    def normals(
        self,
        points: Matrix,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        extra: Matrix | None = None,
    ) -> Normals:
        """Normals ``sum_r sum_k coefficients[r, k] e_k (x) points[r]``, summed over rows of a group.

        Parameters
        ----------
        points : (n, n_features) array or CSR matrix
        coefficients : (n, n_outputs) array
        groups : (g + 1,) array of int, optional
            Group j owns the rows ``groups[j]`` to ``groups[j + 1] - 1``; by default each row is
            one.
        extra : (g, n_extra) array or CSR matrix, optional
        """

    @abstractmethod
    def owns(self, normals: Normals) -> bool:
        """Whether these can be normals of this space."""

    def extra(self, f: np.ndarray) -> np.ndarray:
        """The parameters that no input multiplies, (n_extra,)."""
        return np.zeros(0)

    @abstractmethod
    def zeros(self) -> np.ndarray:
        """The zero element."""

    @abstractmethod
    def dot(self, f: np.ndarray, g: np.ndarray) -> float:
        """Inner product of two elements."""

    @abstractmethod
    def scores(self, f: np.ndarray, normals: Normals) -> np.ndarray:
        """Inner product of `f` with each normal, (m,)."""

    @abstractmethod
    def combine(self, normals: Normals, coefficients: np.ndarray) -> np.ndarray:
        """The element ``sum_j coefficients_j normal_j``."""

    @abstractmethod
    def mix(self, normals: Normals, coefficients: np.ndarray) -> Normals:
        """``sum_j coefficients_j normal_j`` as one normal, in the form that `normals` has."""

    @abstractmethod
    def gram(self, left: Normals, right: Normals) -> np.ndarray:
        """Inner products of two sets of normals, (m, k)."""

    @abstractmethod
    def stack(self, parts: Sequence[Normals]) -> Normals:
        """Normals of all parts, one below the other."""

    @abstractmethod
    def element(self, f: np.ndarray) -> Matrix:
        """The element `f` as a normal, (1, D)."""


class ExplicitSpace(Space):
    """Functions ``f(x, k) = <w_k, x> + b_k`` on explicit features, with the Euclidean norm.

    An element is the flat array of the (n_outputs, n_features [+ 1]) weights, each row ending with its
    constant if `intercept`, followed by `n_extra` parameters that no input multiplies (transitions
    between labels, for instance).

    Parameters
    ----------
    n_features : int
    n_outputs : int, default=1
    intercept : bool, default=False
        Whether every input has a constant feature 1, penalised like the others and seen by no oracle.
    n_extra : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> space = ExplicitSpace(2, intercept=True)
    >>> space.weights(np.array([1.0, 2.0, 3.0])), space.constants(np.array([1.0, 2.0, 3.0]))
    (array([[1., 2.]]), array([3.]))
    """

    def __init__(
        self, n_features: int, n_outputs: int = 1, *, intercept: bool = False, n_extra: int = 0
    ) -> None:
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.intercept = intercept
        self.n_extra = n_extra
        self.stride = n_features + bool(intercept)
        self.size = n_outputs * self.stride + n_extra

    def zeros(self) -> np.ndarray:
        """See `Space.zeros`."""
        return np.zeros(self.size)

    def weights(self, f: np.ndarray) -> np.ndarray:
        """The weight of each feature, (n_outputs, n_features); a view."""
        return self._table(f)[:, : self.n_features]

    def constants(self, f: np.ndarray) -> np.ndarray:
        """The constant of each output, (n_outputs,); zeros without an intercept."""
        return self._table(f)[:, -1] if self.intercept else np.zeros(self.n_outputs)

    def extra(self, f: np.ndarray) -> np.ndarray:
        """The parameters that no input multiplies, (n_extra,); a view."""
        return f[self.size - self.n_extra :]

    def _table(self, f: np.ndarray) -> np.ndarray:
        return f[: self.size - self.n_extra].reshape(self.n_outputs, self.stride)

    def dot(self, f: np.ndarray, g: np.ndarray) -> float:
        """See `Space.dot`."""
        return float(f @ g)

    def scores(self, f: np.ndarray, normals: Normals) -> np.ndarray:
        """See `Space.scores`."""
        return normals.products(f) if isinstance(normals, TensorRows) else normals @ f

    def combine(self, normals: Normals, coefficients: np.ndarray) -> np.ndarray:
        """See `Space.combine`."""
        if isinstance(normals, TensorRows):
            return normals.combination(coefficients)
        return normals.T @ coefficients

    def mix(self, normals: Normals, coefficients: np.ndarray) -> Normals:
        """See `Space.mix`."""
        if isinstance(normals, TensorRows):
            return normals.mix(coefficients)
        row = coefficients[None, :]
        return sp.csr_matrix(row) @ normals if sp.issparse(normals) else row @ normals

    def gram(self, left: Normals, right: Normals) -> np.ndarray:
        """See `Space.gram`."""
        if isinstance(left, TensorRows) or isinstance(right, TensorRows):
            return self._tensor(left).gram(self._tensor(right))
        products = left @ right.T
        return products.toarray() if sp.issparse(products) else products

    def stack(self, parts: Sequence[Normals]) -> Normals:
        """See `Space.stack`."""
        if len(parts) > 1 and any(isinstance(part, TensorRows) for part in parts):
            return TensorRows.join([self._tensor(part) for part in parts])
        return stack(parts)

    def _tensor(self, normals: Normals) -> TensorRows:
        if isinstance(normals, TensorRows):
            return normals
        return TensorRows.of_dense(normals, self.n_outputs, self.n_extra)

    def element(self, f: np.ndarray) -> Matrix:
        """See `Space.element`."""
        return f[None, :].copy()

    def owns(self, normals: Normals) -> bool:
        """See `Space.owns`."""
        return normals.shape[1] == self.size

    def furthest(
        self,
        f: np.ndarray,
        question: Question,
        table: np.ndarray,
        codes: np.ndarray,
        worth: np.ndarray,
        points: bool = True,
    ) -> Furthest:
        """See `Space.furthest`: the few weights become directions, not the many rows."""
        directions = np.ascontiguousarray(table @ self.weights(f))
        constants = (table @ self.constants(f))[codes]
        largest = None if points else question.maximum(directions, codes)
        if largest is not None:
            gains = largest + constants
            return Furthest(None, gains, worth, gains + worth)
        answer = question.support(directions, codes, worth)
        gains = row_dots(answer.points, directions, codes) + constants
        rewards = worth if answer.rho is None else worth * answer.rho
        upper = gains + rewards
        if answer.upper is not None:
            graded = worth if answer.rho is None else 0.0
            upper = np.maximum(upper, answer.upper + graded + constants)
        return Furthest(answer.points, gains, rewards, upper)

    def normals(
        self,
        points: Matrix,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        extra: Matrix | None = None,
    ) -> Normals:
        """See `Space.normals`: plain rows for a single output, tensor rows otherwise."""
        if self.n_outputs == 1 and groups is None and not self.n_extra:
            signs = coefficients[:, 0]
            return self.with_constants(scale_rows(points, signs), signs)
        n_rows = points.shape[0]
        start = np.arange(n_rows + 1) if groups is None else groups
        if extra is None:
            extra = np.zeros((len(start) - 1, self.n_extra))
        tail: Any = extra if isinstance(extra, np.ndarray) else extra.toarray()
        ones = np.ones(n_rows, dtype=points.dtype)
        return TensorRows(self.with_constants(points, ones), coefficients, start, tail)

    def with_constants(self, rows: Matrix, constants: np.ndarray) -> Matrix:
        """Rows with a constant put behind, if the space has an intercept."""
        if not self.intercept:
            return rows
        if sp.issparse(rows):
            return sp.csr_matrix(sp.hstack([rows, constants[:, None]], format="csr"))
        return np.column_stack([rows, constants])
