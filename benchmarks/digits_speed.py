"""Time, memory and support vectors of models of digits, compared with SVC.

The protocol is in `docs/evidence/speed.md`. Nothing is tuned. structinv and the reference alternate in
one process, and every kernel is compiled or loaded before a clock starts. ``taskset -c 0`` gives one
processor and one BLAS thread.

- ``--per-class``, ``--side`` and ``--tol`` change sizes. Images of 16 x 16 pixels are those of 28 x 28
  averaged over areas. gamma is 0.02 times 784 / pixels.
- support: errors on 10000 unused training images serve to choose the fraction of ``compress``.
- predict: a second line has the votes of libsvm by matrix products (`digits.votes`, float64).
- oracle: one pass of the linear multiclass objective over the 60000 images at a fixed random f. The
  reference is the product of the images with a (784, 210) matrix: 10 classes times 21 variants.
- memory: the rise of the resident memory during a linear fit. Linux only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from digits import Rows, draw_rows, load_mnist, votes
from report import Line, parser_of, show, versions
from sklearn.svm import SVC
from speed import memory_mark, take_turns
from threadpoolctl import threadpool_info

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles import teo2007_transforms
from structinv.spaces import ExplicitSpace
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

# Gamma for images of 28 x 28 pixels.
GAMMA, C = 0.02, 10.0
SIDE = 28
EPSILONS = (0.1, 0.3, 0.5)
SHARES = (0.25, 0.125, 0.0625)
ALL_ROWS = ("fit", "support", "predict", "oracle", "memory")


@dataclass
class Bench:
    """Images, and the two models, fitted at the first access."""

    train: Rows
    test: Rows
    some: Rows
    held_out: Rows
    repeats: int
    often: int
    tol: float

    def invariant(self, epsilon: float = 0.0) -> InvariantSVC:
        model = InvariantSVC(
            teo2007_transforms(), gamma=self.gamma, C=C, tol=self.tol, plane_tol=epsilon, random_state=0
        )
        return model.fit(*self.some)

    @property
    def gamma(self) -> float:
        """The rate of the kernel, by the number of pixels."""
        return GAMMA * SIDE**2 / self.some[0].shape[1]

    @cached_property
    def virtual(self) -> Rows:
        """All variants of all images."""
        X, y = self.some
        orbits = teo2007_transforms().orbit(X)
        return orbits.reshape(-1, X.shape[1]), np.repeat(y, orbits.shape[1])

    def reference(self) -> SVC:
        """Fit SVC to them."""
        return SVC(gamma=self.gamma, C=C, cache_size=4000).fit(*self.virtual)

    @cached_property
    def fits(self) -> tuple[np.ndarray, InvariantSVC, SVC]:
        """Return median seconds of both fits, and the models."""
        _ = self.virtual
        works = [lambda _: self.invariant(), lambda _: self.reference()]
        seconds, models = take_turns(works, self.repeats)
        return np.median(seconds, axis=0), *models[0]


def fit_lines(bench: Bench) -> list[Line]:
    (ours, theirs), model, _ = bench.fits
    samples = len(bench.virtual[1])
    note = f"gap {model.solution_.relative_gap:.1e}, {model.n_iter_} passes; {samples} virtual samples"
    return [Line("fit", ours, theirs, ours / theirs, note)]


def support_lines(bench: Bench) -> list[Line]:
    """Support vectors and errors."""
    _, tight, svc = bench.fits
    X, y = bench.test
    reference, error = len(svc.support_), np.mean(votes(svc, X) != y)
    models = {0.0: tight} | {epsilon: bench.invariant(epsilon) for epsilon in EPSILONS}
    lines = []
    for epsilon, model in models.items():
        own = np.mean(model.predict(X) != y)
        note = f"error {own:.2%}, VirtualSVC's {error:.2%}; gap {model.solution_.relative_gap:.1e}"
        count = len(model.support_)
        work = f"support vectors, epsilon {epsilon:g}"
        lines.append(Line(work, count, reference, count / reference, note))
    return lines + [compressed_line(bench, share) for share in SHARES]


def compressed_line(bench: Bench, share: float) -> Line:
    """Compress the model to a fraction of VirtualSVC's support vectors."""
    _, model, svc = bench.fits
    reference = len(svc.support_)
    start = perf_counter()
    small = model.compress(n_support=int(share * reference))
    seconds = perf_counter() - start
    (own, whole, theirs), (held, before, _) = (
        [np.mean(answer != y) for answer in (small.predict(X), model.predict(X), votes(svc, X))]
        for X, y in (bench.test, bench.held_out)
    )
    moved = np.abs(small.decision_function(bench.test[0]) - model.decision_function(bench.test[0]))
    note = (
        f"error {own:.2%}, whole {whole:.2%}, VirtualSVC's {theirs:.2%}; held-out training images "
        f"{held:.2%}, whole {before:.2%}; {seconds:.1f} s; scores moved {moved.max():.2f} at most, "
        f"{small.compression_error_:.2f} at the support vectors"
    )
    count = len(small.support_)
    work = f"support vectors, compressed to {share:g}"
    return Line(work, count, reference, count / reference, note)


