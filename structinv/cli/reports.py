"""Reports of training, evaluation and explanation, printed to the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..inspection import explain_edit
from ..inspection.explanation import Explanation
from ..model_selection.select_changes import ChangesSelection
from ..oracles import Identity
from ..report.subject import short_name
from ..utils.summaries import number_of
from .messages import escape, progress_of
from .model_file import SavedModel
from .parts import parts_of
from .phrases import phrase
from .row_files import Labels
from .writing import is_standard


def percent(fraction: float) -> str:
    """Format a fraction as a percentage with one digit."""
    return f"{100 * fraction:.1f}%"


def counted(counts: dict[str, Any]) -> str:
    """Format the numbers of sentences, texts, rows and features."""
    names = [name for name in ("sentences", "texts", "rows", "features") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in names)


def print_line(console: Console, text: str) -> None:
    """Print text in one line, even if the terminal is narrow."""
    console.print(text, highlight=False, soft_wrap=True)


def training_report(
    console: Console, training: dict[str, Any], output: Path, certified: str = ""
) -> None:
    """Print the result of training, the path of the model and a note."""
    console.print(
        f"{counted(training)},"
        f" {training['seconds']:.1f} s, relative gap {training['relative_gap']:.1e}:"
        f" {escape(training['status'])}",
        highlight=False,
    )
    place = "written to standard output" if is_standard(output) else f"saved to {escape(str(output))}"
    console.print(place, highlight=False)
    _print_note(console, certified)


def weights_report(console: Console, selection: ChangesSelection, folds: int) -> None:
    """Print the held-out accuracy for each C, the selected C and the rule."""
    certified = not isinstance(selection.oracle_, Identity)
    measures = ("clean", "certified") if certified else ("clean",)
    table = Table(title=f"Mean accuracy on {folds} held-out folds, with standard error")
    for name in ("C", *(column for each in measures for column in (each, "std. error")), ""):
        table.add_column(name, justify="right")
    for place, setting in enumerate(selection.table_["params"]):
        accuracies = [
            percent(selection.table_[name + more][place]) for name in measures for more in ("", "_error")
        ]
        chosen = "chosen" if place == selection.best_index_ else ""
        table.add_row(f"{setting['C']:g}", *accuracies, chosen)
    console.print(table)
    rule = (
        f"the highest certified accuracy for {escape(phrase(selection.oracle_))}, with a clean accuracy "
        "within one standard error of the best"
    )
    C = selection.best_params_["C"]
    console.print(
        f"C = {C:g} has {rule if certified else 'the highest accuracy'}",
        highlight=False,
        soft_wrap=True,
    )


def evaluation_report(console: Console, saved: SavedModel, X: Any, y: Labels) -> None:
    """Print clean, attacked and certified accuracy, per class and for all rows."""
    saved.check_labels(y)
    saved.note_identity()
    tally = _tally(saved, X, y)
    print_line(console, f"Accuracy for {escape(saved.perturbations)}")
    table = Table()
    table.add_column("class")
    for name in ("rows", "accuracy", "under attack", "certified"):
        table.add_column(name, justify="right")
    names = saved.label_names(tally.labels)
    groups = zip([*names, "all"], [*tally.counts, tally.counts.sum(axis=0)], strict=True)
    for place, (name, (n_rows, *counts)) in enumerate(groups, start=1):
        cells = (percent(float(count / n_rows)) for count in counts)
        table.add_row(escape(name), str(n_rows), *cells, end_section=place == len(names))
    console.print(table)
    sizes = tally.counts[:, 0]
    majority = names[int(np.argmax(sizes))]
    baseline = percent(float(sizes.max() / sizes.sum()))
    console.print(
        f"Always predicting {escape(majority)}, the largest class, has {baseline} accuracy.",
        highlight=False,
    )
    if tally.n_open:
        rows = number_of(tally.n_open, "row has", "rows have")
        console.print(f"{rows} a certificate that is not tight.", highlight=False)
    _print_note(console, saved.features.certified)


@dataclass(frozen=True)
class _Tally:
    """Counts per label: all rows, and the correct, attacked and certified ones.

    `n_open` is the number of rows with a worst-case margin that is only bounded.
    """

    labels: Labels
    counts: np.ndarray
    n_open: int


def _tally(saved: SavedModel, X: Any, y: Labels) -> _Tally:
    """Count rows, block by block."""
    labels, codes = np.unique(y, return_inverse=True)
    counts, n_open = np.zeros((len(labels), 4), dtype=int), 0
    with progress_of("evaluating", len(y)) as show:
        for rows, numbers in parts_of(X):
            labels_here = y[numbers]
            certificate = saved.classifier.certify(rows, labels_here)
            correct = saved.classifier.predict(rows) == labels_here
            marks = (np.ones(len(labels_here)), correct, certificate.attacked > 0, certificate.correct)
            for column, mark in enumerate(marks):
                counts[:, column] += np.bincount(codes[numbers][mark > 0], minlength=len(labels))
            n_open += int(np.sum(~certificate.exact))
            show(numbers.stop)
    return _Tally(labels, counts, n_open)


def explanation_report(console: Console, saved: SavedModel, X: Any, y: Labels | None, row: int) -> None:
    """Print the most damaging perturbation of one row, feature by feature.

    The score is that of the label y. For None or an unknown class it is that of the prediction.
    """
    title = "no label" if y is None else f"label {escape(saved.label_names(y)[0])}"
    if y is not None and y[0] not in saved.classifier.classes_:
        title += " (not a class of the model)"
        y = None
    edit = explain_edit(saved.classifier, X, y)
    predicted = saved.classifier.predict(X)
    (guess,) = saved.label_names(predicted)
    (label,) = saved.label_names(predicted if y is None else y)
    print_line(
        console,
        f"Row {row}: {title}, predicted {escape(guess)}; most damaging perturbation for"
        f" {escape(saved.perturbations)}",
    )
    table = Table()
    table.add_column("word or feature", overflow="fold")
    for name in ("before", "after", "change of margin", "margin"):
        table.add_column(name, justify="right")
    table.add_row("(no edit)", "", "", "", f"{edit.margin:.4f}")
    for column, before, after, move, margin in zip(
        edit.features, edit.before, edit.after, edit.changes, edit.margins, strict=True
    ):
        cells = (f"{before:.4g}", f"{after:.4g}", f"{move:+.4f}", f"{margin:.4f}")
        table.add_row(escape(short_name(saved.features.name(column))), *cells)
    console.print(table)
    print_line(
        console,
        f"The margin is that of the label {escape(label)}. If it is above 0, the model predicts "
        f"{escape(label)}.",
    )
    console.print(_verdict(edit), highlight=False)
    _print_note(console, saved.features.certified)


def _print_note(console: Console, certified: str) -> None:
    if certified:
        console.print(f"Note: {certified}.", highlight=False, soft_wrap=True)


def _verdict(edit: Explanation) -> str:
    if edit.margin <= 0:
        return "The prediction is wrong without any perturbation."
    if edit.edited_margin <= 0:
        return "This perturbation changes the prediction."
    if edit.certified:
        return "Certified: no allowed perturbation changes the prediction."
    return "This perturbation does not change the prediction. Another one may: the row is not certified."
