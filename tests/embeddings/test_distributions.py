"""Fractions of responses below thresholds."""

import numpy as np

from structinv.embeddings import GroupCDF
from structinv.oracles import Weighted
from structinv.oracles.listed_changes import averaged

from ..oracles.cases import ORDERS, D, Reorderings, Shrinkings
from .cases import rows


def test_distribution_features_are_fractions_below_thresholds():
    X, oracle = rows(30), Reorderings(ORDERS)
    features = GroupCDF(oracle, 14, n_bins=4).fit(X)
    assert features.thresholds_.shape == (4, 4)
    F, law = features.transform(X), averaged(oracle, D)
    answers = law.on(X).members() @ features.templates_.T
    below = answers[:, :, :, None] <= features.thresholds_
    expected = np.einsum("k,nkpb->npb", law.weights, below).reshape(30, -1)[:, :14]
    np.testing.assert_allclose(F, expected, atol=1e-12)
    shares = np.mean(F[:, :12].reshape(30, 3, 4), axis=0)
    np.testing.assert_allclose(shares, np.tile([0.2, 0.4, 0.6, 0.8], (3, 1)), atol=0.05)


def test_thresholds_are_quantiles_by_weight():
    X = rows(300)
    features = GroupCDF(Weighted(Shrinkings(), [8.0, 1.0, 1.0]), 12, n_bins=4).fit(X)
    shares = features.transform(X).mean(axis=0).reshape(3, 4)
    np.testing.assert_allclose(shares, np.tile([0.2, 0.4, 0.6, 0.8], (3, 1)), atol=0.01)


def test_distribution_features_are_invariant_for_groups():
    orders = [np.roll(np.arange(D), k) for k in range(D)]
    X = rows(20)
    features = GroupCDF(Reorderings(orders), 60, n_bins=6).fit(X)
    np.testing.assert_allclose(
        features.transform(np.roll(X, 2, axis=1)), features.transform(X), atol=1e-9
    )
