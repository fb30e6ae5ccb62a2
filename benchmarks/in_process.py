"""Cluster simulated in one process, which counts the bytes sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from structinv.dask.cluster import Call
from structinv.dask.group import Request, Response, forget
from structinv.dask.packed import PackedVector


def vectors(thing: Any) -> list[PackedVector]:
    """Return the vectors in an argument or a result of a group."""
    if isinstance(thing, Request):
        return [thing.share]
    if isinstance(thing, Response):
        return [thing.touching, thing.standing]
    first = thing[0] if isinstance(thing, tuple) else thing
    return [first] if isinstance(first, PackedVector) else []


class InProcess:
    """Cluster in one process, like `structinv.dask.cluster.Cluster`.

    Attributes
    ----------
    dense, sparse : float
        Megabytes sent: all values of vectors, and only nonzero values if that is less.
    work : float
        Processor time of all groups, in seconds.
    """

    fit = "simulated"

    def __init__(self, groups: list[Any]) -> None:
        self.groups = groups
        self.reset()

    def reset(self) -> None:
        """Reset the counts."""
        self.dense = self.sparse = self.work = 0.0

    def begin_round(self) -> None:
        """Do nothing."""

    def balance(self, _: Iterable[int]) -> None:
        """Do nothing; the workers stay the same."""

    def ask(self, p: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return the result of a group, and count the bytes sent."""
        began = time.process_time()
        found = function(self.groups[p], self.fit, *arguments)
        self.work += time.process_time() - began
        sent = [vector for thing in (*arguments, found) for vector in vectors(thing)]
        self.dense += 8e-6 * len(sent) * (self.groups[p].recipe.space.size + 1)
        self.sparse += 1e-6 * sum(vector.nbytes + 8 for vector in sent)
        return found

    def all_of(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return the results of a function for all groups."""
        return [self.ask(p, function, arguments) for p in range(len(self.groups))]

    def call(self, p: int, function: Callable[..., Any], arguments: tuple[Any, ...], at: int) -> Call:
        """Return a finished call."""
        done: Future[Any] = Future()
        done.set_result(self.ask(p, function, arguments))
        return Call(done, function, arguments, at)

    def finished(self, calls: dict[int, Call]) -> dict[int, Any]:
        """Return all results."""
        found = {p: call.handle.result() for p, call in calls.items()}
        calls.clear()
        return found

    def forget(self, groups: Iterable[int]) -> None:
        """Drop the states of groups."""
        for p in groups:
            asyncio.run(forget(self.fit, p))
