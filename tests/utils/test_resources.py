"""What the machine leaves: threads that limits in force allow, and memory that is free."""

import pytest
from threadpoolctl import threadpool_limits

from structinv.utils import resources
from structinv.utils.resources import allowed_threads, check_memory, free_memory


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
def test_variables_limit_threads(many_cpus, monkeypatch, name):
    for value, allowed in {"1": 1, "3": 3, "2,4": 2, "64": 8, "0": 1, "": 8, "many": 8}.items():
        monkeypatch.setenv(name, value)
        assert allowed_threads() == allowed, value


def test_limits_of_threadpoolctl_are_respected(many_cpus):
    if not any(pool.user_api == "openmp" for pool in resources.controller().lib_controllers):
        pytest.skip("no library with OpenMP is loaded")
    assert allowed_threads() == 8
    with threadpool_limits(2):
        assert allowed_threads() == 2
    assert allowed_threads() == 8


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
