"""Pages of all cases."""

import pytest

from .cases import ATTACK, CASES, written


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages of all cases, each written when it is first asked for."""
    folder = tmp_path_factory.mktemp("reports")

    class Pages(dict):
        def __missing__(self, name):
            self[name] = written(folder, *CASES[name](), title=ATTACK, n_examples=3)
            return self[name]

    return Pages()


@pytest.fixture
def unpainted(monkeypatch):
    """Figures are drawn but not painted, which takes most of the time of a page."""

    def savefig(figure, stream, **_):
        stream.write("<svg ></svg>")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", savefig)
