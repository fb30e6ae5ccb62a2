"""Time and memory of fits on a folder of rows, a matrix, and with a limit.

Rules of the comparison:

- Generated rows like mail: 46 words on average out of 50,000, with Zipf's distribution. Two thirds of
  the words are more frequent in one class. Values are logarithms of counts, float64; 3 % of the labels
  are wrong.
- Each fit has a separate process. It first compiles or loads all functions on few rows. Seconds are
  those of the fit to a relative gap of 1e-3. Peaks are those of the resident memory, sampled every 10
  ms. For rows in memory they exclude the memory before the fit, and are a fraction of the rows. For a
  folder they are those of the whole process.
- passes: seconds of a sweep and of a value on the folder and on the matrix, alternating. The folder is
  read in blocks, either cuts of the rows or strips from all over them. The reference is one plain read
  of the files with a buffer of 16 MB. The cache is warm.

    python benchmarks/large_rows.py --rows 1e6                   # a million rows, 10 minutes
    python benchmarks/large_rows.py --rows 1e7 --parts folder    # ten million rows, 6 GB on disk
    python benchmarks/large_rows.py --rows 2e4                   # a trial run
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from report import table, versions

from structinv import InvariantLinearSVC
from structinv.dual import dual_state
from structinv.oracles import FDrop, Identity
from structinv.rows import RowFolder, RowSource, RowWriter
from structinv.rows.matrix_rows import MatrixRows
from structinv.rows.reading_ahead import read_ahead
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import WorstCase
from structinv.terms.blockwise_term import BlockSizes, BlockwiseTerm

N_FEATURES, MEAN_WORDS, TILT, WRONG = 50_000, 106, 1.5, 0.03
ROWS_OF_A_PART = 100_000
ORACLES = {"hinge": None, "FDrop(10)": FDrop(10)}
PARTS = ("folder", "memory", "limit", "passes")
LIMITS = ("500MB", "300MB")
TURNS = 4


def part_of_rows(number: int, n_rows: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of a part, with labels -1 and 1."""
    rng = np.random.default_rng(number)
    lean = np.random.default_rng(99).choice([-1.0, 0.0, 1.0], N_FEATURES)
    y = np.where(rng.random(n_rows) < 0.4, 1, -1).astype(np.int8)
    counts = rng.poisson(MEAN_WORDS, n_rows) + 2
    rows = np.repeat(np.arange(n_rows), counts)
    words = (np.exp(rng.random(len(rows)) * np.log(N_FEATURES)) - 1).astype(np.int64)
    words = (np.minimum(words, N_FEATURES - 1) * 7919) % N_FEATURES
    kept = rng.random(len(rows)) < 1 / (1 + np.exp(-TILT * y[rows] * lean[words]))
    X = sp.csr_matrix((np.ones(kept.sum()), (rows[kept], words[kept])), shape=(n_rows, N_FEATURES))
    X.data = np.log1p(X.data)
    return X, np.where(rng.random(n_rows) < WRONG, -y, y)


def write_rows(folder: Path, n_rows: int) -> None:
    """Write generated rows, unless they are there."""
    if folder.exists() and RowFolder(folder).shape[0] == n_rows:
        return
    with RowWriter(folder, n_features=N_FEATURES, overwrite=True) as writer:
        for number, first in enumerate(range(0, n_rows, ROWS_OF_A_PART)):
            writer.append(*part_of_rows(number, min(ROWS_OF_A_PART, n_rows - first)))


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def fit(folder: Path, loss: str, C: float, limit: str | None, in_memory: bool) -> None:
    """Fit, and print one line of numbers."""
    warnings.simplefilter("ignore")
    rows: Any = RowFolder(folder)
    model = InvariantLinearSVC(ORACLES[loss], C=C, random_state=0, memory_limit=limit)
    few, labels = rows.block(0, 2000), rows.labels.astype(np.int8)
    model.fit(few, labels[:2000]).fit(MatrixRows(few), labels[:2000])
    if in_memory:
        rows = rows.block(0, rows.shape[0])
    before, peak, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    solution = model.fit(rows, labels).solution_
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    if in_memory:
        size = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
        memory = f"{1 + (peak[0] - before) / size:.2f} x"
    else:
        memory = f"{peak[0] / 2**30:.2f} GiB"
    numbers = f"{solution.relative_gap:.1e}", f"{solution.primal:.6g}", f"{seconds:.1f}"
    print("|".join([str(solution.iterations), *numbers, memory]))


