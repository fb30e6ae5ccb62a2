"""What is predicted: how labels become directions, and how a worst label is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..matrices import Matrix, Rows


@dataclass(frozen=True)
class Choice:
    """The most violated output of each block.

    Parameters
    ----------
    alternative : (n_rows,) array of int
        The alternative that each row of the blocks contributes with; -1 for none.
    offsets : (n_blocks,) array
        Offset of the plane: what the choice costs when the function is zero.
    upper : (n_blocks,) array
        Bound on the block's loss, the maximum over all outputs.
    scale : (n_blocks,) array, optional
        Factor of the normal (slack rescaling of a structured output); 1 by default.
    extra : (n_blocks, n_extra) array or CSR matrix, optional
        The normal's part on parameters that no input multiplies.
    """

    alternative: np.ndarray
    offsets: np.ndarray
    upper: np.ndarray
    scale: np.ndarray | None = None
    extra: Matrix | None = None


class EncodedOutput(ABC):
    """An output bound to true labels.

    A row with code c (its true label) that is given alternative a faces the direction
    ``sum_k directions[a, c, k] f(., k)``: by how much the alternative beats the truth.

    Attributes
    ----------
    classes : (n_classes,) array
        The labels, sorted.
    codes : (n_rows,) array of int
        Index of each row's true label in `classes`.
    directions : (n_alternatives, n_classes, n_outputs) array
        Rescaled for the loss; a zero row marks an alternative that cannot compete.
    margin_directions : (n_alternatives, n_classes, n_outputs) array
        The same before rescaling; margins of certificates use these.
    rewards : (n_alternatives, n_classes) array
        Cost D of an alternative, not yet graded by the size of the change.
    groups : (n_blocks + 1,) array of int, or None
        Rows of one structured example, as boundaries; by default each row is an example.
    n_extra : int
        Number of parameters that no input multiplies.
    rowwise : bool
        Whether every example is one row, and its loss the largest over the alternatives.
    """

    classes: np.ndarray
    codes: np.ndarray
    directions: np.ndarray
    margin_directions: np.ndarray
    rewards: np.ndarray
    groups: np.ndarray | None = None
    n_extra: int = 0
    rowwise: bool = False

    @property
    def n_outputs(self) -> int:
        """How many functions ``f(., k)`` are learnt."""
        return self.directions.shape[2]

    @property
    def n_blocks(self) -> int:
        """How many examples there are."""
        return len(self.codes) if self.groups is None else len(self.groups) - 1

    def rows(self, blocks: Rows) -> tuple[Rows, np.ndarray | None]:
        """The rows of the blocks named, and their boundaries if examples have several rows."""
        if self.groups is None:
            return blocks, None
        if isinstance(blocks, slice):
            blocks = np.arange(self.n_blocks)[blocks]
        sizes = self.groups[blocks + 1] - self.groups[blocks]
        boundaries = np.r_[0, np.cumsum(sizes)]
        first = np.repeat(self.groups[blocks] - boundaries[:-1], sizes)
        return first + np.arange(boundaries[-1]), boundaries

    @abstractmethod
    def choose(
        self,
        blocks: Rows,
        gains: np.ndarray,
        rewards: np.ndarray,
        upper: np.ndarray,
        extra: np.ndarray,
    ) -> Choice:
        """The most violated output, given what each alternative reaches.

        Parameters
        ----------
        blocks : slice or (b,) array of int
        gains : (n_rows, n_alternatives) array
            ``<direction, point>`` of the oracle's answer, the constant included.
        rewards : (n_rows, n_alternatives) array
            Cost of the alternative times the grade of the point.
        upper : (n_rows, n_alternatives) array
            Bound on the best ``gain + reward``.
        extra : (n_extra,) array
            The parameters that no input multiplies.
        """


class Output(BaseEstimator, ABC):
    """A kind of prediction; parameters only, bound to labels by `encode`."""

    @abstractmethod
    def encode(self, y: np.ndarray, classes: np.ndarray | None = None) -> EncodedOutput:
        """Bind to true labels; `classes` fixes the labels when `y` need not show all of them."""

    @abstractmethod
    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Index of the predicted label from the scores ``f(x, k)``, (n, n_outputs)."""


class RowOutput(EncodedOutput):
    """An output whose examples are single rows: the best alternative, or none, wins."""

    rowwise = True

    def choose(
        self,
        blocks: Rows,
        gains: np.ndarray,
        rewards: np.ndarray,
        upper: np.ndarray,
        extra: np.ndarray,
    ) -> Choice:
        """See `EncodedOutput.choose`."""
        reached = gains + rewards
        every = np.arange(len(reached))
        best = np.argmax(reached, axis=1)
        competes = reached[every, best] > 0
        return Choice(
            alternative=np.where(competes, best, -1),
            offsets=np.where(competes, rewards[every, best], 0.0),
            upper=np.maximum(0.0, np.max(upper, axis=1)),
        )


def encode_labels(y: np.ndarray, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Sorted labels and each row's index among them; a label that is not among them is an error."""
    if classes is None:
        return np.unique(y, return_inverse=True)
    codes = np.searchsorted(classes, y)
    known = np.asarray(classes)[np.minimum(codes, len(classes) - 1)] == y
    if not np.all(known):
        unknown = np.unique(np.asarray(y)[~known]).tolist()
        raise ValueError(f"y holds labels that are not among the classes: {unknown}")
    return np.asarray(classes), codes


def check_cost(cost: ArrayLike | None, n_classes: int) -> np.ndarray:
    """A cost matrix of the right shape with zero diagonal, or a ValueError that says what is wrong."""
    if cost is None:
        return 1.0 - np.eye(n_classes)
    try:
        table = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"cost must be a matrix of numbers, got {cost!r}") from None
    if table.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost must have shape ({n_classes}, {n_classes}), one row and column a class, "
            f"got {table.shape}"
        )
    if not np.all(np.isfinite(table)) or np.any(table < 0):
        raise ValueError("cost must hold finite non-negative numbers")
    if np.any(np.diag(table) != 0):
        raise ValueError("cost must have a zero diagonal: a right prediction costs nothing")
    return table


def check_rescaling(rescaling: str) -> None:
    """Raise ValueError unless the name of a rescaling is known."""
    if rescaling not in ("margin", "slack"):
        raise ValueError(f"rescaling must be 'margin' or 'slack', got {rescaling!r}")
