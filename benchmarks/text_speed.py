"""Fits of texts with inserted tokens: time, passes and memory.

There are 4000 messages of the SMS spam collection, and only spam is perturbed. Each fit has a separate
process, after a small fit that loads compiled functions. Memory is the peak of the resident memory
above that before the fit. `FrankWolfe` stores a list of planes if a plane tolerance is given, here
1e-9.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from mail import add_data_option
from report import parser_of, table, versions, write_record
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from speed import memory_mark
from text import sms

from structinv import InvariantTextClassifier
from structinv.solvers import FrankWolfe

TRAIN = 4000
# What happens to tokens, to how many, the longest n-grams, their values, and C.
SETTINGS = (
    ("replace", 2, 1, "binary", 0.1),
    ("replace", 2, 1, "binary", 10.0),
    ("replace", 3, 2, "counts", 0.1),
    ("add", 3, 2, "counts", 0.1),
    ("add", 3, 2, "binary", 0.1),
    ("add", 3, 2, "counts", 10.0),
)
SOLVERS = {"together": "auto", "planes": FrankWolfe(1e-9)}


def fit(folder: Path, setting: tuple, solver: str, tol: float, limit: float) -> dict[str, float]:
    """Measure one fit in this process."""
    words, most, longest, weights, C = setting
    texts, y = sms(folder)
    train, _ = train_test_split(np.arange(len(texts)), train_size=TRAIN, random_state=0, stratify=y)
    known, labels = [texts[i] for i in train], y[train]
    model = InvariantTextClassifier(
        words, most, CountVectorizer(ngram_range=(1, longest), binary=weights == "binary"),
        only_for="spam", C=C, solver=SOLVERS[solver], tol=tol, max_seconds=limit, fit_intercept=True,
        random_state=0,
    )  # fmt: skip
    model.fit(known[:60], labels[:60])
    before, began, worked = memory_mark("VmRSS"), time.perf_counter(), time.process_time()
    model.fit(known, labels)
    seconds, work = time.perf_counter() - began, time.process_time() - worked
    memory = (memory_mark("VmHWM") - before) / 2**20
    found = {"seconds": seconds, "work": work, "passes": model.n_iter_, "memory": memory}
    return {**found, "gap": model.solution_.relative_gap, "value": model.solution_.primal}


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    add_data_option(parser)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a fit")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="the first so many")
    options = parser.parse_args()
    print(versions())
    rows = []
    for setting in SETTINGS[: options.settings]:
        for solver in SOLVERS:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                found = pool.submit(
                    fit, options.data, setting, solver, options.tol, options.limit
                ).result()
            words, most, longest, weights, C = setting
            name = f"{words} {most}, {weights}, n-grams of 1 to {longest}, C {C:g}"
            numbers = [f"{found[key]:.1f}" for key in ("seconds", "work")]
            rows.append([name, solver, *numbers, found["passes"], f"{found['gap']:.1e}",
                         f"{found['value']:.5g}", f"{found['memory']:.0f}"])  # fmt: skip
            print(*rows[-1], flush=True)
    title = f"{TRAIN} short messages to a relative gap of {options.tol:g}, at most {options.limit:g} s"
    print(
        table(
            title, ["texts", "steps", "s", "processor s", "passes", "gap", "value", "MB"], rows, "fits"
        )
    )
    write_record(options.record, "SMS spam collection, 4000 messages")


if __name__ == "__main__":
    main()
