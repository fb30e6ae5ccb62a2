"""Affine steps of a Pipeline: scores of their output as scores of their input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import _get_feature_names

from .affine import Affine, NotAffineError


def before_steps(scores: Affine, steps: Sequence[Any], X: Any) -> Affine:
    """Return scores of the input of fitted steps, from scores of their output."""
    steps = [unfrozen(step) for step in steps]
    inputs = _inputs(steps, X)
    for step, rows in zip(reversed(steps), reversed(inputs), strict=True):
        kind = type(step)
        if kind in _steps_of_rows():
            scores = _steps_of_rows()[kind](scores, step, rows)
        elif kind in _known_steps():
            scores = _known_steps()[kind](scores, step)
        elif is_selector(step):
            mask = step.get_support()
            scores = scores.spread(np.flatnonzero(mask), len(mask))
        elif not (step is None or (isinstance(step, str) and step == "passthrough")):
            known = sorted(each.__name__ for each in (*_known_steps(), *_steps_of_rows()))
            raise NotAffineError(
                f"{kind.__name__} is not known to be affine; at='input' supports {', '.join(known)}, "
                "selections of features and 'passthrough'. Pass at='features' for perturbations of the "
                "input of the last step"
            )
    return scores


def unfrozen(step: Any) -> Any:
    """Return the step inside a `FrozenEstimator`."""
    while type(step) is FrozenEstimator:
        step = step.estimator
    return step


def _inputs(steps: Sequence[Any], X: Any) -> list[Any]:
    """Return the input of each step, up to the last step that reads rows."""
    reading = [place for place, step in enumerate(steps) if type(step) in _steps_of_rows()]
    inputs = [None] * len(steps)
    for place in range(max(reading, default=-1) + 1):
        inputs[place] = X
        if place < reading[-1] and hasattr(steps[place], "transform"):
            X = steps[place].transform(X)
    return inputs


def _pipeline(scores: Affine, step: Any, X: Any) -> Affine:
    return before_steps(scores, [each for _, each in step.steps], X)


def _column_transformer(scores: Affine, step: Any, X: Any) -> Affine:
    X = _table(step, X)
    weights, total = step.transformer_weights or {}, scores.constants(step.n_features_in_)
    for name, branch, columns in step.transformers_:
        outputs = step.output_indices_[name]
        # Dropped columns have no outputs.
        if outputs.stop > outputs.start:
            places = np.asarray(step._transformer_to_input_indices[name])
            rows = _safe_indexing(X, places[0] if np.isscalar(columns) else places, axis=1)
            part = _weighted(scores.part(outputs), weights.get(name))
            part = _before_branch(part, branch, rows, len(places))
            total = total.plus(part.spread(places, total.n_features))
    return total


def _table(step: Any, X: Any) -> Any:
    """Return the input of a `ColumnTransformer`, which may read the columns of a data frame by name."""
    given, known = _get_feature_names(X), getattr(step, "feature_names_in_", None)
    if given is not None and known is not None and list(given) != list(known):
        raise ValueError(
            f"X must have the columns of the training in the same order, {known.tolist()}, got "
            f"{list(given)}: pass X[model.feature_names_in_]"
        )
    return as_table(X)


def as_table(X: Any) -> Any:
    """Return a list of rows as an array, other tables unchanged."""
    return np.asarray(X, dtype=object) if isinstance(X, (list, tuple)) else X


def _feature_union(scores: Affine, step: Any, X: Any) -> Affine:
    total = scores.constants(step.n_features_in_)
    for branch, part in branches_of(step, scores, _safe_indexing(X, [0])):
        total = total.plus(_before_branch(part, branch, X, total.n_features))
    return total


def branches_of(union: Any, scores: Affine, row: Any) -> Iterator[tuple[Any, Affine]]:
    """Yield the branches of a `FeatureUnion` with the scores of their outputs."""
    weights, first = union.transformer_weights or {}, 0
    for name, branch in union.transformer_list:
        if not (isinstance(branch, str) and branch == "drop"):
            size = (row if isinstance(branch, str) else branch.transform(row)).shape[1]
            yield branch, _weighted(scores.part(slice(first, first + size)), weights.get(name))
            first += size


def _weighted(scores: Affine, weight: float | None) -> Affine:
    return scores if weight is None else scores.combined(weight * np.eye(len(scores.coef)))


def _before_branch(scores: Affine, branch: Any, X: Any, n_features: int) -> Affine:
    """Return scores of the input of a branch; constants of the rows if it is not affine."""
    scores = replace(scores, unit=max(scores.unit, unit_of(X)))
    try:
        return before_steps(scores, [branch], X)
    except NotAffineError as error:
        values = check_array(branch.transform(X), accept_sparse="csr", dtype=np.float64)
        return scores.at(values, n_features, str(error).partition(";")[0])


def unit_of(X: Any) -> float:
    """Return the rounding unit of single precision if any column has it, else 0."""
    kinds = list(X.dtypes) if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    single = any("float32" in str(kind).lower() for kind in kinds)
    return float(np.finfo(np.float32).eps) if single else 0.0


def _simple_imputer(scores: Affine, step: Any, X: Any) -> Affine:
    """Return scores before the imputer, which changes only columns with missing values."""
    statistics = np.asarray(step.statistics_)
    is_nan = isinstance(step.missing_values, float) and np.isnan(step.missing_values)
    if statistics.dtype.kind != "f" or not is_nan or step.add_indicator:
        raise NotAffineError(f"{step!r} is affine only if it fills NaN, without an indicator")
    # Columns without any number in the training have no output.
    kept = np.flatnonzero(~np.isnan(statistics) | step.keep_empty_features)
    rows = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    missing = np.isnan(np.ravel(rows.sum(axis=0)))[kept]
    total = scores.constants(len(statistics))
    total = total.plus(scores.part(~missing).spread(kept[~missing], len(statistics)))
    if np.any(missing):
        values = check_array(step.transform(X), accept_sparse="csr", dtype=np.float64)[:, missing]
        filled = scores.part(missing).at(values, missing.sum(), "SimpleImputer fills missing values")
        total = total.plus(filled.spread(kept[missing], len(statistics)))
    return total


def _standard_scaler(scores: Affine, step: Any) -> Affine:
    scale = 1.0 if step.scale_ is None else step.scale_
    return scores.scaled(1.0 / scale, before=step.mean_ if step.with_mean else 0.0)


def _robust_scaler(scores: Affine, step: Any) -> Affine:
    scale = step.scale_ if step.with_scaling else 1.0
    return scores.scaled(1.0 / scale, before=step.center_ if step.with_centering else 0.0)


def _max_abs_scaler(scores: Affine, step: Any) -> Affine:
    _refuse_clipping(step)
    return scores.scaled(1.0 / step.scale_)


def _min_max_scaler(scores: Affine, step: Any) -> Affine:
    _refuse_clipping(step)
    return scores.scaled(step.scale_, after=step.min_)


def _refuse_clipping(step: Any) -> None:
    if step.get_params(deep=False).get("clip", False):
        raise NotAffineError(f"{type(step).__name__}(clip=True) is not affine; fit it with clip=False")


def _principal_components(scores: Affine, step: Any) -> Affine:
    components = step.components_
    if step.whiten:
        # scikit-learn divides by this scale, with this lower bound.
        scale = np.sqrt(step.explained_variance_)
        components = components / np.maximum(scale, np.finfo(scale.dtype).eps)[:, None]
    return scores.mapped(components, step.mean_)


def _projection(scores: Affine, step: Any) -> Affine:
    return scores.mapped(step.components_)


def _tfidf(scores: Affine, step: Any) -> Affine:
    if step.norm is not None or step.sublinear_tf:
        raise NotAffineError(
            f"TfidfTransformer(norm={step.norm!r}, sublinear_tf={step.sublinear_tf!r}) is not affine; "
            "fit it with norm=None and sublinear_tf=False"
        )
    return scores.scaled(step.idf_ if step.use_idf else 1.0)


def _identity(scores: Affine, step: Any) -> Affine:
    if step.func is not None:
        raise NotAffineError(
            f"FunctionTransformer(func={step.func!r}) is not known to be affine; only func=None is "
            "supported"
        )
    return scores


def is_selector(step: Any) -> bool:
    """Return True for a step of scikit-learn that selects features."""
    # Classes of other packages may differ.
    from sklearn.feature_selection import SelectorMixin

    return isinstance(step, SelectorMixin) and type(step).__module__.startswith("sklearn.")


@cache
def _known_steps() -> dict[type, Callable[[Affine, Any], Affine]]:
    """Return the function for each kind of step; subclasses may differ, so they are left out."""
    # Users of such a step have already imported its module.
    from sklearn import random_projection
    from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import (
        FunctionTransformer,
        MaxAbsScaler,
        MinMaxScaler,
        RobustScaler,
        StandardScaler,
    )

    return {
        StandardScaler: _standard_scaler,
        RobustScaler: _robust_scaler,
        MaxAbsScaler: _max_abs_scaler,
        MinMaxScaler: _min_max_scaler,
        PCA: _principal_components,
        IncrementalPCA: _principal_components,
        TruncatedSVD: _projection,
        random_projection.GaussianRandomProjection: _projection,
        random_projection.SparseRandomProjection: _projection,
        TfidfTransformer: _tfidf,
        FunctionTransformer: _identity,
    }


@cache
def _steps_of_rows() -> dict[type, Callable[[Affine, Any, Any], Affine]]:
    """Return the function for each kind of step whose scores depend on the given rows."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import FeatureUnion, Pipeline

    return {
        ColumnTransformer: _column_transformer,
        FeatureUnion: _feature_union,
        Pipeline: _pipeline,
        SimpleImputer: _simple_imputer,
    }
