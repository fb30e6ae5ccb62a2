"""Whoever saves a model hears which of its types a load has to trust."""

import ast
import re
import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import structinv
from structinv import InvariantLinearSVC, RepresenterClassifier
from structinv.oracles import Box

X = np.random.default_rng(0).standard_normal((30, 4))
Y = np.where(X[:, 0] > X[:, 1], "a", "b")


class Wider(Box):
    """An oracle of somebody's own."""


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(3, random_state=0),
        make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)),
        InvariantLinearSVC(Wider(0.1), random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_warning_says_what_the_load_needs(model, tmp_path):
    path = tmp_path / "m"
    model.fit(X, Y)
    with pytest.warns(UserWarning, match=r"structinv.load\(path, trusted=\[") as caught:
        structinv.save(model, path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match="is refused: it asks for"):
        structinv.load(path)
    named = ast.literal_eval(re.search(r"trusted=(\[.*?\])", str(caught[0].message)).group(1))
    again = structinv.load(path, trusted=named)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
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
def test_nothing_is_said_where_nothing_is_needed(model, tmp_path):
    model.fit(X, Y)
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
