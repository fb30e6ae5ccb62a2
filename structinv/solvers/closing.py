"""How long it takes to end a run, so that the loop can keep it back from the time there is."""

from __future__ import annotations

import numpy as np

# Share of the time limit that is kept back for the last check at most.
MOST_KEPT_BACK = 0.5


class Closing:
    """Seconds that the last check and the certificate will take, as the checks before have shown.

    Where a check asks no oracle, as the solver knows its values from the step, the certificate is a
    pass on top of it, and as slow a row as the step was. As long as there has been no check, a pass as
    slow as the step's is kept back: a step asks each row, too, and does more.

    Parameters
    ----------
    deadline : float
        In seconds since the start; infinity if there is none.

    Examples
    --------
    >>> closing = Closing(deadline=10.0)
    >>> closing.is_due(9.0)
    False
    >>> closing.stepped(3.0, asked=100, rows=100)
    >>> closing.seconds
    3.0
    >>> closing.checked(2.0, asked=100)
    >>> closing.seconds, closing.is_due(9.0)
    (2.0, True)
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._check: float | None = None
        self._pass = 0.0

    def stepped(self, seconds: float, asked: int, rows: int) -> None:
        """Learn from a step in which so many rows were asked; a pass asks `rows`."""
        if asked > 0:
            self._pass = seconds * rows / asked

    def checked(self, seconds: float, asked: int) -> None:
        """Learn from a check in which so many rows were asked."""
        self._check = seconds if asked > 0 else seconds + self._pass

    @property
    def seconds(self) -> float:
        """What is kept back: never more than half of the time there is, so that steps are made, too."""
        if np.isinf(self.deadline):
            return 0.0
        ending = self._pass if self._check is None else self._check
        return min(ending, MOST_KEPT_BACK * self.deadline)

    def is_due(self, now: float) -> bool:
        """Whether a run that is to end by the deadline has to end now."""
        return now + self.seconds >= self.deadline
