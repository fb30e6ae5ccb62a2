"""Random perturbations against certificates: number of violated margins.

For every oracle of the tests' table a linear model is trained and certified on eight samples of three
classes. A kernel SVM is added if the oracle has a list. Perturbed samples are drawn from the definition
of the set (``tests/oracles/random_edits.py``), by `sample` and from `orbit`. The last column is the
smallest margin minus its certified bound. It is never negative, and near 0 if a draw is near the worst
case.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from report import parser_of, table, write_record

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracles.cases import CASES
from tests.oracles.random_edits import beaten


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--edits", type=int, default=100_000, help="of each model and way to draw them")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, total, all_beaten = [], 0, 0
    for case in CASES:
        made, below, room = beaten(case, arguments.edits, seed=0)
        rows.append([case.name, made, below, f"{room:.2e}"])
        print(*rows[-1], flush=True)
        total, all_beaten = total + made, all_beaten + below
    rows.append(["all", total, all_beaten, ""])
    headers = ["oracle", "perturbations", "violated", "smallest slack"]
    title = (
        "Random perturbations of certified samples, generated data: numbers of perturbations, by oracle"
    )
    print(table(title, headers, rows, key="edits"))
    write_record(arguments.record, "generated", seeds="0")


if __name__ == "__main__":
    main()
