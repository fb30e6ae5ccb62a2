"""One small problem for each public estimator, for the contracts that all of them keep."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantSVR,
    InvariantTextClassifier,
    LapSVC,
    OrbitRidge,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.embeddings import GroupCDF, OrbitFourier, OrbitNystroem, PatchOrbits
from structinv.estimators import CustomStructuredSVC
from structinv.functionals import Gradient
from structinv.oracles import Box, Budget, FDrop, Shifts
from structinv.structures import Custom, Sequence

N, D = 10, 4


@dataclass(frozen=True)
class Case:
    """An estimator and what it is fitted to."""

    name: str
    estimator: BaseEstimator
    X: Any
    y: Any


def rows(seed=0):
    """Ten rows of two classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 2
    return rng.standard_normal((N, D)) + 2.0 * (np.arange(D) % 2 == y[:, None]), np.array(["a", "b"])[y]


def images(seed=0):
    """Ten images with a bright half, left or right."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 2
    bright = np.arange(6)[None, None, :] // 3 == y[:, None, None]
    return (rng.random((N, 6, 6)) + bright).reshape(N, 36), y


def texts():
    """Ten mails."""
    spam = ["free money now", "money for you", "win free cash", "cash now", "free cash for you"]
    ham = ["see you at lunch", "lunch at noon", "the report at noon", "you see the report", "lunch now"]
    return [*spam, *ham], ["spam"] * 5 + ["ham"] * 5


def sentences():
    """Ten sentences of tokens with named features, and their tags."""
    tags = {"the": "D", "a": "D", "dog": "N", "cat": "N", "sees": "V", "bites": "V"}
    lines = [
        "the dog sees a cat", "a cat bites", "the cat sees", "a dog bites the cat", "dog sees cat",
        "the dog bites", "a cat sees a dog", "cat bites dog", "the cat", "a dog sees",
    ]  # fmt: skip
    X = [[{"word": w, "last": w[-1], "long": len(w) > 3} for w in line.split()] for line in lines]
    return X, [[tags[word] for word in line.split()] for line in lines]


def joint_feature(x, y):
    """Features of the item that is picked from a list."""
    return np.asarray(x[y], dtype=float)


def cost(y, y2):
    """One for the wrong item."""
    return float(y != y2)


def argmax(x, w, y=None):
    """The best item, or the most violated one."""
    scores = np.array(x) @ w
    return int(np.argmax(scores if y is None else scores + (np.arange(len(x)) != y)))


def lists():
    """Lists, and the item picked from each."""
    X = [[(1, 0), (0, 1)], [(0, 2), (3, 0), (1, 1)]] * 5
    return X, [0, 1] * 5


def half_known():
    """Rows of which half have no label."""
    X, y = images()
    return X, np.where(np.arange(N) < 6, y, -1)


SHIFTS = Shifts(1, shape=(6, 6))
TARGETS = rows()[0][:, 0] + 3.0

PREDICTORS = [
    Case("linear", InvariantLinearSVC(Box(0.1), random_state=0), *rows()),
    Case("linear regression", InvariantLinearSVR(Box(0.1), random_state=0), rows()[0], TARGETS),
    Case("text", InvariantTextClassifier("drop", 1, random_state=0), *texts()),
    Case(
        "tagger",
        InvariantStructuredSVC(Sequence(), oracle=Budget(FDrop(1)), C=0.1, random_state=0),
        *sentences(),
    ),
    Case("custom", CustomStructuredSVC(Custom(joint_feature, cost, argmax), random_state=0), *lists()),
    Case("kernel", InvariantSVC(SHIFTS, random_state=0), *images()),
    Case("kernel regression", InvariantSVR(SHIFTS, random_state=0), images()[0], TARGETS),
    Case("laplacian", LapSVC(n_neighbors=3), *half_known()),
    Case("ridge", OrbitRidge(), rows()[0], TARGETS),
    Case("representers", RepresenterClassifier(invariances=[Gradient()]), *rows()),
    Case("representer regression", RepresenterRegressor(invariances=[Gradient()]), rows()[0], TARGETS),
    Case("virtual", VirtualSVC(SHIFTS), *images()),
    Case("virtual support vectors", VirtualSupportVectorSVC(SHIFTS), *images()),
]

TRANSFORMERS = [
    Case("fourier", OrbitFourier(SHIFTS, n_components=8, random_state=0), *images()),
    Case("nystroem", OrbitNystroem(SHIFTS, n_components=5, random_state=0), *images()),
    Case("distributions", GroupCDF(Shifts(1, shape=(6, 6), fill="wrap"), n_components=4), *images()),
    Case("patches", PatchOrbits(patch_size=3, n_components=2, pool=1, shape=(6, 6)), *images()),
]

CASE = {case.name: case for case in [*PREDICTORS, *TRANSFORMERS]}
