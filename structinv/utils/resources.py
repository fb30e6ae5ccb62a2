"""What the machine leaves to this process: processors, threads and memory."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

# Limits that users, schedulers and the workers of joblib set; the first number of a list counts.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


@cache
def controller() -> Any:
    """The pools of threads of BLAS and OpenMP; looking for the libraries takes milliseconds."""
    return ThreadpoolController()


def available_cpus() -> int:
    """How many processors this process may use."""
    known = getattr(os, "sched_getaffinity", None)
    return len(known(0)) if known else os.cpu_count() or 1


def allowed_threads() -> int:
    """How many threads may work here at once, at least 1: the smallest of all limits in force.

    They are the processors of this process, the variables ``OMP_NUM_THREADS`` and
    ``NUMBA_NUM_THREADS`` as they are now, and what OpenMP is limited to, as by
    ``threadpoolctl.threadpool_limits``. A worker process of joblib has its share of the processors in
    the first variable.
    """
    limits = [available_cpus()]
    for name in THREAD_VARIABLES:
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isdigit():
            limits.append(int(first))
    pools = controller().lib_controllers
    limits += [pool.num_threads for pool in pools if pool.user_api == "openmp"]
    return max(1, min(limits))


def free_memory() -> float:
    """Bytes that this process could still take, without swapping; infinity where nobody knows.

    On Linux what the kernel calls available, or what is left to the process's control group if that is
    less; elsewhere the free pages that the system tells of.
    """
    if _MEMINFO.is_file():
        return min(_available(), *(_left(folder) for folder in _groups()))
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def check_memory(what: str, needed: float, advice: str) -> None:
    """Raise MemoryError if something needs more bytes than are free, and say what to do about it."""
    free = free_memory()
    if needed > free:
        raise MemoryError(f"{what} would take {_size(needed)}, and {_size(free)} are free: {advice}")


def _size(number: float) -> str:
    return f"{number / 1e9:.3g} GB" if number >= 1e8 else f"{number / 1e6:.3g} MB"


def _available() -> float:
    _, found, rest = _MEMINFO.read_text(encoding="ascii").partition("MemAvailable:")
    return 1024.0 * int(rest.split(maxsplit=1)[0]) if found else float("inf")


def _groups() -> list[Path]:
    """The folders of this process's control group and of those around it (cgroup v2)."""
    if not _OWN_GROUP.is_file():
        return []
    for line in _OWN_GROUP.read_text(encoding="utf-8").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            own = _GROUPS / path.lstrip("/")
            return [each for each in (own, *own.parents) if each.is_relative_to(_GROUPS)]
    return []


def _left(group: Path) -> float:
    """Bytes left to a control group; files that could be dropped are not in use."""
    most, used = _number(group / "memory.max"), _number(group / "memory.current")
    if most is None or used is None:
        return float("inf")
    return max(0.0, most - used + _statistic(group / "memory.stat", "inactive_file"))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        # No such file, or "max".
        return None


def _statistic(path: Path, name: str) -> int:
    try:
        _, found, rest = f"\n{path.read_text(encoding='ascii')}".partition(f"\n{name} ")
        return int(rest.split(maxsplit=1)[0]) if found else 0
    except (OSError, ValueError):
        return 0
