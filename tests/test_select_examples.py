"""Changes are selected on examples: lists are cut by example, shares are those of positions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from structinv import InvariantStructuredSVC, select_changes
from structinv.oracles import FDrop
from structinv.structures import Graph, Multilabel, Sequence

GRID = {"oracle__max_changes": [0, 1]}


def machine(structure):
    return InvariantStructuredSVC(structure, oracle=FDrop(0), tol=0.1, random_state=0)


def sequences(n=16):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 4)) for length in rng.integers(2, 5, size=n)]
    return X, [["ab"[int(value > 0)] for value in rows[:, 0] + rows[:, 1]] for rows in X]


def tokens():
    X, y = sequences()
    return [[[f"{name}={value > 0}" for name, value in enumerate(row)] for row in rows] for rows in X], y


def graphs():
    X, y = sequences()
    return [(rows, [(t, t + 1) for t in range(len(rows) - 1)]) for rows in X], y


def sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, 4))
    return X, (X[:, :3] > 0).astype(int)


CASES = {
    "sequences": (Sequence(), sequences),
    "tokens": (Sequence(), tokens),
    "graphs": (Graph(), graphs),
    "sets": (Multilabel(), sets),
}


def some(data, rows):
    return [data[i] for i in rows] if isinstance(data, list) else data[rows]


@pytest.mark.parametrize("case", CASES)
def test_shares_are_those_of_positions_on_examples_that_were_not_seen(case):
    structure, draw = CASES[case]
    X, y = draw()
    found = select_changes(machine(structure), X, y, GRID, cv=2, oracle=FDrop(1))
    for setting, params in enumerate(found.cv_results_["params"]):
        for fold, (train, test) in enumerate(KFold(2).split(X)):
            model = machine(structure).set_params(**params).fit(some(X, train), some(y, train))
            clean = model.score(some(X, test), some(y, test))
            certificate = model.certify(some(X, test), some(y, test), oracle=FDrop(1))
            assert found.cv_results_[f"split{fold}_test_clean"][setting] == clean
            certified = found.cv_results_[f"split{fold}_test_certified"][setting]
            assert certified == certificate.position_accuracy
    machine(structure).set_params(**found.best_params_).fit(X, y)


def halved(X):
    return [rows[:, :2] for rows in X]


def test_a_pipeline_of_lists_ends_in_a_structured_model():
    X, y = sequences()
    model = make_pipeline(FunctionTransformer(halved), machine(Sequence()))
    grid = {"invariantstructuredsvc__oracle__max_changes": [0, 1]}
    found = select_changes(model, X, y, grid, cv=2, oracle=FDrop(1))
    plain = select_changes(machine(Sequence()), halved(X), y, GRID, cv=2, oracle=FDrop(1))
    results = (each.cv_results_["mean_test_certified"] for each in (found, plain))
    np.testing.assert_array_equal(*results)
