"""A case of every family of functionals, for tests of all layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structinv.functionals import (
    Difference,
    DirectionalDerivative,
    Evaluation,
    Functional,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
    VicinalAverages,
)
from structinv.oracles import Ellipsoid, Rotations, Segment, Shifts

from ..oracles.cases import Reorderings

N, D = 6, 3


def rows(n: int = N, d: int = D, seed: int = 0) -> np.ndarray:
    """Rows in general position."""
    return np.random.default_rng(seed).standard_normal((n, d))


def images() -> np.ndarray:
    """Smooth pictures of 4 by 4 pixels."""
    return np.cumsum(rows(4, 16, 1), axis=1) / 4.0


@dataclass(frozen=True)
class Case:
    """A family and rows for it; `name` is the registry's, `detail` tells cases of one class apart."""

    name: str
    make: Callable[[], Functional] = field(repr=False)
    X: Any = field(default_factory=rows, repr=False)
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.detail}" if self.detail else self.name


SPREAD = np.random.default_rng(7).standard_normal((N, 2, D))

CASES = [
    Case("evaluation", Evaluation),
    Case("evaluation", lambda: Evaluation(rows=[4, 0, 4]), detail="rows"),
    Case("gradient", Gradient),
    Case("partial_derivative", lambda: PartialDerivative([2, 0])),
    Case("partial_derivative", lambda: PartialDerivative([False, True, True]), detail="mask"),
    Case("directional_derivative", lambda: DirectionalDerivative([1.0, -2.0, 0.5])),
    Case("directional_derivative", lambda: DirectionalDerivative(SPREAD[0]), detail="shared"),
    Case("directional_derivative", lambda: DirectionalDerivative(SPREAD), detail="own"),
    Case("tangents", lambda: Tangents(Ellipsoid(np.eye(D)[:, :2] * 3.0))),
    Case("tangents", lambda: Tangents(Rotations(degrees=[-20, 20], shape=(4, 4))), images(), "images"),
    Case(
        "transform_difference",
        lambda: TransformDifference(Reorderings([[0, 1, 2], [2, 1, 0], [1, 0, 2]])),
    ),
    Case(
        "transform_difference",
        lambda: TransformDifference(Shifts(1, directions=4, shape=(4, 4))),
        images(),
        "images",
    ),
    Case("difference", lambda: Difference([[0, 1], [5, 2], [3, 3]])),
    Case("difference", lambda: Difference([[0, 1], [2, 1]], weights=[0.5, -3.0]), detail="weights"),
    Case("graph_laplacian", lambda: GraphLaplacian(n_neighbors=2)),
    Case("graph_laplacian", lambda: GraphLaplacian(n_neighbors=3, width=1.5), detail="width"),
    Case("local_average", lambda: LocalAverage(0.4, n_nodes=3)),
    Case("local_average", lambda: LocalAverage(1.3, n_nodes=5), rows(5, 2), "plane"),
    Case("local_average", lambda: LocalAverage(0.7, n_nodes=9), rows(5, 1), "line"),
    Case("second_derivative", lambda: SecondDerivative(1, 1)),
    Case("second_derivative", lambda: SecondDerivative(0, 2), detail="mixed"),
    Case(
        "vicinal_averages", lambda: VicinalAverages(Ellipsoid(np.eye(D)[:, :2]), [0.4, 0.2], n_nodes=4)
    ),
    Case("vicinal_averages", lambda: VicinalAverages(noise=0.3, n_nodes=4), detail="noise"),
    Case(
        "vicinal_averages",
        lambda: VicinalAverages(Segment(0.5, 2.0), 0.2, 0.3, n_nodes=4),
        rows(5, 2),
        "both",
    ),
]