def fits(folder: Path, C: float, part: str) -> str:
    """Return a table of fits, each in a separate process."""
    settings = [("no", "0" if part == "folder" else "1")]
    if part == "limit":
        settings = [(limit, "1") for limit in LIMITS]
    rows = []
    for loss in ORACLES:
        for limit, in_memory in settings:
            command = [sys.executable, __file__, "--fit", loss, limit, in_memory]
            options = ["--folder", str(folder), "--C", str(C)]
            printed = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
            rows.append([loss, limit, *printed.stdout.strip().splitlines()[-1].split("|")])
    return table(part, ["loss", "limit", "passes", "gap", "primal", "seconds", "peak"], rows)


def timed(work: Callable[[], Any]) -> float:
    """Seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def plain_read(folder: Path) -> None:
    """Read the arrays of rows with one buffer."""
    buffer = bytearray(2**24)
    for name in ("data.npy", "indices.npy", "indptr.npy"):
        with (folder / name).open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass


def blocks_of(rows: RowSource) -> dict[str, list[list[slice]]]:
    """Return the row blocks of a gap check and those of a sweep."""
    cuts, strips = rows.cuts(BlockSizes.values), rows.strips(BlockSizes.values)
    dealt = np.array_split(np.random.default_rng(0).permutation(len(strips)), len(cuts))
    return {
        "cuts": [[cut] for cut in cuts],
        "strips": [[strips[number] for number in np.sort(own)] for own in dealt],
    }


def read_blocks(rows: RowSource, blocks: list[list[slice]]) -> None:
    """Read all blocks, the next one ahead."""
    for _ in read_ahead(rows, blocks):
        pass


def state_of(rows: RowSource, y: np.ndarray, oracle: Any, C: float) -> tuple[Any, np.ndarray]:
    """A dual state of rows in blocks, and the function that it changes."""
    classes, weights = np.array([-1, 1]), np.full(len(y), C)
    term = BlockwiseTerm(
        rows,
        lambda X, some: WorstCase(X, y[some], oracle, Binary(), weights[some], classes),
        Binary().bind(y, classes),
        weights,
    )
    space = ExplicitSpace(rows.shape[1], 1, intercept=True)
    return dual_state(term, space, np.random.default_rng(0)), space.zeros()


def passes(folder: Path, C: float) -> str:
    """A table of what passes over the folder cost."""
    on_disk = RowFolder(folder)
    y, in_memory = on_disk.labels, MatrixRows(on_disk.block(0, on_disk.shape[0]))
    plain_read(folder)
    rows = []
    for kind, blocks in blocks_of(on_disk).items():
        read = partial(read_blocks, on_disk, blocks)
        read()
        turns = [(timed(read), timed(partial(plain_read, folder))) for _ in range(7)]
        rows.append([f"read, {kind}", *_medians(turns)])
    for loss, oracle in ORACLES.items():
        pair = [state_of(each, y, oracle or Identity(), C) for each in (on_disk, in_memory)]
        swept, valued = [], []
        for _ in range(TURNS):
            swept.append([timed(partial(state.sweep, f)) for state, f in pair])
            valued.append([timed(partial(state.value, f)) for state, f in pair])
        rows += [[f"sweep, {loss}", *_medians(swept)], [f"value, {loss}", *_medians(valued)]]
    return table("passes", ["what", "blocks of the folder", "reference", "ratio"], rows)


def _medians(turns: Any) -> list[str]:
    ours, theirs = np.median(turns, axis=0)
    return [f"{ours:.3f} s", f"{theirs:.3f} s", f"{ours / theirs:.2f}"]


def main() -> None:
    """Write rows and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=1e6, help="number of rows")
    parser.add_argument("--folder", type=Path, help="where the rows are kept; a temporary folder if not")
    parser.add_argument("--C", type=float, default=1e-2, help="weight of the losses")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--fit", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        loss, limit, in_memory = given.fit
        fit(given.folder, loss, given.C, None if limit == "no" else limit, in_memory == "1")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary, "rows")
        write_rows(folder, int(given.rows))
        print(versions(), RowFolder(folder), "", sep="\n")
        for part in given.parts:
            done = passes(folder, given.C) if part == "passes" else fits(folder, given.C, part)
            print(done, flush=True)


if __name__ == "__main__":
    main()
