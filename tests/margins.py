"""Margins of a model from its own scores, and points to take them at."""

from itertools import product

import numpy as np


def margins(model, X, y):
    """The score of each row's label minus the largest of the others, (n,)."""
    scores = model.decision_function(X).astype(np.float64)
    codes = np.searchsorted(model.classes_, y)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    every = np.arange(len(codes))
    own = scores[every, codes]
    scores[every, codes] = -np.inf
    return own - scores.max(axis=1)


def lowest_margins(model, points, y):
    """The lowest margin over the points of each row, (n, s, d)."""
    n, s, d = points.shape
    return margins(model, points.reshape(n * s, d), np.repeat(y, s)).reshape(n, s).min(axis=1)


def dropped(X, K):
    """Each row without any set of at most K features, (n, s, d)."""
    masks = [mask for mask in product([0.0, 1.0], repeat=X.shape[1]) if mask.count(0.0) <= K]
    return X[:, None, :] * np.array(masks)
