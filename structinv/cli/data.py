"""Data of the commands: texts, rows or sentences in a file, and folders of rows."""

from __future__ import annotations

import csv
import json
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from ..datasets import conll_features, load_conll
from ..datasets.conll import OPENERS, Sentence, name_of, opened
from ..rows import RowFolder, RowWriter
from ..utils.texts import listed, shown
from .output import is_standard

# Bytes of a block of lines.
BLOCK_SIZE = 1 << 22
TEXT_KEY = "text"
_COLUMN_ENDINGS = (".conll", ".iob", ".iob2", ".bio")
# Starts of JSON lines, also of a list of objects, and of SVMlight rows: a label and the first value.
_JSON = re.compile(rb'\{|\[\s*([{"]|$)')
_ROW = re.compile(rb"[-+.\w]+\s+(qid|\d+):")
# SVMlight rows without values.
_EMPTY_ROW = re.compile(rb"[-+.\d][-+.\w]*\s*(#|$)|#")


class Format(StrEnum):
    """Formats of files."""

    JSON = "json"
    TABLE = "table"
    SVMLIGHT = "svmlight"
    CONLL = "conll"


@dataclass(frozen=True)
class Samples:
    """Content of DATA.

    - `name`: name for messages
    - `kind`: "texts", "rows" or "sentences"
    - `X`: texts, a matrix, a folder of rows, or features of tokens
    - `y`: labels, or None
    - `notes`: names of the columns, or the first feature number, as in the notes of a model file
    - `no_labels`: why there are no labels
    - `sentences`: all columns of each token
    - `digest`: SHA-256 of data that are not in a file
    """

    name: str
    kind: str
    X: Any
    y: Any = None
    notes: dict[str, Any] = field(default_factory=dict)
    no_labels: str = ""
    sentences: Sequence[Sentence] = ()
    digest: str = ""

    @property
    def form(self) -> str:
        """Kind of samples, with the form of rows."""
        if isinstance(self.X, RowFolder):
            return "rows in a folder"
        if self.kind != "rows":
            return self.kind
        return "tables" if "columns" in self.notes else "SVMlight rows"

    @property
    def labels(self) -> Any:
        """Labels of all samples; ValueError without labels."""
        if self.y is None:
            raise ValueError(f"{self.name} has no usable labels: {self.no_labels}")
        return self.y


def read(
    path: Path,
    format: Format | None,
    label_key: str,
    first_feature: int,
    otherwise: Format = Format.TABLE,
) -> Samples:
    """Read DATA; by default the name and the first line decide the format.

    `otherwise` is the format if they do not.
    """
    if path.is_dir():
        rows = RowFolder(path)
        notes = {key: rows.notes[key] for key in rows.notes.keys() & {"first_feature", "columns"}}
        return Samples(str(path), "rows", rows, rows.labels, notes, "write it with labels")
    name = "standard input" if str(path) == "-" else name_of(path)
    with opened(sys.stdin.buffer if str(path) == "-" else path) as stream:
        content = stream.read()
    bare = content.removeprefix(BOM_UTF8)
    format = format or _format_of(Path(name), bare, otherwise)
    samples = _parsed(bare, name, format, label_key, first_feature)
    return samples if path.is_file() else replace(samples, digest=sha256(content).hexdigest())


def _parsed(content: bytes, name: str, format: Format, label_key: str, first_feature: int) -> Samples:
    if not content.strip():
        raise ValueError(f"{name} is empty")
    if format is Format.CONLL:
        if content.lstrip().startswith(b'{"'):
            raise ValueError(f"{name} has JSON lines, not sentences in columns")
        stream: Any = BytesIO(content)
        stream.name = name
        return Samples(name, "sentences", None, sentences=load_conll(stream, labeled=False)[0])
    if format is Format.SVMLIGHT:
        X, y = svmlight_rows(content, name, first_feature)
        return Samples(name, "rows", X, y, {"first_feature": first_feature})
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} must be text in UTF-8: {error.reason}") from None
    return (_json if format is Format.JSON else _table)(text, name, label_key)


def _format_of(path: Path, content: bytes, otherwise: Format) -> Format:
    endings = [ending for ending in path.suffixes[-2:] if ending not in OPENERS]
    if endings and endings[-1].lower() in _COLUMN_ENDINGS:
        return Format.CONLL
    first = content.lstrip().split(b"\n", 1)[0].rstrip()
    if _JSON.match(first):
        return Format.JSON
    # A sentence may start with a number or a comment.
    is_row = _ROW.match(first) or (otherwise is Format.TABLE and _EMPTY_ROW.match(first))
    return Format.SVMLIGHT if is_row else otherwise


