"""Answers of structures: labelings that score highest, or that violate margins most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Decoding:
    """The labeling of each example that scores highest.

    Parameters
    ----------
    labels : (n_rows,) array of int
        A label for each row.
    upper : (n_blocks,) array, optional
        A bound on the highest score of each example; None where `labels` reach it.
    levels : (n_rows,) array of int, optional
        Which level of its potentials each row uses, where they have a third axis of levels.
    shares : (n_rows, n_labels) array, optional
        Of relaxed inference: how much of each label a row has, of more than `labels` reach.
    features : (n_blocks, n_pairwise) array or CSR matrix, optional
        What multiplies the pairwise weights where labels have these shares.
    """

    labels: np.ndarray
    upper: np.ndarray | None = None
    levels: np.ndarray | None = None
    shares: np.ndarray | None = None
    features: Any = None


@dataclass(frozen=True)
class Separation:
    """The labeling of each block that violates its margin most.

    Parameters
    ----------
    labels : (n_rows,) array of int
        A label for each row; all of them true where nothing violates a margin.
    upper : (n_blocks,) array
        Bound on the block's loss, the maximum over all labelings and changes.
    scale : (n_blocks,) array, optional
        Factor of what labels win (slack rescaling of whole labelings); 1 by default.
    levels : (n_rows,) array of int, optional
        Which level each row uses, where `found` has a third axis of levels.
    shares, features : optional
        Of relaxed inference, as in `Decoding`; they take the place of `labels`.
    """

    labels: np.ndarray
    upper: np.ndarray
    scale: np.ndarray | None = None
    levels: np.ndarray | None = None
    shares: np.ndarray | None = None
    features: Any = None
