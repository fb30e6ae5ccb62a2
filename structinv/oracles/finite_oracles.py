"""Base class of oracles with a finite list of perturbed samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ..utils import plugins
from ..utils.matrices import Matrix, dense_rows, refuse_masked, resolution
from ..utils.ties import first_best
from .arguments import check_directions, profile_of_list
from .base import InvarianceOracle, Support
from .changes import Changes
from .listed_changes import ListedChanges


class FiniteOracle(InvarianceOracle):
    """Base class of oracles with a finite S(x); a subclass implements `orbit`.

    `support` and `graded_support` are exact, by enumeration. `sample` draws members uniformly, with
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
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        return best_of_list(self._validated_members(X, V, assign, cost), V, assign)

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        members = self._validated_members(X, V, assign, cost)
        grades = profile_of_list(rho, members.shape[1])
        return best_of_list(members, V, assign, cost, grades)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        return ListedChanges(self, X)

    def _members(self, X: Matrix) -> np.ndarray:
        """Return the validated orbit."""
        refuse_masked("X", X)
        return plugins.members(plugins.method(self, "orbit"), self.orbit(X), dense_rows(X))

    def _validated_members(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> np.ndarray:
        """Validate the arguments of `support` and return the orbit."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        return self._members(X)

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
    cost: np.ndarray | None = None,
    grades: np.ndarray | None = None,
) -> Support:
    """Return the best of each row's members (n, s, d), with grades (s,) if given."""
    scores = np.einsum("nsd,nd->ns", members, V[assign])
    if grades is not None:
        assert cost is not None
        scores = scores + cost[:, None] * grades
    best = first_best(scores)
    return Support(members[np.arange(len(members)), best], rho=None if grades is None else grades[best])
