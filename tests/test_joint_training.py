"""Changes of whole examples: training reaches the optimum, estimators use it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from structinv import InvariantStructuredSVC, load, save
from structinv.kernels import Linear
from structinv.oracles import Budget, FDrop, Shared, Shifts
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Sequence
from structinv.terms import Objective

from .covering import each_once, slow_unless
from .joint_cases import CASE, FEATURES, JOINT, LABELS, objective, optimum
from .problems import assert_brackets

FRANK_WOLFE, PLANES = FrankWolfe(), [SVMStruct(), BMRM()]
N_PAIRWISE = Sequence().n_pairwise(LABELS)


@cache
def best(name: str) -> float:
    return optimum(CASE[name])


# Solvers other than FrankWolfe see planes alone: each case has one of them in turns.
@pytest.mark.parametrize(
    ("case", "solver"),
    slow_unless(
        lambda case, solver: solver in (FRANK_WOLFE, PLANES[JOINT.index(case) % 2]),
        [(case, solver) for case in JOINT for solver in (FRANK_WOLFE, *PLANES)],
    ),
    ids=str,
)
def test_training_reaches_the_optimum_over_labelings_and_changes(case, solver):
    found = solve(objective(case), solver, Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(best(case.name), rel=1e-6)
    assert found.dual == pytest.approx(best(case.name), rel=1e-6)
    assert_brackets(found, best(case.name))


@pytest.mark.parametrize("case", JOINT, ids=str)
def test_a_stream_of_examples_brackets_the_optimum(case):
    found = solve(objective(case), Pegasos(), Gap(0.2), random_state=0)
    assert_brackets(found, best(case.name))
    assert np.isfinite(found.gap)


@pytest.mark.parametrize(
    ("case", "cache_mb"),
    each_once([case for case in JOINT if case.oracle.finite], [100.0, 0.0]),
    ids=str,
)
def test_a_linear_kernel_reaches_the_optimum_of_the_linear_machine(case, cache_mb):
    terms = objective(case).terms
    space = KernelSpace(Linear(), FEATURES, LABELS, cache_mb=cache_mb, n_pairwise=N_PAIRWISE)
    found = solve(Objective(space, terms), FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.primal == pytest.approx(best(case.name), rel=1e-5)
    assert_brackets(found, best(case.name))


@pytest.mark.parametrize("cache_mb", [100.0, 0.0])
def test_all_members_of_a_shared_change_are_one_list(cache_mb):
    term = objective(CASE["shared"]).terms[0]
    space = KernelSpace(Linear(), FEATURES, LABELS, cache_mb=cache_mb, n_pairwise=N_PAIRWISE)
    solution = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-2), random_state=0)
    assert len(space.atoms.pools) == 1
    _, members = space.atoms.origins[solution.f.support()].T
    assert set(members) == {0, 1, 2}


@pytest.mark.parametrize("name", ["union-outside", "budget-graded"])
def test_a_fit_goes_on_where_another_ended(name):
    problem = objective(CASE[name])
    first = solve(problem, FrankWolfe(), Gap(1e-2), random_state=0)
    again = solve(problem, FrankWolfe(), Gap(1e-6), warm_start=first, random_state=0)
    assert again.history[0].dual >= first.dual - 1e-9
    assert again.primal == pytest.approx(best(name), rel=1e-5)


N_LABELS, N_FEATURES = 3, 9
SHIFTS = Shifts(1, shape=(1, N_FEATURES), fill="nearest")
ORACLES = [Shared(SHIFTS), Budget(FDrop(2)), Shared(SHIFTS) | Budget(FDrop(1))]


def data(seed=0, n=30):
    rng = np.random.default_rng(seed)
    # A bump for each label, which stays apart from the others when it is shifted by one place.
    means = 3.0 * np.eye(N_FEATURES)[1::3]
    y = [rng.integers(N_LABELS, size=rng.integers(1, 6)) for _ in range(n)]
    return [means[each] + 0.7 * rng.standard_normal((len(each), N_FEATURES)) for each in y], y


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_estimators_train_certify_and_keep(oracle, tmp_path):
    X, y = data()
    model = InvariantStructuredSVC(Sequence(), oracle=oracle, C=0.3, tol=1e-3, random_state=0).fit(X, y)
    found = model.certify(X, y)
    assert model.solution_.relative_gap <= 1e-3
    assert (
        found.accuracy
        <= found.attacked_accuracy
        <= np.mean([np.array_equal(*pair) for pair in zip(model.predict(X), y, strict=True)])
    )
    changed, labels = model.worst_case(X, y)
    at_worst = np.mean(np.concatenate(labels) == np.concatenate(y))
    assert found.position_accuracy <= at_worst
    assert found.position_accuracy <= model.score(X, y)
    for points, led in zip(changed, labels, strict=True):
        np.testing.assert_array_equal(model.predict([points])[0], led)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.certify(X, y).margins, found.margins)
    assert clone(model).get_params()["oracle"] is not oracle


def test_a_budget_is_worth_less_than_as_many_changes_of_each_row():
    X, y = data(1)
    rows = [sp.csr_matrix(each) for each in X]
    model = InvariantStructuredSVC(Sequence(), oracle=Budget(FDrop(1)), C=0.3, random_state=0).fit(
        rows, y
    )
    each, shared = (model.certify(rows, y, oracle=oracle) for oracle in (FDrop(1), Budget(FDrop(1))))
    assert np.all(each.margins <= shared.margins + 1e-12)
    assert each.position_accuracy < shared.position_accuracy
    dense = model.certify(X, y)
    np.testing.assert_allclose(dense.attacked, shared.attacked, atol=1e-9)


def test_kernels_take_shared_changes_and_no_budget():
    X, y = data(2)
    model = InvariantStructuredSVC(
        Sequence(), oracle=Shared(SHIFTS), kernel="rbf", C=10.0, random_state=0
    )
    found = model.fit(X, y).certify(X, y)
    assert 0 < found.position_accuracy <= model.score(X, y)
    with pytest.raises(TypeError, match="Budget"):
        clone(model).set_params(oracle=Budget(FDrop(1))).fit(X, y)
