"""What dual states may count on: the term and the space that they are given, or why they are not."""

from __future__ import annotations

from typing import Any

from ..spaces import ExplicitSpace, KernelSpace, Space
from ..terms import Term, WorstCase, WorstMargin
from .base import Refusal


def worst_case_of_rows(term: Term) -> WorstCase:
    """The term as worst cases of single rows.

    Raises
    ------
    Refusal
        If it is of another kind, a class of its own that answers for itself, or has examples of several
        rows.
    """
    if not isinstance(term, WorstCase):
        raise Refusal("the term is no worst case of rows")
    _check_answers(term, WorstCase)
    if not term.labels.rowwise or term.labels.n_extra:
        raise Refusal("its examples have several rows, or parameters that no input multiplies")
    return term


def rows_by_themselves(term: WorstCase) -> None:
    """A Refusal if changes of rows of one example depend on one another, as `Shared` ones do."""
    if term.joint:
        raise Refusal("changes of an example's rows depend on one another")


def worst_case_of_examples(term: Term) -> WorstCase:
    """The term as worst cases of examples of any number of rows, with a function for each label.

    Raises
    ------
    Refusal
        If it is of another kind, a class of its own that answers for itself, labels share functions,
        costs are factors of the loss, rows have shares of several labels or change together.
    """
    if not isinstance(term, WorstCase):
        raise Refusal("the term is no worst case of rows")
    _check_answers(term, WorstCase)
    if not term.labels.functions.are_one_each:
        raise Refusal("labels have no function each")
    if term.labels.slack:
        raise Refusal("costs are factors of the loss, too")
    if term.relaxed:
        raise Refusal("rows have shares of several labels")
    rows_by_themselves(term)
    return term


def worst_margin_of_rows(term: Term) -> WorstMargin:
    """The term as losses of the least margin; a Refusal if it is none, or answers for itself."""
    if not isinstance(term, WorstMargin):
        raise Refusal("the term is no loss of the least margin")
    _check_answers(term, WorstMargin)
    return term


def _check_answers(term: Term, kind: type) -> None:
    """Refuse a term whose class has methods other than those of the class named."""
    if type(term) is not kind:
        raise Refusal(f"{type(term).__name__} answers for itself")


def no_list_of_planes(epsilon: float) -> None:
    """A Refusal unless epsilon is 0, for states that average planes instead of listing them."""
    if epsilon > 0:
        raise Refusal("averaged planes are no list, and epsilon speaks of a list")


def linear_in_x(space: Space) -> ExplicitSpace:
    """The space as one of functions that are linear in the input; a Refusal if it is none."""
    if "linear in x" not in space.capabilities:
        raise Refusal("the space is not linear in x")
    found: Any = space
    return found


def of_a_kernel(space: Space) -> KernelSpace:
    """The space as a kernel's, with all members of lists known; a Refusal if it is none."""
    if "kernel members" not in space.capabilities:
        raise Refusal("the space is not a kernel's")
    found: Any = space
    return found
