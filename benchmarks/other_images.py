"""Models of `digits.py` on faces and color photographs.

The protocol is in `docs/evidence/images.md`.
"""

from __future__ import annotations

import argparse
import lzma
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from digits import (
    Grid,
    Params,
    Rows,
    best,
    draw_rows,
    fit_invariant,
    fit_svc,
    folds_of,
    gaussian,
    grid,
    squared_distances,
    tune_invariant,
    tune_svc,
)
from noisy_faces import load_faces
from report import mean_text, parser_of, require, table, versions, write_record
from sklearn.svm import SVC

from structinv import InvariantSVC
from structinv.oracles import Flip, ImageShape, Rotations, Scalings, Shifts

CIFAR = {
    "train": Path("cifar10", "train_batch1.hdelta.u8.xz"),
    "test": Path("cifar10", "test_first1000.hdelta.u8.xz"),
    "labels": Path("cifar10", "labels.npz"),
}
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
CS = (1.0, 10.0)
EPSILONS = (0.0, 0.1, 0.3)
TOL = 1e-2


@dataclass
class Line:
    """Result of a draw: test error, distinct support vectors, seconds of the fit."""

    error: float
    support: int
    seconds: float
    params: Params


def grid_for(X: np.ndarray) -> Grid:
    scale = 1.0 / (X.shape[1] * float(X.var(dtype=np.float64)))
    return grid([factor * scale for factor in FACTORS], CS)


def named(epsilon: float) -> str:
    """The name of InvariantSVC in tables."""
    return f"InvariantSVC, plane_tol {epsilon:g}" if epsilon else "InvariantSVC"


def draw_faces(data: Rows, seed: int) -> tuple[Rows, Rows]:
    """20 people, two faces each to train on, and their others."""
    X, y = data
    people = np.random.default_rng(seed).permutation(40)[:20]
    among = np.flatnonzero(np.isin(y, people))
    train = among[draw_rows(y[among], 2, seed)]
    test = np.setdiff1d(among, train)
    return (X[train], y[train]), (X[test], y[test])


def face_changes() -> Any:
    """Small movements of the camera, and the mirror."""
    options: dict[str, Any] = {"shape": ImageShape(64, 64), "fill": "nearest"}
    moves = Shifts(1, directions=8, **options) | Rotations([-5, 5], **options)
    return moves | Scalings([0.95, 1.05], **options) | Flip(shape=ImageShape(64, 64))


def compare_faces(data: Rows, seed: int) -> dict[str, Line]:
    """Run all models on a draw."""
    train, test = draw_faces(data, seed)
    oracle, points = face_changes(), grid_for(train[0])
    chosen = {"SVC": tune_svc(*train, None, points, 2, seed)["VirtualSVC"]}
    chosen |= tune_svc(*train, oracle, points, 2, seed)
    found = {name: fit_svc(name, oracle, params, train, test)[0] for name, params in chosen.items()}
    params = tune_invariant(*train, oracle, points, 2, seed)
    for epsilon in EPSILONS:
        found[named(epsilon)] = fit_invariant(oracle, params, train, test, tol=TOL, plane_tol=epsilon)
    return {name: Line(one.error, one.support, one.seconds, one.params) for name, one in found.items()}


def load_photographs(folder: Path, part: str, count: int) -> Rows:
    """The first images, (count, 3072) float32 in [0, 1], and their labels."""
    require(folder, *CIFAR.values())
    with lzma.open(folder / CIFAR[part]) as file:
        raw = np.frombuffer(file.read(count * 3072), np.uint8).reshape(-1, 32, 32, 3)
    images = np.cumsum(raw, axis=2, dtype=np.uint8)  # stored as differences along rows
    with np.load(folder / CIFAR["labels"]) as labels:
        y = labels["train" if part == "train" else "test_first1000"][:count]
    return images.reshape(count, 3072) / np.float32(255), y


def photograph_changes() -> Any:
    """The mirror, and small shifts."""
    shape = ImageShape(32, 32, channels=3)
    return Flip(shape=shape) | Shifts([1, 2], shape=shape, fill="nearest")


def one_against_rest(kernel: np.ndarray, y: np.ndarray, asked: np.ndarray, C: float) -> Rows:
    """Return scores of SVC from kernel matrices, and rows that support any class."""
    scores, support = [], []
    for label in np.unique(y):
        svc = SVC(kernel="precomputed", C=C, cache_size=2000).fit(kernel, y == label)
        scores.append(svc.decision_function(asked))
        support.append(svc.support_)
    return np.column_stack(scores), np.unique(np.concatenate(support))


