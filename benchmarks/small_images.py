"""Kernel SVMs on small images, compared with SVC on all virtual samples.

The protocol is in `docs/evidence/speed.md`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from digits import Rows, add_data_option, draw_rows, load_mnist
from digits_speed import GAMMA, SIDE, C, machine, shrink
from noisy_faces import load_faces
from noisy_faces import shrink as shrink_faces
from report import parser_of, table, versions, write_record
from sklearn.datasets import load_digits
from sklearn.svm import SVC
from speed import take_turns

from structinv import InvariantSVC
from structinv.oracles import ImageShape, teo2007_transforms

SETS = ("mnist 28", "mnist 16", "mnist 16 wide", "digits 8", "faces 32")
WIDE = 0.03
FACES_A_PERSON, TEST_IMAGES = 5, 2000


@dataclass
class Result:
    """Times and errors of structinv and SVC on a set, in this order."""

    name: str
    samples: int
    fit: np.ndarray
    predict: np.ndarray
    support: tuple[int, int]
    errors: tuple[float, float]
    passes: int
    gap: float

    def cells(self) -> list[str]:
        """A row of the table."""
        return [
            self.name,
            str(self.samples),
            *(f"{seconds:.3g}" for seconds in self.fit),
            f"{self.fit[0] / self.fit[1]:.2f}",
            f"{self.support[0] / self.support[1]:.2f}",
            *(f"{error:.2%}" for error in self.errors),
            *(f"{seconds:.3g}" for seconds in self.predict),
            f"{self.predict[0] / self.predict[1]:.3f}",
            str(self.passes),
        ]


def images(name: str, folder: Path) -> Rows:
    """All images of a set and their labels."""
    kind, side, *_ = name.split()
    if kind == "mnist":
        return shrink(load_mnist(folder, "train"), int(side))
    if kind == "digits":
        digits = load_digits()
        return (digits.data / 16).astype(np.float32), digits.target
    faces, people = load_faces(folder)
    return (shrink_faces(faces, int(side)) / 255).astype(np.float32), people


def split(rows: Rows, per_class: int, seed: int) -> tuple[Rows, Rows]:
    """Images to train on, so many of each class, and images to test on."""
    X, y = rows
    chosen = draw_rows(y, per_class, seed)
    rest = np.setdiff1d(np.arange(len(y)), chosen)
    rest = np.random.default_rng(seed).permutation(rest)[:TEST_IMAGES]
    return (X[chosen], y[chosen]), (X[rest], y[rest])


def compare(name: str, train: Rows, test: Rows, repeats: int, tol: float) -> Result:
    """Fit and predict in turns."""
    X, y = train
    side = round(X.shape[1] ** 0.5)
    oracle = teo2007_transforms(ImageShape(side, side))
    gamma = WIDE if name.endswith("wide") else GAMMA * SIDE**2 / X.shape[1]
    orbits = oracle.orbit(X)
    samples = orbits.reshape(-1, X.shape[1]), np.repeat(y, orbits.shape[1])
    works: list[Callable[[int], InvariantSVC | SVC]] = [
        lambda _: InvariantSVC(oracle, gamma=gamma, C=C, tol=tol, random_state=0).fit(X, y),
        lambda _: SVC(gamma=gamma, C=C, cache_size=4000).fit(*samples),
    ]
    take_turns(works, 1)
    fits, models = take_turns(works, repeats)
    ours, svc = models[0]
    predicting = [lambda _: ours.predict(test[0]), lambda _: svc.predict(test[0])]
    take_turns(predicting[:1], 1)
    predictions, answers = take_turns(predicting, repeats)
    return Result(
        name,
        len(samples[1]),
        np.median(fits, axis=0),
        np.median(predictions, axis=0),
        (len(ours.support_), len(svc.support_)),
        (float(np.mean(answers[0][0] != test[1])), float(np.mean(answers[0][1] != test[1]))),
        ours.n_iter_,
        float(ours.solution_.relative_gap),
    )


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, repeats=3)
    add_data_option(parser, "mnist/ and olivetti/")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--per-class", type=int, default=30, help="digits per class")
    parser.add_argument("--seed", type=int, default=0, help="which images are drawn")
    parser.add_argument("--tol", type=float, default=1e-2, help="relative gap of the fits")
    parser.add_argument("--quick", action="store_true", help="three images per class, once")
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    results = []
    for name in options.sets:
        size = FACES_A_PERSON if name.startswith("faces") else options.per_class
        parts = split(images(name, options.data), 3 if options.quick else size, options.seed)
        repeats = 1 if options.quick else options.repeats
        results.append(compare(name, *parts, repeats, options.tol))
    head = ["set", "samples", "fit, structinv", "fit, SVC", "ratio of fits", "ratio of support vectors"]
    head += ["error", "error, SVC", "predict, structinv", "predict, SVC", "ratio of predict", "passes"]
    print(f"{versions()}, {machine()}")
    title = f"medians of {options.repeats}, seconds"
    print(table(title, head, [one.cells() for one in results], key="fits"))
    write_record(options.record, "MNIST, 8 x 8 digits of scikit-learn, Olivetti faces", seeds="0")


if __name__ == "__main__":
    main()
