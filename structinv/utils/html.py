"""HTML of results: escaped text, tables, marked edits and images."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from html import escape

import numpy as np

from .visible import shortened, visible

# On narrow screens texts wrap, also within long words; names and numbers do not.
_TEXT = "; min-width: 5em; overflow-wrap: anywhere"
# Tables scroll in their own box, so that a page never does.
_BOX = "overflow-x: auto; max-width: 100%"
_CELL = "padding: 0.15em 0.6em; vertical-align: top"
# An edit differs from other text in its line, its weight and its brackets, also without colors.
_MARKS = {
    "deleted": ('<del style="text-decoration: line-through 0.12em">[-', "-]</del>"),
    "rescaled": ('<u style="text-decoration: underline dotted 0.12em">[~', "~]</u>"),
    "inserted": ('<ins style="text-decoration: underline 0.12em; font-weight: bold">{+', "+}</ins>"),
}
# Longer texts between edits lose their middle.
_MOST_KEPT = 600

Part = tuple[str, str]


class Html(str):
    """HTML that is already escaped; `escaped` and templates leave it unchanged."""

    def __html__(self) -> str:
        """Return the text, as the protocol of template engines requires."""
        return self


def escaped(text: object) -> str:
    """Escape text for HTML, and show invisible characters as escape sequences.

    Control characters, and characters that hide or reorder text, appear as in a string of Python.
    Attackers use them to make an edit invisible.
    """
    return text if isinstance(text, Html) else escape(visible(str(text)))


def table(rows: Iterable[Sequence[str]], columns: Sequence[str], left: Collection[int]) -> str:
    """Return an HTML table in a box that scrolls; the columns `left` are aligned left."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        found = []
        for place, text in enumerate(texts):
            name = "td" if tag == "td" and place else "th"
            scope = f' scope="{"col" if tag == "th" else "row"}"' if name == "th" else ""
            style = f"text-align: {'left' if place in left else 'right'}; {_CELL}"
            style += _TEXT if name == "td" and place in left else ""
            found.append(f'<{name}{scope} style="{style}">{escaped(text)}</{name}>')
        return f"<tr>{''.join(found)}</tr>"

    head = f"<thead>{cells('th', columns)}</thead>" if columns else ""
    body = "".join(cells("td", row) for row in rows)
    return f'<div style="{_BOX}"><table>{head}<tbody>{body}</tbody></table></div>'


def paragraphs(texts: Iterable[str]) -> str:
    """Return one paragraph for each text."""
    return "".join(f"<p>{escaped(text)}</p>" for text in texts)


def marked(parts: Iterable[Part]) -> str:
    """Return a text with its edits marked.

    Shapes: `parts` (kind, text).
    """
    pieces = []
    for kind, text in parts:
        before, after = _MARKS.get(kind, ("", ""))
        pieces.append(f"{before}{escaped(shortened(text, _MOST_KEPT))}{after}" if text else "")
    return f'<p dir="auto" style="white-space: pre-wrap; overflow-wrap: anywhere">{"".join(pieces)}</p>'


def image(pixels: np.ndarray, alt: str, *, width: int = 96) -> str:
    """Return an image element with its pixels, a PNG without smoothing.

    Shapes: `pixels` (height, width) or (height, width, 3).
    """
    content = b64encode(png(pixels)).decode("ascii")
    style = f"width: {width}px; max-width: 100%; image-rendering: pixelated"
    return f'<img alt="{escaped(alt)}" src="data:image/png;base64,{content}" style="{style}"/>'


def png(pixels: np.ndarray) -> bytes:
    """Return the content of a PNG file with 8 bits per channel.

    Shapes: `pixels` (height, width) or (height, width, 3).
    """
    values = np.rint(255 * np.clip(pixels, 0.0, 1.0)).astype(np.uint8)
    height, width = values.shape[:2]
    colors = 2 if values.ndim == 3 else 0
    lines = values.reshape(height, -1)
    # Each line of a PNG begins with the number of its filter; 0 is none.
    data = np.hstack([np.zeros((height, 1), dtype=np.uint8), lines]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, colors, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
