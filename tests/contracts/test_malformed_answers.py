"""Malformed answers of plug-ins lead to a fit or to an error with class and method."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from structinv import InvariantLinearSVC, InvariantSVC, RepresenterClassifier, VirtualSVC
from structinv.functionals import Tangents
from structinv.oracles import BoundOracle, Box, FiniteOracle, InvarianceOracle, Shifts, Support
from structinv.oracles.images.image_base import ImageOracle
from structinv.oracles.third_party import bind
from structinv.structures import Layout, Sequence
from structinv.structures.inference import decoded
from structinv.utils.matrices import dense, row_dots

from ..covering import slow_unless
from ..estimators.cases import check_refused
from ..problems import two_classes
from .cases import LEVELED, STRUCTURE_ANSWERS, data, draw, refusals, run

X, Y = data()
MACHINES = [
    lambda oracle: InvariantLinearSVC(oracle),
    lambda oracle: InvariantLinearSVC(oracle, solver="frank_wolfe"),
    lambda oracle: InvariantSVC(oracle),
    lambda oracle: RepresenterClassifier(oracle=oracle, loss="hinge"),
    lambda oracle: VirtualSVC(oracle),
]


@pytest.mark.parametrize("portion", slow_unless(lambda portion: portion < 2, [(i,) for i in range(15)]))
def test_damaged_answers_fit_or_raise_with_the_method(portion):
    for seed in range(40 * portion, 40 * (portion + 1)):
        run(draw(seed))


@pytest.mark.parametrize(
    ("view", "field", "leveled"),
    [
        (*answer, leveled)
        for answer in STRUCTURE_ANSWERS
        for leveled in (False, True)
        if answer[1] != "levels" or leveled
        if not leveled or (answer[0] in LEVELED and answer[1] not in ("fractions", "features"))
    ],
)
def test_malformed_answers_of_structures_raise_with_the_method(view, field, leveled):
    found, accepted = refusals(view, field, leveled), STRUCTURE_ANSWERS[view, field]
    assert len(found) >= 36
    assert {name for name, error in found.items() if not error} == accepted & found.keys()
    # NumPy itself raises errors for what `allows` returns.
    foreign = {"text", "word", "dict", "sparse", "class"} if view == "allows" else set()
    for name in found.keys() - accepted - foreign:
        assert f"SpoiltSequence.{view} " in found[name], (name, found[name])


class Lavish(Sequence):
    """Every row uses the same number of edits."""

    each = 0

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        return replace(found, levels=np.full(len(potentials), self.each))


# The second number is one above the budget.
@pytest.mark.parametrize(("each", "total"), [(2, 6), (1, 3)])
def test_levels_beyond_the_budget_of_an_example_raise(monkeypatch, each, total):
    monkeypatch.setattr(Lavish, "each", each)
    layout, message = Layout.of_lengths([3, 2]), r"Lavish\.decode must return levels .* at most 2 .*"
    with pytest.raises(ValueError, match=f"{message}, got {total}"):
        decoded(Lavish(), np.zeros((5, 3, 3)), np.zeros(15), layout)


class Reversal(FiniteOracle):
    """An oracle that stacks its members along the wrong axis."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1]])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("wrap", [lambda o: o, lambda o: o | Box(0.1), lambda o: o.only_for("spam")])
def test_a_wrong_axis_raises_with_the_method(machine, wrap):
    oracle = wrap(Reversal())
    with pytest.raises(
        (ValueError, TypeError), match=r"Reversal\.orbit must return members of shape|got Box|got Union"
    ):
        machine(oracle).fit(X, Y)


class FewerEachTime(FiniteOracle):
    def __init__(self, least=1):
        self.least = least

    def orbit(self, X):
        self.asked_ = getattr(self, "asked_", 6) - 1
        return np.stack([X] * max(self.asked_, self.least), axis=1)


@pytest.mark.parametrize("machine", [MACHINES[1], MACHINES[2]])
def test_a_changing_number_of_members_raises(machine):
    with pytest.raises(ValueError, match=r"FewerEachTime\.\w+ must return"):
        machine(FewerEachTime()).fit(X, Y)


class AllRows(InvarianceOracle):
    """An oracle that ignores the selection of rows."""

    supports_sparse = True

    def support(self, X, V, assign, cost=None):
        raise AssertionError

    def bind(self, X, y=None):
        return AllRowsBound(self, X, y)


