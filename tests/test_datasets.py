import gzip
import json
import lzma
import os
import struct
import threading
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from structinv.datasets import load_jsonlines, load_svmlight, load_table, make_mail_like, read_idx
from structinv.datasets.in_blocks import svmlight_blocks
from structinv.datasets.opening import in_columns, kind_of, rereadable
from structinv.datasets.readers import line_of_row

from .platforms import posix_only

ROWS = b"1 1:2 3:1.5\n-1 2:4 # a comment\n# only a comment\n\n1\n"
OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def write(path, content):
    with OPENERS[path.suffix if path.suffix in OPENERS else ""](path, "wb") as stream:
        stream.write(content)
    return path


@pytest.fixture(params=list(OPENERS))
def ending(request):
    return request.param


def test_compression_is_detected_by_content(tmp_path, ending):
    written = write(tmp_path / f"rows{ending}", ROWS)
    for name in ("rows.json", "rows.gz", "rows.xz", "rows.svm"):
        (tmp_path / name).write_bytes(written.read_bytes())
        assert load_svmlight(tmp_path / name)[0].shape == (3, 3)
        assert kind_of(tmp_path / name) == "svmlight"
    with open(written, "rb") as stream:
        assert load_svmlight(stream)[0].shape == (3, 3)


@pytest.mark.parametrize(
    ("content", "kind", "columns"),
    [
        (b"1 # spam, first\n-1 2:1\n", "svmlight", False),
        (b"+1.5e-3 # spam; first\n", "svmlight", False),
        (b"1 2:1 # a, b: 3\n", "svmlight", False),
        (b"1#a,b\n", "svmlight", False),
        (b" # rows, many\n\n1 # spam, first\n", "svmlight", False),
        (b'# {"text": 1}\n1 # {"text": 2}\n', "svmlight", False),
        (b"# a comment\na,label\n1,2\n", "table", False),
        (b"count #,label\n1,2\n", "table", False),
        (b"time, hh:mm, label\n1,2,3\n", "table", False),
        (b"# # O\n1 CD O\n\nHe PRP O\n", "svmlight", True),
        (b"He PRP O\n\n# # O\n, , O\n", "svmlight", True),
    ],
)
def test_comments_do_not_decide_what_a_file_holds(tmp_path, ending, content, kind, columns):
    path = write(tmp_path / f"rows{ending}", content)
    assert kind_of(path) == kind
    assert in_columns(path) is columns


def test_svmlight_reads_plain_and_compressed(tmp_path, ending):
    X, y = load_svmlight(write(tmp_path / f"rows.svm{ending}", ROWS))
    assert isinstance(X, sparse.csr_matrix)
    assert X.toarray().tolist() == [[2, 0, 1.5], [0, 4, 0], [0, 0, 0]]
    assert y.tolist() == [1, -1, 1]


def test_svmlight_reads_back_what_scikit_learn_wrote(tmp_path):
    X, _ = make_mail_like(50, 200, random_state=0)
    y = np.arange(50)
    for zero_based in (True, False):
        dump_svmlight_file(X, y, str(tmp_path / "rows"), zero_based=zero_based)
        X_read, y_read = load_svmlight(tmp_path / "rows", n_features=200, zero_based=zero_based)
        assert (X_read != X).nnz == 0
        assert np.array_equal(y_read, y)


def test_svmlight_numbering_can_be_fixed(tmp_path):
    path = write(tmp_path / "rows.svm", b"1 1:1\n")
    assert load_svmlight(path)[0].shape == (1, 1)
    assert load_svmlight(path, zero_based=True)[0].shape == (1, 2)
    with pytest.raises(ValueError, match="line 2.*Invalid index 0"):
        load_svmlight(write(path, b"1 1:1\n1 0:1\n"), zero_based=False)


@pytest.mark.parametrize(
    "broken",
    [
        "1 abc",
        "spam 1:2",
        "1 2:1 1:3",
        "1 -1:2",
        "1 1:nan",
        "inf 1:1",
        "1 99999999999999999999:1",
        "1 1:\N{GREEK SMALL LETTER ALPHA}",
        "1 1:1_0",
        "1 1_0:1",
        "1_0 1:1",
        "1 qid:1_0 1:1",
        " +9007199254740993 1:1",
        "-123456789012345678901 1:1",
    ],
)
@pytest.mark.parametrize("place", [1, 2, 60, 100])
def test_svmlight_names_the_first_broken_line(tmp_path, ending, broken, place):
    lines = [f"{k % 2} 1:{k} 7:1" for k in range(1, 101)]
    lines[99] = "later 0:0:0"
    lines[place - 1] = broken
    path = write(tmp_path / f"rows.svm{ending}", "\n".join(lines).encode())
    with pytest.raises(ValueError, match=rf"rows.svm{ending}, line {place}: must be 'label"):
        load_svmlight(path)


