"""Every family of functionals against numerical derivatives and averages, and itself."""

import numpy as np
import pytest

from structinv.functionals import (
    REGISTRY,
    Difference,
    Evaluation,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
)
from structinv.kernels import Gaussian, Laplacian, Matern
from structinv.kernels.kernel_names import CallableKernel
from structinv.oracles import TangentDerivative

from ..covering import slow_unless
from ..functionals.cases import CASES, KERNELS, check_functional, rows, swaps


def half_a_swap(X):
    return (X[:, ::-1] - X)[:, None, :]


def test_every_registered_family_has_a_case_of_its_class():
    assert {case.name for case in CASES} == set(REGISTRY)
    assert all(type(case.make()) is REGISTRY[case.name] for case in CASES)
    assert len({str(case) for case in CASES}) == len(CASES)


# Each family with two kernels in turns, its further cases with one: every kind of part meets all.
in_turns = pytest.mark.parametrize(
    ("case", "kernel"),
    slow_unless(
        lambda case, kernel: (
            (KERNELS.index(kernel) - 2 * CASES.index(case)) % len(KERNELS) < (1 if case.detail else 2)
        ),
        [(case, kernel) for case in CASES for kernel in KERNELS],
    ),
    ids=str,
)


@in_turns
def test_keeps_the_contract(case, kernel):
    check_functional(case.make(), case.X, kernel)


def test_families_keep_the_contract_for_kernels_of_minimal_smoothness():
    for family in (Gradient(), PartialDerivative([1]), Tangents(TangentDerivative(half_a_swap, 1.0))):
        check_functional(family, rows(), Matern(1.3, nu=1.5))
    check_functional(LocalAverage(0.4), rows(3), Matern(1.3, nu=1.5))
    for family in (Evaluation(), Difference([[0, 1]]), GraphLaplacian(2), TransformDifference(swaps())):
        check_functional(family, rows(), Laplacian(0.5))
        check_functional(family, rows(), CallableKernel(lambda X, Y: (1.0 + X @ Y.T) ** 2))


@pytest.mark.parametrize("family", [Gradient(), LocalAverage(0.4), SecondDerivative(0, 2)], ids=repr)
def test_keeps_the_contract_far_from_the_origin_and_in_other_units(family):
    check_functional(family, rows() + 300.0)
    check_functional(family, 1e-4 * rows(), Gaussian(1e-4))
    check_functional(family, np.repeat(rows(3), 2, axis=0))
    check_functional(family, rows(1))
