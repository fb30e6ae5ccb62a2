"""Messages of the command line: one-line errors and warnings, progress bars."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import IO, Any, ParamSpec, cast

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

from ..utils.compile_notice import compiling_shown_by
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
    "class_weight='balanced'": "--class-weight balanced",
    "structinv.select_changes compares such settings on held-out samples": (
        "--C auto compares values of C on held-out samples"
    ),
}

# Longer texts lose their middle.
MOST_SHOWN = 2000

# Seconds between two updates of the spinner's text.
PAUSE = 0.5


def one_line_errors(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Decorate a command: print errors as one line, without a traceback.

    The exit code is 2 after an error, 130 after Ctrl-C and 141 after a broken pipe, as in a shell.
    """

    @functools.wraps(command)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        if isinstance(sys.stdout, TextIOWrapper):
            # A label with characters that the terminal lacks must not stop the command.
            sys.stdout.reconfigure(errors="backslashreplace")
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
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            say(f"error: {reason}")
            raise typer.Exit(2) from None
        except (ValueError, TypeError, NotImplementedError, MemoryError, ModuleNotFoundError) as error:
            say(f"error: {error}")
            raise typer.Exit(2) from None

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


@contextmanager
def working_on(what: str) -> Iterator[None]:
    """Show a spinner with the elapsed time on standard error, if it is a terminal."""
    what = shown(what, 200)
    console = quiet_console()
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)

        def add(text: str) -> None:
            progress.update(task, description=f"{what} ({text})" if text else what)

        def add_share(share: float, seconds: float) -> None:
            add(f"pass: {share:.0%}, about {seconds:.0f} s left")

        with compiling_shown_by(add), passes_shown_by(add_share, PAUSE):
            yield


@contextmanager
def progress_of(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error, if it is a terminal.

    Parameters
    ----------
    what : str
        Description in front of the bar.
    total : int or None
        Amount of work; None if unknown.

    Yields
    ------
    show : callable
        Function that takes the amount of finished work and updates the bar.
    """
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
