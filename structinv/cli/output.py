"""Output of the command line: messages, one-line errors, and files."""

from __future__ import annotations

import functools
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, ParamSpec, cast

import numpy as np
import typer
from rich.console import Console
from rich.status import Status

from ..estimators.fit_progress import iterations_shown_by
from ..other_models.linear_models import without_names
from ..utils.files import check_writable, write_atomically
from ..utils.printing import Quiet
from ..utils.texts import shown

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
            _drop_the_rest()
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


def print_line(console: Console, text: str) -> None:
    """Print one visible line, without the middle of a long one."""
    print_text(console, shown(text, MOST_SHOWN))


def print_text(console: Console, text: str) -> None:
    """Print visible text without line breaks, also on a narrow terminal."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def is_standard(output: Path) -> bool:
    """Return True if ``-o`` names standard output."""
    return str(output) in ("-", "/dev/stdout")


def check_output(output: Path, *inputs: Path) -> None:
    """Raise ValueError before the work if the output is not writable or an input."""
    if is_standard(output):
        return
    for each in inputs:
        if output.exists() and each.exists() and output.samefile(each):
            raise ValueError(f"--output must differ from {each}, which is an input")
    if output.is_dir():
        raise ValueError(f"--output must be a file, got the folder {output}")
    if not output.parent.is_dir():
        raise ValueError(f"--output must be in an existing folder, got {output}: create {output.parent}")
    check_writable(output)


def check_folder(out: Path) -> None:
    """Raise ValueError before the work if ``--out`` cannot be created or written."""
    there = next((each for each in (out, *out.parents) if each.exists()), out)
    if not there.is_dir():
        raise ValueError(f"--out must be a new or existing folder, but {there} is a file")
    try:
        # Permissions are not enough: even an administrator cannot write to a read-only file system.
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        raise ValueError(
            f"--out must be a writable folder, but {there} is not writable: {error.strerror}"
        ) from None


def write(output: Path, content: bytes) -> None:
    """Write a file atomically, or write the bytes to standard output."""
    if is_standard(output):
        typer.echo(content, nl=False)
        sys.stdout.flush()
    else:
        write_atomically(output, content)


def _drop_the_rest() -> None:
    """Redirect standard output to the null device after a broken pipe.

    The interpreter flushes standard output at its end, which would raise again.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
