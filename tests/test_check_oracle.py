"""What check_oracle says of rows and directions, and what it leaves to rounding."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import Box, FiniteOracle, InvarianceOracle, Support, check_oracle
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import DrawnChanges
from structinv.utils.exceptions import CheckError
from structinv.utils.matrices import ALL_ROWS

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
    with pytest.raises(CheckError, match=r"\(row 4 of X, direction \["):
        check_oracle(oracle, X, random_state=seed)


def test_the_row_that_is_added_is_named():
    with pytest.raises(CheckError, match="the row of zeros that is tried, too, direction"):
        check_oracle(NoRowOfZeros(), X)


def test_more_than_rounding_is_still_a_fault():
    class Worse(ShortAnswers):
        def support(self, X, V, assign, cost=None):
            return Support(X - 1e-3 * np.sign(V[assign]).astype(np.float32))

    with pytest.raises(CheckError, match="worse than the unchanged row"):
        check_oracle(Worse(), X)


class Reversal(FiniteOracle):
    """Right, with a list that the broken ones below spoil."""

    def __init__(self, kind=None):
        self.kind = kind

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)

    def changes(self, X, y=None):
        keep = sp.identity(X.shape[1], format="csr")
        return (self.kind or LinearChanges)(X, [keep, keep[::-1]])


class MovedElsewhere(LinearChanges):
    """Rolls directions where the row is turned around."""

    def scores(self, rows, V):
        return None

    def adjoint(self, V):
        return np.stack([V, np.roll(V, 1, axis=1)])


class OtherOrder(LinearChanges):
    """The identity last."""

    def members(self, rows=ALL_ROWS, numbers=None):
        return super().members(rows, numbers)[:, ::-1]


class NegativeMesh(LinearChanges):
    def mesh(self, rows=ALL_ROWS):
        return np.full(self.count(rows), -1.0)


class ShortWeights(LinearChanges):
    weights = np.full(3, 1.0 / 3)


class NegativeWeights(LinearChanges):
    weights = np.array([1.5, -0.5])


class NoWeights(LinearChanges):
    weights = np.zeros(2)


class Boxes(InvarianceOracle):
    """A box whose draws the broken ones below spoil."""

    def __init__(self, kind=DrawnChanges):
        self.kind = kind

    def support(self, X, V, assign, cost=None):
        return Box(0.5).support(X, V, assign)

    def sample(self, X, size, rng):
        return Box(0.5).sample(X, size, rng)

    def contains(self, x, z):
        return Box(0.5).contains(x, z)

    def draws(self, X, size, random_state=0):
        return self.kind(self, X, size, random_state)


class OfTheBlock(DrawnChanges):
    def members(self, rows=ALL_ROWS, numbers=None):
        X = self.X[rows]
        return X[:, None] + 0.1 * np.sign(X[0] - X[-1]) * np.ones((self.size, 1))


class OfTheFirst(DrawnChanges):
    """The noise goes on from row to row."""

    def members(self, rows=ALL_ROWS, numbers=None):
        return self.oracle.sample(self.X[rows], self.size, np.random.default_rng(0))


class TooFar(DrawnChanges):
    def members(self, rows=ALL_ROWS, numbers=None):
        return self.X[rows][:, None] + 0.6 * np.ones((self.size, 1))


class TooFew(DrawnChanges):
    def __init__(self, oracle, X, size, random_state):
        super().__init__(oracle, X, size - 1, random_state)


class OfAnotherShape(DrawnChanges):
    def members(self, rows=ALL_ROWS, numbers=None):
        return super().members(rows, numbers).swapaxes(0, 1)


class PulledBack(DrawnChanges):
    """Draws of fixed maps, as it says."""

    def adjoint(self, V):
        return np.stack([V] * self.size)


class NoList:
    def __init__(self, *parameters):
        pass


def test_what_the_broken_lists_come_from_is_right():
    check_oracle(Reversal(), X)
    check_oracle(Boxes(), X)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (MovedElsewhere, "adjoint maps are not those of the members"),
        (OtherOrder, "must begin with the identity"),
        (NegativeMesh, "NegativeMesh.mesh must return a mesh of at least 0"),
        (ShortWeights, r"ShortWeights.weights must return weights of shape \(2,\)"),
        (NegativeWeights, "NegativeWeights.weights must be at least 0"),
        (NoWeights, "NoWeights.weights must be at least 0, and some above"),
        (NoList, "Reversal.changes must return Changes, got NoList"),
    ],
)
def test_spoilt_lists_are_found(kind, message):
    with pytest.raises(CheckError, match=message):
        check_oracle(Reversal(kind), X)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (OfTheBlock, "in another order rows have other members|a row on its own has other"),
        (OfTheFirst, "in another order rows have other members|a row on its own has other"),
        (TooFar, "a member from the list of draws"),
        (TooFew, "as many changes as asked for, got 4"),
        (OfAnotherShape, "OfAnotherShape.members must return members of shape"),
        (PulledBack, "adjoint maps are not those of its members"),
        (NoList, "Boxes.draws must return Changes, got NoList"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_spoilt_draws_are_found(kind, message, seed):
    with pytest.raises(CheckError, match=message):
        check_oracle(Boxes(kind), X, random_state=seed)
