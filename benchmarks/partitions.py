"""Rounds and bytes of distributed dual ascent, simulated in one process.

Rows are cut into P partitions. A partition keeps the dual state of its own rows; the driver knows
aggregated planes of each partition: the loss L_p of the partition obeys ``L_p(f) >= b_p - <g_p, f>``.
With ``f = sum_p g_p`` the dual value is ``D = sum_p b_p - |f|^2 / 2``.

A round of the first methods: every partition sweeps its rows s times from f, the others being held, and
answers with the plane (g_p + dg_p, b_p + db_p) that its rows would then stand at. The driver chooses
steps t_p in [0, 1], and each partition moves its levels and deviations that share of the way, which
moves the plane by the same share. A larger step would leave the hulls of the rows.

- cocoa: one step for all. D is a parabola in t, so its best step is
  ``t = clip((sum db - <f, sum dg>) / |sum dg|^2, 0, 1)``.
- cocoa+: the same, but the local sweeps see their own change sigma times: they raise
  ``db - <f, dg> - sigma / 2 |dg|^2``, with weights of rows that are sigma times as large. sigma is P
  ("P"); or it follows the quotient of the step before it was clipped ("t"); or it follows
  ``|sum dg|^2 / sum |dg_p|^2``, which says by how much the changes of partitions agree ("agree").
- accelerated: sweeps start from states that are moved on along the way of the last round, as in
  Nesterov's method, and brought back into the hulls; the driver's step is the same line search. The
  momentum starts after four rounds, and anew whenever the quotient is below 1.
- each: a step for each partition, by coordinate ascent on the quadratic program of their Gram matrix.

Two methods need no step, and no state ever moves back:

- bundle: the driver keeps the planes of each partition that have had mass in the last rounds, and
  maximizes the dual over their convex combinations, one combination for each partition. A round: every
  partition answers with two planes, the exact one at f and the one that its rows stand at after s
  sweeps. These raise ``b - <f, dg> - sigma / 2 |dg|^2`` around the partition's combination at the
  driver; sigma is 1, P, or the root of P ("root").
- bmrm: the solver BMRM as it stands, one plane of the sum of all losses a round.

Every run asserts that D never falls and never exceeds the lowest primal value, and that the planes at
the driver are those of the states.

Numbers: rounds to relative gaps ``(primal - dual) / primal`` of 1e-2 and 1e-3, the primal asked every
round. bmrm and bundle know it without asking; for the others "asked" is the number of extra reductions
if it were asked every fifth round. An L after P says that rows are cut by label. Bytes are those of all
partitions, up and down together, to the end of the run: vectors of float64, or 12 bytes for each number
that changed. "s/round" is local work in seconds of processor time, of all partitions on one core. It
has the primal of bmrm and bundle, and not that of the others. "planes" is how many planes the driver
has at the end, "driver" its seconds a round, on dense planes.

The part "loss" takes the state of one partition, or of half of them, away after round 5. Rows start from
zero beside one vertex, the old plane, whose weight never grows; bundle has the old planes at the driver.

Rows are the mails of enron1 and enron2 (see `mail`), and generated ones of about 47 entries.

    python benchmarks/partitions.py                # all tables; two hours on one core
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
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from mail import Corpus, add_data_option, load_mailboxes, require
from report import table, versions, write_json

from structinv.dual import dual_state
from structinv.oracles import FDrop, Identity
from structinv.solvers import BMRM, FrankWolfe, Gap, Iterations, Seconds, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase
from structinv.terms.planes import WorkingSet

TRAIN = ("enron1", "enron2")
ORACLES = {"hinge": Identity(), "FDrop(10)": FDrop(10)}
GAPS = (1e-2, 1e-3)
SIGMA_RULES = ("1", "P", "root", "t", "agree")
ASKED_EVERY = 5
# Easy problems are done by then, and would only overshoot.
ROUNDS_BEFORE_MOMENTUM = 4
# Planes without mass are forgotten after so many rounds.
IDLE_ROUNDS = 3
# A partition that has lost its state sweeps at least so often a round, until the old plane has gone.
SWEEPS_OF_LOST = 10
# A number that is sent by itself: its value, and its place as int32.
BYTES_OF_ENTRY = 12


@dataclass(frozen=True)
class Method:
    """How a round goes; see the top of this file."""

    sweeps: int = 1
    sigma: str = "1"
    accelerated: bool = False
    each: bool = False
    bundle: bool = False

    def __post_init__(self) -> None:
        if self.sigma not in SIGMA_RULES:
            raise ValueError(f"sigma must be one of {SIGMA_RULES}, got {self.sigma!r}")

    def first_sigma(self, n: int) -> float:
        """What sigma starts from."""
        return {"1": 1.0, "root": float(np.sqrt(n))}.get(self.sigma, float(n))

    @property
    def name(self) -> str:
        if self.bundle:
            return f"bundle {self.sigma}, s={self.sweeps}"
        kind = "cocoa" if self.sigma == "1" else f"cocoa+ {self.sigma}"
        more = (", accelerated" if self.accelerated else "") + (", each" if self.each else "")
        return f"{kind}{more}, s={self.sweeps}"


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
    vertex : (array, float)
        The plane that stood when the state was lost.
    weight : float
        Of that plane; the levels of the rows are at most one minus this.
    before, earlier : (list of arrays, float)
        The state where the round began, and where the round before it began.
    """

    def __init__(self, problem: Problem, rows: np.ndarray, seed: int) -> None:
        space = problem.space
        self.state: Any = dual_state(problem.term(rows), space, np.random.default_rng(seed))
        self.hull = self.state.hull
        self.normal, self.offset = space.zeros(), 0.0
        self.vertex, self.weight = (space.zeros(), 0.0), 0.0
        self.before = self.earlier = self._copy()
        self.earlier_normal = self.normal

    @property
    def arrays(self) -> list[np.ndarray]:
        """What the state is made of; convex combinations of it are states."""
        return [self.hull.levels, *([self.hull.delta] if hasattr(self.hull, "delta") else [])]

    def _copy(self) -> tuple[list[np.ndarray], float]:
        return [array.copy() for array in self.arrays], self.weight

    def lose(self) -> None:
        """Forget how the rows share the plane."""
        self.vertex, self.weight = (self.normal.copy(), self.offset), 1.0
        self.state.gaps[:] = 0.0
        for array in self.arrays:
            array[:] = 0.0

    def answer(
        self, f: np.ndarray, ahead: np.ndarray, momentum: float, sweeps: int, sigma: float
    ) -> tuple[np.ndarray, float]:
        """The changes of the plane that sweeps give; the state stands there afterwards.

        `ahead` is f with the momentum of all partitions, of which this one's own part is replaced.
        """
        self.earlier, self.before = self.before, self._copy()
        around = ahead - momentum * (self.normal - self.earlier_normal)
        self.earlier_normal = self.normal.copy()
        lost = self.weight > 0
        if lost and self.weight < 1:
            # The old plane gives way: rows may have all of the weight.
            for array in self.arrays:
                array /= 1.0 - self.weight
        moved = momentum > 0 and not lost and self.earlier[1] == 0
        if moved:
            self._move_on(momentum)
        # Where the own quadratic is amplified around: at the point moved on to, or at the old plane.
        local = around + (sigma if lost else 1.0) * (self.state.combination() - self.normal)
        self.hull.weights *= sigma
        for _ in range(max(sweeps, SWEEPS_OF_LOST) if lost else sweeps):
            self.state.sweep(local)
        self.hull.weights /= sigma
        change = self.state.combination() - self.normal, self.state.offset - self.offset
        self.weight = 0.0
        if not lost:
            return change
        curve = sigma * float(change[0] @ change[0])
        share = float(np.clip((change[1] - around @ change[0]) / max(curve, 1e-300), 0, 1))
        self._mix(share)
        return share * change[0], share * change[1]

    def _move_on(self, momentum: float) -> None:
        """Go on along the way of the last round, and back into the hulls of the rows."""
        for now, old in zip(self.arrays, self.earlier[0], strict=True):
            now += momentum * (now - old)
        levels, *rest = self.arrays
        np.clip(levels, 0.0, 1.0, out=levels)
        for delta in rest:
            lengths = np.diff(self.hull.X.indptr)
            rows = np.repeat(np.arange(len(levels)), lengths)
            each = np.repeat(levels, lengths)
            np.clip(delta, -self.hull.drop * each, self.hull.grow * each, out=delta)
            spent = -np.bincount(rows, delta, minlength=len(levels)) / self.hull.drop
            budget = self.hull.max_changes * levels
            share = np.divide(budget, spent, out=np.ones_like(spent), where=spent > budget)
            delta *= np.repeat(share, lengths)

    def stand(self, f: np.ndarray, share: np.ndarray, sweeps: int, sigma: float) -> None:
        """Sweep around a combination of the partition's planes, which is its share of f."""
        local = f + sigma * (self.normal - share)
        self.hull.weights *= sigma
        for _ in range(sweeps):
            self.state.sweep(local)
        self.hull.weights /= sigma
        self.normal, self.offset = self.state.combination(), self.state.offset

    def move(self, change: tuple[np.ndarray, float], step: float) -> None:
        """Go a share of the way that was answered."""
        self._mix(step)
        self.normal += step * change[0]
        self.offset += step * change[1]

    def _mix(self, step: float) -> None:
        arrays, weight = self.before
        for now, old in zip(self.arrays, arrays, strict=True):
            now *= step
            now += (1 - step) * old
        self.weight = step * self.weight + (1 - step) * weight

    def check(self) -> None:
        """The plane at the driver is that of the state."""
        normal = self.state.combination() + self.weight * self.vertex[0]
        offset = self.state.offset + self.weight * self.vertex[1]
        scale = 1e-9 * (1 + np.abs(normal).max() + abs(offset))
        assert np.abs(normal - self.normal).max() <= scale, "a plane is not that of its state"
        assert abs(offset - self.offset) <= scale, "an offset is not that of its state"


