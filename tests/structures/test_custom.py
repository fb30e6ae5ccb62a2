"""Custom structures of three functions: rankings and matchings against enumeration."""

from __future__ import annotations

import pickle
from itertools import permutations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.model_selection import GridSearchCV

import structinv
from structinv.estimators import CustomStructuredSVC
from structinv.oracles import Box, Identity
from structinv.solvers import BMRM, FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Custom, check_custom
from structinv.terms import Objective
from structinv.terms.joint_feature import JointFeature
from structinv.utils.exceptions import CheckError

from ..problems import assert_brackets, minimum

SIZE, FEATURES = 3, 4


def joint_feature(x, y):
    """Sum the features of matched pairs; x has shape (SIZE, SIZE, FEATURES)."""
    return x[np.arange(len(y)), list(y)].sum(axis=0)


def sparse_joint_feature(x, y):
    return sp.csr_matrix(joint_feature(x, y)[None])


def mixed_joint_feature(x, y):
    return (joint_feature if y[0] else sparse_joint_feature)(x, y)


def cost(y, y2):
    return sum(a != b for a, b in zip(y, y2, strict=True))


def argmax(x, w, y=None):
    scores = x @ w
    if y is not None:
        scores = scores + (np.arange(scores.shape[1]) != np.array(y)[:, None])
    return tuple(linear_sum_assignment(scores, maximize=True)[1].tolist())


