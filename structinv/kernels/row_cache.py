"""Cache of results for arrays of rows, by a digest of their values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np

from ..oracles.cache import Record


class RowCache:
    """Cache of results for arrays of rows, such as ``k(x, x)``, by their values.

    An array that was modified in place has another digest. The cache stores digests and results of the
    last arrays, not the arrays.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[tuple[Any, ...], Record] = OrderedDict()
        self._lock = Lock()

    def get(self, X: np.ndarray, key: Any, make: Callable[[], Any]) -> Any:
        """Return the result for an array, computed if it is not cached; do not modify it.

        Shapes: `X` (n, d).
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