def test_svmlight_reads_exact_large_labels_and_comments_with_underscores(tmp_path):
    lines = b"9007199254740992 1:1 # a_b\n-1152921504606846976\n00000000000000000005\n1e300 2:1\n"
    y = load_svmlight(write(tmp_path / "rows.svm", lines))[1]
    assert y.tolist() == [2**53, -(2**60), 5, 1e300]


def test_svmlight_labels_that_a_float_would_merge_are_named(tmp_path):
    path = write(tmp_path / "rows.svm", b"9007199254740992 1:1\n9007199254740993 2:1\n")
    message = r"line 2: .*the label rounds to 9007199254740992: use integers up to 2\*\*53"
    with pytest.raises(ValueError, match=message):
        load_svmlight(path)
    with pytest.raises(ValueError, match=message):
        list(svmlight_blocks(path))


def test_svmlight_errors_shorten_a_broken_line(tmp_path):
    path = write(tmp_path / "rows.svm", b"1 1:1\n" + b"x" * 5000)
    with pytest.raises(ValueError, match="line 2") as caught:
        load_svmlight(path)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_svmlight_with_more_features_than_n_features_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"rows.svm: .*n_features"):
        load_svmlight(write(tmp_path / "rows.svm", ROWS), n_features=2)


@pytest.mark.parametrize("load", [load_svmlight, load_jsonlines])
class TestDamagedFiles:
    @pytest.mark.parametrize("content", [b"", b"\n \n"])
    def test_no_rows(self, tmp_path, load, ending, content):
        with pytest.raises(ValueError, match=f"rows{ending} (contains no rows|is empty)"):
            load(write(tmp_path / f"rows{ending}", content))

    @pytest.mark.parametrize("end", [".gz", ".xz"])
    def test_zero_bytes(self, tmp_path, load, end):
        (tmp_path / f"rows{end}").touch()
        with pytest.raises(ValueError, match=f"rows{end} is empty"):
            load(tmp_path / f"rows{end}")

    @pytest.mark.parametrize("end", [".gz", ".xz"])
    @pytest.mark.parametrize("share", [0.05, 0.5, 0.95, 0.999])
    def test_truncated(self, tmp_path, load, end, share):
        rng = np.random.default_rng(0)
        lines = (json.dumps({"text": rng.bytes(20).hex(), "label": 1}) for _ in range(2000))
        if load is load_svmlight:
            lines = (f"1 1:{value}" for value in rng.normal(size=2000))
        path = write(tmp_path / f"rows{end}", "\n".join(lines).encode())
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
        with pytest.raises(ValueError, match=f"rows{end} is truncated"):
            load(path)

    @pytest.mark.parametrize("end", [".gz", ".xz"])
    def test_damaged(self, tmp_path, load, end):
        row = ROWS if load is load_svmlight else b'{"text": "x", "label": 1}\n'
        content = bytearray(write(tmp_path / f"rows{end}", row * 99).read_bytes())
        content[len(content) // 2] ^= 255
        (tmp_path / "rows").write_bytes(content)
        with pytest.raises(ValueError, match=f"rows is (not an intact {end} file|truncated)"):
            load(tmp_path / "rows")

    def test_absent(self, tmp_path, load):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "nowhere")


def test_jsonlines_reads_plain_and_compressed(tmp_path, ending):
    text = "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve"
    content = f'{{"text": "{text}", "label": 1, "id": 3}}\n\n{{"label": 0, "text": ""}}\n'
    path = write(tmp_path / f"mails.jsonl{ending}", content.encode())
    texts, labels = load_jsonlines(path)
    assert texts == [text, ""]
    assert labels.tolist() == [1, 0]


