"""SVC on virtual samples against SVC on rows stacked by hand."""

import os
import signal
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.svm import SVC

from structinv.estimators.virtual import VirtualSupportVectorSVC, VirtualSVC
from structinv.kernels import Gaussian, Matern, Polynomial
from structinv.oracles import Box, FDrop, FiniteOracle, InvarianceOracle, OnlyFor

from ..platforms import posix_only
from .cases import Reversal

MACHINES = [VirtualSVC, VirtualSupportVectorSVC]
every_machine = pytest.mark.parametrize("machine", MACHINES)


class SmallSteps(FiniteOracle):
    """A step up or down in the first feature, so small that labels stay learnable."""

    def orbit(self, X):
        step = np.zeros(X.shape[1], dtype=X.dtype)
        step[0] = 1e-3
        return np.stack([X, X + step, X - step], axis=1)


class Far(FiniteOracle):
    """A large step, which changes the spread of the entries."""

    def orbit(self, X):
        return np.stack([X, X + 3], axis=1)


class Mute(InvarianceOracle):
    """Tells its furthest member and no other."""

    def support(self, X, V, assign, cost=None):
        return FDrop(1).support(X, V, assign, cost)


def signals(n=80, d=6, n_classes=2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    centers = rng.normal(size=(n_classes, d))
    X = (centers[codes] + rng.normal(size=(n, d))).astype(dtype)
    return X, np.array(["noise", "voice", "wind"])[codes]


def assert_same_machine(found, expected, X):
    np.testing.assert_array_equal(found.svc_.support_, expected.support_)
    assert abs(found.svc_.dual_coef_ - expected.dual_coef_).max() < 1e-9
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), rtol=1e-9)
    assert np.array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("sparse", [False, True])
def test_without_an_oracle_it_is_svc(n_classes, kernel, sparse):
    X, y = signals(n_classes=n_classes)
    X = sp.csr_matrix(np.where(X > 0, X, 0)) if sparse else X
    shared = {"kernel": kernel, "C": 0.7, "degree": 2, "coef0": 0.5}
    found, expected = VirtualSVC(**shared).fit(X, y), SVC(**shared).fit(X, y)
    assert_same_machine(found, expected, X)
    assert np.array_equal(found.classes_, expected.classes_)
    assert np.array_equal(found.support_, expected.support_)
    difference = found.support_vectors_ != expected.support_vectors_
    assert (difference.nnz if sparse else np.sum(difference)) == 0
    assert not np.any(found.support_members_)
    assert found.n_virtual_ == len(y)


@every_machine
@pytest.mark.parametrize(
    ("oracle", "weighted", "gamma", "n_classes"),
    [(oracle, *each) for oracle in (None, Reversal(), Far(), Reversal().only_for("voice"))
     for each in ((False, "scale", 2), (True, "scale", 3))]
    + [(Far(), False, "auto", 3), (Far(), True, 0.2, 2), (None, True, 0.2, 2)],
)  # fmt: skip
def test_it_is_svc_on_stacked_rows(machine, oracle, weighted, gamma, n_classes):
    """The second of two machines sees the members of the first one's support vectors."""
    X, y = signals(n_classes=n_classes)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else None
    # gamma="scale" looks at the rows: reversals have the same spread, but large steps have not.
    width = {"scale": 1 / (6 * X.var()), "auto": 1 / 6}.get(gamma, gamma)
    model = machine(oracle, gamma=gamma, C=0.5).fit(X, y, weights)
    plain = SVC(C=0.5, gamma=width).fit(X, y, weights)
    chosen = np.arange(len(X))
    if machine is VirtualSupportVectorSVC:
        chosen = np.sort(plain.support_)
        assert len(chosen) < len(X)
        assert np.array_equal(np.sort(model.svc_plain_.support_), chosen)
        if gamma == width:
            assert np.array_equal(model.svc_plain_.dual_coef_, plain.dual_coef_)
    orbits = (Far() if isinstance(oracle, Far) else Reversal()).orbit(X)
    sizes = np.full(len(X), 1 if oracle is None else 2)
    if isinstance(oracle, OnlyFor):
        sizes[y != "voice"] = 1
    rows, members = np.array([(i, m) for i in chosen for m in range(sizes[i])]).T
    own = None if weights is None else weights[rows]
    expected = SVC(C=0.5, gamma=width).fit(orbits[rows, members], y[rows], own)
    assert_same_machine(model, expected, X)
    assert np.array_equal(model.support_, rows[expected.support_])
    assert np.array_equal(model.support_members_, members[expected.support_])
    assert model.n_virtual_ == len(rows)


@every_machine
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_support_vectors_are_members_of_orbits(machine, dtype):
    X, y = signals(n_classes=3, dtype=dtype)
    model = machine(Reversal() | SmallSteps()).fit(X, y)
    orbits = (Reversal() | SmallSteps()).orbit(X)
    rebuilt = orbits[model.support_, model.support_members_]
    assert model.support_vectors_.dtype == dtype
    assert np.array_equal(model.support_vectors_, rebuilt)
    assert np.array_equal(model.svc_.support_vectors_, rebuilt)
    assert len(np.unique(np.c_[model.support_, model.support_members_], axis=0)) == len(rebuilt)
    assert set(model.support_members_) == {0, 1, 2, 3}


def test_repeated_members_count_once_and_repeated_rows_twice():
    X, y = signals(20)
    X[3] = (X[3] + X[3, ::-1]) / 2  # its own reversal
    X[5] = X[7]
    model = VirtualSVC(Reversal() | Reversal()).fit(X, y)
    assert model.n_virtual_ == 2 * 20 - 1
    assert set(model.support_members_) <= {0, 1}


