"""What users of Dask get wrong: messages at once, that name the argument and the partition."""

from concurrent.futures import CancelledError

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

pytest.importorskip("distributed")

import dask.array as da
import dask.bag
import dask.dataframe as dd
import pandas as pd
from dask import delayed
from distributed import Client

import structinv
from structinv.dask import (
    DaskInvariantLinearSVC,
    DaskInvariantLinearSVR,
    DaskInvariantStructuredSVC,
)
from structinv.oracles import Box, Identity
from structinv.structures import Multilabel, Sequence

from ..covering import each_once

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), np.arange(40) % 2
ROWS, LABELS = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=20)
# In the second partition.
WITH_NAN = da.from_array(np.where(np.arange(40)[:, None] == 30, np.nan, X), chunks=(20, 3))


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with Client(processes=False, set_as_default=False, **options) as client:
        yield client


@pytest.fixture(scope="module")
def model(client):
    return DaskInvariantLinearSVC(Box(0.1), client=client, random_state=0).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: DaskInvariantLinearSVC().predict(ROWS),
        lambda: DaskInvariantLinearSVC().decision_function(ROWS),
        lambda: DaskInvariantLinearSVC().score(ROWS, LABELS),
        lambda: DaskInvariantLinearSVC().to_local(),
        lambda: DaskInvariantLinearSVR().certify(ROWS),
        lambda: DaskInvariantLinearSVR().worst_case(ROWS),
        lambda: DaskInvariantStructuredSVC(Sequence()).predict(dask.bag.from_sequence([[]])),
        lambda: DaskInvariantStructuredSVC(Multilabel()).score(ROWS, LABELS),
    ],
)
def test_before_fit(ask):
    with pytest.raises(NotFittedError, match="This Dask[A-Za-z]* instance is not fitted yet"):
        ask()


@pytest.mark.parametrize("method", ["predict", "decision_function", "worst_case", "certify"])
@pytest.mark.parametrize("width", [2, 4])
def test_a_known_number_of_features_is_checked_at_once(model, method, width):
    rows = da.zeros((40, width), chunks=(20, width))
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


def test_models_in_files_are_local_ones(model, tmp_path):
    for each in (model, make_pipeline(model)):
        with pytest.raises(TypeError, match=r"save the result of its method to_local\(\)"):
            structinv.save(each, tmp_path / "model")


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
    with pytest.raises(ValueError, match="partition 0: sample_weight must have the same index as X"):
        model.fit(parts, [delayed(Y[:20])] * 2, [delayed(weights[:20]), delayed(weights[20:])])
    # Arrays have an order, and no index.
    model.fit(parts, [delayed(Y[:20]), delayed(Y[:20])])


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


def test_an_address_is_no_client():
    for ask in ("fit", "score"):
        model = DaskInvariantLinearSVC(random_state=0).fit(X, Y)
        model.client = "tcp://10.0.0.1:8786"
        with pytest.raises(TypeError, match=r"client must be a distributed.Client, got 'tcp://10"):
            getattr(model, ask)(ROWS, LABELS)


@pytest.mark.parametrize(
    ("form", "kind"),
    each_once(["array", "sparse", "frame", "list"], [np.float32, np.float64, np.int64]),
)
def test_perturbed_rows_have_the_announced_dtype(client, kind, form):
    model = DaskInvariantLinearSVC(Identity(), client=client, random_state=0).fit(ROWS, LABELS)
    rows = (ROWS * 10).astype(kind)
    given = {
        "array": rows,
        "sparse": rows.map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 3), dtype=kind)),
        "frame": dd.from_dask_array(rows),
        "list": list(rows.to_delayed().ravel()),
    }[form]
    if form == "frame":
        model.fit(given, dd.from_dask_array(LABELS))
    changed = model.worst_case(given)
    assert changed.dtype == changed.compute().dtype
    if form != "list":
        assert changed.dtype == (np.float32 if kind == np.float32 else np.float64)


def test_labels_that_the_model_does_not_know(model):
    local = model.to_local()
    assert model.score(ROWS, LABELS + 5) == local.score(X, Y + 5) == 0.0
    words = np.array(["ham", "spam"])[Y]

    def outcome(score):
        # Older versions of scikit-learn compare strings with numbers.
        try:
            return score()
        except ValueError as error:
            return "Mix of label input types" in str(error)

    found = outcome(lambda: model.score(ROWS, da.from_array(words, chunks=20)))
    assert found == outcome(lambda: local.score(X, words))
    assert found is True or found == 0.0


def test_a_search_of_arrays_fits_on_the_cluster(model, monkeypatch):
    kinds, fit = [], type(model)._fit_partitions

    def noted(self, X, *others, **weights):
        kinds.append(type(X))
        return fit(self, X, *others, **weights)

    monkeypatch.setattr(type(model), "_fit_partitions", noted)
    with model.client.as_current():
        cross_val_score(model, ROWS, LABELS, cv=2)
    assert kinds == [da.Array] * 2


def test_scattered_data_that_are_lost(client, model):
    for ask in (model.fit, model.score):
        futures = client.scatter([X, Y], hash=False)
        client.cancel(futures)
        with pytest.raises(CancelledError) as caught:
            ask(futures[:1], futures[1:])
        assert "scattered data are lost with their worker" in caught.value.__notes__[0]
