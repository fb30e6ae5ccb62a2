"""Tables as parameters: their labels, and never their order, decide which feature or class is meant."""

import copy
import inspect
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

from structinv import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    OrbitRidge,
    RepresenterClassifier,
    VirtualSVC,
    certify,
    embeddings,
    estimators,
    functionals,
    kernels,
    metrics,
    oracles,
)
from structinv.functionals import Gradient
from structinv.inspection import WorstCasesDisplay, name_changes
from structinv.kernels import Gaussian, OrbitMean, VicinalKernel, psd_corrected
from structinv.model_selection import select_widths
from structinv.oracles import Box, Ellipsoid, FAdd, FDrop, FEdit, Flip, Protected, TangentDerivative
from structinv.oracles.columns import FeatureParameters, with_numbers
from structinv.oracles.third_party import bind
from structinv.rows import RowFolder, RowWriter
from structinv.structures import Sequence

from ..estimators.cases import texts
from ..functionals import cases as functional_cases
from ..oracles import cases as oracle_cases

pandas = pytest.importorskip("pandas")
pytestmark = [
    pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]

# Neither sorted nor in reverse.
NAMES = ["port", "ip", "url", "age", "size"]

# Parameters that accept arrays without an axis of features or classes, and the meaning of their entries.
OTHER_AXES = {
    "members, or numbers of edits": "Discounted.rho Weighted.weights",
    "tangents": "TangentDerivative.bounds VicinalAverages.spread VicinalKernel.spread",
    "a list of values": "Shifts.pixels Rotations.degrees Scalings.factors Shears.factors",
    "a list of alphas": "OrbitRidge.alphas",
    "a list of labels, axes or words": "OnlyFor.labels Shears.axes TokenEdits.allowed",
    "a transformer": "InvariantTextClassifier.vectorizer",
    "rows, or their numbers": "Evaluation.rows Difference.pairs PrecomputedKernel.gram",
    "pairs": "Difference.weights",
    "numbers of rows": "PrecomputedKernel.numbers",
    "families": "Folded.families",
}
# Parameters of estimators with one entry per class.
CLASS_AXES = {"cost"}
# Parameters that are the same in many estimators.
OF_ESTIMATORS = {
    "families": "invariances nu invariance_loss",
    "a function, an oracle or a client": "kernel function oracle client",
    "a list of words": "allowed",
    "labels": "only_for unlabeled",
}
ACCEPT_ARRAYS = ("ndarray", "Sequence", "ArrayLike", "Values", "Any")


def of_arrays():
    """All parameters of public classes that accept arrays, by their annotations."""
    for module in (oracles, functionals, kernels, embeddings, estimators):
        for name in module.__all__:
            kind = getattr(module, name)
            if isinstance(kind, type) and issubclass(kind, BaseEstimator):
                for parameter in inspect.signature(kind).parameters.values():
                    if any(word in str(parameter.annotation) for word in ACCEPT_ARRAYS):
                        yield kind, parameter.name


def test_every_parameter_that_accepts_arrays_declares_its_axis():
    known, of_all = ({*" ".join(names.values()).split()} for names in (OTHER_AXES, OF_ESTIMATORS))
    undeclared = []
    for kind, name in of_arrays():
        declared = {*getattr(kind, "feature_axes", ()), *getattr(kind, "feature_parameters", ())}
        of_estimator = issubclass(kind, tuple(estimators.REGISTRY.values())) or name in of_all
        if of_estimator and name in CLASS_AXES | of_all:
            continue
        if name not in declared and f"{kind.__name__}.{name}" not in known:
            undeclared.append((kind.__name__, name))
    assert not undeclared, (
        "declare these in feature_axes or feature_parameters of their class, and read them by in_order"
    )


def table(value, axis, names, seed=0):
    """The same value as a shuffled table, with names along the axis."""
    order = np.random.default_rng(seed).permutation(len(names))
    while np.array_equal(order, np.arange(len(names))):
        order = np.roll(order, 1)
    shuffled = np.take(np.asarray(value), order, axis=axis)
    labels = [names[place] for place in order]
    if shuffled.ndim == 1:
        return pandas.Series(shuffled, index=labels)
    return pandas.DataFrame(shuffled, **{"index" if axis == 0 else "columns": labels})


