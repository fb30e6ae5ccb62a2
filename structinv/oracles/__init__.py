"""Oracles: what may change in an input without changing its label."""

from .affine import Box, Ellipsoid, TangentDerivative
from .base import BoundOracle, FiniteOracle, Hull, InvarianceOracle, Support
from .checks import OracleCheckError, check_oracle
from .combinators import Discounted, OnlyFor, Union
from .compose import Compose
from .identity import Identity
from .words import FDrop, FScale

# The tests of the contract and of the solvers run through this table.
REGISTRY: dict[str, type[InvarianceOracle]] = {
    "identity": Identity,
    "fscale": FScale,
    "fdrop": FDrop,
    "box": Box,
    "ellipsoid": Ellipsoid,
    "tangent": TangentDerivative,
    "union": Union,
    "compose": Compose,
    "only_for": OnlyFor,
    "discounted": Discounted,
}

__all__ = [
    "REGISTRY",
    "BoundOracle",
    "Box",
    "Compose",
    "Discounted",
    "Ellipsoid",
    "FDrop",
    "FScale",
    "FiniteOracle",
    "Hull",
    "Identity",
    "InvarianceOracle",
    "OnlyFor",
    "OracleCheckError",
    "Support",
    "TangentDerivative",
    "Union",
    "check_oracle",
]
