"""Where polynomials of one variable are largest, against NumPy's roots and dense grids."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import polynomial

from structinv.utils.polynomials import largest_on_interval, smallest_on_interval, squared_distances

INTERVALS = [(-1.0, 1.0), (0.0, 3.0), (-20.0, 0.5), (1.0, 2.0), (-2.0, -1.0), (0.0, 0.0)]


def by_roots(c, low, high):
    """The largest value at the ends and at the real parts of all roots of the derivative."""
    c = np.trim_zeros(c, "b")
    stationary = polynomial.polyroots(polynomial.polyder(c)).real if len(c) > 1 else []
    places = np.clip(np.r_[low, high, stationary], low, high)
    return np.max(polynomial.polyval(places, c)) if len(c) else 0.0


def sizes(C, low, high):
    """What the terms of the polynomials add up to at most."""
    return np.abs(C) @ max(abs(low), abs(high)) ** np.arange(C.shape[1])


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 6, 9])
def test_finds_the_best_of_all_stationary_points_and_the_ends(degree):
    for low, high in INTERVALS:
        rng = np.random.default_rng(degree)
        C = rng.standard_normal((60, degree + 1)) / max(abs(low), abs(high), 1e-9) ** np.arange(
            degree + 1
        )
        C[rng.random(C.shape) < 0.15] = 0.0
        t, values = largest_on_interval(C, low, high)
        assert np.all((t >= low) & (t <= high))
        np.testing.assert_array_equal(
            values, [polynomial.polyval(s, c) for s, c in zip(t, C, strict=True)]
        )
        wanted = [by_roots(c, low, high) for c in C]
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-13 * np.max(sizes(C, low, high)))
        grid = polynomial.polyval(np.linspace(low, high, 4001), C.T)
        assert np.all(values >= grid.max(axis=1) - 1e-14 * sizes(C, low, high))


@pytest.mark.parametrize(
    ("c", "low", "high", "t", "value"),
    [
        ([0.0, 0.0, 0.0], -1, 1, 0.0, 0.0),
        ([2.0, 0.0, 0.0, 0.0], 1, 3, 1.0, 2.0),
        ([0.0, 1.0, 0.0, 0.0], -2, 3, 3.0, 3.0),
        # Leading coefficients that are next to nothing.
        ([0.0, 2.0, -1.0, 1e-300, 5e-324], -2, 3, 1.0, 1.0),
        ([0.0, 2.0, -1.0, 1e-18], -2, 3, 1.0, 1.0),
        # -(t^2 - 1)^2: double roots, two best places, the lower one is taken.
        ([-1.0, 0.0, 2.0, 0.0, -1.0], -2, 2, -1.0, 0.0),
        # -(t - 1)^4: stationary points that fall together.
        (-np.poly([1.0] * 4)[::-1], -2, 2, 1.0, 0.0),
        # Constant up to a point of inflection: (t - 1)^3 rises through it.
        (np.poly([1.0] * 3)[::-1], -2, 2, 2.0, 1.0),
        ([1e300, 1e300, -1e300], -1, 1, 0.5, 1.25e300),
        ([0.0, 1e-300, -1e-300], -1, 1, 0.5, 0.25e-300),
        # Equal ends are left alone where no change is as good.
        ([0.0, 0.0, -1.0, 0.0, 1.0], -1, 1, 0.0, 0.0),
    ],
)
def test_degenerate_polynomials(c, low, high, t, value):
    found, values = largest_on_interval(np.array([c], dtype=float), low, high)
    assert found[0] == pytest.approx(t, abs=2e-4)
    assert values[0] == pytest.approx(value, rel=1e-13, abs=1e-14)


numbers = st.floats(-1.0, 1.0, allow_nan=False, allow_subnormal=False)


@settings(max_examples=300)
@given(
    roots=st.lists(numbers.map(lambda t: round(t, 2)), min_size=1, max_size=6),
    scale=st.sampled_from([1e-200, 1.0, 1e200]),
    ends=st.tuples(numbers, numbers).map(sorted),
)
def test_no_point_of_the_interval_beats_it_where_roots_fall_together(roots, scale, ends):
    slopes = polynomial.polyfromroots(roots)
    C = scale * np.array([polynomial.polyint(slopes), -polynomial.polyint(slopes)])
    values = largest_on_interval(C, *ends)[1]
    places = np.r_[np.linspace(*ends, 501), np.clip(roots, *ends)]
    reached = polynomial.polyval(places, C.T).max(axis=1)
    assert np.all(values >= reached - 1e-15 * sizes(C, -1.0, 1.0))


def test_the_smallest_value_is_the_largest_of_the_negative():
    C = np.random.default_rng(0).standard_normal((20, 5))
    np.testing.assert_array_equal(smallest_on_interval(C, -1, 2)[0], largest_on_interval(-C, -1, 2)[0])
    np.testing.assert_array_equal(smallest_on_interval(C, -1, 2)[1], -largest_on_interval(-C, -1, 2)[1])


def test_no_rows_are_no_answers():
    t, values = largest_on_interval(np.zeros((0, 3)), -1.0, 1.0)
    assert t.shape == values.shape == (0,)


def test_distances_from_inner_products_are_those_of_the_points():
    rng = np.random.default_rng(1)
    Z, curves = rng.standard_normal((6, 9)), rng.standard_normal((4, 3, 9))
    C = squared_distances(
        np.sum(Z**2, axis=1)[:, None],
        np.einsum("nd,mkd->nmk", Z, curves),
        curves @ curves.swapaxes(1, 2),
    )
    assert C.shape == (6, 4, 5)
    t, squares = smallest_on_interval(C.reshape(-1, 5), -0.5, 0.8)
    points = np.einsum("ak,mkd->amd", np.linspace(-0.5, 0.8, 5001)[:, None] ** np.arange(3), curves)
    wanted = np.linalg.norm(Z[:, None, None] - points, axis=3).min(axis=1)
    np.testing.assert_allclose(np.sqrt(squares).reshape(6, 4), wanted.reshape(6, 4), rtol=1e-6)
    at = np.einsum("nmk,mkd->nmd", t.reshape(6, 4)[..., None] ** np.arange(3), curves)
    near = np.linalg.norm(Z[:, None] - at, axis=2)
    np.testing.assert_allclose(np.sqrt(squares).reshape(6, 4), near, rtol=1e-12)
