"""Invariant kernels for rotated digits and for unordered sets of points.

The first part combines an invariant kernel with worst-case training for shifts. The second part is
kernel ridge regression that is invariant to permutations.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from structinv import InvariantSVC, OrbitRidge
from structinv.kernels import Gaussian, OrbitMean
from structinv.model_selection import select_widths
from structinv.oracles import Permutations, Rotations, Shifts


def digits() -> None:
    """Select the distribution of rotations, and compare three models."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    train, test = slice(0, 200), slice(200, 1000)
    rotations = Rotations(interval=(-30, 30), distribution="normal", spread=10)
    grid = {"spread": [5, 10, 20]}
    selection = select_widths(rotations, X[train], y[train], grid, kernel=Gaussian(1.5), n_draws=8)
    print(selection)
    kernel = OrbitMean(rotations, Gaussian(1.5), n_draws=8)
    plain = SVC(C=10, kernel=Gaussian(1.5)).fit(X[train], y[train])
    mean = SVC(C=10, kernel=kernel).fit(X[train], y[train])
    both = InvariantSVC(Shifts(1), kernel=kernel, C=10, tol=1e-2).fit(X[train], y[train])
    for name, model in (
        ("SVC", plain),
        ("OrbitMean of rotations", mean),
        ("OrbitMean of rotations, worst-case shifts", both),
    ):
        print(f"{name}: {model.score(X[test], y[test]):.3f} accuracy")
    certified = both.certify(X[test], y[test]).accuracy
    print(f"certified accuracy for shifts: {certified:.3f}")


def point_sets() -> None:
    """Predict the diameter of five unordered points."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((300, 5, 2))
    diameters = np.linalg.norm(points[:, :, None] - points[:, None], axis=3).max(axis=(1, 2))
    X, train, test = points.reshape(300, -1), slice(0, 200), slice(200, 300)
    for name, kernel in (
        ("Gaussian", Gaussian(2.0)),
        ("OrbitMean of permutations", OrbitMean(Permutations((5, 2)), Gaussian(2.0))),
    ):
        model = OrbitRidge(kernel).fit(X[train], diameters[train])
        error = np.sqrt(np.mean((model.predict(X[test]) - diameters[test]) ** 2))
        print(f"{name}: RMSE {error:.2f}, leave-one-out {np.sqrt(-model.best_score_):.2f}")


if __name__ == "__main__":
    digits()
    point_sets()
