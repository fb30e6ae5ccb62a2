"""Time of dense rows, of regression with an averaged kernel, and of sequences with many labels.

- dense: generated rows with 50 normal features and a linear target, `Box(0.1)`; C = 20 / rows,
  to a relative gap of 1e-3.
- ridge: generated distance matrices of ten points, `OrbitRidge` with `OrbitMean` over eight
  permutations.
- labels: generated sequences of 20 rows with 50 normal features and L labels, `InvariantStructuredSVC`
  without perturbations and with `FDrop(1)`, to a relative gap of 1e-2.

All seconds are processor seconds of all threads, after compilation, of a single run.

    python benchmarks/performance_dense.py
    python benchmarks/performance_dense.py --most-rows 1000000   # a million rows too: 2 GB
"""

from __future__ import annotations

from typing import Any

import numpy as np
from performance import seconds_of
from report import parser_of, table, write_record
from scipy.spatial.distance import pdist, squareform

from structinv import InvariantLinearSVC, InvariantLinearSVR, InvariantStructuredSVC, OrbitRidge
from structinv.kernels import Laplacian, OrbitMean
from structinv.oracles import Box, FDrop, Permutations
from structinv.structures import Sequence

FEATURES = 50


def rows_of_dense(most_rows: int) -> list[list[str]]:
    """By number of rows and kind of target."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=FEATURES)
    rows = []
    for n_rows in (1000, 10_000, 100_000, 1_000_000):
        if n_rows > most_rows:
            continue
        X = rng.normal(size=(n_rows, FEATURES))
        target = X @ weights / FEATURES**0.5 + rng.normal(0, 0.5, n_rows)
        models: dict[str, tuple[Any, np.ndarray]] = {
            "InvariantLinearSVC": (InvariantLinearSVC(Box(0.1), C=20 / n_rows), target > 0),
            "InvariantLinearSVR": (InvariantLinearSVR(Box(0.1), C=20 / n_rows), target),
        }
        for name, (model, y) in models.items():
            model.set_params(random_state=0)
            fit, _ = seconds_of(lambda m=model, X=X, y=y: m.fit(X, y))
            predict, _ = seconds_of(lambda m=model, X=X: m.predict(X))
            certify, _ = seconds_of(lambda m=model, X=X: m.certify(X))
            rows.append([f"{n_rows:,} rows, {name}", f"{fit:.2f}", f"{predict:.3f}", f"{certify:.3f}"])
    return rows


def rows_of_ridge() -> list[list[str]]:
    """By number of matrices."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(5100, 10, 3))
    matrices = np.array([squareform(pdist(each)).ravel() for each in points])
    energies = np.array([np.sum(1 / (0.5 + pdist(each))) for each in points])
    rows = []
    for n_rows in (500, 1000, 2000, 5000):
        oracle = Permutations((10, 10), axes="both", noise=1.0)
        model = OrbitRidge(OrbitMean(oracle, Laplacian(10.0), n_draws=8, random_state=0))
        fit, _ = seconds_of(lambda m=model, n=n_rows: m.fit(matrices[:n], energies[:n]))
        taken = [seconds_of(lambda m=model: m.predict(matrices[-1:]))[0] for _ in range(100)]
        middle, high = (1000 * np.quantile(taken[10:], [0.5, 0.99])).round(1)
        rows.append([f"{n_rows} matrices", f"{fit:.2f}", f"{middle:.1f}", f"{high:.1f}"])
    return rows


def rows_of_labels(all_labels: tuple[int, ...] = (5, 10, 20, 50)) -> list[list[str]]:
    """By number of labels."""
    rows = []
    for n_labels in all_labels:
        rng = np.random.default_rng(0)
        centers = rng.normal(size=(n_labels, FEATURES))
        labels = [np.sort(rng.integers(n_labels, size=20)) for _ in range(200)]
        X = [centers[y] + rng.normal(0, 1.5, (20, FEATURES)) for y in labels]
        numbers = []
        for oracle in (None, FDrop(1)):
            model = InvariantStructuredSVC(Sequence(), oracle=oracle, C=0.01, tol=1e-2, random_state=0)
            fit, _ = seconds_of(lambda m=model, X=X, y=labels: m.fit(X[:100], y[:100]))
            predict, _ = seconds_of(lambda m=model, X=X: m.predict(X[100:]))
            numbers += [f"{fit:.2f}", f"{predict:.3f}"]
        rows.append([f"{n_labels} labels", *numbers])
    return rows


def main() -> None:
    """Print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--most-rows", type=int, default=100_000)
    options = parser.parse_args()
    rows_of_dense(1000)  # compile
    rows_of_labels((5,))
    headers = ["matrices", "fit, s", "predict one, median, ms", "predict one, 99 %, ms"]
    print(table("OrbitRidge", headers, rows_of_ridge(), key="ridge"))
    headers = [
        "labels",
        "fit, s",
        "predict 100, s",
        "fit with FDrop(1), s",
        "predict 100 with FDrop(1), s",
    ]
    print(table("InvariantStructuredSVC", headers, rows_of_labels(), key="labels"))
    headers = ["rows", "fit, s", "predict, s", "certify, s"]
    print(table("Dense rows", headers, rows_of_dense(options.most_rows), key="dense"))
    write_record(options.record, "generated rows, distance matrices and sequences", "0")


if __name__ == "__main__":
    main()
