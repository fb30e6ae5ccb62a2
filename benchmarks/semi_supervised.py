"""Few labels and many rows: machines told to be flat (Zhang, Lee and Teh 2013, section 6.2, table 1).

Protocol. Rows are scaled to unit length; the kernel is Gaussian, its width the median distance of two
rows. Of all n rows, l = 30, 60 or 90 drawn at random have a label (the first l of a permutation by seed
0, 1, ..., both classes among the first 30; a smaller draw is part of the larger one of its seed, and all
methods have the same). All rows are known as inputs. The error is that on the rows without a label. All
parameters are chosen by 5 stratified folds of the labelled rows alone, the same folds for all methods;
of equal counts the first of the grid wins: the weakest penalty, then the smallest C. Figures are means
over the draws with their standard deviations.

Methods, with C in {0.1, 1, 10, 100, 1000} on the sum of the losses and an unpenalised constant:

- SVM: hinge loss, plain kernel, labelled rows only.
- LapSVM: hinge loss and ``nu f'Lf`` over a graph of 5 or 10 nearest neighbours with edges of weight 1;
  nu is c over the number of edges, c in {1, 10, 100, 1000}.
- InvSVM, hinge and squared: nu times the sum of squares of all partial derivatives at all rows; nu is
  ``c sigma^2 / n``, sigma the kernel's width, c in {0.1, 1, 10, 100}.
- LabelSpreading of scikit-learn: Gaussian affinity with gamma in {1, 10, 100} / (2 sigma^2), alpha in
  {0.2, 0.8, 0.99}.
- SelfTraining of scikit-learn around a calibrated SVC, threshold 0.75 and 10 rounds at most; C is that
  chosen for SVM (by its folds), since folds of its own would cost more than all the rest.

Derivatives and differences do not see constants, so that the squared penalties fold into the kernel
(`Folded`) and any machine with a constant can follow. The folded kernel depends on neither labels nor C:
its columns of all rows that have a label in some draw are computed once. For derivatives the equations
of all nu share their Krylov space (``(G + t I) c = z`` with several t), to a relative residual of 1e-6,
and of 1e-4 in float32 for sets of more than 1000 rows; for graphs there is ``(I + 2 nu K L)^-1 K``. The
first lines that are printed compare this with `RepresenterClassifier`, `LapSVC` and `Folded`.

For ionosphere, a second table varies the protocol, since the paper reports 7.6, 7.9 and 7.0 per cent for
InvSVM there. "Oracle" means chosen by the errors that are reported; such figures are no estimates.

With ``--cache`` the columns stay in a folder, and a stopped run goes on. USPS takes half an hour,
g241c seven minutes, all other sets two together; what remains is a quarter of an hour.
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
from digits import Rows, add_data_option, require
from report import table, versions, write_json
from scipy.io import loadmat
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from scipy.stats import ttest_rel, wilcoxon
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from structinv import LapSVC, RepresenterClassifier
from structinv.functionals import Folded, Gradient, GraphLaplacian
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian

CHAPELLE = {"BCI": 4, "g241c": 5, "USPS": 2}
FILES = {
    "heart": Path("uci", "heart.dat"),
    "bupa": Path("uci", "bupa.data"),
    "ionosphere": Path("uci", "ionosphere.csv"),
    **{name: Path("chapelle_ssl", f"SSL,set={number},data.mat.xz") for name, number in CHAPELLE.items()},
}
SIZES = (30, 60, 90)
CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
DERIVATIVE_CS = (0.1, 1.0, 10.0, 100.0)
GRAPH_CS = (1.0, 10.0, 100.0, 1000.0)
NEIGHBORS = (5, 10)
AFFINITIES = (1.0, 10.0, 100.0)
ALPHAS = (0.2, 0.8, 0.99)
FACTORS = (0.25, 0.5, 1.0, 2.0)
WIDE_CS, WIDE = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4), (0.1, 1.0, 10.0, 100.0, 1e3)
N_FOLDS = 5
LARGE = 1000
MOST_STEPS = 400

Fit = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray, float]]


# -- data -----------------------------------------------------------------------------------------


def load(folder: Path, name: str) -> Rows:
    """Rows as they are, and labels -1 and +1."""
    require(folder, FILES[name])
    path = folder / FILES[name]
    if name in CHAPELLE:
        with lzma.open(path) as file:
            content = loadmat(io.BytesIO(file.read()))
        return content["X"].astype(np.float64), content["y"].ravel().astype(int)
    header = 0 if name == "ionosphere" else 1
    cells = np.loadtxt(path, delimiter=",", skiprows=header, dtype=str)
    return cells[:, :-1].astype(np.float64), np.where(cells[:, -1] == cells[0, -1], 1, -1)


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Rows of length 1; rows of zeros stay."""
    sizes = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(sizes > 0, sizes, 1.0)


