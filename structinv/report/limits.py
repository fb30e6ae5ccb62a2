"""Section about limits: what the certificates of a report do not cover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..certificates.certificate import Certificate
from ..estimators.inputs import label_name
from ..oracles import Budget, TokenEdits
from ..oracles.combinators import OnlyFor
from ..solvers import Status
from ..utils.summaries import Table, number_of
from .content import Content
from .subject import Subject

# Perturbations that an oracle does not declare, by its class, or by the kind of edits of tokens.
_IMAGES = "Noise, occlusion, changes of brightness and all other transformations of an image."
_OTHERS = {
    "FDrop": "Features that are added or rescaled.",
    "FScale": "Features that are added, or rescaled beyond the two factors.",
    "FAdd": "Features that are removed or rescaled.",
    "Box": "Values that change by more than the radius.",
    "Ellipsoid": "Vectors outside the ellipsoid.",
    **dict.fromkeys(("Shifts", "Rotations", "Scalings", "Shears", "Flip"), _IMAGES),
    "drop": "Inserted, replaced and reordered tokens.",
    "add": "Deleted, replaced and reordered tokens.",
    "replace": "Inserted, deleted and reordered tokens.",
}
# A heading and sentences.
Item = tuple[str, str]


def limits(subject: Subject, certificate: Certificate, warnings: Sequence[str]) -> Content:
    """Return the section about limits."""
    items = [
        *_of_the_oracle(subject),
        *_of_the_bounds(subject, certificate),
        *_of_the_data(subject),
        *_of_the_training(subject),
    ]
    content = [Table("", (), items, left=(0, 1))]
    if warnings:
        rows = [(str(number), text) for number, text in enumerate(warnings, start=1)]
        content.append(Table("Warnings of the library during the evaluation", (), rows, left=(0, 1)))
    return content


def _of_the_oracle(subject: Subject) -> list[Item]:
    if not subject.perturbs:
        text = "The model has no oracle. Its certificates are for unperturbed data only."
        return [("All perturbations", text)]
    oracle = subject.oracle
    items = [("Other perturbations", f"The certificates hold for these only: {subject.oracle_name}.")]
    parts = [oracle, *oracle.get_params(deep=True).values()]
    kinds = [each.edit if isinstance(each, TokenEdits) else type(each).__name__ for each in parts]
    others = dict.fromkeys(_OTHERS[kind] for kind in kinds if kind in _OTHERS)
    items += [("Other edits", text) for text in others]
    # A budget limits the edits of all tokens together.
    each = oracle.oracle if isinstance(oracle, Budget) else oracle
    counted, edited = each.counted(), subject.edited if each is oracle else subject.unit[0]
    if counted is not None:
        items.append(("More edits", f"More than {number_of(counted.most, 'edit')} of one {edited}."))
    elif oracle.finite:
        items.append(
            ("Values in between", "The perturbations are a list. Other values are not covered.")
        )
    if isinstance(oracle, OnlyFor):
        names = ", ".join(map(label_name, oracle.listed()))
        items.append(("Other labels", f"Only samples with these labels are perturbed: {names}."))
    items.append(
        (
            "Changed labels",
            "The certificates assume that no declared perturbation changes the true label.",
        )
    )
    return [*items, _of_the_space(subject)]


def _of_the_space(subject: Subject) -> Item:
    if subject.certifies_input:
        return (
            "Raw files",
            "The certificates are for decoded texts, not for the bytes of a mail or a page.",
        )
    space = subject.space or "certificates apply to the input of the model"
    return "Raw data", (
        f"{space[:1].upper()}{space[1:]}. One edit of the raw data may change more features than the "
        "oracle allows."
    )


def _of_the_bounds(subject: Subject, certificate: Certificate) -> list[Item]:
    _, units = subject.unit
    is_open = ~certificate.exact
    if not np.any(is_open):
        text = f"None here: the worst-case margins of all these {units} are tight."
        return [("Loose bounds", text)]
    items = [
        (
            "Loose bounds",
            f"The bounds of {subject.how_many(is_open)} are not tight. Their true worst-case margins "
            "may be larger, so the certified accuracy is a lower bound.",
        ),
        (
            "Inexact search",
            f"The search may miss the worst perturbation of some of these {units}, so the attacked "
            "accuracy is an upper bound. The certificates hold in any case.",
        ),
    ]
    n_unbounded = int(np.count_nonzero(np.isneginf(certificate.margins)))
    if n_unbounded:
        number = subject.number_of(n_unbounded)
        verb = "has" if n_unbounded == 1 else "have"
        text = f"{number} {verb} no bound, or {verb} labels that the model does not allow."
        items.append(("No bound", text))
    return items


def _of_the_data(subject: Subject) -> list[Item]:
    one, units = (f"test {noun}" for noun in subject.unit)
    items = [
        (
            "New data",
            f"The accuracies are those of {number_of(subject.n_samples, one, units)}. They do not hold "
            "for data of another source or a later time. They are too high if test data were training "
            "data.",
        ),
        (
            "Poisoning",
            "An attacker who adds or changes training samples can change the model. The certificates "
            "hold for the model as given.",
        ),
    ]
    if any("SHA-256" in name for name in subject.facts):
        text = "The SHA-256 values identify the files of this report. They do not prove who made them."
        items.append(("Origin of the files", text))
    return items


def _of_the_training(subject: Subject) -> list[Item]:
    solution = getattr(subject.model, "solution_", None)
    if solution is None or solution.status is Status.CONVERGED:
        return []
    text = (
        f"Training ended with the status {solution.outcome} and a relative gap of "
        f"{solution.relative_gap:.2g}. The certificates hold for the model as given."
    )
    return [("Optimality", text)]
