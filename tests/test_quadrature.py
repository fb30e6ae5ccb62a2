"""Lists of values whose weights give the means over a continuous distribution."""

import warnings

import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn.base import clone

from structinv.oracles import Flip, Rotations, Scalings, Shears, Shifts, check_oracle
from structinv.oracles.checked_lists import averaged
from structinv.oracles.images.image_parameters import log_density

from .covering import slow_unless
from .test_image_paths import Squeezes

GAUSS = {
    "uniform": Rotations(interval=(-20, 50)),
    "normal": Rotations(interval=(-60, 60), distribution="normal", spread=5.0),
    "normal cut off": Rotations(interval=(-4, 13), distribution="normal", spread=9.0),
    "normal of one side": Shifts(interval=(0.0, 3.0), distribution="normal", spread=0.7),
    "normal far away": Shifts(interval=(2.0, 3.0), distribution="normal", spread=0.1),
    "vonmises": Rotations(interval=(-180, 180), distribution="vonmises", spread=20.0),
    "vonmises cut off": Rotations(interval=(-30, 100), distribution="vonmises", spread=40.0),
    "vonmises of two turns": Rotations(interval=(-360, 380), distribution="vonmises", spread=15.0),
    "lognormal": Scalings(interval=(0.5, 3.0), distribution="lognormal", spread=0.3),
    "normal factors": Scalings(interval=(0.6, 1.1), distribution="normal", spread=0.2),
    "shears": Shears(interval=(-0.4, 0.4), distribution="normal", spread=0.1),
}


def values_and_weights(oracle, nodes, rule):
    """All values with their weights, found from the members; no change belongs to all families."""
    weighted = oracle.quadrature(nodes, rule)
    values, place = np.unique(np.round(weighted.oracle._table().value, 12), return_inverse=True)
    return values, np.bincount(place, weighted.weights)


def mean_of(f, oracle, low, high):
    """The mean by adaptive quadrature between the places where the density has its peaks."""

    def logarithm(t):
        return log_density(oracle.distribution, np.array([t]), oracle.neutral, oracle.spread)[0]

    top = logarithm(np.clip(oracle.neutral, low, high))

    def density(t):
        return np.exp(logarithm(t) - top)

    breaks = [low, high]
    width = oracle.spread or high - low
    for turn in range(-2, 3):
        for step in (-30, -6, -3, -1, 0, 1, 3, 6, 20.3, 21, 30):
            breaks.append(oracle.neutral + 360.0 * turn + step * width)
    breaks = np.unique(np.clip(breaks, low, high))
    # A lognormal density is one over the logarithm of the value.
    scale = (lambda t: 1.0 / t) if oracle.distribution == "lognormal" else (lambda t: 1.0)
    sums = np.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for start, end in zip(breaks[:-1], breaks[1:], strict=True):
            for k, g in enumerate((f, lambda t: 1.0)):
                value = integrate.quad(
                    lambda t, g=g: g(t) * density(t) * scale(t),
                    start,
                    end,
                    epsabs=1e-18,
                    epsrel=1e-12,
                    limit=200,
                )[0]
                sums[k] += value
    return sums[0] / sums[1]


@pytest.mark.parametrize("oracle", GAUSS.values(), ids=GAUSS)
@pytest.mark.parametrize("nodes", [1, 4])
def test_gauss_is_exact_for_polynomials(oracle, nodes):
    low, high = oracle.interval
    values, weights = values_and_weights(oracle, nodes, "gauss")
    logarithmic = oracle.distribution == "lognormal"

    def scaled(t):
        u, ends = (np.log(t), np.log([low, high])) if logarithmic else (t, (low, high))
        return (2 * u - ends[0] - ends[1]) / (ends[1] - ends[0])

    for degree in range(2 * nodes):
        wanted = mean_of(lambda t, k=degree: scaled(t) ** k, oracle, low, high)
        assert np.isclose(weights @ scaled(values) ** degree, wanted, rtol=1e-9, atol=1e-11)
    if nodes == 1:
        # One degree more would be too much.
        square = mean_of(lambda t: scaled(t) ** 2, oracle, low, high)
        assert not np.isclose(weights @ scaled(values) ** 2, square, rtol=1e-6)


