"""What a fit will do, told before it: the solver, the dual states, and the reasons."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    RepresenterClassifier,
    VirtualSVC,
    explain_solver,
)
from structinv.dual import TABLE
from structinv.oracles import Box, FAdd, FDrop, FEdit, Flip, Identity
from structinv.rows.sources import MatrixRows
from structinv.solvers import BMRM, FrankWolfe, InteriorPoint, Representer, SVMStruct
from structinv.structures import Sequence

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((24, 20)), np.arange(24) % 2
IMAGES = RNG.standard_normal((12, 4))


def taken(states):
    return next(name for name, reason in states.items() if not reason)


CHAINS = [RNG.standard_normal((3, 5)) for _ in range(8)]
TAGS = [np.arange(3) % 2 for _ in CHAINS]
STATES = [
    (InvariantLinearSVC(FDrop(2)), X, Y, "words"),
    (InvariantLinearSVC(FAdd(2)), abs(X), Y, "additions"),
    (InvariantLinearSVC(Identity()), X, Y, "rows"),
    (InvariantLinearSVC(Box(0.1)), X, Y, "boxes"),
    (InvariantLinearSVC(Identity()), X, np.arange(24) % 3, "labels"),
    (InvariantLinearSVC(FDrop(2)), X, np.arange(24) % 3, "word_labels"),
    (InvariantLinearSVC(Flip(shape=(4, 5))), X, Y, "linear_members"),
    (InvariantLinearSVC(FDrop(2), loss="squared_hinge"), csr_matrix(np.tile(X, 6)), Y, "margin"),
    (InvariantLinearSVC(loss="logistic"), X, Y, "slopes"),
    (InvariantLinearSVC(Box(0.1)), X, np.arange(24) % 3, "plane_cache"),
    (InvariantLinearSVR(Identity()), X, X[:, 0], "tube"),
    (InvariantSVC(Flip(shape=(2, 2))), IMAGES, Y[:12], "members"),
    (InvariantLinearSVC(FEdit(2, add=0.1)), abs(X), Y, "edits"),
    (InvariantStructuredSVC(Sequence()), CHAINS, TAGS, "flows"),
    (InvariantStructuredSVC(Sequence(), oracle=FDrop(1)), CHAINS, TAGS, "chains"),
    (InvariantStructuredSVC(Sequence(), kernel="rbf"), CHAINS, TAGS, "labelings"),
    (InvariantLinearSVC(FDrop(2)), MatrixRows(X), Y, "blocks"),
]


class MadeError(Exception):
    """A state is made: what comes of it is of no interest here."""


@pytest.mark.parametrize(("model", "rows", "labels", "state"), STATES)
def test_the_state_told_is_the_state_of_the_fit(model, rows, labels, state, monkeypatch):
    told = explain_solver(model, rows, labels)
    assert isinstance(told.solver, FrankWolfe)
    (states,) = told.states
    assert list(states) == list(TABLE)
    assert taken(states) == state

    class Made(TABLE[state]):
        def __init__(self, *args):
            raise MadeError

    monkeypatch.setitem(TABLE, state, Made)
    with pytest.raises(MadeError):
        clone(model).set_params(random_state=0).fit(rows, labels)


def test_every_state_has_a_case():
    # Penalties are told of where they are solved: by `Representer`.
    assert {state for *_, state in STATES} == set(TABLE) - {"penalty"}


def test_the_reason_of_the_solver():
    told = explain_solver(InvariantLinearSVC(), X[:, :3], Y)
    assert isinstance(told.solver, BMRM)
    assert told.reason == "there are at most 16 weights"
    assert told.states == ()
    told = explain_solver(InvariantLinearSVC(), 1e4 * X, Y)
    assert isinstance(told.solver, InteriorPoint)
    assert told.reason == "the mean of C |x|^2 is large"
    told = explain_solver(InvariantLinearSVC(solver="svmstruct"), X, Y)
    assert isinstance(told.solver, SVMStruct)
    assert told.reason == "it was given as the parameter solver"
    assert isinstance(explain_solver(RepresenterClassifier(), X, Y).solver, Representer)
    told = explain_solver(InvariantLinearSVC(FDrop(2), solver=FrankWolfe(plane_tol=0.1)), X, Y)
    assert "plane_tol" in told.states[0]["words"]


@pytest.mark.parametrize(
    ("model", "rows", "solver"),
    [
        (InvariantLinearSVC(FDrop(2), C=1e5), csr_matrix(X), InteriorPoint),
        (InvariantLinearSVR(C=1e5), csr_matrix(X), InteriorPoint),
        (InvariantLinearSVC(FDrop(2), C=1e5), csr_matrix(np.tile(X, 6)), FrankWolfe),
        (InvariantLinearSVC(FAdd(2), C=1e5, loss="logistic"), abs(X), InteriorPoint),
        (InvariantLinearSVC(FAdd(2), C=1.0, loss="logistic"), abs(X), FrankWolfe),
    ],
)
def test_long_rows_of_few_features_take_planes_written_out(model, rows, solver):
    assert type(explain_solver(model, rows, Y).solver) is solver


def test_it_prints_a_table_and_learns_nothing():
    model = InvariantLinearSVC(FDrop(2))
    lines = str(explain_solver(model, X, Y)).splitlines()
    assert not [name for name in vars(model) if name.endswith("_")]
    assert lines[0] == "FrankWolfe(): there are more than 16 weights"
    assert lines[1].startswith("Dual states of WorstCase(FDrop(")
    assert len(lines) == 3 + len(TABLE)
    assert lines[5].split() == ["words", "yes", "used"]
    assert "a state above is used" in lines[-2]
    assert lines[-1] == (
        "A dual state is a form in which the solver stores the dual variables. The first supported one "
        "is used."
    )
    assert "dual state" not in str(explain_solver(InvariantLinearSVC(), X[:, :3], Y))


def test_models_without_solvers_are_refused():
    with pytest.raises(TypeError, match="VirtualSVC"):
        explain_solver(VirtualSVC(), X, Y)
    with pytest.raises(ValueError, match="NaN"):
        explain_solver(InvariantLinearSVC(), np.full((4, 2), np.nan), [0, 1, 0, 1])
