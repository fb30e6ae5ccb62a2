"""Kernels and what they ought to be, combinations of kernels, and rows for them."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern as TheirMatern
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from structinv.kernels import (
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    SetKernel,
    TangentDistributionKernel,
    TangentOverlapKernel,
    TangentVectorKernel,
    VicinalKernel,
)
from structinv.oracles import Segment, TangentDerivative


def tangents(X):
    """Five a row: one depends on another, and one is zero where the first feature is below 0."""
    first, second = np.cos(X), X[:, ::-1].copy()
    some = X * np.where(X[:, :1] < 0, 0.0, 1.0)
    return np.stack([first, 3.0 * second, -2.0 * first, some, first + second], axis=1)


ORACLE = TangentDerivative(tangents, 1.0)


def directions(x):
    """The tangents of a row that are not zero."""
    found = tangents(x[None])[0]
    return found[np.any(found != 0, axis=1)]


def by_pairs(value):
    """The table of a function of two rows."""
    return lambda X, Y: np.array([[value(x, y) for y in Y] for x in X]).reshape(len(X), len(Y))


def parts(D, line):
    """Squares of the parts of D along and across a line."""
    along = (D @ line) ** 2 / (line @ line)
    return along, D @ D - along


def tangent_vector(x, y, sigma, gamma_w, eta):
    """The mean of both one-sided densities."""
    D, sides = x - y, []
    for side in (x, y):
        lines = directions(side)
        total = sum(np.exp(-parts(D, line)[1] / (2 * gamma_w**2)) for line in lines)
        plain = np.exp(-D @ D / (2 * sigma**2))
        sides.append(plain * (1 + eta * total) / (1 + eta * len(lines)))
    return (sides[0] + sides[1]) / 2


def tangent_overlap(x, y, s, g, eta):
    """Both sides' overlaps of terms, each side divided by what it is at no distance."""
    D, sides = x - y, []
    for side in (x, y):
        total = 0.0
        for line in directions(side):
            along, across = parts(D, line)
            rate = (s**2 + g**2) / (2 * s**2 * (2 * g**2 + s**2))
            total += np.exp(-along / (4 * s**2) - across * rate)
        plain = np.exp(-D @ D / (4 * s**2))
        sides.append((plain + 2 * eta * total) / (1 + 2 * eta * len(directions(side))))
    return (sides[0] + sides[1]) / 2


def precision_of(x, sigma, gamma_w):
    """The precision of the law around a row."""
    lines = directions(x)
    found = (1 / sigma**2 + len(lines) / gamma_w**2) * np.eye(len(x))
    for line in lines:
        found -= np.outer(line, line) / (gamma_w**2 * (line @ line))
    return found


def tangent_distribution(x, y, sigma, gamma_w, rho):
    """K_B as it is written, with determinants and inverses."""
    P, Q = precision_of(x, sigma, gamma_w), precision_of(y, sigma, gamma_w)
    L, M = np.linalg.inv(P), np.linalg.inv(Q)
    D, det = x - y, np.linalg.det
    level = (2 * np.pi) ** ((1 - 2 * rho) * len(x) / 2) * det(rho * (P + Q)) ** -0.5
    level *= (det(L) * det(M)) ** (-rho / 2)
    return level * np.exp(-rho / 2 * D @ np.linalg.solve(L + M, D))


def normalized_distribution(x, y, *parameters):
    """K_B divided by what both rows have with themselves."""
    own = tangent_distribution(x, x, *parameters) * tangent_distribution(y, y, *parameters)
    return tangent_distribution(x, y, *parameters) / np.sqrt(own)


def spread_of(x, spread, noise):
    """The covariance of a vicinal law."""
    steps = tangents(x[None])[0] * np.broadcast_to(spread, 5)[:, None]
    return noise**2 * np.eye(len(x)) + steps.T @ steps


def vicinal(x, y, sigma, spread, noise, sides=2):
    """The average of the Gaussian kernel over both laws, or that of the second row."""
    C, D = sigma**2 * np.eye(len(x)) + spread_of(y, spread, noise), x - y
    if sides == 2:
        C = C + spread_of(x, spread, noise)
    return np.linalg.det(C / sigma**2) ** -0.5 * np.exp(-0.5 * D @ np.linalg.solve(C, D))


SPREAD = (0.3, 0.0, 0.1, 0.2, 0.15)

