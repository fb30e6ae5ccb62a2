"""Finite oracles and combinations of them, with their members and grades listed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from structinv.oracles import FiniteOracle, Flip, Identity, InvarianceOracle, Shared

from .cases import ORDERS, D, Reorderings, Shrinkings

# From a row and its label to pairs of a member and its grade.
Listing = Callable[[np.ndarray, Any], list[tuple[np.ndarray, float]]]


@dataclass(frozen=True)
class OrbitCase:
    """An oracle, its members by definition, and which short cuts it should know.

    `scored` says that the scores of all members come in one product, `linear` that all members are
    fixed linear maps of the row.
    """

    name: str
    oracle: InvarianceOracle
    listing: Listing = field(repr=False)
    scored: bool = True
    linear: bool = False

    def members(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """All members of all rows, (n, s, d)."""
        return np.array([[z for z, _ in self.listing(*row)] for row in zip(X, y, strict=True)])

    def grades(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Their grades, (n, s)."""
        return np.array([[rho for _, rho in self.listing(*row)] for row in zip(X, y, strict=True)])

    def __str__(self) -> str:
        return self.name


class Halves(FiniteOracle):
    """The row with its first or second half erased; takes CSR rows, answers with dense ones."""

    supports_sparse = True

    def orbit(self, X: Any) -> np.ndarray:
        rows = X.toarray() if sp.issparse(X) else X
        left, right = rows.copy(), rows.copy()
        left[:, : D // 2] = 0
        right[:, D // 2 :] = 0
        return np.stack([rows, left, right], axis=1)


def listed(*changes: Callable[[np.ndarray], np.ndarray]) -> Listing:
    return lambda x, label: [(x, 1.0), *((change(x), 1.0) for change in changes)]


def either(left: Listing, right: Listing) -> Listing:
    return lambda x, label: left(x, label) + right(x, label)[1:]


def after(left: Listing, right: Listing) -> Listing:
    """`left` of each member of `right`, the members of `right` in turn."""
    return lambda x, label: [pair for z, _ in right(x, label) for pair in left(z, label)]


def only(listing: Listing, labels: Sequence[int]) -> Listing:
    def chosen(x: np.ndarray, label: Any) -> list[tuple[np.ndarray, float]]:
        pairs = listing(x, label)
        return pairs if label in labels else [(x, 1.0)] * len(pairs)

    return chosen


def graded(listing: Listing, grades: Sequence[float]) -> Listing:
    def with_grades(x: np.ndarray, label: Any) -> list[tuple[np.ndarray, float]]:
        return [(z, rho) for (z, _), rho in zip(listing(x, label), grades, strict=True)]

    return with_grades


def reorder(order: Sequence[int]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x[list(order)]


shrinkings, permutations, flip = Shrinkings(), Reorderings(ORDERS), Flip(shape=(1, D))
_shrink = listed(lambda x: 0.5 * x, lambda x: -0.25 * x)
_permute = listed(*map(reorder, ORDERS[1:]))
_flip = listed(lambda x: x[::-1])
_same = listed()
_half = listed(lambda x: x * (np.arange(D) >= D // 2), lambda x: x * (np.arange(D) < D // 2))
BENT = [1.0, 0.5, 0.0]

ORBIT_CASES = [
    OrbitCase("identity", Identity(), _same, linear=True),
    OrbitCase("shrinkings", shrinkings, _shrink),
    OrbitCase("halves", Halves(), _half),
    OrbitCase("permutations", permutations, _permute, linear=True),
    OrbitCase("flip", flip, _flip, linear=True),
    OrbitCase("union", shrinkings | permutations, either(_shrink, _permute)),
    OrbitCase("union-linear", permutations | flip, either(_permute, _flip), linear=True),
    OrbitCase("union-identity", Identity() | permutations, either(_same, _permute), linear=True),
    OrbitCase("shared", Shared(permutations), _permute, linear=True),
    OrbitCase("shared-union", Shared(shrinkings) | permutations, either(_shrink, _permute)),
    OrbitCase("compose", shrinkings @ permutations, after(_shrink, _permute), scored=False),
    OrbitCase("compose-other", permutations @ shrinkings, after(_permute, _shrink), scored=False),
    OrbitCase("compose-linear", permutations @ flip, after(_permute, _flip), linear=True),
    OrbitCase("compose-linear-other", flip @ permutations, after(_flip, _permute), linear=True),
    OrbitCase(
        "compose-of-union",
        (shrinkings | permutations) @ flip,
        after(either(_shrink, _permute), _flip),
        scored=False,
    ),
    OrbitCase(
        "compose-linear-nested",
        (permutations | flip) @ permutations @ flip,
        after(after(either(_permute, _flip), _permute), _flip),
        linear=True,
    ),
    OrbitCase(
        "union-of-compose",
        shrinkings @ flip | permutations,
        either(after(_shrink, _flip), _permute),
        scored=False,
    ),
    OrbitCase(
        "union-of-linear-compose",
        flip @ permutations | shrinkings,
        either(after(_flip, _permute), _shrink),
    ),
    OrbitCase("only_for", permutations.only_for([0, 2]), only(_permute, [0, 2])),
    OrbitCase("only_for-none", shrinkings.only_for(7), only(_shrink, [])),
    OrbitCase(
        "only_for-union",
        permutations.only_for(1) | shrinkings.only_for(0),
        either(only(_permute, [1]), only(_shrink, [0])),
    ),
    OrbitCase(
        "only_for-of-union",
        (shrinkings | permutations | flip).only_for([1, 2]),
        only(either(either(_shrink, _permute), _flip), [1, 2]),
    ),
    OrbitCase(
        "only_for-compose",
        shrinkings.only_for([0, 1]) @ permutations.only_for([1]),
        after(only(_shrink, [0, 1]), only(_permute, [1])),
        scored=False,
    ),
    OrbitCase("discounted", permutations.discounted(BENT), graded(_permute, BENT), linear=True),
    OrbitCase("discounted-number", shrinkings.discounted(0.3), graded(_shrink, [1.0, 0.3, 0.3])),
    OrbitCase("discounted-flip", flip.discounted(0.6), graded(_flip, [1.0, 0.6]), linear=True),
    OrbitCase(
        "discounted-union",
        (permutations | shrinkings).discounted(BENT),
        either(graded(_permute, BENT), graded(_shrink, BENT)),
    ),
    OrbitCase(
        "discounted-only_for",
        permutations.only_for(1).discounted(0.2),
        only(graded(_permute, [1.0, 0.2, 0.2]), [1]),
    ),
    OrbitCase(
        "only_for-discounted",
        permutations.discounted(BENT).only_for([0, 2]),
        only(graded(_permute, BENT), [0, 2]),
    ),
    OrbitCase(
        "discounted-member",
        shrinkings.discounted(BENT).only_for([0, 1]) | permutations @ flip,
        either(only(graded(_shrink, BENT), [0, 1]), after(_permute, _flip)),
    ),
]
ORBIT_CASE = {case.name: case for case in ORBIT_CASES}
