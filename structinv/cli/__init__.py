"""Command line: fit, evaluate, predict, explain, convert, demo and warm."""

from ..utils.early_interrupts import command_line_imports

with command_line_imports():
    from .commands import app as app
