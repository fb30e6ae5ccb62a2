"""Noisy faces: box kernels and filters (Pozdnoukhov and Bengio 2006, sec. 5.3).

The faces of the paper, from a film, are not available. The data here are the Olivetti faces, 10 images
of each of 40 persons, read from ``--data`` as in the other benchmarks. They are shrunk from 64 x 64 to
16 x 16 and to 32 x 32 pixels of gray values 0 to 255. One person is separated from all others, and
errors are means over the persons. A person has only one face in forty, so the error is balanced: the
mean of the error rates of both sides. The tables also have the fraction of faces with a higher score of
another person (identification). The protocol is in `docs/evidence/sets.md`.

``--images digits`` repeats the comparison on MNIST: 50 digits of each class, 20 of them for training.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from digits import folds_of, load_mnist, squared_distances
from report import mean_text, parser_of, require, table, versions, write_record
from scipy.io import loadmat
from scipy.ndimage import gaussian_filter, median_filter
from scipy.signal import wiener
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from structinv.metrics import set_distance
from structinv.oracles import Box

FACES = Path("olivetti", "olivettifaces.mat")
SIDE = 32
TIMES = (1.0, 2.0, 4.0, 8.0)
CS = (1.0, 10.0, 100.0)
RADII = (0.0, 2.5, 5.0, 10.0, 20.0, 40.0)
FOLDS = 3
WANTED = 10

Change = Callable[[np.ndarray], np.ndarray]
Noise = Callable[[np.ndarray, np.random.Generator], np.ndarray]
Point = tuple[float, float]


def load_faces(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Load images, (400, 64, 64) gray values 0 to 255, and the person of each."""
    require(folder, FACES)
    faces = loadmat(folder / FACES)["faces"].T.reshape(-1, 64, 64).transpose(0, 2, 1)
    return faces.astype(np.float64), np.repeat(np.arange(40), 10)


def shrink(faces: np.ndarray, side: int) -> np.ndarray:
    """Means of square blocks, (n, side * side)."""
    block = faces.shape[1] // side
    return faces.reshape(-1, side, block, side, block).mean(axis=(2, 4)).reshape(len(faces), -1)


