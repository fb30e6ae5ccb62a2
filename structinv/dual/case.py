"""A term in a space, and the requirements that dual states have of both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ..losses import Hinge, ScalarLoss
from ..oracles.base import Hull, LabelHull
from ..oracles.listing import listed
from ..spaces import Space
from ..spaces.atoms import MemberPool
from ..structures import Binary, Multiclass, Sequence
from ..structures.regression import BoundRegression
from ..terms import Penalty, Term, WorstCase
from ..terms.blockwise_term import BlockwiseTerm
from ..terms.worst_margin import WorstMargin
from .margin_steps import KINDS

# A kernel's space has too large a table of inner products for more members of a row than these.
MOST_MEMBERS = 2048
# Rows with more edits than these have planes instead of labelings.
MOST_EDITS = 8


class Case:
    """A term in a space. The oracle is asked at most once for each of its answers.

    Parameters
    ----------
    term : Term
    space : Space
    plane_tol : float, default=0.0
        A plane that rises at most this above those of its block is not taken up.
    choose : callable, optional
        From a case to the class of its dual state, for states that are made of others.

    Attributes
    ----------
    signs : (n_rows,) array of -1 and 1
        Of the rows' labels, where there are two classes.
    others : (n_rows,) array
        Cost of the wrong label of each row, where there are two classes.
    hull, label_hull : Hull, LabelHull or None
        In-hull steps of the oracle.
    edits : RowEdits or None
        Edits of words, if these are all that may change the rows.
    insertions : Insertions or None
        Edits that bring words in, if these are all that may change the rows.
    pool : Pool
        The members of the oracle in a kernel's space.
    n_members : int
        Number of members of a row that weights can score; 0 if the oracle lists none.
    loss : ScalarLoss
        Loss of the least margin of each row.
    """

    def __init__(
        self,
        term: Term,
        space: Space,
        plane_tol: float = 0.0,
        choose: Callable[[Case], Any] | None = None,
    ) -> None:
        self.term: Any = term
        self.space: Any = space
        self.plane_tol = plane_tol
        self.choose = choose

    @cached_property
    def signs(self) -> np.ndarray:
        """Sign of the label of each row."""
        return np.where(self.term.labels.codes == 1, 1.0, -1.0)

    @cached_property
    def others(self) -> np.ndarray:
        """Cost of the wrong label of each row."""
        labels = self.term.labels
        costs: np.ndarray = labels.competitors().cost_of(1 - labels.codes)
        return costs

    @cached_property
    def hull(self) -> Hull | None:
        """In-hull steps of two classes."""
        found: Hull | None = self.term.bound.hull(
            self.signs, self.term.weights * self.others, self.space.intercept
        )
        return found

    @cached_property
    def label_hull(self) -> LabelHull | None:
        """In-hull steps of several labels."""
        term = self.term
        found: LabelHull | None = term.bound.label_hull(
            term.labels.codes, term.weights, term.labels.cost, self.space.intercept
        )
        return found

    @cached_property
    def edits(self) -> Any:
        """The edits of words that may change the rows."""
        return self.term.bound.edits()

    @cached_property
    def insertions(self) -> Any:
        """The edits that bring words into the rows."""
        return self.term.bound.insertions()

    @cached_property
    def pool(self) -> MemberPool:
        """Members of the oracle in a kernel's space."""
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
        """Loss of the least margin; the hinge loss of worst cases."""
        return self.term.loss if type(self.term) is WorstMargin else Hinge()

    @property
    def oracle(self) -> str:
        """Name of the oracle's class."""
        return type(self.term.oracle).__name__


# Why a case does not meet a requirement; empty if it does. Requirements are read in order, so that each
# may count on those before it.
Requirement: TypeAlias = Callable[[Case], str]


def _of_class(term: Term, kind: type, otherwise: str) -> str:
    """Whether a term is of exactly this class: a subclass may answer otherwise."""
    if not isinstance(term, kind):
        return otherwise
    return "" if type(term) is kind else f"{type(term).__name__} answers for itself"


def rows_in_blocks(case: Case) -> str:
    """Rows that are read in blocks."""
    return "" if isinstance(case.term, BlockwiseTerm) else "rows are not read in blocks"


def averages_planes(case: Case) -> str:
    """No tolerance for planes, since the state averages planes instead of listing them."""
    return "averaged planes are no list, and plane_tol speaks of a list" if case.plane_tol > 0 else ""


def one_number_a_row(case: Case) -> str:
    """No tolerance for planes, since the state keeps one number a row."""
    return "one number a row is no list, and plane_tol speaks of a list" if case.plane_tol > 0 else ""


def linear_in_x(case: Case) -> str:
    """Functions that are linear in the input."""
    return "" if "linear in x" in case.space.capabilities else "the space is not linear in x"


def of_a_kernel(case: Case) -> str:
    """A kernel's space."""
    return "" if "kernel members" in case.space.capabilities else "the space is not a kernel's"


def worst_case_of_rows(case: Case) -> str:
    """Worst cases of single rows."""
    reason = _of_class(case.term, WorstCase, "the term is no worst case of rows")
    if not reason and (not case.term.labels.structure.rowwise or case.term.labels.n_pairwise):
        reason = "its examples have several rows, or parameters that no input multiplies"
    return reason


