"""What the machine leaves: threads that limits in force allow, and memory that is free."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from structinv.utils import matrices, resources
from structinv.utils.resources import allowed_threads, check_memory, free_memory


@pytest.fixture
def many_cpus(monkeypatch):
    """A machine of eight processors without any limit."""
    monkeypatch.setattr(resources, "cpu_count", lambda: 8)
    for name in resources.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(8, user_api="openmp"):
        yield


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
@pytest.mark.parametrize(
    ("value", "allowed"), [("1", 1), ("3", 3), ("2,4", 2), ("64", 8), ("0", 1), ("", 8), ("many", 8)]
)
def test_variables_limit_threads(many_cpus, monkeypatch, name, value, allowed):
    monkeypatch.setenv(name, value)
    assert allowed_threads() == allowed


def test_limits_of_threadpoolctl_are_respected(many_cpus):
    if not any(pool.user_api == "openmp" for pool in resources.controller().lib_controllers):
        pytest.skip("no library with OpenMP is loaded")
    assert allowed_threads() == 8
    with threadpool_limits(2):
        assert allowed_threads() == 2
    assert allowed_threads() == 8


def test_one_blas_thread_does_not_limit_other_threads(many_cpus):
    with matrices.one_blas_thread():
        assert allowed_threads() == 8


def threads_at_work(n_callers, expected):
    """How many threads work at the same time for several callers of `in_threads`."""
    condition, now, most = threading.Condition(), [0], [0]
    started = threading.Barrier(n_callers)

    def work(part):
        with condition:
            now[0] += 1
            most[0] = max(most[0], now[0])
            condition.notify_all()
            # Until as many as are expected have been seen at once.
            condition.wait_for(lambda: most[0] >= expected, timeout=5)
        with condition:
            now[0] -= 1

    def call():
        started.wait()
        matrices.in_threads(work, 100, 10**9)

    callers = [threading.Thread(target=call) for _ in range(n_callers)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return most[0]


def test_callers_share_the_threads(many_cpus, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    # Limits of OpenMP hold in the thread in which they were set.
    monkeypatch.setattr(resources, "controller", lambda: SimpleNamespace(lib_controllers=[]))
    assert threads_at_work(1, 4) == 4
    # Who comes too late works in the thread that it has.
    assert 4 <= threads_at_work(3, 4) <= 4 + 2
    assert matrices._threads_taken == 0


def test_threads_are_given_back_after_an_error(many_cpus):
    def fail(part):
        raise KeyError("nothing")

    with pytest.raises(KeyError):
        matrices.in_threads(fail, 100, 10**9)
    assert matrices._threads_taken == 0


def folder_of(tmp_path, limit, used, dropped):
    """The control groups of a machine, as Linux shows them."""
    own = tmp_path / "groups" / "job" / "step"
    files = {"memory.max": limit, "memory.current": used, "memory.stat": f"inactive_file {dropped}"}
    # The limit may be that of a group around the own one.
    own.mkdir(parents=True)
    for name, value in files.items():
        (own.parent / name).write_text(f"{value}\n")
    (tmp_path / "group").write_text("7:devices:/x\n0::/job/step\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   1000 kB\n")


@pytest.mark.parametrize(
    ("limit", "free"), [(500_000, 310_000), (10**9, 1_024_000), ("max", 1_024_000), (100_000, 0)]
)
def test_free_memory_is_limited_by_kernel_and_control_groups(tmp_path, monkeypatch, limit, free):
    folder_of(tmp_path, limit, used=200_000, dropped=10_000)
    monkeypatch.setattr(resources, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(resources, "_OWN_GROUP", tmp_path / "group")
    monkeypatch.setattr(resources, "_GROUPS", tmp_path / "groups")
    assert free_memory() == free


def test_free_memory_is_infinite_if_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_MEMINFO", tmp_path / "absent")
    monkeypatch.setattr(resources.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096}[name])
    with pytest.raises(KeyError):
        free_memory()
    monkeypatch.delattr(resources.os, "sysconf")
    assert free_memory() == float("inf")


def test_too_much_is_refused_with_numbers(monkeypatch):
    monkeypatch.setattr(resources, "free_memory", lambda: 2e6)
    check_memory("a table", 2e6, "use fewer rows")
    with pytest.raises(MemoryError, match=r"table would take 4.5 GB, and 2 MB are free: use"):
        check_memory("a table", 4.5e9, "use fewer rows")


def test_portions_after_an_error_are_skipped(monkeypatch):
    monkeypatch.setattr(matrices, "allowed_threads", lambda: 2)
    begun = []

    def work(rows):
        begun.append(rows)
        if len(begun) == 1:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        matrices.in_threads(work, 10_000, 10**9, most=1)
    assert len(begun) < 5000
    assert matrices._threads_taken == 0
    seen = np.zeros(1000, dtype=int)

    def count(rows):
        assert rows.stop - rows.start <= 7
        seen[rows] += 1

    matrices.in_threads(count, len(seen), 10**9, most=7)
    assert np.all(seen == 1)
    # In one thread, too.
    matrices.in_threads(count, len(seen), 0, most=7)
    assert np.all(seen == 2)