class AllRowsBound(BoundOracle):
    def support(self, rows, V, assign, cost=None):
        return Support(self.X)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_results_for_all_rows_raise_if_some_rows_are_required(kind):
    bound = bind(AllRows(), kind(X))
    points = bound.support(slice(None), X[:1], np.zeros(9, dtype=int)).points
    np.testing.assert_array_equal(dense(points), dense(bound.X))
    with pytest.raises(ValueError, match=r"AllRows\.support must return points of shape \(3, 4\)"):
        bound.support(np.arange(3), X[:1], np.zeros(3, dtype=int))


class NoTangents(Box):
    def tangents(self, X):
        return np.zeros((len(X), X.shape[1]))


def test_tangents_are_validated():
    from structinv.oracles import TangentDerivative

    message = r"NoTangents\.tangents must return directions of shape \(1, t, 4\)"
    with pytest.raises(ValueError, match=message):
        RepresenterClassifier(invariances=[Tangents(NoTangents(0.1))]).fit(X, Y)
    with pytest.raises(ValueError, match=r"NoTangents\.tangents"):
        InvariantLinearSVC(TangentDerivative(NoTangents(0.1), 1.0)).fit(X, Y)


class Skewed(ImageOracle):
    parameter = "factors"

    def __init__(self, factors, shape=None):
        self.factors = factors
        self.shape = shape

    def geometry(self, family, values):
        return np.eye(2), np.zeros(2)

    def describe(self, family, value):
        return "skewed"


def test_geometries_of_images_are_validated():
    with pytest.raises(ValueError, match=r"Skewed\.geometry must return matrices of shape \(2, 2, 2\)"):
        InvariantLinearSVC(Skewed(2.0, shape=(2, 2))).fit(X, Y)


class Squeezes(Skewed):
    def geometry(self, family, values):
        return values[:, None, None] * np.eye(2), np.zeros((len(values), 2))


def test_geometries_of_images_are_invertible():
    with pytest.raises(ValueError, match=r"geometry must return invertible.* for the value 0"):
        InvariantLinearSVC(Squeezes([2.0, 0.0], shape=(2, 2))).fit(X, Y)


# -- labels ------------------------------------------------------------------------------------------

NESTED = [
    lambda o: o,
    lambda o: o | Shifts(1, shape=(2, 2)),
    lambda o: Shifts(1, shape=(2, 2)) | o,
    lambda o: o @ Shifts(1, shape=(2, 2)),
    lambda o: Shifts(1, shape=(2, 2)) @ o,
    lambda o: o.only_for("spam"),
    lambda o: (o | Shifts(1, shape=(2, 2))).discounted(0.5),
]


@pytest.mark.parametrize(
    ("machine", "nest"),
    [(MACHINES[0], nest) for nest in NESTED] + [(machine, NESTED[1]) for machine in MACHINES[1:]],
)
def test_labels_that_are_not_classes_raise(machine, nest):
    message = r"labels must be among the classes \['ham', 'spam'\], got 'SPAM'"
    with pytest.raises(ValueError, match=message):
        machine(nest(Shifts(1, shape=(2, 2)).only_for(["SPAM"]))).fit(X, Y)


def test_certify_compares_labels_with_the_classes_of_the_model():
    model = InvariantLinearSVC(Shifts(1, shape=(2, 2)).only_for("spam")).fit(X, Y)
    ham = Y == "ham"
    # None of these rows may change.
    certificate = model.certify(X[ham], Y[ham])
    np.testing.assert_array_equal(certificate.correct, model.predict(X[ham]) == "ham")
    with pytest.raises(ValueError, match="labels must be among the classes"):
        model.certify(X, Y, oracle=Shifts(1, shape=(2, 2)).only_for("Spam"))


class ChangesRowsOfOrbits(FiniteOracle):
    def orbit(self, X):
        X[:, 0] = 7.0
        return np.stack([X, X[:, ::-1]], axis=1)


class ChangesDirections(InvarianceOracle):
    def support(self, X, V, assign, cost=None):
        V /= np.linalg.norm(V, axis=1, keepdims=True) + 1e-9
        return Support(X + 0.4 * V[assign])


class ChangesSparseRows(InvarianceOracle):
    supports_sparse = True

    def support(self, X, V, assign, cost=None):
        X.data *= 0.5
        return Support(X)


class ChangesWhenBound(ChangesDirections):
    def bind(self, X, y=None):
        X -= X.mean(axis=0)
        return super().bind(X, y)


