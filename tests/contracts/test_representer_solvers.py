"""Solvers on objectives of functionals: the table that the documentation prints, and each part of it."""

import re
from pathlib import Path

import pytest

from structinv.solvers import (
    BMRM,
    FrankWolfe,
    Gap,
    Iterations,
    Pegasos,
    Representer,
    Status,
    SVMStruct,
    solve,
)

from ..covering import pairs, slow_unless
from ..solvers.cases import FUNCTIONAL_LOSSES as LOSSES
from ..solvers.cases import FUNCTIONAL_PENALTIES as PENALTIES
from ..solvers.cases import representer_optimum as optimum
from ..solvers.cases import representer_problem as problem
from ..solvers.cases import solved

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "convergence.md"
SOLVERS = {
    "FrankWolfe": FrankWolfe(),
    "SVMStruct": SVMStruct(),
    "BMRM": BMRM(),
    "Pegasos": Pegasos(batch_size=1),
    "newton-cg": Representer("newton-cg"),
    "dual-cd": Representer("dual-cd"),
    "cvxpy": Representer("cvxpy"),
}


def printed_table():
    """The table of docs/guide/convergence.md: from loss and solver to whether the pair works."""
    text = DOCS.read_text(encoding="utf-8")
    rows = re.search(r"\| Loss \|(.*?)\n\n", text, re.DOTALL).group(0).strip().splitlines()
    found = {}
    for row in rows[2:]:
        losses, solvers = (
            [each.strip(" `") for each in cell.split(",")] for cell in row.strip("| ").split("|")
        )
        supported = set(SOLVERS) if solvers == ["all"] else set(solvers)
        assert supported <= set(SOLVERS)
        found |= {(loss, name): name in supported for loss in losses for name in SOLVERS}
    return found


TABLE = printed_table()
PAIRS = [(loss, name) for loss, name in TABLE]


def in_turn(loss, name):
    """Penalties for a loss and a solver, such that each solver and each loss meets all of them."""
    at = [*LOSSES, "worst case"].index(loss) + list(SOLVERS).index(name)
    # Few solvers have the last loss but one.
    n_each = 2 if loss == "CvxpyLoss" and TABLE[loss, name] else 1
    return [sorted(PENALTIES)[(at + 2 * step) % 4] for step in range(n_each)]


def test_the_printed_table_is_whole():
    assert set(PAIRS) == {(loss, name) for loss in [*LOSSES, "worst case"] for name in SOLVERS}
    assert set(TABLE.values()) == {True, False}


# Each pair has one of four penalties in turns.
@pytest.mark.parametrize(
    ("loss", "name", "penalty"),
    slow_unless(
        lambda loss, name, penalty: penalty in in_turn(loss, name),
        [(*pair, penalty) for pair in PAIRS for penalty in sorted(PENALTIES)],
    ),
)
def test_pairs_agree_or_are_refused_by_name(loss, name, penalty):
    objective = problem(loss, penalty)
    if not TABLE[loss, name]:
        with pytest.raises(ValueError, match=re.escape(name)):
            solve(objective, SOLVERS[name], random_state=0)
        assert objective.space.system.n_products == 0
        return
    tolerance = 1e-2 if name == "Pegasos" else 1e-4
    solution = solve(objective, SOLVERS[name], Gap(tolerance) | Iterations(5000), random_state=0)
    assert solution.status is Status.CONVERGED
    best = optimum(loss, penalty)
    assert solution.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= solution.primal <= best * (1 + 1.01 * tolerance)


@pytest.mark.parametrize(
    ("method", "loss", "penalty"),
    pairs(
        ["newton-cg", "dual-cd", "cvxpy"],
        [name for name in LOSSES if name != "CvxpyLoss"],
        sorted(PENALTIES),
    ),
)
def test_a_free_constant(method, loss, penalty):
    if method == "dual-cd" and loss == "logistic":
        with pytest.raises(ValueError, match="unpenalized constant only"):
            solved(problem(loss, penalty, free=0), method)
        return
    solution = solved(problem(loss, penalty, free=0), method, most=3000)
    best = optimum(loss, penalty, free=0)
    assert solution.primal == pytest.approx(best, rel=3e-6)
    assert solution.dual == pytest.approx(best, rel=3e-6)


@pytest.mark.parametrize("solver", [FrankWolfe(), SVMStruct(), BMRM(), Pegasos()], ids=repr)
def test_a_free_constant_is_refused_by_name(solver):
    name = type(solver).__name__
    with pytest.raises(ValueError, match=f"{name} does not support functions with an unpenalized part"):
        solve(problem("hinge", "squared", free=0), solver, random_state=0)
