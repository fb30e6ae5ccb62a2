"""select_widths: what holds wins, what does not loses, and scores are those of fits one by one."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold, StratifiedKFold

from structinv import OrbitRidge, select_widths
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Box, FiniteOracle, Flip, Identity, Rotations, Shifts, Weighted

SIDE = 5
TURNS = Rotations(interval=(-180, 180), distribution="normal", spread=1.0)
CRITERIA = ["cross_validation", "leave_one_out", "marginal_likelihood"]


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


@pytest.mark.parametrize("criterion", CRITERIA)
def test_what_holds_by_construction_is_found(criterion):
    X, y = turned_patterns()
    X += 0.3 * np.random.default_rng(1).standard_normal(X.shape)
    grid = {"spread": [2.0, 30.0, 1e4]}
    found = select_widths(TURNS, X, y, grid, kernel=Gaussian(2.0), criterion=criterion, n_draws=24)
    assert found.best_params_ == {"spread": 1e4}
    assert found.best_index_ == 3
    assert isinstance(found.best_kernel_, OrbitMean)
    assert found.best_kernel_.oracle.spread == 1e4


@pytest.mark.parametrize("criterion", CRITERIA)
def test_of_several_those_that_hold_are_chosen(criterion):
    X = np.random.default_rng(0).standard_normal((80, 4))
    y = np.tanh(X[:, 0] + X[:, 3]) - np.tanh(X[:, 1] + X[:, 2])
    declared = {"moved": Shifts(1, shape=(1, 4), fill="wrap"), "mirrored": Flip(shape=(1, 4))}
    grid = {"moved": {"pixels": [1, 2]}}
    found = select_widths(declared, X, y, grid, kernel=Gaussian(2.0), criterion=criterion)
    assert found.best_params_ == {"mirrored": True}
    assert repr(found.best_) == "Flip(shape=(1, 4))"
    params = found.table_["params"]
    assert len(params) == 6
    assert params[0] == {}
    assert params[-1] == {"moved__pixels": 2, "mirrored": True}
    assert list(found.table_["param_moved__pixels"]) == [None, None, 1, 1, 2, 2]
    # First the first of them, then the second.
    both = Flip(shape=(1, 4)) @ Shifts(2, shape=(1, 4), fill="wrap")
    assert repr(found.table_["oracles"][-1]) == repr(both)


def test_numbers_that_no_change_keeps_are_left_alone():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 4))
    for criterion in CRITERIA:
        found = select_widths(Flip(shape=(1, 4)), X, X[:, 0], criterion=criterion, kernel="linear")
        assert isinstance(found.best_, Identity)
        assert found.best_params_ == {}
        assert type(found.best_kernel_) is type(found.base_kernel_)
        assert "*" in str(found).splitlines()[1]


def test_scores_are_those_of_fits_one_by_one():
    X, y = digits([3, 8, 9], 60)
    kernel, oracle = Gaussian(1.5), clone(TURNS).set_params(spread=10.0)
    gram = OrbitMean(oracle, kernel, n_draws=4, random_state=3).matrix(X, X)
    options = {"kernel": kernel, "n_draws": 4, "random_state": 3, "alphas": (0.01, 0.1)}
    targets = np.where(y[:, None] == [3, 8, 9], 1.0, -1.0)
    ridge = OrbitRidge("precomputed", alphas=(0.01, 0.1)).fit(gram, targets)
    right = ridge.leave_one_out_predictions_.argmax(axis=1) == np.searchsorted([3, 8, 9], y)
    found = select_widths(TURNS, X, y, {"spread": [10.0]}, criterion="leave_one_out", **options)
    assert found.table_["score"][1] == pytest.approx(np.mean(right))
    found = select_widths(TURNS, X, y, {"spread": [10.0]}, criterion="marginal_likelihood", **options)
    assert found.table_["score"][1] == pytest.approx(np.max(ridge.log_marginal_likelihood().sum(axis=1)))
    assert np.all(np.isnan(found.table_["score_error"]))
    found = select_widths(TURNS, X, y, {"spread": [10.0]}, cv=3, **options)
    for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        model = OrbitRidge(found.best_kernel_, alphas=(0.01, 0.1)).fit(X[train], targets[train])
        if isinstance(found.best_, Identity):
            model.set_params(kernel=OrbitMean(oracle, kernel, 4, 3)).fit(X[train], targets[train])
        right = model.predict(X[test]).argmax(axis=1) == np.searchsorted([3, 8, 9], y[test])
        assert found.table_["score_folds"][1, fold] == pytest.approx(np.mean(right))


def test_numbers_are_left_out_exactly():
    X = np.random.default_rng(0).standard_normal((20, 4))
    y = X[:, 0] ** 2 + X[:, 3] ** 2
    oracle = Flip(shape=(1, 4))
    found = select_widths(oracle, X, y, kernel=Gaussian(2.0), alphas=(0.01,), cv=KFold(20))
    exact = select_widths(oracle, X, y, kernel=Gaussian(2.0), alphas=(0.01,), criterion="leave_one_out")
    np.testing.assert_allclose(found.table_["score"], exact.table_["score"])
    np.testing.assert_allclose(found.table_["score_error"], exact.table_["score_error"])
    whole = np.arange(20) % 4
    assert select_widths(oracle, X, whole, criterion="leave_one_out").classes
    assert not select_widths(oracle, X, whole, criterion="leave_one_out", task="numbers").classes


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_no_change_wins_where_changes_do_nothing(criterion, unit):
    X = np.random.default_rng(0).standard_normal((30, 4))
    y = unit * np.tanh(X[:, 0] + 0.3 * X[:, 1])
    nothing = {"times": [1, 2, 3]}
    found = select_widths(Still(), X, y, nothing, kernel=Gaussian(2.0), criterion=criterion)
    scores = found.table_["score"]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-12)
    assert found.best_index_ == 0


class Still(FiniteOracle):
    """The row itself, several times: the mean of as many equal numbers, which rounds."""

    def __init__(self, times=1):
        self.times = times

    def orbit(self, X):
        return np.repeat(X[:, None], self.times + 2, axis=1)


def test_folds_are_made_for_cross_validation_alone():
    X = np.random.default_rng(0).standard_normal((4, 4))
    for criterion in CRITERIA[1:]:
        select_widths(Flip(shape=(1, 4)), X, X[:, 0], criterion=criterion)
    with pytest.raises(ValueError, match="n_splits=5"):
        select_widths(Flip(shape=(1, 4)), X, X[:, 0])


def test_stacks_of_images_tell_their_shape():
    X = np.random.default_rng(0).standard_normal((30, 3, 2))
    y = X[:, :, 0].sum(axis=1) * X[:, :, 1].sum(axis=1)
    oracle = Flip()
    found = select_widths(oracle, X, y, criterion="leave_one_out")
    assert oracle.shape is None
    assert found.best_.shape == (3, 2)
    flat = select_widths(Flip(shape=(3, 2)), X.reshape(30, 6), y, criterion="leave_one_out")
    np.testing.assert_array_equal(found.table_["score"], flat.table_["score"])


def test_tables_and_plots():
    X, y = turned_patterns(30)
    grid = {"spread": [5.0, 1e4], "order": [0, 1]}
    found = select_widths(TURNS, X, y, grid, n_draws=4, cv=3)
    axes = found.plot().ax_
    assert axes.get_title() == "accuracy"
    assert "no change" in [label.get_text() for label in axes.get_xticklabels()]
    evidence = select_widths(TURNS, X, y, grid, n_draws=4, criterion="marginal_likelihood")
    assert evidence.plot().ax_.get_title() == "log marginal likelihood"
    assert "log marginal likelihood" in str(evidence)


def test_a_width_that_the_oracle_has_is_told_by_the_table():
    X, y = turned_patterns(20)
    turns = clone(TURNS).set_params(spread=7.0)
    grid = [{"spread": [5.0]}, {"order": [0]}, {}]
    asked = {"n_draws": 2, "criterion": "leave_one_out"}
    found = select_widths(turns, X, y, grid, **asked)
    wanted = [None, 5.0, 7.0, 7.0]
    assert found.table_["param_spread"].tolist() == wanted
    assert [each.spread for each in found.table_["oracles"][1:]] == wanted[1:]
    assert found.table_["params"][-1] == {"spread": 7.0, "order": 1}
    ticks = [label.get_text() for label in found.plot().ax_.get_xticklabels()]
    assert ticks == ["no change", "5.0", "7.0"]


def test_a_part_that_the_grid_replaces_keeps_its_own_width():
    X, y = turned_patterns(20)
    grid = [{"oracle": [Flip(), Rotations((180,))]}, {"oracle__degrees": [(90,)]}]
    found = select_widths(Weighted(Rotations((90,)), [1, 2]), X, y, grid, criterion="leave_one_out")
    parts = [each.oracle for each in found.table_["oracles"][1:]]
    assert list(map(repr, parts)) == list(map(repr, [Flip(), Rotations((180,)), Rotations((90,))]))
    assert found.table_["param_oracle__degrees"].tolist() == [None, None, (180,), (90,)]


def test_a_declared_oracle_without_a_grid_is_printed_by_its_name():
    X = np.random.default_rng(0).standard_normal((20, 4))
    moved = Shifts(1, shape=(1, 4), fill="wrap")
    declared, grid = {"moved": moved, "mirrored": Flip(shape=(1, 4))}, {"unitary": [True]}
    found = select_widths(declared, X, X[:, 0], {"moved": grid}, criterion="leave_one_out")
    _, *settings, errors, star = str(found).splitlines()
    ends = ["no change", "mirrored", "moved__unitary=True", "moved__unitary=True, mirrored"]
    assert sorted(line[25:].strip() for line in settings) == sorted(ends)
    assert errors == "Scores are means over samples +- standard errors."
    assert star == "*  best setting, best_"
    alone = str(select_widths(moved, X, X[:, 0], grid, criterion="marginal_likelihood")).splitlines()
    assert alone[2].endswith("  unitary=True")
    assert "standard errors" not in alone[-2]


def test_an_oracle_without_a_grid_has_a_name():
    X, y = turned_patterns(20)
    text = str(select_widths(TURNS, X, y, n_draws=2, criterion="leave_one_out")).splitlines()
    assert text[1].endswith("no change")
    assert text[2].endswith(repr(TURNS).splitlines()[-1])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"criterion": "aic"}, ValueError, "criterion must be one of"),
        ({"task": "ranks"}, ValueError, "task must be one of"),
        ({"oracle": 3}, TypeError, "oracle must be"),
        ({"oracle": {}}, ValueError, "oracle must be an oracle or a dict"),
        (
            {"oracle": Box(0.1).only_for("bar"), "n_draws": 2, "grid": None},
            ValueError,
            "not depend on labels",
        ),
        ({"grid": {"angle": [3]}}, ValueError, "grid must contain parameters of the oracle"),
        ({"grid": {"spread": [-3.0]}}, ValueError, "spread"),
        (
            {"oracle": {"turned": TURNS}, "grid": {"moved": {}}},
            ValueError,
            "names of oracle only, .*got .'moved'.",
        ),
        ({"oracle": {"turned": TURNS}, "grid": [1]}, TypeError, "with one grid per name"),
        ({"grid": {"spread": np.arange(1.0, 2e4)}}, ValueError, "grid must have at most 10000 settings"),
        ({"n_draws": None}, ValueError, "n_draws must be an integer"),
        ({"cv": [(np.arange(9), np.arange(0))]}, ValueError, "cv must leave .* got 9 and 0"),
        ({"cv": [([0], np.arange(1, 9))]}, ValueError, "cv must leave .* got 1 and 8"),
        ({"n_draws": 0}, ValueError, "n_draws must be"),
        ({"random_state": None}, TypeError, "random_state must be"),
        ({"kernel": "precomputed"}, ValueError, "kernel must be a kernel of features"),
        ({"alphas": (-1.0,)}, ValueError, "alphas must contain numbers above 0"),
        ({"y": np.zeros(12)}, ValueError, "y must contain at least two classes"),
        ({"y": ["a", "b"] * 6, "task": "numbers"}, ValueError, "y must contain numbers"),
        ({"X": np.full((12, 25), np.nan)}, ValueError, "NaN"),
    ],
)
def test_what_cannot_be_used_is_refused_before_any_kernel(monkeypatch, changes, error, message):
    def computed(*arguments):
        raise AssertionError("a kernel was computed")

    monkeypatch.setattr("structinv.model_selection.widths.kernel_matrix", computed)
    X, y = turned_patterns(12)
    given = {"oracle": TURNS, "X": X, "y": y, "grid": {"spread": [1.0]}, "n_draws": 2, "cv": 2}
    with pytest.raises(error, match=message):
        select_widths(**(given | changes))
