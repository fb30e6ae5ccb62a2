"""The command line: formats of DATA, and messages that name a file and a line."""

import gzip
import lzma

import numpy as np
import pytest

import structinv
from structinv import InvariantLinearSVC
from structinv.cli.data import Format, read, with_features, with_tokens
from structinv.rows import RowWriter

from .test_commands import fail, run, succeed

ROWS = "1 1:2 3:1.5\n-1 2:4 # a comment, with words\n# only a comment\n\n1\n"


def written(folder, content, name="data"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def samples(folder, content, name="data", **given):
    return read(
        written(folder, content, name),
        **{"format": None, "label_key": "label", "first_feature": 1, **given},
    )


@pytest.mark.parametrize(
    ("ending", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_files_are_decompressed_by_the_ending_of_their_name(tmp_path, ending, compress):
    found = samples(tmp_path, compress(ROWS.encode()), f"rows.svm{ending}")
    assert (found.kind, found.X.shape, found.y.tolist()) == ("rows", (3, 3), [1.0, -1.0, 1.0])
    assert found.notes == {"first_feature": 1}
    if ending:
        path = written(tmp_path, compress(ROWS.encode() * 99)[:-20], f"cut{ending}")
        with pytest.raises(ValueError, match="is damaged or truncated"):
            read(path, None, "label", 1)


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        ("1 # spam, first\n-1 2:1\n", "data", "rows"),
        ("+1.5e-3 2:1 # a, b\n", "data", "rows"),
        ("# rows, many\n1 2:1\n", "data", "rows"),
        ("1 qid:3 2:1\n", "data", "rows"),
        ('\ufeff{"text": "a"}\n', "data", "texts"),
        ("label,text\nx,a\n", "data", "texts"),
        ("a;b\n1;2\n", "data", "rows"),
        ("a\tb\n1\t2\n", "data", "rows"),
        ('ham\tGo until 10, "now\nspam\tfree\n', "data", "texts"),
        ("text\nfree, now\n", "data", "texts"),
        ("He PRP O\n\n", "data.conll", "sentences"),
        ("He PRP O\n\n", "data.IOB2", "sentences"),
    ],
)
def test_kinds(tmp_path, content, name, kind):
    assert samples(tmp_path, content, name).kind == kind


def test_the_format_can_be_passed(tmp_path):
    assert samples(tmp_path, "1 1:1\n", format=Format.CONLL).kind == "sentences"
    with pytest.raises(ValueError, match="has JSON lines, not sentences in columns"):
        samples(tmp_path, '{"text": "free money"}\n', format=Format.CONLL)


def test_standard_input(tmp_path):
    lines = '{"text": "red sun", "label": "x"}\n{"text": "blue sea", "label": "y"}\n'
    succeed("fit", "-", "--max-changes", 0, "-o", tmp_path / "m", input=lines)
    assert succeed("predict", tmp_path / "m", "-", input=lines) == "x\ny\n"


class TestTexts:
    def test_json_lines(self, tmp_path):
        found = samples(
            tmp_path, '{"text": "a", "y": 1}\n\n{"text": "b\\u2028c", "y": 2}', label_key="y"
        )
        assert (found.X, found.labels.tolist()) == (["a", "b\u2028c"], [1, 2])

    def test_tables(self, tmp_path):
        found = samples(tmp_path, 'n,text,label\n1,"a, ""b""\nc",x\n2,d,y\n')
        assert (found.X, found.labels.tolist()) == (['a, "b"\nc', "d"], ["x", "y"])

    @pytest.mark.parametrize("content", ["text\nhello, free\n", '"text"\n"hello, free"\n'])
    def test_tables_with_one_column(self, tmp_path, content):
        assert samples(tmp_path, content).X == ["hello, free"]

    def test_quoted_names_of_columns(self, tmp_path):
        found = samples(tmp_path, '"label"\t"text"\n"x"\t"a"\n')
        assert (found.X, found.labels.tolist()) == (["a"], ["x"])

    def test_lines_of_a_label_a_tab_and_a_text(self, tmp_path):
        found = samples(tmp_path, 'ham\tOk "lar\nspam\tFree, now\n')
        assert (found.X, found.labels.tolist()) == (['Ok "lar', "Free, now"], ["ham", "spam"])

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"text": "a"}\n{"text"\n', "line 2 is not JSON"),
            ('{"text": "a"}\n{"body": "a"}\n', r'line 2 must be one JSON object, such as \{"text'),
            ('{"text": null}\n', "line 1 must have a string in the key 'text', got null"),
            ('[{"text": "a"}]\n', "line 1 must be one JSON object, such as"),
            ('[\n{"text": "a"}\n]\n', r"line 1 is not JSON: .*\. Each line must be one JSON object"),
            ("text,label\n", "has a header, but no rows"),
            ("text\tlabel\n", "has a header, but no rows"),
            ("a,label\n", "has a header, but no rows"),
            ("text,label\na\n", "line 2 must have 2 cells, got 1"),
            (b'{"text": "\xe4"}', "must be text in UTF-8"),
            ("free money for you\n", "must have JSON lines, SVMlight rows, or a table"),
            ("", "is empty"),
        ],
    )
    def test_errors(self, tmp_path, content, message):
        with pytest.raises(ValueError, match=f"data.*{message}"):
            samples(tmp_path, content)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"text": "a", "label": 1}\n{"text": "b"}\n', "the key 'label' of line 2 must contain"),
            (
                '{"text": "a", "label": 1}\n{"text": "b", "label": "x"}\n',
                "one type, but line 2 has str, and",
            ),
            ("text,kind\na,b\n", "it has no column 'label', only text, kind. Pass --label-key"),
        ],
    )
    def test_labels_that_are_missing(self, tmp_path, content, message):
        found = samples(tmp_path, content)
        assert found.kind == "texts"
        with pytest.raises(ValueError, match=f"data has no usable labels: .*{message}"):
            _ = found.labels


