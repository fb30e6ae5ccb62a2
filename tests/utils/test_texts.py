"""Text that may be shown."""

from structinv.utils.texts import visible


def test_visible_text_keeps_letters_of_all_scripts():
    for text in ("\u05e9\u05dc\u05d5\u05dd", "na\u00efve", "\U0001f468\u200d\U0001f469", "a\tb\nc"):
        assert visible(text) == text
    assert visible("a\u202eb\x07") == "a\\u202eb\\x07"
