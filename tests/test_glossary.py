"""The glossary: every name of the API that it lists is there."""

import importlib
import pkgutil
import re
from pathlib import Path

import structinv

GLOSSARY = Path(__file__).resolve().parents[1] / "docs" / "glossary.md"
COLUMNS = ["Term", "Meaning", "Papers", "Name", "Not"]


def entries():
    """The rows of the tables of terms."""
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| **")]
    return [dict(zip(COLUMNS, map(str.strip, row), strict=True)) for row in rows]


def modules():
    yield structinv
    for found in pkgutil.walk_packages(structinv.__path__, "structinv."):
        if found.name != "structinv.__main__":
            yield importlib.import_module(found.name)


DEFINED = {name: value for module in modules() for name, value in vars(module).items()}
NAMES = sorted({name for entry in entries() for name in re.findall(r"`([^`]+)`", entry["Name"])})


def test_names_in_the_glossary_exist():
    for name in NAMES:
        first, *rest = name.split(".")
        found = DEFINED[first]
        for attribute in rest:
            declared = getattr(found, "__annotations__", {})
            assert hasattr(found, attribute) or attribute in declared, name
            found = getattr(found, attribute, None)


def test_terms_of_the_glossary_differ():
    terms = [term for entry in entries() for term in re.findall(r"\*\*(.+?)\*\*", entry["Term"])]
    assert len(terms) > 50
    assert len(terms) == len(set(terms))
