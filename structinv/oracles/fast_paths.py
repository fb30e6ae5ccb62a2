"""Table of special bound oracles (fast paths) by the exact class of the oracle.

A class in this table may override `BoundOracle.worst` or describe its edits or boxes for dual states.
Subclasses of these oracles are not in the table, so their own methods are used.
"""

from __future__ import annotations

from .affine import BoundBox, BoundFrame, Box, Ellipsoid, TangentDerivative
from .base import BOUND
from .identity import BoundIdentity, Identity
from .local_tangents import LocalTangents
from .sampled import BoundSampled, Sampled
from .segments import BoundLine, Offset, Segment
from .trajectories import BoundTrajectory, Trajectory
from .words.bound_edits import BoundEdits
from .words.edits import FAdd, FDrop, FEdit, FScale

BOUND.update(
    {
        Identity: BoundIdentity,
        FDrop: BoundEdits,
        FScale: BoundEdits,
        FAdd: BoundEdits,
        FEdit: BoundEdits,
        Box: BoundBox,
        Ellipsoid: BoundFrame,
        TangentDerivative: BoundFrame,
        LocalTangents: BoundFrame,
        Segment: BoundLine,
        Offset: BoundLine,
        Trajectory: BoundTrajectory,
        Sampled: BoundSampled,
    }
)