def test_jsonlines_with_other_keys_and_without_labels(tmp_path):
    path = write(tmp_path / "mails.jsonl", b'{"body": "x", "class": true}\n')
    assert load_jsonlines(path, "body", "class")[1].tolist() == [True]
    assert load_jsonlines(path, "body", None) == (["x"], None)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b'{"text": "x"', "not JSON"),
        (b"[1, 2]", "must be a JSON object, got list"),
        (b'{"label": 1}', "text key 'text'.*only"),
        (b'{"text": 3, "label": 1}', "text key 'text'.*got 3"),
        (b'{"text": "x"}', "label key 'label'.*only"),
        (b'{"text": "x", "label": null}', "label key 'label'.*got None"),
        (b'{"text": "x", "label": 1.5}', "label key 'label'.*got 1.5"),
        (b'{"text": "x", "label": "spam"}', "one kind: 'spam' is str"),
        (b'{"text": "x", "label": 9223372036854775808}', "64-bit integers or strings, got 92233"),
        (b'{"text": "\xff", "label": 1}', "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_jsonlines_names_the_broken_line(tmp_path, ending, broken, reason):
    good = b'{"text": "x", "label": 1}\n'
    path = write(tmp_path / f"mails.jsonl{ending}", good + b"\n" + good + broken + b"\n" + good)
    with pytest.raises(ValueError, match=rf"mails.jsonl{ending}, line 4: .*{reason}"):
        load_jsonlines(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_arrays_of_objects_are_read(tmp_path, ending, indent):
    content = json.dumps([{"text": "a", "label": "x"}, {"text": "b", "label": "y"}], indent=indent)
    path = write(tmp_path / f"mails.json{ending}", f"\n \n{content}".encode())
    texts, labels = load_jsonlines(path)
    assert texts == ["a", "b"]
    assert labels.tolist() == ["x", "y"]
    assert kind_of(path) == "json"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"text": "x", "label": 1}, {"text": "y"}]', "item 2: the label key 'label'"),
        (b'[{"text": "x", "label": 1}, 3]', "item 2: must be a JSON object, got int"),
        (b'[\n{"text": "x", "label": 1},\n oops]', "not JSON .* at line 3, column 2"),
        (b'\n\n[{"text": "x", "label": 1},\n oops]', "not JSON .* at line 4, column 2"),
        (b"[]", "contains no rows"),
    ],
)
def test_broken_json_arrays_are_errors(tmp_path, content, message):
    with pytest.raises(ValueError, match=f"mails: .*{message}|mails, {message}|mails {message}"):
        load_jsonlines(write(tmp_path / "mails", content))


def test_broken_json_lines_are_errors_with_one_line_number(tmp_path):
    content = b'{"text": "x", "label": 1}\n{"text": "y"\n{"text": "z", "label": 1}\n'
    with pytest.raises(ValueError, match=r"mails, line 2: not JSON \(Expecting .* at column 13\)"):
        load_jsonlines(write(tmp_path / "mails", content))


class TestTables:
    @pytest.mark.parametrize("separator", [",", ";", "\t"])
    @pytest.mark.parametrize("start", ["", "\ufeff"])
    def test_cells_labels_and_names(self, tmp_path, ending, separator, start):
        lines = ["a,label,b c", '1, ham ,"2.5"', "", "-3e1,spam,4"]
        text = start + "\r\n".join(lines).replace(",", separator)
        path = write(tmp_path / f"table{ending}", text.encode())
        assert kind_of(path) == "table"
        X, y, names = load_table(path)
        assert X.tolist() == [[1, 2.5], [-30, 4]]
        assert y.tolist() == ["ham", "spam"]
        assert names == ["a", "b c"]

    def test_without_labels(self, tmp_path):
        X, y, names = load_table(write(tmp_path / "t", b"a,b\n1,2\n"), None)
        assert (X.tolist(), y, names) == ([[1, 2]], None, ["a", "b"])

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"1,2,3\n1,2,3\n", "names of its columns"),
            (b"a,b\n1,2\n", "no label column 'label', only a, b"),
            (b"a,a,label\n1,2,3\n", "unique column names, but these are repeated: a"),
            (b"a,label\n1,x\n2\n", "line 3: must have the 2 cells of the header, got 1"),
            (b"a,label\n1,x\ntwo,y\n", "line 3: cells must be finite numbers, got 'two'"),
            (b"a,label\nnan,x\n", "line 2: cells must be finite numbers"),
            (b"a,label\n1_0,x\n", "line 2: cells must be finite numbers, got '1_0'"),
            (b"a,label\n", "contains no rows"),
            (b"a,label\n1,\xff\n", "not UTF-8"),
            (b"", "is empty"),
        ],
    )
    def test_broken(self, tmp_path, content, message):
        with pytest.raises(ValueError, match=f"table.*{message}"):
            load_table(write(tmp_path / "table", content))


