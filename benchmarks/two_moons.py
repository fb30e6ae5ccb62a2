"""Two moons with one label each: errors, and speed compared with cvxpy.

All points are those of `make_moons` with ``random_state=seed``; the first point of each moon in that
order has a label, the others have none. The derivatives of the function by both features are penalized
at all points. Errors are shares of the points without a label. The protocol is in
`docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from report import parser_of, table, versions, write_record
from sklearn.datasets import make_moons
from threadpoolctl import threadpool_limits

from structinv import RepresenterClassifier
from structinv.functionals import Evaluation, Gradient
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian
from structinv.losses import EpsilonInsensitive, Hinge
from structinv.losses.combined import Affine
from structinv.solvers import Gap, Representer, solve
from structinv.spaces import RepresenterSpace
from structinv.terms import Objective, Penalty
from structinv.terms.penalty import FamilyFunctionals

NUS = (0.0, 0.01, 0.1, 1.0)
HINGE = {
    "loss": "hinge",
    "invariance_loss": EpsilonInsensitive(0.001),
    "C": 0.5,
}
SIGMA, NU, EPSILON = 0.1, 0.5, 0.001
SLOW = 5.0
METHODS = ("newton-cg",)
TOLS = (1e-4, 1e-6)

Moons = tuple[np.ndarray, np.ndarray, np.ndarray]


def moons(n_points: int, noise: float, seed: int) -> Moons:
    """Points, their moons, and labels, -1 where there is none."""
    X, y = make_moons(n_points, noise=noise, random_state=seed)
    labels = np.full(n_points, -1)
    for moon in (0, 1):
        labels[np.flatnonzero(y == moon)[0]] = moon
    return X, y, labels


def machine(sigma: float, nu: float, **settings: Any) -> RepresenterClassifier:
    """Fit a model with a penalty on derivatives, if nu is above 0."""
    return RepresenterClassifier(
        Gaussian(sigma), invariances=[Gradient()], nu=nu, random_state=0, **settings
    )


def error_of(model: RepresenterClassifier, data: Moons) -> float:
    """Share of the points without a label that are on the wrong side."""
    X, y, labels = data
    unlabeled = labels == -1
    model.fit(X, labels)
    return 1.0 - float(model.score(X[unlabeled], y[unlabeled]))


def summary(errors: np.ndarray) -> list[str]:
    """Return cells: mean, standard deviation, maximum, and number of zeros."""
    per_cent = 100 * errors
    return [
        f"{per_cent.mean():.1f}",
        f"{per_cent.std(ddof=1):.1f}",
        f"{per_cent.max():.1f}",
        f"{np.sum(errors == 0)} of {len(errors)}",
    ]


def compare_errors(seeds: int) -> None:
    """Errors by nu, and their table."""
    found: dict[str, Any] = {}
    for noise in (0.05, 0.1):
        for nu in NUS:
            errors = [error_of(machine(0.25, nu), moons(200, noise, seed)) for seed in range(seeds)]
            found[f"noise {noise:g}, nu {nu:g}"] = np.array(errors)
    head = ["setting", "mean, %", "standard deviation", "largest", "without errors"]
    title = (
        "Error on unlabeled points, %, logistic loss, squared penalty: 200 points, sigma 0.25, C 1, "
        f"seeds 0 to {seeds - 1}"
    )
    print(table(title, head, [[name, *summary(errors)] for name, errors in found.items()], "squared"))


def compare_hinge(seeds: int) -> None:
    """Errors of the published setting, with the seed 1 by itself."""
    found: dict[str, Any] = {}
    rows = []
    for n_points in (200, 400):
        for nu in (0.0, NU):
            errors = np.array(
                [
                    error_of(machine(SIGMA, nu, **HINGE), moons(n_points, 0.05, seed))
                    for seed in range(seeds)
                ]
            )
            found[f"{n_points} points, nu {nu:g}"] = errors
            rows.append([f"{n_points} points, nu {nu:g}", f"{100 * errors[1]:.1f}", *summary(errors)])
    head = ["setting", "seed 1, %", "mean", "standard deviation", "largest", "without errors"]
    title = (
        "Error on unlabeled points, %, hinge, epsilon-insensitive penalty: sigma 0.1, C 0.5, "
        f"epsilon 0.001, noise 0.05, seeds 0 to {seeds - 1}"
    )
    print(table(title, head, rows, key="epsilon"))


@dataclass
class Line:
    """Result of a method: seconds with, without the kernel, of the solver, and values."""

    name: str
    with_kernel: float
    without: float
    own: float
    primal: float
    dual: float


class Problem:
    """Hinge and epsilon-insensitive on 400 points, for all methods."""

    def __init__(self) -> None:
        self.X, _, self.labels = moons(400, 0.05, 1)
        labeled = np.flatnonzero(self.labels >= 0)
        self.signs = np.where(self.labels[labeled] == 1, 1.0, -1.0)
        self.families = [Evaluation(labeled).bind(self.X), Gradient().bind(self.X)]
        self.formed = self.representers()
        self.gram = self.formed.table()
        self.C = HINGE["C"]

    def representers(self) -> Representers:
        """The functionals of labels and derivatives, with nothing computed."""
        kernel = Gaussian(SIGMA)
        return Representers(kernel, [family.parts(kernel) for family in self.families])

    def form(self) -> None:
        """The Gram matrix, from points."""
        self.representers().gram()

    def fit(self, method: str, tol: float) -> tuple[float, float, float]:
        """Ours from points: objective, lower bound, and the seconds of its loop."""
        settings = HINGE | {"solver": method, "tol": tol}
        found = machine(SIGMA, NU, **settings).fit(self.X, self.labels).solution_
        return found.primal, found.dual, found.seconds

    def solve(self, method: str, tol: float) -> tuple[float, float, float]:
        """Ours with the Gram matrix formed."""
        functionals = [FamilyFunctionals(self.formed, number) for number in (0, 1)]
        terms = [
            Penalty(functionals[0], Affine(Hinge(), self.signs), self.C),
            Penalty(functionals[1], EpsilonInsensitive(EPSILON), NU),
        ]
        objective = Objective(RepresenterSpace(self.formed, self.X.shape[1]), terms)
        found = solve(objective, Representer(method), Gap(tol), random_state=0)
        return found.primal, found.dual, found.seconds

    def program(self, form: str, solver: str, **settings: Any) -> tuple[float, float, float]:
        """A quadratic program: objective, lower bound, and the solver's own seconds."""
        build = {"one": self._one, "apart": self._apart, "doubled": self._doubled}[form]
        goal, limits, coefficients = build()
        program = cp.Problem(cp.Minimize(goal), limits)
        program.solve(solver=solver, **settings)
        return *self.bounds(np.asarray(coefficients.value)), float(program.solver_stats.solve_time)

    def _one(self) -> tuple[Any, list[Any], Any]:
        a: Any = cp.Variable(len(self.gram))
        labels, slopes = a[: len(self.signs)], a[len(self.signs) :]
        goal = 0.5 * cp.quad_form(a, cp.psd_wrap(self.gram)) - self.signs @ labels
        alphas = cp.multiply(self.signs, labels)
        limits = [alphas >= 0, alphas <= self.C, slopes >= -NU, slopes <= NU]
        return goal + EPSILON * cp.norm1(slopes), limits, a

    def _apart(self) -> tuple[Any, list[Any], Any]:
        n_slopes = len(self.gram) - len(self.signs)
        labels: Any = cp.Variable(len(self.signs))
        up: Any = cp.Variable(n_slopes)
        down: Any = cp.Variable(n_slopes)
        a = cp.hstack([cp.multiply(self.signs, labels), up - down])
        goal = 0.5 * cp.quad_form(a, cp.psd_wrap(self.gram)) - cp.sum(labels)
        limits = [labels >= 0, labels <= self.C, up >= 0, up <= NU, down >= 0, down <= NU]
        return goal + EPSILON * cp.sum(up + down), limits, a

    def _doubled(self) -> tuple[Any, list[Any], Any]:
        n_labels, size = len(self.signs), len(self.gram)
        unit = np.eye(size)[:, n_labels:]
        signed = np.hstack([np.eye(size)[:, :n_labels] * self.signs, unit, -unit])
        both: Any = cp.Variable(signed.shape[1])
        linear = np.full(signed.shape[1], EPSILON)
        linear[:n_labels] = -1.0
        most = np.full(signed.shape[1], NU)
        most[:n_labels] = self.C
        goal = 0.5 * cp.quad_form(both, cp.psd_wrap(signed.T @ self.gram @ signed)) + linear @ both
        return goal, [both >= 0, both <= most], signed @ both

    def bounds(self, a: np.ndarray) -> tuple[float, float]:
        """Return the objective of coefficients, and the dual value of their clipped form."""
        n = len(self.signs)
        u = self.gram @ a
        primal = 0.5 * float(a @ u) + self.C * float(Hinge().value(self.signs * u[:n]).sum())
        primal += NU * float(EpsilonInsensitive(EPSILON).value(u[n:]).sum())
        alphas, slopes = np.clip(self.signs * a[:n], 0.0, self.C), np.clip(a[n:], -NU, NU)
        inside = np.concatenate([self.signs * alphas, slopes])
        dual = -0.5 * float(inside @ self.gram @ inside) + float(alphas.sum())
        return primal, dual - EPSILON * float(np.abs(slopes).sum())


