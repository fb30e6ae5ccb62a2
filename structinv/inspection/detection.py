"""Detection rates at false-positive rates: clean, attacked and certified."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..certificates.certificate import Certificate
from ..estimators.inputs import label_name
from ..estimators.text import without_warnings_of_unknown_texts
from ..oracles import FAdd, FDrop, FEdit, FScale, Identity, InvarianceOracle, TokenEdits
from ..oracles.combinators import OnlyFor
from ..utils.matrices import Matrix
from ..utils.summaries import Table, number_of, percent

# False-positive rates of reports, and None for the threshold of `predict`.
RATES = (None, 0.001, 0.01, 0.05)
# Relative tolerance for rounding errors of a rate times a number.
ROUNDING = 1e-12

# What edits do to words, by the kind of tokens edits or by the class of other oracles.
DONE: dict[Any, str] = {
    **{"drop": "deleted", "add": "inserted", "replace": "replaced", "edit": "deleted or inserted"},
    **{FDrop: "removed", FAdd: "added", FEdit: "edited", FScale: "rescaled"},
}


@dataclass(frozen=True)
class Detection:
    """Detection rates of one label of two, at the false-positive rates `RATES`.

    A sample is detected if its score for the label is above a threshold. The threshold is the smallest
    one that at most this fraction of the unperturbed samples of the other label exceeds.

    - `label`: label to detect
    - `reason`: why this label is the one to detect
    - `n_positives, n_negatives`: numbers of samples with this label, and with the other one
    - `thresholds` (n_rates,): threshold of each rate, relative to that of `predict`
    - `false_positives, clean` (n_rates,): fractions of detected unperturbed samples, of the other label
      and of this one
    - `attacked, certified` (n_rates,): fractions of samples of the label that are detected after the
      worst perturbation found, and after every perturbation, by the name of the perturbations
    """

    label: Any
    reason: str
    n_positives: int
    n_negatives: int
    thresholds: np.ndarray
    false_positives: np.ndarray
    clean: np.ndarray
    attacked: dict[str, np.ndarray]
    certified: dict[str, np.ndarray]

    def table(self) -> Table:
        """Return the rates as a table."""
        rows = []
        for name, attacked in self.attacked.items():
            for place, limit in enumerate(RATES):
                threshold = "of predict" if limit is None else f"for {_rate(limit)}"
                rates = self.false_positives, self.clean, attacked, self.certified[name]
                cells = [percent(each[place]) for each in rates]
                if not self._is_measurable(limit):
                    cells = ["not measurable", "-", "-", "-"]
                rows.append((name if place == 0 else "", threshold, *cells))
        columns = ["perturbations", "threshold", "false positives", "clean", "attacked", "certified"]
        return Table("", columns, rows, left=(0, 1))

    def notes(self, one: str, several: str) -> list[str]:
        """Return the meaning of the rates, for samples with these names."""
        label, own = label_name(self.label), number_of(self.n_positives, one, several)
        others = number_of(self.n_negatives, f"other {one}", f"other {several}")
        notes = [
            f"Detection rates of {label}, {self.reason}, in {own}. Each threshold has at most the given "
            f"rate of false positives among the {others} of these data, without perturbations. The "
            "perturbations of the model are the first ones."
        ]
        missing = [each for each in RATES if each is not None and not self._is_measurable(each)]
        if missing:
            needed = ceil((1.0 - ROUNDING) / min(missing))
            rates = " and ".join(map(_rate, missing))
            notes.append(
                f"{rates} false positives cannot be measured with {others}: {_rate(min(missing))} "
                f"requires at least {needed}."
            )
        return notes

    def _is_measurable(self, max_fpr: float | None) -> bool:
        return max_fpr is None or max_fpr * self.n_negatives * (1.0 + ROUNDING) >= 1.0


def check_max_fpr(max_fpr: Any) -> None:
    """Raise TypeError or ValueError unless a false-positive rate is in [0, 1)."""
    if not isinstance(max_fpr, Real) or isinstance(max_fpr, bool):
        raise TypeError(f"max_fpr must be a number in [0, 1), got {max_fpr!r}")
    if not 0 <= float(max_fpr) < 1:
        raise ValueError(f"max_fpr must be in [0, 1), got {max_fpr!r}")


def threshold_at(scores: np.ndarray, max_fpr: float) -> float:
    """Return the smallest threshold that at most `max_fpr` of the scores exceed.

    Equal scores never exceed the rate together.
    """
    falling = np.sort(scores)[::-1]
    return float(falling[int(np.floor(max_fpr * len(falling) * (1.0 + ROUNDING)))])


def detection_under_all_kinds(
    certificate_of: Callable[[InvarianceOracle], Certificate],
    oracle: InvarianceOracle,
    certificate: Certificate,
    y: np.ndarray,
    classes: np.ndarray,
    rows: Matrix,
) -> Detection | None:
    """Return the detection rates for the edits of a model, and for other kinds.

    None unless there are two classes, both with samples.

    Shapes: `y` (n_samples,), `rows` (n, n_features).
    """
    if len(classes) != 2 or len(np.unique(y)) != 2:
        return None
    label, reason = positive_label(oracle, classes)
    positive = y == label
    certificates = {_kind(oracle) or repr(oracle): certificate}
    with without_warnings_of_unknown_texts():
        unperturbed = certificate_of(without_edits(oracle))
        for each in other_kinds(oracle, label, rows):
            # Some features have no certificate for a kind of edits.
            with suppress(TypeError):
                certificates[_kind(each)] = certificate_of(each)
    # With rounding errors, so that no computed score of these samples is larger.
    bounds = -unperturbed.margins[~positive]
    thresholds = np.array([0.0 if each is None else threshold_at(bounds, each) for each in RATES])

    def above(scores: np.ndarray) -> np.ndarray:
        return np.array([np.mean(scores > each) for each in thresholds])

    return Detection(
        label,
        reason,
        n_positives=int(np.sum(positive)),
        n_negatives=int(np.sum(~positive)),
        thresholds=thresholds,
        false_positives=above(-unperturbed.attacked[~positive]),
        clean=above(unperturbed.attacked[positive]),
        attacked={name: above(each.attacked[positive]) for name, each in certificates.items()},
        certified={name: above(each.margins[positive]) for name, each in certificates.items()},
    )


def positive_label(oracle: InvarianceOracle, classes: np.ndarray) -> tuple[Any, str]:
    """Return the label to detect, and why.

    It is the only label that the oracle perturbs, otherwise the second class.
    """
    parts = [oracle, *oracle.get_params(deep=True).values()]
    listed = {label for each in parts if isinstance(each, OnlyFor) for label in each.listed().tolist()}
    known = [label for label in classes.tolist() if label in listed]
    if len(known) == 1:
        return known[0], "the only perturbed label"
    return classes.tolist()[1], "the second class"


def without_edits(oracle: InvarianceOracle) -> InvarianceOracle:
    """Return an oracle of the same kind without perturbations."""
    counted = oracle.counted()
    return Identity() if counted is None else counted.at_most(0)


def other_kinds(oracle: InvarianceOracle, label: Any, rows: Matrix) -> list[InvarianceOracle]:
    """Return the same number of edits of the other kinds, for samples with a label.

    The list is empty unless the oracle edits tokens, or words in rows of counts.
    """
    counted = oracle.counted()
    if counted is None:
        return []
    edits = _for_all(counted.at_most(counted.most))
    kinds: list[InvarianceOracle] = []
    if isinstance(edits, TokenEdits):
        drop = TokenEdits("drop", counted.most)
        inserting = (
            TokenEdits(edit, counted.most, edits.allowed) for edit in ("add", "replace", "edit")
        )
        kinds = [each for each in (drop, *inserting) if each.edit != edits.edit]
    elif type(edits) in (FDrop, FScale, FAdd, FEdit) and _are_counts(rows):
        most = min(counted.most, rows.shape[1])
        kinds = [
            each
            for each in (FDrop(most), FAdd(most), FEdit(most, add=1.0))
            if type(each) is not type(edits)
        ]
    return [each.only_for([label]) for each in kinds]


def _kind(oracle: InvarianceOracle) -> str:
    """Return a short name of edits of words or tokens, or an empty string."""
    kind, counted = _for_all(oracle), oracle.counted()
    done = DONE.get(kind.edit if isinstance(kind, TokenEdits) else type(kind))
    return "" if counted is None or done is None else f"up to {counted.most} {done}"


def _for_all(oracle: InvarianceOracle) -> InvarianceOracle:
    """Return an oracle without its restriction to labels."""
    return oracle.oracle if isinstance(oracle, OnlyFor) else oracle


def _are_counts(rows: Matrix) -> bool:
    """Return True if all values are integers >= 0."""
    values = rows.data if sp.issparse(rows) else np.asarray(rows)
    return bool(np.all((values >= 0) & (values == np.floor(values))))


def _rate(max_fpr: float) -> str:
    """Format a false-positive rate, such as "0.1 %"."""
    return f"{100 * max_fpr:.4g} %"
