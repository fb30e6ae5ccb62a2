"""How many functions first uses of the package compile, in a process with an empty cache.

``python test_first_uses.py words images`` runs these uses one after another and prints a line of JSON
for each: its name, its processor seconds, and a name with types for each compilation. Functions of
Numba's own library count, too. Counts hold on any machine, seconds on none.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict

import pytest
from numba.core import event

COMPILED = []


class Recorder(event.Listener):
    """Collects the module, the name and the argument types of each compilation."""

    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        COMPILED.append((function.__module__, function.__qualname__, str(event.data["args"])))

    def on_end(self, event):
        pass


def words():
    from structinv import InvariantLinearSVC
    from structinv.datasets import make_mail_like
    from structinv.oracles import FDrop

    X, y = make_mail_like(random_state=0)
    X_new, y_new = make_mail_like(shift=0.5, random_state=1)
    model = InvariantLinearSVC(FDrop(max_changes=5), C=0.01).fit(X, y)
    model.score(X_new, y_new)
    model.certify(X_new, y_new)


def images():
    from sklearn.datasets import load_digits

    from structinv import InvariantSVC
    from structinv.oracles import Rotations, Shifts

    X, y = load_digits(return_X_y=True)
    X = X / 16
    moves = Shifts(1) | Rotations(degrees=[-10, 10])
    model = InvariantSVC(moves, C=10, tol=1e-2).fit(X[:100], y[:100])
    model.score(X[100:200], y[100:200])
    model.certify(X[100:200], y[100:200])


def moons():
    from sklearn.datasets import make_moons

    from structinv import RepresenterClassifier
    from structinv.functionals import Gradient
    from structinv.kernels import Gaussian

    X, y = make_moons(200, noise=0.05, random_state=0)
    known = y.copy()
    known[2:] = -1
    model = RepresenterClassifier(Gaussian(0.25), invariances=[Gradient()], nu=0.1)
    model.fit(X, known).score(X, y)


def sequence():
    from structinv import InvariantStructuredSVC
    from structinv.datasets import conll_features, make_tagged_text
    from structinv.oracles import Budget, FDrop
    from structinv.structures import Sequence

    sentences, labels = make_tagged_text(60, random_state=0)
    X = conll_features(sentences)
    tagger = InvariantStructuredSVC(Sequence("iob2"), oracle=FDrop(1), C=0.1, random_state=0)
    tagger.fit(X[:40], labels[:40])
    tagger.certify(X[40:], labels[40:], oracle=Budget(FDrop(3)))


def text():
    from structinv import InvariantTextClassifier

    texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"]
    labels = ["spam", "spam", "ham", "ham"]
    model = InvariantTextClassifier("drop", max_changes=1, C=10.0).fit(texts, labels)
    model.certify(texts, labels)
    model.worst_case(texts, labels)


def orbit():
    from sklearn.datasets import load_digits
    from sklearn.svm import SVC

    from structinv.kernels import Gaussian, OrbitMean
    from structinv.oracles import Rotations

    X, y = load_digits(return_X_y=True)
    X = X / 16
    kernel = OrbitMean(Rotations(interval=(-30, 30)), Gaussian(1.5), n_draws=8)
    SVC(kernel=kernel, C=10).fit(X[:100], y[:100]).score(X[100:200], y[100:200])


USES = {use.__name__: use for use in (words, text, images, orbit, moons, sequence)}
# The most compilations of each use, those of Numba's own library included.
MOST = {"words": 18, "text": 19, "images": 14, "orbit": 8, "moons": 10, "sequence": 36}


def uses(tmp_path, *names):
    """For each use, one after another in a new process, the compilations as (module, name, types)."""
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    settings.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, __file__, *names]
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


if __name__ == "__main__":
    event.register("numba:compile", Recorder())
    # Importing is not part of a use.
    import structinv  # noqa: F401

    for name in sys.argv[1:] or USES:
        COMPILED.clear()
        started = time.process_time()
        USES[name]()
        print(json.dumps([name, round(time.process_time() - started, 2), COMPILED]))
