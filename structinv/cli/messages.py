"""Messages of the command line: one-line errors and warnings, and a spinner."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import IO, Any, ParamSpec, cast

import numpy as np
import typer
from rich.console import Console
from rich.status import Status

from ..estimators.fit_progress import iterations_shown_by
from ..other_models.linear_models import without_names
from ..utils.printing import Quiet
from ..utils.texts import shown
from .writing import drop_the_rest_of_the_output

Parameters = ParamSpec("Parameters")

# The parameter at the start of an error message of the library.
_PARAMETER = re.compile(r"^(error: )(C|tol|max_seconds|max_changes) must\b")

# Longer texts lose their middle.
MOST_SHOWN = 2000


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
            # Columns of files are matched by name before the model reads them.
            with without_names():
                warnings.showwarning = _show_warning
                command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            say("interrupted: no file was written")
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

    return guarded


def say(text: str) -> None:
    """Print one line on standard error, with options instead of names in Python."""
    text = _PARAMETER.sub(lambda found: f"{found[1]}--{found[2].replace('_', '-')} must", text)
    line = shown(" ".join(text.split()), MOST_SHOWN)
    typer.echo(f"structinv: {line}", cast(IO[str], Quiet(sys.stderr)))


def quiet_console(error: bool = True) -> Console:
    """Return a console of standard error or output that ignores a lost stream."""
    return Console(file=cast(IO[str], Quiet(sys.stderr if error else sys.stdout)))


def status(what: str) -> Status:
    """Show a spinner on standard error, if it is a terminal."""
    return quiet_console().status(what)


@contextmanager
def training_shown() -> Iterator[None]:
    """Show the iterations of a fit on a terminal."""
    with status("training") as line:

        def show(progress: Any) -> None:
            gap = progress.relative_gap
            more = f", relative gap {gap:.1e}" if gap < np.inf else ""
            line.update(f"training: iteration {progress.iteration}{more}")

        with iterations_shown_by(show):
            yield


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")
