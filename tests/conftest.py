import os
import signal
import sys
from pathlib import Path
from zlib import crc32

if "PYTEST_XDIST_WORKER" in os.environ:
    # Processes share the cores: threads of BLAS, which wait busily, would take them from each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# The same cases in every run, and so the same faults found: more of them would be tried for nothing.
# The first of a test waits for compilers.
settings.register_profile("structinv", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("structinv")


def pytest_addoption(parser):
    parser.addoption("--part", metavar="K/N", help="run part K of N of the tests, K from 1 to N")


def pytest_collection_modifyitems(config, items):
    """Keep the tests of one part, which their names decide."""
    if config.getoption("part") is None:
        return
    number, n_parts = map(int, config.getoption("part").split("/"))
    if not 1 <= number <= n_parts:
        raise pytest.UsageError(f"--part must be K/N with K from 1 to N, got {number}/{n_parts}")
    parts = [[] for _ in range(n_parts)]
    for item in items:
        parts[crc32(item.nodeid.encode()) % n_parts].append(item)
    items[:] = parts.pop(number - 1)
    config.hook.pytest_deselected(items=sum(parts, []))


def pytest_runtest_setup(item):
    """Set what a test may find changed: NumPy's global seed, and the handler of Ctrl-C.

    Estimators without a `random_state` draw from the global numbers. Shells have processes that they
    start in the background ignore Ctrl-C, and so would the processes that tests start.
    """
    np.random.seed(0)  # noqa: NPY002
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_teardown(item):
    """Close the figures of a test: pyplot keeps all, and warns from 20 on."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture
def array_api(monkeypatch):
    """Has scikit-learn's checks try its way to arrays of other libraries, too."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@pytest.fixture(scope="session")
def data_folder():
    """Real data for tests marked `data`; the test is skipped where there is none."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("STRUCTINV_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is absent (set STRUCTINV_DATA)")
    return folder


@pytest.fixture(scope="module")
def client():
    """Dask client of two workers in this process."""
    from distributed import Client

    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0", set_as_default=False
    ) as client:
        yield client
