"""Texts in CSV and TSV files, tables separated by blanks, and formats that are detected wrongly."""

import csv
import gzip
import json
from io import BytesIO

import numpy as np
import pytest
from sklearn.datasets import load_wine
from structinv.datasets.tables import has_texts, load_table, load_text_table

import structinv
from structinv import InvariantTextClassifier
from structinv.datasets.opening import kind_of

from .test_cli import fail, succeed
from .test_detection import texts

OPTIONS = ("--oracle", "fdrop", "--max-changes", 1, "--C", 0.1, "--tol", 0.01)
QUOTED = 'cheap "pills", now;\tor\nnever'


def spam_and_ham():
    found, labels = texts(40)
    return [*found, QUOTED.replace("\n", " ").replace("\t", " ")], [*labels, "spam"]


def write_csv(path, header, rows, separator=","):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=separator)
        writer.writerows([header, *rows] if header else rows)
    return path


def written(folder, form):
    """Write the same texts in one form; return the path and the options that name its columns."""
    pairs = list(zip(*spam_and_ham(), strict=True))
    path = folder / f"{form}.txt"
    swapped = [(label, text) for text, label in pairs]
    if form == "json":
        path.write_text("\n".join(json.dumps({"text": a, "label": b}) for a, b in pairs))
    elif form == "sms":
        path.write_text("\n".join(f"{label}\t{text}" for label, text in swapped) + "\n")
    elif form == "kaggle":
        rows = [(*pair, "", "", "") for pair in swapped]
        write_csv(path, ["v1", "v2", "", "", ""], rows)
        return path, ("--label-key", "v1", "--text-key", "v2")
    elif form == "csv":
        write_csv(path, ["label", "text"], swapped)
    elif form == "more columns":
        write_csv(path, ["id", "text", "label"], [(k, *pair) for k, pair in enumerate(pairs)])
    elif form == "tsv":
        write_csv(path, ["text", "label"], pairs, "\t")
    elif form == "semicolons":
        write_csv(path, ["label", "text"], swapped, ";")
    elif form == "compressed":
        plain = write_csv(path, ["label", "text"], swapped)
        path = folder / "texts.csv.gz"
        path.write_bytes(gzip.compress(plain.read_bytes()))
    return path, ()


FORMS = ["sms", "kaggle", "csv", "more columns", "tsv", "semicolons", "compressed"]


@pytest.mark.parametrize("form", FORMS)
def test_texts_in_tables_give_the_same_model_as_json_lines(tmp_path, form):
    path, keys = written(tmp_path, form)
    plain, _ = written(tmp_path, "json")
    assert "41 texts" in succeed("fit", path, *OPTIONS, *keys, "-o", tmp_path / "m")
    succeed("fit", plain, *OPTIONS, "-o", tmp_path / "json")
    model, expected = (structinv.load(tmp_path / name) for name in ("m", "json"))
    assert isinstance(model, InvariantTextClassifier)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    out = succeed("predict", tmp_path / "m", path)
    assert out == succeed("predict", tmp_path / "json", plain)
    assert out.split() == expected.predict(spam_and_ham()[0]).tolist()
    assert succeed("evaluate", tmp_path / "m", path) == succeed("evaluate", tmp_path / "json", plain)
    succeed("explain", tmp_path / "m", path, "--row", 1)
    succeed("report", tmp_path / "m", path, "-o", tmp_path / "report")


@pytest.mark.parametrize("form", ["sms", "csv", "tsv"])
def test_a_model_of_one_form_reads_the_others(tmp_path, form):
    plain, _ = written(tmp_path, "json")
    succeed("fit", plain, *OPTIONS, "-o", tmp_path / "m")
    path, _ = written(tmp_path, form)
    assert succeed("predict", tmp_path / "m", path) == succeed("predict", tmp_path / "m", plain)
    assert succeed("evaluate", tmp_path / "m", path) == succeed("evaluate", tmp_path / "m", plain)
    content = path.read_bytes()
    assert succeed("predict", tmp_path / "m", "-", input=content) == succeed(
        "predict", tmp_path / "m", plain
    )


def test_predictions_need_no_column_of_labels(tmp_path):
    plain, _ = written(tmp_path, "json")
    succeed("fit", plain, *OPTIONS, "-o", tmp_path / "m")
    path = write_csv(tmp_path / "new.csv", ["id", "text"], [(1, "cheap pills"), (2, "lunch notes")])
    assert succeed("predict", tmp_path / "m", path).split() == ["spam", "ham"]
    assert "has no label column 'label', only id, text" in fail("evaluate", tmp_path / "m", path)


@pytest.mark.parametrize("vectorizer", ["log", "tfidf"])
def test_other_vectorizers_read_tables_of_texts(tmp_path, vectorizer):
    path, _ = written(tmp_path, "sms")
    options = ("--vectorizer", vectorizer, *OPTIONS)
    assert "feature values" in succeed("fit", path, *options, "-o", tmp_path / "m")
    assert len(succeed("predict", tmp_path / "m", path).split()) == 41
    succeed("report", tmp_path / "m", path, "-o", tmp_path / "report")


def test_quoted_cells_may_have_separators_and_lines(tmp_path):
    path = write_csv(tmp_path / "t.csv", ["label", "text"], [("spam", QUOTED), ("ham", "x" * 200_000)])
    found, labels = load_text_table(path)
    assert found == [QUOTED, "x" * 200_000]
    assert labels.tolist() == ["spam", "ham"]


