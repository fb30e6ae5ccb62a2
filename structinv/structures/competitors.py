"""Functions of labels, and the true labels and costs of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..utils.matrices import Rows


@dataclass(frozen=True)
class LabelFunctions:
    """Function of each label: its score is ``signs[k] f(., outputs[k])``.

    - `outputs` (n_labels,): index of the function
    - `signs` (n_labels,): factor of the function; 0 for a label with the score 0
    """

    outputs: np.ndarray
    signs: np.ndarray

    @classmethod
    def one_each(cls, n_labels: int) -> LabelFunctions:
        """Return one function per label."""
        return cls(np.arange(n_labels), np.ones(n_labels))

    @property
    def n_outputs(self) -> int:
        """Number of functions."""
        return int(self.outputs.max()) + 1

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def are_one_each(self) -> bool:
        """True if label k has function k with the sign 1."""
        return bool(np.array_equal(self.outputs, np.arange(len(self))) and np.all(self.signs == 1.0))

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return the labels' scores for values of the functions, along the last axis."""
        if values.shape[-1] == len(self) and np.all(self.signs == 1.0):
            return values
        scores = np.zeros((*values.shape[:-1], len(self)), dtype=values.dtype)
        for label, (output, sign) in enumerate(zip(self.outputs, self.signs, strict=True)):
            if sign != 0:
                scores[..., label] = values[..., output] if sign == 1.0 else sign * values[..., output]
        return scores

    def sizes(self, sizes: np.ndarray) -> np.ndarray:
        """Return bounds of the labels' absolute scores from those of the functions.

        Both are along the last axis.
        """
        return sizes[..., self.outputs] * np.abs(self.signs)

    def tables(self, table: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return weights (m, d) of some labels, from (n_outputs, d) of the functions."""
        signs = self.signs[labels]
        weights = table[self.outputs[labels]]
        return weights if np.all(signs == 1.0) else weights * signs[:, None]


@dataclass(frozen=True)
class Competitors:
    """True labels c and costs D in ``G (f_k(z) - f_c(z)) + D rho(x, z)``.

    - `functions`: function and sign of each label
    - `codes` (n,): true labels c
    - `costs` (n, n_labels): cost D of each label k; 0 for the true one
    - `slack`: true for G = D, False for G = 1
    - `alone`: true if each row is an example whose loss needs only the largest sum over labels
    """

    functions: LabelFunctions
    codes: np.ndarray
    costs: np.ndarray
    slack: bool
    alone: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.functions)

    def take(self, rows: Rows) -> Competitors:
        """Return the competitors of some of the rows."""
        return replace(self, codes=self.codes[rows], costs=self.costs[rows])

    def cost_of(self, labels: np.ndarray) -> np.ndarray:
        """Return the cost of one label per row, (n,)."""
        return np.take_along_axis(self.costs, labels[:, None], axis=1)[:, 0]

    def factors(self, labels: np.ndarray) -> np.ndarray:
        """Return the factor G of one label per row; 0 for the true one."""
        return self.cost_of(labels) if self.slack else (labels != self.codes).astype(np.float64)

    def pairs(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the distinct pairs of a true label and the given label of a row.

        Returns `own, other` (n_pairs,), `assign` (n,).
        """
        n_labels = self.n_labels
        shifts = (labels - self.codes) % n_labels
        if len(labels) >= n_labels and np.all(shifts == shifts[0]):
            own = np.flatnonzero(np.bincount(self.codes, minlength=n_labels))
            assign = self.codes
            if len(own) < n_labels:
                assign = np.searchsorted(own, self.codes)
            return own, (own + shifts[0]) % n_labels, assign
        pairs, assign = np.unique(n_labels * self.codes + labels, return_inverse=True)
        own, other = np.divmod(pairs, n_labels)
        return own, other, assign

    def facing(self, table: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the weights of the given and the true label of each pair.

        Shapes: `table` (n_outputs, d), `labels` (n,); returns `theirs, own` (n_pairs, d), `assign` (n,).
        """
        own, other, assign = self.pairs(labels)
        return self.functions.tables(table, other), self.functions.tables(table, own), assign

    def gain_of(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return ``G (f_k - f_c)`` of one label per row, from values (n, n_outputs)."""
        every, outputs, signs = np.arange(len(self)), self.functions.outputs, self.functions.signs
        theirs, true_scores = (
            scores[every, outputs[each]] * signs[each] for each in (labels, self.codes)
        )
        return self.factors(labels) * (theirs - true_scores)

    def normals(self, labels: np.ndarray) -> np.ndarray:
        """Return the factors of each row in the normal of its plane, (n, n_outputs)."""
        factors = self.factors(labels)
        outputs, signs = self.functions.outputs, self.functions.signs
        if self.functions.n_outputs == 1:
            return (factors * (signs[self.codes] - signs[labels]))[:, None]
        coefficients = np.zeros((len(self), self.functions.n_outputs))
        every = np.arange(len(self))
        coefficients[every, outputs[self.codes]] += factors * signs[self.codes]
        coefficients[every, outputs[labels]] -= factors * signs[labels]
        return coefficients
