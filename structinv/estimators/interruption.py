"""What an interrupted fit leaves behind: the model so far, or the one before, but no half of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.base import BaseEstimator

from ..solvers.interruption import Interrupts, interrupts

ON_INTERRUPT = ("raise", "return")


def check_on_interrupt(value: Any) -> None:
    """Raise ValueError unless `value` says what is to be done after Ctrl-C."""
    if not isinstance(value, str) or value not in ON_INTERRUPT:
        raise ValueError(f"on_interrupt must be one of {list(ON_INTERRUPT)}, got {value!r}")


class Learning:
    """A fit under way.

    Attributes
    ----------
    whole : bool
        Whether the estimator has learnt all that there is: from then on Ctrl-C takes nothing back.
    """

    def __init__(self, ctrl_c: Interrupts) -> None:
        self.ctrl_c = ctrl_c
        self.whole = False


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[Learning]:
    """Take back what a failing fit has learnt; keep what an interrupted one has, and pass Ctrl-C on.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C: with the earlier model, or none, if the fit had nothing to show yet; with the
        new one, as far as it came, unless the estimator's `on_interrupt` is "return".
    """
    with interrupts() as ctrl_c:
        before = learnt_attributes(estimator)
        learning = Learning(ctrl_c)
        try:
            yield learning
            ctrl_c.welcome = False
        except BaseException as error:
            if not (learning.whole and isinstance(error, KeyboardInterrupt)):
                for name in learnt_attributes(estimator):
                    delattr(estimator, name)
                vars(estimator).update(before)
                if ctrl_c.pressed and isinstance(error, Exception):
                    # A library has answered Ctrl-C with an error of its own.
                    raise KeyboardInterrupt from error
                raise
            ctrl_c.pressed = True
        if ctrl_c.pressed and estimator.on_interrupt == "raise":
            name = type(estimator).__name__
            raise KeyboardInterrupt(f"the {name} that was being fitted holds the best model so far")


def learnt_attributes(estimator: BaseEstimator) -> dict[str, Any]:
    """What an estimator has learnt, by name."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}
