"""From options to a fitted classifier."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from ..estimators import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
)
from ..estimators.classifier import InvariantClassifier
from ..estimators.row_sources import as_bytes
from ..estimators.target_labels import label_name
from ..model_selection import select_changes
from ..oracles import REGISTRY, ImageShape
from ..solvers import Status
from ..structures import Sequence
from ..utils.exceptions import UninformativeFitWarning
from ..utils.jit import Stopwatch
from ..utils.matrices import Matrix
from .reports import weights_report
from .row_files import Labels

# Parameters of oracles that fit has options for, and how their text is read.
ORACLE_OPTIONS = (
    *("max_changes", "low", "high", "value", "present", "add", "drop", "scale"),
    *("radius", "pixels", "degrees", "factors", "shape"),
)

# What happens to tokens of texts, by the name of the oracle that changes words of rows.
TOKEN_ORACLES = {"fdrop": "drop", "fadd": "add"}

# --C auto tries these.
POWERS = tuple(10.0**power for power in range(-4, 3))
MOST_FOLDS = 5


def build_classifier(
    task: str, oracle: str | None, given: dict[str, Any], kernel: dict[str, Any], **parameters: Any
) -> Any:
    """An unfitted classifier; an oracle's options that were not given keep their defaults.

    Parameters
    ----------
    task : {"rows", "texts", "sentences"}
        What is to be labeled.
    oracle : str or None
        By default fscale for a linear machine of rows, otherwise identity.
    given : dict
        Options of oracles.
    kernel : dict
        ``kernel`` and its parameters; empty for a linear machine.
    parameters : dict
        Of the classifier.
    """
    default = "" if oracle else ", the default,"
    oracle = oracle or ("fscale" if task == "rows" and not kernel else "identity")
    if oracle not in REGISTRY:
        raise ValueError(f"--oracle must be one of {', '.join(_usable())}; got {oracle!r}")
    missing = [name for name in _needed(oracle) if name not in given]
    if not _needed(oracle) <= set(ORACLE_OPTIONS):
        raise ValueError(f"--oracle {oracle} needs {', '.join(missing)}: train it in Python")
    if missing:
        raise ValueError(
            f"--oracle {oracle}{default} needs {_option(missing[0])}; "
            "--oracle identity trains for no changes"
        )
    for name in given:
        if name not in inspect.signature(REGISTRY[oracle]).parameters:
            raise ValueError(f"{_option(name)} is not an option of --oracle {oracle}")
    return _MACHINES[task](oracle, given, kernel, parameters)


def counts_tokens(oracle: str | None, scaling: str, unit_length: bool, kernel: bool) -> bool:
    """Whether texts are certified by their tokens: counted words that are dropped or added."""
    return oracle in TOKEN_ORACLES and scaling == "count" and not unit_length and not kernel


def _of_rows(
    oracle: str, given: dict[str, Any], kernel: dict[str, Any], parameters: dict[str, Any]
) -> InvariantClassifier:
    changes = REGISTRY[oracle](**given)
    if not kernel:
        return InvariantLinearSVC(changes, **parameters)
    parameters.pop("fit_intercept")
    return InvariantSVC(changes, **kernel, **parameters)


def _of_texts(
    oracle: str, given: dict[str, Any], kernel: dict[str, Any], parameters: dict[str, Any]
) -> InvariantClassifier:
    for name in set(given) - {"max_changes"}:
        raise ValueError(
            f"{_option(name)} is about values of rows, and --oracle {oracle} is about tokens of texts: "
            "leave it out, or take --vectorizer log or tfidf"
        )
    return InvariantTextClassifier(TOKEN_ORACLES[oracle], given["max_changes"], **parameters)


def _of_sentences(
    oracle: str, given: dict[str, Any], kernel: dict[str, Any], parameters: dict[str, Any]
) -> InvariantStructuredSVC:
    if kernel:
        raise ValueError("--kernel is for rows: sentences are labeled by a linear machine")
    # Start and end of a sentence, and its features of them, serve as intercepts.
    parameters.pop("fit_intercept")
    return InvariantStructuredSVC(Sequence(), oracle=REGISTRY[oracle](**given), **parameters)


_MACHINES = {"rows": _of_rows, "texts": _of_texts, "sentences": _of_sentences}


def dense_for(classifier: Any) -> str | None:
    """Which option asks for dense rows, or None where sparse ones are fine."""
    if isinstance(classifier, InvariantSVC):
        return f"--kernel {classifier.kernel}"
    if not classifier.oracle.supports_sparse:
        names = [name for name, kind in REGISTRY.items() if type(classifier.oracle) is kind]
        return f"--oracle {names[0]}"
    return None


def _needed(oracle: str) -> set[str]:
    """Parameters without a default."""
    parameters = inspect.signature(REGISTRY[oracle]).parameters.values()
    return {each.name for each in parameters if each.default is each.empty}


def _usable() -> list[str]:
    """Oracles whose parameters all have an option."""
    return [name for name in REGISTRY if _needed(name) <= set(ORACLE_OPTIONS)]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def numbers(option: str, text: str | None) -> list[float] | None:
    """The numbers of an option such as ``-10,10``."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be numbers with commas between, got {text!r}") from None


