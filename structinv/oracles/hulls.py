"""Dual states that stay inside the hull of each S(x), as oracles give them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, stack
from ..utils.packed_rows import PackedRows, RaggedLists


class Hull(ABC):
    """The dual variables of a two-class worst-case loss, kept inside the hull of each S(x).

    One averaged plane a row instead of a list: level tau in [0, 1] and a point of tau times the
    hull of S(x). The plane has normal ``y * point`` and offset ``tau``; ``f`` is the sum of the
    normals times the rows' weights.

    Attributes
    ----------
    shares : bool
        Whether the level of a row may be shared with other hulls: `levels`, `rescale`, `candidates`
        and `absorb` are there. No, by default.
    makes_normals : bool
        Whether normals of some rows can be made: `normals_of` and `levels` are there. No, by default.
    """

    shares: bool = False
    makes_normals: bool = False

    @property
    @abstractmethod
    def offset(self) -> float:
        """Sum of the planes' offsets times the rows' weights."""

    @abstractmethod
    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        """Raise the dual in each row of `order` once, updating `f` in place.

        ``gaps[i]`` becomes the row's weighted loss minus its averaged plane at `f` on arrival.
        """

    def losses(self, f: np.ndarray) -> np.ndarray | None:
        """Exact losses of all rows at `f`, (n,), where they are cheaper than asking the oracle."""
        return None

    @abstractmethod
    def combination(self) -> np.ndarray:
        """`f` recomputed from the state, free of accumulated rounding."""

    @abstractmethod
    def planes(self) -> tuple[Matrix, np.ndarray]:
        """Normals without the intercept, (n, d), and levels tau, (n,)."""

    @abstractmethod
    def restore(self, normals: Matrix, levels: np.ndarray) -> None:
        """Start from planes that `planes` gave, for the same rows.

        Those of this or a smaller set are taken as they are; what lies outside the set is moved into it.
        """

    def planes_by_part(self) -> list[tuple[Matrix, np.ndarray]]:
        """Planes whose sum is that of `planes`, from which a state can be made again."""
        return [self.planes()]

    def normals_of(self, rows: np.ndarray) -> Matrix:
        """The normals of `planes` of some rows, where `makes_normals`."""
        raise NotImplementedError(f"{type(self).__name__} makes all normals at once")

    def restore_several(
        self, normals: Matrix, levels: np.ndarray, rows: np.ndarray, n_rows: int
    ) -> None:
        """Start from any number of planes a row, plane j being one of row ``rows[j]``."""
        gather = sp.csr_matrix(
            (np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n_rows, len(rows))
        )
        self.restore(gather @ normals, gather @ levels)

    def pack(self) -> PackedRows:
        """All that a hull of the same rows needs to go on from here; the planes, by default."""
        parts = self.planes_by_part()
        normals = sp.csr_matrix(sp.hstack([sp.csr_matrix(part) for part, _ in parts]))
        normals.eliminate_zeros()
        levels = sp.csr_matrix(np.column_stack([own for _, own in parts]))
        each = [RaggedLists(np.diff(own.indptr), (own.indices, own.data)) for own in (levels, normals)]
        return PackedRows((), tuple(each))

    def unpack(self, packed: PackedRows, n_features: int) -> None:
        """Go on from what `pack` gave, perhaps some rows of it."""
        of_levels, of_normals = packed.lists
        # A part without levels adds nothing.
        n_parts, n_rows = 1 + int(of_levels.entries[0].max(initial=0)), len(of_levels.counts)
        levels = of_levels.as_matrix(n_parts)
        normals = of_normals.as_matrix(n_parts * n_features)
        parts = [normals[:, k * n_features : (k + 1) * n_features] for k in range(n_parts)]
        rows = np.tile(np.arange(n_rows), n_parts)
        self.restore_several(stack(parts), levels.toarray().T.ravel(), rows, n_rows)

    @property
    def levels(self) -> np.ndarray:
        """The level of each row, (n,)."""
        raise NotImplementedError(f"{type(self).__name__} does not share levels")

    def rescale(self, rows: np.ndarray, factors: np.ndarray) -> None:
        """Multiply the weights of some rows, and divide their levels and points by the same."""
        raise NotImplementedError(f"{type(self).__name__} does not share levels")

    def candidates(self, f: np.ndarray, rows: np.ndarray) -> tuple[Matrix, Matrix, Any]:
        """Of some rows the points, which have their levels as factors, and the worst members at `f`.

        Also what `absorb` wants to know of these members.
        """
        raise NotImplementedError(f"{type(self).__name__} does not share levels")

    def absorb(
        self, rows: np.ndarray, chosen: np.ndarray, keep: np.ndarray, steps: np.ndarray, corners: Any
    ) -> None:
        """Of the rows ``rows[chosen]`` keep a share of point and level, and add some of the corner's."""
        raise NotImplementedError(f"{type(self).__name__} does not share levels")