def array_parameters(part):
    """Parameters with one entry per feature whose value is an array: their owner, name and axis."""
    for each in [part, *part.get_params().values()]:
        if isinstance(each, FeatureParameters):
            values = each.get_params(deep=False)
            axes = {**each.feature_axes}
            axes |= {n: -1 for n in each.feature_parameters if np.asarray(values[n]).dtype == bool}
            for name, axis in axes.items():
                array = not callable(values[name]) and not isinstance(values[name], BaseEstimator)
                if array and np.ndim(values[name]) in (1, 2):
                    yield each, name, axis


def with_tables(part, names):
    """A copy of a part whose arrays are shuffled tables; None if it has none."""
    part = clone(part)
    found = list(array_parameters(part))
    for owner, name, axis in found:
        owner.set_params(**{name: table(owner.get_params(deep=False)[name], axis, names)})
    return part if found else None


ORACLES = {c.name: c.oracle for c in oracle_cases.CASES if with_tables(c.oracle, NAMES) is not None}
ORACLES["fadd-mask"] = FAdd(2, allowed=[True, False, True, True, False])
ORACLES["protected-mask"] = Protected(Box(oracle_cases.RADII), np.arange(5) == 2)
ORACLES["fedit"] = FEdit(2, add=oracle_cases.VALUES + 1.0, scale=(0.5, 2.0))
FAMILIES = {str(c): c.make() for c in functional_cases.CASES if list(array_parameters(c.make()))}


def rows():
    X, y = oracle_cases.rows()
    return X, pandas.DataFrame(X, columns=NAMES), y


def test_the_cases_contain_every_declared_parameter():
    parts = [*ORACLES.values(), *FAMILIES.values()]
    tested = {(type(owner), name) for part in parts for owner, name, _ in array_parameters(part)}
    kinds = [*oracles.REGISTRY.values(), *functionals.REGISTRY.values()]
    declared = {(kind, name) for kind in kinds for name in getattr(kind, "feature_axes", ())}
    assert {(kind, name) for kind, name in declared if kind is not oracles.LocalTangents} <= tested
    assert (oracles.LocalTangents, "reference") in tested


def test_a_shuffled_table_gives_the_support_of_the_ordered_array():
    for name in ORACLES:
        X, _, y = rows()
        V, assign = np.random.default_rng(1).standard_normal((3, 5)), np.arange(len(X)) % 3
        named = with_numbers(with_tables(ORACLES[name], NAMES), NAMES)
        # Labels that are integers are the numbers of columns.
        numbered = with_tables(ORACLES[name], range(5))
        wanted, *found = (
            bind(part, X, y).support(slice(None), V, assign, np.ones(len(X))).points
            for part in (ORACLES[name], named, numbered)
        )
        for points in found:
            np.testing.assert_array_equal(points, wanted)


@pytest.mark.parametrize("name", ["box-radii", "fadd-some", "ellipsoid", "tangent", "fadd-mask"])
def test_a_shuffled_table_gives_the_model_of_the_ordered_array(name):
    X, frame, y = rows()
    settings = {"C": 0.1, "random_state": 0}
    ordered = InvariantLinearSVC(ORACLES[name], **settings).fit(frame, y)
    given = with_tables(ORACLES[name], NAMES)
    shuffled = InvariantLinearSVC(given, warm_start=True, **settings).fit(frame, y)
    np.testing.assert_array_equal(shuffled.coef_, ordered.coef_)
    for samples in (frame, X):
        found, wanted = shuffled.certify(samples, y), ordered.certify(samples, y)
        np.testing.assert_array_equal(found.margins, wanted.margins)
    np.testing.assert_array_equal(shuffled.worst_case(frame, y), ordered.worst_case(frame, y))
    shuffled.fit(frame, y)


