"""The package as a whole: what importing it loads, metadata, addresses and workflows."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import structinv

from . import pages

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "structinv"


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_tests_of_a_package_are_named_after_its_modules():
    """Contracts of all classes and paths through several packages are in two folders of their own."""
    tests = ROOT / "tests"
    found = [path.relative_to(tests) for path in tests.rglob("test_*.py")]
    assert len(found) > 100
    others = [path for path in found if path.parts[0] not in ("contracts", "paths")]
    assert [path for path in others if not any(map(Path.is_file, modules_of(path)))] == []


def modules_of(path):
    """Modules that a file may test: ``test_loop_interrupts.py`` belongs to ``loop.py``."""
    words = path.stem.split("_")[1:]
    names = ["_".join(words[: number + 1]) for number in range(len(words))]
    return [PACKAGE / path.parent / f"{name}.py" for name in names]


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
    assert field("version") == structinv.__version__
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


def test_scripts_and_extras_of_workflows_are_there():
    workflows = list((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows
    for path in workflows:
        text = path.read_text(encoding="utf-8")
        scripts = re.findall(r"run: (\.ci/\w+)", text)
        extras = re.findall(r'"\.\[(\w+)\]"', text)
        assert scripts or extras
        assert all((ROOT / script).is_file() for script in scripts)
        assert set(extras) <= set(PROJECT["optional-dependencies"])
