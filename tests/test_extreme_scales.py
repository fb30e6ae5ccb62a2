"""Numbers that are too large for the arithmetic: fits end soon, and say why once."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC
from structinv.oracles import Box, FDrop
from structinv.solvers import REGISTRY, InteriorPoint, Status

X = np.random.default_rng(0).poisson(1.0, (60, 12)).astype(float)
Y = (X[:, 0] > X[:, 1]).astype(int)
LINEAR_SOLVERS = ["auto", *(name for name in REGISTRY if name != "representer")]


# Of several classes compiled steps of "frank_wolfe" see no overflow: it stalls, and says that.
SOLVERS = [(name, 2) for name in LINEAR_SOLVERS]
SOLVERS += [(name, 3) for name in LINEAR_SOLVERS if name != "frank_wolfe"]


@pytest.mark.parametrize("oracle", [FDrop(2), Box(1.0)], ids=str)
@pytest.mark.parametrize(("solver", "n_classes"), SOLVERS)
def test_rows_whose_squares_overflow_end_with_one_warning_that_says_so(solver, oracle, n_classes):
    y = Y if n_classes == 2 else np.arange(60) % 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = InvariantLinearSVC(oracle, solver=solver, random_state=0).fit(1e200 * X, y)
    assert [each.category for each in caught] == [ConvergenceWarning]
    assert "'not finite'" in str(caught[0].message)
    assert model.solution_.status is Status.NOT_FINITE


def test_warnings_of_others_come_back_after_a_fit():
    before = np.geterr()
    with pytest.warns(ConvergenceWarning):
        InvariantLinearSVC(random_state=0).fit(1e200 * X, Y)
    assert np.geterr() == before


@pytest.mark.parametrize("C", [1e15, pytest.param(1e30, marks=pytest.mark.slow)])
def test_where_rounding_has_the_last_word_a_fit_gives_up_soon(C):
    with pytest.warns(ConvergenceWarning, match="'stalled'"):
        model = InvariantLinearSVC(FDrop(2), C=C, solver="interior_point", random_state=0).fit(X, Y)
    assert model.n_iter_ <= 2 * InteriorPoint.min_iterations < 500
