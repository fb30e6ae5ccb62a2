"""Marks of tests for what only some systems have."""

import os

import pytest

posix_only = pytest.mark.skipif(os.name != "posix", reason="requires pipes, devices or signals of POSIX")
