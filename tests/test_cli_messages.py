"""The command line: lines on what runs, how long it may take, and how far it is."""

import time

import pytest

from structinv import InvariantTextClassifier
from structinv.cli import messages
from structinv.cli.row_files import DocumentFeatures
from structinv.datasets import make_tagged_text, write_conll

from .test_cli import run, write_mails

DROP = ("--oracle", "fdrop", "--max-changes", 1, "--C", 0.1)


@pytest.fixture
def mails(tmp_path):
    return write_mails(tmp_path / "train.jsonl", seed=0)


def slow(monkeypatch, kind, seconds):
    """Let each fit of a class take longer."""
    fit = kind.fit

    def slower(self, *given):
        time.sleep(seconds)
        return fit(self, *given)

    monkeypatch.setattr(kind, "fit", slower)


@pytest.mark.parametrize(
    ("more", "takes"),
    [
        ((), "without a time limit; --max-seconds sets one"),
        (("--max-seconds", 60), "at most about 60 s, from --max-seconds"),
    ],
)
def test_a_slow_fit_says_first_what_runs_and_how_long_it_may_take(
    mails, tmp_path, monkeypatch, more, takes
):
    monkeypatch.setattr(messages, "QUIET", 0.2)
    slow(monkeypatch, InvariantTextClassifier, 1.0)
    result = run("fit", mails, *DROP, *more, "-o", tmp_path / "m")
    assert result.exit_code == 0
    first, *others = result.stderr.splitlines()
    assert first.startswith("structinv: training: 60 texts; ")
    assert first.endswith(takes)
    assert others == []


def test_each_work_that_is_not_fast_has_a_line(mails, tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "QUIET", 0.2)
    monkeypatch.setattr(messages, "AT_LEAST", 0.2)
    slow(monkeypatch, InvariantTextClassifier, 0.6)
    learn = DocumentFeatures.learn

    def slower(*given):
        time.sleep(0.6)
        return learn(*given)

    monkeypatch.setattr(DocumentFeatures, "learn", slower)
    lines = run("fit", mails, *DROP, "-o", tmp_path / "m").stderr.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["reading train.jsonl", "training"]


def test_a_fast_command_prints_no_line(mails, tmp_path):
    assert run("fit", mails, *DROP, "--tol", 0.1, "-o", tmp_path / "m").stderr == ""


def test_a_line_comes_before_a_read_that_is_estimated_to_be_long(mails, tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "BYTES_PER_SECOND", 1.0)
    result = run("fit", mails, *DROP, "-o", tmp_path / "m")
    size = mails.stat().st_size
    assert result.stderr == f"structinv: reading train.jsonl: 0 MB, about {size} s\n"


@pytest.mark.parametrize("command", [("evaluate",), ("predict",), ("explain", "--row", 0), ("report",)])
def test_the_other_commands_have_a_first_line(mails, tmp_path, monkeypatch, command):
    run("fit", mails, *DROP, "-o", tmp_path / "m")
    monkeypatch.setattr(messages, "QUIET", 0.05)
    monkeypatch.setattr(messages, "AT_LEAST", 0.05)
    certify, predict = InvariantTextClassifier.certify, InvariantTextClassifier.predict
    for name, method in (("certify", certify), ("predict", predict)):

        def slower(self, *given, method=method, **more):
            time.sleep(0.3)
            return method(self, *given, **more)

        monkeypatch.setattr(InvariantTextClassifier, name, slower)
    name, *options = command
    options += ["-o", tmp_path / "report"] if name == "report" else []
    result = run(name, tmp_path / "m", mails, *options)
    assert result.exit_code == 0, result.output
    first = result.stderr.splitlines()[0]
    assert first.startswith("structinv: ")
    assert first.endswith("usually seconds to minutes")


def test_fits_of_sentences_with_edits_show_their_iterations(tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "QUIET", 0.0)
    monkeypatch.setattr(messages, "AT_LEAST", 0.0)
    monkeypatch.setattr(messages, "LATER", 0.0)
    write_conll(tmp_path / "train.conll", *make_tagged_text(60, random_state=0))
    result = run("fit", tmp_path / "train.conll", *DROP, "-o", tmp_path / "m")
    assert result.exit_code == 0
    lines = [line for line in result.stderr.splitlines() if "iteration" in line]
    assert len(lines) > 1
    assert all(line.startswith("structinv: training: iteration ") for line in lines)
    assert "relative gap" in lines[-1]