@pytest.mark.parametrize("name", ORACLES)
def test_the_given_oracle_remains_unchanged(name):
    _, frame, y = rows()
    given = with_tables(ORACLES[name], NAMES)
    before = copy.deepcopy(given)
    model = InvariantLinearSVC(given, C=0.1, tol=0.1).fit(frame, y)
    assert repr(given) == repr(before) == repr(clone(model).oracle)
    for (owner, parameter, _), (other, _, _) in zip(
        array_parameters(given), array_parameters(before), strict=True
    ):
        assert owner.get_params(False)[parameter].equals(other.get_params(False)[parameter])


def test_labels_that_no_column_has_are_refused():
    for name in ORACLES:
        X, frame, y = rows()
        given, other = (with_tables(ORACLES[name], [*NAMES[:4], last]) for last in ("size", "length"))
        _, parameter, _ = next(array_parameters(other))
        unknown = (
            f"the labels of {parameter} must contain each column of X once: 'length' is not a column"
        )
        with pytest.raises(ValueError, match=unknown):
            certify(LogisticRegression().fit(frame, y), other, frame, y)
        with pytest.raises(ValueError, match=unknown):
            InvariantLinearSVC(other).fit(frame, y)
        for oracle in (given, with_tables(ORACLES[name], range(1, 6))):
            with pytest.raises(
                ValueError, match=r"must have no labels, because no column of X has a name"
            ):
                InvariantLinearSVC(oracle).fit(X, y)


def test_default_labels_apply_by_position():
    X, frame, y = rows()
    model = LogisticRegression().fit(frame, y)
    radius = oracle_cases.RADII
    found = certify(model, Box(pandas.Series(radius)), frame, y)
    np.testing.assert_array_equal(found.margins, certify(model, Box(radius), frame, y).margins)


@pytest.mark.parametrize(
    ("columns", "got"),
    [
        ([2, 0, 1, 4, 3], "got 2: set X.columns = X.columns.map(str)"),
        (
            pandas.MultiIndex.from_product([["in", "out"], ["ip", "port", "age"]])[:5],
            "got the MultiIndex column ('in', 'ip'): set X.columns = X.columns.map('_'.join)",
        ),
    ],
    ids=["integers", "MultiIndex"],
)
def test_labels_require_columns_that_are_strings(columns, got):
    X, _, y = rows()
    frame = pandas.DataFrame(X, columns=columns)
    model = LogisticRegression().fit(X, y)
    radius = pandas.Series(oracle_cases.RADII, index=columns).iloc[::-1]
    for parameter, call in {
        "radius": lambda: certify(model, Box(radius), frame, y),
        "allowed": lambda: InvariantLinearSVC(FAdd(1, allowed=["ip"])).fit(frame, y),
    }.items():
        message = f"the columns of X must be strings, because {parameter} refers to them by label, {got}"
        with pytest.raises(ValueError, match=re.escape(message)):
            call()
    # Without labels they are positions, as for scikit-learn.
    InvariantLinearSVC(Box(oracle_cases.RADII), C=0.1).fit(frame, y)


def test_bounds_are_aligned_with_the_rows_of_tangents():
    X, frame, y = rows()
    tangents = pandas.DataFrame(oracle_cases.TANGENTS, columns=NAMES, index=["bright", "contrast"])
    bounds = pandas.Series([0.1, 0.4], index=["bright", "contrast"])
    model = LogisticRegression().fit(frame, y)
    wanted = certify(model, TangentDerivative(oracle_cases.TANGENTS, [0.1, 0.4]), frame, y)
    shuffled = TangentDerivative(tangents[NAMES[::-1]], bounds[::-1])
    np.testing.assert_array_equal(certify(model, shuffled, frame, y).margins, wanted.margins)
    with pytest.raises(ValueError, match="bounds must contain each row of tangents once: 'dark' is not"):
        certify(model, TangentDerivative(tangents, bounds.rename({"bright": "dark"})), frame, y)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_with_a_shuffled_table_is_that_of_the_ordered_array(name):
    family, names = FAMILIES[name], NAMES[:3]
    X = functional_cases.rows()
    frame, kernel = pandas.DataFrame(X, columns=names), Gaussian()
    given = with_tables(family, names)
    found, wanted = given.bind(frame), family.bind(X)
    np.testing.assert_allclose(found.gram(kernel), wanted.gram(kernel), rtol=1e-12)
    y = np.arange(len(X)) % 2
    models = [RepresenterClassifier(invariances=[each]).fit(frame, y) for each in (given, family)]
    np.testing.assert_array_equal(*[model.decision_function(frame) for model in models])
    with pytest.raises(ValueError, match="'length' is not a column of X"):
        with_tables(family, ["port", "ip", "length"]).bind(frame)
    with pytest.raises(ValueError, match="because no column of X has a name"):
        given.bind(X)


