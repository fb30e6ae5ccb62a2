"""Oracles of feature edits: removal, rescaling and addition of words."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ...utils.matrices import ALL_ROWS, Matrix, dense_rows, floating, refuse_masked
from ...utils.parameters import brief, check_boolean, check_integer, in_order
from ..arguments import check_directions, check_features, chosen_features
from ..base import CountedChanges, InvarianceOracle, Support
from ..columns import FeatureParameters
from ..support import Costs, Grades
from .bound_edits import BoundEdits, WordEdits


class EditOracle(FeatureParameters, InvarianceOracle):
    """Base class of oracles that edit at most `max_changes` features of a sample.

    Let ``b = v * x``. Feature j of x gains ``max((low - 1) b_j, (high - 1) b_j)``. A feature that may
    be added gains ``a_j v_j`` with its value a_j. The support function adds the `max_changes` largest
    positive gains to ``<v, x>`` (Teo et al. 2007, alg. 3, without its sort). The run time is linear in
    the number of nonzero features. Partial edits are also elements of S(x).
    """

    supports_sparse = True
    feature_parameters: ClassVar[tuple[str, ...]] = ()
    max_changes: int
    present: bool = False

    @property
    def factors(self) -> tuple[float, float]:
        """Smallest and largest factor of nonzero features."""
        return 1.0, 1.0

    def _values(self, n_features: int) -> np.ndarray:
        """Return the largest increase of each feature (0: not allowed); empty if none is allowed."""
        return np.empty(0)

    def edits(self, n_features: int) -> WordEdits:
        """Return the allowed edits in the form of the compiled functions.

        Parameters
        ----------
        n_features : int
            Number of features of the samples.

        Returns
        -------
        WordEdits
            Number of edits, range of factors, and largest increase of each feature.
        """
        values = self._values(n_features)
        return WordEdits(int(self.max_changes), *self.factors, values, bool(self.present))

    def validate(self, n_features: int | None = None) -> None:
        check_integer("max_changes", self.max_changes, least=0)
        for name in self.feature_parameters:
            if getattr(self, name) is not None:
                check_features(name, getattr(self, name), n_features)

    def counted(self) -> CountedChanges:
        check_integer("max_changes", self.max_changes, least=0)
        return CountedChanges(
            int(self.max_changes), lambda most: clone(self).set_params(max_changes=most)
        )

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        return BoundEdits(self, X).support(ALL_ROWS, V, assign, cost, rho).with_points()

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw random elements of each S(x).

        The number of edits is uniform on {0, ..., `max_changes`}. The edited features are drawn
        uniformly from those with an allowed edit.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples.
        n_draws : int
            Number of draws per sample.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray of shape (n_samples, n_draws, n_features)
            Perturbed samples.
        """
        self._check_rows(X)
        edits = self.edits(X.shape[1])
        members = np.repeat(floating(dense_rows(X))[:, None, :], n_draws, axis=1)
        nonzero, value = members != 0, edits.value
        scalable = nonzero & (edits.low < edits.high)
        allowed = scalable
        if value.size:
            allowed = scalable | ((value > 0) & (~nonzero | edits.present))
        n_edits = rng.integers(self.max_changes + 1, size=members.shape[:2])
        ranks = np.where(allowed, rng.random(members.shape), np.inf).argsort(axis=2).argsort(axis=2)
        edited = allowed & (ranks < n_edits[:, :, None])
        changed = members * rng.uniform(*self.factors, size=members.shape)
        if value.size:
            increases = value * rng.random(members.shape)
            changed = np.where(scalable, changed, members + increases)
        return np.where(edited, changed, members).astype(members.dtype, copy=False)

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
    """Rescaling of at most `max_changes` features of a sample.

    ``S(x) = {x * a : low <= a <= high, at most max_changes entries of a differ from 1}``.
    A factor of 0 removes a feature. The paper's name is FSCALE (Teo et al. 2007, sec. 3).

    Parameters
    ----------
    max_changes : int
        Maximum number of rescaled features per sample (>= 0). It has no default, since it depends on
        the lengths of the texts. Ten edits are few in a long mail and many in a short one.
    low : float, default=0.5
        Smallest factor, in [0, 1].
    high : float, default=2.0
        Largest factor (>= 1).

    See Also
    --------
    FDrop : Removal of features: factors in [0, 1].
    FEdit : Removals, rescalings and additions with one limit of their number.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FScale
    >>> X, v = np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, -1.0, 5.0]])
    >>> FScale(max_changes=1).support(X, v, np.array([0])).points
    array([[2., 2., 0.]])
    """

    def __init__(self, max_changes: int, low: float = 0.5, high: float = 2.0) -> None:
        self.max_changes = max_changes
        self.low = low
        self.high = high

    @property
    def factors(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        for name, value, least, most in (("low", self.low, 0, 1), ("high", self.high, 1, np.inf)):
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, got {brief(value)}")
            if not least <= value <= most or value == np.inf:
                allowed = "a factor in [0, 1]" if most == 1 else "a finite factor of at least 1"
                raise ValueError(f"{name} must be {allowed}, got {brief(value)}")


class FDrop(EditOracle):
    """Removal of at most `max_changes` features of a sample, such as words of a text.

    ``S(x) = {x * a : 0 <= a <= 1, at most max_changes entries of a differ from 1}``.
    The paper's name is FDROP (Globerson and Roweis 2006).

    Parameters
    ----------
    max_changes : int
        Maximum number of removed features per sample (>= 0). It has no default, since it depends on
        the lengths of the texts. Ten edits are few in a long mail and many in a short one.

    See Also
    --------
    FScale : Rescaling of features by factors in any interval.
    FAdd : Addition of features.
    TokenEdits : Edits of the tokens of a text, for features such as n-grams.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FDrop
    >>> X, v = np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, -1.0, 5.0]])
    >>> FDrop(max_changes=1).support(X, v, np.array([0])).points
    array([[1., 0., 0.]])
    """

    factors = (0.0, 1.0)

    def __init__(self, max_changes: int) -> None:
        self.max_changes = max_changes


class FAdd(EditOracle):
    r"""Addition of at most `max_changes` features, such as innocent words to spam.

    .. math:: S(x) = \Bigl\{x + \sum_{j \in A} t_j a_j e_j : 0 \le t_j \le 1, \; |A| \le K, \;
       A \subseteq allowed, \; x_j = 0 \;\; (j \in A)\Bigr\}

    where K is `max_changes` and a is `value`. With ``present=True`` the condition :math:`x_j = 0` does
    not apply, as in Teo et al. (2007, sec. 5.2). Examples are innocent words in spam, and permissions of
    benign apps in malware.

    Parameters
    ----------
    max_changes : int
        Maximum number of added features per sample, from 0 to the number of allowed features.
    value : float or array-like of shape (n_features,), default=1.0
        Largest increase of a feature (> 0). A Series with names is aligned with the columns of X. Use 1
        for word counts. Use the idf weight of each word for TF-IDF features with ``norm=None``.
    allowed : array-like of bool, int or str, default=None
        Features that may be added: a mask of shape (n_features,), column numbers, or column names if
        X is a data frame. None allows all features.
    present : bool, default=False
        Whether nonzero features may also be increased.

    See Also
    --------
    FDrop : Removal of features.
    FEdit : Removals, rescalings and additions with one limit of their number.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FAdd
    >>> X, v = np.array([[1.0, 0.0, 0.0]]), np.array([[3.0, 2.0, -1.0]])
    >>> FAdd(max_changes=1).support(X, v, np.array([0])).points
    array([[1., 1., 0.]])
    >>> FAdd(max_changes=1, present=True).support(X, v, np.array([0])).points
    array([[2., 0., 0.]])
    """

    feature_parameters = ("allowed",)
    feature_axes = {"value": -1}

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
            n_allowed = len(chosen_features(self.allowed, n_features))
            check_integer("max_changes", self.max_changes, 0, n_allowed, "features that may be added")

    def _values(self, n_features: int) -> np.ndarray:
        return _values_of_allowed(self.value, self.allowed, n_features)


class FEdit(EditOracle):
    """Removal, rescaling and addition of at most `max_changes` features in total.

    Parameters
    ----------
    max_changes : int
        Maximum number of edited features per sample, from 0 to `n_features`.
    drop : bool, default=True
        Whether nonzero features may be removed, entirely or in part.
    add : float or array-like of shape (n_features,), default=None
        Largest increase of a zero feature (> 0). A Series with names is aligned with the columns of X.
        None allows no additions.
    scale : pair of float, default=None
        Smallest factor, in [0, 1], and largest factor (>= 1) of nonzero features. None allows no
        rescaling.
    allowed : array-like of bool, int or str, default=None
        Features that may be added: a mask of shape (n_features,), column numbers, or column names if
        X is a data frame. None allows all features.

    See Also
    --------
    FDrop : Removal of features.
    FScale : Rescaling of features.
    FAdd : Addition of features.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FEdit
    >>> X, v = np.array([[1.0, 0.0, 4.0]]), np.array([[3.0, 2.0, -1.0]])
    >>> FEdit(max_changes=2, add=1.0).support(X, v, np.array([0])).points
    array([[1., 1., 0.]])
    """

    feature_parameters = ("allowed",)
    feature_axes = {"add": -1}

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
                f"allowed must be None without add, got {brief(self.allowed)}: set add to the largest "
                "increase of a feature, or remove allowed"
            )
        elif not self.drop and self.scale is None:
            raise ValueError(
                "FEdit must allow an edit: set drop=True, add to a number, or scale to (low, high)"
            )
        if n_features is not None:
            check_integer("max_changes", self.max_changes, 0, n_features, "features")

    @property
    def factors(self) -> tuple[float, float]:
        low, high = (1.0, 1.0) if self.scale is None else self.scale
        return 0.0 if self.drop else float(low), float(high)

    def _values(self, n_features: int) -> np.ndarray:
        if self.add is None:
            return super()._values(n_features)
        return _values_of_allowed(self.add, self.allowed, n_features)


