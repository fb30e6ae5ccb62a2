"""Cost of a first use: compilations and processor time with an empty cache.

Rules of the comparison:

- The uses are those of `tests/first_uses.py`, where a test counts compilations. Each use has a separate
  process with an empty folder for compiled functions. Then all uses run in one process.
- compiled: compilations, including those of Numba's library. structinv: those of this package.
- cold, warm: processor seconds with the empty folder, and again with the files of the first process.
- import: processor seconds of ``import structinv`` beyond ``import sklearn.svm, numba``, the minimum of
  some repetitions.

``--checkout`` measures another checkout of the package, to compare two versions on one computer. Counts
hold on any computer. Compare seconds only with others of the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import add_record_option, table, versions, write_record

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("words", "text", "images", "orbit", "moons", "sequence")
IMPORT = """
import time
import sklearn.svm, numba
started = time.process_time()
import structinv
print(time.process_time() - started)
"""


def run(names: tuple[str, ...], checkout: Path, cache: str) -> tuple[float, list[list[str]]]:
    """Measure processor time and compilations of uses in a new process."""
    settings = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(checkout)}
    command = [sys.executable, str(ROOT / "tests" / "first_uses.py"), *names]
    printed = subprocess.run(command, env=settings, check=True, capture_output=True, text=True).stdout
    found = [json.loads(line) for line in printed.splitlines()]
    return sum(line[1] for line in found), [one for line in found for one in line[2]]


def import_seconds(checkout: Path, repeats: int) -> float:
    """The least processor seconds that importing the package adds."""
    settings = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", IMPORT]
    return min(
        float(subprocess.run(command, env=settings, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=ROOT, help="the checkout to measure")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of the import")
    add_record_option(parser)
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for names in (*((name,) for name in NAMES), NAMES):
        with tempfile.TemporaryDirectory() as cache:
            cold, compiled = run(names, options.checkout, cache)
            warm, _ = run(names, options.checkout, cache)
        ours = sum(module.startswith("structinv") for module, _, _ in compiled)
        name = names[0] if len(names) == 1 else "all, in one process"
        found = {"use": name, "compiled": len(compiled), "ours": ours, "cold": cold, "warm": warm}
        lines.append(found)
    seconds = import_seconds(options.checkout, options.repeats)
    headers = ["use", "compiled", "structinv", "cold s", "warm s"]
    rows = [
        [line["use"], line["compiled"], line["ours"], f"{line['cold']:.1f}", f"{line['warm']:.1f}"]
        for line in lines
    ]
    print(table("Compilations and processor seconds of first uses", headers, rows))
    print(f"import structinv: {seconds:.2f} s beyond sklearn.svm and numba")
    print(versions())
    write_record(options.record, "generated")


if __name__ == "__main__":
    main()