class TestWholeTurns:
    @pytest.mark.parametrize("between", [(-180, 180), (0, 360), (-77.5, 282.5)])
    @pytest.mark.parametrize("nodes", [1, 4, 5])
    def test_angles_have_equal_distances_and_weights(self, between, nodes):
        oracle = Rotations(interval=between)
        weighted = oracle.quadrature(nodes)
        angles = np.sort(np.mod(np.round(weighted.oracle.degrees, 9), 360))
        np.testing.assert_allclose(angles, 360 * np.arange(nodes) / nodes, atol=1e-8)
        np.testing.assert_allclose(weighted.weights, 1 / nodes)
        assert weighted.oracle._table().family[0] == -1

    @pytest.mark.parametrize("spread", [20.0, 60.0])
    def test_means_of_waves_are_ratios_of_bessel_functions(self, spread):
        oracle = Rotations(interval=(-180, 180), distribution="vonmises", spread=spread)
        weighted = oracle.quadrature(48)
        angles = np.radians(weighted.oracle._table().value)
        concentration = np.radians(spread) ** -2.0
        for wave in range(5):
            wanted = special.ive(wave, concentration) / special.ive(0, concentration)
            assert np.isclose(weighted.weights @ np.cos(wave * angles), wanted, rtol=1e-9)

    def test_normal_distributions_are_not_periodic(self):
        oracle = Rotations(interval=(-180, 180), distribution="normal", spread=10.0)
        np.testing.assert_array_equal(
            oracle.quadrature(5).weights, oracle.quadrature(5, "gauss").weights
        )

    def test_means_of_images_are_those_over_all_angles(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((2, 25))
        oracle = Rotations(interval=(-180, 180), shape=(5, 5), order=3, fill="nearest")
        many = averaged(oracle.quadrature(4096), 25)
        wanted = np.einsum("s,nsd->nd", many.weights, many.on(X).members())
        errors = []
        for nodes in (8, 32, 128):
            law = averaged(oracle.quadrature(nodes), 25)
            errors.append(
                np.abs(np.einsum("s,nsd->nd", law.weights, law.on(X).members()) - wanted).max()
            )
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 0.01


RULES = ["spaced", "gauss", None]


# Each family by one of the rules, in turns.
@pytest.mark.parametrize(
    ("name", "rule"),
    slow_unless(
        lambda name, rule: rule == RULES[list(GAUSS).index(name) % len(RULES)],
        [(name, rule) for name in GAUSS for rule in RULES],
    ),
)
def test_quadrature_is_a_finite_oracle_of_the_same_class(name, rule):
    oracle = clone(GAUSS[name]).set_params(shape=(4, 4))
    weighted = oracle.quadrature(5, rule)
    assert type(weighted.oracle) is type(oracle)
    assert weighted.oracle.interval is None
    assert np.isclose(np.sum(weighted.weights), 1.0, rtol=1e-12)
    low, high = oracle.interval
    assert all(low <= value <= high for value in weighted.oracle.values())
    X = np.random.default_rng(0).standard_normal((4, 16))
    check_oracle(weighted, X)
    law = averaged(weighted, 16)
    assert law.size <= 5 * len(oracle.families())
    assert all(
        oracle.contains(x, z)
        for x, zs in zip(X[:2], law.on(X[:2]).members(), strict=True)
        for z in zs[:3]
    )


def test_all_families_have_equal_weight():
    weighted = Shears(interval=(-0.4, 0.6)).quadrature(3)
    table = weighted.oracle._table()
    for family in (0, 1):
        np.testing.assert_allclose(weighted.weights[table.family == family].sum(), 0.5)
    # Symmetric values: the middle one is no change in all directions.
    weighted = Shears(interval=(-0.4, 0.4)).quadrature(3)
    np.testing.assert_allclose(weighted.weights[0], 8 / 18)
    assert len(weighted.weights) == 5


def test_spaced_values_lie_in_the_middle_of_equal_parts():
    weighted = Shifts(interval=(0, 4), distribution="normal", spread=2.0).quadrature(4, "spaced")
    np.testing.assert_allclose(weighted.oracle.pixels, [0.5, 1.5, 2.5, 3.5])
    shares = stats.norm.pdf([0.5, 1.5, 2.5, 3.5], scale=2.0)
    np.testing.assert_allclose(
        weighted.weights[1:].reshape(4, 4), np.outer(shares / shares.sum(), np.full(4, 0.25))
    )


def test_random_draws_converge_to_the_quadrature():
    X = np.random.default_rng(0).standard_normal((3, 16))
    oracle = Rotations(interval=(-25, 60), shape=(4, 4), distribution="normal", spread=30.0)
    size = 20000
    listed, drawn = averaged(oracle.quadrature(40), 16), averaged(oracle, 16, size)
    means = [np.einsum("s,nsd->nd", law.weights, np.cos(law.on(X).members())) for law in (listed, drawn)]
    np.testing.assert_allclose(*means, atol=6.0 / np.sqrt(size))


@pytest.mark.parametrize(
    ("oracle", "asked", "error", "message"),
    [
        *((Rotations(interval=(-9, 9)), (nodes,), TypeError, "nodes must be an integer of at least 1")
          for nodes in (True, 2.0, None)),
        (Rotations(interval=(-9, 9)), (0,), ValueError, "nodes must be an integer of at least 1"),
        (Rotations(interval=(-9, 9)), (3, "simpson"), ValueError, "rule must be None or.*'simpson'"),
        (Rotations([-9, 9]), (3,), ValueError, "quadrature requires an oracle with interval"),
        (Flip(), (3,), ValueError, "quadrature requires an oracle with interval"),
        (Rotations(interval=(-9, 9), distribution="normal"), (3,), ValueError, "spread must be"),
    ],
    ids=str,
)  # fmt: skip
def test_oracles_without_an_interval_raise(oracle, asked, error, message):
    with pytest.raises(error, match=message):
        oracle.quadrature(*asked)


def test_custom_oracles_have_a_quadrature():
    weighted = Squeezes(interval=(0.5, 1.5), distribution="normal", spread=0.1).quadrature(3)
    wanted = [1 - 0.1 * np.sqrt(3), 1, 1 + 0.1 * np.sqrt(3)]
    np.testing.assert_allclose(weighted.oracle.factors, wanted, rtol=1e-3)
