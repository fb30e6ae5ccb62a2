"""Rounds and bytes of methods for partitions, simulated in one process.

Rows are cut into P groups. The loss L_p of a group obeys ``L_p(f) >= b_p - <g_p, f>`` for each of its
known planes. With ``f = sum_p g_p`` the dual value is ``D = sum_p b_p - |f|^2 / 2``.

- bundle: the unchanged `structinv.dask.MultiCutBundle`, on groups in this process.
- bmrm: the unchanged solver BMRM, one plane of the sum of all losses per round.
- cocoa: every group sweeps its rows from f, with the other groups fixed. It returns the plane (g_p +
  dg_p, b_p + db_p) of its rows after the sweep. The driver takes one step for all groups, which is ``t
  = clip((sum db - <f, sum dg>) / |sum dg|^2, 0, 1)``. Each group moves its rows by that fraction, which
  moves the plane by the same fraction.
- cocoa+: the same, but sweeps count their change P times, so that changes can be added.

Every run asserts that D never falls and never exceeds the lowest primal value.

Numbers:

- Rounds to relative gaps ``(primal - dual) / primal`` of 1e-2 and 1e-3, with the primal value of every
  round. bmrm and bundle have it at no cost. For the others "asked" is the number of extra reductions
  for a primal value in every fifth round.
- An L after P means that rows are cut by label.
- Bytes are those of all groups, up and down, to the end of the run. Vectors are float64, or 12 bytes
  for each nonzero number. The cocoa methods send changes.
- "s/round" is local work in seconds of processor time, of all groups on one core. It includes the
  primal value of bmrm and bundle only.
- "planes" is the number of planes of the driver at the end, "driver" its seconds per round.

The part "loss" removes the state of one group, or of half of them, after round 5.

Rows are the mails of enron1 and enron2 (see `mail`), and generated ones of about 47 entries.

    python benchmarks/partitions.py                # all tables; an hour on one core
    python benchmarks/partitions.py --quick        # 2000 generated rows; under a minute
    python benchmarks/partitions.py --parts mail loss
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from in_process import InProcess
from large_rows import part_of_rows
from mail import Corpus, add_data_option, load_mailboxes, require
from report import add_record_option, table, versions, write_record

from structinv.dask import MultiCutBundle
from structinv.dask.group import Group
from structinv.dask.packed import BYTES_OF_ENTRY
from structinv.dask.partition import Block
from structinv.dask.term import PartitionedTerm
from structinv.dual import dual_state
from structinv.oracles import FDrop, Identity
from structinv.solvers import BMRM, FrankWolfe, Gap, Iterations, Seconds, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

TRAIN = ("enron1", "enron2")
ORACLES = {"hinge": Identity(), "FDrop(10)": FDrop(10)}
GAPS = (1e-2, 1e-3)
ASKED_EVERY = 5


@dataclass(frozen=True)
class Method:
    """A method of a round; the docstring of the module has all methods."""

    name: str
    sweeps: int = 1

    def solver(self) -> BMRM | MultiCutBundle:
        """The solver of this name."""
        return BMRM() if self.name == "bmrm" else MultiCutBundle(self.sweeps)

    def __str__(self) -> str:
        return f"{self.name}, s={self.sweeps}"


@dataclass
class Problem:
    """Rows, labels, an oracle and lambda."""

    data: str
    X: sp.csr_matrix
    y: np.ndarray
    oracle: str
    lam: float

    @cached_property
    def space(self) -> ExplicitSpace:
        return ExplicitSpace(self.X.shape[1], intercept=True)

    def term(self, rows: Any = slice(None)) -> WorstCase:
        """The losses of some rows, weighted as among all."""
        weight = 1.0 / (self.lam * len(self.y))
        classes = np.array([-1, 1])
        return WorstCase(
            self.X[rows], self.y[rows], ORACLES[self.oracle], Binary(), weight, classes=classes
        )

    @cached_property
    def objective(self) -> Objective:
        return Objective(self.space, [self.term()])

    def cut(self, n: int, by_label: bool) -> list[np.ndarray]:
        """The rows of each of n partitions, at random or in the order of their labels."""
        order = np.random.default_rng(0).permutation(len(self.y))
        if by_label:
            order = order[np.argsort(self.y[order], kind="stable")]
        return [np.sort(part) for part in np.array_split(order, n)]


class Partition:
    """Rows with their dual state, and the plane that they stand at.

    Attributes
    ----------
    normal, offset
        ``L_p(f) >= offset - <normal, f>``.
    before : list of arrays
        The state where the round began.
    """

    def __init__(self, problem: Problem, rows: np.ndarray, seed: int) -> None:
        space = problem.space
        self.state: Any = dual_state(problem.term(rows), space, np.random.default_rng(seed))
        self.hull = self.state.hull
        self.normal, self.offset = space.zeros(), 0.0
        self.before = [array.copy() for array in self.arrays]

    @property
    def arrays(self) -> list[np.ndarray]:
        """Arrays of the state; convex combinations of them are states."""
        return [self.hull.taus, *([self.hull.delta] if hasattr(self.hull, "delta") else [])]

    def answer(self, f: np.ndarray, sweeps: int, sigma: float) -> tuple[np.ndarray, float]:
        """The changes of the plane that sweeps give; the state stands there afterward."""
        self.before, local = [array.copy() for array in self.arrays], f.copy()
        self.hull.weights *= sigma
        for _ in range(sweeps):
            self.state.sweep(local)
        self.hull.weights /= sigma
        return self.state.combination() - self.normal, self.state.offset - self.offset

    def move(self, change: tuple[np.ndarray, float], step: float) -> None:
        """Go a share of the way that was answered."""
        for now, old in zip(self.arrays, self.before, strict=True):
            now *= step
            now += (1 - step) * old
        self.normal += step * change[0]
        self.offset += step * change[1]


@dataclass
class Run:
    """Results of a run.

    Parameters
    ----------
    rounds : dict of float to int
        Rounds to each gap that was reached.
    dense, sparse : float
        Megabytes up and down to the end of the run.
    seconds : float
        Local work per round.
    """

    data: str
    oracle: str
    lam: float
    rows: int
    method: str
    n: int
    by_label: bool
    gap: float = np.inf
    rounds: dict[float, int] = field(default_factory=dict)
    total: int = 0
    dense: float = 0.0
    sparse: float = 0.0
    seconds: float = 0.0
    planes: int = 0
    driver: float = 0.0

    def cells(self) -> list[str]:
        """The line of a table."""
        reached = [str(self.rounds.get(gap, f"> {self.total}")) for gap in GAPS]
        asked = "0" if self.planes else str(-(-self.total // ASKED_EVERY))
        numbers = [f"{self.gap:.1e}", asked, f"{self.dense:.3g}", f"{self.sparse:.3g}"]
        rest = [
            f"{self.seconds:.3g}",
            str(self.planes or ""),
            f"{self.driver:.2g}" if self.planes else "",
        ]
        return [self.method, f"{self.n}{'L' if self.by_label else ''}", *reached, *numbers, *rest]


HEAD = (
    "method", "P", "rounds 1e-2", "1e-3", "gap", "asked", "MB dense", "MB sparse", "s/round", "planes",
    "driver",
)  # fmt: skip


class Bounds:
    """The bounds of a run, which must be sound."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.primal, self.dual = np.inf, -np.inf

    def offer(self, primal: float, dual: float) -> bool:
        """Take in the bounds after a round; whether the last gap is reached."""
        scale = 1e-10 * abs(primal)
        assert dual >= self.dual - scale, f"the dual fell from {self.dual} to {dual}"
        self.primal, self.dual = min(self.primal, primal), max(self.dual, dual)
        assert self.dual <= self.primal + scale, f"dual {self.dual} above primal {self.primal}"
        run = self.run
        run.total += 1
        run.gap = (self.primal - self.dual) / self.primal
        for gap in GAPS:
            if run.gap <= gap:
                run.rounds.setdefault(gap, run.total)
        return run.gap <= GAPS[-1]


