"""Tangent distance on MNIST: speed, nearest neighbors and indefinite kernels.

A digit has seven tangents (Simard, LeCun, Denker and Victorri 1998). They are two shifts, rotation,
scaling, a shear, a stretch of one axis, and thickness, the squared length of the gradient. The protocol
is in `docs/evidence/sets.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from digits import load_mnist
from report import parser_of, table, versions, write_record
from scipy import ndimage
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from structinv.kernels import Gaussian, SetKernel
from structinv.metrics import nearest, set_distance, tangent_distance
from structinv.oracles import (
    Box,
    ImageOracle,
    InvarianceOracle,
    Rotations,
    Scalings,
    Segment,
    Shears,
    Shifts,
    TangentDerivative,
)
from structinv.oracles.third_party import tangent_planes
from structinv.regions.inner_products import Stack, pair_products, tiles
from structinv.utils.matrices import in_threads, one_blas_thread

PARTS = ("speed", "neighbors", "kernels", "eigenvalues")
WIDTHS = (0.15, 0.2, 0.3, 0.45)
COSTS = (1.0, 10.0, 100.0)


class Thickness:
    """Tangents of stroke thickness: the squared length of the gradient."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The tangents (n, 1, d) of square images."""
        side = round(X.shape[1] ** 0.5)
        images = X.reshape(-1, side, side)
        squares = sum(np.square(each) for each in np.gradient(images, axis=(1, 2)))
        return squares.reshape(len(X), 1, -1)


class Squeezes(ImageOracle):
    """Images made narrower or wider."""

    parameter, neutral = "factors", 1.0

    def __init__(
        self, factors: Any = None, shape: Any = None, interval: tuple[float, float] | None = None
    ) -> None:
        self.factors = factors
        self.shape = shape
        self.interval = interval

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        matrices = np.tile(np.eye(2), (len(values), 1, 1))
        matrices[:, 1, 1] = values
        return matrices, np.zeros((len(values), 2))

    def describe(self, family: Any, value: float) -> str:
        return f"squeeze {value:g}"


def seven() -> InvarianceOracle:
    """Whose tangents they are; how far each may go does not count."""
    changes = Rotations(interval=(-15, 15)) | Scalings(interval=(0.9, 1.1))
    changes = changes | Shears(interval=(-0.2, 0.2), axes=0) | Squeezes(interval=(0.9, 1.1))
    return changes | Shifts(interval=(0, 1)) | TangentDerivative(Thickness(), 1.0)


def prepared(X: np.ndarray, blur: float, side: int) -> np.ndarray:
    """Blurred images of so many pixels a side, in single precision."""
    images = X.reshape(-1, 28, 28).astype(np.float32)
    images = ndimage.gaussian_filter(images, (0, blur, blur)) if blur else images
    if side != 28:
        # Means over squares of a finer grid keep the mass of strokes.
        images = ndimage.zoom(images, (1, 2 * side / 28, 2 * side / 28), order=1)
        images = images.reshape(-1, side, 2, side, 2).mean(axis=(2, 4))
    return np.ascontiguousarray(images.reshape(len(X), -1))


