"""How many functions first uses of the package compile, in a process with an empty cache.

Counts hold on any machine, seconds on none.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

# The most compilations of each use, those of Numba's own library included.
MOST = {"words": 18, "text": 8, "images": 14, "orbit": 8, "moons": 10, "sequence": 36}


def uses(tmp_path, *names):
    """For each use, one after another in a new process, the compilations as (module, name, types)."""
    script = Path(__file__).with_name("first_uses.py")
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    settings.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, str(script), *names]
    printed = subprocess.run(command, env=settings, check=True, capture_output=True, text=True).stdout
    return {name: found for name, _, found in map(json.loads, printed.splitlines())}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """All uses, one after another."""
    return uses(tmp_path_factory.mktemp("cache"), *MOST)


def assert_few(name, found):
    compiled = [f"{module}.{function}" for module, function, _ in found[name]]
    assert 0 < len(compiled) <= MOST[name], "\n".join(compiled)


@pytest.mark.slow
def test_the_readme_s_use_compiles_few_functions(tmp_path):
    assert_few("words", uses(tmp_path, "words"))


@pytest.mark.slow
def test_uses_together_compile_few_functions(together):
    for name in MOST:
        assert_few(name, together)


@pytest.mark.slow
def test_no_function_is_compiled_twice_for_layouts_literals_or_widths(together):
    found = defaultdict(set)
    for compiled in together.values():
        for module, function, types in compiled:
            if module.startswith("structinv"):
                found[f"{module}.{function}", alike(types)].add(types)
    twice = {name: types for (name, _), types in found.items() if len(types) > 1}
    assert not twice


def alike(types):
    """Types without the layout of arrays, the values of literals, and the width of integers."""
    types = re.sub(r"Literal\[int\]\([^)]*\)", "int64", types)
    types = re.sub(r"\bu?int(8|16|32|64)\b", "int", types)
    return re.sub(r"'[ACF]'", "'?'", types)


def test_types_that_differ_in_kind_are_not_alike():
    array = "Array({}, 1, '{}', False, aligned=True)"
    assert alike(array.format("int32", "A")) == alike(array.format("int64", "C"))
    assert alike("Literal[int](-1)") == alike("int32")
    assert alike(array.format("float32", "C")) != alike(array.format("float64", "C"))
