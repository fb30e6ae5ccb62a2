"""Invariance oracles: perturbations of samples that keep the label."""

from .affine import Box, Ellipsoid, TangentDerivative
from .base import BoundOracle, InvarianceOracle, Support
from .changes import Changes, LinearChanges
from .combinators import Discounted, OnlyFor
from .compose import Compose
from .fast_paths import BOUND as BOUND
from .finite_oracles import FiniteOracle
from .identity import Identity
from .images.image_base import ImageOracle
from .images.image_oracles import (
    Flip,
    Rotations,
    Scalings,
    Shears,
    Shifts,
    teo2007_transforms,
)
from .local_tangents import LocalTangents
from .oracle_checks import check_oracle
from .permutations import Permutations
from .protected import Protected
from .sampled import Sampled
from .segments import Offset, Segment
from .text.token_edits import TokenEdits
from .trajectories import Trajectory
from .union import Union
from .weighted import Weighted
from .whole_examples import Budget, Shared
from .words.edits import FAdd, FDrop, FEdit, FScale
from .words.unit_length import UnitLength

# Tests of oracles and solvers iterate over this table.
REGISTRY: dict[str, type[InvarianceOracle]] = {
    "identity": Identity,
    "fscale": FScale,
    "fdrop": FDrop,
    "fadd": FAdd,
    "fedit": FEdit,
    "unit_length": UnitLength,
    "box": Box,
    "ellipsoid": Ellipsoid,
    "tangent": TangentDerivative,
    "segment": Segment,
    "offset": Offset,
    "trajectory": Trajectory,
    "sampled": Sampled,
    "local_tangents": LocalTangents,
    "shifts": Shifts,
    "rotations": Rotations,
    "scalings": Scalings,
    "shears": Shears,
    "flip": Flip,
    "permutations": Permutations,
    "union": Union,
    "compose": Compose,
    "only_for": OnlyFor,
    "protected": Protected,
    "discounted": Discounted,
    "shared": Shared,
    "budget": Budget,
    "weighted": Weighted,
}

__all__ = [
    "BoundOracle",
    "Box",
    "Budget",
    "Changes",
    "Ellipsoid",
    "FAdd",
    "FDrop",
    "FEdit",
    "FScale",
    "FiniteOracle",
    "Flip",
    "Identity",
    "ImageOracle",
    "InvarianceOracle",
    "LinearChanges",
    "LocalTangents",
    "Offset",
    "Permutations",
    "Protected",
    "Rotations",
    "Sampled",
    "Scalings",
    "Segment",
    "Shared",
    "Shears",
    "Shifts",
    "Support",
    "TangentDerivative",
    "TokenEdits",
    "Trajectory",
    "UnitLength",
    "Weighted",
    "check_oracle",
    "teo2007_transforms",
]
