"""Interfaces of dual states with in-hull steps, for two classes and for labels."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix
from ..utils.packed_rows import PackedRows


class Hull(ABC):
    """Dual variables of a two-class loss, inside the convex hull of each S(x).

    Each row has one averaged plane instead of a list. It consists of a dual variable tau in [0, 1] and
    a point of tau times the hull of S(x). The plane has the normal ``y * point`` and the
    offset ``tau``. ``f`` is the weighted sum of the normals.
    """

    @property
    @abstractmethod
    def offset(self) -> float:
        """Weighted sum of the offsets of all planes."""

    @abstractmethod
    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        """Maximize the dual in each row of `order` once, and update `f` in place.

        Shapes: `f` (n_features,), `order` (n_steps,), `gaps` (n_rows,).
        """

    def losses(self, f: np.ndarray) -> np.ndarray | None:
        """Compute the exact losses of all rows at `f`; None if the oracle is as fast."""
        return None

    @abstractmethod
    def combination(self) -> np.ndarray:
        """Recompute `f` from the dual variables, without accumulated rounding errors."""

    @property
    @abstractmethod
    def taus(self) -> np.ndarray:
        """The dual variable of each row, (n,)."""

    @abstractmethod
    def normals_of(self, rows: np.ndarray) -> Matrix:
        """Compute the normals of some rows, without the intercept."""

    @abstractmethod
    def restore(self, normals: Matrix, taus: np.ndarray) -> None:
        """Initialize the state from the normals and dual variables of all rows.

        Points of this or a smaller set are used unchanged. Points outside the set are moved into it.
        """

    @abstractmethod
    def pack(self) -> PackedRows:
        """Return the state for `unpack` with the same rows."""

    @abstractmethod
    def unpack(self, packed: PackedRows, n_features: int) -> None:
        """Initialize the state from the result of `pack`, for all rows or some of them."""


class LabelHull(ABC):
    r"""Dual variables of a loss of several labels, inside the hull of each S(x).

    The loss of row i with true label c is

    .. math:: \ell_i(W) = \max_{k,\, z \in S(x_i)} \langle w_k - w_c, z \rangle + D_{ck},
       \quad D_{cc} = 0.

    Each pair of a row and another label k has one averaged plane. It consists of a dual variable tau
    and a point of tau times the hull of S(x). The taus of a row add up to at most 1, so

    .. math:: W = \sum_i c_i \sum_k (e_c - e_k) \otimes \varphi_{ik}, \quad
       \varphi_{ik} \in \tau_{ik} \operatorname{conv} S(x_i) .

    Only pairs with a positive tau take memory, so memory does not grow with the number of labels.
    Weights are a C-contiguous array of shape (n_features, n_labels). With an intercept, the last of
    n_features + 1 rows belongs to a constant feature that no oracle changes.
    """

    @property
    @abstractmethod
    def offset(self) -> float:
        """Weighted sum of the offsets of all planes; an offset is tau times cost."""

    @abstractmethod
    def sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> None:
        """Maximize the dual in each row of `order` once, and update `table` in place.

        Shapes: `table` (n_features [+ 1], n_labels), `order` (n_steps,), `gaps` (n_rows,).
        """

    @abstractmethod
    def losses(self, table: np.ndarray) -> np.ndarray:
        """Compute the exact losses of all rows over all labels at `table`, (n,)."""

    @abstractmethod
    def combination(self) -> np.ndarray:
        """Recompute the weights from the dual variables, without rounding errors."""

    @abstractmethod
    def pack(self) -> PackedRows:
        """Return the state in a form for `unpack` with the same rows."""

    @abstractmethod
    def unpack(self, packed: PackedRows) -> None:
        """Initialize the state from the result of `pack`, for all rows or some of them."""

    @abstractmethod
    def points(self) -> tuple[Matrix, np.ndarray, sp.csr_matrix]:
        """Return the averaged planes: points of the hulls of S(x), and their taus.

        Returns `points` (n_points, n_features), `rows` (n_points,), `taus` (n_points, n_labels).
        """

    @abstractmethod
    def restore(self, points: Matrix, rows: np.ndarray, taus: sp.csr_matrix) -> None:
        """Initialize the state from the result of `points` for the same rows and labels.

        Points of this or a smaller set are used unchanged. Points outside the set are moved into it.
        """
