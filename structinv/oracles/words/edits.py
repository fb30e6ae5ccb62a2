"""Oracles of words: at most so many words of a row are dropped, rescaled or added."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ...utils.matrices import ALL_ROWS, Matrix, dense_rows, floating
from ...utils.parameters import check_boolean, check_integer
from ..arguments import check_directions, check_features, chosen_features
from ..base import CountedChanges, InvarianceOracle, Support
from ..columns import FeatureParameters
from ..images.image_parameters import check_distribution, draw
from .bound_edits import BoundEdits
from .word_edits import WordEdits


class EditOracle(FeatureParameters, InvarianceOracle):
    """At most `max_changes` words of x are edited: multiplied by factors, or raised by values.

    With ``b = v * x`` the gain of word j is ``max((low - 1) b_j, (high - 1) b_j)`` where it is in the
    row, and ``a_j v_j`` where a value a_j may be added. The best edits take the largest positive gains,
    whatever their kinds: linear in the words of the row. All between no edit and a whole one are
    members, too.
    """

    supports_sparse = True
    coordinatewise = True
    feature_parameters: ClassVar[tuple[str, ...]] = ()
    max_changes: int
    present: bool = False

    @property
    def factors(self) -> tuple[float, float]:
        """The smallest and the largest factor of words that are there."""
        return 1.0, 1.0

    def _values(self, n_features: int) -> np.ndarray:
        """What may be added to each feature, 0 where nothing may; empty if nothing is added."""
        return np.empty(0)

    def edits(self, n_features: int) -> WordEdits:
        """What may be done to rows of so many features."""
        values = self._values(n_features)
        return WordEdits(int(self.max_changes), *self.factors, values, bool(self.present))

    def validate(self, n_features: int | None = None) -> None:
        check_integer("max_changes", self.max_changes, least=0)
        for name in self.feature_parameters:
            if getattr(self, name) is not None:
                check_features(name, getattr(self, name), n_features)

    def counted(self) -> CountedChanges:
        return CountedChanges(
            int(self.max_changes), lambda most: clone(self).set_params(max_changes=most)
        )

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact (Teo et al. 2007, alg. 3, without its sort)."""
        return self._bound(X, V, assign, cost).support(ALL_ROWS, V, assign).with_points()

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`; `rho` is indexed by the number of edits."""
        return self._bound(X, V, assign, cost).support(ALL_ROWS, V, assign, cost, rho)

    def _bound(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> BoundEdits:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        return BoundEdits(self, X)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Members with a uniform number of edits, at words drawn uniformly from those that can be."""
        self._check_rows(X)
        edits = self.edits(X.shape[1])
        members = np.repeat(floating(dense_rows(X))[:, None, :], n_draws, axis=1)
        there, value = members != 0, edits.value
        multiplied = there & (edits.low < edits.high)
        can = multiplied if not value.size else multiplied | ((value > 0) & (~there | edits.present))
        number = rng.integers(self.max_changes + 1, size=members.shape[:2])
        order = np.where(can, rng.random(members.shape), np.inf).argsort(axis=2).argsort(axis=2)
        edited = can & (order < number[:, :, None])
        changed = members * self._drawn_factors(members.shape, rng)
        if value.size:
            shares = value * rng.random(members.shape)
            changed = np.where(multiplied, changed, members + shares)
        return np.where(edited, changed, members).astype(members.dtype, copy=False)

    def _drawn_factors(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(*self.factors, size=shape)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        edits = self.edits(len(x))
        value = edits.value if edits.value.size else np.zeros(len(x))
        raised = np.where((x == 0) | edits.present, value, 0.0)
        tolerance = 1e-9 * (1.0 + np.abs(x)) * ((x != 0) | (raised > 0))
        edges = np.stack([x, edits.low * x, edits.high * x])
        low, high = edges.min(axis=0), np.maximum(edges.max(axis=0), x + raised)
        inside = (z >= low - tolerance) & (z <= high + tolerance)
        return bool(np.all(inside) and np.count_nonzero(np.abs(z - x) > tolerance) <= self.max_changes)


class FScale(EditOracle):
    """FSCALE: at most `max_changes` words are scaled by factors between `low` and `high`.

    ``S(x) = {x * a : low <= a <= high, at most max_changes entries of a differ from 1}``
    (Teo et al. 2007, sec. 3).

    Parameters
    ----------
    max_changes : int
        At least 0. There is no default: ten changes are nothing to a long mail, and all of a short
        one.
    low : float, default=0.5
        Smallest factor, in [0, 1].
    high : float, default=2.0
        Largest factor, at least 1.
    distribution : {"uniform", "lognormal"}, default="uniform"
        Of the factors in `sample`. "lognormal" is a normal density over their logarithm, largest at 1
        and cut off at `low` and `high`; it needs `low` above 0.
    spread : float, optional
        Standard deviation of the logarithm, before it is cut off; needed and above 0 for "lognormal".

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, -1.0, 5.0]])
    >>> FScale(max_changes=1).support(X, v, np.array([0])).points
    array([[2., 2., 0.]])
    """

    def __init__(
        self,
        max_changes: int,
        low: float = 0.5,
        high: float = 2.0,
        *,
        distribution: str = "uniform",
        spread: float | None = None,
    ) -> None:
        self.max_changes = max_changes
        self.low = low
        self.high = high
        self.distribution = distribution
        self.spread = spread

    @property
    def factors(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        for name, value, least, most in (("low", self.low, 0, 1), ("high", self.high, 1, np.inf)):
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, got {value!r}")
            if not least <= value <= most or value == np.inf:
                allowed = "a factor in [0, 1]" if most == 1 else "a finite factor of at least 1"
                raise ValueError(f"{name} must be {allowed}, got {value!r}")
        check_distribution("FScale", ("uniform", "lognormal"), self.distribution, self.spread)
        if self.distribution == "lognormal" and self.low == 0:
            raise ValueError(f"low must be above 0 for the distribution 'lognormal', got {self.low!r}")

    def _drawn_factors(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return draw(self.distribution, *self.factors, 1.0, self.spread, shape, rng)


class FDrop(EditOracle):
    """FDROP: at most `max_changes` words are dropped (Globerson and Roweis 2006).

    ``S(x) = {x * a : 0 <= a <= 1, at most max_changes entries of a differ from 1}``

    Parameters
    ----------
    max_changes : int
        At least 0. There is no default: ten changes are nothing to a long mail, and all of a short
        one.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, -1.0, 5.0]])
    >>> FDrop(max_changes=1).support(X, v, np.array([0])).points
    array([[1., 0., 0.]])
    """

    factors = (0.0, 1.0)

    def __init__(self, max_changes: int) -> None:
        self.max_changes = max_changes


class FAdd(EditOracle):
    r"""At most `max_changes` words are added: good words in spam, permissions that malware asks for.

    .. math:: S(x) = \Bigl\{x + \sum_{j \in A} t_j a_j e_j : 0 \le t_j \le 1, \; |A| \le K, \;
       A \subseteq allowed, \; x_j = 0 \text{ for } j \in A\Bigr\}

    with a the `value`. The other half of an adversary's moves, after `FDrop` (Globerson and Roweis
    2006); with `present` a word is counted once more, as in Teo et al. (2007, sec. 5.2).

    Parameters
    ----------
    max_changes : int
        At least 0, and at most the number of features that may be added.
    value : float or (d,) array, default=1.0
        What a feature is raised by, above 0: the number that a word of a text adds where it is new, as
        the weight of the word in rows that are weighted by fixed numbers.
    allowed : array-like of bool of shape (d,), of int or of str, optional
        Features that may be added: a mask, numbers, or names of columns if X is a data frame. All by
        default.
    present : bool, default=False
        Whether features that are in the row may be raised, too.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 0.0, 0.0]]), np.array([[3.0, 2.0, -1.0]])
    >>> FAdd(max_changes=1).support(X, v, np.array([0])).points
    array([[1., 1., 0.]])
    >>> FAdd(max_changes=1, present=True).support(X, v, np.array([0])).points
    array([[2., 0., 0.]])
    """

    feature_parameters = ("allowed",)

    def __init__(
        self, max_changes: int, value: Any = 1.0, allowed: Any = None, present: bool = False
    ) -> None:
        self.max_changes = max_changes
        self.value = value
        self.allowed = allowed
        self.present = present

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        _check_value("value", self.value, self.allowed, n_features)
        check_boolean("present", self.present)
        if n_features is not None:
            able = len(chosen_features(self.allowed, n_features))
            check_integer("max_changes", self.max_changes, 0, able, "features that may be added")

    def _values(self, n_features: int) -> np.ndarray:
        return _spread(self.value, self.allowed, n_features)


class FEdit(EditOracle):
    """At most `max_changes` edits in all, of several kinds: words dropped, rescaled, added.

    Parameters
    ----------
    max_changes : int
        At least 0, and at most the number of features.
    drop : bool, default=True
        Whether words of the row may be dropped, wholly or in part.
    add : float or (d,) array, optional
        What an absent feature may be raised by, above 0; without it nothing is added.
    scale : (float, float), optional
        Lowest and highest factor of words of the row, the first in [0, 1], the second at least 1.
    allowed : array-like of bool of shape (d,), of int or of str, optional
        Features that may be added: a mask, numbers, or names of columns if X is a data frame. All by
        default.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.array([[1.0, 0.0, 4.0]]), np.array([[3.0, 2.0, -1.0]])
    >>> FEdit(max_changes=2, add=1.0).support(X, v, np.array([0])).points
    array([[1., 1., 0.]])
    """

    feature_parameters = ("allowed",)

    def __init__(
        self,
        max_changes: int,
        *,
        drop: bool = True,
        add: Any = None,
        scale: tuple[float, float] | None = None,
        allowed: Any = None,
    ) -> None:
        self.max_changes = max_changes
        self.drop = drop
        self.add = add
        self.scale = scale
        self.allowed = allowed

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        check_boolean("drop", self.drop)
        _check_scale(self.scale)
        if self.add is not None:
            _check_value("add", self.add, self.allowed, n_features)
        elif self.allowed is not None:
            raise ValueError(
                f"allowed names features that may be added, and add is None: give add what they are "
                f"raised by, or leave allowed out; got {self.allowed!r}"
            )
        elif not self.drop and self.scale is None:
            raise ValueError("FEdit must allow an edit: drop=True, add=a value, or scale=(low, high)")
        if n_features is not None:
            check_integer("max_changes", self.max_changes, 0, n_features, "features")

    @property
    def factors(self) -> tuple[float, float]:
        low, high = (1.0, 1.0) if self.scale is None else self.scale
        return 0.0 if self.drop else float(low), float(high)

    def _values(self, n_features: int) -> np.ndarray:
        if self.add is None:
            return super()._values(n_features)
        return _spread(self.add, self.allowed, n_features)


def _spread(value: Any, allowed: Any, n_features: int) -> np.ndarray:
    """What may be added to each feature, 0 where nothing may."""
    values, chosen = np.zeros(n_features), chosen_features(allowed, n_features)
    values[chosen] = np.broadcast_to(np.asarray(value, dtype=np.float64), n_features)[chosen]
    return values


def _check_value(name: str, value: Any, allowed: Any, n_features: int | None) -> None:
    """Raise TypeError or ValueError unless every feature that may be added has a number above 0."""
    wanted = f"{name} must be a number above 0, or one for each feature"
    if isinstance(value, (bool, np.bool_)) or (np.ndim(value) == 0 and not isinstance(value, Real)):
        raise TypeError(f"{wanted}, got {value!r}")
    given = np.asarray(value)
    if given.ndim > 1 or given.dtype.kind not in "iuf":
        raise TypeError(f"{wanted}, got an array of {given.dtype} of shape {given.shape}")
    if given.ndim == 1 and n_features is not None and len(given) != n_features:
        raise ValueError(f"{wanted}, {n_features} of them, got {len(given)}")
    if given.ndim == 0:
        if not (given > 0 and np.isfinite(given)):
            raise ValueError(f"{wanted}, got {value!r}")
        return
    asked = np.arange(len(given)) if n_features is None and allowed is not None else None
    chosen = chosen_features(allowed, len(given)) if asked is None else asked[:0]
    bad = chosen[~((given[chosen] > 0) & np.isfinite(given[chosen]))]
    if len(bad):
        raise ValueError(
            f"{wanted}, got {given[bad[0]]!r} for feature {bad[0]}: leave features that cannot be "
            f"added out of allowed"
        )


def _check_scale(scale: Any) -> None:
    """Raise TypeError or ValueError unless it is None, or a factor up to 1 and one of at least 1."""
    if scale is None:
        return
    if not isinstance(scale, (tuple, list)) or len(scale) != 2:
        raise TypeError(f"scale must be a pair (low, high) of factors, got {scale!r}")
    if any(isinstance(each, (bool, np.bool_)) or not isinstance(each, Real) for each in scale):
        raise TypeError(f"scale must be a pair of numbers, got {scale!r}")
    low, high = scale
    if not 0 <= low <= 1 <= high < np.inf:
        raise ValueError(
            f"scale must be a factor in [0, 1] and a finite one of at least 1, got {scale!r}"
        )
