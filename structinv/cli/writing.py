"""Output of the commands: checks of paths, atomic writing, standard output."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import typer

from ..utils.files import check_writable, write_atomically


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


def drop_the_rest_of_the_output() -> None:
    """Redirect standard output to the null device after a broken pipe.

    The interpreter flushes standard output at its end, which would raise again.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
