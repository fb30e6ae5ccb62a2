"""Speed and memory of penalties on all partial derivatives (data set g241c).

Rules of the comparison:

- Rows of unit length, Gaussian kernel with the median distance as length scale, 361500 functionals.
- product: one product with their Gram matrix. The reference is its three matrix products (``X A'``, a
  kernel matrix times A, a matrix times X), alternating. Times are medians over the repeats.
- fit: 100 labeled rows (the first published split), C 1, squared penalty, to a relative gap of 1e-3
  from zero. The count is that of products with the Gram matrix, including those of the certificate.
- memory: the rise of the resident memory during the fit, with loaded data and compiled kernels. Linux
  only.
- Libraries have their default threads. The first line has their number.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from digits_speed import machine
from report import Line, parser_of, show, versions
from scipy.spatial.distance import pdist
from speed import NOW, memory_mark, take_turns

from structinv.functionals import Evaluation, Gradient
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Kernel, Matern, Polynomial
from structinv.losses import Logistic, ScalarLoss, Squared, SquaredHinge
from structinv.losses.combined import Affine
from structinv.solvers import Gap, Representer, Solution, solve
from structinv.spaces import RepresenterSpace
from structinv.terms import Objective, Penalty
from structinv.terms.penalty import FamilyFunctionals

LOSSES: dict[str, ScalarLoss] = {"logistic": Logistic(), "squared hinge": SquaredHinge()}
NUS = (0.001, 0.01, 0.1)


def load(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of unit length, labels -1 and +1, and the labeled rows of the first split."""

    def read(name: str) -> dict[str, Any]:
        with lzma.open(folder / "chapelle_ssl" / f"SSL,set=5,{name}.mat.xz") as file:
            return scipy.io.loadmat(io.BytesIO(file.read()))

    data, splits = read("data"), read("splits,labeled=100")
    X = data["X"].astype(np.float64)
    labeled = splits["idxLabs"][0].astype(np.int64) - 1
    return X / np.linalg.norm(X, axis=1, keepdims=True), data["y"].ravel().astype(float), labeled


def product_lines(X: np.ndarray, sigma: float, repeats: int) -> list[Line]:
    """One product with the Gram matrix of all gradients."""
    kernels: list[tuple[str, Kernel, Any]] = [
        ("gaussian", Gaussian(sigma), np.float64),
        ("gaussian, float32", Gaussian(sigma), np.float32),
        ("matern 5/2", Matern(sigma, 2.5), np.float64),
        ("polynomial", Polynomial(3), np.float64),
        ("gaussian + polynomial", Gaussian(sigma) + Polynomial(3), np.float64),
    ]
    lines = []
    for name, kernel, dtype in kernels:
        rows = X.astype(dtype)
        representers = Representers(kernel, [Gradient().bind(rows).parts(kernel)])
        coefficients = np.random.default_rng(0).standard_normal(representers.size)
        A = coefficients.reshape(rows.shape).astype(dtype)
        some = Gaussian(sigma).matrix(rows, rows)

        def contained(_: int, rows=rows, A=A, some=some) -> None:
            rows @ A.T
            some @ A
            some @ rows

        def ours(_: int, representers=representers, coefficients=coefficients) -> None:
            representers.apply(coefficients)

        ours(0)
        seconds = np.median(take_turns([ours, contained], repeats)[0], axis=0)
        lines.append(Line(f"product, {name}", *seconds, seconds[0] / seconds[1]))
    return lines


def fitted(
    X: np.ndarray, y: np.ndarray, labeled: np.ndarray, sigma: float, loss: ScalarLoss, nu: float
) -> tuple[Solution, Representers]:
    """A fit with all derivatives, and the representers, which count products."""
    kernel = Gaussian(sigma)
    families = [Evaluation(labeled), Gradient()]
    representers = Representers(kernel, [family.bind(X).parts(kernel) for family in families])
    terms = [
        Penalty(FamilyFunctionals(representers, 0), Affine(loss, y[labeled]), 1.0),
        Penalty(FamilyFunctionals(representers, 1), Squared(), nu),
    ]
    objective = Objective(RepresenterSpace(representers, X.shape[1]), terms)
    return solve(objective, Representer(), Gap(1e-3), random_state=0), representers


def fit_lines(X: np.ndarray, y: np.ndarray, labeled: np.ndarray, sigma: float) -> list[Line]:
    """Products of a fit, and its time."""
    others = np.setdiff1d(np.arange(len(y)), labeled)
    lines = []
    for name, loss in LOSSES.items():
        for nu in NUS:
            start = NOW()
            solution, representers = fitted(X, y, labeled, sigma, loss, nu)
            seconds = NOW() - start
            scores = representers.values(solution.f.representers[:, 0], X[others])
            error = 100 * np.mean(np.sign(scores) != y[others])
            note = (
                f"{seconds:.2f} s; gap {solution.relative_gap:.1e}; error on the rows without a label "
                f"{error:.1f}%"
            )
            count = float(representers.n_products)
            work = f"products of a fit, {name}, nu {nu:g}"
            lines.append(Line(work, count, np.nan, np.nan, note))
    return lines


def memory_line(folder: Path) -> Line:
    """Peak memory of a fit beyond what the process held before."""
    allocator = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), "65536")
    command = [sys.executable, __file__, "--data", str(folder), "--child"]
    done = subprocess.run(command, env=os.environ | allocator, check=True, stdout=subprocess.PIPE)
    told = json.loads(done.stdout.splitlines()[-1])
    mebibytes = told["peak"] / 2**20
    return Line("memory of a fit, MiB", mebibytes, np.nan, np.nan)


def child(folder: Path) -> None:
    """Measure a fit's memory in this process, and print it as JSON."""
    X, y, labeled = load(folder)
    few = np.sort(np.r_[labeled[:10], np.arange(20)])
    fitted(X[few], y[few], np.arange(10), 1.4, Logistic(), 0.01)
    sigma = float(np.median(pdist(X)))
    gc.collect()
    before = memory_mark("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    fitted(X, y, labeled, sigma, Logistic(), 0.01)
    print(json.dumps({"peak": memory_mark("VmHWM") - before}))


def main() -> None:
    parser = parser_of(__doc__, repeats=15, data="mnist/")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.data)
        return
    X, y, labeled = load(options.data)
    sigma = float(np.median(pdist(X)))
    lines = product_lines(X, sigma, options.repeats)
    fitted(X[:100], y[:100], np.arange(10), sigma, Logistic(), 0.01)
    lines += [*fit_lines(X, y, labeled, sigma), memory_line(options.data)]
    print(f"{versions()}, {machine()}")
    show(
        "Functionals on g241c: seconds of a product, number of products per fit, memory",
        lines,
        options.record,
        "g241c (Chapelle et al. 2006), 361500 partial derivatives",
        machine=machine(),
    )


if __name__ == "__main__":
    main()
