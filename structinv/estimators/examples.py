"""What machines share that read objects, or several rows each, with all that is true of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..oracles import InvarianceOracle
from .truth import Truth

# Planes that an example comes to have.
PLANES_OF_AN_EXAMPLE = 10


class ReadsExamples:
    """A machine that reads examples and their truth together, in a `_read` and a `_memory` of its own.

    Nobody asks it what is true of single rows.
    """

    def _some(self, y: Any, n_examples: int) -> np.ndarray:
        """Any examples are as good as others to tell seconds from."""
        return np.arange(n_examples)

    def _truth(self, X: Any, y: Any, oracle: InvarianceOracle, sample_weight: Any) -> Truth:
        raise NotImplementedError("the truth of examples is read together with them")

    def _told(self, X: Any, y: Any) -> tuple[np.ndarray | None, int, int]:
        raise NotImplementedError("the truth of examples is read together with them")
