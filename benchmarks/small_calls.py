"""Time of small calls: predictions of one sample, imports, the command line.

Rows are generated. structinv and the reference alternate in one process, compiled in advance. The table
has the medians and the minima of the repeats.

- rows: microseconds of `predict` on one row. Run with ``OMP_NUM_THREADS=1``.
- many: microseconds of `predict` of linear models on 20000 dense or 600 sparse rows.
- import: seconds of a new process with ``import structinv``. The reference imports all modules of
  scikit-learn that this loads.
- command: seconds of ``structinv predict`` on 100 rows in a new process. The reference imports those
  modules and skops.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from report import Line, parser_of, show, versions
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import SVC, LinearSVC
from speed import take_turns

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles import FDrop

ALL_ROWS = ("rows", "many", "import", "command")
CALLS = 50
N_FEATURES = 100
LISTED = "import sys, structinv; print(*(name for name in sys.modules if name.startswith('sklearn')))"
SHARES = """
import time
{parts}
a = time.perf_counter()
import numba
b = time.perf_counter()
import structinv
print(b - a, time.perf_counter() - b)
"""


def generated(n: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of noisy classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, N_FEATURES))
    if n_classes == 2:
        return X, (X[:, 0] + 0.8 * rng.standard_normal(n) > 0).astype(int)
    return X, np.argmax(X[:, :n_classes] + 0.8 * rng.standard_normal((n, n_classes)), axis=1)


def words(n: int = 600, n_words: int = 5000) -> tuple[sp.csr_matrix, np.ndarray]:
    """Sparse rows of two classes."""
    rng = np.random.default_rng(0)
    X = sp.random(n, n_words, 0.02, format="csr", random_state=rng)
    weight = np.asarray(X[:, : n_words // 2].sum(axis=1)).ravel()
    return X, (weight > np.median(weight)).astype(int)


def linear_cases() -> dict[str, tuple[Any, Any, Any]]:
    """Return fitted linear models of structinv and scikit-learn, with their rows."""
    X, y = generated(600)
    found: dict[str, tuple[Any, Any, Any]] = {}
    found["linear, dense row"] = InvariantLinearSVC(random_state=0).fit(X, y), LinearSVC().fit(X, y), X
    S, labels = words()
    ours = InvariantLinearSVC(FDrop(3), random_state=0).fit(S, labels)
    found["linear, CSR row"] = ours, LinearSVC().fit(S, labels), S
    X, y = generated(600, 10)
    ours, theirs = InvariantLinearSVC(random_state=0).fit(X, y), LinearSVC().fit(X, y)
    found["linear, dense row, ten classes"] = ours, theirs, X
    return found


def cases() -> dict[str, tuple[Any, Any, Any]]:
    """Return all models of the timing of single rows."""
    found = linear_cases()
    for n in (600, 4000):
        X, y = generated(n)
        machine = InvariantSVC(gamma=0.01, C=1.0, tol=0.01, random_state=0).fit(X, y)
        name = f"kernel, {len(machine.support_)} support vectors"
        found[name] = machine, SVC(gamma=0.01).fit(X, y), X
    return found


def row_lines(repeats: int) -> list[Line]:
    """`predict` on one row, in microseconds."""

    def often(machine: Any, row: Any) -> Callable[[int], None]:
        def calls(_: int) -> None:
            for _ in range(CALLS):
                machine.predict(row)

        return calls

    lines = []
    for name, (ours, theirs, X) in cases().items():
        works = [often(ours, X[:1]), often(theirs, X[:1])]
        take_turns(works, 2)
        note = "microseconds"
        if isinstance(theirs, SVC):
            note += f"; SVC has {len(theirs.support_)} support vectors"
        seconds = take_turns(works, repeats)[0] * 1e6 / CALLS
        lines.append(line_of(f"predict, {name}", seconds, note))
    return lines


def many_lines(repeats: int) -> list[Line]:
    """`predict` of linear models on many rows, in microseconds."""
    lines = []
    for name, (ours, theirs, X) in linear_cases().items():
        many = X if sp.issparse(X) else generated(20_000)[0]
        works = [lambda _, m=machine, X=many: m.predict(X) for machine in (ours, theirs)]
        take_turns(works, 2)
        seconds = take_turns(works, 5 * repeats)[0] * 1e6
        what = name.replace("row", f"{many.shape[0]} rows")
        lines.append(line_of(f"predict, {what}", seconds, "microseconds"))
    return lines


def line_of(work: str, seconds: np.ndarray, note: str) -> Line:
    """Return a row from the times of structinv and the reference, (repeats, 2)."""
    ours, theirs = np.median(seconds, axis=0)
    least = "least {:.3g} and {:.3g}".format(*seconds.min(axis=0))
    return Line(work, ours, theirs, ours / theirs, f"{least}; {note}")


def environment() -> dict[str, str]:
    """Return the environment of a process with a cache of compiled files."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def new_process(*command: str) -> str:
    """Return the output of a new Python process."""
    done = subprocess.run(
        [sys.executable, *command], env=environment(), check=True, capture_output=True, text=True
    )
    return done.stdout


