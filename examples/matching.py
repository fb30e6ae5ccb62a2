"""Structured prediction of matchings with a custom argmax.

Each worker is matched with one job. The score of a matching is the sum of <w, features> over its pairs,
and w is learned from matchings. `Custom` needs three functions: the features of a matching, the cost of
a wrong matching, and the argmax. ``linear_sum_assignment`` of SciPy computes the argmax.
"""

from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment

from structinv import CustomStructuredSVC
from structinv.structures import Custom, check_custom

SIZE, FEATURES = 5, 6


def joint_feature(x, y):
    """Sum the features of matched pairs.

    x has the shape (SIZE, SIZE, FEATURES), y is the job of each worker.
    """
    return x[np.arange(SIZE), y].sum(axis=0)


def cost(y, y2):
    """Return the number of workers with a different job."""
    return int(np.sum(y != y2))


def argmax(x, w, y=None):
    """Return the matching with the highest score; plus cost if y is given."""
    scores = x @ w
    if y is not None:
        scores = scores + (np.arange(SIZE) != y[:, None])
    return linear_sum_assignment(scores, maximize=True)[1]


def make_matchings(n, rng, weights):
    """Generate features of pairs, and matchings by noisy weights."""
    X = rng.standard_normal((n, SIZE, SIZE, FEATURES))
    return X, [argmax(x, weights + 0.1 * rng.standard_normal(FEATURES)) for x in X]


def main():
    """Learn from 60 matchings, check the objective, predict 200 matchings."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(FEATURES)
    X, y = make_matchings(60, rng, weights)
    X_test, y_test = make_matchings(200, rng, weights)
    matching = Custom(joint_feature, cost, argmax)
    every = [np.array(each) for each in permutations(range(SIZE))]
    check_custom(matching, X[:3], y[:3], candidates=lambda x: every)
    print(f"check_custom: argmax agrees with enumeration of all {len(every)} matchings")

    model = CustomStructuredSVC(matching, C=0.1, tol=1e-4, random_state=0).fit(X, y)
    w = model.coef_

    value = 0.5 * w @ w
    for x, truth in zip(X, y, strict=True):
        scores = [joint_feature(x, each) @ w + cost(truth, each) for each in every]
        value += 0.1 * (max(scores) - joint_feature(x, truth) @ w)
    print(f"objective {model.solution_.primal:.6f}, by enumeration {value:.6f}")
    assert abs(value - model.solution_.primal) <= 1e-9 * value

    predicted = np.array(model.predict(X_test))
    accuracy = np.mean(predicted == np.array(y_test))
    best = np.mean([argmax(x, weights) == truth for x, truth in zip(X_test, y_test, strict=True)])
    print(f"fraction of correct jobs: {accuracy:.3f}, with the true weights {best:.3f}")
    assert accuracy >= 0.9 * best


if __name__ == "__main__":
    main()
