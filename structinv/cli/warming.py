"""Compilation in advance: runs the jobs of `warm_jobs` in parallel processes."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import warnings
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from enum import StrEnum
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from ..utils.jit import Stopwatch, cache_folder, cache_is_written, compiled_functions, save_one_at_a_time
from ..utils.resources import available_cpus
from .messages import escape, quiet_console, say
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
    chosen = [number for number, job in enumerate(JOBS) if family in (Family.ALL, job.family)]
    watch = Stopwatch()
    total = _in_processes(chosen, console)
    console.print(
        f"{total} functions compiled in {watch.seconds:.0f} s, cached in {escape(str(folder))}",
        highlight=False,
        soft_wrap=True,
    )


def _in_processes(chosen: list[int], console: Console) -> int:
    """Run jobs in new processes; return the number of compiled functions."""
    # Forked processes would inherit locks and threads.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    n_processes = min(available_cpus(), len(chosen))
    with ProcessPoolExecutor(n_processes, context, _begin, (context.Lock(),)) as pool:
        try:
            return _reported({pool.submit(_run, number): JOBS[number] for number in chosen}, console)
        except KeyboardInterrupt:
            _end(others)
            say("interrupted: functions compiled so far stay in the cache")
            raise typer.Exit(130) from None
        except BrokenProcessPool:
            raise MemoryError(
                "a compiling process ended early, probably for lack of memory: free memory and try again"
            ) from None
        except BaseException:
            _end(others)
            raise


def _reported(jobs: dict[Future[int], Job], console: Console) -> int:
    """Print jobs as they end; return the number of compiled functions."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    total = 0
    screen = quiet_console()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("compiling", total=len(jobs))
        for done in as_completed(jobs):
            job, n_functions = jobs[done], done.result()
            console.print(f"{job.family}: {job.name}, {n_functions} functions", highlight=False)
            total += n_functions
            progress.advance(task)
    return total


def _end(others: set[Any]) -> None:
    """Terminate all child processes except these."""
    for process in set(multiprocessing.active_children()) - others:
        process.terminate()


def _begin(lock: Any) -> None:
    """Prepare a process for jobs."""
    # The parent process also receives Ctrl-C, and terminates the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("structinv").setLevel(logging.ERROR)
    save_one_at_a_time(lock)


def _run(number: int) -> int:
    """Run one job; return the number of compiled functions."""
    before = compiled_functions()
    with warnings.catch_warnings():
        # Small fits need not converge.
        warnings.simplefilter("ignore")
        JOBS[number].run()
    if not cache_is_written():
        raise ValueError(
            f"the cache of compiled functions in {cache_folder()} cannot be written: free space on its "
            "disk, or set NUMBA_CACHE_DIR to another folder"
        )
    return compiled_functions() - before
