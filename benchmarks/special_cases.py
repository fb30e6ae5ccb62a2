"""Special cases of Teo et al. (2007), compared with earlier programs.

The protocol is in `docs/evidence/speed.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from report import parser_of, table, versions, write_record
from sklearn.datasets import load_digits

from structinv import InvariantLinearSVC
from structinv.oracles import (
    Ellipsoid,
    FDrop,
    InvarianceOracle,
    Rotations,
    Sampled,
    Scalings,
    Trajectory,
)
from structinv.utils.matrices import ALL_ROWS, row_dots

TOLERANCES = (1e-3, 1e-6, 1e-8)
SOLVERS = ("CLARABEL", "SCS")
VALUES = 21
ANGLES = (-20.0, 20.0)


@dataclass(frozen=True)
class Line:
    """One method on one problem."""

    case: str
    method: str
    stated: float
    objective: float
    seconds: float
    solver: float | None = None


class Margins:
    """Variables of a model, and ``y (<w, x> + b) - 1 + xi``, to be at least 0."""

    def __init__(self, X: np.ndarray, signs: np.ndarray, C: float) -> None:
        self.X = X
        self.signs = signs
        self.w = cp.Variable(X.shape[1])
        self.b = cp.Variable()
        self.slack = cp.Variable(len(X), nonneg=True)
        self.norm = 0.5 * cp.sum_squares(self.w) + 0.5 * cp.square(self.b)
        self.objective = cp.Minimize(self.norm + C * cp.sum(self.slack))
        self.rows = cp.multiply(signs, X @ self.w + self.b) - 1.0 + self.slack

    def weights(self) -> tuple[np.ndarray, float]:
        """Return the weights of the solution."""
        return self.w.value, float(self.b.value)


def semidefinite(
    X: np.ndarray, signs: np.ndarray, C: float, powers: np.ndarray, ends: tuple[float, float]
) -> tuple[Margins, cp.Problem]:
    """Graepel and Herbrich: each row's polynomial is at least 0 on the interval.

    Of even degree it is ``s0(t) + (t - a)(b - t) s1(t)``, of odd degree ``(t - a) s0(t) +
    (b - t) s1(t)``, with sums of squares s0 and s1 (Lukács; Nesterov 2000).
    """
    machine = Margins(X, signs, C)
    degree, (a, b) = powers.shape[1], ends
    half = degree // 2
    if degree % 2 == 0:
        parts = [(half + 1, [1.0]), (half, [-a * b, a + b, -1.0])]
    else:
        parts = [(half + 1, [-a, 1.0]), (half + 1, [b, -1.0])]
    total: Any = 0.0
    for size, factor in parts:
        # What each entry of a row's matrix adds to each coefficient.
        table = np.zeros((size * size, degree + 1))
        for j in range(size):
            for k in range(size):
                table[j * size + k, j + k : j + k + len(factor)] += factor
        if size == 1:
            entries: Any = cp.Variable((len(X), 1), nonneg=True)
        else:
            matrices = [cp.Variable((size, size), PSD=True) for _ in X]
            entries = cp.vstack([cp.vec(matrix, order="C") for matrix in matrices])
        total = total + entries @ table
    wanted = [machine.rows, *(cp.multiply(signs, powers[:, k] @ machine.w) for k in range(degree))]
    return machine, cp.Problem(machine.objective, [total == cp.vstack(wanted).T])


def cone(
    X: np.ndarray, signs: np.ndarray, C: float, factors: np.ndarray, radius: float
) -> tuple[Margins, cp.Problem]:
    """Bhattacharyya et al.: the margin at the center less the length of F'w."""
    machine = Margins(X, signs, C)
    rank = factors.shape[2]
    lengths = cp.reshape(
        factors.swapaxes(1, 2).reshape(-1, X.shape[1]) @ machine.w, (len(X), rank), order="C"
    )
    worst = machine.rows - radius * cp.norm(lengths, 2, axis=1)
    return machine, cp.Problem(machine.objective, [worst >= 0])


def quadratic(X: np.ndarray, signs: np.ndarray, C: float, K: int) -> tuple[Margins, cp.Problem]:
    """Write the quadratic program of Globerson and Roweis for K dropped words."""
    machine = Margins(X, signs, C)
    rows, columns = np.nonzero(X)
    t, excess = cp.Variable(len(X), nonneg=True), cp.Variable(len(rows), nonneg=True)
    worth = cp.multiply(signs[rows] * X[rows, columns], machine.w[columns])
    sums = np.zeros((len(X), len(rows)))
    sums[rows, np.arange(len(rows))] = 1.0
    constraints = [excess >= worth - t[rows], machine.rows - K * t - sums @ excess >= 0]
    return machine, cp.Problem(machine.objective, constraints)