def image_shape(text: str | None) -> ImageShape | None:
    """The shape of an option such as ``28x28`` or ``32x32x3``."""
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) not in (2, 3) or not all(side.isdecimal() for side in sides):
        raise ValueError(f"--shape must be height x width [x channels], such as 28x28, got {text!r}")
    return ImageShape(*(int(side) for side in sides))


def labels_that_change(text: str | None, y: Labels) -> list[Any] | None:
    """The labels that ``--only-for`` names."""
    if text is None:
        return None
    names = {label_name(label): label for label in np.unique(y).tolist()}
    parts = [text] if text in names else text.split(",")
    for part in parts:
        if part not in names:
            raise ValueError(f"--only-for names {part!r}; the classes are {', '.join(names)}")
    return [names[part] for part in parts]


def only_for(classifier: Any, labels: list[Any] | None) -> None:
    """Let nothing but rows of these labels change, in place; None leaves it at all."""
    if labels is None:
        return
    if "only_for" in classifier.get_params(deep=False):
        classifier.set_params(only_for=labels)
    else:
        classifier.set_params(oracle=classifier.oracle.only_for(labels))


def class_weights(text: str | None, y: Labels) -> dict[Any, float] | str | None:
    """What ``--class-weight`` says of these labels: "balanced", or ``spam=2,ham=1``; others weigh 1."""
    if text is None or text == "balanced":
        return text
    names = {label_name(label): label for label in np.unique(y).tolist()}
    weights = dict.fromkeys(names.values(), 1.0)
    for part in text.split(","):
        name, sign, value = part.rpartition("=")
        if not sign or not _is_weight(value):
            raise ValueError(
                f"--class-weight must be balanced, or such as spam=2,ham=1 with numbers of at least 0; "
                f"got {text!r}"
            )
        if name not in names:
            raise ValueError(f"--class-weight names {name!r}; the classes are {', '.join(names)}")
        weights[names[name]] = float(value)
    return weights


def _is_weight(text: str) -> bool:
    try:
        return 0.0 <= float(text) < np.inf
    except ValueError:
        return False


def weight_of_losses(text: str) -> float | None:
    """The number of ``--C``, or None for "auto"."""
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--C must be a number above 0 or auto, got {text!r}") from None


def limit_of_memory(text: str | None) -> str | float | None:
    """What ``--memory-limit`` says: a number of bytes, or such as 4GB."""
    try:
        limit = text if text is None or text.strip()[-1:].isalpha() else float(text)
        as_bytes(limit)
    except ValueError:
        raise ValueError(
            f"--memory-limit must be such as 4GB or 500MiB, or a number of bytes above 0, got {text!r}"
        ) from None
    return limit


def choose_weight(classifier: InvariantClassifier, X: Matrix, y: Labels, console: Console) -> float:
    """The best C on held-out folds of the training rows, by the rule of `select_changes`.

    That is the highest certified accuracy, against the classifier's own oracle, among those whose clean
    accuracy is within one standard error of the best; of equal ones the more accurate, then the least.
    Certified accuracy alone would like a classifier that gives one answer to all rows. Where nothing may
    change the two are the same. Powers of ten from 1e-4 to 100 are tried on five stratified folds, or
    as many as the smallest class has rows.
    """
    _, counts = np.unique(y, return_counts=True)
    folds = int(min(MOST_FOLDS, counts.min()))
    if folds < 2:
        raise ValueError("--C auto needs at least two rows of every class to hold some out")
    with warnings.catch_warnings():
        # The fit with the C that is chosen says it once.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UninformativeFitWarning)
        found = select_changes(classifier, X, y, {"C": POWERS}, cv=folds, oracle=classifier.oracle)
    weights_report(console, found, folds)
    return float(found.best_params_["C"])


def train(classifier: Any, X: Any, y: Any, counts: dict[str, int]) -> tuple[dict[str, Any], bool]:
    """Fit in place; how it ended, in plain values, and whether Ctrl-C ended it."""
    watch = Stopwatch()
    interrupted = False
    try:
        classifier.fit(X, y)
    except KeyboardInterrupt:
        # A fit that had a model by then keeps it.
        if getattr(classifier, "solution_", None) is None:
            raise
        interrupted = True
    solution = classifier.solution_
    training = {
        **counts,
        "seconds": watch.seconds,
        "relative_gap": float(solution.relative_gap),
        "status": str(solution.status.value),
    }
    return training, interrupted or solution.status is Status.INTERRUPTED
