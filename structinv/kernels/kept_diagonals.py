"""Diagonals of tables that are asked about again and again, as by machines that ask in blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np

from ..oracles.kept import Record

# Tables whose diagonals are kept: the centres of a machine, and blocks of its rows.
MOST = 64


class KeptDiagonals:
    """``k(x, x)`` of the rows of tables, by a digest of all their numbers.

    Arrays may change in place: those that hold other numbers are others. Only the digests and the
    diagonals are kept, those of the tables asked about last.

    Examples
    --------
    >>> kept, X = KeptDiagonals(), np.ones((2, 3))
    >>> kept.get(X, "sums", lambda: X.sum(axis=1))
    array([3., 3.])
    >>> X[0] = 2.0
    >>> kept.get(X, "sums", lambda: X.sum(axis=1))
    array([6., 3.])
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Any, ...], Record] = OrderedDict()
        self._lock = Lock()

    def get(self, X: np.ndarray, key: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The diagonal of a table, an array of the caller's own.

        Parameters
        ----------
        X : (n, d) array
        key : object
            Of the kernel: equal for kernels with equal values.
        make : callable
            Makes the diagonal, where it is not known.
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
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return np.array(record.made)

    def __reduce__(self) -> tuple[type[KeptDiagonals], tuple[()]]:
        return KeptDiagonals, ()
