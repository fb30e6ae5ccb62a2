"""`Weighted`: lists of members with probabilities."""

import numpy as np
import pytest

from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Box, Flip, Identity, Rotations, Shared, Shifts, Weighted
from structinv.oracles.listed_changes import averaged
from structinv.utils.matrices import ALL_ROWS

from .cases import ORDERS, D, Reorderings, Shrinkings, close, rows

WEIGHTS = [0.5, 0.0, 2.0]
PARTS = {
    "reorderings": (Reorderings(ORDERS), WEIGHTS),
    "shrinkings": (Shrinkings(), WEIGHTS),
    "identity": (Identity(), [3]),
    "image": (Rotations([180, 40], shape=(1, D)), WEIGHTS),
    "background": (Rotations([180, 40], shape=(1, D), fill=0.5), WEIGHTS),
    "union": (Reorderings(ORDERS) | Flip(shape=(1, D)), [1, 2, 3, 4]),
    "compose": (Flip(shape=(1, D)) @ Shrinkings(), [1, 0, 2, 3, 4, 0]),
    "graded": (Reorderings(ORDERS).discounted(0.3), WEIGHTS),
}
every_part = pytest.mark.parametrize(("part", "weights"), PARTS.values(), ids=PARTS)


@every_part
def test_weights_do_not_change_the_worst_case(part, weights):
    X, y = rows()
    V = np.random.default_rng(0).standard_normal((3, D))
    assign, cost = np.arange(len(X)) % 3, np.linspace(0.0, 2.0, len(X))
    own, inner = Weighted(part, weights).bind(X, y), part.bind(X, y)
    for answer, wanted in ((bound.support(ALL_ROWS, V, assign, cost) for bound in (own, inner)),):
        np.testing.assert_array_equal(answer.points, wanted.points)
        np.testing.assert_array_equal(answer.rho, wanted.rho)
    assert own.changes().names == inner.changes().names
    for ask in (
        lambda changes: changes.members(),
        lambda changes: changes.scores(ALL_ROWS, V),
        lambda changes: changes.grades(),
        lambda changes: changes.adjoint(V),
    ):
        np.testing.assert_array_equal(ask(own.changes()), ask(inner.changes()))
    assert (own.edits() is None) == (inner.edits() is None)
    for flag in ("finite", "supports_sparse", "additive", "convex", "graded"):
        assert getattr(Weighted(part, weights), flag) == getattr(part, flag)


@every_part
def test_lists_have_the_weights_as_probabilities(part, weights):
    X, y = rows()
    law = averaged(Weighted(part, weights), D)
    likely = np.flatnonzero(weights)
    np.testing.assert_allclose(law.weights, np.array(weights)[likely] / np.sum(weights), rtol=1e-15)
    np.testing.assert_array_equal(
        law.on(X).members(), part.bind(X, y).changes().members(ALL_ROWS)[:, likely]
    )


def test_weights_replace_those_of_the_part():
    X, _ = rows()
    part = Rotations([180, 40], shape=(1, D), spread=30.0)
    np.testing.assert_allclose(
        averaged(Weighted(Weighted(part, [1, 2, 3]), [1, 1, 1]), D).weights, 1 / 3
    )
    np.testing.assert_allclose(averaged(Weighted(part, [1, 2, 3]).discounted(0.5), D).weights[0], 1 / 6)
    np.testing.assert_allclose(averaged(Shared(Weighted(part, [1, 2, 3])), D).weights[0], 1 / 6)


def test_samples_of_different_rows_are_independent():
    X, n_draws = np.ones((2, D)), 2000
    bound = Weighted(Shrinkings(), [1, 2, 1]).bind(X)
    factors = bound.sample(ALL_ROWS, n_draws, np.random.default_rng(0))[:, :, 0]
    listed = np.unique(factors)
    left, right = factors[:, :, None] == listed
    joint = np.mean(left[:, :, None] & right[:, None], axis=0)
    alone = left.mean(axis=0), right.mean(axis=0)
    np.testing.assert_allclose(joint, np.outer(*alone), atol=4 * np.sqrt(0.25 / n_draws))


@every_part
def test_samples_follow_the_weights(part, weights):
    X, y = rows()
    size = 3000
    oracle = Weighted(part, weights)
    shares = np.array(weights) / np.sum(weights)
    for draw in (oracle.sample, lambda X, *asked: oracle.bind(X).sample(ALL_ROWS, *asked)):
        mean = np.mean(np.cos(draw(X[:2], size, np.random.default_rng(0))), axis=1)
        wanted = np.einsum(
            "s,nsd->nd", shares, np.cos(part.bind(X[:2], y[:2]).changes().members(ALL_ROWS))
        )
        np.testing.assert_allclose(mean, wanted, atol=5.0 / np.sqrt(size))


@pytest.mark.parametrize(
    ("oracle", "error", "message"),
    [
        (Weighted("flip", [1, 2]), TypeError, "oracle must be an InvarianceOracle"),
        (Weighted(Box(1.0), [1, 2]), ValueError, "oracle must be finite"),
        (Weighted(Shifts(interval=(0, 1), shape=(1, D)), [1, 2]), ValueError, "pass a list of values"),
        (
            Weighted(Reorderings(ORDERS).only_for(1), WEIGHTS),
            ValueError,
            "same perturbations for every sample",
        ),
        (Weighted(Shared(Identity()), [1]), ValueError, r"Shared\(Weighted"),
        (Weighted(Reorderings(ORDERS), [1, 2]), ValueError, "must have 3 entries.*got 2"),
        (Weighted(Reorderings(ORDERS), [1, 2, -1]), ValueError, "at least 0"),
        (Weighted(Reorderings(ORDERS), [0, 0, 0]), ValueError, "with one above 0"),
        (Weighted(Reorderings(ORDERS), [1, 2, np.nan]), ValueError, "finite"),
        (Weighted(Reorderings(ORDERS), "123"), TypeError, "sequence of numbers"),
    ],
)
def test_invalid_arguments_raise_with_their_name(oracle, error, message):
    X, y = rows()
    for ask in (lambda: oracle.bind(X, y), lambda: oracle.orbit(X), lambda: averaged(oracle, D, 3)):
        with pytest.raises(error, match=message):
            ask()


def test_probabilities_of_pairs_apply_to_both_sides():
    X = np.random.default_rng(0).standard_normal((3, 16))
    pairs = Rotations((90, 180, 270)) @ Rotations([20, 45])
    size = pairs.changes(X).size
    weights = np.random.default_rng(1).random(size)
    members = pairs.changes(X).members()
    kernel = Gaussian(0.3)
    table = kernel.matrix(members.reshape(-1, 16), members.reshape(-1, 16))
    shares = weights / weights.sum()
    wanted = np.einsum("s,isjt,t->ij", shares, table.reshape(3, size, 3, size), shares)
    close(OrbitMean(Weighted(pairs, weights), kernel).matrix(X, X), wanted)
