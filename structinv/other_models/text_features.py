"""Text pipelines: values and norm of counted features, and hidden edits of texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import FeatureUnion, Pipeline

from ..oracles import FAdd, FDrop, FEdit, InvarianceOracle, UnitLength
from ..oracles.text.ratios import Normalization
from ..oracles.text.vectorizers import (
    SIGMA_REASON,
    SIGMA_REMEDY,
    check_input,
    check_norm,
    lowers_by_neighbors,
    normalization_of,
    signed,
    vectorizers,
)
from ..utils.exceptions import TextEditsWarning
from .affine import Affine, NotAffineError
from .steps import before_steps, branches_of, is_selector, unfrozen

# Edits of tokens that are closest to edits of features.
_EDITS: dict[type, str] = {FDrop: "drop", FAdd: "add", FEdit: "edit"}
_MIXING = "sklearn.decomposition.", "sklearn.random_projection."


@dataclass(frozen=True)
class Block:
    """Rows of one vectorizer after their norm, and the scores that they add.

    - `normalization`: values of counted features
    - `scores`: scores of the normalized rows
    """

    vectorizer: Any
    normalization: Normalization
    scores: Affine

    def values(self, counts: sp.csr_matrix) -> np.ndarray:
        """Return the scores of counted texts, (n, n_outputs)."""
        rows = self.normalization.rows(counts)
        return self.scores.values(rows)

    def sizes(self, counts: sp.csr_matrix, n_edits: int) -> np.ndarray:
        """Bound the absolute terms in the scores of all edited texts, (n, n_outputs)."""
        weights, norm = self.scores.coef_size, self.normalization.norm
        if norm == "l2":
            return np.sqrt((weights * weights).sum(axis=1))[None] + self.scores.intercept_size
        if norm == "l1":
            return weights.max(axis=1, initial=0.0)[None] + self.scores.intercept_size
        rows = self.normalization.rows(abs(counts))
        largest = (weights * np.abs(self.normalization.scale)).max(axis=1, initial=0.0)
        return np.asarray(abs(rows) @ weights.T) + n_edits * largest + self.scores.intercept_size


def text_blocks(steps: Sequence[Any], scores: Affine, cut: float | None) -> list[Block]:
    """Return the blocks of rows whose scores add up to the scores after some steps."""
    flat = list(_flat(steps))
    if flat and type(flat[0]) is FeatureUnion:
        return _of_union(flat[0], _before(scores, flat[1:]), cut)
    return [_block(flat, scores, cut)]


def _flat(steps: Iterable[Any]) -> Iterable[Any]:
    """Yield all steps, those of Pipelines one after the other."""
    for step in steps:
        step = unfrozen(step)
        if type(step) is Pipeline:
            yield from _flat([each for _, each in step.steps])
        elif step is not None and not isinstance(step, str):
            yield step


def _of_union(union: FeatureUnion, scores: Affine, cut: float | None) -> list[Block]:
    blocks = [
        _block(list(_flat([branch])), part, cut) for branch, part in branches_of(union, scores, [""])
    ]
    first_scores = blocks[0].scores.plus(scores.constants(blocks[0].scores.n_features))
    return [replace(blocks[0], scores=first_scores), *blocks[1:]]


def _block(steps: Sequence[Any], scores: Affine, cut: float | None) -> Block:
    """Read a vectorizer and the steps after it."""
    if not steps:
        raise TypeError(
            "estimator must be a Pipeline that begins with a text vectorizer, for edits of tokens, got "
            "a classifier of rows"
        )
    step, others = steps[0], steps[1:]
    if type(step) not in vectorizers():
        raise TypeError(
            "estimator must be a Pipeline that begins with CountVectorizer, TfidfVectorizer, "
            f"HashingVectorizer, or a FeatureUnion of these, for edits of tokens, got "
            f"{type(step).__name__}: pass a function of texts as preprocessor of the vectorizer"
        )
    check_input(step)
    first = normalization_of(step)
    terms, norm, scale, n_features = first.terms, first.norm, first.scale, len(first.scale)
    nonlinear = [at for at, other in enumerate(others) if _divides(other) or _is_sublinear(other)]
    inner, outer = others[: max(nonlinear, default=-1) + 1], others[max(nonlinear, default=-1) + 1 :]
    columns = np.arange(n_features)
    for other in inner:
        if _is_sublinear(other):
            if norm is not None or signed(step) or not np.all(scale == 1.0):
                raise TypeError(
                    f"{type(other).__name__}(sublinear_tf=True) must have counts as its input, for "
                    f"edits of tokens, got the output of {type(step).__name__}"
                )
            terms = "sublinear" if terms == "counts" else terms
        chosen, factors = _diagonal(other)
        columns = columns if chosen is None else columns[chosen]
        factors = factors if factors is None or chosen is None else factors[chosen]
        if factors is not None:
            scale[columns] *= factors
        norm = other.norm if _divides(other) else norm
    check_norm(norm)
    scores = _before(scores, outer).spread(columns, n_features)
    left = np.zeros(n_features)
    left[columns] = scale[columns]
    if cut is not None:
        if cut != 0 or signed(step):
            raise TypeError(
                "BernoulliNB must have binarize=0.0 and features without signs, for edits of tokens, "
                f"got binarize={cut!r}"
            )
        return Block(step, Normalization("binary", None, (left > 0).astype(float)), scores)
    return Block(step, Normalization(terms, norm, left), scores)


def _divides(step: Any) -> bool:
    """Return True if a step divides each row by its norm."""
    return type(step) in scaling() and step.norm is not None


def _is_sublinear(step: Any) -> bool:
    return bool(getattr(step, "sublinear_tf", False))


def _diagonal(step: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the features that a step keeps, None for all, and factors of the kept features."""
    kind = type(step)
    if is_selector(step):
        return step.get_support(), None
    if kind in scaling():
        return None, getattr(step, "idf_", None)
    if kind.__name__ == "MaxAbsScaler" or (kind.__name__ == "StandardScaler" and not step.with_mean):
        return None, None if step.scale_ is None else 1.0 / step.scale_
    raise TypeError(
        f"{kind.__name__} must not precede a norm of the rows, for edits of tokens: only feature "
        "selection, MaxAbsScaler and TfidfTransformer may"
    )


