"""Solvers: planes in, a function with a certificate out."""

from .base import Bounds, Record, Solution, Solver, Status
from .bmrm import BMRM
from .checks import SolverCheckError, check_solver
from .frank_wolfe import FrankWolfe
from .interior_point import InteriorPoint
from .loop import solve
from .pegasos import Pegasos
from .reference import Reference
from .representer import Representer
from .stopping import Gap, Iterations, OracleCalls, Progress, Seconds, Stall, StopRule
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
    "REGISTRY",
    "Bounds",
    "FrankWolfe",
    "Gap",
    "InteriorPoint",
    "Iterations",
    "OracleCalls",
    "Pegasos",
    "Progress",
    "Record",
    "Reference",
    "Representer",
    "SVMStruct",
    "Seconds",
    "Solution",
    "Solver",
    "SolverCheckError",
    "Stall",
    "Status",
    "StopRule",
    "check_solver",
    "solve",
]
