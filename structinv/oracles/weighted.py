"""Probabilities of listed perturbations, for averages and random draws."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np

from ..utils.matrices import Matrix, Rows, refuse_masked
from ..utils.parameters import brief
from .base import BoundOracle, InvarianceOracle
from .changes import Changes
from .combinators import OracleWrapper
from .listed_changes import changes_of, listed
from .parameter_values import check_draw
from .third_party import bind
from .whole_examples import BoundWhole


class _BoundWeighted(BoundWhole):
    oracle: Weighted

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        check_draw(n_draws, rng)
        listing = listed(self)
        members, weights = listing.members(rows), listing.weights
        picks = rng.choice(len(weights), (len(members), n_draws), p=weights)
        return members[np.arange(len(members))[:, None], picks]


class Weighted(OracleWrapper):
    r"""An oracle with a list of members and a probability for each of them.

    .. math:: P(g_k) = w_k / \sum_j w_j

    The worst case is that of `oracle`. Probabilities apply to averages (`changes`) and to random members
    (`sample`).

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with a list of members that does not depend on the label.
    weights : sequence of float
        One weight (>= 0) per member of the `orbit`, the identity first; at least one must be positive.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all other methods, if `oracle` lists no members, or if `weights` does
        not match them.

    See Also
    --------
    Discounted : Smaller costs at large perturbations, for worst-case training.
    Changes.weighted : List with other probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Flip, Weighted
    >>> oracle = Weighted(Flip(shape=(1, 2)), [0.75, 0.25])
    >>> changes = oracle.changes(np.array([[4.0, 8.0]]))
    >>> changes.weights @ changes.members()[0]
    array([5., 7.])
    """

    _bound, _name = _BoundWeighted, "Weighted"
    _remedy = "write Shared(Weighted(oracle, weights))"

    def __init__(self, oracle: InvarianceOracle, weights: Sequence[float] | np.ndarray) -> None:
        self.oracle = oracle
        self.weights = weights

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        if self.oracle.depends_on_label:
            raise ValueError(
                "Weighted: oracle must list the same perturbations for every sample, but with "
                f"only_for they depend on the label, got {self.oracle!r}: remove only_for"
            )
        if not self.oracle.finite:
            raise ValueError(
                f"Weighted: oracle must be finite (oracle.finite), got {self.oracle!r}: pass a list of "
                "values instead of interval"
            )
        weights = self._weights()
        if n_features is not None:
            found = changes_of(self.oracle, np.zeros((0, n_features)))
            assert found is not None
            self._check_size(weights, found.size)

    def _weights(self) -> np.ndarray:
        given = self.weights
        refuse_masked("weights", given)
        parts = given.tolist() if isinstance(given, np.ndarray) else given
        if isinstance(parts, (str, bytes)) or not isinstance(parts, Sequence):
            raise TypeError(f"weights must be a sequence of numbers, got {brief(given)}")
        if not all(isinstance(part, Real) and not isinstance(part, bool) for part in parts):
            raise TypeError(f"weights must be a sequence of numbers, got {brief(given)}")
        weights = np.array(parts, dtype=np.float64)
        if not np.all((weights >= 0) & (weights < np.inf)) or not np.any(weights > 0):
            raise ValueError(
                f"weights must be finite and at least 0, with one above 0, got {brief(given)}"
            )
        return weights

    def _check_size(self, weights: np.ndarray, size: int) -> None:
        if len(weights) != size:
            raise ValueError(
                f"weights must have {size} entries, one per variant of {self.oracle!r} with the "
                f"unperturbed sample first, got {len(weights)}"
            )

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        # Check the part before `_prepared` uses it.
        self.validate()
        prepared = self._prepared()
        prepared._check_rows(X)
        return _BoundWeighted(prepared, bind(prepared.oracle, X, y))

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        inner, weights = changes_of(self.oracle, X, y), self._weights()
        if inner is None:
            return None
        self._check_size(weights, inner.size)
        # The sum of very large weights may overflow.
        return inner.weighted(weights / np.max(weights))
