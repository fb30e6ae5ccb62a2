"""Tables and picture data from the benchopt suites in benchmarks/benchopt.

    export STRUCTINV_DATA=/path/to/data
    for suite in words images chains; do
        benchopt run benchmarks/benchopt/$suite -n 11 --timeout 60 --no-plot --output runs/$suite.parquet
    done
    python benchmarks/benchopt_record.py runs --record benchmarks/records/benchopt.json
    python benchmarks/pictures.py benchopt

The excess of an objective is its value, divided by the largest lower bound of any run, minus one.
"seconds" are those of the first point of a solver's curve with at most that excess. Curves of solvers
that minimize another objective are marked by "other". For several repetitions or files, the fastest run
counts.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pandas as pd
from report import add_record_option, table, write_record

SUITES = ("words", "images", "chains")
DRAWN = {
    "words": ("enron", "FDrop(10)", "Mail, FDrop(10)"),
    "images": ("mnist", "C=", "3 against 8, shifted"),
    "chains": ("conll2000", "loss=hinge", "Chunks of sentences"),
}
LEVELS = (1e-1, 1e-2, 1e-3)


def short(name: str) -> str:
    """Return the name of a solver, with only its parameter `solver`."""
    found = re.search(r"solver=(\w+)", name)
    return f"structinv, {found[1]}" if found else name.split("[")[0]


def curves(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return seconds, excess and last errors of each solver of one problem."""
    bound, found = runs.objective_dual.max(), {}
    for name, some in runs.groupby("solver_name", sort=False):
        points = some.sort_values("time").drop_duplicates("stop_val")
        points = points.sort_values("stop_val", ascending=some.sampling_strategy.iloc[0] != "Tolerance")
        last = points.iloc[-1]
        found[short(str(name))] = {
            "seconds": points.time.round(5).tolist(),
            "excess": [float(f"{value / bound - 1:.4g}") for value in points.objective_value],
            "other": bool(last.objective_solved == 0.0),
            "test error": float(last.objective_test_error),
        }
    return found


def line(name: str, curve: dict[str, Any]) -> list[str]:
    """Return one row of the table."""
    cells = []
    for level in LEVELS:
        reached = [s for s, e in zip(curve["seconds"], curve["excess"], strict=True) if e <= level]
        cells.append("" if curve["other"] else f"{min(reached):.2f}" if reached else "-")
    best = min(curve["excess"])
    return [name, *cells, f"{best:.1e}", f"{100 * curve['test error']:.2f} %"]


def main() -> None:
    """Print tables and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the files that benchopt wrote")
    add_record_option(parser)
    options = parser.parse_args()
    head = ["solver", *(f"to {level:g}, s" for level in LEVELS), "least excess", "test error"]
    panels = []
    for suite in SUITES:
        runs = pd.concat(map(pd.read_parquet, sorted(options.folder.glob(f"{suite}*.parquet"))))
        data, loss, title = DRAWN[suite]
        for (dataset, objective), some in runs.groupby(["dataset_name", "objective_name"], sort=False):
            found = curves(some)
            print(table(f"{dataset}, {objective}", head, [line(*each) for each in found.items()]))
            if dataset.startswith(data) and loss in objective:
                panels.append({"title": title, "curves": found})
    write_record(options.record, "Enron mail; MNIST digits; CoNLL-2000 sentences", panels=panels)


if __name__ == "__main__":
    main()
