"""Dual states: the dual variables of a term, for block-coordinate solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..spaces.base import Space
from .addition_state import AdditionState
from .base import DualState
from .block_state import BlockState
from .box_state import BoxState
from .case import Case
from .chain_state import ChainState
from .edit_state import EditState
from .flow_state import FlowState
from .label_state import LabelState, WordLabelState
from .labeling_state import LabelingState
from .linear_member_state import LinearMemberState
from .margin_state import MarginState
from .member_state import MemberState
from .penalty_state import PenaltyState
from .plane_cache import PlaneCache
from .row_state import HingeState, SlopeState, TubeState
from .word_state import WordState

if TYPE_CHECKING:
    from ..terms import Term

# The first state that supports a case is used. The last one supports all cases.
TABLE: dict[str, type[DualState]] = {
    state.name: state
    for state in (
        AdditionState,
        EditState,
        HingeState,
        WordState,
        BoxState,
        LabelState,
        WordLabelState,
        MemberState,
        LabelingState,
        TubeState,
        LinearMemberState,
        PenaltyState,
        SlopeState,
        MarginState,
        FlowState,
        ChainState,
        BlockState,
        PlaneCache,
    )
}
Case.table = TABLE


def dual_state(term: Term, space: Space, rng: np.random.Generator, plane_tol: float = 0.0) -> DualState:
    """Return the first dual state of the table that supports a term and a space."""
    case = Case(term, space, plane_tol)
    return case.chosen()(case, rng)


def refusals(term: Term, space: Space, plane_tol: float = 0.0) -> dict[str, str]:
    """Return the reasons why dual states do not support a term and a space, by name.

    Supported states are left out. No dual state is created.
    """
    case = Case(term, space, plane_tol)
    reasons = {name: state.refuses(case) for name, state in TABLE.items()}
    return {name: reason for name, reason in reasons.items() if reason}
