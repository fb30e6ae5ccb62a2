import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder():
    """Real data for tests marked `data`; the test is skipped where there is none."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("STRUCTINV_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is absent (set STRUCTINV_DATA)")
    return folder
