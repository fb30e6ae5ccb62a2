"""Random perturbations against certificates: number of violated margins.

For every oracle of the tests' table a linear model is trained and certified on eight samples of three
classes. A kernel SVM is added if the oracle has a list. Perturbed samples are drawn from the definition
of the set (``tests/random_edits.py``), by `sample` and from `orbit`. The last column is the smallest
margin minus its certified bound. It is never negative, and near 0 if a draw is near the worst case.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracle_cases import CASES
from tests.random_edits import beaten


def main() -> None:
    """Print a row an oracle."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edits", type=int, default=100_000, help="of each model and way to draw them")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'oracle':24s} {'edits':>9s} {'violated':>8s} {'min slack':>11s}")
    total = all_beaten = 0
    for case in CASES:
        made, below, room = beaten(case, arguments.edits, seed=0)
        print(f"{case.name:24s} {made:9d} {below:8d} {room:11.2e}", flush=True)
        total, all_beaten = total + made, all_beaten + below
    print(f"{'all':24s} {total:9d} {all_beaten:7d}")


if __name__ == "__main__":
    main()
