import gzip
import lzma
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structinv.datasets import load_conll, make_tagged_text, write_conll
from structinv.datasets.conll import conll_bytes

TEXT = "He PRP B-NP\nreckons VBZ B-VP\n\n# # B-NP\n1.8 CD I-NP\n"
SENTENCES = [[("He", "PRP"), ("reckons", "VBZ")], [("#", "#"), ("1.8", "CD")]]
LABELS = [["B-NP", "B-VP"], ["B-NP", "I-NP"]]


def read(text, **options):
    return load_conll(BytesIO(text if isinstance(text, bytes) else text.encode()), **options)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.rstrip(),
        "\n \n" + TEXT.replace("\n\n", "\n\t\n\n") + "\n\n",
        "\ufeff" + TEXT,
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        TEXT.replace(" ", "\t"),
        TEXT.replace(" ", "   ").replace("He", " He"),
        TEXT.replace("PRP ", "PRP\t"),
        "-DOCSTART- -X- O\n\n" + TEXT.replace("\n\n", "\n-DOCSTART-\n"),
    ],
)
def test_layouts_of_a_text_give_equal_sentences(text):
    assert read(text) == (SENTENCES, LABELS)


def test_the_last_column_is_a_label_only_if_labeled():
    sentences, labels = read(TEXT, labeled=False)
    assert labels is None
    assert sentences[0] == [("He", "PRP", "B-NP"), ("reckons", "VBZ", "B-VP")]
    assert read("He\n\nShe\n", labeled=False) == ([[("He",)], [("She",)]], None)


@pytest.mark.parametrize(("ending", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_files_are_decompressed_by_the_ending_of_their_name(tmp_path, ending, opener):
    path = tmp_path / f"train.conll{ending}"
    with opener(path, "wb") as stream:
        stream.write(TEXT.encode())
    assert load_conll(path) == (SENTENCES, LABELS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="is damaged or truncated"):
        load_conll(path)


def test_files_with_tabs_have_blanks_in_tokens_and_comments():
    text = "# sent_id = 1\nNew York\tNNP\tB-NP\n#\tSYM\tO\n"
    assert read(text) == ([[("New York", "NNP"), ("#", "SYM")]], [["B-NP", "O"]])


def test_only_ascii_white_space_separates_columns_and_lines():
    sentences, _ = read("a\N{NO-BREAK SPACE}b X\nc\N{LINE SEPARATOR}d Y\n")
    assert sentences == [[("a\N{NO-BREAK SPACE}b",), ("c\N{LINE SEPARATOR}d",)]]


def test_files_without_tabs_have_no_comments():
    assert read("# a remark\n\nHe PRP B-NP\n")[0][0] == [("#", "a")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"He PRP B-NP\nreckons B-VP\n", "line 2: 2 columns, but line 1 has 3"),
        (b"a X\n\nb\n", "line 3: 1 column, but line 1 has 2"),
        (b"\nHe\n", "line 2: must have a token and its label, got one column"),
        (b"a\tb\tX\na\t\tX\n", "line 2: columns must not be empty, got one between tabs"),
        (b"a X\n\xff Y\n", "line 2: not UTF-8"),
        (b"a X\n" * 40000 + b"\0 Y\n", "line 40001: text must not contain NUL bytes"),
        (b"a X\n\0 Y\n", "NUL bytes"),
        (b"\n\n-DOCSTART- O\n", "contains no sentences"),
        (b"", "contains no sentences"),
    ],
)
def test_errors_name_the_file_and_line(tmp_path, text, said):
    path = tmp_path / "bad.conll"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=f"bad.conll.*{said}"):
        load_conll(path)


WORD = st.text(
    st.characters(exclude_characters=" \t\n\r\v\f\0\ufeff", exclude_categories=["Cs"]), min_size=1
)
PHRASE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)


@given(st.data(), st.sampled_from([" ", "\t"]), st.integers(1, 3))
def test_written_sentences_are_read_back(data, separator, width):
    cell = PHRASE if separator == "\t" else WORD
    token = st.tuples(cell.filter(lambda word: not word.startswith("-DOCSTART-")), *[cell] * width)
    sentences = data.draw(st.lists(st.lists(token, min_size=1, max_size=3), min_size=1, max_size=3))
    labels = [[cells[-1] for cells in sentence] for sentence in sentences]
    tokens = [[cells[:-1] for cells in sentence] for sentence in sentences]
    assert read(conll_bytes(tokens, labels, separator=separator)) == (tokens, labels)
    assert read(conll_bytes(sentences, separator=separator), labeled=False) == (sentences, None)


def test_files_are_written(tmp_path):
    sentences, labels = make_tagged_text(5, random_state=0)
    write_conll(tmp_path / "text", sentences, labels)
    assert load_conll(tmp_path / "text") == (sentences, labels)
    write_conll(tmp_path / "words", [["Yes", "."]], [["UH", "."]])
    assert (tmp_path / "words").read_text() == "Yes UH\n. .\n\n"


@pytest.mark.parametrize(
    ("sentences", "labels", "said"),
    [
        ([["a"], []], None, "sentence 1 is empty"),
        ([["a"]], [["X", "Y"]], "sentence 0 must have 1 labels, one per token, got 2"),
        ([["a"]], [], "one list for each of 1 sentences, got 0"),
        ([["a", ("b", "c")]], None, "sentence 0, token 1 has 2 columns, but the first token has 1"),
        ([["a b"]], None, "without blanks, line ends and NUL, got 'a b'"),
        ([[("a", "")]], None, "must be nonempty strings"),
        ([["a\0"]], None, "and NUL, got"),
        ([["\ud800"]], None, "strings in UTF-8"),
        ([[("a", 3)]], None, "columns must be nonempty strings .* got 3"),
        ([[()]], None, "has no columns"),
        ([["-DOCSTART-"]], None, "starts a document"),
        ([["\ufeffa"]], None, "byte-order mark"),
    ],
)
def test_unreadable_sentences_are_not_written(tmp_path, sentences, labels, said):
    with pytest.raises(ValueError, match=said):
        write_conll(tmp_path / "text", sentences, labels)
    assert not (tmp_path / "text").exists()


def test_separators_are_blanks_or_tabs():
    with pytest.raises(ValueError, match="separator"):
        conll_bytes([["a"]], separator=",")
