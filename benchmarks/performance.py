"""Time of fits, predictions and certificates by number of rows, features, edits and transformations.

- linear: generated mail with about 100 words per row, `InvariantLinearSVC` with the hinge loss, no
  intercept, C = 20 / rows, to a relative gap of 1e-3.
- kernel: 8 x 8 digits, `InvariantSVC` with C = 10, to a relative gap of 1e-3.
- one row: calls of `predict` and `certify` for a single row, 1000 each.

All seconds are processor seconds of all threads, after compilation, of a single run. They depend less on
other programs than wall time.

    python benchmarks/performance.py                       # up to 100,000 rows
    python benchmarks/performance.py --most-rows 1000000   # a million rows too: 3 GB
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from report import parser_of, table, write_record
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer

from structinv import InvariantLinearSVC, InvariantSVC, InvariantTextClassifier
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop, InvarianceOracle, Rotations, Shifts

PART = 100_000


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds and the result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def mails(n_rows: int, n_features: int = 10_000) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generated mail as float64."""
    starts = range(0, n_rows, PART)
    parts = [make_mail_like(min(PART, n_rows - at), n_features, random_state=at) for at in starts]
    return sp.vstack([X for X, _ in parts], format="csr").astype(float), np.hstack([y for _, y in parts])


def linear(X: Any, y: np.ndarray, oracle: InvarianceOracle | None) -> list[str]:
    """Seconds of fit, predict and certify, as texts."""
    model = InvariantLinearSVC(oracle, C=20 / len(y), fit_intercept=False, random_state=0)
    fit, _ = seconds_of(lambda: model.fit(X, y))
    predict, _ = seconds_of(lambda: model.predict(X))
    certify, _ = seconds_of(lambda: model.certify(X, y, oracle=oracle or FDrop(10)))
    return [f"{fit:.2f}", f"{predict:.3f}", f"{certify:.3f}"]


def rows_of_linear(most_rows: int) -> list[list[str]]:
    """By number of rows, features and edits."""
    rows = []
    for n_rows in (1000, 10_000, 100_000, 1_000_000):
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


CASES = [(250, 5), (500, 5), (1000, 5), (500, 1), (500, 7), (500, 25)]


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
            numbers = [
                f"{fit:.2f}",
                f"{predict:.3f}",
                f"{certify:.3f}",
                str(len(model.support_vectors_)),
            ]
            rows.append([name, *numbers])
    return rows


def rows_of_one_row() -> list[list[str]]:
    """Median and 99th percentile of single calls, in milliseconds."""
    X, y = mails(2000, 2000)
    words = InvariantLinearSVC(FDrop(5), C=0.01, fit_intercept=False, random_state=0).fit(X, y)
    texts = [" ".join(f"word{n}" for n in X[row].indices[:30]) for row in range(400)]
    text = InvariantTextClassifier("drop", 3, CountVectorizer(), C=0.1, random_state=0).fit(
        texts, y[:400]
    )
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
        numbers = []
        for method in (model.predict, model.certify):
            taken = [seconds_of(lambda method=method, row=row: method(row))[0] for _ in range(1000)]
            numbers += [f"{1000 * q:.2f}" for q in np.quantile(taken[100:], [0.5, 0.99])]
        rows.append([name, *numbers])
    return rows


def main() -> None:
    """Print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--most-rows", type=int, default=100_000)
    options = parser.parse_args()
    linear(*mails(200), None)  # compile
    linear(*mails(200), FDrop(10))
    X, y = mails(200)
    linear(X.astype(np.float32), y, FDrop(10))
    rows_of_kernel([(40, members) for members in (1, 5, 7, 25)])
    headers = ["one row", "predict, median", "predict, 99 %", "certify, median", "certify, 99 %"]
    print(table("Milliseconds of a call for one row", headers, rows_of_one_row(), key="one_row"))
    headers = ["digits", "fit, s", "predict 500, s", "certify 500, s", "support vectors"]
    print(table("InvariantSVC", headers, rows_of_kernel(), key="kernel"))
    headers = ["rows", "fit, s", "predict, s", "certify, s"]
    print(table("InvariantLinearSVC", headers, rows_of_linear(options.most_rows), key="linear"))
    write_record(options.record, "generated mail; 8 x 8 digits of scikit-learn", "0")


if __name__ == "__main__":
    main()
