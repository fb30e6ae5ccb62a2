"""A problem for each dual state, with its optimum, for tests of all states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from structinv.dual.addition_state import AdditionState
from structinv.dual.box_state import BoxState
from structinv.dual.chain_state import ChainState
from structinv.dual.edit_state import EditState
from structinv.dual.flow_state import FlowState
from structinv.dual.label_state import LabelState, WordLabelState
from structinv.dual.labeling_state import LabelingState
from structinv.dual.linear_member_state import LinearMemberState
from structinv.dual.margin_state import MarginState
from structinv.dual.member_state import MemberState
from structinv.dual.plane_cache import PlaneCache
from structinv.dual.row_state import HingeState, SlopeState, TubeState
from structinv.dual.word_state import WordState
from structinv.oracles import FAdd, FDrop, FEdit, Identity
from structinv.terms import Objective

from ..kernels import problems as kernel_problems
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import CASE, SETTING, objective, optimum
from ..structures import test_classes as test_regression
from . import test_addition_steps as test_word_steps
from . import test_chain_state as test_chains
from . import test_kernel_chains
from . import test_margin_state as test_margin_losses
from . import test_newton_steps as test_slopes

Made = tuple[Objective, float]


@dataclass(frozen=True)
class StateCase:
    """A dual state, and how a problem that is solved with it and its optimum are made."""

    kind: type
    make: Callable[[], Made]


def explicit(kind: type, name: str, setting: str, sparse: bool = False) -> StateCase:
    def make() -> Made:
        problem = objective(CASE[name].oracle, SETTING[setting], sparse=sparse)
        return problem, optimum(name, setting)

    return StateCase(kind, make)


def in_a_kernel(**options: Any) -> Callable[[], Made]:
    def make() -> Made:
        setting, kernel = SETTING["multiclass"], kernel_problems.KERNELS["gaussian"]
        problem = kernel_problems.problem(ORBIT_CASE["halves"].oracle, setting, kernel, **options)
        return problem, kernel_problems.optimum("halves", "multiclass", "gaussian")[0]

    return make


def of_sequences_in_a_kernel() -> Made:
    problem = test_kernel_chains.problem("union", kernel_problems.KERNELS["gaussian"])
    return problem, test_kernel_chains.optimum("union", "gaussian")


def of_targets() -> Made:
    return test_regression.objective(Identity()), test_regression.optimum("identity")


def of_sequences(**setting: Any) -> Callable[[], Made]:
    return lambda: (test_chains.objective(**setting), test_chains.optimum(**setting))


def of_edits(oracle: Any) -> Callable[[], Made]:
    return lambda: (test_word_steps.objective(oracle), test_word_steps.optimum(oracle))


def of_margins(loss: str) -> Callable[[], Made]:
    def make() -> Made:
        problem = test_margin_losses.problem(CASE["fdrop"].oracle, loss)
        return problem, test_margin_losses.optimum("fdrop", loss)

    return make


def of_slopes(factor: float, intercept: bool) -> Callable[[], Made]:
    def make() -> Made:
        problem = test_slopes.problem("logistic", factor, intercept=intercept)
        return problem, test_slopes.optimum("logistic", factor, intercept)

    return make


# States of oracle cases with averaged planes, for two and for several classes.
AVERAGED = {
    "identity": HingeState,
    "fscale": WordState,
    "fdrop": WordState,
    "box-radii": BoxState,
    "only_for": WordState,
}
LABELS = {
    "identity": LabelState,
    "fscale": WordLabelState,
    "fdrop": WordLabelState,
    "only_for": WordLabelState,
}

STATES = {
    **{f"rows-{name}": explicit(state, name, "binary") for name, state in AVERAGED.items()},
    "rows-slack": explicit(BoxState, "box-radii", "binary-slack"),
    "rows-sparse": explicit(HingeState, "identity", "binary", sparse=True),
    **{
        f"labels-{name}": explicit(state, name, "multiclass", sparse=True)
        for name, state in LABELS.items()
    },
    "additions": StateCase(AdditionState, of_edits(FAdd(1).only_for(1))),
    "edits": StateCase(EditState, of_edits(FEdit(1, add=1.0).only_for(1))),
    "edits of all rows": StateCase(EditState, of_edits(FEdit(1, add=1.0))),
    "margins": StateCase(MarginState, of_margins("squared_hinge")),
    "margins-logistic": StateCase(MarginState, of_margins("logistic")),
    "slopes": StateCase(SlopeState, of_slopes(0.02, False)),
    "slopes-newton": StateCase(SlopeState, of_slopes(300.0, True)),
    "linear members": explicit(LinearMemberState, "finite", "multiclass"),
    "members": StateCase(MemberState, in_a_kernel()),
    "labelings": StateCase(LabelingState, of_sequences_in_a_kernel),
    "tube": StateCase(TubeState, of_targets),
    "flows": StateCase(FlowState, of_sequences(intercept=True)),
    "chains": StateCase(ChainState, of_sequences(oracle=FDrop(1))),
    "planes": explicit(PlaneCache, "fscale", "multiclass-slack"),
    "planes of dense rows": explicit(PlaneCache, "ellipsoid", "binary"),
    # A space with room for no member, so that each question makes all of them again.
    "planes in a kernel": StateCase(PlaneCache, in_a_kernel(cache_mb=0.0)),
}
