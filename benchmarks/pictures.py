"""Pictures of the pages, drawn from records of the benchmarks.

A benchmark writes what it measures with ``--json benchmarks/records/NAME.json``; this script reads the
records and draws ``docs/pictures/NAME.png``, without data and in seconds:

    python benchmarks/pictures.py                 # all of them
    python benchmarks/pictures.py malware

Roles of colors (Okabe and Ito): plain gray, robust blue, trained on changed data orange, invariant
kernels and bounds on weights green.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

RECORDS = Path(__file__).with_name("records")
FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
GRAY, BLUE, ORANGE, GREEN = "#666666", "#0072B2", "#D55E00", "#009E73"
STYLE = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titleweight": "bold",
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "lines.linewidth": 2.0,
    "lines.markersize": 5,
    "savefig.dpi": 200,
}
LINE = 0.055  # height of a line of text, as a share of the height of an axis


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


def malware(record: dict[str, Any]) -> Figure:
    """Draw detection rate against added features, in percent."""
    looks = {
        "LinearSVC": ("linear SVM", GRAY, "-"),
        "bounded on both sides": ("bounded weights", ORANGE, "-"),
        "nonnegative": ("nonnegative weights", GREEN, "--"),
        "FAdd": ("structinv, FAdd", BLUE, "-"),
    }
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    sizes, names, at_ten = record["sizes"], [], {}
    for method, (name, color, dashes) in looks.items():
        mean, error = (np.array(record["rates"][method][key]) for key in ("mean", "error"))
        axes.plot(sizes, mean, dashes, color=color, marker="o")
        axes.fill_between(sizes, mean - error, mean + error, color=color, alpha=0.2, lw=0)
        names.append((name, float(mean[-1]), color))
        at_ten[method] = mean[sizes.index(10)]
    for method, shift in {"LinearSVC": 5.0, "FAdd": -6.0}.items():
        y, color = at_ten[method], looks[method][1]
        axes.text(10, y + shift, f"{y:.1f} %", color=color, ha="center", va="center", weight="bold")
    axes.set(ylim=(-5, 72), xlabel="permissions and services that the attacker adds (worst case)")
    axes.set(ylabel="malware detected at 1 % false positives", xticks=[0, 2, 5, 10, 20])
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    plain, robust = at_ten["LinearSVC"], at_ten["FAdd"]
    axes.set_title(f"At ten additions a linear SVM detects {plain:.1f} %, structinv {robust:.0f} %")
    name_lines(axes, names, sizes[-1])
    return figure


def digits_small_sample(record: dict[str, Any]) -> Figure:
    """Draw error against digits per class, and InvariantSVC minus VirtualSVC."""
    looks = {"SVC": GRAY, "VirtualSVC": ORANGE, "InvariantSVC": BLUE}
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes, names = record["sizes"], []
    left.set(ylim=(0, 26), xlabel="training digits per class", ylabel="test error, %", xticks=sizes)
    for name, color in looks.items():
        mean, error = (np.array(record["errors"][name][key]) for key in ("mean", "error"))
        left.plot(sizes, mean, color=color, marker="o")
        left.fill_between(sizes, mean - error, mean + error, color=color, alpha=0.2, lw=0)
        names.append((name, float(mean[-1]), color))
    name_lines(left, names, sizes[-1])
    less = record["difference"]
    right.axhline(0, color=ORANGE, lw=1)
    right.errorbar(sizes, less["mean"], yerr=less["error"], fmt="o", color=BLUE, capsize=3, markersize=7)
    right.set(
        ylim=(-1.6, 0.4), xlabel="training digits per class", ylabel="percentage points", xticks=sizes
    )
    left.set_title("Test error")
    right.set_title("InvariantSVC less VirtualSVC")
    return figure


def mistyped(record: dict[str, Any]) -> Figure:
    """Draw F1 against mistyped tokens, and certified positions, for word features."""
    results = {one["method"]: one for one in record["words"]}
    looks = {
        "CRFsuite, L-BFGS": ("CRFsuite", GREEN),
        "structinv, plain": ("plain", GRAY),
        "structinv, FDrop(1)": ("FDrop(1)", BLUE),
        "structinv, plain, mistyped": ("trained on\nmistyped text", ORANGE),
    }
    figure = Figure(figsize=(8.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    rates, dropped, names = [0, 5, 10, 20, 30], range(6), []
    left.set(ylim=(70, 95), ylabel="% (axis from 70)", xlabel="mistyped test tokens, %", xticks=rates)
    right.set(xlabel="features of a sentence dropped (worst case)", xticks=dropped)
    for method, (name, color) in looks.items():
        left.plot(rates, results[method]["f1"], color=color, marker="o")
        names.append((name, results[method]["f1"][-1], color))
    name_lines(left, names, 30)
    names = []
    for method, name in {"structinv, plain": "plain", "structinv, FDrop(1)": "FDrop(1)"}.items():
        positions, color = results[method]["positions"], looks[method][1]
        right.plot(dropped, positions, color=color, marker="o")
        names.append((f"{name}\n{positions[-1]:.1f} %", positions[-1], color))
    name_lines(right, names, 5)
    left.set_title("F1 of chunks")
    right.set_title("Certified positions")
    return figure


def semi_supervised(record: dict[str, Any]) -> Figure:
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
    for name, sizes in record["differences"].items():
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
    axes.set_xlabel("error less that of a plain SVM, points, means over the draws")
    axes.set_title("Left of the line the penalty is better, right of it the SVM")
    axes.set_ylim(y + 0.9, 1.0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", alpha=0.25)
    return figure


def invariant_kernels(record: dict[str, Any]) -> Figure:
    """Draw error of kernels with and without a mean over transformations."""
    figure = Figure(figsize=(8.6, 2.8), layout="constrained")
    for axes, panel in zip(figure.subplots(1, 2), record["panels"], strict=True):
        for y, (_, mean, error, averaged) in enumerate(reversed(panel["rows"])):
            color = GREEN if averaged else GRAY
            axes.errorbar(mean, y, xerr=error, fmt="o", color=color, capsize=3, markersize=7)
            axes.annotate(
                f"{mean:g}",
                (mean, y),
                xytext=(0, 8),
                textcoords="offset points",
                ha="center",
                color=color,
            )
        names = [row[0] for row in reversed(panel["rows"])]
        axes.set(yticks=range(len(names)), yticklabels=names, ylim=(-0.6, len(names) - 0.3))
        axes.set(xlim=(0, panel["limit"]), xlabel=panel["unit"])
        axes.set_title(panel["title"])
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", alpha=0.25)
    return figure


def benchopt(record: dict[str, Any]) -> Figure:
    """Draw the smallest excess of the objective against the time of a fit."""
    looks = {
        "structinv, frank_wolfe": (BLUE, "-"),
        "structinv, bmrm": ("#56B4E9", "-"),
        "structinv, svmstruct": (GREEN, "-"),
        "structinv, pegasos": ("#CC79A7", "-"),
        "liblinear": (GRAY, "--"),
        "SGD": ("#AAAAAA", "--"),
        "SVC on virtual samples": (ORANGE, "--"),
        "CRFsuite": (ORANGE, "--"),
        "cvxpy": ("black", "-"),
    }
    figure = Figure(figsize=(11.5, 5.2), layout="constrained")
    for axes, panel in zip(figure.subplots(1, 3, sharey=True), record["panels"], strict=True):
        for name, curve in panel["curves"].items():
            order = np.argsort(curve["seconds"])
            seconds, excess = (np.array(curve[key])[order] for key in ("seconds", "excess"))
            color, dashes = looks[name]
            kind = f"{name} (other objective)" if curve["other"] else name
            least, some = np.minimum.accumulate(excess), seconds > 1e-3
            axes.plot(
                seconds[some], least[some], dashes, color=color, marker="o", markersize=4, label=kind
            )
        axes.set(xscale="log", yscale="log", xlim=(0.03, 40), ylim=(1e-5, 30), xlabel="seconds")
        axes.set_title(panel["title"])
        axes.grid(alpha=0.25)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, fontsize=9)
    figure.axes[0].set_ylabel("objective above its optimum, as a share")
    return figure


PICTURES: dict[str, Callable[[dict[str, Any]], Figure]] = {
    "malware": malware,
    "digits_small_sample": digits_small_sample,
    "mistyped": mistyped,
    "semi_supervised": semi_supervised,
    "invariant_kernels": invariant_kernels,
    "benchopt": benchopt,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PICTURES)}; all by default")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PICTURES):
        parser.error(f"names must be of {', '.join(PICTURES)}, got {', '.join(sorted(unknown))}")
    for name in options.names or PICTURES:
        record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
        with mpl.rc_context(STYLE):
            PICTURES[name](record).savefig(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
