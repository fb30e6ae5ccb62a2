"""Places where parts of the library meet, each of which went wrong once."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import structinv
from structinv import InvariantLinearSVC, InvariantSVC, UninformativeFitWarning
from structinv.datasets import make_mail_like
from structinv.objective import Objective, WorstCase
from structinv.oracles import (
    Box,
    FDrop,
    FiniteOracle,
    Identity,
    InvarianceOracle,
    Rotations,
    Shifts,
    Support,
)
from structinv.oracles.checked import bind
from structinv.outputs import Binary
from structinv.solvers import FrankWolfe, Gap, InteriorPoint, Seconds, Status, solve
from structinv.spaces import ExplicitSpace

REACH = {"size": 0.5, "calls": 0}


class Reaching(InvarianceOracle):
    """A box whose size is told elsewhere, as is the call in which somebody presses Ctrl-C."""

    def support(self, X, V, assign, reward=None):
        REACH["calls"] -= 1
        if REACH["calls"] == 0:
            raise KeyboardInterrupt
        return Support(X + REACH["size"] * np.sign(V[assign]))


class Reversal(FiniteOracle):
    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


def rows(n=60, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X @ rng.standard_normal(d) > 0).astype(int)


class TestGoingOn:
    def test_images_of_another_shape_are_other_images(self):
        rng = np.random.default_rng(0)
        X, y = rng.random((40, 36)), np.arange(40) % 2
        model = InvariantSVC(Shifts(1), C=0.3, warm_start=True, solver="bmrm", random_state=0)
        model.fit(X.reshape(40, 4, 9), y).fit(X.reshape(40, 9, 4), y)
        cold = clone(model).fit(X.reshape(40, 9, 4), y)
        assert model.solution_.dual <= cold.solution_.primal

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("solver", ["bmrm", "svmstruct", "interior_point"])
    def test_a_checkpoint_does_not_trust_a_strangers_oracle(self, tmp_path, monkeypatch, solver):
        X, y = np.random.default_rng(0).standard_normal((150, 8)), np.arange(150) % 2
        shared = {"solver": solver, "random_state": 0, "fit_intercept": False}
        path = tmp_path / "fit.npz"
        monkeypatch.setitem(REACH, "size", 0.5)
        monkeypatch.setitem(REACH, "calls", 12)
        with pytest.raises(KeyboardInterrupt):
            InvariantLinearSVC(Reaching(), checkpoint=path, **shared).fit(X, y)
        assert path.exists()
        monkeypatch.setitem(REACH, "size", 0.1)
        truth = InvariantLinearSVC(Reaching(), **shared).fit(X, y)
        resumed = InvariantLinearSVC(Reaching(), checkpoint=path, **shared).fit(X, y)
        assert resumed.solution_.dual <= truth.solution_.primal * (1 + 1e-9)

    def test_planes_of_sparse_hulls_start_lists_of_dense_rows(self):
        X, y = rows()
        model = InvariantLinearSVC(FDrop(1), solver="frank_wolfe", warm_start=True, random_state=0)
        model.fit(X, y).set_params(oracle=Reversal()).fit(X, y)
        cold = clone(model).fit(X, y)
        assert model.solution_.dual <= cold.solution_.primal
        assert cold.solution_.dual <= model.solution_.primal

    def test_nothing_at_once_is_not_within_epsilon(self):
        X, y = rows()
        problem = Objective(ExplicitSpace(12), [WorstCase(X, y, Identity(), Binary(), 30.0)])
        solution = solve(problem, FrankWolfe(epsilon=1e-9), Gap(1e-6), random_state=0)
        assert solution.status is Status.CONVERGED

    def test_no_model_without_planes_goes_on_from_them(self, tmp_path):
        X, y = make_mail_like(100, 100, random_state=0)
        model = InvariantLinearSVC(FDrop(1), solver="pegasos", tol=0.1, random_state=0).fit(X, y)
        structinv.save(model, tmp_path / "model")
        with pytest.raises(ValueError, match="planes=True"):
            structinv.load(tmp_path / "model").partial_fit(X, y)


class TestFiles:
    def test_a_stream_goes_on_from_a_file(self, tmp_path):
        X, y = make_mail_like(100, 100, random_state=0)
        model = InvariantLinearSVC(FDrop(1), solver="pegasos", random_state=0)
        model.partial_fit(X[:50], y[:50], classes=np.unique(y))
        structinv.save(model, tmp_path / "model")
        again = structinv.load(tmp_path / "model")
        model.partial_fit(X[50:], y[50:])
        again.partial_fit(X[50:], y[50:])
        np.testing.assert_array_equal(again.coef_, model.coef_)

    def test_planes_of_members_are_stored_with_their_points(self, tmp_path):
        rng = np.random.default_rng(0)
        X, y = rng.random((30, 9)), np.arange(30) % 3
        model = InvariantLinearSVC(Shifts(1), C=0.1, warm_start=True, random_state=0).fit(X, y)
        structinv.save(model, tmp_path / "model", planes=True)
        again = structinv.load(tmp_path / "model")
        assert again.fit(X, y).n_iter_ == 0

    def test_a_path_among_parameters_is_a_string(self, tmp_path):
        X, y = rows()
        model = InvariantLinearSVC(checkpoint=tmp_path / "fit.npz", random_state=0).fit(X, y)
        structinv.save(model, tmp_path / "model")
        assert structinv.load(tmp_path / "model").checkpoint == str(tmp_path / "fit.npz")


class TestTime:
    def test_the_interior_point_stops_between_its_steps(self):
        rng = np.random.default_rng(0)
        X, y = 100 * rng.random((80, 10)), np.arange(80) % 2
        problem = Objective(ExplicitSpace(10), [WorstCase(X, y, Box(0.1), Binary(), 1.0)])
        asked = []

        class Hurried(InteriorPoint):
            def step(self, objective, state):
                # From now on time is up.
                objective.hurried = lambda: asked.append(True) or True
                return super().step(objective, state)

        solution = solve(problem, Hurried(), Gap(0) | Seconds(1e-3), random_state=0)
        assert asked
        assert solution.status is Status.TIME_LIMIT
        assert solution.dual <= solution.primal

    def test_small_fits_of_an_estimate_leave_checkpoints_alone(self, tmp_path):
        X, y = rows(200)
        path = tmp_path / "fit.npz"
        model = InvariantLinearSVC(FDrop(1), checkpoint=path, max_seconds=1e-3, random_state=0)
        assert 0.0 < model.estimate_seconds(X, y) <= 1e-3
        assert not path.exists()


class TestCertificates:
    @pytest.mark.parametrize("outlier", [1e2, 1e4, 1e8])
    def test_what_a_walk_may_hide_is_allowed_for(self, outlier):
        """A shift by 3 turns the row by less than what rounding of the outlier hides."""
        image, weights = np.zeros((4, 8)), np.zeros((4, 8))
        image[3, 2], image[0, 0] = 1.0, outlier
        weights[3, 3], weights[3, 5] = 1.0, 1.0 + 3.6e-15 * outlier
        oracle = Shifts(between=(0.0, 4.0), shape=(4, 8))
        answer = oracle.support(image.reshape(1, -1), weights.reshape(1, -1), np.array([0]))
        moved = np.zeros((4, 8))
        moved[:, 3:] = image[:, :-3]
        assert oracle.contains(image.ravel(), moved.ravel())
        reached = answer.points[0] @ weights.ravel() if answer.upper is None else answer.upper[0]
        assert moved.ravel() @ weights.ravel() <= reached

    def test_rows_in_single_precision_are_rounded_themselves(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((200, 64)), np.arange(200) % 2
        model = InvariantLinearSVC(Box(0.1), C=0.01, random_state=0).fit(X, y)
        few = X[:50].astype(np.float32)
        margins = model.certify(few, y[:50]).margins
        signs = np.where(y[:50] == 1, 1.0, -1.0)
        score = few.astype(np.float64) @ model.coef_[0] + model.intercept_[0]
        worst = signs * score - 0.1 * np.abs(model.coef_[0]).sum()
        assert np.all(margins <= worst)

    def test_exact_rows_of_continuous_images_exist(self):
        rng = np.random.default_rng(0)
        X, y = rng.random((30, 64)), np.arange(30) % 2
        model = InvariantLinearSVC(C=0.1, random_state=0).fit(X, y)
        assert np.all(model.certify(X, y, oracle=Rotations(between=(-10, 10))).exact)


class TestStrangers:
    def test_an_oracle_that_changes_its_rows_is_named(self):
        class Careless(FiniteOracle):
            def orbit(self, X):
                X[:, 0] = 7.0
                return np.stack([X, X[:, ::-1]], axis=1)

        X, y = rows()
        with pytest.raises(ValueError, match=r"Careless\.\w+ must not change its input X"):
            InvariantLinearSVC(Careless()).fit(X, y)

    def test_labels_left_alone_do_not_write_into_what_an_oracle_keeps(self):
        class Keeping(FiniteOracle):
            kept = np.array([[[0.0], [1.0]], [[5.0], [6.0]]])

            def orbit(self, X):
                return self.kept

        X, y = np.array([[0.0], [5.0]]), np.array([0, 1])
        one, other = Keeping().only_for([0]), Keeping().only_for([1])
        cover = bind(one | other, X, y).cover(slice(None)).points
        np.testing.assert_array_equal(cover[:, :, 0], [[0, 1, 0], [5, 5, 6]])

    def test_members_of_sparse_unions(self):
        X = sp.csr_matrix(np.eye(4))
        found = bind(Identity() | Identity(), X, None).members(slice(None), np.zeros(4, int))
        np.testing.assert_array_equal(found, np.eye(4))

    def test_functions_of_others_without_a_module_compile(self):
        names = {}
        exec("def add_one(x):\n    return x + 1", names)
        assert numba.njit(names["add_one"])(1) == 2


def test_a_constant_model_is_told_of_however_small_the_weight():
    X, y = make_mail_like(random_state=0)
    with pytest.warns(UninformativeFitWarning):
        InvariantLinearSVC(FDrop(10), C=1e-6, random_state=0).fit(X, y)
