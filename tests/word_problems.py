"""Problems of rows that many changes are made to, and the state that they are solved with."""

import numpy as np
import scipy.sparse as sp

from structinv.dual import dual_state
from structinv.losses import Logistic, SquaredHinge
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase
from structinv.terms.worst_case import WorstMargin

WORDS = 30
VALUES = np.random.default_rng(5).uniform(0.3, 2.0, WORDS)
LOSSES = {"hinge": None, "squared_hinge": SquaredHinge(), "logistic": Logistic()}


def rows(n=40, d=WORDS, density=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.5, (n, d)) * (rng.random((n, d)) < density)
    y = (X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0).astype(int)
    y[:2] = 0, 1
    return sp.csr_matrix(X.astype(float)), y


def objective(oracle, loss="hinge", intercept=True, weights=0.3, dense=False, data=None):
    X, y = rows() if data is None else data
    X = X.toarray() if dense else X
    space = ExplicitSpace(X.shape[1], intercept=intercept)
    if loss == "hinge":
        return Objective(space, [WorstCase(X, y, oracle, Binary(), weights)])
    return Objective(space, [WorstMargin(X, y, oracle, LOSSES[loss], weights)])


def state_of(problem):
    return dual_state(problem.terms[0], problem.space, np.random.default_rng(0))
