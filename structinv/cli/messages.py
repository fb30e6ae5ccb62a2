"""Messages of the command line: one-line errors and warnings, progress bars."""

from __future__ import annotations

import functools
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, ParamSpec, cast

import numpy as np
import rich.markup
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..estimators.callbacks import iterations_shown_by
from ..utils.passes import passes_shown_by
from ..utils.printing import Quiet
from ..utils.visible import shown
from .writing import drop_the_rest_of_the_output

Parameters = ParamSpec("Parameters")

# The parameter at the start of an error message of the library.
_PARAMETER = re.compile(
    r"^(error: )(C|tol|max_seconds|max_changes|low|high|value|add|scale|radius|pixels|degrees|factors"
    r"|shape|gamma|degree) must\b"
)

# Advice of the library's warnings, and its form on the command line.
_PHRASES = {
    "pass label_key": "pass --label-key",
    "pass text_key": "pass --text-key",
    "class_weight='balanced'": "--class-weight balanced",
    "structinv.select_changes compares such settings on held-out samples": (
        "--C auto compares values of C on held-out samples"
    ),
}

# Longer texts lose their middle.
MOST_SHOWN = 2000

# Seconds between two updates of the spinner's text.
PAUSE = 0.5
# Seconds before the first line of a command, after the start and after the imports; between later lines.
QUIET, AT_LEAST, LATER = 4.0, 0.5, 30.0

# Estimated rate of reading texts and rows.
BYTES_PER_SECOND = 1e7

USUALLY = "usually seconds to minutes"


def one_line_errors(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Decorate a command: print errors as one line, without a traceback.

    The exit code is 2 after an error, 130 after Ctrl-C and 141 after a broken pipe, as in a shell. A
    command that is not fast prints what runs and how long it may take.
    """

    @functools.wraps(command)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        if isinstance(sys.stdout, TextIOWrapper):
            # A label with characters that the terminal lacks must not stop the command.
            sys.stdout.reconfigure(errors="backslashreplace")
        watch = Watch()
        token = _watch.set(watch)
        begin(command.__name__, USUALLY)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            say("interrupted: nothing was written")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            drop_the_rest_of_the_output()
            raise typer.Exit(141) from None
        except SystemExit as exit:
            # Consoles of rich exit with 1, after they redirect the rest of the output.
            if isinstance(exit.__context__, BrokenPipeError):
                raise typer.Exit(141) from None
            raise
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            say(f"error: {reason}")
            raise typer.Exit(2) from None
        except (ValueError, TypeError, NotImplementedError, MemoryError, ModuleNotFoundError) as error:
            say(f"error: {error}")
            raise typer.Exit(2) from None
        finally:
            watch.stop()
            _watch.reset(token)

    return guarded


def say(text: str) -> None:
    """Print one line on standard error, with options instead of names in Python."""
    text = _PARAMETER.sub(lambda found: f"{found[1]}--{found[2].replace('_', '-')} must", text)
    for in_python, in_shell in _PHRASES.items():
        text = text.replace(in_python, in_shell)
    line = shown(" ".join(text.split()), MOST_SHOWN)
    typer.echo(f"structinv: {line}", cast(IO[str], Quiet(sys.stderr)))


def escape(text: str) -> str:
    """Return text from a file for rich: visible, cut and without markup."""
    return rich.markup.escape(shown(text, MOST_SHOWN))


def quiet_console(error: bool = True) -> Console:
    """Return a console of standard error or output that ignores a lost stream."""
    return Console(file=cast(IO[str], Quiet(sys.stderr if error else sys.stdout)))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


class Watch:
    """Lines on the work of a command that is not fast, and on its progress.

    The lines go to standard error, from a thread. On a terminal, a spinner shows the progress.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._said = False
        self._next_line = np.inf
        self._timer = threading.Timer(0.0, self._say, [""])

    def begin(self, text: str, at_once: bool = False) -> None:
        """Begin work, with a line at once or if it is not fast; end earlier work."""
        self.stop()
        self._next_line = np.inf
        if at_once:
            self._say(text)
            return
        waited = 0.0 if self._said else time.monotonic() - self._began
        self._timer = threading.Timer(max(AT_LEAST, QUIET - waited), self._say, [text])
        self._timer.daemon = True
        self._timer.start()

    def progress(self, text: str) -> None:
        """Print a later line, at intervals."""
        if time.monotonic() >= self._next_line:
            self._say(text)

    def stop(self) -> None:
        """Print no line until other work begins."""
        self._timer.cancel()

    def _say(self, text: str) -> None:
        self._said, self._next_line = True, time.monotonic() + LATER
        say(text)


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


def begin(what: str, takes: str, seconds: float = 0.0) -> None:
    """Begin some work of the running command, with a line if it is not fast."""
    watch = _watch.get()
    if watch is not None:
        watch.begin(f"{what}: {takes}", at_once=seconds > QUIET)


@contextmanager
def working_on(what: str, takes: str = USUALLY, seconds: float = 0.0) -> Iterator[None]:
    """Show the work on standard error: a spinner on a terminal, otherwise lines.

    The arguments are those of `begin`.
    """
    what = shown(what, 200)
    begin(what, takes, seconds)
    console, watch = quiet_console(), _watch.get()

    def text_of(progress: Any) -> str:
        gap = progress.relative_gap
        return f"iteration {progress.iteration}" + (f", relative gap {gap:.1e}" if gap < np.inf else "")

    if not console.is_terminal:

        def add_line(progress: Any) -> None:
            if watch is not None:
                watch.progress(f"{what}: {text_of(progress)}, {progress.seconds:.0f} s")

        with iterations_shown_by(add_line):
            yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)

        def add(text: str) -> None:
            progress.update(task, description=f"{what} ({text})" if text else what)

        def add_share(share: float, seconds: float) -> None:
            add(f"pass: {share:.0%}, about {seconds:.0f} s left")

        iterations = iterations_shown_by(lambda progress: add(text_of(progress)))
        with passes_shown_by(add_share, PAUSE), iterations:
            yield


def reading_of(data: Path) -> tuple[str, str, float]:
    """Return what reading a file is, how long it may take, and the estimated seconds.

    Compressed files have about four times the size.
    """
    if not data.is_file():
        return f"reading {data}", USUALLY, 0.0
    size = data.stat().st_size * (4.0 if data.suffix in (".gz", ".xz") else 1.0)
    seconds = size / BYTES_PER_SECOND
    return f"reading {data.name}", f"{size / 1e6:.0f} MB, about {seconds:.0f} s", seconds


def training_time(max_seconds: float | None) -> str:
    """Return how long a fit may take."""
    if max_seconds is None:
        return "seconds to hours, without a time limit; --max-seconds sets one"
    return f"at most about {max_seconds:g} s, from --max-seconds"


@contextmanager
def progress_of(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error, if it is a terminal."""
    begin(what, USUALLY)
    console = quiet_console()
    if not console.is_terminal:
        yield lambda done: None
        return
    text = TextColumn("{task.description}", markup=False)
    times = () if total is None else (TaskProgressColumn(), TextColumn("left:"), TimeRemainingColumn())
    columns = (SpinnerColumn(), text, BarColumn(), *times, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(shown(what, 200), total=total)
        yield lambda done: progress.update(task, completed=done)
