"""Model files with the former names of parameters and attributes."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

import structinv
from structinv.oracles import Rotations, Scalings
from structinv.persistence.old_formats import renamed

FOLDER = Path(__file__).parent / "files"
NAMES = sorted(path.stem for path in FOLDER.glob("old_*.model"))
# Of the machine or its features, and of its oracle or kernel.
PRESENT = {
    "old_mean": {"plane_tol": 0.05, "kernel__n_draws": 4},
    "old_multilabel": {"structure__edges": "tree"},
    "old_nystroem": {"orbitnystroem__n_draws": 3},
    "old_patches": {
        "patchorbits__patch_size": 2,
        "patchorbits__n_draws": 2,
        "patchorbits__n_whole_draws": 2,
    },
    "old_ridge": {"kernel__normalized": False, "kernel__oracle__resolution": 3},
    "old_set": {"kernel__oracle__resolution": 3},
    "old_svc": {
        "max_support_vectors": 5,
        "oracle__left__interval": (-5.0, 5.0),
        "oracle__right__factors": [0.95, 1.05],
    },
    "old_tagger": {"plane_tol": 0.01},
}


@pytest.mark.parametrize("name", NAMES)
def test_files_with_former_names_predict_as_before(name):
    model, told = (
        structinv.load(FOLDER / f"{name}.model"),
        json.loads((FOLDER / f"{name}.json").read_text()),
    )
    X = [np.array(x) if isinstance(x[0], list) else x for x in told["X"]]
    found = [np.asarray(each).tolist() for each in model.predict(X)]
    if isinstance(found[0], float):
        np.testing.assert_allclose(found, told["predicted"], rtol=1e-12)
    else:
        assert found == told["predicted"]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_have_their_present_names(name):
    model = structinv.load(FOLDER / f"{name}.model")
    for key, value in PRESENT[name].items():
        *parts, last = key.split("__")
        owner = model
        for part in parts:
            owner = owner.named_steps[part] if isinstance(owner, Pipeline) else getattr(owner, part)
        assert getattr(owner, last) == value


def test_a_corrected_kernel_keeps_its_eigenvalue():
    model = structinv.load(FOLDER / "old_set.model")
    assert model.min_eigenvalue_ == model.kernel_.min_eigenvalue < 0


def test_names_of_bases_change_in_derived_classes():
    class Turns(Rotations):
        pass

    assert renamed(Turns, {"between": None, "degrees": (1.0, 2.0), "own": 1}) == {
        "interval": None,
        "degrees": [1.0, 2.0],
        "own": 1,
    }


@pytest.mark.parametrize("oracle", [Rotations((-10, 10)), Scalings(factors=(0.9, 1.1))])
def test_a_pair_is_neither_a_list_nor_an_interval(oracle):
    with pytest.raises(ValueError, match=r"got the pair .*\[.*\] for two values, or interval="):
        oracle.validate()
