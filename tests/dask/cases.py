"""Models and partitions of rows, and a check that workers release the groups after a fit."""

import time
from functools import cache

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from dask import delayed

from structinv import InvariantLinearSVC
from structinv.dask import DaskInvariantLinearSVC
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), np.arange(40) % 2
ROWS, LABELS = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=20)


def groups_on(dask_worker):
    return [key for key in dask_worker.data if str(key).startswith("grouped")]


def check_released(client, seconds=10.0):
    """No worker of a running client has a group with its rows, at the latest after some seconds."""
    end = time.monotonic() + seconds
    running = client is not None and client.status == "running"
    while running and any(client.run(groups_on).values()):
        assert time.monotonic() < end
        time.sleep(0.05)


D = 100


@cache
def mails():
    X, y = make_mail_like(400, D, random_state=0)
    return X, np.asarray(y)


@cache
def optimum(n_dropped=0):
    """The model of all rows, up to far less than the gaps of models on a cluster."""
    oracle = FDrop(n_dropped) if n_dropped else None
    return InvariantLinearSVC(oracle, C=1e-3, tol=1e-5, random_state=0).fit(*mails())


def sparse_array(X, cuts):
    """CSR blocks as a Dask array, of sizes that nobody told."""
    edges = np.cumsum([0, *cuts])
    blocks = [delayed(X[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    meta = sp.csr_matrix((0, X.shape[1]))
    return da.concatenate(
        [da.from_delayed(block, (np.nan, X.shape[1]), meta=meta) for block in blocks],
        allow_unknown_chunksizes=True,
    )


def blocks_of(X, y, cuts):
    edges = np.cumsum([0, *cuts])
    pairs = zip(edges[:-1], edges[1:], strict=True)
    return [delayed((X[a:b], y[a:b])) for a, b in pairs]


def delayed_labels(y, cuts):
    edges = np.cumsum([0, *cuts])
    return [delayed(y[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def model_on(client, oracle=None, **parameters):
    given = {"C": 1e-3, "tol": 1e-2, "random_state": 0, **parameters}
    return DaskInvariantLinearSVC(oracle, client=client, **given)


def raises(client, message, *given, error=ValueError, **parameters):
    model = model_on(client, **parameters)
    with pytest.raises(error, match=message):
        model.fit(*given)
    assert not [name for name in vars(model) if name.endswith("_")]
    check_released(client)
