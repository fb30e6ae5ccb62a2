"""The same perturbation for all samples of an example."""

from __future__ import annotations

from .base import BoundOracle
from .checked_lists import listed
from .whole_examples import SingleMember, WholeExample


class Shared(WholeExample):
    r"""The same member of a list for all samples of an example.

    .. math:: S(x_1, \dots, x_T) = \{(z_m(x_1), \dots, z_m(x_T)) : m = 0, \dots, s - 1\}

    For instance, all letters of a word have the same slant. If an example has one sample, the set is
    that of `oracle`.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with a list of members that does not depend on the label, optionally discounted. Allowed
        are `FiniteOracle`, listed image transformations, and unions and compositions of these.

    See Also
    --------
    Budget : A common budget of edits for all samples of an example.
    FiniteOracle : Base class of oracles with a list of members.

    Examples
    --------
    Two samples change their sign together:

    >>> import numpy as np
    >>> from structinv.oracles import FiniteOracle, Shared
    >>> class SignFlip(FiniteOracle):
    ...     def orbit(self, X):
    ...         return np.stack([X, -X], axis=1)
    >>> bound = Shared(SignFlip()).bind(np.array([[1.0], [2.0]]))
    >>> [scenario[0].changes().members().ravel().tolist() for scenario in bound.scenarios()]
    [[1.0, 2.0], [-1.0, -2.0]]
    """

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        if self.oracle.depends_on_label:
            raise ValueError(
                "Shared: oracle must list the same perturbations for every sample, but with only_for "
                f"they depend on the label, got {self.oracle!r}: remove only_for, or remove Shared"
            )
        if not self.oracle.finite:
            raise ValueError(
                "Shared: oracle must be finite (oracle.finite), with the same perturbations for every "
                f"sample, got {self.oracle!r}: use Budget for edits of features, and a list of values "
                "instead of interval"
            )

    def _scenarios(self, bound: BoundOracle) -> list[tuple[BoundOracle, ...]]:
        changes = listed(bound)
        return [(SingleMember(self, changes.take([number])),) for number in range(changes.size)]
