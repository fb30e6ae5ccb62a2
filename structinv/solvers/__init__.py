"""Solvers of convex objectives, stopping rules and the training loop."""

from .base import Bounds, Solution, Solver, Start, Status
from .cutting_planes import BMRM, SVMStruct
from .cvxpy_solvers import Reference
from .frank_wolfe import FrankWolfe
from .interior_point import InteriorPoint
from .loop import solve
from .pegasos import Pegasos
from .representer import Representer
from .stopping import Gap, Iterations, OracleCalls, Seconds

REGISTRY: dict[str, type[Solver]] = {
    "svmstruct": SVMStruct,
    "bmrm": BMRM,
    "pegasos": Pegasos,
    "frank_wolfe": FrankWolfe,
    "interior_point": InteriorPoint,
    "representer": Representer,
}

__all__ = [
    "BMRM",
    "Bounds",
    "FrankWolfe",
    "Gap",
    "InteriorPoint",
    "Iterations",
    "OracleCalls",
    "Pegasos",
    "Reference",
    "Representer",
    "SVMStruct",
    "Seconds",
    "Solution",
    "Solver",
    "Start",
    "Status",
    "solve",
]