def test_quotes_in_files_without_a_header_are_part_of_the_text():
    content = b'ham\t"Hello" he said\nspam\t"win now\nham\tok "\n'
    found, labels = load_text_table(BytesIO(content))
    assert found == ['"Hello" he said', '"win now', 'ok "']
    assert labels.tolist() == ["ham", "spam", "ham"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"ham\tOk lar\nspam\tFree entry\n", True),
        (b"text,label\nfree,1\n", True),
        (b"a,b,label\n1,2,x\n", False),
        (b"a\tb\n1\t2\n", False),
        (b"1\t2\n3\t4\n", False),
        (b"x\tlabel\n1\tham\n", False),
    ],
)
def test_a_table_of_texts_has_their_column_or_labels_and_texts_only(content, expected):
    assert has_texts(BytesIO(content), "text", "label") == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text,label\nfree\n", "line 2: must have the 2 cells of the header, got 1"),
        (b"ham\tOk\nspam\n", "line 2: must be a label, a tab and a text"),
        (b"text,text,label\na,b,c\n", "must have one column 'text', got 2"),
        (b"text,kind\na,b\n", "has no label column 'label', only text, kind: pass label_key"),
        (b"text,label\n", "contains no rows"),
        (b"text,label\n\xe9,b\n", "is not UTF-8.*iconv -f LATIN1 -t UTF-8"),
    ],
)
def test_broken_tables_of_texts_are_named_with_the_line(content, message):
    with pytest.raises(ValueError, match=message):
        load_text_table(BytesIO(content))


def test_a_table_separated_by_blanks_equals_a_csv_table(tmp_path):
    X, y = load_wine(return_X_y=True)
    names = [f"x{k}" for k in range(X.shape[1])]
    rows = [[*map(repr, map(float, row)), f"kind{label}"] for row, label in zip(X, y, strict=True)]
    write_csv(tmp_path / "wine.csv", [*names, "label"], rows)
    lines = ["  ".join(cells) + " " for cells in [[*names, "label"], *rows]]
    (tmp_path / "wine.txt").write_text("\n".join(lines))
    assert kind_of(tmp_path / "wine.txt") == "table"
    for one, other in zip(
        load_table(tmp_path / "wine.csv"), load_table(tmp_path / "wine.txt"), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    options = ("--oracle", "fdrop", "--max-changes", 1, "--C", 1e-4, "--tol", 0.1)
    succeed("fit", tmp_path / "wine.txt", *options, "-o", tmp_path / "m")
    assert succeed("evaluate", tmp_path / "m", tmp_path / "wine.txt") == succeed(
        "evaluate", tmp_path / "m", tmp_path / "wine.csv"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"1 1:2 3:4\n",
        b"free money for you\nsee you at lunch today\n",
        b"free money\n",
        b"-1 2:1 # a b\n",
    ],
)
def test_rows_and_plain_texts_are_no_tables(content):
    assert kind_of(BytesIO(content)) == "svmlight"


@pytest.mark.parametrize(
    ("content", "guess", "option"),
    [
        ("v1,v2\nham,Ok lar\n", "a table with a header", "pass --label-key"),
        ("a,b,label\n1,free money,x\n", "a table with a header", "pass --text-key if a column has"),
        ("free money for you\n", "SVMlight rows", "pass --format"),
        ('{"body": "a", "label": "b"}\n', "JSON of texts", "pass --text-key"),
        ('{"text": "a", "kind": "b"}\n', "JSON of texts", "pass --label-key"),
    ],
)
def test_a_wrong_guess_of_the_format_names_the_option_that_chooses_it(tmp_path, content, guess, option):
    (tmp_path / "data").write_text(content)
    line = fail("fit", tmp_path / "data", *OPTIONS, "-o", tmp_path / "m")
    assert option in line
    assert f"DATA was detected as {guess}: pass --format if it has another format" in line
    format = {"a": "table", "S": "svmlight", "J": "json"}[guess[0]]
    line = fail("fit", tmp_path / "data", *OPTIONS, "--format", format, "-o", tmp_path / "m")
    assert "was detected" not in line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lab,text\nspam,free money\n", "only lab, text: rename the labels as in the training file"),
        ("label,body\nspam,free money\n", "a table without a column 'text': rename the texts as in"),
        ('{"text": "a", "kind": "b"}\n', "only kind, text: rename the labels as in the training file"),
    ],
)
def test_new_data_with_other_names_are_to_be_renamed(tmp_path, content, message):
    (tmp_path / "train.csv").write_text("label,text\nspam,free money\nham,see lunch\n")
    succeed("fit", tmp_path / "train.csv", *OPTIONS, "--C", "1", "-o", tmp_path / "m")
    (tmp_path / "new").write_text(content)
    line = fail("evaluate", tmp_path / "m", tmp_path / "new")
    assert message in line
    assert "--" not in line


def test_cells_and_first_lines_without_numbers_or_names_are_named(tmp_path):
    for content, message in {
        "a,b,label\n1,,spam\n": "line 2: cells must be finite numbers, got ''.",
        "1.5,2,spam\n2,3,ham\n": "must have a first line with the names of its columns.",
    }.items():
        (tmp_path / "data").write_text(content)
        assert message in fail("fit", tmp_path / "data", *OPTIONS, "-o", tmp_path / "m")
