"""The bundle method of groups of partitions."""

import pytest

pytest.importorskip("distributed")

from structinv.dask import bundle
from structinv.oracles import FDrop
from structinv.utils import resources

from ..problems import check_bounds
from .cases import blocks_of, mails, model_on, optimum, raises


def test_few_planes_do(monkeypatch, client):
    monkeypatch.setattr(bundle, "PLANES", (4, 4))
    X, y = mails()
    blocks = blocks_of(X, y, [150, 250])
    found = model_on(client, FDrop(3)).fit(blocks)
    check_bounds(found, optimum(3))


def test_a_driver_without_memory_for_the_planes_is_refused(monkeypatch, client):
    X, y = mails()
    monkeypatch.setattr(resources, "free_memory", lambda: 1e4)
    raises(client, "use solver='bmrm', or fewer features", blocks_of(X, y, [400]), error=MemoryError)
