"""Handwritten words: effects of sequences, kernels and image transformations.

The words of Taskar, Guestrin and Koller (2003) have letters of 16 x 8 black or white pixels, in ten
folds. "small" trains on fold 0 and tests on the nine others, "large" the reverse. The protocol is in
`docs/evidence/structured.md`.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from report import parser_of, require, table, versions, write_record
from scipy.ndimage import gaussian_filter
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC, InvariantStructuredSVC, InvariantSVC
from structinv.kernels import Gaussian
from structinv.oracles import Shared, Shears, Shifts
from structinv.oracles.images.image_maps import ImageShape
from structinv.structures import Sequence

FILE = Path("ocr_letters/letters_folds.npz")
FACTOR = 10.0
SLANTS = (-0.3, -0.15, 0.15, 0.3)
GRID = (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass
class Words:
    """Letters (n, d), labels 0 to 25, and the length and the fold of each word."""

    X: np.ndarray
    y: np.ndarray
    lengths: np.ndarray
    folds: np.ndarray

    def take(self, words: np.ndarray) -> Words:
        """Some of the words."""
        starts = np.r_[0, np.cumsum(self.lengths)]
        rows = np.concatenate([np.arange(starts[word], starts[word + 1]) for word in words])
        return Words(self.X[rows], self.y[rows], self.lengths[words], self.folds[words])

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        return np.split(rows, np.cumsum(self.lengths)[:-1])


@dataclass(frozen=True)
class Setting:
    """A model: kernel or not, chain or not, oracle, and C."""

    kernel: bool
    chain: bool
    changes: str
    C: float

    @property
    def name(self) -> str:
        """Name in the table."""
        parts = "kernel" if self.kernel else "linear", "chain" if self.chain else "rows alone"
        return ", ".join([*parts, self.changes])

    def oracle(self, options: argparse.Namespace) -> Any:
        rows = ROWS[options.rows]
        slants = Shears(SLANTS, axes=1, shape=rows.shape)
        known = {
            "plain": None,
            "shifts": Shifts(1 / rows.step, directions=options.directions, shape=rows.shape),
            "slants": slants,
            "one slant": Shared(slants),
        }
        return known[self.changes]

    def model(self, options: argparse.Namespace) -> Any:
        common: dict[str, Any] = {
            "oracle": self.oracle(options),
            "C": self.C,
            "tol": options.tol,
            "max_seconds": options.seconds,
            "random_state": 0,
        }
        if self.kernel:
            common |= {"kernel": options.factor * Gaussian(options.width), "cache_mb": options.cache_mb}
        if self.chain:
            return InvariantStructuredSVC(Sequence(), **common)
        return InvariantSVC(**common) if self.kernel else InvariantLinearSVC(**common)


# C as the rules above say.
SETTINGS = [
    Setting(kernel=False, chain=False, changes="plain", C=30.0),
    Setting(kernel=False, chain=False, changes="shifts", C=10.0),
    Setting(kernel=False, chain=True, changes="plain", C=10.0),
    Setting(kernel=False, chain=True, changes="shifts", C=10.0),
    Setting(kernel=True, chain=False, changes="plain", C=0.3),
    Setting(kernel=True, chain=False, changes="shifts", C=1.0),
    Setting(kernel=True, chain=True, changes="plain", C=1.0),
    Setting(kernel=True, chain=True, changes="shifts", C=1.0),
    Setting(kernel=True, chain=True, changes="slants", C=1.0),
    Setting(kernel=True, chain=True, changes="one slant", C=3.0),
]


def pixels(images: np.ndarray, blur: float) -> np.ndarray:
    """Smoothed images, (n, 16, 8, 1)."""
    return gaussian_filter(images, (0.0, blur, blur), mode="constant")[..., None]


def orientations(images: np.ndarray, blur: float) -> np.ndarray:
    """Return the slope in each of eight directions, blurred, (n, 10, 6, 8).

    Images are smoothed by half a pixel and have a border of two pixels. Gradients are those of Dalal and
    Triggs (2005), without their histograms and norms.
    """
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    down, right = (
        gaussian_filter(images, (0, 0.5, 0.5), order=order) for order in ((0, 1, 0), (0, 0, 1))
    )
    angles = 2 * np.pi * np.arange(8) / 8
    steep = [np.maximum(0.0, np.cos(angle) * right + np.sin(angle) * down) for angle in angles]
    maps = [gaussian_filter(each, (0, blur, blur), mode="constant")[:, ::2, ::2] for each in steep]
    return np.stack(maps, axis=3)


@dataclass(frozen=True)
class Rows:
    """A feature map of images, its pixel size in image pixels, and defaults."""

    make: Callable[[np.ndarray, float], np.ndarray]
    step: int
    blur: float
    width: float
    shape: ImageShape


ROWS = {
    "pixels": Rows(pixels, 1, 1.0, 1.3, ImageShape(16, 8)),
    "orientations": Rows(orientations, 2, 1.7, 0.5, ImageShape(10, 6, 8)),
}


def load(folder: Path, rows: Rows, blur: float) -> Words:
    require(folder, FILE)
    found = np.load(folder / FILE)
    images = np.unpackbits(found["X_bits"], axis=1)[:, :128].reshape(-1, 16, 8).astype(np.float32)
    return Words(
        rows.make(images, blur).reshape(len(images), -1),
        found["y"].astype(int),
        found["lengths"].astype(int),
        found["folds"],
    )


def fit(setting: Setting, train: Words, options: argparse.Namespace) -> tuple[Any, float]:
    """A fitted model, and the seconds it took."""
    model = setting.model(options)
    X, y = (train.split(train.X), train.split(train.y)) if setting.chain else (train.X, train.y)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model, time.perf_counter() - started


def error(setting: Setting, model: Any, test: Words) -> float:
    """Letter error in per cent."""
    found = model.predict(test.split(test.X) if setting.chain else test.X)
    found = np.concatenate(found) if setting.chain else found
    return 100.0 * float(np.mean(found != test.y))


def compare(
    settings: list[Setting], train: Words, test: Words, options: argparse.Namespace
) -> list[list[str]]:
    """Print a row of the table for every model."""
    lines = []
    for setting in settings:
        model, seconds = fit(setting, train, options)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        support = str(len(model.support_)) if setting.kernel else "-"
        lines.append([setting.name, f"{setting.C:g}", f"{error(setting, model, test):.2f}",
                      f"{seconds:.0f}", f"{model.solution_.relative_gap:.1e}", support,
                      f"{memory:.1f}"])  # fmt: skip
        print(*lines[-1], flush=True)
    return lines


def main() -> None:
    parser = parser_of(__doc__, data="ocr_letters/")
    parser.add_argument("--part", choices=["small", "large"], default="small")
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of models")
    parser.add_argument("--share", type=float, default=1.0, help="of the training words")
    parser.add_argument("--rows", choices=list(ROWS), default="orientations")
    parser.add_argument("--blur", type=float, help="of the rows, in pixels; each kind has its own")
    parser.add_argument(
        "--width", type=float, help="of the Gaussian kernel; each kind of rows has its own"
    )
    parser.add_argument("--factor", type=float, default=FACTOR, help="of the kernel")
    parser.add_argument("--directions", type=int, choices=[4, 8], default=8, help="of the shifts")
    parser.add_argument("--tol", type=float, default=2e-2)
    parser.add_argument("--seconds", type=float, default=7200.0, help="limit of a fit")
    parser.add_argument("--cache-mb", type=float, default=3000.0)
    options = parser.parse_args()
    rows = ROWS[options.rows]
    blur = rows.blur if options.blur is None else options.blur
    options.width = rows.width if options.width is None else options.width
    words = load(options.data, rows, blur)
    chosen = (words.folds == 0) == (options.part == "small")
    own = np.flatnonzero(chosen)
    own = np.sort(np.random.default_rng(0).permutation(own)[: round(options.share * len(own))])
    train, test = words.take(own), words.take(np.flatnonzero(~chosen))
    settings = [each for each in SETTINGS if all(word in each.name for word in options.only)]
    print(versions())
    lines = compare(settings, train, test, options)
    headers = ["model", "C", "error, %", "seconds", "gap", "support vectors", "GB"]
    title = f"Words, {len(train.y)} letters for training, {len(test.y)} for testing: letter error"
    print(table(title, headers, lines, key="models"))
    write_record(options.record, "OCR letters (Taskar et al. 2003), fold 0 for training")


if __name__ == "__main__":
    main()
