"""Whether the tests find planted bugs: `python -m tests.planted` runs the tests on every patch.

Each patch of a folder ``tests/planted/PACKAGE`` is one bug in ``structinv/PACKAGE``. It is applied to a
copy of the checkout, and the default tests of the package run there, then those of ``tests/contracts``
and, with ``--all``, all others and the slow ones. A bug counts as found as soon as a test fails.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).parent
# Longer than the slowest part of the tests; a bug may also keep a solver from ending.
SECONDS = 1800


def main() -> None:
    """Print one line per bug, and the numbers of each package."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="packages, such as dual, or bugs, such as dual/NAME")
    parser.add_argument("--all", action="store_true", help="also all other tests, and the slow ones")
    parser.add_argument("--jobs", type=int, default=1, help="bugs at a time")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    patches = sorted(PATCHES.glob("*/*.patch"))
    known = {name for patch in patches for name in (_name(patch), patch.parent.name)}
    if unknown := sorted(set(options.names) - known):
        parser.error(f"no package and no bug is called {', '.join(unknown)}")
    if options.names:
        patches = [each for each in patches if {_name(each), each.parent.name} & set(options.names)]
    found: dict[str, str] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda patch: (patch, *_try(patch, options.all)), patches)
        for patch, where, seconds in results:
            found[_name(patch)] = where
            print(f"{_name(patch):50} {where or 'not found':60} {seconds:4.0f} s", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    for package in sorted({name.split("/")[0] for name in found}):
        its = [where for name, where in found.items() if name.startswith(f"{package}/")]
        print(f"{package:20} {sum(map(bool, its))} of {len(its)} found")


def _name(patch: Path) -> str:
    return f"{patch.parent.name}/{patch.stem}"


def _try(patch: Path, everything: bool) -> tuple[str, float]:
    """The first test that fails with a bug, or an empty string, and the seconds of all runs."""
    start = time.monotonic()
    parts = [[f"tests/{patch.parent.name}"], ["tests/contracts"]]
    if everything:
        parts += [["tests", "structinv"], ["-m", "slow", "tests"]]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "_build", "auto_examples"))
        files = _apply(patch, copy)
        _forget_compiled(copy, files)
        for part in parts:
            test = _first_failure(copy, part)
            if test:
                return test, time.monotonic() - start
    return "", time.monotonic() - start


def _apply(patch: Path, copy: Path) -> list[str]:
    """Apply a patch, and return the changed files."""
    command = ["git", "apply", "--verbose", "--recount", "--unidiff-zero", str(patch)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{patch} does not apply: change it along with the code\n{done.stderr}")
    lines = patch.read_text().splitlines()
    return [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/")]


def _first_failure(copy: Path, part: list[str]) -> str:
    """The first test of a part that fails, or an empty string."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *part]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    if done.returncode in (0, 5):  # 5: no tests
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    failed = [line for line in lines if "::" in line]
    if not failed:  # such as tests that cannot be imported
        raise RuntimeError(f"pytest failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return failed[0].split(" - ")[0].split(maxsplit=1)[1]


def _forget_compiled(copy: Path, files: list[str]) -> None:
    """Delete the cache of functions into which functions of changed files are compiled.

    Numba compares the time of a function's own file only.
    """
    changed = {str(Path(file).with_suffix("")).replace("/", ".") for file in files}
    users = _users_of_compiled(copy)
    while True:
        more = {user for module in changed for user in users.get(module, ())} - changed
        if not more:
            break
        changed |= more
    for module in changed:
        *folders, name = module.split(".")
        for index in copy.joinpath(*folders, "__pycache__").glob(f"{name}.*.nbi"):
            index.unlink()


def _users_of_compiled(copy: Path) -> dict[str, set[str]]:
    """For each module, the modules that import compiled functions from it."""
    trees = {
        ".".join(path.relative_to(copy).with_suffix("").parts): ast.parse(path.read_text())
        for path in copy.glob("structinv/**/*.py")
    }
    compiled = {
        module: {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            and any("jit" in ast.dump(decorator) for decorator in node.decorator_list)
        }
        for module, tree in trees.items()
    }
    users: dict[str, set[str]] = {}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                parent = module.split(".")[: -node.level] if node.level else []
                source = ".".join([*parent, *(node.module or "").split(".")])
                if compiled.get(source, set()) & {alias.name for alias in node.names}:
                    users.setdefault(source, set()).add(module)
    return users


if __name__ == "__main__":
    main()
