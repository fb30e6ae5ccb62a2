"""Semi-supervised learning with smoothness penalties (Zhang et al. 2013).

All parameters are chosen by the labeled rows alone, by the errors of 5 stratified folds, the same for
all methods. Ties go to the first of the grid: the simplest family, the prescribed length scale, the
weakest penalty and the smallest C. Weights are ``nu = c / (n s)`` with s the mean squared norm of the
functionals. Penalties are folded into the kernel. The protocol is in `docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import io
import lzma
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from digits import Rows
from report import parser_of, table, versions, write_record
from scipy.io import loadmat
from scipy.linalg import eigh, helmert
from scipy.spatial.distance import pdist
from scipy.stats import ttest_rel
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from structinv.functionals import (
    Evaluation,
    Folded,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    Tangents,
)
from structinv.kernels import Gaussian
from structinv.oracles import LocalTangents

CHAPELLE = {"BCI": 4, "g241c": 5, "USPS": 2}
FILES = {
    "heart": Path("uci", "heart.dat"),
    "bupa": Path("uci", "bupa.data"),
    "ionosphere": Path("uci", "ionosphere.csv"),
    **{name: Path("chapelle_ssl", f"SSL,set={number},data.mat.xz") for name, number in CHAPELLE.items()},
    "g50c": Path("chapelle_ssl", "g50c.mat.xz"),
}
# Local averages chosen by rows left out were selected after their errors on these sets were known.
PICKED_ON = ("heart", "bupa", "ionosphere", "BCI")
HEADERS = {"heart": 1, "bupa": 1}
# Table 1 of the paper: SVM, LapSVM and InvSVM at 30, 60 and 90 labels.
PAPER = {
    "heart": ((23.5, 21.4, 20.0), (23.2, 22.7, 20.7), (22.3, 20.2, 19.6)),
    "bupa": ((36.2, 37.9, 36.9), (36.6, 40.7, 37.1), (38.2, 35.4, 35.2)),
    "ionosphere": ((12.5, 8.71, 7.17), (14.9, 9.05, 7.66), (7.58, 7.90, 7.02)),
    "BCI": ((44.6, 39.0, 34.6), (44.8, 45.4, 36.1), (45.3, 38.4, 32.7)),
    "g241c": ((32.9, 27.1, 24.8), (37.1, 28.4, 29.7), (33.1, 26.4, 23.4)),
    "USPS": ((14.9, 12.6, 11.3), (15.3, 12.3, 11.1), (15.4, 12.2, 11.3)),
}
SIZES = (30, 60, 90)
FACTORS = (1.0, 2.0, 0.5, 0.25)
CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
PLAIN, GRADIENT, TANGENTS, AVERAGE, GRAPH = "plain", "gradient", "tangents", "average", "graph"
FAMILIES = (PLAIN, GRADIENT, TANGENTS, AVERAGE, GRAPH)
LINEAR = "linear"
DERIVATIVE_CS = (0.1, 1.0, 10.0, 100.0)
OTHER_CS = (0.1, 10.0, 1e3, 1e5)
NEIGHBORS = (5, 10)
LARGE = 1000  # rows, from which gradients have the median length scale alone
AFFINITIES = (1.0, 10.0, 100.0)
ALPHAS = (0.2, 0.8, 0.99)
N_FOLDS = 5
FOLDS, LEFT_OUT = "folds", "rows left out"


def load(folder: Path, name: str) -> Rows:
    """Load standardized rows and labels -1 and +1."""
    path = folder / FILES[name]
    if path.suffix == ".xz":
        with lzma.open(path) as file:
            content = loadmat(io.BytesIO(file.read()))
        X, y = content["X"].astype(np.float64), content["y"].ravel().astype(int)
    else:
        cells = np.loadtxt(path, delimiter=",", skiprows=HEADERS.get(name, 0), dtype=str)
        X, y = cells[:, :-1].astype(np.float64), np.where(cells[:, -1] == cells[0, -1], 1, -1)
    return StandardScaler().fit_transform(X), y


def draw_labeled(y: np.ndarray, seed: int) -> np.ndarray:
    """Rows in the order in which they get labels, both classes among the first."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(y))[: max(SIZES)]
        if len(np.unique(y[order[: SIZES[0]]])) == 2:
            return order


