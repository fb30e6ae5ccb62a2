"""Structures of third-party classes: each answer is validated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..utils import plugins
from ..utils.matrices import Matrix
from .competitors import Competitors, LabelFunctions
from .decodings import Decoding, Layout

if TYPE_CHECKING:
    from .base import Structure


def checked(structure: Structure) -> Structure:
    """Return the structure; the answers of a third-party class are validated."""
    found: Any = _ThirdPartyStructure(structure) if plugins.is_third_party(structure) else structure
    return found


class _ThirdPartyStructure:
    """Methods of `Structure` whose answers are validated.

    Errors name the class and the method, with the required and the actual value.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure

    def _ask(self, name: str, *arguments: Any) -> tuple[str, Any]:
        """Call a method; return its name for messages and its result."""
        return plugins.method(self.structure, name), getattr(self.structure, name)(*arguments)

    def functions(self, n_labels: int) -> LabelFunctions:
        source, found = self._ask("functions", n_labels)
        if not isinstance(found, LabelFunctions):
            raise TypeError(f"{source} must return LabelFunctions, got {type(found).__name__}")
        outputs = plugins.integers(source, "outputs", found.outputs, (n_labels,), n_labels)
        return LabelFunctions(outputs, plugins.numbers(source, "signs", found.signs, (n_labels,)))

    def n_pairwise(self, n_labels: int) -> int:
        source, found = self._ask("n_pairwise", n_labels)
        return int(plugins.number(source, "n_pairwise", found, least=0))

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> Matrix:
        source, found = self._ask("features", labels, layout, n_labels)
        return _features(source, found, (len(layout), self.n_pairwise(n_labels)))

    def pairwise_score(
        self, labels: np.ndarray, pairwise: np.ndarray, layout: Layout, n_labels: int
    ) -> np.ndarray:
        source, found = self._ask("pairwise_score", labels, pairwise, layout, n_labels)
        return plugins.numbers(source, "pairwise_score", found, (len(layout),))

    def allows(self, labels: np.ndarray, layout: Layout, n_labels: int) -> np.ndarray:
        source, found = self._ask("allows", labels, layout, n_labels)
        return plugins.numbers(source, "allows", np.asarray(found, np.float64), (len(layout),)) > 0

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        source, found = self._ask("decode", potentials, pairwise, layout)
        return _decoding(source, found, potentials.shape, layout, len(pairwise))

    def separate(
        self, competitors: Competitors, violations: Any, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        source, found = self._ask("separate", competitors, violations, pairwise, layout)
        decoding = _decoding(source, found, np.shape(violations.gains), layout, len(pairwise))
        plugins.numbers(source, "upper", decoding.upper, (len(layout),), finite=False)
        if np.any(decoding.upper == -np.inf):
            raise ValueError(f"{source} must return upper above -infinity")
        return decoding

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        source, found = self._ask("runner_up", potentials, codes, pairwise, layout)
        return _decoding(source, found, potentials.shape, layout, len(pairwise))

    def most_wrong(
        self,
        potentials: np.ndarray,
        codes: np.ndarray,
        thresholds: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
    ) -> np.ndarray:
        source, found = self._ask("most_wrong", potentials, codes, thresholds, pairwise, layout)
        return plugins.integers(source, "counts", found, (len(layout),), int(layout.lengths.max()) + 1)

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray | None:
        source, found = self._ask("best_by_wrong", potentials, codes, pairwise, layout)
        if found is None:
            return None
        shape = (len(layout), int(layout.lengths.max()) + 1)
        return plugins.numbers(source, "scores", found, shape, finite=False)


def _decoding(
    source: str, found: Any, shape: tuple[int, ...], layout: Layout, n_pairwise: int
) -> Decoding:
    """Return a validated decoding of potentials of a shape."""
    if not isinstance(found, Decoding):
        raise TypeError(f"{source} must return a Decoding, got {type(found).__name__}")
    labels = plugins.integers(source, "labels", found.labels, shape[:1], shape[1])
    upper, scale, fractions, features = found.upper, found.scale, found.fractions, None
    if upper is not None:
        upper = plugins.numbers(source, "upper", upper, (len(layout),), finite=False)
    levels = _levels(source, found.levels, shape, layout)
    if scale is not None:
        scale = plugins.numbers(source, "scale", scale, (len(layout),))
    if fractions is not None:
        fractions = plugins.numbers(source, "fractions", fractions, shape[:2])
        if np.any(fractions < 0) or np.any(np.abs(fractions.sum(axis=1) - 1.0) > 1e-9):
            raise ValueError(
                f"{source} must return fractions of at least 0 that add up to 1 in each row"
            )
        features = _features(source, found.features, (len(layout), n_pairwise))
    return Decoding(labels, upper, levels, fractions, features, scale)


def _levels(source: str, levels: Any, shape: tuple[int, ...], layout: Layout) -> np.ndarray | None:
    """Return the validated level of each row, or None without an axis of levels."""
    if len(shape) == 2:
        return None
    found = plugins.integers(source, "levels", levels, shape[:1], shape[2])
    used = layout.sums(found)
    if np.any(used >= shape[2]):
        raise ValueError(
            f"{source} must return levels (numbers of edits) that add up to at most {shape[2] - 1} in "
            f"each example, got {used.max()}"
        )
    return found


def _features(source: str, found: Any, shape: tuple[int, int]) -> Matrix:
    if not (sp.issparse(found) and found.shape == shape and found.format == "csr"):
        return plugins.numbers(source, "features", found, shape)
    plugins.places(source, "features", found)
    # The sum converts truth values, which are valid features.
    plugins.numbers(source, "features", found.data + 0.0, found.data.shape)
    return found
