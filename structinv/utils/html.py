"""HTML of results: escaped text, tables and marked edits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from .texts import Part, shortened, visible

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
    """Return an HTML table in a box that scrolls, with `left` columns aligned left."""

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


def marked(parts: Iterable[Part]) -> Html:
    """Return a text with its edits marked.

    Shapes: `parts` (kind, text).
    """
    pieces = []
    for kind, text in parts:
        before, after = _MARKS.get(kind, ("", ""))
        pieces.append(f"{before}{escaped(shortened(text, _MOST_KEPT))}{after}" if text else "")
    style = "white-space: pre-wrap; overflow-wrap: anywhere"
    return Html(f'<p dir="auto" style="{style}">{"".join(pieces)}</p>')
