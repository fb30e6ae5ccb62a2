"""Linear models on partitions of rows: the problem of all rows together, and lazy answers."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pandas as pd
from dask import delayed

from structinv import InvariantLinearSVC, InvariantLinearSVR
from structinv.dask import DaskInvariantLinearSVC, DaskInvariantLinearSVR
from structinv.dask import cluster as cluster_of_fits
from structinv.oracles import Box, FAdd, FDrop

from ..covering import each_once
from ..problems import check_bounds
from .cases import D, blocks_of, check_released, delayed_labels, mails, model_on, optimum, sparse_array


@pytest.mark.parametrize(
    ("solver", "oracle"),
    each_once(["bundle", "bmrm"], [None, FDrop(3), FAdd(2), Box(0.05)]),
    ids=str,
)
def test_bounds_hold_the_optimum_of_all_rows_together(client, oracle, solver):
    X, y = mails()
    X = X.toarray()
    optimum = InvariantLinearSVC(oracle, C=1e-3, tol=1e-5, random_state=0).fit(X, y)
    rows, labels = da.from_array(X, chunks=((150, 250), 40)), da.from_array(y, chunks=((150, 250),))
    found = model_on(client, oracle, solver=solver).fit(rows, labels)
    check_bounds(found, optimum)
    check_released(client)


@pytest.mark.parametrize("parameters", [{"loss": "logistic"}, {"loss": "squared_hinge"}])
def test_smooth_losses(client, parameters):
    X, y = mails()
    optimum = InvariantLinearSVC(C=1e-3, tol=1e-5, random_state=0, **parameters).fit(X, y)
    found = model_on(client, **parameters).fit(blocks_of(X, y, [150, 250]))
    check_bounds(found, optimum)


def test_more_classes_weights_and_costs(client):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(240, 5)), rng.integers(3, size=240)
    X[np.arange(240), y] += 2.0
    weights = rng.uniform(size=240)
    cost = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    parameters = {"C": 0.05, "class_weight": "balanced", "cost": cost, "random_state": 0}
    optimum = InvariantLinearSVC(Box(0.1), tol=1e-5, **parameters).fit(X, y, weights)
    given = (da.from_array(each, chunks=80) for each in (y, weights))
    found = model_on(client, Box(0.1), **parameters).fit(da.from_array(X, chunks=80), *given)
    check_bounds(found, optimum)


def test_regression(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = X @ rng.normal(size=5) + 3.0 + 0.1 * rng.normal(size=300)
    weights = rng.uniform(size=300)
    optimum = InvariantLinearSVR(Box(0.02), C=0.01, tol=1e-5, random_state=0).fit(X, y, weights)
    given = [da.from_array(each, chunks=100) for each in (X, y, weights)]
    found = DaskInvariantLinearSVR(Box(0.02), C=0.01, tol=1e-2, client=client, random_state=0)
    found.fit(*given)
    check_bounds(found, optimum)
    assert found.target_mean_ == pytest.approx(optimum.target_mean_)
    assert found.score(*given) == pytest.approx(found.to_local().score(X, y, weights))
    # The mean of other targets is not that of the training.
    other = found.to_local().score(X, y + 2.0, weights)
    assert found.score(given[0], given[1] + 2.0, given[2]) == pytest.approx(other)
    bounds, local = found.certify(given[0]), found.to_local().certify(X)
    np.testing.assert_array_equal(bounds.lowest, local.lowest)
    np.testing.assert_array_equal(bounds.width, local.width)


@pytest.fixture(scope="module")
def fitted(client):
    X, y = mails()
    return model_on(client, FDrop(3)).fit(
        sparse_array(X, [100, 0, 300]), delayed_labels(y, [100, 0, 300])
    )


@pytest.mark.parametrize("chunks", [pytest.param(100, marks=pytest.mark.slow), (50, 350)])
def test_answers_are_those_of_the_local_estimator(client, fitted, chunks):
    X, y = mails()
    X, local = X.toarray(), fitted.to_local()
    assert type(local) is InvariantLinearSVC
    rows = da.from_array(X, chunks=(chunks, -1))
    labels = da.from_array(y, chunks=(chunks,))
    with client.as_current():
        np.testing.assert_array_equal(fitted.predict(rows).compute(), local.predict(X))
        scores = fitted.decision_function(rows)
        assert isinstance(scores, da.Array)
        assert scores.shape == (400,)
        np.testing.assert_allclose(scores.compute(), local.decision_function(X))
        np.testing.assert_array_equal(fitted.worst_case(rows, labels).compute(), local.worst_case(X, y))
        certificate, whole = fitted.certify(rows, labels), local.certify(X, y)
        np.testing.assert_allclose(certificate.margins, whole.margins)
        assert certificate.accuracy == whole.accuracy
        assert certificate.attacked_accuracy == whole.attacked_accuracy
        unlabeled = fitted.certify(rows).correct
    np.testing.assert_array_equal(unlabeled, local.certify(X).correct)
    assert fitted.score(rows, labels) == local.score(X, y)


def test_answers_about_sparse_blocks_of_unknown_and_no_size(client, fitted):
    X, y = mails()
    rows = sparse_array(X, [0, 150, 250])
    with client.as_current():
        np.testing.assert_array_equal(fitted.predict(rows).compute(), fitted.predict(X))
        worst = fitted.worst_case(rows).compute()
        accuracy = fitted.certify(rows, delayed_labels(y, [0, 150, 250])).accuracy
    assert sp.issparse(worst)
    assert abs(worst - fitted.worst_case(X)).max() == 0
    assert accuracy == fitted.certify(X, y).accuracy


def test_rows_in_memory_need_no_client():
    X, y = mails()
    found = DaskInvariantLinearSVC(FDrop(3), C=1e-3, random_state=0).fit(X, y)
    local = InvariantLinearSVC(FDrop(3), C=1e-3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(found.coef_, local.coef_)


def test_a_search_fits_rows_in_memory():
    X, y = mails()
    search = GridSearchCV(DaskInvariantLinearSVC(random_state=0), {"C": [1e-4, 1e-3]}, cv=2).fit(X, y)
    assert search.score(X, y) > 0.9


def test_a_warm_start_goes_on_from_the_weights(client):
    X, y = mails()
    model = model_on(client, FDrop(3), warm_start=True, tol=0.1)
    blocks = blocks_of(X, y, [150, 250])
    first = model.fit(blocks).solution_
    again = model.set_params(tol=1e-2).fit(blocks).solution_
    assert again.history[0].primal <= first.primal * (1 + 1e-9)
    assert again.relative_gap <= 1e-2
    other = model.set_params(C=1e-4).fit(blocks)
    check_bounds(other, InvariantLinearSVC(FDrop(3), C=1e-4, tol=1e-5, random_state=0).fit(X, y))


def test_the_same_seed_and_partitions_give_the_same_bits(monkeypatch, client):
    X, y = mails()
    cuts = [100, 120, 180]
    first = model_on(client, FDrop(3)).fit(blocks_of(X, y, cuts))
    # Whatever way the functions go.
    monkeypatch.setattr(cluster_of_fits, "BYTES_OF_A_TASK", 0)
    second = model_on(client, FDrop(3)).fit(blocks_of(X, y, cuts))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.solution_.dual == second.solution_.dual


@pytest.mark.parametrize(
    "cuts", [pytest.param([400, 0], marks=pytest.mark.slow), [1, 399], [0, 0, 200, 200]]
)
def test_the_cut_does_not_change_the_optimum(client, cuts):
    X, y = mails()
    check_bounds(model_on(client).fit(blocks_of(X, y, cuts)), optimum())


@pytest.mark.parametrize("oracle", [pytest.param(None, marks=pytest.mark.slow), FDrop(3)], ids=str)
def test_sparse_partitions_may_lack_features_at_the_end(client, oracle):
    X, y = mails()
    X = sp.csr_matrix(X.toarray() * ((np.arange(400) >= 150)[:, None] | (np.arange(D) < 80)))
    optimum = InvariantLinearSVC(oracle, C=1e-3, tol=1e-5, random_state=0).fit(X, y)
    narrow = [delayed(X[:150, :80]), delayed(X[150:])]
    labels = delayed_labels(y, [150, 250])
    found = model_on(client, oracle).fit(narrow, labels)
    check_bounds(found, optimum)
    with client.as_current():
        np.testing.assert_array_equal(found.predict(narrow).compute(), found.predict(X))
        assert found.certify(narrow, labels).accuracy == found.certify(X, y).accuracy
    assert found.score(narrow, labels) == found.score(X, y)


def test_partitions_of_a_single_class(client):
    X, y = mails()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    first = int(np.sum(y == y[0]))
    found = model_on(client).fit(blocks_of(X, y, [first, 400 - first]))
    check_bounds(found, optimum())
    assert found.classes_.tolist() == ["ham", "spam"]


@pytest.mark.parametrize("regression", [False, True])
def test_a_partition_may_have_weights_of_zero_only(client, regression):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 5))
    y = X[:, 0] + (0.0 if regression else 0.1 * rng.normal(size=90) > 0)
    y = y if regression else np.where(y > 0.5, "a", "b")
    weights = np.where(np.arange(90) < 30, 0.0, 1.0)
    local, kind = (
        (InvariantLinearSVR, DaskInvariantLinearSVR)
        if regression
        else (InvariantLinearSVC, DaskInvariantLinearSVC)
    )
    optimum = local(Box(0.02), C=0.1, tol=1e-5, random_state=0).fit(X, y, weights)
    given = [da.from_array(each, chunks=30) for each in (X, y, weights)]
    found = kind(Box(0.02), C=0.1, tol=1e-2, client=client, random_state=0).fit(*given)
    check_bounds(found, optimum)
    assert found.score(*given) == pytest.approx(found.to_local().score(X, y, weights))
    nothing = da.zeros(90, chunks=30)
    for call in (found.fit, found.score):
        with pytest.raises(ValueError, match="sample_weight must be above 0 for at least one sample"):
            call(*given[:2], nothing)


@pytest.mark.parametrize(
    "kind", [pytest.param("str", marks=pytest.mark.slow), "category", "string[pyarrow]", "object"]
)
def test_data_frames_with_labels_of_many_kinds(client, kind):
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    X, y = mails()
    table = pd.DataFrame(X.toarray(), columns=[f"word{j}" for j in range(D)])
    labels = pd.Series(y, name="label").astype(kind)
    # Divisions that do not follow the rows.
    table.index = labels.index = np.random.default_rng(0).permutation(400)
    whole = dd.from_pandas(table.assign(label=labels), npartitions=2, sort=False)
    found = model_on(client, FDrop(3), tol=0.1).fit(whole.drop(columns="label"), whole["label"])
    assert sorted(found.classes_.tolist()) == ["ham", "spam"]
    assert found.feature_names_in_.tolist() == list(table.columns)
    with client.as_current():
        told = found.predict(whole.drop(columns="label")).compute()
    assert np.mean(told == y) > 0.9
