import os
import signal
import sys
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # Processes share the cores: threads of BLAS, which wait busily, would take them from each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run, without a limit of time, since the first one waits for compilers. The
# weekly run tries new ones (`--hypothesis-profile=random`): a failure is kept by `@example`.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("random", deadline=None, max_examples=100, print_blob=True)
settings.load_profile("fixed")


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
