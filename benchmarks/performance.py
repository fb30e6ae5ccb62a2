"""Time of fits, predictions and certificates by number of rows, features, edits, labels and variants.

- linear, million: generated mail with about 100 words per row, the hinge loss, no intercept, C = 20 /
  rows unless the row names it, to a relative gap of 1e-3. Texts have about 130 tokens.
- kernel: 8 x 8 digits, `InvariantSVC` with C = 10, to a relative gap of 1e-3.
- one_row: calls of `predict` and `certify` for a single row, 1000 each.
- dense: 50 normal features and a linear target, `Box(0.1)`, C = 20 / rows, to a relative gap of 1e-3.
- ridge: generated distance matrices of ten points, `OrbitMean` over eight permutations.
- labels: sequences of 20 rows with 50 normal features and L labels, to a relative gap of 1e-2.

All seconds are processor seconds of all threads, after compilation, of a single run. They depend less on
other programs than wall time. A million rows of "linear" and "dense" take 3 GB, those of "million" 8 GB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from report import parser_of, table, write_record
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    OrbitRidge,
)
from structinv.datasets import make_mail_like
from structinv.kernels import Laplacian, OrbitMean
from structinv.oracles import Box, FAdd, FDrop, FEdit, InvarianceOracle, Permutations, Rotations, Shifts
from structinv.structures import Sequence as Chain

PART = 100_000
FEATURES = 50
EDITS = 10
SIZES = (1000, 10_000, 100_000, 1_000_000)
CASES = [(250, 5), (500, 5), (1000, 5), (500, 1), (500, 7), (500, 25)]
PLAIN: dict[str, Any] = {"fit_intercept": False, "random_state": 0}


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds and the result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def milliseconds_of(call: Callable[[], Any], n_calls: int = 1000) -> list[str]:
    """Median and 99 % quantile of calls, the first tenth left out."""
    taken = [seconds_of(call)[0] for _ in range(n_calls)]
    return [f"{1000 * q:.2f}" for q in np.quantile(taken[n_calls // 10 :], [0.5, 0.99])]


def measured(model: Any, X: Any, y: np.ndarray, *labels: Any, **given: Any) -> list[str]:
    """Seconds of fit, predict and certify, as texts; `labels` are those for the certificates."""
    fit, _ = seconds_of(lambda: model.fit(X, y))
    predict, _ = seconds_of(lambda: model.predict(X))
    certify, _ = seconds_of(lambda: model.certify(X, *labels, **given))
    return [f"{fit:.2f}", f"{predict:.3f}", f"{certify:.3f}"]


def mails(n_rows: int, n_features: int = 10_000) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generated mail as float64."""
    starts = range(0, n_rows, PART)
    parts = [make_mail_like(min(PART, n_rows - at), n_features, random_state=at) for at in starts]
    return sp.vstack([X for X, _ in parts], format="csr").astype(float), np.hstack([y for _, y in parts])


