"""What `save` takes is given back by `load`, with what it is told to trust, or refused by name."""

import ast
import enum
import re
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import structinv
from structinv import InvariantLinearSVC, InvariantStructuredSVC, RepresenterClassifier
from structinv.datasets import make_mail_like
from structinv.oracles import Box, FDrop, Shifts
from structinv.persistence.encoding import Encoder
from structinv.solvers import Iterations
from structinv.structures import Sequence

from .problems import two_classes
from .test_persistence import Own, assert_same, fitted, signals


class Sized(Own):
    """An oracle that is made in another way than its parameters tell."""

    def __init__(self, *sizes):
        self.size = sizes[0]

    def get_params(self, deep=True):
        return {"size": self.size}

    @classmethod
    def _get_param_names(cls):
        return ["size"]


@pytest.fixture
def path(tmp_path):
    """A file that is there already."""
    structinv.save(InvariantLinearSVC(), tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (deque([1.0, 2.0]), "oracle.size, of type collections.deque"),
        ({"a": [1, deque([2])]}, r"oracle.size.a\[1\], of type collections.deque"),
        (re.compile("a"), "oracle.size, of type re.Pattern"),
        (sp.lil_matrix(np.eye(2)), "oracle.size, of type scipy.lil_matrix"),
        (..., "oracle.size, of type builtins.ellipsis"),
    ],
    ids=lambda value: type(value).__name__,  # some print where they lie in memory
)
def test_objects_that_skops_does_not_restore_are_refused(path, value, name):
    content, model = path.read_bytes(), InvariantLinearSVC(Own(size=value))
    with pytest.raises(TypeError, match=f"model cannot be stored: skops does not restore {name}"):
        structinv.save(model, path)
    with pytest.raises(TypeError, match=rf"does not restore steps\[1\]\[1\].{name}"):
        structinv.save(make_pipeline(StandardScaler(), model), path)
    assert path.read_bytes() == content


