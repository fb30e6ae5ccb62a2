"""Every label as a competitor of the true one: what worst cases are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..utils.matrices import Rows


@dataclass(frozen=True)
class LabelFunctions:
    """Which function scores a label: ``signs[k] f(., outputs[k])``; none where the sign is 0.

    Parameters
    ----------
    outputs : (n_labels,) array of int
    signs : (n_labels,) array
    """

    outputs: np.ndarray
    signs: np.ndarray

    @classmethod
    def one_each(cls, n_labels: int) -> LabelFunctions:
        """A function for every label."""
        return cls(np.arange(n_labels), np.ones(n_labels))

    @property
    def n_outputs(self) -> int:
        """How many functions there are."""
        return int(self.outputs.max()) + 1

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def are_one_each(self) -> bool:
        """Whether every label has a function, in their order."""
        return bool(np.array_equal(self.outputs, np.arange(len(self))) and np.all(self.signs == 1.0))

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Each label's score from what the functions are, of ``(..., n_outputs)`` numbers."""
        if values.shape[-1] == len(self) and np.all(self.signs == 1.0):
            return values
        scores = np.zeros((*values.shape[:-1], len(self)), dtype=values.dtype)
        for label, (output, sign) in enumerate(zip(self.outputs, self.signs, strict=True)):
            if sign != 0:
                scores[..., label] = values[..., output] if sign == 1.0 else sign * values[..., output]
        return scores

    def sizes(self, sizes: np.ndarray) -> np.ndarray:
        """Bounds of the sizes of the labels' scores from those of the functions, along the last axis."""
        return sizes[..., self.outputs] * np.abs(self.signs)

    def tables(self, table: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Weights of some labels from the functions', (n_outputs, d) to (m, d)."""
        signs = self.signs[labels]
        found = table[self.outputs[labels]]
        return found if np.all(signs == 1.0) else found * signs[:, None]


@dataclass(frozen=True)
class Competitors:
    """All labels against the true ones of some rows: ``G (f_k(z) - f_c(z)) + D rho(x, z)``.

    Parameters
    ----------
    functions : LabelFunctions
    codes : (n,) array of int
        The true labels c.
    costs : (n, n_labels) array
        The cost D of each label k; 0 for the true one.
    slack : bool
        Whether G = D; else G = 1.
    alone : bool, default=False
        Whether each row is an example of its own, of whose labels the largest sum counts alone.
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
        """How many labels there are."""
        return len(self.functions)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
        """Codes, outputs, signs, costs and slack, as compiled functions take them."""
        return self.codes, self.functions.outputs, self.functions.signs, self.costs, self.slack

    def take(self, rows: Rows) -> Competitors:
        """Of some of the rows."""
        return replace(self, codes=self.codes[rows], costs=self.costs[rows])

    def cost_of(self, labels: np.ndarray) -> np.ndarray:
        """The cost of a label for each row, (n,)."""
        return np.take_along_axis(self.costs, labels[:, None], axis=1)[:, 0]

    def factors(self, labels: np.ndarray) -> np.ndarray:
        """The factor G of a label for each row; 0 for the true one."""
        return self.cost_of(labels) if self.slack else (labels != self.codes).astype(np.float64)

    def pairs(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs of a true label and another one that rows face with a label for each.

        Returns
        -------
        own, other : (p,) arrays of int
            The true label and the other one of each pair.
        assign : (n,) array of int
            Which pair each row faces.
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
        """What rows face with a label for each: weights of the labels and of the true ones, by pair.

        Parameters
        ----------
        table : (n_outputs, d) array
            Weights of the functions.
        labels : (n,) array of int

        Returns
        -------
        theirs, own : (p, d) arrays
            Of each of the `pairs`.
        assign : (n,) array of int
        """
        own, other, assign = self.pairs(labels)
        return self.functions.tables(table, other), self.functions.tables(table, own), assign

    def lead(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """``G (f_k - f_c)`` of a label for each row, from the functions' values (n, n_outputs)."""
        every, outputs, signs = np.arange(len(self)), self.functions.outputs, self.functions.signs
        theirs, own = (scores[every, outputs[each]] * signs[each] for each in (labels, self.codes))
        return self.factors(labels) * (theirs - own)

    def normals(self, labels: np.ndarray) -> np.ndarray:
        """What a row's point is multiplied with in its plane's normal, (n, n_outputs)."""
        factors = self.factors(labels)
        outputs, signs = self.functions.outputs, self.functions.signs
        if self.functions.n_outputs == 1:
            return (factors * (signs[self.codes] - signs[labels]))[:, None]
        coefficients = np.zeros((len(self), self.functions.n_outputs))
        every = np.arange(len(self))
        coefficients[every, outputs[self.codes]] += factors * signs[self.codes]
        coefficients[every, outputs[labels]] -= factors * signs[labels]
        return coefficients

    def labels_of(self, coefficients: np.ndarray) -> np.ndarray:
        """For which label of its row `normals` would give these coefficients, -1 for none, (n,)."""
        found = np.full(len(self), -1)
        sizes = np.abs(coefficients).sum(axis=1)
        every, outputs, signs = np.arange(len(self)), self.functions.outputs, self.functions.signs
        own = outputs[self.codes]
        for label in range(self.n_labels - 1, -1, -1):
            labels = np.full(len(self), label)
            factors, other = self.factors(labels), outputs[label]
            down, up = factors * signs[label], factors * signs[self.codes]
            same = own == other
            at_other = np.where(same, up - down, -down)
            fits = (coefficients[:, other] == at_other) & (self.codes != label)
            fits &= same | (coefficients[every, own] == up)
            fits &= sizes == np.abs(at_other) + np.where(same, 0.0, np.abs(up))
            found[fits] = label
        return found
