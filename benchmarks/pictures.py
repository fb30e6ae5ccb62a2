"""Pictures of the pages, drawn from records of the benchmarks.

    python benchmarks/pictures.py                 # all of them
    python benchmarks/pictures.py malware

Roles of colors (Okabe and Ito): plain gray, robust blue, trained on changed data orange, invariant
kernels green. Bounds on weights are dashed. `figures.mplstyle` has the style.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from records import Record, Table

STYLE = Path(__file__).with_name("figures.mplstyle")
FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
GRAY, BLUE, ORANGE, GREEN, PINK = "#666666", "#0072B2", "#D55E00", "#009E73", "#CC79A7"
LIGHT_BLUE = "#56B4E9"
LINE = 0.055  # height of a line of text, as a share of the height of an axis


def table_of(record: str, key: str) -> Table:
    """A table of a record."""
    return Record.read(record).tables[key]


def pairs(table: Table, row: str, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors of a row."""
    cells = np.array([table.cell(row, column) for column in columns], dtype=float)
    return cells[:, 0], cells[:, 1]


def line(
    axes: Axes, x: Sequence[int], mean: np.ndarray, error: np.ndarray, color: str, dashes: str = "-"
) -> None:
    """Draw a line of means with a band of errors."""
    axes.plot(x, mean, dashes, color=color, marker="o")
    axes.fill_between(x, mean - error, mean + error, color=color, alpha=0.2, lw=0)


def name_lines(axes: Axes, lines: Sequence[tuple[str, float, str]], x: float) -> None:
    """Write names at the right ends of lines, (name, y, color), without overlaps."""
    low, high = axes.get_ylim()
    ordered = sorted(lines, key=lambda line: line[1])
    places = [y for _, y, _ in ordered]
    heights = [LINE * (high - low) * (1 + name.count("\n")) for name, _, _ in ordered]
    for _ in range(200):
        for i in range(1, len(places)):
            short = (heights[i] + heights[i - 1]) / 2 - (places[i] - places[i - 1])
            if short > 0:
                places[i - 1] -= short / 2
                places[i] += short / 2
    for (name, _, color), y in zip(ordered, places, strict=True):
        axes.annotate(name, (x, y), xytext=(7, 0), textcoords="offset points", color=color, va="center")


def malware() -> Figure:
    """Draw detection rate against edited features, in percent, for two attackers."""
    looks = {
        "LinearSVC": ("linear SVM", GRAY, "-"),
        "nonnegative": ("weights \u2265 0", GREEN, "--"),
        "bounded below": ("weights \u2265 \u2212b", PINK, "--"),
        "bounded on both sides": ("|weights| \u2264 b", ORANGE, "--"),
        "FAdd": ("structinv, FAdd", BLUE, "-"),
        "FEdit": ("structinv, FEdit", LIGHT_BLUE, "-"),
    }
    panels = {"detected": "attacker adds features", "detected_either": "attacker adds or removes"}
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    sizes, lines = [0, 2, 5, 10, 20], {}
    for axes, (key, title) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        detected = table_of("malware", key)
        for method in (method for method in looks if method in detected.names()):
            name, color, dashes = looks[method]
            mean, error = pairs(detected, method, [f"K = {size}" for size in sizes])
            line(axes, sizes, mean, error, color, dashes)
            lines[name] = axes.lines[-1]
        axes.set(ylim=(-3, 75), xlabel="edited features, worst case", xticks=sizes)
        axes.set_title(title, weight="normal")
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    figure.axes[0].set_ylabel("malware detected at 1 % false positives")
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=3, frameon=False)
    adds = table_of("malware", "detected").cell("FAdd", "K = 10")[0]
    edits = table_of("malware", "detected_either").cell("FEdit", "K = 10")[0]
    title = f"After ten edits FAdd detects {adds:.0f} % (left), FEdit {edits:.0f} % (right)"
    figure.suptitle(title, x=0.01, ha="left", weight="bold", fontsize=12)
    return figure