def predict_lines(bench: Bench) -> list[Line]:
    _, model, svc = bench.fits
    X = bench.test[0]
    works = [lambda _: model.predict(X), lambda _: svc.predict(X), lambda _: votes(svc, X)]
    seconds, answers = take_turns(works, bench.repeats)
    ours, libsvm, products = np.median(seconds, axis=0)
    same = np.mean(answers[0][1] == answers[0][2])
    note = f"{len(X)} images; SVC and its votes agree on {same:.2%}"
    return [
        Line("predict, SVC.predict", ours, libsvm, ours / libsvm, note),
        Line("predict, SVC's votes by products", ours, products, ours / products),
    ]


def oracle_lines(bench: Bench) -> list[Line]:
    """A pass over all images."""
    X, y = bench.train
    term = WorstCase(X, y, teo2007_transforms(), Multiclass(), 1.0 / len(y))
    objective = Objective(ExplicitSpace(X.shape[1], 10), [term])
    rng = np.random.default_rng(0)
    f = objective.space.zeros()
    f += 0.1 * rng.standard_normal(f.shape)
    columns = rng.standard_normal((X.shape[1], 210)).astype(X.dtype)
    works: list[Callable[[int], Any]] = [
        lambda _: objective.value(f).upper,
        lambda _: objective.planes(f).offsets.sum(),
        lambda _: (X @ columns)[0, 0],
    ]
    take_turns(works, 1)
    value, planes, product = np.median(take_turns(works, bench.often)[0], axis=0)
    return [
        Line("oracle pass, values", value, product, value / product),
        Line("oracle pass, planes", planes, product, planes / product),
    ]


def memory_lines(bench: Bench, folder: Path, limit: float) -> list[Line]:
    """Peak memory of linear fits beyond what the process held before."""
    size = bench.train[0].nbytes
    allocator = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), "65536")
    lines = []
    for solver in ("bmrm", "auto"):
        command = [sys.executable, __file__, "--data", str(folder), "--child", solver]
        command += ["--images", str(len(bench.train[1])), "--memory-seconds", str(limit)]
        done = subprocess.run(
            command, env=os.environ | allocator, check=True, stdout=subprocess.PIPE
        )  # fmt: skip
        told = json.loads(done.stdout.splitlines()[-1])
        note = f"MB; reference: the images; {told['passes']} passes, gap {told['gap']:.1e}"
        peak = told["peak"]
        work = f"memory, linear, {solver}"
        lines.append(Line(work, peak / 2**20, size / 2**20, peak / size, note))
    return lines


