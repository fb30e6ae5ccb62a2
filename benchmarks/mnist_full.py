"""All of MNIST: a kernel machine on the worst case of shifts and other changes, grown round by round.

The orbits of 60000 digits are too many to train on, and most of their members are far from every
border. So a working set grows: round 0 trains on the digits alone. Each later round looks for the
members of the orbits that violate the margin most, for the digits nearest to a border, adds at most
`--add` of them a digit to the digit's list, leaves out digits whose whole list is far from the border,
and trains again. Digits that were left out are looked at again in every round. Test digits are used for
the curve of error against time only; with ``--validate`` the last 10000 training digits take their
place, to choose parameters by.

The kernel is ``((<x, z> + 1) / 2)^degree`` on images of length one (DeCoste and Schoelkopf 2002), or
Gaussian. ``--deskew`` straightens every digit by its second moments, before anything else.

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


def prepared(X, deskew):
    """Float32 images of length one."""
    X = deskewed(X) if deskew else X
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


def worst_members(model, bound, rows, y, lists, add):
    """For each row its margins over the orbit, and the `add` worst violating members not listed."""
    lowest, new = np.empty(len(rows)), np.zeros((len(rows), add), dtype=np.int64)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        members = bound.cover(rows[part]).points
        n, s, d = members.shape
        found = margins(scores_of(model, members.reshape(n * s, d)).reshape(n, s, -1), y[rows[part]])
        lowest[part] = found.min(axis=1)
        listed = lists[rows[part]]
        np.put_along_axis(found, listed, np.inf, axis=1)
        order = np.argsort(found, axis=1)[:, :add]
        violates = np.take_along_axis(found, order, axis=1) < 1.0
        new[part] = np.where(violates, order, 0)
    return lowest, new


def train(arguments, kernel: Kernel, X, y, rows, lists):
    """A machine on the rows and the members that their lists name."""
    used = np.flatnonzero(np.any(lists[rows] != 0, axis=0))
    columns = np.r_[0, used[used > 0]]
    oracle = Listed(TRANSFORMS[arguments.transforms], lists[np.ix_(rows, columns)])
    model = InvariantSVC(
        oracle, kernel=kernel, C=arguments.C, tol=arguments.tol, epsilon=arguments.epsilon,
        cache_mb=arguments.cache_mb, random_state=0, verbose=1, max_seconds=arguments.max_fit,
    )  # fmt: skip
    return model.fit(X[rows], y[rows])


def grow(arguments, model, X, y, lists):
    """Lists with the worst members of the digits nearest to a border, and the digits to train on."""
    bound = TRANSFORMS[arguments.transforms].bind(X, y)
    plain = margins(scores_of(model, X), y)
    near = np.sort(np.argsort(plain)[: arguments.near])
    lowest, new = worst_members(model, bound, near, y, lists, arguments.add)
    lists = np.hstack([lists, np.zeros((len(X), arguments.add), dtype=np.int64)])
    lists[near, -arguments.add :] = new
    rows = near[lowest < arguments.keep]
    return lists, rows, float(np.mean(lowest < 0.0)), int(np.count_nonzero(new))


def main() -> None:
    arguments = options()
    (X, y), (X_test, y_test) = (load_mnist(arguments.data, part) for part in ("train", "t10k"))
    if arguments.rows:
        X, y = X[: arguments.rows], y[: arguments.rows]
    if arguments.validate:
        X, X_test, y, y_test = X[:-10000], X[-10000:], y[:-10000], y[-10000:]
    X, X_test = prepared(X, arguments.deskew), prepared(X_test, arguments.deskew)
    degree = arguments.degree
    kernel = Polynomial(degree, 0.5, 0.5) if degree else Gaussian(arguments.sigma)
    arguments.out.mkdir(parents=True, exist_ok=True)
    print(versions(), vars(arguments), sep="\n", flush=True)
    curve, lists, rows, spent = resume(arguments.out, len(X))
    while len(curve) <= arguments.rounds and spent < 60 * arguments.minutes:
        start = time.perf_counter()
        model = train(arguments, kernel, X, y, rows, lists)
        error = float(np.mean(model.predict(X_test) != y_test))
        fitted = time.perf_counter()
        lists, next_rows, wrong, added = grow(arguments, model, X, y, lists)
        now = time.perf_counter()
        spent += now - start
        curve.append(
            {
                "round": len(curve), "rows": len(rows), "support": len(model.support_),
                "error": error, "seconds": spent, "fit": fitted - start, "search": now - fitted,
                "gap": model.solution_.relative_gap, "status": model.solution_.status.value,
                "robustly wrong of the near": wrong, "added": added,
            }
        )  # fmt: skip
        rows = next_rows
        checkpoint(arguments.out, curve, lists, rows, model)
        print(curve[-1], flush=True)
        if added == 0:
            break
    report(curve)


def resume(folder: Path, n_rows: int):
    """What an earlier run has reached: its curve, lists, rows and seconds; or the start."""
    path = folder / "state.npz"
    if not path.exists():
        return [], np.zeros((n_rows, 1), dtype=np.int64), np.arange(n_rows), 0.0
    with np.load(path) as state:
        curve = json.loads((folder / "curve.json").read_text())["curve"]
        return curve, state["lists"], state["rows"], curve[-1]["seconds"]


def checkpoint(folder: Path, curve, lists, rows, model) -> None:
    """Write all that a later run needs, and the model itself."""
    np.savez(folder / "model.npz", vectors=model.support_vectors_, coefficients=model.dual_coef_)
    np.savez(folder / "partial.npz", lists=lists, rows=rows)
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
    parser.add_argument("--transforms", choices=TRANSFORMS, default="shifts2")
    parser.add_argument("--deskew", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--degree", type=int, default=9, help="0 for a Gaussian kernel")
    parser.add_argument("--sigma", type=float, default=0.45)
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=2e-2)
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--near", type=int, default=20000, help="digits searched in a round")
    parser.add_argument("--keep", type=float, default=1.1, help="margin above which a digit is left out")
    parser.add_argument("--add", type=int, default=2, help="members added to a digit in a round")
    parser.add_argument("--cache-mb", type=float, default=15000.0)
    parser.add_argument("--max-fit", type=float, default=1200.0, help="seconds of a fit")
    parser.add_argument("--minutes", type=float, default=110.0)
    parser.add_argument("--rows", type=int, default=0, help="only the first so many digits")
    parser.add_argument("--validate", action="store_true", help="test on the last 10000 for training")
    return parser.parse_args()


if __name__ == "__main__":
    main()