def as_texts(X: sp.csr_matrix) -> list[str]:
    """The words of each row, as often as counted."""
    names = np.array([f"word{number}" for number in range(X.shape[1])], dtype=object)
    return [
        " ".join(np.repeat(names[X.indices[start:stop]], X.data[start:stop].astype(int)))
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def linear(X: Any, y: np.ndarray, oracle: InvarianceOracle | None) -> list[str]:
    """Seconds for generated mail."""
    model = InvariantLinearSVC(oracle, C=20 / len(y), **PLAIN)
    return measured(model, X, y, y, oracle=oracle or FDrop(10))


def rows_of_linear(most_rows: int) -> list[list[str]]:
    """By number of rows, features and edits."""
    rows = []
    for n_rows in SIZES:
        if n_rows <= most_rows:
            X, y = mails(n_rows)
            for name, oracle in {"no oracle": None, "FDrop(10)": FDrop(10)}.items():
                rows.append([f"{n_rows:,} rows, {name}", *linear(X, y, oracle)])
    for n_features in (1000, 100_000):
        X, y = mails(10_000, n_features)
        rows.append([f"10,000 rows, {n_features:,} features, FDrop(10)", *linear(X, y, FDrop(10))])
    X, y = mails(10_000)
    for edits in (1, 100):
        rows.append([f"10,000 rows, FDrop({edits})", *linear(X, y, FDrop(edits))])
    rows.append(["10,000 rows, FDrop(10), float32", *linear(X.astype(np.float32), y, FDrop(10))])
    return rows


def rows_of_million(n_rows: int) -> list[list[str]]:
    """Larger C, other edits, and texts."""
    X, y = mails(n_rows)
    texts = as_texts(X)
    few = 20 / n_rows
    models: dict[str, tuple[Any, Any]] = {
        f"rows, FDrop({EDITS}), C = {C:g}": (InvariantLinearSVC(FDrop(EDITS), C=C, **PLAIN), X)
        for C in (1e-4, 1e-3, 1e-2)
    }
    for oracle in (FAdd(EDITS), FEdit(EDITS, add=1.0)):
        name = f"rows, {type(oracle).__name__}({EDITS})"
        models[name] = InvariantLinearSVC(oracle, C=few, **PLAIN), X
    for edit in ("drop", "add"):
        model = InvariantTextClassifier(edit, EDITS, CountVectorizer(), C=few, **PLAIN)
        models[f'texts, InvariantTextClassifier("{edit}", {EDITS})'] = model, texts
    return [[f"{n_rows:,} {name}", *measured(*both, y, y)] for name, both in models.items()]


def rows_of_kernel(cases: Sequence[tuple[int, int]] = CASES) -> list[list[str]]:
    """By number of digits and transformations."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    lists = {
        1: None,
        5: Shifts(1),
        7: Shifts(1) | Rotations(degrees=[-10, 10]),
        25: Shifts(1) @ Rotations(degrees=[-10, -5, 5, 10]),
    }
    rows = []
    for n_rows, members in cases:
        for dtype in (np.float64, np.float32) if members == 5 else (np.float64,):
            few, labels = X[:n_rows].astype(dtype), y[:n_rows]
            model = InvariantSVC(lists[members], C=10.0, random_state=0)
            fit, _ = seconds_of(lambda m=model, few=few, labels=labels: m.fit(few, labels))
            predict, _ = seconds_of(lambda m=model: m.predict(X[1000:1500]))
            certify, _ = seconds_of(lambda m=model: m.certify(X[1000:1500], y[1000:1500]))
            name = f"{n_rows} digits, {members} variants" + ", float32" * (dtype is np.float32)
            numbers = [f"{fit:.2f}", f"{predict:.3f}", f"{certify:.3f}"]
            rows.append([name, *numbers, str(len(model.support_vectors_))])
    return rows


def rows_of_one_row() -> list[list[str]]:
    """Median and 99th percentile of single calls, in milliseconds."""
    X, y = mails(2000, 2000)
    words = InvariantLinearSVC(FDrop(5), C=0.01, **PLAIN).fit(X, y)
    texts = [" ".join(f"word{n}" for n in X[row].indices[:30]) for row in range(400)]
    text = InvariantTextClassifier("drop", 3, CountVectorizer(), C=0.1, random_state=0)
    text.fit(texts, y[:400])
    digits, labels = load_digits(return_X_y=True)
    digits = digits / 16
    kernel = InvariantSVC(Shifts(1), C=10.0, random_state=0).fit(digits[:500], labels[:500])
    calls = {
        "InvariantLinearSVC, FDrop(5), sparse row": (words, X[:1]),
        "InvariantTextClassifier, 30 words": (text, texts[:1]),
        f"InvariantSVC, Shifts(1), {len(kernel.support_vectors_)} support vectors": (kernel, digits[:1]),
    }
    rows = []
    for name, (model, row) in calls.items():
        methods = (partial(model.predict, row), partial(model.certify, row))
        rows.append([name, *(cell for method in methods for cell in milliseconds_of(method))])
    return rows


def rows_of_dense(most_rows: int) -> list[list[str]]:
    """By number of rows and kind of target."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=FEATURES)
    rows = []
    for n_rows in SIZES:
        if n_rows > most_rows:
            continue
        X = rng.normal(size=(n_rows, FEATURES))
        target = X @ weights / FEATURES**0.5 + rng.normal(0, 0.5, n_rows)
        for kind, y in ((InvariantLinearSVC, target > 0), (InvariantLinearSVR, target)):
            model: Any = kind(Box(0.1), C=20 / n_rows, random_state=0)
            rows.append([f"{n_rows:,} rows, {kind.__name__}", *measured(model, X, y)])
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
        quantiles = milliseconds_of(lambda m=model: m.predict(matrices[-1:]), 100)
        rows.append([f"{n_rows} matrices", f"{fit:.2f}", *(f"{float(each):.1f}" for each in quantiles)])
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
            model = InvariantStructuredSVC(Chain(), oracle=oracle, C=0.01, tol=1e-2, random_state=0)
            fit, _ = seconds_of(lambda m=model, X=X, y=labels: m.fit(X[:100], y[:100]))
            predict, _ = seconds_of(lambda m=model, X=X: m.predict(X[100:]))
            numbers += [f"{fit:.2f}", f"{predict:.3f}"]
        rows.append([f"{n_labels} labels", *numbers])
    return rows


def compile_all() -> None:
    """Small fits of each kind."""
    X, y = mails(200)
    for rows, oracle in ((X, None), (X, FDrop(10)), (X.astype(np.float32), FDrop(10))):
        linear(rows, y, oracle)
    rows_of_million(1000)
    rows_of_kernel([(40, members) for members in (1, 5, 7, 25)])
    rows_of_dense(1000)
    rows_of_labels((5,))


TABLES: dict[str, tuple[str, list[str]]] = {
    "one_row": (
        "Milliseconds of a call for one row",
        ["model, row", "predict, median", "predict, 99 %", "certify, median", "certify, 99 %"],
    ),
    "kernel": (
        "InvariantSVC on 8 x 8 digits: seconds, by digits and variants",
        ["digits", "fit, s", "predict 500, s", "certify 500, s", "support vectors"],
    ),
    "ridge": (
        "OrbitRidge on distance matrices of 10 points: seconds of a fit, milliseconds of a prediction",
        ["matrices", "fit, s", "predict one, median, ms", "predict one, 99 %, ms"],
    ),
    "labels": (
        "InvariantStructuredSVC on chains of 20 tokens: seconds of a fit to 100 sequences, by labels",
        ["labels", "fit, s", "predict 100, s", "fit with FDrop(1), s", "predict 100 with FDrop(1), s"],
    ),
    "dense": (
        "Linear models on dense rows of 50 features, Box(0.1): seconds",
        ["rows", "fit, s", "predict, s", "certify, s"],
    ),
    "linear": (
        "InvariantLinearSVC on sparse rows: seconds",
        ["rows", "fit, s", "predict, s", "certify, s"],
    ),
    "million": (
        "Larger C, other edits, and texts: seconds",
        ["samples", "fit, s", "predict, s", "certify, s"],
    ),
}


def main() -> None:
    parser = parser_of(__doc__, tuple(TABLES))
    parser.add_argument("--most-rows", type=int, default=100_000)
    options = parser.parse_args()
    compile_all()
    makers: dict[str, Callable[[], list[list[str]]]] = {
        "one_row": rows_of_one_row,
        "kernel": rows_of_kernel,
        "ridge": rows_of_ridge,
        "labels": rows_of_labels,
        "dense": lambda: rows_of_dense(options.most_rows),
        "linear": lambda: rows_of_linear(options.most_rows),
        "million": lambda: [
            row for n in SIZES[2:] if n <= options.most_rows for row in rows_of_million(n)
        ],
    }
    for key in options.rows:
        title, headers = TABLES[key]
        print(table(title, headers, makers[key](), key=key), flush=True)
    write_record(
        options.record,
        "generated mail, rows, distance matrices and sequences; 8 x 8 digits of scikit-learn",
        "0",
    )


if __name__ == "__main__":
    main()
