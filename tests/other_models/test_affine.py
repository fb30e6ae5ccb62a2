"""Affine maps and the sizes of their terms."""

import itertools
from dataclasses import replace

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


def test_the_rounding_of_a_sum_is_at_least_that_of_both_parts():
    rng = np.random.default_rng(0)
    rows, one = (
        rng.standard_normal((6, 4)),
        Affine.of(rng.standard_normal((3, 4)), rng.standard_normal(3)),
    )
    parts = [
        one,
        replace(one, unit=float(np.finfo(np.float32).eps)),
        one.scaled(3.0).scaled(2.0),
        one.mapped(rng.standard_normal((4, 90))).mapped(rng.standard_normal((90, 4))),
        one.at(rng.standard_normal((6, 4)), 4, "unknown"),
    ]
    for left, right in itertools.product(parts, repeat=2):
        least = left.roundings(rows) + right.roundings(rows)
        assert np.all(left.plus(right).roundings(rows) >= least)
