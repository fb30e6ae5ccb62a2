"""What commands write: whole files, or bytes on standard output."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import typer

from ..persistence.model_files import check_writable
from ..utils.files import write_atomically


def is_standard(output: Path) -> bool:
    """Whether ``-o`` names standard output."""
    return str(output) in ("-", "/dev/stdout")


def check_output(output: Path, *inputs: Path) -> None:
    """Fail before the work rather than after it, and never write over what is read."""
    if is_standard(output):
        return
    for each in inputs:
        if output.exists() and each.exists() and output.samefile(each):
            raise ValueError(f"--output must be another file than {each}, which is read")
    if output.is_dir():
        raise ValueError(f"--output must be a file, and {output} is a folder")
    if not output.parent.is_dir():
        raise ValueError(f"--output must lie in an existing folder, and {output.parent} is none")
    check_writable(output)


def check_folder(out: Path) -> None:
    """Fail before the work where ``--out`` names no folder that can be made or filled."""
    there = next((each for each in (out, *out.parents) if each.exists()), out)
    if not there.is_dir():
        raise ValueError(f"--out must be a folder, or one that can be made, and {there} is none")
    try:
        # Permissions do not tell everything: an administrator cannot write to every file system either.
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        raise ValueError(
            f"--out must be a folder that can be written, and nothing can be written to {there}: "
            f"{error.strerror}"
        ) from None


def write(output: Path, content: bytes) -> None:
    """Write a file as a whole, or the bytes to standard output."""
    if is_standard(output):
        typer.echo(content, nl=False)
        sys.stdout.flush()
    else:
        write_atomically(output, content)


def drop_the_rest_of_the_output() -> None:
    """Nobody reads standard output any more: let the interpreter's own flush at the end go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
