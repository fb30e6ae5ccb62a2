"""Detection of text features that are not single words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ..oracles import FAdd, FDrop, FEdit, InvarianceOracle, UnitLength
from ..oracles.text.vectorizers import SIGMA_REASON, SIGMA_REMEDY, lowers_by_neighbors, vectorizers
from ..utils.exceptions import TextEditsWarning
from .text_features import scaling

# Edits of tokens that are closest to edits of features.
_EDITS: dict[type, str] = {FDrop: "drop", FAdd: "add", FEdit: "edit"}
_MIXING = "sklearn.decomposition.", "sklearn.random_projection."


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
    flat = list(_flat(steps))
    if not any(type(step) in vectorizers() for step in flat):
        return None
    found = (_other_edits_of(step, step is flat[-1], oracle, X) for step in flat)
    return next(filter(None, found), None)


def _flat(steps: Sequence[Any]) -> Iterator[Any]:
    """Yield all steps, and those inside of Pipelines, unions and transformers of columns."""
    for step in steps:
        inner = getattr(step, "transformers_", getattr(step, "transformer_list", ()))
        inner = getattr(step, "steps", inner)
        yield step
        yield from _flat([each[1] for each in inner])


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
