"""Semi-supervised learning with smoothness penalties (Zhang et al. 2013).

The protocol is in `docs/evidence/few_labels.md`.
"""

from __future__ import annotations

import argparse
import io
import lzma
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from digits import Rows, add_data_option
from few_labels import (
    AFFINITIES,
    CS,
    EVIDENCE,
    FOLDS,
    LEFT_OUT,
    Draw,
    Fit,
    Setting,
    Squares,
    hinge,
    squared,
)
from folded_tables import (
    AVERAGE,
    FAMILIES,
    GRADIENT,
    GRAPH,
    LARGE,
    LINEAR,
    NEIGHBORS,
    PLAIN,
    Flat,
    Table,
    Width,
    all_tables,
)
from report import add_record_option, table, versions, write_record
from scipy.io import loadmat
from scipy.spatial.distance import pdist
from scipy.stats import ttest_rel, wilcoxon

from structinv import LapSVC, OrbitRidge, RepresenterClassifier
from structinv.functionals import Folded, Gradient, LocalAverage
from structinv.kernels import Gaussian

CHAPELLE = {"BCI": 4, "g241c": 5, "g241n": 7, "USPS": 2}
FILES = {
    "heart": Path("uci", "heart.dat"),
    "bupa": Path("uci", "bupa.data"),
    "ionosphere": Path("uci", "ionosphere.csv"),
    "sonar": Path("uci", "sonar.all-data"),
    "Australian": Path("uci", "australian.dat"),
    **{name: Path("chapelle_ssl", f"SSL,set={number},data.mat.xz") for name, number in CHAPELLE.items()},
    "g50c": Path("chapelle_ssl", "g50c.mat.xz"),
}
PICKED_ON = ("heart", "bupa", "ionosphere", "BCI")
HEADERS = {"heart": 1, "bupa": 1}
# Table 1 of the paper: SVM, LapSVM and InvSVM at 30, 60 and 90 labels.
PAPER = {
    "heart": ((23.5, 21.4, 20.0), (23.2, 22.7, 20.7), (22.3, 20.2, 19.6)),
    "bupa": ((36.2, 37.9, 36.9), (36.6, 40.7, 37.1), (38.2, 35.4, 35.2)),
    "ionosphere": ((12.5, 8.71, 7.17), (14.9, 9.05, 7.66), (7.58, 7.90, 7.02)),
    "sonar": ((30.9, 22.7, 20.6), (29.4, 22.9, 24.9), (31.6, 24.1, 21.8)),
    "Australian": ((20.6, 21.7, 15.3), (21.9, 15.6, 14.7), (17.7, 16.4, 15.6)),
    "BCI": ((44.6, 39.0, 34.6), (44.8, 45.4, 36.1), (45.3, 38.4, 32.7)),
    "g241c": ((32.9, 27.1, 24.8), (37.1, 28.4, 29.7), (33.1, 26.4, 23.4)),
    "g241n": ((34.6, 28.3, 25.6), (37.7, 29.9, 25.9), (35.4, 28.4, 22.3)),
    "USPS": ((14.9, 12.6, 11.3), (15.3, 12.3, 11.1), (15.4, 12.2, 11.3)),
}
SIZES = (30, 60, 90)
FACTORS = (1.0, 2.0, 0.5, 0.25)
HINDSIGHT = "hindsight"


# -- data -----------------------------------------------------------------------------------------


def load(folder: Path, name: str) -> Rows:
    """Load raw rows and labels -1 and +1."""
    path = folder / FILES[name]
    if path.suffix == ".xz":
        with lzma.open(path) as file:
            content = loadmat(io.BytesIO(file.read()))
        return content["X"].astype(np.float64), content["y"].ravel().astype(int)
    delimiter = None if name == "Australian" else ","
    cells = np.loadtxt(path, delimiter=delimiter, skiprows=HEADERS.get(name, 0), dtype=str)
    return cells[:, :-1].astype(np.float64), np.where(cells[:, -1] == cells[0, -1], 1, -1)


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Rows of length 1; rows of zeros stay."""
    sizes = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(sizes > 0, sizes, 1.0)


def standardized(X: np.ndarray) -> np.ndarray:
    """Features of mean 0 and deviation 1; constant ones are 0."""
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


SCALINGS = {"standardized": standardized, "unit": unit_rows}


def draw_labeled(y: np.ndarray, seed: int, largest: int) -> np.ndarray:
    """Rows in the order in which they get labels, both classes among the first."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(y))[:largest]
        if len(np.unique(y[order[: SIZES[0]]])) == 2:
            return order


