"""What check_oracle says of rows and directions, and what it leaves to rounding."""

import numpy as np
import pytest

from structinv.oracles import (
    Box,
    FiniteOracle,
    InvarianceOracle,
    OracleCheckError,
    Support,
    check_oracle,
)
from structinv.oracles.laws import DrawnLaw

X = np.random.default_rng(0).standard_normal((6, 3))
X[4, 0] = 100.0


class Short(FiniteOracle):
    """Answers in single precision."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1).astype(np.float32)


class ShortAnswers(InvarianceOracle):
    """Only the answers to questions are in single precision."""

    def support(self, X, V, assign, cost=None):
        return Support((X + 0.5 * np.sign(V[assign])).astype(np.float32))


class Wrong(InvarianceOracle):
    """A box, and a row that is made worse."""

    def support(self, X, V, assign, cost=None):
        points = X + 0.5 * np.sign(V[assign])
        bad = X[:, 0] == 100.0
        points[bad] = X[bad] - np.sign(V[assign][bad])
        return Support(points)


class OffInBlocks(InvarianceOracle):
    """The largest answer of a block is not the one that it is on its own."""

    def support(self, X, V, assign, cost=None):
        points = X + 0.5 * np.sign(V[assign])
        if len(np.unique(assign)) > 1:
            bad = X[:, 0] == 100.0
            points[bad] = X[bad]
        return Support(points)


class NoRowOfZeros(InvarianceOracle):
    def support(self, X, V, assign, cost=None):
        points = X + 0.5 * np.sign(V[assign])
        bad = np.all(X == 0, axis=1)
        points[bad] = -np.sign(V[assign][bad])
        return Support(points)


@pytest.mark.parametrize("oracle", [Short(), ShortAnswers()])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_rounding_to_single_precision_is_no_fault(oracle, scale):
    check_oracle(oracle, scale * X)


@pytest.mark.parametrize("oracle", [Wrong(), OffInBlocks()])
@pytest.mark.parametrize("seed", range(5))
def test_messages_name_the_row_that_the_user_gave(oracle, seed):
    with pytest.raises(OracleCheckError, match=r"\(row 4 of X, direction \["):
        check_oracle(oracle, X, random_state=seed)


def test_the_row_that_is_added_is_named():
    with pytest.raises(OracleCheckError, match="the row of zeros that is tried, too, direction"):
        check_oracle(NoRowOfZeros(), X)


def test_more_than_rounding_is_still_a_fault():
    class Worse(ShortAnswers):
        def support(self, X, V, assign, cost=None):
            return Support(X - 1e-3 * np.sign(V[assign]).astype(np.float32))

    with pytest.raises(OracleCheckError, match="worse than the unchanged row"):
        check_oracle(Worse(), X)


class Reversal(FiniteOracle):
    """Right, and what the broken ones below come from."""

    isometric = True

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)

    def pullback(self, V):
        return np.stack([V, V[:, ::-1]])


class Halved(Reversal):
    """A fixed linear map that keeps no inner product."""

    def orbit(self, X):
        return np.stack([X, 0.5 * X], axis=1)

    def pullback(self, V):
        return np.stack([V, 0.5 * V])


class Unpulled(Reversal):
    def pullback(self, V):
        return None


class PulledElsewhere(Reversal):
    """Rolls directions where the row is turned around; not asked for scores by it."""

    def pullback(self, V):
        return np.stack([V, np.roll(V, 1, axis=1)])

    def bind(self, X, y=None):
        return Reversal().bind(X, y)


class Endless(InvarianceOracle):
    """Declared isometric, and nothing is listed."""

    isometric = True

    def support(self, X, V, assign, cost=None):
        return Box(0.5).support(X, V, assign)


class ShortWeights(Reversal):
    def member_weights(self, size):
        return np.full(size + 1, 1.0 / (size + 1))


class NegativeWeights(Reversal):
    def member_weights(self, size):
        return np.array([1.5, -0.5])


class NoWeights(Reversal):
    def member_weights(self, size):
        return np.zeros(size)


class Boxes(InvarianceOracle):
    """A box whose law the broken ones below spoil."""

    def __init__(self, kind=DrawnLaw):
        self.kind = kind

    def support(self, X, V, assign, cost=None):
        return Box(0.5).support(X, V, assign)

    def sample(self, X, size, rng):
        return Box(0.5).sample(X, size, rng)

    def contains(self, x, z):
        return Box(0.5).contains(x, z)

    def law(self, n_features, size=None, random_state=0):
        return self.kind(self, size, random_state)


class OfTheBlock(DrawnLaw):
    def members(self, X):
        return X[:, None] + 0.1 * np.sign(X[0] - X[-1]) * np.ones((self.size, 1))


class OfTheFirst(DrawnLaw):
    """The noise goes on from row to row."""

    def members(self, X):
        return self.oracle.sample(X, self.size, np.random.default_rng(0))


class TooFar(DrawnLaw):
    def members(self, X):
        return X[:, None] + 0.6 * np.ones((self.size, 1))


class TooFew(DrawnLaw):
    def __init__(self, oracle, size, random_state):
        super().__init__(oracle, size - 1, random_state)


class NotOne(DrawnLaw):
    def __init__(self, oracle, size, random_state):
        super().__init__(oracle, size, random_state)
        self.weights = np.ones(size)


class OfAnotherShape(DrawnLaw):
    def members(self, X):
        return super().members(X).swapaxes(0, 1)


class PulledBack(DrawnLaw):
    """A law of fixed maps, as it says."""

    def pull_back(self, V):
        return np.stack([V] * self.size)


class NoLaw:
    def __init__(self, oracle, size, random_state):
        pass


def test_what_the_broken_laws_come_from_is_right():
    check_oracle(Reversal(), X)
    check_oracle(Boxes(), X)


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (Halved(), "changes inner products of rows"),
        (Unpulled(), "must define orbit and pullback"),
        (Endless(), "must define orbit and pullback"),
        (PulledElsewhere(), "pullback does not tell the members"),
        (ShortWeights(), r"ShortWeights.member_weights must return weights of shape \(2,\)"),
        (NegativeWeights(), "NegativeWeights.member_weights must return weights of at least 0"),
        (NoWeights(), "NoWeights.member_weights must return weights of at least 0, and some above"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, InvarianceOracle) else "",
)
def test_false_words_about_lists_are_found(oracle, message):
    with pytest.raises(OracleCheckError, match=message):
        check_oracle(oracle, X)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (OfTheBlock, "in another order rows have other members|a row on its own has other"),
        (OfTheFirst, "in another order rows have other members|a row on its own has other"),
        (TooFar, "a member from the law of draws"),
        (TooFew, "as many changes as asked for, got 4"),
        (NotOne, "weights above 0 with sum 1"),
        (OfAnotherShape, "OfAnotherShape.members must return members of shape"),
        (PulledBack, "pull_back does not tell its members"),
        (NoLaw, "must return a Law, got NoLaw"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_spoilt_laws_are_found(kind, message, seed):
    with pytest.raises(OracleCheckError, match=message):
        check_oracle(Boxes(kind), X, random_state=seed)
