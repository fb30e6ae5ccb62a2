"""What an oracle makes once for all questions about the same rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class Kept:
    """Things by name, each made when it is first asked for.

    It belongs to the copy of an oracle that `InvarianceOracle.prepared` gives, and is freed with it.
    Pickles and deep copies are empty, since everything can be made again.

    Examples
    --------
    >>> kept = Kept()
    >>> kept.get("table", lambda: [1, 2]) is kept.get("table", lambda: [1, 2])
    True
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def get(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """What has this name, made now if there is nothing yet."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()