# -- choices --------------------------------------------------------------------------------------

Settings = dict[str, list[Setting]]
Found = dict[tuple[int, int], Settings]


@dataclass
class Choice:
    """A method: a model with settings of some families, and the criterion of choice."""

    machine: str
    families: Sequence[str]
    factors: Sequence[float] = FACTORS
    criterion: str = FOLDS

    def among(self, settings: Settings) -> list[Setting]:
        """All settings, the simplest first."""
        own = settings[self.machine]
        return [one for one in own if one.family in self.families and one.factor in self.factors]

    def chosen(self, settings: Settings) -> Setting:
        """The first of those that are best."""
        return min(self.among(settings), key=lambda one: round(one.scores[self.criterion], 9))

    def errors(self, found: Found, size: int) -> np.ndarray:
        """Return errors of all draws with this number of labels; empty without gradients."""
        draws = [settings for (_, own), settings in found.items() if own == size]
        if not self.among(draws[0]):
            return np.array([])
        if self.criterion == HINDSIGHT:
            errors = np.array([[one.error for one in self.among(settings)] for settings in draws])
            return errors[:, np.argmin(errors.mean(axis=0))]
        return np.array([self.chosen(settings).error for settings in draws])


SPREADING = Choice("spreading", ("spreading",), AFFINITIES)
PRESCRIBED = {
    "SVC": Choice("hinge", (PLAIN,), (1.0,)),
    "LapSVC": Choice("hinge", (GRAPH,), (1.0,)),
    "gradients, hinge": Choice("hinge", (GRADIENT,), (1.0,)),
    "gradients, squared": Choice("squared", (GRADIENT,), (1.0,)),
    "LabelSpreading": SPREADING,
    "SelfTraining": Choice("self-training", ("self-training",)),
}
CRITERIA = (FOLDS, LEFT_OUT, EVIDENCE)
RIVALS = {
    "SVC": Choice("hinge", (PLAIN,)),
    "LapSVC": Choice("hinge", (GRAPH,)),
    "LabelSpreading": SPREADING,
    "SelfTraining": Choice("self-training, widths", ("self-training",)),
    "linear SVM": Choice("hinge", (LINEAR,)),
}
ANY = {criterion: Choice("squared", FAMILIES, FACTORS, criterion) for criterion in CRITERIA}
AVERAGES = Choice("squared", (PLAIN, AVERAGE), FACTORS, LEFT_OUT)


# -- runs -----------------------------------------------------------------------------------------


def draws_of(y: np.ndarray, n_draws: int) -> Iterator[tuple[tuple[int, int], Draw]]:
    """All draws, by (seed, l)."""
    for seed in range(n_draws):
        order = draw_labeled(y, seed, max(SIZES))
        for size in SIZES:
            yield (seed, size), Draw(y, np.sort(order[:size]), seed)


def tables_of(
    X: np.ndarray, y: np.ndarray, n_draws: int, factors: Sequence[float], start: Path | None
) -> list[Table]:
    """Return folded kernels of all rows with a label in some draw, and gradients."""
    median = float(np.median(pdist(X)))
    columns = np.unique(np.concatenate([draw.labeled for _, draw in draws_of(y, n_draws)]))
    flats = {}
    for factor in factors:
        file = start.with_name(f"{start.name} {factor:g}.npz") if start else None
        flats[factor] = Flat(X, factor * median, file)
        for _, draw in draws_of(y, n_draws):
            flats[factor].add(draw.labeled)
    return all_tables(X, median, FACTORS, columns, flats)


