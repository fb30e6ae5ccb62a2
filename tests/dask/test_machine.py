"""Models on a cluster: before a fit, in copies and searches, and lazy answers of the announced type."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
from distributed import Client

import structinv
from structinv.dask import (
    DaskInvariantLinearSVC,
    DaskInvariantLinearSVR,
    DaskInvariantStructuredSVC,
)
from structinv.oracles import Identity
from structinv.structures import Multilabel, Sequence

from .cases import LABELS, ROWS, X, Y, blocks_of, mails, raises


def test_a_client_is_neither_cloned_nor_pickled(client, model, tmp_path):
    assert model.client is client
    assert clone(model).client is None
    assert pickle.loads(pickle.dumps(model)).client is None
    assert "client" not in model.get_params()
    structinv.save(model.to_local(), tmp_path / "model")
    np.testing.assert_array_equal(structinv.load(tmp_path / "model").coef_, model.coef_)


def test_a_fit_without_a_client_is_refused():
    X, y = mails()
    raises(None, "client must be a running", blocks_of(X, y, [400]))
    with Client(processes=False, dashboard_address=":0", set_as_default=False) as closed:
        pass
    raises(closed, "client must be running", blocks_of(X, y, [400]))


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


def test_models_in_files_are_local_ones(model, tmp_path):
    for each in (model, make_pipeline(model)):
        with pytest.raises(TypeError, match=r"save the result of its method to_local\(\)"):
            structinv.save(each, tmp_path / "model")


def test_an_address_is_no_client():
    for ask in ("fit", "score"):
        model = DaskInvariantLinearSVC(random_state=0).fit(X, Y)
        model.client = "tcp://10.0.0.1:8786"
        with pytest.raises(TypeError, match=r"client must be a distributed.Client, got 'tcp://10"):
            getattr(model, ask)(ROWS, LABELS)


@pytest.fixture(scope="module")
def plain(client):
    return DaskInvariantLinearSVC(Identity(), client=client, random_state=0).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        pytest.param("array", np.float32, marks=pytest.mark.slow),
        ("array", np.int64),
        pytest.param("sparse", np.float64, marks=pytest.mark.slow),
        ("sparse", np.float32),
        ("frame", np.int64),
        ("list", np.float32),
    ],
)
def test_perturbed_rows_have_the_announced_dtype(plain, kind, form):
    model = plain
    rows = (ROWS * 10).astype(kind)
    given = {
        "array": rows,
        "sparse": rows.map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 3), dtype=kind)),
        "frame": dd.from_dask_array(rows),
        "list": list(rows.to_delayed().ravel()),
    }[form]
    if form == "frame":
        model = DaskInvariantLinearSVC(Identity(), client=plain.client, random_state=0).fit(
            given, dd.from_dask_array(LABELS)
        )
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
