"""Opening files of rows, plain or compressed, and telling by their content what they hold."""

from __future__ import annotations

import codecs
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_CUR, SEEK_END, SEEK_SET, BufferedReader, BytesIO, RawIOBase, UnsupportedOperation
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, cast

# A path, or a stream of bytes that can be read again from its start.
Source: TypeAlias = str | PathLike[str] | BinaryIO

Kind: TypeAlias = Literal["svmlight", "json", "table", "conll"]

# How names of column files end, before an ending of compression.
_COLUMN_ENDINGS = (".conll", ".iob", ".iob2", ".bio")

_MAGIC: dict[bytes, tuple[str, Any]] = {
    b"\x1f\x8b": (".gz", gzip.open),
    b"\xfd7zXZ\0": (".xz", lzma.open),
}
# Bytes at the start of a file that tell what it holds.
_LOOKED_AT = 65536
# Bytes at the start of a pipe that can be read again: more than a look at compressed text takes.
_KEPT = 1 << 20

# A label and values, then the comment of an SVMlight row; and one of its values.
_COMMENTED_ROW = re.compile(rb"([+-]?[\d.][\w.+-]*(?:\s+(?:\d+|qid):\S+)*)\s*#")
_VALUE = re.compile(rb"(?:\d+|qid):")

# Byte-order marks of what is text and not UTF-8; the mark of UTF-16 is the start of one of UTF-32.
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def name_of(source: Source) -> str:
    """What messages call it."""
    if isinstance(source, (str, PathLike)):
        return str(Path(source))
    return str(getattr(source, "name", "the data"))


def is_standard_input(path: str | PathLike[str]) -> bool:
    """Whether a path names standard input."""
    return str(path) in ("-", "/dev/stdin")


def rereadable(path: str | PathLike[str]) -> Source:
    """The path itself, or all bytes of what can be read once only: "-" (standard input), a pipe.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    path, or stream of bytes with a `name`
    """
    standard = str(path) == "-"
    if not standard and (not Path(path).exists() or Path(path).is_file()):
        return path
    stream: Any = BytesIO(sys.stdin.buffer.read() if standard else Path(path).read_bytes())
    stream.name = "standard input" if standard else str(path)
    return cast(BinaryIO, stream)


