"""Bounded linear functionals of the learned function, for penalties and losses."""

from .averages import LocalAverage, VicinalAverages
from .base import Functional
from .families import (
    Difference,
    DirectionalDerivative,
    Evaluation,
    Gradient,
    GraphLaplacian,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
)
from .folding import Folded
from .parts import Derivatives, Gradients, SecondDerivatives, Values

# The tests of the contract run through this table.
REGISTRY: dict[str, type[Functional]] = {
    "evaluation": Evaluation,
    "gradient": Gradient,
    "partial_derivative": PartialDerivative,
    "directional_derivative": DirectionalDerivative,
    "tangents": Tangents,
    "transform_difference": TransformDifference,
    "difference": Difference,
    "graph_laplacian": GraphLaplacian,
    "local_average": LocalAverage,
    "second_derivative": SecondDerivative,
    "vicinal_averages": VicinalAverages,
}

__all__ = [
    "Derivatives",
    "Difference",
    "DirectionalDerivative",
    "Evaluation",
    "Folded",
    "Functional",
    "Gradient",
    "Gradients",
    "GraphLaplacian",
    "LocalAverage",
    "PartialDerivative",
    "SecondDerivative",
    "SecondDerivatives",
    "Tangents",
    "TransformDifference",
    "Values",
    "VicinalAverages",
]