def svmlight_rows(
    content: bytes, name: str, first_feature: int, n_features: int | None = None, n_before: int = 0
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Read SVMlight rows, with features from 0 or from 1; errors name the line."""

    def read_rows(content: bytes) -> tuple[sparse.csr_matrix, np.ndarray]:
        stream = BytesIO(content)
        X, y = load_svmlight_file(stream, n_features=n_features, zero_based=first_feature == 0)
        if not np.isfinite(X.data).all():
            raise ValueError("values must be finite")
        return X, y

    try:
        return read_rows(content)
    except (OverflowError, ValueError) as error:
        reason = shown(error, 200).rstrip(".")
        reason += ": pass --zero-based" if "Invalid index 0" in reason else ""
        if isinstance(error, OverflowError):
            reason = f"numbers of features must be at most {2**31 - 2}"
        # The first error is in this range of lines.
        lines = content.splitlines(keepends=True)
        start, stop = 0, len(lines)
        while stop - start > 1:
            middle = (start + stop) // 2
            try:
                read_rows(b"".join(lines[start:middle]))
                start = middle
            except (OverflowError, ValueError):
                stop = middle
        line = lines[start].strip()
        if not (_ROW.match(line) or _EMPTY_ROW.match(line)):
            got = shown(line.decode(errors="replace"), 60)
            reason = f"must be an SVMlight row, such as 1 3:0.5, got {got!r}"
        raise ValueError(f"{name}, line {n_before + start + 1}: {reason}") from None


def convert_file(
    source: Path, folder: Path, dtype: str, n_features: int | None, first_feature: int
) -> RowFolder:
    """Write SVMlight rows to a folder, in blocks of lines; return the folder."""
    if source.is_dir():
        raise ValueError(f"SOURCE must be a file, got the folder {source}")
    if is_standard(folder) or folder.exists():
        raise ValueError(f"FOLDER must be a new folder, got {folder}")
    n_lines = 0
    notes = {"first_feature": first_feature, "source": str(source)}
    with (
        opened(sys.stdin.buffer if str(source) == "-" else source) as stream,
        RowWriter(folder, n_features, dtype, notes=notes) as writer,
    ):
        while lines := stream.readlines(BLOCK_SIZE):
            rows = svmlight_rows(b"".join(lines), str(source), first_feature, n_features, n_lines)
            writer.append(*rows)
            n_lines += len(lines)
    return RowFolder(folder)


def _json(text: str, name: str, label_key: str) -> Samples:
    """Read JSON lines with texts, and with labels if all lines have one."""
    texts, labels, no_labels = [], [], ""
    form = f'must be one JSON object, such as {{"{TEXT_KEY}": "..."}}'
    for number, line in enumerate(StringIO(text), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{where} is not JSON: {shown(error, 200)}. Each line {form}") from None
        if not isinstance(record, dict) or TEXT_KEY not in record:
            raise ValueError(f"{where} {form}")
        if not isinstance(record[TEXT_KEY], str):
            found = shown(json.dumps(record[TEXT_KEY]), 60)
            raise ValueError(f"{where} must have a string in the key {TEXT_KEY!r}, got {found}")
        texts.append(record[TEXT_KEY])
        labels.append(record.get(label_key))
        first, last = (type(each).__name__ for each in (labels[0], labels[-1]))
        if not isinstance(labels[-1], (str, int)):
            no_labels = no_labels or (
                f"the key {label_key!r} of line {number} must contain a string or an integer, but its "
                f"keys are {listed(sorted(record))}. Pass --label-key if another key has the label"
            )
        elif first != last:
            no_labels = no_labels or (
                f"labels must be of one type, but line {number} has {last}, and earlier lines {first}"
            )
    return Samples(name, "texts", texts, None if no_labels else np.array(labels), no_labels=no_labels)


def _table(text: str, name: str, label_key: str) -> Samples:
    """Read a table with a header: texts, or numbers; or lines of a label, a tab and a text."""
    first = text.lstrip().split("\n", 1)[0]
    separator = max(",;", key=first.count)
    if "\t" in first or separator not in first:
        separator = "\t"
    names = first.rstrip().replace('"', "").split(separator)
    if len(names) == 1 and names != [TEXT_KEY]:
        raise ValueError(
            f"{name} must have JSON lines, SVMlight rows, or a table with a header, got "
            f"{shown(first, 60)!r}. Pass --format conll to fit for sentences in columns"
        )
    csv.field_size_limit(2**31 - 1)
    bare = separator == "\t" and not {TEXT_KEY, label_key} & set(names)
    quoting: Any = csv.QUOTE_NONE if bare else csv.QUOTE_MINIMAL
    reader: Any = csv.reader(StringIO(text, newline=""), delimiter=separator, quoting=quoting)
    header = [cell.strip() for cell in next(filter(None, reader))]
    rows, lines = [], []
    for cells in filter(None, reader):
        if len(cells) != len(header):
            raise ValueError(
                f"{name}, line {reader.line_num} must have {len(header)} cells, got {len(cells)}"
            )
        rows.append(cells)
        lines.append(reader.line_num)
    if bare and len(header) == 2 and not all(_is_number(cells[1]) for cells in rows or [header]):
        return _texts(name, [[label_key, TEXT_KEY], header, *rows], label_key)
    if not rows:
        raise ValueError(f"{name} has a header, but no rows")
    if TEXT_KEY in header:
        return _texts(name, [header, *rows], label_key)
    return _numbers(name, header, rows, lines, label_key)


def _texts(name: str, cells: list[list[str]], label_key: str) -> Samples:
    columns = dict(zip(cells[0], zip(*cells[1:], strict=True), strict=True))
    labels, no_labels = _labels(columns, label_key)
    return Samples(name, "texts", list(columns[TEXT_KEY]), labels, no_labels=no_labels)


def _numbers(
    name: str, header: list[str], rows: list[list[str]], lines: list[int], label_key: str
) -> Samples:
    if len(set(header)) < len(header) or all(map(_is_number, header)):
        raise ValueError(f"{name} must have a header with a different name for each column")
    for cells, line in zip(rows, lines, strict=True):
        for column, cell in zip(header, cells, strict=True):
            if column != label_key and not _is_number(cell):
                advice = "" if label_key in header else ". Pass --label-key if it has the label"
                raise ValueError(
                    f"{name} has no column {TEXT_KEY!r}, so line {line} must have a finite number in "
                    f"column {column!r}, got {shown(cell, 60)!r}{advice}"
                )
    columns = dict(zip(header, zip(*rows, strict=True), strict=False))
    labels, no_labels = _labels(columns, label_key)
    names = [column for column in header if column != label_key]
    X = np.array([columns.get(column, ()) for column in names], dtype=np.float64).T
    return Samples(name, "rows", X, labels, {"columns": names}, no_labels)


def _labels(columns: Mapping[str, Sequence[str]], label_key: str) -> tuple[Any, str]:
    """Return the labels of a table, or None with the reason."""
    if label_key in columns:
        labels = [cell.strip() for cell in columns[label_key]]
        if "" in labels:
            return None, f"the label of sample {labels.index('')}, counted from 0, is empty"
        return np.array(labels), ""
    return None, f"it has no column {label_key!r}, only {listed(columns)}. Pass --label-key"


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def with_features(samples: Samples, notes: dict[str, Any], n_features: int, ignore_new: bool) -> Samples:
    """Return rows with the features of a model, in its sequence."""
    first, own = notes.get("first_feature"), samples.notes.get("first_feature")
    if None not in (first, own) and first != own:
        raise ValueError(f"{samples.name} has features from {own}, but MODEL has features from {first}")
    X, advice = samples.X, "pass --ignore-new-features to ignore larger numbers"
    if isinstance(X, RowFolder):
        advice, ignore_new = f"pass --n-features {n_features} to convert", False
    elif "columns" in samples.notes and notes.get("columns"):
        X = _in_sequence(samples, notes["columns"], ignore_new)
    elif sparse.issparse(X) and (ignore_new or X.shape[1] < n_features):
        X.resize(X.shape[0], n_features)
    elif X.shape[1] < n_features:
        advice = "pass DATA with all features of the training"
    if X.shape[1] != n_features:
        raise ValueError(
            f"{samples.name} has {X.shape[1]} features, but MODEL has {n_features}: {advice}"
        )
    return replace(samples, X=X)


def _in_sequence(samples: Samples, columns: list[str], ignore_new: bool) -> np.ndarray:
    """Return the columns of a table in the sequence of a model."""
    names = samples.notes["columns"]
    missing, new = sorted(set(columns) - set(names)), sorted(set(names) - set(columns))
    if missing:
        raise ValueError(f"{samples.name} lacks columns of MODEL: {listed(missing)}")
    if new and not ignore_new:
        raise ValueError(
            f"{samples.name} has columns that MODEL lacks: {listed(new)}. Pass --ignore-new-features "
            "to ignore them"
        )
    return samples.X[:, [names.index(column) for column in columns]]


def with_tokens(samples: Samples, n_columns: int | None, classes: Sequence[Any] | None) -> Samples:
    """Return sentences with features of their tokens, and their labels if any.

    The number of columns before the label is that of the training. Without it, the last column is the
    label if all its values are classes, or if there are no classes yet.
    """
    found = len(samples.sentences[0][0])
    last = [[cells[-1] for cells in sentence] for sentence in samples.sentences]
    if n_columns is None:
        known = None if classes is None else {str(label) for label in classes}
        n_columns = found - (found > 1 and (known is None or all(map(known.issuperset, last))))
    if found not in (n_columns, n_columns + 1):
        raise ValueError(
            f"{samples.name} must have {n_columns} columns, or {n_columns + 1} with labels, got {found}"
        )
    tokens = [[cells[:n_columns] for cells in sentence] for sentence in samples.sentences]
    y = None if found == n_columns else last
    notes, reason = {"n_columns": n_columns}, "it has no column after the features"
    return replace(samples, X=conll_features(tokens), y=y, notes=notes, no_labels=reason)
