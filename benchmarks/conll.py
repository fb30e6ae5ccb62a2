"""Chunking of CoNLL-2000: span F1, seconds and memory, next to CRFsuite.

Features are those of CRFsuite's chunking example (Okazaki 2007): 19 templates of words and parts of
speech, 335674 features of the training sentences, 22 labels, Hamming cost. C and the number of passes
are chosen on the last tenth of the training sentences, see `choose`. There are three fits to all
training sentences. One ends at that stop. With ``--C`` a second ends at a relative gap of ``--gap``,
and a third with `FDrop(1)` at a gap of 0.1. Each is tested once. CRFsuite (python-crfsuite) is trained
by L-BFGS and as averaged perceptron, with its defaults, in the same run. The protocol is in
`docs/evidence/structured.md`.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from report import parser_of, require, table, versions, write_record

from structinv.datasets import conll_features, load_conll
from structinv.estimators.tokens import TokenVectorizer
from structinv.model_selection import span_scores
from structinv.oracles import FDrop, Identity, InvarianceOracle
from structinv.solvers import FrankWolfe, Gap, Iterations, Seconds, Solution, solve
from structinv.solvers.stopping import StopRule
from structinv.spaces import ExplicitSpace
from structinv.structures import Layout
from structinv.structures import Sequence as Chain
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import products

FOLDER = Path("conll2000")
CRFSUITE = {"L-BFGS": ("lbfgs", {}), "averaged perceptron": ("ap", {"max_iterations": 10})}

Sentences = list[list[tuple[str, ...]]]
Labels = list[list[str]]


class Task:
    """Training sentences as a problem, and others to score functions on."""

    def __init__(
        self, train: Sentences, labels: Labels, others: Sentences, other_labels: Labels
    ) -> None:
        vectorizer = TokenVectorizer()
        self.X, lengths = vectorizer.fit_rows(conll_features(train))
        self.others, other_lengths = vectorizer.rows(conll_features(others))
        self.y, self.truth = np.concatenate(labels), other_labels
        self.layout, self.other_layout = map(Layout.of_lengths, (lengths, other_lengths))
        self.classes = np.unique(self.y)

    def objective(self, C: float, oracle: InvarianceOracle | None = None) -> Objective:
        oracle = Identity() if oracle is None else oracle
        term = WorstCase(self.X, self.y, oracle, Chain(), C, self.classes, layout=self.layout)
        n_labels = len(self.classes)
        space = ExplicitSpace(self.X.shape[1], n_labels, n_pairwise=Chain().n_pairwise(n_labels))
        return Objective(space, [term])

    def f1(self, objective: Objective, f: np.ndarray) -> float:
        """On the other sentences."""
        scores = products(self.others, objective.space.table(f))
        bound_structure = objective.terms[0].bound_structure
        codes = bound_structure.predict(scores, objective.space.pairwise(f), self.other_layout)
        found = np.split(self.classes[codes], self.other_layout.starts[1:-1])
        return 100.0 * span_scores(self.truth, found)["all"]["f1-score"]


def choose(task: Task, candidates: Sequence[float], passes: int) -> tuple[float, int, list[list[Any]]]:
    """Choose C and the number of sweeps by F1 after each sweep.

    F1 is noisy while the gap is large, so only the later half of the sweeps counts. C has the highest
    mean there, and the sweep is the best of it.
    """
    lines, curves, later = [], {}, passes // 2
    for C in candidates:
        objective, solver = task.objective(C), FrankWolfe()
        state, found = solver.init(objective, np.random.default_rng(0)), []
        for _ in range(passes):
            solver.step(objective, state)
            found.append(task.f1(objective, state.f))
        curves[C] = found[later:]
        lines.append([f"{C:g}", *(f"{each:.2f}" for each in found)])
    best = max(curves, key=lambda C: np.mean(curves[C]))
    return best, later + 1 + int(np.argmax(curves[best])), lines


def noisy_labels(labels: Labels, seed: int = 0) -> Labels:
    """The same labels with noise.

    Three quarters of the chunks of rare types, the rarer half of all, become "O". Then a quarter of all
    labels change places with each other at random.
    """
    rng = np.random.default_rng(seed)
    begun = [label[2:] for own in labels for label in own if label.startswith("B-")]
    kinds, counts = np.unique(begun, return_counts=True)
    rare, left, out = set(kinds[np.argsort(counts)[: (len(kinds) + 1) // 2]].tolist()), [], False
    for label in (label for own in labels for label in own):
        out = rng.random() < 0.75 if label.startswith("B-") else out
        left.append("O" if out and label[2:] in rare else label)
    found, moved = np.array(left), np.flatnonzero(rng.random(len(left)) < 0.25)
    found[moved] = rng.permutation(found[moved])
    edges = np.cumsum([len(own) for own in labels])[:-1]
    return [own.tolist() for own in np.split(found, edges)]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and its processor time in seconds."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def walled(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and its wall time in seconds."""
    started = time.perf_counter()
    found = work()
    return found, time.perf_counter() - started


def fit(
    task: Task, C: float, stop: StopRule, oracle: InvarianceOracle | None = None
) -> tuple[Solution, float, float]:
    """The solution, seconds, and F1."""
    objective, seconds = timed(lambda: task.objective(C, oracle))
    solution, more = timed(lambda: solve(objective, FrankWolfe(), stop, random_state=0))
    return solution, seconds + more, task.f1(objective, solution.f)


