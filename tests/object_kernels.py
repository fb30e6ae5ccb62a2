"""Kernels of rows with tangents beside their formulas, on dense matrices, pair by pair."""

from __future__ import annotations

import numpy as np

from structinv.kernels import (
    TangentDistributionKernel,
    TangentOverlapKernel,
    TangentVectorKernel,
    VicinalKernel,
)
from structinv.oracles import TangentDerivative


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
CASES = [
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
