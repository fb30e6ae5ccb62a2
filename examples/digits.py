"""Kernel SVMs on shifted and rotated digits: comparison of four methods.

The data are scikit-learn's 8 x 8 digits. `--data FOLDER` reads the four IDX files of MNIST instead.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from structinv import InvariantSVC, VirtualSupportVectorSVC, VirtualSVC
from structinv.datasets import read_idx
from structinv.inspection import SupportTransformsDisplay, WorstCasesDisplay, name_changes
from structinv.oracles import Rotations, Shifts, teo2007_transforms


def embedded_digits(rng):
    """Return training and test samples, the oracle and gamma of the kernel."""
    X, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    X, y = X[order] / 16, y[order]
    oracle = Shifts(1) | Rotations(degrees=[-10, 10])
    return X[1000:], y[1000:], X[:1000], y[:1000], oracle, 0.2


def mnist_digits(folder):
    """Return the samples of MNIST with 1000 test samples, the oracle and gamma."""
    X, X_test = (read_idx(folder / f"{part}-images-idx3-ubyte.gz") for part in ("train", "t10k"))
    y, y_test = (read_idx(folder / f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k"))
    X, X_test = X.reshape(-1, 784) / 255, X_test[:1000].reshape(-1, 784) / 255
    return X, y, X_test, y_test[:1000], teo2007_transforms(), 0.025


def attacked_accuracy(model, oracle, X, y):
    """Return the accuracy under all transformations, by enumeration."""
    variants = oracle.orbit(X)
    predicted = model.predict(variants.reshape(-1, X.shape[1])).reshape(variants.shape[:2])
    return np.mean(np.all(predicted == y[:, None], axis=1))


def main():
    """Train and compare; draw pictures if a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the four .gz files of MNIST")
    parser.add_argument("--per-class", type=int, default=10, help="number of training digits per class")
    parser.add_argument("--plots", type=Path, help="output folder for two pictures")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    loaded = embedded_digits(rng) if options.data is None else mnist_digits(options.data)
    X, y, X_test, y_test, oracle, gamma = loaded
    rows = [rng.permutation(np.flatnonzero(y == k))[: options.per_class] for k in range(10)]
    X, y = X[np.concatenate(rows)], y[np.concatenate(rows)]

    settings = {"gamma": gamma, "C": 10.0}
    InvariantSVC(oracle, **settings).fit(X[::5], y[::5])  # compile before the time is measured
    print(f"{'':<24}{'error':>7}{'support vectors':>17}{'seconds':>9}{'gap':>9}{'attacked acc.':>15}")
    for name, model in [
        ("SVC", SVC(**settings)),
        ("VirtualSVC", VirtualSVC(oracle, **settings)),
        ("VirtualSupportVectorSVC", VirtualSupportVectorSVC(oracle, **settings)),
        ("InvariantSVC", InvariantSVC(oracle, tol=1e-2, random_state=0, **settings)),
    ]:
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        gap = f"{model.solution_.relative_gap:.0e}" if name == "InvariantSVC" else ""
        print(
            f"{name:<24}{1 - model.score(X_test, y_test):>7.1%}{len(model.support_):>17}{seconds:>9.2f}"
            f"{gap:>9}{attacked_accuracy(model, oracle, X_test, y_test):>15.1%}"
        )
    print(f"certified accuracy of InvariantSVC: {model.certify(X_test, y_test).accuracy:.1%}")

    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        worst = model.worst_case(X_test[:10], y_test[:10])
        names = name_changes(oracle, X_test[:10], worst)
        display = WorstCasesDisplay.from_estimator(model, X_test[:10], y_test[:10], titles=names)
        display.figure_.savefig(options.plots / "worst_cases.png")
        order = oracle.bind(X, y).changes().names
        display = SupportTransformsDisplay.from_estimator(model, y, order=order)
        display.figure_.savefig(options.plots / "transforms.png")


if __name__ == "__main__":
    main()
