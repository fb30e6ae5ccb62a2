"""Compilation in advance, by small fits, predictions and certificates."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
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


def _use(model: Any, X: Any, y: Any) -> None:
    """Call the common methods of a classifier."""
    model.fit(X, y)
    model.predict(X)
    model.certify(X, y)
    model.certify(X)
    model.worst_case(X[:5], y[:5])


def _words() -> None:
    X, y = make_mail_like(1000, 1000, random_state=0)
    few, labels = X[:200, :300], y[:200]
    oracles: list[InvarianceOracle] = [Identity(), FDrop(5), FScale(5, low=0.0, high=2.0)]
    oracles += [FAdd(3), FEdit(2, add=1.0)]
    quick: dict[str, Any] = {"C": 0.01, "tol": 0.1, "max_seconds": 1.0, "random_state": 0}
    for oracle in oracles:
        for rows, of_rows in ((X, y), (few.toarray(), labels), (few, np.arange(200) % 3)):
            _use(InvariantLinearSVC(oracle, **quick), rows, of_rows)
    # The default solver is one of these if there are few rows or features.
    for solver in ("bmrm", "svmstruct"):
        _use(InvariantLinearSVC(FDrop(2), solver=solver, **quick), few, labels)
    for rows in (few, few.toarray()):
        certify(LogisticRegression().fit(rows, labels), FDrop(5), rows, labels)


def _images() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:100] / 16.0, y[:100]
    moves: InvarianceOracle = Shifts(1) | Rotations(degrees=[-10, 10])
    ranges: InvarianceOracle = Rotations(interval=(-10, 10)) | Shifts(interval=(0, 1))
    settings: dict[str, Any] = {"C": 10.0, "tol": 1e-2, "random_state": 0}
    _use(InvariantSVC(moves, **settings), X, y)
    _use(InvariantSVC(Shifts(1), **settings), X, y == 3)
    VirtualSVC(moves, C=10.0).fit(X, y).predict(X)
    nearest(ranges, X[30:60], X[:30], tangents=True)
    mean = OrbitMean(Rotations(interval=(-30, 30)), Gaussian(1.5), n_draws=8)
    for kernel in (mean, SetKernel(ranges, Gaussian(2.0), sides="tangent", spectrum="clip")):
        InvariantSVC(kernel=kernel, **settings).fit(X[:60], y[:60]).predict(X[:60])
    smooth = RepresenterClassifier(Gaussian(2.0), invariances=[Gradient()], nu=0.1)
    smooth.fit(X[:60, 20:30], np.where(np.arange(60) < 20, y[:60] % 2, -1)).predict(X[:60, 20:30])


def _molecules() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 5, 3))
    X = np.linalg.norm(points[:, :, None] - points[:, None], axis=3).reshape(40, 25)
    for n_draws in (4, None):
        mean = OrbitMean(Permutations((5, 5), axes="both", noise=1.0), Laplacian(0.1), n_draws=n_draws)
        OrbitRidge(mean).fit(X, X.sum(axis=1)).predict(X)


def _sequences() -> None:
    sentences, labels = make_tagged_text(30, random_state=0)
    X = conll_features(sentences)
    for oracle in (Identity(), FDrop(1)):
        model: Any = InvariantStructuredSVC(Sequence("iob2"), oracle=oracle, C=0.1, random_state=0)
        model.fit(X, labels)
        model.predict(X)
        for attack in (FDrop(1), Budget(FDrop(3))):
            model.certify(X, labels, oracle=attack)


def _texts() -> None:
    texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"] * 15
    labels = ["spam", "spam", "ham", "ham"] * 15
    for edit, number in (("drop", 60), ("add", 60), ("edit", 20)):
        model = InvariantTextClassifier(edit, 1, C=10.0, max_seconds=1.0, random_state=0)
        _use(model, texts[:number], labels[:number])


# Fits, predictions and certificates of each family.
USES = {
    Family.SEQUENCES: _sequences,
    Family.WORDS: _words,
    Family.IMAGES: _images,
    Family.TEXTS: _texts,
    Family.MOLECULES: _molecules,
}


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
    chosen = list(USES) if family is Family.ALL else [family]
    for each in track(chosen, "compiling", console=quiet_console(), transient=True):
        console.print(f"{each}: {_compiled_by(USES[each])} functions", highlight=False)
    functions, seconds = compiled_functions(), watch.compile_seconds
    print_line(console, f"{functions} functions compiled in {seconds:.0f} s, cached in {folder}")


def _compiled_by(use: Callable[[], None]) -> int:
    """Call a function; return the number of compiled functions."""
    before = compiled_functions()
    with warnings.catch_warnings():
        # Small fits need not converge.
        warnings.simplefilter("ignore")
        use()
    if not cache_is_written():
        raise ValueError(
            f"the cache of compiled functions in {cache_folder()} cannot be written: free space on its "
            "disk, or set NUMBA_CACHE_DIR to another folder"
        )
    return compiled_functions() - before
