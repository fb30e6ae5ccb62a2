"""The command line: `structinv demo`, `fit`, `evaluate`, `predict`, `explain`."""

from .commands import app

__all__ = ["app"]
