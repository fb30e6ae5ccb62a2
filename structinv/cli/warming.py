"""Compilation in advance, by small fits, predictions and certificates."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from ..datasets import conll_features, make_mail_like, make_tagged_text
from ..estimators import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    OrbitRidge,
    RepresenterClassifier,
    VirtualSVC,
)
from ..functionals import Gradient
from ..kernels import Gaussian, Laplacian, OrbitMean, SetKernel
from ..metrics import nearest
from ..oracles import (
    Budget,
    FAdd,
    FDrop,
    FEdit,
    FScale,
    Identity,
    InvarianceOracle,
    Permutations,
    Rotations,
    Shifts,
)
from ..other_models import certify
from ..structures import Sequence
from ..utils.jit import Stopwatch, cache_folder, cache_is_written, compiled_functions
from .output import print_line, quiet_console


class Family(StrEnum):
    """Kinds of data for compilation in advance."""

    WORDS = "words"
    IMAGES = "images"
    MOLECULES = "molecules"
    SEQUENCES = "sequences"
    TEXTS = "texts"
    ALL = "all"


@dataclass(frozen=True)
class Job:
    """Fits of one family of data, independent of other jobs."""

    family: str
    name: str
    run: Callable[[], None]


def _use(model: Any, X: Any, y: Any, oracle: InvarianceOracle | None = None) -> None:
    """Call the common methods of a classifier."""
    model.fit(X, y)
    model.predict(X)
    model.certify(X, y, oracle=oracle)
    model.certify(X, oracle=oracle)
    model.worst_case(X[:5], y[:5], oracle=oracle)


def _two_classes() -> None:
    X, y = make_mail_like(1000, 1000, random_state=0)
    oracles: Iterable[InvarianceOracle] = (Identity(), FDrop(5), FScale(5, low=0.0, high=2.0))
    for rows in (X, X[:200, :300].toarray()):
        for oracle in oracles:
            _use(InvariantLinearSVC(oracle, C=0.01, random_state=0), rows, y[: rows.shape[0]], FDrop(3))
        other = LogisticRegression().fit(rows, y[: rows.shape[0]])
        certify(other, FDrop(5), rows, y[: rows.shape[0]])


def _cutting_planes() -> None:
    X, y = make_mail_like(200, 100, random_state=0)
    # The default solver is one of these if there are few rows or features.
    for solver in ("bmrm", "svmstruct"):
        model = InvariantLinearSVC(FDrop(2), C=0.01, solver=solver, max_seconds=1.0, random_state=0)
        _use(model, X, y)


def _few_texts() -> None:
    texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"] * 5
    labels = ["spam", "spam", "ham", "ham"] * 5
    _use(InvariantTextClassifier(max_changes=1, C=10.0, max_seconds=1.0), texts, labels)


def _edits() -> None:
    X, y = make_mail_like(400, 300, random_state=0)
    for oracle in (FAdd(3), FEdit(2, add=1.0)):
        _use(InvariantLinearSVC(oracle, C=0.01, tol=0.1, max_seconds=1.0, random_state=0), X, y)


def _several_classes() -> None:
    X, _ = make_mail_like(400, 300, random_state=0)
    y = np.arange(400) % 3
    X[np.arange(400), y] = 2.0
    for oracle in (Identity(), FDrop(2), FScale(2, low=0.0, high=2.0)):
        _use(InvariantLinearSVC(oracle, C=0.1, tol=0.1, max_seconds=1.0, random_state=0), X, y)


def _digits(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:n_rows] / 16.0, y[:n_rows]


def _transformations() -> InvarianceOracle:
    return Shifts(1) | Rotations(degrees=[-10, 10])


def _images() -> None:
    X, y = _digits(100)
    _use(InvariantSVC(_transformations(), C=10.0, tol=1e-2, random_state=0), X, y)
    _use(InvariantSVC(Shifts(1), C=10.0, tol=1e-2, random_state=0), X, y == 3)
    VirtualSVC(_transformations(), C=10.0).fit(X, y).predict(X)


def _images_as_sets() -> None:
    X, y = _digits(60)
    oracle = Rotations(interval=(-10, 10)) | Shifts(interval=(0, 1))
    nearest(oracle, X[30:], X[:30], tangents=True)
    mean = OrbitMean(Rotations(interval=(-30, 30)), Gaussian(1.5), n_draws=8)
    for kernel in (mean, SetKernel(oracle, Gaussian(2.0), sides="tangent", spectrum="clip")):
        InvariantSVC(kernel=kernel, C=10.0, tol=1e-2, random_state=0).fit(X, y).predict(X)


def _molecules() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 5, 3))
    X = np.linalg.norm(points[:, :, None] - points[:, None], axis=3).reshape(40, 25)
    for n_draws in (4, None):
        mean = OrbitMean(Permutations((5, 5), axes="both", noise=1.0), Laplacian(0.1), n_draws=n_draws)
        OrbitRidge(mean).fit(X, X.sum(axis=1)).predict(X)


def _smooth() -> None:
    X, y = _digits(60)
    labels = np.where(np.arange(60) < 20, y % 2, -1)
    model = RepresenterClassifier(Gaussian(2.0), invariances=[Gradient()], nu=0.1)
    model.fit(X[:, 20:30], labels).predict(X[:, 20:30])


def _sequences() -> None:
    sentences, labels = make_tagged_text(30, random_state=0)
    X = conll_features(sentences)
    for oracle in (Identity(), FDrop(1)):
        model: Any = InvariantStructuredSVC(Sequence("iob2"), oracle=oracle, C=0.1, random_state=0)
        model.fit(X, labels)
        model.predict(X)
        for attack in (FDrop(1), Budget(FDrop(3))):
            model.certify(X, labels, oracle=attack)


def _texts(edits: str) -> Callable[[], None]:
    def run() -> None:
        rng = np.random.default_rng(0)
        words = np.array([f"word{number}" for number in range(40)])
        labels = [("ham", "spam")[number % 2] for number in range(60)]
        texts = [
            " ".join([label, *rng.choice(words[(label == "spam") * 20 :][:25], 8)]) for label in labels
        ]
        model = InvariantTextClassifier(
            edits, max_changes=1, C=1.0, tol=0.1, max_seconds=1.0, random_state=0
        )
        _use(model, texts, labels)

    return run


# The longest jobs come first, so that all processors are busy until the end.
JOBS = (
    Job("sequences", "taggers", _sequences),
    Job("words", "several classes", _several_classes),
    Job("words", "removed and rescaled words, two classes", _two_classes),
    Job("words", "added and edited words", _edits),
    Job("words", "cutting planes", _cutting_planes),
    Job("images", "worst-case training for shifts and rotations", _images),
    Job("texts", "deleted words", _texts("drop")),
    Job("texts", "few texts", _few_texts),
    Job("texts", "inserted words", _texts("add")),
    Job("images", "invariant kernels and set kernels", _images_as_sets),
    Job("molecules", "averages over permutations", _molecules),
    Job("images", "smoothness penalties", _smooth),
)


def warm_up(family: Family, console: Console) -> None:
    """Fill the cache on disk with the functions for one kind of data, or for all."""
    folder = cache_folder()
    if folder is None:
        raise ValueError(
            "the cache of compiled functions cannot be written: set NUMBA_CACHE_DIR to a writable "
            "folder, and leave NUMBA_DISABLE_JIT unset"
        )
    logging.getLogger("structinv").setLevel(logging.ERROR)
    watch = Stopwatch()
    chosen = [job for job in JOBS if family in (Family.ALL, job.family)]
    for job in track(chosen, "compiling", console=quiet_console(), transient=True):
        console.print(f"{job.family}: {job.name}, {_run(job)} functions", highlight=False)
    functions, seconds = compiled_functions(), watch.compile_seconds
    print_line(console, f"{functions} functions compiled in {seconds:.0f} s, cached in {folder}")


def _run(job: Job) -> int:
    """Run one job; return the number of compiled functions."""
    before = compiled_functions()
    with warnings.catch_warnings():
        # Small fits need not converge.
        warnings.simplefilter("ignore")
        job.run()
    if not cache_is_written():
        raise ValueError(
            f"the cache of compiled functions in {cache_folder()} cannot be written: free space on its "
            "disk, or set NUMBA_CACHE_DIR to another folder"
        )
    return compiled_functions() - before