def _values_of_allowed(value: Any, allowed: Any, n_features: int) -> np.ndarray:
    """Return the largest increase of each feature, 0 for features that are not allowed."""
    values, chosen = np.zeros(n_features), chosen_features(allowed, n_features)
    given = in_order("value", value).astype(np.float64)
    values[chosen] = np.broadcast_to(given, n_features)[chosen]
    return values


def _check_value(name: str, value: Any, allowed: Any, n_features: int | None) -> None:
    """Raise TypeError or ValueError unless each allowed feature has a finite value > 0."""
    requirement = f"{name} must be a number above 0, or one for each feature"
    if isinstance(value, (bool, np.bool_)) or (np.ndim(value) == 0 and not isinstance(value, Real)):
        raise TypeError(f"{requirement}, got {brief(value)}")
    refuse_masked(name, value)
    values = np.asarray(value) if n_features is None else in_order(name, value)
    if values.ndim > 1 or values.dtype.kind not in "iuf":
        raise TypeError(f"{requirement}, got an array of {values.dtype} of shape {values.shape}")
    if values.ndim == 1 and n_features is not None and len(values) != n_features:
        raise ValueError(f"{requirement} ({n_features} features), got {len(values)} numbers")
    if values.ndim == 0:
        if not (values > 0 and np.isfinite(values)):
            raise ValueError(f"{requirement}, got {brief(value)}")
        return
    if n_features is None and allowed is not None:
        # Which entries of `value` are for allowed features is known only with the columns of X.
        return
    chosen = chosen_features(allowed, len(values))
    bad = chosen[~((values[chosen] > 0) & np.isfinite(values[chosen]))]
    if len(bad):
        raise ValueError(
            f"{requirement}, got {values[bad[0]]!r} for feature {bad[0]}: use the argument allowed to "
            "exclude features that cannot be added"
        )


def _check_scale(scale: Any) -> None:
    """Raise TypeError or ValueError unless `scale` is a valid pair of factors or None."""
    if scale is None:
        return
    if not isinstance(scale, (tuple, list)) or len(scale) != 2:
        raise TypeError(f"scale must be a pair (low, high) of factors, got {brief(scale)}")
    if any(isinstance(each, (bool, np.bool_)) or not isinstance(each, Real) for each in scale):
        raise TypeError(f"scale must be a pair of numbers, got {brief(scale)}")
    low, high = scale
    if not 0 <= low <= 1 <= high < np.inf:
        raise ValueError(
            f"scale must be (low, high) with low in [0, 1] and a finite high >= 1, got {brief(scale)}"
        )