def load_digits(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The first 50 training digits of each class of MNIST, (500, 784) gray values 0 to 255."""
    X, y = load_mnist(folder, "train")
    rows = np.concatenate([np.flatnonzero(y == digit)[:50] for digit in range(10)])
    return 255.0 * X[rows].astype(np.float64), y[rows]


def split(y: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, `size` of each person, and the rows that remain."""
    order = np.random.default_rng(seed).permutation(len(y))
    persons = [order[y[order] == person] for person in np.unique(y)]
    return np.concatenate([one[:size] for one in persons]), np.concatenate(
        [one[size:] for one in persons]
    )


def normal_noise(X: np.ndarray, rng: np.random.Generator, variance: float) -> np.ndarray:
    """Normal noise on every pixel."""
    return np.clip(X + rng.normal(0.0, np.sqrt(variance), X.shape), 0.0, 255.0)


def outliers(X: np.ndarray, rng: np.random.Generator, uniform: bool, share: float = 0.1) -> np.ndarray:
    values = rng.uniform(0.0, 255.0, X.shape) if uniform else 255.0 * rng.integers(0, 2, X.shape)
    return np.where(rng.random(X.shape) < share, values, X)


NOISES: dict[str, Noise] = {
    "clean": lambda X, rng: X,
    "variance 30": partial(normal_noise, variance=30.0),
    "variance 900": partial(normal_noise, variance=900.0),
    "variance 2500": partial(normal_noise, variance=2500.0),
    "10 % black, white": partial(outliers, uniform=False),
    "10 % uniform": partial(outliers, uniform=True),
}


def wiener_each(images: np.ndarray, size: int) -> np.ndarray:
    """scipy's Wiener filter, which estimates the noise of each image by itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.array([wiener(image, mysize=size) for image in images]))


FILTERS: dict[str, Change] = {
    "none": lambda images: images,
    "Wiener 3": partial(wiener_each, size=3),
    "Wiener 5": partial(wiener_each, size=5),
    "median 3": partial(median_filter, size=(1, 3, 3)),
    "median 5": partial(median_filter, size=(1, 5, 5)),
    "Gaussian 0.5": partial(gaussian_filter, sigma=(0, 0.5, 0.5)),
    "Gaussian 1": partial(gaussian_filter, sigma=(0, 1.0, 1.0)),
    "Gaussian 2": partial(gaussian_filter, sigma=(0, 2.0, 2.0)),
}


def filtered(X: np.ndarray, name: str) -> np.ndarray:
    """A filter of each face."""
    side = int(np.sqrt(X.shape[1]))
    return FILTERS[name](X.reshape(-1, side, side)).reshape(X.shape)


class Way(NamedTuple):
    """A way to compare faces: after a filter, and between boxes."""

    filter: str = "none"
    radius: float = 0.0


class Distances(NamedTuple):
    """Distances to the training faces, by the noise of the other faces."""

    among: np.ndarray
    validation: Mapping[str, np.ndarray]
    test: Mapping[str, np.ndarray]

    def sigma(self, times: float) -> float:
        """A width of kernels: the median distance may be 0 between boxes."""
        return times * float(np.sqrt(np.mean(self.among**2)))


def gaussian(distances: np.ndarray, sigma: float) -> np.ndarray:
    return np.exp(distances**2 / (-2.0 * sigma**2))


def clipped(K: np.ndarray, *asked: np.ndarray) -> tuple[list[np.ndarray], float]:
    """Clip negative eigenvalues of kernel matrices; return the smallest eigenvalue.

    With K = U L U' over the training rows the corrected kernel is ``k_x' U h(L) U' k_z`` with
    ``h(l) = max(l, 0) / l^2``: a new row keeps what lies in the space of the positive eigenvalues.
    """
    values, vectors = np.linalg.eigh(K)
    rounding = len(K) * np.finfo(np.float64).eps * values[-1]
    if values[0] >= -rounding:
        return [K, *asked], float(values[0])
    kept = vectors[:, values > rounding]
    projection = kept @ kept.T
    return [part @ projection for part in (K, *asked)], float(values[0])


def distance_table(X: np.ndarray, Y: np.ndarray, radius: float) -> np.ndarray:
    """Between points or boxes."""
    if radius:
        return set_distance(Box(radius), X, Y)
    return np.sqrt(squared_distances(X, Y))


def one_against_all(
    K: np.ndarray, y: np.ndarray, wanted: Sequence[int], C: float, asked: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return decision values for each person, (n, persons) per kernel matrix."""
    found = [np.empty((len(part), len(wanted))) for part in asked]
    for column, person in enumerate(wanted):
        own = y == person
        weights = np.where(own, len(y) / (2 * np.sum(own)), len(y) / (2 * np.sum(~own)))
        svc = SVC(kernel="precomputed", C=C).fit(K, own.astype(np.float64), weights)
        for values, part in zip(found, asked, strict=True):
            values[:, column] = part[:, svc.support_] @ svc.dual_coef_[0] + svc.intercept_[0]
    return found


def balanced_error(decisions: np.ndarray, y: np.ndarray, wanted: Sequence[int]) -> float:
    """The mean over persons of the mean error rate of both sides."""
    own = y[:, None] == np.asarray(wanted)
    wrong = (decisions > 0) != own
    missed = np.sum(wrong & own, axis=0) / np.sum(own, axis=0)
    taken = np.sum(wrong & ~own, axis=0) / np.sum(~own, axis=0)
    return float(np.mean(missed + taken) / 2)


class Draw:
    """One draw of training faces: distances, validation errors and tests."""

    def __init__(self, faces: np.ndarray, y: np.ndarray, size: int, seed: int) -> None:
        self.train, self.rest = split(y, size, seed)
        self.y, self.y_test = y[self.train], y[self.rest]
        rng = np.random.default_rng([seed, 1])
        self.faces = faces[self.train]
        self.validation = {name: noise(self.faces, rng) for name, noise in NOISES.items()}
        self.test = {name: noise(faces[self.rest], rng) for name, noise in NOISES.items()}
        self.persons = np.unique(y)
        self.wanted = np.sort(rng.permutation(self.persons)[:WANTED])
        self.folds = folds_of(self.y, FOLDS, seed)
        self.filtered: dict[str, tuple[Any, ...]] = {}
        self.tables: dict[Way, Distances] = {}
        self.errors: dict[Way, dict[Point, np.ndarray]] = {}

    def look(self, way: Way) -> None:
        """Return distances of one way, and the validation errors of its models."""
        if way in self.tables:
            return
        faces, *asked = self._after(way.filter)
        tables = [
            {name: distance_table(X, faces, way.radius) for name, X in part.items()} for part in asked
        ]
        self.tables[way] = Distances(distance_table(faces, faces, way.radius), *tables)
        self.errors[way] = {point: self._validate(way, point) for point in product(TIMES, CS)}

    def _after(self, name: str) -> tuple[Any, ...]:
        """Training, validation and test faces after a filter."""
        if name not in self.filtered:
            parts = [
                {noise: filtered(X, name) for noise, X in part.items()}
                for part in (self.validation, self.test)
            ]
            self.filtered[name] = filtered(self.faces, name), *parts
        return self.filtered[name]

    def _validate(self, way: Way, point: Point) -> np.ndarray:
        distances, (times, C) = self.tables[way], point
        sigma, errors = distances.sigma(times), np.zeros(len(NOISES))
        for rows, held in self.folds:
            values = [
                gaussian(part[np.ix_(held, rows)], sigma) for part in distances.validation.values()
            ]
            (K, *asked), _ = clipped(gaussian(distances.among[np.ix_(rows, rows)], sigma), *values)
            found = one_against_all(K, self.y[rows], self.wanted, C, asked)
            errors += [balanced_error(part, self.y[held], self.wanted) for part in found]
        return errors / len(self.folds)

    def choose(self, ways: Sequence[Way], noise: str) -> tuple[Way, Point]:
        """The best of some ways on validation faces of one noise."""
        for way in ways:
            self.look(way)
        column = list(NOISES).index(noise)
        tried = {
            (way, point): errors[column] for way in ways for point, errors in self.errors[way].items()
        }
        return min(tried, key=tried.__getitem__)

    def measure(self, way: Way, point: Point) -> dict[str, float]:
        """Return errors of a model on the test faces of all noises, in percent."""
        distances, (times, C) = self.tables[way], point
        sigma = distances.sigma(times)
        values = [gaussian(part, sigma) for part in distances.test.values()]
        (K, *asked), _ = clipped(gaussian(distances.among, sigma), *values)
        found = one_against_all(K, self.y, self.persons, C, asked)
        return {
            name: 100 * balanced_error(part, self.y_test, self.persons)
            for name, part in zip(NOISES, found, strict=True)
        }


ONLY_FILTERS = [Way(name) for name in FILTERS]
BOXES = [Way(radius=radius) for radius in RADII]


def run_draw(
    seed: int, faces: np.ndarray, y: np.ndarray, size: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Errors in percent on all noises, by the noise of the choice and the model."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    found: dict[str, Any] = {}
    quick = sklearn.config_context(assume_finite=True, skip_parameter_validation=True)
    with threadpool_limits(1), quick:
        draw = Draw(faces, y, size, seed)
        for noise in NOISES:
            best, _ = draw.choose(ONLY_FILTERS, noise)
            sets = {
                "plain": [Way()],
                "filter": ONLY_FILTERS,
                "box": BOXES,
                "box on filtered": [best._replace(radius=radius) for radius in RADII],
            }
            found[noise] = {name: draw.measure(*draw.choose(ways, noise)) for name, ways in sets.items()}
    print(f"draw {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return found


def print_errors(runs: Sequence[dict[str, Any]], images: str, side: int, known: bool) -> None:
    """Print the errors of all models on all noises, and differences."""

    def of(name: str, noise: str) -> np.ndarray:
        return np.array([run[noise if known else "clean"][name][noise] for run in runs])

    rows = [[name, *(mean_text(of(name, one)) for one in NOISES)] for name in runs[0]["clean"]]
    for name, other in (("box", "plain"), ("box", "filter"), ("box on filtered", "filter")):
        found = [of(name, one) - of(other, one) for one in NOISES]
        rows.append([f"{name} - {other}", *(mean_text(one, "+.1f") for one in found)])
    models = "models chosen on this noise" if known else f"models chosen on clean {images}"
    kind = "Olivetti faces" if images == "faces" else "MNIST"
    title = f"Balanced error, %, {kind} of {side} x {side} pixels, {models}"
    key = f"{side}_x_{side}_noise_{'known' if known else 'unknown'}_balanced_error"
    print(table(title, ["model or difference", *NOISES], rows, key))


def main() -> None:
    parser = parser_of(__doc__, data="olivetti/ or mnist/")
    parser.add_argument("--images", choices=["faces", "digits"], default="faces")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    if options.images == "faces":
        faces, y = load_faces(options.data)
        X, size = shrink(faces, SIDE), 5
        data = "Olivetti faces, 40 persons, 5 faces each for training and 5 for testing"
    else:
        (X, y), size = load_digits(options.data), 20
        data = "MNIST, 20 digits of each class for training and 30 for testing"
    side = round(np.sqrt(X.shape[1]))
    print(versions())
    print(f"{data}; {options.draws} draws; means ± standard errors")
    with ProcessPoolExecutor(options.jobs) as pool:
        work = partial(run_draw, faces=X, y=y, size=size)
        runs = list(pool.map(work, range(options.draws)))
    for known in (True, False):
        print_errors(runs, options.images, side, known)
    write_record(options.record, data, seeds=f"{options.draws} draws")


if __name__ == "__main__":
    main()
