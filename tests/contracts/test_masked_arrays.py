"""Masked arrays are refused wherever an array is read, since their masked values would be data."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    OrbitRidge,
    certify,
    explain_solver,
    metrics,
    select_changes,
    select_widths,
)
from structinv.functionals import (
    Difference,
    DirectionalDerivative,
    Evaluation,
    Gradient,
    PartialDerivative,
    VicinalAverages,
)
from structinv.inspection import WorstCasesDisplay, explain_edit, name_changes, security_curve
from structinv.kernels import Gaussian, OrbitMean, VicinalKernel, check_kernel, psd_corrected
from structinv.kernels.indefinite import min_eigenvalue
from structinv.model_selection import certified_accuracy_scorer, labeled_scorer
from structinv.oracles import Box, Ellipsoid, FAdd, FDrop, Flip, Shifts, TangentDerivative, check_oracle
from structinv.rows import RowWriter, SlicedRows, SomeRows

from ..estimators import cases as estimator_cases
from ..oracles import cases as oracle_cases

MESSAGE = "must be an array without a mask, got a masked array:"


def masked(values, hidden=True):
    """A masked array that hides its first value, or none."""
    values = np.asarray(values)
    mask = np.zeros(values.shape, dtype=bool)
    mask.flat[0] = hidden
    return np.ma.MaskedArray(values, mask)


def refused(name, call):
    with pytest.raises(TypeError, match=rf"\b{name}(\[\d+\])? {MESSAGE}"):
        call()


@pytest.mark.parametrize("name", estimator_cases.CASE)
def test_estimators_refuse_masked_samples_labels_and_weights(name):
    case = estimator_cases.CASE[name]
    X, y = case.X, case.y
    if isinstance(X, np.ndarray):
        model = estimator_cases.fitted(name)
        for rows in (masked(X), masked(X, hidden=False), list(masked(X))):
            refused("X", lambda rows=rows: clone(case.estimator).fit(rows, y))
            for method in ("predict", "decision_function", "transform", "certify", "worst_case"):
                if hasattr(model, method):
                    refused("X", lambda method=method, rows=rows: getattr(model, method)(rows))
        if hasattr(model, "estimate_memory"):
            refused("X", lambda: clone(case.estimator).estimate_memory(masked(X), y))
    if case in estimator_cases.PREDICTORS:
        nested = isinstance(y, list) and isinstance(y[0], list)
        labels = [masked(each) for each in y] if nested else masked(y)
        refused("y", lambda: clone(case.estimator).fit(X, labels))
        weights = masked(np.ones(len(X)))
        refused("sample_weight", lambda: clone(case.estimator).fit(X, y, sample_weight=weights))
        if hasattr(case.estimator, "certify") and "regression" not in name:
            model = estimator_cases.fitted(name)
            refused("y", lambda: model.certify(X, labels))
            refused("y", lambda: model.worst_case(X, labels))


def test_oracles_refuse_masked_rows_and_directions():
    for case in oracle_cases.CASES:
        ask_with_masks(case)


def ask_with_masks(case):
    X, y = oracle_cases.rows()
    oracle = case.oracle.for_any_label()
    V, assign, cost = np.ones((1, X.shape[1])), np.zeros(len(X), dtype=int), np.ones(len(X))
    refused("X", lambda: oracle.bind(masked(X), y))
    if oracle.whole_example:
        return
    refused("X", lambda: oracle.support(masked(X), V, assign, cost))
    refused("V", lambda: oracle.support(X, masked(V), assign, cost))
    refused("cost", lambda: oracle.support(X, V, assign, masked(cost)))
    rng = np.random.default_rng(0)
    others = {"sample": (2, rng), "tangents": (), "region": (), "changes": ()}
    for method, arguments in others.items():
        call = getattr(oracle, method)
        try:
            call(X, *arguments)
        except NotImplementedError:
            continue
        # A method of a test's own class reads its rows itself.
        if method not in vars(type(oracle)) or type(oracle).__module__.startswith("structinv"):
            refused("X", lambda call=call, arguments=arguments: call(masked(X), *arguments))


def array_parameters():
    """Each parameter of an oracle case that is an array, and the oracle with a masked one."""
    for case in oracle_cases.CASES:
        for owner in [case.oracle, *case.oracle.get_params().values()]:
            ours = isinstance(owner, BaseEstimator) and type(owner).__module__.startswith("structinv")
            for name, value in owner.get_params(deep=False).items() if ours else ():
                plain = not callable(value) and not isinstance(value, (str, tuple, BaseEstimator))
                if plain and np.ndim(value) and name not in ("pixels", "degrees", "factors"):
                    changed = clone(owner).set_params(**{name: masked(value)})
                    yield changed, name


def test_oracles_refuse_masked_parameters():
    X, y = oracle_cases.rows()
    cases = list(array_parameters())
    assert len(cases) > 30
    for oracle, name in cases:
        refused(name, lambda oracle=oracle: oracle.bind(X, y))
        if not oracle.whole_example:
            refused(name, lambda oracle=oracle: InvariantLinearSVC(oracle).fit(X, y))


def rows():
    X, y = estimator_cases.rows()
    return X, y, (y == "b").astype(int)


OTHERS = {
    "cost": ("cost", lambda X, y: InvariantLinearSVC(cost=masked([[0, 1], [1, 0]])).fit(X, y)),
    "alphas": ("alphas", lambda X, y: OrbitRidge(alphas=masked([0.1, 1.0])).fit(X, X[:, 0])),
    "gram": ("X", lambda X, y: InvariantSVC(kernel="precomputed").fit(masked(X @ X.T), y)),
    "features": ("features", lambda X, y: PartialDerivative(masked([0, 1])).bind(X)),
    "directions": ("directions", lambda X, y: DirectionalDerivative(masked(X[0])).bind(X)),
    "rows": ("rows", lambda X, y: Evaluation(masked([0, 1])).bind(X)),
    "pairs": ("pairs", lambda X, y: Difference(masked([[0, 1]])).bind(X)),
    "weights": ("weights", lambda X, y: Difference([[0, 1]], masked([1.0])).bind(X)),
    "spread": (
        "spread",
        lambda X, y: VicinalAverages(Ellipsoid(np.eye(4)[:, :2]), masked([0.1, 0.2])).bind(X),
    ),
    "kernel spread": (
        "spread", lambda X, y: VicinalKernel(TangentDerivative(X[:2], 1.0), spread=masked([1, 2]))(X)
    ),
    "bind": ("X", lambda X, y: Gradient().bind(masked(X))),
    "representers": ("points", lambda X, y: Gradient().bind(X).representers(Gaussian(), masked(X))),
    "kernel X": ("X", lambda X, y: Gaussian()(masked(X))),
    "orbit kernel": ("X", lambda X, y: OrbitMean(Flip(shape=(1, 4)), Gaussian()).matrix(masked(X), X)),
    "kernel Y": ("Y", lambda X, y: Gaussian()(X, masked(X))),
    "psd_corrected": ("X", lambda X, y: psd_corrected(Gaussian(), masked(X))),
    "min_eigenvalue": ("X", lambda X, y: min_eigenvalue(Gaussian(), masked(X))),
    "distance X": ("X", lambda X, y: metrics.set_distance(Box(0.1), masked(X), X)),
    "distance Y": ("Y", lambda X, y: metrics.set_distance(Box(0.1), X, list(masked(X)))),
    "nearest": ("Y", lambda X, y: metrics.nearest(Box(0.1), X, masked(X))),
    "tangent": ("Y", lambda X, y: metrics.tangent_distance(Box(0.1), X, masked(X))),
    "certify X": ("X", lambda X, y: certify(LogisticRegression().fit(X, y), Box(0.1), masked(X), y)),
    "certify y": ("y", lambda X, y: certify(LogisticRegression().fit(X, y), Box(0.1), X, masked(y))),
    "only_for": ("labels", lambda X, y: FDrop(1).only_for(masked(["a", "b"])).bind(X, y)),
    "check_oracle": ("X", lambda X, y: check_oracle(Box(0.1), masked(X))),
    "check_kernel": ("X", lambda X, y: check_kernel(Gaussian(), masked(X))),
    "name_changes": ("changed", lambda X, y: name_changes(Flip(shape=(1, 4)), X, masked(X))),
    "display": ("worst", lambda X, y: WorstCasesDisplay(X, masked(X))),
    "sliced": ("array", lambda X, y: SlicedRows(masked(X))),
    "numbers": ("numbers", lambda X, y: SomeRows(SlicedRows(X), masked(np.arange(5)))),
    "widths": ("X", lambda X, y: select_widths(Shifts(1, shape=(2, 2)), masked(X), y)),
    "changes": (
        "y", lambda X, y: select_changes(InvariantLinearSVC(FDrop(1)), X, masked(y), {"C": [1.0]}, cv=2)
    ),
}  # fmt: skip


def test_other_entry_points_refuse_masked_arrays():
    X, y, _ = rows()
    for argument, call in OTHERS.values():
        refused(argument, lambda call=call: call(X, y))


def test_models_refuse_masked_arrays_in_scorers_and_explanations():
    X, y, _ = rows()
    model = InvariantLinearSVC(FDrop(1), random_state=0).fit(X, y)
    for scorer in (certified_accuracy_scorer(), certified_accuracy_scorer(FDrop(2)), labeled_scorer()):
        refused("X", lambda scorer=scorer: scorer(model, masked(X), y))
        refused("y", lambda scorer=scorer: scorer(model, X, masked(y)))
    refused("X", lambda: explain_edit(model, masked(X)[:1]))
    refused("y", lambda: explain_edit(model, X[:1], masked(y[:1])))
    refused("X", lambda: explain_solver(model, masked(X), y))
    settings = {"oracle": FAdd(1), "n_changes": [0, 1], "label": "a"}
    refused("X", lambda: security_curve({"plain": model}, masked(X), y, **settings))
    refused("y", lambda: security_curve({"plain": model}, X, masked(y), **settings))


def test_streams_refuse_masked_arrays():
    X, y, _ = rows()
    learn = InvariantLinearSVC(solver="pegasos").partial_fit
    refused("X", lambda: learn(masked(X), y, ["a", "b"]))
    refused("y", lambda: learn(X, masked(y), ["a", "b"]))
    refused("sample_weight", lambda: learn(X, y, ["a", "b"], masked(np.ones(len(X)))))
    refused("classes", lambda: learn(X, y, masked(["a", "b"])))


def test_rows_in_blocks_refuse_masked_arrays(tmp_path):
    X, y, _ = rows()

    class Slices:
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, part):
            return masked(X)[part]

    refused("array", lambda: SlicedRows(Slices()))
    model = InvariantLinearSVC(FDrop(1))
    refused("y", lambda: model.fit(SlicedRows(X), masked(y)))
    refused("sample_weight", lambda: model.fit(SlicedRows(X), y, masked(np.ones(len(X)))))
    with RowWriter(tmp_path / "rows") as writer:
        refused("X", lambda: writer.append(masked(X), y))
        refused("X", lambda: writer.append(list(masked(X)), y))
        refused("y", lambda: writer.append(X, masked(y)))
        writer.append(X, y)