@posix_only
def test_pipes_can_be_read_again(tmp_path, monkeypatch):
    assert rereadable(tmp_path / "nowhere") == tmp_path / "nowhere"
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"1 1:1\n0 x\n",))
    writer.start()
    source = rereadable(tmp_path / "pipe")
    writer.join()
    with pytest.raises(ValueError, match="pipe, line 2"):
        load_svmlight(source)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(gzip.compress(ROWS))))
    assert load_svmlight(rereadable("-"))[0].shape == (3, 3)


IDX_FORMATS = {"uint8": (8, "B"), "int8": (9, "b"), "int16": (11, "h"), "int32": (12, "i")}
IDX_FORMATS |= {"float32": (13, "f"), "float64": (14, "d")}


def idx(code, letter, shape, values):
    header = struct.pack(f">BBBB{len(shape)}I", 0, 0, code, len(shape), *shape)
    return header + struct.pack(f">{len(values)}{letter}", *values)


@pytest.mark.parametrize("name", IDX_FORMATS)
def test_idx_reads_every_type_plain_and_compressed(tmp_path, ending, name):
    values = [k % 120 for k in range(2 * 3 * 50)]
    array = read_idx(write(tmp_path / f"x{ending}", idx(*IDX_FORMATS[name], (2, 3, 50), values)))
    assert array.dtype == np.dtype(name)
    assert array.flags.writeable
    np.testing.assert_array_equal(array, np.reshape(values, (2, 3, 50)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\0\0\x08", "is not an IDX file.*00 00 08"),
        (b"1 1:2 3:1", "is not an IDX file"),
        (b"\0\0\x0a\x01\0\0\0\0", "is not an IDX file"),
        (b"\0\0\x08\x02\0\0\0\1", "truncated: its header must have 12 bytes, got 8"),
        (idx(8, "B", (2, 3), range(5)), r"18 bytes for shape \(2, 3\) of uint8, got 17"),
        (idx(13, "f", (2,), range(3)), r"16 bytes for shape \(2,\) of float32, got 20"),
        (idx(8, "B", (2**32 - 1,) * 9, range(5)), "must have [0-9]{80,} bytes"),
    ],
)
def test_damaged_idx_files_are_errors(tmp_path, content, message):
    with pytest.raises(ValueError, match=f"labels.*{message}"):
        read_idx(write(tmp_path / "labels", content))


def test_truncated_idx_archives_are_errors(tmp_path):
    path = write(tmp_path / "images.gz", idx(8, "B", (100,), range(100)))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ValueError, match="images.gz is truncated"):
        read_idx(path)


def test_mail_is_deterministic_and_looks_like_mail():
    X, y = make_mail_like(500, 1000, random_state=3)
    again, y_again = make_mail_like(500, 1000, random_state=3)
    assert (again != X).nnz == 0
    assert np.array_equal(y, y_again)
    assert X.shape == (500, 1000)
    assert X.has_sorted_indices
    assert X.data.min() >= 1
    lengths = np.asarray(X.sum(axis=1)).ravel()
    assert lengths.max() > 5 * np.median(lengths)
    frequent = np.sort(np.asarray(X.sum(axis=0)).ravel())[::-1]
    assert frequent[:100].sum() > 0.4 * frequent.sum()


def test_mail_has_both_classes_in_the_smallest_draw():
    for seed in range(20):
        _, y = make_mail_like(2, 100, spam_share=0.01, random_state=seed)
        assert sorted(y) == ["ham", "spam"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_samples", 1),
        ("n_samples", 10.5),
        ("n_features", 99),
        ("shift", -0.1),
        ("shift", float("nan")),
        ("shift", "much"),
        ("spam_share", 0.0),
        ("spam_share", 1),
    ],
)
def test_invalid_arguments_of_mail_are_errors(name, value):
    with pytest.raises((TypeError, ValueError), match=f"{name} must .*got"):
        make_mail_like(**{name: value})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_byte_order_marks_are_not_part_of_the_rows(encoding, tmp_path):
    path = tmp_path / "rows"
    path.write_text("1 1:2\n-1 2:3\n", encoding=encoding)
    X, y = load_svmlight(path)
    np.testing.assert_array_equal(X.toarray(), [[2, 0], [0, 3]])
    np.testing.assert_array_equal(y, [1, -1])


def test_byte_order_marks_do_not_change_line_numbers(tmp_path):
    path = tmp_path / "rows"
    path.write_text("# rows\n1 1:2\n-1 2:x\n", encoding="utf-8-sig")
    with pytest.raises(ValueError, match="line 3: must be 'label index:value"):
        load_svmlight(path)
    path.write_text("# rows\n1 1:2\n", encoding="utf-8-sig")
    assert line_of_row(path, 0) == 2
