"""Base class of oracles with a finite list of perturbed samples."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..utils import plugins
from ..utils.matrices import Matrix, dense_rows, first_best, refuse_masked, resolution
from .arguments import check_directions, profile_of_list
from .base import InvarianceOracle, Support
from .changes import Changes
from .listed_changes import ListedChanges
from .support import Costs, Grades, costs_of


class FiniteOracle(InvarianceOracle):
    """Base class of oracles with a finite S(x); a subclass implements `orbit`.

    `support` is exact, by enumeration. `sample` draws members uniformly, with
    replacement.

    See Also
    --------
    InvarianceOracle : Base class for all oracles; a subclass implements `support`.
    LinearChanges : List of fixed linear maps, for faster scores.
    Sampled : Finite list of random members of another oracle.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FiniteOracle
    >>> class Reversal(FiniteOracle):
    ...     "A signal read backward keeps its label."
    ...     def orbit(self, X):
    ...         return np.stack([X, X[:, ::-1]], axis=1)
    >>> X = np.array([[1.0, 2.0, 3.0]])
    >>> Reversal().support(X, np.array([[1.0, 0.0, 0.0]]), np.array([0])).points
    array([[3., 2., 1.]])
    """

    finite = True
    _enumerates = True

    @abstractmethod
    def orbit(self, X: Matrix) -> np.ndarray:
        """List all members of S(x), for every sample.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_members, n_features)
            All members. The sample itself must be the first one and occur once.
        """

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        return best_of_list(self._members(X), V, assign, cost, rho)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        return ListedChanges(self, X)

    def _members(self, X: Matrix) -> np.ndarray:
        """Return the validated orbit."""
        refuse_masked("X", X)
        return plugins.members(plugins.method(self, "orbit"), self.orbit(X), dense_rows(X))

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        members = self._members(X)
        picks = rng.integers(members.shape[1], size=(len(members), n_draws))
        return members[np.arange(len(members))[:, None], picks]

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        members = self._members(x[None, :])[0]
        near = np.abs(members - z) <= 1e-12 + resolution(members) * np.abs(z)
        return bool(np.any(np.all(near, axis=1)))


def best_of_list(
    members: np.ndarray,
    V: np.ndarray,
    assign: np.ndarray,
    cost: Costs = None,
    rho: Grades = None,
) -> Support:
    """Return the best of each row's members (n, s, d), with grades if given."""
    scores = np.einsum("nsd,nd->ns", members, V[assign])
    grades = None if rho is None else profile_of_list(rho, members.shape[1])
    if grades is not None:
        scores = scores + costs_of(cost, assign)[:, None] * grades
    best = first_best(scores)
    return Support(members[np.arange(len(members)), best], rho=None if grades is None else grades[best])
