"""Lists of perturbations for averages: all registered oracles, combinations, errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from structinv.oracles import (
    Box,
    FDrop,
    Flip,
    FScale,
    Permutations,
    Rotations,
    Weighted,
)
from structinv.oracles.listed_changes import averaged

from ..oracles.cases import CASES, ORDERS, D, Reorderings, Shrinkings, close, rows, told

DRAWS = 6
LAWS = [
    pytest.param(case.oracle, size, id=f"{case}-{'listed' if size is None else 'drawn'}")
    for case in CASES
    if not case.oracle.depends_on_label
    for size in ((None, DRAWS) if case.oracle.finite else (DRAWS,))
]
every_law = pytest.mark.parametrize(("oracle", "size"), LAWS)
reorderings, shrinkings = Reorderings(ORDERS), Shrinkings()


def test_members_do_not_depend_on_the_type_of_rows():
    for oracle, size in [law.values for law in LAWS]:
        with told(oracle):
            X, _ = rows()
            law = averaged(oracle, D, size, 3)
            assert size is None or law.size == size
            wanted = law.on(X).members()
            single = X.astype(np.float32)
            close(law.on(single).members(), law.on(single.astype(np.float64)).members(), rtol=1e-5)
            assert law.on(X[:0]).members().shape == (0, law.size, D)
            if oracle.supports_sparse:
                close(law.on(sp.csr_matrix(X)).members(), wanted)


def test_isometric_lists_perturb_one_side_only():
    isometric = 0
    for law in (averaged(*law.values[:1], D, *law.values[1:]) for law in LAWS):
        if (differences := law.differences()) is not None:
            check_differences(law, differences)
            isometric += 1
    assert isometric > 6


def check_differences(law, differences):
    X, _ = rows()
    members, others = law.on(X).members(), differences.on(X).members()
    pairs = np.einsum("g,h,ngd,mhd->nm", law.weights, law.weights, members, members)
    close(np.einsum("h,nd,mhd->nm", differences.weights, X, others), pairs)
    near = np.exp(-cdist(members.reshape(-1, D), members.reshape(-1, D), "sqeuclidean"))
    near = near.reshape(len(X), law.size, len(X), law.size)
    wanted = np.einsum("g,h,ngmh->nm", law.weights, law.weights, near)
    near = np.exp(-cdist(X, others.reshape(-1, D), "sqeuclidean")).reshape(len(X), len(X), -1)
    close(near @ differences.weights, wanted)


def test_isometric_lists_have_differences():
    known = {c.name for c in CASES if not c.oracle.depends_on_label and c.oracle.finite}
    known = {
        c.name for c in CASES if c.name in known and averaged(c.oracle, D).differences() is not None
    }
    assert known == {
        "identity", "finite", "flip", "permutations", "shared", "weighted", "discounted-finite",
    }  # fmt: skip


@pytest.mark.parametrize(
    "oracle",
    [
        *(
            pytest.param(case.oracle, marks=pytest.mark.slow if case.name.startswith("compose") else ())
            for case in CASES
            if case.oracle.finite and case.name != "permutations"
        ),
        Permutations((D, 1), noise=np.inf),
        Weighted(reorderings | shrinkings, [1, 0, 2, 0, 5]),
        reorderings | shrinkings,
        Rotations([180, 40], shape=(1, D), spread=60.0),
    ],
    ids=lambda oracle: type(oracle).__name__,
)
def test_many_draws_have_the_probabilities_of_the_list(oracle):
    X, _ = rows()
    size = 20000
    listed, drawn = averaged(oracle, D), averaged(oracle, D, size, 5)
    places = np.random.default_rng(0).standard_normal((3, D))
    for row in X[:2]:
        means = []
        for law in (listed, drawn):
            members = law.on(row[None]).members()[0]
            values = np.c_[np.exp(-0.1 * cdist(members, places, "sqeuclidean")), np.cos(members)]
            means.append(law.weights @ values)
        # Values have a standard deviation of at most 1.
        np.testing.assert_allclose(*means, atol=6.0 / np.sqrt(size))


@pytest.mark.parametrize(
    ("oracle", "size"),
    [
        *LAWS,
        pytest.param(reorderings | shrinkings | Flip(shape=(1, D)), None, id="mixed"),
        pytest.param(reorderings | FDrop(2), 12, id="mixed-drawn"),
        pytest.param(reorderings @ Flip(shape=(1, D)), None, id="composed"),
        pytest.param(FScale(2) @ (reorderings @ Box(0.1)), 7, id="composed-drawn"),
    ],
)
def test_take_selects_changes_in_order(oracle, size):
    X, _ = rows()
    V = np.random.default_rng(0).standard_normal((2, D))
    law = averaged(oracle, D, size)
    numbers = [law.size - 1, 0, law.size // 2, law.size - 1, 0]
    weights = np.array([1.0, 2.0, 3.0, 1.0, 0.5])
    members, pulled = law.on(X).members(), law.adjoint(V)
    for part, wanted in (
        (law.take(numbers), law.weights[numbers]),
        (law.take(np.array(numbers), weights), weights),
        (law.take(range(law.size)).take(numbers, weights), weights),
    ):
        close(part.on(X).members(), members[:, numbers])
        close(part.weights, wanted / np.sum(wanted))
        assert (part.adjoint(V) is None) == (pulled is None)
        if pulled is not None:
            close(part.adjoint(V), pulled[numbers])
        if part.linear() is not None:
            close(part.linear().on(X).members(), members[:, numbers])
            close(part.linear().weights, wanted / np.sum(wanted))
