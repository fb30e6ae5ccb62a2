"""Text from files in messages: invisible characters escaped, long texts cut."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Joiners of letters and emoji remain. The other format characters can hide or reorder text.
_JOINERS = "\u200c\u200d"
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def visible(text: str) -> str:
    """Return a text with invisible characters as escape sequences.

    Tabs and line ends remain. Control characters, and characters that hide or reorder text, appear as
    in a string of Python. Attackers use them to make an edit invisible, or to control a terminal.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def shown(value: object, most: int = 60) -> str:
    """Return a value as one visible line of about `most` characters."""
    text = visible(shortened(str(value), most))
    return text.replace("\n", "\\n").replace("\t", "\\t")


def shortened(text: str, most: int) -> str:
    """Return a text without its middle if it has more characters than `most`."""
    more = len(text) - most
    if more <= 0:
        return text
    half = most // 2
    return f"{text[:half]} ... ({more} more characters) ... {text[-half:]}"


def listed(names: Iterable[object], most: int = 10) -> str:
    """Return names in one visible line, at most the first ones."""
    each = list(map(shown, names))
    more = len(each) - most
    return ", ".join(each[:most]) + (f" and {more} more" if more > 0 else "")


def _visible(character: str) -> str:
    if character in "\n\t" or character in _JOINERS:
        return character
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")
