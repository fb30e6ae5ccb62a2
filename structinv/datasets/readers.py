"""Readers of SVMlight files, JSON lines and IDX arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from math import prod
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from ..utils.visible import listed, shown
from .opening import Source, name_of, opened, opened_text

_LABEL_TYPES = (str, bool, int)

# The third byte of an IDX file; numbers are big-endian.
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def load_svmlight(
    path: Source,
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
    """Read rows in SVMlight format: ``label index:value index:value ...``.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        File, plain or compressed by gzip or xz. Compression is detected by content.
    n_features : int or None, default=None
        Number of columns of the result; by default the largest index in the file.
    zero_based : bool or "auto", default="auto"
        If True, the first feature has the index 0; if False, the index 1. "auto" means True if the
        file contains the index 0. Pass the same value for files that belong together.

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features), float64
        Rows.
    y : ndarray of shape (n_samples,), float64
        Labels.

    Raises
    ------
    ValueError
        If the file is empty or truncated, or if a line is not valid, such as one with an integer label
        that a float would change. The message has the file and the line.

    See Also
    --------
    load_table : Rows of a CSV file.
    load_jsonlines : Texts with labels.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from structinv.datasets import load_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.svm")
    ...     _ = path.write_text("1 1:2 3:1\\n-1 2:4\\n")
    ...     X, y = load_svmlight(path)
    >>> X.toarray().tolist(), y.tolist()
    ([[2.0, 0.0, 1.0], [0.0, 4.0, 0.0]], [1.0, -1.0])
    """
    name = name_of(path)
    with opened_text(path) as stream:
        try:
            X, y = parse_svmlight(stream, n_features, zero_based)
        except (ValueError, OverflowError) as error:
            with opened_text(path) as again:
                raise located(error, again.readlines(), name, zero_based) from None
    if not len(y):
        raise ValueError(f"{name} contains no rows")
    return X, y


def load_jsonlines(
    path: Source, text_key: str = "text", label_key: str | None = "label"
) -> tuple[list[str], NDArray[Any] | None]:
    """Read texts and labels from JSON lines, or from a JSON array of objects.

    JSON lines have one object per line; blank lines are skipped.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        File in UTF-8, plain or compressed by gzip or xz. Compression is detected by content.
    text_key : str, default="text"
        Key of the text, a string.
    label_key : str or None, default="label"
        Key of the label; None for no labels. The labels of a file are strings, 64-bit integers or
        booleans.

    Returns
    -------
    texts : list of str
        Texts.
    labels : ndarray of shape (n_samples,), or None
        Labels; None if `label_key` is None.

    Raises
    ------
    ValueError
        If the file is empty or truncated, or if a line or item is not valid. The message has the file
        and the number of the line or item.

    See Also
    --------
    load_svmlight : Sparse rows with labels.
    load_conll : Tagged sentences.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from structinv.datasets import load_jsonlines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "mails.jsonl")
    ...     _ = path.write_text('{"text": "cheap pills", "label": "spam"}\\n')
    ...     texts, labels = load_jsonlines(path)
    >>> texts, labels.tolist()
    (['cheap pills'], ['spam'])
    """
    name = name_of(path)
    texts: list[str] = []
    labels: list[str | bool | int | None] = []
    with opened_text(path) as stream:
        for text, label in texts_and_labels(stream, name, text_key, label_key):
            texts.append(text)
            labels.append(label)
    if not texts:
        raise ValueError(f"{name} contains no rows")
    return texts, None if label_key is None else np.asarray(labels)


def texts_and_labels(
    stream: BinaryIO, name: str, text_key: str, label_key: str | None
) -> Iterator[tuple[str, str | bool | int | None]]:
    """Yield texts and labels, as for `load_jsonlines`; labels None without a key."""
    kind = None
    for place, line in _records(stream, name):
        try:
            record = _parse_record(line) if isinstance(line, bytes) else _checked_record(line)
            text = _text(record, text_key)
            label = None if label_key is None else _label(record, label_key, kind)
        except ValueError as error:
            raise ValueError(f"{name}, {place}: {error}") from None
        kind = type(label)
        yield text, label


def read_idx(path: Source) -> NDArray[Any]:
    """Read an array in the IDX format of MNIST (LeCun, Cortes and Burges).

    The file starts with two zero bytes, one byte for the type of the numbers and one for the number of
    dimensions. The dimensions follow as 32-bit integers, then the numbers in C order. All are
    big-endian.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        File, plain or compressed by gzip or xz. Compression is detected by content.

    Returns
    -------
    ndarray
        Array with the shape and the type of the header. The images of MNIST are (n, 28, 28) uint8, its
        labels (n,) uint8.

    Raises
    ------
    ValueError
        If the file is empty, truncated or not in IDX format, or if the number of values differs from
        the header.

    See Also
    --------
    load_table : Rows of a CSV file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from structinv.datasets import read_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    name = name_of(path)
    with opened(path) as stream:
        content = stream.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise ValueError(
            f"{name} is not an IDX file: it starts with {content[:4].hex(' ')!r}, not with 00 00, "
            f"one of {', '.join(f'{code:02x}' for code in _IDX_TYPES)} and the number of dimensions"
        )
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise ValueError(f"{name} is truncated: its header must have {start} bytes, got {len(content)}")
    shape = np.frombuffer(content[4:start], dtype=">u4").tolist()
    stored = np.dtype(_IDX_TYPES[content[2]])
    expected = start + prod(shape) * stored.itemsize
    if len(content) != expected:
        raise ValueError(
            f"{name} must have {expected} bytes for shape {tuple(shape)} of {stored.name}, "
            f"got {len(content)}"
        )
    values = np.frombuffer(content, dtype=stored, offset=start)
    return values.reshape(shape).astype(stored.newbyteorder("="))


