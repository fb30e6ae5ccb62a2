"""Reports of models of sentences."""

import numpy as np
import pytest

from .cases import sentences

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


def test_sentences_have_the_accuracy_of_tokens_at_the_top(pages):
    model, X, y = sentences()
    right = np.mean(np.concatenate(y) == np.concatenate(model.predict(X)))
    known = model.certify(X, [[model.predict(X)[0][0], *y[0][1:]], *y[1:]])
    n_wrong = known.most_wrong.sum() + 1
    certified = 1 - n_wrong / known.lengths.sum()
    top = "".join(pages["sentences"].texts[""].split("\n"))
    whole = np.mean([np.array_equal(*pair) for pair in zip(y, model.predict(X), strict=True)])
    assert f"Clean accuracy of sentences{100 * whole:.1f} %" in top
    assert f"Clean accuracy of tokens{100 * right:.1f} %" in top
    assert f"Certified accuracy of tokens{100 * certified:.1f} %" in top
    assert f"{90 * model.certify(X[1:], y[1:]).accuracy:.1f} %" in top
    note = "1 sentence has labels that are not classes of the model and count as errors: unknown"
    assert note in pages["sentences"].texts["data"]
