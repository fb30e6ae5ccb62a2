"""Short cuts of the benchmark on few labels agree with the library and with direct computation."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import helmert

from structinv.functionals import Folded, Gradient, GraphLaplacian, LocalAverage, Tangents
from structinv.kernels import Gaussian
from structinv.oracles import LocalTangents

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
COLUMNS = np.array([3, 0, 17, 8, 21, 5, 11, 2])


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("folded_tables")


@pytest.fixture
def machines(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("few_labels")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.standard_normal(24) > 0, 1, -1)


@pytest.mark.parametrize("family", ["gradient", "tangents", "average", "graph"])
def test_tables_are_folded_kernels(tables, rows, family):
    X, _ = rows
    width = tables.Width(X, 1.5, 1.0, COLUMNS)
    flat = tables.Flat(X, 1.5, None)
    flat.add(COLUMNS)
    made, functional = {
        "gradient": (width.gradients(flat), Gradient()),
        "tangents": (width.tangents(), Tangents(LocalTangents(X))),
        "average": (width.averages(), LocalAverage(0.75 / np.sqrt(3))),
        "graph": (width.graph(), GraphLaplacian(tables.NEIGHBORS[0])),
    }[family]
    for one in list(made)[:4]:
        folded = Folded(Gaussian(1.5), [functional.bind(X)], one.nu)
        np.testing.assert_allclose(one.values, folded.matrix(X, X[COLUMNS]), atol=1e-6)


def test_squares_are_solved_and_judged(machines, rows):
    X, y = rows
    kernel = Gaussian(1.5).matrix(X, X)
    fitted = machines.Squares(kernel, y)
    scores = kernel @ fitted.coefficients + fitted.constants
    np.testing.assert_allclose(fitted.coefficients * fitted.shifts, y[:, None] - scores, atol=1e-10)
    np.testing.assert_allclose(fitted.coefficients.sum(axis=0), 0, atol=1e-10)

    squares = np.zeros(len(fitted.shifts))
    for out in range(len(y)):
        kept = np.delete(np.arange(len(y)), out)
        less = machines.Squares(kernel[np.ix_(kept, kept)], y[kept])
        squares += (y[out] - kernel[out, kept] @ less.coefficients - less.constants) ** 2
    np.testing.assert_allclose(fitted.left_out(), squares / len(y))

    contrasts = helmert(len(y))
    seen = contrasts @ y
    for shift, evidence in zip(fitted.shifts, fitted.evidence(), strict=True):
        matrix = contrasts @ (kernel + shift * np.eye(len(y))) @ contrasts.T
        profiled = len(seen) * np.log(seen @ np.linalg.solve(matrix, seen))
        assert evidence == pytest.approx(profiled + np.linalg.slogdet(matrix)[1])


def test_machines_without_a_bound_serve_larger_constants(machines, rows):
    X, y = rows
    kernel = Gaussian(0.3).matrix(X, X)
    scores = machines.hinge(kernel, y, kernel)
    for place, C in enumerate(machines.CS):
        svc = machines.SVC(kernel="precomputed", C=C, tol=1e-4).fit(kernel, y)
        np.testing.assert_allclose(scores[:, place], svc.decision_function(kernel), atol=1e-3)
