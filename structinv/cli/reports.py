"""Tables for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..inspection import explain_edit
from ..inspection.explanation import Explanation
from ..model_selection.select_changes import ChangesSelection
from ..oracles import Identity
from .messages import progress_of
from .model_file import SavedModel
from .parts import parts_of
from .row_files import Labels


def percent(share: float) -> str:
    """A share as tables show it."""
    return f"{100 * share:.1f}%"


def counted(counts: dict[str, Any]) -> str:
    """How much was trained on: sentences or texts, if there are any, rows and features."""
    names = [name for name in ("sentences", "texts", "rows", "features") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in names)


def training_report(
    console: Console, training: dict[str, Any], output: Path, certified: str = ""
) -> None:
    """How training ended, where the model went, and what `certified` says of its certificates."""
    console.print(
        f"{counted(training)},"
        f" {training['seconds']:.1f} s, relative gap {training['relative_gap']:.1e}:"
        f" {escape(training['status'])}",
        highlight=False,
    )
    console.print(f"saved to {escape(str(output))}", highlight=False)
    _say_what_is_certified(console, certified)


def weights_report(console: Console, found: ChangesSelection, folds: int) -> None:
    """Held-out accuracy for each C, which was chosen, and by what."""
    certified = not isinstance(found.oracle_, Identity)
    measures = ("clean", "certified") if certified else ("clean",)
    table = Table(title=f"Accuracy on {folds} held-out folds, with its standard error")
    for name in ("C", *(column for each in measures for column in (each, "error")), ""):
        table.add_column(name, justify="right")
    for place, setting in enumerate(found.table_["params"]):
        shares = [
            percent(found.table_[name + more][place]) for name in measures for more in ("", "_error")
        ]
        table.add_row(f"{setting['C']:g}", *shares, "chosen" if place == found.best_index_ else "")
    console.print(table)
    rule = (
        f"the highest certified accuracy, against {escape(str(found.oracle_))}, among clean accuracies "
        "within one standard error of the best"
    )
    chosen = f"{found.best_params_['C']:g}"
    console.print(
        f"C = {chosen} has {rule if certified else 'the highest accuracy'}",
        highlight=False,
        soft_wrap=True,
    )


def evaluation_report(console: Console, saved: SavedModel, X: Any, y: Labels) -> None:
    """Accuracy, under attack and certified, of all rows and per class."""
    saved.check_labels(y)
    found = _tally(saved, X, y)
    table = Table(title=f"Edits allowed: {escape(saved.oracle_name())}")
    table.add_column("class")
    for name in ("rows", "accuracy", "under attack", "certified"):
        table.add_column(name, justify="right")
    names = saved.label_names(found.labels)
    groups = zip([*names, "all"], [*found.counts, found.counts.sum(axis=0)], strict=True)
    for place, (name, (n_rows, *counts)) in enumerate(groups, start=1):
        cells = (percent(float(count / n_rows)) for count in counts)
        table.add_row(escape(name), str(n_rows), *cells, end_section=place == len(names))
    console.print(table)
    sizes = found.counts[:, 0]
    majority = names[int(np.argmax(sizes))]
    share = percent(float(sizes.max() / sizes.sum()))
    console.print(
        f"Always answering {escape(majority)}, the largest class, would be right for {share}.",
        highlight=False,
    )
    if found.n_open:
        console.print(f"{found.n_open} rows lie between certified and under attack.", highlight=False)
    _say_what_is_certified(console, saved.features.certified)


@dataclass(frozen=True)
class _Tally:
    """Of each label its rows: all, those that are right, those that hold under attack, the certified.

    `n_open` is the number of rows whose margin under changes is not known exactly.
    """

    labels: Labels
    counts: np.ndarray
    n_open: int


def _tally(saved: SavedModel, X: Any, y: Labels) -> _Tally:
    """Count rows, a block at a time where they are read in blocks."""
    labels, codes = np.unique(y, return_inverse=True)
    counts, n_open = np.zeros((len(labels), 4), dtype=int), 0
    with progress_of("evaluating", len(y)) as show:
        for rows, numbers in parts_of(X):
            own = y[numbers]
            certificate = saved.classifier.certify(rows, own)
            right = saved.classifier.predict(rows) == own
            marks = (np.ones(len(own)), right, certificate.attacked > 0, certificate.correct)
            for column, mark in enumerate(marks):
                counts[:, column] += np.bincount(codes[numbers][mark > 0], minlength=len(labels))
            n_open += int(np.sum(~certificate.exact))
            show(numbers.stop)
    return _Tally(labels, counts, n_open)


def explanation_report(console: Console, saved: SavedModel, X: Any, y: Labels | None, row: int) -> None:
    """The worst edit of one row, word by word, from the most harmful on.

    Without y, and with one that is no class of the model, it is that of the prediction.
    """
    title = "no label" if y is None else f"label {escape(saved.label_names(y)[0])}"
    if y is not None and y[0] not in saved.classifier.classes_:
        title += " (no class of the model)"
        y = None
    edit = explain_edit(saved.classifier, X, y)
    predicted = saved.classifier.predict(X)
    (guess,) = saved.label_names(predicted)
    (label,) = saved.label_names(predicted if y is None else y)
    table = Table(
        title=f"Row {row}: {title}, predicted {escape(guess)}; worst edit within"
        f" {escape(saved.oracle_name())}",
        caption=f"The score is the margin of the label {escape(label)}: above 0 it is predicted.",
    )
    table.add_column("word or feature", overflow="fold")
    for name in ("before", "after", "moves score", "score"):
        table.add_column(name, justify="right")
    table.add_row("(no edit)", "", "", "", f"{edit.margin:.4f}")
    for column, before, after, move, margin in zip(
        edit.features, edit.before, edit.after, edit.moves, edit.margins, strict=True
    ):
        cells = (f"{before:.4g}", f"{after:.4g}", f"{move:+.4f}", f"{margin:.4f}")
        table.add_row(escape(saved.features.name(column)), *cells)
    console.print(table)
    console.print(_verdict(edit), highlight=False)
    _say_what_is_certified(console, saved.features.certified)


def _say_what_is_certified(console: Console, certified: str) -> None:
    if certified:
        console.print(f"Note: {certified}.", highlight=False, soft_wrap=True)


def _verdict(edit: Explanation) -> str:
    if edit.margin <= 0:
        return "The prediction is wrong without any edit."
    if edit.edited_margin <= 0:
        return "This edit turns the prediction."
    if edit.certified:
        return "No allowed edit turns the prediction: certified."
    return "This edit does not turn the prediction; whether another does is not certified."
