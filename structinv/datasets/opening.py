"""Opening of plain and compressed files, and detection of their format."""

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

# Endings of the names of column files, before an ending of compression.
_COLUMN_ENDINGS = (".conll", ".iob", ".iob2", ".bio")

_MAGIC: dict[bytes, tuple[str, Any]] = {
    b"\x1f\x8b": (".gz", gzip.open),
    b"\xfd7zXZ\0": (".xz", lzma.open),
}
# Number of bytes at the start of a file that determine its format.
_LOOKED_AT = 65536
# Number of bytes at the start of a pipe that can be read again, enough to detect compressed text.
_KEPT = 1 << 20

# A label and values, then the comment of an SVMlight row; and a value of such a row.
_COMMENTED_ROW = re.compile(rb"([+-]?[\d.][\w.+-]*(?:\s+(?:\d+|qid):\S+)*)\s*#")
_VALUE = re.compile(rb"(?:\d+|qid):")

# Byte-order marks of text that is not UTF-8. UTF-32 comes first, as its mark starts with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def name_of(source: Source) -> str:
    """Return the name of a source for messages."""
    if isinstance(source, (str, PathLike)):
        return str(Path(source))
    return str(getattr(source, "name", "the data"))


def is_standard_input(path: str | PathLike[str]) -> bool:
    """Return True if a path names standard input."""
    return str(path) in ("-", "/dev/stdin")


def rereadable(path: str | PathLike[str]) -> Source:
    """Return a path, or all bytes of a source that can be read only once.

    Such sources are "-" (standard input) and pipes.
    """
    standard = str(path) == "-"
    if not standard and (not Path(path).exists() or Path(path).is_file()):
        return path
    stream: Any = BytesIO(sys.stdin.buffer.read() if standard else Path(path).read_bytes())
    stream.name = "standard input" if standard else str(path)
    return cast(BinaryIO, stream)


@contextmanager
def opened_once(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file, a pipe or "-" (standard input) for one pass with constant memory.

    Its start can be read several times, as `kind_of` does.
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
    """A stream that can be rewound while at most `_KEPT` bytes have been read."""

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
            raise UnsupportedOperation(f"{self.name} can be read only once: save it to a file first")
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
    """Open for reading bytes, and decompress them if their content is compressed."""
    name, ending = name_of(source), ""
    try:
        with _raw(source) as raw:
            start = raw.read(8)
            raw.seek(0)
            if not start:
                raise ValueError(f"{name} is empty")
            formats = (each for magic, each in _MAGIC.items() if start.startswith(magic))
            ending, opener = next(formats, ("", None))
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
    """Open text in UTF-8, like `opened`, with a check of the start only."""
    with opened(source) as stream:
        start = stream.read(_LOOKED_AT)
        # A byte-order mark of UTF-8 is not part of the text.
        stream.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
        encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
        if encoding is not None:
            what = f"its byte-order mark is that of {encoding}: convert it"
        elif b"\0" in start:
            what = "it has NUL bytes, as binary data and UTF-16 have: convert it if it is text"
            encoding = "UTF-16LE"
        else:
            yield stream
            return
        raise ValueError(
            f"{name_of(source)} must be text in UTF-8, but {what}, such as with iconv -f {encoding} "
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
    """Return True if text looks like sentences in columns with blank lines between.

    The start of the text without comments decides. All lines must have the same number of columns, and
    lines of ``index:value`` are not columns.
    """
    with opened_text(source) as stream:
        start = stream.read(_LOOKED_AT)
        whole = not stream.read(1)
    # The last line may be incomplete.
    complete = start.strip().splitlines()[: None if whole else -1]
    lines = [line.split() for line in _without_comments(complete)]
    words = [line for line in lines if line]
    values = any(_VALUE.match(cell) for line in words[:1] for cell in line[1:])
    # A single label or opening brace is not a column.
    widths = {len(line) for line in words}
    return len(words) < len(lines) and len(widths) == 1 and min(widths) > 1 and not values


def kind_of(source: Source) -> Kind:
    """Detect the format of a file: JSON, a table (CSV), SVMlight rows or CoNLL.

    Only the name shows CoNLL columns, because their words can be anything. It ends in .conll, .iob,
    .iob2 or .bio, possibly with .gz or .xz.

    Otherwise the first nonempty lines without comments decide. "json" starts with a brace or a bracket.
    A "table" has a comma, a semicolon or a tab, and no number followed by ``index:value``. It may also
    have blanks between names, and between numbers and one label in the next line. Everything else is
    "svmlight", whose reader raises errors with the line.
    """
    with opened_text(source) as stream:
        start = stream.read(_LOOKED_AT)
    name = name_of(source).lower()
    for ending, _ in _MAGIC.values():
        name = name.removesuffix(ending)
    if name.endswith(_COLUMN_ENDINGS):
        return "conll"
    lines = filter(None, map(bytes.strip, _without_comments(start.splitlines())))
    first, second = next(lines, b""), next(lines, b"")
    if first[:1] in (b"{", b"["):
        return "json"
    words = first.split()
    if words and _is_number(words[0]) and any(map(_VALUE.match, words[1:])):
        return "svmlight"
    separated = any(separator in first for separator in (b",", b";", b"\t"))
    return "table" if separated or _are_columns(words, second.split()) else "svmlight"


def _are_columns(names: list[bytes], cells: list[bytes]) -> bool:
    """Return True for names in a line, and as many numbers in the next line, except one label."""
    n_labels = sum(not _is_number(cell) for cell in cells)
    return 1 < len(names) == len(cells) and n_labels <= 1 and not any(map(_is_number, names))


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _without_comments(lines: list[bytes]) -> Iterator[bytes]:
    """Yield lines that are not comments, and SVMlight rows without their comments."""
    for line in lines:
        row = _COMMENTED_ROW.match(line.lstrip())
        if row:
            yield row[1]
        elif not line.lstrip().startswith(b"#"):
            yield line
