"""Invalid input raises an error with the argument, before any work and without a half-fitted model."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
    certify,
)
from structinv.embeddings import OrbitFourier
from structinv.functionals import Gradient, Tangents
from structinv.inspection import security_curve
from structinv.kernels import Gaussian, OrbitDistance, OrbitMean, SetKernel
from structinv.metrics import set_distance
from structinv.model_selection import select_widths
from structinv.oracles import FDrop, Flip, Shifts, check_oracle

from ..estimators.cases import CASE
from ..functionals import cases as functional_cases
from ..kernels.cases import EVERY_CASE as KERNELS
from ..oracles import cases as oracle_cases
from ..oracles.cases import CASES, rows

X = np.random.default_rng(0).standard_normal((9, 4))
Y = np.arange(9) % 3
TWO = np.arange(9) % 2

VALUES = "assign must contain rows of V"
BAD_QUESTIONS = {
    "X a list": (TypeError, "X must be an array", lambda X, V, a: (X.tolist(), V, a)),
    "X one row": (ValueError, "X must have shape", lambda X, V, a: (X[0], V, a)),
    "V one direction": (ValueError, "V must have shape", lambda X, V, a: (X, V[0], a)),
    "V too wide": (ValueError, "V must have shape", lambda X, V, a: (X, np.c_[V, V], a)),
    "assign too short": (ValueError, "assign must have shape", lambda X, V, a: (X, V, a[1:])),
    "assign too large": (ValueError, VALUES, lambda X, V, a: (X, V, a + 1)),
    "assign negative": (ValueError, VALUES, lambda X, V, a: (X, V, a - 1)),
    "assign floats": (TypeError, "assign must contain integers", lambda X, V, a: (X, V, a / 1)),
}


# Those that need labels are asked through `bind`.
UNBOUND = [case for case in CASES if not case.oracle.depends_on_label]


@pytest.mark.parametrize("bad", BAD_QUESTIONS)
def test_invalid_directions_raise_before_any_work(bad):
    """Every wrong question to one oracle, and one to every oracle: they share the check."""
    for case in UNBOUND if bad == "V too wide" else UNBOUND[:1]:
        ask_wrongly(case, bad)


def ask_wrongly(case, bad):
    inputs = rows()[0][:4]
    directions = np.random.default_rng(0).standard_normal((2, inputs.shape[1]))
    error, message, spoil = BAD_QUESTIONS[bad]
    asked, V, assign = spoil(inputs, directions, np.array([0, 1, 1, 0]))
    if bad.startswith("X"):
        with pytest.raises(error, match=message):
            case.oracle.bind(asked)
    with pytest.raises(error, match=message):
        case.oracle.support(asked, V, assign)


CHANGES = Shifts(1, directions=4, shape=(2, 2))
WITH_ORACLE = [
    InvariantLinearSVC,
    InvariantSVC,
    RepresenterClassifier,
    VirtualSVC,
    VirtualSupportVectorSVC,
]
WITH_FUNCTIONALS = [InvariantSVC, RepresenterClassifier, RepresenterRegressor]


@pytest.mark.parametrize("kind", WITH_FUNCTIONALS)
def test_an_oracle_among_functionals_raises_with_advice(kind):
    for given in (CHANGES, [Gradient(), CHANGES]):
        with pytest.raises(TypeError, match=r"invariances must .*Tangents\(Shifts\(.*or pass .*oracle="):
            kind(invariances=given).fit(X, TWO)


@pytest.mark.parametrize("kind", WITH_ORACLE)
def test_a_functional_as_oracle_raises_with_advice(kind):
    for given in (Gradient(), Gradient().bind(X)):
        with pytest.raises(TypeError, match=r"oracle must be an Inv.*Oracle.*invariances=\[\.\.\.\]"):
            kind(oracle=given).fit(X, TWO)


MODEL = InvariantLinearSVC().fit(X, TWO)
GIVEN = [
    (X, r"rows of shape \(9, 4\): pass the oracle before the rows"),
    (FDrop, r"the class FDrop; pass an instance: FDrop\(max_changes=...\)"),
    (dict, "the class dict$"),
    ("fdrop", "'fdrop'$"),
]
TAKING = {
    "fit": lambda oracle: InvariantLinearSVC(oracle).fit(X, TWO),
    "certify": lambda oracle: certify(MODEL, oracle, X, TWO),
    "check": lambda oracle: check_oracle(oracle, X),
    "union": lambda oracle: InvariantLinearSVC(FDrop(1) | oracle).fit(X, TWO),
    "distances": lambda oracle: set_distance(oracle, X),
    "kernel": lambda oracle: OrbitMean(oracle, Gaussian()).validate(4),
    "set kernel": lambda oracle: SetKernel(oracle, Gaussian()).validate(4),
    "embedding": lambda oracle: OrbitFourier(oracle=oracle).fit(X),
    "functional": lambda oracle: InvariantSVC(invariances=[Tangents(oracle)]).fit(X, TWO),
    "curve": lambda oracle: security_curve({"a": MODEL}, X, TWO, oracle=oracle, n_changes=[1], label=1),
    "widths": lambda oracle: select_widths({"changes": oracle}, X, Y),
}


@pytest.mark.parametrize("taking", TAKING)
def test_invalid_oracles_raise_the_same_message(taking):
    for oracle, written in GIVEN:
        with pytest.raises(TypeError, match=r"must be an InvarianceOracle( or None)?, got .*" + written):
            TAKING[taking](oracle)


# Numbers that are no numbers are refused by the name of their parameter, in every public class.


def refuse_numbers(instances, ask):
    """Ask instances for each parameter that is a number, one instance for each class and parameter."""
    found = {}
    for each in instances:
        for name, value in each.get_params(deep=False).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault((type(each), name), each)
    for (_, name), each in found.items():
        for value in (np.nan, "x"):
            with pytest.raises((TypeError, ValueError), match=name):
                ask(clone(each).set_params(**{name: value}))
    return len(found)


def test_numbers_of_kernels():
    distance = OrbitDistance(Flip(shape=(1, 5)), Gaussian(), 1.0, 2)
    kernels = [*(kernel for kernel, _ in KERNELS), distance]
    assert refuse_numbers(kernels, lambda kernel: kernel.validate(5)) > 20


def test_numbers_of_oracles():
    X, y = oracle_cases.rows()
    oracles = [case.oracle for case in oracle_cases.CASES]
    assert refuse_numbers(oracles, lambda oracle: oracle.bind(X, y)) > 30


def test_numbers_of_functionals():
    families = [case.make() for case in functional_cases.CASES]
    assert refuse_numbers(families, lambda each: each.bind(functional_cases.rows())) > 8


POLYNOMIAL = {"kernel": "poly", "oracle": None}


@pytest.mark.parametrize("name", CASE)
def test_numbers_of_estimators(name):
    case = CASE[name]
    known = case.estimator.get_params(deep=False)
    numbers = {each for each, value in known.items() if type(value) in (int, float)}
    # Tokens have no kernel, and parameters of one kernel may be wrong for another.
    of_kernels = numbers & {"degree", "coef0"} if name != "tagger" else set()
    settings = {each: value for each, value in POLYNOMIAL.items() if each in known}
    for each in sorted(numbers - {"degree", "coef0"} | of_kernels):
        model = clone(case.estimator).set_params(**settings if each in of_kernels else {})
        for value in (np.nan, "x"):
            with pytest.raises((TypeError, ValueError), match=each):
                model.set_params(**{each: value}).fit(case.X, case.y)
