"""A cluster, and a model that is fitted on it."""

import pytest


@pytest.fixture(scope="session")
def client():
    """Dask client of two workers in this process, of all tests of this folder."""
    from distributed import Client

    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0", set_as_default=False
    ) as client:
        yield client


@pytest.fixture(scope="module")
def model(client):
    from structinv.dask import DaskInvariantLinearSVC
    from structinv.oracles import Box

    from .cases import LABELS, ROWS

    return DaskInvariantLinearSVC(Box(0.1), client=client, random_state=0).fit(ROWS, LABELS)
