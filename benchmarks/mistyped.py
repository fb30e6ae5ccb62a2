"""Chunking of text with typing errors: robust taggers and CRFsuite.

Data are the first ``--sentences`` training sentences of CoNLL-2000. Features are those of
`conll_features`: words alone (21 templates of words and their spelling), or words and parts of speech
(19 templates). Words of the test sentences are mistyped, lower-cased or made unseen (`mistype`, with
equal probabilities), at rates of 0 to 30 % of the tokens. Parts of speech are those of the unchanged
text, so they preserve most of the information. The protocol is in `docs/evidence/structured.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from conll import crfsuite
from report import parser_of, require, table, versions, write_record
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, load_conll, mistype
from structinv.model_selection import span_scores
from structinv.oracles import Budget, FDrop, InvarianceOracle
from structinv.structures import Sequence as Chain

FOLDER = Path("conll2000")
# What a setting keeps of a token's columns.
SETTINGS = {"words": 1, "words and parts of speech": 2}
RATES = (0.0, 0.05, 0.1, 0.2, 0.3)
KINDS = {"typo": "typos only", "lower": "lower case only", "unseen": "unseen only"}
KIND_RATE = 0.2
DROPPED = (0, 1, 2, 3, 4, 5)
TRAINING_RATES = (0.1, 0.3)
TEST_SEED, VALIDATION_SEED, TRAINING_SEED = 0, 1, 2

Sentences = list[list[tuple[str, ...]]]
Labels = list[list[str]]
Features = list[list[list[str]]]


@dataclass
class Tagger:
    """A tagger, with the status of its fit."""

    tag: Callable[[Features], Any]
    seconds: float
    gap: float = np.nan
    status: str = ""
    model: InvariantStructuredSVC | None = None


@dataclass(frozen=True)
class Machine:
    """A learner and its candidates of C or c2."""

    name: str
    candidates: tuple[float, ...]
    oracle: InvarianceOracle | None = None
    crf: bool = False

    def fit(self, X: Features, y: Labels, C: float, tol: float, seconds: float) -> Tagger:
        started = time.process_time()
        if self.crf:
            return Tagger(*crfsuite("lbfgs", {"c2": C}, X, y))
        model = InvariantStructuredSVC(
            Chain(allowed="iob2"), oracle=self.oracle, C=C, tol=tol, max_seconds=seconds, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table has the gap
            model.fit(X, y)
        solution, taken = model.solution_, time.process_time() - started
        return Tagger(model.predict, taken, solution.relative_gap, str(solution.status.value), model)


@dataclass
class Result:
    """A method on the test sentences."""

    method: str
    C: float
    rate: float
    seconds: float
    gap: float
    status: str
    validated: list[tuple[float, float, float]] = field(repr=False)
    f1: list[float]
    f1_of_kinds: list[float]
    positions: list[float]
    whole: list[float]


PLAIN = Machine("structinv, plain", (0.05, 0.1, 0.2, 0.5))
CRF = Machine("CRFsuite, L-BFGS", (0.03, 0.1, 0.3, 1.0), crf=True)
ROBUST = (
    Machine("structinv, FDrop(1)", (0.05, 0.1, 0.2), FDrop(1)),
    Machine("structinv, FDrop(3)", (0.05, 0.1, 0.2), FDrop(3)),
    Machine("structinv, Budget(FDrop(3))", (0.05, 0.1, 0.2), Budget(FDrop(3))),
)


class Task:
    """Sentences of one setting, for training and for comparison."""

    def __init__(self, options: argparse.Namespace, setting: str) -> None:
        files = (options.data / FOLDER / f"{part}.txt.xz" for part in ("train", "test"))
        (train, labels), (test, truth) = map(load_conll, files)
        assert labels is not None
        assert truth is not None
        self.options, self.setting, self.columns = options, setting, SETTINGS[setting]
        size = options.sentences
        train, labels = train[:size], labels[:size]
        edge = len(train) - len(train) // 10
        self.train, self.labels = train, labels
        self.part = (train[:edge], labels[:edge])
        known = _words(train[:edge])
        self.held = [self.features(train[edge:], rate, VALIDATION_SEED, known) for rate in RATES]
        self.held_truth = labels[edge:]
        known = _words(train)
        self.test = [self.features(test, rate, TEST_SEED, known) for rate in RATES]
        self.kinds = [self.features(test, KIND_RATE, TEST_SEED, known, kind) for kind in KINDS]
        self.truth = truth

    def features(
        self, sentences: Sentences, rate: float, seed: int, known: set[str], kind: Any = "all"
    ) -> Features:
        """Return features of mistyped sentences."""
        typed = mistype(sentences, rate, kind, known=known, random_state=seed)
        return conll_features([[token[: self.columns] for token in sentence] for sentence in typed])

    def fit(self, machine: Machine, C: float, rate: float, choosing: bool = False) -> Tagger:
        """Learn from text that is mistyped at this rate."""
        sentences, labels = self.part if choosing else (self.train, self.labels)
        X = self.features(sentences, rate, TRAINING_SEED, set())
        tol, seconds = self.options.tol, self.options.seconds
        tol, seconds = (2.0 * tol, seconds / 2.0) if choosing else (tol, seconds)
        tagger = machine.fit(X, labels, C, tol, seconds)
        told = f"{tagger.status} at {tagger.gap:.3f} after {tagger.seconds:.1f} s"
        self.note(f"{machine.name}, C={C:g}, rate {rate:g}: {told}")
        return tagger

    def best(
        self, machine: Machine, grid: Sequence[tuple[float, float]]
    ) -> tuple[float, float, list[tuple[float, float, float]]]:
        """Choose C and the rate by mean F1 on the last tenth; also return all trials."""
        tried = []
        for C, rate in grid:
            tagger = self.fit(machine, C, rate, choosing=True)
            found = [_f1(self.held_truth, tagger.tag(text)) for text in self.held]
            tried.append((C, rate, float(np.mean(found))))
        C, rate, _ = max(tried, key=lambda one: one[2])
        return C, rate, tried

    def result(self, machine: Machine, grid: Sequence[tuple[float, float]]) -> Result:
        """The method with what was chosen, on the test sentences."""
        C, rate, tried = self.best(machine, grid)
        tagger = self.fit(machine, C, rate)
        f1 = [_f1(self.truth, tagger.tag(text)) for text in self.test]
        kinds = [_f1(self.truth, tagger.tag(text)) for text in self.kinds]
        positions, whole = self.certified(tagger)
        name = machine.name + (", mistyped" if len({rate for _, rate in grid}) > 1 else "")
        return Result(
            name, C, rate, tagger.seconds, tagger.gap, tagger.status, tried, f1, kinds, positions, whole
        )

    def certified(self, tagger: Tagger) -> tuple[list[float], list[float]]:
        """Return certified fractions of positions and sentences for dropped features."""
        if tagger.model is None:
            return [], []
        number = self.options.certified
        X, y = self.test[0][:number], self.truth[:number]
        found = [tagger.model.certify(X, y, oracle=Budget(FDrop(k))) for k in DROPPED]
        positions = [100.0 * each.position_accuracy for each in found]
        return positions, [100.0 * each.accuracy for each in found]

    def note(self, text: str) -> None:
        """Progress, apart from the results."""
        print(f"{self.setting}: {text}", file=sys.stderr, flush=True)


def _words(sentences: Sentences) -> set[str]:
    return {token[0] for sentence in sentences for token in sentence}


def _f1(truth: Labels, found: Any) -> float:
    return 100.0 * span_scores(truth, found)["all"]["f1-score"]


def run(options: argparse.Namespace, setting: str) -> list[Result]:
    """All methods in a setting."""
    task, results = Task(options, setting), []
    task.fit(Machine("compiling", (), Budget(FDrop(1))), 1e-3, 0.0)
    for plain in (PLAIN, CRF) if _crfsuite_version() else (PLAIN,):
        first = task.result(plain, [(C, 0.0) for C in plain.candidates])
        results += [first, task.result(plain, [(first.C, rate) for rate in TRAINING_RATES])]
    for machine in ROBUST:
        results.append(task.result(machine, [(C, 0.0) for C in machine.candidates]))
    return results


def _crfsuite_version() -> str | None:
    try:
        return version("python-crfsuite")
    except PackageNotFoundError:
        return None


def print_tables(setting: str, results: Sequence[Result], options: argparse.Namespace) -> None:
    """F1, and what is certified."""
    rows = [
        [one.method, f"{one.C:g}", f"{one.rate:g}" if one.rate else "", f"{one.seconds:.1f}",
         "" if np.isnan(one.gap) else f"{one.gap:.2f}", one.status, *(f"{each:.2f}" for each in one.f1),
         *(f"{each:.2f}" for each in one.f1_of_kinds)]
        for one in results
    ]  # fmt: skip
    converged = ["method", "C or c2", "trained at", "seconds", "gap", "status"]
    headers = [*converged, *(f"{rate:.0%}" for rate in RATES), *KINDS.values()]
    print(table(
        f"F1 with {setting}, {options.sentences} training sentences, by share of mistyped,\n"
        f"lower-cased or unseen test tokens; last three: one kind at {100 * KIND_RATE:.0f} %",
        headers, rows, f"{setting}_f1".replace(" ", "_"),
    ))  # fmt: skip
    rows = [
        [one.method, *(f"{a:.1f} / {b:.1f}" for a, b in zip(one.positions, one.whole, strict=True))]
        for one in results if one.positions
    ]  # fmt: skip
    print(table(
        f"Certified positions / whole sentences, %, {setting}, after k dropped features of a sentence\n"
        f"({options.certified} test sentences)", ["method", *(f"k={k}" for k in DROPPED)], rows,
        f"{setting}_certified".replace(" ", "_"),
    ))  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__, data="conll2000/")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--sentences", type=int, default=300, help="to train on, from the first")
    parser.add_argument("--certified", type=int, default=200, help="test sentences, from the first")
    parser.add_argument("--tol", type=float, default=0.2, help="relative gap of the last fits")
    parser.add_argument("--seconds", type=float, default=70.0, help="limit of a fit")
    parser.add_argument("--jobs", type=int, default=1, help="settings at a time")
    options = parser.parse_args()
    require(options.data, FOLDER / "train.txt.xz", FOLDER / "test.txt.xz")
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        futures = {setting: pool.submit(run, options, setting) for setting in options.settings}
        found = {setting: future.result() for setting, future in futures.items()}
    own = _crfsuite_version()
    print(versions() + (f", python-crfsuite {own}" if own else "; python-crfsuite is not installed"))
    for setting, results in found.items():
        print_tables(setting, results, options)
    write_record(
        options.record,
        "CoNLL-2000, the first 1000 training sentences, 2012 for testing",
        seeds="one seed of typing errors",
    )


if __name__ == "__main__":
    main()
