"""Bounded linear functionals of the learnt function, for penalties and losses."""

from .acting import FamilyFunctionals, Functionals, LinearFunctionals
from .base import BoundFunctional, Functional, Scaled, WeightedSum
from .checks import FunctionalCheckError, check_functional
from .families import (
    Difference,
    DirectionalDerivative,
    Evaluation,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
)
from .folding import Folded
from .parts import Derivatives, Gradients, Part, SecondDerivatives, Values
from .representers import Representers
from .vicinal import VicinalAverages

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
    "scaled": Scaled,
    "weighted_sum": WeightedSum,
}

__all__ = [
    "REGISTRY",
    "BoundFunctional",
    "Derivatives",
    "Difference",
    "DirectionalDerivative",
    "Evaluation",
    "FamilyFunctionals",
    "Folded",
    "Functional",
    "FunctionalCheckError",
    "Functionals",
    "Gradient",
    "Gradients",
    "GraphLaplacian",
    "LinearFunctionals",
    "LocalAverage",
    "Part",
    "PartialDerivative",
    "Representers",
    "Scaled",
    "SecondDerivative",
    "SecondDerivatives",
    "Tangents",
    "TransformDifference",
    "Values",
    "VicinalAverages",
    "WeightedSum",
    "check_functional",
]
