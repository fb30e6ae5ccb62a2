"""Fits whose gap does not decrease end early, and the message names the scale of the columns."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC, InvariantSVC, InvariantSVR, RepresenterClassifier
from structinv.estimators.uninformative_fits import scale_of_columns
from structinv.oracles import Box, FDrop
from structinv.rows import SlicedRows
from structinv.solvers import BMRM, FrankWolfe, InteriorPoint, Pegasos, Status
from structinv.solvers.base import Record
from structinv.solvers.stopping import Progress, Stall

FAR = "The largest absolute value of X is 1e+06, in column {} with a standard deviation of"


def far_rows():
    """Rows whose distances are far below their lengths."""
    rng = np.random.default_rng(0)
    return 1e6 + rng.standard_normal((20, 5)), (rng.random(20) < 0.5).astype(int)


def progress_of(gaps, iterations):
    """The progress of a run with these gaps, checked at these iterations."""
    history = [Record(k, k, 0.1 * k, 1.0 + gap, 1.0) for k, gap in zip(iterations, gaps, strict=True)]
    return Progress(iterations[-1], iterations[-1], 1.0, gaps[-1], gaps[-1], history, True, lambda: None)


def end_of(gap_at, *, every=10, most=2000, **rule):
    """The iteration at which the rule ends a run, or None."""
    iterations = list(range(every, most + 1, every))
    gaps = [gap_at(k) for k in iterations]
    for number in range(1, len(iterations) + 1):
        progress = progress_of(gaps[:number], iterations[:number])
        if Stall(**rule).reason(progress) is Status.STALLED:
            return iterations[number - 1]
    return None


@pytest.mark.parametrize(
    ("gap_at", "end"),
    [
        (lambda k: 5.0, 100),
        (lambda k: 5.0 - 1e-6 * k, 100),
        (lambda k: max(5.0 - 0.1 * k, 1.0), 100),
        # The gap decreases until iteration 160, and is the same at 320.
        (lambda k: max(5.0 - 0.025 * k, 1.0), 320),
        # Slow runs end at the usual number of iterations.
        (lambda k: k**-0.05, 500),
        (lambda k: 5.0 - 1e-4 * k, 500),
        (lambda k: 1.0 / k, None),
        (lambda k: k**-0.2, None),
    ],
)
def test_a_gap_that_does_not_decrease_ends_a_run_before_a_slow_one(gap_at, end):
    assert end_of(gap_at, still_iterations=100) == end
    assert end_of(gap_at) == (None if end is None else 500)


def test_the_scale_of_rows_in_blocks_is_that_of_the_first_ones():
    X = far_rows()[0]
    text = scale_of_columns(SlicedRows(X), SimpleNamespace(status=Status.STALLED))
    assert "The largest absolute value of the first rows of X is 1e+06, in column" in text


def test_solvers_have_their_numbers_of_iterations():
    assert [each.still_iterations for each in (FrankWolfe, BMRM, InteriorPoint)] == [100, 100, 20]
    # The gap of a stochastic solver can be the same for hundreds of iterations.
    assert Pegasos.still_iterations == Pegasos.min_iterations == 500


@pytest.mark.parametrize(
    "model",
    [
        InvariantLinearSVC(solver="bmrm", random_state=0),
        InvariantLinearSVC(FDrop(1), solver="bmrm", random_state=0),
        InvariantLinearSVC(Box(1e3), solver="bmrm", random_state=0),
        InvariantSVC(kernel="poly", random_state=0),
        InvariantSVC(kernel="linear", random_state=0),
        InvariantSVR(kernel="poly", random_state=0),
        RepresenterClassifier(kernel="poly", random_state=0),
    ],
    ids=["bmrm", "bmrm, drop", "bmrm, box", "poly", "linear kernel", "regression", "representers"],
)
@pytest.mark.filterwarnings("ignore::structinv.utils.exceptions.UninformativeFitWarning")
def test_fits_far_from_the_origin_end_early_and_name_the_columns(model):
    X, y = far_rows()
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert model.solution_.status is Status.STALLED
    assert model.n_iter_ < 300
    (message,) = [str(each.message) for each in caught if each.category is ConvergenceWarning]
    column = int(np.argmax(X.max(axis=0)))
    assert FAR.format(column) in message
    assert message.endswith("scale the columns, for example by StandardScaler.")


def test_only_very_large_and_very_small_values_are_named():
    X, stalled = far_rows()[0] - 1e6, SimpleNamespace(status=Status.STALLED)
    assert scale_of_columns(X, stalled) == scale_of_columns(200.0 * X, stalled) == ""
    assert "The largest absolute value of X is 2.3e-06, in" in scale_of_columns(1e-6 * X, stalled)
    negative = np.where(np.arange(5) == 3, -1e9, X)
    text = "is 1e+09, in column 3 with a standard deviation of 0: scale the columns"
    assert text in scale_of_columns(negative, stalled)
    assert scale_of_columns(sp.csr_matrix(negative), stalled).endswith("by MaxAbsScaler.")
    assert scale_of_columns(negative, SimpleNamespace(status=Status.ORACLE_TOO_COARSE)) == ""
    assert scale_of_columns([negative], stalled) == ""


def test_kernel_matrices_have_no_columns_to_scale():
    X, y = far_rows()
    with pytest.warns(ConvergenceWarning) as caught:
        InvariantSVC(kernel="precomputed", max_seconds=0.5, random_state=0).fit((X @ X.T) ** 3, y)
    assert "absolute value" not in str(caught[0].message)


def test_a_slow_fit_that_converges_does_not_end_early():
    # After 100 iterations the gap hardly decreases for a while.
    X, y = load_breast_cancer(return_X_y=True)
    X = 30.0 * (X[:200] - X[:200].mean(axis=0)) / X[:200].std(axis=0)
    model = InvariantLinearSVC(solver="frank_wolfe", random_state=0).fit(X, y[:200])
    assert model.solution_.status is Status.CONVERGED
    assert model.n_iter_ > 200
