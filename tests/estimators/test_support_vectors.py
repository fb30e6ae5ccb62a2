"""Models of support vectors: what is left of them after a compression."""

import numpy as np
import pytest

from structinv import InvariantSVC
from structinv.functionals import Gradient


@pytest.mark.parametrize("nu", [0.0, 1.0])
def test_tolerances_are_relative_to_the_norm_of_the_function_with_its_representers(nu):
    X = np.random.default_rng(0).standard_normal((12, 2))
    families = {"invariances": [Gradient()], "nu": nu} if nu else {}
    model = InvariantSVC(gamma=1.0, C=10.0, random_state=0, **families).fit(X, np.arange(12) % 2)
    Z, coefficients = model.support_vectors_, model.dual_coef_[0]
    # |f|^2 sums the coefficients times what their functionals see of f: values and slopes.
    squared_norm = coefficients @ model.decision_function(Z)
    if nu:
        steps = 1e-5 * np.eye(2)
        f = model.decision_function
        slopes = np.stack([(f(X + step) - f(X - step)) / 2e-5 for step in steps], axis=1)
        squared_norm += model.alpha_[0] @ slopes.ravel()
    squares = np.sum((Z[:, None] - Z) ** 2, axis=2)
    for tol in (0.2, 0.5):
        small = model.compress(tol)
        change = coefficients.copy()
        for z, coefficient in zip(small.support_vectors_, small.dual_coef_[0], strict=True):
            change[(z == Z).all(axis=1)] -= coefficient
        assert change @ np.exp(-squares) @ change <= tol**2 * squared_norm * (1 + 1e-6)
    assert 0 < len(small.support_) < len(Z)
