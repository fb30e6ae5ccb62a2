"""`check_oracle`: faults of lists, orbits and draws."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import Box, FiniteOracle, Flip, InvarianceOracle, Support, check_oracle
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import DrawnChanges, ListedChanges
from structinv.oracles.third_party import bind
from structinv.utils.exceptions import CheckError
from structinv.utils.matrices import ALL_ROWS

RADIUS = 0.5


X = np.random.default_rng(0).standard_normal((6, 3))
X[4, 0] = 100.0


class Reversal(FiniteOracle):
    """Right, with a list that a kind of changes spoils."""

    def __init__(self, kind=None):
        self.kind = kind

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)

    def changes(self, X, y=None):
        keep = sp.identity(X.shape[1], format="csr")
        return (self.kind or LinearChanges)(X, [keep, keep[::-1]])


class Boxes(InvarianceOracle):
    """A box whose draws a kind of changes spoils."""

    def __init__(self, kind=DrawnChanges):
        self.kind = kind

    def support(self, X, V, assign, cost=None):
        return Box(RADIUS).support(X, V, assign)

    def sample(self, X, size, rng):
        return Box(RADIUS).sample(X, size, rng)

    def contains(self, x, z):
        return Box(RADIUS).contains(x, z)

    def _draws(self, X, size, random_state):
        return self.kind(self, X, size, random_state)


class OfTheBlock(DrawnChanges):
    def members(self, rows=ALL_ROWS, numbers=None):
        X = self.X[rows]
        return X[:, None] + 0.1 * np.sign(X[0] - X[-1]) * np.ones((self.size, 1))


class OfTheFirst(DrawnChanges):
    """The noise differs from row to row."""

    def members(self, rows=ALL_ROWS, numbers=None):
        return self.oracle.sample(self.X[rows], self.size, np.random.default_rng(0))


class TooFar(DrawnChanges):
    def members(self, rows=ALL_ROWS, numbers=None):
        return self.X[rows][:, None] + 0.6 * np.ones((self.size, 1))


class NoList:
    def __init__(self, *parameters):
        pass


class Mirror(FiniteOracle):
    """An oracle whose points, scores or names do not match its members."""

    def __init__(self, kind=ListedChanges, names=("identity", "mirror")):
        self.kind, self.names = kind, names

    def orbit(self, X):
        return np.stack([X, -X], axis=1)

    def changes(self, X, y=None):
        return self.kind(self, X)

    def member_names(self, size):
        return list(self.names)


def spoilt(base=LinearChanges, **views):
    return type("Spoilt", (base,), views)


LAST = spoilt(members=lambda self, *asked: LinearChanges.members(self, *asked)[:, ::-1])


BELOW = spoilt(mesh=lambda self, rows=ALL_ROWS: np.full(self.count(rows), -1.0))


OTHER_POINTS = spoilt(
    ListedChanges, points=lambda self, rows, index: self.X[rows] * (1.0 + index[:, None])
)


def test_scores_and_maps_of_third_party_lists_are_not_used():
    oracle = Reversal(spoilt())
    assert oracle.changes(X).scores(ALL_ROWS, X) is not None
    changes = bind(oracle, X).changes()
    assert changes.scores(ALL_ROWS, X) is None
    assert changes.adjoint(X) is None
    assert changes.linear() is None


@pytest.mark.parametrize("oracle", [Reversal(), Boxes(), Mirror()], ids=repr)
def test_base_classes_of_broken_lists_pass(oracle):
    check_oracle(oracle, X)


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (Reversal(LAST), "must begin with the unperturbed sample"),
        (Reversal(BELOW), "Spoilt.mesh must return a mesh of at least 0"),
        (Reversal(spoilt(weights=np.ones(3))), r"Spoilt.weights must return weights of shape \(2,\)"),
        (Reversal(spoilt(weights=np.array([1.5, -0.5]))), "Spoilt.weights must be at least 0"),
        (Reversal(spoilt(weights=np.zeros(2))), "Spoilt.weights must be at least 0, with one above 0"),
        (Reversal(NoList), "Reversal.changes must return Changes, got NoList"),
        (Mirror(OTHER_POINTS), "points and members differ for member 1"),
        (Mirror(names=["identity"]), "Mirror.member_names must return one name per member, 2 names"),
        (Boxes(OfTheBlock), "members differ if the rows|members differ in a call with a single row"),
        (Boxes(OfTheFirst), "members differ if the rows|members differ in a call with a single row"),
        (Boxes(TooFar), "a member from the list of draws"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_lists_and_draws_are_found(oracle, message):
    for seed in range(2):
        with pytest.raises(CheckError, match=message):
            check_oracle(oracle, X, random_state=seed)


RANDOM, CALLS = np.random.default_rng(0), itertools.count()


RANDOM, CALLS = np.random.default_rng(0), itertools.count()


class Spoilt(FiniteOracle):
    """A finite oracle with the fault of this name."""

    def __init__(self, fault="none"):
        self.fault = fault

    def orbit(self, X):
        moved = {
            "random": lambda: X + RANDOM.normal(size=X.shape),
            "random order": lambda: np.roll(X, next(CALLS), axis=1),
            "mean of the batch": lambda: X - X.mean(axis=0),
            "position in the batch": lambda: X + np.arange(len(X))[:, None],
            "scale of the batch": lambda: X * (1.0 + 1e-6 * np.std(X)),
        }.get(self.fault, lambda: X[:, ::-1])()
        several = [0.5 * X] * (self.fault == "size of the batch" and len(X) > 1)
        return np.stack([X, moved, np.roll(X, 1, axis=1), *several], axis=1)

    def support(self, X, V, assign, cost=None):
        answer = super().support(X, V, assign)
        if self.fault == "two of three":
            both = np.stack([X, X[:, ::-1]], axis=1)
            best = np.argmax(np.einsum("nsd,nd->ns", both, V[assign]), axis=1)
            answer = Support(both[np.arange(len(X)), best])
        return answer


IS_RANDOM = r"Spoilt.orbit must not be random: another call returns other members \(row \d of X\)"


OF_BATCH = "Spoilt.orbit must not depend on the other rows: a call with one row differs"


NOT_LARGEST = r"{}.support must return the largest of the members, .* \(row \d of X, direction \["


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("random", IS_RANDOM),
        ("random order", IS_RANDOM),
        ("mean of the batch", OF_BATCH),
        ("position in the batch", OF_BATCH),
        ("scale of the batch", OF_BATCH),
        ("size of the batch", OF_BATCH + "|same number of members in every call"),
    ],
)
def test_random_orbits_and_orbits_of_the_batch_are_named(fault, message):
    bad, flip = Spoilt(fault), Flip(shape=(1, 3))
    for oracle in (bad, bad | flip, bad @ flip, bad.only_for([0, 1])):
        with pytest.raises(CheckError, match=message):
            check_oracle(oracle, X, np.arange(len(X)) % 2)


def test_an_answer_that_is_not_the_largest_member_is_named():
    with pytest.raises(CheckError, match=NOT_LARGEST.format("Spoilt")):
        check_oracle(Spoilt("two of three"), X)
    with pytest.raises(CheckError, match=NOT_LARGEST.format("Union")):
        check_oracle(Spoilt("two of three") | Flip(shape=(1, 3)), X)
