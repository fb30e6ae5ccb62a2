"""Distributions over changes, as lists of changes with probabilities: the same ones for every row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import answers
from ..matrices import Matrix, floating
from .base import dense_rows, pulled_back

if TYPE_CHECKING:
    from .base import InvarianceOracle

# Rows of the unit matrix that are pulled back at once.
_AT_ONCE = 64
_EPS = float(np.finfo(np.float64).eps)
# By how much the entries of T'T may miss those of the unit matrix.
_ISOMETRY = 1e-9
# What says which members there are.
_DECIDING = ("orbit", "sample", "pullback", "support", "graded_support")
# Changes that can be drawn: those of a row are in memory at once.
MOST_CHANGES = 2**20
# Beyond so many pairs of changes their differences are not looked for.
MOST_PAIRS = 250_000


class Law(ABC):
    """Changes g with probabilities: ``E f(g x)`` is ``sum_k weights[k] f(members(x)[k])``.

    `InvarianceOracle.law` makes one. It is what kernels and features take means over: a row has the
    same members in every block and call, which is what makes a mean over drawn changes a kernel.

    Attributes
    ----------
    weights : (s,) array
        Above 0, with sum 1.
    """

    weights: np.ndarray

    @property
    def size(self) -> int:
        """How many changes there are."""
        return len(self.weights)

    @abstractmethod
    def members(self, X: Matrix) -> np.ndarray:
        """``g x`` for every row and change, (n, s, d), dense."""

    def pull_back(self, V: np.ndarray) -> np.ndarray | None:
        """``T'v`` for all changes and directions v (p, d), as (s, p, d), if all are fixed linear maps T.

        None, the default, where they are not.
        """
        return None

    def linear(self) -> LinearLaw | None:
        """The same law by its matrices; None, the default, where changes have none, or nobody knows."""
        return None

    def stretch(self, n_features: int) -> float:
        """A bound on ``E |T|`` for fixed linear maps: means move no more than so many times as far.

        The norm of a map is at most the geometric mean of its largest absolute sums of a row and of a
        column (Horn and Johnson 2013, example 5.6.P21). Infinity where changes are no fixed linear maps.
        """
        columns, rows = np.zeros((self.size, n_features)), np.zeros(self.size)
        for unit in _unit_rows(n_features):
            pulled = self.pull_back(unit)
            if pulled is None:
                return np.inf
            sizes = np.abs(pulled)
            columns += sizes.sum(axis=1)
            rows = np.maximum(rows, sizes.sum(axis=2).max(axis=1))
        # Sums of so many terms round by so much.
        return float(self.weights @ np.sqrt(rows * columns.max(axis=1))) * (1.0 + n_features * _EPS)

    def differences(self, most: int | None = None) -> LinearLaw | None:
        """The law of ``g^-1 g'`` for independent g and g', where the changes keep inner products.

        Whether they do is measured on their matrices. None where they do not, or have no matrices, or
        where there are more than `most` different ones.
        """
        linear = self.linear()
        return None if linear is None else linear.differences(most)

    def sides(self, *, reordering: bool = False) -> tuple[Law | None, Law]:
        """Laws of a and b with ``E k(a x, b y) = E k(g x, g' y)``, and as few pairs as are known.

        Parameters
        ----------
        reordering : bool, default=False
            Whether k keeps its values under reorderings of features only, not under all maps of both
            inputs that keep inner products.

        Returns
        -------
        left : Law or None
            None for no change.
        right : Law
        """
        found = usable_differences(self, reordering)
        return (self, self) if found is None else (None, found)

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Law:
        """The law of the changes with these numbers, in this order, some perhaps several times.

        Its weights are those given or else their own, up to a factor.
        """
        return TakenLaw(self, *self._chosen(numbers, weights))

    def _chosen(
        self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        chosen = np.asarray(numbers, dtype=np.intp)
        return chosen, self.weights[chosen] if weights is None else np.asarray(weights)

    def drawn(self, size: int, random_state: int) -> Law:
        """The law of `size` changes drawn by their weights, with replacement; all count alike."""
        numbers = np.random.default_rng(random_state).choice(self.size, size, p=self.weights)
        return self.take(numbers, np.ones(size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} changes)"


class TakenLaw(Law):
    """Some of the changes of a law, in any order: see `Law.take`.

    Parameters
    ----------
    law : Law
    numbers : (s,) array of int
    weights : (s,) array
    """

    def __init__(self, law: Law, numbers: np.ndarray, weights: np.ndarray) -> None:
        self.law = law
        self.numbers = numbers
        self.weights = normalised(weights)

    def members(self, X: Matrix) -> np.ndarray:
        return self.law.members(X)[:, self.numbers]

    def pull_back(self, V: np.ndarray) -> np.ndarray | None:
        pulled = self.law.pull_back(V)
        return None if pulled is None else pulled[self.numbers]

    def linear(self) -> LinearLaw | None:
        linear = self.law.linear()
        return None if linear is None else linear.take(self.numbers, self.weights)

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Law:
        chosen, weights = self._chosen(numbers, weights)
        return self.law.take(self.numbers[chosen], weights)


class LinearLaw(Law):
    """Fixed linear maps.

    Parameters
    ----------
    maps : sequence of (d, d) CSR matrices
    weights : (s,) array

    Attributes
    ----------
    permutes : bool
        Whether every map only reorders features.
    """

    def __init__(self, maps: Sequence[sp.csr_matrix], weights: np.ndarray) -> None:
        self.maps = list(maps)
        self.weights = normalised(weights)
        self.permutes = all(map(_reorders, self.maps))

    def members(self, X: Matrix) -> np.ndarray:
        rows = dense_rows(floating(X))
        found = np.empty((len(rows), self.size, rows.shape[1]), dtype=rows.dtype)
        for number, each in enumerate(self.maps):
            found[:, number] = rows[:, each.indices] if self.permutes else (each @ rows.T).T
        return found

    def pull_back(self, V: np.ndarray) -> np.ndarray:
        return np.stack([V @ each for each in self.maps])

    def linear(self) -> LinearLaw:
        return self

    @cached_property
    def isometric(self) -> bool:
        """Whether every map keeps inner products, measured on its matrix."""
        return all(map(_keeps_products, self.maps))

    def differences(self, most: int | None = None) -> LinearLaw | None:
        if self.size**2 > MOST_PAIRS or not self.isometric:
            return None
        # The first pair that has each difference, by a digest: there may be as many as pairs.
        first: dict[bytes, tuple[int, int]] = {}
        shares: dict[bytes, float] = {}
        for left in range(self.size):
            for right, key in enumerate(self._keys(left)):
                first.setdefault(key, (left, right))
                shares[key] = shares.get(key, 0.0) + self.weights[left] * self.weights[right]
            if most is not None and len(first) > most:
                return None
        maps = [_rounded(self.maps[left].T @ self.maps[right], 14) for left, right in first.values()]
        return LinearLaw(maps, np.array(list(shares.values())))

    def _keys(self, left: int) -> Iterator[bytes]:
        """Digests of the differences of one map and all others."""
        if self.permutes:
            order = np.argsort(self.maps[left].indices)
            return (_digest(right.indices[order]) for right in self.maps)
        back = self.maps[left].T.tocsr()
        return (_key(_rounded(back @ right, 14)) for right in self.maps)

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> LinearLaw:
        chosen, weights = self._chosen(numbers, weights)
        return LinearLaw([self.maps[k] for k in chosen], weights)


class ListedLaw(Law):
    """The members of a finite oracle, those without weight left out.

    Parameters
    ----------
    oracle : InvarianceOracle
    n_features : int
    weights : (s,) array, optional
        Of all members, at least 0; by default what `member_weights` tells.
    """

    def __init__(
        self, oracle: InvarianceOracle, n_features: int, weights: np.ndarray | None = None
    ) -> None:
        self.oracle = oracle
        self.n_features = n_features
        if weights is None:
            size = self._all_members(np.zeros((1, n_features))).shape[1]
            weights = weights_of(oracle, size)
        self.numbers = np.flatnonzero(weights)
        self.weights = normalised(weights[self.numbers])

    def _all_members(self, X: Matrix) -> np.ndarray:
        source, X = answers.method(self.oracle, "orbit"), floating(X)
        found = answers.ask(self.oracle, source, self.oracle.orbit, X)
        return answers.members(source, found, dense_rows(X))

    def members(self, X: Matrix) -> np.ndarray:
        return self._all_members(X)[:, self.numbers]

    def pull_back(self, V: np.ndarray) -> np.ndarray | None:
        pulled = pulled_back(self.oracle, V)
        return None if pulled is None else pulled[self.numbers]

    def linear(self) -> LinearLaw | None:
        """See `Law.linear`; only of oracles that declare to be `isometric`, as nobody else needs it."""
        if not self.oracle.isometric:
            return None
        rows: list[list[sp.csr_matrix]] = [[] for _ in self.numbers]
        for unit in _unit_rows(self.n_features):
            pulled = self.pull_back(unit)
            if pulled is None:
                return None
            for part, images in zip(rows, pulled, strict=True):
                part.append(sp.csr_matrix(images))
        return LinearLaw([sp.vstack(part, format="csr") for part in rows], self.weights)


class DrawnLaw(Law):
    """Members that `sample` draws, for every row from a generator of the same seed.

    Parameters
    ----------
    oracle : InvarianceOracle
    size : int
    random_state : int
    """

    def __init__(self, oracle: InvarianceOracle, size: int, random_state: int) -> None:
        self.oracle = oracle
        self.random_state = random_state
        self.weights = np.full(size, 1.0 / size)

    def members(self, X: Matrix) -> np.ndarray:
        source, X = answers.method(self.oracle, "sample"), floating(X)
        found = []
        # A row at a time: what one row has must not depend on the rows beside it.
        for number in range(X.shape[0]):
            generator = np.random.default_rng(self.random_state)
            row = X[number : number + 1]
            part = answers.ask(self.oracle, source, self.oracle.sample, row, self.size, generator)
            found.append(answers.numbers(source, "members", part, (1, self.size, X.shape[1])))
        return np.concatenate(found) if found else np.zeros((0, self.size, X.shape[1]))


def _unit_rows(n_features: int) -> Iterator[np.ndarray]:
    """The rows of the unit matrix, some at a time."""
    for first in range(0, n_features, _AT_ONCE):
        yield np.eye(min(_AT_ONCE, n_features - first), n_features, first)


def law_of(
    oracle: InvarianceOracle, n_features: int, size: int | None = None, random_state: int = 0
) -> Law:
    """``oracle.law(n_features, size, random_state)``, the question and the answer looked at.

    Parameters
    ----------
    oracle : InvarianceOracle
    n_features : int
    size : int, optional
        Number of draws; see `InvarianceOracle.law`.
    random_state : int, default=0

    Raises
    ------
    TypeError, ValueError
        Naming what cannot be a law: sizes and seeds out of range, oracles that need labels, answers
        that are no `Law`, or whose weights are none. Of foreign classes the law itself raises them,
        too, where members or directions have another shape or are no numbers.
    """
    from .checked_law import looked_at

    check_size(size)
    check_seed(random_state)
    oracle.validate(n_features)
    if oracle.depends_on_label:
        raise ValueError(
            "oracle must not depend on labels, which rows to predict do not have: leave out only_for, "
            f"got {oracle!r}"
        )
    law = oracle.law(n_features, size, random_state)
    return looked_at(answers.method(oracle, "law"), law, n_features, size)


def weights_of(oracle: InvarianceOracle, size: int) -> np.ndarray:
    """``oracle.member_weights(size)``, looked at."""
    source = answers.method(oracle, "member_weights")
    weights = answers.numbers(source, "weights", oracle.member_weights(size), (size,))
    if np.min(weights) < 0 or not np.sum(weights) > 0:
        raise ValueError(f"{source} must return weights of at least 0, and some above, got {weights}")
    return weights


def changes_otherwise(oracle: InvarianceOracle, family: Any, *others: str) -> bool:
    """Whether a subclass overrides what says which members the family has, or other methods named."""
    names = (*_DECIDING, *others)
    return any(getattr(type(oracle), name) is not getattr(family, name) for name in names)


def check_size(size: Any) -> None:
    """Raise unless it is None or an integer of at least 1."""
    if size is None:
        return
    if not isinstance(size, Integral) or isinstance(size, bool):
        raise TypeError(f"size must be None or an integer of at least 1, got {size!r}")
    if size < 1:
        raise ValueError(f"size must be None or an integer of at least 1, got {size!r}")
    if int(size) > MOST_CHANGES:
        raise ValueError(
            f"size must be None or an integer of at most {MOST_CHANGES}, as all changes of a row are in "
            f"memory at once, got {size!r}"
        )


def check_seed(random_state: Any) -> None:
    """Raise unless it is an integer of at least 0: the same changes have to come back in every call."""
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise TypeError(
            "random_state must be an integer of at least 0, since the same changes have to be drawn "
            f"again in every call, got {random_state!r}"
        )
    if random_state < 0:
        raise ValueError(f"random_state must be an integer of at least 0, got {random_state!r}")


def normalised(weights: np.ndarray) -> np.ndarray:
    """Weights with sum 1."""
    weights = np.asarray(weights, dtype=np.float64)
    return weights / np.sum(weights)


def usable_differences(law: Law, reordering: bool) -> LinearLaw | None:
    """The differences of a law's changes, where they move one side and are worth it."""
    # Those of drawn changes hardly meet: as many as pairs, which would have to be kept.
    found = law.differences(max(2, law.size**2) // 2)
    return None if found is None or (reordering and not found.permutes) else found


def _reorders(each: sp.csr_matrix) -> bool:
    ones = len(each.data) == each.shape[0] and np.all(each.data == 1.0)
    return bool(ones and np.all(np.diff(each.indptr) == 1) and len(set(each.indices)) == each.shape[0])


def _keeps_products(each: sp.csr_matrix) -> bool:
    if _reorders(each):
        return True
    off = each.T @ each - sp.identity(each.shape[0], format="csr")
    return bool(np.max(np.abs(off.data), initial=0.0) <= _ISOMETRY)


def _rounded(each: sp.csr_matrix, digits: int) -> sp.csr_matrix:
    """Without rounding errors, as far as digits tell."""
    each = sp.csr_matrix(each, copy=True)
    each.data = np.round(each.data, digits) + 0.0
    each.eliminate_zeros()
    each.sort_indices()
    return each


def _key(each: sp.csr_matrix) -> bytes:
    """The same for maps that are equal up to rounding errors."""
    coarse = _rounded(each, 9)
    return _digest(coarse.indptr, coarse.indices, coarse.data)


def _digest(*arrays: np.ndarray) -> bytes:
    found = blake2b(digest_size=16)
    for each in arrays:
        found.update(each.tobytes())
    return found.digest()
