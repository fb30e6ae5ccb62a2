"""One invariance of the same digits, used in five ways: error, seconds, support vectors, certificate.

Digits may shift by one pixel in four directions or turn by up to 10 degrees. All machines have the
Gaussian kernel of one width; C and the weight of flatness were chosen on other digits. "Certified" is the
share of test digits whose label provably no change of the list turns; "attacked" is the share that
is right for every change, found by trying them all, which every machine has and only some can tell.
"""

import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from structinv import (
    InvariantSVC,
    RepresenterClassifier,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.exceptions import UninformativeFitWarning
from structinv.functionals import Tangents
from structinv.kernels import Gaussian, OrbitMean, SetKernel
from structinv.oracles import Rotations, Shifts

SIGMA, C = 1.6, 10.0


def machines(changes):
    """Name, what is trained, and whether `certify` certifies against these changes."""
    kernel = Gaussian(SIGMA)
    mean, sets = OrbitMean(changes, kernel), SetKernel(changes, kernel, spectrum="clip")
    flat = RepresenterClassifier(kernel, invariances=[Tangents(changes)], nu=0.1, C=C, tol=1e-2)
    return [
        ("plain", SVC(kernel=kernel, C=C)),
        ("worst case", InvariantSVC(changes, kernel=kernel, C=C, tol=1e-2, random_state=0)),
        ("flat function", flat),
        ("orbit kernel", InvariantSVC(kernel=mean, C=C, tol=1e-2, random_state=0)),
        ("object kernel", InvariantSVC(kernel=sets, C=C, tol=1e-2, random_state=0)),
        ("virtual samples", VirtualSVC(changes, kernel=kernel, C=C)),
        ("virtual support vectors", VirtualSupportVectorSVC(changes, kernel=kernel, C=C)),
        ("worst case, orbit kernel", InvariantSVC(changes, kernel=mean, C=C, tol=1e-2, random_state=0)),
    ]


def attacked(model, changes, X, y):
    """Share of rows that are right whatever changes."""
    members = changes.orbit(X)
    guesses = model.predict(members.reshape(-1, X.shape[1])).reshape(members.shape[:2])
    return np.mean(np.all(guesses == y[:, None], axis=1))


def main():
    """Train eight machines and print what they are good for."""
    warnings.simplefilter("ignore", UninformativeFitWarning)
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    rows, few, asked = slice(0, 150), slice(0, 40), slice(800, 1797)
    changes = Shifts(1, directions=4) | Rotations(degrees=(-10, 10))
    print(f"{'':<26}{'error':>7}{'seconds':>9}{'support':>9}{'attacked':>10}{'certified':>11}")
    for name, model in machines(changes):
        model.fit(X[few], y[few])  # compiles, and is forgotten
        start = time.perf_counter()
        model.fit(X[rows], y[rows])
        seconds = time.perf_counter() - start
        support = len(model.support_) if hasattr(model, "support_") else len(y[rows])
        error = 1 - model.score(X[asked], y[asked])
        robust = attacked(model, changes, X[asked][:200], y[asked][:200])
        print(f"{name:<26}{error:>7.1%}{seconds:>9.2f}{support:>9}{robust:>10.1%}", flush=True)


if __name__ == "__main__":
    main()
