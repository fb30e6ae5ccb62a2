"""Docstrings, messages, help texts and pages keep the checkable rules of `docs/project/style.md`."""

import re

import pytest

from . import allowed, prose_rules

AREAS = prose_rules.areas()
KIND = prose_rules.KIND


@pytest.mark.parametrize("area", sorted({*AREAS, *allowed.areas(KIND)}))
def test_prose_has_exactly_the_allowed_findings(area):
    described = allowed.complaints(KIND, area, prose_rules.findings(AREAS.get(area, [])))
    assert not described, "\n".join(described)


def rules_of_module(text):
    return [(line, rule) for line, rule, _ in prose_rules.of_module(text)]


def rules_of_page(text):
    return [(line, rule) for line, rule, _ in prose_rules.of_page(text)]


def test_summaries_are_short_sentences_that_make_sense_alone():
    assert rules_of_module('"""Kernels of images."""') == []
    assert rules_of_module(f'"""{"Kernels " * 10}."""') == [(1, "summary-length")]
    assert rules_of_module('"""What kernels compute."""') == [(1, "summary-start")]
    assert rules_of_module('"""Kernels of images"""') == [(1, "summary-period")]
    assert rules_of_module('"""Kernels of images.\nAnd of words."""') == [(1, "summary-period")]


def test_descriptions_of_parameters_and_help_make_sense_alone():
    parameters = "Parameters\n----------\n{} : int\n    {}\n"
    for description, expected in {
        "Number of edits.": [],
        "How many edits.": [(6, "description-start")],
    }.items():
        text = f'"""Edits.\n\n{parameters.format("max_changes", description)}"""'
        assert rules_of_module(text) == expected
    assert rules_of_module('option(help="Of a row.")') == [(1, "description-start")]


def test_words_are_found_in_public_docstrings_and_messages():
    assert rules_of_module('"""Points anew."""') == [(1, "words")]
    assert rules_of_module('"""Points.\n\nDrawn as they\n  are, once.\n"""') == [(3, "words")]
    assert rules_of_module('raise ValueError(f"{name} is no number")') == [(1, "words")]
    assert rules_of_module('class A:\n    def b(self):\n        """Turn anew."""') == [(3, "words")] * 2
    assert rules_of_module('def _a():\n    """Turn anew."""') == []
    assert rules_of_module('"""Points.\n\n>>> print("turn")\nturn\n"""') == []
    assert rules_of_module('"""There is no limit to `turn`, in turn."""') == []


def test_titles_and_cells_of_gallery_scripts_are_prose():
    title = f'"""\n{"Kernels " * 10}\n======\n\n{{}}\n"""\n'
    assert rules_of_module(title.format("Points.")) == []
    assert rules_of_module(title.format("Points anew.")) == [(5, "words")]
    assert rules_of_module(title.format("word " * 26)) == [(5, "sentence-length")]
    assert rules_of_module("x = 1\n# %%\n# Points\n# anew.\ny = 2\n") == [(4, "words")]
    assert rules_of_module(f"# %%\n# {'word ' * 26}\n") == [(2, "sentence-length")]
    assert rules_of_module("x = 1  # %% anew\n# anew\n") == []


def test_words_and_long_sentences_are_found_in_pages():
    assert rules_of_page("# Turn\n\n| a | b |\n| anew | `anew` |\n") == [(1, "words"), (4, "words")]
    assert rules_of_page("```python\nturn = 1\n```\nText.\n") == []
    long = "word " * 26
    assert rules_of_page(f"Text.\n\n- {long}\n- Text.\n") == [(3, "sentence-length")]
    assert rules_of_page(f"{long[:60]}. {long[:60]}. Text") == []
    assert rules_of_page(f"| {long} |\n") == []


@pytest.fixture
def lists(tmp_path, monkeypatch):
    monkeypatch.setattr(allowed, "FILES", tmp_path)


A, B = ("a.py", "words"), ("b.py", "words")


@pytest.mark.usefixtures("lists")
def test_allowed_counts_are_exact():
    allowed.write("kind", "area", {A: 2, B: 0})
    assert allowed.read("kind", "area") == {A: 2}
    assert allowed.areas("kind") == ["area"]
    assert allowed.complaints("kind", "area", {A: ["x", "y"]}) == []
    assert allowed.complaints("kind", "area", {A: ["x", "y", "z"]})[1:] == ["x", "y", "z"]
    assert re.search("--lower", *allowed.complaints("kind", "area", {A: ["x"]}))
    allowed.lower("kind", "area", {})
    assert allowed.areas("kind") == []


@pytest.mark.usefixtures("lists")
def test_allowed_counts_never_rise():
    allowed.write("kind", "area", {A: 2})
    allowed.lower("kind", "area", {A: ["x"] * 3})
    assert allowed.read("kind", "area") == {A: 2}
    # Text moves to another file of the area, then back and with it a new finding.
    allowed.lower("kind", "area", {B: ["x", "y"]})
    assert allowed.read("kind", "area") == {B: 2}
    allowed.lower("kind", "area", {A: ["x", "y"], B: ["x"]})
    assert allowed.read("kind", "area") == {B: 1}