def tune_photographs(X: np.ndarray, y: np.ndarray, points: Grid) -> Params:
    """gamma and C by three folds with SVC."""
    distances, rights = squared_distances(X, X), np.zeros(len(points))
    for train, validate in folds_of(y, 3, 0):
        for number, point in enumerate(points):
            kernel = gaussian(distances[:, train].astype(np.float64), point["gamma"])
            scores, _ = one_against_rest(kernel[train], y[train], kernel[validate], point["C"])
            rights[number] += np.sum(np.argmax(scores, axis=1) == y[validate])
    return best(points, rights)


def table_machine(train: Rows, test: Rows, oracle: Any, params: Params) -> Line:
    """SVC, or VirtualSVC with an oracle."""
    start = time.perf_counter()
    X, y = train
    if oracle is not None:
        orbits = oracle.orbit(X)
        X, y = orbits.reshape(-1, X.shape[1]), np.repeat(y, orbits.shape[1])
    kernel = gaussian(squared_distances(X, X), params["gamma"]).astype(np.float64)
    asked = gaussian(squared_distances(test[0], X), params["gamma"]).astype(np.float64)
    scores, support = one_against_rest(kernel, y, asked, params["C"])
    seconds = time.perf_counter() - start
    error = float(np.mean(np.argmax(scores, axis=1) != test[1]))
    return Line(error, len(support), seconds, params)


def invariant_machine(train: Rows, test: Rows, params: Params, epsilon: float) -> Line:
    """InvariantSVC for each class against the rest."""
    X, y = train
    scores, seconds = [], 0.0
    support: set[tuple[int, int]] = set()
    for label in np.unique(y):
        model = InvariantSVC(
            photograph_changes(), **params, tol=TOL, plane_tol=epsilon, random_state=0
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(X, y == label)
        seconds += time.perf_counter() - start
        scores.append(model.decision_function(test[0]))
        support |= set(zip(model.support_.tolist(), model.support_members_.tolist(), strict=True))
    error = float(np.mean(np.argmax(np.column_stack(scores), axis=1) != test[1]))
    return Line(error, len(support), seconds, params)


def compare_photographs(folder: Path, count: int) -> dict[str, Line]:
    """Run all models on the first photographs."""
    train = load_photographs(folder, "train", count)
    test = load_photographs(folder, "test", 1000)
    params = tune_photographs(*train, grid_for(train[0]))
    works: dict[str, Callable[[], Line]] = {
        "SVC": lambda: table_machine(train, test, None, params),
        "VirtualSVC": lambda: table_machine(train, test, photograph_changes(), params),
    }
    for epsilon in EPSILONS:
        works[named(epsilon)] = partial(invariant_machine, train, test, params, epsilon)
    found = {}
    for name, work in works.items():
        found[name] = work()
        print(f"photographs, {name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def print_table(title: str, draws: Sequence[dict[str, Line]], key: str) -> None:
    """Means over draws, and standard errors of the error."""
    rows = []
    for name in draws[0]:
        lines = [draw[name] for draw in draws]
        error = mean_text([100 * line.error for line in lines])
        support = np.mean([line.support for line in lines])
        seconds = np.mean([line.seconds for line in lines])
        rows.append([name, error, f"{support:.0f}", f"{seconds:.2f}"])
    print(table(title, ["", "error, %", "support vectors", "seconds"], rows, key))


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, data="olivetti/ and cifar10/")
    parser.add_argument("--sets", nargs="+", choices=("faces", "photographs"),
                        default=["faces", "photographs"])  # fmt: skip
    parser.add_argument("--draws", type=int, default=10, help="of faces")
    parser.add_argument("--photographs", type=int, default=2000, help="training images")
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n")
    if "faces" in options.sets:
        faces, people = load_faces(options.data)
        data = (faces.reshape(400, 4096) / 255).astype(np.float32), people
        compare_faces(data, 0)  # compiles or loads all kernels
        draws = [compare_faces(data, seed) for seed in range(options.draws)]
        print_table(f"faces: 20 people, 2 faces each, {options.draws} draws", draws, "faces")
    if "photographs" in options.sets:
        compare = compare_photographs(options.data, options.photographs)
        params = compare["SVC"].params
        title = (
            f"photographs: {options.photographs} images, gamma {params['gamma']:.3g}, C {params['C']:g}"
        )
        print_table(title, [compare], "photographs")
    write_record(
        options.record,
        "Olivetti faces (20 people, 2 for training and 8 for testing each); CIFAR-10 (2000 images)",
        seeds=f"0 to {options.draws - 1} (draws of faces)",
    )


if __name__ == "__main__":
    main()
