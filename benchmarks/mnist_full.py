"""All of MNIST: a kernel machine on the worst case of shifts and other changes, grown round by round.

The orbits of 60000 digits are too many to train on, and most of their members are far from every
border. So round 0 trains on the digits alone, and round 1 on those nearest to a border, with
their orbits. Each later round looks at whole orbits again, trains on the digits whose worst member is
worst, each with its `--width` worst members, and starts anew. Test digits are used for
the curve of error against time only; with ``--validate`` the last 10000 training digits take their
place, to choose parameters by.

The kernel is ``((<x, z> + 1) / 2)^degree`` on images of length one (DeCoste and Schoelkopf 2002), or
Gaussian. ``--deskew`` straightens every digit by its second moments first of all, ``--blur`` smooths it.

A checkpoint is written to ``--out`` after every round; a stopped run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from digits import add_data_option, load_mnist
from report import table, versions, write_json
from scipy import ndimage

from structinv import InvariantSVC
from structinv.kernels import Gaussian, Kernel, Polynomial
from structinv.oracles import (
    BoundOracle,
    Cover,
    InvarianceOracle,
    Rotations,
    Scalings,
    Shears,
    Shifts,
)
from structinv.spaces.atoms import expand

ROWS_AT_ONCE = 500
TRANSFORMS = {
    "shifts1": Shifts(1, directions=8),
    "shifts2": Shifts((1, 2), directions=8),
    "affine": Shifts((1, 2), directions=8)
    | Rotations((-8, 8))
    | Scalings((0.9, 1.1))
    | Shears((-0.1, 0.1)),
    "composed": (Rotations((-8, 8)) | Scalings((0.9, 1.1)) | Shears((-0.1, 0.1)))
    @ Shifts(1, directions=4)
    | Shifts((1, 2), directions=8),
}


class Listed(InvarianceOracle):
    """Of an oracle's orbit, only the members that a list of its own names for each row.

    The lists belong to the rows of a fit, in order: it is of use through `bind` to those rows only.
    """

    finite = True

    def __init__(self, oracle, lists):
        self.oracle = oracle
        self.lists = lists

    def support(self, X, V, assign, reward=None):
        raise NotImplementedError("Listed is for kernel machines")

    def bind(self, X, y=None):
        return BoundListed(self, X, y)


class BoundListed(BoundOracle):
    def __init__(self, oracle, X, y):
        super().__init__(oracle, X, y)
        self.inner = oracle.oracle.bind(X, y)

    def members(self, rows, index):
        return self.inner.members(rows, self.oracle.lists[rows, index])

    def cover(self, rows):
        lists = self.oracle.lists[: len(self.X)][rows]
        members = [self.inner.members(rows, column) for column in lists.T]
        return Cover(np.stack(members, axis=1), np.zeros(len(lists)))

    def member_names(self):
        return [f"listed {number}" for number in range(self.oracle.lists.shape[1])]


def deskewed(X):
    """Every digit sheared along its rows until its second moments say that it stands upright."""
    r, c = np.mgrid[:28, :28]
    straight = np.empty_like(X)
    for i, image in enumerate(X.reshape(-1, 28, 28)):
        mass = image.sum()
        r0, c0 = (r * image).sum() / mass, (c * image).sum() / mass
        slant = ((r - r0) * (c - c0) * image).sum() / ((r - r0) ** 2 * image).sum()
        turn = np.array([[1.0, 0.0], [slant, 1.0]])
        offset = np.array([r0, c0]) - turn @ np.array([13.5, 13.5])
        straight[i] = ndimage.affine_transform(image, turn, offset, order=1).ravel()
    return straight


def prepared(X, arguments):
    """Float32 images of length one."""
    X = deskewed(X) if arguments.deskew else X
    if arguments.blur:
        widths = (0, arguments.blur, arguments.blur)
        X = ndimage.gaussian_filter(X.reshape(-1, 28, 28), widths).reshape(X.shape)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def margins(scores, y):
    """By how much the true class beats all others; `scores` is (..., n_classes)."""
    own = np.take_along_axis(scores, y.reshape(-1, *([1] * (scores.ndim - 1))), axis=-1)
    rest = scores.copy()
    np.put_along_axis(rest, np.broadcast_to(
        y.reshape(-1, *([1] * (scores.ndim - 1))), own.shape), -np.inf, axis=-1)  # fmt: skip
    return own[..., 0] - rest.max(axis=-1)


def scores_of(model, points):
    return expand(model.kernel_, points, model.support_vectors_, model.dual_coef_.T)


def worst_members(model, bound, rows, y, width):
    """The worst margin of each row over its orbit, and its `width` worst members."""
    lowest, worst = np.empty(len(rows)), np.empty((len(rows), width), dtype=np.int64)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        members = bound.cover(rows[part]).points
        n, s, d = members.shape
        found = margins(scores_of(model, members.reshape(n * s, d)).reshape(n, s, -1), y[rows[part]])
        lowest[part] = found.min(axis=1)
        # The digit itself is in any list.
        worst[part] = 1 + np.argsort(found[:, 1:], axis=1)[:, :width]
    return lowest, worst


def train(arguments, kernel: Kernel, X, y, rows, lists):
    """A machine on the rows and the members that their lists name."""
    oracle = Listed(TRANSFORMS[arguments.transforms], lists)
    model = InvariantSVC(
        oracle, kernel=kernel, C=arguments.C, tol=arguments.tol,
        epsilon=arguments.epsilon if lists.shape[1] > 1 else 0.0,
        cache_mb=arguments.cache_mb, random_state=0, verbose=1, max_seconds=arguments.max_fit,
    )  # fmt: skip
    return model.fit(X[rows], y[rows])


def working_set(arguments, number, model, X, y):
    """The digits to train on in a round, by the worst member of their orbits, and their lists."""
    near, width = (values[min(number, len(values)) - 1] for values in (arguments.near, arguments.width))
    bound = TRANSFORMS[arguments.transforms].bind(X, y)
    plain = margins(scores_of(model, X), y)
    searched = np.argsort(plain)[: 2 * near]
    lowest, worst = worst_members(model, bound, searched, y, width)
    # A function that has seen no orbit says more by a digit than by its worst member.
    chosen = np.argsort(lowest if number > 1 else plain[searched])[:near]
    lists = np.hstack([np.zeros((len(chosen), 1), dtype=np.int64), worst[chosen]])
    return searched[chosen], lists, lowest


def main() -> None:
    arguments = options()
    (X, y), (X_test, y_test) = (load_mnist(arguments.data, part) for part in ("train", "t10k"))
    if arguments.rows:
        X, y = X[: arguments.rows], y[: arguments.rows]
    if arguments.validate:
        X, X_test, y, y_test = X[:-10000], X[-10000:], y[:-10000], y[-10000:]
    X, X_test = prepared(X, arguments), prepared(X_test, arguments)
    degree = arguments.degree
    kernel = Polynomial(degree, 0.5, 0.5) if degree else Gaussian(arguments.sigma)
    arguments.out.mkdir(parents=True, exist_ok=True)
    print(versions(), vars(arguments), sep="\n", flush=True)
    curve, rows, lists, spent = resume(arguments, len(X))
    while len(curve) <= arguments.rounds and spent < 60 * arguments.minutes:
        start = time.perf_counter()
        model = train(arguments, kernel, X, y, rows, lists)
        error = float(np.mean(model.predict(X_test) != y_test))
        fitted = time.perf_counter()
        n_rows, n_members = len(rows), lists.size
        rows, lists, lowest = working_set(arguments, len(curve) + 1, model, X, y)
        now = time.perf_counter()
        spent += now - start
        curve.append(
            {
                "round": len(curve), "rows": n_rows, "members": n_members,
                "support": len(model.support_), "error": error, "seconds": spent,
                "fit": fitted - start, "search": now - fitted, "gap": model.solution_.relative_gap,
                "status": model.solution_.status.value,
                "robustly wrong of the searched": int(np.count_nonzero(lowest < 0)),
            }
        )  # fmt: skip
        checkpoint(arguments.out, curve, rows, lists, model)
        print(curve[-1], flush=True)
    report(curve)


def resume(arguments, n_rows: int):
    """What an earlier run has reached: its curve, rows, lists and seconds; or the start."""
    path = arguments.out / "state.npz"
    if not path.exists():
        return [], np.arange(n_rows), np.zeros((n_rows, 1), dtype=np.int64), 0.0
    with np.load(path) as state:
        curve = json.loads((arguments.out / "curve.json").read_text())["curve"]
        return curve, state["rows"], state["lists"], curve[-1]["seconds"]


def checkpoint(folder: Path, curve, rows, lists, model) -> None:
    """Write all that a later run needs, and the model itself."""
    np.savez(folder / "model.npz", vectors=model.support_vectors_, coefficients=model.dual_coef_)
    np.savez(folder / "partial.npz", rows=rows, lists=lists)
    write_json(folder / "curve.json", {"versions": versions(), "curve": curve})
    (folder / "partial.npz").replace(folder / "state.npz")


def report(curve) -> None:
    headers = ["round", "rows", "support vectors", "error %", "gap", "fit s", "search s", "minutes"]
    rows = [
        [
            each["round"], each["rows"], each["support"], f"{100 * each['error']:.2f}",
            f"{each['gap']:.3f}", f"{each['fit']:.0f}", f"{each['search']:.0f}",
            f"{each['seconds'] / 60:.1f}",
        ]
        for each in curve
    ]  # fmt: skip
    print(table("All of MNIST, by round", headers, rows))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_data_option(parser)
    parser.add_argument("--out", type=Path, default=Path("mnist_full"))
    parser.add_argument("--transforms", choices=TRANSFORMS, default="affine")
    parser.add_argument("--deskew", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--blur", type=float, default=0.0, help="pixels, of a Gaussian")
    parser.add_argument("--degree", type=int, default=9, help="0 for a Gaussian kernel")
    parser.add_argument("--sigma", type=float, default=0.45)
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=2e-2)
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--near", type=int, nargs="+", default=[5500, 8000], help="digits, by round")
    parser.add_argument("--width", type=int, nargs="+", default=[24, 14], help="members, by round")
    parser.add_argument("--cache-mb", type=float, default=15000.0)
    parser.add_argument("--max-fit", type=float, default=1200.0, help="seconds of a fit")
    parser.add_argument("--minutes", type=float, default=110.0)
    parser.add_argument("--rows", type=int, default=0, help="only the first so many digits")
    parser.add_argument("--validate", action="store_true", help="test on the last 10000 for training")
    return parser.parse_args()


if __name__ == "__main__":
    main()
