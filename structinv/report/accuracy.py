"""Section about accuracy: clean, attacked and certified, by the number of edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from ..oracles import InvarianceOracle
from ..utils.html import Html
from ..utils.parameters import check_integer
from ..utils.summaries import Table, how_many, percent
from .pictures import COLORS, picture
from .section import Section, interval, share
from .subject import Subject


def check_numbers(oracle: InvarianceOracle, n_changes: Sequence[int] | None) -> list[int]:
    """Return the numbers of edits of a report.

    The number of the oracle is always among them. By default they are 0, and a quarter, half, once and
    twice the number of the oracle. The list is empty if edits cannot be counted. Numbers then raise
    ValueError.
    """
    if n_changes is not None and not isinstance(n_changes, (Sequence, np.ndarray)):
        raise TypeError(f"n_changes must be None or a sequence of integers, got {n_changes!r}")
    counted = oracle.counted()
    if counted is None:
        if n_changes is None:
            return []
        raise ValueError(
            "n_changes must be None if the edits of the oracle cannot be counted, got "
            f"{list(n_changes)} for {oracle!r}"
        )
    if n_changes is None:
        return sorted({0, counted.most // 4, counted.most // 2, counted.most, 2 * counted.most})
    for number in n_changes:
        check_integer("n_changes", number, least=0)
    return sorted({*n_changes, counted.most})


def levels(subject: Subject, numbers: Sequence[int]) -> tuple[Certificate, dict[int, Certificate]]:
    """Return the certificates for the oracle, and for each number of edits."""
    own, counted = subject.certificate(subject.oracle), subject.oracle.counted()
    found = {}
    for number in numbers:
        assert counted is not None
        # Grades change the costs in training, not the certificates.
        same = number == counted.most
        found[number] = own if same else subject.certificate(counted.at_most(number))
    return own, found


def accuracy(subject: Subject, own: Certificate, found: dict[int, Certificate]) -> Section:
    """Return the section about accuracy."""
    _, units = subject.unit
    content = [
        f"Clean accuracy is the accuracy on unperturbed {units}: {share(subject.correct)}. Accuracy "
        f"under attack counts {units} that are classified correctly after the worst perturbation found. "
        f"Certified accuracy counts {units} that are classified correctly after every declared "
        "perturbation. The accuracy under the worst perturbation is between these two.",
        f"Certified accuracy ({subject.oracle_name}): {share(own.correct)}, on "
        f"{subject.how_many(own.correct)}. Its 95 % interval (Wilson) is {interval(own.correct)}, for "
        f"new {units} of the same distribution.",
    ]
    if not found:
        rows = [(subject.oracle_name, *_measures(own))]
        if subject.perturbs:
            rows.insert(0, ("none", *_measures(subject.certificate(subject.unperturbed))))
        columns = ["perturbations", "under attack", "certified", "tight margins"]
        return Section("accuracy", "Accuracy", [*content, Table("", columns, rows)])
    rows = [(str(number), *_measures(each)) for number, each in found.items()]
    columns = [subject.edits_column, "under attack", "certified", "tight margins"]
    curve = _curve(found, subject.edits_column)
    return Section("accuracy", "Accuracy", [*content, curve, Table("", columns, rows)])


def _measures(certificate: Certificate) -> tuple[str, str, str]:
    return (
        percent(certificate.attacked_accuracy),
        percent(certificate.accuracy),
        how_many(certificate.exact),
    )


def _curve(found: dict[int, Certificate], x_label: str) -> Html:
    numbers = list(found)
    attacked = [each.attacked_accuracy for each in found.values()]
    certified = [each.accuracy for each in found.values()]

    def draw(figure: Any) -> None:
        axes, places = figure.subplots(), np.array(numbers, dtype=np.float64)
        axes.plot(places, certified, "o-", color=COLORS[0], label="certified")
        # Equal lines would hide each other.
        if not np.array_equal(attacked, certified):
            axes.plot(places, attacked, "s--", color=COLORS[1], label="under attack")
        axes.set(xlabel=x_label, ylabel="accuracy", ylim=(0.0, 1.03))
        axes.locator_params(axis="x", integer=True)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.legend()

    return picture(
        draw,
        f"Certified accuracy is {percent(certified[0])} for {numbers[0]} edits and "
        f"{percent(certified[-1])} for {numbers[-1]} edits.",
    )
