"""Demonstration of kernel SVMs on shifted and rotated digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from ..estimators import InvariantSVC, VirtualSupportVectorSVC, VirtualSVC
from ..inspection import SupportTransformsDisplay, WorstCasesDisplay, name_changes
from ..inspection.figures import saved
from ..oracles import Identity, InvarianceOracle, Rotations, Shifts
from ..oracles.checked_lists import listed
from ..report.section import percent
from ..utils.jit import Stopwatch
from ..utils.ties import first_best
from .demo_plots import Errors, plot_errors

_KERNEL: dict[str, Any] = {"gamma": 0.2, "C": 10.0}

METHODS: dict[str, Callable[[InvarianceOracle], Any]] = {
    "SVC": lambda oracle: SVC(**_KERNEL),
    "VirtualSVC": lambda oracle: VirtualSVC(oracle, **_KERNEL),
    "VirtualSupportVectorSVC": lambda oracle: VirtualSupportVectorSVC(oracle, **_KERNEL),
    "InvariantSVC": lambda oracle: InvariantSVC(oracle, tol=1e-2, random_state=0, **_KERNEL),
}


def transformations() -> InvarianceOracle:
    """Return shifts by a pixel and rotations by ten degrees."""
    return Shifts(1) | Rotations(degrees=[-10, 10])


@dataclass(frozen=True)
class Draw:
    """Nested training sets by their size, and test rows."""

    training: dict[int, tuple[np.ndarray, np.ndarray]]
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class KernelFit:
    """One model trained on one draw."""

    method: str
    size: int
    draw: Draw
    model: Any
    seconds: float
    error: float

    @property
    def n_support(self) -> int:
        """Number of support vectors."""
        return len(self.model.support_)


def fit_digits(seed: int, quick: bool) -> list[KernelFit]:
    """Fit all methods on training sets of several sizes from scikit-learn's digits."""
    rng = np.random.default_rng(seed)
    per_class, n_draws = ((3, 6), 2) if quick else ((2, 5, 10), 2)
    X, y = load_digits(return_X_y=True)
    draws = [draw_training(X / 16.0, y, per_class, 300, rng) for _ in range(n_draws)]
    return [_fit(method, n, draw) for method in METHODS for n in draws[0].training for draw in draws]


def draw_training(
    X: np.ndarray, y: np.ndarray, per_class: tuple[int, ...], n_test: int, rng: np.random.Generator
) -> Draw:
    """Draw nested training sets with equally many rows per class, and a test set."""
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    # The number of earlier rows with the same label.
    place = np.sum(np.tril(y[:, None] == y, -1), axis=1)
    training = {10 * n: (X[place < n], y[place < n]) for n in per_class}
    rest = np.flatnonzero(place >= max(per_class))[:n_test]
    return Draw(training, X[rest], y[rest])


def _fit(method: str, size: int, draw: Draw) -> KernelFit:
    model = METHODS[method](transformations())
    watch = Stopwatch()
    model.fit(*draw.training[size])
    seconds = watch.seconds
    return KernelFit(method, size, draw, model, seconds, 1 - model.score(draw.X_test, draw.y_test))


def digits_table(fits: list[KernelFit]) -> Table:
    """Return a table of the methods at the largest size, averaged over draws."""
    largest = max(fit.size for fit in fits)
    table = Table(
        title=f"Kernel SVMs on digits, {largest} training samples",
        caption="Test error, unperturbed and attacked. The attack tries all shifts by one pixel and"
        " rotations by ten degrees. Means over draws; the gap is the largest.",
    )
    table.add_column("method", no_wrap=True)
    for name in ("error", "attacked", "support vectors", "gap", "seconds"):
        table.add_column(name, justify="right")
    for method, group in _by_method(fits):
        last = [fit for fit in group if fit.size == largest]
        table.add_row(method, *_cells(last))
    return table


def _cells(fits: list[KernelFit]) -> tuple[str, ...]:
    gaps = [fit.model.solution_.relative_gap for fit in fits if fit.method == "InvariantSVC"]
    return (
        percent(float(np.mean([fit.error for fit in fits]))),
        percent(float(np.mean([_worst_error(fit) for fit in fits]))),
        f"{np.mean([fit.n_support for fit in fits]):.0f}",
        f"{max(gaps):.0e}" if gaps else "",
        f"{np.mean([fit.seconds for fit in fits]):.2f}",
    )


def _worst_error(fit: KernelFit) -> float:
    """Return the error under attack; all transformations are tried."""
    members = transformations().orbit(fit.draw.X_test)
    n_rows, size, n_features = members.shape
    guesses = fit.model.predict(members.reshape(-1, n_features)).reshape(n_rows, size)
    return 1 - float(np.mean(np.all(guesses == fit.draw.y_test[:, None], axis=1)))


def draw_digits(fits: list[KernelFit], out: Path) -> list[Path]:
    """Write three plots to an existing folder; return their paths."""
    best = next(fit for fit in reversed(fits) if fit.method == "InvariantSVC")
    X, y = best.draw.training[best.size]
    paths = [out / f"{name}.png" for name in ("worst_cases", "transforms", "errors")]
    _draw_worst(best, paths[0])
    order = listed(transformations().bind(X, y)).names
    display = SupportTransformsDisplay.from_estimator(best.model, y, order=order)
    saved(display.figure_, paths[1])
    curves = {method: _curve(group) for method, group in _by_method(fits)}
    plot_errors(curves, paths[2])
    return paths


def _draw_worst(fit: KernelFit, path: Path) -> None:
    """Draw the digit of each class with the largest loss of margin, before and after."""
    X, y = fit.draw.X_test, fit.draw.y_test
    before = fit.model.certify(X, y, oracle=Identity()).attacked
    after = fit.model.certify(X, y).attacked
    losses = np.where(y == fit.model.classes_[:, None], before - after, -np.inf)
    shown = first_best(losses)
    worst = fit.model.worst_case(X[shown], y[shown])
    names = name_changes(transformations(), X[shown], worst)
    titles = [f"label {y[row]}" for row in shown]
    margins = np.column_stack([before, after])[shown]
    display = WorstCasesDisplay(X[shown], worst, titles=titles, changes=names, margins=margins)
    saved(display.plot().figure_, path)


def _curve(fits: list[KernelFit]) -> Errors:
    sizes = sorted({fit.size for fit in fits})
    errors = [[fit.error for fit in fits if fit.size == size] for size in sizes]
    supports = [[float(fit.n_support) for fit in fits if fit.size == size] for size in sizes]
    return Errors(sizes, *_mean_and_sem(errors), *_mean_and_sem(supports))


def _mean_and_sem(values: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(values)
    return table.mean(axis=1), table.std(axis=1, ddof=1) / np.sqrt(table.shape[1])


def _by_method(fits: list[KernelFit]) -> Iterator[tuple[str, list[KernelFit]]]:
    for method in METHODS:
        yield method, [fit for fit in fits if fit.method == method]
