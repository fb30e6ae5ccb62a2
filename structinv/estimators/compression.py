"""Fitted kernel machines with fewer support vectors, and what they lose."""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..kernels import Kernel, PrecomputedKernel, least_eigenvalue
from ..kernels.questions import kernel_definite
from ..kernels.spectra import rounding_of
from ..learnt import learnt_attributes
from ..machine import check_memory
from ..solvers import Solution, Status
from ..spaces import Expansion, KernelSpace
from ..spaces.moved_points import has_gradients, moved_points
from ..spaces.reduced_sets import Whole, best_coefficients, chosen_atoms, norm_of_difference
from .base import check_number

POINTS = ("auto", "chosen", "moved")
# Tables of atoms and points that are there at once while points move, in single precision.
TABLES_AT_ONCE = 5
# Atoms among which a kernel that may be none is asked for its eigenvalues.
ATOMS_ASKED = 2000


class CompressibleMachine:
    """A kernel machine whose expansion can be made shorter.

    Subclasses store `kernel`, and have learnt `kernel_`, support vectors with their
    rows and members, `dual_coef_` and `solution_`.
    """

    def compress(
        self,
        tol: float | None = None,
        *,
        n_support: int | None = None,
        points: str = "auto",
        max_iter: int = 30,
    ) -> Self:
        """A copy with fewer support vectors, and what it lost.

        Either `tol` or `n_support` says how far to go:

        - With `tol`, support vectors are chosen one after the other, each as the one that brings the
          span of those chosen nearest to f, until the norm of what is left is at most ``tol |f|``; the
          copy's function g is the projection of f.
        - With `n_support`, g has at most so many, chosen likewise, and is the least of
          ``sum_j |g(z_j) - f(z_j)|^2 + c |g - f|^2`` over the old support vectors z_j, c being 0.1 times
          the mean of k(z, z): what counts for predictions are scores, and the norm is mostly about
          functions that no input tells apart. Where the kernel has derivatives, the points move, too,
          to where so few of them say most (reduced sets that are constructed: Burges 1996).

        Parameters
        ----------
        tol : float, optional
            Largest norm of the difference, relative to |f|: at least 0 and below 1. 0 leaves out what
            depends on others but for rounding. A norm bounds all scores everywhere, so that a
            small `tol` is far more than equal predictions need.
        n_support : int, optional
            Most support vectors, above 0. A model that has no more is copied as it is.
        points : {"auto", "chosen", "moved"}, default="auto"
            Whether the support vectors of the copy are some of the model's, or move from these.
            "auto" moves them with `n_support` and a kernel whose first derivatives are known ("rbf",
            "poly", "linear", most kernels of `structinv.kernels` on vectors), and chooses otherwise;
            "moved" refuses `tol` and other kernels.
        max_iter : int, default=30
            Steps of L-BFGS by which points move, above 0. Each costs some products of old and new
            support vectors; time is linear in it.

        Returns
        -------
        object
            A fitted estimator of this class, independent of this one, which stays as it is. It
            predicts, certifies and is stored like any other, and all it says is of g: `certify` takes
            margins, norms and rounding from g alone.

            ``compression_error_`` is an upper bound, rounding added, of the norm of the difference to
            the function that was fitted, of all outputs jointly: no score moved by more than
            ``compression_error_ * sqrt(k(z, z))`` at any z. Compressed copies of compressed copies add
            their errors.

            ``support_`` and the like tell of moved points from which row and member they started.
            ``solution_`` has the status "compressed", g, the lower bound of the fit, and no planes: a
            fit with ``warm_start=True`` starts afresh from a compressed model. Its primal value, and
            so its gap, is infinity, since the rows that would tell it are gone (`budget` of
            `InvariantSVC` knows them). Iterations, seconds and history are of the fit.

        Raises
        ------
        NotFittedError
            If there is nothing to compress yet.
        ValueError, TypeError
            For arguments that cannot be used, and where the kernel has an eigenvalue below 0 on the
            support vectors, so that there is no norm. Of kernels that are not positive semi-definite by
            construction only these are looked at, and the bound holds where the kernel is one.
        MemoryError
            If the tables would not fit in the memory that is free.

        Notes
        -----
        With n support vectors and m left, choosing takes n m numbers of memory and some
        ``n m^2 + n^2 n_features`` operations; a step of moving ``n m^2 + n m n_features``. Representers
        of `invariances` stay as they are.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantSVC
        >>> from structinv.oracles import Shifts
        >>> X = np.random.default_rng(0).standard_normal((60, 9))
        >>> y = X[:, 4] > X.mean(axis=1)
        >>> model = InvariantSVC(Shifts(1, shape=(3, 3)), C=10.0, random_state=0).fit(X, y)
        >>> small = model.compress(n_support=20)
        >>> len(model.support_) > 100, len(small.support_), small.solution_.status.value
        (True, 20, 'compressed')
        >>> moved = np.abs(small.decision_function(X) - model.decision_function(X))
        >>> bool(np.all(moved <= small.compression_error_))
        True
        >>> len(model.compress(0.1).support_) < len(model.support_)
        True
        """
        check_is_fitted(self)
        moving = self._check_compression(tol, n_support, points, max_iter)
        n_before = len(self.support_)
        if n_support is not None and n_before <= n_support:
            return self._copied()
        most = n_before if n_support is None else int(n_support)
        check_compression_memory(n_before, most, moving)
        whole = Whole.of(self.kernel_, self._atoms(), self.dual_coef_.T)
        least = 0.0 if tol is None else float(tol) ** 2 * self._squared_norm(whole)
        kept = np.sort(chosen_atoms(whole, most, least)[0])
        if len(kept) == n_before:
            return self._copied()
        places = whole.points[kept]
        if moving and len(kept):
            places = moved_points(whole, places, int(max_iter))
        return self._shortened(whole, kept, places, n_support is not None)

    def _check_compression(self, tol: Any, n_support: Any, points: Any, max_iter: Any) -> bool:
        """Raise unless a compression can be asked for like this; whether points are to move."""
        if (tol is None) == (n_support is None):
            raise ValueError(
                f"either tol or n_support must be given, got tol={tol!r} and n_support={n_support!r}"
            )
        if tol is not None:
            check_number("tol", tol, minimum=0.0)
            if tol >= 1:
                raise ValueError(f"tol must be below 1, which leaves the zero function, got {tol!r}")
        else:
            check_count("n_support", n_support)
        check_count("max_iter", max_iter)
        if not isinstance(points, str) or points not in POINTS:
            raise ValueError(f"points must be one of {list(POINTS)}, got {points!r}")
        self._check_expansion()
        possible = has_gradients(self.kernel_)
        if points == "moved" and tol is not None:
            raise ValueError("points='moved' needs n_support, got tol")
        if points == "moved" and not possible:
            raise ValueError(
                f"points='moved' needs a kernel whose first derivatives are known, got {self.kernel_!r}"
            )
        return points != "chosen" and tol is None and possible

    def _check_expansion(self) -> None:
        """Raise unless there is an expansion, with a norm."""
        if kernel_definite(self.kernel_) or not len(self.support_):
            return
        atoms = self._atoms()
        some = np.linspace(0, len(atoms) - 1, min(len(atoms), ATOMS_ASKED)).astype(int)
        least, largest = least_eigenvalue(self.kernel_, atoms[some])
        if least < -rounding_of(self.dual_coef_.dtype) * largest:
            raise ValueError(
                f"compress needs a norm, and kernel {self.kernel_!r} has none: on the support vectors "
                f"eigenvalues go from {least:.3g} to {largest:.3g}; fit with "
                "structinv.kernels.mended(kernel, X)"
            )

    def _shortened(self, whole: Whole, kept: np.ndarray, places: np.ndarray, by_scores: bool) -> Self:
        """The copy over some points, which come from the support vectors `kept`."""
        points = places.astype(self._atoms().dtype)
        # What the copy holds, to the bit, is what its error is about.
        places = points.astype(np.float64)
        some, new = best_coefficients(whole, places, by_scores)
        new = new.astype(self.dual_coef_.dtype)
        other: Any = self._copied()
        other._take_support(kept[some], points[some], new)
        other.compression_error_ += norm_of_difference(whole, places[some], new)
        f: Any = other._expansion(other._parameters)[1]
        nothing: Any = None
        other.solution_ = replace(
            self.solution_, f=f, primal=np.inf, gap=np.inf, relative_gap=np.inf,
            status=Status.COMPRESSED, planes=nothing,
        )  # fmt: skip
        return other

    def _error_so_far(self) -> float:
        """The error of a model that is compressed already."""
        return float(vars(self).get("compression_error_", 0.0))

    def _copied(self) -> Self:
        """An independent copy; solutions are never changed, so that it has the same one."""
        other: Any = clone(self)
        for name, value in learnt_attributes(self).items():
            setattr(other, name, value if name == "solution_" else deepcopy(value))
        other.compression_error_ = self._error_so_far()
        return other

    def _take_support(self, kept: np.ndarray, points: np.ndarray, coefficients: np.ndarray) -> None:
        """Keep these support vectors alone, at these points and with these coefficients, (m, k)."""
        if self._precomputed:
            rows = self.support_[kept]
            numbers = np.unique(rows)
            table = self.kernel_.matrix(numbers[:, None], numbers[:, None])
            self.kernel_ = PrecomputedKernel(table, numbers)
        else:
            self.support_vectors_ = points
        self.support_ = self.support_[kept]
        self.support_members_ = self.support_members_[kept]
        self.support_transforms_ = self.support_transforms_[kept]
        self.dual_coef_ = np.ascontiguousarray(coefficients.T)
        self._belongs_: dict[str, str] = {}

    def _atoms(self) -> np.ndarray:
        """The support vectors as the kernel takes them."""
        return self.support_.astype(np.float64)[:, None] if self._precomputed else self.support_vectors_

    def _squared_norm(self, whole: Whole) -> float:
        """Of the function with all its parts."""
        if self._representers_ is None:
            return whole.squared_norm
        space, f = self._expansion()
        return float(space.dot(f, f))

    kernel_: Kernel
    _representers_: Any
    support_: np.ndarray
    support_members_: np.ndarray
    support_transforms_: np.ndarray
    support_vectors_: np.ndarray
    dual_coef_: np.ndarray
    solution_: Solution

    @property
    @abstractmethod
    def _precomputed(self) -> bool:
        """Whether the kernel is a table."""

    @property
    def _parameters(self) -> np.ndarray | None:
        """Those that no input multiplies; none, by default."""
        return None

    @abstractmethod
    def _expansion(self, extra: np.ndarray | None = None) -> tuple[KernelSpace, Expansion]:
        """The function in a space of its own."""


def check_count(name: str, value: Any) -> None:
    """Raise TypeError or ValueError unless `value` is an integer above 0."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer above 0, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be an integer above 0, got {value!r}")


def check_compression_memory(n_before: int, most: int, moving: bool) -> None:
    """Raise MemoryError unless there is room for what choosing and moving hold at once."""
    needed = 8.0 * n_before * most * 2
    if moving:
        needed = max(needed, 4.0 * TABLES_AT_ONCE * (n_before + most) * most)
    what = f"compressing {n_before} support vectors to at most {most}"
    check_memory(what, needed, "ask for fewer, or fit with epsilon above 0")
