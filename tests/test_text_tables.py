"""Texts in CSV and TSV files, tables separated by blanks, and formats that are detected wrongly."""

import csv
import gzip
import json
from io import BytesIO, StringIO

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


def sms(rows):
    return "".join(f"{label}\t{text}\n" for text, label in rows).encode()


def cells(header, row, separator=","):
    """The writer of a table of cells with a header."""

    def write(rows):
        stream = StringIO(newline="")
        csv.writer(stream, delimiter=separator).writerows([header, *(row(*each) for each in rows)])
        return stream.getvalue().encode()

    return write


swapped = cells(["label", "text"], lambda text, label: (label, text))
FORMS = {
    "json": lambda rows: "\n".join(json.dumps({"text": a, "label": b}) for a, b in rows).encode(),
    "sms": sms,
    "kaggle": cells(["v1", "v2", "", "", ""], lambda text, label: (label, text, "", "", "")),
    "csv": swapped,
    "more columns": cells(["id", "text", "label"], lambda text, label: (1, text, label)),
    "tsv": cells(["text", "label"], lambda *row: row, "\t"),
    "semicolons": cells(["label", "text"], lambda text, label: (label, text), ";"),
    "compressed": lambda rows: gzip.compress(swapped(rows)),
}
KEYS = {"kaggle": ("--label-key", "v1", "--text-key", "v2")}


def written(folder, form):
    """Write the same texts in one form."""
    path = folder / f"{form}.txt{'.gz' * (form == 'compressed')}"
    path.write_bytes(FORMS[form](list(zip(*spam_and_ham(), strict=True))))
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The texts as JSON Lines, and a model of them."""
    folder = tmp_path_factory.mktemp("json")
    path = written(folder, "json")
    succeed("fit", path, *OPTIONS, "-o", folder / "m")
    return path, folder / "m"


@pytest.mark.parametrize("form", [form for form in FORMS if form != "json"])
def test_texts_in_tables_give_the_same_model_as_json_lines(tmp_path, form, plain):
    path, (other, json_model), m = written(tmp_path, form), plain, tmp_path / "m"
    assert "41 texts" in succeed("fit", path, *OPTIONS, *KEYS.get(form, ()), "-o", m)
    model, expected = structinv.load(m), structinv.load(json_model)
    assert isinstance(model, InvariantTextClassifier)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    out = succeed("predict", m, path)
    assert out.split() == expected.predict(spam_and_ham()[0]).tolist()
    assert succeed("evaluate", m, path) == succeed("evaluate", json_model, other)
    succeed("explain", m, path, "--row", 1)
    succeed("report", m, path, "-o", tmp_path / "report")
    if form in ("sms", "csv", "tsv"):
        # A model of one form reads the others, also from the standard input.
        assert succeed("predict", json_model, path) == succeed("predict", json_model, other) == out
        assert succeed("evaluate", json_model, path) == succeed("evaluate", json_model, other)
        assert succeed("predict", json_model, "-", input=path.read_bytes()) == out


def test_predictions_need_no_column_of_labels(tmp_path, plain):
    path = write_csv(tmp_path / "new.csv", ["id", "text"], [(1, "cheap pills"), (2, "lunch notes")])
    assert succeed("predict", plain[1], path).split() == ["spam", "ham"]
    assert "has no label column 'label', only id, text" in fail("evaluate", plain[1], path)


@pytest.mark.parametrize("vectorizer", ["log", "tfidf"])
def test_other_vectorizers_read_tables_of_texts(tmp_path, vectorizer):
    path = written(tmp_path, "sms")
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
