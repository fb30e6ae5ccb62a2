"""The pages: their code runs and prints what they show, and names in them exist. Sphinx checks links."""

import importlib
import importlib.util
import pkgutil
import re
import sys
import types
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

import structinv
from structinv.oracles import REGISTRY

from . import pages

ROOT = Path(__file__).resolve().parents[2]
BUILT = ("docs/_build/", "docs/auto_examples/", "docs/api/generated/")
FOUND = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
PAGES = sorted(["README.md", *(page for page in FOUND if not page.startswith(BUILT))])
REFERENCE = [page for page in PAGES if page.startswith("docs/api/")]


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


WITH_CODE = [page for page in PAGES if pages.code_of(read(page))]
# What users read first. The other pages are for authors of extensions and for background.
FIRST = ("README.md", "docs/quickstart.md", "docs/guide/")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.startswith(FIRST) else pytest.mark.slow) for page in WITH_CODE],
)
def test_code_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")  # classes of a page can be pickled
    monkeypatch.setitem(sys.modules, "page", module)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for code in pages.code_of(read(page)):
            printed = pages.run(page, code, vars(module))
            assert (code.shown is not None) == bool(printed), f"{page}:{code.line} prints {printed!r}"
            assert not pages.differences(code.shown or "", printed), f"{page}:{code.line}"


def test_authors_of_extensions_need_no_private_names():
    for page in [page for page in PAGES if page.startswith("docs/extend/")]:
        text = read(page)
        code = [block.source for block in pages.code_of(text)] + re.findall(r"`([^`\n]+)`", text)
        assert not [each for each in code if re.search(r"(?<!\w)_[a-z]", each)], page


def test_code_stands_in_fences():
    """No code of a page goes untested."""
    indented = {
        page: re.findall(r"^ {4}(?:from|import) .*", read(page), flags=re.MULTILINE) for page in PAGES
    }
    assert not any(indented.values()), indented


def test_the_tables_of_oracles_are_what_their_classes_declare():
    module = script("docs/_ext/oracle_table.py")
    page = read("docs/guide/oracles.md")
    assert module.with_tables(page) == page, "run python docs/_ext/oracle_table.py"
    assert set(module.CHANGES) == set(REGISTRY)


def test_what_is_exported_is_in_a_page_an_example_or_a_benchmark():
    """Other names are imported from their modules."""
    code = [path for folder in ("examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    pages_and_code = [
        *map(read, [page for page in PAGES if page not in REFERENCE]),
        read("CONTRIBUTING.md"),
    ]
    pages_and_code += [path.read_text(encoding="utf-8") for path in code]
    known = {name for text in pages_and_code for name in re.findall(r"\w+", text)}
    assert len(exported()) > 100
    assert set(exported()) <= known


def exported():
    """The values of all public names."""
    names = [each.name for each in pkgutil.walk_packages(structinv.__path__, "structinv.") if each.ispkg]
    modules = [structinv, *map(importlib.import_module, names)]
    return {name: getattr(module, name) for module in modules for name in getattr(module, "__all__", ())}


def test_every_public_object_is_on_one_page_of_the_reference():
    listed = [
        path for page in REFERENCE for path in script("docs/_ext/api_links.py").listed_in(read(page))
    ]
    objects = [value_of(path) for path in listed]
    assert len({id(each) for each in objects}) == len(listed)
    missing = [name for name, value in exported().items() if not any(value is each for each in objects)]
    assert missing == ["__version__"]


def glossary(column):
    """The cells of a column of the tables of terms."""
    lines = [line for line in read("docs/glossary.md").splitlines() if line.startswith("| **")]
    return [re.split(r"(?<!\\)\|", line)[column] for line in lines]


def test_names_in_the_glossary_exist():
    found = pkgutil.walk_packages(structinv.__path__, "structinv.")
    modules = [importlib.import_module(each.name) for each in found if each.name != "structinv.__main__"]
    defined = {name: value for module in [structinv, *modules] for name, value in vars(module).items()}
    for path in {path for cell in glossary(3) for path in re.findall(r"`([^`]+)`", cell)}:
        first, *rest = path.split(".")
        value = defined[first]
        for name in rest:
            assert hasattr(value, name) or name in getattr(value, "__annotations__", {}), path
            value = getattr(value, name, None)


def test_terms_of_the_glossary_differ():
    terms = [term for cell in glossary(1) for term in re.findall(r"\*\*(.+?)\*\*", cell)]
    assert len(terms) == len(set(terms)) >= 20


def value_of(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def script(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_that_pages_name_are_there():
    folders = [ROOT, ROOT / "structinv", ROOT / "structinv" / "oracles", ROOT / "tests"]
    for page in [*PAGES, "CONTRIBUTING.md"]:
        named = set(re.findall(r"(?<![\w/.])((?:\w+/)+\w+\.py)\b", read(page)))
        missing = [name for name in named if not any((folder / name).exists() for folder in folders)]
        assert missing == [], page


def test_the_pages_are_few_and_short():
    assert len(read("README.md").splitlines()) <= 150
    assert len(PAGES) <= 52
    assert sum(len(read(page).split()) for page in PAGES) <= 65_000


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("0.973 right\n", "0.974 right\n", True),
        ("plain  0.92\n", "plain 0.92\n", True),
        ("97.3% of 200\n", "97.3% of 200\n", True),
        ("FDrop(5) at K=10: 1.0\n", "FDrop(5) at K=10: 1.0\n", True),
        ("0.973 right\n", "0.975 right\n", False),
        ("0.973 right\n", "0.973 wrong\n", False),
        ("200 rows\n", "201 rows\n", False),
        ("0.97\n", "0.973\n", False),
        ("-0.3\n", "0.3\n", False),
        ("1.0\n1.0\n", "1.0\n", False),
        ("", "1.0\n", False),
    ],
)
def test_output_agrees_up_to_the_last_digit(shown, printed, agree):
    assert agree == (not pages.differences(shown, printed))


def test_code_is_found_with_what_it_prints():
    text = "a\n```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n"
    first, second = pages.code_of(text)
    assert (first.line, first.source, first.shown) == (3, "x = 1\n", None)
    assert second.shown == "1\n"
    known = {}
    assert [pages.run("page", code, known) for code in (first, second)] == ["", "1\n"]
