"""Weights of classes, costs and labels that classifiers refuse, in fits and afterward."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv import InvariantLinearSVC
from structinv.oracles import Box, FDrop

from .cases import check_refused

X = np.random.default_rng(0).standard_normal((9, 4))
Y = np.arange(9) % 3


def spoilt(value, form=np.array):
    rows = X.astype(type(value)) if isinstance(value, complex) else X.copy()
    rows[4, 2] = value
    return form(rows)


COST = [[0, 1, -1], [1, 0, 1], [1, 1, 0]]
REFUSED = [
    ({"rescaling": "norm"}, ValueError, "rescaling"),
    ({"class_weight": "even"}, ValueError, "class_weight.*balanced"),
    ({"class_weight": {0: 1.0, 1: -1.0, 2: 1.0}}, ValueError, "class_weight must be non-negative"),
    ({"class_weight": {0: np.nan}}, ValueError, "class_weight"),
    ({"cost": [[0, 1], [1, 0]]}, ValueError, r"cost must have shape \(3, 3\)"),
    ({"cost": COST}, ValueError, "cost must contain finite non-negative"),
    ({"cost": np.where(np.eye(3), 0, np.nan)}, ValueError, "cost must contain finite non-negative"),
    ({"cost": np.ones((3, 3))}, ValueError, "cost must have a zero diagonal"),
    ({"cost": "high"}, (TypeError, ValueError), "cost"),
    ({"cost": [[0, 1], [1]]}, (TypeError, ValueError), "cost"),
]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("params", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_parameters_out_of_range_raise_with_their_name(params, error, message):
    check_refused(InvariantLinearSVC(**params), error, message, X, Y)


def test_certificates_without_labels_are_for_perturbed_samples_of_all_classes():
    model = InvariantLinearSVC(Box(0.2).only_for([1]), tol=0.1).fit(X, Y % 2)
    found, distances = model.predict(X), np.abs(model.decision_function(X))
    assert set(found) == {0, 1}
    lost = 0.2 * np.abs(model.coef_).sum()
    np.testing.assert_allclose(model.certify(X).margins, distances - lost, rtol=1e-9, atol=1e-12)
    # With labels, only those of the given class are perturbed.
    expected = distances - lost * (found == 1)
    np.testing.assert_allclose(model.certify(X, found).margins, expected, rtol=1e-9, atol=1e-12)


AFTERWARD = [
    ((X[:, :-1],), "X has 3 features, but .* is expecting 4 features"),
    ((spoilt(np.nan),), "X contains NaN"),
    ((spoilt(np.inf, sp.csr_matrix),), "X contains infinity"),
    ((spoilt(1j),), "Complex data not supported"),
    ((X[0],), "Expected 2D array"),
    ((X, Y[:-1]), r"y must have shape \(9,\), one label per row, got \(8,\)"),
    ((X, Y + 1), r"y contains labels that are not among the classes: \[3\]"),
    ((X, np.array(["a", "b", "c"])[Y]), "y contains labels that are not among"),
    ((X, np.where(Y == 1, np.nan, Y)), "not among the classes"),
]


def test_invalid_samples_and_labels_after_a_fit_raise():
    model = InvariantLinearSVC(FDrop(1), tol=0.1).fit(X, Y)
    for data, message in AFTERWARD:
        for method in (model.certify, model.worst_case):
            with pytest.raises(ValueError, match=message):
                method(*data)