def listed(
    X: np.ndarray, signs: np.ndarray, C: float, members: np.ndarray
) -> tuple[Margins, cp.Problem]:
    """Write the quadratic program over all variants of a list, (n, s, d)."""
    machine = Margins(X, signs, C)
    size = members.shape[1]
    moves = (members - X[:, None]) * signs[:, None, None]
    each = np.repeat(np.arange(len(X)), size)
    worst = machine.rows[each] + moves.reshape(-1, X.shape[1]) @ machine.w
    return machine, cp.Problem(machine.objective, [worst >= 0])


@dataclass(frozen=True)
class Problem:
    """An oracle, and the program of its worst case."""

    name: str
    oracle: InvarianceOracle
    program: Callable[[], tuple[Margins, cp.Problem]]
    # The set in which weights are judged, where it is not that of the oracle.
    judged: InvarianceOracle | None = None


def problems(X: np.ndarray, signs: np.ndarray, C: float, degrees: Sequence[int]) -> list[Problem]:
    """All special cases on these rows."""
    made = []
    for degree in degrees:
        path = Trajectory(Turned(degree), degree, ANGLES)
        powers, (a, b) = path.function(X), path.interval
        # In units of the larger end, for the sake of the program's scale.
        reach = max(abs(a), abs(b)) ** np.arange(1, degree + 1)
        scaled, ends = powers * reach[:, None], (a / max(abs(a), abs(b)), b / max(abs(a), abs(b)))
        made.append(
            Problem(
                f"trajectory, degree {degree}",
                path,
                lambda scaled=scaled, ends=ends: semidefinite(X, signs, C, scaled, ends),
            )
        )
        steps = Sampled(Values(path, VALUES))
        name = f"{VALUES} values, degree {degree}"
        made.append(
            Problem(name, steps, lambda steps=steps: listed(X, signs, C, steps.orbit(X)), judged=path)
        )
    ball = Ellipsoid(Directions(), radius=1.0)
    factors = Directions()(X)
    made.append(Problem("ellipsoids", ball, lambda: cone(X, signs, C, factors, 1.0)))
    made.append(Problem("3 words dropped", FDrop(3), lambda: quadratic(X, signs, C, 3)))
    return made


@dataclass(frozen=True)
class Turned:
    """Coefficients of the polynomials of the angle that fit the pixels of rotated images best."""

    degree: int

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The coefficients of each image, (n, degree, d)."""
        size, (low, high) = max(16, 4 * self.degree), ANGLES
        places = np.cos(np.pi * (np.arange(size) + 0.5) / size)
        angles = (low + high) / 2 + (high - low) / 2 * places
        moved = Rotations(angles, shape=(8, 8)).orbit(X)[:, 1:] - X[:, None]
        reach, orders = np.max(np.abs(angles)), np.arange(1, self.degree + 1)
        table = np.linalg.pinv((angles / reach)[:, None] ** orders) / reach ** orders[:, None]
        return table @ moved


@dataclass(frozen=True)
class Values:
    """Members of a trajectory at equal distances, without the row."""

    path: Trajectory
    size: int

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """They, (n, size, d)."""
        t = np.linspace(*self.path.interval, self.size)
        powers = t[:, None] ** np.arange(1, self.path.degree + 1)
        return X[:, None] + powers @ self.path.function(X)


@dataclass(frozen=True)
class Directions:
    """Rotations by 10 degrees and scalings by a tenth as ellipsoid axes of each row."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The axes as columns, (n, d, 2)."""
        turn = Rotations(10, shape=(8, 8)).tangents(X) * 10.0
        scale = Scalings(1.1, shape=(8, 8)).tangents(X) * 0.1
        return np.concatenate([turn, scale], axis=1).swapaxes(1, 2)


