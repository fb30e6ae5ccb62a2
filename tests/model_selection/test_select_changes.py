"""Choosing changes in a grid search, of rows in memory and of rows that are read in blocks."""

import numpy as np
import pytest
from scipy.stats import sem
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantSVC,
    InvariantTextClassifier,
    select_changes,
)
from structinv.datasets import make_mail_like
from structinv.estimators.inputs import block_sizes
from structinv.model_selection import certified_accuracy_scorer, detection_scorer, most_robust
from structinv.oracles import Box, FDrop, TokenEdits
from structinv.rows import RowFolder, RowWriter
from structinv.rows.sources import MatrixRows
from structinv.terms.blockwise_term import BlockSizes

from .cases import linear, mails

GRID = {"oracle__max_changes": [0, 1, 2], "C": [0.01, 0.1]}


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
        grid = {"oracle__max_changes": [0, 2], "C": [0.01, 0.1]}
        search = select_changes(linear(), X, y, grid, cv=2, oracle=FDrop(2), scoring=scoring)
        results = search.cv_results_
        for number, params in enumerate(results["params"]):
            model = clone(linear()).set_params(**params)
            for fold, (train, test) in enumerate(StratifiedKFold(2).split(X, y)):
                model.fit(X[train], y[train])
                for name, scorer in scorers.items():
                    found = results[f"split{fold}_test_{name}"][number]
                    assert found == scorer(model, X[test], y[test])
        best = linear().set_params(**search.best_params_).fit(X, y)
        np.testing.assert_array_equal(search.best_estimator_.coef_, best.coef_)

    @pytest.mark.parametrize("clean_loss", [None, 0.0, 1.0])
    def test_the_best_follows_the_rule(self, clean_loss):
        X, y = mails()
        search = select_changes(linear(FDrop(2)), X, y, GRID, cv=2, clean_loss=clean_loss)
        results = search.cv_results_
        folds = np.array([results[f"split{fold}_test_clean"] for fold in range(2)])
        clean, certified = results["mean_test_clean"], results["mean_test_certified"]
        leader = np.argmax(clean)
        loss = folds[:, leader].std(ddof=1) / np.sqrt(2) if clean_loss is None else clean_loss
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


SMALL = 1000


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(BlockSizes, "values", SMALL)
    monkeypatch.setattr(block_sizes, "__defaults__", (BlockSizes(values=SMALL),))


@pytest.fixture(scope="module")
def mail():
    X, y = make_mail_like(80, 100, random_state=0)
    X = X.astype(float)
    X.sort_indices()
    return X, y


@pytest.mark.usefixtures("small_blocks")
class TestRowsInBlocks:
    GRID = {"oracle__max_changes": [0, 2]}

    @pytest.mark.parametrize(
        "cv", [pytest.param(3, marks=pytest.mark.slow), KFold(2, shuffle=True, random_state=0)]
    )
    def test_results_are_those_of_the_same_rows_in_memory(self, mail, cv):
        X, y = mail
        model = InvariantLinearSVC(FDrop(2), C=0.01, tol=1e-4, random_state=0)
        ours = select_changes(model, MatrixRows(X), y, self.GRID, cv=cv)
        theirs = select_changes(model, X, y, self.GRID, cv=cv)
        for name in ("mean_test_clean", "mean_test_certified"):
            # Functions agree to the tolerance of the fits, and a row may lie that close to 0.
            np.testing.assert_allclose(
                ours.cv_results_[name], theirs.cv_results_[name], rtol=0, atol=0.02
            )
        assert ours.best_params_ == theirs.best_params_
        np.testing.assert_allclose(ours.best_estimator_.coef_, theirs.best_estimator_.coef_, atol=1e-3)

    @pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
    def test_folders_of_rows_are_searched_in_one_and_in_several_processes(self, mail, tmp_path, n_jobs):
        with RowWriter(tmp_path / "rows") as writer:
            writer.append(*mail)
        rows, model = (
            RowFolder(tmp_path / "rows"),
            InvariantLinearSVC(FDrop(2), tol=0.05, random_state=0),
        )
        found = select_changes(model, rows, rows.labels, {"C": [0.1]}, cv=2, n_jobs=n_jobs)
        assert found.cv_results_["mean_test_clean"][0] > 0.8

    @pytest.mark.parametrize(
        ("model", "name"),
        [
            (InvariantSVC(Box(0.1)), "InvariantSVC"),
            (LogisticRegression(), "LogisticRegression"),
            (make_pipeline(MaxAbsScaler(), InvariantLinearSVC(FDrop(1))), "Pipeline"),
            (InvariantLinearSVR(Box(0.1)), "InvariantLinearSVR"),
        ],
        ids=str,
    )
    def test_estimators_without_block_support_raise(self, mail, model, name):
        X, y = mail
        with pytest.raises(TypeError, match=f"X must be an array or a matrix for {name}"):
            select_changes(model, MatrixRows(X), y, {"C": [1.0]}, oracle=FDrop(1))

    def test_wrong_number_of_labels_raises(self, mail):
        X, y = mail
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            select_changes(InvariantLinearSVC(FDrop(1)), MatrixRows(X), y[:9], {"C": [1.0]})
