"""A large C: the solver that "auto" takes closes the gap, and advice names other solvers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from structinv import CustomStructuredSVC, InvariantStructuredSVC
from structinv.oracles import Budget, FDrop
from structinv.solvers import Status
from structinv.structures import Custom, Graph, Multilabel, Sequence


def sequences(n=40, width=6, n_labels=3):
    """Rows whose labels are a noisy function of them, and of the label before."""
    rng = np.random.default_rng(0)
    weights, after = rng.normal(size=(width, n_labels)), rng.normal(size=(n_labels, n_labels))
    X, y = [], []
    for length in rng.integers(2, 6, size=n):
        rows = rng.normal(size=(length, width))
        scores, labels = rows @ weights + 2.0 * rng.normal(size=(length, n_labels)), [0]
        for each in scores:
            labels.append(int(np.argmax(each + after[labels[-1]])))
        X.append(rows)
        y.append(labels[1:])
    return X, y


def graphs():
    X, y = sequences()
    return [
        (rows, np.column_stack([np.arange(len(rows) - 1), np.arange(1, len(rows))])) for rows in X
    ], y


def sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    return X, (X[:, :3] + rng.normal(size=(40, 3)) > 0).astype(int)


def joint_feature(x, y):
    return np.outer(np.eye(3)[y], x).ravel()


def cost(y, y2):
    return float(y != y2)


def argmax(x, w, y=None):
    return int(np.argmax(w.reshape(3, -1) @ x + (0.0 if y is None else np.arange(3) != y)))


def objects():
    X, y = sequences()
    return list(np.concatenate(X)), [label for labels in y for label in labels]


CASES = {
    "sequences": (InvariantStructuredSVC(Sequence()), sequences),
    "sequences-words": (InvariantStructuredSVC(Sequence(), oracle=FDrop(1)), sequences),
    "sequences-budget": (InvariantStructuredSVC(Sequence(), oracle=Budget(FDrop(1))), sequences),
    "graphs": (InvariantStructuredSVC(Graph()), graphs),
    "sets": (InvariantStructuredSVC(Multilabel("tree")), sets),
    "objects": (CustomStructuredSVC(Custom(joint_feature, cost, argmax)), objects),
}


@pytest.mark.parametrize("case", CASES)
def test_a_large_c_converges(case):
    model, draw = CASES[case]
    X, y = draw()
    model.set_params(C=1e4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    assert model.solution_.status is Status.CONVERGED


def taken(X, y, **parameters):
    """The class of the solver that a fit of a given gap took."""
    model = InvariantStructuredSVC(Sequence(), tol=0.9, random_state=0, **parameters)
    return model.fit(X, y).solution_.solver


def test_auto_uses_interior_point_only_for_large_c():
    X, y = sequences()
    assert taken(X, y, C=0.1) == "FrankWolfe"
    assert taken(X, y, C=100.0) == "InteriorPoint"


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_the_choice_does_not_depend_on_units(C):
    X, y = sequences()
    plain = taken(X, y, C=C)
    assert taken([100.0 * rows for rows in X], y, C=1e-4 * C) == plain
    assert taken([sp.csr_matrix(rows) for rows in X], y, C=C) == plain
    # Costs of a tenth at a tenth of the weights make the same problem.
    assert taken(X, y, C=0.1 * C, cost=0.1 * (1.0 - np.eye(3))) == plain


def test_auto_uses_interior_point_only_for_few_weights():
    X, y = sequences(10)
    wide = [np.tile(rows, 100) for rows in X]
    assert taken(wide, y, C=10.0) == "FrankWolfe"
    assert taken(X, y, C=1e3, plane_tol=0.5) == "FrankWolfe"
    assert taken(X, y, C=1e3, kernel="rbf") == "FrankWolfe"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_advice_names_solvers_other_than_the_one_that_stalled():
    X, y = sequences(12)
    model = InvariantStructuredSVC(Sequence(), C=1e4, solver="frank_wolfe", random_state=0)
    with pytest.warns(ConvergenceWarning, match="'interior_point'") as told:
        model.fit(X, y)
    assert model.solution_.status is Status.STALLED
    assert "frank_wolfe" not in str(told[0].message)
    assert "frank_wolfe" not in model.solution_.advice
    better = model.set_params(solver="interior_point").fit(X, y).solution_
    assert better.status is Status.CONVERGED