@every_machine
def test_members_are_drawn_where_they_cannot_be_listed(machine):
    X, y = signals()
    oracle = Box(0.25)
    model = machine(oracle, n_draws=4, random_state=3).fit(X, y)
    chosen = len(X) if machine is VirtualSVC else len(model.svc_plain_.support_)
    assert model.n_virtual_ == 5 * chosen
    itself = model.support_members_ == 0
    assert 0 < np.count_nonzero(itself) < len(itself)
    assert np.array_equal(model.support_vectors_[itself], X[model.support_[itself]])
    moves = model.support_vectors_[~itself] - X[model.support_[~itself]]
    assert 0.2 < np.max(np.abs(moves)) <= 0.25
    again = clone(model).fit(X, y)
    assert np.array_equal(again.support_vectors_, model.support_vectors_)
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert not np.array_equal(other.support_vectors_, model.support_vectors_)


@every_machine
@pytest.mark.parametrize(
    ("oracle", "sparse"), [(None, False), (None, True), (Reversal(), False)], ids=str
)
def test_rows_without_weight_are_left_out(machine, oracle, sparse):
    X, y = signals(n_classes=3)
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    heavy = np.flatnonzero(weights)
    rows = sp.csr_matrix(X) if sparse else X
    model = machine(oracle, gamma=0.1)
    found = clone(model).fit(rows, y, sample_weight=weights)
    expected = clone(model).fit(rows[heavy], y[heavy], weights[heavy])
    assert_same_machine(found, expected.svc_, rows)
    assert np.array_equal(found.support_, heavy[expected.support_])
    members = Reversal().orbit(X)[found.support_, found.support_members_]
    vectors = found.support_vectors_.toarray() if sparse else found.support_vectors_
    assert np.array_equal(vectors, members)
    with pytest.raises(ValueError, match="(?i)sample.weight"):
        model.fit(rows, y, sample_weight=np.zeros(len(y)))


@every_machine
def test_kernels_may_be_objects_and_functions(machine):
    X, y = signals()

    def scores(**params):
        return machine(Reversal(), tol=1e-8, **params).fit(X, y).decision_function(X)

    for same, named in (
        ({"kernel": Gaussian(2.0)}, {"kernel": "rbf", "gamma": 1 / 8}),
        ({"kernel": Polynomial(2, 1.0, 0.3)}, {"kernel": "poly", "gamma": 0.3, "degree": 2}),
        ({"kernel": laplacian_kernel}, {"kernel": "laplacian", "gamma": "auto"}),
    ):
        np.testing.assert_allclose(scores(**same), scores(**named), atol=1e-6)
    model = machine(Reversal(), kernel=Matern(2.0)).fit(X, y)
    assert np.array_equal(
        model.support_vectors_, Reversal().orbit(X)[model.support_, model.support_members_]
    )
    model.set_params(kernel__nu=0.5)
    assert not np.allclose(clone(model).fit(X, y).decision_function(X), model.decision_function(X))


@every_machine
@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"oracle": Mute()}, TypeError, "must be finite or define the method sample, got Mute"),
        ({"oracle": Mute().only_for("voice")}, TypeError, "OnlyFor: Mute does not define"),
        ({"kernel": "precomputed"}, ValueError, "kernel must not be 'precomputed'"),
        ({"class_weight": "even"}, ValueError, "class_weight.*balanced"),
        ({"class_weight": {"voice": -1.0}}, ValueError, "class_weight must be non-negative"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_parameters_are_errors_by_name(machine, params, error, message, monkeypatch):
    monkeypatch.setattr(SVC, "fit", lambda *args: pytest.fail("work has started"))
    X, y = signals()
    model = machine(**params)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert not hasattr(model, "svc_")
    assert not hasattr(model, "classes_")


@every_machine
def test_sparse_rows_are_refused_where_members_are_dense(machine):
    X, y = signals()
    rows = sp.csr_matrix(X)
    with pytest.raises(TypeError, match="X must be a dense array with the oracle FDrop"):
        machine(FDrop(1)).fit(rows, y)
    with pytest.raises(TypeError, match="kernel .*Gaussian.* does not support sparse rows"):
        machine(kernel=Gaussian()).fit(rows, y)
    dense = machine(tol=1e-8).fit(X, y).decision_function(X)
    np.testing.assert_allclose(machine(tol=1e-8).fit(rows, y).decision_function(rows), dense, atol=1e-6)


@every_machine
def test_wrong_data_are_errors_and_leave_the_old_model(machine):
    X, y = signals()
    model = machine(Reversal()).fit(X, y)
    before = model.decision_function(X)
    message = "y must contain at least two classes among the samples with a weight above 0, got one"
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=(y == y[0]).astype(float))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        model.fit(X, y, sample_weight=-np.ones(len(X)))
    assert np.array_equal(model.decision_function(X), before)


@posix_only
def test_ctrl_c_does_not_wait_for_libsvm(monkeypatch):
    there, leave = [], threading.Event()

    def deaf(svc, *_):
        there.append(threading.current_thread())
        if there[-1] is not threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
            leave.wait(60)
        return svc

    monkeypatch.setattr(SVC, "fit", deaf)
    model = VirtualSVC(Reversal())
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.eye(4), [0, 1, 0, 1])
    (thread,) = there
    assert thread.is_alive()
    assert not hasattr(model, "classes_")
    leave.set()
    thread.join()


def test_errors_and_settings_pass_between_threads(monkeypatch):
    def failing(svc, *_):
        raise ValueError(f"assume_finite is {get_config()['assume_finite']}")

    monkeypatch.setattr(SVC, "fit", failing)
    with config_context(assume_finite=True), pytest.raises(ValueError, match="assume_finite is True"):
        VirtualSVC(Reversal()).fit(np.eye(4), [0, 1, 0, 1])
