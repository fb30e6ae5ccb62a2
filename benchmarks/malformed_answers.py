"""Thousands of faulty plug-ins, and the reaction of the estimators.

Each case damages one result of one method of an oracle, kernel, family of functionals, output structure
or hull, and passes it to an estimator. ``tests/malformed.py`` has the table of methods and kinds of
damage. The protocol is in `docs/evidence/trust.md`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from report import parser_of, table, write_record

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PORTION = 2500


def portion(first: int, last: int) -> None:
    """Run some cases and print what became of each, a line a case."""
    from tests.malformed import draw, run

    for seed in range(first, last):
        case = draw(seed)
        try:
            outcome = run(case)
        except Exception as error:
            outcome = f"wrong: {type(error).__name__}: {error}"[:300]
        print(json.dumps([seed, case.plugin, outcome]), flush=True)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--answers", type=int, default=10_000, help="number of damaged results")
    parser.add_argument("--portion", type=int, nargs=2, metavar=("FIRST", "LAST"))
    arguments = parser.parse_args()
    if arguments.portion:
        return portion(*arguments.portion)
    counts: dict[str, Counter[str]] = {}
    crashes, first = [], 0
    while sum(sum(c.values()) - c["unused"] for c in counts.values()) < arguments.answers:
        last = first + PORTION
        command = [sys.executable, __file__, "--portion", str(first), str(last)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for _, plugin, outcome in lines:
            kind = outcome.partition(":")[0]
            counts.setdefault(plugin, Counter())[kind] += 1
            if kind == "wrong":
                print(plugin, outcome)
        first = lines[-1][0] + 1 if lines else first
        if done.returncode < 0:
            crashes.append((first, done.returncode))
            first += 1
        elif first < last:
            raise SystemExit(done.stderr)
    kinds = ["refused", "harmless", "accepted", "wrong", "unused"]
    rows = [[plugin, *(found[kind] for kind in kinds)] for plugin, found in sorted(counts.items())]
    print(table("Malformed answers by kind of plug-in", ["plug-in", *kinds], rows, key="answers"))
    write_record(arguments.record, "generated", seeds=f"0 to {first - 1}")
    print(f"crashes: {len(crashes)} {crashes}")


if __name__ == "__main__":
    main()
