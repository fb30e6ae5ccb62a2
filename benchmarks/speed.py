"""Time and memory against LinearSVC, cvxpy and a matrix product, on real mail.

Rules of the comparison:

- Training mails are enron1 and enron2. There is no intercept, and C is the same for all; lambda = 1 /
  (C m).
- structinv and the reference alternate. Times are medians over the repeats. Every kernel is compiled or
  loaded before a clock starts.
- With ``STRUCTINV_CPU_TIME=1`` in the environment, times are processor time instead of wall time, and
  BLAS has one thread. Use it for a trial run on a busy computer.
- Objectives come from `structinv.terms` at the weights of a method, not from the method. A relative gap
  is ``(that value - the lower bound) / that value``.
- Passes in the notes are iterations. Those of structinv may visit some mails several times.
- LinearSVC is ``LinearSVC(loss="hinge", tol=1e-4, fit_intercept=False)`` with its default limit of 1000
  iterations.

Rows of the table, for ``--rows``:

- hinge: both reach the objective of LinearSVC, structinv within 0.1 % (of its worst over the seeds).
  Its `tol` is the loosest of 0.1, 0.08, 0.064, ... for which this holds for every used seed. Seconds
  are summed over three C.
- robust: FScale(10, 0.5, 2), FDrop(10), FAdd(10, 0.1) and FEdit(3, add=0.1). The reference is
  LinearSVC's plain hinge at the same C.
- counts: the same on raw counts, where an added word counts one.
- cvxpy: FScale and FDrop. The reference is the exact quadratic program of 300 mails, with Clarabel.
- predict: `predict` and `certify` of the training rows. The reference is ``X @ w``.
- memory: the rise of the resident memory during `fit`, with loaded data and compiled kernels, divided
  by the size of the CSR matrix. The peak is that of the kernel (VmHWM, reset through
  /proc/self/clear_refs). The allocator returns freed memory at once. Linux only.
- first: the first `fit` of a new process minus the median of later ones, with caches on disk.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from mail import FILES, Corpus, load_mailboxes
from report import Line, parser_of, require, show, versions
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from structinv import InvariantLinearSVC
from structinv.oracles import FAdd, FDrop, FEdit, FScale, Identity
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

TRAIN = ("enron1", "enron2")
WORDS = {"FScale(10, 0.5, 2)": FScale(10, 0.5, 2.0), "FDrop(10)": FDrop(10)}
# A word that is new adds one to a count, and about a tenth to a row of unit length.
ADDED = {"FAdd(10, 0.1)": FAdd(10, 0.1), "FEdit(3, add=0.1)": FEdit(3, add=0.1)}
ORACLES = {**WORDS, **ADDED}
ORACLES_OF_COUNTS = {**WORDS, "FAdd(10)": FAdd(10), "FEdit(3, add=1)": FEdit(3, add=1.0)}
TOLERANCES = {0.01: 1e-3, 0.001: 1e-3, 0.0001: 1e-2}
CPU = "STRUCTINV_CPU_TIME"
NOW = time.process_time if os.environ.get(CPU) else time.perf_counter
ALL_ROWS = ("hinge", "robust", "counts", "cvxpy", "predict", "memory", "first")


@dataclass
class Problem:
    """Rows, labels, an oracle and lambda."""

    X: sp.csr_matrix
    y: np.ndarray
    lam: float
    oracle: Any = None

    @property
    def C(self) -> float:  # noqa: N802
        """Weight of the losses."""
        return 1.0 / (self.lam * len(self.y))

    @cached_property
    def objective(self) -> Objective:
        """The judge of all methods."""
        term = WorstCase(self.X, self.y, self.oracle or Identity(), Binary(), self.C)
        return Objective(ExplicitSpace(self.X.shape[1]), [term])

    def value(self, model: Any) -> float:
        """Objective at a model's weights."""
        return self.objective.value(model.coef_.ravel().astype(np.float64)).upper

    def gap(self, model: InvariantLinearSVC) -> float:
        """Relative gap at a model's weights, from its lower bound."""
        value = self.value(model)
        return (value - model.solution_.dual) / value

    def ours(self, tol: float, seed: int = 0) -> InvariantLinearSVC:
        model = InvariantLinearSVC(
            self.oracle, C=self.C, tol=tol, fit_intercept=False, random_state=seed
        )
        return model.fit(self.X, self.y)

    def liblinear(self, seed: int = 0) -> LinearSVC:
        """Fit LinearSVC to the plain hinge loss."""
        model = LinearSVC(loss="hinge", C=self.C, tol=1e-4, fit_intercept=False, random_state=seed)
        return model.fit(self.X, self.y)


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    gc.collect()
    start = NOW()
    result = work()
    return NOW() - start, result


