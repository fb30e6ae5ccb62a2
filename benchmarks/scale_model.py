"""Model of the time of a fit on many workers, fitted to simulations.

All numbers that this script prints for more rows or workers than were simulated are estimated.

Measured (`benchmarks/records/scale.json`, by ``partitions.py --parts scale --record``): rounds to a gap
of 1e-3 and processor seconds a round, of generated rows at lambda 1e-3 on 1 to 64 groups. The bundle
method of this record kept all planes with mass. With at most 30 of each group, as `MultiCutBundle`
keeps, 8 groups took 22 rounds instead of 21 (10^5 rows, hinge).

Fitted, for each loss:

- rounds of the bundle method: ``log R = a + b log P + c log n`` by least squares, from 2 groups on.
  More rows took fewer rounds. Estimates are ranges: the upper end has the rounds of 10^6 rows, the
  lower end follows the fit down to 4 rounds, which is what one group took.
- rounds of BMRM, which no number of groups changes: those of the run with most rows. Where it did not
  reach the gap, they are the rounds that it had, and estimates are lower bounds.
- seconds of a round and row: the median of all runs.
- seconds of the driver's quadratic program: ``log s = a + b log P``, from 16 groups on.

Stated, see `Cluster`: a worker is one core with one group. In a round the driver sends a group two
dense vectors (the function and the group's part of it) and receives two planes. With BMRM it is one and
one. All of it passes the driver's link. A task costs the scheduler a millisecond. Workers read their
rows once and keep them. The program of BMRM is left out: it took 5 to 14 milliseconds.

    python benchmarks/scale_model.py --picture docs/pictures/scale.png
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pictures import BLUE, GRAY, ORANGE, STYLE
from records import Record
from report import table

LAM, GAP, KNOWN_ROWS, LEAST_ROUNDS = 1e-3, "0.001", 1_000_000, 4
METHODS = ("bundle", "bmrm")
WORKERS = (10, 30, 100, 300, 1000)
# `benchmarks/large_rows.py`: seconds of 10^7 rows in a folder, on one core.
ONE_CORE = {"hinge": 42.7, "FDrop(10)": 110.0}
BYTES_OF_ROW = 567.4


@dataclass(frozen=True)
class Cluster:
    """Assumptions of the model.

    Parameters
    ----------
    bandwidth : float
        Bytes a second through the driver's link; 10 Gbit/s.
    latency, task : float
        Seconds of a message, of which a round has two in turn, and of a task at the scheduler.
    reading : float
        Bytes a second at which a worker reads rows from an object store.
    n_features : int
    """

    bandwidth: float = 1.25e9
    latency: float = 1e-3
    task: float = 1e-3
    reading: float = 1e8
    n_features: int = 50_000


@dataclass(frozen=True)
class Costs:
    """Fitted costs of a loss and a method.

    Parameters
    ----------
    rounds, growth, saving : float
        ``rounds * P**growth`` for 10^6 rows, times ``(n / 10^6)**saving`` for n.
    row : float
        Seconds a round and row.
    driver, driver_growth : float
        ``driver * P**driver_growth`` seconds a round.
    vectors : int
        Sent and received for each group in a round.
    """

    rounds: float
    growth: float
    saving: float
    row: float
    driver: float
    driver_growth: float
    vectors: int

    def parts(
        self, rows: float, workers: float, cluster: Cluster, *, saved: bool = False
    ) -> dict[str, float]:
        """Estimate the seconds of a fit by part; `saved` is the lower end."""
        rounds = self.rounds * workers**self.growth
        if saved:
            rounds = max(LEAST_ROUNDS, rounds * (rows / KNOWN_ROWS) ** self.saving)
        sent = workers * self.vectors * 8.0 * cluster.n_features / cluster.bandwidth
        return {
            "reading": rows * BYTES_OF_ROW / workers / cluster.reading,
            "workers": rounds * rows / workers * self.row,
            "network": rounds * (sent + 2.0 * cluster.latency + workers * cluster.task),
            "driver": rounds * self.driver * workers**self.driver_growth,
        }


def fit(runs: Sequence[Mapping[str, Any]], oracle: str) -> dict[str, Costs]:
    """The costs of both methods for a loss."""
    known = [run for run in runs if run["oracle"] == oracle and run["lam"] == LAM]
    row = {
        method: float(np.median([run["seconds"] / run["rows"] for run in known if _of(run, method)]))
        for method in METHODS
    }
    bundles = [run for run in known if _of(run, "bundle") and run["n"] > 1 and GAP in run["rounds"]]
    ones = np.ones(len(bundles))
    groups, rows = (np.log([run[key] for run in bundles]) for key in ("n", "rows"))
    taken = np.log([run["rounds"][GAP] for run in bundles])
    a, growth, c = np.linalg.lstsq(np.stack([ones, groups, rows], axis=1), taken, rcond=None)[0]
    programs = [run for run in runs if _of(run, "bundle") and run["n"] >= 16]
    driver_growth, driver = np.polyfit(
        *(np.log([run[key] for run in programs]) for key in ("n", "driver")), 1
    )
    largest = max((run for run in known if _of(run, "bmrm")), key=lambda run: run["rows"])
    first = float(np.exp(a + c * np.log(KNOWN_ROWS)))
    program = float(np.exp(driver)), float(driver_growth)
    return {
        "bundle": Costs(first, float(growth), float(c), row["bundle"], *program, 4),
        "bmrm": Costs(largest["rounds"].get(GAP, largest["total"]), 0.0, 0.0, row["bmrm"], 0.0, 0.0, 2),
    }


def _of(run: Mapping[str, Any], method: str) -> bool:
    return run["method"].startswith(method)


def residuals(runs: Sequence[Mapping[str, Any]], oracle: str, costs: Costs) -> str:
    """Rounds of 10^6 rows as simulated, and as the model has them."""
    pairs = [
        f"{run['n']}: {run['rounds'][GAP]} ({costs.rounds * run['n'] ** costs.growth:.0f})"
        for run in runs
        if run["oracle"] == oracle and run["lam"] == LAM and run["rows"] == KNOWN_ROWS
        if _of(run, "bundle") and run["n"] > 1 and GAP in run["rounds"]
    ]
    return f"{oracle}, rounds of 10^6 rows by groups (as fitted): {', '.join(pairs)}"


def tables(costs: Mapping[str, Mapping[str, Costs]], rows: float, cluster: Cluster) -> str:
    """Estimates for numbers of workers, as text."""
    head = ["loss, method, workers", "seconds from", "to", "reading", "workers", "network", "driver"]
    head += ["worker-hours from", "to"]
    lines = []
    for oracle, methods in costs.items():
        for method, cost in methods.items():
            for workers in WORKERS:
                parts = cost.parts(rows, workers, cluster)
                total = sum(parts.values())
                least = sum(cost.parts(rows, workers, cluster, saved=True).values())
                shares = [f"{100 * part / total:.0f} %" for part in parts.values()]
                hours = f"{workers * least / 3600:.1f}", f"{workers * total / 3600:.1f}"
                seconds = f"{least:.0f}", f"{total:.0f}"
                lines.append([f"{oracle}, {method}, {workers}", *seconds, *shares, *hours])
    return table(f"estimated: {rows:.0e} rows, {cluster}", head, lines)


def draw(costs: Mapping[str, Mapping[str, Costs]], rows: float, cluster: Cluster, path: Path) -> None:
    """Draw seconds above, and the shares of network and driver below, per loss."""
    import matplotlib.style
    from matplotlib.figure import Figure

    workers = np.geomspace(WORKERS[0], WORKERS[-1], 200)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(9.6, 6.4), layout="constrained")
        panels = figure.subplots(2, len(costs), sharex=True, sharey="row", height_ratios=[3, 2])
        for (above, below), (oracle, methods) in zip(panels.T, costs.items(), strict=True):
            for (method, cost), color in zip(methods.items(), (BLUE, ORANGE), strict=True):
                parts = [cost.parts(rows, count, cluster) for count in workers]
                total = np.array([sum(part.values()) for part in parts])
                saved = [cost.parts(rows, count, cluster, saved=True) for count in workers]
                least = [sum(part.values()) for part in saved]
                above.plot(
                    workers,
                    total,
                    color=color,
                    label=method + ", rounds of $10^6$ rows" * bool(cost.saving),
                )
                if cost.saving:
                    name = f"{method}, fewer rounds for more rows"
                    above.fill_between(workers, least, total, color=color, alpha=0.2, lw=0, label=name)
                for key, dashes in (("network", "-"), ("driver", ":")):
                    share = 100 * np.array([part[key] for part in parts]) / total
                    if share.any():
                        below.plot(workers, share, dashes, color=color, label=f"{method}, {key}")
            one = ONE_CORE[oracle] * rows / 1e7
            above.axhline(one, color=GRAY, ls="--", label="one core, rows in a folder")
            above.set(
                xscale="log", yscale="log", title=f"{oracle}, {rows:.0e} rows".replace("1e+09", "$10^9$")
            )
            below.set(xlabel="workers of one core", ylim=(0, 100))
            below.set_xticks(WORKERS, map(str, WORKERS))
            for axes in (above, below):
                axes.grid(alpha=0.25)
                axes.legend(frameon=False, fontsize=9)
        panels[0, 0].set_ylabel("seconds, estimated")
        panels[1, 0].set_ylabel("% of the seconds, estimated")
        figure.savefig(path)


def main() -> None:
    """Fit, print and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", default="scale", help="name of a record")
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--picture", type=Path, help="draw to this file")
    options = parser.parse_args()
    runs = Record.read(options.record).points["runs"]
    costs, cluster = {oracle: fit(runs, oracle) for oracle in ONE_CORE}, Cluster()
    for oracle, methods in costs.items():
        print(residuals(runs, oracle, methods["bundle"]), *methods.values(), sep="\n", end="\n\n")
    print(tables(costs, options.rows, cluster))
    for oracle, seconds in ONE_CORE.items():
        print(f"estimated, one core, a folder of rows, {oracle}: {seconds * options.rows / 1e7:.0f} s")
    if options.picture:
        draw(costs, options.rows, cluster, options.picture)


if __name__ == "__main__":
    main()
