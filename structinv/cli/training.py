"""Construction and training of a classifier from command-line options."""

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
from ..model_selection import detection_scorer, select_changes
from ..oracles import REGISTRY, ImageShape
from ..solvers import Status
from ..structures import Sequence
from ..utils.exceptions import UninformativeFitWarning
from ..utils.jit import Stopwatch
from ..utils.matrices import Matrix
from ..utils.visible import listed
from .reports import weights_report
from .row_files import Labels

# Parameters of oracles that are options of `fit`.
ORACLE_OPTIONS = (
    *("max_changes", "low", "high", "value", "present", "add", "drop", "scale"),
    *("radius", "pixels", "degrees", "factors", "shape"),
)

# Options with the values of a transformation. In Python, an interval can replace them.
VALUES = {"shifts": "pixels", "rotations": "degrees", "scalings": "factors", "shears": "factors"}

# Edits of tokens in texts, by the name of the oracle that edits words of rows.
TOKEN_ORACLES = {"fdrop": "drop", "fadd": "add"}

# Values of C that --C auto tries.
POWERS = tuple(10.0**power for power in range(-4, 3))
MOST_FOLDS = 5


def build_classifier(
    task: str, oracle: str | None, given: dict[str, Any], kernel: dict[str, Any], **parameters: Any
) -> Any:
    """Return an unfitted classifier."""
    default = "" if oracle else ", the default,"
    oracle = oracle or ("fscale" if task == "rows" and not kernel else "identity")
    if oracle not in REGISTRY:
        raise ValueError(f"--oracle must be one of {', '.join(_usable())}, got {oracle!r}")
    missing = [name for name in _needed(oracle) if name not in given]
    if not _needed(oracle) <= set(ORACLE_OPTIONS):
        raise ValueError(
            f"--oracle {oracle} requires {', '.join(missing)}, which the command line does not support: "
            "train in Python"
        )
    if missing:
        raise ValueError(
            f"--oracle {oracle}{default} requires {_option(missing[0])}: pass it, or pass --oracle "
            "identity to train without perturbations"
        )
    for name in given:
        if name not in inspect.signature(REGISTRY[oracle]).parameters:
            raise ValueError(f"{_option(name)} is not an option of --oracle {oracle}: remove it")
    return _BUILDERS[task](oracle, given, kernel, parameters)


def factor_pair(text: str | None) -> tuple[float, ...] | None:
    """Parse ``--scale``, a pair of factors such as ``0.5,2``."""
    factors = numbers("--scale", text)
    if factors is None:
        return None
    if len(factors) != 2:
        raise ValueError(
            f"--scale must be two factors separated by a comma, such as 0.5,2, got {text!r}"
        )
    return tuple(factors)


def counts_tokens(oracle: str | None, scaling: str, unit_length: bool, kernel: bool) -> bool:
    """Return True if certificates are about edits of tokens.

    This requires counts of words, and an oracle with edits of words.
    """
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
            f"{_option(name)} is for feature values, but --oracle {oracle} edits tokens of texts: "
            "remove the option, or pass --vectorizer log or tfidf"
        )
    from sklearn.feature_extraction.text import CountVectorizer

    edit, most = TOKEN_ORACLES[oracle], given["max_changes"]
    return InvariantTextClassifier(edit, most, CountVectorizer(), **parameters)


def _of_sentences(
    oracle: str, given: dict[str, Any], kernel: dict[str, Any], parameters: dict[str, Any]
) -> InvariantStructuredSVC:
    if kernel:
        raise ValueError("--kernel is not available for sentences: remove it to train a linear model")
    # The features of the start and the end of a sentence serve as intercepts.
    parameters.pop("fit_intercept")
    return InvariantStructuredSVC(Sequence(), oracle=REGISTRY[oracle](**given), **parameters)


_BUILDERS = {"rows": _of_rows, "texts": _of_texts, "sentences": _of_sentences}


def dense_for(classifier: Any) -> str | None:
    """Return the option that requires dense rows, or None for sparse rows."""
    if isinstance(classifier, InvariantSVC):
        return f"--kernel {classifier.kernel}"
    if not classifier.oracle.supports_sparse:
        names = [name for name, kind in REGISTRY.items() if type(classifier.oracle) is kind]
        return f"--oracle {names[0]}"
    return None


def _needed(oracle: str) -> set[str]:
    """Return the names of the parameters that a command must set."""
    parameters = inspect.signature(REGISTRY[oracle]).parameters.values()
    needed = {each.name for each in parameters if each.default is each.empty}
    return needed | {VALUES[oracle]} if oracle in VALUES else needed


