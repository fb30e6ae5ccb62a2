"""A program of a user: `mypy --strict` accepts it, and the types of results are known.

`test_typing.py` checks this file. It never runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import structinv
from structinv import (
    Certificate,
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    OrbitRidge,
    PredictionBounds,
    RepresenterClassifier,
    certify,
    select_changes,
)
from structinv.datasets import conll_features, make_mail_like, make_tagged_text
from structinv.embeddings import OrbitFourier
from structinv.functionals import Functional, Gradient, Tangents
from structinv.functionals.parts import Part
from structinv.inspection import explain_edit, security_curve
from structinv.inspection.explanation import Explanation
from structinv.inspection.security import SecurityCurve
from structinv.kernels import Gaussian, Kernel, OrbitMean
from structinv.metrics import nearest, set_distance
from structinv.model_selection import certified_accuracy_scorer
from structinv.oracles import (
    Box,
    Budget,
    FDrop,
    InvarianceOracle,
    Rotations,
    Shifts,
    Support,
    check_oracle,
)
from structinv.solvers import Solution, Status
from structinv.structures import Sequence


class Slope(Functional):
    """The difference of the function over a step, divided by the step."""

    def __init__(self, step: float = 0.1) -> None:
        self.step = step

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        raise NotImplementedError


class Brighter(InvarianceOracle):
    """A constant of at most `most` is added to every feature."""

    def __init__(self, most: float) -> None:
        self.most = most

    def validate(self, n_features: int | None = None) -> None:
        if self.most < 0:
            raise ValueError(f"most must be at least 0, got {self.most!r}")

    def support(
        self,
        X: np.ndarray,
        V: np.ndarray,
        assign: np.ndarray | None = None,
        cost: np.ndarray | None = None,
    ) -> Support:
        raise NotImplementedError


def words() -> float:
    X, y = make_mail_like(200, 100, random_state=0)
    edits = FDrop(max_changes=5)
    model = InvariantLinearSVC(edits, C=0.01, fit_intercept=False, random_state=0).fit(X, y)
    assert_type(model, InvariantLinearSVC)
    assert_type(model.solution_, Solution)
    assert_type(model.solution_.relative_gap, float)
    assert_type(model.solution_.status, Status)
    assert_type(model.predict(X), np.ndarray)
    assert_type(model.decision_function(X), np.ndarray)
    certificate = model.certify(X, y, oracle=edits)
    assert_type(certificate, Certificate)
    assert_type(certificate.accuracy, float)
    assert_type(certificate.margins, np.ndarray)
    other = certify(make_pipeline(MaxAbsScaler(), model), edits, X, y, at="input")
    assert_type(other, Certificate)
    found = select_changes(model, X, y, {"C": [0.1, 1.0]}, oracle=edits)
    best: dict[str, Any] = found.best_params_
    scorer = certified_accuracy_scorer(edits)
    explanation = explain_edit(model, X[:1], y[:1])
    curve = security_curve({"robust": model}, X, y, oracle=edits, n_changes=[1, 2], label="spam")
    assert_type(explanation, Explanation)
    assert_type(curve, SecurityCurve)
    print(best, scorer, explanation, curve)
    return certificate.accuracy


def own_oracle(X: np.ndarray, y: np.ndarray) -> InvarianceOracle:
    either = Brighter(0.1) | Box(radius=0.2)
    both = Brighter(0.1) @ Box(radius=0.2)
    check_oracle(Brighter(0.1), X, y)
    restricted: InvarianceOracle = either.only_for(1)
    return both | restricted


def images(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    moves = Shifts(1) | Rotations(degrees=[-10, 10])
    kernel: Kernel = OrbitMean(Shifts(1) @ Rotations(degrees=[-10, 10]), Gaussian(1.5))
    svm = InvariantSVC(moves, kernel=kernel, C=10, random_state=0).fit(X, y)
    assert_type(svm, InvariantSVC)
    assert_type(svm.certify(X, y), Certificate)
    assert_type(svm.compress(n_support=200), InvariantSVC)
    penalties: list[Functional] = [Slope(), Gradient(), Tangents(Rotations(interval=(-10, 10)))]
    smooth = RepresenterClassifier(Gaussian(0.25), invariances=penalties, nu=0.1).fit(X, y)
    assert_type(smooth, RepresenterClassifier)
    distances, neighbors = nearest(moves, X, X)
    assert_type(distances, np.ndarray)
    assert_type(set_distance(moves, X, X), np.ndarray)
    features = OrbitFourier(Shifts(1), random_state=0).fit(X)
    ridge = OrbitRidge().fit(X, y)
    print(neighbors, features.transform(X), ridge.predict(X))
    return svm.predict(X)


def regression(X: np.ndarray, y: np.ndarray) -> PredictionBounds:
    model = InvariantLinearSVR(Box(radius=0.1), C=1.0).fit(X, y)
    assert_type(model, InvariantLinearSVR)
    return model.certify(X)


def texts(mails: list[str], labels: list[str]) -> list[str]:
    model = InvariantTextClassifier("drop", max_changes=1, C=10.0).fit(mails, labels)
    assert_type(model, InvariantTextClassifier)
    assert_type(model.certify(mails, labels), Certificate)
    return model.worst_case(mails, labels)


def sentences() -> float:
    tokens, tags = make_tagged_text(60, random_state=0)
    features = conll_features(tokens)
    tagger = InvariantStructuredSVC(Sequence("iob2"), oracle=FDrop(1), C=0.1).fit(features, tags)
    assert_type(tagger, InvariantStructuredSVC)
    return tagger.certify(features, tags, oracle=Budget(FDrop(3))).position_accuracy


def files(model: InvariantLinearSVC, path: Path) -> Pipeline:
    structinv.save(model, path)
    loaded: InvariantLinearSVC = structinv.load(path, trusted=[Brighter])
    return make_pipeline(MaxAbsScaler(), loaded)
