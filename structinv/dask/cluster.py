"""Tasks on the partitions of a fit: which worker has which, and what happens when workers are lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client, Future, KilledWorker, get_client, wait

from .partition import forget

# Seconds between two looks at the clock and at the workers.
POLL = 0.2
# Workers may be lost so often over one task.
MOST_LOST = 5
# So long there may be no worker at all.
SECONDS_WITHOUT_WORKERS = 120.0
# Seconds to wait for the transfer of a result, at first and at most: each time it starts anew.
FIRST_OF_A_RESULT, MOST_OF_A_RESULT = 0.2, 16.0


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
                "client must be a running dask.distributed.Client: pass client=..., or make one before "
                "the fit, got None"
            ) from None
    if client.status != "running":
        raise ValueError(f"client must be running, got {client!r} of status {client.status!r}")
    return client


@dataclass
class Call:
    """A task under way.

    Parameters
    ----------
    future : Future
    arguments : tuple
        Of the function, after the partition.
    round : int
    again : bool
        Whether an earlier call was lost.
    patience : float
        Seconds to wait for the transfer of the result.
    """

    future: Future
    arguments: tuple[Any, ...]
    round: int
    again: bool = False
    patience: float = FIRST_OF_A_RESULT


class Cluster:
    """The workers of a client, and the partitions that each has.

    Tasks run where their partition is, so that they find its state. When that worker is lost the
    partition goes to another one, and Dask makes its rows again.

    Parameters
    ----------
    client : distributed.Client

    Attributes
    ----------
    parts : list of Future
        Each partition of the fit.
    fit : str
        A name of the fit.
    moved : int
        How many times a partition has gone to another worker.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.fit = uuid.uuid4().hex
        self.parts: list[Future] = []
        self.homes: list[str] = []
        self.moved = 0
        self._lost: dict[int, int] = {}

    def settle(self, parts: Sequence[Future]) -> None:
        """Take partitions, which are all computed, and learn where they are."""
        self.parts = list(parts)
        self._lost = dict.fromkeys(range(len(parts)), 0)
        has = self.client.who_has(self.parts)
        self.homes = [next(iter(sorted(has.get(part.key, ()))), "") for part in self.parts]
        self.balance(range(len(parts)))

    def balance(self, movable: Iterable[int]) -> None:
        """Move partitions from full workers to those with fewer for their threads, as to new ones.

        Parameters
        ----------
        movable : iterable of int
            The partitions that may move.
        """
        threads, free = self._workers(), list(movable)

        def load(worker: str, more: int = 0) -> float:
            return (self.homes.count(worker) + more) / threads[worker]

        for p in free:
            home, best = self.homes[p], min(threads, key=lambda worker: (load(worker, 1), worker))
            if home not in threads or load(best, 1) < load(home):
                self.homes[p] = best
                self.moved += 1

    def all_of(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What a function says of all partitions, in order."""
        calls = {p: self.call(p, function, arguments) for p in range(len(self.parts))}
        found: dict[int, Any] = {}
        while calls:
            found |= self.finished(calls, function)
        return [found[p] for p in range(len(self.parts))]

    def computed(self, futures: Sequence[Future]) -> list[Any]:
        """The results of futures; the error of the first that has failed is raised."""
        while any(future.status == "pending" for future in futures):
            self._check_scheduler()
            with suppress(TimeoutError, CancelledError):
                self._wait(futures, "ALL_COMPLETED")
        self._check_scheduler()
        failed = [future for future in futures if future.status == "error"]
        if failed:
            raise failed[0].exception()
        return list(self.client.gather(list(futures)))

    def _wait(self, futures: Sequence[Future], until: str) -> None:
        """Wait a short time; see `distributed.wait`, which asks for the client of the process."""
        with self.client.as_current():
            wait(futures, timeout=POLL, return_when=until)

    def call(
        self, p: int, function: Callable[..., Any], arguments: tuple[Any, ...], at: int = 0
    ) -> Call:
        """Call ``function(part, *arguments)`` on the worker that has a partition, in a round."""
        try:
            future = self.client.submit(
                function,
                self.parts[p],
                *arguments,
                workers=[self.homes[p]] if self.homes[p] else None,
                pure=False,
                key=f"structinv-{function.__name__}-{p}-{uuid.uuid4().hex}",
            )
        except (OSError, RuntimeError) as error:
            raise _scheduler_lost() from error
        return Call(future, arguments, at)

    def finished(self, calls: dict[int, Call], function: Callable[..., Any]) -> dict[int, Any]:
        """Take results that have come within a short time out of `calls`.

        Calls whose worker was lost are made again.
        """
        try:
            self._wait([call.future for call in calls.values()], "FIRST_COMPLETED")
        except TimeoutError:
            self._leave_lost_workers(calls, function)
        except CancelledError:
            self._check_scheduler()
        results = {}
        # Those that did not come the last time hold up the others least at the end.
        for p, call in sorted(calls.items(), key=lambda each: each[1].patience):
            if call.future.status == "pending":
                continue
            self._check_scheduler()
            if call.future.status != "finished":
                calls[p] = self._again(p, call, function)
                continue
            try:
                results[p] = call.future.result(timeout=call.patience)
                del calls[p]
            except (TimeoutError, CancelledError, OSError) as error:
                # Its worker was lost after it was announced, or does not send it.
                self._check_scheduler(error)
                if isinstance(error, TimeoutError) and self.homes[p] in self._workers():
                    calls[p] = replace(call, patience=min(2.0 * call.patience, MOST_OF_A_RESULT))
                else:
                    calls[p] = self._again(p, call, function)
        return results

    def _again(self, p: int, call: Call, function: Callable[..., Any]) -> Call:
        """A call anew that was lost with its worker; the error of one that has failed is raised."""
        if call.future.status == "error":
            error = call.future.exception()
            self._lost[p] += 1
            if not isinstance(error, KilledWorker) or self._lost[p] > MOST_LOST:
                error.add_note(f"in partition {p}")
                raise error
        return self._anew(p, call, function, self._workers())

    def _anew(self, p: int, call: Call, function: Callable[..., Any], workers: Collection[str]) -> Call:
        call.future.cancel()
        if self.homes[p] not in workers:
            self.homes[p] = min(workers, key=lambda worker: (self.homes.count(worker), worker))
            self.moved += 1
        return replace(self.call(p, function, call.arguments, call.round), again=True)

    def _leave_lost_workers(self, calls: dict[int, Call], function: Callable[..., Any]) -> None:
        """Make calls anew whose workers have gone."""
        workers = self._workers()
        for p, call in calls.items():
            if call.future.status == "pending" and self.homes[p] not in workers:
                calls[p] = self._anew(p, call, function, workers)

    def give_away(self, p: int, call: Call, function: Callable[..., Any]) -> Call:
        """Make a call anew on another worker, if there is one."""
        others = [worker for worker in self._workers() if worker != self.homes[p]]
        return self._anew(p, call, function, others) if others else call

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
        self.parts = []
        if self.client.status == "running":
            self.client.run(forget, self.fit, wait=False, on_error="ignore")


def _scheduler_lost() -> SchedulerLostError:
    return SchedulerLostError(
        "the connection to the scheduler is lost, and with it all that workers held for the fit; with "
        "checkpoint=... the same fit on a new cluster goes on from what was reached"
    )
