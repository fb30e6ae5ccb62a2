"""The package as a whole: what importing it loads, its layers, metadata, addresses and workflows."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import structinv

from . import pages

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "structinv"


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


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
    "functionals",
    "spaces",
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


def test_the_architecture_page_lists_the_imports_of_each_package():
    text = read("docs/project/architecture.md")
    cells = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", text, flags=re.MULTILINE)
    listed = {package: set(re.findall(r"`(\w+)`", cell)) for package, cell in cells}
    found = {package: set() for package in LAYERS if package != "__main__"}
    for name in filter(layer, set(MODULES) - {"structinv.__main__"}):
        found[layer(name)] |= {layer(module) or "structinv" for module in imported_modules(name)}
    assert list(listed) == list(found)
    assert listed == {package: others - {package} for package, others in found.items()}


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


def test_the_package_is_typed_and_has_a_version():
    assert (PACKAGE / "py.typed").is_file()
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", structinv.__version__)


def test_importing_the_package_stays_light():
    """Nothing heavy is loaded that the light dependencies do not load by themselves."""
    light = "joblib, numba, numpy, scipy, sklearn.base, threadpoolctl"
    heavy = f"sorted(set(sys.modules).intersection({HEAVY!r}))"
    code = f"import sys, {light}\nbefore = {heavy}\nimport structinv\nassert {heavy} == before, {heavy}"
    subprocess.run([sys.executable, "-c", code], check=True)
    # That a dependency loads it is no leave to do so here.
    for name in MODULES:
        if layer(name) not in ("cli", "__main__"):
            at_import = imports(name, at_import=True)
            assert not [m for m in HEAVY if any(f"{other}.".startswith(f"{m}.") for other in at_import)]


# Metadata, addresses, workflows and the README of a package index.

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
URLS = PROJECT["urls"]


def field(name):
    """A field of the first level of CITATION.cff."""
    (value,) = re.findall(rf'^{name}: "?([^"\n]*)"?$', read("CITATION.cff"), flags=re.MULTILINE)
    return value


def pythons():
    """The versions of Python in the classifiers, oldest first."""
    prefix = "Programming Language :: Python :: "
    versions = [name.removeprefix(prefix) for name in PROJECT["classifiers"] if name.startswith(prefix)]
    return [version for version in versions if re.fullmatch(r"3\.\d+", version)]


def test_the_oldest_python_is_the_required_one():
    assert pythons()
    assert PROJECT["requires-python"] == f">={pythons()[0]}"
    assert PYPROJECT["tool"]["ruff"]["target-version"] == "py" + pythons()[0].replace(".", "")


def test_the_workflow_tests_every_python_of_the_classifiers():
    (tested,) = re.findall(r"python: \[(.*)\]", read(".github/workflows/tests.yml"))
    assert set(pythons()) <= set(re.findall(r'"(3\.\d+)"', tested))


def test_citation_has_the_version_and_the_addresses():
    assert field("version") == re.match(r"\d+\.\d+\.\d+", structinv.__version__)[0]
    assert field("repository-code") == URLS["Homepage"]
    assert field("url") == URLS["Documentation"]
    assert field("license") == PROJECT["license"]
    assert f"version = {{{field('version')}}}" in read("README.md")


def on_a_package_index(text):
    """The text with the substitutions of pyproject.toml."""
    for each in PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


def test_links_of_the_readme_are_absolute_on_a_package_index():
    owner_and_name = URLS["Homepage"].removeprefix("https://github.com/")
    pictures = f"https://raw.githubusercontent.com/{owner_and_name}/v$HFPR_VERSION/"
    files = f"{URLS['Homepage']}/blob/v$HFPR_VERSION/"
    text = on_a_package_index(read("README.md"))
    assert not [target for target, _ in pages.links_of(text) if target]
    starts = (pictures, files)
    absolute = re.findall(r"\]\((https?:[^)]*)\)", text)
    relative = [(target, anchor) for target, anchor in pages.links_of(read("README.md")) if target]
    assert len([link for link in absolute if link.startswith(starts)]) == len(relative) > 10
    for link in absolute:
        if link.startswith(starts):
            path = link.removeprefix(pictures).removeprefix(files).partition("#")[0]
            assert (ROOT / path).exists(), path
            assert path.endswith((".png", ".svg")) == link.startswith(pictures)


def test_the_tests_with_the_lowest_versions_have_all_extras():
    listed = set(re.findall(r"--extra (\w+)", read(".ci/lowest")))
    tools = {"dev", "docs"}  # lint, types and the site
    assert listed == set(PROJECT["optional-dependencies"]) - tools


@pytest.mark.parametrize("name", [path.name for path in (ROOT / ".github" / "workflows").glob("*.yml")])
def test_scripts_and_extras_of_workflows_are_there(name):
    text = read(f".github/workflows/{name}")
    scripts = re.findall(r"run: (\.ci/\w+)", text)
    extras = re.findall(r'"\.\[(\w+)\]"', text)
    assert scripts or extras
    assert all((ROOT / script).is_file() for script in scripts)
    assert set(extras) <= set(PROJECT["optional-dependencies"])
