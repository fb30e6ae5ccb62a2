"""The same change for all rows of an example."""

from __future__ import annotations

from .base import BoundOracle
from .listing import listed
from .whole_examples import SingleMember, WholeExample


class Shared(WholeExample):
    r"""All rows of an example change alike: by the same member of a list.

    .. math:: S(x_1, \dots, x_T) = \{(z_m(x_1), \dots, z_m(x_T)) : m = 0, \dots, s - 1\}

    All letters of a word are slanted alike, say. To a row that is an example by itself it is `oracle`.

    Parameters
    ----------
    oracle : InvarianceOracle
        A list whose members have the same numbers for all rows: a `FiniteOracle`, listed image
        transforms, unions and compositions of such, discounted by member or not. Others are refused.

    Examples
    --------
    Two rows that are turned together:

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
        """Raise unless the part lists its members, the same ones for all labels."""
        super().validate(n_features)
        if self.oracle.depends_on_label:
            raise ValueError(
                "Shared: oracle must list the same members for every row, and those of only_for differ "
                f"by label; let each position change by itself, got {self.oracle!r}"
            )
        if not self.oracle.finite:
            raise ValueError(
                "Shared: oracle must list its members, the same ones for every row (word edits have "
                f"Budget, a continuum can be listed by steps), got {self.oracle!r}"
            )

    def _scenarios(self, bound: BoundOracle) -> list[tuple[BoundOracle, ...]]:
        whole = listed(bound)
        return [(SingleMember(self, whole.take([number])),) for number in range(whole.size)]
