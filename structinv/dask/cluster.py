"""Assignment of groups to workers, calls of tasks, and recovery of lost workers."""

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
from dask.sizeof import sizeof
from distributed import Client, Future, KilledWorker, get_client, wait

# Seconds between two checks of the clock and of the workers.
POLL = 0.2
# Maximum number of lost workers per task.
MOST_LOST = 5
# Maximum time without any worker.
SECONDS_WITHOUT_WORKERS = 120.0
# Larger arguments are sent to workers directly, not through the scheduler.
BYTES_OF_A_TASK = 2**20
# Number of results fetched at once (the client allows five), and time before a fetch is repeated.
FETCHES, SECONDS_OF_A_FETCH = 4, 5.0
# A task is late if half of the calls are done, and it takes more than this multiple of their median
# time.
PATIENCE = 4.0
# A late task takes more than this number of seconds.
LEAST_PATIENCE = 1.0
# If the results of all groups are required, a task moves to another worker after this multiple of the
# time of a late task.
PATIENCE_OF_ALL = 3.0


def find_client(client: Client | None) -> Client:
    """Return the given client, or the client of this process."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "client must be a running dask.distributed.Client, got None, and this process has none: "
                "pass client=..., or create a client first"
            ) from None
    if client.status != "running":
        raise ValueError(
            f"client must be running, got {client!r} with status {client.status!r}: create a new client"
        )
    return client


@dataclass
class Call:
    """Running task.

    - `handle`: future of the result
    - `function`: function of a group and the arguments
    - `arguments`: further arguments of the function
    - `round`: round of the call
    - `lost`: number of workers lost during the task
    """

    handle: Handle[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    round: int
    lost: int = 0


class Cluster:
    """Workers of a client, with the groups of partitions on each.

    Tasks run on the worker with their group, which contains its state. If that worker is lost, the group
    moves to another one, and Dask computes its rows again.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.groups: list[Future] = []
        self.homes: list[str] = []
        self.moved = 0
        self._make: Callable[[int, str, list[str] | None], Future]
        self._slow: set[str] = set()
        self._handles: set[Handle[Any]] = set()
        # Arguments being sent to workers in this round.
        self._sending: dict[tuple[int, str], tuple[Any, asyncio.Task[Future]]] = {}
        self._slots, self._turn = asyncio.Semaphore(FETCHES), asyncio.Lock()

    @property
    def n_threads(self) -> int:
        """Number of threads of all workers."""
        return sum(self._workers().values())

    def holders(self, futures: Sequence[Future]) -> list[tuple[str, ...]]:
        """Return the workers with the result of each future."""
        locations = self.client.who_has(futures)
        return [tuple(locations.get(future.key, ())) for future in futures]

    def settle(
        self, make: Callable[[int, str, list[str] | None], Future], held: Sequence[Counter[str]]
    ) -> None:
        """Create groups on workers with much of their data, balanced by threads."""
        threads, self._make = self._workers(), make
        self.homes = []
        for n_bytes in held:
            load = {worker: (self.homes.count(worker) + 1) / n for worker, n in threads.items()}
            room = max(1.0, min(load.values()))
            fitting = [worker for worker in threads if load[worker] <= room]
            self.homes.append(max(fitting, key=lambda worker: n_bytes[worker]))
        self.groups = [make(p, home, None) for p, home in enumerate(self.homes)]

    def _create_again(self, p: int) -> None:
        """Create a group again on its worker."""
        # Cancel first, because dependent tasks would stay on their old worker.
        self.client.cancel([self.groups[p]])
        workers_not_slow = [worker for worker in self._workers() if worker not in self._slow]
        self.groups[p] = self._make(p, self.homes[p], workers_not_slow if self._slow else None)

    def balance(self, movable: Iterable[int]) -> None:
        """Move groups to workers with fewer groups per thread, such as new workers."""
        threads = self._workers()
        quick = {worker: n for worker, n in threads.items() if worker not in self._slow} or threads

        def load(worker: str, more: int = 0) -> float:
            return (self.homes.count(worker) + more) / threads[worker]

        for p in movable:
            home, best = self.homes[p], min(quick, key=lambda worker: (load(worker, 1), worker))
            if home not in threads or load(best, 1) < load(home):
                self._move(p, best)

    def _move(self, p: int, worker: str) -> None:
        """Create a group on another worker."""
        self.homes[p] = worker
        self.moved += 1
        self._create_again(p)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        tornado_loop: Any = self.client.loop
        loop: asyncio.AbstractEventLoop = tornado_loop.asyncio_loop
        return loop

    def all_of(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return the results of a function for all groups, in order."""
        self.begin_round()
        calls = {p: self.call(p, function, arguments) for p in range(len(self.groups))}
        results: dict[int, Any] = {}
        began, times = time.perf_counter(), []
        while calls:
            more = self.finished(calls)
            results |= more
            seconds = time.perf_counter() - began
            times += [seconds] * len(more)
            if calls and is_late(seconds / PATIENCE_OF_ALL, times, len(self.groups)):
                calls = {p: self.give_away(p, call) for p, call in calls.items()}
                began, times = time.perf_counter(), []
        return [results[p] for p in range(len(self.groups))]

    def computed(self, futures: Sequence[Future]) -> list[Any]:
        """Return the results of futures, or raise the error of the first failed future."""
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
        """Release the arguments sent to workers, except those of running calls."""
        self._sending = {}

    def call(
        self, p: int, function: Callable[..., Any], arguments: tuple[Any, ...], at: int = 0
    ) -> Call:
        """Call ``function(group, *arguments)`` on the worker of a group."""
        self._check_scheduler()
        if self.groups[p].status not in ("pending", "finished"):
            self._create_again(p)
        coroutine = self._run(function, self.groups[p], self.homes[p], arguments)
        try:
            handle = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:
            coroutine.close()
            raise _scheduler_lost() from error
        self._handles.add(handle)
        handle.add_done_callback(self._handles.discard)
        return Call(handle, function, arguments, at)

    async def _sent(self, argument: Any, worker: str) -> Any:
        """Return the argument of a task; large ones are sent to each worker once."""
        if sizeof(argument) < BYTES_OF_A_TASK:
            return argument
        key, sending = (id(argument), worker), self._sending
        if key not in sending:
            scattered = self.client.scatter(argument, workers=[worker], hash=False, asynchronous=True)
            # The entry contains the argument, so that its id is not reused.
            sending[key] = argument, asyncio.ensure_future(scattered)
            sending[key][1].add_done_callback(_retrieve_error)
        return await asyncio.shield(sending[key][1])

    async def _run(
        self, function: Callable[..., Any], group: Future, worker: str, arguments: tuple[Any, ...]
    ) -> Any:
        """Return the result of a task on a worker."""
        sent = [await self._sent(argument, worker) for argument in arguments]
        future = self.client.submit(
            function,
            group,
            *sent,
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
        """Return a result from a worker."""
        while True:
            async with self._slots:
                async with self._turn:
                    # The client combines fetches that start in the same iteration of its event loop.
                    fetch = asyncio.ensure_future(self.client.gather(future, asynchronous=True))
                    for _ in range(3):
                        await asyncio.sleep(0)
                with suppress(TimeoutError):
                    return await asyncio.wait_for(fetch, SECONDS_OF_A_FETCH)

    def finished(self, calls: dict[int, Call]) -> dict[int, Any]:
        """Wait shortly, and remove finished calls from `calls`; return their results.

        Calls with a lost worker are repeated.
        """
        handles = [call.handle for call in calls.values()]
        if not wait_for(handles, POLL, "FIRST_COMPLETED").done:
            self._repeat_lost(calls)
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
                calls[p] = self._repeat(p, call, self._workers())
            except Exception as error:
                self._check_scheduler(error)
                error.add_note(f"in group {p}")
                raise
        return results

    def _repeat(self, p: int, call: Call, workers: Collection[str]) -> Call:
        """Repeat a call, on another worker if its worker is not in `workers`."""
        call.handle.cancel()
        if self.homes[p] not in workers:
            quick = [worker for worker in workers if worker not in self._slow] or list(workers)
            self._move(p, min(quick, key=lambda worker: (self.homes.count(worker), worker)))
        again = self.call(p, call.function, call.arguments, call.round)
        again.lost = call.lost + 1
        return again

    def _repeat_lost(self, calls: dict[int, Call]) -> None:
        """Repeat calls with lost workers."""
        workers = self._workers()
        for p, call in calls.items():
            if not call.handle.done() and self.homes[p] not in workers:
                calls[p] = self._repeat(p, call, workers)

    def give_away(self, p: int, call: Call) -> Call:
        """Repeat a call on a worker that has not been slow, if there is one."""
        self._slow.add(self.homes[p])
        others = [worker for worker in self._workers() if worker not in self._slow]
        return self._repeat(p, call, others) if others else call

    def _workers(self) -> dict[str, int]:
        """Return the threads of all workers by address; wait if there is no worker."""
        began = time.perf_counter()
        while True:
            self._check_scheduler()
            try:
                threads = self.client.nthreads()
            except (OSError, RuntimeError) as error:
                raise _scheduler_lost() from error
            if threads:
                return dict(sorted(threads.items()))
            if time.perf_counter() - began > SECONDS_WITHOUT_WORKERS:
                raise RuntimeError(
                    f"the cluster has had no worker for {SECONDS_WITHOUT_WORKERS:g} seconds: "
                    "start workers"
                )
            time.sleep(POLL)

    def _check_scheduler(self, cause: BaseException | None = None) -> None:
        """Raise ConnectionError if the client is not connected."""
        if self.client.status != "running":
            raise _scheduler_lost() from cause

    def close(self) -> None:
        """Cancel all calls, and release the groups."""
        for handle in list(self._handles):
            handle.cancel()
        release(self.groups)
        self.groups = []


def _scheduler_lost() -> ConnectionError:
    return ConnectionError(
        "the connection to the scheduler is lost, and so are the data of the fit on the workers: call "
        "fit again on a new cluster. With checkpoint=..., fit continues from its file"
    )


def release(futures: Iterable[Future]) -> None:
    """Release results at once; tracebacks can keep the futures alive for longer."""
    for future in futures:
        future.release()


def _retrieve_error(task: asyncio.Task[Future]) -> None:
    """Mark an error as retrieved; the callers that wait for the task raise it."""
    if not task.cancelled():
        task.exception()


def is_late(seconds: float, times: Sequence[float], n_calls: int) -> bool:
    """Return True if a task takes much longer than the first half of the calls."""
    if not times or 2 * len(times) < n_calls:
        return False
    return seconds > max(LEAST_PATIENCE, PATIENCE * float(np.median(times)))