def matchings(n=6, seed=0):
    """Return features of pairs, and matchings from noisy weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, SIZE, SIZE, FEATURES))
    w = rng.standard_normal(FEATURES)
    return list(X), [argmax(x + 0.3 * rng.standard_normal(x.shape), w) for x in X]


MATCHING = Custom(joint_feature, cost, argmax)
WEIGHTS = np.linspace(0.2, 0.7, 6)


def optimum():
    X, y = matchings()
    w = cp.Variable(FEATURES)
    total = 0.5 * cp.sum_squares(w)
    for x, truth, weight in zip(X, y, WEIGHTS, strict=True):
        own = joint_feature(x, truth)
        parts = [
            (joint_feature(x, other) - own) @ w + cost(truth, other)
            for other in permutations(range(SIZE))
        ]
        total = total + weight * cp.maximum(*parts)
    return minimum(total)


@pytest.mark.parametrize("feature", [joint_feature, sparse_joint_feature, mixed_joint_feature])
@pytest.mark.parametrize("solver", [FrankWolfe(), SVMStruct(), BMRM()], ids=repr)
def test_matchings_reach_the_optimum(solver, feature):
    X, y = matchings()
    term = JointFeature(X, y, Custom(feature, cost, argmax), WEIGHTS)
    found = solve(Objective(ExplicitSpace(FEATURES), [term]), solver, Gap(1e-7), random_state=0)
    best = optimum()
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert found.dual == pytest.approx(best, rel=1e-6)
    assert_brackets(found, best)


def all_matchings(x):
    return list(permutations(range(len(x))))


def test_check_custom_accepts_an_exact_argmax():
    X, y = matchings(3)
    check_custom(MATCHING, X, y, all_matchings)


def forgetful(x, w, y=None):
    """Return an argmax without the cost."""
    return argmax(x, w)


def lazy(x, w, y=None):
    """Return the same matching for all inputs."""
    return tuple(range(SIZE))


@pytest.mark.parametrize("broken", [forgetful, lazy])
def test_check_custom_finds_an_inexact_argmax(broken):
    X, y = matchings(3)
    with pytest.raises(CheckError, match="argmax: the score"):
        check_custom(Custom(joint_feature, cost, broken), X, y, all_matchings)


def test_inexact_argmax_gives_valid_planes():
    X, y = matchings()
    term = JointFeature(X, y, Custom(joint_feature, cost, lazy), WEIGHTS)
    found = solve(Objective(ExplicitSpace(FEATURES), [term]), FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.dual <= optimum() + 1e-9
    # A labeling below the true one is replaced by it.
    space, replaced = ExplicitSpace(FEATURES), []
    for w in np.random.default_rng(0).standard_normal((5, FEATURES)):
        found = [
            joint_feature(x, lazy(x, w)) @ w - joint_feature(x, truth) @ w + cost(truth, lazy(x, w))
            for x, truth in zip(X, y, strict=True)
        ]
        planes, expected = term.planes(space, w), np.maximum(found, 0.0)
        at_w = planes.offsets - space.scores(w, planes.normals)
        for values in (*term.values(space, w), planes.upper, planes.plane_values, at_w):
            np.testing.assert_allclose(values, expected, atol=1e-12)
        replaced += [value < 0.0 for value in found]
    assert len(set(replaced)) == 2


def with_(**functions):
    given = {"joint_feature": joint_feature, "cost": cost, "argmax": argmax} | functions
    return Custom(**given)


X, Y = matchings()


def term(custom=MATCHING, X=X, y=Y, **options):
    return lambda: JointFeature(X, y, custom, **options)


def fit(X=X, y=Y, custom=MATCHING):
    return lambda: CustomStructuredSVC(custom).fit(X, y)


REFUSED = [
    (term(with_(joint_feature=None)), TypeError, "joint_feature must be a function, got None"),
    (term(with_(argmax=3)), TypeError, "argmax must be a function"),
    (term(with_(joint_feature=lambda x, y: "a")), TypeError, "joint_feature must return features"),
    (term(with_(joint_feature=lambda x, y: np.full(4, np.nan))), ValueError, "not finite"),
    (term(with_(joint_feature=lambda x, y: sp.eye(3))), ValueError, r"shape \(1, D\), got \(3, 3\)"),
    (term(with_(cost=lambda y, y2: -1.0)), ValueError, "cost must return a cost of at least 0"),
    (term(with_(cost=lambda y, y2: 1.0)), ValueError, "cost must be 0 for the true labeling"),
    (term(Identity()), TypeError, "custom must be a Custom"),
    (term(y=Y[:5]), ValueError, "one labeling for each of 6 examples, got 5"),
    (term(y=[Y[0], None, *Y[2:]]), ValueError, "y must not contain None, got None for example 1"),
    (term(oracle=Box(0.1)), ValueError, "oracle must be None or Identity"),
    (fit([]), ValueError, "X must contain at least one example"),
    (fit(y=Y[:3]), ValueError, "one labeling per example"),
    (fit(custom=Identity()), TypeError, "structure must be a Custom"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_wrong_arguments_raise_with_their_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_other_spaces_raise():
    for space in (ExplicitSpace(FEATURES, intercept=True), ExplicitSpace(FEATURES + 1)):
        with pytest.raises(ValueError, match=r"must be ExplicitSpace\(4\)"):
            Objective(space, [term(oracle=Identity())()])


def test_weights_cannot_be_changed():
    def spoils(x, w, y=None):
        w[:] = 0.0
        return argmax(x, w, y)

    X, y = matchings()
    problem = Objective(ExplicitSpace(FEATURES), [JointFeature(X, y, with_(argmax=spoils))])
    with pytest.raises(ValueError, match="read-only"):
        solve(problem, FrankWolfe(), Gap(1e-3), random_state=0)


def learned(**parameters):
    X, y = matchings()
    settings = {"C": 0.5, "random_state": 0, "tol": 1e-6} | parameters
    return CustomStructuredSVC(MATCHING, **settings).fit(X, y), X, y


def test_the_estimator_minimizes_its_objective():
    model, X, y = learned()
    w = model.coef_
    worst = [
        max(joint_feature(x, each) @ w + cost(truth, each) for each in all_matchings(x))
        - joint_feature(x, truth) @ w
        for x, truth in zip(X, y, strict=True)
    ]
    assert model.solution_.primal == pytest.approx(0.5 * w @ w + 0.5 * np.sum(worst), rel=1e-9)
    predicted = model.predict(X)
    for x, found in zip(X, predicted, strict=True):
        scores = [joint_feature(x, each) @ w for each in all_matchings(x)]
        assert joint_feature(x, found) @ w == pytest.approx(max(scores), abs=1e-9)
    costs = [cost(truth, found) for truth, found in zip(y, predicted, strict=True)]
    assert model.score(X, y) == pytest.approx(-np.mean(costs))
    with pytest.raises(AttributeError, match="except the true one"):
        model.certify(X, y)


def test_a_large_c_converges():
    assert learned(C=1e4, tol=1e-3)[0].solution_.status is Status.CONVERGED


def test_models_of_objects_support_grid_search_and_pickle(tmp_path):
    X, y = matchings(12)
    search = GridSearchCV(CustomStructuredSVC(MATCHING, random_state=0), {"C": [0.1, 1.0]}, cv=3).fit(
        X, y
    )
    model = search.best_estimator_
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict(X) == model.predict(X)
    path = tmp_path / "matching.model"
    with pytest.warns(UserWarning, match="trust"):
        structinv.save(model, path)
    names = [f"{each.__module__}.{each.__qualname__}" for each in (joint_feature, cost, argmax)]
    assert structinv.load(path, trusted=names).predict(X) == model.predict(X)
