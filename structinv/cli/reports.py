"""Reports of training, evaluation and explanation, printed to the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV

from ..certificates import Certificate
from ..estimators.target_labels import label_name
from ..inspection import explain_edit
from ..inspection.explanation import Explanation
from ..oracles import Identity, InvarianceOracle
from ..report.subject import short_name
from ..utils.summaries import number_of, percent
from .kinds import Data
from .messages import USUALLY, escape, working_on
from .model_file import SavedModel
from .phrases import phrase
from .row_files import Labels
from .thresholds import threshold_note
from .writing import is_standard


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
    if "max_fpr" in training:
        print_line(console, threshold_note(training))
    _print_note(console, certified)


def weights_report(
    console: Console, search: GridSearchCV, folds: int, oracle: InvarianceOracle, max_fpr: float | None
) -> None:
    """Print the held-out accuracy for each C, the selected C and the rule."""
    certified = not isinstance(oracle, Identity)
    measures = ("clean", "certified") if certified else ("clean",)
    what = "accuracy"
    if max_fpr is not None:
        what = f"detection at {100 * max_fpr:.4g} % false positives"
    table = Table(title=f"Mean {what} on {folds} held-out folds, with standard error")
    for name in ("C", *(column for each in measures for column in (each, "std. error")), ""):
        table.add_column(name, justify="right")
    results = search.cv_results_
    for place, setting in enumerate(results["params"]):
        accuracies = [
            percent(share)
            for name in measures
            for share in (
                results[f"mean_test_{name}"][place],
                results[f"std_test_{name}"][place] / np.sqrt(folds - 1),
            )
        ]
        mark = "chosen" if place == search.best_index_ else ""
        table.add_row(f"{setting['C']:g}", *accuracies, mark)
    console.print(table)
    rule = (
        f"the highest certified {what} for {escape(phrase(oracle))}, with a clean {what} "
        "within one standard error of the best"
    )
    C = search.best_params_["C"]
    console.print(
        f"C = {C:g} has {rule if certified else f'the highest {what}'}",
        highlight=False,
        soft_wrap=True,
    )


def evaluation_report(console: Console, saved: SavedModel, source: Data, X: Any, y: Labels) -> None:
    """Print accuracy per class and for all rows, and detection rates of two classes."""
    saved.check_labels(y)
    saved.note_identity()
    subject: Any = saved.subject(source, X, y)
    with working_on("evaluating", f"{subject.number_of(subject.n_samples)}; {USUALLY}"):
        own = subject.certificate(subject.oracle)
        detected = subject.detection(own)
    if "max_fpr" in saved.training:
        print_line(console, threshold_note(saved.training))
    print_line(console, f"Accuracy for {escape(saved.perturbations)}")
    _print_accuracies(console, subject, own)
    if not np.all(own.exact):
        rows = number_of(int(np.sum(~own.exact)), "row has", "rows have")
        console.print(f"{rows} a certificate that is not tight.", highlight=False)
    for line in subject.unknown_words():
        print_line(console, line)
    if detected is not None:
        console.print()
        for line in detected.notes(*subject.unit):
            print_line(console, escape(line))
        rates = detected.table()
        cells = [tuple(map(escape, row)) for row in rates.rows]
        console.print(_table(rates.columns, cells, left=2))
    _print_note(console, saved.features.certified)


def _print_accuracies(console: Console, subject: Any, own: Certificate) -> None:
    names, codes = np.unique(subject.labels, return_inverse=True)
    groups = {escape(label_name(name)): codes == code for code, name in enumerate(names.tolist())}
    marks = subject.correct, own.attacked > 0, own.correct
    rows = [
        (name, str(np.sum(group)), *(percent(np.mean(each[group])) for each in marks))
        for name, group in {**groups, "all": codes >= 0}.items()
    ]
    table = _table(["class", *subject.unit[1:], "accuracy", "under attack", "certified"], rows)
    table.rows[-2].end_section = True
    console.print(table)
    sizes = np.bincount(codes)
    console.print(
        f"Always predicting {list(groups)[np.argmax(sizes)]}, the largest class, has "
        f"{percent(sizes.max() / sizes.sum())} accuracy.",
        highlight=False,
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """Return a table; the first columns are aligned left."""
    table = Table()
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right", no_wrap=place < left)
    for row in rows:
        table.add_row(*row)
    return table


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
