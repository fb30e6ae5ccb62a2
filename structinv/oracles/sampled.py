"""Finite perturbation sets that a custom function lists for each sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..utils import plugins
from ..utils.matrices import Matrix, Rows, dense_rows, floating
from ..utils.parameters import brief
from .base import BoundOracle, Support
from .cache import CachedOracle
from .changes import Changes
from .finite_oracles import FiniteOracle, best_of_list
from .listed_changes import ListedChanges, listed
from .support import Costs, Grades


class Sampled(CachedOracle, FiniteOracle):
    r"""Perturbed samples listed by a function, together with the sample itself.

    .. math:: S(x) = \{x\} \cup \{g_1(x), \dots, g_s(x)\}

    Each sample has a custom perturbation set (Pozdnoukhov and Bengio 2006, section 2.4). Its members
    may be repeated measurements, draws from a model, or entries of a table.

    Parameters
    ----------
    function : callable
        Function from samples (n, d) to s members of each, (n, s, d), with the same s in every call. The
        sample itself is added. The function is called with arbitrary blocks of samples in any order, and
        its result for a sample must depend on this sample only. A random function must derive its seed
        from the sample. `check_oracle` compares the results of different blocks, sequences and repeated
        calls.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all other methods, if `function` is not callable, or does not return
        finite numbers of shape (n, s, d). Raised by `bind`, and so by every fit, if the members of the
        last sample differ in a call with this sample alone.

    See Also
    --------
    FiniteOracle : Base class of oracles with a finite list.
    Trajectory : Curve of members from a function.

    Notes
    -----
    In ``discounted(rho)``, a number is the grade of all members except the sample. A sequence has
    the grades of the sample and its s members. Samples must be dense; members have the dtype of the
    samples. A bound oracle stores the n (s + 1) members of all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Sampled
    >>> def lags(X):
    ...     "The signal one step earlier and one step later."
    ...     return np.stack([np.roll(X, -1, axis=1), np.roll(X, 1, axis=1)], axis=1)
    >>> X, V = np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 0.0, 0.0]])
    >>> Sampled(lags).support(X, V, np.array([0])).points
    array([[3., 1., 2.]])
    """

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]) -> None:
        self.function = function

    def validate(self, n_features: int | None = None) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {brief(self.function)}")

    def orbit(self, X: Matrix) -> np.ndarray:
        self._check_rows(X)
        rows = dense_rows(X)
        first = floating(rows)
        members = self._listed(rows).astype(first.dtype, copy=False)
        return np.concatenate([first[:, None, :], members], axis=1)

    def _listed(self, rows: np.ndarray) -> np.ndarray:
        found = plugins.ask_third_party("function", self.function, rows)
        return plugins.numbers("function", "members", found, (len(rows), "s", rows.shape[1]))

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        is_bound = self._cache is not None
        found: Changes = self._once_for(X, lambda: ListedChanges(self, X, keep=is_bound))
        return found

    def member_names(self, size: int) -> list[str]:
        return ["identity", *(f"member {number}" for number in range(1, size))]


class BoundSampled(BoundOracle):
    """Cached members for the samples of one fit."""

    oracle: Sampled

    def __init__(self, oracle: Sampled, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.cached_members = listed(self).members()
        plugins.repeats("function", "members", self.cached_members, lambda: oracle.orbit(X[-1:]))

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        return best_of_list(self.cached_members[rows], V, assign, cost, rho)