def test_families_on_rows_with_other_columns_raise():
    X = functional_cases.rows()
    frame = pandas.DataFrame(X, columns=NAMES[:3])
    shuffled = frame[[NAMES[1], NAMES[0], NAMES[2]]]
    bound, other = Gradient().bind(frame), Gradient().bind(shuffled)
    with pytest.raises(ValueError, match=r"other must be bound to rows with the columns \['port', 'ip'"):
        bound.gram(Gaussian(), other)
    with pytest.raises(ValueError, match=r"invariances must be bound to rows with the columns"):
        RepresenterClassifier(invariances=[other]).fit(frame, np.arange(len(X)) % 2)
    np.testing.assert_array_equal(
        bound.representers(Gaussian(), shuffled), bound.representers(Gaussian(), X)
    )


# A table inside another part: each of these estimators passes the columns on.
RADIUS = np.array([0.5, 0.1, 1.0, 0.2, 0.3])
MASK = np.array([True, False, False, True, False])
INSIDE = {
    "kernel": lambda shuffled: OrbitRidge(
        OrbitMean(Protected(Flip(shape=(1, 5)), shuffled(MASK)), Gaussian())
    ),
    "virtual": lambda shuffled: VirtualSVC(Box(shuffled(RADIUS)), random_state=0),
    "orbit": lambda shuffled: InvariantSVC(Protected(Flip(shape=(1, 5)), shuffled(MASK)), tol=0.1),
    "vicinal": lambda shuffled: InvariantSVC(
        kernel=VicinalKernel(TangentDerivative(shuffled(RADIUS[None]), 1.0)), tol=0.1
    ),
    "features": lambda shuffled: embeddings.OrbitFourier(
        Protected(Flip(shape=(1, 5)), shuffled(MASK)), n_components=6
    ),
    "base kernel": lambda shuffled: embeddings.OrbitNystroem(
        kernel=VicinalKernel(TangentDerivative(shuffled(RADIUS[None]), 1.0)), n_components=4
    ),
}


@pytest.mark.parametrize("name", INSIDE)
def test_tables_inside_other_parts_are_aligned(name):
    X, frame, y = rows()
    y = np.arange(len(X)) % 2
    models = [
        INSIDE[name](given).fit(frame, y)
        for given in (lambda value: table(value, -1, NAMES), lambda value: value)
    ]
    method = "transform" if hasattr(models[0], "transform") else "predict"
    np.testing.assert_array_equal(*[getattr(model, method)(frame) for model in models])


def test_tables_are_aligned_in_the_choice_of_widths():
    X, frame, y = rows()
    y = np.arange(len(X)) % 2
    found, wanted = (
        select_widths(Box(radius), frame, y, n_draws=3) for radius in (table(RADIUS, -1, NAMES), RADIUS)
    )
    np.testing.assert_array_equal(*(each.cv_results_["mean_test_score"] for each in (found, wanted)))


