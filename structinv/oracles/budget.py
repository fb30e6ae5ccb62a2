"""A number of changes that the rows of an example share out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import grade_profile
from .base import BoundOracle
from .checked_oracle import bind
from .whole_examples import SameGrade, WholeExample


class Budget(WholeExample):
    r"""At most so many changes of all rows of an example together.

    .. math:: S(x_1, \dots, x_T) = \{(z_1, \dots, z_T) : z_t \in S_{k_t}(x_t), \; \sum_t k_t \le B\}

    with :math:`S_k` the set of `oracle` with k changes, and B its ``max_changes``. To a row that is an
    example by itself it is `oracle`.

    Parameters
    ----------
    oracle : InvarianceOracle
        One whose changes can be counted: `FDrop`, `FScale`, `FAdd` or `FEdit`, ``only_for`` some true
        labels of rows or for all, and any of these discounted: the grade is then that of the example's
        number of changes, and must not rise with it. Others are refused.

    Examples
    --------
    One word of three rows is dropped:

    >>> import numpy as np
    >>> from structinv.oracles import Budget, FDrop
    >>> bound = Budget(FDrop(1)).bind(np.ones((3, 2)))
    >>> [len(levels) for levels in bound.scenarios()]
    [2]
    """

    def validate(self, n_features: int | None = None) -> None:
        """Raise unless changes of the part can be counted, and its grades fall with their number."""
        # First whether it is a part at all, then of which kind, then for which rows.
        super().validate()
        found = self.oracle.counted()
        if found is None:
            raise ValueError(
                f"Budget: oracle must be FDrop, FScale, FAdd or FEdit, only_for some labels or "
                f"discounted, or not, got {self.oracle!r}, whose changes cannot be counted"
            )
        rho = found.grades
        if rho is not None and np.any(np.diff(grade_profile(rho, found.most + 1)) > 0):
            raise ValueError(f"Budget: grades must not rise with the number of changes, got rho={rho!r}")
        super().validate(n_features)

    def _scenarios(self, bound: BoundOracle) -> list[tuple[BoundOracle, ...]]:
        counted: Any = self.oracle.counted()
        levels = [bind(counted.at_most(number), bound.X, bound.y) for number in range(counted.most + 1)]
        if counted.grades is None:
            return [tuple(levels)]
        # However many changes there are in all, the costs of all rows count by their grade.
        grades = grade_profile(counted.grades, len(levels))
        return [
            tuple(SameGrade(level, float(grade)) for level in levels[: number + 1])
            for number, grade in enumerate(grades)
        ]