def _usable() -> list[str]:
    """Return the oracles with options for all required parameters."""
    return [name for name in REGISTRY if _needed(name) <= set(ORACLE_OPTIONS)]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def numbers(option: str, text: str | None) -> list[float] | None:
    """Parse an option such as ``-10,10``."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {text!r}") from None


def image_shape(text: str | None) -> ImageShape | None:
    """Parse a shape such as ``28x28`` or ``32x32x3``."""
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) not in (2, 3) or not all(side.isdecimal() for side in sides):
        raise ValueError(f"--shape must be height x width [x channels], such as 28x28, got {text!r}")
    return ImageShape(*(int(side) for side in sides))


def labels_that_change(text: str | None, y: Labels) -> list[Any] | None:
    """Return the labels in ``--only-for``."""
    if text is None:
        return None
    names = {label_name(label): label for label in np.unique(y).tolist()}
    parts = [text] if text in names else text.split(",")
    for part in parts:
        if part not in names:
            raise ValueError(f"--only-for must list labels of DATA ({listed(names)}), got {part!r}")
    return [names[part] for part in parts]


def only_for(classifier: Any, labels: list[Any] | None) -> None:
    """Restrict the oracle to these labels, in place; None means all labels."""
    if labels is None:
        return
    if "only_for" in classifier.get_params(deep=False):
        classifier.set_params(only_for=labels)
    else:
        classifier.set_params(oracle=classifier.oracle.only_for(labels))


def class_weights(text: str | None, y: Labels) -> dict[Any, float] | str | None:
    """Parse ``--class-weight``; classes that it omits have weight 1."""
    if text is None or text == "balanced":
        return text
    names = {label_name(label): label for label in np.unique(y).tolist()}
    weights = dict.fromkeys(names.values(), 1.0)
    for part in text.split(","):
        name, sign, value = part.rpartition("=")
        if not sign or not _is_weight(value):
            raise ValueError(
                f"--class-weight must be balanced, or weights >= 0 such as spam=2,ham=1, got {text!r}"
            )
        if name not in names:
            raise ValueError(f"--class-weight must list labels of DATA ({listed(names)}), got {name!r}")
        weights[names[name]] = float(value)
    return weights


def _is_weight(text: str) -> bool:
    try:
        return 0.0 <= float(text) < np.inf
    except ValueError:
        return False


def weight_of_losses(text: str) -> float | None:
    """Parse ``--C``; None stands for "auto"."""
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--C must be a number above 0 or auto, got {text!r}") from None


def limit_of_memory(text: str | None) -> str | float | None:
    """Check ``--memory-limit``: a number of bytes, or text such as 4GB."""
    try:
        limit = text if text is None or text.strip()[-1:].isalpha() else float(text)
        as_bytes(limit)
    except ValueError:
        raise ValueError(
            f"--memory-limit must be a size such as 4GB, or a number of bytes above 0, got {text!r}"
        ) from None
    return limit


def choose_weight(
    classifier: InvariantClassifier,
    X: Matrix,
    y: Labels,
    console: Console,
    max_fpr: float | None = None,
) -> float:
    """Select C on held-out folds, by the rule of `select_changes`.

    The rule takes the highest certified accuracy, for the classifier's oracle. The clean accuracy must
    be within one standard error of the best. Ties go to the higher clean accuracy, then to the smaller
    C. Certified accuracy alone would prefer a constant classifier. With a false-positive rate, detection
    rates replace both accuracies.

    The values are powers of ten from 1e-4 to 100. The number of folds is five, or the size of the
    smallest class if that is smaller.
    """
    _, counts = np.unique(y, return_counts=True)
    folds = int(min(MOST_FOLDS, counts.min()))
    if folds < 2:
        raise ValueError("--C auto requires at least two rows of every class: pass a number")
    with warnings.catch_warnings():
        # The final fit repeats these warnings, if they apply.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UninformativeFitWarning)
        oracle, scoring = classifier.oracle, None
        if max_fpr is not None:
            scoring = {
                measure: detection_scorer(max_fpr, oracle, measure=measure)
                for measure in ("clean", "certified")
            }
        search = select_changes(
            classifier, X, y, {"C": POWERS}, cv=folds, oracle=oracle, scoring=scoring
        )
    weights_report(console, search, folds, oracle, max_fpr)
    return float(search.best_params_["C"])


def train(classifier: Any, X: Any, y: Any, counts: dict[str, int]) -> tuple[dict[str, Any], bool]:
    """Fit in place; return a summary and whether Ctrl-C ended the fit."""
    watch = Stopwatch()
    interrupted = False
    try:
        classifier.fit(X, y)
    except KeyboardInterrupt:
        # An interrupted fit has a model unless Ctrl-C came before the first solution.
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
