"""What holds for features of every transformer: copies, files, precision, refused and later fits."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import structinv
from structinv.embeddings import PatchOrbits
from structinv.oracles import Box, Flip, Shifts

from .estimator_cases import TRANSFORMERS, Case, images

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
