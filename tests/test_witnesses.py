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

    def contains(self, x, z):
        return self.allowed.contains(x, z)

    def sound(self, X, V, assign):
        return self.allowed.support(X, V, assign).points


class Sound(WithoutSample):
    def __init__(self, allowed):
        self.allowed = allowed

    def support(self, X, V, assign, cost=None):
        return Support(self.sound(X, V, assign))


class Narrow(WithoutSample):
    """Answers with less than the allowed set has, in the way of this name."""

    def __init__(self, way):
        self.way = way

    @property
    def allowed(self):
        return BROKEN[self.way][0]

    def support(self, X, V, assign, cost=None):
        return BROKEN[self.way][1](X, V, assign, self.sound(X, V, assign))


def one_feature(X, V, assign, sound):
    """Moves the feature that gains most, where all may move."""
    best = np.argmax(np.abs(V), axis=1)[assign]
    return Support(np.where(np.arange(X.shape[1]) == best[:, None], sound, X))


def upper_too_low(X, V, assign, sound):
    """Answers well and says that a little less is the most there is, of what it reaches itself."""
    points = (3 * sound + X) / 4
    return Support(points, np.einsum("nd,nd->n", points, V[assign]) + 1e-6)


def axis_of_ball(X, V, assign, sound):
    best = np.arange(X.shape[1]) == np.argmax(np.abs(V), axis=1)[:, None]
    return Support(X + (0.5 * np.sign(V) * best)[assign])


def drops_the_first(X, V, assign, sound):
    """Drops the first word that gains, not the one that gains most."""
    gains = X * V[assign] < 0
    return Support(np.where(gains & (np.cumsum(gains, axis=1) == 1), 0.0, X))


BROKEN = {
    "one feature": (Box(0.5), one_feature),
    "first": (Box(0.5), lambda X, V, a, sound: Support(np.where(np.arange(D) == 0, sound, X))),
    "half the way": (Box(0.5), lambda X, V, a, sound: Support((X + sound) / 2)),
    "never down": (Box(0.5), lambda X, V, a, sound: Support(np.maximum(X, sound))),
    "all but one": (Box(0.5), lambda X, V, a, sound: Support(np.where(np.arange(D) == 3, X, sound))),
    "upper too low": (Box(0.5), upper_too_low),
    "corner of the ball": (
        Ellipsoid(0.5),
        lambda X, V, a, sound: Support(X + 0.5 / np.sqrt(D) * np.sign(V)[a]),
    ),
    "axis of the ball": (Ellipsoid(0.5), axis_of_ball),
    "one word of two": (FDrop(2), lambda X, V, a, sound: FDrop(1).support(X, V, a)),
    "first word": (FDrop(1), drops_the_first),
    "never up": (FScale(2, 0.5, 3.0), lambda X, V, a, sound: FScale(2, 0.5, 1.0).support(X, V, a)),
}


@pytest.mark.parametrize("allowed", [Box(0.5), Ellipsoid(0.5), FDrop(2), FScale(2, 0.5, 3.0)], ids=str)
def test_the_sound_oracle_passes(allowed):
    check_oracle(Sound(allowed), rows()[0])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("way", BROKEN)
def test_what_contains_admits_never_beats_upper(way, seed):
    with pytest.raises(CheckError, match="contains admits a point that beats upper|beats the upper"):
        check_oracle(Narrow(way), rows(seed)[0], random_state=seed)


@pytest.mark.parametrize("scale", [1e-3, 255.0])
def test_witnesses_are_found_whatever_the_scale_of_the_rows(scale):
    with pytest.raises(CheckError, match="contains admits"):
        check_oracle(Narrow("one feature"), scale * rows()[0])


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
