"""Random Fourier features of photographs, plain and averaged.

The data are a part of CIFAR-10, as in `patches.py`: 20000 of the 50000 training images and the first
1000 of the 10000 test images. There are also five folds of the 20000. Raj et al. (2017) use all 50000.
They have accuracies of 61.0 and 62.8 % for plain random features (one and two layers), and 64.2 and
67.3 % for orbits. They do not give their length scales. A transformation here is a mirror image or
none, after a shift up to 3 pixels (8 directions) and a rotation up to 10 degrees. ``--changes`` is
their number. The protocol is in `docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import sys
import time
from itertools import product
from typing import Any

from digits import Rows
from feature_ridge import Line, fit_ridge, held_out_errors, print_table
from patches import load_all_photographs, load_photographs
from report import parser_of, versions, write_record

from structinv.embeddings import OrbitFourier
from structinv.kernels import Gaussian
from structinv.oracles import Flip, Identity, Rotations, Shifts
from structinv.oracles.images.image_maps import ImageShape

SHAPE = ImageShape(32, 32, channels=3)
SIGMAS = (6.0, 9.0, 13.0, 18.0, 26.0)
TAUS = (0.25, 0.5, 1.0, 2.0)
LOOKED_AT = slice(0, 4000), slice(4000, 6000)


def moves() -> Any:
    """Return the transformations of a whole photograph."""
    options: dict[str, Any] = {"shape": SHAPE, "fill": "nearest"}
    turned = Rotations(interval=(-10, 10), **options)
    return Flip(shape=SHAPE) @ (Shifts(interval=(0, 3), directions=8, **options) @ turned)


def features(averaged: bool, layers: int, sigma: float, tau: float, options: Any) -> OrbitFourier:
    """Features of one kind."""
    return OrbitFourier(
        moves() if averaged else Identity(),
        Gaussian(sigma),
        options.columns,
        layers=layers,
        tau=tau,
        n_draws=options.changes if averaged else None,
        random_state=0,
    )


def choose(averaged: bool, layers: int, train: Rows, options: Any) -> tuple[float, float]:
    """Widths of both layers."""
    (X, y), (Z, z) = ((train[0][part], train[1][part]) for part in LOOKED_AT)
    tried = {}
    for sigma, tau in product(SIGMAS, TAUS if layers == 2 else (1.0,)):
        made = features(averaged, layers, sigma, tau, options).fit(X[:100])
        errors = held_out_errors((made.transform(X), y), (made.transform(Z), z))
        tried[sigma, tau] = min(errors.values())
    return min(tried, key=tried.__getitem__)


def compare(averaged: bool, layers: int, train: Rows, test: Rows, options: Any) -> Line:
    """One kind of features on all training images."""
    sigma, tau = choose(averaged, layers, train, options)
    start = time.process_time()
    made = features(averaged, layers, sigma, tau, options).fit(train[0][:100])
    rows = (made.transform(train[0]), train[1]), (made.transform(test[0]), test[1])
    line = fit_ridge(*rows, time.process_time() - start)
    line.params |= {"sigma": sigma} | ({"tau": tau} if layers == 2 else {})
    return line


def main() -> None:
    parser = parser_of(__doc__, data="cifar10/")
    parser.add_argument("--photographs", type=int, default=20000, help="training images")
    parser.add_argument("--columns", type=int, default=4000, help="of the features")
    parser.add_argument("--changes", type=int, default=16, help="drawn ones")
    options = parser.parse_args()
    print(f"{versions()}\n")
    train = load_all_photographs(options.data, options.photographs)
    test = load_photographs(options.data, "test", 1000)
    found = {}
    for averaged, layers in product((False, True), (1, 2)):
        name = f"{'averaged' if averaged else 'plain'}, {layers} layer{'s' if layers == 2 else ''}"
        found[name] = compare(averaged, layers, train, test, options)
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    title = f"CIFAR-10, {options.photographs} training images, whole photographs: error"
    print_table(title, found, "whole")
    write_record(options.record, "CIFAR-10 (20000 training images, first 1000 test images)")


if __name__ == "__main__":
    main()
