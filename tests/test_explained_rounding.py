"""Changes of a margin within rounding errors are no edits in explanations."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv import InvariantLinearSVC, InvariantTextClassifier
from structinv.inspection import explain_edit
from structinv.oracles import Box, FAdd, FDrop, FScale

TITLE = "Worst edit: no edit was found that lowers the margin 2, "


def model_of(coef, n_classes=2, **options):
    """Return a model with given weights, for rows of ones."""
    n_features = np.shape(coef)[1]
    X = np.random.default_rng(0).random((12, n_features))
    model = InvariantLinearSVC(random_state=0, **options).fit(X, np.arange(12) % n_classes)
    model.coef_, model.intercept_ = np.array(coef), np.zeros(len(coef))
    return model


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, np.float32])
@pytest.mark.parametrize("oracle", [FDrop(10), FScale(10, 0.5, 2.0), FAdd(3, present=True), Box(0.1)])
def test_weights_of_rounding_errors_are_no_edits(form, oracle):
    tiny = 1e-15 * np.resize([1.0, -1.0], 20)
    if sp.issparse(form([[1.0]])) and not oracle.supports_sparse:
        pytest.skip("the oracle requires dense rows")
    model = model_of([tiny])
    model.intercept_ = np.array([2.0])
    found = explain_edit(model, form(np.ones((1, 20))), [1], oracle=oracle)
    assert found.features.tolist() == []
    assert found.edited_margin == found.margin
    assert str(found) == f"{TITLE}no allowed edit changes the prediction"


def test_edits_of_several_classes_are_compared_with_both_labels():
    model = model_of([[2.0, 1e-16, 0.0], [0.0, -1e-16, 0.0], [-1.0, 0.0, 0.0]], 3)
    found = explain_edit(model, np.ones((1, 3)), [0], oracle=FDrop(3))
    assert found.features.tolist() == [0]


def test_a_word_without_effect_is_not_marked_as_deleted():
    texts = ["free money now", "free money", "lunch at noon", "lunch now"]
    model = InvariantTextClassifier("drop", 2, random_state=0).fit(texts, [1, 1, 0, 0])
    model.coef_, model.intercept_ = 1e-16 * np.sign(model.coef_), np.array([1.0])
    found = explain_edit(model, ["Free money now"], [1])
    assert found.names.tolist() == []
    assert found.parts == [("kept", "Free money now")]
    assert "no edit was found that lowers the margin 1" in str(found)


def test_small_changes_above_rounding_errors_are_edits():
    model = model_of([[2.0, 1e-12, 1e-17]])
    found = explain_edit(model, np.ones((1, 3)), [1], oracle=FDrop(3))
    assert found.features.tolist() == [0, 1]
    assert found.margins[-1] == pytest.approx(found.edited_margin, abs=1e-15)
