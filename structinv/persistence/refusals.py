"""Refusals of model files: excessive sizes, invalid matrices, untrusted types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from io import BytesIO
from types import FunctionType
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import scipy.sparse as sp

from .. import embeddings, estimators, functionals, kernels, losses, oracles, solvers, structures
from ..embeddings.base import KernelError
from ..embeddings.patch_grid import ImageChanges, PatchGrid, PatchScaling
from ..estimators.tokens import TokenVectorizer
from ..functionals.base import BoundFunctional
from ..functionals.representers import Representers
from ..kernels.combinations import Product, Scaled, Sum
from ..kernels.indefinite import PSDCorrectedKernel
from ..kernels.kernel_names import CallableKernel, PrecomputedKernel
from ..losses.base import MoreauEnvelope
from ..losses.combined import Affine, ConcatenatedLoss
from ..oracles.cache import Cache
from ..oracles.images.image_maps import ImageShape
from ..oracles.text.token_edits import TokenEdits
from ..solvers.pegasos import Stream
from ..utils.matrices import check_indices
from .stored import StandIn

# Parts of JSON may have this size in bytes, or this multiple of their compressed size. Values from JSON
# take about twenty times the memory of its text. A file of 200 binary models has the ratio 70.
JSON_BYTES, JSON_RATIO = 8e6, 100.0
# The same for all parts together. Weights of 0 have ratios of up to 1000.
BYTES, RATIO = 2e9, 200.0

_FAMILIES = (embeddings, estimators, functionals, kernels, losses, oracles, solvers, structures)
_NAMED = (getattr(family, name) for family in _FAMILIES for name in family.__all__)
_REGISTERED = (kind for family in _FAMILIES for kind in family.REGISTRY.values())

# A list, not the prefix of the package, so that a file cannot call any other class or function.
OWN: frozenset[type] = frozenset(each for each in (*_NAMED, *_REGISTERED) if isinstance(each, type)) | {
    *(Affine, BoundFunctional, Cache, CallableKernel, ConcatenatedLoss, ImageChanges),
    *(ImageShape, KernelError, MoreauEnvelope, PatchGrid, PatchScaling, PrecomputedKernel, Product),
    *(PSDCorrectedKernel, Representers, Scaled, StandIn, Stream, Sum),
    *(TokenEdits, TokenVectorizer),
}

# Sparse matrices and parts of scikit-learn's fitted estimators that skops does not trust by default.
# Loading them runs no code.
_OTHERS = (
    "builtins.range",
    "numpy.dtype",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.metrics._scorer._MultimetricScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.utils._bunch.Bunch",
    # Scorers of scikit-learn 1.7 have them.
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
    *(
        f"sklearn.model_selection._split.{name}"
        for name in (
            *("GroupKFold", "KFold", "LeaveOneOut", "PredefinedSplit", "RepeatedKFold"),
            *("RepeatedStratifiedKFold", "ShuffleSplit", "StratifiedGroupKFold", "StratifiedKFold"),
            *("StratifiedShuffleSplit", "TimeSeriesSplit"),
        )
    ),
)


def excess(archive: ZipFile, n_bytes: int) -> str:
    """Return why the parts of a model file are too large, or an empty string."""
    total = 0.0
    for part in archive.infolist():
        if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            return f"{part.filename} has a compression other than that of structinv.save"
        compressed = min(part.compress_size, n_bytes)
        if part.filename.endswith(".json") and part.file_size > max(JSON_BYTES, JSON_RATIO * compressed):
            return f"{part.filename} takes {_in_mb(part.file_size)}, compressed to {_in_mb(compressed)}"
        total += part.file_size
    limit = max(BYTES, RATIO * n_bytes)
    if total <= limit:
        # Sparse matrices are archives inside of the file.
        inner = (archive.read(part) for part in archive.infolist() if part.filename.endswith(".npz"))
        total += sum(map(_declared, inner))
    if total > limit:
        return f"its parts take {_in_mb(total)}, compressed to {_in_mb(n_bytes)}"
    return ""


def check_matrices(data: bytes) -> None:
    """Raise ValueError for sparse matrices with invalid indices or without a file."""
    with ZipFile(BytesIO(data)) as archive:
        for node in _nodes(json.loads(archive.read("schema.json"))):
            if node["__loader__"] == "SparseMatrixNode":
                # The sizes inside of these files were checked.
                if not node["file"].endswith(".npz"):
                    raise ValueError(f"{node['file']} is not the file of a sparse matrix")
                check_indices("a matrix", sp.load_npz(BytesIO(archive.read(node["file"]))))
            elif node["__module__"].startswith("scipy.sparse"):
                raise ValueError(f"it contains a {node['__class__']} in parts")


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a schema of skops."""
    if isinstance(part, dict) and "__loader__" in part:
        yield part
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in parts:
        yield from _nodes(each)


def _declared(content: bytes) -> float:
    with ZipFile(BytesIO(content)) as archive:
        return float(sum(part.file_size for part in archive.infolist()))


def _in_mb(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e6:.2f} MB"


def refused_types(unknown: list[str], trusted: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Return the sorted types that `load` refuses, and all trusted types.

    `unknown` are the types of a file that skops does not trust.
    """
    known = [*trusted, *map(full_name, OWN), *_OTHERS]
    if any(each.startswith("sklearn.metrics.") for each in unknown):
        known += _scores_of_sklearn()
    return sorted(set(unknown) - set(known)), known


def full_name(trusted: Any) -> str:
    """Return the name that files contain for a class or function."""
    if isinstance(trusted, str):
        return trusted
    if not isinstance(trusted, (type, FunctionType)):
        raise TypeError(f"trusted must contain names such as 'mypackage.MyOracle', got {trusted!r}")
    return f"{trusted.__module__}.{trusted.__name__}"


def _scores_of_sklearn() -> list[str]:
    """Return the functions of scikit-learn's scorers, which a fitted search contains."""
    from sklearn.metrics import get_scorer, get_scorer_names

    return sorted({full_name(get_scorer(name)._score_func) for name in get_scorer_names()})