@pytest.mark.parametrize(
    ("oracle", "who"),
    [
        (ChangesRowsOfOrbits(), "ChangesRowsOfOrbits.orbit"),
        (ChangesDirections(), "ChangesDirections.support"),
        (ChangesDirections() | Box(0.1), "ChangesDirections.support"),
        (ChangesDirections().only_for(1), "ChangesDirections.support"),
        (ChangesSparseRows(), "ChangesSparseRows.support"),
        (ChangesWhenBound(), "ChangesWhenBound.bind"),
    ],
)
def test_plugins_that_modify_arguments_raise_with_their_name(oracle, who):
    X, y = two_classes()
    rows = sp.csr_matrix(X) if oracle.supports_sparse else X.copy()
    for kind in (InvariantLinearSVC, InvariantSVC)[: 1 + oracle.finite]:
        with pytest.raises(ValueError, match=f"{who}.* must not change its inputs"):
            kind(oracle).fit(rows, y)
    np.testing.assert_array_equal(rows.toarray() if sp.issparse(rows) else rows, X)


class WorseThanTheRow(InvarianceOracle):
    """A box with a wrong sign."""

    def __init__(self, upper=False, graded=False):
        self.upper = upper
        self.graded = graded

    def support(self, X, V, assign, cost=None):
        points = X - 0.5 * np.sign(V[assign])
        upper = row_dots(points, V, assign) if self.upper else None
        return Support(points, upper, np.full(len(X), 0.9) if self.graded else None)


@pytest.mark.parametrize(
    "oracle",
    [
        WorseThanTheRow(),
        WorseThanTheRow(upper=True),
        WorseThanTheRow(graded=True),
        WorseThanTheRow(upper=True, graded=True),
        WorseThanTheRow() | Box(0.1),
    ],
)
def test_answers_worse_than_the_unperturbed_row_raise(oracle):
    """Such answers would certify misclassified samples."""
    X, y = two_classes()
    model = InvariantLinearSVC(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="must return at least the value of the unperturbed row"):
        model.certify(X, y, oracle=oracle)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_answers_worse_by_rounding_pass(dtype):
    class Nothing(InvarianceOracle):
        def support(self, X, V, assign, cost=None):
            points = X * X.dtype.type(1.0 - 4 * np.finfo(X.dtype).eps)
            return Support(points)

    X, y = two_classes()
    X = X.astype(dtype)
    model = InvariantLinearSVC(random_state=0).fit(X, y)
    assert model.certify(X, y, oracle=Nothing()).accuracy <= model.score(X, y)


class Broken(InvarianceOracle):
    """An oracle with a planted bug."""

    def __init__(self, answer):
        self.answer = answer

    def support(self, X, V, assign, cost=None):
        return self.answer(X)


BUGS = [
    (lambda X: Support(X[:, :-1]), r"points of shape \(9, 4\), got \(9, 3\)"),
    (lambda X: Support(X[:-1]), r"points of shape \(9, 4\), got \(8, 4\)"),
    (lambda X: Support(X[0]), r"points of shape \(9, 4\), got \(4,\)"),
    (lambda X: Support(np.where(X > 0, np.nan, X)), "points that are not finite"),
    (lambda X: Support(X * np.inf), "points that are not finite"),
    (lambda X: Support(X, np.full(len(X), np.nan)), "returned upper that are NaN"),
    (lambda X: Support(X, np.full(len(X) - 1, np.inf)), r"upper of shape \(9,\), got \(8,\)"),
    (lambda X: Support(X, rho=np.ones(len(X) + 1)), r"grades of shape \(9,\), got \(10,\)"),
    (lambda X: X, "must return a Support, got ndarray"),
    (lambda X: None, "must return a Support, got NoneType"),
]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    ("answer", "said", "solver"),
    [(*each, "frank_wolfe") for each in BUGS] + [(*each, "bmrm") for each in BUGS[::4]],
)
def test_invalid_answers_of_oracles_raise(answer, said, solver):
    model = InvariantLinearSVC(Broken(answer), solver=solver)
    check_refused(model, ValueError, f"Broken.support.*{said}", X, Y)
    model.set_params(oracle=None).fit(X, Y).set_params(oracle=Broken(answer))
    for method in (model.certify, model.worst_case):
        with pytest.raises(ValueError, match=f"Broken.support.*{said}"):
            method(X, Y)
