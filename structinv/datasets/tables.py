"""Readers of tables: numbers with a header, and texts with labels."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..utils.visible import listed
from .opening import Source, name_of, opened_text

# Number of lines that determine whether a table contains texts.
_LOOKED_AT = 10


def load_table(
    path: Source, label_key: str | None = "label", *, required: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.str_] | None, list[str]]:
    """Read a CSV file with the names of the columns in its header.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        File in UTF-8, plain or compressed by gzip or xz. The separator of cells is the tab if the header
        has one, otherwise the comma or the semicolon, whichever is more frequent. Without any of these,
        blanks separate the cells.
    label_key : str or None, default="label"
        Name of the column of labels; None for no labels. All other columns must contain finite numbers.
    required : bool, default=True
        If True, a table without the column of labels is an error. If False, such a table has no labels.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
        Values of all columns except the labels.
    y : ndarray of str of shape (n_samples,), or None
        Labels as written in the file.
    names : list of str
        Names of the columns of X.

    Raises
    ------
    ValueError
        If the file is empty or truncated, if the header lacks names or the label, or if a line is not
        valid. The message has the file and the line.

    See Also
    --------
    load_svmlight : Sparse rows with labels.
    load_jsonlines : Texts with labels.

    Examples
    --------
    >>> from io import BytesIO
    >>> from structinv.datasets import load_table
    >>> X, y, names = load_table(BytesIO(b"width,kind,height\\n1,a,2.5\\n3,b,4\\n"), label_key="kind")
    >>> X.tolist(), y.tolist(), names
    ([[1.0, 2.5], [3.0, 4.0]], ['a', 'b'], ['width', 'height'])
    """
    name = name_of(path)
    with opened_text(path) as stream:
        lines = _lines(stream, name)
        header = [cell.strip() for cell in next(lines, (0, []))[1]]
        _check_header(header, name, label_key if required else None)
        place = header.index(label_key) if label_key in header else None
        rows: list[list[float]] = []
        labels: list[str] = []
        for number, cells in lines:
            if len(cells) != len(header):
                raise ValueError(
                    f"{name}, line {number}: must have the {len(header)} cells of the header, got "
                    f"{len(cells)}"
                )
            if place is not None:
                labels.append(cells.pop(place).strip())
            rows.append([_number(cell, name, number) for cell in cells])
    if not rows:
        raise ValueError(f"{name} contains no rows")
    names = [each for k, each in enumerate(header) if k != place]
    return np.array(rows), None if place is None else np.array(labels), names


def load_text_table(
    path: Source, text_key: str = "text", label_key: str | None = "label"
) -> tuple[list[str], NDArray[np.str_] | None]:
    """Read texts and labels from a CSV or TSV file.

    The first line has the names of the columns. Without the name of the texts in it, each line is a
    label, a tab and a text; quotes are then part of the text.

    Returns `labels` (n_samples,).
    """
    name, header = name_of(path), _start(path, 1)[0]
    keys = [text_key] if label_key is None else [text_key, label_key]
    places, width, needed = [1, 0], 2, "must be a label, a tab and a text"
    if text_key in header:
        _check_keys(header, name, keys)
        places, width = list(map(header.index, keys)), len(header)
        needed = f"must have the {width} cells of the header"
    found = []
    with opened_text(path) as stream:
        lines = _lines(stream, name, text_key in header)
        if text_key in header:
            next(lines)
        for number, cells in lines:
            if len(cells) != width:
                raise ValueError(f"{name}, line {number}: {needed}, got {len(cells)} cells")
            found.append([cells[place] for place in places])
    if not found:
        raise ValueError(f"{name} contains no rows")
    texts = [cells[0] for cells in found]
    return texts, None if label_key is None else np.array([cells[1].strip() for cells in found])


def has_texts(path: Source, text_key: str, label_key: str | None) -> bool:
    """Return True if a table contains texts.

    It has a column with the name of the texts, or a label and a text in each line without a header.
    """
    lines = _start(path, _LOOKED_AT)
    if text_key in lines[0] or label_key in lines[0]:
        return text_key in lines[0]
    with opened_text(path) as stream:
        tabs = b"\t" in next(filter(bytes.strip, stream), b"")
    if not tabs or any(len(cells) != 2 for cells in lines):
        return False
    # The first line may be a header of numbers.
    return not _is_number(lines[0][1]) and not all(_is_number(cells[1]) for cells in lines[1:] or lines)


def _start(path: Source, number: int) -> list[list[str]]:
    """Return the cells of the first lines, with their quotes."""
    with opened_text(path) as stream:
        return [
            [cell.strip() for cell in cells]
            for _, cells in islice(_lines(stream, name_of(path), quoted=False), number)
        ]


def _check_keys(header: list[str], name: str, keys: list[str]) -> None:
    """Raise ValueError unless each key is the name of one column."""
    for key in keys:
        _check_label_key(header, name, key)
        if header.count(key) > 1:
            raise ValueError(f"{name} must have one column {key!r}, got {header.count(key)}")


def _check_label_key(header: list[str], name: str, label_key: str) -> None:
    """Raise ValueError unless a column has the name of the labels."""
    if label_key not in header:
        raise ValueError(
            f"{name} has no label column {label_key!r}, only {listed(header)}: pass label_key"
        )


def _lines(stream: BinaryIO, name: str, quoted: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and cells of every nonempty line; comments may precede the first one."""
    text = codecs.iterdecode(stream, "utf-8")
    try:
        first, number = next(text, ""), 1
        while first and (not first.strip() or first.lstrip().startswith("#")):
            first, number = next(text, ""), number + 1
        separator = "\t" if "\t" in first else max(",;", key=first.count)
        if separator not in first:
            yield from (
                (k, line.split()) for k, line in enumerate(chain([first], text), number) if line.strip()
            )
            return
        quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        reader = csv.reader(chain([first], text), delimiter=separator, quoting=quoting)
        with _long_cells():
            for cells in reader:
                if cells:
                    yield number - 1 + reader.line_num, cells
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 ({error.reason}): convert it, such as with iconv -f LATIN1 -t UTF-8"
        ) from None
    except csv.Error as error:
        raise ValueError(f"{name} is not a table: {error}") from None


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow cells of any length, such as a mail."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _check_header(header: list[str], name: str, label_key: str | None) -> None:
    numbers = [_is_number(cell) for cell in header]
    if not any(header) or all(numbers) or (any(numbers) and label_key not in header):
        raise ValueError(f"{name} must have a first line with the names of its columns")
    if label_key is not None:
        _check_label_key(header, name, label_key)
    if len(set(header)) < len(header):
        twice = sorted({each for each in header if header.count(each) > 1})
        raise ValueError(
            f"{name} must have unique column names, but these are repeated: {listed(twice)}"
        )


def _number(cell: str, name: str, line: int) -> float:
    if not _is_number(cell) or not np.isfinite(float(cell)):
        hint = ": pass text_key if a column has texts" if any(map(str.isalpha, cell)) else ""
        raise ValueError(f"{name}, line {line}: cells must be finite numbers, got {cell[:60]!r}{hint}")
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    # Python ignores underscores in numbers.
    return "_" not in cell
