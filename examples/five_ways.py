"""Comparison of eight models for one invariance of digits.

Digits are shifted by one pixel in four directions or rotated by 10 degrees. All models have a Gaussian
kernel and C = 10. Three folds of the 150 training digits select the length scale, and the weight nu of
the smoothness penalty.

"Support" is the number of terms of the kernel expansion. "Robust" is the fraction of digits that are
correct under all transformations, by enumeration. "Certified" is the certified accuracy, if the model
has certificates. Both agree for a finite list of transformations.
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


def models(changes):
    """Return models and their parameter grids, by name."""
    kernel, settings = Gaussian(), {"C": 10.0, "tol": 1e-2, "random_state": 0}
    set_kernel = SetKernel(changes, kernel, spectrum="clip")
    inner = {"kernel__kernel__sigma": SIGMAS}
    outer = {"kernel__sigma": SIGMAS}
    tangents, differences = (
        RepresenterClassifier(kernel, invariances=[family(changes)], loss="hinge", **settings)
        for family in (Tangents, TransformDifference)
    )
    weights = {"nu": [1.0, 10.0]}
    return {
        "SVC": (SVC(kernel=kernel, C=10.0), outer),
        "InvariantSVC": (InvariantSVC(changes, kernel=kernel, **settings), outer),
        "Tangents": (tangents, outer | weights),
        "TransformDifference": (differences, outer | weights),
        "OrbitMean": (InvariantSVC(kernel=OrbitMean(changes, kernel), **settings), inner),
        "SetKernel": (InvariantSVC(kernel=set_kernel, **settings), inner),
        "VirtualSVC": (VirtualSVC(changes, kernel=kernel, C=10.0), outer),
        "VirtualSupportVectorSVC": (VirtualSupportVectorSVC(changes, kernel=kernel, C=10.0), outer),
    }


def terms(model):
    """Return the number of terms of the kernel expansion."""
    has_alpha = isinstance(model, RepresenterClassifier)
    return model.alpha_.shape[1] if has_alpha else len(model.support_)


def robust_accuracy(model, changes, X, y):
    """Return the accuracy under all transformations, by enumeration."""
    members = changes.orbit(X)
    predicted = model.predict(members.reshape(-1, X.shape[1])).reshape(members.shape[:2])
    return np.mean(np.all(predicted == y[:, None], axis=1))


def main():
    """Train eight models and print the comparison."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    changes = Shifts(1, directions=4) | Rotations(degrees=[-10, 10])
    train, test, few = slice(0, 150), slice(800, 1797), slice(800, 1000)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    print(f"{'':<25}{'error':>6}{'seconds':>9}{'support':>9}{'robust':>13}{'certified':>11}")
    for name, (model, grid) in models(changes).items():
        search = GridSearchCV(model, grid, cv=folds, refit=False, error_score="raise")
        model.set_params(**search.fit(X[train], y[train]).best_params_)
        start = time.perf_counter()
        model.fit(X[train], y[train])
        seconds = time.perf_counter() - start
        error = 1 - model.score(X[test], y[test])
        robust = robust_accuracy(model, changes, X[few], y[few])
        certified = "none"
        if isinstance(model, InvariantSVC):
            certified = f"{model.certify(X[few], y[few], oracle=changes).accuracy:.1%}"
        line = f"{name:<25}{error:>6.1%}{seconds:>9.2f}{terms(model):>9}{robust:>13.1%}{certified:>11}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