def spam_shift() -> Figure:
    """Draw certified accuracy against dropped words, on unseen mailboxes."""
    table = table_of("spam_shift", "counts_certified_drop")
    sizes = [0, 1, 2, 5, 10, 20, 50]
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    names, at_ten = [], {}
    for method, name, color in (
        ("hinge", "linear SVM", GRAY),
        ("FDrop", "FDrop", BLUE),
        ("FScale", "FScale", GREEN),
    ):
        values = np.array(
            [
                [table.cell(f"enron{box} {method}", f"K={size}") for size in sizes[:-1]]
                for box in (1, 2, 3)
            ]
        )
        places, mean = range(len(sizes) - 1), values.mean(axis=0)
        axes.plot(places, mean, color=color, marker="o")
        axes.fill_between(places, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2, lw=0)
        names.append((name, float(mean[-1]), color))
        at_ten[method] = mean[sizes.index(10)]
    axes.set(ylim=(0, 101), xlabel="words that may be dropped from a mail")
    axes.set(ylabel="certified accuracy", xticks=range(len(sizes) - 1), xticklabels=sizes[:-1])
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_title(
        f"At ten dropped words {at_ten['FDrop']:.0f} % are certified instead of {at_ten['hinge']:.0f} %"
    )
    name_lines(axes, names, len(sizes) - 2)
    return figure


def spam() -> Figure:
    """Draw detected spam against deleted or inserted words, on unseen mailboxes, in percent."""
    looks = {
        "InvariantTextClassifier, certified": ("structinv, certified", BLUE),
        "MultinomialNB": ("naive Bayes", GREEN),
        "LinearSVC": ("linear SVM", GRAY),
        "LogisticRegression": ("logistic regression", ORANGE),
    }
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    table, sizes, names, at_ten = table_of("text", "unseen"), [0, 5, 10, 20], [], {}
    columns = ["no edit", *(f"either {size}" for size in sizes[1:])]
    # Errors next to each other remain visible.
    for shift, (method, (name, color)) in zip((0.0, 0.22, -0.22, -0.44), looks.items(), strict=True):
        mean, error = pairs(table, method, columns)
        axes.errorbar(
            np.array(sizes) + shift, mean, error, color=color, marker="o", elinewidth=1, capsize=0,
            lw=2.8 if color == BLUE else 1.8, zorder=3 if color == BLUE else 2,
        )  # fmt: skip
        names.append((name, float(mean[-1]), color))
        at_ten[name] = mean[sizes.index(10)]
    axes.set(ylim=(-8, 90), xlabel="words that the spammer deletes or inserts (worst case)")
    axes.set(ylabel="spam detected at 1 % false positives", xticks=sizes)
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    robust, plain = at_ten["structinv, certified"], at_ten["linear SVM"]
    axes.set_title(
        f"After ten edits structinv detects {robust:.0f} % of spam, a linear SVM {plain:.0f} %"
    )
    name_lines(axes, names, sizes[-1])
    return figure


def digits_small_sample() -> Figure:
    """Draw error against digits per class, and InvariantSVC minus VirtualSVC."""
    looks = {"SVC": GRAY, "VirtualSVC": ORANGE, "InvariantSVC": BLUE}
    errors, less = (table_of("digits_small_sample", key) for key in ("errors", "differences"))
    columns = [column.name for column in errors.columns[1:]]
    sizes, names = [int(name.split()[0]) for name in columns], []
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.set(ylim=(0, 26), xlabel="training digits per class", ylabel="test error, %", xticks=sizes)
    for name, color in looks.items():
        mean, error = pairs(errors, name, columns)
        line(left, sizes, mean, error, color)
        names.append((name, float(mean[-1]), color))
    name_lines(left, names, sizes[-1])
    right.axhline(0, color=ORANGE, lw=1)
    mean, error = pairs(less, "InvariantSVC", columns)
    right.errorbar(sizes, mean, yerr=error, fmt="o", color=BLUE, markersize=7)
    right.set(
        ylim=(-1.6, 0.4), xlabel="training digits per class", ylabel="percentage points", xticks=sizes
    )
    left.set_title("Test error")
    right.set_title("InvariantSVC less VirtualSVC")
    return figure


