"""Reader of CSV files: tables of numbers with a header."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..utils.visible import listed
from .opening import Source, name_of, opened_text


def load_table(
    path: Source, label_key: str | None = "label", *, required: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.str_] | None, list[str]]:
    """Read a CSV file with the names of the columns in its header.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        File in UTF-8, plain or compressed by gzip or xz. The separator of cells is the comma, the
        semicolon or the tab, whichever is most frequent in the header.
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


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and cells of every nonempty line; comments may precede the first one."""
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
        raise ValueError(f"{name} is not UTF-8 ({error.reason}): convert it to UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"{name} is not a table: {error}") from None


def _check_header(header: list[str], name: str, label_key: str | None) -> None:
    if not any(header) or all(_is_number(cell) for cell in header):
        raise ValueError(f"{name} must have a first line with the names of its columns")
    if label_key is not None and label_key not in header:
        raise ValueError(f"{name} has no label column {label_key!r}, only {listed(header)}")
    if len(set(header)) < len(header):
        twice = sorted({each for each in header if header.count(each) > 1})
        raise ValueError(
            f"{name} must have unique column names, but these are repeated: {listed(twice)}"
        )


def _number(cell: str, name: str, line: int) -> float:
    if not _is_number(cell) or not np.isfinite(float(cell)):
        raise ValueError(
            f"{name}, line {line}: cells must be finite numbers, got {cell[:60]!r}; use JSON lines for "
            "texts"
        )
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    # Python ignores underscores in numbers.
    return "_" not in cell
