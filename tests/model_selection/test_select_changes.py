"""Choosing changes, and folds and scores of rows of which some have no label."""

import pickle

import numpy as np
import pytest
from scipy.stats import sem
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from structinv import (
    InvariantLinearSVC,
    InvariantTextClassifier,
    LapSVC,
    RepresenterClassifier,
    certify,
    select_changes,
)
from structinv.model_selection import (
    certified_accuracy_scorer,
    detection_scorer,
    labeled_scorer,
    most_robust,
)
from structinv.oracles import Box, FDrop, TokenEdits


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
    @pytest.mark.parametrize("name", LABELS)
    def test_a_search_counts_no_row_without_label_as_wrong(self, name):
        X, codes, _ = half_labeled()
        y = LABELS[name](codes)
        model = LapSVC(n_neighbors=3, random_state=0)
        grid = {"nu": [0.0, 1.0]}
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
        with pytest.raises(ValueError, match="magic"):
            labeled_scorer("magic")


GRID = {"oracle__max_changes": [0, 1, 2], "C": [0.01, 0.1]}


def linear(oracle=None, **parameters):
    return InvariantLinearSVC(oracle or FDrop(0), random_state=0, **parameters)


class TestSelectChanges:
    @pytest.mark.parametrize("detection", [False, True])
    def test_scores_are_those_of_fits_and_certificates(self, detection):
        X, y = mails()
        scorers = {
            "clean": lambda model, X, y: model.score(X, y),
            "certified": lambda model, X, y: model.certify(X, y, oracle=FDrop(2)).accuracy,
        }
        if detection:
            scorers = {name: detection_scorer(0.1, FDrop(2), measure=name) for name in scorers}
        scoring = scorers if detection else None
        search = select_changes(linear(), X, y, GRID, cv=3, oracle=FDrop(2), scoring=scoring)
        results = search.cv_results_
        for number, params in enumerate(results["params"]):
            model = clone(linear()).set_params(**params)
            for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
                model.fit(X[train], y[train])
                for name, scorer in scorers.items():
                    found = results[f"split{fold}_test_{name}"][number]
                    assert found == scorer(model, X[test], y[test])
        best = linear().set_params(**search.best_params_).fit(X, y)
        np.testing.assert_array_equal(search.best_estimator_.coef_, best.coef_)

    @pytest.mark.parametrize("clean_loss", [None, 0.0, 1.0])
    def test_the_best_follows_the_rule(self, clean_loss):
        X, y = mails()
        search = select_changes(linear(FDrop(2)), X, y, GRID, cv=4, clean_loss=clean_loss)
        results = search.cv_results_
        folds = np.array([results[f"split{fold}_test_clean"] for fold in range(4)])
        clean, certified = results["mean_test_clean"], results["mean_test_certified"]
        leader = np.argmax(clean)
        loss = folds[:, leader].std(ddof=1) / 2 if clean_loss is None else clean_loss
        near = [n for n in range(6) if clean[n] >= clean[leader] - loss - 1e-9]
        assert search.best_index_ in near
        assert certified[search.best_index_] == pytest.approx(max(certified[n] for n in near))

    def test_a_failed_setting_is_never_the_best(self):
        X, y = mails()
        with pytest.warns(FitFailedWarning):
            search = select_changes(linear(FDrop(1)), X, y, {"C": [-1, 0.1]}, cv=2, error_score=np.nan)
        assert search.best_params_ == {"C": 0.1}

    def test_the_rule_serves_other_searches(self):
        X, y = mails()
        scoring = {"clean": "accuracy", "certified": certified_accuracy_scorer(FDrop(2))}
        settings = {"scoring": scoring, "refit": most_robust(0.01), "cv": 2}
        search = RandomizedSearchCV(linear(), GRID, n_iter=6, random_state=0, **settings).fit(X, y)
        same = select_changes(linear(FDrop(2)), X, y, GRID, cv=2, clean_loss=0.01)
        best = [each.cv_results_["mean_test_certified"][each.best_index_] for each in (search, same)]
        assert best[0] == best[1]

    def test_the_rule_takes_the_standard_error_of_the_folds(self):
        # The second setting is worse by a little less than the standard error, or by a little more.
        best = np.array([0.80, 0.86, 0.98])
        for share, index in ((0.99, 1), (1.01, 0)):
            folds = np.stack([best, best - share * sem(best)])
            results = {f"split{k}_test_clean": scores for k, scores in enumerate(folds.T)}
            results |= {"mean_test_clean": folds.mean(axis=1), "std_test_clean": folds.std(axis=1)}
            assert most_robust()(results | {"mean_test_certified": [0.3, 0.6]}) == index

    def test_certified_scores_that_differ_by_rounding_are_tied(self):
        results = {"mean_test_clean": [0.90, 0.91], "mean_test_certified": [0.1 + 0.2, 0.3]}
        assert most_robust(0.05)(results) == 1

    def test_text_classifiers_are_certified_against_their_own_edits(self):
        texts, y = (
            ["win cash now", "cheap cash", "lunch at noon", "see you at lunch"] * 4,
            [0, 0, 1, 1] * 4,
        )
        model = InvariantTextClassifier("drop", 1, C=10.0, random_state=0)
        own, given = (
            select_changes(model, texts, y, {"C": [0.01, 10.0]}, cv=2, oracle=oracle).cv_results_
            for oracle in (None, TokenEdits("drop", 1))
        )
        np.testing.assert_array_equal(own["mean_test_certified"], given["mean_test_certified"])

    def test_models_of_others(self):
        X, y = mails()
        model = make_pipeline(StandardScaler(), LogisticRegression())
        grid = {"logisticregression__C": [0.01, 1.0]}
        results = select_changes(model, X, y, grid, cv=2, oracle=Box(0.2), n_jobs=1).cv_results_
        assert np.all(results["mean_test_certified"] < results["mean_test_clean"])
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

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"oracle": "fdrop"}, TypeError, "oracle must be an InvarianceOracle"),
            ({"clean_loss": -1.0}, ValueError, "clean_loss must be a number of at least 0"),
            ({"clean_loss": "1se"}, TypeError, "clean_loss must be a number of at least 0"),
            ({"grid": {"oracle__words": [1]}}, ValueError, "'words'"),
            ({"grid": {"oracle__max_changes": [-1]}}, ValueError, "max_changes must be an integer"),
        ],
    )
    def test_what_is_wrong_is_named(self, change, error, message):
        X, y = mails()
        call = {"model": linear(FDrop(1)), "X": X, "y": y, "grid": GRID} | change
        with pytest.raises(error, match=message):
            select_changes(**call)
