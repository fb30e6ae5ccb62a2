"""Affine steps of a Pipeline: scores of their output as scores of their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Affine:
    """Scores ``X coef' + intercept`` with bounds of the terms, for rounding errors.

    Parameters
    ----------
    coef : (n_outputs, d) array
        Weights.
    intercept : (n_outputs,) array
        Constants.
    coef_size : (n_outputs, d) array
        Sums of absolute products in all steps, at least ``|coef|``. Rounding errors are a small fraction
        of them.
    intercept_size : (n_outputs,) array
        The same for the constants.
    n_steps : int
        Number of composed maps.
    widest : int
        Largest number of features of a step.
    """

    coef: np.ndarray
    intercept: np.ndarray
    coef_size: np.ndarray
    intercept_size: np.ndarray
    n_steps: int = 0
    widest: int = 0

    @staticmethod
    def of(coef: np.ndarray, intercept: np.ndarray) -> Affine:
        """Return the scores of one linear model."""
        return Affine(coef, intercept, np.abs(coef), np.abs(intercept))

    @staticmethod
    def stacked(parts: Sequence[Affine]) -> Affine:
        """Return the scores of several models of the same rows."""
        return Affine(
            np.vstack([part.coef for part in parts]),
            np.concatenate([part.intercept for part in parts]),
            np.vstack([part.coef_size for part in parts]),
            np.concatenate([part.intercept_size for part in parts]),
            max(part.n_steps for part in parts),
            max(part.widest for part in parts),
        )

    def scaled(self, factors: np.ndarray, before: np.ndarray, after: np.ndarray) -> Affine:
        """Return scores of x if these are scores of ``(x - before) * factors + after``."""
        return Affine(
            self.coef * factors,
            self.intercept - (self.coef * factors) @ before + self.coef @ after,
            self.coef_size * np.abs(factors),
            self.intercept_size
            + (self.coef_size * np.abs(factors)) @ np.abs(before)
            + self.coef_size @ np.abs(after),
            self.n_steps + 1,
            max(self.widest, self.coef.shape[1]),
        )

    def projected(self, components: np.ndarray, center: np.ndarray) -> Affine:
        """Return scores of x if these are scores of ``(x - center) @ components.T``."""
        coef, size = self.coef @ components, self.coef_size @ np.abs(components)
        return Affine(
            np.asarray(coef),
            self.intercept - coef @ center,
            np.asarray(size),
            self.intercept_size + size @ np.abs(center),
            self.n_steps + 1,
            max(self.widest, self.coef.shape[1]),
        )

    def spread(self, selected: np.ndarray) -> Affine:
        """Return scores of x if these are scores of the features of a mask."""
        coef = np.zeros((len(self.coef), len(selected)), dtype=self.coef.dtype)
        size = np.zeros(coef.shape)
        coef[:, selected], size[:, selected] = self.coef, self.coef_size
        widest = max(self.widest, self.coef.shape[1])
        return Affine(coef, self.intercept, size, self.intercept_size, self.n_steps + 1, widest)


def before_steps(scores: Affine, steps: Sequence[Any]) -> Affine:
    """Return scores of the input of fitted steps, from scores of their output.

    Parameters
    ----------
    scores : Affine
        Scores of the output.
    steps : sequence of transformers
        Steps in sequence.

    Raises
    ------
    ValueError
        If a step is not known to be affine; the message lists the supported steps.
    """
    for step in reversed(steps):
        if step is None or (isinstance(step, str) and step == "passthrough"):
            continue
        before = _known_steps().get(type(step))
        if before is None:
            raise ValueError(
                f"{type(step).__name__} is not known to be affine; at='input' supports "
                f"{', '.join(sorted(kind.__name__ for kind in _known_steps()))} and 'passthrough'. "
                "Pass at='features' for perturbations of the input of the last step"
            )
        scores = before(scores, step)
    return scores


def _standard_scaler(scores: Affine, step: Any) -> Affine:
    scale = _or(step.scale_, 1.0, step.n_features_in_)
    mean = step.mean_ if step.with_mean else None
    return scores.scaled(1.0 / scale, _or(mean, 0.0, len(scale)), np.zeros(len(scale)))


def _robust_scaler(scores: Affine, step: Any) -> Affine:
    scale = _or(step.scale_ if step.with_scaling else None, 1.0, step.n_features_in_)
    center = _or(step.center_ if step.with_centering else None, 0.0, len(scale))
    return scores.scaled(1.0 / scale, center, np.zeros(len(scale)))


def _max_abs_scaler(scores: Affine, step: Any) -> Affine:
    _refuse_clipping(step)
    nothing = np.zeros(len(step.scale_))
    return scores.scaled(1.0 / step.scale_, nothing, nothing)


def _min_max_scaler(scores: Affine, step: Any) -> Affine:
    _refuse_clipping(step)
    return scores.scaled(step.scale_, np.zeros(len(step.scale_)), step.min_)


def _refuse_clipping(step: Any) -> None:
    if step.get_params(deep=False).get("clip", False):
        raise ValueError(f"{type(step).__name__}(clip=True) is not affine; fit it with clip=False")


def _principal_components(scores: Affine, step: Any) -> Affine:
    components = step.components_
    if step.whiten:
        # scikit-learn divides by this scale, with this lower bound.
        scale = np.sqrt(step.explained_variance_)
        components = components / np.maximum(scale, np.finfo(scale.dtype).eps)[:, None]
    return scores.projected(components, _or(step.mean_, 0.0, components.shape[1]))


def _projection(scores: Affine, step: Any) -> Affine:
    return scores.projected(step.components_, np.zeros(step.components_.shape[1]))


def _selection(scores: Affine, step: Any) -> Affine:
    return scores.spread(step.get_support())


def _tfidf(scores: Affine, step: Any) -> Affine:
    if step.norm is not None or step.sublinear_tf:
        raise ValueError(
            f"TfidfTransformer(norm={step.norm!r}, sublinear_tf={step.sublinear_tf!r}) is not affine; "
            "fit it with norm=None and sublinear_tf=False"
        )
    factors = step.idf_ if step.use_idf else np.ones(scores.coef.shape[1])
    nothing = np.zeros(len(factors))
    return scores.scaled(factors, nothing, nothing)


def _pipeline(scores: Affine, step: Any) -> Affine:
    return before_steps(scores, [each for _, each in step.steps])


def _identity(scores: Affine, step: Any) -> Affine:
    if step.func is not None:
        raise ValueError(
            f"FunctionTransformer(func={step.func!r}) is not known to be affine; only func=None is "
            "supported"
        )
    return scores


def _or(values: Any, otherwise: float, size: int) -> np.ndarray:
    return np.full(size, otherwise) if values is None else np.asarray(values)


@cache
def _known_steps() -> dict[type, Callable[[Affine, Any], Affine]]:
    """Return the function for each kind of step; subclasses may differ, so they are left out."""
    # Users of such a step have already imported its module.
    from sklearn import feature_selection as chosen
    from sklearn import random_projection
    from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import (
        FunctionTransformer,
        MaxAbsScaler,
        MinMaxScaler,
        RobustScaler,
        StandardScaler,
    )

    selectors = (
        chosen.GenericUnivariateSelect, chosen.RFE, chosen.RFECV, chosen.SelectFdr, chosen.SelectFpr,
        chosen.SelectFromModel, chosen.SelectFwe, chosen.SelectKBest, chosen.SelectPercentile,
        chosen.SequentialFeatureSelector, chosen.VarianceThreshold,
    )  # fmt: skip
    return {
        **dict.fromkeys(selectors, _selection),
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
        Pipeline: _pipeline,
    }