def best_step(f: np.ndarray, normal: np.ndarray, offset: float) -> float:
    """The step in [0, 1] at which the dual is highest."""
    curve = float(normal @ normal)
    return float(np.clip((offset - float(f @ normal)) / curve, 0.0, 1.0)) if curve > 0 else 1.0


@dataclass
class Limits:
    """When a run ends short of its gap."""

    rounds: int = 200
    seconds: float = 60.0


def local_run(problem: Problem, method: Method, n: int, by_label: bool, limits: Limits) -> Run:
    """Rounds of local sweeps until the gap is reached."""
    run = Run(problem.data, problem.oracle, problem.lam, len(problem.y), str(method), n, by_label)
    partitions = [Partition(problem, rows, p) for p, rows in enumerate(problem.cut(n, by_label))]
    bounds, f, deadline = Bounds(run), problem.space.zeros(), time.process_time() + limits.seconds
    sigma, down, work = float(n) if method.name == "cocoa+" else 1.0, 0, 0.0
    while run.total < limits.rounds and time.process_time() < deadline:
        began = time.process_time()
        changes = [p.answer(f, method.sweeps, sigma) for p in partitions]
        work += time.process_time() - began
        _count_bytes(run, changes, down)
        step = best_step(f, sum(normal for normal, _ in changes), sum(gain for _, gain in changes))
        for partition, change in zip(partitions, changes, strict=True):
            partition.move(change, step)
        before, f = f, sum(partition.normal for partition in partitions)
        down = int(np.count_nonzero(f - before))
        half = 0.5 * float(f @ f)
        dual = sum(partition.offset for partition in partitions) - half
        if bounds.offer(half + sum(partition.state.value(f)[0] for partition in partitions), dual):
            break
    run.seconds = work / run.total
    return run


