"""The command line: models of Python, and models of other data."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

import structinv
from structinv import InvariantLinearSVC, InvariantSVC, certify
from structinv.oracles import FDrop, Shifts

from ..commands import fail, rows_of, run, succeed, table_rows, texts_of


class TestModelsOfPython:
    """Files of `structinv.save` have no notes on reading."""

    def saved(self, folder, path, model, data="train.jsonl"):
        X, y = texts_of(folder / data) if data.endswith("jsonl") else rows_of(folder / data)
        structinv.save(model.fit(X, y), path)
        return path, model

    def test_all_commands_take_a_pipeline_of_texts(self, folder, tmp_path):
        pipeline = make_pipeline(CountVectorizer(), InvariantLinearSVC(FDrop(1), tol=0.1))
        path, model = self.saved(folder, tmp_path / "m", pipeline)
        X, _ = texts_of(folder / "test.jsonl")
        lines = succeed("predict", path, folder / "test.jsonl", "--certify").splitlines()
        assert [line.split("\t")[0] for line in lines] == model.predict(X).tolist()
        expected = certify(model, None, X).correct.tolist()
        assert [line.endswith("yes") for line in lines] == expected
        assert "input of the last step" in succeed("evaluate", path, folder / "test.jsonl")
        assert "Worst edit" in succeed("explain", path, folder / "test.jsonl", "--row", 0)
        succeed("report", path, folder / "test.jsonl", "-o", tmp_path / "report.html")
        line = fail("predict", path, folder / "test.svm")
        assert "MODEL takes texts, but" in line

    def test_estimators_of_scikit_learn_predict(self, folder, tmp_path):
        search = GridSearchCV(make_pipeline(TfidfVectorizer(), LinearSVC()), {"linearsvc__C": [1.0]})
        path, model = self.saved(folder, tmp_path / "m", search)
        out = succeed("predict", path, folder / "test.jsonl")
        assert out.split() == model.predict(texts_of(folder / "test.jsonl")[0]).tolist()
        for name, *more in (("predict", "--certify"), ("evaluate",), ("explain", "--row", 0)):
            result = run(name, path, folder / "test.jsonl", *more)
            assert result.output.startswith("structinv: error: MODEL declares no perturbations")
            assert 'structinv.certify(model, TokenEdits("edit", 5), texts, y)' in result.output
        path, model = self.saved(folder, tmp_path / "m", Ridge(), "train.svm")
        out = succeed("predict", path, folder / "test.svm")
        result = run("predict", path, folder / "test.svm", "--certify")
        assert result.output.startswith("structinv: error: estimator must be a classifier")
        expected = model.predict(rows_of(folder / "test.svm")[0])
        np.testing.assert_array_equal([float(line) for line in out.split()], expected)

    @pytest.mark.parametrize(
        "model",
        [
            InvariantSVC(Shifts(1, shape=(10, 10)), C=0.1, tol=0.1, max_seconds=1.0),
            make_pipeline(MaxAbsScaler(), InvariantSVC(C=0.1, tol=0.1)),
            InvariantLinearSVC(Shifts(1, shape=(10, 10)), C=0.1, tol=0.1),
            make_pipeline(MaxAbsScaler(), InvariantLinearSVC(FDrop(1), tol=0.1)),
        ],
        ids=["kernel", "kernel in a pipeline", "dense oracle", "linear in a pipeline"],
    )
    def test_rows_are_dense_where_the_model_needs_it(self, folder, tmp_path, monkeypatch, model):
        X, y = rows_of(folder / "train.svm")
        structinv.save(model.fit(X.toarray()[:40], y[:40]), tmp_path / "m")
        assert "ACCURACY" in succeed("evaluate", tmp_path / "m", folder / "test.svm")
        found = succeed("predict", tmp_path / "m", folder / "test.svm", "--certify").split()[::2]
        test, _ = rows_of(folder / "test.svm")
        assert [float(label) for label in found] == model.predict(test.toarray()).tolist()
        if isinstance(model, InvariantSVC):
            monkeypatch.setattr("structinv.utils.resources.free_memory", lambda: 1e4)
            line = fail("predict", tmp_path / "m", folder / "test.svm")
            assert "the dense rows of this MODEL would take 0.16 MB, and 0.01 MB are free" in line

    def test_columns_have_the_names_of_the_data_frame(self, folder, tmp_path):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [0.0, 1.0] * 5, "b": [1.0, 0.0] * 5})
        model = InvariantLinearSVC(tol=0.1).fit(frame, [0, 1] * 5)
        structinv.save(model, tmp_path / "m")
        (tmp_path / "t.csv").write_text("b,a,kind\n1,0,0\n0,1,1\n")
        assert succeed("predict", tmp_path / "m", tmp_path / "t.csv", "--label-key", "kind") == "0\n1\n"
        assert "ACCURACY" in succeed(
            "evaluate", tmp_path / "m", tmp_path / "t.csv", "--label-key", "kind"
        )

    def test_pickles_are_never_opened(self, folder, tmp_path):
        class Trap:
            def __reduce__(self):
                return (open, (str(tmp_path / "sprung"), "w"))

        (tmp_path / "m").write_bytes(pickle.dumps(Trap()))
        assert "not a model file" in fail("predict", tmp_path / "m", folder / "test.svm")
        assert not (tmp_path / "sprung").exists()


def written(folder, content, name="data"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_model_of_rows_refuses_texts(tmp_path):
    succeed("fit", written(tmp_path, "1 1:1\n-1 2:1\n" * 5, "rows.svm"), "-o", tmp_path / "m")
    line = fail("predict", tmp_path / "m", written(tmp_path, '{"text": "a"}'))
    assert "MODEL takes rows, but" in line
    assert line.endswith("has texts")


def test_features_keep_their_names_in_tables_with_columns_in_another_order(tmp_path):
    train = written(tmp_path, "first,second,label\n" + "2,1,x\n-2,-1,y\n" * 5, "train.csv")
    succeed("fit", train, "--oracle", "fdrop", "--max-changes", 1, "-o", tmp_path / "m")
    frame = pd.DataFrame({"first": [2.0, -2.0] * 5, "second": [1.0, -1.0] * 5})
    model = InvariantLinearSVC(FDrop(1), random_state=0).fit(frame, ["x", "y"] * 5)
    structinv.save(model, tmp_path / "of Python")
    test = written(tmp_path, "label,second,first\nx,1,2\n", "test.csv")
    for name in ("m", "of Python"):
        # The feature with the value 2 matters most.
        row = table_rows(succeed("explain", tmp_path / name, test, "--row", 0))[-1]
        assert row[:3] == ["first", "2", "0"], name


def test_models_of_data_frames_have_no_warning_of_names(tmp_path):
    model = InvariantLinearSVC(random_state=0).fit(np.eye(5), [0, 1, 0, 1, 0])
    model.feature_names_in_ = np.array(list("abcde"), dtype=object)
    structinv.save(model, tmp_path / "m")
    path = written(tmp_path, "e,d,c,b,a\n1,2,3,4,5\n")
    assert "feature names" not in run("predict", tmp_path / "m", path).stderr