def works_of(problem: Problem) -> dict[str, dict[str, Callable[[], Any]]]:
    """Return the timed calls of structinv and of the programs."""
    works: dict[str, dict[str, Callable[[], Any]]] = {"Gram matrix": {"with": problem.form}}
    for method in METHODS:
        for tol in TOLS:
            works[f"structinv, {method}, {tol:g}"] = {
                "with": partial(problem.fit, method, tol),
                "without": partial(problem.solve, method, tol),
            }
    for form in ("one", "apart", "doubled"):
        for solver in ("CLARABEL", "OSQP"):
            works[f"cvxpy, {form}, {solver}"] = {"without": partial(problem.program, form, solver)}
    return works


def timed(works: dict[str, dict[str, Callable[[], Any]]], repeats: int) -> dict[str, Line]:
    """Medians of rounds, after one that does not count."""
    spent: dict[tuple[str, str], list[float]] = {}
    ends: dict[tuple[str, str], Any] = {}
    for number in range(repeats + 1):
        for name, kinds in works.items():
            for kind, work in kinds.items():
                times = spent.setdefault((name, kind), [])
                if number and times[0] > SLOW:
                    continue
                start = time.perf_counter()
                found = work()
                times.append(time.perf_counter() - start)
                ends.setdefault((name, kind), []).append(found)
    middle = {key: float(np.median(times[1:] or times)) for key, times in spent.items()}
    gram = middle["Gram matrix", "with"]
    lines = {"Gram matrix": Line("Gram matrix", gram, np.nan, np.nan, np.nan, np.nan)}
    for name in list(works)[1:]:
        reached = ends[name, "without"]
        primal, dual, _ = reached[-1]
        own = float(np.median([end[2] for end in reached[1:] or reached]))
        without = middle[name, "without"]
        lines[name] = Line(name, middle.get((name, "with"), without + gram), without, own, primal, dual)
    return lines


