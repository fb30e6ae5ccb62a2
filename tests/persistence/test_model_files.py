"""Models in files: what comes back, and what stays when a write fails."""

import json
import pickle
import sys
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    StandardScaler,
)

import structinv
from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
)
from structinv.embeddings import REGISTRY as EMBEDDINGS
from structinv.estimators import REGISTRY as ESTIMATORS
from structinv.estimators.tokens import TokenVectorizer
from structinv.kernels import CallableKernel
from structinv.oracles import Box, FDrop, Identity, Shifts
from structinv.persistence.model_files import model_bytes
from structinv.solvers import Status

from ..estimators.cases import argmax, cost, joint_feature
from .cases import (
    MODELS,
    Own,
    assert_answers_are_the_same,
    assert_same,
    counts,
    fitted,
    overlap,
    signals,
    through_file,
)

pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


def test_every_public_estimator_has_a_model():
    wanted = {*ESTIMATORS.values(), *EMBEDDINGS.values(), TokenVectorizer}
    assert wanted <= {type(model) for model, _ in MODELS.values()}


class TestFittedEstimators:
    @pytest.mark.filterwarnings("ignore:the file contains")
    @pytest.mark.parametrize("name", MODELS)
    def test_models_in_files_and_pickles_are_the_same(self, tmp_path, name):
        model, data = MODELS[name]
        model = fitted(clone(model), data)
        functions = (argmax, cost, joint_feature) if name == "custom" else ()
        for again in (through_file(model, tmp_path, functions), pickle.loads(pickle.dumps(model))):
            assert type(again) is type(model)
            if name == "kernel, folded":
                # What it has solved moves the last bit of what it solves next.
                model.kernel_._made = None
            if name == "kernel, precomputed":
                assert_same(model.decision_function(data[0]), again.decision_function(data[0]))
            else:
                assert_answers_are_the_same(model, again, data[0][1:])
            assert_same(clone(model).get_params(), clone(again).get_params())
            learned = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
            assert learned <= set(vars(again))
            for key in learned - {"solution_", "calibrated_classifiers_"}:
                assert_same(getattr(model, key), getattr(again, key))

    @pytest.mark.parametrize("name", ["linear", "kernel", "laplacian"])
    def test_of_the_solution_numbers_and_history_stay(self, tmp_path, name):
        model, data = MODELS[name]
        model = fitted(clone(model), data)
        again = through_file(model, tmp_path)
        for key in ("primal", "dual", "gap", "relative_gap", "status", "history", "iterations"):
            assert_same(getattr(model.solution_, key), getattr(again.solution_, key))
        assert again.solution_.status is model.solution_.status
        assert again.solution_.dual_variables == []
        if name == "linear":
            assert_same(model.solution_.f, again.solution_.f)
        else:
            assert again.solution_.f is None

    @pytest.mark.parametrize("status", Status)
    def test_a_status_stays_the_same_member(self, status):
        content = skops.io.dumps(status)
        types = skops.io.get_untrusted_types(data=content)
        assert skops.io.loads(content, trusted=types) is pickle.loads(pickle.dumps(status)) is status

    def test_a_linear_file_holds_no_rows(self, tmp_path):
        X, y = counts(400, 12)
        sizes = []
        for n in (40, 400):
            model = fitted(InvariantLinearSVC(FDrop(1), C=0.01, max_seconds=60), (X[:n], y[:n]))
            model.solution_.history.clear()
            sizes.append(len(model_bytes(model)[0]))
        assert abs(sizes[1] - sizes[0]) < 100

    def test_feature_names_and_unusual_labels(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        X, y = signals()
        table = pandas.DataFrame(X, columns=[f"column {k}" for k in range(X.shape[1])])
        model = fitted(InvariantLinearSVC(tol=1e-2), (table, y.astype(object)))
        again = through_file(model, tmp_path)
        assert_same(model.feature_names_in_, again.feature_names_in_)
        assert_same(model.predict(table), again.predict(table))
        assert again.predict(table).dtype == object

    def test_an_unfitted_estimator_stays_unfitted(self, tmp_path):
        again = through_file(InvariantSVC(Shifts(1) | Identity(), C=3.0), tmp_path)
        assert repr(again) == repr(InvariantSVC(Shifts(1) | Identity(), C=3.0))
        with pytest.raises(NotFittedError):
            again.predict([[0.0]])

    def test_a_loaded_model_can_be_fitted_and_saved_again(self, tmp_path):
        model, data = MODELS["linear"]
        model = fitted(clone(model), data)
        again = through_file(model, tmp_path)
        assert_same(fitted(again, data).coef_, model.coef_)
        assert_answers_are_the_same(model, through_file(again, tmp_path), data[0])


class TestInsideScikitLearn:
    def test_a_long_vocabulary_is_cheap(self):
        texts = [" ".join(f"word{k}" for k in range(3000))]
        words = CountVectorizer().fit(texts)
        assert len(model_bytes(words)[0]) < 30_000

    def test_many_words_with_fractions_keep_them(self, tmp_path):
        weights = {f"word {number}": number / 8 for number in range(20)}
        structinv.save(InvariantLinearSVC(class_weight=weights), tmp_path / "model")
        assert structinv.load(tmp_path / "model").class_weight == weights

    def test_equal_sets_give_equal_files(self):
        # Both have the same place in the table of a set, which has them in order of insertion.
        one, other = {0, 8}, {8, 0}
        assert list(one) != list(other)
        files = [model_bytes(FunctionTransformer(kw_args={"kept": each}))[0] for each in (one, other)]
        assert files[0] == files[1]

    def test_grid_search(self, tmp_path):
        pipeline = make_pipeline(StandardScaler(), InvariantLinearSVC(Box(0.1), tol=1e-2))
        grid = {"invariantlinearsvc__oracle": [Identity(), Box(0.1)], "invariantlinearsvc__C": [0.1, 1]}
        for options in ({}, {"scoring": "balanced_accuracy", "cv": StratifiedKFold(3)}):
            search = GridSearchCV(pipeline, grid, **options)
            model = search.fit(*signals())
            again = through_file(model, tmp_path)
            assert_answers_are_the_same(model, again, signals()[0])
            assert repr(again.best_params_) == repr(model.best_params_)
            assert again.score(*signals()) == model.score(*signals())
            column = "param_invariantlinearsvc__oracle"
            assert repr(again.cv_results_[column]) == repr(model.cv_results_[column])

    def test_shared_objects_stay_shared_and_the_model_is_unchanged(self, tmp_path):
        oracle = Box(0.1)
        pipeline = make_pipeline(InvariantLinearSVC(oracle), InvariantLinearSVC(oracle))
        again = through_file(pipeline, tmp_path)
        assert again[0].oracle is again[1].oracle
        assert pipeline[0].oracle is oracle


class TestOwnClasses:
    NAME = f"{Own.__module__}.Own"

    def test_are_loaded_only_if_named(self, tmp_path):
        model = fitted(InvariantLinearSVC(Own(Box(0.2), size=3.0)), signals())
        structinv.save(model, tmp_path / "m")
        with pytest.raises(ValueError, match="is refused") as caught:
            structinv.load(tmp_path / "m")
        assert f"trusted=[{self.NAME!r}]" in str(caught.value)
        for trusted in ([self.NAME], [Own], (name for name in [self.NAME])):
            again = structinv.load(tmp_path / "m", trusted=trusted)
            assert type(again.oracle) is Own
            assert repr(again.oracle) == repr(model.oracle)
            assert_answers_are_the_same(model, again, signals()[0])

    def test_functions_go_by_name_too(self, tmp_path):
        for kernel in (overlap, CallableKernel(overlap)):
            model = fitted(InvariantSVC(kernel=kernel), (np.abs(signals()[0]), signals()[1]))
            structinv.save(model, tmp_path / "m")
            with pytest.raises(ValueError, match=r"overlap"):
                structinv.load(tmp_path / "m")
            again = structinv.load(tmp_path / "m", trusted=[f"{overlap.__module__}.overlap"])
            assert_answers_are_the_same(model, again, np.abs(signals()[0]))

    def test_objects_without_an_importable_name_are_refused(self, tmp_path):
        class Local(Own):
            pass

        (tmp_path / "m").write_bytes(b"old")
        nameless = (
            InvariantSVC(kernel=lambda X, Y: X @ Y.T),
            InvariantLinearSVC(Local()),
            make_pipeline(InvariantLinearSVC(Box(1.0) | Local())),
        )
        for model in nameless:
            with pytest.raises(TypeError, match="does not restore .*(lambda|Local)"):
                structinv.save(model, tmp_path / "m")
        assert (tmp_path / "m").read_bytes() == b"old"

    def test_main_is_warned_of_and_explained(self, tmp_path, monkeypatch):
        mine = type("Mine", (Box,), {"__module__": "__main__", "__doc__": "Of a script."})
        with monkeypatch.context() as script:
            script.setattr(sys.modules["__main__"], "Mine", mine, raising=False)
            with pytest.warns(UserWarning, match="Mine, .* move what is defined in __main__"):
                structinv.save(InvariantLinearSVC(mine(0.5)), tmp_path / "m")
            again = structinv.load(tmp_path / "m", trusted=["__main__.Mine"])
            assert type(again.oracle) is mine
        with pytest.raises(ValueError, match=r"Mine.*define it in this program first"):
            structinv.load(tmp_path / "m", trusted=["__main__.Mine"])


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        structinv.save(fitted(InvariantLinearSVC(Box(0.1), tol=0.1), signals()), tmp_path / "m")
        return tmp_path / "m"

    def test_libraries_are_in_the_file(self, path):
        page = json.loads(zipfile.ZipFile(path).read("structinv.json"))
        assert page["libraries"]["structinv"] == structinv.__version__
        assert page["libraries"]["numpy"] == np.__version__
        assert {"scipy", "scikit-learn", "numba", "python"} <= set(page["libraries"])

    def test_arguments_of_the_wrong_type(self, path):
        model = InvariantLinearSVC()
        for wrong in (path, InvariantLinearSVC):
            with pytest.raises(TypeError, match="model must be an estimator"):
                structinv.save(wrong, path)
        with pytest.raises(TypeError, match="path must be"):
            structinv.save(model, 3)
        with pytest.raises(TypeError, match="path must be"):
            structinv.load(None)
        for trusted in ("a.B", Own, 3):
            with pytest.raises(TypeError, match="trusted must be"):
                structinv.load(path, trusted=trusted)
        with pytest.raises(TypeError, match="trusted must contain"):
            structinv.load(path, trusted=[3])

    def test_places_that_cannot_be_read_or_written(self, path, monkeypatch):
        for ask in (structinv.load, lambda path: structinv.save(InvariantLinearSVC(), path)):
            with pytest.raises(FileNotFoundError, match="nowhere"):
                ask(path.parent / "nowhere" / "m")
        with pytest.raises(IsADirectoryError):
            structinv.save(InvariantLinearSVC(), path.parent)
        content = path.read_bytes()
        monkeypatch.setattr("os.access", lambda *_: False)
        with pytest.raises(PermissionError):
            structinv.save(InvariantLinearSVC(), path)
        assert path.read_bytes() == content
