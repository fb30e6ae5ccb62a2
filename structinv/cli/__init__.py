"""The command line: `structinv demo`, `fit`, `evaluate`, `predict`, `explain`, `warm`."""

from .commands import app as app
