"""Models with given weights, and margins at points."""

import numpy as np

from structinv import InvariantLinearSVC, InvariantSVC

from ..margins import margins


def made(coef, intercept, oracle, dtype=np.float64):
    """Return a model with these weights, as after a fit."""
    model = InvariantLinearSVC(oracle)
    model.coef_, model.intercept_ = np.asarray(coef, dtype), np.asarray(intercept, dtype)
    model.classes_ = np.arange(2 if len(model.coef_) == 1 else len(model.coef_))
    model.n_features_in_ = model.coef_.shape[1]
    return model


def margins_of(model, Z, label):
    """Return the score of the label minus every other, at each of the points."""
    f = Z.astype(np.float64) @ model.coef_.T.astype(np.float64) + model.intercept_
    f = np.hstack([np.zeros((len(Z), 1)), f]) if f.shape[1] == 1 else f
    competitors = np.delete(f, label, axis=1)
    return f[:, label] - np.max(competitors, axis=1)


def fitted(kind, X, y):
    if kind == "kernel":
        return InvariantSVC(gamma=0.1, C=10.0, tol=0.5, random_state=0).fit(X, y)
    return InvariantLinearSVC(tol=0.5, random_state=0).fit(X, y)


def distance(model, oracle, X, y):
    """The largest difference of attacked and reached margins, in units of the rounding bound."""
    certificate, points = model.certify(X, y, oracle=oracle), model.worst_case(X, y, oracle=oracle)
    labels = model._bound_labels(X, y)
    rounding = model._worst_change(X, labels, oracle, points=False).rounding
    reached = margins(model, points, y)
    assert np.all(certificate.margins <= reached)
    return np.max(np.abs(reached - certificate.attacked) / rounding)