def _count_bytes(run: Run, changes: list[tuple[np.ndarray, float]], down: int) -> None:
    """Add the megabytes of a round: f or its change to all groups, and their answers."""
    n, size = len(changes), len(changes[0][0])
    up = sum(int(np.count_nonzero(normal)) for normal, _ in changes)
    run.dense += 1e-6 * n * (8 * size + 8 * (size + 1))
    run.sparse += 1e-6 * (BYTES_OF_ENTRY * (n * down + up) + 16 * n)


@dataclass(frozen=True)
class SimulatedRecipe:
    problem: Problem

    @property
    def space(self) -> ExplicitSpace:
        return self.problem.space

    def term(self, block: Block) -> WorstCase:
        return self.problem.term(block.y)


def solver_run(
    problem: Problem, method: Method, n: int, by_label: bool, limits: Limits, lost: int = 0
) -> Run:
    """Count iterations of a solver to the gap; first groups may lose their states."""
    run = Run(problem.data, problem.oracle, problem.lam, len(problem.y), str(method), n, by_label)
    parts, recipe = problem.cut(n, by_label), SimulatedRecipe(problem)
    blocks = [Block(problem.X[:0], rows, np.ones(len(rows))) for rows in parts]
    groups: Any = [Group(p, each, recipe) for p, each in enumerate(blocks)]  # type: ignore[arg-type]
    cluster: Any = InProcess(groups)
    term = PartitionedTerm(cluster, 1, np.array([len(rows) for rows in parts]), np.dtype(float))
    objective, solver = Objective(problem.space, [term]), method.solver()
    state = solver.init(objective, np.random.default_rng(0))
    cluster.reset()
    bounds, driver, deadline = Bounds(run), 0.0, time.process_time() + limits.seconds
    while run.total < limits.rounds and time.process_time() < deadline:
        if run.total == 5:
            cluster.forget(range(lost))
        began, worked = time.process_time(), cluster.work
        solver.step(objective, state)
        driver += time.process_time() - began - (cluster.work - worked)
        found = solver.bounds(objective, state)
        if bounds.offer(float(found.upper or np.inf), found.dual):
            break
    cluster.forget(range(n))
    run.dense, run.sparse = cluster.dense, cluster.sparse
    run.planes, run.seconds, run.driver = len(state.bundle), cluster.work / run.total, driver / run.total
    return run


def simulate(
    problem: Problem, method: Method, n: int, by_label: bool, limits: Limits, lost: int = 0
) -> Run:
    """A run of a method."""
    if method.name in ("bmrm", "bundle"):
        return solver_run(problem, method, n, by_label, limits, lost)
    return local_run(problem, method, n, by_label, limits)


def serial_passes(problem: Problem, limits: Limits) -> str:
    """Passes of FrankWolfe on all rows together."""
    stop = Gap(GAPS[-1]) | Iterations(limits.rounds) | Seconds(limits.seconds)
    found = solve(problem.objective, FrankWolfe(), stop, random_state=0, check_always=True)
    reached = []
    for gap in GAPS:
        passes = [r.iteration for r in found.history if (r.primal - r.dual) / r.primal <= gap]
        reached.append(str(passes[0]) if passes else f"> {found.iterations}")
    each = found.seconds / found.iterations
    return f"FrankWolfe on all rows: {' and '.join(reached)} passes, {each:.2g} s each with the primal"