class TestRowsBesideX:
    """Samples in two tables: the columns of the second have the order of the first."""

    DISTANCES = {
        "set_distance": metrics.set_distance,
        "tangent_distance": metrics.tangent_distance,
        "nearest": lambda *given: metrics.nearest(*given)[0],
    }

    @pytest.mark.parametrize("name", DISTANCES)
    def test_distances(self, name):
        X, frame, _ = rows()
        distance, oracle = self.DISTANCES[name], TangentDerivative(oracle_cases.TANGENTS, 0.4)
        Y, wanted = frame + 0.5, distance(oracle, X, X + 0.5)
        given = with_tables(oracle, NAMES)
        for others in (Y, Y[NAMES[::-1]], Y.to_numpy()):
            np.testing.assert_allclose(distance(given, frame, others), wanted, rtol=1e-12)
        with pytest.raises(ValueError, match="labels of Y must contain each column of X once: 'length'"):
            distance(oracle, frame, Y.rename(columns={"age": "length"}))
        with pytest.raises(ValueError, match="Y must have no labels, because no column of X has a name"):
            distance(oracle, X, Y)

    def test_kernels(self):
        X, frame, _ = rows()
        kernel = VicinalKernel(TangentDerivative(oracle_cases.TANGENTS, 0.4))
        given, wanted = with_tables(kernel, NAMES), kernel(X, X + 0.5)
        np.testing.assert_allclose(given(frame, (frame + 0.5)[NAMES[::-1]]), wanted, rtol=1e-12)
        np.testing.assert_allclose(given(frame), kernel(X), rtol=1e-12)
        corrected = psd_corrected(given, frame), psd_corrected(kernel, X)
        np.testing.assert_allclose(*[each(X, X + 0.5) for each in corrected], rtol=1e-9)
        assert kernel(frame.iloc[0], frame.iloc[1][::-1]) == pytest.approx(kernel(X[0], X[1]))
        with pytest.raises(ValueError, match="labels of Y must contain each column of X once"):
            kernel(frame, frame.rename(columns={"age": "length"}))

    def test_names_of_changes(self):
        X, frame, _ = rows()
        oracle = Protected(Flip(shape=(1, 5)), [False, True, False, True, False])
        changed = frame.copy()
        changed[["port", "size"]] = X[:, [4, 0]]
        names = name_changes(oracle, X, changed.to_numpy())
        assert len(set(names)) == 2
        assert name_changes(with_tables(oracle, NAMES), frame, changed[NAMES[::-1]]) == names

    def test_displays(self):
        X, frame, _ = rows()
        display = WorstCasesDisplay(frame.iloc[:, :4], frame[NAMES[3::-1]])
        np.testing.assert_array_equal(*display._rows)

    def test_writers(self, tmp_path):
        X, frame, _ = rows()
        with RowWriter(tmp_path / "rows") as writer:
            writer.append(frame)
            with pytest.raises(ValueError, match="X must have the columns of the first rows"):
                writer.append(frame[NAMES[::-1]])
            writer.append(X)
        assert RowFolder(tmp_path / "rows").shape == (16, 5)


COST = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [1.0, 3.0, 0.0]])
CLASSES = np.array(["benign", "adware", "spyware"])


def classes():
    """Rows of three classes, sorted differently than their numbers."""
    rng = np.random.default_rng(0)
    codes = np.arange(30) % 3
    return rng.standard_normal((30, 3)) + 1.5 * np.eye(3)[codes], CLASSES[codes]


def sorted_cost(cost, labels):
    """The matrix in the order of sorted classes."""
    order = np.argsort(labels)
    return cost[np.ix_(order, order)]


