"""Points that an oracle's own `contains` admits, looked for where they would beat its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

# Points of a kind that `contains` is asked about, for each row.
ASKED_OF_A_KIND = 12
DRAWN_OF_A_KIND = 48
BISECTIONS = 10
LINES = 4
# Relative to the size of row and point: `contains` answers up to rounding, some by iterations.
SLACK = 1e-5


class Witnesses:
    """Candidates for members of one row's S(x) that go further along a direction than `upper` says.

    They are made from the answers seen: moves made longer, put together, turned round, given to other
    features or taken from other rows, corners of the box that the moves span, and points on lines.
    Only those that would beat an `upper` are asked about, so that a sound oracle is asked for little.

    Parameters
    ----------
    x : (d,) array
        The row.
    answers : (q, d) array
        The row's answers to all questions.
    others : (m, d) array
        Moves that answers made in other rows.
    V : (q, d) array
        Directions of the questions.
    upper : (q,) array
    contains : callable
        From a point (d,) to whether it is a member.
    rng : numpy.random.Generator
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
        # How far answers go in each feature, either way, and in any.
        self.high = np.maximum(self.moves.max(axis=0), 0.0)
        self.low = np.minimum(self.moves.min(axis=0), 0.0)
        self.reach = float(np.max(np.abs(self.moves), initial=0.0)) or 1.0 + float(np.max(np.abs(x)))

    def find(self) -> tuple[str, int] | None:
        """The kind of a point that is admitted and beats an `upper`, and the question; or None."""
        for kind, make in self._kinds():
            found = self._beating(self.x + make)
            for z, question in found[:ASKED_OF_A_KIND]:
                if self.contains(z):
                    return kind, question
        return self._on_lines()

    def _beating(self, points: np.ndarray) -> list[tuple[np.ndarray, int]]:
        """Points that would beat an upper, in random order, each with the question."""
        excess = points @ self.V.T - self.upper
        size = np.maximum(np.abs(points).max(axis=1, initial=0.0), np.abs(self.x).max(initial=0.0))
        excess -= SLACK * np.outer(size, np.abs(self.V).sum(axis=1)) + 1e-300
        best = np.argmax(excess, axis=1)
        worth = np.flatnonzero(excess[np.arange(len(points)), best] > 0)
        return [(points[k], int(best[k])) for k in self.rng.permutation(worth)]

    def _kinds(self) -> Iterator[tuple[str, np.ndarray]]:
        """Names and moves, (m, d), of one kind after the other."""
        rng, moves, V = self.rng, self.moves, self.V
        yield "the corner of the moves seen", np.where(V > 0, self.high, self.low) * (V != 0)
        yield "a corner as far as any move seen, in every feature", self.reach * np.sign(V)
        signs = rng.choice([-1.0, 1.0], (DRAWN_OF_A_KIND, len(self.x)))
        yield "a corner of the moves seen", np.where(signs > 0, self.high, self.low)
        yield "a move made longer", np.concatenate([factor * moves for factor in (1.01, 1.5, 2.0, 5.0)])
        yield "a move turned round", -moves
        first, second = rng.integers(len(moves), size=(2, DRAWN_OF_A_KIND))
        yield "two moves together", moves[first] + moves[second]
        mixed = rng.random((DRAWN_OF_A_KIND, len(self.x))) < 0.5
        yield "parts of two moves", np.where(mixed, moves[first], moves[second])
        shuffled = rng.permuted(moves[first], axis=1)
        yield "a move with its features exchanged", shuffled
        if len(self.others):
            yield "a move of another row", self.others[rng.integers(len(self.others), size=100)]
        yield "an answer with a feature pushed further", self._pushed(first)
        yield "an answer that moves another feature instead", self._swapped(first)

    def _steps(self, chosen: np.ndarray, features: np.ndarray) -> np.ndarray:
        """A change of a feature of each chosen answer, mostly along the direction asked about."""
        kinds = self.rng.integers(5, size=len(chosen))
        up = self.V[chosen, features] > 0
        seen = np.where(up, self.high[features], self.low[features])
        far = np.where(up, self.reach, -self.reach)
        own = self.x[features]
        return np.choose(kinds, [seen, far, -own, own, 0.1 * far])

    def _pushed(self, chosen: np.ndarray) -> np.ndarray:
        pushed = self.moves[chosen].copy()
        features = self.rng.integers(len(self.x), size=len(chosen))
        pushed[np.arange(len(chosen)), features] += self._steps(chosen, features)
        return pushed

    def _swapped(self, chosen: np.ndarray) -> np.ndarray:
        swapped = self.moves[chosen].copy()
        for move in swapped:
            moved = np.flatnonzero(move)
            if len(moved):
                move[self.rng.choice(moved)] = 0.0
        features = self.rng.integers(len(self.x), size=len(chosen))
        swapped[np.arange(len(chosen)), features] = self._steps(chosen, features)
        return swapped

    def _on_lines(self) -> tuple[str, int] | None:
        """The last admitted points on lines from the row, along directions asked about and others."""
        finite = np.flatnonzero(np.isfinite(self.upper) & np.any(self.V != 0, axis=1))
        if len(finite) == 0:
            return None
        chosen = self.rng.choice(finite, LINES)
        random = self.rng.standard_normal((LINES, len(self.x)))
        for line in np.vstack([self.V[chosen], np.sign(self.V[chosen]), random]):
            z = self._border(line / np.max(np.abs(line)))
            for _, question in self._beating(z[None, :]):
                return "the last point on a line from the row", question
        return None

    def _border(self, line: np.ndarray) -> np.ndarray:
        """A point near the end of the admitted part of a line, by bisection."""
        inside, outside = 0.0, 2.0 * self.reach
        if not self._beating((self.x + outside * line)[None, :]):
            return self.x
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            if self.contains(self.x + middle * line):
                inside = middle
            else:
                outside = middle
        return self.x + inside * line
