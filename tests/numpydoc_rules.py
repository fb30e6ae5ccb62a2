"""Rules of numpydoc's validator for public classes, public functions and their public methods.

An area is a subpackage. It has the objects that its modules define.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path

from numpydoc.validate import ERROR_MSGS, validate

import structinv

KIND = "numpydoc"

# Two lines at the start of a section of a docstring.
SECTION = r"^[A-Z][A-Za-z ]+\n-{3,}$"

# Ruff formats docstrings, and a summary can be all that there is to write.
CODES = set(ERROR_MSGS) - {"GL01", "GL02", "GL03", "ES01"}
# The examples of a class use its methods.
NOT_OF_METHODS = {"EX01", "SA01"}
# Users read results but do not create them, so their fields are attributes.
NOT_OF_RESULTS = {"PR01"}


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


def is_result(item):
    """Return True for a class of records or of constants."""
    return inspect.isclass(item) and (is_dataclass(item) or issubclass(item, tuple | Enum))


def areas():
    """Return the checked objects of each area: name, path for numpydoc, and codes."""
    found = defaultdict(set)
    for item in public_items().values():
        found[_area(item)].add((item.__module__, item.__qualname__, _codes(item)))
        for method in methods(item) if inspect.isclass(item) else ():
            codes = frozenset(CODES - NOT_OF_METHODS)
            found[_area(method)].add((method.__module__, method.__qualname__, codes))
    return {area: sorted(items) for area, items in found.items()}


def findings(items):
    """Return the messages of numpydoc about these objects, by (object, code)."""
    found = defaultdict(list)
    for module, name, codes in items:
        for code, message in validate(f"{module}.{name}")["errors"]:
            if code in codes:
                found[name, code].append(f"  {module}.{name}: {code}: {message}")
    return found


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


def internal_sections():
    """Return the internal objects whose docstrings have sections."""
    public = {(module, name) for items in areas().values() for module, name, _ in items}
    root = Path(structinv.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for name, docstring in _docstrings(ast.parse(path.read_text(encoding="utf-8")), ""):
            if (module, name) not in public and re.search(SECTION, docstring, flags=re.M):
                found.append(f"{module}.{name}")
    return found


def _docstrings(node, prefix):
    """Yield the qualified names and the docstrings of the classes and functions of a module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            name = prefix + child.name
            yield name, ast.get_docstring(child) or ""
            yield from _docstrings(child, f"{name}.")
        else:
            yield from _docstrings(child, prefix)


def _codes(item):
    return frozenset(CODES - NOT_OF_RESULTS if is_result(item) else CODES)


def _area(item):
    return ".".join(item.__module__.split(".")[:2])