def mistyped() -> Figure:
    """Draw F1 against mistyped tokens, and certified positions, for word features."""
    looks = {
        "CRFsuite, L-BFGS": ("CRFsuite", GREEN),
        "structinv, plain": ("plain", GRAY),
        "structinv, FDrop(1)": ("FDrop(1)", BLUE),
        "structinv, plain, mistyped": ("trained on\nmistyped text", ORANGE),
    }
    f1, certified = (table_of("mistyped", key) for key in ("words_f1", "words_certified"))
    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    rates, dropped, names = [0, 5, 10, 20, 30], range(6), []
    left.set(ylim=(70, 95), ylabel="% (axis from 70)", xlabel="mistyped test tokens, %", xticks=rates)
    right.set(xlabel="features of a sentence dropped (worst case)", xticks=dropped)
    for method, (name, color) in looks.items():
        values = [f1.cell(method, f"{rate}%") for rate in rates]
        left.plot(rates, values, color=color, marker="o")
        names.append((name, values[-1], color))
    name_lines(left, names, 30)
    names = []
    for method, name in {"structinv, plain": "plain", "structinv, FDrop(1)": "FDrop(1)"}.items():
        positions, color = pairs(certified, method, [f"k={k}" for k in dropped])[0], looks[method][1]
        right.plot(dropped, positions, color=color, marker="o")
        names.append((f"{name}\n{positions[-1]:.1f} %", positions[-1], color))
    name_lines(right, names, 5)
    left.set_title("Mistyped training text helps most")
    right.set_title("FDrop certifies more positions")
    return figure


