"""`check_oracle`: detection of planted faults, rows and directions in messages, correct oracles."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import (
    Box,
    Ellipsoid,
    FDrop,
    FiniteOracle,
    FScale,
    Identity,
    InvarianceOracle,
    Support,
    check_oracle,
    oracle_checks,
)
from structinv.utils.exceptions import CheckError
from structinv.utils.matrices import row_dots

from .cases import D, Reorderings, rows

RADIUS = 0.5


def largest_weights(X, V):
    return np.argsort(-np.abs(V), axis=1)


def moves(X, V, assign, most=2, order=largest_weights):
    """Move the first features of an order by the radius."""
    steps = np.zeros(V.shape)
    np.put_along_axis(steps, order(X, V)[:, :most], RADIUS, axis=1)
    return X + (steps * np.sign(V))[assign]


class Moves(InvarianceOracle):
    """The correct oracle of such moves."""

    def __init__(self, max_changes=2):
        self.max_changes = max_changes

    def support(self, X, V, assign, cost=None):
        return Support(moves(X, V, assign, self.max_changes))

    def sample(self, X, size, rng):
        steps = rng.uniform(-RADIUS, RADIUS, (len(X), size, X.shape[1]))
        return X[:, None, :] + steps * (rng.random(steps.shape).argsort(axis=2) < self.max_changes)

    def contains(self, x, z):
        moved = np.abs(z - x)
        few = np.count_nonzero(moved > 1e-6) <= self.max_changes
        return bool(few and np.all(moved <= RADIUS + 1e-6))


MOVES, BALL = Moves(), Ellipsoid(RADIUS)


@dataclass(frozen=True)
class Fault:
    """Expected message, answers, oracle with `contains`, random members, and declared attributes."""

    message: str
    answer: Callable[..., Support] = lambda X, V, a: Support(moves(X, V, a))
    allowed: Any = None
    sample: Callable[..., np.ndarray] | None = None
    flags: tuple[str, ...] = ()


class Faulty(InvarianceOracle):
    """An oracle with the fault of this name."""

    def __init__(self, fault):
        self.fault = fault

    spec = property(lambda self: (FAULTS | OF_ROWS)[self.fault])
    supports_sparse = property(lambda self: "supports_sparse" in self.spec.flags)
    additive = property(lambda self: "additive" in self.spec.flags)
    convex = property(lambda self: "convex" in self.spec.flags)
    finite = property(lambda self: "finite" in self.spec.flags)

    def support(self, X, V, assign, cost=None):
        return self.spec.answer(X, V, assign)

    def contains(self, x, z):
        return self.spec.allowed.contains(x, z) if self.spec.allowed else super().contains(x, z)

    def sample(self, X, size, rng):
        return (self.spec.sample or super().sample)(X, size, rng)


def seen(message, answer=Fault.answer, flags=(), **views):
    """Return a fault of an oracle with all methods."""
    return Fault(message, answer, **{"allowed": MOVES, "sample": MOVES.sample} | views, flags=flags)


def first_that_gain(X, V):
    return np.argsort(V == 0, axis=1, kind="stable")


def by_rounded_weights(X, V, assign):
    points = moves(X, V, assign, order=lambda X, V: largest_weights(X, np.round(V)))
    return Support(points, row_dots(points, V, assign) + 1e-3)


def lifted(V):
    """Steps that do not scale with the directions."""
    return np.sign(V) * np.minimum(np.abs(V).sum(axis=1, keepdims=True), 1.0)


def scaled(X, V, assign):
    """Rescale the features of largest weight, regardless of the row."""
    factors = np.ones(X.shape)
    np.put_along_axis(factors, largest_weights(X, V)[assign][:, :2], 3.0, axis=1)
    return Support(X * np.where(X * V[assign] > 0, factors, 1.0))


def changes_rows(X, V, assign):
    answer = moves(X, V, assign)
    X += 1e-3
    return Support(answer)


def changes_directions(X, V, assign):
    V *= 1.0 + 1e-12
    return Support(moves(X, V, assign))


def ignores_reward(X, V, assign):
    answer = Box(RADIUS).discounted(0.0).support(X, V, assign)
    return Support(answer.points, rho=answer.rho)


def in_box(X, V, assign):
    return X + RADIUS * np.sign(V[assign])


FAULTS = {
    "wrong sign": Fault("worse than the unperturbed row", lambda X, V, a: Support(moves(X, -V, a))),
    "one direction": Fault(
        "a call with one direction per row", lambda X, V, a: Support(moves(X, V, 0 * a))
    ),
    "no identity": Fault(
        "must contain x", lambda X, V, a: Support(X + 0.5 * np.roll(np.sign(V), 1, axis=1)[a])
    ),
    "low upper": Fault(
        "upper is below", lambda X, V, a: Support(moves(X, V, a), row_dots(moves(X, V, a), V, a) - 0.01)
    ),
    "block": Fault(
        "differs|exceeds", lambda X, V, a: Support(X + 0.5 * np.sign(V)[a] / (1.0 + np.std(X)))
    ),
    "order": Fault(
        "differs", lambda X, V, a: Support(X + np.sign(V)[a] * np.arange(1.0, len(X) + 1.0)[:, None])
    ),
    "nan": Fault("finite", lambda X, V, a: Support(np.where(V[a] == 0, np.nan, X))),
    "nan upper": Fault(
        "returned upper that are NaN", lambda X, V, a: Support(X, np.full(len(X), np.nan))
    ),
    "shape": Fault(r"must return points of shape \(\d+, \d+\), got", lambda X, V, a: Support(X[:, :-1])),
    "array": Fault("must return a Support", lambda X, V, a: X),
    "integers": Fault("floating-point", lambda X, V, a: Support(np.zeros(X.shape, dtype=int))),
    "scale": Fault("proportional|exceeds", lambda X, V, a: Support(X + lifted(V)[a])),
    "grade": Fault(
        r"must return grades in \[0, 1\], got 1.5", lambda X, V, a: Support(X, rho=np.full(len(X), 1.5))
    ),
    "greedy": Fault(
        "exceeds upper",
        lambda X, V, a: Support(moves(X, V, a, order=first_that_gain)),
        None,
        MOVES.sample,
    ),
    "greedy, unseen": Fault("exceeds upper", scaled),
    "rounded weights": Fault("exceeds upper", by_rounded_weights),
    "changes rows": Fault("must not modify its argument X", changes_rows),
    "changes directions": Fault("must not modify its argument V", changes_directions),
    "ignores reward": Fault("worse than the unperturbed|exceeds", ignores_reward),
    "additive in name": Fault(
        "with additive = True",
        lambda X, V, a: Support(np.where(X * V[a] > 0, 3.0, 1.0) * X),
        flags=("additive",),
    ),
    "one change too many": seen("outside S", lambda X, V, a: Support(moves(X, V, a, 3))),
    "sparse in name": seen(
        "CSR rows",
        lambda X, V, a: Support(sp.csr_matrix(2.0 * X) if sp.issparse(X) else moves(X, V, a)),
        flags=("supports_sparse",),
    ),
    "convex in name": seen("with convex = True", flags=("convex",)),
    "finite in name": seen("must define orbit", flags=("finite",)),
    "contains all": seen(
        "contains must return False far outside", allowed=SimpleNamespace(contains=lambda x, z: True)
    ),
    "samples too far": seen(
        "sample", sample=lambda X, k, rng: X[:, None] + rng.standard_normal((len(X), k, X.shape[1]))
    ),
}


class Remembers(InvarianceOracle):
    def support(self, X, V, assign, cost=None):
        self.calls = getattr(self, "calls", 0) + 1
        return Support(X + min(self.calls, 500) * 1e-3 * np.sign(V)[assign])


class ChangesParameters(InvarianceOracle):
    def __init__(self, max_changes=2):
        self.max_changes = min(max_changes, 1) + 0.0

    def support(self, X, V, assign, cost=None):
        return Support(X)


class NotPicklable(Moves):
    def __init__(self, rule=None):
        self.max_changes, self.rule = 2, rule


class OrbitMissesAnswer(Reorderings):
    def support(self, X, V, assign, cost=None):
        return Support(X + np.sign(V[assign]))


class Sound(InvarianceOracle):
    """A correct oracle with only `support` and `contains`."""

    def __init__(self, allowed):
        self.allowed = allowed

    def support(self, X, V, assign, cost=None):
        return Support(self.allowed.support(X, V, assign).points)

    def contains(self, x, z):
        return self.allowed.contains(x, z)


@pytest.mark.parametrize(
    "oracle",
    [*(Moves(most) for most in (2, 0, D)),
     *map(Sound, [Box(RADIUS), BALL, FDrop(2), FScale(2, 0.5, 3.0)])],
    ids=repr,
)  # fmt: skip
def test_correct_oracles_pass(oracle):
    check_oracle(oracle, rows()[0])


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        *((Faulty(name), fault.message) for name, fault in FAULTS.items()),
        (Remembers(), "differs|exceeds|repeated call"),
        (ChangesParameters(2), "clone"),
        (NotPicklable(lambda x: x), "pickle"),
        (OrbitMissesAnswer([[0, 1, 2, 3, 4]]), "outside S|member of the orbit"),
    ],
    ids=[*FAULTS, "remembers", "changes parameters", "not picklable", "orbit misses answer"],
)
def test_planted_faults_are_found(oracle, message):
    for seed in range(2):
        X, y = rows(seed)
        with pytest.raises(CheckError, match=message):
            check_oracle(oracle, X, y, random_state=seed)


X = np.random.default_rng(0).standard_normal((6, 3))
X[4, 0] = 100.0


def where(bad, points, otherwise):
    return Support(np.where(bad[:, None], otherwise, points))


OF_ROWS = {
    "a row made worse": Fault(
        r"\(row 4 of X, direction \[",
        lambda X, V, a: where(X[:, 0] == 100.0, in_box(X, V, a), X - np.sign(V[a])),
    ),
    # The largest answer of a block is not the one that it is on its own.
    "a row off in blocks": Fault(
        r"\(row 4 of X, direction \[",
        lambda X, V, a: where((X[:, 0] == 100.0) & (len(np.unique(a)) > 1), in_box(X, V, a), X),
    ),
    "the row of zeros": Fault(
        "the added row of zeros, direction",
        lambda X, V, a: where(np.all(X == 0, axis=1), in_box(X, V, a), -np.sign(V[a])),
    ),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_messages_have_the_row(name):
    for seed in range(3):
        with pytest.raises(CheckError, match=OF_ROWS[name].message):
            check_oracle(Faulty(name), X, random_state=seed)


class ShortAnswers(InvarianceOracle):
    """Answers in single precision, some worse than the row."""

    def __init__(self, step=RADIUS):
        self.step = step

    def support(self, X, V, assign, cost=None):
        return Support((X + self.step * np.sign(V[assign])).astype(np.float32))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_rounding_to_single_precision_passes(scale):
    check_oracle(ShortAnswers(), scale * X)


def test_errors_above_rounding_are_found_in_single_precision():
    with pytest.raises(CheckError, match="worse than the unperturbed row"):
        check_oracle(ShortAnswers(-1e-3), X)


class Counted(FiniteOracle):
    """A list of many members, which counts the rows of its calls."""

    n_rows = 0

    def orbit(self, X):
        Counted.n_rows += len(X)
        return np.stack([np.roll(X, k, axis=1) for k in range(57)], axis=1)


@pytest.mark.parametrize("nest", [lambda o: o, lambda o: o | Identity()])
def test_each_orbit_is_computed_a_few_times_only(nest):
    Counted.n_rows = 0
    check_oracle(nest(Counted()), np.random.default_rng(0).standard_normal((10, 60)))
    assert 40 < Counted.n_rows < 400


def test_a_long_check_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(oracle_checks, "_SILENT_SECONDS", 0.0)
    check_oracle(Counted(), X)
    assert [record.getMessage() for record in caplog.records] == [oracle_checks._SLOW.format("Counted")]
    caplog.clear()
    monkeypatch.setattr(oracle_checks, "_SILENT_SECONDS", 1000.0)
    check_oracle(Counted(), X)
    assert not caplog.records


LABELED = FScale(2).only_for(1)
ONE_LABEL = r"y must have shape \(2,\), one label per row, got \(1,\)"
REFUSED = [
    (Box(0.5), [1.0, 2.0], None, ValueError, r"X must have shape \(n_samples, n_features\), got \(2,\)"),
    (Box(0.5), [[1.0], [1.0, 2.0]], None, TypeError, "X must be an array of real numbers"),
    (Box(0.5), None, None, ValueError, r"X must have shape \(n_samples, n_features\)"),
    (Box(0.5), [[np.nan]], None, ValueError, "X must be finite"),
    (Box(0.5), np.zeros((0, 2)), None, ValueError, "X must have shape"),
    (Box(0.5), [[1.0], [2.0]], [1], ValueError, ONE_LABEL),
    (LABELED, rows()[0], None, ValueError, "only_for requires one class label per row"),
]


@pytest.mark.parametrize(("oracle", "X", "y", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_wrong_samples_and_labels_raise(oracle, X, y, error, message):
    with pytest.raises(error, match=message):
        check_oracle(oracle, X, y)
