"""A check that workers in this process release the groups of partitions after a fit."""

import gc
import time

from structinv.dask.group import Group


def check_released(seconds=10.0):
    """No group with its rows is in memory, at the latest after some seconds."""
    end = time.monotonic() + seconds
    while any(type(each) is Group for each in gc.get_objects()):
        assert time.monotonic() < end
        time.sleep(0.05)
        gc.collect()