def standardised(X: np.ndarray) -> np.ndarray:
    """Features of mean 0 and deviation 1; constant ones are 0."""
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def draw_labelled(y: np.ndarray, seed: int, largest: int) -> np.ndarray:
    """Rows in the order in which they get labels, both classes among the first."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(y))[:largest]
        if len(np.unique(y[order[: SIZES[0]]])) == 2:
            return order


# -- folded kernels -------------------------------------------------------------------------------


@dataclass
class Table:
    """Columns of a kernel's matrix: values between all rows and some."""

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


def places_of(columns: np.ndarray, n: int) -> np.ndarray:
    """Where each row is among the columns, -1 if it is not."""
    places = np.full(n, -1)
    places[columns] = np.arange(len(columns))
    return places


def shared_solutions(
    representers: Representers, right: np.ndarray, shifts: np.ndarray, tol: float
) -> np.ndarray:
    """``(G + t I) c = right`` for several t from one Krylov space (Lanczos), a column each."""
    norm = float(np.linalg.norm(right))
    basis, diagonal, beside = [right / norm], [], []
    before = np.zeros_like(right)
    for _ in range(MOST_STEPS):
        moved = representers.apply(basis[-1]) - (beside[-1] if beside else 0.0) * before
        diagonal.append(float(basis[-1] @ moved))
        moved -= diagonal[-1] * basis[-1]
        beside.append(float(np.linalg.norm(moved)))
        size = len(diagonal)
        small = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
        goal = np.zeros(size)
        goal[0] = norm
        found = [np.linalg.solve(small + shift * np.eye(size), goal) for shift in shifts]
        if all(beside[-1] * abs(each[-1]) <= tol * norm for each in found):
            return np.column_stack(basis) @ np.column_stack(found)
        before = basis[-1]
        basis.append(moved / beside[-1])
    raise ValueError(f"not solved to {tol:g} after {MOST_STEPS} steps")


class Flat:
    """Gaussian kernels with squared gradients folded in, for several weights; columns are kept."""

    def __init__(
        self, X: np.ndarray, sigma: float, cs: Sequence[float], cache: Path | None, name: str
    ) -> None:
        large = len(X) > LARGE
        self.X = X.astype(np.float32) if large else X
        self.tol = 1e-4 if large else 1e-6
        self.kernel, self.cs = Gaussian(sigma), cs
        self.nus = np.array(cs) * sigma**2 / len(X)
        self.file = cache / f"{name}.npz" if cache else None
        self.known: dict[int, np.ndarray] = {}
        if self.file and self.file.is_file():
            with np.load(self.file) as kept:
                if np.allclose(kept["nus"], self.nus):
                    self.known = dict(zip(kept["rows"].tolist(), kept["columns"], strict=True))

    def add(self, rows: np.ndarray) -> None:
        """Compute what is subtracted from the kernel's columns of these rows."""
        new = [int(row) for row in rows if int(row) not in self.known]
        if not new:
            return
        parts = Gradient().bind(self.X).parts(self.kernel)
        representers = Representers(self.kernel, [parts])
        for row in new:
            right = representers.on_points(self.X[row : row + 1], np.ones(1))
            found = shared_solutions(representers, right, 0.5 / self.nus, self.tol)
            self.known[row] = representers.values(found, self.X).T
        if self.file:
            rows = np.array(list(self.known))
            np.savez(self.file, nus=self.nus, rows=rows, columns=np.array(list(self.known.values())))

    def tables(self, columns: np.ndarray) -> list[Table]:
        """A table for each weight."""
        self.add(columns)
        plain = self.kernel.matrix(self.X, self.X[columns]).astype(np.float64)
        places = places_of(columns, len(self.X))
        return [
            Table(
                f"c {c:g}", plain - np.array([self.known[row][i] for row in columns.tolist()]).T, places
            )
            for i, c in enumerate(self.cs)
        ]


