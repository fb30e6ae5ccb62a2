"""Naive Bayes on counts or binary features, whose class scores are linear."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..oracles import FAdd, FDrop, FEdit, Identity, InvarianceOracle, OnlyFor, Protected, Union
from ..utils.matrices import Matrix
from .affine import Affine


def is_naive_bayes(model: Any) -> bool:
    """Return True for naive Bayes with joint log probabilities linear in the rows."""
    # A subclass may score rows differently.
    return type(model) in _kinds()


def naive_bayes_scores(model: Any) -> Affine:
    """Return joint log probabilities of the classes as affine functions of the rows.

    Those of `BernoulliNB` are affine in its binary rows.
    """
    weights, name = np.asarray(model.feature_log_prob_), type(model).__name__
    added = np.zeros(len(weights)) if name == "ComplementNB" else np.asarray(model.class_log_prior_)
    coef, size = weights, np.abs(added)
    if name == "BernoulliNB":
        with np.errstate(divide="ignore", invalid="ignore"):
            absent = np.log(1 - np.exp(weights))
            coef = weights - absent
        added, size = added + absent.sum(axis=1), size + np.abs(absent).sum(axis=1)
    _check_finite(name, coef, added)
    return Affine(coef, added, np.abs(coef), size)


def binary_rows(model: Any, rows: Matrix, oracle: InvarianceOracle) -> tuple[Matrix, InvarianceOracle]:
    """Return the rows after `binarize`, and an oracle with the same edits of them.

    `BernoulliNB` compares all features with its `binarize`. Dropping or adding a feature before the
    comparison is the same as after it. This does not hold for other edits: a factor has no effect, or
    drops the feature.

    Shapes: `rows` (n, d).
    """
    cut = compared_with(model)
    if cut is None:
        return rows, oracle
    values = rows.data if sp.issparse(rows) else rows
    if cut < 0:
        raise ValueError(
            f"BernoulliNB(binarize={cut!r}) counts zeros as present features, so edits cannot be "
            "certified. Fit it with binarize at 0 or above"
        )
    hidden = values[(values != 0) & ~(values > cut)]
    if hidden.size:
        raise ValueError(
            f"X must contain only 0 and values above {cut!r} for BernoulliNB(binarize={cut!r}), got "
            f"{hidden[0].item()!r}. "
            "Pass binary rows to a model with binarize=None"
        )
    binary = rows.copy()
    if sp.issparse(binary):
        binary.eliminate_zeros()
        binary.data[:] = 1
    else:
        binary[...] = rows > cut
    return binary, _on_binary_rows(oracle, float(cut), rows.shape[1])


def refuse_before_comparison(model: Any, steps: list[Any]) -> None:
    """Raise ValueError if steps precede a model that compares features with a number."""
    if steps and compared_with(model) is not None:
        raise ValueError(
            f"BernoulliNB(binarize={model.binarize!r}) compares the features that {steps[-1]!r} returns "
            "with a number, which is not affine in the input. Pass at='features', or fit BernoulliNB "
            "with binarize=None"
        )


def _on_binary_rows(oracle: InvarianceOracle, cut: float, n_features: int) -> InvarianceOracle:
    """Return an oracle for binarized rows with the same edits as an oracle for the original rows."""
    # Exact classes, because subclasses may have other edits.
    kind: Any = type(oracle)
    edits: Any = oracle
    if kind in (Identity, FDrop):
        return oracle
    if kind is FAdd:
        _check_added("value", edits, cut, n_features)
        # A present feature stays present if it is increased.
        return clone(edits).set_params(value=1.0, present=False)
    if kind is FEdit and edits.scale is None:
        if edits.add is None:
            return oracle
        _check_added("add", edits, cut, n_features)
        return clone(edits).set_params(add=1.0)
    if kind in (OnlyFor, Protected, Union):
        parts = {
            name: _on_binary_rows(part, cut, n_features)
            for name, part in oracle.get_params(deep=False).items()
            if isinstance(part, InvarianceOracle)
        }
        return clone(oracle).set_params(**parts)
    raise TypeError(
        f"oracle must remove or add whole features for BernoulliNB(binarize={cut!r}), which reads "
        f"every value as 0 or 1, got {oracle!r}: use FDrop, FAdd, FEdit without scale, or Protected, "
        "only_for and unions of these"
    )


def _check_added(name: str, oracle: FAdd | FEdit, cut: float, n_features: int) -> None:
    """Raise ValueError if the model ignores the features that the oracle adds."""
    added = oracle.edits(n_features).value
    if np.any((added > 0) & (added <= cut)):
        raise ValueError(
            f"{name} must be above binarize={cut!r} of BernoulliNB, which ignores smaller values, got "
            f"{getattr(oracle, name)!r}"
        )


def _check_finite(name: str, coef: np.ndarray, added: np.ndarray) -> None:
    """Raise ValueError for infinite weights or scores."""
    infinite = np.flatnonzero(~np.isfinite(coef).all(axis=0))
    if len(infinite):
        raise ValueError(
            f"{name} has infinite weights for {len(infinite)} features, the first of which is feature "
            f"{infinite[0]}: its probability in a class is 0 or 1. Fit with alpha above 0"
        )
    if not np.all(np.isfinite(added)):
        raise ValueError(
            f"{name} has infinite scores for a class of prior probability 0: class_prior must be above 0"
        )


def compared_with(model: Any) -> float | None:
    """Return the number with which a model compares all features, or None."""
    return getattr(model, "binarize", None) if is_naive_bayes(model) else None


@cache
def _kinds() -> tuple[type, ...]:
    # Users of such a model have already imported its module.
    from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB

    return BernoulliNB, ComplementNB, MultinomialNB