def objective_at(
    oracle: InvarianceOracle, X: np.ndarray, signs: np.ndarray, C: float, w: np.ndarray, b: float
) -> float:
    """The objective of given weights, by the exact worst cases of an oracle."""
    V = np.outer([-1.0, 1.0], w)
    assign = (signs < 0).astype(np.intp)
    points = oracle.bind(X, signs).support(ALL_ROWS, V, assign).points
    losses = np.maximum(0.0, 1.0 + row_dots(points, V, assign) - signs * b)
    return float(0.5 * w @ w + 0.5 * b * b + C * np.sum(losses))


def ours(
    problem: Problem, X: np.ndarray, signs: np.ndarray, C: float, tol: float, repeats: int
) -> tuple[Line, float]:
    """A line, and the lower bound on the optimum that comes with it."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        model = InvariantLinearSVC(problem.oracle, C=C, tol=tol, random_state=0).fit(X, signs)
        seconds.append(time.perf_counter() - began)
    w, b = model.coef_[0], float(model.intercept_[0])
    value = objective_at(problem.judged or problem.oracle, X, signs, C, w, b)
    stated, dual = model.solution_.primal, model.solution_.dual
    return Line(problem.name, f"structinv, tol {tol:g}", stated, value, float(np.median(seconds))), dual


def theirs(
    problem: Problem, X: np.ndarray, signs: np.ndarray, C: float, solver: str, **options: Any
) -> Line:
    """The program, from its expressions on."""
    began = time.perf_counter()
    machine, program = problem.program()
    program.solve(solver=solver, **options)
    seconds = time.perf_counter() - began
    value = objective_at(problem.judged or problem.oracle, X, signs, C, *machine.weights())
    alone = program.solver_stats.solve_time
    return Line(problem.name, f"cvxpy, {solver}", float(program.value), value, seconds, alone)


def rows_of(size: int, digits: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The first images of two digits, between 0 and 1, and signs."""
    X, y = load_digits(return_X_y=True)
    chosen = np.flatnonzero(np.isin(y, digits))[:size]
    return X[chosen] / 16.0, np.where(y[chosen] == digits[0], 1.0, -1.0)


def compare(
    problem: Problem, X: np.ndarray, signs: np.ndarray, C: float, repeats: int
) -> list[list[str]]:
    """The rows of the table for one problem."""
    ours(problem, X, signs, C, TOLERANCES[0], 1)
    found = [ours(problem, X, signs, C, tol, repeats) for tol in TOLERANCES]
    lines = [line for line, _ in found]
    best = max(dual for _, dual in found)
    lines += [theirs(problem, X, signs, C, solver) for solver in SOLVERS]
    quickest = {tol: line.seconds for tol, (line, _) in zip(TOLERANCES, found, strict=True)}
    rows = []
    for line in lines:
        cells = [f"{line.case}, {line.method}", f"{line.stated:.8f}", f"{line.objective:.8f}"]
        cells += [f"{line.stated / best - 1.0:+.1e}", f"{line.objective / best - 1.0:+.1e}"]
        cells += [f"{line.seconds:.4f}", "" if line.solver is None else f"{line.solver:.4f}"]
        over = [line.seconds / quickest[tol] for tol in (1e-3, 1e-6)]
        rows.append(cells + [f"{each:.0f}x" if line.solver is not None else "" for each in over])
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=200, help="training rows")
    parser.add_argument("--digits", type=int, nargs=2, default=(3, 8), help="the two classes")
    parser.add_argument("--C", type=float, default=1.0, help="weight of each loss")
    parser.add_argument("--degrees", type=int, nargs="+", default=(2, 3), help="of trajectories")
    parser.add_argument("--repeats", type=int, default=5, help="number of fits for the median")
    options = parser.parse_args()
    X, signs = rows_of(options.rows, tuple(options.digits))
    print(versions(), f"cvxpy {cp.__version__}", sep=", ")
    headers = ["case, method", "objective, stated", "objective, recomputed"]
    headers += ["excess, stated", "excess, recomputed"]
    headers += ["seconds", "solver alone, s", "ratio to tol 1e-3", "ratio to tol 1e-6"]
    rows = []
    for problem in problems(X, signs, options.C, options.degrees):
        rows += compare(problem, X, signs, options.C, options.repeats)
    title = (
        f"Objectives and seconds, 8 x 8 digits, {len(X)} rows of {X.shape[1]} pixels, "
        f"C = {options.C:g}; excess relative to the best lower bound"
    )
    print(table(title, headers, rows, key="optima"))
    write_record(options.record, "digits of scikit-learn, two classes, 200 rows of 64 pixels")


if __name__ == "__main__":
    main()
