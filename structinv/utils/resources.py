"""Available resources: processors, threads and free memory."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

# Variables set by users, schedulers and workers of joblib; the first number of a list counts.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


@cache
def controller() -> Any:
    """Return the controller of the thread pools of BLAS and OpenMP.

    It is cached, because the search for the libraries takes milliseconds.
    """
    return ThreadpoolController()


def allowed_threads() -> int:
    """Return the number of threads that this process may use, at least 1.

    It is the minimum of the processors of this process, the present values of ``OMP_NUM_THREADS`` and
    ``NUMBA_NUM_THREADS``, and OpenMP's limit. ``threadpoolctl.threadpool_limits`` sets the latter.
    Joblib sets ``OMP_NUM_THREADS`` in its worker processes.
    """
    limits = [cpu_count()]
    for name in THREAD_VARIABLES:
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isdigit():
            limits.append(int(first))
    pools = controller().lib_controllers
    limits += [pool.num_threads for pool in pools if pool.user_api == "openmp"]
    return max(1, min(limits))


def free_memory() -> float:
    """Return the number of free bytes without swapping; infinity if unknown.

    On Linux it is the kernel's available memory, or the rest of the process's control group if that is
    less. Elsewhere it is the number of free pages of the system.
    """
    if _MEMINFO.is_file():
        return min(_available(), *(_left(folder) for folder in _groups()))
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def check_memory(what: str, needed: float, advice: str) -> None:
    """Raise MemoryError with advice if `needed` bytes are more than the free memory."""
    free = free_memory()
    if needed > free:
        raise MemoryError(f"{what} would take {_size(needed)}, and {_size(free)} are free: {advice}")


def _size(number: float) -> str:
    return f"{number / 1e9:.3g} GB" if number >= 1e8 else f"{number / 1e6:.3g} MB"


def _available() -> float:
    _, found, rest = _MEMINFO.read_text(encoding="ascii").partition("MemAvailable:")
    return 1024.0 * int(rest.split(maxsplit=1)[0]) if found else float("inf")


def _groups() -> list[Path]:
    """Return the folders of this process's control group and of its parents (cgroup v2)."""
    if not _OWN_GROUP.is_file():
        return []
    for line in _OWN_GROUP.read_text(encoding="utf-8").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            group = _GROUPS / path.lstrip("/")
            return [each for each in (group, *group.parents) if each.is_relative_to(_GROUPS)]
    return []


def _left(group: Path) -> float:
    """Return the free bytes of a control group; droppable file caches count as free."""
    most, used = _number(group / "memory.max"), _number(group / "memory.current")
    if most is None or used is None:
        return float("inf")
    return max(0.0, most - used + _statistic(group / "memory.stat", "inactive_file"))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        # The file is missing or contains "max".
        return None


def _statistic(path: Path, name: str) -> int:
    try:
        _, found, rest = f"\n{path.read_text(encoding='ascii')}".partition(f"\n{name} ")
        return int(rest.split(maxsplit=1)[0]) if found else 0
    except (OSError, ValueError):
        return 0