def take_turns(
    works: Sequence[Callable[[int], Any]], repeats: int
) -> tuple[np.ndarray, list[list[Any]]]:
    """Time alternating calls: seconds (repeats, n_works), and their results."""
    seconds, results = np.zeros((repeats, len(works))), []
    for repeat in range(repeats):
        timed = [clock(partial(work, repeat)) for work in works]
        seconds[repeat] = [one for one, _ in timed]
        results.append([result for _, result in timed])
    return seconds, results


def loosest_tolerance(problem: Problem, target: float, seeds: Sequence[int]) -> float:
    """The loosest of 0.1, 0.08, ... with which the objective gets down to the target."""
    tol = 0.1
    while tol > 1e-6:
        if all(problem.value(problem.ours(tol, seed)) <= target for seed in seeds):
            return tol
        tol *= 0.8
    raise RuntimeError(f"no tolerance reaches {target:g} at lambda {problem.lam:g}")


def hinge_lines(bags: Any, repeats: int) -> list[Line]:
    """Plain hinge to LinearSVC's objective."""
    sums, notes = np.zeros((repeats, 3)), []
    for lam in TOLERANCES:
        problem = Problem(bags.train, bags.y, lam)
        reference = max(problem.value(problem.liblinear(seed)) for seed in range(repeats))
        tol = loosest_tolerance(problem, 1.001 * reference, range(repeats))
        works = [partial(problem.ours, tol), problem.liblinear, partial(problem.ours, 1e-3)]
        seconds, models = take_turns(works, repeats)
        sums += seconds
        worst = max(problem.value(ours) / problem.value(theirs) for ours, theirs, _ in models)
        passes = f"{models[0][0].n_iter_} passes, LinearSVC {models[0][1].n_iter_}"
        notes.append(f"{lam:g}: tol {tol:.2g}, {passes}, objective {worst - 1:+.1e}")
    ours, theirs, default = np.median(sums, axis=0)
    return [
        Line("hinge, sum of three C", ours, theirs, ours / theirs, "; ".join(notes)),
        Line("hinge, default tol 1e-3, sum", default, theirs, default / theirs),
    ]


def robust_lines(
    bags: Any,
    tolerances: dict[float, float],
    name: str,
    repeats: int,
    oracles: dict[str, Any],
) -> list[Line]:
    """Robust losses against LinearSVC's hinge loss at the same C."""
    lines = []
    for lam, tol in tolerances.items():
        problems = [Problem(bags.train, bags.y, lam, oracle) for oracle in oracles.values()]
        works = [*(partial(one.ours, tol) for one in problems), problems[0].liblinear]
        seconds, models = take_turns(works, repeats)
        medians = np.median(seconds, axis=0)
        for number, oracle in enumerate(oracles):
            mine = [row[number] for row in models]
            worst = max(problems[number].gap(model) for model in mine)
            note = f"gap {worst:.1e} (tol {tol:g}), {mine[0].n_iter_} passes"
            note += f", LinearSVC {models[0][-1].n_iter_}"
            ratio = medians[number] / medians[-1]
            work = f"{name}{oracle}, lambda {lam:g}"
            lines.append(Line(work, medians[number], medians[-1], ratio, note))
    return lines


