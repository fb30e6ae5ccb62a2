"""check_oracle finds points that an oracle's own contains admits and that beat its upper bounds."""

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.oracles import (
    Box,
    Ellipsoid,
    FDrop,
    FiniteOracle,
    FScale,
    InvarianceOracle,
    Support,
    check_oracle,
)
from structinv.oracles.listed_changes import ListedChanges
from structinv.utils.exceptions import CheckError

from .oracle_cases import D, rows


class WithoutSample(InvarianceOracle):
    """The set of a sound oracle, as `contains` tells it; answers are a subclass's own."""

    allowed: InvarianceOracle = Box(0.5)

    def contains(self, x, z):
        return self.allowed.contains(x, z)

    def sound(self, X, V, assign):
        return self.allowed.support(X, V, assign).points


class Sound(WithoutSample):
    def __init__(self, allowed):
        self.allowed = allowed

    def support(self, X, V, assign, cost=None):
        return Support(self.sound(X, V, assign))


class OneFeature(WithoutSample):
    """Moves the feature that gains most, where all may move."""

    def support(self, X, V, assign, cost=None):
        best = np.argmax(np.abs(V), axis=1)[assign]
        mask = np.arange(X.shape[1]) == best[:, None]
        return Support(np.where(mask, self.sound(X, V, assign), X))


class FirstFeature(WithoutSample):
    def support(self, X, V, assign, cost=None):
        mask = np.arange(X.shape[1]) == 0
        return Support(np.where(mask, self.sound(X, V, assign), X))


class HalfTheWay(WithoutSample):
    def support(self, X, V, assign, cost=None):
        return Support((X + self.sound(X, V, assign)) / 2)


class OneWayOnly(WithoutSample):
    """Never moves a feature down."""

    def support(self, X, V, assign, cost=None):
        return Support(np.maximum(X, self.sound(X, V, assign)))


class AllButOne(WithoutSample):
    def support(self, X, V, assign, cost=None):
        points = self.sound(X, V, assign)
        points[:, 3] = X[:, 3]
        return Support(points)


class UpperTooLow(WithoutSample):
    """Answers well and says that a little less is the most there is, of what it reaches itself."""

    def support(self, X, V, assign, cost=None):
        points = (3 * self.sound(X, V, assign) + X) / 4
        return Support(points, np.einsum("nd,nd->n", points, V[assign]) + 1e-6)


class BoxInBall(WithoutSample):
    """A corner that the ball reaches, not the furthest point of the ball."""

    allowed = Ellipsoid(0.5)

    def support(self, X, V, assign, cost=None):
        return Support(X + 0.5 / np.sqrt(D) * np.sign(V)[assign])


class AxisOfBall(WithoutSample):
    allowed = Ellipsoid(0.5)

    def support(self, X, V, assign, cost=None):
        best = np.argmax(np.abs(V), axis=1)
        steps = np.zeros_like(V)
        steps[np.arange(len(V)), best] = 0.5 * np.sign(V[np.arange(len(V)), best])
        return Support(X + steps[assign])


class DropsOneOfTwo(WithoutSample):
    allowed = FDrop(2)

    def support(self, X, V, assign, cost=None):
        return FDrop(1).support(X, V, assign)


class DropsTheFirst(WithoutSample):
    """Drops the first word that gains, not the one that gains most."""

    allowed = FDrop(1)

    def support(self, X, V, assign, cost=None):
        gains = X * V[assign] < 0
        first = gains & (np.cumsum(gains, axis=1) == 1)
        return Support(np.where(first, 0.0, X))


class NeverScalesUp(WithoutSample):
    allowed = FScale(2, 0.5, 3.0)

    def support(self, X, V, assign, cost=None):
        return FScale(2, 0.5, 1.0).support(X, V, assign)


BROKEN = [
    OneFeature,
    FirstFeature,
    HalfTheWay,
    OneWayOnly,
    AllButOne,
    UpperTooLow,
    BoxInBall,
    AxisOfBall,
    DropsOneOfTwo,
    DropsTheFirst,
    NeverScalesUp,
]


