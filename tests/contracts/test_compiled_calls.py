"""Calls of compiled functions in the whole package."""

import ast
import functools
import re
from pathlib import Path

import structinv

PACKAGE = Path(structinv.__file__).parent


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def compiled_in(path):
    """The parameters of the compiled functions that a module defines, by their names."""
    if "njit" not in path.read_text(encoding="utf-8"):
        return {}
    return {
        node.name: [each.arg for each in node.args.args]
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef) and "njit" in "".join(map(ast.unparse, node.decorator_list))
    }


def imported_in(path, tree):
    """The parameters of the compiled functions that a module imports, by their names there."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level > 0 and node.module:
            source = path.parents[node.level - 1].joinpath(*node.module.split(".")).with_suffix(".py")
            theirs = compiled_in(source) if source.is_file() else {}
            names = {each.asname or each.name: each.name for each in node.names}
            found |= {name: theirs[own] for name, own in names.items() if own in theirs}
    return found


def positions(call, parameters):
    """The names of the arguments of a call with their parameters, up to the first unpacked one."""
    starred = [isinstance(each, ast.Starred) for each in call.args]
    names = [getattr(each, "id", getattr(each, "attr", None)) for each in call.args]
    return list(zip(names, parameters, strict=False))[: [*starred, True].index(True)]


def test_arguments_with_the_name_of_a_parameter_are_passed_to_it():
    """Compiled functions take up to thirty arrays by position, so a swap would be silent."""
    swapped, n_calls = [], 0
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    sources = [path for path, text in texts.items() if "njit" in text]
    # Parsing takes most of the time: others import no compiled function that they call.
    stems = "|".join(path.stem for path in sources)
    names = "|".join(name for path in sources for name in compiled_in(path))
    imports = re.compile(rf"^from \.[\w.]*\b({stems}) import", re.MULTILINE)
    calls = re.compile(rf"\b({names})(\(| as )")
    for path, text in texts.items():
        if path not in sources and not (imports.search(text) and calls.search(text)):
            continue
        tree = parsed(path)
        functions = compiled_in(path) | imported_in(path, tree)
        for call in ast.walk(tree) if functions else ():
            if not isinstance(call, ast.Call) or getattr(call.func, "id", None) not in functions:
                continue
            n_calls += 1
            parameters = functions[call.func.id]
            pairs = positions(call, parameters)
            swapped += [
                f"{path.name}:{call.lineno}: {name} is passed to {parameter}"
                for name, parameter in pairs
                if name in parameters and name != parameter and (name, name) not in pairs
            ]
    assert swapped == []
    assert n_calls > 100