def compare_speed(threads: list[int], repeats: int) -> dict[str, Any]:
    """Times, objectives, and their ratios to ours."""
    problem = Problem()
    for method in METHODS:
        problem.fit(method, 0.5)  # compiles or loads all kernels
    found: dict[str, Any] = {}
    for number in threads:
        with threadpool_limits(number, user_api="blas"):
            lines = timed(works_of(problem), repeats)
        found[f"{number} threads"] = [asdict(line) for line in lines.values()]
        print_speed(lines, number, repeats)
    return found


def print_speed(lines: dict[str, Line], threads: int, repeats: int) -> None:
    """Both tables of a number of threads."""
    methods = [line for line in lines.values() if np.isfinite(line.primal)]
    lower = max(line.dual for line in methods)
    rows: list[list[str]] = [["Gram matrix", f"{lines['Gram matrix'].with_kernel:.3f}", "", "", "", ""]]
    rows += [
        [
            line.name,
            *(f"{number:.3f}" for number in (line.with_kernel, line.without, line.own)),
            f"{line.primal:.8f}",
            f"{(line.primal - lower) / line.primal:.1e}",
        ]
        for line in methods
    ]
    head = [
        "program, tolerance or solver",
        "with kernel",
        "without",
        "solver alone",
        "objective",
        "relative gap",
    ]
    cores = "one thread" if threads == 1 else f"{threads} threads"
    title = f"Seconds of a fit to two moons, 800 derivatives, {cores}, medians of {repeats}"
    print(table(title, head, rows, key="seconds"))
    ours = [lines[f"structinv, {METHODS[0]}, {tol:g}"] for tol in TOLS]
    ratios = [
        [
            line.name,
            *(f"{line.with_kernel / own.with_kernel:.1f}" for own in ours),
            *(f"{line.without / own.without:.1f}" for own in ours),
        ]
        for line in methods
    ]
    head = [
        "program, tolerance or solver",
        *(f"{kind} kernel, to {tol:g}" for kind in ("with", "without") for tol in TOLS),
    ]
    title = f"Seconds divided by those of structinv ({METHODS[0]}), {cores}"
    print(table(title, head, ratios, key="ratios"))


