"""Requirements of dual states on a term and its space."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..losses import Hinge, ScalarLoss
from ..oracles.affine import RowBoxes
from ..oracles.listed_changes import listed
from ..spaces.atoms import MemberPool
from ..spaces.base import Space
from ..structures import Binary, Multiclass, Sequence
from ..terms import Term, WorstCase
from ..terms.worst_case import WorstMargin
from .margin_steps import KINDS

# Maximum number of members per row for dual variables of members in the space of a kernel.
MOST_MEMBERS = 2048


class Case:
    """Term and space of a dual state.

    Results of the oracle are computed once and cached.

    Shapes: `signs` (n_rows,), `others` (n_rows,).
    """

    # The dual states in their order, set by the package.
    table: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        term: Term,
        space: Space,
        plane_tol: float = 0.0,
    ) -> None:
        self.term: Any = term
        self.space: Any = space
        self.plane_tol = plane_tol

    def chosen(self) -> Any:
        """Return the class of the first dual state of the table that supports the case."""
        return next(state for state in self.table.values() if not state.refuses(self))

    @cached_property
    def signs(self) -> np.ndarray:
        """Sign of the label of each row."""
        return np.where(self.term.bound_structure.codes == 1, 1.0, -1.0)

    @cached_property
    def others(self) -> np.ndarray:
        """Cost of the wrong label of each row."""
        bound_structure = self.term.bound_structure
        costs: np.ndarray = bound_structure.competitors().cost_of(1 - bound_structure.codes)
        return costs

    @cached_property
    def edits(self) -> Any:
        """Edits of features of the rows; None if the oracle does not declare any."""
        return self.term.bound.edits()

    @cached_property
    def boxes(self) -> RowBoxes | None:
        """Boxes of features around the rows; None if the oracle does not declare any."""
        found: RowBoxes | None = self.term.bound.boxes()
        return found if found is not None and found.frame is None else None

    @property
    def has_dense_planes(self) -> bool:
        """True if planes are dense rows of one function."""
        if not isinstance(self.term, WorstCase) or "linear in x" not in self.space.capabilities:
            return False
        return self.space.size == self.space.stride and isinstance(self.term.bound.X, np.ndarray)

    @cached_property
    def pool(self) -> MemberPool:
        """Members of the oracle in the space of a kernel."""
        found: MemberPool = self.space.atoms.pool(listed(self.term.bound))
        return found

    @cached_property
    def n_members(self) -> int:
        """Number of listed members of a row."""
        weights = np.zeros((self.space.n_outputs, self.space.n_features))
        changes = self.term.bound.changes()
        scores = None if changes is None else changes.scores(slice(0, 1), weights)
        return 0 if scores is None else int(scores.shape[1])

    @property
    def loss(self) -> ScalarLoss:
        """Loss of the worst-case margin; the hinge loss for worst-case losses."""
        return self.term.loss if type(self.term) is WorstMargin else Hinge()

    @property
    def oracle(self) -> str:
        """Name of the oracle's class."""
        return type(self.term.oracle).__name__


# Reasons why a case does not satisfy a requirement of several states, empty if it does. States check
# them in order, so that each may assume those before it.


def _of_class(term: Term, kind: type) -> str:
    """Require exactly this class of a term, because subclasses may override methods."""
    return "" if type(term) is kind else f"the term is {type(term).__name__}, not {kind.__name__}"


def averages_planes(case: Case) -> str:
    """Require a zero plane tolerance, because the state averages planes."""
    return "plane_tol is not supported for averaged planes" if case.plane_tol > 0 else ""


def one_number_a_row(case: Case) -> str:
    """Require a zero plane tolerance, for states with one dual variable per row."""
    return "plane_tol is not supported for one dual variable per row" if case.plane_tol > 0 else ""


def linear_in_x(case: Case) -> str:
    """Require functions that are linear in x."""
    return "" if "linear in x" in case.space.capabilities else "the space is not linear in x"


def of_a_kernel(case: Case) -> str:
    """Require the space of a kernel."""
    return "" if "kernel members" in case.space.capabilities else "the space has no kernel"


def worst_margin(case: Case) -> str:
    """Require a loss of the worst-case margin with compiled steps."""
    reason = _of_class(case.term, WorstMargin)
    return reason or compiled_loss(case)


def worst_case_of_rows(case: Case) -> str:
    """Require the worst-case loss of single rows."""
    reason = _of_class(case.term, WorstCase)
    if not reason and (
        not case.term.bound_structure.structure.rowwise or case.term.bound_structure.n_pairwise
    ):
        reason = "its examples have several rows, or pairwise weights"
    return reason


