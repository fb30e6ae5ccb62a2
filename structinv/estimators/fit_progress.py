"""A running fit: callbacks, progress, and the earlier model after a failure."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from ..solvers import Solution
from ..solvers.loop import Interrupts, interrupts
from ..solvers.stopping import Progress
from ..utils.parameters import learned_attributes, restorer
from ..utils.printing import passes_shown_by, print_line

# Interval of progress lines for passes over rows in blocks.
SECONDS_BETWEEN_LINES = 3.0

Result = TypeVar("Result")


try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks; `verbose` prints instead

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replacement of scikit-learn's mixin before version 1.9."""

    def _with_callbacks(method: Callable) -> Callable:
        return method


_display: ContextVar[Callable[[Progress], None] | None] = ContextVar("iterations", default=None)
_Method = TypeVar("_Method", bound=Callable[..., Any])


def with_callbacks(method: _Method) -> _Method:
    """Return a method with the same types that sets up callbacks."""
    return cast(_Method, _with_callbacks(method))


class FitTask:
    """Report of a fit and its iterations to the callbacks of scikit-learn, if any."""

    def __init__(
        self,
        estimator: Any,
        shown: tuple[Any, Any, Any],
        learn: Callable[[Any, Solution], None],
    ) -> None:
        X, y, sample_weight = shown
        self.estimator = estimator
        # Scorers receive the metadata as keyword arguments.
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data = {"X": X, "y": y, "metadata": metadata}
        self.learn = learn
        self.ended = False
        self.has_callbacks = hasattr(estimator, "_skl_callbacks")
        if self.has_callbacks:
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def __call__(self, progress: Progress) -> bool:
        """Report an iteration; return True if the fit must end."""
        context = self.context.subcontext(task_name="iteration")
        context.call_on_fit_task_begin(estimator=self.estimator, **self.data)

        def attributes() -> dict[str, Any]:
            fitted = copy.copy(self.estimator)
            self.learn(fitted, progress.solution())
            return learned_attributes(fitted)

        self.ended |= self._end(context, attributes)
        return self.ended

    def end(self) -> None:
        """Report the end of the fit."""
        if self.has_callbacks:
            self._end(self.context, {})

    def _end(self, context: Any, attributes: Any) -> bool:
        return bool(
            context.call_on_fit_task_end(
                estimator=self.estimator, **self.data, reconstruction_attributes=attributes
            )
        )


def labeled_alone(
    X: Any, y: np.ndarray, sample_weight: Any, labeled: np.ndarray
) -> tuple[Any, Any, Any]:
    """Return rows, labels and sample weights of labeled rows only, for scorers."""
    if len(labeled) < len(y):
        X, y = _safe_indexing(X, labeled), y[labeled]
        if np.ndim(sample_weight):
            sample_weight = _safe_indexing(sample_weight, labeled)
    return X, y, sample_weight


def passes_shown(name: str, verbose: int) -> AbstractContextManager[None]:
    """Return a context that prints the progress of passes over rows in blocks."""
    if not verbose:
        return nullcontext()

    def show(share: float, seconds: float) -> None:
        print_line(f"[{name}] pass over the rows: {share:.0%} done, about {seconds:.0f} s left")

    return passes_shown_by(show, SECONDS_BETWEEN_LINES)


@contextmanager
def iterations_shown_by(display: Callable[[Progress], None]) -> Iterator[None]:
    """Pass the progress of this thread's fits to a function, after each iteration."""
    before = _display.set(display)
    try:
        yield
    finally:
        _display.reset(before)


def displays(name: str, verbose: int) -> list[Callable[[Progress], None]]:
    """Return the callbacks that show the progress of a fit."""
    shown = _display.get()
    return [*([] if shown is None else [shown]), *([printer(name)] if verbose else [])]


def printer(name: str) -> Callable[[Progress], None]:
    """Return a callback that prints at most five lines per second to standard error."""
    last = -np.inf

    def show(progress: Progress) -> None:
        nonlocal last
        if progress.checked and progress.seconds > last + 0.2:
            last = progress.seconds
            record = progress.history[-1]
            print_line(
                f"[{name}] iteration {progress.iteration:5d}  {progress.seconds:7.1f} s  "
                f"primal {record.primal:.6g}  dual {record.dual:.6g}  "
                f"relative gap {progress.relative_gap:.2e}"
            )

    return show


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