def exact_program(problem: Problem, _: int = 0) -> tuple[Any, float]:
    """Solve the robust SVM as one quadratic program; return solution and value.

    The sum of the K largest gains g is the minimum of ``K t + sum s`` over ``s >= g - t`` and
    ``s, t >= 0``.
    """
    import cvxpy as cp

    X, n = problem.X, len(problem.y)
    low, high = problem.oracle.factors
    rows = np.repeat(np.arange(n), np.diff(X.indptr))
    place = np.arange(X.nnz)
    b = sp.csr_matrix((problem.y[rows] * X.data, (place, X.indices)), shape=(X.nnz, X.shape[1]))
    member = sp.csr_matrix((np.ones(X.nnz), (rows, place)), shape=(n, X.nnz))
    w, slack = cp.Variable(X.shape[1]), cp.Variable(n, nonneg=True)
    t, s = cp.Variable(n, nonneg=True), cp.Variable(X.nnz, nonneg=True)
    margin = member @ (b @ w) - problem.oracle.max_changes * t - member @ s
    bound = s + member.T @ t
    constraints = [margin >= 1 - slack, bound >= (1 - low) * (b @ w)]
    if high > 1:
        constraints.append(bound >= (1 - high) * (b @ w))
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + problem.C * cp.sum(slack)), constraints)
    program.solve(solver=cp.CLARABEL)
    return w.value, float(program.value)


def cvxpy_lines(bags: Any, repeats: int) -> list[Line]:
    """300 mails against the exact program."""
    few = np.sort(np.random.default_rng(0).permutation(len(bags.y))[:300])
    X = bags.train[few]
    X = X[:, np.unique(X.indices)]
    lines = []
    for name, oracle in WORDS.items():
        problem = Problem(X, bags.y[few], 0.01, oracle)
        problem.ours(1e-5)
        works = [partial(problem.ours, 1e-5), partial(exact_program, problem)]
        seconds, results = take_turns(works, repeats)
        ours, theirs = np.median(seconds, axis=0)
        model, (w, optimum) = results[0]
        checked = problem.objective.value(w).upper
        note = f"{X.shape[1]} words; structinv / optimum - 1 = {problem.value(model) / optimum - 1:+.1e}"
        note += f"; objective at its w / optimum - 1 = {checked / optimum - 1:+.1e}"
        work = f"cvxpy, 300 mails, {name}, lambda 0.01"
        lines.append(Line(work, ours, theirs, theirs / ours, note))
    return lines


def predict_lines(bags: Any, repeats: int) -> list[Line]:
    """Prediction and certificates against a product of the rows with the weights."""
    X, y, times = bags.train, bags.y, 20

    def often(work: Callable[..., Any], *given: Any) -> Callable[[int], None]:
        def run_often(_: int) -> None:
            for _ in range(times):
                work(*given)

        return run_often

    lines = []
    for name, oracle in ORACLES.items():
        model = Problem(X, y, 0.001, oracle).ours(1e-2)
        product = often(X.__matmul__, model.coef_.ravel())
        works = [often(model.predict, X), often(model.certify, X, y), product]
        take_turns(works, 1)
        predicting, certifying, multiplying = np.median(take_turns(works, repeats)[0], axis=0) / times
        for what, seconds in (("predict", predicting), ("certify", certifying)):
            ratio = seconds / multiplying
            lines.append(Line(f"{what}, {name}", seconds, multiplying, ratio))
    return lines


def memory_lines(bags: Any, repeats: int) -> list[Line]:
    """Peak memory of a fit beyond what the process held before it."""
    X = bags.train
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    lines = []
    for name in ("hinge", *ORACLES, "LinearSVC"):
        peaks = [in_process(bags, "memory", name)["peak"] for _ in range(min(3, repeats))]
        peak = float(np.median(peaks))
        note = "MB; reference: the CSR matrix"
        line = Line(f"memory, {name}", peak / 2**20, size / 2**20, peak / size, note)
        lines.append(line)
    return lines


def first_lines(bags: Any, repeats: int) -> list[Line]:
    """First fit of a fresh process against later ones."""
    lines = []
    for name in ("hinge", *ORACLES):
        in_process(bags, "first", name)
        runs = [in_process(bags, "first", name) for _ in range(repeats)]
        first, later = np.median([[run["first"], run["later"]] for run in runs], axis=0)
        extra = float(np.median([run["first"] - run["later"] for run in runs]))
        note = "ratio: the difference in seconds"
        lines.append(Line(f"first fit, {name}", first, later, extra, note))
    return lines