def averaged_rows(case: Case) -> str:
    """Require the worst-case loss of single rows, for averaged linear planes."""
    return averages_planes(case) or worst_case_of_rows(case) or linear_in_x(case)


def worst_case_of_examples(case: Case) -> str:
    """Require a worst-case loss of independent rows, with one function per label."""
    term = case.term
    reason = _of_class(term, WorstCase)
    if reason:
        return reason
    if not term.bound_structure.functions.are_one_each:
        return "labels do not have one function each"
    if term.bound_structure.slack:
        return "rescaling is 'slack'"
    if term.relaxed:
        return "labelings are fractional"
    return "perturbations of an example's rows depend on each other" if term.joint else ""


def compiled_loss(case: Case) -> str:
    """Require a loss with compiled steps."""
    return "" if type(case.loss) in KINDS else f"{type(case.loss).__name__} has no compiled steps"


def two_classes(case: Case) -> str:
    """Require two classes with one function."""
    known = type(case.term.bound_structure.structure) is Binary
    return "" if known else "the structure is not two classes with one function"


def chains(case: Case) -> str:
    """Require sequences of labels, for averaged planes of linear functions."""
    reason = averages_planes(case) or worst_case_of_examples(case) or linear_in_x(case)
    if not reason and type(case.term.bound_structure.structure) is not Sequence:
        return "the structure is not a sequence of labels"
    return reason


def margins_of_two_classes(case: Case) -> str:
    """Require a loss of the margin of two classes, such as the hinge loss."""
    if type(case.term) is WorstMargin:
        return compiled_loss(case)
    reason = worst_case_of_rows(case) or two_classes(case)
    if reason or np.all(case.others == 1.0):
        return reason
    return "costs differ from 1"


def adds_words(case: Case) -> str:
    """Require a loss of two classes and an oracle that adds features."""
    reason = averages_planes(case) or linear_in_x(case) or margins_of_two_classes(case)
    if not reason and (case.edits is None or not case.edits.adds):
        return f"{case.oracle} does not declare edits that add features"
    return reason


def hinge_of_rows(case: Case) -> str:
    """Require the hinge loss of rows of two classes; costs may be factors."""
    reason = averaged_rows(case) or two_classes(case)
    # D max(0, 1 - y f) is the two-class loss with D as a factor of the weight.
    if not reason and not case.term.bound_structure.slack and np.any(case.others != 1.0):
        return "costs differ from 1, and rescaling is 'margin'"
    return reason


def loss_of_labels(case: Case) -> str:
    """Require the joint loss of rows of several classes, and margin rescaling."""
    reason = averaged_rows(case)
    if not reason and type(case.term.bound_structure.structure) is not Multiclass:
        return "the structure is not several classes with one function each"
    return reason or ("rescaling is 'slack'" if case.term.bound_structure.slack else "")


def keeps_words(case: Case) -> str:
    """Require an oracle that perturbs no row."""
    return only_rescales(case) or ("nonzero features are edited" if case.edits.multiplies else "")


def one_edit_a_word(case: Case) -> str:
    """Require an oracle that rescales a word by one edit."""
    return rescales_words(case) or ("words have several units" if len(case.edits.units) else "")


def rescales_words(case: Case) -> str:
    """Require an oracle that multiplies features by factors, and no other edits."""
    return only_rescales(case) or ("" if case.edits.multiplies else "nonzero features are not edited")


def only_rescales(case: Case) -> str:
    """Require an oracle whose edits, if any, multiply features by factors."""
    known = case.edits is not None and not case.edits.adds
    return "" if known else f"{case.oracle} does not only multiply features by factors"


def all_members_known(case: Case) -> str:
    """Require complete lists of members in the space of a kernel."""
    if case.pool.mesh is None or np.any(case.pool.mesh != 0):
        return "the list of members of S(x) is not complete"
    if case.pool.size > MOST_MEMBERS:
        return f"S(x) lists more than {MOST_MEMBERS} members"
    return ""


def listed_members(case: Case) -> str:
    """Require an oracle with lists of members and their scores."""
    return "" if case.n_members else f"{case.oracle} has no list of members with scores"


def plain_rows(case: Case) -> str:
    """Require functions that are linear in x, and an oracle without perturbations."""
    reason = linear_in_x(case) or listed_members(case)
    return reason or ("S(x) has more than one member" if case.n_members > 1 else "")
