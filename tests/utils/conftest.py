import pytest
from threadpoolctl import threadpool_limits

from structinv.utils import resources


@pytest.fixture
def many_cpus(monkeypatch):
    """A machine of eight processors without any limit."""
    monkeypatch.setattr(resources, "cpu_count", lambda: 8)
    for name in resources.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(8, user_api="openmp"):
        yield
