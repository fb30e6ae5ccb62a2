"""select_widths: what holds wins, what does not loses, and scores are those of fits one by one."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from structinv import OrbitRidge, select_widths
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Box, FiniteOracle, Flip, Rotations, Shifts

SIDE = 5
TURNS = Rotations(interval=(-180, 180), spread=1.0)


def digits(classes, n, seed=0):
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(np.isin(y, classes)))[:n]
    return X[rows] / 16.0, y[rows]


def turned_patterns(n=60, seed=0):
    """Bars and corners turned by any angle: full turns hold by construction."""
    rng = np.random.default_rng(seed)
    patterns = np.zeros((2, SIDE, SIDE))
    patterns[0, 1:4, 2] = 1.0
    patterns[1, 1:3, 2] = patterns[1, 2, 2:4] = 1.0
    y = np.arange(n) % 2
    turn = Rotations(interval=(-180, 180)).sample
    X = turn(patterns[y].reshape(n, -1), 1, rng)[:, 0]
    return X + 0.05 * rng.standard_normal(X.shape), np.array(["bar", "corner"])[y]


def test_what_holds_by_construction_is_found():
    X, y = turned_patterns()
    X += 0.3 * np.random.default_rng(1).standard_normal(X.shape)
    grid = {"spread": [2.0, 30.0, 1e4]}
    search = select_widths(TURNS, X, y, grid, kernel=Gaussian(2.0), n_draws=24)
    assert search.best_index_ == 3
    assert search.best_params_["kernel__oracle__spread"] == 1e4
    assert search.best_estimator_.kernel.oracle.spread == 1e4


def test_of_several_those_that_hold_are_chosen():
    X = np.random.default_rng(0).standard_normal((80, 4))
    y = np.tanh(X[:, 0] + X[:, 3]) - np.tanh(X[:, 1] + X[:, 2])
    moved, mirrored = Shifts(1, shape=(1, 4), fill="wrap"), Flip(shape=(1, 4))
    search = select_widths({"moved": moved, "mirrored": mirrored}, X, y, kernel=Gaussian(2.0))
    assert repr(search.best_estimator_.kernel.oracle) == repr(mirrored)
    plain, *means = search.cv_results_["param_kernel"]
    assert repr(plain) == repr(Gaussian(2.0))
    # First the first of them, then the second.
    expected = [moved, mirrored, mirrored @ moved]
    assert [repr(each.oracle) for each in means] == list(map(repr, expected))


def test_numbers_that_no_change_keeps_are_left_alone():
    X = np.random.default_rng(1).standard_normal((60, 4))
    search = select_widths(Flip(shape=(1, 4)), X, X[:, 0], kernel="linear")
    assert search.best_index_ == 0


def test_scores_are_those_of_fits_one_by_one():
    X, y = digits([3, 8, 9], 60)
    kernel, oracle = Gaussian(1.5), clone(TURNS).set_params(spread=10.0)
    gram = OrbitMean(oracle, kernel, n_draws=4, random_state=3).matrix(X, X)
    options = {"kernel": kernel, "n_draws": 4, "random_state": 3, "alphas": (0.01, 0.1)}
    targets = np.where(y[:, None] == [3, 8, 9], 1.0, -1.0)
    ridge = OrbitRidge("precomputed", alphas=(0.01, 0.1)).fit(gram, targets)
    right = ridge.leave_one_out_predictions_.argmax(axis=1) == np.searchsorted([3, 8, 9], y)
    results = select_widths(TURNS, X, y, {"spread": [10.0]}, **options).cv_results_
    assert results["mean_test_score"][1] == pytest.approx(np.mean(right))
    assert results["mean_test_error"][1] == pytest.approx(np.std(right, ddof=1) / np.sqrt(60))
    numbers = y + 0.5
    ridge = OrbitRidge("precomputed", alphas=(0.01, 0.1)).fit(gram, numbers)
    results = select_widths(TURNS, X, numbers, {"spread": [10.0]}, **options).cv_results_
    assert results["mean_test_score"][1] == pytest.approx(ridge.best_score_)
    two = y > 3
    ridge.fit(gram, np.where(two, 1.0, -1.0))
    results = select_widths(TURNS, X, two, {"spread": [10.0]}, **options).cv_results_
    right = (ridge.leave_one_out_predictions_ > 0) == two
    assert results["mean_test_score"][1] == pytest.approx(np.mean(right))


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_no_change_wins_where_changes_do_nothing(unit):
    X = np.random.default_rng(0).standard_normal((30, 4))
    y = unit * np.tanh(X[:, 0] + 0.3 * X[:, 1])
    nothing = {"times": [1, 2, 3]}
    search = select_widths(Still(), X, y, nothing, kernel=Gaussian(2.0))
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-12)
    assert search.best_index_ == 0


class Still(FiniteOracle):
    """The row itself, several times: the mean of as many equal numbers, which rounds."""

    def __init__(self, times=1):
        self.times = times

    def orbit(self, X):
        return np.repeat(X[:, None], self.times + 2, axis=1)


def test_stacks_of_images_tell_their_shape():
    X = np.random.default_rng(0).standard_normal((30, 3, 2))
    y = X[:, :, 0].sum(axis=1) * X[:, :, 1].sum(axis=1)
    oracle = Flip()
    search = select_widths(oracle, X, y)
    assert oracle.shape is None
    flat = select_widths(Flip(shape=(3, 2)), X.reshape(30, 6), y)
    scores = (each.cv_results_["mean_test_score"] for each in (search, flat))
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"oracle": 3}, TypeError, "oracle must be"),
        ({"oracle": Box(0.1).only_for("bar"), "grid": None}, ValueError, "not depend on labels"),
        ({"grid": {"angle": [3]}}, ValueError, "'angle'"),
        ({"grid": {"spread": [-3.0]}}, ValueError, "spread"),
        ({"oracle": {"turned": TURNS}}, ValueError, "grid must be None for several oracles"),
        ({"n_draws": None}, ValueError, "n_draws must be an integer"),
        ({"random_state": None}, TypeError, "random_state must be"),
        ({"kernel": "precomputed"}, ValueError, "kernel must be a kernel of features"),
        ({"alphas": (-1.0,)}, ValueError, "alphas must contain numbers above 0"),
        ({"y": np.zeros(12)}, ValueError, "y must contain at least two classes"),
        ({"X": np.full((12, 25), np.nan)}, ValueError, "NaN"),
    ],
)
def test_what_cannot_be_used_is_refused(changes, error, message):
    X, y = turned_patterns(12)
    given = {"oracle": TURNS, "X": X, "y": y, "grid": {"spread": [1.0]}, "n_draws": 2}
    with pytest.raises(error, match=message):
        select_widths(**(given | changes))
