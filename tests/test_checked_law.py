"""Laws of foreign classes: what is not as the contract says is refused by name."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Flip, Identity, Law, Shared, Weighted, law_of
from structinv.oracles.laws import LinearLaw

D = 3
X = np.random.default_rng(0).standard_normal((4, D))
V = np.random.default_rng(1).standard_normal((5, D))
EYE = sp.identity(D, format="csr")


class Signs(Law):
    """The input and its negative."""

    weights = np.array([0.25, 0.75])

    def members(self, X):
        return np.stack([X, -X], axis=1)

    def pull_back(self, V):
        return np.stack([V, -V])

    def linear(self):
        return LinearLaw([EYE, -EYE], self.weights)


class Lawful(Identity):
    """With the law that it is given."""

    def __init__(self, kind):
        self.kind = kind

    def law(self, n_features, size=None, random_state=0):
        return self.kind()


class Listed(Identity):
    """With the law that it is given, of all members."""

    def __init__(self, kind):
        self.kind = kind

    def listed_law(self, n_features, weights=None):
        return self.kind()


def planted(**answers):
    return type("Planted", (Signs,), answers)


def test_what_is_right_stays():
    for oracle in (Lawful(Signs), Listed(Signs), Shared(Lawful(Signs)), Weighted(Listed(Signs), [1])):
        law = law_of(oracle, D)
        np.testing.assert_array_equal(law.weights, Signs.weights)
        np.testing.assert_array_equal(law.members(X), Signs().members(X))
        np.testing.assert_array_equal(law.pull_back(V), Signs().pull_back(V))
        assert law.linear().isometric
        assert law.sides()[0] is None
        assert law.take([1]).members(X).shape == (4, 1, D)
        single = law.members(X.astype(np.float32))
        assert single.dtype == np.float32
    drawn = law_of(Listed(Signs), D, 50)
    assert drawn.members(X).shape == (4, 50, D)
    mean = OrbitMean(Lawful(Signs), Gaussian())
    left = Signs().members(X)
    wanted = [
        [Signs.weights @ Gaussian().matrix(one, other) @ Signs.weights for other in left] for one in left
    ]
    np.testing.assert_allclose(mean.matrix(X, X), wanted, rtol=1e-12)


def test_weights_in_single_precision_are_enough():
    law = law_of(Lawful(planted(weights=np.array([0.1, 0.9], dtype=np.float32))), D)
    assert law.weights.dtype == np.float64
    assert abs(np.sum(law.weights) - 1.0) < 1e-15


@pytest.mark.parametrize(
    "weights",
    [
        np.ones(2),
        np.array([1.0, 0.0]),
        np.array([1.5, -0.5]),
        np.array([np.nan, 1.0]),
        np.array([[0.5, 0.5]]),
        np.array([1, 0]),
        np.zeros(0),
        [0.5, 0.5],
        None,
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [Lawful, Listed])
def test_weights_that_are_none(kind, weights):
    with pytest.raises(ValueError, match="Planted, must have weights above 0 with sum 1"):
        law_of(kind(planted(weights=weights)), D)


def test_another_number_of_changes_than_asked_for():
    assert law_of(Lawful(Signs), D, 2).size == 2
    with pytest.raises(ValueError, match="must have as many changes as asked for, got 2, not 3"):
        law_of(Lawful(Signs), D, 3)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            lambda self, X: np.stack([X, -X]),
            r"must return members of shape \(4, 2, 3\), got \(2, 4, 3\)",
        ),
        (lambda self, X: X[:, None], r"must return members of shape \(4, 2, 3\)"),
        (lambda self, X: np.stack([X, np.nan * X], axis=1), "members that are not finite"),
        (lambda self, X: [X, -X], "must return members as an array"),
        (lambda self, X: np.stack([X, np.negative(X, out=X)], axis=1), "must not change its inputs"),
    ],
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda kind: law_of(Lawful(kind), D).members(X),
        lambda kind: law_of(Listed(kind), D, 7).members(X),
        lambda kind: law_of(Identity() @ Lawful(kind), D).members(X),
        lambda kind: law_of(Lawful(kind) | Flip(shape=(1, D)), D).members(X),
        lambda kind: law_of(Lawful(kind), D).take([0, 1]).members(X),
    ],
)
def test_members_that_are_none(ask, members, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ask(planted(members=members))


@pytest.mark.parametrize(
    ("pull_back", "message"),
    [
        (lambda self, V: np.stack([V, -V], axis=1), r"must return images of shape \(2, 5, 3\)"),
        (lambda self, V: np.stack([V, np.inf * V]), "images that are not finite"),
        (lambda self, V: "no", "must return images as an array"),
    ],
)
def test_directions_that_are_none(pull_back, message):
    law = law_of(Lawful(planted(pull_back=pull_back)), D)
    with pytest.raises((TypeError, ValueError), match=rf"Planted\.pull_back .*{message}"):
        law.pull_back(V)


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (lambda self: [EYE, -EYE], "must return None or a LinearLaw, got list"),
        (lambda self: LinearLaw([EYE], np.ones(1)), "must return the 2 changes of the law"),
        (lambda self: LinearLaw([EYE, -EYE], np.ones(2)), "with their weights"),
        (lambda self: LinearLaw([EYE[:2, :2]] * 2, self.weights), r"as CSR of shape \(3, 3\)"),
        (lambda self: LinearLaw([EYE, np.nan * EYE], self.weights), "maps that are not finite"),
    ],
)
def test_matrices_that_are_none(maps, message):
    law = law_of(Lawful(planted(linear=maps)), D)
    for ask in (law.linear, law.differences, law.sides):
        with pytest.raises((TypeError, ValueError), match=rf"Planted\.linear .*{message}"):
            ask()


def test_differences_of_its_own():
    same = planted(differences=lambda self, most=None: LinearLaw([EYE], np.ones(1)))
    assert law_of(Lawful(same), D).differences().size == 1
    with pytest.raises(TypeError, match=r"Planted\.differences must return None or a LinearLaw"):
        law_of(Lawful(planted(differences=lambda self, most=None: Signs())), D).sides()


def test_some_changes_of_its_own():
    some = planted(take=lambda self, numbers, weights=None: Signs())
    assert law_of(Lawful(some), D).take([1, 0]).members(X).shape == (4, 2, D)
    with pytest.raises(ValueError, match="as many changes as asked for, got 2, not 1"):
        law_of(Lawful(some), D).take([0])
    with pytest.raises(TypeError, match=r"Planted\.take must return a Law, got NoneType"):
        law_of(Lawful(planted(take=lambda self, numbers, weights=None: None)), D).take([0])
