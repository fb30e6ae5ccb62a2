"""Problems of functionals and of kernels that several tests of solvers share."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import make_moons

from structinv.functionals import Evaluation, Gradient
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian
from structinv.losses import (
    Absolute,
    CvxpyLoss,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Squared,
    SquaredHinge,
)
from structinv.losses.combined import Affine
from structinv.oracles import FiniteOracle
from structinv.solvers import REGISTRY, Gap, Iterations, Representer, solve
from structinv.spaces import RepresenterSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.terms import Objective, Penalty, WorstCase
from structinv.terms.penalty import FamilyFunctionals

KERNEL = Gaussian(0.7)
MOONS, CODES = make_moons(14, noise=0.1, random_state=0)
SIGNS = np.where(CODES == 1, 1.0, -1.0)


class Nudges(FiniteOracle):
    """Two small moves."""

    def orbit(self, X):
        """Both, and none."""
        return np.stack([X, X + [0.1, 0.0], X - [0.0, 0.1]], axis=1)


FUNCTIONAL_LOSSES = {
    "logistic": Affine(Logistic(), SIGNS),
    "hinge": Affine(Hinge(), SIGNS),
    "squared hinge": Affine(SquaredHinge(), SIGNS),
    "squared": Affine(Squared(), 1.0, SIGNS),
    "epsilon-insensitive": Affine(EpsilonInsensitive(0.1), 1.0, SIGNS),
    "CvxpyLoss": Affine(CvxpyLoss(lambda u: cp.maximum(1 - u, 0)), SIGNS),
}
FUNCTIONAL_PENALTIES = {
    "squared": Squared(),
    "absolute": Absolute(),
    "epsilon-insensitive": EpsilonInsensitive(0.1),
    "huber": Huber(0.3),
}


def representer_problem(loss, penalty, *, nu=0.05, free=None, kernel=KERNEL, cache_mb=100.0):
    """Labels at all rows, or their worst case, and a penalty on all gradients."""
    families = [family.bind(MOONS).parts(kernel) for family in (Evaluation(), Gradient())]
    representers = Representers(kernel, families, cache_mb)
    space = RepresenterSpace(representers, 2, free_degree=free)
    terms = [Penalty(FamilyFunctionals(representers, 1), FUNCTIONAL_PENALTIES[penalty], nu)]
    if loss == "worst case":
        terms.append(WorstCase(MOONS, CODES, Nudges(), Binary(), 1.0))
    else:
        terms.insert(0, Penalty(FamilyFunctionals(representers, 0), FUNCTIONAL_LOSSES[loss], 1.0))
    return Objective(space, terms)


def solved(objective, method="newton-cg", gap=1e-6, most=500, **options):
    """The solution of a method of `Representer`, to a gap or after so many iterations."""
    solver = method if isinstance(method, Representer) else Representer(method)
    return solve(objective, solver, Gap(gap) | Iterations(most), random_state=0, **options)


@cache
def representer_optimum(loss, penalty, free=None, nu=0.05):
    """The optimum from the Gram matrix, written in cvxpy."""
    moved = Nudges().orbit(MOONS).reshape(-1, 2)
    families = [Evaluation().bind(points).parts(KERNEL) for points in (MOONS, moved)]
    families.insert(1, Gradient().bind(MOONS).parts(KERNEL))
    gram = Representers(KERNEL, families).gram()
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-13 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    z, b = cp.Variable(root.shape[1]), cp.Variable()
    u = root @ z
    at_rows = u[:14] if free is None else u[:14] + b
    if loss == "worst case":
        margins = cp.multiply(SIGNS, cp.reshape(u[42:], (14, 3), order="C").T)
        losses = cp.sum(cp.pos(cp.max(1 - margins, axis=0)))
    else:
        losses = cp.sum(FUNCTIONAL_LOSSES[loss].expression(at_rows))
    flat = cp.sum(FUNCTIONAL_PENALTIES[penalty].expression(u[14:42]))
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z) + losses + nu * flat))
    program.solve(solver="CLARABEL")
    return program.value


# Solvers whose starts have the bound of their dual variables.
WITH_VARIABLES = {"frank_wolfe", "representer"}
TURNS = ["multiclass-slack", "binary-slack", "binary"]
every_solver = pytest.mark.parametrize("name", sorted(REGISTRY))


def tolerance_of(name):
    return 1e-2 if name == "pegasos" else 1e-5


def data(n=40, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.standard_normal((n, d)))
    return X, np.where(np.arange(n) % 2, 1, -1)


class Turned(FiniteOracle):
    """The row, backward, or moved on by one."""

    def orbit(self, X):
        return np.stack([X, X[:, ::-1], np.roll(X, 1, axis=1)], axis=1)


def machine(n=40, weights=1.0, cache_mb=100.0, dtype=np.float64):
    """A kernel machine on listed members, and its term."""
    X, y = data(n)
    term = WorstCase(X.astype(dtype), y, Turned(), Binary(), weights)
    return Objective(KernelSpace(Gaussian(3.0), X.shape[1], cache_mb=cache_mb), [term]), term


WORD_ROWS = np.random.default_rng(0).poisson(1.0, (60, 12)).astype(float)
WORD_LABELS = (WORD_ROWS[:, 0] > WORD_ROWS[:, 1]).astype(int)
