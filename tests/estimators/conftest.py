"""Fixtures of estimators."""

import pytest

import structinv.estimators.base


@pytest.fixture
def no_work(monkeypatch):
    """A solver that must not be called."""

    def refuse(*args, **kwargs):
        pytest.fail("work has begun")

    monkeypatch.setattr(structinv.estimators.base, "solve", refuse)