def test_a_data_frame_of_costs_is_refused_by_name(path):
    pandas = pytest.importorskip("pandas")
    content, (X, y) = path.read_bytes(), signals(n_classes=3)
    costs = 1.0 - np.eye(3)
    model = fitted(InvariantLinearSVC(cost=pandas.DataFrame(costs), tol=0.1), (X, y))
    for each in (model, make_pipeline(StandardScaler(), model), GridSearchCV(model, {"C": [1.0]})):
        with pytest.raises(TypeError, match=r"does not restore .*cost, of type pandas.DataFrame"):
            structinv.save(each, path)
    assert path.read_bytes() == content
    structinv.save(model.set_params(cost=costs), path)
    np.testing.assert_array_equal(structinv.load(path).predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore:the file contains")
@pytest.mark.parametrize(
    "value",
    [
        defaultdict(list, {"a": [1.0]}),
        OrderedDict(b=1, a=2),
        Counter("aab"),
        np.random.default_rng(0),
        np.random.RandomState(0),
        sp.coo_array(np.eye(3)),
        np.array([(1, 2.5)], dtype=[("a", np.int8), ("b", float)]),
        np.array([1.0, np.nan]),
        Fraction(1, 3),
        date(2020, 1, 2),
        {(1, "a"): {2.5, None}},
        float("nan"),
    ],
    ids=lambda value: type(value).__name__,  # some print where they lie in memory
)
def test_stored_objects_are_restored(path, value):
    structinv.save(InvariantLinearSVC(Own(size=value)), path)
    types = skops.io.get_untrusted_types(file=path)
    again = structinv.load(path, trusted=types).oracle.size
    assert type(again) is type(value)
    if isinstance(value, defaultdict):
        assert again.default_factory is list
    if isinstance(value, np.random.Generator | np.random.RandomState):
        assert again.normal() == value.normal()
    else:
        assert_same(value, again)


def test_errors_of_loading_are_raised_on_saving(path):
    content = path.read_bytes()
    with pytest.raises(TypeError, match="model cannot be stored: .*Sized"):
        structinv.save(InvariantLinearSVC(Sized(1.0)), path)
    assert path.read_bytes() == content


class Color(enum.Enum):
    """Labels that have names."""

    RED = 1
    BLUE = 2


class Rank(enum.IntEnum):
    """Labels that are numbers, too."""

    LOW = 1
    HIGH = 2


LABELS = {
    "tuples": ((1, "a"), (2, "b")),
    "frozensets": (frozenset({1, "a"}), frozenset({2})),
    "nested": ((1, frozenset({2})), (None, "x")),
    "mixed": (1, "1"),
    "numpy scalars": (np.int64(1), "a"),
    "booleans of NumPy": (np.bool_(True), "a"),
    "bytes": (b"a", b"b"),
    "complex": (1j, 2 + 1j),
    "ranges": (range(2), range(1, 7, 2)),
    "infinity": (float("inf"), "a"),
    "large integers": (10**30, 1),
}


def of_two_labels(first, second):
    """A model of two labels, and the rows of its training."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(6)]
    y = [[first if value > 0 else second for value in rows[:, 0]] for rows in X]
    return InvariantStructuredSVC(Sequence(), tol=0.1).fit(X, y), X


def check_round_trip(pair, path, trusted=()):
    """Classes and predictions are the same, of the same kinds."""
    model, X = of_two_labels(*pair)
    structinv.save(model, path)
    again = structinv.load(path, trusted=trusted)
    assert again.classes_.tolist() == model.classes_.tolist()
    assert [type(label) for label in again.classes_] == [type(label) for label in model.classes_]
    for before, after in zip(model.predict(X), again.predict(X), strict=True):
        assert after.tolist() == before.tolist()


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_are_read_back(kind, tmp_path):
    check_round_trip(LABELS[kind], tmp_path / "m")


@pytest.mark.filterwarnings("ignore:the file contains")
@pytest.mark.parametrize("pair", [tuple(Color), (Rank.LOW, "a"), (Fraction(1, 3), "b")])
def test_labels_of_classes_that_are_trusted_are_read_back(pair, tmp_path):
    check_round_trip(pair, tmp_path / "m", (type(pair[0]),))


def test_members_of_an_enum_are_trusted_by_its_name(tmp_path):
    model, _ = of_two_labels(*Color)
    with pytest.warns(UserWarning, match=r"contains .*Color"):
        structinv.save(model, tmp_path / "m")
    with pytest.raises(ValueError, match=r"contains .*Color"):
        structinv.load(tmp_path / "m")


def test_labels_that_cannot_be_found_again_are_refused_before_a_file_is_written(tmp_path):
    class Local:
        pass

    local = enum.Enum("local", ["A", "B"])
    for pair in [(Local(), "a"), (..., "a"), (local.A, local.B)]:
        with pytest.raises(TypeError, match="cannot be stored in a model file"):
            structinv.save(of_two_labels(*pair)[0], tmp_path / "m")
        assert not (tmp_path / "m").exists()


ROWS = np.random.default_rng(0).standard_normal((30, 4))
TAGS = np.where(ROWS[:, 0] > ROWS[:, 1], "a", "b")


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
    model.fit(ROWS, TAGS)
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


@pytest.mark.parametrize(
    "model",
    [
        InvariantLinearSVC(Box(0.1), random_state=0),
        RepresenterClassifier(),
        LogisticRegression(),
        GridSearchCV(InvariantLinearSVC(random_state=0), {"C": [0.1, 1.0]}, cv=2, scoring="f1_macro"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_without_untrusted_types_give_no_warning(model, tmp_path):
    model.fit(ROWS, TAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        structinv.save(model, tmp_path / "m")
    structinv.load(tmp_path / "m")


def test_a_warning_made_an_error_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "m"
    structinv.save(InvariantLinearSVC(), path)
    before = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="load refuses"):
            structinv.save(InvariantLinearSVC(Wider(0.1)), path)
    assert path.read_bytes() == before


def test_no_model_without_planes_goes_on_from_them(tmp_path):
    X, y = make_mail_like(100, 100, random_state=0)
    model = InvariantLinearSVC(FDrop(1), solver="pegasos", C=0.01, tol=0.1, random_state=0).fit(X, y)
    structinv.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="planes=True"):
        structinv.load(tmp_path / "model").partial_fit(X, y)


def test_a_stream_goes_on_from_a_file(tmp_path):
    X, y = make_mail_like(100, 100, random_state=0)
    model = InvariantLinearSVC(FDrop(1), solver="pegasos", random_state=0)
    model.partial_fit(X[:50], y[:50], classes=np.unique(y))
    structinv.save(model, tmp_path / "model")
    again = structinv.load(tmp_path / "model")
    model.partial_fit(X[50:], y[50:])
    again.partial_fit(X[50:], y[50:])
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_planes_of_members_are_stored_with_their_points(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 9)), np.arange(30) % 3
    model = InvariantLinearSVC(Shifts(1), C=0.1, warm_start=True, random_state=0).fit(X, y)
    structinv.save(model, tmp_path / "model", planes=True)
    again = structinv.load(tmp_path / "model")
    assert again.fit(X, y).n_iter_ == 0


def test_a_path_among_parameters_is_a_string(tmp_path):
    X, y = two_classes()
    model = InvariantLinearSVC(checkpoint=tmp_path / "fit.npz", random_state=0).fit(X, y)
    structinv.save(model, tmp_path / "model")
    assert structinv.load(tmp_path / "model").checkpoint == str(tmp_path / "fit.npz")


class Patient(Iterations):
    """A class of a user without `get_params`, as its parent."""


@pytest.mark.parametrize(
    ("value", "remedy"),
    [(Patient(3), "derive the class from .*BaseEstimator"), (Iterations(3), "pickle")],
)
def test_an_object_without_a_place_in_files_is_refused_with_a_remedy(value, remedy):
    with pytest.raises(TypeError, match=f"cannot be stored in a model file: {remedy}"):
        Encoder(planes=False).encode(value)
