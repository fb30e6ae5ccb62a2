"""A check that workers release the groups of partitions after a fit."""

import time


def groups_on(dask_worker):
    return [key for key in dask_worker.data if str(key).startswith("grouped")]


def check_released(client, seconds=10.0):
    """No worker of a running client has a group with its rows, at the latest after some seconds."""
    end = time.monotonic() + seconds
    running = client is not None and client.status == "running"
    while running and any(client.run(groups_on).values()):
        assert time.monotonic() < end
        time.sleep(0.05)
