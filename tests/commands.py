"""Commands of the command line, run in this process, and data for them."""

import json

import numpy as np
from sklearn.datasets import load_svmlight_file
from typer.testing import CliRunner

from structinv.cli import app

WORDS = {"spam": ["cheap", "pills", "winner", "money", "offer"], "ham": ["meeting", "notes", "lunch"]}


def run(*arguments, input=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input, env={"COLUMNS": "200"})


def succeed(*arguments, input=None):
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments, input=None):
    """The one line of an error."""
    result = run(*arguments, input=input)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if "error: " in line]
    assert line.startswith("structinv: error: ")
    assert "Traceback" not in result.output
    return line


def write_mails(path, seed, n_mails=60):
    rng = np.random.default_rng(seed)
    with open(path, "w") as stream:
        for k in range(n_mails):
            label = ("ham", "spam")[k % 2]
            words = [*rng.choice(WORDS[label], 4), *rng.choice(["the", "and", "for"], 3)]
            stream.write(json.dumps({"text": " ".join(words), "label": label}) + "\n")
    return path


def texts_of(path):
    """Texts and labels of JSON lines."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record["text"] for record in records], np.array([record["label"] for record in records])


def rows_of(path):
    return load_svmlight_file(str(path), n_features=100, zero_based=False)


def table_rows(text):
    """The cells of indented lines, split at blanks."""
    return [line.replace(" %", "%").split() for line in text.splitlines() if line[:2] == "  "]
