"""Estimators with changes of whole examples."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from structinv import InvariantStructuredSVC, load, save
from structinv.oracles import Budget, FDrop, Shared, Shifts
from structinv.structures import Sequence

LABELS, FEATURES = 3, 9
SHIFTS = Shifts(1, shape=(1, FEATURES), fill="nearest")
ORACLES = [Shared(SHIFTS), Budget(FDrop(2)), Shared(SHIFTS) | Budget(FDrop(1))]


def data(seed=0, n=30):
    rng = np.random.default_rng(seed)
    # A bump for each label, which stays apart from the others when it is shifted by one place.
    means = 3.0 * np.eye(FEATURES)[1::3]
    y = [rng.integers(LABELS, size=rng.integers(1, 6)) for _ in range(n)]
    return [means[each] + 0.7 * rng.standard_normal((len(each), FEATURES)) for each in y], y


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_estimators_train_certify_and_keep(oracle, tmp_path):
    X, y = data()
    model = InvariantStructuredSVC(Sequence(), oracle=oracle, C=0.3, tol=1e-3, random_state=0).fit(X, y)
    found = model.certify(X, y)
    assert model.solution_.relative_gap <= 1e-3
    assert (
        found.accuracy
        <= found.attacked_accuracy
        <= np.mean([np.array_equal(*pair) for pair in zip(model.predict(X), y, strict=True)])
    )
    changed, labels = model.worst_case(X, y)
    at_worst = np.mean(np.concatenate(labels) == np.concatenate(y))
    assert found.position_accuracy <= at_worst
    assert found.position_accuracy <= model.score(X, y)
    for points, led in zip(changed, labels, strict=True):
        np.testing.assert_array_equal(model.predict([points])[0], led)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.certify(X, y).margins, found.margins)
    assert clone(model).get_params()["oracle"] is not oracle


def test_a_budget_is_worth_less_than_as_many_changes_of_each_row():
    X, y = data(1)
    rows = [sp.csr_matrix(each) for each in X]
    model = InvariantStructuredSVC(Sequence(), oracle=Budget(FDrop(1)), C=0.3, random_state=0).fit(
        rows, y
    )
    each, shared = (model.certify(rows, y, oracle=oracle) for oracle in (FDrop(1), Budget(FDrop(1))))
    assert np.all(each.margins <= shared.margins + 1e-12)
    assert each.position_accuracy < shared.position_accuracy
    dense = model.certify(X, y)
    np.testing.assert_allclose(dense.attacked, shared.attacked, atol=1e-9)


def test_kernels_take_shared_changes_and_no_budget():
    X, y = data(2)
    model = InvariantStructuredSVC(
        Sequence(), oracle=Shared(SHIFTS), kernel="rbf", C=10.0, random_state=0
    )
    found = model.fit(X, y).certify(X, y)
    assert 0 < found.position_accuracy <= model.score(X, y)
    with pytest.raises(TypeError, match="Budget"):
        clone(model).set_params(oracle=Budget(FDrop(1))).fit(X, y)