@contextmanager
def opened_once(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file, a pipe or "-" (standard input) to be read once, in memory that does not grow with it.

    Its start can be read several times, so that `kind_of` can look at it.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    stream of bytes with a `name`, that other functions of this module take
    """
    if str(path) == "-":
        yield _read_once(sys.stdin.buffer, "standard input")
        return
    with open(path, "rb") as stream:
        yield stream if Path(path).is_file() else _read_once(stream, str(path))


def _read_once(stream: BinaryIO, name: str) -> BinaryIO:
    raw = _RewindableStream(stream)
    raw.name = name
    return BufferedReader(raw, _LOOKED_AT)


class _RewindableStream(RawIOBase):
    """A stream whose first bytes can be read again, until more than `_KEPT` are read."""

    name: str

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._start, self._place = stream, bytearray(), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, place: int, whence: int = SEEK_SET) -> int:
        if whence == SEEK_CUR:
            place += self._place
        if whence == SEEK_END or (place != self._place and max(place, self._place) > len(self._start)):
            raise UnsupportedOperation(f"{self.name} can be read once only")
        self._place = place
        return place

    def readinto(self, into: Any) -> int:
        part = bytes(self._start[self._place : self._place + len(into)])
        if not part:
            part = self._stream.read(len(into))
            if self._place == len(self._start) <= _KEPT:
                self._start += part
        into[: len(part)] = part
        self._place += len(part)
        return len(part)


@contextmanager
def opened(source: Source) -> Iterator[BinaryIO]:
    """Open for reading bytes, decompressed where the content is, whatever the name says.

    Raises
    ------
    ValueError
        For an empty file, and for damage of a compressed one.
    """
    name, ending = name_of(source), ""
    try:
        with _raw(source) as raw:
            start = raw.read(8)
            raw.seek(0)
            if not start:
                raise ValueError(f"{name} is empty")
            found = (each for magic, each in _MAGIC.items() if start.startswith(magic))
            ending, opener = next(found, ("", None))
            if opener is None:
                yield raw
            else:
                with opener(raw, "rb") as stream:
                    yield stream
    except EOFError:
        raise ValueError(f"{name} is truncated: the compressed data end too early") from None
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{name} is not an intact {ending} file: {error}") from None


@contextmanager
def opened_text(source: Source) -> Iterator[BinaryIO]:
    """As `opened`, for what must be text in UTF-8; bytes that are none further on are for the reader.

    Raises
    ------
    ValueError
        As `opened`; and for a byte-order mark of UTF-16 or UTF-32, and for NUL bytes near the start.

    Examples
    --------
    >>> from io import BytesIO
    >>> with opened_text(BytesIO("1 1:2".encode("utf-16"))) as stream:
    ...     stream.read()
    Traceback (most recent call last):
    ...
    ValueError: the data must be text in UTF-8, and its byte-order mark is that of UTF-16: ...
    """
    with opened(source) as stream:
        start = stream.read(_LOOKED_AT)
        # A mark of UTF-8 says nothing, and is no part of the text.
        stream.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
        found = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
        if found is not None:
            what, encoding = f"its byte-order mark is that of {found}: convert it", found
        elif b"\0" in start:
            what = "it has NUL bytes, as binary data and UTF-16 have: convert what is text"
            encoding = "UTF-16LE"
        else:
            yield stream
            return
        raise ValueError(
            f"{name_of(source)} must be text in UTF-8, and {what}, such as with iconv -f {encoding} "
            "-t UTF-8"
        )


@contextmanager
def _raw(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, (str, PathLike)):
        with open(source, "rb") as stream:
            yield stream
    else:
        source.seek(0)
        yield source


def in_columns(source: Source) -> bool:
    """Whether text looks like sentences in columns: equal lines of words, and blank ones between.

    The start of the text decides, without its comments. Lines of ``index:value`` are none.

    Examples
    --------
    >>> from io import BytesIO
    >>> contents = b"He PRP O\\nran VBD O\\n\\nYes UH O\\n", b"1 3:0.5\\n\\n2 4:1", b"a,b\\n1,2"
    >>> [in_columns(BytesIO(content)) for content in contents]
    [True, False, False]
    """
    with opened_text(source) as stream:
        start = stream.read(_LOOKED_AT)
        whole = not stream.read(1)
    # The last line may be cut.
    complete = start.strip().splitlines()[: None if whole else -1]
    lines = [line.split() for line in _without_comments(complete)]
    words = [line for line in lines if line]
    values = any(_VALUE.match(cell) for line in words[:1] for cell in line[1:])
    # A label or an opening brace alone is no column.
    widths = {len(line) for line in words}
    return len(words) < len(lines) and len(widths) == 1 and min(widths) > 1 and not values


def kind_of(source: Source) -> Kind:
    """Whether a file holds JSON, a table with commas (CSV), or SVMlight rows, by its content.

    Sentences in columns are told by the name alone, which ends in .conll, .iob, .iob2 or .bio, and then
    in .gz or .xz if it likes: their words may look like anything.

    The first line decides that is not empty once comments are removed: "json" starts with a brace or a
    bracket, a "table" has a comma, a semicolon or a tab and no ``index:value``. All else is left to the
    reader of SVMlight rows, whose errors name the line.

    Parameters
    ----------
    source : path or stream of bytes

    Raises
    ------
    ValueError
        As `opened_text`.

    Examples
    --------
    >>> from io import BytesIO
    >>> contents = b'{"text": "a"}', b"# rows\\n1 3:0.5", b"a,b,label\\n1,2,x"
    >>> [kind_of(BytesIO(content)) for content in contents]
    ['json', 'svmlight', 'table']
    """
    with opened_text(source) as stream:
        start = stream.read(_LOOKED_AT)
    name = name_of(source).lower()
    for ending, _ in _MAGIC.values():
        name = name.removesuffix(ending)
    if name.endswith(_COLUMN_ENDINGS):
        return "conll"
    first = next(filter(None, map(bytes.strip, _without_comments(start.splitlines()))), b"")
    if first[:1] in (b"{", b"["):
        return "json"
    separated = any(separator in first for separator in (b",", b";", b"\t"))
    return "table" if separated and not any(map(_VALUE.match, first.split()[1:])) else "svmlight"


def _without_comments(lines: list[bytes]) -> Iterator[bytes]:
    """Lines that are no comments, SVMlight rows without theirs; elsewhere # is part of the text."""
    for line in lines:
        row = _COMMENTED_ROW.match(line.lstrip())
        if row:
            yield row[1]
        elif not line.lstrip().startswith(b"#"):
            yield line
