"""Refusals of dual states: spaces, terms and sizes that they do not support."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.dual import dual_state, refusals
from structinv.dual.box_state import BoxState
from structinv.dual.case import MOST_MEMBERS
from structinv.dual.member_state import MemberState
from structinv.dual.plane_cache import PlaneCache
from structinv.kernels import Gaussian
from structinv.oracles import Box
from structinv.solvers import REGISTRY, Gap, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import WorstCase

from ..kernel_problems import problem
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import SETTING


def test_long_lists_are_not_cached(monkeypatch):
    case, setting = ORBIT_CASE["discounted-member"], SETTING["multiclass"]
    this = problem(case.oracle, setting, Gaussian(2.0))
    (term,) = this.terms
    states, ends = [], []
    for most in (MOST_MEMBERS, 1):
        monkeypatch.setattr("structinv.dual.case.MOST_MEMBERS", most)
        states.append(type(dual_state(term, this.space, np.random.default_rng(0))))
        ends.append(solve(this, REGISTRY["frank_wolfe"](), Gap(1e-6), random_state=0).primal)
    assert states == [MemberState, PlaneCache]
    assert ends[1] == pytest.approx(ends[0], rel=2e-6)


class Squares(ExplicitSpace):
    """Linear functions of squared features, as in a third-party space."""

    def worst(self, f, bound, rows, competitors, points=True, rounding=False):
        raise NotImplementedError

    def weights(self, f):
        return super().weights(f) ** 2


def test_states_of_boxes_require_a_space_linear_in_x():
    X, y = np.array([[1.0, 2.0], [-1.0, 0.5], [0.3, -1.0]]), np.array([0, 1, 1])
    term = WorstCase(X, y, Box(0.2), Binary())
    rng = np.random.default_rng(0)
    assert isinstance(dual_state(term, ExplicitSpace(2), rng), BoxState)
    assert isinstance(dual_state(term, Squares(2), rng), PlaneCache)
    assert refusals(term, Squares(2))["boxes"] == "the space is not linear in x"


class Renamed(ExplicitSpace):
    """Subclass with the same functions."""

    def __init__(self, n_features):
        super().__init__(n_features)


class Declared(ExplicitSpace):
    """Subclass that overrides a method and declares its capabilities again."""

    capabilities = frozenset(["linear in x"])

    def zeros(self):
        return np.zeros(self.size)


@pytest.mark.parametrize("kind", [Renamed, Declared])
def test_subclass_of_space_must_declare_capabilities_again(kind):
    term = WorstCase(np.eye(2), np.array([0, 1]), Box(0.2), Binary())
    assert isinstance(dual_state(term, kind(2), np.random.default_rng(0)), BoxState)


class Halved(WorstCase):
    def planes(self, space, f, blocks=slice(None)):
        raise NotImplementedError


def test_unsupported_dual_states_raise_with_reason():
    rows = np.eye(2), np.array([0, 1])
    space = ExplicitSpace(2)
    reason = refusals(Halved(*rows, Box(0.2), Binary()), space)["boxes"]
    assert reason == "the term is Halved, not WorstCase"
    costly = WorstCase(*rows, Box(0.2), Binary(), cost=[[0, 2], [1, 0]])
    assert "costs differ from 1" in refusals(costly, space)["boxes"]
    assert "plane_tol" in refusals(WorstCase(*rows, Box(0.2), Binary()), space, 0.1)["boxes"]
    several = refusals(WorstCase(*rows, Box(0.2), Multiclass()), ExplicitSpace(2, 2))
    assert several["linear_members"] == "Box has no list of members with scores"
    assert "plane_cache" not in several
