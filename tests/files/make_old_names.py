"""How the files `old_*.model` were made, by the names that parameters and attributes had once.

It stays as it is when the package changes, and runs with the package of that time alone.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import structinv
from structinv import (
    InvariantStructuredSVC,
    InvariantSVC,
    OrbitRidge,
)
from structinv.embeddings import OrbitNystroem, PatchOrbits
from structinv.kernels import Gaussian, OrbitMean, SetKernel, TangentDistributionKernel
from structinv.oracles import FDrop, Offset, Rotations, Scalings, Segment, Shifts
from structinv.structures import Multilabel, Sequence

FOLDER = Path(__file__).parent


def pictures():
    rng = np.random.default_rng(0)
    corner, line = [1, 1, 0, 1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0, 1, 0, 0]
    X = np.array([corner, line] * 4) + 0.05 * rng.standard_normal((8, 9))
    return X, np.arange(8) % 2


def sentences():
    rng = np.random.default_rng(0)
    X = [rng.poisson(1.0, (4, 5)).astype(float) for _ in range(6)]
    return X, [(rows[:, 0] > rows[:, 1]).astype(int) for rows in X]


def label_sets():
    X = np.random.default_rng(0).standard_normal((12, 3)).round(3)
    return X, np.column_stack([X[:, 0] > 0, X[:, 0] + X[:, 1] > 0, X[:, 2] > 0.3]).astype(int)


def models():
    shape = (3, 3)
    X, y = pictures()
    oracle = Rotations(between=(-5.0, 5.0), grid=9, shape=shape) | Scalings((0.95, 1.05), shape=shape)
    yield "svc", InvariantSVC(oracle, tol=1e-2, budget=5, random_state=0).fit(X, y), X
    kernel = OrbitMean(Shifts(1, shape=shape, distribution="uniform"), Gaussian(0.3), size=4)
    yield "mean", InvariantSVC(kernel=kernel, epsilon=0.05, random_state=0).fit(X, y), X
    yield (
        "set",
        InvariantSVC(
            kernel=SetKernel(Segment(0.5, 2.0, grid=3), Gaussian(2.0), spectrum="clip"), random_state=0
        ).fit(X, y),
        X,
    )
    kernel = TangentDistributionKernel(Offset(0.5, grid=3), normalised=False)
    yield "ridge", OrbitRidge(kernel, alphas=[1.0]).fit(X, y.astype(float)), X
    features = OrbitNystroem(
        Shifts(1, shape=shape), Gaussian(0.3), n_components=4, size=3, random_state=0
    )
    yield "nystroem", make_pipeline(features, LogisticRegression()).fit(X, y), X
    patches = PatchOrbits(Shifts(1), size=2, n_components=3, draws=2, whole_draws=2, random_state=0)
    yield "patches", make_pipeline(patches, LogisticRegression()).fit(X, y), X
    X, y = sentences()
    yield (
        "tagger",
        InvariantStructuredSVC(Sequence(), oracle=FDrop(1), epsilon=0.01, random_state=0).fit(X, y),
        X,
    )
    X, y = label_sets()
    yield (
        "multilabel",
        InvariantStructuredSVC(Multilabel(pairwise="tree"), tol=1e-2, random_state=0).fit(X, y),
        X,
    )


if __name__ == "__main__":
    for name, model, X in models():
        structinv.save(model, FOLDER / f"old_{name}.model")
        rows = [np.asarray(x).tolist() for x in X]
        predicted = [np.asarray(each).tolist() for each in model.predict(X)]
        value = {"X": rows, "predicted": predicted, "repr": repr(model)}
        (FOLDER / f"old_{name}.json").write_text(json.dumps(value))
