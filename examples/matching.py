"""Matchings with a scorer of your own: what to say about pairs is learned, the best matching is scipy's.

Workers are matched with jobs, one each. The score of a matching is the sum over its pairs of <w,
features of the pair>; w is learned from given matchings. `Custom` needs three functions: the
features of a whole matching, what a wrong one costs, and the best one, which ``linear_sum_assignment``
finds, the cost added where it is told the true one.
"""

from itertools import permutations

import numpy as np
from scipy.optimize import linear_sum_assignment

from structinv import CustomStructuredSVC
from structinv.structures import Custom, check_custom

SIZE, FEATURES = 5, 6


def joint_feature(x, y):
    """Sums of the features of matched pairs; x is (SIZE, SIZE, FEATURES), y the job of each worker."""
    return x[np.arange(SIZE), y].sum(axis=0)


def cost(y, y2):
    """How many workers have another job."""
    return int(np.sum(y != y2))


def argmax(x, w, y=None):
    """The matching of highest score, with the cost added where the true one is given."""
    scores = x @ w
    if y is not None:
        scores = scores + (np.arange(SIZE) != y[:, None])
    return linear_sum_assignment(scores, maximize=True)[1]


def make_matchings(n, rng, taste):
    """Pairs with features, and matchings by a taste that changes a little from day to day."""
    X = rng.standard_normal((n, SIZE, SIZE, FEATURES))
    return X, [argmax(x, taste + 0.1 * rng.standard_normal(FEATURES)) for x in X]


def main():
    """Learn from 60 matchings, compare with all matchings by enumeration, and predict 200 others."""
    rng = np.random.default_rng(0)
    taste = rng.standard_normal(FEATURES)
    X, y = make_matchings(60, rng, taste)
    X_test, y_test = make_matchings(200, rng, taste)
    matching = Custom(joint_feature, cost, argmax)
    every = [np.array(each) for each in permutations(range(SIZE))]
    check_custom(matching, X[:3], y[:3], candidates=lambda x: every)
    print(f"argmax agrees with all {len(every)} matchings")

    model = CustomStructuredSVC(matching, C=0.1, tol=1e-4, random_state=0).fit(X, y)
    w = model.coef_

    value = 0.5 * w @ w
    for x, truth in zip(X, y, strict=True):
        heights = [joint_feature(x, each) @ w + cost(truth, each) for each in every]
        value += 0.1 * (max(heights) - joint_feature(x, truth) @ w)
    print(f"objective {model.solution_.primal:.6f}, by enumeration {value:.6f}")
    assert abs(value - model.solution_.primal) <= 1e-9 * value

    predicted = np.array(model.predict(X_test))
    right = np.mean(predicted == np.array(y_test))
    best = np.mean([argmax(x, taste) == truth for x, truth in zip(X_test, y_test, strict=True)])
    print(f"workers with the right job: {right:.3f}, by the true taste {best:.3f}")
    assert right >= 0.9 * best


if __name__ == "__main__":
    main()
