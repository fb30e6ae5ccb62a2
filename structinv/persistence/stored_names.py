"""Names of classes in model files, independent of their modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ..dual.labeled_rows import LabeledRows
from ..embeddings import REGISTRY as EMBEDDINGS
from ..embeddings.base import KernelError
from ..embeddings.image_changes import ImageChanges
from ..embeddings.patch_grid import PatchGrid
from ..embeddings.patch_scaling import PatchScaling
from ..estimators import REGISTRY as ESTIMATORS
from ..estimators.partial_fit import Stream
from ..estimators.ridge_systems import Evidence
from ..estimators.tokens import TokenVectorizer
from ..functionals import REGISTRY as FUNCTIONALS
from ..functionals import Folded
from ..functionals.base import BoundFunctional
from ..functionals.parts import Derivatives, Gradients, SecondDerivatives, Values
from ..functionals.representers import Representers
from ..kernels import REGISTRY as KERNELS
from ..kernels import (
    CallableKernel,
    OrbitDistance,
    OrbitMean,
    SetKernel,
    TangentDistributionKernel,
    TangentOverlapKernel,
    TangentVectorKernel,
    VicinalKernel,
)
from ..kernels.combinations import Product, Scaled, Sum
from ..kernels.custom_kernels import PrecomputedKernel
from ..kernels.indefinite import PSDCorrectedKernel, ShiftedKernel
from ..losses import REGISTRY as LOSSES
from ..losses import CvxpyLoss
from ..losses.base import MoreauEnvelope
from ..losses.combined import Affine, ConcatenatedLoss
from ..oracles import REGISTRY as ORACLES
from ..oracles import ImageShape
from ..oracles.text.token_edits import TokenEdits
from ..solvers import REGISTRY as SOLVERS
from ..solvers import Reference
from ..solvers.pegasos import StreamSum
from ..spaces.tensor_rows import ComputedRows, MemberRows, TensorRows
from ..structures import REGISTRY as STRUCTURES
from ..structures import Custom
from ..terms.planes import PlaneSet

# Classes with parameters: those of registries, and others. Names must never change, because existing
# files contain them.
PARAMETERIZED: dict[str, type] = {
    f"{group}.{name}": kind
    for group, registry in {
        "estimator": ESTIMATORS,
        "oracle": ORACLES,
        "functional": FUNCTIONALS,
        "kernel": KERNELS,
        "loss": LOSSES,
        "solver": SOLVERS,
        "structure": STRUCTURES,
        "embedding": EMBEDDINGS,
    }.items()
    for name, kind in registry.items()
} | {
    "kernel.sum": Sum,
    "kernel.product": Product,
    "kernel.scaled": Scaled,
    "kernel.callable": CallableKernel,
    "kernel.precomputed": PrecomputedKernel,
    "kernel.set": SetKernel,
    "kernel.mended": PSDCorrectedKernel,
    "kernel.shifted": ShiftedKernel,
    "kernel.tangent_distribution": TangentDistributionKernel,
    "kernel.tangent_overlap": TangentOverlapKernel,
    "kernel.tangent_vector": TangentVectorKernel,
    "kernel.vicinal": VicinalKernel,
    "kernel.orbit_mean": OrbitMean,
    "kernel.orbit_distance": OrbitDistance,
    "kernel.folded": Folded,
    "loss.affine": Affine,
    "loss.joined": ConcatenatedLoss,
    "loss.moreau_envelope": MoreauEnvelope,
    "loss.cvxpy": CvxpyLoss,
    "structure.custom": Custom,
    "solver.reference": Reference,
    "features.tokens": TokenVectorizer,
    "oracle.token_edits": TokenEdits,
}

# Classes that are restored from the arguments of their constructors.
MADE: dict[str, type] = {
    "bound_functional": BoundFunctional,
    "derivatives": Derivatives,
    "evidence": Evidence,
    "gradients": Gradients,
    "image_changes": ImageChanges,
    "image_shape": ImageShape,
    "kernel_error": KernelError,
    "patch_grid": PatchGrid,
    "patch_scaling": PatchScaling,
    "plane_set": PlaneSet,
    "representers": Representers,
    "second_derivatives": SecondDerivatives,
    "stream": Stream,
    "streamed": StreamSum,
    "tensor_rows": TensorRows,
    "values": Values,
}

# Arguments of classes that are not dataclasses.
_ARGUMENTS: dict[type, Callable[[Any], dict[str, Any]]] = {
    BoundFunctional: lambda bound: {"functional": bound.functional, "X": bound.X},
    KernelError: lambda error: error._asdict(),
    Representers: lambda system: {
        "kernel": system.kernel,
        "families": system.families,
        "cache_mb": 1e-6 * system.cache_bytes,
    },
    TensorRows: lambda rows: {
        name: getattr(rows, name) for name in ("points", "coefficients", "start", "pairwise")
    },
}

NAMES: dict[type, str] = {kind: name for name, kind in (PARAMETERIZED | MADE).items()}
# Rows that compute their points are stored with the points.
for _kind in (ComputedRows, MemberRows, LabeledRows):
    NAMES[_kind] = NAMES[TensorRows]
    _ARGUMENTS[_kind] = _ARGUMENTS[TensorRows]


def arguments(made: Any) -> dict[str, Any]:
    """Return the constructor's arguments for an object of a class in `MADE`."""
    get_arguments = _ARGUMENTS.get(type(made))
    if get_arguments is not None:
        return get_arguments(made)
    return {each.name: getattr(made, each.name) for each in fields(made)}
