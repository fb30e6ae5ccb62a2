"""CoNLL files: sentences in columns, with one token per line."""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from ..utils.files import write_atomically

# A path, or a stream of bytes.
Source: TypeAlias = str | PathLike[str] | BinaryIO

# Functions that open compressed files, by the ending of the name.
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


def name_of(source: Source) -> str:
    """Return the name of a source for messages."""
    if isinstance(source, (str, PathLike)):
        return str(Path(source))
    return str(getattr(source, "name", "the data"))


@contextmanager
def opened(source: Source) -> Iterator[BinaryIO]:
    """Open a source for reading bytes; the ending of a name decides compression."""
    if not isinstance(source, (str, PathLike)):
        yield source
        return
    try:
        with OPENERS.get(Path(source).suffix, open)(source, "rb") as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{name_of(source)} is damaged or truncated: {error}") from None


# The columns of a token, and the tokens of a sentence.
Token: TypeAlias = tuple[str, ...]
Sentence: TypeAlias = list[Token]

# Starts a document in files of CoNLL-2003; it is not a token.
DOCUMENT_START = "-DOCSTART-"

_BLANKS = " \t\n\r\v\f"
_WORD = re.compile(f"[^{_BLANKS}\\0\ud800-\udfff]+")
_PHRASE = re.compile(f"{_WORD.pattern}(?: +{_WORD.pattern})*")


def load_conll(path: Source, *, labeled: bool = True) -> tuple[list[Sentence], list[list[str]] | None]:
    """Read sentences in columns, with one token per line.

    A line has, for example, ``token POS label``. All lines have the same number of columns.

    Sentences end at blank lines and at lines that start with ``-DOCSTART-``. If most lines contain a
    tab, tabs separate the columns, and tokens may contain blanks. Lines that start with # and have no
    tab are then skipped. In other files one or more blanks separate the columns.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        File in UTF-8, with any line endings. Files with a name that ends in .gz or .xz are decompressed.
    labeled : bool, default=True
        If True, the last column is the label.

    Returns
    -------
    sentences : list of lists of tuples of str
        Columns of each token, without the label.
    labels : list of lists of str, or None
        Labels of the tokens; None if `labeled` is False.

    Raises
    ------
    ValueError
        If the file is empty, truncated, without tokens or not in UTF-8, or contains NUL bytes. If a line
        has another number of columns or an empty column. The message has the file and the line.

    See Also
    --------
    write_conll : Write such a file.
    conll_features : Features of the tokens.

    Examples
    --------
    >>> from io import BytesIO
    >>> from structinv.datasets import load_conll
    >>> sentences, labels = load_conll(BytesIO(b"He PRP B-NP\\nreckons VBZ B-VP\\n\\nYes UH O\\n"))
    >>> sentences
    [[('He', 'PRP'), ('reckons', 'VBZ')], [('Yes', 'UH')]]
    >>> labels
    [['B-NP', 'B-VP'], ['O']]
    """
    sentences = list(_sentences(path, labeled))
    if not sentences:
        raise ValueError(f"{name_of(path)} contains no sentences")
    if not labeled:
        return sentences, None
    labels = [[cells[-1] for cells in sentence] for sentence in sentences]
    return [[cells[:-1] for cells in sentence] for sentence in sentences], labels


def write_conll(
    path: str | PathLike[str],
    sentences: Sequence[Sequence[str | Sequence[str]]],
    labels: Sequence[Sequence[str]] | None = None,
    *,
    separator: str = " ",
) -> None:
    """Write sentences as columns in UTF-8, in the format of `load_conll`.

    Parameters
    ----------
    path : str or path-like
        File to write. An existing file is replaced.
    sentences : sequence of sequences of str, or of tuples of str
        Tokens, or the columns of each token.
    labels : sequence of sequences of str, optional
        Labels of the tokens, for a last column.
    separator : " " or tab, default=" "
        Separator of columns. Columns may contain blanks only if the separator is a tab.

    Raises
    ------
    ValueError
        If a sentence is empty or does not have one label per token, if tokens have different numbers of
        columns, or if a column could not be read back. The message has the sentence and the token.

    See Also
    --------
    load_conll : Read such a file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from structinv.datasets import load_conll, write_conll
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.conll")
    ...     write_conll(path, [[("He", "PRP"), ("reckons", "VBZ")]], [["B-NP", "B-VP"]])
    ...     path.read_text()
    'He PRP B-NP\\nreckons VBZ B-VP\\n\\n'
    """
    write_atomically(path, conll_bytes(sentences, labels, separator))


