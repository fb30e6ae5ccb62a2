"""Links from the names of public objects to their pages in the API reference.

Inline code of a page and names in the backticks of docstrings become links. The public names and their
paths are those that the pages in ``docs/api`` list.
"""

import importlib
import inspect
import re
import types
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform

API = Path(__file__).parents[1] / "api"
METHODS = types.FunctionType | classmethod | staticmethod
NAME = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:\(.*\))?", flags=re.DOTALL)


@cache
def paths():
    """Return the path of each public object that an API page lists, by its last name."""
    texts = [page.read_text(encoding="utf-8") for page in sorted(API.glob("*.md"))]
    return {path.rpartition(".")[2]: path for text in texts for path in listed_in(text)}


def listed_in(text):
    """Return the paths of the objects in the autosummary lists of an API page."""
    return re.findall(r"^ +(structinv\.[\w.]+)$", text, flags=re.MULTILINE)


def full_path(text):
    """Return the full path of the public object or of its attribute, None for other text."""
    match = NAME.fullmatch(text)
    if match is None:
        return None
    first, dot, rest = match["name"].removeprefix("structinv.").partition(".")
    if dot and first.islower() and first not in paths():
        first, dot, rest = rest.partition(".")
    return f"{paths()[first]}{dot}{rest}" if first in paths() else None


def own_methods(path):
    """Return the public methods of a class that structinv defines and documents."""
    module, _, name = path.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    defined = {
        method
        for base in cls.__mro__
        if base.__module__.startswith("structinv")
        for method, value in vars(base).items()
        if not method.startswith("_") and isinstance(value, METHODS)
    }
    methods = {name: getattr(cls, name) for name in defined}
    return sorted(
        name for name, method in methods.items() if callable(method) and inspect.getdoc(method)
    )


class LinkedCode(SphinxTransform):
    """Make references of inline code that names a public object."""

    default_priority = 400

    def apply(self):
        """Wrap the code of one page."""
        for node in list(self.document.findall(nodes.literal)):
            path = full_path(node.astext())
            if path is None or isinstance(node.parent, nodes.reference | pending_xref | nodes.title):
                continue
            target = {"refdomain": "py", "reftype": "obj", "reftarget": path, "refexplicit": True}
            reference = pending_xref("", refdoc=self.env.docname, **target)
            node.replace_self(reference)
            reference += node


def resolve(app, env, node, contnode):
    """Resolve the name of a public object that has no path in front."""
    if node.get("refdomain") != "py" or (path := full_path(node["reftarget"])) is None:
        return None
    objects = env.get_domain("py").objects
    found = path if path in objects else path.rpartition(".")[0]
    if found not in objects or path == node["reftarget"] == found:
        return None
    return env.get_domain("py").resolve_xref(
        env, node["refdoc"], app.builder, "obj", found, node, contnode
    )


def setup(app):
    """Connect the transform and the resolver."""
    app.add_transform(LinkedCode)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
