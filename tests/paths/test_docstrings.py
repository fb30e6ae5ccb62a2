"""Docstrings of public classes, functions and methods: defaults, fields, and examples that are whole."""

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
from doctest import DocTestParser
from enum import Enum
from pathlib import Path
from symtable import symtable
from types import FunctionType

from numpydoc.docscrape import NumpyDocString

import structinv
from structinv.embeddings import REGISTRY as EMBEDDINGS
from structinv.estimators import REGISTRY as ESTIMATORS

# Two lines at the start of a section of a docstring.
SECTION = r"^[A-Z][A-Za-z ]+\n-{3,}$"

# The other parameters of a class can be those of another class.
REFERENCE = r"other\s+parameters and\s+attributes are those of :class:`([\w.]+)`"


def packages():
    """Return the package and its subpackages."""
    found = pkgutil.walk_packages(structinv.__path__, "structinv.")
    return [structinv, *(importlib.import_module(each.name) for each in found if each.ispkg)]


def public_items():
    """Return the classes and functions in `__all__` of the package and its subpackages, by name."""
    items = {}
    for module in packages():
        for name in getattr(module, "__all__", []):
            item = getattr(module, name)
            if inspect.isclass(item) or inspect.isfunction(item):
                items.setdefault(item, f"{module.__name__}.{name}")
    return {name: item for item, name in items.items() if item.__module__.startswith("structinv")}


def methods(kind):
    """Yield the public methods and properties of the package that have a docstring of their own."""
    for base in kind.__mro__:
        for name, member in vars(base).items():
            # Methods of classes, properties, cached properties, and methods that not all instances have.
            wrapped = (getattr(member, each, None) for each in ("__func__", "fget", "func", "fn"))
            member = next(filter(inspect.isfunction, wrapped), member)
            if not inspect.isfunction(member) or name.startswith("_") or not member.__doc__:
                continue
            if member.__module__.startswith("structinv"):
                yield member


def docstrings_of(node, prefix):
    """Yield the qualified names and the docstrings of the classes and functions of a module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            name = prefix + child.name
            yield name, ast.get_docstring(child) or ""
            yield from docstrings_of(child, f"{name}.")
        else:
            yield from docstrings_of(child, prefix)


ITEMS = public_items()
SEEN = {name.rpartition(".")[2]: item for name, item in ITEMS.items()}


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


def named_class(path):
    """Return the public class of a path such as "structinv.InvariantSVC"."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_public_names_are_classes_and_functions():
    """`help` of another object, such as a dictionary, has the documentation of its type."""
    others = [
        f"{module.__name__}.{name}"
        for module in packages()
        for name in getattr(module, "__all__", [])
        if not isinstance(getattr(module, name), type | FunctionType)
    ]
    assert others == ["structinv.__version__"]


def test_classes_and_functions_have_an_example_and_related_names():
    """The site reports numpydoc's other errors."""
    for name, item in ITEMS.items():
        parsed = NumpyDocString(inspect.getdoc(item))
        assert parsed["Examples"], name
        assert parsed["See Also"], name


def test_internal_docstrings_have_no_sections():
    public = {f"{item.__module__}.{item.__qualname__}" for item in ITEMS.values()}
    public |= {
        f"{method.__module__}.{method.__qualname__}"
        for item in ITEMS.values()
        for method in (methods(item) if inspect.isclass(item) else ())
    }
    root, found = Path(structinv.__file__).parent, []
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        for name, docstring in docstrings_of(ast.parse(path.read_text(encoding="utf-8")), ""):
            if f"{module}.{name}" not in public and re.search(SECTION, docstring, flags=re.M):
                found.append(f"{module}.{name}")
    assert found == []


def test_parameters_are_documented():
    """Fields of results are parameters or attributes."""
    for name, item in ITEMS.items():
        if inspect.isclass(item) and issubclass(item, Enum | Exception):
            continue
        docstring = inspect.getdoc(item)
        parsed, asked = NumpyDocString(docstring), set(parameters(item))
        if other := re.search(REFERENCE, docstring):
            asked -= {*parameters(named_class(other[1]))}
        assert asked <= {*named(parsed["Parameters"]), *named(parsed["Attributes"])}, name
        for method in methods(item) if inspect.isclass(item) else ():
            asked = set(parameters(method)) - {"cls"}
            assert asked <= {*named(NumpyDocString(inspect.getdoc(method))["Parameters"])}, method


def test_defaults_are_the_documented_ones():
    for item in ITEMS.values():
        check_defaults(item)


def check_defaults(item):
    asked = parameters(item)
    for entry in NumpyDocString(inspect.getdoc(item))["Parameters"]:
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


def test_attributes_of_estimators_are_learned_ones():
    for kind in [*ESTIMATORS.values(), *EMBEDDINGS.values()]:
        documented = named(NumpyDocString(inspect.getdoc(kind))["Attributes"])
        assert documented, kind
        assert all(each.endswith("_") and not each.startswith("_") for each in documented), kind


def test_examples_import_the_names_that_they_use_from_their_packages():
    for name, item in ITEMS.items():
        for sources in example_sources(item):
            assert undefined_names(sources) == [], name
            assert list(private_imports(sources)) == [], name


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
    documented = [item, *(methods(item) if inspect.isclass(item) else ())]
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
