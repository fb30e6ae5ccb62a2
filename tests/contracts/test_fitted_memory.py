"""Fitted estimators have their own memory: overwritten samples, labels and weights change no answer."""

import functools
import pickle
import types

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import structinv
from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantSVR,
    OrbitRidge,
    RepresenterClassifier,
    VirtualSVC,
)
from structinv.embeddings import OrbitNystroem
from structinv.functionals import DirectionalDerivative, Gradient
from structinv.kernels import Gaussian, OrbitMean, SetKernel, VicinalKernel
from structinv.oracles import Box, FAdd, FDrop, Flip, Segment, TangentDerivative
from structinv.rows import SlicedRows
from structinv.structures import Multilabel, Sequence
from structinv.utils.matrices import independent

from ..estimators import cases as estimator_cases

pytestmark = [
    pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

PLAIN = (str, bytes, int, float, complex, type, types.ModuleType, types.BuiltinFunctionType)


def parts_of(value):
    """The objects that an object refers to."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, types.FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or ()]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    slots = [getattr(kind, "__slots__", ()) for kind in type(value).__mro__]
    names = {name for each in slots for name in ([each] if isinstance(each, str) else each)}
    return [*vars(value).values()] if hasattr(value, "__dict__") else [
        getattr(value, name) for name in names if hasattr(value, name)
    ]  # fmt: skip


def arrays_in(value, seen):
    """All arrays that are reachable from an object."""
    if id(value) in seen or value is None or isinstance(value, PLAIN):
        return
    seen[id(value)] = value
    if sp.issparse(value):
        yield from (value.data, value.indices, value.indptr)
    elif isinstance(value, np.ndarray):
        yield value
        for each in value.ravel() if value.dtype == object else ():
            yield from arrays_in(each, seen)
    elif hasattr(value, "iloc"):
        yield np.asarray(value)
    else:
        for each in parts_of(value):
            yield from arrays_in(each, seen)


def shared(model, *given):
    """The learned attributes that share memory with what the caller passed."""
    parameters = model.get_params(deep=False)
    theirs = [array for each in given for array in arrays_in(each, {}) if array.size]
    seen = {id(value): value for value in parameters.values()}
    return [
        name
        for name, value in vars(model).items()
        if name not in parameters
        for array in arrays_in(value, seen)
        if any(np.shares_memory(array, other) for other in theirs)
    ]


def frame(X):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X.copy(), columns=[f"column{j}" for j in range(X.shape[1])])


FORMS = {
    "C": lambda X: np.array(X, dtype=np.float64),
    "F": lambda X: np.array(X, dtype=np.float64, order="F"),
    "float32": lambda X: np.array(X, dtype=np.float32),
    "csr": sp.csr_matrix,
    "csr array": sp.csr_array,
    "frame": frame,
}


def check(tmp_path, estimator, X, y, form, weights=True):
    """Fit, look for shared memory, overwrite everything, and compare predictions."""
    given = FORMS[form](X) if isinstance(X, np.ndarray) else X
    y = y.copy() if isinstance(y, np.ndarray) else y
    own = {"sample_weight": np.ones(len(y))} if weights else {}
    model = clone(estimator).fit(given, y, **own)
    assert shared(model, given, y, own) == []
    if not isinstance(X, np.ndarray):
        return
    name = next(n for n in ("decision_function", "predict", "transform") if hasattr(model, n))
    wanted = getattr(model, name)(FORMS[form](X))
    np.testing.assert_array_equal(getattr(model, name)(given), wanted)
    structinv.save(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), structinv.load(tmp_path / "model")):
        np.testing.assert_array_equal(getattr(again, name)(given), wanted)
    for array in [*arrays_in(given, {}), *arrays_in(own, {})]:
        if array.flags.writeable and array.dtype.kind == "f":
            array[...] = 7.0
    if form == "frame":
        given.iloc[:, :] = 7.0
    if isinstance(y, np.ndarray):
        y[:] = y[::-1].copy()
    np.testing.assert_array_equal(getattr(model, name)(FORMS[form](X)), wanted)


# These read their rows by code of their own.
IN_EVERY_FORM = ["linear", "representers", "ridge"]


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, "C") for name in estimator_cases.CASE]
    + [(name, "float32") for name in ("kernel", "virtual", "fourier", "nystroem")]
    + [(name, form) for name in IN_EVERY_FORM for form in ("F", "float32", "frame")],
)
def test_estimators_share_no_memory_with_their_input(name, form, tmp_path):
    case = estimator_cases.CASE[name]
    check(tmp_path, case.estimator, case.X, case.y, form, case in estimator_cases.PREDICTORS)


# These fits keep planes that are computed from the rows.
KEPT = {"solver": "frank_wolfe", "warm_start": True, "random_state": 0}
SETTINGS = {
    **{f"linear, {name}": InvariantLinearSVC(FDrop(1), solver=name, random_state=0)
       for name in ("frank_wolfe", "bmrm", "svmstruct", "interior_point")},
    "identity": InvariantLinearSVC(**KEPT),
    "box": InvariantLinearSVC(Box(0.1), **KEPT),
    "additions": InvariantLinearSVC(FAdd(1), **KEPT),
    "members": InvariantLinearSVC(Flip(shape=(2, 2)), **KEPT),
    "union": InvariantLinearSVC(FDrop(1) | Box(0.1), **KEPT),
    "smooth": InvariantLinearSVC(FDrop(1), loss="logistic", random_state=0),
    "no oracle, smooth": InvariantLinearSVC(loss="squared_hinge", random_state=0),
    "blocks": InvariantLinearSVC(FDrop(1), memory_limit="1GB", random_state=0),
    "regression": InvariantLinearSVR(**KEPT),
    "kernel": InvariantSVC(random_state=0),
    "orbit": InvariantSVC(Flip(shape=(2, 2)), warm_start=True, random_state=0),
    "penalties": InvariantSVC(invariances=[Gradient()], random_state=0),
    "regression with penalties": InvariantSVR(invariances=[Gradient()], random_state=0),
    "compressed": InvariantSVC(max_support_vectors=3, random_state=0),
    "kernel with an oracle": InvariantSVC(kernel=VicinalKernel(Segment(0.5, 2.0)), random_state=0),
    "corrected": OrbitRidge(SetKernel(Segment(0.5, 2.0), Gaussian(), spectrum="clip")),
    "orbit mean": OrbitRidge(OrbitMean(Flip(shape=(2, 2)), Gaussian())),
    "with an oracle": RepresenterClassifier(oracle=Flip(shape=(2, 2)), loss="hinge"),
    "without an oracle": VirtualSVC(),
}  # fmt: skip


SPARSE = [
    "linear, frank_wolfe", "linear, interior_point", "additions", "no oracle, smooth", "blocks",
    "without an oracle",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, "C") for name in SETTINGS]
    + [(name, "csr") for name in SPARSE]
    + [("identity", "csr array"), ("compressed", "float32")],
)
def test_settings_share_no_memory_with_their_input(name, form, tmp_path):
    X, y = estimator_cases.rows()
    estimator = SETTINGS[name]
    y = y if hasattr(estimator, "class_weight") else estimator_cases.TARGETS
    check(tmp_path, estimator, X, y, form)


@pytest.mark.parametrize("form", ["C", "csr"])
def test_structured_models_share_no_memory_with_their_input(form):
    X, y = estimator_cases.rows()
    examples, labels = [FORMS[form](X[:5]), FORMS[form](X[5:])], [y[:5].copy(), y[5:].copy()]
    for oracle in (None, FDrop(1)) if form == "C" else (FDrop(1),):
        model = InvariantStructuredSVC(
            Sequence(), oracle=oracle, warm_start=True, tol=0.1, random_state=0
        )
        given = examples, labels, np.ones(2)
        assert shared(model.fit(*given), given) == []
        single = [FORMS[form](X)], [y.copy()]
        assert shared(clone(model).fit(*single), single) == []
        sets = FORMS[form](X), (X[:, :3] > 0).astype(int)
        assert shared(clone(model).set_params(structure=Multilabel()).fit(*sets), sets) == []


def test_streams_and_blocks_share_no_memory_with_their_input():
    X, y = estimator_cases.rows()
    classes, weights = np.array(["a", "b"]), np.ones(len(X))
    stream = InvariantLinearSVC(FDrop(1), solver="pegasos", random_state=0)
    assert shared(stream.partial_fit(X, y, classes, weights), X, y, classes, weights) == []
    rows = SlicedRows(X)
    assert (
        shared(InvariantLinearSVC(FDrop(1), random_state=0).fit(rows, y, weights), X, y, weights) == []
    )


def test_models_of_kernel_matrices_share_no_memory_with_them():
    X, y = estimator_cases.rows()
    for model, labels in (
        (InvariantSVC(kernel="precomputed"), y),
        (OrbitRidge("precomputed"), X[:, 0].copy()),
    ):
        gram = X @ X.T
        assert shared(model.fit(gram, labels), gram, labels) == []


def test_overwritten_parameters_change_no_prediction():
    X, y = estimator_cases.rows()
    for make in (
        lambda T: OrbitRidge(VicinalKernel(TangentDerivative(T, 1.0))),
        lambda T: RepresenterClassifier(invariances=[DirectionalDerivative(T)]),
        lambda T: InvariantSVC(invariances=[DirectionalDerivative(T)]),
        lambda T: OrbitNystroem(TangentDerivative(T, 1.0), n_components=4, n_draws=2),
    ):
        directions = np.arange(8.0).reshape(2, 4) / 8.0
        model = make(directions)
        model.fit(X, X[:, 0] if isinstance(model, OrbitRidge) else y)
        method = model.transform if hasattr(model, "transform") else model.predict
        before = method(X)
        directions *= 5.0
        np.testing.assert_array_equal(method(X), before)


def test_dual_variables_are_kept_for_a_warm_start_only():
    X, y = estimator_cases.rows()
    model = InvariantLinearSVC(FDrop(1), solver="frank_wolfe", random_state=0).fit(X, y)
    assert model.solution_.dual_variables == []
    again = clone(model).set_params(warm_start=True).fit(X, y)
    assert len(again.solution_.dual_variables[0]["taus"]) == len(y)
    assert again.fit(X, y).n_iter_ == 0


def test_a_warm_start_ignores_overwritten_rows():
    X, y = estimator_cases.rows()
    original = X.copy()
    model = InvariantLinearSVC(FDrop(1), solver="frank_wolfe", warm_start=True, tol=1e-6, random_state=0)
    model.fit(X, y)
    X[:] = np.random.default_rng(1).standard_normal(X.shape)
    again = model.fit(original, y).solution_
    fresh = clone(model).fit(original, y).solution_
    assert again.dual <= fresh.primal * (1 + 1e-9)
    assert again.iterations <= 1


def test_read_only_rows_are_not_copied(tmp_path):
    """Workers of a search read one memory-mapped file."""
    X, _ = estimator_cases.rows()
    np.save(tmp_path / "rows.npy", X)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert independent(rows, rows) is rows
    view = X.view()
    view.flags.writeable = False
    assert not np.shares_memory(independent(view, view), X)


def test_rows_that_validation_copied_are_not_copied_again():
    X, _ = estimator_cases.rows()
    for given, rows in (
        (X.tolist(), X),
        (X.astype(int), X.copy()),
        (sp.csc_matrix(X), sp.csr_matrix(X)),
    ):
        assert independent(rows, given) is rows
    mixed = frame(X).assign(column0=1)
    rows = np.asarray(mixed, dtype=np.float64)
    assert independent(rows, mixed) is rows