def semi_supervised() -> Figure:
    """Draw error with a penalty minus that of an SVM, per set and number of labels."""
    looks = {
        "gradients, hinge": ("gradients, hinge loss", BLUE, "o"),
        "gradients, squared": ("gradients, squared loss", ORANGE, "s"),
        "averages, rows left out": ("local averages, picked on the first four sets", GREEN, "D"),
    }
    figure = Figure(figsize=(7.2, 6.6), layout="constrained")
    axes = figure.subplots()
    places, labels, y = [], [], 0.0
    axes.axvline(0, color=GRAY, lw=1)
    for name, sizes in Record.read("semi_supervised").points["differences"].items():
        for size, methods in sizes.items():
            for shift, (method, (_, color, marker)) in zip((0.24, 0, -0.24), looks.items(), strict=True):
                if method in methods:
                    mean, p = methods[method]["mean"], methods[method]["p"]
                    face = color if p < 0.05 else "white"
                    axes.plot(mean, y + shift, marker, color=color, markerfacecolor=face, markersize=6)
            places.append(y)
            labels.append(f"{name}, {size} labels")
            y -= 1.0
        y -= 0.6
    for name, color, marker in looks.values():
        axes.plot([], [], marker, color=color, markerfacecolor="white", markersize=6, label=name)
    axes.plot([], [], "o", color="black", label="p < 0.05, uncorrected")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    axes.set(yticks=places, yticklabels=labels)
    axes.set_xlabel("error less that of a plain SVM, points (left: the penalty is better)")
    axes.set_title("No penalty is reliably better than a plain SVM")
    axes.set_ylim(y + 0.9, 1.0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", alpha=0.25)
    return figure


def mnist_pairs() -> Figure:
    """Draw TransformDifference minus VirtualSVC on the same draws, for pairs of digits."""
    table = table_of("mnist_pairs", "differences")
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    digits = ["4 or 9", "2 or 3", "6 or 5", "7 or 1"]
    axes.axvline(0, color=ORANGE, lw=1)
    losses = (("squared", 0.14, BLUE, "s"), ("epsilon-insensitive", -0.14, GREEN, "o"))
    for loss, shift, color, marker in losses:
        rows = [f"{each}, {loss}" for each in digits]
        mean = np.array([table.cell(row, "difference") for row in rows])
        error = np.array([table.cell(row, "standard deviation") for row in rows]) / np.sqrt(20)
        y = shift - np.arange(4)
        axes.errorbar(mean, y, xerr=error, fmt=marker, color=color, markersize=6, label=f"{loss} loss")
    axes.set(yticks=-np.arange(4), yticklabels=digits, ylim=(-3.6, 0.6), xlim=(-2.1, 0.35))
    axes.set_xlabel("error less that of VirtualSVC, points ± standard error")
    axes.set_title("TransformDifference has a lower error on all four pairs")
    axes.legend(loc="lower left", frameon=False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", alpha=0.25)
    return figure


def mnist_full() -> Figure:
    """Draw error against minutes on all of MNIST, with published errors."""
    table = table_of("mnist_full", "earlier")
    minutes = np.array([table.cell(name, "minutes") for name in table.names()])
    # A row's minutes include the search after it.
    minutes -= np.array([table.cell(name, "search") for name in table.names()]) / 60
    errors = [table.cell(name, "error") for name in table.names()]
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.subplots()
    for level, name, shift in ((0.68, "one pixel", 0.012), (0.56, "two pixels, deskewed", -0.022)):
        axes.axhline(level, color=ORANGE, ls="--", lw=1)
        text = f"{level} %: virtual support vectors, shifts by {name}"
        axes.text(85, level + shift, text, color=ORANGE, ha="right", va="center")
    axes.plot(minutes, errors, color=BLUE, marker="o")
    axes.text(minutes[0] + 2, errors[0], "InvariantSVC", color=BLUE, va="center")
    axes.set(ylim=(0.5, 0.9), xlabel="minutes of training", ylabel="test error, % (axis from 0.5)")
    first, last = (f"{errors[i]} % after {minutes[i]:.0f}" for i in (1, -1))
    axes.set_title(f"All of MNIST: {first} minutes, {last}")
    return figure


def faces() -> Figure:
    """Draw errors on rotated faces, by method and number of training faces."""
    table = table_of("turned_faces", "rotated")
    methods = {
        "SetKernel, tangent": ("SetKernel, tangent planes", GREEN),
        "SetKernel, mean": ("SetKernel, mean distance", GREEN),
        "virtual support vectors": ("VirtualSupportVectorSVC", ORANGE),
        "worst case": ("InvariantSVC, worst case", BLUE),
        "OrbitMean": ("OrbitMean", GREEN),
        "TangentDistributionKernel": ("TangentDistributionKernel", PINK),
        "TangentVectorKernel": ("TangentVectorKernel", PINK),
        "plain": ("plain SVM", GRAY),
    }
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, size in zip(panels, (2, 5), strict=True):
        for y, (method, (_, color)) in enumerate(reversed(methods.items())):
            mean, error = table.cell(method, f"{size} per person")
            axes.errorbar(mean, y, xerr=error, fmt="o", color=color, markersize=6)
            axes.annotate(
                f"{mean:.1f}", (mean + error, y), xytext=(5, 0), textcoords="offset points",
                va="center", color=color,
            )  # fmt: skip
        largest, _ = table.cell("plain", f"{size} per person")
        axes.set(xlim=(0, 1.2 * largest), xlabel="error on rotated test faces, %", ylim=(-0.6, 7.6))
        axes.set_title(f"{size} training faces per person")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", alpha=0.25)
    names = [name for name, _ in reversed(methods.values())]
    panels[0].set(yticks=range(len(names)), yticklabels=names)
    return figure


def kernel_error() -> Figure:
    """Draw the error of features of an invariant kernel against their number."""
    table = table_of("kernel_error", "errors_21")
    looks = {
        "Fourier, gaussian": ("OrbitFourier, independent", GRAY, "-"),
        "Fourier, orthogonal": ("OrbitFourier, orthogonal", BLUE, "-"),
        "Nystroem, kmeans": ("OrbitNystroem, k-means:\n2500 variants at most", GREEN, "-"),
        "rate of theorem 3.1": ("", "black", ":"),
    }
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.subplots()
    for method, (name, color, dashes) in looks.items():
        cells = [(int(column.name), table.cell(method, column.name)) for column in table.columns[1:]]
        known = [(size, value) for size, value in cells if value is not None]
        sizes, values = zip(*known, strict=True)
        axes.plot(sizes, values, dashes, color=color, marker="" if dashes == ":" else "o")
        if name:
            axes.annotate(
                name, known[-1], xytext=(8, 0), textcoords="offset points", color=color, va="center"
            )
    axes.annotate("rate of Raj et al. 2017", (2000, 0.0093), xytext=(0, 12), textcoords="offset points")
    axes.set(
        xscale="log", yscale="log", xlim=(40, 40000), xlabel="features", xticks=[50, 200, 1000, 5000]
    )
    axes.set(xticklabels=["50", "200", "1000", "5000"], ylabel="relative error of the kernel matrix")
    axes.minorticks_off()
    axes.set(
        yticks=[0.002, 0.005, 0.01, 0.02, 0.05], yticklabels=["0.002", "0.005", "0.01", "0.02", "0.05"]
    )
    axes.set_title("Landmarks need a tenth of the features, for 21 rotations")
    return figure


def invariant_kernels() -> Figure:
    """Draw error of kernels with and without a mean over transformations."""
    digits, molecules = table_of("turned_digits", "kernels"), table_of("qm7", "errors")
    panels = (
        ("Rotated MNIST digits", "test error, %", 12, digits, "error, test",
         {"plain": "Gaussian kernel", "OrbitMean": "mean of\n24 rotations"}),
        ("QM7 molecules", "RMSE, kcal/mol", 6, molecules, "RMSE",
         {"sorted, Laplacian": "sorted matrices", "mean of 4, Laplacian": "mean of 4 permutations",
          "mean of 8, Laplacian": "mean of 8", "mean of 16, Laplacian": "mean of 16"}),
    )  # fmt: skip
    figure = Figure(figsize=(8.6, 2.8), layout="constrained")
    for axes, (title, unit, limit, table, column, rows) in zip(
        figure.subplots(1, 2), panels, strict=True
    ):
        for y, row in enumerate(reversed(rows)):
            mean, error = table.cell(row, column)
            color = GRAY if row in ("plain", "sorted, Laplacian") else GREEN
            axes.errorbar(mean, y, xerr=error, fmt="o", color=color, markersize=7)
            axes.annotate(
                f"{mean:g}", (mean, y), xytext=(0, 8), textcoords="offset points", ha="center",
                color=color,
            )  # fmt: skip
        axes.set(yticks=range(len(rows)), yticklabels=list(reversed(rows.values())))
        axes.set(xlim=(0, limit), ylim=(-0.6, len(rows) - 0.3), xlabel=unit)
        axes.set_title(title)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", alpha=0.25)
    return figure


def convergence() -> Figure:
    """Draw seconds to relative gaps of four solvers, and time per pass against the number of mails."""
    looks = {"frank_wolfe": BLUE, "bmrm": GREEN, "pegasos": PINK, "svmstruct": GRAY}
    gaps, passes = (table_of("convergence", key) for key in ("gaps", "passes"))
    levels = ["0.1", "0.01", "0.001", "0.0001", "1e-05"]
    figure = Figure(figsize=(11.5, 3.8), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, lam in zip(panels, ("0.01", "0.001"), strict=False):
        for solver, color in looks.items():
            cells = [(gaps.cell(f"{lam} {solver}", level), float(level)) for level in levels]
            known = [pair for pair in cells if isinstance(pair[0], float)]
            if not known:
                axes.text(40, 0.3, f"{solver}:\nabove 0.1", color=color, ha="right", va="top")
                continue
            axes.plot(*zip(*known, strict=True), color=color, marker="o")
            axes.annotate(
                solver, known[-1], xytext=(7, 0), textcoords="offset points", color=color, va="center"
            )
        axes.set(xscale="log", yscale="log", xlim=(0.015, 60), ylim=(4e-6, 0.4), xlabel="seconds")
        axes.set(xticks=[0.1, 1, 10], xticklabels=["0.1", "1", "10"])
        axes.set_title(f"lambda = {lam}")
    panels[0].set_ylabel("relative gap")
    sizes = [int(column.name) for column in passes.columns[1:-1]]
    for solver, color in looks.items():
        times = [passes.cell(solver, str(size)) for size in sizes]
        panels[2].plot(sizes, times, color=color, marker="o")
        below = solver in ("bmrm", "svmstruct")
        panels[2].annotate(
            solver, (sizes[-1], times[-1]), xytext=(7, -7 if below else 7), textcoords="offset points",
            color=color, va="center",
        )  # fmt: skip
    panels[2].set(xscale="log", yscale="log", xlim=(500, 40000), xlabel="mails", ylabel="milliseconds")
    panels[2].set(xticks=sizes[::2], xticklabels=[str(size) for size in sizes[::2]])
    panels[2].minorticks_off()
    panels[2].set_title("Time of a pass")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    drawing.__name__: drawing
    for drawing in (
        malware, spam_shift, spam, digits_small_sample, mistyped, semi_supervised, mnist_pairs,
        mnist_full, faces, kernel_error, invariant_kernels, convergence,
    )
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PICTURES)}; all by default")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PICTURES):
        parser.error(f"names must be of {', '.join(PICTURES)}, got {', '.join(sorted(unknown))}")
    for name in options.names or PICTURES:
        with mpl.style.context(STYLE):
            PICTURES[name]().savefig(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
