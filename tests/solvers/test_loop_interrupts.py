"""Ctrl-C in fits: the model so far is stored, and the handler comes back."""

import signal
import threading
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    LapSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.oracles import Box, FiniteOracle, Support
from structinv.oracles.base import InvarianceOracle
from structinv.solvers import (
    REGISTRY,
    FrankWolfe,
    Iterations,
    Status,
    solve,
)
from structinv.solvers.loop import interrupts
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from ..covering import pairs


def rows(n=60, d=8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.standard_normal((n, d)) + 0.5 * y[:, None], y


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


class Pressing(InvarianceOracle):
    """`Box` with a user who presses Ctrl-C when it is asked for the n-th time, and each time after."""

    asked = 0

    def __init__(self, radius=0.1, turn=0, times=1):
        self.radius = radius
        self.turn = turn
        self.times = times

    def support(self, X, V, assign, cost=None):
        Pressing.asked += 1
        if self.turn and self.turn <= Pressing.asked < self.turn + self.times:
            press_ctrl_c()
        return Support(X + self.radius * np.sign(V)[assign])


class PressingTwins(FiniteOracle):
    """Two members a row, and Ctrl-C when they are listed for the n-th time."""

    asked = 0

    def __init__(self, turn=0):
        self.turn = turn

    def orbit(self, X):
        PressingTwins.asked += 1
        if PressingTwins.asked == self.turn:
            press_ctrl_c()
        return np.stack([X, 1.01 * X], axis=1)


@pytest.fixture(autouse=True)
def nobody_asked_yet():
    Pressing.asked = PressingTwins.asked = 0


def is_fitted(model):
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


SHARED = {"C": 10.0, "tol": 1e-9, "random_state": 0}


@cache
def unbroken():
    """A run that nobody breaks off."""
    return InvariantLinearSVC(Box(0.1), **{**SHARED, "tol": 1e-5}).fit(*rows()).solution_


@pytest.mark.parametrize(("solver", "turn", "times"), pairs(sorted(REGISTRY), [1, 2, 3, 5, 8], [1, 50]))
def test_an_interrupted_fit_stores_the_model_and_raises(solver, turn, times):
    X, y = rows()
    model = InvariantLinearSVC(Pressing(0.1, turn, times), solver=solver, **SHARED)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_fitted(model):
        assert model.solution_.status is Status.INTERRUPTED
        assert model.predict(X).shape == y.shape
        assert model.solution_.dual <= unbroken().primal
        assert unbroken().dual <= model.solution_.primal
    else:
        assert turn <= 2
        assert not [name for name in vars(model) if name.endswith("_")]


def test_an_early_ctrl_c_leaves_the_earlier_model():
    X, y = rows()
    model = InvariantLinearSVC(Box(0.1), random_state=0).fit(X, y)
    before = dict(vars(model))

    class Hasty(Box):
        def bind(self, X, y=None):
            press_ctrl_c()
            return super().bind(X, y)

    model.set_params(oracle=Hasty(0.1), on_interrupt="return")
    with pytest.raises(KeyboardInterrupt):
        model.fit(2 * X, y)
    assert {name: value for name, value in vars(model).items() if name.endswith("_")} == {
        name: value for name, value in before.items() if name.endswith("_")
    }


def test_ctrl_c_during_storage_leaves_a_complete_model(monkeypatch):
    X, y = rows()
    keep = InvariantLinearSVC._keep

    def pressed(self, *args):
        press_ctrl_c()
        keep(self, *args)

    monkeypatch.setattr(InvariantLinearSVC, "_keep", pressed)
    model = InvariantLinearSVC(Box(0.1), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.solution_.status is Status.CONVERGED
    assert model.predict(X).shape == y.shape
    assert clone(model).set_params(on_interrupt="return").fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("times", [1, 3])
def test_interrupted_fits_may_return_with_a_warning(times):
    X, y = rows()
    model = InvariantLinearSVC(Pressing(0.1, 6, times), **SHARED, on_interrupt="return")
    with pytest.warns(ConvergenceWarning, match="'interrupted'.*to continue, if both fits have warm"):
        assert model.fit(X, y) is model
    assert model.solution_.status is Status.INTERRUPTED


def test_a_search_stops():
    X, y = rows()
    model = InvariantLinearSVC(Pressing(0.1, 40), tol=1e-9, random_state=0)
    search = GridSearchCV(model, {"C": [1.0, 2.0, 3.0]}, cv=3, error_score="raise")
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    # Not a single row was asked about after it, but those of the fit's own certificate.
    assert Pressing.asked <= 42
    assert not hasattr(search, "best_params_")


def interrupting_after(n):
    """Acts like a user who presses Ctrl-C after the n-th check of a run."""
    count = [0]

    def bounds(self, objective, state, original):
        count[0] += 1
        if count[0] == n:
            press_ctrl_c()
        return original(self, objective, state)

    return bounds


@pytest.mark.parametrize(
    "model",
    [
        InvariantSVC(tol=1e-12, C=100.0, random_state=0),
        RepresenterClassifier(solver="frank_wolfe", loss="hinge", tol=1e-12, C=100.0, random_state=0),
        RepresenterRegressor(bias=False, solver="frank_wolfe", tol=1e-12, C=100.0, random_state=0),
        LapSVC(solver="frank_wolfe", tol=1e-12, C=100.0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_all_estimators_store_the_model_so_far(model, monkeypatch):
    X, y = rows()
    original, pressed = FrankWolfe.bounds, interrupting_after(2)
    monkeypatch.setattr(FrankWolfe, "bounds", lambda *args: pressed(*args, original))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.solution_.status is Status.INTERRUPTED
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("kind", [VirtualSVC, VirtualSupportVectorSVC])
def test_an_interrupted_virtual_fit_leaves_the_earlier_model(kind):
    X, y = rows()
    model = kind(PressingTwins(), on_interrupt="return").fit(X, y)
    before = model.svc_
    PressingTwins.asked = 0
    with pytest.raises(KeyboardInterrupt):
        model.set_params(oracle=PressingTwins(turn=1)).fit(X, y)
    assert model.svc_ is before


def box_problem(oracle):
    X, y = rows()
    return Objective(ExplicitSpace(X.shape[1]), [WorstCase(X, y, oracle, Binary(), 10.0)])


def test_ctrl_c_in_the_final_check_keeps_the_bounds_of_the_check_before():
    def run(oracle, passes):
        stop = Iterations(passes)
        return solve(box_problem(oracle), FrankWolfe(), stop, random_state=0, check_always=True)

    before = run(Pressing(), 2)
    Pressing.asked = 0
    run(Pressing(), 3)
    last = Pressing.asked
    Pressing.asked = 0
    # The first ends the check, the second the certificate that follows.
    solution = run(Pressing(0.1, last, times=2), 3)
    assert Pressing.asked == last + 1
    assert solution.status is Status.INTERRUPTED
    assert solution.primal == before.primal
    assert solution.dual >= before.dual
    np.testing.assert_array_equal(solution.f, before.f)


def test_a_deferred_ctrl_c_is_recorded_and_the_handler_restored():
    with interrupts() as outer:
        with interrupts() as inner:
            assert inner is outer
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
        press_ctrl_c()
        assert outer.pressed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_custom_handler_is_unchanged():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        X, y = rows()
        InvariantLinearSVC(Pressing(0.1, 5), random_state=0).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]


def test_a_fit_in_another_thread_installs_nothing():
    X, y = rows()
    seen = []

    class Looking(Box):
        def bind(self, X, y=None):
            seen.append(signal.getsignal(signal.SIGINT))
            return super().bind(X, y)

    thread = threading.Thread(target=lambda: InvariantLinearSVC(Looking(0.1)).fit(X, y))
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
