"""Structured hinge loss for custom joint features, cost and argmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..oracles import Identity
from ..oracles.base import InvarianceOracle
from ..spaces.base import Element, Space
from ..structures import Custom
from ..utils.matrices import ALL_ROWS, Matrix, Rows, count, csr, scale_rows, stack
from .objective import Term, check_weights, join
from .planes import Planes

# Number of examples between two checks of the time, and of rows of joint features in memory.
EXAMPLES_AT_ONCE = 8


class JointFeature(Term):
    """Loss of each example by a custom argmax, with margin rescaling.

    ``l_i(f) = max over y' of <w, joint_feature(x_i, y') - joint_feature(x_i, y_i)> + cost(y_i, y')``

    The maximum is over the labelings that `argmax` finds, so it is correct only if `argmax` is. If the
    true labeling has a larger value, with difference and cost 0, it replaces the labeling found.

    Shapes: `weights` (n,).
    """

    def __init__(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        custom: Custom,
        weights: ArrayLike = 1.0,
        oracle: InvarianceOracle | None = None,
    ) -> None:
        if not isinstance(custom, Custom):
            raise TypeError(f"custom must be a Custom, got {custom!r}")
        custom.validate()
        check_no_changes(oracle)
        if len(X) == 0 or len(X) != len(y):
            raise ValueError(f"y must have one labeling for each of {len(X)} examples, got {len(y)}")
        self.custom, self.X, self.y = custom, X, y
        parts: list[Any] = []
        for i, (x, truth) in enumerate(zip(X, y, strict=True)):
            if truth is None:
                raise ValueError(
                    f"y must not contain None, got None for example {i}: argmax(x, w, None) is the "
                    "prediction without a cost"
                )
            width = parts[0].shape[1] if parts else None
            parts.append(custom.features_of(x, truth, width))
            own = custom.cost_of(truth, truth)
            if own != 0:
                raise ValueError(f"cost must be 0 for the true labeling, got {own:g} for example {i}")
        self.truths = stack(parts)
        self.n_features = self.truths.shape[1]
        self.weights = check_weights(weights, len(parts))
        self.lower_bounds = np.zeros(len(parts))

    def validate(self, space: Space) -> None:
        given = (
            space.n_features,
            space.n_outputs,
            space.n_pairwise,
            getattr(space, "intercept", None),
        )
        if "linear in x" not in space.capabilities or given != (self.n_features, 1, 0, False):
            raise ValueError(
                f"the space must be ExplicitSpace({self.n_features}), for {self.n_features} joint "
                f"features without an intercept, got {type(space).__name__} with "
                f"(n_features, n_outputs, n_pairwise) = {given[:3]}"
            )

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        return join(space, [self._planes(space, f, part) for part in self._parts(blocks)])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        # Both values are those of the labelings found.
        parts = [self._found(space, f, part) for part in self._parts(ALL_ROWS)]
        plane_values = np.concatenate([plane_values for _, _, plane_values in parts])
        return plane_values, plane_values

    def rows_of(self, blocks: Rows) -> int:
        # The number of calls of `argmax`.
        return count(blocks, self.n_blocks)

    def portions(self) -> list[Rows]:
        return list(self._parts(ALL_ROWS))

    def blocks_at_once(self, space: Space) -> int:
        return EXAMPLES_AT_ONCE

    def _parts(self, blocks: Rows) -> list[np.ndarray]:
        every = np.arange(self.n_blocks)[blocks]
        ends = np.arange(EXAMPLES_AT_ONCE, len(every), EXAMPLES_AT_ONCE)
        return list(np.split(every, ends))

    def _found(
        self, space: Any, f: Element, blocks: np.ndarray
    ) -> tuple[Matrix, np.ndarray, np.ndarray]:
        """Return feature differences (true minus found), costs, and losses of the labelings found."""
        w = space.weights(f)[0]
        rows: list[Any] = []
        costs = np.zeros(len(blocks))
        for place, i in enumerate(blocks):
            labeling = self.custom.best(self.X[i], w, self.y[i])
            rows.append(self.custom.features_of(self.X[i], labeling, self.n_features))
            costs[place] = self.custom.cost_of(self.y[i], labeling)
        found: Any = stack(rows)
        if sp.issparse(self.truths) != sp.issparse(found):
            # A difference of a sparse and a dense array would be a np.matrix.
            found = csr(found) if sp.issparse(self.truths) else found.toarray()
        less = self.truths[blocks] - found
        plane_values = costs - less @ w
        # The true labeling has score difference 0 and cost 0.
        wins = plane_values > 0
        if not np.all(wins):
            less, costs, plane_values = (
                scale_rows(less, wins.astype(np.float64)),
                costs * wins,
                plane_values * wins,
            )
        return less, costs, plane_values

    def _planes(self, space: Space, f: Element, blocks: np.ndarray) -> Planes:
        less, costs, plane_values = self._found(space, f, blocks)
        return Planes(space.normals(less, np.ones((len(blocks), 1))), costs, plane_values, plane_values)


def check_no_changes(oracle: InvarianceOracle | None) -> None:
    """Raise ValueError if an oracle has perturbations."""
    if oracle is not None and type(oracle) is not Identity:
        raise ValueError(
            f"oracle must be None or Identity() for Custom, got {oracle!r}: perturbations of custom "
            "objects are not supported, include them in argmax"
        )
