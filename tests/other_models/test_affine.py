"""Affine maps and the sizes of their terms."""

import numpy as np

from structinv.other_models.affine import Affine


def composed(absolute):
    """Scores after one map of each kind; or the same of all absolute values, without cancellation."""
    rng = np.random.default_rng(0)

    def drawn(*shape):
        values = rng.standard_normal(shape)
        return abs(values) if absolute else values

    before_sign = -1.0 if absolute else 1.0
    last = Affine.of(drawn(3, 4), drawn(3)).mapped(drawn(4, 4), before_sign * drawn(4), drawn(4))
    scaled = last.scaled(drawn(4), before_sign * drawn(4), drawn(4))
    read = scaled.part([1, 3]).spread(np.array([2, 0]), 5)
    constant = scaled.part([0, 2]).at(drawn(6, 2), 5, "unknown")
    total = scaled.constants(5).plus(read).plus(constant)
    return total.combined(drawn(2, 3))


def test_sizes_are_sums_of_the_absolute_values_of_all_terms():
    scores, absolute = composed(False), composed(True)
    np.testing.assert_allclose(scores.coef_size, absolute.coef)
    np.testing.assert_allclose(scores.intercept_size, absolute.intercept)
    np.testing.assert_allclose(scores.offset_sizes, absolute.offsets)
