"""Types that `load` trusts by default: those of fitted models, by name."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

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
from .stand_ins import StandIn

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


def refused_types(data: bytes, trusted: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Return the sorted types of a file that `load` refuses, and all trusted types."""
    import skops.io

    unknown = skops.io.get_untrusted_types(data=data)
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
