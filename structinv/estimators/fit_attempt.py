"""Atomic fits: an interrupted or failing fit leaves a complete model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from sklearn import config_context, get_config
from sklearn.base import BaseEstimator

from ..solvers.interruption import Interrupts, interrupts
from ..utils.fitted_state import restorer

Result = TypeVar("Result")


class FitAttempt:
    """State of a running fit."""

    def __init__(self, ctrl_c: Interrupts) -> None:
        self.ctrl_c = ctrl_c
        self.whole = False


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[FitAttempt]:
    """Restore the earlier model after a failure; keep the best one after Ctrl-C."""
    with interrupts() as ctrl_c:
        restore = restorer(estimator)
        learning = FitAttempt(ctrl_c)
        try:
            yield learning
            ctrl_c.interruptible = False
        except BaseException as error:
            if not (learning.whole and isinstance(error, KeyboardInterrupt)):
                restore()
                if ctrl_c.pressed and isinstance(error, Exception):
                    # A library has converted Ctrl-C to another error.
                    raise KeyboardInterrupt from error
                raise
            ctrl_c.pressed = True
        if ctrl_c.pressed and estimator.on_interrupt == "raise":
            name = type(estimator).__name__
            raise KeyboardInterrupt(
                f"{name} was interrupted during fit and contains the best model so far"
            )


def leaving_on_interrupt(work: Callable[[], Result]) -> Result:
    """Run work that Python cannot interrupt, so that Ctrl-C returns immediately.

    The work runs in a separate thread. After Ctrl-C this thread continues to its end or to that of the
    process, and its result is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        # Other threads receive no signals.
        return work()
    settings, done = get_config(), Future[Result]()

    def work_there() -> None:
        try:
            with config_context(**settings):
                done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work_there, daemon=True).start()
    return done.result()
