"""Arrays of some rows."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.oracles import Identity
from structinv.solvers import REGISTRY, Iterations, Start, solve
from structinv.utils.row_arrays import join_rows, put_rows, take_rows, zero_rows

from ..problems import objective

BROKEN = {
    "not-a-number": lambda array: np.where(np.arange(len(array)) == 1, np.nan, array),
    "infinite": lambda array: np.where(np.arange(len(array)) == 1, np.inf, array),
    "minus-infinite": lambda array: np.where(np.arange(len(array)) == 1, -np.inf, array),
    "too-short": lambda array: array[1:],
    "two-dimensional": lambda array: array[:, None],
    "texts": lambda array: array.astype(str),
}


@pytest.mark.parametrize("solver", ["frank_wolfe", "svmstruct"])
@pytest.mark.parametrize("kind", BROKEN)
def test_starts_leave_out_dual_variables_of_another_form(kind, solver):
    def run(start):
        return solve(problem, REGISTRY[solver](), Iterations(2), warm_start=start, random_state=0)

    problem = objective(Identity())
    known = run(None)
    (own,) = known.dual_variables
    broken = [{name: BROKEN[kind](array) for name, array in own.items()}]
    found, wanted = run(Start(known.f, broken)), run(Start(known.f))
    assert found.status is wanted.status
    assert (found.primal, found.dual) == (wanted.primal, wanted.dual)
    assert -np.inf < found.dual <= found.primal


def test_some_rows_can_be_taken_from_arrays_and_put_back():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, 20)
    arrays = {
        "one": rng.normal(size=20),
        "two": rng.normal(size=(20, 2)),
        "many.counts": counts,
        "many.values": rng.normal(size=counts.sum()),
        "many.places": np.arange(counts.sum()),
    }
    rows = np.array([1, 5, 6, 19])
    some = take_rows(arrays, rows)
    assert some["many.counts"].tolist() == counts[rows].tolist()
    same = put_rows(arrays, rows, some, 20)
    for name, before in arrays.items():
        np.testing.assert_array_equal(same[name], before)
    ones = np.ones(counts[rows].sum() + 4)
    new = {"many.counts": counts[rows] + 1, "many.values": ones, "many.places": ones}
    longer = {**some, **new}
    other = put_rows(arrays, rows, longer, 20)
    np.testing.assert_array_equal(take_rows(other, rows)["many.values"], ones)
    left = np.setdiff1d(np.arange(20), rows)
    for found in (other, join_rows([take_rows(arrays, left), zero_rows(arrays, 3)])):
        places = left if found is other else np.arange(len(left))
        np.testing.assert_array_equal(
            take_rows(found, places)["many.values"], take_rows(arrays, left)["many.values"]
        )
