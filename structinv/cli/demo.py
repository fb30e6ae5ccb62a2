"""Demonstration of plain and robust models on mail, digits and text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from ..datasets import make_mail_like
from ..estimators import InvariantLinearSVC
from ..oracles import FDrop, FScale, Identity, InvarianceOracle
from ..report.section import percent
from ..utils.jit import Stopwatch
from .demo_digits import digits_table, draw_digits, fit_digits
from .demo_plots import plot_certified, plot_gaps
from .demo_tagger import draw_taggers, fit_taggers, taggers_table
from .messages import say, working_on
from .writing import check_folder

_SOLVERS = ("frank_wolfe", "svmstruct", "pegasos")


@dataclass(frozen=True)
class Study:
    """Training rows, test sets by name, and the number of edits of the attack."""

    name: str
    X: Any
    y: Any
    tests: dict[str, tuple[Any, Any]]
    edits: int
    entry: str
    C: float

    @property
    def attack(self) -> str:
        """Features that the attack drops."""
        return f"{self.edits} {self.entry}"

    @property
    def models(self) -> dict[str, InvarianceOracle]:
        """Oracles of the training, by the name of the model."""
        return {
            "Identity": Identity(),
            "FDrop": FDrop(max_changes=self.edits),
            "FScale": FScale(max_changes=self.edits, low=0.0, high=2.0),
        }


@dataclass(frozen=True)
class Run:
    """One fitted model."""

    study: Study
    model: str
    classifier: InvariantLinearSVC
    seconds: float

    def certify(self, test: str, edits: int) -> Any:
        """Certify the model against dropped words, for any oracle of the training."""
        return self.classifier.certify(*self.study.tests[test], oracle=FDrop(max_changes=edits))


def run_demo(out: Path, *, seed: int, quick: bool, console: Console) -> None:
    """Train, print the tables and write the plots to the folder `out`."""
    drawing = find_spec("matplotlib") is not None
    if drawing:
        check_folder(out)
    studies = [_mail(seed, quick), _digits(seed)]
    runs: list[Run] = []
    for study in studies:
        runs += _train(study, seed, quick)
        with working_on(f"certifying on {study.name}"):
            table = _table(runs, study)
        console.print(table)
    with working_on("training kernel SVMs on digits"):
        fits = fit_digits(seed, quick)
    with working_on("attacking digits"):
        table = digits_table(fits)
    console.print(table)
    with working_on("training taggers"):
        taggers = fit_taggers(seed, quick)
    console.print(taggers_table(taggers))
    if not drawing:
        say('no plots, because matplotlib is missing: pip install "structinv[plot]"')
        return
    with working_on("comparing solvers"):
        solver_runs = _compare_solvers(studies[0], seed)
    with working_on("drawing"):
        out.mkdir(parents=True, exist_ok=True)
        paths = [*_draw(out, runs, solver_runs), *draw_digits(fits, out), *draw_taggers(taggers, out)]
    for path in paths:
        console.print(f"plot: {path}", highlight=False, soft_wrap=True)


def _mail(seed: int, quick: bool) -> Study:
    n_samples, n_features = (400, 500) if quick else (2000, 2000)
    X, y = make_mail_like(n_samples, n_features, random_state=seed)
    tests = {
        "mail": make_mail_like(n_samples, n_features, random_state=seed + 1),
        "mail, adapted": make_mail_like(n_samples, n_features, shift=0.7, random_state=seed + 2),
    }
    return Study("mail", X, y, tests, edits=5, entry="words of a mail", C=0.01)


def _digits(seed: int) -> Study:
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 8))
    X, X_test, y, y_test = train_test_split(
        X[chosen] / 16.0, y[chosen], test_size=0.5, stratify=y[chosen], random_state=seed
    )
    return Study("digits 3 and 8", X, y, {"digits": (X_test, y_test)}, 2, "pixels of a digit", C=0.1)


def _train(study: Study, seed: int, quick: bool) -> Iterator[Run]:
    for model, oracle in study.models.items():
        with working_on(f"training {model} on {study.name}"):
            run = _fit(study, model, oracle, seed, seconds=1.0 if quick else 6.0)
        yield run


def _fit(
    study: Study, model: str, oracle: InvarianceOracle, seed: int, seconds: float, **options: Any
) -> Run:
    classifier = InvariantLinearSVC(oracle, C=study.C, max_seconds=seconds, random_state=seed, **options)
    watch = Stopwatch()
    with warnings.catch_warnings():
        # The table shows the gap.
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(study.X, study.y)
    return Run(study, model, classifier, watch.seconds)


def _compare_solvers(study: Study, seed: int) -> list[Run]:
    oracle = study.models["FDrop"]
    return [_fit(study, solver, oracle, seed, 0.5, solver=solver, tol=1e-4) for solver in _SOLVERS]


def _table(runs: Sequence[Run], study: Study) -> Table:
    """Return a table of clean, attacked and certified accuracy of one study's models."""
    table = Table(
        title=f"Plain and robust models on {study.name}",
        caption=(
            f"Accuracy. The attack removes the {study.attack} with the largest effect. Models are "
            "named after the oracle of their training."
        ),
    )
    for name in ("test set", "model"):
        table.add_column(name, no_wrap=True)
    for name in ("clean", "under attack", "certified", "gap", "seconds"):
        table.add_column(name, justify="right")
    matching = [run for run in runs if run.study is study]
    for test in study.tests:
        for run in matching:
            shown = test if run is matching[0] else ""
            table.add_row(shown, *_cells(run, test), end_section=run is matching[-1])
    return table


def _cells(run: Run, test: str) -> tuple[str, ...]:
    certificate = run.certify(test, run.study.edits)
    return (
        run.model,
        percent(run.classifier.score(*run.study.tests[test])),
        percent(float(np.mean(certificate.attacked > 0))),
        percent(certificate.accuracy),
        f"{run.classifier.solution_.relative_gap:.0e}",
        f"{run.seconds:.2f}",
    )


def _draw(out: Path, runs: Sequence[Run], solver_runs: Sequence[Run]) -> list[Path]:
    panels: dict[str, dict[str, tuple[list[int], list[float]]]] = {}
    for run in runs:
        edits = list(range(0, 2 * run.study.edits + 1))
        for test in run.study.tests:
            accuracies = [run.certify(test, count).accuracy for count in edits]
            panels.setdefault(test, {})[run.model] = (edits, accuracies)
    histories = {run.model: run.classifier.solution_.history for run in solver_runs}
    plot_certified(panels, out / "certified.png")
    plot_gaps(f"FDrop on {solver_runs[0].study.name}, by solver", histories, out / "gaps.png")
    return [out / "certified.png", out / "gaps.png"]