def worst_case_of_examples(case: Case) -> str:
    """Worst cases of examples whose rows change by themselves, with a function for each label."""
    term = case.term
    reason = _of_class(term, WorstCase, "the term is no worst case of rows")
    if reason:
        return reason
    if not term.labels.functions.are_one_each:
        return "labels have no function each"
    if term.labels.slack:
        return "costs are factors of the loss, too"
    if term.relaxed:
        return "rows have shares of several labels"
    return "changes of an example's rows depend on one another" if term.joint else ""


def penalty(case: Case) -> str:
    """A penalty on functionals."""
    return "" if isinstance(case.term, Penalty) else "the term is no penalty on functionals"


def worst_margin(case: Case) -> str:
    """A loss of the least margin that the compiled steps know."""
    reason = _of_class(case.term, WorstMargin, "the term is no loss of the least margin")
    return reason or compiled_loss(case)


def compiled_loss(case: Case) -> str:
    """A loss that the compiled steps know."""
    return "" if type(case.loss) in KINDS else f"{type(case.loss).__name__} has no compiled steps"


def smooth_loss(case: Case) -> str:
    """A loss without kinks."""
    return "" if case.loss.smooth else f"{type(case.loss).__name__} has a kink"


def hinge(case: Case) -> str:
    """The hinge loss."""
    name = type(case.loss).__name__
    known = isinstance(case.loss, Hinge)
    return "" if known else f"{name} has no compiled steps over several words of a row"


def two_classes(case: Case) -> str:
    """Two classes with one function."""
    known = type(case.term.labels.structure) is Binary
    return "" if known else "the structure is not two classes with one function"


def several_classes(case: Case) -> str:
    """Several classes with a function each, whose costs are margins."""
    if type(case.term.labels.structure) is not Multiclass:
        return "the structure is not several classes with a function each"
    return "costs are factors of the loss, too" if case.term.labels.slack else ""


def sequences(case: Case) -> str:
    """Sequences of labels."""
    known = type(case.term.labels.structure) is Sequence
    return "" if known else "the structure is not a sequence of labels"


def regression(case: Case) -> str:
    """A regression."""
    return "" if isinstance(case.term.labels, BoundRegression) else "the structure is no regression"


def costs_of_one_or_factors(case: Case) -> str:
    """Costs of 1, or costs that are factors of the loss."""
    # D max(0, 1 - y f) is the plain two-class loss with D as a factor of the weight.
    if case.term.labels.slack or np.all(case.others == 1.0):
        return ""
    return "labels cost something other than 1, and the margin asked for is that cost"


def margins_of_two_classes(case: Case) -> str:
    """Losses of the margin of two classes, the hinge loss among them."""
    if type(case.term) is WorstMargin:
        return compiled_loss(case)
    reason = worst_case_of_rows(case) or two_classes(case)
    if reason or np.all(case.others == 1.0):
        return reason
    return "labels cost something other than 1"


def in_hull_steps(case: Case) -> str:
    """An oracle with in-hull steps of two classes."""
    return f"{case.oracle} has no in-hull steps on these rows" if case.hull is None else ""


def in_hull_steps_of_labels(case: Case) -> str:
    """An oracle with in-hull steps of several labels."""
    return f"{case.oracle} has no in-hull steps of several labels" if case.label_hull is None else ""


def adds_words(case: Case) -> str:
    """An oracle that adds words."""
    if case.edits is None or not case.edits.adds:
        return f"{case.oracle} does not say that rows change by added words"
    return ""


def keeps_words(case: Case) -> str:
    """Words that are in the rows do not change."""
    return "words that are in the rows change, too" if case.edits.multiplies else ""


def multiplies_words(case: Case) -> str:
    """Words that are in the rows change, too."""
    return "" if case.edits.multiplies else "words that are in the rows do not change"


def brings_words_in(case: Case) -> str:
    """Edits that bring words in."""
    known = case.insertions is not None
    return "" if known else f"{case.oracle} does not say that edits bring words in"


def all_members_known(case: Case) -> str:
    """Lists of members that the space knows."""
    if case.pool.mesh is None or np.any(case.pool.mesh != 0):
        return "members of S(x) are more than the points that the space knows"
    if case.pool.size > MOST_MEMBERS:
        return f"S(x) lists more than {MOST_MEMBERS} members"
    return ""


def listed_members(case: Case) -> str:
    """An oracle that lists members which weights can score."""
    return "" if case.n_members else f"{case.oracle} lists no members that weights can score"


def single_members(case: Case) -> str:
    """An oracle that changes nothing."""
    return "rows have more than one member" if case.n_members > 1 else ""


def no_edits(case: Case) -> str:
    """An oracle that changes nothing."""
    edits = case.edits
    still = edits is not None and not edits.adds and edits.most == 0
    return "" if still else f"{case.oracle} may change rows"


def few_edits(case: Case) -> str:
    """Rows that change by few edits of their words."""
    edits = case.edits
    if edits is None or edits.adds or not np.all(edits.changed):
        return f"{case.oracle} changes rows by more than factors of their words"
    if edits.most > MOST_EDITS:
        return f"more than {MOST_EDITS} words of a row may change"
    if edits.most and case.space.intercept:
        return "the constant beside the words does not change"
    return ""
