"""Text that changes what a terminal shows, and a check that none is left."""

import unicodedata

# Clears the screen, reverses the text, hides a blank, and is long.
EVIL = "a\x1b[2J\u202eb\u200bc" + "x" * 100_000


def is_visible(text):
    return all(unicodedata.category(each) not in ("Cc", "Cf") for each in text if each not in "\n\t")


def check_message(text):
    assert is_visible(text)
    assert "\\x1b[2J" in text
    assert len(text) < 3000
