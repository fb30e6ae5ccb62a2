"""What all estimators promise alike: scikit-learn's rules, weights, refused fits, fits out of time."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    estimator_checks_generator,
)
from sklearn.utils.validation import _num_samples

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantSVC,
    InvariantSVR,
    LapSVC,
    OrbitRidge,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.estimators.base import InvariantEstimator
from structinv.functionals import SecondDerivative
from structinv.oracles import FDrop, FScale
from structinv.solvers import Status

from ..estimators.cases import PREDICTORS, fitted
from ..problems import Nudges

DENSE, SPARSE = (f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse"))


# Weighted and repeated samples are compared at 1e-7. Fits to a gap of 1e-3 differ by more, as those of
# LinearSVC and SVC do; sharper fits pass below.
COARSE = {DENSE: "compares at 1e-7", SPARSE: "compares at 1e-7"}
AROUND_ROWS = {DENSE: "a row of weight 0 has no label, but is a row that functionals act around"}
TWICE = {DENSE: "left out alone, a repeated row still has its twin"}
# One estimator for each way to fit, with all rules.
RULES = [
    (InvariantLinearSVC(FScale(max_changes=2), tol=0.1), COARSE),
    (InvariantLinearSVR(FScale(max_changes=1), tol=0.1), COARSE),
    (InvariantSVC(Nudges(), tol=0.1), COARSE),
    (InvariantSVR(tol=0.1), COARSE),
    # A narrow kernel, or one whose width depends on how often rows are repeated, would fail for what
    # it is.
    (RepresenterClassifier(loss="hinge", gamma=0.01, tol=1e-10), {}),
    (
        RepresenterRegressor(
            loss="huber", bias=True, invariances=[SecondDerivative(0, 0)], invariance_loss="huber"
        ),
        AROUND_ROWS,
    ),
    (OrbitRidge(), TWICE),
    (VirtualSVC(Nudges()), COARSE),
]
# The default run has these of kernel regression: it fits as kernel classifiers do.
REGRESSION = [
    "regressors_int",
    "regressors_train",
    "regressors_no_decision_function",
    "regressor_data_not_an_array",
    "regressor_multioutput",
    "supervised_y_2d",
    "supervised_y_no_nan",
    "fit_score_takes_y",
    "fit2d_1sample",
    "parameters_default_constructible",
    "sample_weights_shape",
]
CLASSES = "classifiers_classes classifiers_one_label classifiers_train parameters_default_constructible"
OWN = f"{CLASSES} fit_score_takes_y fit2d_1sample decision_proba_consistency"
TWO_CLASSES = "classifier_not_supporting_multiclass"
TABLES = (
    "nonsquare_error n_features_in methods_subset_invariance estimators_pickle fit_idempotent "
    "classifiers_train regressors_train readonly_memmap_input pipeline_consistency fit2d_1sample "
    "estimators_nan_inf"
)
# What shares its fit with one of these, and the rules that its own part may break.
SOME_RULES = [
    (InvariantLinearSVC(loss="squared_hinge", random_state=0), f"{TWO_CLASSES} classifiers_train"),
    (InvariantSVC(loss="logistic", random_state=0), TWO_CLASSES),
    (LapSVC(n_neighbors=1, nu=0.01), OWN),
    (VirtualSupportVectorSVC(Nudges()), OWN),
    (InvariantSVC(kernel="precomputed", C=0.01, tol=0.05), TABLES),
    (OrbitRidge("precomputed", alphas=1.0), TABLES),
]


def checks():
    every = [(estimator, known, None) for estimator, known in RULES]
    for estimator, known, only in [*every, *((each, {}, only.split()) for each, only in SOME_RULES)]:
        for each, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            if only is None or name.removeprefix("check_") in only:
                # Fits to plain arrays are those to read-only ones, which are tested, too.
                plain = name.endswith("s_train") and not check.keywords.get("readonly_memmap")
                own = not isinstance(each, InvariantSVR) or name.removeprefix("check_") in REGRESSION
                marks = [] if own and not plain and name not in known else [pytest.mark.slow]
                marks += [pytest.mark.xfail(reason=known[name])] if name in known else []
                yield pytest.param(each, check, marks=marks, id=f"{estimator}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_keeps_scikit_learns_rules(estimator, check, array_api):
    check(estimator)


# Of rows that are repeated only some may be support vectors, and then only their orbits count in the
# second machine of virtual support vectors: with an oracle it takes no weights for repetitions.
@pytest.mark.parametrize(
    "model",
    [
        InvariantLinearSVC(tol=1e-8),
        InvariantLinearSVC(FScale(max_changes=2), tol=1e-8),
        InvariantLinearSVC(FDrop(max_changes=1), tol=1e-8),
        InvariantLinearSVR(FDrop(max_changes=1), tol=1e-8),
        InvariantSVC(Nudges(), gamma=0.1, tol=1e-10),
        InvariantSVR(Nudges(), gamma=0.1, tol=1e-10),
        VirtualSVC(gamma=0.1, tol=1e-10),
        VirtualSVC(Nudges(), gamma=0.1, tol=1e-10),
        VirtualSupportVectorSVC(gamma=0.1, tol=1e-10),
    ],
    ids=repr,
)
def test_a_weight_of_two_is_a_repetition_and_zero_a_removal(model):
    name = type(model).__name__
    check_sample_weight_equivalence_on_dense_data(name, model)
    if not isinstance(model.oracle, Nudges) and not isinstance(model, InvariantSVC | InvariantSVR):
        check_sample_weight_equivalence_on_sparse_data(name, model)


THREE, BALANCED = {"a": 3.0, "b": 1.0}, {"a": 1.5, "b": 0.75}


# SVC balances rows and not their weights.
@pytest.mark.parametrize(
    ("model", "given", "factors", "own"),
    [
        (InvariantLinearSVC(FDrop(1), C=0.1, tol=1e-8, random_state=0), {"a": 3.0}, THREE, True),
        (InvariantLinearSVC(FDrop(1), C=0.1, tol=1e-8, random_state=0), "balanced", BALANCED, True),
        (InvariantSVC(Nudges(), gamma=0.1, C=0.1, tol=1e-8, random_state=0), {"a": 3.0}, THREE, True),
        (InvariantSVC(Nudges(), gamma=0.1, tol=1e-8, random_state=0), "balanced", BALANCED, True),
        (VirtualSVC(Nudges(), gamma=0.1, tol=1e-8), {"a": 3.0}, THREE, True),
        (VirtualSVC(Nudges(), gamma=0.1, tol=1e-8), "balanced", BALANCED, False),
    ],
    ids=str,
)
def test_class_weights_are_sample_weights(model, given, factors, own):
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "b"])[np.arange(45) % 3]
    X = rng.standard_normal((45, 4)) + 2.0 * (y == "a")[:, None]
    weights = rng.uniform(0.5, 1.5, 45) if own else np.ones(45)
    # Weighted rows of each class count alike.
    weights *= np.where(y == "a", 15.0, 30.0) / np.where(
        y == "a", *(weights[y == c].sum() for c in "ab")
    )

    def scores(weights, **parameters):
        return clone(model).set_params(**parameters).fit(X, y, weights).decision_function(X)

    expected = scores(weights * np.vectorize(factors.get)(y))
    np.testing.assert_allclose(scores(weights, class_weight=given), expected, atol=1e-3)
    assert np.max(np.abs(expected - scores(weights))) > 1e-2


def learned(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize("case", PREDICTORS, ids=lambda case: case.name)
def test_a_refused_fit_leaves_the_model_before_it(case):
    model = fitted(case.name)
    before = learned(model)
    with pytest.raises(ValueError, match=r"y must|inconsistent numbers|labeling for each"):
        model.fit(case.X, case.y[:-1])
    assert learned(model).keys() == before.keys()
    assert all(value is before[name] for name, value in learned(model).items())


ITERATIVE = [case for case in PREDICTORS if isinstance(case.estimator, InvariantEstimator)]


@pytest.mark.parametrize("case", ITERATIVE, ids=lambda case: case.name)
def test_a_fit_out_of_time_can_be_used_and_goes_on_from_its_file(case, tmp_path):
    path = tmp_path / "fit"
    model = clone(case.estimator).set_params(tol=0.0, max_seconds=1e-9, checkpoint=path)
    message = f"{type(model).__name__} ended with status 'time limit' after . iterations"
    with pytest.warns(ConvergenceWarning, match=message):
        model.fit(case.X, case.y)
    assert model.solution_.status is Status.TIME_LIMIT
    assert model.n_iter_ == model.solution_.iterations
    assert len(model.predict(case.X)) == _num_samples(case.X)
    assert path.exists()
    model.set_params(tol=1e-3, max_seconds=None).fit(case.X, case.y)
    assert model.solution_.status is Status.CONVERGED
    assert not path.exists()


@pytest.mark.parametrize("case", ITERATIVE, ids=lambda case: case.name)
def test_a_second_fit_and_that_of_a_pickle_go_on_from_the_first(case):
    model = clone(case.estimator).set_params(warm_start=True).fit(case.X, case.y)
    first = model.solution_
    for again in (pickle.loads(pickle.dumps(model)), model):
        again.fit(case.X, case.y)
        assert again.solution_.status is Status.CONVERGED
        # The sums over planes of blocks are only a part of their dual variables.
        if first.solver in ("FrankWolfe", "Representer") and set(first.dual_variables[0]) != {"taus"}:
            assert again.n_iter_ < min(2, first.iterations)
        assert again.solution_.history[0].primal <= first.primal * (1 + 1e-9)
        assert again.solution_.dual <= first.primal * (1 + 1e-9)
        assert first.dual <= again.solution_.primal * (1 + 1e-9)
