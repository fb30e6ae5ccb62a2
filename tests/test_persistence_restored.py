"""What `save` takes is given back by `load`, or refused by name before anything is written."""

import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import structinv
from structinv import InvariantLinearSVC

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
def test_what_would_not_come_back_is_refused_by_name(path, value, name):
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


@pytest.mark.filterwarnings("ignore:the file asks for")
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
def test_what_is_stored_comes_back(path, value):
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


def test_what_a_class_refuses_on_loading_is_refused_on_saving(path):
    content = path.read_bytes()
    with pytest.raises(TypeError, match="model cannot be stored: .*Sized"):
        structinv.save(InvariantLinearSVC(Sized(1.0)), path)
    assert path.read_bytes() == content
