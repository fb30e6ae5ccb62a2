"""Set kernels: functions of the distance of sets."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv import InvariantSVC
from structinv.kernels import Gaussian, Linear, Matern, SetKernel
from structinv.metrics import set_distance, tangent_distance
from structinv.oracles import Identity, Segment

from .cases import CLASSES, NEW, POINTS, WIDE


@pytest.mark.parametrize("sides", ["two", "mean", "tangent"])
@pytest.mark.parametrize("inner", [Gaussian(0.7), Matern(1.5, 2.5), 2.0 * Gaussian() * Gaussian(3.0)])
def test_set_kernel_is_a_function_of_the_set_distance(sides, inner):
    kernel = SetKernel(Segment(0.5, 2.0), inner, sides)
    if sides == "tangent":
        distances = tangent_distance(kernel.oracle, NEW, POINTS)
    else:
        distances = set_distance(kernel.oracle, NEW, POINTS, sides)
    # The same function of the distances of points on a line.
    line = inner.matrix(distances.reshape(-1, 1), np.zeros((1, 1)))
    np.testing.assert_allclose(kernel(NEW, POINTS).reshape(-1, 1), line, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(POINTS), np.diagonal(kernel(POINTS)), atol=1e-12)
    assert kernel(POINTS.astype(np.float32)).dtype == np.float32


def test_set_kernel_without_perturbations_is_the_kernel():
    np.testing.assert_allclose(
        SetKernel(Identity(), Gaussian())(NEW, POINTS), Gaussian()(NEW, POINTS), atol=1e-12
    )


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"sides": "one"}, ValueError, "not symmetric"),
        ({"sides": "twice"}, ValueError, "sides must be one of"),
        ({"kernel": Linear()}, ValueError, "function of distances alone"),
        ({"kernel": Gaussian() + Linear()}, ValueError, "function of distances alone"),
        ({"kernel": "rbf"}, TypeError, "write structinv.kernels.Gaussian"),
        ({"kernel": Gaussian(0.0)}, ValueError, "sigma"),
        ({"oracle": Segment}, TypeError, "oracle must be an InvarianceOracle"),
        ({"oracle": Gaussian(), "kernel": Identity()}, TypeError, "the oracle comes first"),
        ({"spectrum": "clipped"}, ValueError, "did you mean 'clip'|spectrum must be one of"),
    ],
)
def test_parameters_are_refused_by_name(change, kind, message):
    kernel = clone(WIDE).set_params(**change)
    before = set(vars(InvariantSVC(kernel=kernel)))
    model = InvariantSVC(kernel=kernel)
    for ask in (lambda: kernel(POINTS), lambda: model.fit(POINTS, CLASSES)):
        with pytest.raises(kind, match=message):
            ask()
    assert set(vars(model)) == before


def test_set_kernels_follow_changes_of_parameters_and_rows_in_place():
    kernel, rows = clone(WIDE), POINTS.copy()
    first = kernel(rows, rows[:3])
    kernel.oracle.high = 1.0
    np.testing.assert_allclose(kernel(rows, rows[:3]), clone(kernel)(rows, rows[:3]))
    kernel.oracle.high = 10.0
    rows[:3] += 1.0
    assert not np.allclose(kernel(rows, rows[:3]), first)
