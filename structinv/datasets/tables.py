"""Reading tables of numbers with a header: CSV files."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from .opening import Source, name_of, opened_text


def load_table(
    path: Source, label_key: str | None = "label", *, required: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.str_] | None, list[str]]:
    """Read a table: a header with the names of the columns, then one row a line.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        In UTF-8, plain or compressed by gzip or xz; commas, semicolons or tabs between the cells,
        whichever the header has most of.
    label_key : str or None, default="label"
        The name of the column of labels; None reads no labels, and every column is a feature. All
        other columns must hold finite numbers.
    required : bool, default=True
        Whether a table without the column of labels is refused; if not, it has no labels.

    Returns
    -------
    X : (n_samples, n_features) array, float64
    y : (n_samples,) array of str, or None
        Labels as they are written.
    names : list of str
        Of the columns of X.

    Raises
    ------
    ValueError
        For an empty or truncated file, a header without names or without the label, and a broken
        line, with the file and the line's number.

    Examples
    --------
    >>> from io import BytesIO
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
                    f"{name}, line {number}: {len(cells)} cells, and the header names {len(header)}"
                )
            if place is not None:
                labels.append(cells.pop(place).strip())
            rows.append([_number(cell, name, number) for cell in cells])
    if not rows:
        raise ValueError(f"{name} holds no rows")
    names = [each for k, each in enumerate(header) if k != place]
    return np.array(rows), None if place is None else np.array(labels), names


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of every line that is not empty, and its number; comments may stand before the first."""
    text = codecs.iterdecode(stream, "utf-8")
    try:
        first, number = next(text, ""), 1
        while first and (not first.strip() or first.lstrip().startswith("#")):
            first, number = next(text, ""), number + 1
        separator = max(",;\t", key=first.count)
        yield number, next(csv.reader([first], delimiter=separator), [])
        reader = csv.reader(text, delimiter=separator)
        for cells in reader:
            if cells:
                yield number + reader.line_num, cells
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8 ({error.reason})") from None
    except csv.Error as error:
        raise ValueError(f"{name} is not a table: {error}") from None


def _check_header(header: list[str], name: str, label_key: str | None) -> None:
    if not any(header) or all(_is_number(cell) for cell in header):
        raise ValueError(f"{name} needs a first line with the names of its columns")
    if label_key is not None and label_key not in header:
        raise ValueError(f"{name} has no column {label_key!r} of labels, only {', '.join(header)}")
    if len(set(header)) < len(header):
        twice = sorted({each for each in header if header.count(each) > 1})
        raise ValueError(f"{name} has several columns of one name: {', '.join(twice)}")


def _number(cell: str, name: str, line: int) -> float:
    if not _is_number(cell) or not np.isfinite(float(cell)):
        raise ValueError(
            f"{name}, line {line}: a finite number is needed, got {cell[:60]!r}; tables hold numbers, "
            "and text goes into JSON lines"
        )
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