@pytest.mark.parametrize("allowed", [Box(0.5), Ellipsoid(0.5), FDrop(2), FScale(2, 0.5, 3.0)], ids=str)
def test_the_sound_oracle_passes(allowed):
    check_oracle(Sound(allowed), rows()[0])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", BROKEN)
def test_what_contains_admits_never_beats_upper(kind, seed):
    with pytest.raises(CheckError, match="contains admits a point that beats upper|beats the upper"):
        check_oracle(kind(), rows(seed)[0], random_state=seed)


@pytest.mark.parametrize("scale", [1e-3, 255.0])
def test_witnesses_are_found_whatever_the_scale_of_the_rows(scale):
    with pytest.raises(CheckError, match="contains admits"):
        check_oracle(OneFeature(), scale * rows()[0])


class Reversal(FiniteOracle):
    """With the axis of the members forgotten."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]])


def test_what_the_door_refuses_breaks_the_contract():
    with pytest.raises(CheckError, match=r"Reversal\.orbit must return members of shape"):
        check_oracle(Reversal(), rows()[0])


class OtherMembers(FiniteOracle):
    """With points, or scores, that are not those of its members."""

    def __init__(self, kind):
        self.kind = kind

    def orbit(self, X):
        return np.stack([X, -X], axis=1)

    def changes(self, X, y=None):
        return self.kind(self, X)


class OtherPoints(ListedChanges):
    def points(self, rows, index):
        return self.X[rows] * (1.0 + index[:, None])


class OtherScores(ListedChanges):
    def scores(self, rows, V):
        products = self.X[rows] @ V.T
        return np.stack([products, products], axis=1)


class OneNameShort(FiniteOracle):
    def orbit(self, X):
        return np.stack([X, -X], axis=1)

    def member_names(self, size):
        return ["identity"]


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (OtherMembers(OtherPoints), "member 1 is not the one"),
        (OtherMembers(OtherScores), "scores are not those"),
        (OneNameShort(), "OneNameShort.member_names must return a name for each of 2 members"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, InvarianceOracle) else "",
)
def test_members_belong_together(oracle, message):
    with pytest.raises(CheckError, match=message):
        check_oracle(oracle, rows()[0])


def test_lists_are_rows():
    X, y = rows()
    check_oracle(Box(0.5), X.tolist())
    check_oracle(Box(0.5).only_for([1]), X.tolist(), y.tolist())


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([1.0, 2.0], ValueError, r"X must have shape \(n, d\), an input a row, got \(2,\)"),
        ([[1.0], [1.0, 2.0]], TypeError, "X must be an array of real numbers"),
        ([["a"]], TypeError, "X must be an array of real numbers"),
        (None, ValueError, r"X must have shape \(n, d\)"),
        ([[np.nan]], ValueError, "X must be finite"),
        (np.zeros((0, 2)), ValueError, "X must have shape"),
    ],
)
def test_what_is_no_rows_is_refused_by_name(X, error, message):
    with pytest.raises(error, match=message):
        check_oracle(Box(0.5), X)


def test_labels_that_do_not_fit_the_rows_are_refused():
    with pytest.raises(ValueError, match=r"y must have shape \(2,\), one label a row, got \(1,\)"):
        check_oracle(Box(0.5), [[1.0], [2.0]], [1])


def test_a_class_is_no_oracle():
    X, y = rows()
    written = r"write FDrop\(max_changes=\.\.\.\) for an instance"
    with pytest.raises(TypeError, match=f"got the class FDrop; {written}"):
        check_oracle(FDrop, X)
    with pytest.raises(TypeError, match=written):
        InvariantLinearSVC(FDrop).fit(X, y)
    with pytest.raises(TypeError, match="oracle must be an InvarianceOracle, got 'fdrop'"):
        check_oracle("fdrop", X)
