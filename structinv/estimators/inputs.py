"""Inputs as given: rows, labels and parameters, with their checks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from inspect import signature
from numbers import Number, Real
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from ..functionals import Functional
from ..functionals.base import BoundFunctional
from ..losses import REGISTRY as LOSSES
from ..losses import ScalarLoss
from ..oracles import Identity, InvarianceOracle
from ..oracles.arguments import hint_of
from ..oracles.base import as_oracle
from ..oracles.columns import check_strings, with_numbers
from ..oracles.images.image_borders import Part, image_oracles, warn_of_fill, with_shape
from ..rows import RowSource
from ..rows.reading import read, read_ahead
from ..solvers import REGISTRY, Solver
from ..structures.bound import check_named_labels
from ..terms.blockwise_term import BlockSizes
from ..utils import plugins
from ..utils.matrices import Matrix, check_indices, indices_increase, refuse_masked, with_data
from ..utils.parameters import brief, check_number, columns_of
from ..utils.resources import free_memory

DEFAULT_SIZES = BlockSizes()
# Fraction of the free memory for a fit without a limit.
MOST_OF_FREE = 0.8
# Fractions of the memory for blocks, and for rows that remain in memory.
OF_BLOCKS, OF_KEPT = 0.15, 0.5
# Bytes of a row: the code and the weight of its label, and the weight in the solution.
BYTES_OF_A_ROW = 24
# Bytes of the packed dual variables of a row with about ten edits.
PACKED_BYTES_OF_A_ROW = 128
# Minimum number of stored values per block.
LEAST_VALUES = 2**16
# Number of stored values per block, for estimates.
COUNTED_BY = 2**20
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([KkMmGgTt]?[Ii]?[Bb])")
_UNITS = {"b": 1.0}
_UNITS |= {f"{unit}b": 1000.0**power for power, unit in enumerate("kmgt", start=1)}
_UNITS |= {f"{unit}ib": 1024.0**power for power, unit in enumerate("kmgt", start=1)}


def flat_rows(X: Any) -> Any:
    """Return images (n, h, w) or (n, h, w, c) as one row each, others unchanged."""
    refuse_masked("X", X)
    check_indices("X", X)
    listed = isinstance(X, (list, tuple)) or getattr(X, "ndim", 0) == 1
    if listed and isinstance(next(iter(X), None), str):
        raise ValueError(
            f"X must contain numbers, got {len(X)} texts: pass them to InvariantTextClassifier, or "
            "convert them with a vectorizer such as scikit-learn's CountVectorizer"
        )
    if isinstance(X, np.ndarray) and X.ndim > 2:
        return X.reshape(len(X), int(np.prod(X.shape[1:])))
    return X


def row_shape(X: Any) -> tuple[int, ...]:
    """Return the shape of one item of an array: (n_features,), or that of an image."""
    return np.shape(X)[1:] if isinstance(X, np.ndarray) else ()


def learn_shape(estimator: Any, X: Any) -> None:
    """Store the shape of images as `shape_in_`, and remove earlier column names."""
    columns = columns_of(X)
    if columns is not None:
        for part in (estimator, *getattr(estimator, "invariances", ())):
            if isinstance(part, BaseEstimator):
                check_strings(part, columns)
    for name in ("shape_in_", "feature_names_in_"):
        vars(estimator).pop(name, None)
    if len(row_shape(X)) > 1:
        estimator.shape_in_ = row_shape(X)


def check_shape(estimator: Any, X: Any) -> None:
    """Raise ValueError if the shape of images differs from that in `fit`."""
    known, given = getattr(estimator, "shape_in_", None), row_shape(X)
    if known is not None and len(given) > 1 and given != known:
        raise ValueError(
            f"X must contain images of shape {known}, as in fit, or rows of {int(np.prod(known))} "
            f"features, got shape {np.shape(X)}"
        )


def shaped(part: Part, estimator: Any, X: Any) -> Part:
    """Return an oracle or a family of functionals for the rows of an estimator.

    Image oracles without a shape get that of the images in `X` or in `fit`. Column names become feature
    numbers if `X` is a data frame, or was one in `fit`. `part` remains unchanged.
    """
    if not isinstance(part, BaseEstimator):
        return part
    columns = columns_of(X)
    part = with_numbers(
        part, getattr(estimator, "feature_names_in_", None) if columns is None else columns
    )
    shape = row_shape(X) if len(row_shape(X)) > 1 else getattr(estimator, "shape_in_", None)
    return part if shape is None else with_shape(part, shape)


def for_oracle(X: Matrix, oracle: InvarianceOracle, whole: str = "X as a dense array") -> Matrix:
    """Return checked rows in a form that an oracle supports, see `check_suits`."""
    X = canonical(X)
    check_suits(oracle, sp.issparse(X), X.shape[1], whole)
    warn_of_fill(oracle, X)
    return X


def check_suits(oracle: InvarianceOracle, sparse: bool, n_features: int, whole: str) -> None:
    """Check that an oracle supports rows of this kind.

    `whole` describes the alternative to sparse rows, for the message.
    """
    if sparse and not oracle.supports_sparse:
        name = name_of_part(oracle, lambda part: not part.supports_sparse)
        raise TypeError(f"{name} does not support sparse rows: pass {whole}")
    oracle.validate(n_features)


def name_of_part(oracle: InvarianceOracle, fails: Callable[[InvarianceOracle], bool]) -> str:
    """Return the name of the innermost part of an oracle that fails a test."""
    inner = oracle
    while (failed := next(filter(fails, inner._parts().values()), None)) is not None:
        inner = failed
    name, whole = type(inner).__name__, type(oracle).__name__
    return name if inner is oracle else f"{name}, a part of {whole},"


def canonical(X: Matrix) -> Matrix:
    """Return CSR with sorted indices and no duplicates, as a copy if necessary."""
    if not sp.issparse(X):
        return X
    probe = with_data(X, X.data)
    # SciPy's own test takes four times as long.
    probe.has_canonical_format = indices_increase(X)
    if probe.has_canonical_format:
        return probe
    probe = probe.copy()
    probe.sum_duplicates()
    return probe


def are_plain(estimator: Any, X: Any, sparse: bool, finite: bool) -> bool:
    """Return True if scikit-learn's `validate_data` would return `X` unchanged.

    This is a fast test for float arrays and CSR matrices with the number of features in `fit`, without
    names. scikit-learn validates all other input.
    """
    learned = vars(estimator)
    # Subclasses, such as masked arrays, need the checks of scikit-learn.
    kinds = (np.ndarray, sp.csr_matrix, sp.csr_array) if sparse else (np.ndarray,)
    if type(X) not in kinds or "feature_names_in_" in learned:
        return False
    if X.dtype != np.float64 and X.dtype != np.float32:
        return False
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] != learned.get("n_features_in_"):
        return False
    check_indices("X", X)
    return not finite or plugins.all_finite(X if type(X) is np.ndarray else X.data)


def labeled_rows(estimator: Any, X: Any, y: Any, **rules: Any) -> tuple[Matrix, np.ndarray]:
    """Return checked rows and labels for a classifier."""
    X, y = validate_data(estimator, flat_rows(X), as_labels(y), **rules)
    check_targets(y)
    return X, y


def refuse_sources(estimator: Any, X: Any) -> None:
    """Raise TypeError for rows in blocks."""
    if isinstance(X, RowSource):
        raise TypeError(
            f"X must be an array or a matrix for {type(estimator).__name__}, got {X!r}: use "
            "InvariantLinearSVC or InvariantLinearSVR for rows that are read in blocks"
        )


def refuse_paths(X: Any) -> None:
    """Raise TypeError for the path of a file or folder instead of rows."""
    if isinstance(X, (str, PathLike)):
        raise TypeError(
            f"X must contain rows, got the path {str(X)!r}: use structinv.rows.RowFolder(path) for a "
            "folder of rows"
        )


def labels_of_source(estimator: Any, X: RowSource, y: Any) -> np.ndarray:
    """Return checked labels of all rows of a source, and set `n_features_in_`."""
    if y is None:
        raise ValueError(
            f"y should be a 1d array with one label per row for {type(estimator).__name__}, got None: "
            "pass the labels of the RowFolder"
        )
    y = column_or_1d(as_labels(y), warn=True)
    if len(y) != X.shape[0]:
        raise ValueError(f"y must have a label for each of the {X.shape[0]} rows, got {len(y)}")
    check_one_kind(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y must contain finite numbers, got NaN or infinity")
    estimator.n_features_in_ = X.shape[1]
    return y


def source_for_oracle(X: RowSource, oracle: InvarianceOracle) -> RowSource:
    """Return rows in blocks in a form that an oracle supports, see `for_oracle`."""
    check_suits(oracle, X.sparse, X.shape[1], "dense rows, such as SlicedRows of an array in a file")
    if image_oracles(oracle):
        warn_of_fill(oracle, sample_of(X))
    return X


def check_source(estimator: Any, X: RowSource) -> RowSource:
    """Return rows in blocks, with the number of features in `fit`."""
    check_is_fitted(estimator)
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return X


def in_blocks(
    X: RowSource, answer: Callable[[Matrix, slice], Any], most_values: int | None = None
) -> Iterator[Any]:
    """Yield the results for all blocks of a source, from first to last."""
    cuts = X.cuts(BlockSizes.values if most_values is None else most_values)
    for cut, rows in zip(cuts, read_ahead(X, [[cut] for cut in cuts]), strict=True):
        yield answer(rows, cut)


def sample_of(X: Any) -> Matrix:
    """Return the first block of rows in blocks; a matrix is returned unchanged."""
    return read(X, [slice(0, int(X.edges(BlockSizes.values)[1]))]) if isinstance(X, RowSource) else X


def some_rows(X: Any, rows: np.ndarray) -> Matrix:
    """Return rows of a source or of a matrix by their indices."""
    if isinstance(X, RowSource):
        return read(X, [slice(row, row + 1) for row in rows.tolist()])
    return _safe_indexing(X, rows)


def block_sizes(
    X: RowSource, functions: float, limit: float | None, sizes: BlockSizes = DEFAULT_SIZES
) -> BlockSizes:
    """Return the sizes of blocks in memory, for a limit of bytes."""
    most = MOST_OF_FREE * free_memory() if limit is None else limit
    fixed = BYTES_OF_A_ROW * X.shape[0] + functions
    available, each = most - fixed, X.dtype.itemsize
    # Two blocks of rows, the dual variables of one, and temporary arrays.
    values = OF_BLOCKS * available / (5 * each + 8)
    least = min(LEAST_VALUES, sizes.values)
    if values < least:
        what = "the free memory" if limit is None else f"memory_limit={limit:g}"
        blocks = least * (5 * each + 8) / OF_BLOCKS
        # Hundredths of a MB, rounded so that the parts add up to a sum above the limit.
        own, rest = math.ceil(fixed / 1e4), math.ceil(blocks / 1e4)
        raise MemoryError(
            f"{what} must be at least {(own + rest) / 100:.2f} MB, got "
            f"{math.floor(most / 1e4) / 100:.2f} MB: labels of {X.shape[0]} rows and "
            f"weights of {X.shape[1]} features take {own / 100:.2f} MB, and blocks of rows take "
            f"{rest / 100:.2f} MB"
        )
    kept = OF_KEPT * available / (2 * each + 8)
    packed = (1.0 - OF_BLOCKS - OF_KEPT) * available
    return BlockSizes(int(min(sizes.values, values)), int(min(sizes.kept, kept)), packed)


def as_bytes(limit: Any) -> float | None:
    """Return a limit of memory in bytes, or None for no limit."""
    if limit is None:
        return None
    if isinstance(limit, str):
        found = _SIZE.fullmatch(limit.strip())
        if found is None:
            raise ValueError(
                f"memory_limit must be None, a number of bytes, or a string like '4GB', got {limit!r}"
            )
        limit = float(found[1]) * _UNITS[found[2].lower()]
    check_number("memory_limit", limit, strict=True)
    return float(limit)


def memory_of_blocks(X: RowSource, functions: float, limit: float | None) -> float:
    """Return the estimated bytes of a fit on rows in blocks, without files."""
    sizes, each = block_sizes(X, functions, limit), X.dtype.itemsize
    n_values = (len(X.edges(COUNTED_BY)) - 1) * float(COUNTED_BY)
    blocks, kept = (min(size, n_values) for size in (sizes.values, sizes.kept))
    fixed = BYTES_OF_A_ROW * X.shape[0] + functions
    packed = min(sizes.packed, PACKED_BYTES_OF_A_ROW * X.shape[0])
    return float(fixed + blocks * (5 * each + 8) + kept * (2 * each + 8) + packed)


# Label of unlabeled rows, as in scikit-learn's semi-supervised estimators.
MISSING = -1


def label_name(label: Any) -> str:
    """Return a label as text; whole numbers have no fraction."""
    whole = isinstance(label, (float, np.floating)) and float(label).is_integer()
    return str(int(label)) if whole else str(label)


def as_labels(y: Any) -> Any:
    """Return `y`, or an object array for a list of strings and other labels.

    NumPy would convert all labels to strings, and the mark -1 of unlabeled rows to "-1".
    """
    refuse_masked("y", y, "remove the rows with a masked label, or fill them")
    if isinstance(y, (list, tuple)):
        strings = sum(isinstance(label, str) for label in y)
        if 0 < strings < len(y):
            mixed = np.empty(len(y), dtype=object)
            mixed[:] = y
            return mixed
    return y


def one_label_a_row(y: Any, n_rows: int) -> np.ndarray:
    """Return labels of one kind, (n_rows,)."""
    labels = one_a_row(y, n_rows)
    check_one_kind(labels)
    return labels


def one_a_row(y: Any, n_rows: int) -> np.ndarray:
    """Return labels (n_rows,), also those of unlabeled rows; warn for a column."""
    labels = np.asarray(as_labels(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    if labels.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), one label per row, got {np.shape(y)}")
    return labels


def check_targets(y: np.ndarray, *missing: str) -> None:
    """Raise TypeError or ValueError unless these are class labels of one kind."""
    check_one_kind(y, *missing)
    check_classification_targets(y)


def check_one_kind(y: np.ndarray, missing: str = "remove rows without a label") -> None:
    """Raise TypeError unless labels have the same kind and can thus be sorted.

    Shapes: `y` (n,).
    """
    if y.dtype.kind != "O":
        return
    kinds = {_kind_of(kind) for kind in set(map(type, y))}
    if len(kinds) > 1 or kinds == {"None"}:
        hint = f"; {missing}" if "None" in kinds else ""
        raise TypeError(f"y must contain labels of one kind, got {' and '.join(sorted(kinds))}{hint}")


def _kind_of(kind: type) -> str:
    if issubclass(kind, (Number, np.bool_)):
        return "numbers"
    if issubclass(kind, str):
        return "strings"
    return "None" if kind is type(None) else kind.__name__


def say_what_is_missing(unlabeled: Any) -> str:
    """Return advice on unlabeled rows for messages; see `without_label`."""
    if unlabeled is None:
        return "with unlabeled=None every row requires a label"
    auto = isinstance(unlabeled, str) and unlabeled == "auto"
    mark = f"the number {MISSING}" if auto else f"{unlabeled!r} (unlabeled={unlabeled!r})"
    return f"use {mark} for rows without a label, not None"


def without_label(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return a mask of the unlabeled rows, (n,).

    Shapes: `y` (n,).
    """
    if unlabeled is None:
        return np.zeros(len(y), dtype=bool)
    if not (isinstance(unlabeled, str) and unlabeled == "auto"):
        return labels_equal(y, unlabeled)
    if y.dtype.kind in "US":
        _refuse_a_written_mark(y)
        return np.zeros(len(y), dtype=bool)
    missing = labels_equal(y, MISSING)
    others = set(y[~missing].tolist())
    if not missing.any() or others == {1}:
        return np.zeros(len(y), dtype=bool)
    if len(others) == 1:
        raise ValueError(
            f"y must contain at least two classes, got only {others.pop()!r} and {MISSING}, which "
            f"marks unlabeled rows; if {MISSING} is a class, pass unlabeled=None"
        )
    return missing


