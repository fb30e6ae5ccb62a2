"""A common budget of edits for all samples of an example."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import grade_profile
from .base import BoundOracle
from .checked_oracle import bind
from .whole_examples import SameGrade, WholeExample


class Budget(WholeExample):
    r"""At most B edits in all samples of an example together.

    .. math:: S(x_1, \dots, x_T) = \{(z_1, \dots, z_T) : z_t \in S_{k_t}(x_t), \; \sum_t k_t \le B\}

    Here :math:`S_k` is the set of `oracle` with k edits, and B is its ``max_changes``. If an example has
    one sample, the set is that of `oracle`.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with countable edits: `FDrop`, `FScale`, `FAdd` or `FEdit`, optionally restricted by
        ``only_for`` or graded by ``discounted``. Grades then apply to the total number of edits, and
        must not increase with this number.

    See Also
    --------
    Shared : The same perturbation in all samples of an example.
    FDrop : Maximum number of edits for each sample separately.

    Examples
    --------
    At most one value of three samples is removed:

    >>> import numpy as np
    >>> from structinv.oracles import Budget, FDrop
    >>> bound = Budget(FDrop(1)).bind(np.ones((3, 2)))
    >>> [len(levels) for levels in bound.scenarios()]
    [2]
    """

    def validate(self, n_features: int | None = None) -> None:
        # The checks go from general to specific, so that messages name the first cause.
        super().validate()
        found = self.oracle.counted()
        if found is None:
            raise ValueError(
                "Budget: oracle must be FDrop, FScale, FAdd or FEdit (also with only_for or "
                f"discounted), got {self.oracle!r}, whose edits cannot be counted"
            )
        rho = found.grades
        if rho is not None and np.any(np.diff(grade_profile(rho, found.most + 1)) > 0):
            raise ValueError(
                f"Budget: grades must not increase with the number of edits, got rho={rho!r}"
            )
        super().validate(n_features)

    def _scenarios(self, bound: BoundOracle) -> list[tuple[BoundOracle, ...]]:
        counted: Any = self.oracle.counted()
        levels = [bind(counted.at_most(number), bound.X, bound.y) for number in range(counted.most + 1)]
        if counted.grades is None:
            return [tuple(levels)]
        # One scenario per total number of edits: all rows have the grade of that number.
        grades = grade_profile(counted.grades, len(levels))
        return [
            tuple(SameGrade(level, float(grade)) for level in levels[: number + 1])
            for number, grade in enumerate(grades)
        ]
