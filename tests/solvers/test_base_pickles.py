"""Pickled and copied solutions start where they were, and take no table with them."""

import copy
import pickle

import numpy as np
import pytest

from structinv.kernels import Gaussian
from structinv.kernels.kernel_names import PrecomputedKernel
from structinv.oracles import FDrop, FiniteOracle, Identity
from structinv.solvers import REGISTRY, Gap, Representer, Status, solve
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from .. import kernel_problems, problems
from ..covering import slow_unless
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import SETTING
from ..spaces.cases import LINE
from .cases import representer_problem

PICKLED_BY = {name: kind() for name, kind in sorted(REGISTRY.items())}
PICKLED_BY |= {f"representer, {name}": Representer(name) for name in ("newton-cg", "dual-cd")}
PICKLED_TO = {"pegasos": 3e-2, "bmrm": 1e-2}


class Fades(FiniteOracle):
    """Rows times numbers down to `low`."""

    def __init__(self, low, steps=1):
        self.low = low
        self.steps = steps

    def orbit(self, X):
        return np.multiply.outer(np.linspace(1.0, self.low, 1 + self.steps), X).swapaxes(0, 1)


def linear_problem(oracle, setting, **parameters):
    return lambda: problems.objective(oracle, SETTING[setting], **parameters)


def kernel_problem(oracle, setting, **parameters):
    return lambda: kernel_problems.problem(oracle, SETTING[setting], Gaussian(2.0), **parameters)


def representers(loss, penalty):
    return lambda: representer_problem(loss, penalty)


def two_terms():
    """Rows of two kinds, each with changes of its own, in one kernel's space."""
    setting, space = SETTING["binary"], KernelSpace(Gaussian(2.0), problems.D)
    X, y = setting.X, setting.y
    oracles = ORBIT_CASE["permutations"].oracle, LINE
    terms = [
        WorstCase(X[part], y[part], oracle, Binary(), 0.5)
        for part, oracle in zip((slice(0, 4), slice(3, None)), oracles, strict=True)
    ]
    return Objective(space, terms)


def table():
    """Values of a kernel in a table, which shows no inputs."""
    X, y = SETTING["binary"].X, SETTING["binary"].y
    rows = np.arange(float(len(X)))[:, None]
    space = KernelSpace(PrecomputedKernel(Gaussian(2.0).matrix(X, X)), 1)
    return Objective(space, [WorstCase(rows, y, Identity(), Binary(), 1.0)])


PERMUTATIONS = ORBIT_CASE["permutations"].oracle
# Each space with each kind of dual state that a term can have there.
OBJECTIVES = {
    "words": linear_problem(FDrop(1), "binary"),
    "members of linear functions": linear_problem(PERMUTATIONS, "multiclass"),
    "members of sparse rows": linear_problem(FDrop(1) | Identity(), "binary-cost", sparse=True),
    "planes of linear functions": linear_problem(FDrop(1), "multiclass"),
    "members in a kernel's space": kernel_problem(PERMUTATIONS, "binary"),
    "graded members of three classes": kernel_problem(
        ORBIT_CASE["discounted"].oracle, "multiclass-slack"
    ),
    "members that are not kept": kernel_problem(PERMUTATIONS, "multiclass", cache_mb=0.0),
    "points between members": kernel_problem(LINE, "multiclass"),
    "points between members not kept": kernel_problem(LINE, "binary", cache_mb=0.0),
    "two oracles": two_terms,
    "a table": table,
    "representers": representers("logistic", "squared"),
    "representers and members": representers("worst case", "huber"),
}


def pairs_that_work():
    found = []
    for name, make in OBJECTIVES.items():
        for solver in PICKLED_BY:
            try:
                PICKLED_BY[solver].validate(make())
            except ValueError:
                continue
            found.append((name, solver))
    return found


PAIRS = pairs_that_work()


def check_it_starts_where_it_was(objective, solver, cold, start, tol=1e-3):
    warm = solve(objective, solver, Gap(tol), start, random_state=1)
    first, slack = warm.history[0], 1e-9 * abs(cold.primal)
    # Between the members of a cover bounds of functions that attain the same may differ.
    coarse = 1e-3 * cold.primal * (cold.status is Status.ORACLE_TOO_COARSE)
    assert first.iteration == 0
    assert first.primal <= cold.primal + 100 * slack + coarse
    assert warm.dual <= cold.primal + slack
    assert cold.dual <= warm.primal + slack
    if cold.status is Status.CONVERGED:
        assert warm.status is Status.CONVERGED
        # Variables of single members or functionals, not sums over planes.
        if all({"pairs.alphas", "slopes"} & set(own) for own in cold.dual_variables or [{}]):
            assert warm.iterations == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "solver"), slow_unless(lambda *pair: PAIRS.index(pair) % 7 == 0, PAIRS)
)
def test_a_pickled_solution_starts_its_own_problem(name, solver):
    objective = OBJECTIVES[name]()
    tol = PICKLED_TO.get(solver, 1e-3)
    cold = solve(objective, PICKLED_BY[solver], Gap(tol), random_state=0)
    content = pickle.dumps(cold)
    other = OBJECTIVES[name]()
    for again, start in (
        (objective, pickle.loads(content)),
        (objective, copy.deepcopy(cold)),
        (other, cold),
        (other, pickle.loads(content)),
    ):
        check_it_starts_where_it_was(again, PICKLED_BY[solver], cold, start, tol)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_pickled_objective_goes_on_with_its_solution(name):
    objective, solver = OBJECTIVES[name](), Representer() if "repr" in name else PICKLED_BY["svmstruct"]
    cold = solve(objective, solver, random_state=0)
    objective, start = pickle.loads(pickle.dumps((objective, cold)))
    check_it_starts_where_it_was(objective, solver, cold, start)
    # As a problem of its own it is as good as new.
    again = solve(objective, solver, random_state=0)
    assert again.primal == pytest.approx(cold.primal, rel=2e-3)


def test_a_solution_of_another_space_is_refused():
    objective = OBJECTIVES["members in a kernel's space"]()
    others = ["graded members of three classes", "a table", "representers and members", "words"]
    for name in others:
        solution = solve(OBJECTIVES[name](), PICKLED_BY["svmstruct"], random_state=0)
        with pytest.raises(ValueError, match="warm_start must"):
            solve(objective, PICKLED_BY["svmstruct"], warm_start=solution, random_state=0)


def test_the_table_and_the_rows_stay_behind():
    # A hundred members a row, a few of which are ever the worst.
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 100)), np.arange(40) % 2
    oracle = Fades(0.9, 99)
    space = KernelSpace(Gaussian(2.0), 100)
    objective = Objective(space, [WorstCase(X, y, oracle, Binary(), 1.0)])
    solution = solve(objective, PICKLED_BY["frank_wolfe"], random_state=0)
    n_atoms = len(space.atoms)
    n_pairs = len(solution.dual_variables[0]["pairs.alphas"])
    room = 8 * 100 * n_atoms + 8 * 10 * (n_atoms + n_pairs) + 10_000
    assert len(pickle.dumps(solution)) <= room < 0.1 * space.atoms.known.nbytes
    again = pickle.loads(pickle.dumps(solution))
    assert again.f.atoms.n_cached_rows == 0
    np.testing.assert_array_equal(again.f.function()(X), solution.f.function()(X))
