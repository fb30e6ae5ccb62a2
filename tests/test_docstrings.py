"""Docstrings of public items hold what numpydoc's parser looks for."""

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
from dataclasses import is_dataclass
from doctest import DocTestParser
from symtable import symtable
from types import FunctionType

import pytest
from numpydoc.docscrape import NumpyDocString

import structinv
from structinv.embeddings import REGISTRY as EMBEDDINGS
from structinv.estimators import REGISTRY as ESTIMATORS

from . import allowed, numpydoc_rules

MANY = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


ITEMS = numpydoc_rules.public_items()
CHECKED = numpydoc_rules.areas()


def named(entries):
    """The names of a section, of which an entry may have several."""
    return [name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")]


def parameters(item):
    """What the item is called with, without what a class inherits from none of ours."""
    if inspect.isclass(item) and not issubclass(item, tuple):
        if item.__init__ is object.__init__:
            return {}
        item = item.__init__
    found = inspect.signature(item).parameters
    return {name: each for name, each in found.items() if name != "self" and not name.startswith("_")}


def test_public_names_are_classes_and_functions():
    """`help` of another object, such as a dictionary, has the documentation of its type."""
    others = [
        f"{module.__name__}.{name}"
        for module in numpydoc_rules.packages()
        for name in getattr(module, "__all__", [])
        if not isinstance(getattr(module, name), type | FunctionType)
    ]
    assert others == ["structinv.__version__"]


@pytest.mark.parametrize("area", sorted({*CHECKED, *allowed.areas(numpydoc_rules.KIND)}))
def test_numpydoc_has_exactly_the_allowed_findings(area):
    findings = numpydoc_rules.findings(CHECKED.get(area, []))
    described = allowed.complaints(numpydoc_rules.KIND, area, findings)
    assert not described, "\n".join(described)


def test_internal_docstrings_have_no_sections():
    assert numpydoc_rules.internal_sections() == []


@pytest.mark.parametrize("name", ITEMS)
def test_every_parameter_is_documented_and_attributes_are_names(name):
    item = ITEMS[name]
    parsed = NumpyDocString(inspect.getdoc(item))
    assert parsed["Summary"]
    documented, asked = named(parsed["Parameters"]), parameters(item)
    # Results that users read but do not make list their fields as attributes.
    is_result = is_dataclass(item) or issubclass(item, tuple) if inspect.isclass(item) else False
    fields = named(parsed["Attributes"]) if is_result else []
    single = {each for each, parameter in asked.items() if parameter.kind not in MANY}
    assert single <= {*documented, *fields}
    if single == set(asked):
        assert set(documented) <= single
    assert len(set(documented)) == len(documented)
    attributes = named(parsed["Attributes"])
    assert [each for each in attributes if not each.isidentifier()] == []
    assert len(set(attributes)) == len(attributes)


SEEN = {name.rpartition(".")[2]: item for name, item in ITEMS.items()}


@pytest.mark.parametrize("name", ITEMS)
def test_defaults_are_the_documented_ones(name):
    asked = parameters(ITEMS[name])
    for entry in NumpyDocString(inspect.getdoc(ITEMS[name]))["Parameters"]:
        _, _, told = entry.type.partition("default=")
        if told and "`" not in told:
            assert {asked[each].default for each in named([entry])} == {ast.literal_eval(told)}
        see = re.match(r"Same as in `(\w+)`", " ".join(entry.desc))
        if see and see[1] in SEEN and not told:
            there = parameters(SEEN[see[1]])
            for each in named([entry]):
                assert asked[each].default == there[each].default, each


def test_every_public_method_has_a_docstring_or_inherits_one():
    undocumented = []
    for found in pkgutil.walk_packages(structinv.__path__, "structinv."):
        module = importlib.import_module(found.name) if not found.name.endswith("__main__") else None
        for name, kind in vars(module).items() if module else ():
            if name.startswith("_") or not inspect.isclass(kind) or kind.__module__ != found.name:
                continue
            undocumented += [f"{name}.{each}" for each in vars(kind) if lacks_docstring(kind, each)]
    assert undocumented == []


def lacks_docstring(kind, name):
    """Whether a method has no docstring, nor a base class that has this name."""
    item = inspect.getattr_static(kind, name)
    if name.startswith("_") or not (inspect.isfunction(item) or isinstance(item, property)):
        return False
    inherited = any(name in vars(base) for base in kind.__mro__[1:])
    return inspect.getdoc(getattr(kind, name)) is None and not (inherited and isinstance(item, property))


@pytest.mark.parametrize(
    "kind", [*ESTIMATORS.values(), *EMBEDDINGS.values()], ids=lambda kind: kind.__name__
)
def test_attributes_of_estimators_are_learned_ones(kind):
    documented = named(NumpyDocString(inspect.getdoc(kind))["Attributes"])
    assert documented
    assert all(each.endswith("_") and not each.startswith("_") for each in documented)


@pytest.mark.parametrize("name", ITEMS)
def test_examples_import_the_names_that_they_use_from_their_packages(name):
    for sources in example_sources(ITEMS[name]):
        assert undefined_names(sources) == []
        assert list(private_imports(sources)) == []


def test_undefined_names_of_an_example_have_no_earlier_definition():
    sources = [
        "import os.path as p",
        "f = lambda a: [b + a + c for b in p.sep]",
        "c = f(len(d))",
        "d = c",
    ]
    assert undefined_names(sources) == ["c", "d"]


def example_sources(item):
    """Return the statements of the examples of an item and of its public methods, by docstring."""
    documented = [item, *(numpydoc_rules.methods(item) if inspect.isclass(item) else ())]
    parsed = [DocTestParser().get_examples(inspect.getdoc(each)) for each in documented]
    return [[example.source for example in examples] for examples in parsed]


def undefined_names(sources):
    """Return the names that statements use without an earlier definition."""
    defined, undefined = set(dir(builtins)), []
    for source in sources:
        scope = symtable(source, "example", "exec")
        symbols = scope.get_symbols()
        defined |= {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}
        undefined += [each for each in global_names(scope) if each not in defined]
    return undefined


def global_names(scope):
    """Yield the global names that a scope and its functions use."""
    for each in scope.get_symbols():
        if each.is_referenced() and each.is_global():
            yield each.get_name()
    for inner in scope.get_children():
        yield from global_names(inner)


def private_imports(sources):
    """Yield the imports of public names from modules that are not their packages."""
    for node in ast.walk(ast.parse("".join(sources))):
        if not isinstance(node, ast.ImportFrom) or node.module.split(".")[0] != "structinv":
            continue
        module = importlib.import_module(node.module)
        for name in (alias.name for alias in node.names):
            if getattr(module, name) in ITEMS.values() and name not in getattr(module, "__all__", ()):
                yield f"{node.module}.{name}"
