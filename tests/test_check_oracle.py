"""What check_oracle says of rows and directions, and what it leaves to rounding."""

import numpy as np
import pytest

from structinv.oracles import FiniteOracle, InvarianceOracle, OracleCheckError, Support, check_oracle

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
