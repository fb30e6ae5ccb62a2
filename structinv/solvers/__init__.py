"""Solvers of convex objectives, stopping rules and the training loop."""

from .base import Bounds, Solution, Solver, Start, Status
from .bmrm import BMRM
from .frank_wolfe import FrankWolfe
from .interior_point import InteriorPoint
from .loop import solve
from .pegasos import Pegasos
from .reference import Reference
from .representer_solver import Representer
from .stopping import Gap, Iterations, OracleCalls, Seconds
from .svmstruct import SVMStruct

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
