"""Time at a million rows: larger C, other edits, and texts.

The generated mail of `performance.py`: about 100 words per row and 10,000 features. C is 20 / rows
unless the row names it, the loss is the hinge loss without intercept, and fits end at a relative gap of
1e-3. `InvariantTextClassifier` takes the same mails as texts, of about 130 tokens.

All seconds are processor seconds of all threads, after compilation, of a single run.

    python benchmarks/performance_million.py                        # 100,000 rows
    python benchmarks/performance_million.py --sizes 100000 1000000 # a million rows too: 8 GB
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from performance import mails, seconds_of
from report import parser_of, table, write_record
from sklearn.feature_extraction.text import CountVectorizer

from structinv import InvariantLinearSVC, InvariantTextClassifier
from structinv.oracles import FAdd, FDrop, FEdit

EDITS = 10


def measured(model: Any, X: Any, y: np.ndarray) -> list[str]:
    """Seconds of fit, predict and certify, as texts."""
    calls = (lambda: model.fit(X, y), lambda: model.predict(X), lambda: model.certify(X, y))
    return [f"{seconds_of(call)[0]:.2f}" for call in calls]


def as_texts(X: sp.csr_matrix) -> list[str]:
    """The words of each row, as often as counted."""
    names = np.array([f"word{number}" for number in range(X.shape[1])], dtype=object)
    return [
        " ".join(np.repeat(names[X.indices[start:stop]], X.data[start:stop].astype(int)))
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def rows_of(n_rows: int) -> list[list[str]]:
    """By C, oracle and input."""
    X, y = mails(n_rows)
    options: dict[str, Any] = {"fit_intercept": False, "random_state": 0}
    rows = []

    def add(name: str, model: Any, samples: Any) -> None:
        rows.append([f"{n_rows:,} {name}", *measured(model, samples, y)])
        print(*rows[-1], sep="  ", flush=True)

    for C in (1e-4, 1e-3, 1e-2):
        name = f"rows, FDrop({EDITS}), C = {C:g}"
        add(name, InvariantLinearSVC(FDrop(EDITS), C=C, **options), X)
    for oracle in (FAdd(EDITS), FEdit(EDITS, add=1.0)):
        name = f"rows, {type(oracle).__name__}({EDITS})"
        add(name, InvariantLinearSVC(oracle, C=20 / n_rows, **options), X)
    texts = as_texts(X)
    for edit in ("drop", "add"):
        model = InvariantTextClassifier(edit, EDITS, CountVectorizer(), C=20 / n_rows, **options)
        add(f'texts, InvariantTextClassifier("{edit}", {EDITS})', model, texts)
    return rows


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[100_000])
    options = parser.parse_args()
    rows_of(1000)  # compile
    rows = [row for n_rows in options.sizes for row in rows_of(n_rows)]
    headers = ["samples", "fit, s", "predict, s", "certify, s"]
    print(table("Larger C, other edits, texts", headers, rows, key="million"))
    write_record(options.record, "generated mail", "0")


if __name__ == "__main__":
    main()