def crfsuite(
    algorithm: str, parameters: dict[str, Any], X: Any, y: Labels
) -> tuple[Callable[[Any], list[list[str]]], float]:
    """A CRF as a function of the features of sentences, and the seconds of training alone."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm, params=parameters, verbose=False)
    for features, own in zip(X, y, strict=True):
        trainer.append(features, own)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.crfsuite")
        _, seconds = timed(lambda: trainer.train(path))
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
    return lambda sentences: [tagger.tag(features) for features in sentences], seconds


def scored(
    kind: str, train: Sentences, labels: Labels, others: Sentences, truth: Labels
) -> tuple[float, float]:
    """Seconds of training alone, and F1."""
    tag, seconds = crfsuite(*CRFSUITE[kind], conll_features(train), labels)
    return seconds, 100.0 * span_scores(truth, tag(conll_features(others)))["all"]["f1-score"]


def with_noise(
    train: Sentences, labels: Labels, others: Sentences, truth: Labels, weights: Sequence[float],
    gap: float, limit: StopRule,
) -> list[list[Any]]:  # fmt: skip
    """Return table rows for noisy labels: L-BFGS, and fits to a gap for several C."""
    noisy, lines = noisy_labels(labels), []
    task = Task(train, noisy, others, truth)
    try:
        (seconds, score), wall = walled(lambda: scored("L-BFGS", train, noisy, others, truth))
        lines.append(["CRFsuite, L-BFGS", "", f"{seconds:.2f}", f"{wall:.2f}", "", f"{score:.2f}"])
    except ImportError:
        pass
    for C in weights:
        (solution, seconds, score), wall = walled(lambda C=C: fit(task, C, Gap(gap) | limit))  # type: ignore[misc]
        lines.append([f"structinv, to gap {gap:g}, C {C:g}", solution.iterations, f"{seconds:.2f}",
                      f"{wall:.2f}", f"{solution.relative_gap:.1e}", f"{score:.2f}"])  # fmt: skip
    return lines


def main() -> None:
    parser = parser_of(__doc__, data="conll2000/")
    parser.add_argument("--candidates", nargs="+", type=float, default=[0.05, 0.07, 0.1, 0.15, 0.2])
    parser.add_argument("--passes", type=int, default=6, help="most sweeps to choose from")
    parser.add_argument("--C", type=float, default=0.1, help="of the fit to a gap")
    parser.add_argument("--gap", type=float, default=1e-2)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of the fit to a gap")
    parser.add_argument("--noisy", type=int, default=2500, help="sentences with noisy labels")
    parser.add_argument("--noisy-C", nargs="+", type=float, default=[0.1, 0.3])
    parser.add_argument("--only-noisy", action="store_true", help="leave out all but noisy labels")
    arguments = parser.parse_args()
    files = [FOLDER / "train.txt.xz", FOLDER / "test.txt.xz"]
    require(arguments.data, *files)
    (train, labels), (test, truth) = (load_conll(arguments.data / file) for file in files)
    edge = len(train) - len(train) // 10
    few = Task(train[:100], labels[:100], train[:10], labels[:10])
    for oracle in (None, FDrop(1)):
        fit(few, 0.1, Gap(0.5) | Iterations(3), oracle)

    n, limit = arguments.noisy, Seconds(arguments.seconds)
    lines = with_noise(train[:n], labels[:n], test, truth, arguments.noisy_C, arguments.gap, limit)
    headers = ["method, C", "sweeps", "seconds", "wall time, s", "gap", "F1"]
    title = (
        f"Chunking, CoNLL-2000, {n} training sentences with noisy labels: F1, processor time "
        "and wall time"
    )
    print(table(title, headers, lines, key="noisy"))
    if arguments.only_noisy:
        return
    part = Task(train[:edge], labels[:edge], train[edge:], labels[edge:])
    C, passes, chosen = choose(part, arguments.candidates, arguments.passes)
    task, lines = Task(train, labels, test, truth), []
    runs = [
        ("chosen stop", C, Gap(0.0) | Iterations(passes), None),
        (f"to gap {arguments.gap:g}", arguments.C, Gap(arguments.gap) | limit, None),
        ("FDrop(1), to gap 0.1", arguments.C, Gap(0.1) | limit, FDrop(1)),
    ]
    for name, own, stop, oracle in runs:
        solution, seconds, score = fit(task, own, stop, oracle)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        lines.append([f"structinv, {name}", f"{own:g}", solution.iterations, f"{seconds:.2f}",
                      f"{solution.relative_gap:.1e}", f"{memory:.2f}", f"{score:.2f}"])  # fmt: skip
    try:
        told = f", python-crfsuite {version('python-crfsuite')}"
        for kind in CRFSUITE:
            seconds, score = scored(kind, train, labels, test, truth)
            lines.append([f"CRFsuite, {kind}", "", "", f"{seconds:.2f}", "", "", f"{score:.2f}"])
    except PackageNotFoundError:
        told = "; python-crfsuite is not installed"
    print(versions() + told)
    print(table(
        f"F1 on the last tenth of the training sentences, by C and sweeps: C = {C:g}, {passes} chosen",
        ["C", *range(1, arguments.passes + 1)], chosen,
    ))  # fmt: skip
    headers = ["method", "C", "sweeps", "seconds", "gap", "GB", "F1"]
    print(
        table(
            "Chunking, CoNLL-2000: F1 on 2012 test sentences, and processor time of a fit "
            f"({task.X.shape[1]} features, {len(task.classes)} labels)",
            headers,
            lines,
            key="methods",
        )
    )
    write_record(arguments.record, "CoNLL-2000 chunking, 8936 + 2012 sentences", chosen=chosen)


if __name__ == "__main__":
    main()
