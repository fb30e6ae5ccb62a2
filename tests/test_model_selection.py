"""Choosing changes, and folds and scores of rows of which some have no label."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, get_scorer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from structinv import (
    InvariantLinearSVC,
    LapSVC,
    RepresenterClassifier,
    UninformativeFitWarning,
    certify,
    select_changes,
)
from structinv.model_selection import LabeledSplit, certified_accuracy_scorer, labeled_scorer
from structinv.oracles import Box, FDrop, FScale


def mails(n=60, d=12, seed=0):
    rng = np.random.default_rng(seed)
    y = np.array(["ham", "spam"])[np.arange(n) % 2]
    lean = np.where((np.arange(d) % 2 == 0) == (y == "ham")[:, None], 1.5, 0.4)
    return rng.poisson(lean).astype(float), y


def half_labeled(n=40, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    X = rng.standard_normal((n, 2)) + 3.0 * codes[:, None]
    return X, np.where(np.arange(n) % 4 < 2, codes, -1), codes


LABELS = {
    "numbers": lambda y: y,
    "strings": lambda y: np.array([{0: "a", 1: "b", -1: -1}[k] for k in y], dtype=object),
    "list": lambda y: [{0: "a", 1: "b", -1: -1}[k] for k in y.tolist()],
}


class TestLabels:
    @pytest.mark.parametrize("shuffle", [False, True])
    @pytest.mark.parametrize("name", LABELS)
    def test_folds(self, name, shuffle):
        X, codes, _ = half_labeled()
        y = LABELS[name](codes)
        split = LabeledSplit(4, shuffle=shuffle, random_state=0)
        folds = list(split.split(X, y))
        assert len(folds) == split.get_n_splits() == 4
        labeled = np.flatnonzero(codes != -1)
        assert np.array_equal(np.sort(np.concatenate([test for _, test in folds])), labeled)
        for train, test in folds:
            assert np.array_equal(np.sort(np.r_[train, test]), np.arange(40))
            assert np.isin(np.flatnonzero(codes == -1), train).all()
            assert np.bincount(codes[test]).tolist() in ([2, 2], [3, 2], [2, 3], [3, 3])

    def test_without_missing_labels_it_is_stratified(self):
        X, _, y = half_labeled()
        for own, other in zip(LabeledSplit(4).split(X, y), StratifiedKFold(4).split(X, y), strict=True):
            assert np.array_equal(own[1], other[1])
            assert np.array_equal(own[0], other[0])
        signs = np.where(y == 1, 1, -1)
        assert len(np.concatenate([test for _, test in LabeledSplit(4).split(X, signs)])) == 40

    @pytest.mark.parametrize("name", LABELS)
    def test_a_search_counts_no_row_without_label_as_wrong(self, name):
        X, codes, _ = half_labeled()
        y = LABELS[name](codes)
        model = LapSVC(n_neighbors=3, random_state=0)
        grid = {"nu": [0.0, 1.0]}
        search = GridSearchCV(model, grid, cv=LabeledSplit(4), error_score="raise").fit(X, y)
        assert search.best_score_ > 0.9
        left_out = GridSearchCV(model, grid, cv=KFold(4), scoring=labeled_scorer(), error_score="raise")
        assert left_out.fit(X, y).best_score_ > 0.9
        if name == "numbers":
            # What a search does by itself.
            plain = GridSearchCV(model, grid, cv=KFold(4), error_score="raise").fit(X, y)
            assert plain.best_score_ < 0.6

    @pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
    def test_scores_are_those_of_the_labeled_rows(self, scoring):
        X, codes, _ = half_labeled()
        model = RepresenterClassifier(gamma=1.0, random_state=0).fit(X, codes)
        labeled = codes != -1
        expected = cross_val_score(model, X[labeled], codes[labeled], scoring=scoring, cv=2)
        assert np.all(np.isfinite(expected))
        scorer = pickle.loads(pickle.dumps(labeled_scorer(scoring)))
        own = scorer(model, X, codes)
        assert own == labeled_scorer(scoring)(model, X[labeled], codes[labeled])

    def test_other_scorers_and_marks(self):
        X, codes, _ = half_labeled()
        model = RepresenterClassifier(gamma=1.0, random_state=0).fit(X, codes)

        def f1(estimator, X, y):
            return f1_score(y, estimator.predict(X))

        labeled = codes != -1
        expected = f1_score(codes[labeled], model.predict(X[labeled]))
        assert labeled_scorer(f1)(model, X, codes) == expected
        marked = np.where(labeled, codes, 99)
        assert labeled_scorer(f1, unlabeled=99)(model, X, marked) == expected
        # A class of its own is no mark.
        signs = np.where(codes == 1, 1, -1)
        model.fit(X, signs)
        assert labeled_scorer()(model, X, signs) == accuracy_score(signs, model.predict(X))
        # One fold may show one class beside the mark.
        few = np.r_[np.flatnonzero(codes == 0)[:3], np.flatnonzero(codes == -1)[:3]]
        model.fit(X, codes)
        own = labeled_scorer()(model, X[few], codes[few])
        assert own == accuracy_score(codes[few[:3]], model.predict(X[few[:3]]))

    def test_what_is_wrong_is_named(self):
        X, codes, _ = half_labeled()
        model = RepresenterClassifier(gamma=1.0, random_state=0)
        with pytest.raises(NotFittedError):
            labeled_scorer()(model, X, codes)
        with pytest.raises(ValueError, match="y must contain at least one label"):
            labeled_scorer()(model.fit(X, codes), X, np.full(40, -1))
        with pytest.raises(ValueError, match="y must contain at least one label"):
            next(LabeledSplit(2).split(X, np.full(40, -1)))
        with pytest.raises(ValueError, match="y must contain labels for stratified folds"):
            next(LabeledSplit(2).split(X))
        with pytest.raises(ValueError, match="n_splits=30"):
            next(LabeledSplit(30).split(X, codes))
        with pytest.raises(ValueError, match="and -1, which marks unlabeled rows"):
            next(LabeledSplit(2).split(X, np.where(codes == 0, 0, -1)))
        with pytest.raises(ValueError, match="magic"):
            labeled_scorer("magic")


GRID = {"oracle__max_changes": [0, 1, 2], "C": [0.01, 0.1]}


def linear(oracle=None, **parameters):
    return InvariantLinearSVC(oracle or FDrop(0), random_state=0, **parameters)


class TestSelectChanges:
    def test_the_table_is_that_of_fits_and_certificates(self):
        X, y = mails()
        found = select_changes(linear(), X, y, GRID, cv=3, oracle=FDrop(2))
        assert found.oracle_.max_changes == 2
        table = found.table_
        assert len(table["params"]) == 6
        for number, params in enumerate(table["params"]):
            model = clone(linear()).set_params(**params)
            for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
                model.fit(X[train], y[train])
                certificate = model.certify(X[test], y[test], oracle=FDrop(2))
                assert table["clean_folds"][number, fold] == model.score(X[test], y[test])
                assert table["certified_folds"][number, fold] == certificate.accuracy
            assert table["param_C"][number] == params["C"]
        for name in ("clean", "certified"):
            folds = table[f"{name}_folds"]
            np.testing.assert_allclose(table[name], folds.mean(axis=1))
            spread = np.sqrt(folds.var(axis=1, ddof=1) / 3)
            np.testing.assert_allclose(table[f"{name}_error"], spread)
        assert np.all(table["certified"] <= table["clean"])

    @pytest.mark.parametrize("clean_loss", [None, 0.0, 1.0])
    def test_the_best_follows_the_rule(self, clean_loss):
        X, y = mails()
        found = select_changes(linear(), X, y, GRID, cv=4, clean_loss=clean_loss)
        table = found.table_
        usable = np.flatnonzero(table["uninformative"] == 0)
        leader = usable[np.argmax(table["clean"][usable])]
        loss = table["clean_error"][leader] if clean_loss is None else clean_loss
        near = [n for n in usable if table["clean"][n] >= table["clean"][leader] - loss - 1e-9]
        most = max(table["certified"][n] for n in near)
        assert found.best_index_ in near
        assert table["certified"][found.best_index_] == pytest.approx(most)
        assert found.best_params_ == table["params"][found.best_index_]
        linear().set_params(**found.best_params_).fit(X, y)

    def test_all_are_certified_against_the_largest_that_leaves_something(self):
        X, y = mails()
        grid = {"oracle__max_changes": [12, 2, 0, 1]}
        found = select_changes(linear(C=0.1), X, y, grid, cv=3)
        assert found.table_["uninformative"].tolist() == [3, 0, 0, 0]
        assert found.oracle_.max_changes == 2
        # A constant has a certificate of its own, but is never the best.
        assert found.best_params_["oracle__max_changes"] in (1, 2)
        assert "!  " in str(found)

    def test_a_grid_of_oracles(self):
        X, y = mails()
        grid = [{"oracle": [None, FDrop(1), Box(0.05)]}, {"C": [0.1], "oracle": [FScale(1)]}]
        found = select_changes(linear(), X, y, grid, cv=2)
        assert len(found.table_["params"]) == 4
        assert found.table_["param_C"].tolist() == [None, None, None, 0.1]
        assert str(found.oracle_) in (
            "FDrop(max_changes=1)",
            "Box(radius=0.05)",
            "FScale(max_changes=1)",
        )
        assert "Identity" not in str(found.oracle_)

    def test_pipelines_of_texts(self):
        spam = ["cheap pills now", "win cash now now", "cheap cash offer", "pills offer win"]
        ham = ["meeting at noon", "see the report", "the meeting report is late", "lunch at noon"]
        texts, y = (spam + ham) * 4, (["spam"] * 4 + ["ham"] * 4) * 4
        pipeline = make_pipeline(CountVectorizer(), linear(C=10.0))
        grid = {"invariantlinearsvc__oracle__max_changes": [0, 1]}
        found = select_changes(pipeline, texts, y, grid, cv=2)
        assert found.oracle_.max_changes == 1
        assert found.table_["clean"].tolist() == [1.0, 1.0]
        scorer = certified_accuracy_scorer(FDrop(1))
        search = GridSearchCV(pipeline, grid, scoring=scorer, cv=2, error_score="raise")
        search.fit(texts, y)
        own = search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(own, found.table_["certified"])

    def test_models_of_others(self):
        X, y = mails()
        model = make_pipeline(StandardScaler(), LogisticRegression())
        grid = {"logisticregression__C": [0.01, 1.0]}
        found = select_changes(model, X, y, grid, cv=2, oracle=Box(0.2), n_jobs=1)
        assert np.all(found.table_["certified"] < found.table_["clean"])
        with pytest.raises(ValueError, match=r"oracle must be given .*oracle=TokenEdits\('drop', 2\)"):
            select_changes(model, X, y, grid, cv=2)

    def test_each_model_against_its_own_changes(self):
        X, y = mails()
        model = linear(FDrop(2), C=0.1).fit(X, y)
        own = model.certify(X, y).accuracy
        assert certified_accuracy_scorer()(model, X, y) == own
        assert pickle.loads(pickle.dumps(certified_accuracy_scorer(FDrop(2))))(model, X, y) == own
        with pytest.raises(TypeError, match="oracle must be an InvarianceOracle"):
            certified_accuracy_scorer("fdrop")

    def test_a_class_that_a_fold_lacks_is_never_certified(self):
        X, y = mails()
        y[-6:] = "junk"
        scorer = certified_accuracy_scorer(FDrop(1))
        for model in (linear(FDrop(1), C=0.1), LogisticRegression()):
            # The second fold of training lacks a class, and the first fold of tests lacks it, too.
            folds = [(np.arange(20, 60), np.arange(20)), (np.arange(40), np.arange(40, 60))]
            settings = {"cv": folds, "error_score": "raise"}
            first, second = cross_val_score(model, X, y, scoring=scorer, **settings)
            fitted = clone(model).fit(X[:40], y[:40])
            known = certify(fitted, FDrop(1), X[40:54], y[40:54]).correct
            assert second == pytest.approx(known.sum() / 20)
            assert 0 < first <= 1
            search = GridSearchCV(model, {"C": [model.C]}, scoring=scorer, **settings).fit(X, y)
            assert search.best_score_ == pytest.approx((first + second) / 2)
            assert scorer(fitted, X[54:], y[54:]) == 0.0

    def test_the_scorer_takes_routed_weights(self):
        X, y = mails()
        weights = np.arange(60.0)
        model = linear(FDrop(1), C=0.1)
        with config_context(enable_metadata_routing=True):
            model.set_fit_request(sample_weight=True)
            own = certified_accuracy_scorer(FDrop(1)).set_score_request(sample_weight=True)
            settings = {"cv": 2, "error_score": "raise", "params": {"sample_weight": weights}}
            scores = cross_val_score(model, X, y, scoring=own, **settings)
            other = pickle.loads(pickle.dumps(own)).set_score_request(sample_weight=False)
            plain = cross_val_score(model, X, y, scoring=other, **settings)
            accuracy = get_scorer("accuracy").set_score_request(sample_weight=True)
            several = {"certified": own, "accuracy": accuracy}
            labeled = labeled_scorer().set_score_request(sample_weight=True)
            assert len(cross_val_score(model, X, y, scoring=labeled, **settings)) == 2
            search = GridSearchCV(model, {"C": [0.1]}, scoring=own, cv=2, error_score="raise")
            assert search.fit(X, y, sample_weight=weights).best_score_ == pytest.approx(scores.mean())
            search.set_params(scoring=several, refit="certified").fit(X, y, sample_weight=weights)
            assert search.best_score_ == pytest.approx(scores.mean())
        train, test = next(StratifiedKFold(2).split(X, y))
        fitted = clone(model).fit(X[train], y[train], weights[train])
        correct = fitted.certify(X[test], y[test]).correct
        assert scores[0] == pytest.approx(np.average(correct, weights=weights[test]))
        assert plain[0] == pytest.approx(correct.mean())

    def test_nothing_to_learn_anywhere(self):
        X, y = mails()
        with pytest.warns(UninformativeFitWarning, match="every setting of grid") as caught:
            found = select_changes(linear(), X, y, {"oracle__max_changes": [12]}, cv=2)
        assert len(caught) == 1
        assert found.table_["uninformative"].tolist() == [2]

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"model": "svc"}, TypeError, "model must be an unfitted estimator"),
            ({"grid": {"oracle__words": [1]}}, ValueError, "grid must contain parameters of the.*words"),
            ({"grid": {"oracle": [3]}}, TypeError, "oracle must be an InvarianceOracle"),
            ({"grid": {"oracle__max_changes": [-1]}}, ValueError, "max_changes must be an integer"),
            ({"oracle": "fdrop"}, TypeError, "oracle must be an InvarianceOracle"),
            ({"clean_loss": -1.0}, ValueError, "clean_loss must be a number of at least 0"),
            ({"clean_loss": 2}, ValueError, "clean_loss must be a number of at least 0 and at most 1"),
            ({"clean_loss": "1se"}, TypeError, "clean_loss must be a number of at least 0"),
            ({"cv": [(np.arange(30), np.arange(30, 60))]}, ValueError, "at least two folds, got 1"),
            ({"cv": 31}, ValueError, "n_splits=31"),
            ({"y": np.r_[["rare"], mails()[1][1:]]}, ValueError, "none of {'rare'}"),
            ({"y": mails()[1][:7]}, ValueError, "inconsistent numbers of samples"),
            ({"y": np.linspace(0, 1, 60)}, ValueError, "continuous"),
        ],
        ids=lambda value: str(value)[:40] if isinstance(value, dict) else None,
    )
    @pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
    def test_what_is_wrong_is_named_before_any_fit(self, monkeypatch, change, error, message):
        def never(*_args, **_kwargs):
            raise AssertionError("work began")

        monkeypatch.setattr(InvariantLinearSVC, "fit", never)
        X, y = mails()
        call = {"model": linear(), "X": X, "y": y, "grid": GRID} | change
        with pytest.raises(error, match=message):
            select_changes(**call)

    def test_the_printed_table_has_headers_above_its_columns_and_a_legend(self):
        X, y = mails()
        found = select_changes(linear(), X, y, GRID, cv=2, oracle=FDrop(2))
        found.table_["clean_error"][0] = 0.125
        title, header, *rows, errors, star = str(found).splitlines()
        assert title == "certified against FDrop(max_changes=2)"
        assert header.split() == ["clean", "certified", "setting"]
        assert len(rows) == len(found.table_["params"])
        ends = header.index("clean") + 5, header.index("certified") + 9
        for row in rows:
            assert all(row[end - 1 : end + 2] == "%  " for end in ends)
            assert row.index("C=") == header.index("setting")
        assert errors == "Accuracies are means over folds +- standard errors."
        assert star == "*  best setting, best_params_"

    def test_shown(self):
        X, y = mails()
        found = select_changes(linear(), X, y, GRID, cv=2, oracle=FDrop(2))
        text = str(found)
        assert text.count("\n") == 9
        (star,) = [line for line in text.splitlines() if line.startswith("*  ") and "%" in line]
        assert ", ".join(f"{name}={value}" for name, value in found.best_params_.items()) in star
        assert found.plot() is found
        figure = found.figure_
        left, right = found.axes_
        assert left.get_xlabel() == right.get_xlabel() == "oracle__max_changes"
        drawn = [line for line in right.containers if hasattr(line, "lines")]
        heights = np.concatenate([np.asarray(line.lines[0].get_ydata()) for line in drawn])
        assert sorted(heights) == sorted(found.table_["certified"])
        assert found.plot().figure_ is not figure
        _, axes = plt.subplots(1, 2)
        assert found.plot(ax=axes).axes_ == list(axes)
        panels = r"\(clean accuracy, certified accuracy\), got 1: make them with plt.subplots\(1, 2\)"
        with pytest.raises(ValueError, match="ax must contain 2 Axes " + panels):
            found.plot(ax=axes[0])
        plt.close("all")
