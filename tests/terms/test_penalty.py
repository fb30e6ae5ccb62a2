"""Penalties on functionals, whose weights need not sum to one."""

import numpy as np
import pytest

from structinv.functionals import Evaluation, Gradient
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian
from structinv.losses import Squared
from structinv.spaces import RepresenterSpace
from structinv.terms import Penalty
from structinv.terms.penalty import FamilyFunctionals


def test_each_form_of_a_penalty_has_its_weights():
    rng = np.random.default_rng(0)
    X, kernel = rng.standard_normal((4, 2)), Gaussian(1.5)
    system = Representers(kernel, [each.bind(X).parts(kernel) for each in (Evaluation(), Gradient())])
    space = RepresenterSpace(system, 2)
    f = space.of_representers(rng.standard_normal((system.size, 1)))
    slopes, weights, loss = f.functionals()[4:, 0], np.array([3.0, 0.5, 0.0, 1.0] * 2), Squared()
    penalty = Penalty(FamilyFunctionals(system, 1), loss, weights)
    wanted = pytest.approx(weights @ loss.value(slopes), rel=1e-12)
    assert penalty.total(space, f) == (wanted, wanted)
    assert penalty.plane_of_sum(space, f).plane_values == wanted
    form = penalty.coordinates()
    assert form.weights @ form.loss.value(f.functionals().ravel()[form.places]) == wanted
