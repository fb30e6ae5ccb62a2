"""Dual variables of a term, in the form in which block-coordinate solvers improve them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..spaces import Space
from .additions import AdditionState
from .base import DualState, Hurried, Refusal, join_planes, never, total
from .chains import ChainState
from .edits import EditState
from .hull import HullState
from .labellings import LabellingState
from .labels import LabelState
from .linear_members import LinearMemberState
from .margin import MarginState
from .members import MOST_MEMBERS, MemberState
from .penalty import PenaltyState, slopes_fit
from .plane_cache import PlaneCache
from .tube import TubeState

if TYPE_CHECKING:
    from ..terms import Term

# The first that does not refuse is taken.
REGISTRY: dict[str, Any] = {
    "additions": AdditionState,
    "edits": EditState,
    "hull": HullState,
    "labels": LabelState,
    "members": MemberState,
    "labellings": LabellingState,
    "tube": TubeState,
    "linear_members": LinearMemberState,
    "penalty": PenaltyState,
    "margin": MarginState,
    "chains": ChainState,
    "plane_cache": PlaneCache,
}


def dual_state(term: Term, space: Space, rng: np.random.Generator, epsilon: float = 0.0) -> DualState:
    """The first of the registry's states that suits a term and a space.

    Parameters
    ----------
    term : Term
    space : Space
    rng : numpy.random.Generator
    epsilon : float, default=0.0
        A plane that rises at most this above those that its block has is not taken up.
    """
    for kind in REGISTRY.values():
        try:
            return kind(term, space, rng, epsilon)
        except Refusal:
            continue
    raise AssertionError("PlaneCache takes all terms")


def refusals(term: Term, space: Space, epsilon: float = 0.0) -> dict[str, str]:
    """Why states of the registry do not suit a term and a space, by their names.

    Those that suit are not among them.

    Parameters
    ----------
    term : Term
    space : Space
    epsilon : float, default=0.0
        Tolerance of planes.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Identity
    >>> from structinv.spaces import ExplicitSpace
    >>> from structinv.structures import Binary
    >>> from structinv.terms import WorstCase
    >>> term = WorstCase(np.eye(2), np.array([0, 1]), Identity(), Binary())
    >>> print(refusals(term, ExplicitSpace(2))["members"])
    the space is not a kernel's
    """
    found = {}
    for name, kind in REGISTRY.items():
        try:
            kind(term, space, np.random.default_rng(0), epsilon)
        except Refusal as reason:
            found[name] = str(reason)
    return found


__all__ = [
    "MOST_MEMBERS",
    "REGISTRY",
    "AdditionState",
    "ChainState",
    "DualState",
    "EditState",
    "HullState",
    "Hurried",
    "LabelState",
    "LabellingState",
    "LinearMemberState",
    "MarginState",
    "MemberState",
    "PenaltyState",
    "PlaneCache",
    "Refusal",
    "TubeState",
    "dual_state",
    "join_planes",
    "never",
    "refusals",
    "slopes_fit",
    "total",
]