class TestRows:
    def test_tables_of_numbers(self, tmp_path):
        found = samples(tmp_path, "b,kind,a\n1,x,2\n3,y,4\n", label_key="kind")
        np.testing.assert_array_equal(found.X, [[1, 2], [3, 4]])
        assert (found.y.tolist(), found.notes) == (["x", "y"], {"columns": ["b", "a"]})

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a,b\n1,x\n", "line 2 must have a finite number in column 'b', got 'x'"),
            ("a,b\n1,nan\n", "line 2 must have a finite number"),
            ("a,label\nhello,x\n", "has no column 'text'.* got 'hello'$"),
            ("1 1:1\n1 2:nan\n", "data, line 2: values must be finite"),
            ("a,a\n1,2\n", "a header with a different name for each column"),
            ("1,2\n3,4\n", "a header with a different name for each column"),
            ("1 1:1\n\n# 1 1:x\n1 1:x\n1 1:y\n", "data, line 4: .*b'x'"),
            ("1 1:1\n1 2:1 1:1", "data, line 2: "),
            ("1 0:1\n", "data, line 1: .*pass --zero-based"),
        ],
    )
    def test_errors(self, tmp_path, content, message):
        with pytest.raises(ValueError, match=message):
            samples(tmp_path, content)

    @pytest.mark.parametrize("content", ['{"text": "a"}\n', "text,label\na,b\n"])
    def test_other_formats_are_not_svmlight_rows(self, tmp_path, content):
        with pytest.raises(
            ValueError, match="data, line 1: must be an SVMlight row, such as .*, got '.*text"
        ):
            samples(tmp_path, content, format=Format.SVMLIGHT)

    def test_columns_are_found_by_name(self, tmp_path):
        found = samples(tmp_path, "b,a,c\n1,2,3\n")
        np.testing.assert_array_equal(
            with_features(found, {"columns": ["a", "b", "c"]}, 3, False).X, [[2, 1, 3]]
        )
        with pytest.raises(ValueError, match="has columns that MODEL lacks: c"):
            with_features(found, {"columns": ["a", "b"]}, 2, False)
        np.testing.assert_array_equal(with_features(found, {"columns": ["a"]}, 1, True).X, [[2]])
        with pytest.raises(ValueError, match="lacks columns of MODEL: d"):
            with_features(found, {"columns": ["a", "d"]}, 2, True)

    def test_folders(self, tmp_path):
        with RowWriter(tmp_path / "rows", notes={"first_feature": 0}) as writer:
            writer.append(np.eye(3))
        found = read(tmp_path / "rows", None, "label", 1)
        assert (found.kind, found.notes) == ("rows", {"first_feature": 0})
        with pytest.raises(ValueError, match="has no usable labels"):
            _ = found.labels
        with pytest.raises(ValueError, match="pass --n-features 4 to convert"):
            with_features(found, {}, 4, True)
        with pytest.raises(ValueError, match="has features from 0, but MODEL has features from 1"):
            with_features(found, {"first_feature": 1}, 3, True)


class TestSentences:
    TEXT = "He PRP O\nran VBD B\n\nNo DT O\n\n"

    @pytest.mark.parametrize(
        ("n_columns", "classes", "labeled"),
        [
            (None, None, True),
            (None, ["O", "B"], True),
            (None, ["O", "X"], False),
            (2, [], True),
            (3, [], False),
        ],
    )
    def test_the_last_column_may_be_the_label(self, tmp_path, n_columns, classes, labeled):
        found = with_tokens(samples(tmp_path, self.TEXT, "data.conll"), n_columns, classes)
        assert found.y == ([["O", "B"], ["O"]] if labeled else None)
        assert [len(tokens) for tokens in found.X] == [2, 1]
        assert "w[0]=He" in found.X[0][0]

    def test_other_numbers_of_columns_are_an_error(self, tmp_path):
        with pytest.raises(ValueError, match="must have 1 columns, or 2 with labels, got 3"):
            with_tokens(samples(tmp_path, self.TEXT, "data.conll"), 1, [])


def test_a_model_of_rows_refuses_texts(tmp_path):
    succeed("fit", written(tmp_path, "1 1:1\n-1 2:1\n" * 5, "rows.svm"), "-o", tmp_path / "m")
    line = fail("predict", tmp_path / "m", written(tmp_path, '{"text": "a"}'))
    assert "MODEL takes rows, but" in line
    assert line.endswith("has texts")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 1:2 3000000000:1\n", "data, line 1: numbers of features must be at most 2147483646"),
        ("a,b,label\n1,2,x\n2,3,\n", "the label of sample 1, counted from 0, is empty"),
        ("a,b,label\n1,2,x\n2,3,x\n", "one class: 'x'"),
    ],
)
def test_numbers_and_labels_that_no_model_can_take_are_named(tmp_path, content, message):
    assert message in fail("fit", written(tmp_path, content), "-o", tmp_path / "m")


def test_models_of_data_frames_have_no_warning_of_names(tmp_path):
    model = InvariantLinearSVC(random_state=0).fit(np.eye(5), [0, 1, 0, 1, 0])
    model.feature_names_in_ = np.array(list("abcde"), dtype=object)
    structinv.save(model, tmp_path / "m")
    path = written(tmp_path, "e,d,c,b,a\n1,2,3,4,5\n")
    assert "feature names" not in run("predict", tmp_path / "m", path).stderr