def seconds_of(work: Callable[[], Any], times: int = 3) -> float:
    """The median of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def products_alone(left: Stack, right: Stack, one_sided: bool) -> None:
    """Compute only the inner products of a matrix, in the same tiles and threads."""
    numbers = right.size if one_sided else right.size**2
    left = Stack(left.vectors[:, :1], left.own) if one_sided else left
    parts = tiles(len(left.vectors), len(right.vectors), numbers, False)

    def work(part: slice) -> None:
        for rows, columns in parts[part]:
            pair_products(left.part(rows), right.part(columns))

    with one_blas_thread():
        in_threads(work, len(parts), 2**40, most=4)


def speed(train: np.ndarray, test: np.ndarray, n: int, m: int) -> list[list[Any]]:
    """Seconds of tables and of their products."""
    oracle, rows = seven(), []
    for dtype in (np.float64, np.float32):
        X, Y = test[:n].astype(dtype), train[:m].astype(dtype)
        tangent_distance(oracle, X[:10], Y[:10])
        planes = tangent_planes(oracle, X), tangent_planes(oracle, Y)
        for sides in ("one", "two"):
            products = seconds_of(
                lambda p=planes, s=sides: products_alone(p[0].stack, p[1].stack, s == "one")
            )
            whole = seconds_of(lambda X=X, Y=Y, s=sides: tangent_distance(oracle, X, Y, s))
            name = np.dtype(dtype).name
            rows.append(
                [f"{name}, {sides}", f"{products:.2f}", f"{whole:.2f}", f"{whole / products:.2f}"]
            )
    return rows


def error_of(distances: np.ndarray, numbers: np.ndarray, labels: np.ndarray, truth: np.ndarray) -> float:
    """The error in per cent of votes weighted by inverse distances."""
    weights = 1.0 / np.maximum(distances, 1e-9)
    votes = np.zeros((len(truth), 10))
    for k in range(numbers.shape[1]):
        votes[np.arange(len(truth)), labels[numbers[:, k]]] += weights[:, k]
    return 100.0 * float(np.mean(np.argmax(votes, axis=1) != truth))


def neighbors(data: Sequence[np.ndarray], n_test: int, n_train: int, chooser: int) -> list[list[Any]]:
    """Choose on training digits, then one run on the test digits."""
    X, y, X_test, y_test = data
    rng = np.random.default_rng(0)
    first, last = rng.permutation(50000)[: 5 * chooser], 50000 + rng.permutation(10000)[:chooser]
    rows, best = [], (np.inf, None)
    for side in (28, 16):
        for blur in (0.0, 0.7, 1.0):
            some, held = prepared(X[first], blur, side), prepared(X[last], blur, side)
            for sides in ("one", "two"):
                found = nearest(seven(), held, some, 5, sides=sides, tangents=True)
                for k in (1, 3, 5):
                    error = error_of(found[0][:, :k], found[1][:, :k], y[first], y[last])
                    setting = side, blur, sides, k
                    rows.append([f"training digits, {side} pixels", *setting[1:], f"{error:.2f}", ""])
                    best = min(best, (error, setting), key=lambda one: one[0])
    side, blur, sides, k = best[1]
    train, test = prepared(X[:n_train], blur, side), prepared(X_test[:n_test], blur, side)
    start = time.perf_counter()
    found = nearest(seven(), test, train, k, sides=sides, tangents=True)
    passed = time.perf_counter() - start
    for many in dict.fromkeys((k, 1)):
        error = error_of(found[0][:, :many], found[1][:, :many], y[:n_train], y_test[:n_test])
        rows.append([f"test digits, {side} pixels", blur, sides, many, f"{error:.2f}", f"{passed:.0f}"])
    return rows


def clipped(table_: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A table with its eigenvalues clipped at 0, and other rows by the same formula."""
    values, vectors = np.linalg.eigh(table_)
    kept = values > 1e-10 * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    features = table_ @ root
    return features @ features.T, (rows @ root) @ features.T