def plain_table(X: np.ndarray, sigma: float, columns: np.ndarray) -> list[Table]:
    """The kernel as it is."""
    return [Table("plain", Gaussian(sigma).matrix(X, X[columns]), places_of(columns, len(X)))]


def graph_tables(X: np.ndarray, sigma: float, columns: np.ndarray) -> list[Table]:
    """The kernel with the penalty of LapSVM folded in."""
    kernel, tables = Gaussian(sigma), []
    plain = kernel.matrix(X, X)
    for c in GRAPH_CS:
        for neighbors in NEIGHBORS:
            [edges] = GraphLaplacian(neighbors).bind(X).parts(kernel)
            penalty = (2 * c / edges.size) * (edges.mix.T @ edges.mix)
            folded = np.linalg.solve(np.eye(len(X)) + (penalty @ plain).T, plain[:, columns])
            tables.append(Table(f"c {c:g}, {neighbors} near", folded, places_of(columns, len(X))))
    return tables


# -- machines -------------------------------------------------------------------------------------


def hinge(kernel: np.ndarray, y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Support vectors, their coefficients and the constant."""
    svc = SVC(kernel="precomputed", C=C, tol=1e-4).fit(kernel, y)
    return svc.support_, svc.dual_coef_[0], float(svc.intercept_[0])


def squared(kernel: np.ndarray, y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray, float]:
    """``1/2 |f|^2 + C sum (y - f)^2`` with a free constant."""
    n = len(y)
    sides = np.column_stack([y, np.ones(n)])
    by_labels, by_ones = np.linalg.solve(kernel + np.eye(n) / (2 * C), sides).T
    constant = float(by_labels.sum() / by_ones.sum())
    return np.arange(n), by_labels - constant * by_ones, constant


def hinge_alone(kernel: np.ndarray, y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Hinge loss without a constant, by its dual in a box."""
    signed = kernel * np.outer(y, y)

    def dual(beta: np.ndarray) -> tuple[float, np.ndarray]:
        moved = signed @ beta
        return float(beta @ moved / 2 - beta.sum()), moved - 1

    start = np.zeros(len(y))
    found = minimize(dual, start, jac=True, method="L-BFGS-B", bounds=[(0, C)] * len(y))
    return np.arange(len(y)), found.x * y, 0.0


def squared_alone(kernel: np.ndarray, y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Squared loss without a constant."""
    return np.arange(len(y)), np.linalg.solve(kernel + np.eye(len(y)) / (2 * C), y), 0.0


def guesses(one: Table, rows: np.ndarray, asked: np.ndarray, y: np.ndarray, fit: Fit, C: float) -> Any:
    """Predicted labels of rows that are asked for."""
    if len(np.unique(y[rows])) == 1:
        return np.full(len(asked), y[rows[0]])
    used, coefficients, constant = fit(one.among(rows), y[rows], C)
    return np.where(one.between(asked, rows[used]) @ coefficients + constant >= 0, 1, -1)


@dataclass
class Grid:
    """Errors of all settings of a method on a draw: of the folds, and on the rows without a label."""

    names: list[str] = field(default_factory=list)
    folds: list[float] = field(default_factory=list)
    test: list[float] = field(default_factory=list)

    def add(self, name: str, folds: float, test: float) -> None:
        """One more setting."""
        self.names.append(name)
        self.folds.append(folds)
        self.test.append(test)

    @property
    def chosen(self) -> int:
        """The setting that the folds choose."""
        return int(np.argmin(np.round(self.folds, 9)))

    def plain(self) -> dict[str, Any]:
        """For a file."""
        return {"chosen": self.names[self.chosen], "error": self.test[self.chosen]}


Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Draw:
    """Labelled rows, their folds, and all other rows."""

    y: np.ndarray
    labelled: np.ndarray
    seed: int

    def __post_init__(self) -> None:
        self.others = np.setdiff1d(np.arange(len(self.y)), self.labelled)
        split = StratifiedKFold(N_FOLDS, shuffle=True, random_state=self.seed)
        pairs = split.split(self.labelled, self.y[self.labelled])
        self.folds = [(self.labelled[train], self.labelled[held]) for train, held in pairs]

    def judge(self, predict: Predict) -> tuple[float, float]:
        """Errors in per cent of a method (labelled rows, rows asked for): folds, other rows."""
        wrong = [np.sum(predict(train, held) != self.y[held]) for train, held in self.folds]
        test = np.mean(predict(self.labelled, self.others) != self.y[self.others])
        return 100 * float(np.sum(wrong)) / len(self.labelled), 100 * float(test)

    def machine(self, tables: Sequence[Table], fit: Fit, cs: Sequence[float] = CS) -> Grid:
        """A machine with every kernel and C."""
        grid = Grid()
        for one in tables:
            for C in cs:
                errors = self.judge(
                    lambda rows, asked, one=one, C=C: guesses(one, rows, asked, self.y, fit, C)
                )
                grid.add(f"{one.name}, C {C:g}", *errors)
        return grid

    def spreading(self, affinities: dict[float, np.ndarray]) -> Grid:
        """LabelSpreading with every affinity and alpha."""
        grid = Grid()
        for factor, affinity in affinities.items():
            for alpha in ALPHAS:
                errors = self.judge(
                    lambda rows, asked, matrix=affinity, alpha=alpha: self._spread(
                        matrix, alpha, rows, asked
                    )
                )
                grid.add(f"gamma {factor:g}, alpha {alpha:g}", *errors)
        return grid

    def _spread(self, affinity: np.ndarray, alpha: float, rows: np.ndarray, asked: np.ndarray) -> Any:
        known = np.full(len(self.y), -1)  # what scikit-learn takes for no label
        known[rows] = self.y[rows] > 0
        model = LabelSpreading(kernel=lambda X, Y=None: affinity.copy(), alpha=alpha)
        model.fit(np.zeros((len(self.y), 1)), known)
        return np.where(model.transduction_[asked] > 0, 1, -1)

    def self_training(self, X: np.ndarray, sigma: float, C: float) -> float:
        """Error of SelfTrainingClassifier around a calibrated SVC."""
        known = np.full(len(self.y), -1)
        known[self.labelled] = self.y[self.labelled] > 0
        fewest = min(np.sum(known == 0), np.sum(known == 1))
        machine = SVC(gamma=0.5 / sigma**2, C=C)
        split = StratifiedKFold(max(2, min(N_FOLDS, fewest)), shuffle=True, random_state=self.seed)
        model = SelfTrainingClassifier(CalibratedClassifierCV(machine, cv=split, ensemble=False))
        model.fit(X, known)
        right = model.predict(X[self.others]) == (self.y[self.others] > 0)
        return 100 * float(1 - np.mean(right))


# -- runs -----------------------------------------------------------------------------------------

METHODS = ("SVM", "LapSVM", "InvSVM, hinge", "InvSVM, squared", "LabelSpreading", "SelfTraining")
Found = dict[tuple[int, int], dict[str, Any]]


def draws_of(y: np.ndarray, n_draws: int) -> Iterator[tuple[tuple[int, int], Draw]]:
    """All draws, by (seed, l)."""
    for seed in range(n_draws):
        order = draw_labelled(y, seed, max(SIZES))
        for size in SIZES:
            yield (seed, size), Draw(y, np.sort(order[:size]), seed)


def columns_of(y: np.ndarray, n_draws: int) -> np.ndarray:
    """Rows that have a label in some draw."""
    return np.unique(np.concatenate([draw.labelled for _, draw in draws_of(y, n_draws)]))


def compare(name: str, data: Rows, n_draws: int, cache: Path | None) -> Found:
    """All methods on all draws of a set."""
    start = time.perf_counter()
    X, y = unit_rows(data[0]), data[1]
    distances = pdist(X)
    sigma = float(np.median(distances))
    columns = columns_of(y, n_draws)
    flat = Flat(X, sigma, DERIVATIVE_CS, cache, name)
    for _, draw in draws_of(y, n_draws):
        flat.add(draw.labelled)
    tables = {
        "SVM": plain_table(X, sigma, columns),
        "LapSVM": graph_tables(X, sigma, columns),
        "InvSVM, hinge": flat.tables(columns),
    }
    folded = time.perf_counter() - start
    squares = np.add.outer(np.sum(X**2, axis=1), np.sum(X**2, axis=1)) - 2 * X @ X.T
    affinities = {one: np.exp(-0.5 * one * np.maximum(squares, 0) / sigma**2) for one in AFFINITIES}
    found: Found = {}
    for key, draw in draws_of(y, n_draws):
        grids = {method: draw.machine(own, hinge) for method, own in tables.items()}
        grids["InvSVM, squared"] = draw.machine(tables["InvSVM, hinge"], squared)
        grids["LabelSpreading"] = draw.spreading(affinities)
        C = CS[grids["SVM"].chosen]
        alone = Grid([f"C {C:g}"], [0.0], [draw.self_training(X, sigma, C)])
        found[key] = {**grids, "SelfTraining": alone}
    seconds = time.perf_counter() - start
    text = f"{name}: width {sigma:.3g}, {len(columns)} columns, {seconds:.0f} s, kernels {folded:.0f} s"
    print(text, file=sys.stderr, flush=True)
    return found


def errors_of(found: Found, size: int, method: str) -> np.ndarray:
    """Errors with the parameters that the folds choose, by draw."""
    grids = [grids[method] for (_, own), grids in found.items() if own == size]
    return np.array([grid.test[grid.chosen] for grid in grids])


def mean_and_deviation(errors: np.ndarray) -> str:
    """A cell of a table."""
    spread = f" ± {np.std(errors, ddof=1):.1f}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.1f}{spread}"


def print_errors(results: dict[str, Found]) -> None:
    """The paper's table 1."""
    rows = [
        [f"{name}, {size}", *(mean_and_deviation(errors_of(found, size, each)) for each in METHODS)]
        for name, found in results.items()
        for size in SIZES
    ]
    title = "error on the rows without a label, per cent, mean ± standard deviation over the draws"
    print(table(title, ["set, labelled rows", *METHODS], rows))


def tests_of(difference: np.ndarray) -> list[str]:
    """Mean difference, and p of the paired t-test and of Wilcoxon's."""
    if len(difference) < 2 or not np.any(difference):
        return [f"{np.mean(difference):+.1f}", "", ""]
    by_t = ttest_rel(difference, np.zeros(len(difference))).pvalue
    return [f"{np.mean(difference):+.1f}", f"{by_t:.3f}", f"{wilcoxon(difference).pvalue:.3f}"]


def print_tests(results: dict[str, Found]) -> None:
    """InvSVM against SVM and LapSVM."""
    rows = []
    pairs = (("InvSVM, hinge", "SVM"), ("InvSVM, squared", "SVM"), ("InvSVM, hinge", "LapSVM"))
    for name, found in results.items():
        for size in SIZES:
            cells = [
                tests_of(errors_of(found, size, one) - errors_of(found, size, other))
                for one, other in pairs
            ]
            rows.append([f"{name}, {size}", *np.concatenate(cells)])
    heads = [
        label
        for one, other in (("hinge", "SVM"), ("squared", "SVM"), ("hinge", "LapSVM"))
        for label in (f"{one} - {other}", "t-test", "Wilcoxon")
    ]
    title = "InvSVM less SVM or LapSVM on the same draw: mean difference in points, p of two-sided tests"
    print(table(title, ["set, labelled rows", *heads], rows))


def print_chosen(results: dict[str, Found]) -> None:
    """Which weights and C the folds chose, and what the best setting in hindsight would give."""
    rows = []
    for name, found in results.items():
        for method in METHODS[:4]:
            for size in SIZES:
                grids = [grids[method] for (_, own), grids in found.items() if own == size]
                names = [grid.names[grid.chosen] for grid in grids]
                common = max(sorted(set(names)), key=names.count)
                by_setting = np.mean([grid.test for grid in grids], axis=0)
                best = int(np.argmin(by_setting))
                rows.append(
                    [f"{name}, {size}, {method}", f"{common} ({names.count(common)})",
                     f"{by_setting[best]:.1f}", grids[0].names[best]]
                )  # fmt: skip
    head = ["", "most often chosen", "best one setting", "which"]
    print(table("parameters: chosen by folds; best on the test rows for all draws at once", head, rows))


# -- ionosphere -----------------------------------------------------------------------------------

VARIED = ("SVM", "InvSVM, hinge", "InvSVM, squared")


def by_folds(grids: Sequence[Grid]) -> np.ndarray:
    """As in the main table."""
    return np.array([grid.test[grid.chosen] for grid in grids])


def over_ties(grids: Sequence[Grid]) -> np.ndarray:
    """The mean over all settings that the folds find equally good."""
    return np.array(
        [
            np.mean([test for test, fold in zip(grid.test, grid.folds, strict=True)
                     if fold <= min(grid.folds) + 1e-9])
            for grid in grids
        ]
    )  # fmt: skip


def best_for_all(grids: Sequence[Grid]) -> np.ndarray:
    """The one setting that is best on the test rows over all draws."""
    errors = np.array([grid.test for grid in grids])
    return errors[:, np.argmin(errors.mean(axis=0))]


def best_for_each(grids: Sequence[Grid]) -> np.ndarray:
    """On each draw the setting that is best on its test rows."""
    return np.array([min(grid.test) for grid in grids])


Grids = dict[str, dict[int, list[Grid]]]


def least(grids: Sequence[Grid]) -> np.ndarray:
    """The draw whose error is lowest, parameters as in the main table."""
    return np.min(by_folds(grids), keepdims=True)


class Varied:
    """Errors of all settings of three machines on ionosphere, for one scaling and some widths."""

    def __init__(
        self, X: np.ndarray, y: np.ndarray, n_draws: int, cache: Path | None, name: str
    ) -> None:
        self.X, self.y, self.n_draws, self.cache, self.name = X, y, n_draws, cache, name
        self.median = float(np.median(pdist(X)))
        self.tables: dict[tuple, tuple[list[Table], list[Table]]] = {}

    def grids(
        self,
        factors: Sequence[float] = (1.0,),
        cs: Sequence[float] = CS,
        weights: Sequence[float] = DERIVATIVE_CS,
        fits: tuple[Fit, Fit] = (hinge, squared),
        each: float = 0.0,
    ) -> Grids:
        """By machine and l, one for each draw; with `each`, of either class so many times l labels."""
        plain, flat = [], []
        for factor in factors:
            key = (factor, tuple(weights))
            if key not in self.tables:
                sigma, every = factor * self.median, np.arange(len(self.y))
                name = f"ionosphere {self.name} {factor:g} {len(weights)}"
                made = Flat(self.X, sigma, weights, self.cache, name)
                self.tables[key] = plain_table(self.X, sigma, every), made.tables(every)
            plain += self.tables[key][0]
            flat += self.tables[key][1]
        found: Grids = {method: {} for method in VARIED}
        for (seed, size), draw in draws_of(self.y, self.n_draws):
            one = Draw(self.y, self._balanced(seed, int(each * size)), seed) if each else draw
            for method, tables, fit in zip(VARIED, (plain, flat, flat), (*fits[:1], *fits), strict=True):
                found[method].setdefault(size, []).append(one.machine(tables, fit, cs))
        return found

    def _balanced(self, seed: int, size: int) -> np.ndarray:
        """So many labelled rows of either class."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        return np.sort(np.concatenate([order[self.y[order] == one][:size] for one in (-1, 1)]))


def vary(data: Rows, n_draws: int, cache: Path | None) -> list[list[str]]:
    """The protocol with one thing changed at a time; rows of a table."""
    X, y = data
    unit = Varied(unit_rows(X), y, n_draws, cache, "unit")
    scaled = Varied(standardised(X), y, n_draws, cache, "standardised")
    raw = Varied(X, y, n_draws, cache, "raw")
    as_above, widths = unit.grids(), unit.grids(FACTORS)
    on_scaled, all_scaled, on_raw = scaled.grids(), scaled.grids(FACTORS), raw.grids()
    wide = unit.grids(cs=WIDE_CS, weights=WIDE)
    alone = unit.grids(fits=(hinge_alone, squared_alone))
    half, each = unit.grids(each=0.5), unit.grids(each=1.0)
    cases: list[tuple[str, Grids, Callable[[Sequence[Grid]], np.ndarray]]] = [
        ("as in the main table", as_above, by_folds),
        ("  mean over ties of the folds", as_above, over_ties),
        ("  labelled rows among those tested", as_above, by_folds),
        ("  the luckiest draw", as_above, least),
        ("  oracle, one setting for all draws", as_above, best_for_all),
        ("  oracle, a setting for each draw", as_above, best_for_each),
        ("C up to 1e4, c up to 1e3", wide, by_folds),
        ("  oracle, a setting for each draw", wide, best_for_each),
        ("width also chosen", widths, by_folds),
        ("  labelled rows among those tested", widths, by_folds),
        ("  oracle, one setting for all draws", widths, best_for_all),
        ("  oracle, a setting for each draw", widths, best_for_each),
        ("features standardised", on_scaled, by_folds),
        ("  oracle, a setting for each draw", on_scaled, best_for_each),
        ("features standardised, width also chosen", all_scaled, by_folds),
        ("  oracle, a setting for each draw", all_scaled, best_for_each),
        ("features as they are", on_raw, by_folds),
        ("  oracle, a setting for each draw", on_raw, best_for_each),
        ("no constant", alone, by_folds),
        ("  oracle, a setting for each draw", alone, best_for_each),
        ("l / 2 labels of either class", half, by_folds),
        ("  oracle, a setting for each draw", half, best_for_each),
        ("l labels of either class", each, by_folds),
        ("  oracle, one setting for all draws", each, best_for_all),
        ("  oracle, a setting for each draw", each, best_for_each),
    ]
    rows = []
    for title, grids, pick in cases:
        whole = title.strip().startswith("labelled rows")
        cells = []
        for method in VARIED:
            errors = [
                np.mean(pick(grids[method][size])) * ((len(y) - size) / len(y) if whole else 1.0)
                for size in SIZES
            ]
            cells.append(" ".join(f"{error:4.1f}" for error in errors))
        rows.append([title, *cells])
    rows.append(["reported in the paper", "", " 7.6  7.9  7.0", ""])
    return rows


# -- checks ---------------------------------------------------------------------------------------


def check(data: Rows) -> list[str]:
    """Whether the short cuts are what the estimators fit, on a draw of 30 labels."""
    X, y = unit_rows(data[0]), data[1]
    sigma = float(np.median(pdist(X)))
    [(_, draw), *_] = draws_of(y, 1)
    rows, every, C = draw.labelled, np.arange(len(y)), 10.0
    known = np.zeros(len(y), dtype=int)
    known[rows] = y[rows]
    common = {"C": C, "bias": True, "tol": 1e-6, "unlabeled": 0}
    flat = Flat(X, sigma, DERIVATIVE_CS, None, "check")
    lines = []

    def scores(one: Table, fit: Fit) -> np.ndarray:
        used, coefficients, constant = fit(one.among(rows), y[rows], C)
        return one.between(every, rows[used]) @ coefficients + constant

    def line(name: str, found: np.ndarray, wanted: np.ndarray) -> None:
        lines.append(f"{name}: largest difference {np.max(np.abs(found - wanted)):.1e}")

    one = flat.tables(rows)[1]
    for fit in (hinge, squared):
        model = RepresenterClassifier(
            Gaussian(sigma), invariances=[Gradient()], loss=fit.__name__, nu=flat.nus[1], **common
        ).fit(X, known)
        line(f"scores, InvSVM {fit.__name__}", scores(one, fit), model.decision_function(X))
    folded = Folded(Gaussian(sigma), [Gradient().bind(X)], flat.nus[1])
    line("kernel, Folded", one.values, folded.matrix(X, X[rows]))
    one, neighbors = graph_tables(X, sigma, rows)[0], NEIGHBORS[0]
    [edges] = GraphLaplacian(neighbors).bind(X).parts(Gaussian(sigma))
    lap = LapSVC(Gaussian(sigma), n_neighbors=neighbors, nu=GRAPH_CS[0] / edges.size, **common)
    line("scores, LapSVM", scores(one, hinge), lap.fit(X, known).decision_function(X))
    return lines


def differences(found: Found) -> dict[str, Any]:
    """Error less that of SVM on the same draw, by number of labels: mean, and p of the paired t-test."""
    content: dict[str, Any] = {}
    for size in SIZES:
        plain = errors_of(found, size, "SVM")
        for method in METHODS[2:4]:
            less = errors_of(found, size, method) - plain
            p = float(ttest_rel(less, np.zeros(len(less))).pvalue) if np.any(less) else 1.0
            content.setdefault(str(size), {})[method] = {"mean": float(np.mean(less)), "p": p}
    return content


def parse() -> argparse.Namespace:
    """Options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_option(parser, "uci/ and chapelle_ssl/")
    parser.add_argument("--sets", default=",".join(FILES), help="names with commas (default: all)")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--cache", type=Path, help="a folder to keep folded kernels in")
    parser.add_argument("--no-variations", action="store_true", help="leave out ionosphere's table")
    parser.add_argument("--json", type=Path, help="write the results to this file, for pictures.py")
    options = parser.parse_args()
    options.sets = options.sets.split(",")
    if unknown := set(options.sets) - set(FILES):
        parser.error(f"--sets: no {sorted(unknown)}, only {', '.join(FILES)}")
    return options


def main() -> None:
    """Run what the options ask for."""
    options = parse()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n")
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    data = {name: load(options.data, name) for name in options.sets}
    smallest = min(data, key=lambda name: len(data[name][0]))
    if len(data[smallest][0]) <= LARGE:
        print("\n".join([f"{smallest}, 30 labels, C 10", *check(data[smallest]), ""]))
    results = {}
    for name, rows in data.items():
        results[name] = compare(name, rows, options.draws, options.cache)
    print_errors(results)
    print_tests(results)
    print_chosen(results)
    if "ionosphere" in data and not options.no_variations:
        rows = vary(data["ionosphere"], options.draws, options.cache)
        title = "ionosphere, other readings of the protocol: mean error at 30, 60, 90 labels, per cent"
        print(table(title, ["", *VARIED], rows))
    content = {
        name: {
            f"{seed} {size}": {method: grid.plain() for method, grid in grids.items()}
            for (seed, size), grids in found.items()
        }
        for name, found in results.items()
    }
    less = {name: differences(found) for name, found in results.items()}
    write_json(options.json, {"versions": versions(), "sets": content, "differences": less})


if __name__ == "__main__":
    main()
