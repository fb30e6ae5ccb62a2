"""Tasks on the groups of a fit: which worker has which, and what happens when workers are lost."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Handle
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, get_client, wait

from .group import forget

# Seconds between two looks at the clock and at the workers.
POLL = 0.2
# Workers may be lost so often over one task.
MOST_LOST = 5
# So long there may be no worker at all.
SECONDS_WITHOUT_WORKERS = 120.0
# Arguments above this size go to workers by themselves, not through the scheduler's list of tasks.
BYTES_OF_A_TASK = 2**20
# So many results are fetched at once, since the client takes five, and each anew after some seconds.
FETCHES, SECONDS_OF_A_FETCH = 4, 5.0
# So long the end of a fit waits for workers to drop what they hold.
SECONDS_TO_FORGET = 5.0
# A task is late once half of the others are done, and it takes so many times the median of theirs,
PATIENCE = 4.0
# and at least so many seconds.
LEAST_PATIENCE = 1.0
# Where all have to answer, it goes to another worker after this many times as long.
PATIENCE_OF_ALL = 3.0


class SchedulerLostError(ConnectionError):
    """The connection to the scheduler is lost, and with it all that workers held for a fit."""


def find_client(client: Client | None) -> Client:
    """A client that was given, or the one of this process.

    Raises
    ------
    ValueError
        If there is none, or it is closed.
    """
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "client must be a running dask.distributed.Client: pass client=..., or make one first; "
                "got None, and none is running"
            ) from None
    if client.status != "running":
        raise ValueError(f"client must be running, got {client!r} of status {client.status!r}")
    return client


@dataclass
class Call:
    """A task under way.

    Parameters
    ----------
    handle : concurrent Future
        Of the result.
    function : callable
    arguments : tuple
        Of the function, after the group and the name of the fit.
    round : int
    lost : int
        How often workers were lost over it.
    """

    handle: Handle[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    round: int
    lost: int = 0


class Cluster:
    """The workers of a client, and the groups of partitions that each has.

    Tasks run where their group is, so that they find its state. When that worker is lost the group goes
    to another one, and Dask makes its rows again.

    Parameters
    ----------
    client : distributed.Client

    Attributes
    ----------
    groups : list of Future
        Each group of the fit.
    homes : list of str
        The worker of each.
    fit : str
        A name of the fit.
    moved : int
        How many times a group has gone to another worker.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.fit = uuid.uuid4().hex
        self.groups: list[Future] = []
        self.homes: list[str] = []
        self.moved = 0
        self._make: Callable[[int, str, list[str] | None], Future]
        self._slow: set[str] = set()
        self._handles: set[Handle[Any]] = set()
        # What is on its way to which worker, in this round.
        self._sending: dict[tuple[int, str], tuple[Any, asyncio.Task[Future]]] = {}
        self._slots, self._turn = asyncio.Semaphore(FETCHES), asyncio.Lock()

    @property
    def n_threads(self) -> int:
        """Of all workers."""
        return sum(self._workers().values())

    def holders(self, futures: Sequence[Future]) -> list[tuple[str, ...]]:
        """The workers that hold the result of each future."""
        has = self.client.who_has(futures)
        return [tuple(has.get(future.key, ())) for future in futures]

    def settle(
        self, make: Callable[[int, str, list[str] | None], Future], held: Sequence[Counter[str]]
    ) -> None:
        """Make groups, each on a worker that holds much of it, as many on each as it has threads for.

        Parameters
        ----------
        make : callable
            From the number of a group, its worker, and workers that its rows should be made on, to the
            group as a future.
        held : list of Counter
            How many bytes of each group the workers hold.
        """
        threads, self._make = self._workers(), make
        self.homes = []
        for own in held:
            load = {worker: (self.homes.count(worker) + 1) / n for worker, n in threads.items()}
            room = max(1.0, min(load.values()))
            fitting = [worker for worker in threads if load[worker] <= room]
            self.homes.append(max(fitting, key=lambda worker: own[worker]))
        self.groups = [make(p, home, None) for p, home in enumerate(self.homes)]

    def _made_anew(self, p: int) -> None:
        """Make a group again on its worker."""
        # First what depends on the old one has to go: tasks that it knows keep the worker that they had.
        self.client.cancel([self.groups[p]])
        quick = [worker for worker in self._workers() if worker not in self._slow]
        self.groups[p] = self._make(p, self.homes[p], quick if self._slow else None)

    def balance(self, movable: Iterable[int]) -> None:
        """Move groups from full workers to those with fewer for their threads, as to new ones.

        Parameters
        ----------
        movable : iterable of int
            The groups that may move.
        """
        threads = self._workers()
        quick = {worker: n for worker, n in threads.items() if worker not in self._slow} or threads

        def load(worker: str, more: int = 0) -> float:
            return (self.homes.count(worker) + more) / threads[worker]

        for p in movable:
            home, best = self.homes[p], min(quick, key=lambda worker: (load(worker, 1), worker))
            if home not in threads or load(best, 1) < load(home):
                self._move(p, best)

    def _move(self, p: int, worker: str) -> None:
        """Have a group made on another worker, and forgotten where it was."""
        former, self.homes[p] = self.homes[p], worker
        self.moved += 1
        self._made_anew(p)
        if former in self._workers():
            self._forget(p, workers=[former])

    def _forget(self, *group: int, **of: Any) -> Handle[Any]:
        """Have workers drop a group, or the whole fit; nobody has to wait for it."""
        told = self.client.run(
            forget, self.fit, *group, wait=False, on_error="ignore", asynchronous=True, **of
        )
        return asyncio.run_coroutine_threadsafe(told, self._loop)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop: Any = self.client.loop
        found: asyncio.AbstractEventLoop = loop.asyncio_loop
        return found

    def all_of(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What a function says of all groups, in order."""
        self.begin_round()
        calls = {p: self.call(p, function, arguments) for p in range(len(self.groups))}
        found: dict[int, Any] = {}
        began, times = time.perf_counter(), []
        while calls:
            more = self.finished(calls)
            found |= more
            seconds = time.perf_counter() - began
            times += [seconds] * len(more)
            if calls and is_late(seconds / PATIENCE_OF_ALL, times, len(self.groups)):
                calls = {p: self.give_away(p, call) for p, call in calls.items()}
                began, times = time.perf_counter(), []
        return [found[p] for p in range(len(self.groups))]

    def computed(self, futures: Sequence[Future]) -> list[Any]:
        """The results of futures; the error of the first that has failed is raised."""
        while any(future.status == "pending" for future in futures):
            self._check_scheduler()
            with suppress(TimeoutError, CancelledError), self.client.as_current():
                wait(futures, timeout=POLL)
        self._check_scheduler()
        failed = [future for future in futures if future.status == "error"]
        if failed:
            raise failed[0].exception()
        return list(self.client.gather(list(futures)))

    def begin_round(self) -> None:
        """Forget what was sent to workers; calls under way keep it."""
        self._sending = {}

    def call(
        self, p: int, function: Callable[..., Any], arguments: tuple[Any, ...], at: int = 0
    ) -> Call:
        """Call ``function(group, fit, *arguments)`` on the worker that has a group, in a round."""
        self._check_scheduler()
        if self.groups[p].status not in ("pending", "finished"):
            self._made_anew(p)
        told = self._run(function, self.groups[p], self.homes[p], arguments)
        try:
            handle = asyncio.run_coroutine_threadsafe(told, self._loop)
        except RuntimeError as error:
            told.close()
            raise _scheduler_lost() from error
        self._handles.add(handle)
        handle.add_done_callback(self._handles.discard)
        return Call(handle, function, arguments, at)

    async def _sent(self, argument: Any, worker: str) -> Any:
        """An argument as it goes with a task: one that is large is sent to each worker once."""
        if getattr(argument, "nbytes", 0) < BYTES_OF_A_TASK:
            return argument
        key, sending = (id(argument), worker), self._sending
        if key not in sending:
            told = self.client.scatter(argument, workers=[worker], hash=False, asynchronous=True)
            # With the argument itself, so that nothing else gets its number.
            sending[key] = argument, asyncio.ensure_future(told)
            sending[key][1].add_done_callback(_hear)
        return await asyncio.shield(sending[key][1])

    async def _run(
        self, function: Callable[..., Any], group: Future, worker: str, arguments: tuple[Any, ...]
    ) -> Any:
        """The result of a task on a worker. Whatever happens there, nobody else waits for it."""
        told = [await self._sent(argument, worker) for argument in arguments]
        future = self.client.submit(
            function,
            group,
            self.fit,
            *told,
            workers=[worker],
            pure=False,
            key=f"structinv-{function.__name__}-{uuid.uuid4().hex}",
        )
        try:
            with self.client.as_current():
                done = wait([future])
            await done
            return await self._fetched(future)
        finally:
            release([future])

    async def _fetched(self, future: Future) -> Any:
        """A result that a worker has."""
        while True:
            async with self._slots:
                async with self._turn:
                    # Results that are asked for in the same turn of the loop come all together.
                    fetch = asyncio.ensure_future(self.client.gather(future, asynchronous=True))
                    for _ in range(3):
                        await asyncio.sleep(0)
                with suppress(TimeoutError):
                    return await asyncio.wait_for(fetch, SECONDS_OF_A_FETCH)

    def finished(self, calls: dict[int, Call]) -> dict[int, Any]:
        """Take results that have come within a short time out of `calls`.

        Calls whose worker was lost are made again.
        """
        handles = [call.handle for call in calls.values()]
        if not wait_for(handles, POLL, "FIRST_COMPLETED").done:
            self._leave_lost_workers(calls)
        results = {}
        for p, call in list(calls.items()):
            if not call.handle.done():
                continue
            self._check_scheduler()
            try:
                results[p] = call.handle.result()
                del calls[p]
            except (KilledWorker, CancelledError, OSError) as error:
                if call.lost >= MOST_LOST:
                    error.add_note(f"in group {p}")
                    raise
                self._check_scheduler(error)
                calls[p] = self._again(p, call, self._workers())
            except Exception as error:
                self._check_scheduler(error)
                error.add_note(f"in group {p}")
                raise
        return results

    def _again(self, p: int, call: Call, workers: Collection[str]) -> Call:
        """A call anew, on another worker if its own is not among these."""
        call.handle.cancel()
        if self.homes[p] not in workers:
            quick = [worker for worker in workers if worker not in self._slow] or list(workers)
            self._move(p, min(quick, key=lambda worker: (self.homes.count(worker), worker)))
        again = self.call(p, call.function, call.arguments, call.round)
        again.lost = call.lost + 1
        return again

    def _leave_lost_workers(self, calls: dict[int, Call]) -> None:
        """Make calls anew whose workers have gone."""
        workers = self._workers()
        for p, call in calls.items():
            if not call.handle.done() and self.homes[p] not in workers:
                calls[p] = self._again(p, call, workers)

    def give_away(self, p: int, call: Call) -> Call:
        """Make a call anew on a worker that has not been slow, if there is one."""
        self._slow.add(self.homes[p])
        others = [worker for worker in self._workers() if worker not in self._slow]
        return self._again(p, call, others) if others else call

    def _workers(self) -> dict[str, int]:
        """Addresses of all workers and their threads; waits for one if there is none."""
        began = time.perf_counter()
        while True:
            self._check_scheduler()
            try:
                found = self.client.nthreads()
            except (OSError, RuntimeError) as error:
                raise _scheduler_lost() from error
            if found:
                return dict(sorted(found.items()))
            if time.perf_counter() - began > SECONDS_WITHOUT_WORKERS:
                raise RuntimeError(f"there has been no worker for {SECONDS_WITHOUT_WORKERS:g} seconds")
            time.sleep(POLL)

    def _check_scheduler(self, cause: BaseException | None = None) -> None:
        """Raise SchedulerLostError unless the client is connected."""
        if self.client.status != "running":
            raise _scheduler_lost() from cause

    def close(self) -> None:
        """Drop all that workers hold for the fit."""
        for handle in list(self._handles):
            handle.cancel()
        release(self.groups)
        self.groups = []
        if self.client.status == "running":
            # A worker that has stopped forgets when it goes on.
            wait_for([self._forget()], SECONDS_TO_FORGET)


def _scheduler_lost() -> SchedulerLostError:
    return SchedulerLostError(
        "the connection to the scheduler is lost, and with it all that workers held for the fit; with "
        "checkpoint=... the same fit on a new cluster goes on from what was reached"
    )


def release(futures: Iterable[Future]) -> None:
    """Let go of results at once: tracebacks can keep the futures themselves alive for a while."""
    for future in futures:
        future.release()


def _hear(task: asyncio.Task[Future]) -> None:
    """Take note of an error, of which those that wait for the task are told."""
    if not task.cancelled():
        task.exception()


def is_late(seconds: float, times: Sequence[float], asked: int) -> bool:
    """Whether a task takes much longer than those that are done, which are at least half of them."""
    if not times or 2 * len(times) < asked:
        return False
    return seconds > max(LEAST_PATIENCE, PATIENCE * float(np.median(times)))
