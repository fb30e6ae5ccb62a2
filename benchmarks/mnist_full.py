"""Worst-case training of a kernel SVM on all of MNIST, in rounds.

The orbits of 60000 digits are too many to train on, and most variants are far from every border. Round
0 trains on the digits alone. Each later round searches the orbits of the `--near` digits nearest to a
border and of all digits on the list of the round before. It trains on these digits with some of their
variants: those with a dual variable above 0, those of the last list that are still within the margin,
and the `--add` worst of the others if they violate the margin by more than `--epsilon`. At most
`--members` variants are used, those with the largest violations. The protocol is in
`docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from digits import load_mnist
from report import mcnemar, parser_of, table, versions, write_json, write_record
from scipy import ndimage

from structinv.embeddings import PatchOrbits
from structinv.kernels import Gaussian, Kernel, Polynomial
from structinv.oracles import (
    Changes,
    InvarianceOracle,
    Rotations,
    Scalings,
    Shears,
    Shifts,
)
from structinv.solvers import FrankWolfe, Gap, Iterations, Seconds, solve
from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.kernel_tiles import expand
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

ROWS_AT_ONCE = 500
IMAGES_AT_ONCE = 2000
# Patches as they are, their lengths kept, features in five by five cells that overlap.
PATCHES = {
    "patch_size": 7, "n_components": 200, "pool": 5, "window": "gaussian", "contrast": None,
    "whitening": None, "lengths": "kept", "random_state": 0,
}  # fmt: skip
# Errors of virtual support vector machines (DeCoste and Schoelkopf 2002), per cent.
SHIFTS = Shifts([1, 2], directions=8)
OTHERS = Rotations([-8, 8]) | Scalings([0.9, 1.1]) | Shears([-0.1, 0.1])
# By so much a test digit may turn out to have been drawn otherwise.
SMALL = Shifts(1, directions=4) | Rotations([-4, 4]) | Scalings([0.95, 1.05]) | Shears([-0.05, 0.05])
# Each list starts with the variants of the list before.
TRANSFORMS = {
    "shifts": SHIFTS,
    "affine": SHIFTS | OTHERS,
    "composed": SHIFTS | OTHERS | OTHERS @ Shifts(1, directions=4),
}


class Listed(InvarianceOracle):
    """Oracle of listed variants of images, in the features of a kernel.

    Images and lists belong to the rows of a fit, in order: it is of use through `bind` to those only.
    """

    finite = True

    def __init__(self, oracle, images, lists, view):
        self.oracle = oracle
        self.images = images
        self.lists = lists
        self.view = view

    def support(self, X, V, assign, cost=None):
        raise NotImplementedError("Listed is for kernel SVMs")

    def changes(self, X, y=None):
        inner = self.oracle.changes(self.images[: len(X)], y)
        return Looked(X, inner, self.lists[: len(X)], self.view)


class Looked(Changes):
    """Listed variants of images, as features of a view."""

    def __init__(self, X, inner, lists, view):
        super().__init__(X)
        self.inner = inner
        self.lists = lists
        self.view = view

    @property
    def size(self):
        return self.lists.shape[1]

    @property
    def names(self):
        return [f"listed {number}" for number in range(self.size)]

    def points(self, rows, index):
        return self.view(self.inner.points(rows, self.lists[rows, index]))

    def members(self, rows=slice(None), numbers=None):
        # Features of the same image in another batch would differ by rounding.
        members = [self.X[rows]]
        members += [self.view(self.inner.points(rows, column)) for column in self.lists[rows].T[1:]]
        table = np.stack(members, axis=1)
        return table if numbers is None else table[:, numbers]


def deskewed(X):
    """Shear every digit along its rows until its second moments are upright."""
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


class View:
    """Features of images: pixels, or pooled patch features of unit length."""

    def __init__(self, patches, images):
        self.features = PatchOrbits(**PATCHES).fit(images) if patches else None

    def __call__(self, images):
        if self.features is None:
            return images
        shape = len(images), PATCHES["n_components"] * PATCHES["pool"] ** 2
        rows = np.empty(shape, dtype=images.dtype)
        for first in range(0, len(images), IMAGES_AT_ONCE):
            some = self.features.transform(images[first : first + IMAGES_AT_ONCE])
            rows[first : first + IMAGES_AT_ONCE] = some / np.linalg.norm(some, axis=1, keepdims=True)
        return rows


def kernel_of(arguments) -> Kernel:
    degree = arguments.degree
    return Polynomial(degree, 0.5, 0.5) if degree else Gaussian(arguments.sigma)


def margins(scores, y):
    """By how much the true class beats all others; `scores` is (..., n_classes)."""
    own = np.take_along_axis(scores, y.reshape(-1, *([1] * (scores.ndim - 1))), axis=-1)
    rest = scores.copy()
    np.put_along_axis(rest, np.broadcast_to(
        y.reshape(-1, *([1] * (scores.ndim - 1))), own.shape), -np.inf, axis=-1)  # fmt: skip
    return own[..., 0] - rest.max(axis=-1)


@dataclass
class Machine:
    """A trained model: the features of images, and its kernel expansion.

    `carriers` names the support vectors: the digit, and the number of the member in its orbit.
    """

    kernel: Kernel
    view: View
    vectors: np.ndarray
    coefficients: np.ndarray
    carriers: np.ndarray

    def scores(self, images):
        scores = np.empty((len(images), self.coefficients.shape[1]))
        for first in range(0, len(images), IMAGES_AT_ONCE):
            some = self.view(images[first : first + IMAGES_AT_ONCE])
            found = expand(self.kernel, some, self.vectors, self.coefficients)
            scores[first : first + IMAGES_AT_ONCE] = found
        return scores


def train(arguments, kernel: Kernel, view: View, X, y, listed, seconds: float):
    """Train on the variants that `listed` marks, (n_rows, n_members).

    Rows without a member are left out. Lists that are shorter than others are filled up with the digit
    itself. A fit of more than `seconds` is cut off.
    """
    rows = np.flatnonzero(listed.any(axis=1))
    length = int(listed.sum(axis=1).max())
    lists = np.argsort(~listed[rows], axis=1, kind="stable")[:, :length]
    lists[~np.take_along_axis(listed[rows], lists, axis=1)] = 0
    oracle = Listed(TRANSFORMS[arguments.transforms[-1]], X[rows], lists, view)
    seen = view(X[rows])
    space = KernelSpace(kernel, seen.shape[1], 10, cache_mb=arguments.cache_mb)
    term = WorstCase(seen, y[rows], oracle, Multiclass(), arguments.C)
    # The first model selects the digits, so it must be accurate.
    solver = FrankWolfe(arguments.epsilon if length > 1 else 0.0)
    stop = Gap(arguments.tol) | Iterations(arguments.passes) | Seconds(max(seconds, 1.0))
    solution = solve(
        Objective(space, [term]), solver, stop, callbacks=[say], random_state=arguments.seed
    )  # fmt: skip
    used = solution.f.support()
    own, places = space.atoms.origins[used].T
    carriers = np.column_stack([rows[own], lists[own, places]])
    # The solution holds on to the kernel's table, which the next round has no room beside.
    points, coefficients = space.atoms.points(used), solution.f.coefficients[used]
    machine = Machine(kernel, view, points, coefficients, carriers)
    return machine, {"gap": solution.relative_gap, "status": solution.status.value}


def say(progress) -> None:
    """A line for every check of a fit."""
    if progress.checked:
        last = progress.history[-1]
        print(
            f"pass {last.iteration:4d} {last.seconds:7.1f} s  primal {last.primal:.6g}  "
            f"dual {last.dual:.6g}", flush=True,
        )  # fmt: skip


def grow(arguments, number, machine, X, y, before):
    """Return the next variants to train on, and the number of orbits with an error."""
    add, transforms = (
        given[min(number, len(given)) - 1] for given in (arguments.add, arguments.transforms)
    )
    bound = TRANSFORMS[transforms].bind(X, y)
    size = len(bound.changes().names)
    # Round 0 trained on every digit, so its list says nothing about which to look at.
    before = before[:, :0] if number == 1 else before
    before = np.pad(before, ((0, 0), (0, size - before.shape[1])))
    carried = np.zeros((len(X), size), dtype=bool)
    carried[tuple(machine.carriers.T)] = True
    near = np.argsort(margins(machine.scores(X), y))[: arguments.near]
    looked = np.union1d(near, np.flatnonzero(np.any(before | carried, axis=1)))
    found = np.full((len(X), size), np.inf)
    # A composition lists some variants twice.
    _, once = np.unique(bound.changes().members(slice(0, 1))[0], axis=0, return_index=True)
    for first in range(0, len(looked), ROWS_AT_ONCE):
        rows = looked[first : first + ROWS_AT_ONCE]
        members = bound.changes().members(rows)[:, once].reshape(-1, X.shape[1])
        found[np.ix_(rows, once)] = margins(machine.scores(members).reshape(len(rows), -1, 10), y[rows])
    wrong = int(np.count_nonzero(found.min(axis=1) < 0.0))
    kept = before & (found < 1.0)
    others = np.where(carried | kept, np.inf, found)
    worst = np.sort(others, axis=1)[:, add - 1, None]
    new = (others <= worst) & (others < 1.0 - arguments.epsilon)
    # The digit itself is in any list.
    listed = carried.copy()
    listed[looked, 0] = True
    optional = (kept | new) & ~listed
    room = max(arguments.members - np.count_nonzero(listed), 0)
    ranks = np.argsort(np.where(optional, found, np.inf), axis=None)[:room]
    listed.ravel()[ranks] |= optional.ravel()[ranks]
    return listed, wrong


def main() -> None:
    arguments = options()
    (X, y), (X_test, y_test) = (load_mnist(arguments.data, part) for part in ("train", "t10k"))
    if arguments.rows:
        X, y = X[: arguments.rows], y[: arguments.rows]
    if arguments.validate:
        X, X_test, y, y_test = X[:-10000], X[-10000:], y[:-10000], y[-10000:]
    if arguments.vote:
        vote(arguments, X, X_test, y_test)
        return
    X, X_test = prepared(X, arguments), prepared(X_test, arguments)
    kernel = kernel_of(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    print(versions(), vars(arguments), sep="\n", flush=True)
    view = View(arguments.patches, X)
    curve, listed, machine = resume(arguments.out, kernel, view, len(X))
    spent = curve[-1]["seconds"] if curve else 0.0
    while len(curve) <= arguments.rounds and spent < 60 * arguments.minutes:
        start = time.perf_counter()
        found = {}
        if machine is not None:
            listed, wrong = grow(arguments, len(curve), machine, X, y, listed)
            found = {"orbits not all right before": wrong}
        searched = time.perf_counter()
        left = 60 * arguments.minutes - spent - (searched - start)
        machine, ended = train(arguments, kernel, view, X, y, listed, left)
        now = time.perf_counter()
        spent += now - start
        error = float(np.mean(np.argmax(machine.scores(X_test), axis=1) != y_test))
        curve.append(
            {
                "round": len(curve), "rows": int(np.count_nonzero(listed.any(axis=1))),
                "members": int(np.count_nonzero(listed)), "support": len(machine.vectors),
                "error": error, "seconds": spent, "search": searched - start, "fit": now - searched,
                **ended, **found,
            }
        )  # fmt: skip
        checkpoint(arguments, curve, listed, machine)
        print(curve[-1], flush=True)
    report(curve)
    write_record(arguments.record, "MNIST, 60000 digits for training, 10000 for testing")


def resume(folder: Path, kernel: Kernel, view: View, n_rows: int):
    """Return curve, list and model of an earlier run, or those of the start."""
    if not (folder / "state.npz").exists():
        return [], np.ones((n_rows, 1), dtype=bool), None
    with np.load(folder / "state.npz") as state:
        parts = (state["vectors"], state["coefficients"], state["carriers"])
        machine = Machine(kernel, view, *parts)
        return json.loads((folder / "curve.json").read_text())["curve"], state["listed"], machine


def checkpoint(arguments, curve, listed, machine) -> None:
    """Write all that a later run needs."""
    folder = arguments.out
    np.savez(
        folder / "partial.npz", listed=listed, vectors=machine.vectors,
        coefficients=machine.coefficients, carriers=machine.carriers,
    )  # fmt: skip
    content = {"versions": versions(), "settings": vars(arguments), "curve": curve}
    write_json(folder / "curve.json", content)
    (folder / "partial.npz").replace(folder / "state.npz")


def vote(arguments, X, X_test, y_test) -> None:
    """Print errors of each model, of its mean over variants, and of the sum of means."""
    wrong, total = {}, 0.0
    for folder in arguments.vote:
        settings = json.loads((folder / "curve.json").read_text())["settings"]
        given = argparse.Namespace(**{**vars(arguments), **settings})
        view = View(given.patches, prepared(X, given))
        _, _, machine = resume(folder, kernel_of(given), view, 0)
        orbit = SMALL.orbit(prepared(X_test, given))
        scores = np.stack([machine.scores(np.ascontiguousarray(one)) for one in orbit.swapaxes(0, 1)])
        wrong[folder.name] = scores[0].argmax(axis=1) != y_test
        wrong[f"{folder.name}, mean of {len(scores)}"] = scores.mean(axis=0).argmax(axis=1) != y_test
        total = total + scores.mean(axis=0)
    wrong["sum of the means"] = total.argmax(axis=1) != y_test
    last = wrong["sum of the means"]
    rows = []
    for name, each in wrong.items():
        worse, better = np.count_nonzero(each & ~last), np.count_nonzero(last & ~each)
        p = mcnemar(int(worse), int(better))
        rows.append([name, f"{100 * each.mean():.2f}", worse, better, f"{p:.2g}"])
    headers = ["model", "error, %", "wrong by this alone", "wrong by the sum alone", "p, McNemar"]
    title = "Test error of models, of their means over 13 variants, and of the sum of these means"
    print(table(title, headers, rows, key="votes"))


def report(curve) -> None:
    headers = [
        "round", "rows", "variants", "support vectors", "error, %", "gap", "search, s", "fit, s",
        "minutes",
    ]  # fmt: skip
    rows = [
        [
            each["round"], each["rows"], each["members"], each["support"], f"{100 * each['error']:.2f}",
            f"{each['gap']:.3f}", f"{each['search']:.0f}", f"{each['fit']:.0f}",
            f"{each['seconds'] / 60:.1f}",
        ]
        for each in curve
    ]  # fmt: skip
    print(table("All of MNIST: test error by round", headers, rows, key="rounds"))


def options() -> argparse.Namespace:
    parser = parser_of(__doc__, data="mnist/")
    parser.add_argument("--out", type=Path, default=Path("mnist_full"))
    parser.add_argument(
        "--transforms", choices=TRANSFORMS, nargs="+", default=["affine"] * 6 + ["composed"],
        help="by round; later ones may only be larger",
    )  # fmt: skip
    parser.add_argument("--deskew", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--blur", type=float, default=0.0, help="pixels, of a Gaussian")
    parser.add_argument("--patches", action="store_true", help="features of patches, not pixels")
    parser.add_argument("--degree", type=int, default=9, help="0 for a Gaussian kernel")
    parser.add_argument("--sigma", type=float, default=0.45)
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=2e-2)
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--near", type=int, default=16000, help="number of digits with a searched orbit")
    parser.add_argument(
        "--add",
        type=int,
        nargs="+",
        default=[8],
        help="maximum number of new variants per digit, by round",
    )
    parser.add_argument(
        "--members", type=int, default=110_000, help="maximum number of variants to train on"
    )
    parser.add_argument("--cache-mb", type=float, default=15000.0)
    parser.add_argument("--passes", type=int, default=100, help="most passes of a fit")
    parser.add_argument(
        "--minutes", type=float, default=85.0, help="begin no round later, and cut off the last fit"
    )
    parser.add_argument("--seed", type=int, default=0, help="for the order of rows in a fit")
    parser.add_argument("--rows", type=int, default=0, help="only the first so many digits")
    parser.add_argument(
        "--vote", type=Path, nargs="+", metavar="OUT", help="sum the models of these runs"
    )
    parser.add_argument("--validate", action="store_true", help="test on the last 10000 for training")
    return parser.parse_args()


if __name__ == "__main__":
    main()
