"""Compilation in advance: runs the jobs of `warm_jobs`."""

from __future__ import annotations

import logging
import warnings
from enum import StrEnum

from rich.console import Console
from rich.progress import track

from ..utils.jit import Stopwatch, cache_folder, cache_is_written, compiled_functions
from .messages import quiet_console
from .printing import print_line
from .warm_jobs import JOBS, Job


class Family(StrEnum):
    """Kinds of data for compilation in advance."""

    WORDS = "words"
    IMAGES = "images"
    MOLECULES = "molecules"
    SEQUENCES = "sequences"
    TEXTS = "texts"
    ALL = "all"


def warm_up(family: Family, console: Console) -> None:
    """Fill the cache on disk with the functions for one kind of data, or for all."""
    folder = cache_folder()
    if folder is None:
        raise ValueError(
            "the cache of compiled functions cannot be written: set NUMBA_CACHE_DIR to a writable "
            "folder, and leave NUMBA_DISABLE_JIT unset"
        )
    logging.getLogger("structinv").setLevel(logging.ERROR)
    watch = Stopwatch()
    chosen = [job for job in JOBS if family in (Family.ALL, job.family)]
    for job in track(chosen, "compiling", console=quiet_console(), transient=True):
        console.print(f"{job.family}: {job.name}, {_run(job)} functions", highlight=False)
    functions, seconds = compiled_functions(), watch.compile_seconds
    print_line(console, f"{functions} functions compiled in {seconds:.0f} s, cached in {folder}")


def _run(job: Job) -> int:
    """Run one job; return the number of compiled functions."""
    before = compiled_functions()
    with warnings.catch_warnings():
        # Small fits need not converge.
        warnings.simplefilter("ignore")
        job.run()
    if not cache_is_written():
        raise ValueError(
            f"the cache of compiled functions in {cache_folder()} cannot be written: free space on its "
            "disk, or set NUMBA_CACHE_DIR to another folder"
        )
    return compiled_functions() - before
