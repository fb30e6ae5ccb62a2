import numpy as np
import pytest

from structinv.cli.demo_tagger import RATES, draw_taggers, fit_taggers, taggers_table
from structinv.datasets import conll_features
from structinv.inspection import position_margins


@pytest.fixture(scope="module")
def fits():
    return fit_taggers(0, quick=True)


def test_both_taggers_learn_and_certified_sentences_are_right(fits):
    assert [fit.name for fit in fits] == ["Identity", "FDrop"]
    for fit in fits:
        assert fit.accuracies[RATES[0]] > 0.7
        assert fit.accuracies[RATES[0]] > fit.accuracies[RATES[-1]]
        predicted = fit.model.predict(conll_features(fit.text.test_words))
        whole = [a.tolist() == b for a, b in zip(predicted, fit.text.test_labels, strict=True)]
        assert 0 < fit.certified <= np.mean(whole)
    assert taggers_table(fits).row_count == 2


def test_pictures_of_taggers(fits, tmp_path):
    paths = draw_taggers(fits, tmp_path)
    assert sorted(path.name for path in paths) == sorted(path.name for path in tmp_path.iterdir())


def test_margins_above_zero_are_predictions(fits):
    fit = fits[0]
    X = conll_features(fit.text.test_words)
    for x, labels, guess in zip(X, fit.text.test_labels, fit.model.predict(X), strict=True):
        assert ((position_margins(fit.model, x, labels) > 0) == (guess == labels)).all()
