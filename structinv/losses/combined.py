"""Losses that differ between elements: signs, shifts, and concatenation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .base import ScalarLoss, validate_loss
from .piecewise_linear import Pieces


class Affine(ScalarLoss):
    """Loss ``r(signs * u - targets)``, for labels of margin losses and for targets.

    Shapes: `signs` (n,), `targets` (n,).
    """

    def __init__(self, loss: ScalarLoss, signs: ArrayLike, targets: ArrayLike = 0.0) -> None:
        self.loss = loss
        self.signs = signs
        self.targets = targets

    def __repr__(self) -> str:
        """Return a text without the arrays, which may be long."""
        return f"Affine({self.loss!r}, ...)"

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.loss.lower_bound

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        return self.loss.smooth

    def validate(self) -> None:
        validate_loss("loss", self.loss)
        for name, allowed in [("signs", "-1 or +1"), ("targets", "finite numbers")]:
            given = np.asarray(getattr(self, name))
            if given.dtype.kind not in "iuf":
                raise TypeError(f"{name} must be {allowed}, got {getattr(self, name)!r}")
            is_valid = np.isin(given, [-1, 1]) if name == "signs" else np.isfinite(given)
            if given.ndim > 1 or not is_valid.all():
                allowed += " in one dimension" if given.ndim > 1 else ""
                raise ValueError(f"{name} must be {allowed}, got {getattr(self, name)!r}")
        shapes = np.shape(self.signs), np.shape(self.targets)
        if all(shapes) and shapes[0] != shapes[1]:
            raise ValueError(
                f"targets must have the shape of signs, {shapes[0]}, or be a number, got {shapes[1]}"
            )

    def value(self, u):
        return self.loss.value(self._inner(u))

    def derivative(self, u):
        return np.asarray(self.signs) * self.loss.derivative(self._inner(u))

    def domain(self):
        low, high = (np.asarray(self.signs) * end for end in self.loss.domain())
        return np.minimum(low, high), np.maximum(low, high)

    def conjugate(self, p):
        # With v = s u - t and u = s (v + t), p u - r(v) is (s p) v - r(v) + (s p) t.
        signed = np.asarray(self.signs) * p
        return self.loss.conjugate(signed) + signed * np.asarray(self.targets)

    def prox(self, u, step):
        return np.asarray(self.signs) * (self.loss.prox(self._inner(u), step) + np.asarray(self.targets))

    def conjugate_prox(self, p, step):
        signs = np.asarray(self.signs)
        return signs * self.loss.conjugate_prox(signs * p - step * np.asarray(self.targets), step)

    def curvature(self, u):
        return self.loss.curvature(self._inner(u))

    @property
    def has_slopes(self) -> bool:  # type: ignore[override]
        return self.loss.has_slopes

    def expression(self, u):
        import cvxpy as cp

        signs, targets = (np.broadcast_to(part, u.shape) for part in (self.signs, self.targets))
        return self.loss.expression(cp.multiply(signs, u) - targets)

    def pieces(self):
        pieces = self.loss.pieces()
        return None if pieces is None else pieces.affine(self.signs, self.targets)

    def smoothed(self, width):
        return Affine(self.loss.smoothed(width), self.signs, self.targets)

    def take(self, indices):
        signs, targets = (
            np.asarray(part)[indices] if np.ndim(part) else part for part in (self.signs, self.targets)
        )
        return Affine(self.loss.take(indices), signs, targets)

    def _inner(self, u: ArrayLike) -> np.ndarray:
        return np.asarray(self.signs) * u - np.asarray(self.targets)


class ConcatenatedLoss(ScalarLoss):
    """Losses of consecutive parts of an array."""

    def __init__(self, losses: Sequence[ScalarLoss], sizes: Sequence[int]) -> None:
        self.losses = losses
        self.sizes = sizes

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return min(loss.lower_bound for loss in self.losses)

    @property
    def has_slopes(self) -> bool:  # type: ignore[override]
        return all(loss.has_slopes for loss in self.losses)

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        return all(loss.smooth for loss in self.losses)

    def validate(self) -> None:
        if not len(self.losses):
            raise ValueError("losses must have at least one loss, got 0")
        for place, loss in enumerate(self.losses):
            validate_loss(f"losses[{place}]", loss)
        for size in self.sizes:
            allowed = "sizes must be integers of at least 0"
            if not isinstance(size, (int, np.integer)) or isinstance(size, bool):
                raise TypeError(f"{allowed}, got {size!r}")
            if size < 0:
                raise ValueError(f"{allowed}, got {size!r}")
        if len(self.sizes) != len(self.losses):
            raise ValueError(
                f"sizes must have one number for each of {len(self.losses)} losses, got {self.sizes!r}"
            )

    def value(self, u):
        return self._each("value", u)

    def derivative(self, u):
        return self._each("derivative", u)

    def domain(self):
        if len(self.losses) == 1:
            return self.losses[0].domain()
        ends = zip(*(loss.domain() for loss in self.losses), strict=True)
        return tuple(np.concatenate(list(map(np.broadcast_to, end, self.sizes))) for end in ends)

    def conjugate(self, p):
        return self._each("conjugate", p)

    def prox(self, u, step):
        return self._each("prox", u, step)

    def conjugate_prox(self, p, step):
        return self._each("conjugate_prox", p, step)

    def curvature(self, u):
        return self._each("curvature", u)

    def pieces(self):
        parts = []
        for loss, size in zip(self.losses, self.sizes, strict=True):
            pieces = loss.pieces()
            if pieces is None:
                return None
            parts.append((pieces, size))
        return Pieces.join(parts)

    def smoothed(self, width):
        return ConcatenatedLoss([loss.smoothed(width) for loss in self.losses], self.sizes)

    def take(self, indices):
        # One loss per run of consecutive elements of the same part.
        chosen = np.atleast_1d(np.arange(sum(self.sizes))[indices])
        if not len(chosen):
            return ConcatenatedLoss([self.losses[0].take(chosen)], [0])
        ends = np.cumsum(self.sizes)
        parts = np.searchsorted(ends, chosen, side="right")
        local = chosen - (ends - self.sizes)[parts]
        cuts = np.flatnonzero(np.diff(parts)) + 1
        runs = np.split(local, cuts)
        losses = [
            self.losses[part].take(run) for part, run in zip(parts[np.r_[0, cuts]], runs, strict=True)
        ]
        return ConcatenatedLoss(losses, [len(run) for run in runs])

    def _each(self, method: str, u: ArrayLike, *steps: ArrayLike) -> np.ndarray:
        """Call one method of every loss on its elements; scalars are broadcast."""
        if len(self.losses) == 1:
            return getattr(self.losses[0], method)(u, *steps)
        split = [self._split(argument) for argument in (u, *steps)]
        parts = [getattr(loss, method)(*part) for loss, *part in zip(self.losses, *split, strict=True)]
        return np.concatenate(parts, axis=-1)

    def _split(self, argument: ArrayLike) -> list[np.ndarray]:
        spread = np.broadcast_to(argument, (*np.shape(argument)[:-1], sum(self.sizes)))
        return np.split(spread, np.cumsum(self.sizes)[:-1], axis=-1)
