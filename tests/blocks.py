"""Rows that are read in about ten blocks."""

from __future__ import annotations

import numpy as np

from structinv.datasets import make_mail_like
from structinv.estimators.inputs import block_sizes
from structinv.oracles import Box, Ellipsoid, FDrop, FScale, Identity
from structinv.rows.sources import MatrixRows
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase
from structinv.terms.blockwise_term import BlockSizes, BlockwiseTerm

SMALL = 1500


def use_small_blocks(monkeypatch):
    """Use about ten blocks of a few dozen rows each."""
    monkeypatch.setattr(block_sizes, "__defaults__", (BlockSizes(values=SMALL),))
    monkeypatch.setattr(BlockSizes, "values", SMALL)


def mail(n_rows=200, n_features=300, seed=0):
    X, y = make_mail_like(n_rows, n_features, random_state=seed)
    X = X.astype(np.float64)
    X.data = np.log1p(X.data)
    return X, np.where(y == "spam", 1, -1)


def dense(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 20))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n_rows) > 0, 1, -1)
    return X, y


def objective(X, y, oracle, C=0.1, most=SMALL):
    classes, weights = np.array([-1, 1]), np.broadcast_to(C, len(y))

    def part(rows, some):
        return WorstCase(rows, y[some], oracle, Binary(), weights[some], classes)

    term = BlockwiseTerm(MatrixRows(X), part, Binary().bind(y, classes), weights, BlockSizes(most))
    return Objective(ExplicitSpace(X.shape[1], 1, intercept=True), [term])


CASES = {
    "plain": (mail, Identity()),
    "dropped": (mail, FDrop(3)),
    "scaled": (mail, FScale(3, low=0.5, high=1.5)),
    "some_labels": (mail, FDrop(3).only_for(1)),
    "either": (mail, FDrop(1) | FScale(2, low=0.5, high=1.0)),
    "plain_dense": (dense, Identity()),
    "box": (dense, Box(0.1)),
    "ellipsoid": (dense, Ellipsoid(0.1 * np.eye(20), 1.0)),
}
