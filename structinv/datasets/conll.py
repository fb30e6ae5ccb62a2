"""CoNLL column files: a token a line, its columns beside it, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TypeAlias

from ..utils.files import write_atomically
from .opening import Source, name_of, opened_text

# A token's columns, and the tokens of a sentence.
Token: TypeAlias = tuple[str, ...]
Sentence: TypeAlias = list[Token]

# Starts a document in files of CoNLL-2003; no token.
DOCUMENT_START = "-DOCSTART-"

_BLANKS = " \t\n\r\v\f"


def load_conll(path: Source, *, labeled: bool = True) -> tuple[list[Sentence], list[list[str]] | None]:
    """Read sentences from columns: one token a line, such as ``token POS label``, the label last.

    Blank lines end a sentence, and so do lines that start with ``-DOCSTART-``, which are skipped.
    Columns are divided by tabs if most lines have one, so that tokens may contain blanks, otherwise by
    any number of blanks. All lines have the same number of columns. In a file with tabs, lines that
    start with # and have no tab are skipped.

    Parameters
    ----------
    path : str, path-like or stream of bytes
        In UTF-8, with any ends of lines; what gzip or xz compressed is decompressed, whatever its name.
    labeled : bool, default=True
        Whether the last column is the label.

    Returns
    -------
    sentences : list of lists of tuples of str
        The columns of each token, without the label.
    labels : list of lists of str, or None
        None unless `labeled`.

    Raises
    ------
    ValueError
        For an empty or truncated file, one without tokens, bytes that are no UTF-8, NUL bytes, and a
        line with another number of columns or an empty one, with the file and the line's number.

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
    name = name_of(path)
    sentences: list[Sentence] = []
    width, first = 0, 0
    for group in _groups(path, name):
        for number, cells in group:
            if not width:
                width, first = len(cells), number
                if labeled and width < 2:
                    raise ValueError(
                        f"{name}, line {number}: a token and its label are needed, got one column"
                    )
            if len(cells) != width:
                raise ValueError(
                    f"{name}, line {number}: {_columns(len(cells))}, and line {first} has {width}"
                )
        sentences.append([cells for _, cells in group])
    if not sentences:
        raise ValueError(f"{name} holds no sentences")
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
    """Write sentences as columns, in UTF-8, so that `load_conll` gives them back.

    Parameters
    ----------
    path : str or path-like
        The file, which is replaced as a whole.
    sentences : sequence of sequences of str, or of tuples of str
        Tokens, or the columns of each.
    labels : sequence of sequences of str, optional
        A last column, in the shape of the sentences.
    separator : " " or tab, default=" "
        What stands between columns; only between tabs may cells contain blanks.

    Raises
    ------
    ValueError
        If a sentence is empty or has not one label a token, if tokens differ in their number of
        columns, or a cell could not be read back: which, and of what sentence and token.

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
    write_atomically(path, conll_bytes(sentences, labels, separator=separator))


def conll_bytes(
    sentences: Sequence[Sequence[str | Sequence[str]]],
    labels: Sequence[Sequence[str]] | None = None,
    *,
    separator: str = " ",
) -> bytes:
    """What `write_conll` writes."""
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
            raise ValueError(f"sentence {i} is empty, which columns cannot say")
        if labels is not None and len(labels[i]) != len(sentence):
            raise ValueError(
                f"sentence {i} needs {len(sentence)} labels, one a token, got {len(labels[i])}"
            )
        for t, token in enumerate(sentence):
            cells = [token] if isinstance(token, str) else list(token)
            if labels is not None:
                cells.append(labels[i][t])
            width = width or len(cells)
            where = f"sentence {i}, token {t}"
            if len(cells) != width:
                raise ValueError(f"{where} has {_columns(len(cells))}, and the first has {width}")
            _check_cells(cells, where, blanks=separator == "\t" and width > 1)
            lines.append(separator.join(cells))
        lines.append("")
    if lines and lines[0].startswith("\ufeff"):
        raise ValueError("the first token starts with a byte-order mark, which readers drop")
    return "".join(f"{line}\n" for line in lines).encode()


def _check_cells(cells: Sequence[str], where: str, *, blanks: bool) -> None:
    """Raise ValueError for what would not be read back."""
    for cell in cells:
        if not isinstance(cell, str):
            raise ValueError(f"{where}: columns must be strings, got {cell!r}")
        refused = _BLANKS[1:] if blanks else _BLANKS
        if not cell or cell != cell.strip(_BLANKS) or any(blank in cell for blank in refused):
            more = "" if blanks else "; separator='\\t' lets cells have blanks inside"
            raise ValueError(f"{where}: {cell!r} is empty or has blanks, which divide columns{more}")
        if "\0" in cell:
            raise ValueError(f"{where}: {cell!r} has a NUL, which is no text")
        try:
            cell.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{where}: {cell!r} cannot be written in UTF-8 ({error.reason})") from None
    if not cells:
        raise ValueError(f"{where} has no columns")
    if cells[0].startswith(DOCUMENT_START):
        raise ValueError(f"{where}: {cells[0]!r} starts a document, and is no token")


def _groups(path: Source, name: str) -> Iterator[list[tuple[int, Token]]]:
    """The lines of each sentence: their numbers and cells."""
    with opened_text(path) as stream:
        lines = stream.read().replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    tabs = _divided_by_tabs(lines)
    known: dict[bytes, str] = {}
    group: list[tuple[int, Token]] = []
    for number, line in enumerate(lines, start=1):
        cells = line.split(b"\t") if tabs else line.split()
        if not line.strip() or line.startswith(DOCUMENT_START.encode()):
            if group:
                yield group
            group = []
        elif not (tabs and _is_remark(line)):
            # Most columns are seen again and again: each is decoded and kept once.
            found = tuple(known.get(cell) or _decoded(cell, known, name, number) for cell in cells)
            group.append((number, found))
    if group:
        yield group


def _divided_by_tabs(lines: list[bytes]) -> bool:
    tokens = [line for line in lines if line.strip() and not _is_remark(line)]
    return 2 * sum(b"\t" in line for line in tokens) > len(tokens)


def _is_remark(line: bytes) -> bool:
    return line.startswith(b"#") and b"\t" not in line


def _decoded(cell: bytes, known: dict[bytes, str], name: str, line: int) -> str:
    if b"\0" in cell:
        raise ValueError(f"{name}, line {line}: a NUL byte, which no text has")
    try:
        text = cell.decode().strip(_BLANKS)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}, line {line}: not UTF-8 ({error.reason})") from None
    if not text:
        raise ValueError(f"{name}, line {line}: an empty column between tabs")
    return known.setdefault(cell, text)


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
