"""What users of Dask pass: messages at once, that name the argument."""

from concurrent.futures import CancelledError

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import pandas as pd
from dask import delayed

from structinv.dask import (
    DaskInvariantLinearSVC,
)
from structinv.oracles import Box

from .cases import LABELS, ROWS, X, Y


@pytest.mark.parametrize("method", ["predict", "decision_function", "worst_case", "certify"])
def test_a_known_number_of_features_is_checked_at_once(model, method):
    width = 2
    many, rows = (da.zeros((40, d), chunks=(20, d)) for d in (4, width))
    with pytest.raises(ValueError, match="X must have 3 features, as in fit, got 4"):
        getattr(model, method)(many)
    for wrong in (rows, dd.from_dask_array(rows)):
        with pytest.raises(ValueError, match=f"X must have 3 features, as in fit, got {width}"):
            getattr(model, method)(wrong)
    with pytest.raises(ValueError, match="X must have two dimensions, got shape"):
        getattr(model, method)(rows[:, 0])
    with pytest.raises(ValueError, match=f"X must have 3 features, as in fit, got {width}"):
        model.score(rows, LABELS)


def test_a_certificate_of_no_rows(model):
    with pytest.raises(ValueError, match="X must have rows, got 2 empty partitions"):
        model.certify([delayed(X[:0])] * 2)


def test_labels_of_tables_are_aligned_with_the_columns_and_classes(client):
    frame, labels = pd.DataFrame(X, columns=list("cab")), pd.Series(np.where(Y, "spam", "ham"))
    rows, labels = (dd.from_pandas(each, npartitions=2) for each in (frame, labels))
    radius = pd.Series([0.1, 0.3, 0.2], index=list("abc"))
    cost = pd.DataFrame([[0.0, 1.0], [4.0, 0.0]], index=["spam", "ham"], columns=["spam", "ham"])
    settings = {"client": client, "C": 0.1, "random_state": 0}
    found = DaskInvariantLinearSVC(Box(radius), cost=cost, **settings).fit(rows, labels)
    wanted = DaskInvariantLinearSVC(Box([0.2, 0.1, 0.3]), cost=[[0, 4], [1, 0]], **settings)
    np.testing.assert_array_equal(found.coef_, wanted.fit(rows, labels).coef_)
    margins = [
        found.certify(rows, labels, oracle=oracle).margins
        for oracle in (Box(radius), Box([0.2, 0.1, 0.3]))
    ]
    np.testing.assert_array_equal(*margins)
    for wrong in (
        DaskInvariantLinearSVC(Box(radius.rename({"c": "d"})), **settings),
        DaskInvariantLinearSVC(cost=cost.rename({"ham": "eggs"}), **settings),
    ):
        with pytest.raises(ValueError, match=r"labels of (radius|cost) must contain each .* once: '"):
            wrong.fit(rows, labels)


def test_objects_similar_to_collections_are_refused(model):
    for ask in (model.fit, lambda rows, labels: model.predict(rows), model.score):
        with pytest.raises(TypeError, match=r"got a single one: pass \[X\]"):
            ask(delayed(X), delayed(Y))
        for kind in (np.asarray, sp.csr_matrix, pd.DataFrame):
            with pytest.raises(TypeError, match="got a list of .*: wrap each block in dask.delayed"):
                ask([kind(X), kind(X)], [Y, Y])
        with pytest.raises(TypeError, match="got a list with a Array in it: concatenate"):
            ask([ROWS, ROWS], [LABELS, LABELS])
        with pytest.raises(TypeError, match="got a list with a Delayed"):
            ask([delayed(X), X], [Y, Y])
        with pytest.raises(TypeError, match="X must be a Dask array or DataFrame"):
            ask(dask.bag.from_sequence([1]), None)


def test_scattered_data_that_are_lost(client, model):
    for ask in (model.fit, model.score):
        futures = client.scatter([X, Y], hash=False)
        client.cancel(futures)
        with pytest.raises(CancelledError) as caught:
            ask(futures[:1], futures[1:])
        assert "scattered data are lost with their worker" in caught.value.__notes__[0]