def conll_bytes(sentences: Sequence[Any], labels: Any = None, separator: str = " ") -> bytes:
    """Return the bytes that `write_conll` writes."""
    if separator not in (" ", "\t"):
        raise ValueError(f"separator must be a blank or a tab, got {separator!r}")
    if labels is not None and len(labels) != len(sentences):
        raise ValueError(
            f"labels must have one list for each of {len(sentences)} sentences, got {len(labels)}"
        )
    lines: list[str] = []
    width = 0
    for i, sentence in enumerate(sentences):
        if not len(sentence):
            raise ValueError(f"sentence {i} is empty: every sentence must have a token")
        if labels is not None and len(labels[i]) != len(sentence):
            raise ValueError(
                f"sentence {i} must have {len(sentence)} labels, one per token, got {len(labels[i])}"
            )
        for t, token in enumerate(sentence):
            cells = [token] if isinstance(token, str) else list(token)
            if labels is not None:
                cells.append(labels[i][t])
            width = width or len(cells)
            where = f"sentence {i}, token {t}"
            if len(cells) != width:
                raise ValueError(f"{where} has {_columns(len(cells))}, but the first token has {width}")
            _check_cells(cells, where, blanks=separator == "\t" and width > 1)
            lines.append(separator.join(cells))
        lines.append("")
    if lines and lines[0].startswith("\ufeff"):
        raise ValueError("the first token must not start with a byte-order mark, which readers remove")
    return "".join(f"{line}\n" for line in lines).encode()


def _check_cells(cells: Sequence[str], where: str, *, blanks: bool) -> None:
    """Raise ValueError if columns could not be read back."""
    pattern, refused = (_PHRASE, "tabs") if blanks else (_WORD, "blanks")
    for cell in cells:
        if not isinstance(cell, str) or not pattern.fullmatch(cell):
            more = "" if blanks else "; with separator='\\t' they may contain blanks"
            raise ValueError(
                f"{where}: columns must be nonempty strings in UTF-8 without {refused}, line ends and "
                f"NUL, got {cell!r}{more}"
            )
    if not cells:
        raise ValueError(f"{where} has no columns")
    if cells[0].startswith(DOCUMENT_START):
        raise ValueError(f"{where}: {cells[0]!r} starts a document and cannot be a token")


def _sentences(path: Source, labeled: bool) -> Iterator[Sentence]:
    """Yield the columns of each sentence's tokens, also that of the label."""
    name = name_of(path)
    with opened(path) as stream:
        content = stream.read().removeprefix(BOM_UTF8)
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    tabs = _divided_by_tabs(lines)
    known: dict[bytes, str] = {}
    width, first = 0, 0
    sentence: Sentence = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith(DOCUMENT_START.encode()):
            if sentence:
                yield sentence
            sentence = []
            continue
        if tabs and _is_comment(line):
            continue
        cells = line.split(b"\t") if tabs else line.split()
        if not width:
            width, first = len(cells), number
        if labeled and width < 2:
            raise ValueError(f"{name}, line {number}: must have a token and its label, got one column")
        if len(cells) != width:
            raise ValueError(
                f"{name}, line {number}: {_columns(len(cells))}, but line {first} has {width}"
            )
        # Most columns occur many times, so each is decoded and stored once.
        sentence.append(tuple(known.get(c) or _decoded(c, known, name, number) for c in cells))
    if sentence:
        yield sentence


def _divided_by_tabs(lines: list[bytes]) -> bool:
    tokens = [line for line in lines if line.strip() and not _is_comment(line)]
    return 2 * sum(b"\t" in line for line in tokens) > len(tokens)


def _is_comment(line: bytes) -> bool:
    return line.startswith(b"#") and b"\t" not in line


def _decoded(cell: bytes, known: dict[bytes, str], name: str, line: int) -> str:
    if b"\0" in cell:
        raise ValueError(f"{name}, line {line}: text must not contain NUL bytes")
    try:
        text = cell.decode().strip(_BLANKS)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {line}: not UTF-8 ({error.reason}): convert the file to UTF-8"
        ) from None
    if not text:
        raise ValueError(f"{name}, line {line}: columns must not be empty, got one between tabs")
    return known.setdefault(cell, text)


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
