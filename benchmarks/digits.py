"""Digits, and the four models of the benchmarks on images.

MNIST has four IDX files (LeCun, Bottou, Bengio and Haffner 1998). They are read from ``--data``, else
from the environment variable ``STRUCTINV_DATA``, else from ``../shared/data``. Pixels are divided by
255, in float32.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from report import require
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from structinv import InvariantSVC, VirtualSupportVectorSVC, VirtualSVC

MNIST = {
    part: (Path("mnist", f"{part}-images-idx3-ubyte.gz"), Path("mnist", f"{part}-labels-idx1-ubyte.gz"))
    for part in ("train", "t10k")
}
TUNING_TOL = 5e-2

Params = dict[str, Any]
Grid = Sequence[Params]
Rows = tuple[np.ndarray, np.ndarray]


def grid(gammas: Sequence[float], Cs: Sequence[float]) -> Grid:
    """All pairs, in the order in which ties are decided."""
    return [{"gamma": gamma, "C": C} for C, gamma in product(Cs, gammas)]


@dataclass
class Outcome:
    """Result of a model on the test images."""

    params: Params
    error: float
    support: int
    seconds: float
    gap: float = field(default=np.nan)
    status: str = ""

    def plain(self) -> dict[str, Any]:
        """For JSON, which has no NaN."""
        return asdict(self) | {"gap": None if np.isnan(self.gap) else self.gap}


def load_mnist(folder: Path, part: str) -> Rows:
    """Images, (n, 784) float32 in [0, 1], and labels of "train" or "t10k"."""
    require(folder, *MNIST[part])
    images, labels = (gzip.decompress((folder / file).read_bytes()) for file in MNIST[part])
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)
    return pixels / np.float32(255), np.frombuffer(labels, np.uint8, offset=8)


def draw_rows(y: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Draw `size` random rows of each class; larger draws contain smaller ones."""
    order = np.random.default_rng(seed).permutation(len(y))
    return np.concatenate([order[y[order] == label][:size] for label in np.unique(y)])


def squared_distances(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """``|x - z|^2`` for all pairs, through one matrix product."""
    distances = X @ Z.T
    distances *= -2
    distances += np.einsum("ij,ij->i", X, X)[:, None]
    distances += np.einsum("ij,ij->i", Z, Z)
    return np.maximum(distances, 0, out=distances)


def gaussian(distances: np.ndarray, gamma: float) -> np.ndarray:
    """The kernel in place of squared distances."""
    distances *= -gamma
    return np.exp(distances, out=distances)


def votes(svc: SVC, X: np.ndarray, batch: int = 1000) -> np.ndarray:
    """Predict like ``svc.predict(X)`` for several classes, by matrix products.

    libsvm evaluates the kernel pair by pair. Its rule: classes i < j are compared by the sum over the
    support vectors of both, i wins if that is above 0, and of the classes with most votes the first
    is the answer.
    """
    n_classes = len(svc.classes_)
    ends = np.cumsum([0, *svc.n_support_])
    pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]
    weights = np.zeros((ends[-1], len(pairs)))
    for column, (i, j) in enumerate(pairs):
        mine, theirs = slice(*ends[i : i + 2]), slice(*ends[j : j + 2])
        weights[mine, column] = svc.dual_coef_[j - 1, mine]
        weights[theirs, column] = svc.dual_coef_[i, theirs]
    first, second = np.array(pairs).T
    centers = svc.support_vectors_.astype(np.float64)
    answers = []
    for start in range(0, len(X), batch):
        rows = X[start : start + batch].astype(np.float64)
        kernel = gaussian(squared_distances(rows, centers), svc.gamma)
        winners = np.where(kernel @ weights + svc.intercept_ > 0, first, second)
        counts = (winners[:, :, None] == np.arange(n_classes)).sum(axis=1)
        answers.append(svc.classes_[np.argmax(counts, axis=1)])
    return np.concatenate(answers)