def in_process(bags: Any, what: str, name: str) -> dict[str, float]:
    """Run `child` in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npz")
        X = bags.train
        np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=bags.y)
        # Large arrays straight from the system, and back to it when they are freed.
        allocator = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), "65536")
        environment = os.environ | (allocator if what == "memory" else {})
        command = [sys.executable, __file__, "--child", what, name, str(path)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def child(what: str, name: str, path: str) -> None:
    """Measure in this process, and print the result as JSON."""
    with np.load(path) as rows:
        X = sp.csr_matrix((rows["data"], rows["indices"], rows["indptr"]), shape=rows["shape"])
        y = rows["y"]
    problem = Problem(X, y, 0.001 if what == "memory" else 0.01, ORACLES.get(name))
    fit = problem.liblinear if name == "LinearSVC" else lambda: problem.ours(1e-3)
    if what == "first":
        seconds = [clock(fit)[0] for _ in range(5)]
        later = float(np.median(seconds[1:]))
        print(json.dumps({"first": seconds[0], "later": later}))
        return
    few = Problem(X[:50].copy(), np.where(np.arange(50) % 2, 1, -1), 0.001, problem.oracle)
    _ = few.liblinear() if name == "LinearSVC" else few.ours(1e-1)
    del few
    gc.collect()
    before = memory_mark("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    model = fit()
    print(json.dumps({"peak": memory_mark("VmHWM") - before, "passes": int(model.n_iter_)}))


def memory_mark(name: str) -> int:
    """A line of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {name}")


def warm_up(bags: Any) -> None:
    """Compile or load every kernel."""
    small = bags.train[:200], np.where(np.arange(200) % 2, 1, -1)
    for oracle in (None, *ORACLES.values()):
        problem = Problem(*small, 0.01, oracle)
        model = problem.ours(1e-1)
        problem.value(model)
        model.certify(*small)


def run(corpus: Corpus, rows: Sequence[str], repeats: int, cvxpy_repeats: int) -> list[Line]:
    """Return the lines of the requested rows."""
    log = corpus.bags(TRAIN, form="log")
    counts = corpus.bags(TRAIN, form="counts")
    warm_up(log)
    work: dict[str, Callable[[], list[Line]]] = {
        "hinge": lambda: hinge_lines(log, repeats),
        "robust": lambda: robust_lines(log, TOLERANCES, "", repeats, ORACLES),
        "counts": lambda: robust_lines(counts, {0.1: 1e-2}, "raw counts, ", repeats, ORACLES_OF_COUNTS),
        "cvxpy": lambda: cvxpy_lines(log, cvxpy_repeats),
        "predict": lambda: predict_lines(log, repeats),
        "memory": lambda: memory_lines(log, repeats),
        "first": lambda: first_lines(log, repeats),
    }
    lines = []
    for row in rows:
        print(f"{row} ...", file=sys.stderr, flush=True)
        done = work[row]()
        for line in done:
            print(*line.cells(), line.note, sep="  ", file=sys.stderr, flush=True)
        lines += done
    return lines


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, ALL_ROWS, 5, data="enron_spam/ and spamassassin/")
    parser.add_argument("--cvxpy-repeats", type=int, default=5)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")  # gaps and iterations are in the table
    if os.environ.get(CPU):
        threadpool_limits(1, user_api="blas")
    if options.child:
        child(*options.child)
        return
    require(options.data, FILES["enron"])
    corpus = Corpus(load_mailboxes(options.data, spamassassin=False))
    lines = run(corpus, options.rows, options.repeats, options.cvxpy_repeats)
    kind = "processor time" if os.environ.get(CPU) else "wall time"
    print(versions())
    title = (
        f"Linear models on {' and '.join(TRAIN)}: seconds of {kind}, "
        f"medians of {options.repeats}; memory in MB"
    )
    show(title, lines, options.record, "enron1 and enron2, log counts of unit length")


if __name__ == "__main__":
    main()
