"""Calls of structures with validation of the results of third-party classes.

Each function calls one method. Results of classes of this package are returned unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..utils import plugins
from ..utils.matrices import Matrix
from .decodings import Competitors, Decoding, LabelFunctions, Separation
from .layout import Layout

if TYPE_CHECKING:
    from .base import Structure


def decoded(
    structure: Structure, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> Decoding:
    """Call ``structure.decode(potentials, pairwise, layout)``.

    Infinite potentials stand for unknown bounds. The structure receives finite potentials instead, and
    `upper` is infinite for such examples.
    """
    finite, unbounded = without_infinities(potentials, layout)
    decoding = structure.decode(finite, pairwise, layout)
    if plugins.is_third_party(structure):
        decoding = _decoding(structure, "decode", decoding, potentials.shape, layout, len(pairwise))
    if unbounded is None:
        return decoding
    upper = decoding.upper
    if upper is None:
        upper = structure.score(finite, decoding.labels, pairwise, layout, decoding.levels)
    return replace(decoding, upper=np.where(unbounded, np.inf, upper))


def separated(
    structure: Structure, competitors: Competitors, violations: Any, pairwise: np.ndarray, layout: Layout
) -> Separation:
    """Call ``structure.separate(competitors, found, pairwise, layout)``."""
    separation = structure.separate(competitors, violations, pairwise, layout)
    if not plugins.is_third_party(structure):
        return separation
    source = plugins.method(structure, "separate")
    if not isinstance(separation, Separation):
        raise TypeError(f"{source} must return a Separation, got {type(separation).__name__}")
    shape, blocks = np.shape(violations.gains), (len(layout),)
    labels = plugins.integers(source, "labels", separation.labels, shape[:1], shape[1])
    upper = plugins.numbers(source, "upper", separation.upper, blocks, finite=False)
    if np.any(upper == -np.inf):
        raise ValueError(f"{source} must return upper above -infinity")
    scale = separation.scale
    if scale is not None:
        scale = plugins.numbers(source, "scale", scale, blocks)
    levels = _levels(source, separation.levels, shape, layout)
    fractions = _fractions(source, separation, shape[:2], (len(layout), len(pairwise)))
    return Separation(labels, upper, scale, levels, *fractions)


def runner_up(
    structure: Structure, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> Decoding:
    """Call ``structure.runner_up(...)`` and always return a bound, as in `decoded`."""
    finite, unbounded = without_infinities(potentials, layout)
    decoding = structure.runner_up(finite, codes, pairwise, layout)
    if plugins.is_third_party(structure):
        decoding = _decoding(structure, "runner_up", decoding, potentials.shape, layout, len(pairwise))
    upper = decoding.upper
    if upper is None:
        upper = structure.score(finite, decoding.labels, pairwise, layout, decoding.levels)
    if unbounded is not None:
        # Minus infinity means that no other labeling exists.
        upper = np.where(unbounded & (upper > -np.inf), np.inf, upper)
    return Decoding(decoding.labels, upper, decoding.levels)


def best_by_wrong(
    structure: Structure, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> np.ndarray | None:
    """Call ``structure.best_by_wrong(potentials, codes, pairwise, layout)``."""
    found = structure.best_by_wrong(potentials, codes, pairwise, layout)
    if found is None or not plugins.is_third_party(structure):
        return found
    source = plugins.method(structure, "best_by_wrong")
    shape = (len(layout), int(layout.lengths.max()) + 1)
    return plugins.numbers(source, "scores", found, shape, finite=False)


def most_wrong(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    thresholds: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """Call ``structure.most_wrong(potentials, codes, thresholds, pairwise, layout)``."""
    found = structure.most_wrong(potentials, codes, thresholds, pairwise, layout)
    if not plugins.is_third_party(structure):
        return found
    source, most = plugins.method(structure, "most_wrong"), int(layout.lengths.max()) + 1
    return plugins.integers(source, "counts", found, (len(layout),), most)


def allowed(structure: Structure, labels: np.ndarray, layout: Layout, n_labels: int) -> np.ndarray:
    """Call ``structure.allows(labels, layout, n_labels)``."""
    is_allowed: Any = structure.allows(labels, layout, n_labels)
    if not plugins.is_third_party(structure):
        return is_allowed
    source = plugins.method(structure, "allows")
    return plugins.numbers(source, "allows", np.asarray(is_allowed, np.float64), (len(layout),)) > 0


def n_pairwise(structure: Structure, n_labels: int) -> int:
    """Call ``structure.n_pairwise(n_labels)``."""
    number: Any = structure.n_pairwise(n_labels)
    if not plugins.is_third_party(structure):
        return number
    return int(plugins.number(plugins.method(structure, "n_pairwise"), "n_pairwise", number, least=0))


def functions(structure: Structure, n_labels: int) -> LabelFunctions:
    """Call ``structure.functions(n_labels)``."""
    by_label = structure.functions(n_labels)
    if not plugins.is_third_party(structure):
        return by_label
    source = plugins.method(structure, "functions")
    if not isinstance(by_label, LabelFunctions):
        raise TypeError(f"{source} must return LabelFunctions, got {type(by_label).__name__}")
    outputs = plugins.integers(source, "outputs", by_label.outputs, (n_labels,), n_labels)
    return LabelFunctions(outputs, plugins.numbers(source, "signs", by_label.signs, (n_labels,)))


def features(
    structure: Structure, labels: np.ndarray, layout: Layout, n_labels: int, size: int
) -> Matrix:
    """Call ``structure.features(labels, layout, n_labels)`` for `size` features."""
    result = structure.features(labels, layout, n_labels)
    if not plugins.is_third_party(structure):
        return result
    return _features(plugins.method(structure, "features"), result, (len(layout), size))


def pairwise_score(
    structure: Structure, labels: np.ndarray, pairwise: np.ndarray, layout: Layout, n_labels: int
) -> np.ndarray:
    """Call ``structure.pairwise_score(labels, pairwise, layout, n_labels)``."""
    scores = structure.pairwise_score(labels, pairwise, layout, n_labels)
    if not plugins.is_third_party(structure):
        return scores
    return plugins.numbers(
        plugins.method(structure, "pairwise_score"), "pairwise_score", scores, (len(layout),)
    )


def without_infinities(potentials: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray | None]:
    """Replace infinite potentials by 0, and mark the examples that had any.

    The second return value has shape (n_blocks,) and dtype bool. It is omitted (None) if all potentials
    are below infinity.
    """
    if np.max(potentials, initial=-np.inf) != np.inf:
        return potentials, None
    known = potentials < np.inf
    rows = ~np.all(known.reshape(len(known), -1), axis=1)
    return np.where(known, potentials, 0.0), layout.sums(rows.astype(np.int64)) > 0


def _decoding(
    structure: Structure,
    name: str,
    decoding: Any,
    shape: tuple[int, ...],
    layout: Layout,
    n_pairwise: int,
) -> Decoding:
    source = plugins.method(structure, name)
    if not isinstance(decoding, Decoding):
        raise TypeError(f"{source} must return a Decoding, got {type(decoding).__name__}")
    labels = plugins.integers(source, "labels", decoding.labels, shape[:1], shape[1])
    upper = decoding.upper
    if upper is not None:
        upper = plugins.numbers(source, "upper", upper, (len(layout),), finite=False)
    levels = _levels(source, decoding.levels, shape, layout)
    return Decoding(
        labels, upper, levels, *_fractions(source, decoding, shape, (len(layout), n_pairwise))
    )


def _levels(source: str, levels: Any, shape: tuple[int, ...], layout: Layout) -> np.ndarray | None:
    """Return the validated level of each row, or None without an axis of levels."""
    if len(shape) == 2:
        return None
    checked = plugins.integers(source, "levels", levels, shape[:1], shape[2])
    used = layout.sums(checked)
    if np.any(used >= shape[2]):
        raise ValueError(
            f"{source} must return levels (numbers of edits) that add up to at most {shape[2] - 1} in "
            f"each example, got {used.max()}"
        )
    return checked


def _fractions(
    source: str, result: Any, shape: tuple[int, ...], of_features: tuple[int, int]
) -> tuple[Any, Any]:
    """Return the validated fractions and features, or (None, None)."""
    if result.fractions is None:
        return None, None
    fractions = plugins.numbers(source, "fractions", result.fractions, shape)
    if np.any(fractions < 0) or np.any(np.abs(fractions.sum(axis=1) - 1.0) > 1e-9):
        raise ValueError(f"{source} must return fractions of at least 0 that add up to 1 in each row")
    return fractions, _features(source, result.features, of_features)


def _features(source: str, found: Any, shape: tuple[int, int]) -> Matrix:
    if sp.issparse(found) and found.shape == shape and found.format == "csr":
        plugins.places(source, "features", found)
        return found
    return plugins.numbers(source, "features", found, shape)
