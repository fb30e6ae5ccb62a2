"""Command line: fit, evaluate, predict, explain, convert, demo and warm."""

from .commands import app as app
