"""The package as a whole: what importing it loads, its layers, and the README's commands."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import structinv

from .platforms import posix_only

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "structinv"

# From bottom to top: a module imports from its own layer and from those above it in this list.
LAYERS = [
    "utils",
    "rows",
    "losses",
    "structures",
    "regions",
    "oracles",
    "metrics",
    "kernels",
    "embeddings",
    "spaces",
    "functionals",
    "terms",
    "dual",
    "solvers",
    "certificates",
    "estimators",
    "other_models",
    "persistence",
    "inspection",
    "model_selection",
    "datasets",
    "report",
    "dask",
    "cli",
    "__main__",
]


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def not_at_import(tree):
    """Nodes that do not run when the module is imported: bodies of functions."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda))
    return {node for function in functions for node in ast.walk(function)}


def only_for_types(tree):
    """Nodes that run for type checkers only."""
    blocks = (n for n in ast.walk(tree) if isinstance(n, ast.If))
    typing = (block for block in blocks if "TYPE_CHECKING" in ast.dump(block.test))
    return {node for block in typing for node in ast.walk(block)}


def imported_modules(name, *, at_import=False):
    """Modules of the package that a module imports, anywhere or when it is imported itself."""
    everything = imports(name, at_import=at_import)
    return {module for module in everything if module.split(".")[0] == "structinv"} - {name}


@cache
def imports(name, *, at_import=False):
    """All that a module imports, anywhere or when it is imported itself."""
    path = MODULES[name]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    skipped = only_for_types(tree) | (not_at_import(tree) if at_import else set())
    found = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(parents if node.level else []), *filter(None, [node.module])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in MODULES else base)
    return frozenset(found)


def layer(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def test_every_module_is_in_a_package_of_its_layer():
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__"}
    assert len(list(PACKAGE.glob("*/__init__.py"))) == len(LAYERS) - 1


def test_every_module_has_a_layer():
    unknown = {layer(name) for name in MODULES} - {None} - set(LAYERS)
    assert not unknown, f"give {sorted(unknown)} a place in LAYERS"


def test_imports_run_one_way():
    wrong = []
    for name in filter(layer, MODULES):
        place = LAYERS.index(layer(name))
        for module in imported_modules(name):
            if layer(module) is None:
                # The package itself stands for all layers, so only what lies outside may use it.
                if layer(name) not in ("cli", "__main__"):
                    wrong.append(f"{name} imports the whole package")
            elif LAYERS.index(layer(module)) > place:
                wrong.append(f"{name} imports {module} from above")
    assert not wrong, "\n".join(wrong)


def test_the_import_walker_sees_relative_imports():
    assert "structinv.datasets.conll" in imported_modules("structinv.datasets")
    assert "structinv.datasets" in imported_modules("structinv.cli.data")
    assert "structinv.cli" in imported_modules("structinv.__main__")


# Base classes know their combinators, which `|`, `@` and `+` make: imported inside these methods.
COMBINATORS = {
    "structinv.oracles.base": {"combinators", "compose", "union"},
    "structinv.kernels.base": {"combinations"},
}


def test_there_are_no_circles():
    """Imports inside functions count."""
    graph = {name: imported_modules(name) for name in MODULES}
    for base, combinators in COMBINATORS.items():
        known = {f"{base.rpartition('.')[0]}.{name}" for name in combinators}
        assert known <= graph[base] - imported_modules(base, at_import=True)
        graph[base] = graph[base] - known
    assert list(TopologicalSorter(graph).static_order())


def test_numba_is_asked_through_jit():
    """Where nothing can be kept, its own `njit(cache=True)` fails when a module is imported."""
    others = [name for name in MODULES if name != "structinv.utils.jit"]
    wrong = [name for name in others if "numba" in {part.split(".")[0] for part in imports(name)}]
    assert not wrong


HEAVY = ("cvxpy", "matplotlib", "typer", "skops", "pandas", "sklearn.cluster")
# Parts of scikit-learn that few fits need.
HEAVY += ("sklearn.decomposition", "sklearn.feature_extraction", "sklearn.linear_model")
HEAVY += ("sklearn.neighbors", "sklearn.svm")


def heavy_after(code):
    """Which heavy packages a new process has loaded after some code."""
    code = f"import sys\n{code}\nprint(*set(sys.modules).intersection({HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def heavy_here():
    return heavy_after("import structinv")


@pytest.fixture(scope="module")
def heavy_elsewhere():
    """What the light dependencies load by themselves: scikit-learn looks for pandas, for one."""
    reached, waiting = set(), {"structinv"}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        parents = {name.rpartition(".")[0]} if "." in name else set()
        waiting |= ((imported_modules(name, at_import=True) | parents) & set(MODULES)) - reached
    outside = {other.split(".")[0] for name in reached for other in imports(name, at_import=True)}
    outside -= {"structinv", *HEAVY}
    assert {"numpy", "sklearn", "numba"} <= outside
    return heavy_after("\n".join(f"import {name}" for name in sorted(outside)))


@pytest.mark.parametrize("module", HEAVY)
def test_importing_the_package_stays_light(module, heavy_here, heavy_elsewhere):
    assert module not in heavy_here - heavy_elsewhere
    # That a dependency loads it is no leave to do so here.
    at_import = {
        name
        for name in MODULES
        if any(f"{other}.".startswith(f"{module}.") for other in imports(name, at_import=True))
    }
    assert all(layer(name) in ("cli", "__main__") for name in at_import), sorted(at_import)


def test_the_package_is_typed_and_has_a_version():
    assert (PACKAGE / "py.typed").is_file()
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", structinv.__version__)


def readme_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*)$", text, flags=re.MULTILINE)[:2]


def test_readme_starts_with_the_two_commands():
    demo, tests = readme_commands()
    assert demo.startswith("python -m pip install")
    assert demo.endswith("structinv demo")
    assert tests.startswith("python -m pip install")
    assert "python -m pytest" in tests


@posix_only
def test_continuous_integration_runs_the_readme_commands():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (extraction,) = re.findall(r"^mapfile -t commands < <\((.*)\)$", script, flags=re.MULTILINE)
    lines = subprocess.run(
        ["bash", "-c", extraction], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert lines == readme_commands()
    assert 'bash -c "set -euo pipefail; $command"' in script
