"""What a fit is told of its rows: labels or targets, and how much each of them counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..structures import Structure


@dataclass(frozen=True)
class Truth:
    """What is true of rows, as `WorstCase` takes it, and what is learnt from that alone.

    Parameters
    ----------
    y : (n,) array
        Labels or targets.
    structure : Structure
    weights : (n,) array
        Of the rows, C included.
    costs : dict
        What labels cost, and which rows belong together.
    learnt : dict
        Attributes of the fitted estimator.
    told : object
        What was given as `y`, so that a later fit knows whether it is about the same.
    """

    y: np.ndarray
    structure: Structure
    weights: np.ndarray
    costs: dict[str, Any]
    learnt: dict[str, Any]
    told: Any
