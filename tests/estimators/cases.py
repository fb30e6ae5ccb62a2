"""One small problem for each public estimator, for the contracts that all of them keep."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

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
from structinv.functionals import Evaluation, Gradient
from structinv.functionals.representers import Representers
from structinv.oracles import Box, Budget, FDrop, FiniteOracle, Shifts
from structinv.solvers import Status
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


@cache
def fitted(name):
    """The estimator of a case after its fit, which no test changes."""
    case = CASE[name]
    return clone(case.estimator).fit(case.X, case.y)


def learned(model):
    """The names of what a fit has left."""
    return [name for name in vars(model) if name.endswith("_") and not name.startswith("__")]


def check_refused(model, error, message, *data):
    """A fit raises an error before it has learned anything."""
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        model.fit(*data)
    assert learned(model) == []
    with pytest.raises(NotFittedError):
        model.predict(data[0])


def mails(n=60, d=12, n_classes=2, seed=0):
    """Counts of words, some of which lean to a class, and labels as strings."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    rates = rng.gamma(1.0, 1.0, (n_classes, d))
    X = rng.poisson(0.8 * rates[codes]).astype(float)
    return X, np.array(["ham", "spam", "news", "work"])[codes]


SPAM, HAM = ["free", "money", "now", "prize", "click"], ["lunch", "see", "you", "at", "office"]


def written_mails(n=60, seed=0, length=12):
    """Texts of which each class has words of its own, in sentences with signs and capitals."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for i in range(n):
        own = (SPAM, HAM)[i % 2]
        tokens = [str(rng.choice(own if rng.random() < 0.6 else SPAM + HAM + ["the", "of"]))
                  for _ in range(rng.integers(2, length))]  # fmt: skip
        signs = rng.choice([" ", ", ", "! ", " a ", "\n"], size=len(tokens))
        texts.append("".join(t.capitalize() + s for t, s in zip(tokens, signs, strict=True)))
        labels.append(("spam", "ham")[i % 2])
    return texts, np.array(labels)


TEXTS, TEXT_LABELS = written_mails()
FEW_TEXTS = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"] * 5
FEW_LABELS = ["spam", "spam", "ham", "ham"] * 5


class Reversal(FiniteOracle):
    """A signal read backward keeps its label."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


# Small images, whose shifts come back on the other side.
SHAPE = (3, 3)
WRAPPED = Shifts(1, shape=SHAPE, fill="wrap")


def orbit_optimum(function, y, orbit, weight):
    """The least objective over all f in the span of the orbits, and f at all members."""
    import cvxpy as cp

    from ..kernel_problems import over_members

    classes, codes = np.unique(y, return_inverse=True)
    n_outputs = 1 if len(classes) == 2 else len(classes)

    def loss(i, mine):
        if n_outputs == 1:
            gains = [(1.0 if codes[i] == 0 else -1.0) * mine[:, 0]]
        else:
            gains = [mine[:, k] - mine[:, codes[i]] for k in range(n_outputs) if k != codes[i]]
        return weight * cp.maximum(0.0, *(cp.max(1.0 + gain) for gain in gains))

    return over_members(function, orbit, n_outputs, loss)


def data(n=24, d=2, n_classes=2, n_unlabeled=6, seed=0):
    """Rows in the plane, and labels from 0; the last rows have none."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    codes = np.arange(n) % n_classes
    X[:, 0] += codes - 0.5 * (n_classes - 1)
    y = np.where(np.arange(n) < n - n_unlabeled, codes, -1)
    return X, y


def targets(n=24, seed=0):
    """Rows in the plane with noisy targets."""
    X, _ = data(n, n_unlabeled=0, seed=seed)
    return X, np.sin(2 * X[:, 0]) + 0.2 * np.random.default_rng(seed + 1).standard_normal(n)


def converged(model):
    """The model, once it is seen to have ended at its gap."""
    solution = model.solution_
    assert solution.status is Status.CONVERGED
    assert solution.dual <= solution.primal * (1 + 1e-7) + 1e-12
    assert solution.relative_gap <= model.tol
    return model


def gram(kernel, X, labeled, families):
    """The Gram matrix of labeled evaluations and families, written out; the sizes of all."""
    bound = [Evaluation(labeled).bind(X), *(family.bind(X) for family in families)]
    representers = Representers(kernel, [each.parts(kernel) for each in bound])
    return representers.gram(), [rows.stop - rows.start for rows in representers.slices]


def root_of(G):
    values, vectors = np.linalg.eigh(G)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def representer_optimum(G, sizes, y, loss, invariance_losses, C, nu, bias):
    """The least value of the objective with labels -1 and +1, or targets; and f at labeled rows."""
    import cvxpy as cp

    margin = {
        "logistic": lambda t: cp.logistic(-t),
        "hinge": lambda t: cp.pos(1 - t),
        "squared_hinge": lambda t: cp.square(cp.pos(1 - t)),
    }
    deviation = {
        "squared": cp.square,
        "absolute": cp.abs,
        "epsilon_insensitive": lambda u: cp.pos(cp.abs(u) - 0.1),
        "huber": lambda u: cp.huber(u, 1.0),
    }
    root, edges = root_of(G), np.cumsum([0, *sizes])
    z = cp.Variable(len(G))
    b = cp.Variable() if bias else 0.0
    u = root @ z
    f = u[: edges[1]] + b
    own = margin[loss](cp.multiply(y, f)) if loss in margin else deviation[loss](f - y)
    total = 0.5 * cp.sum_squares(z) + C * cp.sum(own)
    families = zip(edges[1:-1], edges[2:], nu, invariance_losses, strict=True)
    for first, last, weight, name in families:
        # None of the families here sees a constant.
        total += weight * cp.sum(deviation[name](u[first:last]))
    problem = cp.Problem(cp.Minimize(total))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value), f.value
