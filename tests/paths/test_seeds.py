"""Tests are the same in every run: what draws from entropy where it gets no seed always gets one."""

import ast
from pathlib import Path

# Positional arguments after which there is a seed; elsewhere it must be named.
SEEDED = {"default_rng": 1, "solve": 7}


def unseeded(tree):
    """Calls in a module that would draw from entropy, and the line of each."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        # `solve` as a method is that of other packages.
        name = getattr(node.func, "id", None)
        if name is None and getattr(node.func, "attr", None) == "default_rng":
            name = "default_rng"
        named = {keyword.arg for keyword in node.keywords}
        seeded = len(node.args) >= SEEDED.get(name, 0) or named & {"seed", "random_state", None}
        if not seeded:
            yield node.lineno, name


def test_no_test_draws_from_entropy():
    paths = sorted(Path(__file__).parent.glob("*.py"))
    found = {path.name: list(unseeded(ast.parse(path.read_text(encoding="utf-8")))) for path in paths}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_calls_without_a_seed_are_found():
    code = "np.random.default_rng()\nsolve(a, b)\nsolve(a, b, random_state=0)\nproblem.solve()"
    assert list(unseeded(ast.parse(code))) == [(1, "default_rng"), (2, "solve")]