def child(solver: str, folder: Path, n_images: int, limit: float) -> None:
    """Measure a fit's memory in this process, and print it as JSON."""
    X, y = (part[:n_images].copy() for part in load_mnist(folder, "train"))

    def fit(rows: int, seconds: float) -> InvariantLinearSVC:
        model = InvariantLinearSVC(
            teo2007_transforms(), C=0.01, solver=solver, tol=0.1, max_seconds=seconds, random_state=0
        )  # fmt: skip
        return model.fit(X[:rows], y[:rows])

    fit(500, 1.0)
    gc.collect()
    before = memory_mark("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    model = fit(n_images, limit)
    peak = memory_mark("VmHWM") - before
    gap = float(model.solution_.relative_gap)
    print(json.dumps({"peak": peak, "passes": int(model.n_iter_), "gap": gap}))


def shrink(rows: Rows, side: int) -> Rows:
    """Images of fewer pixels, each the mean over its area of the larger one."""
    if side == SIDE:
        return rows
    edges = np.linspace(0.0, SIDE, side + 1)
    starts = np.maximum.outer(edges[:-1], np.arange(SIDE))
    ends = np.minimum.outer(edges[1:], np.arange(SIDE) + 1.0)
    shares = np.maximum(0.0, ends - starts) * side / SIDE
    images = np.einsum("ap,npq,bq->nab", shares, rows[0].reshape(-1, SIDE, SIDE), shares, optimize=True)
    return images.reshape(len(images), -1).astype(rows[0].dtype), rows[1]


def machine() -> str:
    """Processors and threads of BLAS."""
    blas = {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
    return f"{len(os.sched_getaffinity(0))} processors, {max(blas, default=1)} threads of BLAS"


def load(options: argparse.Namespace) -> Bench:
    """Load images, and run small fits so that every kernel is compiled."""
    train, test = (shrink(load_mnist(options.data, part), options.side) for part in ("train", "t10k"))
    few = draw_rows(train[1], 3, options.seed)
    nothing = train[0][:0], train[1][:0]
    small = Bench(train, test, (train[0][few], train[1][few]), nothing, 1, 1, options.tol)
    small.invariant(0.1).compress(n_support=10, max_iter=1)
    small.fits[1].predict(test[0][:10])
    chosen = draw_rows(train[1], options.per_class, options.seed)
    some = train[0][chosen], train[1][chosen]
    rest = np.setdiff1d(np.arange(len(train[1])), chosen)
    rest = np.random.default_rng(options.seed).permutation(rest)[:10000]
    held_out = train[0][rest], train[1][rest]
    return Bench(train, test, some, held_out, options.repeats, 5, options.tol)


def run(bench: Bench, options: argparse.Namespace) -> list[Line]:
    """Return the lines of the requested rows."""
    work: dict[str, Callable[[], list[Line]]] = {
        "fit": lambda: fit_lines(bench),
        "support": lambda: support_lines(bench),
        "predict": lambda: predict_lines(bench),
        "oracle": lambda: oracle_lines(bench),
        "memory": lambda: memory_lines(bench, options.data, options.memory_seconds),
    }
    lines = []
    for row in options.rows:
        print(f"{row} ...", file=sys.stderr, flush=True)
        lines += work[row]()
    return lines


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, ALL_ROWS, 3, data="mnist/")
    parser.add_argument("--seed", type=int, default=0, help="which digits are drawn")
    parser.add_argument("--per-class", type=int, default=50, help="digits per class")
    parser.add_argument("--side", type=int, default=SIDE, help="pixels a side, at most 28")
    parser.add_argument("--tol", type=float, default=1e-2, help="relative gap of the fits")
    parser.add_argument("--memory-seconds", type=float, default=60.0, help="limit of a linear fit")
    parser.add_argument("--child", choices=("bmrm", "auto"), help=argparse.SUPPRESS)
    parser.add_argument("--images", type=int, default=60000, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")  # gaps are in the notes
    if options.child:
        child(options.child, options.data, options.images, options.memory_seconds)
        return
    bench = load(options)
    lines = run(bench, options)
    print(f"{versions()}, {machine()}")
    title = (
        "Seconds of fits, predictions and passes, memory in MiB, and support vectors: "
        f"MNIST, medians of {bench.repeats}"
    )
    show(title, lines, options.record, "MNIST, 10 to 50 digits per class", machine=machine())


if __name__ == "__main__":
    main()
