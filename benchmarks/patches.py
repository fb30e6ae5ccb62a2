"""Pooled kernel features of patches: photographs and rotated digits.

The penalty of the ridge classifier has the lowest error on the first fold of the training rows.
Parameters of features were chosen on training rows: photographs had 4000 for training and 2000 for
validation, digits 3000 and 1500 or 2000, then 10000 and 2000. The protocol is in
`docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from digits import Rows
from feature_ridge import Line, fit_ridge, print_table
from report import parser_of, require, versions, write_record
from scipy import ndimage

from structinv.embeddings import PatchOrbits
from structinv.kernels import Gaussian
from structinv.oracles import Flip, Rotations
from structinv.oracles.images.image_maps import ImageShape

CIFAR = {
    "train": Path("cifar10", "train_batch1.hdelta.u8.xz"),
    "test": Path("cifar10", "test_first1000.hdelta.u8.xz"),
    "labels": Path("cifar10", "labels.npz"),
}
SECOND_BATCH = Path("cifar10", "train_batch2.hdelta.u8.xz")
MNIST = ("train", "t10k")


def load_photographs(folder: Path, part: str, count: int) -> Rows:
    """The first images, (count, 3072) float32 in [0, 1], and their labels."""
    require(folder, *CIFAR.values())
    with lzma.open(folder / CIFAR[part]) as file:
        raw = np.frombuffer(file.read(count * 3072), np.uint8).reshape(-1, 32, 32, 3)
    images = np.cumsum(raw, axis=2, dtype=np.uint8)  # stored as differences along rows
    with np.load(folder / CIFAR["labels"]) as labels:
        y = labels["train" if part == "train" else "test_first1000"][:count]
    return images.reshape(count, 3072) / np.float32(255), y


def features_of(made: PatchOrbits, train: Rows, test: Rows) -> tuple[Rows, Rows, float]:
    """Features of both, and the seconds that they took."""
    start = time.process_time()
    found = made.fit(train[0]).transform(train[0]), made.transform(test[0])
    return (found[0], train[1]), (found[1], test[1]), time.process_time() - start


def load_all_photographs(folder: Path, count: int) -> Rows:
    """Load the first images of two training batches, (count, 3072), and labels."""
    X, y = load_photographs(folder, "train", min(count, 10000))
    if count <= 10000:
        return X, y
    require(folder, SECOND_BATCH)
    with lzma.open(folder / SECOND_BATCH) as file:
        raw = np.frombuffer(file.read((count - 10000) * 3072), np.uint8).reshape(-1, 32, 32, 3)
    more = np.cumsum(raw, axis=2, dtype=np.uint8).reshape(-1, 3072) / np.float32(255)
    with np.load(folder / CIFAR["labels"]) as labels:
        return np.vstack([X, more]), labels["train"][:count]


def photographs(options: argparse.Namespace) -> dict[str, Line]:
    """Photographs, without and with the mirror image."""
    train = load_all_photographs(options.data, options.photographs)
    test = load_photographs(options.data, "test", 1000)
    found = {}
    for name, whole in (("patches", None), ("mirror image", Flip())):
        made = PatchOrbits(
            patch_size=6, kernel=Gaussian(0.6), n_components=options.components, pool=3,
            window="gaussian",
            shape=ImageShape(32, 32, channels=3), whole=whole, whitening=0.03, random_state=0,
        )  # fmt: skip
        found[f"{name}, ridge"] = fit_ridge(*features_of(made, train, test))
        print(f"{name}: {found[f'{name}, ridge']}", file=sys.stderr, flush=True)
    return found


def load_turned_digits(folder: Path, n_train: int, n_test: int) -> tuple[Rows, Rows]:
    """Load MNIST in random order, each image randomly rotated, (n, 784) float32."""
    images, labels = [], []
    for part in MNIST:
        files = [Path("mnist", f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
        require(folder, *files)
        with gzip.open(folder / files[0]) as pixels, gzip.open(folder / files[1]) as digits:
            images.append(np.frombuffer(pixels.read(), np.uint8, offset=16))
            labels.append(np.frombuffer(digits.read(), np.uint8, offset=8))
    X = np.concatenate(images).reshape(-1, 28, 28) / np.float32(255)
    y = np.concatenate(labels).astype(int)
    rng = np.random.default_rng(0)
    order, angles = rng.permutation(len(y)), rng.uniform(0.0, 360.0, len(y))
    # The test rows are the same for every number of training rows.
    chosen = np.r_[order[:n_train], order[12000 : 12000 + n_test]]
    turned = [ndimage.rotate(X[i], angles[i], reshape=False, order=1).ravel() for i in chosen]
    X, y = np.array(turned), y[chosen]
    return (X[:n_train], y[:n_train]), (X[n_train:], y[n_train:])


def turned_digits(options: argparse.Namespace) -> dict[str, Line]:
    """Run rotated digits, with one layer and with two."""
    train, test = load_turned_digits(options.data, options.digits, options.test_digits)
    every = Rotations(tuple(np.arange(1, options.turns) * 360.0 / options.turns))
    first: dict[str, Any] = {"patch_size": 7, "stride": 2, "window": "gaussian", "whitening": None}
    below = PatchOrbits(n_components=48, pool=6, contrast=None, lengths="kept", **first)
    layers = {
        "one": PatchOrbits(n_components=200, pool=4, whole=every, random_state=0, **first),
        "two": PatchOrbits(
            patch_size=6, kernel=Gaussian(options.sigma), n_components=options.landmarks, pool=1,
            whole=every, below=below, contrast=None, whitening=None, landmarks="random", random_state=0,
        ),
    }  # fmt: skip
    found = {}
    for name in options.layers:
        line = f"{name} layer{'s' if name == 'two' else ''}, ridge"
        found[line] = fit_ridge(*features_of(layers[name], train, test))
        print(f"{line}: {found[line]}", file=sys.stderr, flush=True)
    return found


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, data="cifar10/ and mnist/")
    parser.add_argument("--sets", nargs="+", choices=("photographs", "digits"),
                        default=["photographs", "digits"])  # fmt: skip
    parser.add_argument("--photographs", type=int, default=20000, help="training images")
    parser.add_argument("--components", type=int, default=800, help="landmarks for photographs")
    parser.add_argument("--digits", type=int, default=12000, help="training images")
    parser.add_argument("--test-digits", type=int, default=50000)
    parser.add_argument("--layers", nargs="+", choices=("one", "two"), default=["one", "two"])
    parser.add_argument("--turns", type=int, default=16, help="of a whole digit")
    parser.add_argument("--landmarks", type=int, default=3000, help="of the second layer, for digits")
    parser.add_argument("--sigma", type=float, default=0.7, help="width of the second layer")
    return parser.parse_args()


def main() -> None:
    options = parse()
    print(f"{versions()}\n")
    if "photographs" in options.sets:
        found = photographs(options)
        title = (
            f"CIFAR-10, {options.photographs} training images, patches with {options.components} "
            "landmarks: error"
        )
        print_table(title, found, "photographs")
    if "digits" in options.sets:
        found = turned_digits(options)
        title = (
            f"Rotated digits, {options.digits} training images, patches under {options.turns} "
            "rotations: error"
        )
        print_table(title, found, "digits")
    write_record(
        options.record,
        "MNIST rotated by random angles (12000 + 50000); CIFAR-10 (20000 + first 1000 test images)",
    )


if __name__ == "__main__":
    main()
