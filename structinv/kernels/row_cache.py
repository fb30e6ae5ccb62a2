"""What is made of rows that are asked about again and again, as by machines that ask in blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np

from ..oracles.cache import Record


class RowCache:
    """What is made of tables of rows, such as ``k(x, x)``, by a digest of all their numbers.

    Arrays may change in place: those that hold other numbers are others. Only the digests and what was
    made are kept, of the tables asked about last.

    Parameters
    ----------
    most : int
        How many tables.

    Examples
    --------
    >>> kept, X = RowCache(2), np.ones((2, 3))
    >>> kept.get(X, "sums", lambda: X.sum(axis=1))
    array([3., 3.])
    >>> X[0] = 2.0
    >>> kept.get(X, "sums", lambda: X.sum(axis=1))
    array([6., 3.])
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[tuple[Any, ...], Record] = OrderedDict()
        self._lock = Lock()

    def get(self, X: np.ndarray, key: Any, make: Callable[[], Any]) -> Any:
        """What was made of a table, the very object: not to be changed.

        Parameters
        ----------
        X : (n, d) array
        key : object
            Of who makes it: equal where the same is made.
        make : callable
            Makes it, where it is not known.
        """
        numbers = np.ascontiguousarray(X)
        digest = blake2b(numbers.data if numbers.size else b"", digest_size=16).digest()
        table = digest, X.shape, X.dtype
        with self._lock:
            record = self._known.get(table)
        if record is None or record.key != key:
            record = Record(key, make())
        with self._lock:
            self._known[table] = record
            self._known.move_to_end(table)
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return record.made

    def __reduce__(self) -> tuple[type[RowCache], tuple[int]]:
        return RowCache, (self.most,)
