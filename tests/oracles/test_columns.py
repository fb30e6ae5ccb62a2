"""Column names as features: the same models as with feature numbers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import structinv
from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    OrbitRidge,
    RepresenterClassifier,
    VirtualSVC,
    certify,
    select_changes,
)
from structinv.embeddings import OrbitFourier
from structinv.functionals import PartialDerivative, SecondDerivative
from structinv.inspection import explain_edit
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Box, FAdd, FDrop, FEdit, Protected, Shifts
from structinv.structures import Sequence

COLUMNS = ["ip", "port", "url", "age", "size"]
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")

PICKED, NUMBERS = ["url", "ip"], [2, 0]


def data():
    rng = np.random.default_rng(0)
    X = (rng.random((40, len(COLUMNS))) < 0.5).astype(float)
    return X, (X[:, 0] + X[:, 3] + 0.5 * rng.standard_normal(40) > 1).astype(int)


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    """Return a function that makes a data frame of samples."""
    library = pytest.importorskip(request.param)
    if request.param == "pandas":
        return lambda X: library.DataFrame(X, columns=COLUMNS)
    return lambda X: library.DataFrame(X, schema=COLUMNS)


def shifts(features):
    return Protected(Shifts(1, shape=(1, 5)), features)


ESTIMATORS = {
    "FAdd": lambda names: InvariantLinearSVC(FAdd(1, allowed=names), C=0.1, random_state=0),
    "FEdit": lambda names: InvariantLinearSVC(FEdit(1, add=1.0, allowed=names), C=0.1, random_state=0),
    "Protected": lambda names: InvariantLinearSVC(Protected(FDrop(1), names), C=0.1, random_state=0),
    "inner": lambda names: InvariantLinearSVC(
        (FAdd(1, allowed=names) | Protected(Box(0.1), names)).only_for([1]), C=0.1, random_state=0
    ),
    "numbers": lambda names: InvariantLinearSVR(Protected(Box(0.1), names), C=0.1, random_state=0),
    "kernel": lambda names: InvariantSVC(shifts(names), tol=0.1, random_state=0),
    "mean": lambda names: OrbitRidge(OrbitMean(shifts(names), Gaussian(1.0)), alphas=0.1),
    "virtual": lambda names: VirtualSVC(shifts(names)),
    "features": lambda names: OrbitFourier(shifts(names), n_components=4),
    "derivative": lambda names: RepresenterClassifier(invariances=[PartialDerivative(names)]),
    "second": lambda names: RepresenterClassifier(invariances=[SecondDerivative(*names)]),
}


def answers(model, X):
    for method in ("decision_function", "predict", "transform"):
        if hasattr(model, method):
            return getattr(model, method)(X)
    raise AssertionError(f"{model!r} has no answers")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_column_names_give_the_same_model_as_numbers(name, frame):
    X, y = data()
    table = frame(X)
    by_name = ESTIMATORS[name](PICKED).fit(table, y)
    by_number = ESTIMATORS[name](NUMBERS).fit(table, y)
    other = ESTIMATORS[name]([4, 3]).fit(table, y)
    np.testing.assert_array_equal(answers(by_name, table), answers(by_number, table))
    assert np.abs(answers(by_name, table) - answers(other, table)).max() > 0
    if hasattr(by_name, "certify"):
        found, wanted = (vars(model.certify(table)) for model in (by_name, by_number))
        for key in wanted:
            np.testing.assert_array_equal(found[key], wanted[key])
        np.testing.assert_array_equal(by_name.worst_case(table, y), by_number.worst_case(table, y))


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in ("derivative", "second")])
def test_a_named_mask_is_aligned_with_the_columns(name):
    """A sorted Series selects other features than its values without an index."""
    pandas = pytest.importorskip("pandas")
    X, y = data()
    table = pandas.DataFrame(X, columns=COLUMNS)
    mask = pandas.Series([each in PICKED for each in COLUMNS], index=COLUMNS)
    wanted = answers(ESTIMATORS[name](NUMBERS).fit(table, y), table)
    for given in (mask, mask.sort_index(), mask[::-1]):
        np.testing.assert_array_equal(answers(ESTIMATORS[name](given).fit(table, y), table), wanted)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ip", "port", "url", "age", "length"], "'length' is not a column of X"),
        (["ip", "port", "url", "age"], "'size' is missing"),
        (["ip", "port", "url", "age", "size", "ip"], "it has 6 labels for 5 of them"),
    ],
)
def test_a_mask_with_other_names_raises(names, message):
    pandas = pytest.importorskip("pandas")
    X, y = data()
    mask = pandas.Series(np.arange(len(names)) < 2, index=names)
    with pytest.raises(
        ValueError, match=f"the labels of allowed must contain each column of X once: {message}"
    ):
        InvariantLinearSVC(FAdd(1, allowed=mask)).fit(pandas.DataFrame(X, columns=COLUMNS), y)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_arrays_after_a_fit_on_a_frame_have_its_columns(frame):
    X, y = data()
    model = InvariantLinearSVC(FAdd(1, allowed=PICKED), C=0.1).fit(frame(X), y)
    found, wanted = model.certify(X, y), model.certify(frame(X), y)
    np.testing.assert_array_equal(found.margins, wanted.margins)


def test_column_names_require_a_data_frame():
    for name in ESTIMATORS:
        X, y = data()
        with pytest.raises(ValueError, match="must contain|data frame"):
            ESTIMATORS[name](PICKED).fit(X, y)


def test_a_new_fit_replaces_the_columns(frame):
    X, y = data()
    model = InvariantLinearSVC(FAdd(1, allowed=PICKED), C=0.1).fit(frame(X), y)
    with pytest.raises(ValueError, match=r"because X has no column names.*got 'url'"):
        model.fit(X[:, ::-1], y)
    assert list(model.feature_names_in_) == COLUMNS
    with pytest.raises(NotFittedError):
        clone(model).certify(frame(X), y)


def test_an_unknown_column_raises(frame):
    X, y = data()
    with pytest.raises(ValueError, match=r"allowed must contain columns of X, got 'ulr'.*'url'"):
        InvariantLinearSVC(FAdd(1, allowed=["ip", "ulr"])).fit(frame(X), y)
    # A ColumnTransformer adds prefixes, and encoders add suffixes.
    longer = frame(X)
    longer.columns = [f"num__{name}_of_host" for name in COLUMNS]
    with pytest.raises(ValueError, match="got 'url'; X has the columns num__url_of_host$"):
        InvariantLinearSVC(FAdd(1, allowed=["url"])).fit(longer, y)
    with pytest.raises(ValueError, match="allowed must name each column once, got 'ip' 2 times"):
        InvariantLinearSVC(FAdd(1, allowed=["ip", "url", "ip"])).fit(frame(X), y)


def test_certificates_of_other_models_support_column_names(frame):
    X, y = data()
    model = LogisticRegression().fit(frame(X), y)
    found = certify(model, FAdd(1, allowed=PICKED), frame(X), y)
    wanted = certify(model, FAdd(1, allowed=NUMBERS), frame(X), y)
    np.testing.assert_array_equal(found.margins, wanted.margins)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame(X), y)
    found = certify(pipeline, FAdd(1, allowed=PICKED), frame(X), y, at="input")
    wanted = certify(pipeline, FAdd(1, allowed=NUMBERS), frame(X), y, at="input")
    np.testing.assert_array_equal(found.margins, wanted.margins)


def test_pipelines_with_pandas_output_support_column_names(frame):
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), InvariantLinearSVC(FAdd(1, allowed=PICKED), C=0.1))
    with pytest.raises(ValueError, match="set_output"):
        clone(pipeline).fit(frame(X), y)
    kind = type(frame(X)).__module__.partition(".")[0]
    pipeline.set_output(transform=kind).fit(frame(X), y)


def test_meta_estimators_support_column_names(frame, tmp_path):
    X, y = data()
    table = frame(X)
    model = InvariantLinearSVC(FAdd(1, allowed=PICKED), C=0.1, random_state=0)
    found = select_changes(model, table, y, {"oracle__max_changes": [0, 1]}, cv=2)
    assert found.best_estimator_.oracle.allowed == PICKED
    model.fit(table, y)
    assert set(explain_edit(model, table[:1], y[:1]).names) <= set(PICKED)
    structinv.save(model, tmp_path / "model")
    again = structinv.load(tmp_path / "model")
    np.testing.assert_array_equal(again.certify(table, y).margins, model.certify(table, y).margins)


def test_structured_models_support_column_names():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    sentences = [pandas.DataFrame(X[i : i + 4], columns=COLUMNS) for i in range(0, 40, 4)]
    labels = [y[i : i + 4] for i in range(0, 40, 4)]
    margins = []
    for features in (PICKED, NUMBERS):
        oracle = Protected(Box(0.1), features)
        model = InvariantStructuredSVC(Sequence(), oracle=oracle, C=0.1, tol=0.1, random_state=0)
        margins.append(model.fit(sentences, labels).certify(sentences, labels).margins)
    np.testing.assert_array_equal(*margins)
    with pytest.raises(ValueError, match="data frame"):
        clone(model).set_params(oracle__features=PICKED).fit([X[:4], X[4:8]], labels[:2])
