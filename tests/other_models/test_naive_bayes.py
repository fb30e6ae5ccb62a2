"""Certificates of naive Bayes, against the labels of all edited rows."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from structinv import certify
from structinv.oracles import Box, FAdd, FDrop, FEdit, Flip, FScale, Protected
from structinv.other_models.naive_bayes import naive_bayes_scores

from ..margins import dropped
from .cases import D, added, check_labels, counts

NAIVE_BAYES = [
    MultinomialNB(),
    MultinomialNB(alpha=0.1, fit_prior=False),
    MultinomialNB(alpha=[0.1, 0.2, 0.3, 0.4, 0.5]),
    ComplementNB(),
    ComplementNB(norm=True, alpha=0.3),
    BernoulliNB(),
    BernoulliNB(fit_prior=False, binarize=0.5),
]


@pytest.mark.parametrize("model", NAIVE_BAYES, ids=str)
def test_naive_bayes(model):
    for n_classes in (2, 3):
        X, y = counts(n_classes)
        model.fit(X, y)
        check_labels(model, FDrop(2), X, y, dropped(X, 2))
        check_labels(model, FAdd(1), X, y, added(X, 1))


@pytest.mark.parametrize("model", NAIVE_BAYES, ids=str)
def test_margins_are_differences_of_joint_log_probabilities(model):
    X, y = counts(3)
    model.fit(X, y)
    points = dropped(X, 2)
    scores = model.predict_joint_log_proba(points.reshape(-1, D)).reshape(*points.shape[:2], 3)
    codes = np.searchsorted(model.classes_, y)
    own = np.take_along_axis(scores, codes[:, None, None], axis=2)
    scores[np.arange(len(y)), :, codes] = -np.inf
    worst = (own - scores.max(axis=2, keepdims=True))[..., 0].min(axis=1)
    for rows in (X, sp.csr_matrix(X)):
        certificate = certify(model, FDrop(2), rows, y)
        np.testing.assert_allclose(certificate.margins, worst, rtol=1e-9, atol=1e-9)
        assert np.all(certificate.margins <= worst)


def test_sizes_of_binary_rows_contain_the_probabilities_of_absent_words():
    X, y = counts(3)
    model = BernoulliNB(alpha=1e-6).fit(X, y)
    constants = np.column_stack([model.class_log_prior_, np.log1p(-np.exp(model.feature_log_prob_))])
    scores = naive_bayes_scores(model)
    np.testing.assert_allclose(scores.intercept, constants.sum(axis=1))
    np.testing.assert_allclose(scores.intercept_size, np.abs(constants).sum(axis=1))


class TestBinaryRows:
    def test_edits_of_counts(self):
        X, y = counts()
        model = BernoulliNB().fit(X, y)
        check_labels(model, FEdit(2), X, y, dropped(X, 2))
        check_labels(model, FAdd(2, value=3.0), X, y, added(X, 2, 3.0))
        # A word that is there already may be counted once more, which nobody sees.
        check_labels(model, FAdd(2, present=True), X, y, added(X, 2))
        kept = np.where(np.arange(D) == 1, X[:, None, :], dropped(X, 2))
        check_labels(model, Protected(FDrop(2), [1]), X, y, kept)
        both = np.concatenate([dropped(X, 1), added(X, 2)], axis=1)
        check_labels(model, FDrop(1) | FAdd(2), X, y, both)
        spam = np.where((y == "spam")[:, None, None], dropped(X, 2), X[:, None, :])
        right = model.predict(spam.reshape(-1, D)).reshape(len(y), -1) == y[:, None]
        found = certify(model, FDrop(2).only_for("spam"), X, y)
        np.testing.assert_array_equal(found.correct, right.all(axis=1))

    def test_edits_of_one_word_of_each_kind(self):
        X, y = counts()
        model = BernoulliNB().fit(X, y)
        swapped = [dropped(X, 2), added(X, 2)]
        for j, k in itertools.permutations(range(D), 2):
            Z = X.copy()
            Z[:, j] = 0.0
            Z[:, k] = np.where(X[:, k] == 0, 1.0, X[:, k])
            swapped.append(Z[:, None, :])
        check_labels(model, FEdit(2, add=1.0), X, y, np.concatenate(swapped, axis=1))

    def test_without_a_comparison_it_is_linear(self):
        X, y = counts()
        binary = (X > 0).astype(float)
        model = BernoulliNB(binarize=None).fit(binary, y)
        check_labels(model, FDrop(2), binary, y, dropped(binary, 2))
        signs = np.array(list(itertools.product([-0.2, 0.2], repeat=D)))
        check_labels(model, Box(0.2), binary, y, binary[:, None, :] + signs)

    @pytest.mark.parametrize(
        "oracle",
        [
            FScale(1),
            Box(0.1),
            FEdit(1, scale=(0.5, 2.0)),
            Flip(shape=(1, D)),
            FDrop(1) @ FAdd(1),
            type("Odd", (FDrop,), {})(1),
        ],  # fmt: skip
        ids=str,
    )
    def test_edits_that_do_more_than_drop_and_add_are_refused(self, oracle):
        X, y = counts()
        with pytest.raises(TypeError, match=r"remove or add whole features for BernoulliNB\(binarize=0"):
            certify(BernoulliNB().fit(X, y), oracle, X, y)

    @pytest.mark.parametrize(
        ("cut", "low", "message"),
        [
            (-1.0, 0.0, "counts zeros as present features"),
            (0.5, 0.4, r"got 0\.4\."),
            (0.5, 0.5, r"got 0\.5\."),
            (0.0, -1.0, r"got -1\.0\."),
        ],
    )
    def test_values_between_0_and_binarize_are_errors(self, cut, low, message):
        X, y = counts()
        model = BernoulliNB().fit(X, y).set_params(binarize=cut)
        Z = X.copy()
        Z[0, 0] = low
        with pytest.raises(ValueError, match=rf"BernoulliNB\(binarize={cut}\).*{message}"):
            certify(model, FDrop(1), Z, y)

    def test_additions_that_it_does_not_see_are_refused(self):
        X, y = counts()
        model = BernoulliNB(binarize=0.5).fit(X, y)
        with pytest.raises(ValueError, match="value must be above binarize=0.5"):
            certify(model, FAdd(1, value=0.5), X, y)
        with pytest.raises(ValueError, match="add must be above binarize=0.5"):
            certify(model, FEdit(1, add=0.25), X, y)

    def test_steps_before_the_comparison_are_refused(self):
        X, y = counts()
        model = make_pipeline(MaxAbsScaler(), BernoulliNB()).fit(X, y)
        with pytest.raises(ValueError, match="compares the features that MaxAbsScaler.. returns"):
            certify(model, FDrop(1), X, y, at="input")
        scaled = model[:-1].transform(X)
        check_labels(model[-1], FDrop(2), scaled, y, dropped(scaled, 2))


class TestInfiniteWeights:
    @pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")
    @pytest.mark.parametrize("kind", [MultinomialNB, ComplementNB, BernoulliNB])
    def test_words_that_a_class_never_has(self, kind):
        X, y = counts(3)
        X[y != "ham", 2] = 0.0
        model = kind(alpha=0.0, force_alpha=True).fit(X, y)
        with pytest.raises(ValueError, match="infinite weights for 1 features.* feature 2"):
            certify(model, FDrop(1), X, y)
        # scikit-learn's own least alpha keeps them finite.
        check = certify(kind(alpha=0.0, force_alpha=False).fit(X, y), FDrop(1), X, y)
        assert np.all(np.isfinite(check.margins))

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_classes_of_no_probability(self):
        X, y = counts()
        with pytest.raises(ValueError, match="class_prior must be above 0"):
            certify(MultinomialNB(class_prior=[0.0, 1.0]).fit(X, y), FDrop(1), X, y)
