"""What an interrupted fit leaves behind: the model so far, or the one before, but no half of one."""

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
    """A fit under way.

    Attributes
    ----------
    whole : bool
        Whether the estimator has learned all that there is: from then on Ctrl-C takes nothing back.
    """

    def __init__(self, ctrl_c: Interrupts) -> None:
        self.ctrl_c = ctrl_c
        self.whole = False


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[FitAttempt]:
    """Take back what a failing fit has learned; keep what an interrupted one has, and pass Ctrl-C on.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C: with the earlier model, or none, if the fit had nothing to show yet; with the
        new one, as far as it came, unless the estimator's `on_interrupt` is "return".
    """
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
                    # A library has answered Ctrl-C with an error of its own.
                    raise KeyboardInterrupt from error
                raise
            ctrl_c.pressed = True
        if ctrl_c.pressed and estimator.on_interrupt == "raise":
            name = type(estimator).__name__
            raise KeyboardInterrupt(f"the {name} that was being fitted holds the best model so far")


def leaving_on_interrupt(work: Callable[[], Result]) -> Result:
    """Do work of which Python hears nothing until it is done, without Ctrl-C waiting for it.

    It is done in a thread of its own. After Ctrl-C that thread is left to itself: nobody can stop it, it
    ends with its work or with the process, and what it finds is dropped.

    Examples
    --------
    >>> leaving_on_interrupt(lambda: 6 * 7)
    42
    """
    if threading.current_thread() is not threading.main_thread():
        # Others get no signals.
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