class TestCosts:
    """Tables of costs by class."""

    def fits(self, cost):
        X, y = classes()
        settings = {"C": 0.1, "random_state": 0}
        yield lambda: InvariantLinearSVC(cost=cost, **settings).fit(X, y)
        stream = InvariantLinearSVC(cost=cost, solver="pegasos", **settings)
        yield lambda: stream.partial_fit(X, y, classes=np.sort(CLASSES))
        sequences = [X[i : i + 5] for i in range(0, 30, 5)], [y[i : i + 5] for i in range(0, 30, 5)]
        model = InvariantStructuredSVC(Sequence(), cost=cost, **settings)
        yield lambda: model.fit(*sequences)

    def test_are_aligned_with_the_classes(self):
        given = pandas.DataFrame(COST, index=CLASSES, columns=CLASSES)[["spyware", "benign", "adware"]]
        before = given.copy()
        for found, wanted in zip(
            self.fits(given.iloc[[1, 0, 2]]), self.fits(sorted_cost(COST, CLASSES)), strict=True
        ):
            np.testing.assert_array_equal(found().coef_, wanted().coef_)
        pandas.testing.assert_frame_equal(given, before)

    @pytest.mark.parametrize("axis", ["index", "columns"])
    def test_with_other_labels_raise(self, axis):
        other = pandas.DataFrame(COST, index=CLASSES, columns=CLASSES).rename(
            **{axis: {"adware": "worm"}}
        )
        for fit in self.fits(other):
            with pytest.raises(ValueError, match="labels of cost must contain each class of y once"):
                fit()

    def test_without_labels_apply_by_position(self):
        cost = sorted_cost(COST, CLASSES)
        for found, wanted in zip(self.fits(pandas.DataFrame(cost)), self.fits(cost), strict=True):
            np.testing.assert_array_equal(found().coef_, wanted().coef_)

    def test_of_integer_classes_are_aligned(self):
        X, y = classes()
        codes = np.searchsorted(np.sort(CLASSES), y) + 1
        given = pandas.DataFrame(COST, index=[3, 1, 2], columns=[3, 1, 2])
        model = InvariantLinearSVC(C=0.1, cost=given, random_state=0).fit(X, codes)
        ordered = clone(model).set_params(cost=sorted_cost(COST, [3, 1, 2])).fit(X, codes)
        np.testing.assert_array_equal(model.coef_, ordered.coef_)

    def test_of_texts_are_aligned(self):
        cost = pandas.DataFrame([[0.0, 4.0], [1.0, 0.0]], ["spam", "ham"], ["spam", "ham"])
        ordered = cost.sort_index().sort_index(axis=1).to_numpy()
        fits = [
            InvariantTextClassifier("drop", 1, cost=each, random_state=0).fit(*texts())
            for each in (cost, ordered)
        ]
        np.testing.assert_array_equal(*[fit.coef_ for fit in fits])


def test_members_and_grades_have_no_names():
    X, _, y = rows()
    grades = pandas.Series([0.2, 1.0, 0.9], index=[2, 0, 1])
    found, wanted = (
        InvariantLinearSVC(FDrop(2).discounted(rho), C=0.1, random_state=0).fit(X, y).coef_
        for rho in (grades, [1.0, 0.9, 0.2])
    )
    np.testing.assert_array_equal(found, wanted)
    named = FDrop(2).discounted(grades.rename({0: "none"}))
    with pytest.raises(ValueError, match="rho must have no labels, because no grade has a name, got"):
        named.validate()
    spread = pandas.Series([0.1, 0.2], index=["a", "b"])
    with pytest.raises(ValueError, match="spread must have no labels, because no tangent has a name"):
        VicinalKernel(TangentDerivative(oracle_cases.TANGENTS, 1.0), spread=spread)(X)


def test_large_values_are_not_printed_whole():
    """Errors have type and shape of a table instead of its content."""
    X, frame, y = rows()
    frame = frame.assign(note=[f"secret{i}" for i in range(len(X))])
    for call in (
        lambda: oracles.check_oracle(Box(0.1), frame),
        lambda: certify(InvariantLinearSVC().fit(X, y), frame, Box(0.1), y),
        lambda: certify(frame, Box(0.1), X, y),
        lambda: InvariantLinearSVC(C=frame).fit(X, y),
        lambda: InvariantLinearSVC(cost=frame).fit(X, y),
        lambda: InvariantLinearSVC(class_weight=frame).fit(X, y),
        lambda: InvariantLinearSVC(FAdd(1, allowed=frame)).fit(X, y),
        lambda: InvariantLinearSVC(FDrop(1).only_for(frame)).fit(X, y),
        lambda: InvariantLinearSVC(Ellipsoid(frame.reset_index(drop=True))).fit(X, y),
        lambda: InvariantSVC(kernel=frame).fit(X, y),
    ):
        with pytest.raises((TypeError, ValueError)) as error:
            call()
        assert "secret" not in str(error.value)
        assert len(str(error.value)) < 300
