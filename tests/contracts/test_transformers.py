"""What holds for features of every transformer: copies, files, precision, refused and later fits."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import structinv
from structinv import InvariantTextClassifier, embeddings, estimators, select_changes
from structinv.embeddings import PatchOrbits
from structinv.estimators.tokens import TokenVectorizer
from structinv.oracles import Box, Flip, Shifts, TokenEdits

from ..estimators.cases import CASE, PREDICTORS, TRANSFORMERS, Case, images, sentences, texts

LAYERS = PatchOrbits(patch_size=3, n_components=4, pool=3, oracle=Shifts(interval=(0, 1)), n_draws=2)
LAYERS = PatchOrbits(
    patch_size=2, n_components=3, below=LAYERS, whole=Flip(), shape=None, random_state=0
)
CASES = [*TRANSFORMERS, Case("two layers", LAYERS, *images())]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def fitted(case):
    made = clone(case.estimator).fit(case.X)
    return made, made.transform(case.X)


@every_case
def test_copies_pickles_and_files_have_the_same_features(case, tmp_path):
    made, found = fitted(case)
    structinv.save(make_pipeline(made), tmp_path / "features")
    loaded = structinv.load(tmp_path / "features")[0]
    for other in (pickle.loads(pickle.dumps(made)), clone(made).fit(case.X), loaded):
        np.testing.assert_array_equal(other.transform(case.X), found)
    assert getattr(loaded, "kernel_error_", None) == getattr(made, "kernel_error_", None)


@every_case
def test_features_have_the_precision_of_the_rows(case):
    made, found = fitted(case)
    single = case.X.astype(np.float32)
    few = clone(made).fit(single)
    for each in (made, few):
        assert each.transform(single).dtype == np.float32
        np.testing.assert_allclose(each.transform(single), found, atol=1e-2)
    assert few.transform(case.X).dtype == np.float64


@every_case
def test_a_failed_fit_keeps_the_state_before_it(case):
    made, found = fitted(case)
    with pytest.raises(ValueError, match="NaN"):
        made.fit(np.full((20, 9), np.nan))
    made.set_params(oracle=Box(0.1))
    with pytest.raises(
        ValueError, match="n_draws must be an integer|oracle cannot list its transformations|draws"
    ):
        made.fit(case.X)
    np.testing.assert_array_equal(made.transform(case.X), found)
    fresh = clone(made)
    with pytest.raises(
        ValueError, match="n_draws must be an integer|oracle cannot list its transformations|draws"
    ):
        fresh.fit(case.X)
    assert vars(fresh) == fresh.get_params(deep=False)
    with pytest.raises(NotFittedError):
        fresh.transform(case.X)


@every_case
def test_parameters_set_after_the_fit_do_not_change_features(case):
    made, found = fitted(case)
    made.set_params(**dict.fromkeys(made.get_params(deep=False)))
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.transform(case.X), found)
    assert len(again.get_feature_names_out()) == found.shape[1]
    # Nothing of that fit is left after one with other parameters.
    other = clone(case.estimator).set_params(n_components=1)
    made.set_params(**other.get_params(deep=False))
    np.testing.assert_array_equal(
        made.fit(case.X).transform(case.X), other.fit(case.X).transform(case.X)
    )
    assert set(vars(made)) == set(vars(other))


@every_case
def test_rows_stay_on_disk(case, tmp_path):
    X = case.X
    on_disk = np.memmap(tmp_path / "rows", dtype=X.dtype, mode="w+", shape=X.shape)
    on_disk[:] = X
    features = clone(case.estimator).fit(on_disk)
    assert not any(isinstance(value, np.memmap) for value in vars(features).values())
    np.testing.assert_array_equal(features.transform(on_disk), features.transform(X))


def names(cases):
    return [case.name for case in cases]


def test_every_public_estimator_has_a_case():
    assert {type(case.estimator) for case in PREDICTORS} == set(estimators.REGISTRY.values())
    assert {type(case.estimator) for case in TRANSFORMERS} == set(embeddings.REGISTRY.values())


@pytest.mark.parametrize("name", names(PREDICTORS))
def test_predictions_and_certificates_are_the_same(name):
    case = CASE[name]
    plain = clone(case.estimator).fit(case.X, case.y)
    with config_context(transform_output="pandas"):
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


@pytest.mark.parametrize("name", names(TRANSFORMERS))
def test_transformers_follow_the_setting(name):
    case = CASE[name]
    plain = clone(case.estimator).fit(case.X, case.y)
    with config_context(transform_output="pandas"):
        model = clone(case.estimator).fit(case.X, case.y)
        found = model.transform(case.X)
    assert type(found).__module__.startswith("pandas")
    assert list(found.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found.to_numpy(), plain.transform(case.X))


class TestSparseRows:
    """Sparse rows fit in no frame."""

    def test_vectorizers(self):
        with config_context(transform_output="pandas"):
            features = [{"a": 1.0, "b": "x"}, {"b": "y"}]
            for n_hashed in (None, 8):
                (found,) = TokenVectorizer(n_hashed).fit_transform([features])
                assert sp.issparse(found)

    def test_hashed_tokens(self):
        X, y = sentences()
        with config_context(transform_output="pandas"):
            model = clone(CASE["tagger"].estimator).set_params(n_hashed=16).fit(X, y)
            assert len(model.predict(X)) == len(X)

    def test_changes_of_texts(self):
        X, y = texts()
        model, grid = InvariantTextClassifier(random_state=0), {"max_changes": [0, 1]}
        oracle = TokenEdits("drop", max_changes=1)
        with config_context(transform_output="pandas"):
            found = select_changes(model, X, y, grid, cv=2, oracle=oracle)
        assert set(found.best_params_) == {"max_changes"}
