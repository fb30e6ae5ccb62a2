"""What scikit-learn is told to wrap transformed rows in changes nothing inside an estimator."""

from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone

from structinv import InvariantTextClassifier, embeddings, estimators, select_changes
from structinv.estimators.tokens import TokenVectorizer
from structinv.oracles import TokenEdits

from .estimator_cases import CASE, PREDICTORS, TRANSFORMERS, sentences, texts

FRAMES = [
    "pandas",
    pytest.param("polars", marks=pytest.mark.skipif(not find_spec("polars"), reason="no polars")),
]


def names(cases):
    return [case.name for case in cases]


def test_every_public_estimator_has_a_case():
    assert {type(case.estimator) for case in PREDICTORS} == set(estimators.REGISTRY.values())
    assert {type(case.estimator) for case in TRANSFORMERS} == set(embeddings.REGISTRY.values())


@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("name", names(PREDICTORS))
def test_predictions_and_certificates_are_the_same(name, frames):
    case = CASE[name]
    plain = clone(case.estimator).fit(case.X, case.y)
    with config_context(transform_output=frames):
        model = clone(case.estimator).fit(case.X, case.y)
        found = model.predict(case.X)
        assert type(found) is type(plain.predict(case.X))
        for mine, theirs in zip(found, plain.predict(case.X), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        model.score(case.X, case.y)
        if hasattr(model, "certify"):
            certificate = model.certify(case.X)
            for key, value in vars(plain.certify(case.X)).items():
                np.testing.assert_array_equal(getattr(certificate, key), value)
            model.worst_case(case.X)


@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("name", names(TRANSFORMERS))
def test_transformers_follow_the_setting(name, frames):
    case = CASE[name]
    plain = clone(case.estimator).fit(case.X, case.y)
    with config_context(transform_output=frames):
        model = clone(case.estimator).fit(case.X, case.y)
        found = model.transform(case.X)
    assert type(found).__module__.startswith(frames)
    assert list(found.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found.to_numpy(), plain.transform(case.X))


@pytest.mark.parametrize("frames", FRAMES)
class TestSparseRows:
    """Sparse rows fit in no frame."""

    def test_vectorizers(self, frames):
        with config_context(transform_output=frames):
            features = [{"a": 1.0, "b": "x"}, {"b": "y"}]
            for n_hashed in (None, 8):
                (found,) = TokenVectorizer(n_hashed).fit_transform([features])
                assert sp.issparse(found)

    def test_hashed_tokens(self, frames):
        X, y = sentences()
        with config_context(transform_output=frames):
            model = clone(CASE["tagger"].estimator).set_params(n_hashed=16).fit(X, y)
            assert len(model.predict(X)) == len(X)

    def test_changes_of_texts(self, frames):
        X, y = texts()
        model, grid = InvariantTextClassifier(random_state=0), {"max_changes": [0, 1]}
        oracle = TokenEdits("drop", max_changes=1)
        with config_context(transform_output=frames):
            found = select_changes(model, X, y, grid, cv=2, oracle=oracle)
        assert set(found.best_params_) == {"max_changes"}