@dataclass
class Run:
    """What a run came to.

    Parameters
    ----------
    rounds : dict of float to int
        Rounds to each gap that was reached.
    dense, sparse : float
        Megabytes up and down to the end of the run.
    seconds : float
        Of local work a round.
    """

    data: str
    oracle: str
    lam: float
    method: str
    n: int
    by_label: bool
    gap: float = np.inf
    rounds: dict[float, int] = field(default_factory=dict)
    total: int = 0
    dense: float = 0.0
    sparse: float = 0.0
    seconds: float = 0.0
    sigma: float = 1.0
    step: float = 1.0
    planes: int = 0
    driver: float = 0.0

    def cells(self) -> list[str]:
        """The line of a table."""
        reached = [str(self.rounds.get(gap, f"> {self.total}")) for gap in GAPS]
        asked = "0" if self.planes else str(-(-self.total // ASKED_EVERY))
        numbers = [f"{self.gap:.1e}", asked, f"{self.dense:.3g}", f"{self.sparse:.3g}"]
        rest = [f"{self.seconds:.3g}", f"{self.sigma:.1f}", f"{self.step:.2f}"]
        rest += [str(self.planes or ""), f"{self.driver:.2g}" if self.planes else ""]
        return [self.method, f"{self.n}{'L' if self.by_label else ''}", *reached, *numbers, *rest]


HEAD = (
    "method", "P", "rounds 1e-2", "1e-3", "gap", "asked", "MB dense", "MB sparse", "s/round", "sigma",
    "step", "planes", "driver",
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
    """The step at which the dual is highest, before it is clipped."""
    curve = float(normal @ normal)
    return (offset - float(f @ normal)) / curve if curve > 0 else 1.0


def best_steps(slopes: np.ndarray, gram: np.ndarray, start: float) -> np.ndarray:
    """The highest ``<slopes, t> - <t, gram t> / 2`` over steps t in [0, 1]."""
    t = np.full(len(slopes), start)
    for _ in range(1000):
        before = t.copy()
        for p in np.flatnonzero(np.diag(gram) > 0):
            t[p] = min(max(t[p] + (slopes[p] - gram[p] @ t) / gram[p, p], 0.0), 1.0)
        if np.abs(t - before).max() <= 1e-9:
            break
    return t


def next_sigma(rule: str, sigma: float, n: int, quotient: float, agreement: float) -> float:
    """How many times the partitions see their own change in the next round."""
    if rule == "t":
        return float(np.clip(sigma * np.clip(1.0 / max(quotient, 1e-9), 0.5, 2.0), 1.0, n))
    return float(np.clip(agreement, 1.0, n)) if rule == "agree" else sigma


def _next_momentum(pace: float, quotient: float) -> tuple[float, float]:
    """Nesterov's sequence, from its start where a step fell short of the whole way."""
    if quotient < 1:
        return 1.0, 0.0
    following = (1 + np.sqrt(1 + 4 * pace**2)) / 2
    return following, (pace - 1) / following


@dataclass
class Limits:
    """When a run ends short of its gap."""

    rounds: int = 200
    seconds: float = 60.0


def local_run(
    problem: Problem, method: Method, n: int, by_label: bool, limits: Limits, lost: int = 0
) -> Run:
    """Rounds of local sweeps until the gap is reached; the first partitions may lose their states."""
    run = Run(problem.data, problem.oracle, problem.lam, method.name, n, by_label)
    partitions = [Partition(problem, rows, p) for p, rows in enumerate(problem.cut(n, by_label))]
    bounds, f, deadline = Bounds(run), problem.space.zeros(), time.process_time() + limits.seconds
    sigma, down = method.first_sigma(n), 0
    work, pace, ahead, momentum = 0.0, 1.0, f, 0.0
    while run.total < limits.rounds and time.process_time() < deadline:
        if run.total == 5:
            for partition in partitions[:lost]:
                partition.lose()
        began = time.process_time()
        changes = [p.answer(f, ahead, momentum, method.sweeps, sigma) for p in partitions]
        work += time.process_time() - began
        _count_bytes(run, changes, down)
        whole = sum(normal for normal, _ in changes), sum(offset for _, offset in changes)
        quotient = best_step(f, *whole)
        steps = np.full(n, np.clip(quotient, 0.0, 1.0))
        if method.each:
            table_ = np.stack([normal for normal, _ in changes])
            slopes = np.array([offset for _, offset in changes]) - table_ @ f
            steps = best_steps(slopes, table_ @ table_.T, steps[0])
        for partition, change, step in zip(partitions, changes, steps, strict=True):
            partition.move(change, step)
        squares = sum(float(normal @ normal) for normal, _ in changes)
        agreement = float(whole[0] @ whole[0]) / squares if squares > 0 else 1.0
        run.sigma, run.step = sigma, float(steps.mean())
        sigma = next_sigma(method.sigma, sigma, n, quotient, agreement)
        before, f = f, sum(partition.normal for partition in partitions)
        down = int(np.count_nonzero(f - before))
        if method.accelerated and run.total >= ROUNDS_BEFORE_MOMENTUM:
            pace, momentum = _next_momentum(pace, quotient)
        ahead = f + momentum * (f - before)
        half = 0.5 * float(f @ f)
        dual = sum(partition.offset for partition in partitions) - half
        if bounds.offer(half + sum(partition.state.value(f)[0] for partition in partitions), dual):
            break
    for partition in partitions:
        partition.check()
    run.seconds = work / run.total
    return run


def _count_bytes(run: Run, changes: list[tuple[np.ndarray, float]], down: int) -> None:
    """Add what a round sends, in megabytes: f or its change to all, and an answer from each."""
    n, size = len(changes), len(changes[0][0])
    up = sum(int(np.count_nonzero(normal)) for normal, _ in changes)
    run.dense += 1e-6 * n * (8 * size + 8 * (size + 1))
    run.sparse += 1e-6 * (BYTES_OF_ENTRY * (n * down + up) + 16 * n)


def bundle_run(
    problem: Problem, method: Method, n: int, by_label: bool, limits: Limits, lost: int = 0
) -> Run:
    """Rounds of planes until the gap is reached; the first partitions may lose their states."""
    run = Run(problem.data, problem.oracle, problem.lam, method.name, n, by_label)
    partitions = [Partition(problem, rows, p) for p, rows in enumerate(problem.cut(n, by_label))]
    space, blocks = problem.space, np.arange(n)
    planes = WorkingSet(space, np.ones(n), np.zeros(n))
    bounds, f, shares = Bounds(run), space.zeros(), np.zeros((n, space.size))
    run.sigma = sigma = method.first_sigma(n)
    down, work, driver, deadline = 0, 0.0, 0.0, time.process_time() + limits.seconds
    while run.total < limits.rounds and time.process_time() < deadline:
        if run.total == 5:
            for partition in partitions[:lost]:
                partition.lose()
                partition.normal = space.zeros()
        began = time.process_time()
        exact = [partition.state.term.plane_of_sum(space, f) for partition in partitions]
        stood = [partition.normal for partition in partitions]
        for partition, share in zip(partitions, shares, strict=True):
            partition.stand(f, share, method.sweeps, sigma)
        work += time.process_time() - began
        touching = np.stack([plane.normals.ravel() for plane in exact])
        normals = np.stack([partition.normal for partition in partitions])
        up = np.count_nonzero(touching) + np.count_nonzero(normals - np.stack(stood))
        run.dense += 1e-6 * 8 * n * (space.size + 2 * (space.size + 1))
        run.sparse += 1e-6 * (BYTES_OF_ENTRY * (n * down + up) + 8 * (4 * n + len(planes)))
        primal = 0.5 * float(f @ f) + sum(float(plane.upper[0]) for plane in exact)
        began = time.process_time()
        planes.prune(IDLE_ROUNDS)
        planes.add(normals, np.array([partition.offset for partition in partitions]), blocks)
        planes.add(touching, np.array([plane.offsets[0] for plane in exact]), blocks)
        planes.ascend(f.copy(), 1e-6 * planes.offset + 1e-12, 300)
        before_f, f = f, planes.combination()
        for p in blocks:
            mine = np.flatnonzero((planes.blocks == p) & (planes.masses > 0))
            shares[p] = planes.masses[mine] @ planes.normals[mine]
        driver += time.process_time() - began
        down = int(np.count_nonzero(f - before_f))
        if bounds.offer(primal, planes.offset - 0.5 * float(f @ f)):
            break
    run.planes, run.seconds, run.driver = len(planes), work / run.total, driver / run.total
    return run


def bmrm_run(problem: Problem, ns: Sequence[int], limits: Limits) -> list[Run]:
    """Rounds of BMRM; they are those of any number of partitions, only the bytes differ."""
    solver, objective = BMRM(), problem.objective
    state = solver.init(objective, np.random.default_rng(0))
    first = Run(problem.data, problem.oracle, problem.lam, "bmrm", 1, False, planes=1)
    bounds, f, down = Bounds(first), state.f, 0
    work, deadline = 0.0, time.process_time() + limits.seconds
    while first.total < limits.rounds and time.process_time() < deadline:
        began = time.process_time()
        solver.step(objective, state)
        work += time.process_time() - began
        found = solver.bounds(objective, state)
        down += int(np.count_nonzero(state.f - f))
        f = state.f
        if bounds.offer(found.upper, found.dual):
            break
    first.planes, first.driver = len(state.bundle), 0.0
    runs = []
    for n in ns:
        # A plane has at most the features that its rows have.
        up = sum(len(np.unique(problem.X[rows].indices)) for rows in problem.cut(n, False))
        run = Run(**{**asdict(first), "n": n})
        size = problem.space.size
        run.dense = 1e-6 * run.total * n * 8 * (2 * size + 1)
        run.sparse = 1e-6 * (BYTES_OF_ENTRY * (n * down + run.total * up) + 16 * n * run.total)
        run.seconds = work / run.total
        runs.append(run)
    return runs


def simulate(
    problem: Problem, method: Method, n: int, by_label: bool, limits: Limits, lost: int = 0
) -> Run:
    """A run of a method."""
    run = bundle_run if method.bundle else local_run
    return run(problem, method, n, by_label, limits, lost)


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


def generated(n_rows: int, seed: int = 0, n_features: int = 50_000) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows like mail: about 47 entries, words that lean to a class, 3 % of the labels wrong."""
    parts = []
    lean = np.random.default_rng(99).choice([-1.0, 0.0, 1.0], n_features)
    for start in range(0, n_rows, 100_000):
        m, rng = min(100_000, n_rows - start), np.random.default_rng([seed, start])
        y = np.where(rng.random(m) < 0.4, 1, -1)
        rows = np.repeat(np.arange(m), rng.poisson(106, m) + 2)
        # Frequencies follow Zipf's law; the order of words does not follow frequencies.
        words = (n_features ** rng.random(len(rows)) - 1).astype(np.int64) * 7919 % n_features
        keep = rng.random(len(words)) < 1 / (1 + np.exp(-1.5 * y[rows] * lean[words]))
        entries = np.ones(keep.sum()), (rows[keep], words[keep])
        X = sp.csr_matrix(entries, shape=(m, n_features))
        X.data = np.log1p(X.data)
        parts.append((X, np.where(rng.random(m) < 0.03, -y, y)))
    X = sp.vstack([X for X, _ in parts], format="csr")
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, np.concatenate([y for _, y in parts])


BUNDLES = tuple(Method(sigma=rule, bundle=True) for rule in ("1", "root", "P"))
WINNERS = (Method(sigma="P"), Method(sigma="P", accelerated=True), BUNDLES[1])
LARGE = (
    Method(),
    *WINNERS[:2],
    Method(5, "P", accelerated=True),
    Method(sigma="agree"),
    Method(each=True),
    *BUNDLES,
)
ALL = (
    *(Method(s) for s in (1, 2, 5)),
    *(Method(s, "P") for s in (1, 2, 5)),
    *(Method(s, "P", accelerated=True) for s in (1, 2, 5)),
    Method(sigma="t"),
    Method(sigma="agree"),
    Method(each=True),
    Method(5, each=True),
    *BUNDLES,
    *(Method(s, "root", bundle=True) for s in (2, 5)),
)


class Log:
    """Tables, printed as they are made and kept for JSON."""

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
    """Runs of methods on numbers of partitions, cut by label or not; then those of BMRM."""
    for n, by_label, chosen in plan:
        for method in chosen:
            yield simulate(problem, method, n, by_label, limits)
    yield from bmrm_run(problem, sorted({n for n, _, _ in plan}), limits)


def losses(problem: Problem, n: int, limits: Limits) -> Iterator[Run]:
    """The same runs with and without the loss of one state, and of half of them."""
    for method in (Method(), *WINNERS):
        for lost in (0, 1, n // 2):
            run = simulate(problem, method, n, False, limits, lost)
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
    plan: list[Any] = [(n, False, WINNERS) for n in (1, 2, 4, 16, 32)]
    plan += [(8, False, ALL), (8, True, WINNERS), (64, False, LARGE)]
    for lam in (1e-2, 1e-3, 1e-4):
        for oracle in ORACLES:
            problem = Problem("mail", X, y, oracle, lam)
            log.problem(problem, compare(problem, plan, limits), limits)


def generated_part(log: Log, options: argparse.Namespace) -> None:
    X, y = generated(100_000)
    for oracle, factor in (("hinge", 2), ("FDrop(10)", 5)):
        limits = Limits(options.rounds, factor * options.seconds)
        for lam in (1e-3, 1e-5):
            problem = Problem("generated, 10^5 rows", X, y, oracle, lam)
            plan = [(n, False, (Method(), *WINNERS)) for n in (8, 64)]
            log.problem(problem, compare(problem, plan, limits), limits)


def million_part(log: Log, options: argparse.Namespace) -> None:
    X, y = generated(1_000_000)
    for oracle, factor in (("hinge", 8), ("FDrop(10)", 12)):
        limits = Limits(options.rounds, factor * options.seconds)
        problem = Problem("generated, 10^6 rows", X, y, oracle, 1e-3)
        plan = [(n, False, WINNERS) for n in (8, 64)]
        log.problem(problem, compare(problem, plan, limits), limits)


def loss_part(log: Log, options: argparse.Namespace) -> None:
    X, y = mail_rows(options)
    limits = Limits(options.rounds, 3 * options.seconds)
    for oracle in ORACLES:
        problem = Problem("mail, states lost after round 5", X, y, oracle, 1e-3)
        log.problem(problem, losses(problem, 8, limits), limits)


def quick_part(log: Log, _: argparse.Namespace) -> None:
    """Every method on few rows."""
    X, y = generated(2000, n_features=3000)
    limits = Limits(40, 5.0)
    for oracle in ORACLES:
        problem = Problem("generated, 2000 rows", X, y, oracle, 0.1)
        plan = [(1, False, WINNERS), (4, False, WINNERS), (8, False, ALL), (8, True, WINNERS)]
        log.problem(problem, compare(problem, plan, limits), limits)
        log.problem(problem, losses(problem, 8, limits), limits)


WORK: dict[str, Callable[[Log, argparse.Namespace], None]] = {
    "mail": mail_part,
    "generated": generated_part,
    "million": million_part,
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
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


def main() -> None:
    """Run what the options ask for."""
    options, log = parse(), Log()
    print(versions(), flush=True)
    for work in [quick_part] if options.quick else [WORK[part] for part in options.parts]:
        work(log, options)
    write_json(options.json, {"versions": versions(), "runs": [asdict(run) for run in log.runs]})


if __name__ == "__main__":
    main()