def generated(n_rows: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows like mail."""
    sizes = [min(100_000, n_rows - first) for first in range(0, n_rows, 100_000)]
    parts = [part_of_rows(number, size) for number, size in enumerate(sizes)]
    X = sp.vstack([X for X, _ in parts], format="csr")
    X.sum_duplicates()
    return X, np.concatenate([y for _, y in parts])


BUNDLE = Method("bundle")
WAYS = (Method("cocoa"), Method("cocoa+"), Method("bmrm"), BUNDLE)
SWEEPS = tuple(Method(way.name, s) for way in WAYS if way.name != "bmrm" for s in (2, 5))


class Log:
    """Tables, printed at once and stored for JSON."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def problem(self, problem: Problem, runs: Iterator[Run], limits: Limits) -> None:
        """Print the table of a problem."""
        title = f"{problem.data}, {problem.oracle}, lambda {problem.lam:g}"
        print(title, file=sys.stderr, flush=True)
        title += f"\n{serial_passes(problem, limits)}"
        lines = []
        for run in runs:
            self.runs.append(run)
            lines.append(run.cells())
            print("  ".join(lines[-1]), file=sys.stderr, flush=True)
        print("\n" + table(title, HEAD, lines), flush=True)


def compare(
    problem: Problem, plan: Sequence[tuple[int, bool, Sequence[Method]]], limits: Limits
) -> Iterator[Run]:
    """Runs of methods on numbers of groups, cut by label or not."""
    for n, by_label, chosen in plan:
        for method in chosen:
            yield simulate(problem, method, n, by_label, limits)


def losses(problem: Problem, n: int, limits: Limits) -> Iterator[Run]:
    """The same runs with and without the loss of one state, and of half of them."""
    for lost in (0, 1, n // 2):
        run = simulate(problem, BUNDLE, n, False, limits, lost)
        run.method += f", {lost} lost" if lost else ""
        yield run


def mail_rows(options: argparse.Namespace) -> tuple[sp.csr_matrix, np.ndarray]:
    """Mails of the training mailboxes, as log counts in rows of length 1."""
    require(options.data, "enron")
    bags = Corpus(load_mailboxes(options.data, spamassassin=False)).bags(TRAIN)
    return bags.train, bags.y


def mail_part(log: Log, options: argparse.Namespace) -> None:
    X, y = mail_rows(options)
    limits = Limits(options.rounds, options.seconds)
    plan: list[Any] = [(n, False, WAYS) for n in (1, 2, 4, 16, 32)]
    plan += [(8, False, WAYS + SWEEPS), (8, True, WAYS), (64, False, WAYS)]
    for lam in (1e-2, 1e-3, 1e-4):
        for oracle in ORACLES:
            problem = Problem("mail", X, y, oracle, lam)
            log.problem(problem, compare(problem, plan, limits), limits)


def scale_part(log: Log, options: argparse.Namespace) -> None:
    """Return the measurements that `scale_model.py` is fitted to."""
    for n_rows, lams, ns, factor in (
        (100_000, (1e-3, 1e-4), (1, 2, 4, 8, 16, 32, 64), 12),
        (1_000_000, (1e-3,), (1, 4, 8, 16, 64), 40),
    ):
        X, y = generated(n_rows)
        limits = Limits(5 * options.rounds, factor * options.seconds)
        for oracle in ORACLES:
            for lam in lams:
                problem = Problem(f"generated, {n_rows} rows", X, y, oracle, lam)
                plan = [(1, False, [Method("bmrm")]), *((n, False, [BUNDLE]) for n in ns)]
                log.problem(problem, compare(problem, plan, limits), limits)


def generated_part(log: Log, options: argparse.Namespace) -> None:
    for n_rows, name, lams, factors in (
        (100_000, "10^5", (1e-3, 1e-5), (2, 5)),
        (1_000_000, "10^6", (1e-3,), (8, 12)),
    ):
        X, y = generated(n_rows)
        for oracle, factor in zip(ORACLES, factors, strict=True):
            limits = Limits(options.rounds, factor * options.seconds)
            for lam in lams:
                problem = Problem(f"generated, {name} rows", X, y, oracle, lam)
                plan = [(n, False, WAYS) for n in (8, 64)]
                log.problem(problem, compare(problem, plan, limits), limits)


def loss_part(log: Log, options: argparse.Namespace) -> None:
    X, y = mail_rows(options)
    limits = Limits(options.rounds, 3 * options.seconds)
    for oracle in ORACLES:
        problem = Problem("mail, states lost after round 5", X, y, oracle, 1e-3)
        log.problem(problem, losses(problem, 8, limits), limits)


def quick_part(log: Log, _: argparse.Namespace) -> None:
    """Every method on few rows."""
    X, y = generated(2000)
    limits = Limits(40, 5.0)
    for oracle in ORACLES:
        problem = Problem("generated, 2000 rows", X, y, oracle, 0.1)
        plan = [(1, False, WAYS), (4, False, WAYS + SWEEPS), (8, True, WAYS)]
        log.problem(problem, compare(problem, plan, limits), limits)
        log.problem(problem, losses(problem, 8, limits), limits)


WORK: dict[str, Callable[[Log, argparse.Namespace], None]] = {
    "mail": mail_part,
    "generated": generated_part,
    "scale": scale_part,
    "loss": loss_part,
}


def parse() -> argparse.Namespace:
    """Options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_option(parser)
    parser.add_argument("--parts", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--rounds", type=int, default=200, help="at most so many a run")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="of a run on mail, of processor time; others have more",
    )
    parser.add_argument("--quick", action="store_true", help="only few generated rows")
    add_record_option(parser)
    return parser.parse_args()


def main() -> None:
    """Run the benchmark with the given options."""
    options, log = parse(), Log()
    print(versions(), flush=True)
    for work in [quick_part] if options.quick else [WORK[part] for part in options.parts]:
        work(log, options)
    write_record(options.record, "generated", runs=[asdict(run) for run in log.runs])


if __name__ == "__main__":
    main()