def draw(path: Path) -> None:
    """The published setting's seed 1, without invariance and with it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import CenteredNorm
    from sklearn.inspection import DecisionBoundaryDisplay

    X, y, labels = data = moons(400, 0.05, 1)
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    for nu, axes in zip((0.0, NU), panels, strict=True):
        model = machine(SIGMA, nu, **HINGE)
        error = error_of(model, data)
        options = {"response_method": "decision_function", "ax": axes, "grid_resolution": 200}
        show = partial(DecisionBoundaryDisplay.from_estimator, model, X, eps=0.3, **options)
        show(plot_method="pcolormesh", cmap="RdBu", norm=CenteredNorm(), alpha=0.7)
        show(plot_method="contour", levels=[0.0], colors="black")
        axes.scatter(*X[labels == -1].T, s=5, color="dimgray")
        for moon, color, marker in ((0, "darkred", "s"), (1, "darkblue", "^")):
            axes.scatter(*X[labels == moon].T, s=80, color=color, marker=marker, edgecolor="white")
        axes.set(xticks=[], yticks=[], title=f"nu = {nu:g}: {error:.1%} wrong")
    figure.savefig(path, dpi=150)


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parts = ["errors", "hinge", "speed", "picture"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--picture", type=Path, default=Path("docs", "two_moons.png"))
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")  # gaps are in the table
    print(f"{versions()}, cvxpy {cp.__version__}\n")
    start = time.perf_counter()
    if "errors" in options.parts:
        compare_errors(options.seeds)
    if "hinge" in options.parts:
        compare_hinge(options.seeds)
    if "speed" in options.parts:
        compare_speed(options.threads, options.repeats)
    if "picture" in options.parts:
        draw(options.picture)
    print(f"{time.perf_counter() - start:.0f} s in all")
    write_record(
        options.record,
        "generated, make_moons with one label per moon",
        seeds="1" if options.parts == ["speed"] else f"0 to {options.seeds - 1}",
    )


if __name__ == "__main__":
    main()
