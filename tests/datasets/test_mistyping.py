"""Mistyped text."""

import difflib

import numpy as np
import pytest

from structinv.datasets import make_tagged_text, mistype

KINDS = ("typo", "lower", "unseen")


@pytest.fixture(scope="module")
def text():
    return make_tagged_text(200, random_state=0)[0]


def words(sentences):
    return [token[0] for sentence in sentences for token in sentence]


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_seeds_determine_the_text(text, kind):
    first = mistype(text, 0.3, kind, random_state=5)
    assert first == mistype(text, 0.3, kind, random_state=np.random.RandomState(5))
    assert first != mistype(text, 0.3, kind, random_state=6)
    assert mistype(text, 0.0, kind, random_state=5) == text


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_higher_rates_change_more_of_the_same_tokens(text, kind):
    before, low, high = (
        mistype(text, rate, kind, random_state=1) if rate else text for rate in (0.0, 0.1, 0.3)
    )
    shapes = [[part for _, part in sentence] for sentence in text]
    assert [[part for _, part in sentence] for sentence in high] == shapes
    changed = 0
    for old, a, b in zip(words(before), words(low), words(high), strict=True):
        assert a in (old, b)
        changed += old != b
    assert changed > sum(x != y for x, y in zip(words(before), words(low), strict=True)) > 0
    # Words that cannot change that way stay, so it is at most the rate, four standard errors aside.
    assert changed / len(words(before)) < 0.3 + 4 * np.sqrt(0.3 * 0.7 / len(words(before)))


def test_typos_are_one_slip(text):
    for old, new in zip(words(text), words(mistype(text, 1.0, "typo", random_state=0)), strict=True):
        if len(old) < 2 or not any(map(str.isalnum, old)):
            assert new == old
            continue
        assert new != old
        assert abs(len(new) - len(old)) <= 1
        matched = sum(
            block.size for block in difflib.SequenceMatcher(None, old, new).get_matching_blocks()
        )
        assert matched >= len(old) - 1 or sorted(old) == sorted(new)


def test_all_kinds_of_slips_occur():
    slips = {mistype([["letter"]], 1.0, "typo", random_state=seed)[0][0] for seed in range(200)}
    assert {"eltter", "leter", "leetter", "lwtter"} <= slips


def test_unseen_words_are_not_among_known_ones(text):
    known = {"known"}
    made = words(mistype(text, 1.0, "unseen", known=known, random_state=0))
    for old, new in zip(words(text), made, strict=True):
        if any(map(str.isalnum, old)):
            assert new not in known.union(words(text))
            assert old[0].isupper() == new[0].isupper()
            assert old.isdigit() == new.isdigit()
        else:
            assert new == old
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert len(mistype([["a"]], 1.0, "unseen", known=letters.split() + list(letters))[0][0]) > 1


def test_plain_words_and_lists_of_columns():
    assert mistype([["The"], []], 1.0, "lower") == [["the"], []]
    assert mistype([[["The", "DT"]]], 1.0, "lower") == [[("the", "DT")]]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (([["a"]], 1.5), ValueError, "rate must be a number of at least 0 and at most 1, got 1.5"),
        (([["a"]], np.nan), ValueError, "rate"),
        (([["a"]], "much"), TypeError, "rate"),
        (([["a"]], 0.1, "upper"), ValueError, "kind must be one of 'typo', .*'all', got 'upper'"),
        (([["a"], [3]], 0.1), TypeError, "sentence 1, token 0"),
        (([[()]], 0.1), TypeError, "sentence 0, token 0"),
    ],
)
def test_invalid_arguments_of_mistype_are_errors(arguments, error, said):
    with pytest.raises(error, match=said):
        mistype(*arguments)
    with pytest.raises(TypeError, match="known"):
        mistype([["a"]], 0.1, known="abc")
