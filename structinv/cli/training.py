"""From options to a fitted classifier."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import sparse

from ..compiled import Stopwatch
from ..estimators import InvariantLinearSVC
from ..oracles import REGISTRY
from .rows import Features, Labels, NumberedFeatures, Scaling, TextFeatures, is_text

# Parameters of oracles that fit has options for.
ORACLE_OPTIONS = frozenset({"max_changes", "low", "high", "radius"})


@dataclass(frozen=True)
class TextOptions:
    """How texts are read."""

    scaling: Scaling
    unit_length: bool
    text_key: str
    label_key: str


def build_classifier(
    oracle: str, oracle_parameters: dict[str, Any], **parameters: Any
) -> InvariantLinearSVC:
    """An unfitted classifier; an oracle's options that were not given keep their defaults."""
    if oracle not in REGISTRY:
        raise ValueError(f"--oracle must be one of {', '.join(_usable())}; got {oracle!r}")
    missing = [name for name in _needed(oracle) if name not in oracle_parameters]
    if not _needed(oracle) <= ORACLE_OPTIONS:
        raise ValueError(f"--oracle {oracle} needs {', '.join(missing)}: train it in Python")
    if missing:
        raise ValueError(f"--oracle {oracle} needs {_option(missing[0])}")
    if not REGISTRY[oracle].supports_sparse:
        raise ValueError(
            f"--oracle {oracle} takes dense rows only, and files give sparse ones: train it in Python"
        )
    for name in oracle_parameters:
        if name not in inspect.signature(REGISTRY[oracle]).parameters:
            raise ValueError(f"{_option(name)} is not an option of --oracle {oracle}")
    return InvariantLinearSVC(REGISTRY[oracle](**oracle_parameters), **parameters)


def _needed(oracle: str) -> set[str]:
    """Parameters without a default."""
    parameters = inspect.signature(REGISTRY[oracle]).parameters.values()
    return {each.name for each in parameters if each.default is each.empty}


def _usable() -> list[str]:
    """Oracles for sparse rows, which files give, whose parameters all have an option."""
    sparse = [name for name, oracle in REGISTRY.items() if oracle.supports_sparse is True]
    return [name for name in sparse if _needed(name) <= ORACLE_OPTIONS]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def read_training(
    path: Path, options: TextOptions, zero_based: bool | None
) -> tuple[Features, sparse.csr_matrix, Labels]:
    """The features of a training file, its rows and labels."""
    if is_text(path):
        return TextFeatures.learn(
            path,
            scaling=options.scaling,
            unit_length=options.unit_length,
            text_key=options.text_key,
            label_key=options.label_key,
        )
    return NumberedFeatures.learn(path, zero_based)


def train(classifier: InvariantLinearSVC, X: sparse.csr_matrix, y: Labels) -> dict[str, Any]:
    """Fit in place and say how it ended, in plain values."""
    watch = Stopwatch()
    classifier.fit(X, y)
    solution = classifier.solution_
    return {
        "rows": int(X.shape[0]),
        "features": int(X.shape[1]),
        "seconds": watch.seconds,
        "relative_gap": float(solution.relative_gap),
        "status": str(solution.status.value),
    }
