"""`structinv warm`: later processes compile nothing, and what it does where it cannot work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import structinv
from structinv.cli.warming import USES, Family

from ..commands import fail

ROOT = Path(structinv.__file__).parents[1]

# Warms a family and then uses it, and prints what the use alone has machine code for.
COMPARING = """
import gc, warnings
from structinv.cli.warming import USES
from structinv.utils.jit import _Deferred
warnings.simplefilter("ignore")

def called():
    functions = [each for each in gc.get_objects() if isinstance(each, _Deferred)]
    found = [each for each in functions if vars(each)["_dispatcher"]]
    return {{
        (each.__module__, each.__qualname__, str(types)) for each in found for types in each.overloads
    }}

USES["{}"]()
warmed = called()
{}
print(len(warmed), sorted(called() - warmed))
"""
# Warms the family with the fewest functions.
ONE_FAMILY = """
from rich.console import Console
from structinv.cli.warming import Family, warm_up
warm_up(Family.MOLECULES, Console())
"""
# Uses that family in a new process, and counts what is compiled.
SAME_FAMILY = """
from structinv.cli.warming import USES
from structinv.utils.jit import compiled_functions
USES["molecules"]()
print(compiled_functions())
"""
WORDS = """
from structinv import InvariantLinearSVC
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop
X, y = make_mail_like(500, 800, random_state=3)
X = X.astype("float64")
assert X.format == "csr"
model = InvariantLinearSVC(FDrop(max_changes=4), C=0.02).fit(X, y)
model.certify(X, y), model.predict(X)
"""
IMAGES = """
from sklearn.datasets import load_digits
from structinv import InvariantSVC
from structinv.oracles import Rotations, Shifts
X, y = load_digits(return_X_y=True)
model = InvariantSVC(Shifts(1) | Rotations(degrees=[-10, 10]), C=10, tol=1e-2).fit(X[:150] / 16, y[:150])
model.certify(X[150:250] / 16, y[150:250]), model.predict(X[150:] / 16)
"""
SEQUENCES = """
from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, make_tagged_text
from structinv.oracles import Budget, FDrop
from structinv.structures import Sequence
sentences, labels = make_tagged_text(40, random_state=1)
X = conll_features(sentences)
model = InvariantStructuredSVC(Sequence("iob2"), oracle=FDrop(1), C=0.1).fit(X, labels)
model.certify(X, labels, oracle=Budget(FDrop(3))), model.predict(X)
"""
TEXTS = """
from structinv import InvariantTextClassifier
texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"] * 5
labels = ["spam", "spam", "ham", "ham"] * 5
model = InvariantTextClassifier("drop", max_changes=1, C=10.0).fit(texts, labels)
model.certify(texts, labels), model.predict(texts)
"""


def in_new_process(*arguments, **settings):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "use"), [("words", WORDS), ("images", IMAGES), ("sequences", SEQUENCES), ("texts", TEXTS)]
)
def test_a_use_calls_nothing_that_its_family_does_not(family, use):
    warmed, others = in_new_process("-c", COMPARING.format(family, use)).split(maxsplit=1)
    assert int(warmed) > 0
    assert others == "[]\n"


# Another process compiles for a quarter of a minute.
@pytest.mark.slow
def test_a_later_process_compiles_nothing(tmp_path):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    said = in_new_process("-c", ONE_FAMILY, **folder)
    assert " 0 functions" not in said
    assert str(tmp_path) in said
    assert in_new_process("-c", SAME_FAMILY, **folder) == "0\n"


def test_every_family_has_uses():
    assert USES.keys() == set(Family) - {Family.ALL}


def test_it_refuses_where_nothing_can_be_cached(monkeypatch):
    monkeypatch.setattr("structinv.cli.warming.cache_folder", lambda: None)
    assert "NUMBA_CACHE_DIR" in fail("warm", "words")


@pytest.mark.slow
def test_a_folder_that_was_named_and_is_not_used_counts_as_none(tmp_path):
    file = tmp_path / "file"
    file.touch()
    code = "from structinv.utils.jit import cache_folder; print(cache_folder())"
    assert in_new_process("-c", code, NUMBA_CACHE_DIR=str(file / "cache")).strip() == "None"
    assert in_new_process("-c", code, NUMBA_CACHE_DIR=str(tmp_path)).strip().startswith(str(tmp_path))