@dataclass
class Table:
    """Values of a folded kernel between all rows and some; `places` has the column of each row."""

    family: str
    factor: float
    name: str
    values: np.ndarray
    places: np.ndarray

    def between(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Values between rows and rows among the columns."""
        return self.values[np.ix_(rows, self.places[columns])]

    def among(self, rows: np.ndarray) -> np.ndarray:
        """Values among rows, symmetric."""
        square = self.between(rows, rows)
        return (square + square.T) / 2


def all_tables(X: np.ndarray, columns: np.ndarray, gradients: Sequence[float]) -> Iterator[Table]:
    """Tables of all families and length scales, the simplest first."""
    median = float(np.median(pdist(X)))
    places = np.full(len(X), -1)
    places[columns] = np.arange(len(columns))
    for family in FAMILIES:
        for factor in gradients if family == GRADIENT else FACTORS:
            kernel = Gaussian(factor * median)
            plain = kernel.matrix(X, X)
            for name, less in folded(family, X, kernel, plain, columns):
                full = f"{family}, width {factor:g}{name}"
                yield Table(family, factor, full, plain[:, columns] - less, places)
    products = X @ X[columns].T / np.mean(np.sum(X**2, axis=1))
    yield Table(LINEAR, 1.0, LINEAR, products, places)


def folded(
    family: str, X: np.ndarray, kernel: Gaussian, plain: np.ndarray, columns: np.ndarray
) -> Iterator[tuple[str, Any]]:
    """What each weight of a penalty subtracts from the columns of the kernel matrix."""
    if family == PLAIN:
        yield "", 0.0
    elif family == GRADIENT:
        Z = X.astype(np.float32) if len(X) > LARGE else X
        for c in DERIVATIVE_CS:
            nu = c * kernel.sigma**2 / len(X)
            tol = 1e-4 if len(X) > LARGE else 1e-6
            penalized = Folded(kernel, [Gradient().bind(Z)], nu, tol=tol)
            yield f", c {c:g}", plain[:, columns] - penalized.matrix(Z, Z[columns])
    elif family == GRAPH:
        for neighbors in NEIGHBORS:
            # The penalty of LapSVC as n functionals with the same sum of squares.
            [edges] = GraphLaplacian(neighbors).bind(X).parts(kernel)
            values, vectors = np.linalg.eigh((edges.mix.T @ edges.mix).toarray())
            root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
            seen = root @ plain
            yield from of_gram(f", {neighbors} near", seen @ root.T, seen, edges.size, columns)
    else:
        noise = LocalAverage(0.5 * kernel.sigma / np.sqrt(X.shape[1]))
        bound = (noise if family == AVERAGE else Tangents(LocalTangents(X))).bind(X)
        gram, seen = bound.gram(kernel), bound.gram(kernel, Evaluation().bind(X))
        yield from of_gram("", gram, seen, len(gram), columns)


def of_gram(
    name: str, gram: np.ndarray, seen: np.ndarray, n_functionals: int, columns: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """All weights, by the eigenvectors of the Gram matrix."""
    scale = seen.shape[1] * float(np.trace(gram)) / n_functionals
    values, vectors = eigh(gram, driver="evd", check_finite=False)
    turned = vectors.T @ seen
    for c in OTHER_CS:
        shifted = np.maximum(values, 0.0)[:, None] + 0.5 * scale / c
        yield f"{name}, c {c:g}", turned.T @ (turned[:, columns] / shifted)


@dataclass
class Setting:
    """Family, length scale, weight and C, with scores and the error in percent."""

    family: str
    factor: float
    name: str
    scores: dict[str, float]
    error: float


@dataclass
class Squares:
    """``1/2 |f|^2 + C sum (y - f)^2`` with a free constant, for all C at once.

    Coefficients sum to zero and are ``P y``, where P is the inverse of ``K + I / (2 C)`` on vectors of
    zero sum.
    """

    kernel: np.ndarray
    y: np.ndarray
    shifts: np.ndarray = field(default_factory=lambda: 0.5 / np.array(CS))

    def __post_init__(self) -> None:
        frame = helmert(len(self.y))
        values, vectors = np.linalg.eigh(frame @ self.kernel @ frame.T)
        self.shifted = np.maximum(values, 0.0)[:, None] + self.shifts
        self.basis = frame.T @ vectors
        self.coefficients = self.basis @ ((self.basis.T @ self.y)[:, None] / self.shifted)
        self.constants = np.mean(self.y[:, None] - self.kernel @ self.coefficients, axis=0)

    def left_out(self) -> np.ndarray:
        """Return the leave-one-out mean squared error of each C."""
        own = self.basis**2 @ (1.0 / self.shifted)
        return np.mean((self.coefficients / own) ** 2, axis=0)


def wrong(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the number of wrong signs per column."""
    return np.sum(np.where(scores >= 0, 1, -1) != y[:, None], axis=0)


def hinge(kernel: np.ndarray, y: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Scores of other rows for each C, by support vector machines."""
    if len(np.unique(y)) == 1:
        return np.full((len(across), len(CS)), float(y[0]))
    columns = []
    for C in CS:
        svc = SVC(kernel="precomputed", C=C, tol=1e-4).fit(kernel, y)
        columns.append(across[:, svc.support_] @ svc.dual_coef_[0] + svc.intercept_[0])
        if np.max(np.abs(svc.dual_coef_)) < 0.999 * C:
            # No bound is active, so larger C have the same model.
            columns += columns[-1:] * (len(CS) - len(columns))
            break
    return np.column_stack(columns)


def squared(kernel: np.ndarray, y: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Scores of other rows for each C, by least squares."""
    fitted = Squares(kernel, y)
    return across @ fitted.coefficients + fitted.constants


Fit = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Draw:
    """Labeled rows, their folds (places among them), and all other rows."""

    y: np.ndarray
    labeled: np.ndarray
    seed: int

    def __post_init__(self) -> None:
        self.own = self.y[self.labeled]
        self.others = np.setdiff1d(np.arange(len(self.y)), self.labeled)
        split = StratifiedKFold(N_FOLDS, shuffle=True, random_state=self.seed)
        self.folds = list(split.split(self.labeled, self.own))

    def machine(self, tables: Sequence[Table], fit: Fit) -> list[Setting]:
        """Fit a model for every kernel and C."""
        found = []
        for one in tables:
            kernel, across = one.among(self.labeled), one.between(self.others, self.labeled)
            errors = wrong(fit(kernel, self.own, across), self.y[self.others]) / len(self.others)
            folds = sum(
                wrong(fit(kernel[np.ix_(train, train)], self.own[train], kernel[np.ix_(held, train)]),
                      self.own[held])
                for train, held in self.folds
            )  # fmt: skip
            scores = {FOLDS: folds}
            if fit is squared:
                scores[LEFT_OUT] = Squares(kernel, self.own).left_out()
            for place, C in enumerate(CS):
                own = {criterion: float(each[place]) for criterion, each in scores.items()}
                name = f"{one.name}, C {C:g}"
                found.append(Setting(one.family, one.factor, name, own, 100 * float(errors[place])))
        return found

    def spreading(self, affinities: dict[float, np.ndarray]) -> list[Setting]:
        """LabelSpreading with every affinity and alpha."""
        found = []
        for factor, affinity in affinities.items():
            for alpha in ALPHAS:
                folds = sum(
                    self._spread(affinity, alpha, self.labeled[train], self.labeled[held])
                    for train, held in self.folds
                )
                error = self._spread(affinity, alpha, self.labeled, self.others) / len(self.others)
                name = f"gamma {factor:g}, alpha {alpha:g}"
                found.append(Setting("spreading", factor, name, {FOLDS: folds}, 100 * error))
        return found

    def _spread(self, affinity: np.ndarray, alpha: float, rows: np.ndarray, asked: np.ndarray) -> float:
        """Return the number of wrong labels of the requested rows."""
        known = np.full(len(self.y), -1)  # what scikit-learn takes for no label
        known[rows] = self.y[rows] > 0
        model = LabelSpreading(kernel=lambda X, Y=None: affinity.copy(), alpha=alpha)
        model.fit(np.zeros((len(self.y), 1)), known)
        return float(np.sum((model.transduction_[asked] > 0) != (self.y[asked] > 0)))

    def self_training(self, X: np.ndarray, median: float, like: Setting) -> list[Setting]:
        """SelfTrainingClassifier around a calibrated SVC of a setting's width and C."""
        known = np.full(len(self.y), -1)
        known[self.labeled] = self.own > 0
        fewest = min(np.sum(known == 0), np.sum(known == 1))
        C = float(like.name.split(" C ")[1])
        machine = SVC(gamma=0.5 / (like.factor * median) ** 2, C=C)
        split = StratifiedKFold(max(2, min(N_FOLDS, fewest)), shuffle=True, random_state=self.seed)
        model = SelfTrainingClassifier(CalibratedClassifierCV(machine, cv=split, ensemble=False))
        model.fit(X, known)
        error = np.mean(model.predict(X[self.others]) != (self.y[self.others] > 0))
        return [Setting("self-training", like.factor, like.name, {FOLDS: 0.0}, 100 * float(error))]


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
RIVALS = {
    "SVC": Choice("hinge", (PLAIN,)),
    "LapSVC": Choice("hinge", (GRAPH,)),
    "LabelSpreading": SPREADING,
    "SelfTraining": Choice("self-training, widths", ("self-training",)),
    "linear SVM": Choice("hinge", (LINEAR,)),
}
CANDIDATES = {
    "any, folds": Choice("squared", FAMILIES),
    "averages, rows left out": Choice("squared", (PLAIN, AVERAGE), FACTORS, LEFT_OUT),
}
# Of the picture: each less a plain SVM, whose width is chosen if the other's is.
COMPARED = {
    "gradients, hinge": (PRESCRIBED["gradients, hinge"], PRESCRIBED["SVC"]),
    "gradients, squared": (PRESCRIBED["gradients, squared"], PRESCRIBED["SVC"]),
    "averages, rows left out": (CANDIDATES["averages, rows left out"], RIVALS["SVC"]),
}


def compare(name: str, X: np.ndarray, y: np.ndarray, n_draws: int, no_gradients: bool) -> Found:
    """All methods on all draws of a set, by (seed, number of labels)."""
    start = time.perf_counter()
    orders = [draw_labeled(y, seed) for seed in range(n_draws)]
    gradients = () if no_gradients else FACTORS[:1] if len(X) > LARGE else FACTORS
    tables = list(all_tables(X, np.unique(np.concatenate(orders)), gradients))
    by_hinge = [one for one in tables if one.family in (PLAIN, GRAPH) or one.factor == 1.0]
    by_hinge = [one for one in by_hinge if one.family in (PLAIN, GRADIENT, GRAPH, LINEAR)]
    median = float(np.median(pdist(X)))
    squares = np.add.outer(np.sum(X**2, axis=1), np.sum(X**2, axis=1)) - 2 * X @ X.T
    affinities = {one: np.exp(-0.5 * one * np.maximum(squares, 0) / median**2) for one in AFFINITIES}
    found: Found = {}
    for seed, order in enumerate(orders):
        for size in SIZES:
            draw = Draw(y, np.sort(order[:size]), seed)
            settings: Settings = {
                "hinge": draw.machine(by_hinge, hinge),
                "squared": draw.machine(tables, squared),
                "spreading": draw.spreading(affinities),
            }
            for machine, like in (("", PRESCRIBED["SVC"]), (", widths", RIVALS["SVC"])):
                chosen = like.chosen(settings)
                settings[f"self-training{machine}"] = draw.self_training(X, median, chosen)
            found[seed, size] = settings
        print(f"{name}, draw {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return found


def cells(results: dict[str, Found]) -> Iterator[tuple[str, int, Found]]:
    """All sets and numbers of labels."""
    for name, found in results.items():
        for size in SIZES:
            yield name, size, found


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
    title = "Error on rows without a label, %: mean ± standard deviation of 10 draws (in the paper)"
    print(table(title, ["set, labeled rows", *PRESCRIBED], rows, key="prescribed"))


def print_tests(results: dict[str, Found]) -> None:
    """Print gradients minus SVC, at the prescribed length scale."""
    rows = []
    for name, size, found in cells(results):
        row = [f"{name}, {size}"]
        for loss in ("hinge", "squared"):
            own = PRESCRIBED[f"gradients, {loss}"].errors(found, size)
            if len(own):
                less = own - PRESCRIBED["SVC"].errors(found, size)
                row += [f"{np.mean(less):+.1f}", f"{p_of(less):.3f}"]
        if len(row) > 1:
            rows.append(row)
    heads = [f"{loss} - SVC{label}" for loss in ("hinge", "squared") for label in ("", ", t-test")]
    title = "Error minus that of SVC on the same draw, points, with p values of the paired t-test"
    print(table(title, ["set, labeled rows", *heads], rows, key="tests"))


def mark(less: np.ndarray) -> str:
    """Return + for lower and - for higher errors by the paired t-test, else a dot."""
    return "." if p_of(less) >= 0.05 else "+" if np.mean(less) < 0 else "-"


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
    groups = (
        ("selection", "Data sets of the selection", known),
        ("apart", "All other data sets", apart),
    )
    for key, title, group in groups:
        rows = []
        for candidate, choice in CANDIDATES.items():
            same = Choice("squared", (PLAIN,), FACTORS, choice.criterion)
            for other, competitor in {**RIVALS, "no penalty, same criterion": same}.items():
                less = [
                    choice.errors(each, size) - competitor.errors(each, size)
                    for _, size, each in cells(group)
                ]
                means, marks = np.array([np.mean(one) for one in less]), [mark(one) for one in less]
                counts = (np.sum(means < 0), np.sum(means > 0), marks.count("+"), marks.count("-"))
                rows.append([f"{candidate} - {other}", f"{np.mean(means):+.2f}", *counts])
        head = ["difference", "mean, points", "lower", "higher", "lower, p < 0.05", "higher, p < 0.05"]
        if group:
            n_cells = len(group) * len(SIZES)
            what = f"mean difference of errors, points, and numbers of the {n_cells} cells"
            print(table(f"{title}: {what}", head, rows, key))


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
    parser = parser_of(__doc__, data="uci/ and chapelle_ssl/")
    parser.add_argument("--sets", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--no-gradients", action="store_true", help="leave out gradients")
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n")
    results = {
        name: compare(name, *load(options.data, name), options.draws, options.no_gradients)
        for name in options.sets
    }
    for show in (print_errors, print_tests, print_choices, print_summary):
        show(results)
    write_record(
        options.record,
        "heart, bupa, ionosphere (UCI); BCI, g241c, USPS (Chapelle et al. 2006); g50c",
        seeds=f"{options.draws} draws of labels",
        differences={name: differences(found) for name, found in results.items()},
    )


if __name__ == "__main__":
    main()
