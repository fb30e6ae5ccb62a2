"""Members of each row from a function: an object of its own for every row."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from ..utils import plugins
from ..utils.matrices import Matrix, Rows, dense_rows, floating
from .arguments import profile_of_list
from .base import BoundOracle, Support
from .cache import LastResult
from .changes import Changes
from .finite import FiniteOracle, best_of_list
from .listed_changes import ListedChanges
from .support import Grades


class Sampled(FiniteOracle):
    r"""The row and what a function lists beside it.

    .. math:: S(x) = \{x\} \cup \{g_1(x), \dots, g_s(x)\}

    An object of its own for every row: the model of a sample decides its object (Pozdnoukhov and
    Bengio 2006, section 2.4). Members may be measured again, drawn from a model, or looked up.

    Parameters
    ----------
    function : callable
        From rows (n, d) to the s members of each, (n, s, d), with the same s in every call. The row
        itself is added and need not be among them. The function sees any block of rows, in any order,
        and what it gives for a row may depend on that row only: one that draws at random must take its
        seed from the row. `check_oracle` compares blocks, orders, and the same call again.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, if `function` cannot be called, or gives anything else than finite
        numbers of shape (n, s, d); from `bind`, and with it every fit, if the last row has
        other members when asked about alone.

    Notes
    -----
    ``discounted(rho)`` takes a number for the grade of all members but the row, or a sequence of the
    grades of the row and of its s members. Rows are dense; members have their precision. A bound oracle
    keeps the members of all rows, n (s + 1) d numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Sampled
    >>> def lags(X):
    ...     "The signal a step earlier and a step later."
    ...     return np.stack([np.roll(X, -1, axis=1), np.roll(X, 1, axis=1)], axis=1)
    >>> X, V = np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 0.0, 0.0]])
    >>> Sampled(lags).support(X, V, np.array([0])).points
    array([[3., 1., 2.]])
    """

    # Of a prepared copy only.
    _last: LastResult | None = None

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]) -> None:
        self.function = function

    def validate(self, n_features: int | None = None) -> None:
        """Raise unless the function can be called."""
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {self.function!r}")

    def orbit(self, X: Matrix) -> np.ndarray:
        """See `InvarianceOracle.orbit`; the row, then the members in the order of the function."""
        self._check_rows(X)
        rows = dense_rows(X)
        first = floating(rows)
        members = self._listed(rows).astype(first.dtype, copy=False)
        return np.concatenate([first[:, None, :], members], axis=1)

    def _listed(self, rows: np.ndarray) -> np.ndarray:
        found = plugins.ask_third_party("function", self.function, rows)
        return plugins.numbers("function", "members", found, (len(rows), "s", rows.shape[1]))

    def _prepared(self) -> Sampled:
        """See `InvarianceOracle._prepared`; the members of the rows asked about last are kept."""
        if self._last is not None:
            return self
        prepared = copy.copy(self)
        prepared._last = LastResult()
        return prepared

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        if self._last is None:
            return ListedChanges(self, X)
        return self._last.get(X, lambda: ListedChanges(self, X, keep=True))

    def member_names(self, size: int) -> list[str]:
        return ["identity", *(f"member {number}" for number in range(1, size))]


class BoundSampled(BoundOracle):
    """Members of given rows, which are made once."""

    oracle: Sampled

    def __init__(self, oracle: Sampled, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.kept = self._listed().members()
        plugins.repeats("function", "members", self.kept, lambda: oracle.orbit(X[-1:]))

    def _listed(self) -> Changes:
        found = self.changes()
        assert found is not None
        return found

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        members = self.kept[rows]
        if rho is None:
            return best_of_list(members, V, assign)
        worth = np.zeros(len(assign)) if cost is None else cost
        return best_of_list(members, V, assign, worth, profile_of_list(rho, members.shape[1]))