def line_of_row(path: Source, row: int) -> int:
    """Return the line number, from 1, of a row of a file in SVMlight format."""
    with opened_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            row -= bool(line.partition(b"#")[0].strip())
            if row < 0:
                return number
    raise IndexError(f"{name_of(path)} has too few rows")


def parse_svmlight(
    stream: BinaryIO, n_features: int | None, zero_based: bool | Literal["auto"]
) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
    """Parse rows; raise ValueError or OverflowError without the line of an error."""
    X, y = load_svmlight_file(_Lines(stream), n_features=n_features, zero_based=zero_based)
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError("labels and values must be finite")
    return X, y


class _Lines:
    """Lines of rows for the parser of scikit-learn, without numbers that it would change."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.read = stream, stream.read

    def __iter__(self) -> Iterator[bytes]:
        for line in self._stream:
            # Python ignores underscores in numbers.
            if b"_" in line and b"_" in line.partition(b"#")[0]:
                raise ValueError("numbers must not contain underscores")
            # Integers up to 2**53, which has 16 digits, are exact as floats.
            if line.lstrip()[1:16].isdigit():
                _check_label(line.split(maxsplit=1)[0])
            yield line


def _check_label(label: bytes) -> None:
    """Raise ValueError for an integer that another float would replace."""
    try:
        exact = int(label)
    except ValueError:
        return
    if exact != float(label):
        raise ValueError(f"the label rounds to {float(label):.0f}: use integers up to 2**53")


def located(
    error: Exception,
    lines: list[bytes],
    name: str,
    zero_based: bool | Literal["auto"],
    before: int = 0,
) -> ValueError:
    """Return an error with the first broken line, found by bisection with the parser."""
    # The first index of the file is unknown in a block, so with "auto" every block may start at 0.
    base = zero_based is not False

    def failure(first: int, last: int) -> Exception | None:
        try:
            parse_svmlight(BytesIO(b"".join(lines[first:last])), None, base)
        except (ValueError, OverflowError) as caught:
            return caught
        return None

    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if failure(low, middle) else (middle, high)
    reason = failure(low, high)
    if reason is None:  # Every line is correct by itself: the file has more than n_features features.
        return ValueError(f"{name}: {error}")
    line = lines[low].decode("utf-8", "replace").strip()
    return ValueError(
        f"{name}, line {before + low + 1}: must be 'label index:value ...' with increasing indices and "
        f"finite values ({shown(reason, 100)}), got {_cut(line, 60)!r}"
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _records(stream: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the position of each record, and its line or its item of an array."""
    first = b""
    number = 0
    while not first.strip():
        first = stream.readline()
        number += 1
        if not first:
            return
    if not first.strip().startswith(b"["):
        yield f"line {number}", first
        for later, line in enumerate(stream, start=number + 1):
            if line.strip():
                yield f"line {later}", line
        return
    try:
        # The parser counts the blank lines at the start, too.
        items = _parsed(b"\n" * (number - 1) + first + stream.read())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    for place, item in enumerate(items, start=1):
        yield f"item {place}", item


def _parse_record(line: bytes) -> dict[str, Any]:
    # Without its end, the line is the first line in messages of the parser.
    return _checked_record(_parsed(line.rstrip()))


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason} at byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise ValueError(f"not JSON ({error.msg} at {line}column {error.colno})") from None
    except RecursionError:
        raise ValueError("not JSON (nested too deeply)") from None


def _checked_record(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError(f"must be a JSON object, got {type(record).__name__}")
    return record


def _text(record: dict[str, Any], key: str) -> str:
    if not isinstance(record.get(key), str):
        raise ValueError(
            f"the text key {key!r} must contain a string, {_found(record, key, 'text_key')}"
        )
    return cast(str, record[key])


def _label(record: dict[str, Any], key: str, kind: type | None) -> str | bool | int:
    label = record.get(key)
    if not isinstance(label, _LABEL_TYPES):
        found = _found(record, key, "label_key")
        raise ValueError(f"the label key {key!r} must contain a string, integer or boolean, {found}")
    if type(label) is int and not -(2**63) <= label < 2**63:
        raise ValueError(f"labels must be 64-bit integers or strings, got {_cut(str(label), 60)}")
    if kind is not None and type(label) is not kind:
        raise ValueError(
            f"labels must be of one kind: {_cut(repr(label), 60)} is {type(label).__name__},"
            f" earlier lines have {kind.__name__}"
        )
    return label


def _found(record: dict[str, Any], key: str, option: str) -> str:
    if key not in record:
        return f"the line has only {listed(sorted(record))}: pass {option}"
    return f"got {_cut(repr(record[key]), 60)}"