def compare(name: str, data: Rows, options: argparse.Namespace) -> Found:
    """All methods on all draws of a set."""
    begin = options.cache / f"{name} {options.scaling}" if options.cache else None
    ending = f"{options.draws}{' no gradients' if options.no_gradients else ''}.joblib"
    done = begin.with_name(f"{begin.name} {ending}") if begin else None
    if done and done.is_file():
        return joblib.load(done)
    start = time.perf_counter()
    X, y = SCALINGS[options.scaling](data[0]), data[1]
    median = float(np.median(pdist(X)))
    factors = () if options.no_gradients else FACTORS[:1] if len(X) > LARGE else FACTORS
    tables = tables_of(X, y, options.draws, factors, begin)
    folded = time.perf_counter() - start
    by_hinge = [one for one in tables if one.family in (PLAIN, GRAPH) or one.factor == 1.0]
    by_hinge = [one for one in by_hinge if one.family in (PLAIN, GRADIENT, GRAPH, LINEAR)]
    squares = np.add.outer(np.sum(X**2, axis=1), np.sum(X**2, axis=1)) - 2 * X @ X.T
    affinities = {one: np.exp(-0.5 * one * np.maximum(squares, 0) / median**2) for one in AFFINITIES}
    found: Found = {}
    for key, draw in draws_of(y, options.draws):
        settings: Settings = {
            "hinge": draw.machine(by_hinge, hinge),
            "squared": draw.machine(tables, squared),
            "spreading": draw.spreading(affinities),
        }
        for machine, like in (("", PRESCRIBED["SVC"]), (", widths", RIVALS["SVC"])):
            chosen = like.chosen(settings)
            settings[f"self-training{machine}"] = draw.self_training(X, median, chosen)
        found[key] = settings
        print(f"{name}, draw {key}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    print(f"{name}: {len(X)} rows, kernels {folded:.0f} s", file=sys.stderr, flush=True)
    if done:
        joblib.dump(found, done)
    return found


# -- tables ---------------------------------------------------------------------------------------


def cells(results: dict[str, Found]) -> Iterator[tuple[str, int, Found]]:
    """All sets and numbers of labels."""
    for name, found in results.items():
        for size in SIZES:
            yield name, size, found


def with_gradients(results: dict[str, Found]) -> dict[str, Found]:
    """The sets whose gradients were not left out."""
    choice = PRESCRIBED["gradients, hinge"]
    return {name: found for name, found in results.items() if len(choice.errors(found, SIZES[0]))}


def mean_and_deviation(errors: np.ndarray) -> str:
    """A cell of a table."""
    if len(errors) == 0:
        return ""
    spread = f" ± {np.std(errors, ddof=1):.1f}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.1f}{spread}"


def p_of(difference: np.ndarray) -> float:
    """Return p of the paired t-test, two-sided."""
    same = len(difference) < 2 or not np.any(difference)
    return 1.0 if same else float(ttest_rel(difference, np.zeros(len(difference))).pvalue)


def print_errors(results: dict[str, Found]) -> None:
    """The paper's table 1, its figures in brackets."""
    order = {"SVC": 0, "LapSVC": 1, "gradients, hinge": 2}
    rows = []
    for name, size, found in cells(results):
        row = [f"{name}, {size}"]
        for method, choice in PRESCRIBED.items():
            cell = mean_and_deviation(choice.errors(found, size))
            if method in order and name in PAPER:
                cell += f" ({PAPER[name][order[method]][SIZES.index(size)]:4.1f})"
            row.append(cell)
        rows.append(row)
    title = "error on the rows without a label, %, mean ± standard deviation (in the paper)"
    print(table(title, ["set, labeled rows", *PRESCRIBED], rows, key="prescribed"))


def print_tests(results: dict[str, Found]) -> None:
    """Print gradients minus SVC and LapSVC, at the prescribed length scale."""
    pairs = (("gradients, hinge", "SVC"), ("gradients, squared", "SVC"), ("gradients, hinge", "LapSVC"))
    rows = []
    for name, size, found in cells(with_gradients(results)):
        row = [f"{name}, {size}"]
        for one, other in pairs:
            less = PRESCRIBED[one].errors(found, size) - PRESCRIBED[other].errors(found, size)
            by_ranks = wilcoxon(less).pvalue if np.any(less) else 1.0
            row += [f"{np.mean(less):+.1f}", f"{p_of(less):.3f}", f"{by_ranks:.3f}"]
        rows.append(row)
    heads = [
        f"{one} - {other}{label}"
        for one, other in (("hinge", "SVC"), ("squared", "SVC"), ("hinge", "LapSVC"))
        for label in ("", ", t-test", ", Wilcoxon")
    ]
    title = (
        "gradients minus SVC or LapSVC on the same draw: mean difference in points, p of two-sided tests"
    )
    print(table(title, ["set, labeled rows", *heads], rows, key="tests"))


def mark(less: np.ndarray) -> str:
    """Return + for lower and - for higher errors by the paired t-test, else a dot."""
    return "." if p_of(less) >= 0.05 else "+" if np.mean(less) < 0 else "-"


CANDIDATES = {
    **{f"any, {criterion}": choice for criterion, choice in ANY.items()},
    "averages, rows left out": AVERAGES,
}


def print_choices(results: dict[str, Found]) -> None:
    """Print penalties and length scales chosen by labels, and five other methods."""
    rows = []
    for name, size, found in cells(results):
        others = [competitor.errors(found, size) for competitor in RIVALS.values()]
        row = [f"{name}, {size}", *map(mean_and_deviation, others)]
        for choice in CANDIDATES.values():
            own = choice.errors(found, size)
            row.append(f"{mean_and_deviation(own)} {''.join(mark(own - other) for other in others)}")
        rows.append(row)
    title = (
        "length scales chosen; squared loss with any penalty, or local averages, against the five\n"
        "others in their order: + lower, - higher (p < 0.05 in the paired t-test), . neither"
    )
    print(table(title, ["set, labeled rows", *RIVALS, *CANDIDATES], rows, key="chosen"))


def print_summary(results: dict[str, Found]) -> None:
    """In how many cells each candidate is better than each competitor."""
    apart = {name: found for name, found in results.items() if name not in PICKED_ON}
    known = {name: found for name, found in results.items() if name in PICKED_ON}
    groups = (("selection", "sets of the selection", known), ("apart", "all other sets", apart))
    for key, title, group in groups:
        rows = []
        for candidate, choice in CANDIDATES.items():
            same = {
                f"{name}, same criterion": Choice("squared", (family,), FACTORS, choice.criterion)
                for name, family in (("no penalty", PLAIN), ("linear", LINEAR))
            }
            for other, competitor in {**RIVALS, **same}.items():
                less = [
                    choice.errors(each, size) - competitor.errors(each, size)
                    for _, size, each in cells(group)
                ]
                means, marks = np.array([np.mean(one) for one in less]), [mark(one) for one in less]
                counts = (np.sum(means < 0), np.sum(means > 0), marks.count("+"), marks.count("-"))
                rows.append([f"{candidate} - {other}", f"{np.mean(means):+.2f}", *counts])
        head = ["", "mean", "lower", "higher", "lower, p < 0.05", "higher, p < 0.05"]
        if group:
            n_cells = len(group) * len(SIZES)
            print(table(f"{title}: points over {n_cells} cells, and numbers of cells", head, rows, key))


def print_families(results: dict[str, Found]) -> None:
    """Each family alone, and what one setting for all draws could give."""
    full = with_gradients(results)
    if not full:
        return
    rows = []
    for criterion in (*CRITERIA, HINDSIGHT):
        row = [criterion]
        for families in (*((family,) for family in FAMILIES), FAMILIES, (LINEAR,)):
            choice = Choice("squared", families, FACTORS, criterion)
            errors = [np.mean(choice.errors(each, size)) for _, size, each in cells(full)]
            row.append(f"{np.mean(errors):.2f}")
        rows.append(row)
    title = (
        f"squared loss, mean error over {len(full) * len(SIZES)} cells with gradients;\n"
        "in hindsight: one setting for all draws of a cell"
    )
    print(table(title, ["chosen by", *FAMILIES, "any", LINEAR], rows, key="families"))


# -- checks ---------------------------------------------------------------------------------------


def check(data: Rows, scaling: str) -> list[str]:
    """Compare the folded kernels with fitted estimators, on a draw of 30 labels."""
    X, y = SCALINGS[scaling](data[0]), data[1]
    sigma, C = float(np.median(pdist(X))), 10.0
    [(_, draw), *_] = draws_of(y, 1)
    rows, every = draw.labeled, np.arange(len(y))
    known = np.zeros(len(y), dtype=int)
    known[rows] = y[rows]
    common = {"C": C, "bias": True, "tol": 1e-6, "unlabeled": 0}
    flat = Flat(X, sigma, None)
    flat.add(rows)
    width = Width(X, sigma, 1.0, rows)
    lines = []

    def line(name: str, found: np.ndarray, wanted: np.ndarray) -> None:
        lines.append(f"{name}: largest difference {np.max(np.abs(found - wanted)):.1e}")

    def scores(one: Table, fit: Fit) -> np.ndarray:
        return fit(one.among(rows), y[rows], one.between(every, rows))[:, CS.index(C)]

    one = list(width.gradients(flat))[1]
    for fit in (hinge, squared):
        model = RepresenterClassifier(
            Gaussian(sigma), invariances=[Gradient()], loss=fit.__name__, nu=one.nu, **common
        ).fit(X, known)
        line(f"scores, gradients {fit.__name__}", scores(one, fit), model.decision_function(X))
    folded = Folded(Gaussian(sigma), [Gradient().bind(X)], one.nu)
    line("kernel, Folded", one.values, folded.matrix(X, X[rows]))
    one = next(width.graph())
    lap = LapSVC(Gaussian(sigma), n_neighbors=NEIGHBORS[0], nu=one.nu, **common)
    line("scores, LapSVM", scores(one, hinge), lap.fit(X, known).decision_function(X))
    one, noise = next(width.averages()), LocalAverage(0.5 * sigma / np.sqrt(X.shape[1]))
    folded = Folded(Gaussian(sigma), [noise.bind(X)], one.nu)
    ridge = OrbitRidge(folded, alphas=0.5 / np.array(CS)).fit(X[rows], y[rows])
    left_out = Squares(one.among(rows), y[rows]).left_out()
    line("squared errors of rows left out, OrbitRidge", left_out, ridge.leave_one_out_errors_)
    return lines


# Of the picture: each less a plain SVM, whose width is chosen if the other's is.
COMPARED = {
    "gradients, hinge": (PRESCRIBED["gradients, hinge"], PRESCRIBED["SVC"]),
    "gradients, squared": (PRESCRIBED["gradients, squared"], PRESCRIBED["SVC"]),
    "averages, rows left out": (AVERAGES, RIVALS["SVC"]),
}


def differences(found: Found) -> dict[str, Any]:
    """Return error minus that of SVC by number of labels: mean and p of the t-test."""
    content: dict[str, Any] = {}
    for size in SIZES:
        for method, (choice, svm) in COMPARED.items():
            own = choice.errors(found, size)
            if len(own):
                less = own - svm.errors(found, size)
                shown = {"mean": round(float(np.mean(less)), 2), "p": round(p_of(less), 3)}
                content.setdefault(str(size), {})[method] = shown
    return content


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_option(parser, "uci/ and chapelle_ssl/")
    parser.add_argument("--sets", default=",".join(FILES), help="names with commas (default: all)")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--scaling", choices=SCALINGS, default="standardized")
    parser.add_argument("--cache", type=Path, help="a folder to keep what is done in")
    parser.add_argument("--no-gradients", action="store_true", help="leave out gradients")
    add_record_option(parser)
    options = parser.parse_args()
    options.sets = options.sets.split(",")
    if unknown := set(options.sets) - set(FILES):
        parser.error(f"--sets: no {sorted(unknown)}, only {', '.join(FILES)}")
    return options


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n")
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    data = {}
    for name in options.sets:
        if (options.data / FILES[name]).is_file():
            data[name] = load(options.data, name)
        else:
            print(f"{name} is left out: {options.data / FILES[name]} is absent\n")
    if not data:
        return
    smallest = min(data, key=lambda name: len(data[name][0]))
    if len(data[smallest][0]) <= LARGE:
        print("\n".join([f"{smallest}, 30 labels, C 10", *check(data[smallest], options.scaling), ""]))
    results = {name: compare(name, rows, options) for name, rows in data.items()}
    for show in (print_errors, print_tests, print_choices, print_summary, print_families):
        show(results)
    less = {name: differences(found) for name, found in results.items()}
    write_record(
        options.record,
        "heart, bupa, ionosphere (UCI); BCI, g241c, USPS (Chapelle et al. 2006); g50c",
        seeds=f"{options.draws} draws of labels",
        differences=less,
    )


if __name__ == "__main__":
    main()
