"""Readers of large files in blocks, with constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .opening import Source, name_of, opened_text
from .readers import located, parse_svmlight, texts_and_labels

# Size of a block: bytes of SVMlight text, or characters of texts.
BLOCK_SIZE = 1 << 22


def svmlight_blocks(
    source: Source, zero_based: bool = True
) -> Iterator[tuple[sparse.csr_matrix, NDArray[np.float64]]]:
    """Read rows in SVMlight format in blocks of lines.

    Returns `X` (n_rows, largest index of the block), `y` (n_rows,).
    """
    name, before, empty = name_of(source), 0, True
    with opened_text(source) as stream:
        for block in _lines(stream):
            try:
                X, y = parse_svmlight(BytesIO(block), None, zero_based)
            except (ValueError, OverflowError) as error:
                lines = BytesIO(block).readlines()
                raise located(error, lines, name, zero_based, before) from None
            before += block.count(b"\n")
            if len(y):
                empty = False
                yield X, y
    if empty:
        raise ValueError(f"{name} contains no rows")


def text_blocks(
    source: Source, text_key: str = "text", label_key: str | None = "label"
) -> Iterator[tuple[list[str], NDArray[Any] | None]]:
    """Read texts and labels from JSON lines in blocks.

    A JSON array is read as a whole.

    Returns `labels` (n_texts,).
    """
    name, size, empty = name_of(source), 0, True
    texts: list[str] = []
    labels: list[Any] = []

    def block() -> tuple[list[str], NDArray[Any] | None]:
        return texts, None if label_key is None else np.asarray(labels)

    with opened_text(source) as stream:
        for text, label in texts_and_labels(stream, name, text_key, label_key):
            texts.append(text)
            labels.append(label)
            # A short text takes more memory than its characters.
            size, empty = size + len(text) + 100, False
            if size >= BLOCK_SIZE:
                yield block()
                texts, labels, size = [], [], 0
    if texts:
        yield block()
    if empty:
        raise ValueError(f"{name} contains no rows")


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield complete lines, about `BLOCK_SIZE` bytes at a time."""
    waiting: list[bytes] = []
    while part := stream.read(BLOCK_SIZE):
        end = part.rfind(b"\n") + 1
        if end:
            yield b"".join([*waiting, part[:end]])
            waiting = []
        waiting.append(part[end:])
    rest = b"".join(waiting)
    if rest:
        yield rest
