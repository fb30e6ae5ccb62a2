"""Search for points that `contains` accepts although they exceed upper bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

# Maximum numbers of calls of `contains` and of random candidates, per row and kind.
CALLS_PER_KIND = 12
CANDIDATES_PER_KIND = 48
BISECTIONS = 10
LINES = 4
# Tolerance relative to the sizes of row and point, because `contains` is inexact.
SLACK = 1e-5


class Witnesses:
    """Candidates for members of S(x) of one row that exceed an upper bound.

    They are made from known answers: longer, summed, reversed and mixed perturbations, corners of the
    bounding box, perturbations of other rows, and points on lines. `contains` is called only for
    candidates above an upper bound, so rarely for a correct oracle.

    Shapes: `x` (n_features,), `answers` (n_directions, n_features), `others` (m, n_features), `V`
    (n_directions, n_features), `upper` (n_directions,).
    """

    def __init__(
        self,
        x: np.ndarray,
        answers: np.ndarray,
        others: np.ndarray,
        V: np.ndarray,
        upper: np.ndarray,
        contains: Callable[[np.ndarray], bool],
        rng: np.random.Generator,
    ) -> None:
        self.x = x
        self.moves = answers - x
        self.others = others
        self.V = V
        self.upper = upper
        self.contains = contains
        self.rng = rng
        # Largest perturbations of each feature in both directions, and of any feature.
        self.high = np.maximum(self.moves.max(axis=0), 0.0)
        self.low = np.minimum(self.moves.min(axis=0), 0.0)
        self.reach = float(np.max(np.abs(self.moves), initial=0.0)) or 1.0 + float(np.max(np.abs(x)))

    def find(self) -> tuple[str, int] | None:
        """Return kind and direction of an accepted point that exceeds `upper`; or None."""
        for kind, make in self._kinds():
            found = self._exceeding(self.x + make)
            for z, direction in found[:CALLS_PER_KIND]:
                if self.contains(z):
                    return kind, direction
        return self._on_lines()

    def _exceeding(self, points: np.ndarray) -> list[tuple[np.ndarray, int]]:
        """Return points that exceed an upper bound, in random order, with the direction."""
        excess = points @ self.V.T - self.upper
        size = np.maximum(np.abs(points).max(axis=1, initial=0.0), np.abs(self.x).max(initial=0.0))
        excess -= SLACK * np.outer(size, np.abs(self.V).sum(axis=1)) + 1e-300
        best = np.argmax(excess, axis=1)
        chosen = np.flatnonzero(excess[np.arange(len(points)), best] > 0)
        return [(points[k], int(best[k])) for k in self.rng.permutation(chosen)]

    def _kinds(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the name and the perturbations (m, d) of each kind."""
        rng, changes, V = self.rng, self.moves, self.V
        yield (
            "a corner of the bounding box of all answers",
            np.where(V > 0, self.high, self.low) * (V != 0),
        )
        yield "a corner of the smallest cube around all answers", self.reach * np.sign(V)
        signs = rng.choice([-1.0, 1.0], (CANDIDATES_PER_KIND, len(self.x)))
        yield (
            "a random corner of the bounding box of all answers",
            np.where(signs > 0, self.high, self.low),
        )
        yield (
            "a longer perturbation",
            np.concatenate([factor * changes for factor in (1.01, 1.5, 2.0, 5.0)]),
        )
        yield "a reversed perturbation", -changes
        first, second = rng.integers(len(changes), size=(2, CANDIDATES_PER_KIND))
        yield "the sum of two perturbations", changes[first] + changes[second]
        mixed = rng.random((CANDIDATES_PER_KIND, len(self.x))) < 0.5
        yield "a mixture of two perturbations", np.where(mixed, changes[first], changes[second])
        shuffled = rng.permuted(changes[first], axis=1)
        yield "a perturbation with permuted features", shuffled
        if len(self.others):
            yield "a perturbation of another row", self.others[rng.integers(len(self.others), size=100)]
        yield "an answer with a larger change of one feature", self._pushed(first)
        yield "an answer that changes another feature instead", self._swapped(first)

    def _steps(self, chosen: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the change of one feature of each chosen answer, mostly along its direction."""
        kinds = self.rng.integers(5, size=len(chosen))
        up = self.V[chosen, features] > 0
        seen = np.where(up, self.high[features], self.low[features])
        far = np.where(up, self.reach, -self.reach)
        values = self.x[features]
        return np.choose(kinds, [seen, far, -values, values, 0.1 * far])

    def _pushed(self, chosen: np.ndarray) -> np.ndarray:
        pushed = self.moves[chosen].copy()
        features = self.rng.integers(len(self.x), size=len(chosen))
        pushed[np.arange(len(chosen)), features] += self._steps(chosen, features)
        return pushed

    def _swapped(self, chosen: np.ndarray) -> np.ndarray:
        swapped = self.moves[chosen].copy()
        for change in swapped:
            changed = np.flatnonzero(change)
            if len(changed):
                change[self.rng.choice(changed)] = 0.0
        features = self.rng.integers(len(self.x), size=len(chosen))
        swapped[np.arange(len(chosen)), features] = self._steps(chosen, features)
        return swapped

    def _on_lines(self) -> tuple[str, int] | None:
        """Return the last accepted point on a line that exceeds an upper bound; or None."""
        finite = np.flatnonzero(np.isfinite(self.upper) & np.any(self.V != 0, axis=1))
        if len(finite) == 0:
            return None
        chosen = self.rng.choice(finite, LINES)
        random = self.rng.standard_normal((LINES, len(self.x)))
        for line in np.vstack([self.V[chosen], np.sign(self.V[chosen]), random]):
            z = self._border(line / np.max(np.abs(line)))
            for _, direction in self._exceeding(z[None, :]):
                return "the last accepted point on a line from the row", direction
        return None

    def _border(self, line: np.ndarray) -> np.ndarray:
        """Return a point near the end of the accepted part of a line, by bisection."""
        inside, outside = 0.0, 2.0 * self.reach
        if not self._exceeding((self.x + outside * line)[None, :]):
            return self.x
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            if self.contains(self.x + middle * line):
                inside = middle
            else:
                outside = middle
        return self.x + inside * line
