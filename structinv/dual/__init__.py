"""Dual states: the dual variables of a term, for block-coordinate solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..spaces.base import Space
from . import case as needs
from .addition_state import AdditionState
from .base import DualState
from .block_state import BlockState
from .case import Case, Requirement
from .chain_state import ChainState
from .edit_state import EditState
from .flow_state import FlowState
from .hull_state import HullState, LabelState
from .labeling_state import LabelingState
from .linear_member_state import LinearMemberState
from .margin_state import MarginState
from .member_state import MemberState
from .penalty_state import PenaltyState
from .plain_rows import SlopeState, TubeState
from .plane_cache import PlaneCache

if TYPE_CHECKING:
    from ..terms import Term


class Entry(NamedTuple):
    """Class of a dual state, and its requirements on a term and a space."""

    state: Any
    requirements: tuple[Requirement, ...]

    def reason(self, case: Case) -> str:
        """Return the reason why the state does not support a case; empty if it does."""
        return next((reason for need in self.requirements if (reason := need(case))), "")


_SHARED = needs.averages_planes, needs.linear_in_x, needs.margins_of_two_classes
_ADDED = *_SHARED, needs.adds_words
_IN_HULL = needs.averages_planes, needs.worst_case_of_rows, needs.linear_in_x
_CHAINS = needs.averages_planes, needs.worst_case_of_examples, needs.linear_in_x, needs.sequences
_LISTED = needs.worst_case_of_rows, needs.linear_in_x

# The first supported entry is used. The last one supports all terms.
TABLE: dict[str, Entry] = {
    "additions": Entry(AdditionState, (*_ADDED, needs.keeps_words)),
    "edits": Entry(EditState, (*_ADDED, needs.multiplies_words, needs.hinge)),
    "hull": Entry(
        HullState,
        (*_IN_HULL, needs.two_classes, needs.costs_of_one_or_factors, needs.in_hull_steps),
    ),
    "labels": Entry(LabelState, (*_IN_HULL, needs.several_classes, needs.in_hull_steps_of_labels)),
    "members": Entry(
        MemberState, (needs.worst_case_of_rows, needs.of_a_kernel, needs.all_members_known)
    ),
    "labelings": Entry(
        LabelingState,
        (
            needs.averages_planes,
            needs.worst_case_of_examples,
            needs.of_a_kernel,
            needs.all_members_known,
        ),
    ),
    "tube": Entry(
        TubeState,
        (
            needs.one_number_a_row,
            needs.worst_case_of_rows,
            needs.regression,
            needs.linear_in_x,
            needs.listed_members,
            needs.single_members,
        ),
    ),
    "linear_members": Entry(LinearMemberState, (*_LISTED, needs.listed_members)),
    "penalty": Entry(PenaltyState, (needs.penalty,)),
    "slopes": Entry(
        SlopeState,
        (
            needs.one_number_a_row,
            needs.worst_margin,
            needs.smooth_loss,
            needs.linear_in_x,
            needs.listed_members,
            needs.single_members,
        ),
    ),
    "margin": Entry(MarginState, (needs.worst_margin,)),
    "flows": Entry(FlowState, (*_CHAINS, needs.no_edits)),
    "chains": Entry(ChainState, (*_CHAINS, needs.few_edits)),
    "blocks": Entry(BlockState, (needs.rows_in_blocks,)),
    "plane_cache": Entry(PlaneCache, ()),
}


def chosen(case: Case) -> Any:
    """Return the class of the first dual state of the table that supports a case."""
    return next(row.state for row in TABLE.values() if not row.reason(case))


def dual_state(term: Term, space: Space, rng: np.random.Generator, plane_tol: float = 0.0) -> DualState:
    """Return the first dual state of the table that supports a term and a space."""
    case = Case(term, space, plane_tol, chosen)
    state: DualState = chosen(case)(case, rng)
    return state


def refusals(term: Term, space: Space, plane_tol: float = 0.0) -> dict[str, str]:
    """Return the reasons why dual states do not support a term and a space, by name.

    Supported states are left out. No dual state is created, but the oracle's in-hull steps are.
    """
    case = Case(term, space, plane_tol)
    reasons = {name: row.reason(case) for name, row in TABLE.items()}
    return {name: reason for name, reason in reasons.items() if reason}
