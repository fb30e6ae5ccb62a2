"""Results of inference: best labelings and the loss-augmented argmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Decoding:
    """Highest-scoring labeling of each example, returned by `Structure.decode`.

    Parameters
    ----------
    labels : ndarray of int of shape (n_rows,)
        Label of each row.
    upper : ndarray of shape (n_blocks,), optional
        Upper bound of the highest score of each example. None means that `labels` have the highest
        score.
    levels : ndarray of int of shape (n_rows,), optional
        Level of each row, if the potentials have a third axis of levels.
    fractions : ndarray of shape (n_rows, n_labels), optional
        Fraction of each label at each row, from relaxed inference. The score of the fractional labeling
        is at least that of `labels`.
    features : ndarray or CSR matrix of shape (n_blocks, n_pairwise), optional
        Features of the fractional labelings, as in `Structure.features`.

    See Also
    --------
    Structure : Base class whose `Structure.decode` returns this record.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Decoding
    >>> Decoding(np.array([0, 1])).labels
    array([0, 1])
    """

    labels: np.ndarray
    upper: np.ndarray | None = None
    levels: np.ndarray | None = None
    fractions: np.ndarray | None = None
    features: Any = None


@dataclass(frozen=True)
class Separation:
    """Loss-augmented argmax of each block, returned by `Structure.separate`.

    - `labels` (n_rows,): label of each row
    - `upper` (n_blocks,): upper bound of the block's loss, a maximum over all labelings and
      perturbations
    - `scale` (n_blocks,): factor of the score difference, for slack rescaling of whole labelings; 1 by
      default
    - `levels` (n_rows,): level of each row, if the worst-case scores have a third axis of levels
    - `fractions` (n_rows, n_labels): fraction of each label at each row, as in `Decoding`; replaces
      `labels`
    - `features` (n_blocks, n_pairwise): features of the fractional labeling, as in `Decoding`
    """

    labels: np.ndarray
    upper: np.ndarray
    scale: np.ndarray | None = None
    levels: np.ndarray | None = None
    fractions: np.ndarray | None = None
    features: Any = None
