"""Points of unknown length: boundaries (Pozdnoukhov and Bengio 2006, figure 1).

Two classes differ by their direction, and every sample is multiplied by a random factor. The paper does
not describe how its points were drawn. Here there are 60 points, with angles uniform over 0.6 radians
per class, 0.17 between the classes, and radii uniform from 0.3 to 3. The picture has seed 0. The paper
has 20 support vectors of the plain SVM and 8 of the SVM with segments. The protocol is in
`docs/evidence/sets.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import CenteredNorm
from matplotlib.lines import Line2D
from report import parser_of, table, versions, write_record
from sklearn.svm import SVC

from structinv import InvariantSVC
from structinv.kernels import Gaussian, SetKernel, psd_corrected
from structinv.oracles import Segment

Rows = tuple[np.ndarray, np.ndarray]
# Scores at points, the rows that support it, the least eigenvalue of the kernel.
Machine = tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, float]

SIGMA, C = 0.5, 10.0
COLORS = "firebrick", "royalblue"
NAMES = "class 1", "class 2"


def points(size: int, seed: int) -> Rows:
    """Points of two directions and any size."""
    rng = np.random.default_rng(seed)
    y = np.arange(size) % 2
    angle = rng.uniform(0.1, 0.7, size) + 0.77 * y
    radius = rng.uniform(0.3, 3.0, size)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), y


def plain(X: np.ndarray, y: np.ndarray, sigma: float) -> Machine:
    svc = SVC(gamma=0.5 / sigma**2, C=C).fit(X, y)
    return svc.decision_function, svc.support_, np.nan


def segments(low: float, high: float, sides: str) -> Callable[..., Machine]:

    def fit(X: np.ndarray, y: np.ndarray, sigma: float) -> Machine:
        kernel = psd_corrected(SetKernel(Segment(low, high), Gaussian(sigma), sides), X, "clip")
        svc = SVC(kernel="precomputed", C=C).fit(kernel.matrix(X, X), y)
        return (
            lambda Z: svc.decision_function(kernel.matrix(Z, X)),
            svc.support_,
            kernel.min_eigenvalue,
        )

    return fit


def worst(low: float, high: float) -> Callable[..., Machine]:
    """Fit the worst-case model of every segment."""

    def fit(X: np.ndarray, y: np.ndarray, sigma: float) -> Machine:
        model = InvariantSVC(Segment(low, high), gamma=0.5 / sigma**2, C=C, tol=2e-2, random_state=0)
        model.fit(X, y)
        return model.decision_function, np.unique(model.support_), np.nan

    return fit


MACHINES = {
    "plain": plain,
    "segments [0.5, 2]": segments(0.5, 2.0, "two"),
    "segments [0.5, 2], mean": segments(0.5, 2.0, "mean"),
    "worst case [0.5, 2]": worst(0.5, 2.0),
    "segments [0.01, 10]": segments(0.01, 10.0, "two"),
    "segments [0.01, 10], mean": segments(0.01, 10.0, "mean"),
}


def draw(panel: plt.Axes, name: str, machine: Machine, rows: Rows) -> None:
    """Draw scores as colors, boundary and margins as lines, support vectors as rings."""
    (score, support, _), (X, y) = machine, rows
    ticks = np.linspace(0.0, 3.4, 140)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1)
    values = score(grid.reshape(-1, 2)).reshape(len(ticks), -1)
    panel.imshow(np.clip(values, -2, 2), origin="lower", extent=(0, 3.4, 0, 3.4), cmap="RdBu",
                 norm=CenteredNorm(halfrange=3), alpha=0.6, interpolation="bilinear")  # fmt: skip
    for level, style in ((0.0, "solid"), (-1.0, "dotted"), (1.0, "dotted")):
        if values.min() < level < values.max():
            panel.contour(ticks, ticks, values, levels=[level], colors="black", linestyles=[style],
                          linewidths=1.4 if level == 0 else 0.8)  # fmt: skip
    for label, color in enumerate(COLORS):
        panel.scatter(*X[y == label].T, s=20, color=color, edgecolor="white", linewidths=0.5, zorder=3)
    panel.scatter(*X[support].T, s=70, facecolors="none", edgecolors="black", linewidths=1.1, zorder=4)
    panel.set(aspect="equal", xlim=(0, 3.4), ylim=(0, 3.4), xticks=range(4), yticks=range(4))
    panel.set_title(f"{name}\n{len(support)} support vectors", fontsize=10)


def picture(path: Path, rows: Rows) -> None:
    """Run all models at one length scale."""
    figure, panels = plt.subplots(2, 3, figsize=(9.6, 7.4), layout="constrained")
    for panel, (name, fit) in zip(panels.ravel(), MACHINES.items(), strict=True):
        draw(panel, name, fit(*rows, SIGMA), rows)
    dots = [
        Line2D([], [], marker="o", ls="", color=color, label=name, ms=4)
        for name, color in zip(NAMES, COLORS, strict=True)
    ]
    ring = Line2D([], [], marker="o", ls="", mfc="none", color="black", ms=9, label="support vector")
    lines = [Line2D([], [], color="black", label="boundary"),
             Line2D([], [], color="black", ls="dotted", label="margin: score of 1")]  # fmt: skip
    figure.legend(handles=[*dots, ring, *lines], loc="outside lower center", ncols=5, frameon=False)
    figure.get_layout_engine().set(h_pad=0.1)
    figure.savefig(path, dpi=150)


def print_tables(draws: int) -> None:
    """Support vectors, accuracy and eigenvalues over draws."""
    new = points(2000, 10_000)
    for sigma in (0.02, 0.1, SIGMA):
        lines = []
        for name, fit in MACHINES.items():
            if "worst" in name and sigma != SIGMA:
                continue
            runs = [(fit(*points(60, seed), sigma), points(60, seed)) for seed in range(draws)]
            support = [len(run[1]) for run, _ in runs]
            right = [np.mean((run[0](new[0]) > 0) == new[1]) for run, _ in runs]
            least = [run[2] for run, _ in runs]
            value = "" if np.isnan(least[0]) else f"{np.mean(least):.2f}"
            error = np.std(support, ddof=1) / np.sqrt(draws)
            lines.append([name, f"{np.mean(support):.1f} ± {error:.1f}",
                          f"{100 * (1 - np.mean(right)):.1f}", value])  # fmt: skip
        heads = ["model", "support vectors of 60", "error, %", "smallest eigenvalue"]
        print(
            table(
                f"60 points of unknown size, sigma {sigma:g}: means of {draws} draws",
                heads,
                lines,
                f"sigma_{sigma:g}".replace(".", "_"),
            )
        )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--plot", type=Path, help="write the picture to this file")
    options = parser.parse_args()
    print(f"{versions()}\n")
    print_tables(options.draws)
    write_record(
        options.record,
        "generated, two classes of directions, 60 rows",
        seeds=f"0 to {options.draws - 1} (draws)",
    )
    if options.plot:
        picture(options.plot, points(60, 0))


if __name__ == "__main__":
    main()
