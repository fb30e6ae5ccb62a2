"""One invariance of the same digits, used in five ways: error, seconds, support vectors, certificate.

Digits may shift by one pixel in four directions or turn by 10 degrees. All machines have a Gaussian
kernel and C = 10; its width, and the weight of flatness, are chosen by three folds of the 150 training
digits. Support vectors of changed digits are counted one by one, as are the values and tangents of which
the flat function is made.

"All changes" is the share of digits whose label no change turns, found by trying all of them.
"Certified" is what the model itself proves of that, or none where it cannot: for a list the two agree,
as they do here; between two limits there are more changes than can be tried.
"""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from structinv import (
    InvariantSVC,
    RepresenterClassifier,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.functionals import Tangents, TransformDifference
from structinv.kernels import Gaussian, OrbitMean, SetKernel
from structinv.oracles import Rotations, Shifts

SIGMAS = [1.0, 1.6, 2.4]


def machines(changes):
    """By name: what is trained, and where its parameters are."""
    kernel, settings = Gaussian(), {"C": 10.0, "tol": 1e-2, "random_state": 0}
    sets = SetKernel(changes, kernel, spectrum="clip")
    inner = {"kernel__kernel__sigma": SIGMAS}
    outer = {"kernel__sigma": SIGMAS}
    flat, equal = (
        RepresenterClassifier(kernel, invariances=[family(changes)], loss="hinge", **settings)
        for family in (Tangents, TransformDifference)
    )
    weights = {"nu": [1.0, 10.0]}
    return {
        "plain": (SVC(kernel=kernel, C=10.0), outer),
        "worst case": (InvariantSVC(changes, kernel=kernel, **settings), outer),
        "flat along tangents": (flat, outer | weights),
        "flat between members": (equal, outer | weights),
        "orbit kernel": (InvariantSVC(kernel=OrbitMean(changes, kernel), **settings), inner),
        "object kernel": (InvariantSVC(kernel=sets, **settings), inner),
        "virtual samples": (VirtualSVC(changes, kernel=kernel, C=10.0), outer),
        "virtual support vectors": (VirtualSupportVectorSVC(changes, kernel=kernel, C=10.0), outer),
    }


def terms(model):
    """Of how many functions of the kernel the model is a sum."""
    flat = isinstance(model, RepresenterClassifier)
    return model.alpha_.shape[1] if flat else len(model.support_)


def whatever_changes(model, changes, X, y):
    """Share of rows that are right after each change."""
    members = changes.orbit(X)
    guesses = model.predict(members.reshape(-1, X.shape[1])).reshape(members.shape[:2])
    return np.mean(np.all(guesses == y[:, None], axis=1))


def main():
    """Train eight machines and print what they are good for."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    changes = Shifts(1, directions=4) | Rotations(degrees=[-10, 10])
    train, test, few = slice(0, 150), slice(800, 1797), slice(800, 1000)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    print(f"{'':<25}{'error':>6}{'seconds':>9}{'support':>9}{'all changes':>13}{'certified':>11}")
    for name, (model, grid) in machines(changes).items():
        search = GridSearchCV(model, grid, cv=folds, refit=False, error_score="raise")
        model.set_params(**search.fit(X[train], y[train]).best_params_)
        start = time.perf_counter()
        model.fit(X[train], y[train])
        seconds = time.perf_counter() - start
        error = 1 - model.score(X[test], y[test])
        robust = whatever_changes(model, changes, X[few], y[few])
        certified = "none"
        if isinstance(model, InvariantSVC):
            certified = f"{model.certify(X[few], y[few], oracle=changes).accuracy:.1%}"
        line = f"{name:<25}{error:>6.1%}{seconds:>9.2f}{terms(model):>9}{robust:>13.1%}{certified:>11}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