def runs(commands: Sequence[Sequence[str]], repeats: int) -> np.ndarray:
    """Return seconds of alternating new processes, (repeats, n_commands)."""

    def run(command: Sequence[str], _: int) -> str:
        return new_process(*command)

    works = [partial(run, command) for command in commands]
    take_turns(works, 1)
    return take_turns(works, repeats)[0]


def parts_of_sklearn() -> str:
    """The line that imports what we load of scikit-learn."""
    return f"import {', '.join(new_process('-c', LISTED).split())}"


def import_lines(repeats: int) -> list[Line]:
    """`import structinv` in a new process."""
    parts = parts_of_sklearn()
    program = SHARES.format(parts=parts)
    seconds = runs([("-c", "import structinv"), ("-c", parts)], repeats)
    shares = np.array([new_process("-c", program).split() for _ in range(repeats)], dtype=float)
    (numba, ours), own = np.median(shares, axis=0), np.median(seconds[:, 0] - seconds[:, 1])
    note = f"difference {own:.2f} s; after scikit-learn: Numba {numba:.2f} s, structinv {ours:.2f} s"
    plain = runs([("-c", "import structinv"), ("-c", "import sklearn.svm")], repeats)
    return [
        line_of("import, against its parts of scikit-learn", seconds, note),
        line_of("import, against sklearn.svm", plain, "seconds"),
    ]


def command_lines(repeats: int) -> list[Line]:
    """`structinv predict` in a new process."""
    X, y = generated(400)
    floor = f"{parts_of_sklearn()}, skops.io"
    with tempfile.TemporaryDirectory() as folder:
        training, rows = Path(folder, "training.svm"), Path(folder, "rows.svm")
        dump_svmlight_file(X[:300], y[:300], str(training), zero_based=False)
        dump_svmlight_file(X[300:], y[300:], str(rows), zero_based=False)
        model, labels = Path(folder, "model"), Path(folder, "labels")
        options = ("--oracle", "fdrop", "--max-changes", "2")
        new_process("-m", "structinv", "fit", str(training), "-o", str(model), *options)
        command = ("-m", "structinv", "predict", str(model), str(rows), "-o", str(labels))
        seconds = runs([command, ("-c", floor)], repeats)
    return [line_of("structinv predict", seconds, "seconds")]


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, ALL_ROWS, 9)
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")  # gaps are nothing that is looked at here
    work = {"rows": row_lines, "many": many_lines, "import": import_lines, "command": command_lines}
    lines = [line for row in options.rows for line in work[row](options.repeats)]
    print(versions())
    title = f"Time of small calls, medians of {options.repeats}"
    show(title, lines, options.record, "generated rows")


if __name__ == "__main__":
    main()
