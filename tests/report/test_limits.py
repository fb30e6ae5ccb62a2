"""What a report says about its limits."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structinv.oracles import Rotations

from .cases import images, written

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


def test_limits_depend_on_the_oracle(pages):
    assert "added or rescaled" in pages["mail"].texts["limits"]
    assert "more than the radius" in pages["box"].texts["limits"]
    assert "brightness" in pages["digits"].texts["limits"]
    assert "Inserted, replaced" in pages["texts"].texts["limits"]
    assert "input of the last step" in pages["pipeline"].texts["limits"]
    assert "The model has no oracle" in pages["kernel"].texts["limits"]
    assert "More than 2 edits of one row." in pages["mail"].texts["limits"]
    assert "More than 1 edit of one token." in pages["sentences"].texts["limits"]
    assert "More than 2 edits of one sentence." in pages["budget"].texts["limits"]
    assert "Only samples with these labels are perturbed: a." in pages["only for"].texts["limits"]


@pytest.mark.usefixtures("unpainted")
def test_loose_bounds_are_counted(tmp_path):
    with pytest.warns(ConvergenceWarning):
        model, X, y = images(Rotations(interval=(-5, 5)), tol=0.5)
    number = np.count_nonzero(~model.certify(X, y).exact)
    assert number
    assert (
        f"The bounds of {number} of 20 rows are not tight"
        in written(tmp_path, model, X, y).texts["limits"]
    )
