"""Reports of models of rows, images and texts."""

from copy import deepcopy

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.oracles import Box

from .cases import ATTACK, CASES, TEXTS, linear_images, pipeline, texts, written

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("case", [texts, pipeline])
def test_edited_words_are_marked(tmp_path, case):
    # All rows: many have equal margins.
    page = written(tmp_path, *case(), n_examples=len(TEXTS))
    assert {"del", "u"} & set(page.names)
    assert ATTACK.partition(">")[0] in page.texts["examples"]


@pytest.mark.usefixtures("unpainted")
def test_effects_are_weights_times_mean_absolute_values_of_the_test_data(tmp_path):
    model, X, y = CASES["box"]()
    X, y = X[:15], y[:15]
    # Most features are negative in some rows.
    size = np.array([np.mean([abs(value) for value in column]) for column in X.T])
    text = written(tmp_path, model, X, y, n_examples=0).texts["decisive"]
    for label, weights in (("a", -model.coef_[0]), ("b", model.coef_[0])):
        best = np.argsort(-weights * size)[:3]
        effects = ", ".join(f"x{k} ({weights[k] * size[k]:.3g})" for k in best)
        assert f"|{label}|{effects}" in text


@pytest.mark.usefixtures("unpainted")
def test_a_robust_model_that_reads_few_columns_is_reported_as_such(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 100)
    X = rng.standard_normal((200, 14))
    X[:, 3] += np.where(y == "b", 3.0, -3.0)
    X[:, 4:] += np.where(y == "b", 0.2, -0.2)[:, None]
    model = InvariantLinearSVC(Box(1.0), random_state=0).fit(X, y)
    text = written(tmp_path, model, X, y, n_examples=0).texts["decisive"]
    assert "1 of 14 features has an effect of at least 1 % of the largest one." in text


def test_images_are_shown_before_and_after(pages):
    for name in ("digits", "linear digits", "color"):
        text = pages[name].texts["examples"]
        assert "original" in text
        assert "worst case" in text
        assert "image" in pages[name].names
    assert "image" not in pages["kernel"].names


def test_a_given_shape_shows_images(tmp_path):
    model, X, y = deepcopy(linear_images())
    model.set_params(oracle=Box(0.1))
    page = written(tmp_path, model, X, y, image_shape=(8, 8), n_examples=2)
    assert len([tag for tag in page.names if tag == "image"]) == 4 + 3


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("case", [texts, pipeline])
def test_long_texts_and_words_are_shortened(tmp_path, case):
    model, rows, labels = deepcopy(case())
    long = [f"{'x' * 5000} {text} {'and ' * 5000}" for text in rows[:2]]
    model.fit([*long, *rows], [*labels[:2], *labels])
    page = written(tmp_path, model, long, labels[:2])
    assert "more characters" in page.texts["examples"]
    assert len(page.texts["examples"]) < 8000