def _before(scores: Affine, steps: Sequence[Any]) -> Affine:
    """Return scores of the input of affine steps."""
    try:
        return before_steps(scores, list(steps), None)
    except NotAffineError as error:
        reason = str(error).partition(";")[0]
        raise TypeError(
            f"steps after the vectorizer must be affine, for edits of tokens: {reason}"
        ) from None


@cache
def scaling() -> tuple[type, ...]:
    """Return the transformers that divide each row by its norm, if they have one."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import Normalizer

    return Normalizer, TfidfTransformer


def warn_of_text_edits(oracle: InvarianceOracle, steps: Sequence[Any], X: Any, stacklevel: int) -> None:
    """Warn if the oracle counts edits of features that are not single words.

    The rows alone show only a Euclidean length of 1; see `warn_of_row_lengths`.
    """
    counted = oracle.counted()
    found = None if counted is None else other_edits(oracle, steps, X)
    if counted is not None and found is not None:
        reason, remedy = found
        edit = next((_EDITS[type(part)] for part in _parts(oracle) if type(part) in _EDITS), "drop")
        warnings.warn(
            f"{reason}, but {type(oracle).__name__} edits single features. These certificates do not "
            f"hold for edits of the text: {remedy}, or certify edits of tokens with "
            f"certify(estimator, TokenEdits({edit!r}, {counted.most}), X)",
            TextEditsWarning,
            stacklevel=stacklevel + 1,
        )


def other_edits(oracle: InvarianceOracle, steps: Sequence[Any], X: Any) -> tuple[str, str] | None:
    """Return why features are not single words, with a remedy; None if they are."""
    flat = list(_nested(steps))
    if not any(type(step) in vectorizers() for step in flat):
        return None
    found = (_other_edits_of(step, step is flat[-1], oracle, X) for step in flat)
    return next(filter(None, found), None)


def _nested(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield all steps, and those inside of Pipelines, unions and transformers of columns."""
    for step in steps:
        inner = getattr(step, "transformers_", getattr(step, "transformer_list", ()))
        inner = getattr(step, "steps", inner)
        yield step
        yield from _nested([each[1] for each in inner])


def _other_edits_of(
    step: Any, is_last: bool, oracle: InvarianceOracle, X: Any
) -> tuple[str, str] | None:
    name, kind = type(step).__name__, type(step)
    if kind.__module__.startswith(_MIXING):
        return f"{name} mixes all words in each feature", f"remove {name}"
    norm = getattr(step, "norm", None) if kind in (*scaling(), *vectorizers()) else None
    if any(isinstance(part, UnitLength) and part.norm == norm for part in _parts(oracle)):
        norm = None
    # The rows show a Euclidean length of 1 if no step follows.
    if norm is not None and not (norm == "l2" and is_last):
        remedy = "remove Normalizer" if name == "Normalizer" else "pass norm=None"
        return f"{name}(norm={norm!r}) scales each row, so a word changes all features", remedy
    if kind not in vectorizers() or callable(step.analyzer):
        return None
    if step.analyzer != "word":
        return f"{name}(analyzer={step.analyzer!r}) counts parts of words", "pass analyzer='word'"
    if step.ngram_range[1] > 1:
        reason = f"{name}(ngram_range={step.ngram_range!r}) counts groups of words"
        return reason, "pass ngram_range=(1, 1)"
    if name == "HashingVectorizer" and step.alternate_sign:
        return f"{name} subtracts words that share a feature", "pass alternate_sign=False"
    if name == "HashingVectorizer" and _adds_to_absent(oracle):
        return f"{name} adds words that share a feature", "take CountVectorizer"
    if lowers_by_neighbors(step, X):
        return SIGMA_REASON.format(name), SIGMA_REMEDY
    return None


def _adds_to_absent(oracle: InvarianceOracle) -> bool:
    """Return True if the oracle adds features only where they are 0."""
    return any(
        (type(part) is FAdd and not part.present) or (type(part) is FEdit and part.add is not None)
        for part in _parts(oracle)
    )


def _parts(oracle: InvarianceOracle) -> list[Any]:
    """Return an oracle and all its parameters."""
    return [oracle, *oracle.get_params(deep=True).values()]