def labels_equal(y: np.ndarray, label: Any) -> np.ndarray:
    """Return a mask of labels that equal a label of any type, (n,); NaN equals NaN."""
    if isinstance(label, Real) and np.isnan(float(label)):
        return np.asarray(y != y, dtype=bool)
    return np.broadcast_to(np.asarray(y == label, dtype=bool), y.shape)


def _refuse_a_written_mark(y: np.ndarray) -> None:
    """Raise ValueError if string labels contain "-1", except for the classes -1 and 1."""
    labels = set(np.unique(y).astype(str).tolist())
    if "-1" in labels and labels not in ({"-1", "1"}, {"-1", "+1"}):
        raise ValueError(
            "y must not be an array of strings with '-1' if unlabeled='auto': for unlabeled rows use an "
            "array of dtype=object with the number -1, or pass unlabeled='-1'; pass unlabeled=None if "
            "'-1' is a class"
        )


def class_factors(class_weight: Any, classes: np.ndarray, y: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the factor of each class by `class_weight`, for weighted samples."""
    known = class_weight is None or isinstance(class_weight, dict)
    if not known and not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of labels, got {brief(class_weight)}"
        )
    if isinstance(class_weight, dict):
        check_named_labels("class_weight", class_weight, classes)
    factors = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=own)
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A class whose samples have no weight has no finite factor, and needs none.
        factors = np.where(np.isfinite(factors), factors, 0.0)
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be non-negative, got {brief(class_weight)}")
    if isinstance(class_weight, dict) and not np.any(factors > 0):
        raise ValueError("class_weight must be above 0 for at least one class, got only zeros")
    return factors


ON_INTERRUPT = ("raise", "return")
# Older versions of scikit-learn never refuse weights of 0.
_REFUSES_ZEROS = "allow_all_zero_weights" in signature(_check_sample_weight).parameters


def check_oracle_type(oracle: Any) -> InvarianceOracle:
    """Return the oracle, or `Identity` for None; TypeError for other types."""
    hint = ""
    if isinstance(oracle, (Functional, BoundFunctional)):
        hint = "; pass functionals as invariances=[...] of InvariantSVC or RepresenterClassifier"
    return as_oracle(oracle, default=Identity(), hint=hint)


def checked_weights(sample_weight: Any, X: Any, part: bool = False) -> np.ndarray:
    """Return sample weights of at least 0; 1 by default.

    All weights of a part of the samples may be 0, if `part` is True.
    """
    refuse_masked("sample_weight", sample_weight)
    rules = {"allow_all_zero_weights": part} if _REFUSES_ZEROS else {}
    try:
        return _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, **rules
        )
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(f"sample_weight must contain numbers: {error}") from None


def as_loss(argument: str, given: Any, allowed: Collection[str]) -> ScalarLoss:
    """Return a loss by name with its default parameters, or a given loss."""
    if isinstance(given, ScalarLoss):
        given.validate()
        return given
    if not isinstance(given, str) or given not in allowed:
        hint = hint_of(given)
        raise ValueError(
            f"{argument} must be one of {list(allowed)} or a ScalarLoss, got {given!r}{hint}"
        )
    return LOSSES[given]()


def check_on_interrupt(value: Any) -> None:
    """Raise ValueError unless `value` is an allowed reaction to Ctrl-C."""
    if not isinstance(value, str) or value not in ON_INTERRUPT:
        raise ValueError(f"on_interrupt must be one of {list(ON_INTERRUPT)}, got {value!r}")


def check_plane_tol(plane_tol: Any, solver: str | Solver) -> None:
    """Raise ValueError if the solver does not support a positive plane tolerance."""
    check_number("plane_tol", plane_tol)
    named = "frank_wolfe" if isinstance(solver, str) and solver == "auto" else solver
    # Names that only some estimators support are methods without planes of blocks.
    known = REGISTRY[named]() if isinstance(named, str) and named in REGISTRY else named
    if plane_tol > 0 and (isinstance(known, str) or "plane_tol" not in known.get_params()):
        raise ValueError(
            "plane_tol must be 0 unless solver is 'auto', 'frank_wolfe', 'representer' or 'svmstruct', "
            f"got plane_tol={plane_tol!r} with solver={solver!r}"
        )
