"""Members of a list that are not equally likely."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Real
from typing import Self

import numpy as np

from ..matrices import ALL_ROWS, Matrix, Rows
from .arguments import check_row_by_row
from .base import BoundOracle, InvarianceOracle, Support, pulled_back
from .checked import bind, tangents_of
from .combinators import Combination, OfOnePart, validate_part
from .image_parameters import check_draw
from .laws import Law, changes_otherwise, weights_of
from .scenarios import BoundWhole


class Weighted(OfOnePart, Combination):
    r"""The set of an oracle that lists its members, with a probability for each of them.

    .. math:: P(g_k) = w_k / \sum_j w_j

    Worst cases are those of the oracle. Means over changes (`InvarianceOracle.law`) and random members
    (`sample`) go by the probabilities.

    Parameters
    ----------
    oracle : InvarianceOracle
        One that lists its members, the same ones for all labels.
    weights : sequence of float
        One for each member of the `orbit`, that of the identity first: at least 0, and some above.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, if `oracle` lists no members or the weights do not fit them.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Flip, Weighted, law_of
    >>> oracle = Weighted(Flip(shape=(1, 2)), [0.75, 0.25])
    >>> law = law_of(oracle, 2)
    >>> law.weights @ law.members(np.array([[4.0, 8.0]]))[0]
    array([5., 7.])
    """

    def __init__(self, oracle: InvarianceOracle, weights: Sequence[float] | np.ndarray) -> None:
        self.oracle = oracle
        self.weights = weights

    isometric = property(lambda self: self.oracle.isometric)

    def validate(self, n_features: int | None = None) -> None:
        """Raise unless the part lists its members, and there is a weight for each of them."""
        validate_part("oracle", self.oracle, n_features)
        check_row_by_row("Weighted: oracle", self.oracle, "write Shared(Weighted(oracle, weights))")
        if self.oracle.depends_on_label:
            raise ValueError(
                "Weighted: oracle must list the same members for every row, and those of only_for "
                f"differ by label, got {self.oracle!r}"
            )
        if not self.oracle.finite:
            raise ValueError(
                "Weighted: oracle must list its members, which a continuous set of images does by "
                f"quadrature, got {self.oracle!r}"
            )
        weights = self._weights()
        if n_features is not None:
            self._check_size(
                weights, bind(self.oracle, np.zeros((1, n_features))).orbit(ALL_ROWS).shape[1]
            )

    def _weights(self) -> np.ndarray:
        given = self.weights
        parts = given.tolist() if isinstance(given, np.ndarray) else given
        if isinstance(parts, (str, bytes)) or not isinstance(parts, Sequence):
            raise TypeError(f"weights must be a sequence of numbers, got {given!r}")
        if not all(isinstance(part, Real) and not isinstance(part, bool) for part in parts):
            raise TypeError(f"weights must be a sequence of numbers, got {given!r}")
        weights = np.array(parts, dtype=np.float64)
        if not np.all((weights >= 0) & (weights < np.inf)) or not np.any(weights > 0):
            raise ValueError(f"weights must be finite and at least 0, and some above, got {given!r}")
        return weights

    def _check_size(self, weights: np.ndarray, size: int) -> None:
        if len(weights) != size:
            raise ValueError(
                f"weights must have {size} entries, one for each member of {self.oracle!r}, the "
                f"identity first, got {len(weights)}"
            )

    def prepared(self) -> Self:
        """See `InvarianceOracle.prepared`: the part is."""
        prepared = copy.copy(self)
        prepared.oracle = self.oracle.prepared()
        return prepared

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """The part on the rows of `X`."""
        # First whether it is a part at all.
        self.validate()
        prepared = self.prepared()
        prepared._check_rows(X)
        return _BoundWeighted(prepared, bind(prepared.oracle, X, y))

    def law(self, n_features: int, size: int | None = None, random_state: int = 0) -> Law:
        self.validate(n_features)
        return super().law(n_features, size, random_state)

    def listed_law(self, n_features: int, weights: np.ndarray | None = None) -> Law:
        """See `InvarianceOracle.listed_law`; that of the part."""
        if changes_otherwise(self, Weighted):
            return super().listed_law(n_features, weights)
        if weights is None:
            weights = weights_of(self, len(self._weights()))
        return self.oracle.listed_law(n_features, weights)

    def member_weights(self, size: int) -> np.ndarray:
        weights = self._weights()
        self._check_size(weights, size)
        # Their sum may be no number.
        weights /= np.max(weights)
        return weights / np.sum(weights)

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        self._check_rows(X)
        return self.oracle.graded_support(X, V, assign, cost, rho)

    def tangents(self, X: Matrix) -> np.ndarray:
        return tangents_of(self.oracle, X)

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        return pulled_back(self.oracle, V)

    def member_names(self, size: int) -> list[str]:
        return self.oracle.member_names(size)

    def member_scores(self, X: Matrix, V: np.ndarray) -> np.ndarray | None:
        return self.oracle.member_scores(X, V)

    def member_grades(self, size: int, rho: float | Sequence[float]) -> np.ndarray:
        return self.oracle.member_grades(size, rho)


class _BoundWeighted(BoundWhole):
    oracle: Weighted

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        check_draw(size, rng)
        members = self.inner.orbit(rows)
        shares = self.oracle.member_weights(members.shape[1])
        picks = rng.choice(len(shares), (len(members), size), p=shares)
        return members[np.arange(len(members))[:, None], picks]

    def edits(self) -> tuple[int, float, float] | None:
        return self.inner.edits()