# Kernels and what they ought to be.
TANGENT_CASES = [
    (
        TangentVectorKernel(ORACLE, 2.0, 1.5, 0.7),
        by_pairs(lambda x, y: tangent_vector(x, y, 2.0, 1.5, 0.7)),
    ),
    (TangentVectorKernel(ORACLE, eta=0.0), by_pairs(lambda x, y: tangent_vector(x, y, 1.0, 1.0, 0.0))),
    (
        TangentOverlapKernel(ORACLE, 1.5, 1.0, 0.7),
        by_pairs(lambda x, y: tangent_overlap(x, y, 1.5, 1.0, 0.7)),
    ),
    (
        TangentDistributionKernel(ORACLE, 2.0, 1.5),
        by_pairs(lambda x, y: tangent_distribution(x, y, 2.0, 1.5, 0.5)),
    ),
    (
        TangentDistributionKernel(ORACLE, 2.0, 3.0, 1.0),
        by_pairs(lambda x, y: normalized_distribution(x, y, 2.0, 3.0, 1.0)),
    ),
    (VicinalKernel(ORACLE, 1.5, SPREAD, 0.4), by_pairs(lambda x, y: vicinal(x, y, 1.5, SPREAD, 0.4))),
    (VicinalKernel(ORACLE, 1.5, 0.5), by_pairs(lambda x, y: vicinal(x, y, 1.5, 0.5, 0.0))),
    (VicinalKernel(None, 2.0, noise=0.7), by_pairs(lambda x, y: vicinal(x, y, 2.0, 0.0, 0.7))),
]
CASES = [
    (Gaussian(), lambda X, Y: rbf_kernel(X, Y, gamma=0.5)),
    (Gaussian(3.0), lambda X, Y: rbf_kernel(X, Y, gamma=1 / 18)),
    (Polynomial(), lambda X, Y: polynomial_kernel(X, Y, degree=3, gamma=1.0, coef0=1.0)),
    (Polynomial(1, 0.0, 2.0), lambda X, Y: polynomial_kernel(X, Y, degree=1, gamma=2.0, coef0=0.0)),
    (Polynomial(2, 0.5, 0.1), lambda X, Y: polynomial_kernel(X, Y, degree=2, gamma=0.1, coef0=0.5)),
    (Polynomial(9, 1.0, 0.1), lambda X, Y: polynomial_kernel(X, Y, degree=9, gamma=0.1, coef0=1.0)),
    (Linear(), lambda X, Y: X @ Y.T),
    (Laplacian(), lambda X, Y: laplacian_kernel(X, Y, gamma=1.0)),
    (Laplacian(0.2), lambda X, Y: laplacian_kernel(X, Y, gamma=0.2)),
    (Matern(), lambda X, Y: TheirMatern(1.0, nu=1.5)(X, Y)),
    (Matern(2.0, nu=0.5), lambda X, Y: TheirMatern(2.0, nu=0.5)(X, Y)),
    (Matern(2.0, nu=2.5), lambda X, Y: TheirMatern(2.0, nu=2.5)(X, Y)),
    (Matern(2.0, nu=np.inf), lambda X, Y: TheirMatern(2.0, nu=np.inf)(X, Y)),
]
# Those of rows with tangents, too, which have no derivatives and no Lipschitz constant.
EVERY_CASE = [*CASES, *TANGENT_CASES]


def rows(n, d=5, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


COMBINATIONS = [
    Gaussian(0.8) + Linear(),
    Gaussian(1.5) * Polynomial(3, 0.5, 0.3),
    Matern(1.5, 2.5) * Gaussian(2.0),
    Matern(1.2, 1.5) * Linear(),
    Matern(1.2, 1.5) + Polynomial(2, 1.0, 0.5),
    Matern(1.2, 1.5) * (2.0 * Matern(2.0, 2.5)),
    0.5 * Gaussian() + Gaussian(2.0) * 3.0,
    (Gaussian() + Linear()) * Polynomial(2, 0.3, 0.6),
    0.0 * Gaussian() + Linear(),
    2 * Matern(2.0, 2.5),
]
FEW = np.random.default_rng(0).standard_normal((6, 2))


class Keeping(Kernel):
    """A Gaussian kernel that returns the same arrays, in the same dictionary, in every call."""

    smoothness = 1.0
    uses_distances = True

    def __init__(self):
        self.gram = Gaussian().matrix(FEW, FEW)
        self.table = Gaussian().partials(self.distances(), None, 1)

    @staticmethod
    def distances():
        return np.sum((FEW[:, None] - FEW[None]) ** 2, axis=2)

    def matrix(self, X, Y, norms=None):
        return self.gram

    def diagonal(self, X):
        return np.diagonal(self.gram)

    def partials(self, distances, products, order):
        return self.table


SIX_ROWS = rows(6, 4)
warnings_are_errors = pytest.mark.filterwarnings("error")
ROWS = np.random.default_rng(0).normal(size=(24, 5))
RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((40, 2))
CLASSES = (np.abs(POINTS[:, 0]) > np.abs(POINTS[:, 1])).astype(int)
NEW = RNG.standard_normal((25, 2))
WIDE = SetKernel(Segment(0.1, 10.0), Gaussian(0.5))