class LabelHull(ABC):
    r"""The dual variables of a joint loss of several labels, kept inside the hull of each S(x).

    The loss of row i, whose true label is c, is

    .. math:: \ell_i(W) = \max_{k,\, z \in S(x_i)} \langle w_k - w_c, z \rangle + D_{ck},
       \quad D_{cc} = 0.

    Its planes are averaged for each pair of a row and another label k: a level tau, and a point of tau
    times the hull of S(x). The levels of a row add up to at most 1, so

    .. math:: W = \sum_i c_i \sum_k (e_c - e_k) \otimes \varphi_{ik}, \quad
       \varphi_{ik} \in \tau_{ik} \operatorname{conv} S(x_i) .

    Only pairs that have a level take memory, so it grows with the entries of the rows, not with the
    number of labels. Weights come by feature: a C-contiguous array (n_features, n_labels), or
    (n_features + 1, n_labels) where a constant feature, which no oracle changes, follows the others.
    """

    @property
    @abstractmethod
    def offset(self) -> float:
        """Sum of the planes' offsets, level times cost, times the rows' weights."""

    @abstractmethod
    def sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> None:
        """Raise the dual in each row of `order` once, updating the weights `table` in place.

        ``gaps[i]`` becomes the row's weighted loss minus its averaged plane at `table` on arrival. Where
        all labels compete, rows with a small share of the mean gap may be left as they are.

        Parameters
        ----------
        table : (n_features [+ 1], n_labels) array
        order : (m,) array of int
        gaps : (n,) array
        every_label : bool
            Whether all labels compete. If not, only those do that the row keeps: gaps are then those
            over these labels.
        """

    @abstractmethod
    def losses(self, table: np.ndarray) -> np.ndarray:
        """Exact losses of all rows, over all labels, at the weights `table`, (n,)."""

    @abstractmethod
    def combination(self) -> np.ndarray:
        """The weights by feature, recomputed from the state, free of accumulated rounding."""

    @abstractmethod
    def pack(self) -> PackedRows:
        """All that a hull of the same rows needs to go on from here."""

    @abstractmethod
    def unpack(self, packed: PackedRows) -> None:
        """Go on from what `pack` gave, perhaps some rows of it."""

    @abstractmethod
    def points(self) -> tuple[Matrix, np.ndarray, sp.csr_matrix]:
        """The averaged planes as points of the hulls of S(x), and the levels of labels on them.

        Returns
        -------
        points : (m, d) array or CSR matrix
            Without the intercept.
        rows : (m,) array of int
            Whose point each is, in increasing order.
        levels : (m, n_labels) CSR matrix
            Level of each label on the point: those of a row add up to at most 1.
        """

    @abstractmethod
    def restore(self, points: Matrix, rows: np.ndarray, levels: sp.csr_matrix) -> None:
        """Start from points and levels that `points` gave, for the same rows and labels.

        Those of this or a smaller set are taken as they are; what lies outside the set is moved into it.
        """
