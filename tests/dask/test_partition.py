"""Partitions: what is invalid in one of them is refused, and the partition named."""

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pandas as pd
from dask import delayed

import structinv
from structinv.dask import (
    DaskInvariantLinearSVC,
)

from .cases import LABELS, X, Y, blocks_of, delayed_labels, mails, raises


def test_refusals_name_the_partition(client):
    X, y = mails()
    rows, labels = da.from_array(X.toarray(), chunks=(100, -1)), da.from_array(y, chunks=100)
    raises(
        client,
        "y must have as many partitions as X, which has 4, got 2",
        rows,
        delayed_labels(y, [200, 200]),
    )
    few = [delayed((X[:200], y[:200])), delayed((X[200:, :50].toarray(), y[200:]))]
    raises(client, "partition 0 has 100, partition 1 has 50", few)
    hole = X.toarray().astype(float)
    hole[250, 3] = np.nan
    raises(client, "partition 2: Input X contains NaN", da.from_array(hole, chunks=(100, -1)), labels)
    short = [delayed((X[:200], y[:200])), delayed((X[200:], y[201:]))]
    raises(client, "partition 1: y must have shape \\(200,\\), one label per row", short)
    raises(client, "at least two classes, got one class: 'ham'", [delayed((X, np.full(400, "ham")))])
    mixed = [delayed((X[:200], y[:200])), delayed((X[200:], np.arange(200) % 2))]
    raises(client, "labels of one kind, got numbers and strings", mixed, error=TypeError)
    raises(client, "X must have rows, got 1 empty partitions", blocks_of(X[:0], y[:0], [0]))
    weights = delayed_labels(np.full(400, -1.0), [100] * 4)
    raises(
        client, "partition 0: Negative values in data passed to `sample_weight`", rows, labels, weights
    )
    raises(client, "y must not be None", rows)
    raises(
        client, "solver must be 'auto', 'bundle'", rows, labels, solver=structinv.solvers.FrankWolfe()
    )
    raises(client, "solver must be one of", rows, labels, solver="pegasos")


# In the second partition.
WITH_NAN = da.from_array(np.where(np.arange(40)[:, None] == 30, np.nan, X), chunks=(20, 3))


def test_nan_is_found_in_its_partition(model):
    for ask in (
        lambda: model.predict(WITH_NAN).compute(),
        lambda: model.score(WITH_NAN, LABELS),
        lambda: model.certify(WITH_NAN, LABELS).accuracy,
    ):
        with pytest.raises(ValueError, match=r"^partition 1: Input X contains NaN\.$"):
            ask()


def test_strings_are_refused_in_their_partition(model):
    words = da.from_array(np.where(np.arange(40)[:, None] == 30, "a", X.astype(object)), chunks=(20, 3))
    for ask in (
        lambda: model.fit(words, LABELS),
        lambda: model.predict(words).compute(),
        lambda: model.score(words, LABELS),
    ):
        with pytest.raises(ValueError, match=r"^partition 1: X must contain numbers, .*vectorizer"):
            ask()


def test_rows_and_labels_of_other_indices(client, model):
    right = pd.DataFrame(X, columns=list("abc")), pd.Series(Y)
    rows, labels = (dd.from_pandas(each, npartitions=2) for each in right)
    model = DaskInvariantLinearSVC(client=client, random_state=0).fit(rows, labels)
    turned = right[1][::-1]
    weights = pd.Series(np.ones(40), index=right[0].index + 1)
    parts = [delayed(right[0][:20]), delayed(right[0][20:])]
    others = [delayed(right[1][:20]), delayed(turned[:20])]
    message = "partition 1: y must have the same index as X, because both are joined by position"
    for ask in (
        lambda: model.fit(parts, others),
        lambda: model.fit([delayed(right), delayed((right[0], turned))]),
        lambda: model.score(parts, others),
        lambda: model.certify(parts, others).accuracy,
        lambda: model.worst_case(parts, others).compute(),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
    weights = [delayed(weights[:20]), delayed(weights[20:])]
    for same in ([delayed(Y[:20])] * 2, [delayed(right[1][:20]), delayed(right[1][20:])]):
        with pytest.raises(ValueError, match="partition 0: sample_weight must have the same index as X"):
            model.fit(parts, same, weights)
    # Arrays have an order, and no index.
    model.fit(parts, [delayed(Y[:20]), delayed(Y[:20])])


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_masked_arrays_are_refused_in_their_partition(client, name):
    parts = {"X": X, "y": Y, "sample_weight": np.ones(40)}
    given = {each: [delayed(values[:20]), delayed(values[20:])] for each, values in parts.items()}
    given[name][1] = delayed(
        np.ma.MaskedArray(parts[name][20:], mask=parts[name][20:] == parts[name][20])
    )
    with pytest.raises(TypeError, match=f"partition 1: {name} must be an array without a mask"):
        DaskInvariantLinearSVC(client=client).fit(*given.values())


def test_pairs_are_for_fit_only(model):
    pairs = [delayed((X[:20], Y[:20])), delayed((X[20:], Y[20:]))]
    with pytest.raises(
        TypeError, match=r"partition \d: X must contain samples without labels, got a tuple"
    ):
        model.predict(pairs).compute()
    with pytest.raises(TypeError, match="got a tuple of 2: only fit accepts pairs"):
        model.score(pairs, [delayed(Y[:20])] * 2)