def folds_of(y: np.ndarray, n_folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train and to validate on."""
    split = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(split.split(y[:, None], y))


def best(points: Grid, rights: np.ndarray) -> Params:
    """The first point of the grid with the most right answers."""
    return points[int(np.argmax(rights))]


def tune_svc(
    X: np.ndarray, y: np.ndarray, oracle: Any, points: Grid, n_folds: int, seed: int
) -> dict[str, Params]:
    """Choose parameters of VirtualSVC and VirtualSupportVectorSVC.

    Without an oracle both are SVC. libsvm reads kernel matrices, which is faster than its own kernel.
    Unlike VirtualSVC this keeps equal variants of an orbit.
    """
    orbits = X[:, None] if oracle is None else oracle.orbit(X)
    size = orbits.shape[1]
    members = orbits.reshape(-1, X.shape[1])
    distances = squared_distances(members, members)
    rights = {name: np.zeros(len(points)) for name in ("VirtualSVC", "VirtualSupportVectorSVC")}
    for train, validate in folds_of(y, n_folds, seed):
        samples = _members_of(train, size)
        table = distances[np.ix_(samples, samples)], distances[np.ix_(validate * size, samples)]
        for gamma in dict.fromkeys(point["gamma"] for point in points):
            kernel, asked = (np.exp(-gamma * part).astype(np.float64) for part in table)
            for number, point in enumerate(points):
                if point["gamma"] == gamma:
                    machines = _both(kernel, asked, y[train], size, point["C"])
                    for name, answers in machines.items():
                        rights[name][number] += np.sum(answers == y[validate])
    return {name: best(points, counts) for name, counts in rights.items()}


def _both(
    kernel: np.ndarray,
    asked: np.ndarray,
    y: np.ndarray,
    size: int,
    C: float,
) -> dict[str, np.ndarray]:
    """Predict with VirtualSVC and VirtualSupportVectorSVC, from kernel matrices."""
    svc = SVC(kernel="precomputed", C=C, cache_size=1000)
    every = np.repeat(y, size)
    answers = {"VirtualSVC": svc.fit(kernel, every).predict(asked)}
    if size == 1:
        return answers
    plain = svc.fit(kernel[::size, ::size], y)
    some = _members_of(np.sort(plain.support_), size)
    if len(some) < len(every):
        svc.fit(kernel[np.ix_(some, some)], every[some])
        answers["VirtualSupportVectorSVC"] = svc.predict(asked[:, some])
    else:
        answers["VirtualSupportVectorSVC"] = answers["VirtualSVC"]
    return answers


def _members_of(rows: np.ndarray, size: int) -> np.ndarray:
    """Return indices of all variants of some rows, the row first."""
    return (rows[:, None] * size + np.arange(size)).ravel()


def tune_invariant(
    X: np.ndarray, y: np.ndarray, oracle: Any, points: Grid, n_folds: int, seed: int
) -> Params:
    """Parameters of InvariantSVC, with fits to a coarse gap."""
    rights = np.zeros(len(points))
    for train, validate in folds_of(y, n_folds, seed):
        for number, point in enumerate(points):
            model = InvariantSVC(oracle, **point, tol=TUNING_TOL, random_state=0)
            model.fit(X[train], y[train])
            rights[number] += np.sum(model.predict(X[validate]) == y[validate])
    return best(points, rights)


def outcome_of(
    model: Any, train: Rows, test: Rows, params: Params, predict: Callable[[Any, np.ndarray], np.ndarray]
) -> Outcome:
    """Fit a model and test it on the test images."""
    start = time.perf_counter()
    model.fit(*train)
    seconds = time.perf_counter() - start
    error = float(np.mean(predict(model, test[0]) != test[1]))
    return Outcome(params, error, len(model.support_), seconds)


def fit_svc(name: str, oracle: Any, params: Params, train: Rows, test: Rows) -> tuple[Outcome, SVC]:
    """Fit SVC, VirtualSVC or VirtualSupportVectorSVC with chosen parameters."""
    kind = {
        "SVC": VirtualSVC,
        "VirtualSVC": VirtualSVC,
        "VirtualSupportVectorSVC": VirtualSupportVectorSVC,
    }[name]
    model = kind(None if name == "SVC" else oracle, **params)
    outcome = outcome_of(model, train, test, params, lambda fitted, X: votes(fitted.svc_, X))
    return outcome, model.svc_


def fit_invariant(oracle: Any, params: Params, train: Rows, test: Rows, **settings: Any) -> Outcome:
    """Fit InvariantSVC with chosen parameters; settings are other parameters."""
    model = InvariantSVC(oracle, **params, random_state=0, **settings)
    outcome = outcome_of(model, train, test, params, lambda fitted, X: fitted.predict(X))
    outcome.gap = model.solution_.relative_gap
    outcome.status = model.solution_.status.value
    return outcome
