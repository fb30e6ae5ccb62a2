"""What `save` takes is given back by `load`, with what it is told to trust, or refused by name."""

import ast
import enum
import re
from collections import deque
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import structinv
from structinv import InvariantLinearSVC, InvariantStructuredSVC
from structinv.datasets import make_mail_like
from structinv.oracles import Box, FDrop
from structinv.structures import Sequence

from .cases import Own, assert_same


class Color(enum.Enum):
    """Labels that have names."""

    RED = 1
    BLUE = 2


class Rank(enum.IntEnum):
    """Labels that are numbers, too."""

    LOW = 1
    HIGH = 2


@pytest.fixture
def path(tmp_path):
    """A file that is there already."""
    structinv.save(InvariantLinearSVC(), tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (deque([1.0, 2.0]), "collections.deque"),
        ({"a": [1, deque([2])]}, "builtins.dict"),
        (re.compile("a"), "re.Pattern"),
        (sp.lil_matrix(np.eye(2)), "scipy.sparse._lil.lil_matrix"),
        (..., "builtins.ellipsis"),
        (1j, "builtins.complex"),
    ],
    ids=lambda value: type(value).__name__,  # some print where they lie in memory
)
def test_objects_that_skops_does_not_restore_are_refused(path, value, name):
    content, model = path.read_bytes(), InvariantLinearSVC(Own(size=value))
    for each, owner in ((model, "oracle"), (make_pipeline(model), "invariantlinearsvc__oracle")):
        with pytest.raises(TypeError, match=f"does not restore {owner}__size, of type {name}"):
            structinv.save(each, path)
    assert path.read_bytes() == content


@pytest.mark.filterwarnings("ignore:the file contains")
@pytest.mark.parametrize(
    "value",
    [
        np.random.default_rng(0),
        np.array([1.0, np.nan]),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.array([["a", 1], [None, 2.5]], dtype=object),
        np.array([f"word {k}" for k in range(20)], dtype=object).reshape(4, 5),
        {f"\u00e9{k}": k for k in range(20)},
        {True: 1.0, False: 2.0, None: 3.0},
        # Keys of one type each, and strings beside an integer.
        [{True: 1.0, False: 2.0}, {1: 1.0, 0: 2.0}, {2.5: 1.0}, {None: 1.0}, {"1": 1.0, 1: 2.0}],
        {(1, "a"): {2.5, None}},
        Fraction(1, 3),
        Color.RED,
        Rank.LOW,
    ],
    ids=lambda value: type(value).__name__,  # some print where they lie in memory
)
def test_stored_objects_are_restored(path, value):
    structinv.save(InvariantLinearSVC(Own(size=value)), path)
    types = skops.io.get_untrusted_types(file=path)
    again = structinv.load(path, trusted=types).oracle.size
    assert type(again) is type(value)
    if isinstance(value, np.random.Generator):
        assert again.normal() == value.normal()
    else:
        assert_same(value, again)


def tagger(*labels):
    """A model of these labels, and the rows of its training."""
    X = np.random.default_rng(0).normal(size=(6, len(labels), 2))
    return InvariantStructuredSVC(Sequence(), C=0.1, tol=0.1).fit(X, [list(labels)] * 6), X


def test_labels_of_any_kind_are_read_back(tmp_path):
    labels = [(1, "a"), (1, frozenset({2})), "1", np.int64(7), np.bool_(True), b"a"]
    labels += [range(1, 7, 2), float("inf"), 10**30, Fraction(1, 3)]
    model, X = tagger(*labels)
    with pytest.warns(UserWarning, match="fractions.Fraction"):
        structinv.save(model, tmp_path / "m")
    again = structinv.load(tmp_path / "m", trusted=[Fraction])
    assert again.classes_.tolist() == model.classes_.tolist()
    assert [type(label) for label in again.classes_] == [type(label) for label in model.classes_]
    for before, after in zip(model.predict(X), again.predict(X), strict=True):
        assert after.tolist() == before.tolist()


def test_labels_that_cannot_be_found_again_are_refused_before_a_file_is_written(tmp_path):
    class Local:
        pass

    local = enum.Enum("local", ["A", "B"])
    for pair in [(Local(), "a"), (..., "a"), (local.A, local.B)]:
        with pytest.raises(TypeError, match="cannot be stored.*top level of a module"):
            structinv.save(tagger(*pair)[0], tmp_path / "m")
        assert not (tmp_path / "m").exists()


ROWS = np.random.default_rng(0).standard_normal((30, 4))


class Wider(Box):
    """An oracle of somebody's own."""


class Forest(RandomForestClassifier):
    """A model of somebody's own."""


@pytest.mark.parametrize(
    "model",
    [
        Forest(3, random_state=0),
        make_pipeline(StandardScaler(), Forest(3, random_state=0)),
        InvariantLinearSVC(Wider(0.1), random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_warning_lists_the_types_to_trust(model, tmp_path):
    path = tmp_path / "m"
    model.fit(ROWS, np.where(ROWS[:, 0] > ROWS[:, 1], "a", "b"))
    with pytest.warns(UserWarning, match=r"structinv.load\(path, trusted=\[") as caught:
        structinv.save(model, path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match="is refused, because it contains"):
        structinv.load(path)
    named = ast.literal_eval(re.search(r"trusted=(\[.*?\])", str(caught[0].message)).group(1))
    again = structinv.load(path, trusted=named)
    np.testing.assert_array_equal(again.predict(ROWS), model.predict(ROWS))
    # None of them is named for nothing.
    for each in named:
        with pytest.raises(ValueError, match=re.escape(each)):
            structinv.load(path, trusted=[other for other in named if other != each])


def test_a_stream_goes_on_from_a_file(tmp_path):
    X, y = make_mail_like(100, 100, random_state=0)
    model = InvariantLinearSVC(FDrop(1), solver="pegasos", random_state=0)
    model.partial_fit(X[:50], y[:50], classes=np.unique(y))
    structinv.save(model, tmp_path / "model")
    again = structinv.load(tmp_path / "model")
    model.partial_fit(X[50:], y[50:])
    again.partial_fit(X[50:], y[50:])
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_a_path_among_parameters_is_a_string(path):
    structinv.save(InvariantLinearSVC(checkpoint=path / "fit.npz"), path)
    assert structinv.load(path).checkpoint == str(path / "fit.npz")
