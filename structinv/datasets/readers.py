"""Readers for labelled rows and for arrays, plain or compressed, whose errors name file and line."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

_LABEL_TYPES = (str, bool, int)

# The third byte of an IDX file; numbers are big-endian.
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def load_svmlight(
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
    """Read rows in SVMlight format: ``label index:value index:value ...``.

    Parameters
    ----------
    path : str or path-like
        The file; names that end in ``.gz`` or ``.xz`` are decompressed.
    n_features : int or None, default=None
        Number of columns of the result; None takes the largest index in the file.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has the number 0. "auto" says yes if the file uses the number 0.
        Files that belong together should be read with the same value.

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features), float64
    y : ndarray of shape (n_samples,), float64

    Raises
    ------
    ValueError
        For an empty or truncated file and for a broken line, with the file and the line's number.

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
    path = Path(path)
    with _opened(path) as stream:
        try:
            X, y = _parse_svmlight(stream, n_features, zero_based)
        except (ValueError, OverflowError) as error:
            raise _located(error, path, zero_based) from None
    if not len(y):
        raise ValueError(f"{path} holds no rows")
    return X, y


def load_jsonlines(
    path: str | PathLike[str], text_key: str = "text", label_key: str | None = "label"
) -> tuple[list[str], NDArray[Any] | None]:
    """Read texts and labels from JSON lines: one object per line, blank lines skipped.

    Parameters
    ----------
    path : str or path-like
        The file, in UTF-8; names that end in ``.gz`` or ``.xz`` are decompressed.
    text_key : str, default="text"
        The key of the text, a string.
    label_key : str or None, default="label"
        The key of the label: strings, integers or booleans, one kind per file. None reads no
        labels.

    Returns
    -------
    texts : list of str
    labels : ndarray of shape (n_samples,), or None if `label_key` is None

    Raises
    ------
    ValueError
        For an empty or truncated file and for a broken line, with the file and the line's number.

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
    path = Path(path)
    texts: list[str] = []
    labels: list[str | bool | int] = []
    with _opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                record = _parse_record(line)
                texts.append(_text(record, text_key))
                if label_key is not None:
                    labels.append(_label(record, label_key, kind=type(labels[0]) if labels else None))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
    if not texts:
        raise ValueError(f"{path} holds no rows")
    return texts, None if label_key is None else np.asarray(labels)


def read_idx(path: str | PathLike[str]) -> NDArray[Any]:
    """Read an array in IDX format, that of MNIST (LeCun, Cortes and Burges).

    Two zero bytes, a byte for the type of the numbers and one for the number of dimensions, then the
    dimensions as 32-bit integers, then the numbers in C order; all big-endian.

    Parameters
    ----------
    path : str or path-like
        The file; names that end in ``.gz`` or ``.xz`` are decompressed.

    Returns
    -------
    ndarray
        With the shape and the type of the header: MNIST's images are (n, 28, 28) uint8, its labels
        (n,) uint8.

    Raises
    ------
    ValueError
        For an empty or truncated file, for one that is no IDX file, and for one with fewer or more
        numbers than its header says.

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
    path = Path(path)
    with _opened(path) as stream:
        content = stream.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise ValueError(
            f"{path} is not an IDX file: it starts with {content[:4].hex(' ')!r}, not with 00 00, "
            f"one of {', '.join(f'{code:02x}' for code in _IDX_TYPES)} and the number of dimensions"
        )
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise ValueError(f"{path} is truncated: its header of {start} bytes has {len(content)}")
    shape = np.frombuffer(content[4:start], dtype=">u4").tolist()
    stored = np.dtype(_IDX_TYPES[content[2]])
    expected = start + prod(shape) * stored.itemsize
    if len(content) != expected:
        raise ValueError(
            f"{path} must have {expected} bytes for shape {tuple(shape)} of {stored.name}, "
            f"got {len(content)}"
        )
    values = np.frombuffer(content, dtype=stored, offset=start)
    return values.reshape(shape).astype(stored.newbyteorder("="))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open for reading bytes; damage of a compressed file becomes a ValueError that names it."""
    openers = {".gz": gzip.open, ".xz": lzma.open}
    opener = cast(Any, openers.get(path.suffix.lower(), open))
    try:
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty")
        with opener(path, "rb") as stream:
            yield stream
    except EOFError:
        raise ValueError(f"{path} is truncated: the compressed data end too early") from None
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path} is not an intact {path.suffix} file: {error}") from None


def _parse_svmlight(
    stream: BinaryIO, n_features: int | None, zero_based: bool | Literal["auto"]
) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
    X, y = load_svmlight_file(stream, n_features=n_features, zero_based=zero_based)
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError("labels and values must be finite")
    return X, y


def _located(error: Exception, path: Path, zero_based: bool | Literal["auto"]) -> ValueError:
    """Say where the parser stumbled, by bisection with the parser itself."""
    # A block alone cannot tell where indices start, so "auto" lets every block start at 0.
    base = zero_based is not False
    with _opened(path) as stream:
        lines = stream.readlines()

    def failure(first: int, last: int) -> Exception | None:
        try:
            _parse_svmlight(BytesIO(b"".join(lines[first:last])), None, base)
        except (ValueError, OverflowError) as caught:
            return caught
        return None

    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if failure(low, middle) else (middle, high)
    reason = failure(low, high)
    if reason is None:  # every line is fine by itself: the file has more than n_features features
        return ValueError(f"{path}: {error}")
    line = lines[low].decode("utf-8", "replace").strip()
    return ValueError(
        f"{path}, line {low + 1}: not 'label index:value ...' with increasing indices"
        f" and finite values ({_cut(str(reason), 100)}): {_cut(line, 60)!r}"
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _parse_record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason} at byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise ValueError("not JSON that can be read (nested too deeply)") from None
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object is needed, got {type(record).__name__}")
    return record


def _text(record: dict[str, Any], key: str) -> str:
    if not isinstance(record.get(key), str):
        raise ValueError(f"the text key {key!r} must hold a string, {_found(record, key)}")
    return cast(str, record[key])


def _label(record: dict[str, Any], key: str, kind: type | None) -> str | bool | int:
    label = record.get(key)
    if not isinstance(label, _LABEL_TYPES):
        raise ValueError(
            f"the label key {key!r} must hold a string, integer or boolean, {_found(record, key)}"
        )
    if kind is not None and type(label) is not kind:
        raise ValueError(
            f"labels must be of one kind: {label!r} is {type(label).__name__},"
            f" earlier lines have {kind.__name__}"
        )
    return label


def _found(record: dict[str, Any], key: str) -> str:
    if key not in record:
        return f"the line has only {sorted(record)}"
    return f"got {_cut(repr(record[key]), 60)}"