def tuned(squares: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Width and C with the least error on 3 folds; of equal ones the first."""
    best = (np.inf, (0.0, 0.0))
    scale = float(np.sqrt(np.median(squares)))
    for width in WIDTHS:
        gram = np.exp(-squares / (2.0 * (width * scale) ** 2))
        for C in COSTS:
            errors = []
            for fit, held in StratifiedKFold(3, shuffle=True, random_state=0).split(gram, y):
                machine = SVC(C=C, kernel="precomputed").fit(gram[np.ix_(fit, fit)], y[fit])
                errors.append(np.mean(machine.predict(gram[np.ix_(held, fit)]) != y[held]))
            best = min(best, (float(np.mean(errors)), (width * scale, C)), key=lambda one: one[0])
    return best[1]


def kernels(
    data: Sequence[np.ndarray],
    sizes: Sequence[int],
    n_test: int,
    names: Sequence[str],
    given: tuple[float, float] | None,
) -> list[list[Any]]:
    """Return errors of models on distance matrices."""
    X, y, X_test, y_test = data
    rows = []
    for n in sizes:
        chosen = np.random.default_rng(0).permutation(60000)[:n]
        labels, truth = y[chosen], y_test[:n_test]
        for name in names:
            start = time.perf_counter()
            train, test = prepared(X[chosen], 0.7, 28), prepared(X_test[:n_test], 0.7, 28)
            if name == "tangent":
                own, others = tangent_distance(seven(), train), tangent_distance(seven(), test, train)
            else:
                own, others = set_distance(Box(0.0), train), set_distance(Box(0.0), test, train)
            made = time.perf_counter() - start
            squares = np.square(own, dtype=np.float64)
            width, C = given or tuned(squares, labels)
            gram, new = (
                np.exp(-np.square(each, dtype=np.float64) / (2 * width**2)) for each in (own, others)
            )
            least = float(np.linalg.eigvalsh(gram)[0])
            for way, tables in (
                ("none", lambda g=gram, k=new: (g, k)),
                ("clip", lambda g=gram, k=new: clipped(g, k)),
            ):
                corrected_gram, corrected_new = tables()
                machine = SVC(C=C, kernel="precomputed").fit(corrected_gram, labels)
                error = 100.0 * np.mean(machine.predict(corrected_new) != truth)
                row = [
                    f"{n}, {name}, {way}",
                    f"{error:.2f}",
                    f"{least:.2g}",
                    len(machine.support_),
                    f"{width:.2f}",
                ]
                rows.append([*row, f"{C:g}", f"{made:.0f}"])
    return rows


def eigenvalues(images: np.ndarray, n: int) -> list[list[Any]]:
    """Return eigenvalues of the kernel matrices of real rows."""
    rows = []
    turns = Rotations((-10, -5, 5, 10))
    for name, oracle, sides in (
        ("4 rotations", turns, "two"),
        ("4 rotations", turns, "mean"),
        ("7 tangents", seven(), "tangent"),
        ("7 tangents, bounded", TangentDerivative(Scaled(), 1.0), "two"),
        ("segment 0.5 to 2", Segment(0.5, 2.0), "two"),
        ("box 0.1", Box(0.1), "two"),
    ):
        distances = set_distance(oracle, images[:n], sides=sides) if sides != "tangent" else None
        distances = tangent_distance(oracle, images[:n]) if distances is None else distances
        scale = float(np.median(distances[np.triu_indices(n, 1)]))
        for share in (0.25, 0.5, 1.0):
            kernel = SetKernel(oracle, Gaussian(share * scale), sides)
            values = np.linalg.eigvalsh(kernel.matrix(images[:n], images[:n]).astype(np.float64))
            below = values < -1e-10 * values[-1]
            lost = np.abs(values[below]).sum() / np.abs(values).sum()
            row = [f"{name}, {sides}", share, f"{values[0]:.2g}", f"{values[-1]:.3g}"]
            rows.append([*row, int(below.sum()), f"{100 * lost:.2f}"])
    return rows


class Scaled:
    """The seven tangents, a tenth of the image long each."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The directions (n, 7, d)."""
        tangents = seven().tangents(X)
        lengths = np.linalg.norm(tangents, axis=2, keepdims=True)
        sizes = 0.1 * np.linalg.norm(X, axis=1)[:, None, None]
        return sizes * tangents / np.maximum(lengths, 1e-12)


def main() -> None:
    parser = parser_of(__doc__, data="mnist/")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 3000, 10000], help="of kernels")
    parser.add_argument("--distances", nargs="+", default=["Euclidean", "tangent"], help="of kernels")
    parser.add_argument("--given", nargs=2, type=float, help="length scale and C, instead of folds")
    given = parser.parse_args()
    data = (*load_mnist(given.data, "train"), *load_mnist(given.data, "t10k"))
    X, _, X_test, _ = data
    print(versions(), "\n")
    for part in given.parts:
        if part == "speed":
            title = "Seconds of 1000 x 10000 tangent distances, 7 tangents of 784 pixels"
            headers = ["precision, sides", "products, s", "distances, s", "ratio"]
            found = speed(X, X_test, 1000, 10000)
        elif part == "eigenvalues":
            title = "Eigenvalues of Gaussians of set distances, 500 digits of MNIST"
            headers = ["sets, sides", "length scale / median"]
            headers += ["smallest", "largest", "number below 0", "negative share, %"]
            found = eigenvalues(prepared(X[:500], 0.7, 28).astype(np.float64), 500)
        elif part == "neighbors":
            title = "Nearest neighbors by tangent distance, MNIST: error"
            headers = ["digits, side", "blur", "sides", "k", "error, %", "seconds"]
            found = neighbors(data, 10000, 60000, 2000)
        else:
            title = "SVC with Gaussians of distances, MNIST: error, by number of training digits"
            headers = ["training digits, distance, spectrum", "error, %", "smallest eigenvalue"]
            headers += ["support vectors", "length scale", "C", "tables, s"]
            pair = given.given and tuple(given.given)
            found = kernels(data, given.sizes, 10000, given.distances, pair)
        print(table(title, headers, found, key=part), flush=True)
    write_record(given.record, "MNIST")


if __name__ == "__main__":
    main()
