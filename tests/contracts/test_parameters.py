"""Numbers that are no numbers are refused by the name of their parameter, in every public class."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv.kernels import Gaussian, OrbitDistance
from structinv.oracles import Flip

from ..estimators.cases import CASE
from ..functionals import cases as functional_cases
from ..oracles import cases as oracle_cases
from .test_kernels import EVERY_CASE as KERNELS

X, Y = oracle_cases.rows()


def numbers(instances):
    """Each parameter that is a number in an instance, one instance for each class and parameter."""
    found = {}
    for each in instances:
        for name, value in each.get_params(deep=False).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault((type(each), name), each)
    return [
        pytest.param(each, name, id=f"{kind.__name__}-{name}") for (kind, name), each in found.items()
    ]


def refused(ask, each, name):
    for value in (np.nan, "x"):
        with pytest.raises((TypeError, ValueError), match=name):
            ask(clone(each).set_params(**{name: value}))


@pytest.mark.parametrize(
    ("kernel", "name"),
    numbers([*(kernel for kernel, _ in KERNELS), OrbitDistance(Flip(shape=(1, 5)), Gaussian(), 1.0, 2)]),
)
def test_kernels(kernel, name):
    refused(lambda each: each.validate(5), kernel, name)


@pytest.mark.parametrize(("oracle", "name"), numbers(case.oracle for case in oracle_cases.CASES))
def test_oracles(oracle, name):
    refused(lambda each: each.bind(X, Y), oracle, name)


@pytest.mark.parametrize(("family", "name"), numbers(case.make() for case in functional_cases.CASES))
def test_functionals(family, name):
    refused(lambda each: each.bind(functional_cases.rows()), family, name)


@pytest.mark.parametrize(("estimator", "name"), numbers(case.estimator for case in CASE.values()))
def test_estimators(estimator, name):
    case = next(case for case in CASE.values() if case.estimator is estimator)
    if name in ("degree", "coef0"):
        if case.name == "tagger":
            pytest.skip("tokens have no kernel")
        # Parameters of one kernel may be wrong for another.
        settings = {"kernel": "poly", "oracle": None}
        known = estimator.get_params(deep=False)
        estimator = clone(estimator).set_params(**{k: v for k, v in settings.items() if k in known})
    refused(lambda each: each.fit(case.X, case.y), estimator, name)
