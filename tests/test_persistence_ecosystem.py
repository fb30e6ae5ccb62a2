"""Fitted models are stored in files and pickles, and predict the same afterward."""

import pickle

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from structinv import InvariantLinearSVC, InvariantStructuredSVC, InvariantSVC
from structinv.datasets import conll_features, make_tagged_text
from structinv.embeddings import REGISTRY as EMBEDDINGS
from structinv.embeddings import GroupCDF, OrbitFourier, OrbitNystroem, PatchOrbits
from structinv.estimators import REGISTRY as ESTIMATORS
from structinv.estimators import CustomStructuredSVC
from structinv.estimators.tokens import TokenVectorizer
from structinv.oracles import FDrop, Rotations, Shifts
from structinv.solvers import Status
from structinv.structures import Multilabel, Sequence

from .test_custom import MATCHING, argmax, cost, joint_feature, matchings
from .test_persistence import MODELS, counts, fitted, pictures, short_sequences, signals, through_file


def sentences():
    tagged, y = make_tagged_text(12, random_state=0)
    return conll_features(tagged), y


def label_sets():
    X, _ = signals()
    return X, (X[:, :3] > 0).astype(int)


pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")

CASES = MODELS | {
    "objects of functions": (CustomStructuredSVC(MATCHING, tol=0.1, random_state=0), matchings()),
    "sentences of words": (InvariantStructuredSVC(Sequence(), C=0.1, tol=0.1), sentences()),
    "sets of labels": (InvariantStructuredSVC(Multilabel("tree"), tol=0.1), label_sets()),
    "tuples as labels": (
        InvariantStructuredSVC(Sequence(), tol=0.1),
        (short_sequences()[0], [[(label, 1) for label in labels] for labels in short_sequences()[1]]),
    ),
    "pipeline, sparse": (
        make_pipeline(MaxAbsScaler(), InvariantLinearSVC(FDrop(1), C=0.1, tol=0.1)),
        counts(),
    ),
    "pipeline, kernel": (make_pipeline(StandardScaler(), InvariantSVC(tol=0.1)), signals()),
    "features of waves": (OrbitFourier(Shifts(1), n_components=4, random_state=0), pictures()),
    "features of landmarks": (OrbitNystroem(Shifts(1), n_components=4, random_state=0), pictures()),
    "features of distributions": (GroupCDF(Shifts(1), n_components=4, n_bins=4), pictures()),
    "features of patches": (PatchOrbits(Rotations([-10, 10]), n_components=4, n_draws=4), pictures()),
    "words of tokens": (TokenVectorizer(), sentences()),
}


def answers(model, X):
    method = "predict" if hasattr(model, "predict") else "transform"
    found = getattr(model, method)(X)
    if isinstance(found, list):
        return [each.toarray() if hasattr(each, "toarray") else np.asarray(each) for each in found]
    return [found.toarray() if hasattr(found, "toarray") else found]


def test_every_public_estimator_has_a_case():
    wanted = {*ESTIMATORS.values(), *EMBEDDINGS.values(), TokenVectorizer}
    assert wanted <= {type(model) for model, _ in CASES.values()}


@pytest.mark.filterwarnings("ignore:the file contains")
@pytest.mark.parametrize("name", CASES)
def test_answers_survive_files_and_pickles(name, tmp_path):
    model, data = CASES[name]
    model = fitted(clone(model), data)
    expected = answers(model, data[0])
    functions = (argmax, cost, joint_feature) if name == "objects of functions" else ()
    stored = (through_file(model, tmp_path, functions), pickle.loads(pickle.dumps(model)))
    for again in stored:
        assert type(again) is type(model)
        for found, before in zip(answers(again, data[0]), expected, strict=True):
            np.testing.assert_array_equal(found, before, strict=True)


@pytest.mark.parametrize("status", Status)
def test_a_status_stays_the_same_member(status):
    content = skops.io.dumps(status)
    types = skops.io.get_untrusted_types(data=content)
    assert skops.io.loads(content, trusted=types) is pickle.loads(pickle.dumps(status)) is status
