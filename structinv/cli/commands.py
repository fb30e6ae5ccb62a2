"""Commands of the command line; see module `options` for their options."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from sklearn.utils.validation import _num_samples

from .. import __version__
from ..certificates.certificate import described
from ..estimators.inputs import label_name, some_rows
from ..inspection import explain_edit
from ..oracles.combinators import OnlyFor
from ..oracles.images.image_maps import ImageShape
from ..persistence.model_files import model_bytes
from ..report.writing import TITLE, page
from . import options as given
from .data import convert_file, read, with_tokens
from .demo import run_demo
from .models import data_facts, load_model
from .output import (
    check_output,
    is_standard,
    one_line_errors,
    print_line,
    print_text,
    quiet_console,
    say,
    status,
    training_shown,
    write,
)
from .predictions import evaluation, predictions, write_labels
from .training import (
    Threshold,
    build,
    labels_that_change,
    limit_of_memory,
    threshold_note,
    train,
    why_not_saved,
)
from .warming import Family, warm_up

app = typer.Typer(
    help="Train robust classifiers and certify their predictions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"structinv {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, metavar="", help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Train robust classifiers and certify their predictions."""


@app.command()
@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the picture.")] = Path("structinv-demo"),
) -> None:
    """Compare plain and robust models on generated mail and on digits."""
    run_demo(out, Console())


@app.command()
@one_line_errors
def warm(
    family: Annotated[
        Family,
        typer.Argument(
            help="Kind of data: words (counts in rows), images, sequences, texts, or all of them.",
            show_default=True,
        ),
    ] = Family.ALL,
) -> None:
    """Compile the functions for common fits, predictions and certificates in advance.

    Later processes load the functions from the cache on disk. Set
    NUMBA_CACHE_DIR to choose its folder.
    """
    warm_up(family, Console())


@app.command()
@one_line_errors
def fit(
    data: given.Data,
    *,
    format: given.DataFormat = None,
    label_key: given.LabelKey = None,
    zero_based: given.ZeroBased = None,
    oracle: given.OracleName = None,
    max_changes: given.MaxChanges = None,
    changing: given.OnlyFor = None,
    C: given.C = None,
    max_fpr: given.MaxFPR = None,
    solver: given.SolverName = None,
    tol: given.Tol = None,
    max_seconds: given.MaxSeconds = None,
    memory_limit: given.MemoryLimit = None,
    seed: given.Seed = 0,
    output: given.ModelOutput,
) -> None:
    """Train a classifier on DATA and save it.

    Texts give an InvariantTextClassifier, rows an InvariantLinearSVC, and
    sentences an InvariantStructuredSVC. A fit that ends before it reaches
    --tol, such as at --max-seconds, saves its model with a warning that has
    the gap. After Ctrl-C, the exit code is 130 and an existing file stays
    unchanged.
    """
    check_output(output, data)
    key = label_key or "label"
    with status("reading"):
        samples = read(data, format, key, int(not zero_based))
        if samples.kind == "sentences":
            samples = with_tokens(samples, None, None)
    given.check_fitting(
        samples, label_key=label_key, zero_based=zero_based, memory_limit=memory_limit, max_fpr=max_fpr
    )
    X, y = samples.X, samples.labels
    flat = np.array(list(chain.from_iterable(y)) if samples.kind == "sentences" else y)
    limits = {"tol": tol, "max_seconds": max_seconds, "memory_limit": limit_of_memory(memory_limit)}
    only = labels_that_change(changing, flat)
    model = build(
        samples.kind, oracle, max_changes, only, C=C, solver=solver, random_state=seed, **limits
    )
    held = None
    if max_fpr is not None:
        held = Threshold(model, X, y, max_fpr, seed)
        X, y = held.training
    with training_shown():
        training, interrupted = train(model, X, y)
    reason = why_not_saved(training, model.tol, interrupted)
    if reason is not None:
        say(f"not saved: {reason} {output} is unchanged")
        raise typer.Exit(130 if interrupted else 1)
    if held is not None:
        model = held.moved(model)
        training |= held.notes(model)
        if samples.kind == "texts" and model.predict([""])[0] == held.label:
            name = label_name(held.label)
            say(f"warning: at this threshold, texts without any known word are predicted {name}")
    seconds = training.pop("seconds")
    notes = {**samples.notes, "label_key": key, "training": training}
    write(output, model_bytes(model, notes=notes)[0])
    console = quiet_console(error=is_standard(output))
    gap = f"{seconds:.1f} s, relative gap {training['relative_gap']:.1e}: {training['status']}"
    print_line(console, f"{_num_samples(X)} {samples.kind}, {gap}")
    for line in threshold_note(training):
        print_line(console, line)
    if not is_standard(output):
        print_line(console, f"saved to {output}")
    if interrupted:
        raise typer.Exit(130)


@app.command()
@one_line_errors
def evaluate(
    model: given.Model,
    data: given.Data,
    label_key: given.LabelKey = None,
    zero_based: given.ZeroBased = None,
    ignore_new_features: given.IgnoreNew = False,
) -> None:
    """Print clean, attacked and certified accuracy on DATA, overall and per class.

    Clean accuracy is the accuracy on unperturbed samples. If attacked and
    certified accuracies are equal, print one column. For rows and texts, print
    also how many features have an effect. For sentences, print also precision,
    recall and F1 of spans (labels B-... and I-...).
    """
    saved = load_model(model)
    with status("evaluating"):
        samples = saved.samples(data, label_key, zero_based, ignore_new_features)
        subject = saved.subject(samples)
        lines = evaluation(subject)
    if not subject.perturbs:
        say("MODEL has no perturbations: certificates are for unchanged DATA")
    console = Console()
    for text in lines:
        print_text(console, text)
    for line in threshold_note(saved.notes.get("training", {})):
        print_line(console, line)


@app.command()
@one_line_errors
def predict(
    model: given.Model,
    data: given.Data,
    output: given.LabelOutput = Path("-"),
    scores: given.Scores = False,
    certify: given.Certify = False,
    label_key: given.LabelKey = None,
    zero_based: given.ZeroBased = None,
    ignore_new_features: given.IgnoreNew = False,
) -> None:
    """Predict the label of each row or text of DATA, one per line.

    DATA needs no labels. For sentences, the output has all columns of DATA and
    an additional column with the predicted label.
    """
    check_output(output, data, model)
    saved = load_model(model)
    if certify:
        saved.check_declares()
    samples = saved.samples(data, label_key, zero_based, ignore_new_features)
    given.check_fitting(samples, scores=scores or None)
    write_labels(output, predictions(saved, samples, scores, certify))
    if certify:
        oracle = saved.oracle
        all_of_it = "; DATA is read without labels, so all of it counts as perturbed"
        say(f"certified for {described(oracle)}{all_of_it if isinstance(oracle, OnlyFor) else ''}")


@app.command()
@one_line_errors
def explain(
    model: given.Model,
    data: given.Data,
    row: given.Row,
    label_key: given.LabelKey = None,
    zero_based: given.ZeroBased = None,
    ignore_new_features: given.IgnoreNew = False,
) -> None:
    """Print the most damaging edits of one sample and their effects on its margin.

    The margin is that of the label in DATA. If there is no label, it is that
    of the predicted label.
    """
    saved = load_model(model)
    saved.check_declares()
    samples = saved.samples(data, label_key, zero_based, ignore_new_features)
    n_rows = _num_samples(samples.X)
    if not 0 <= row < n_rows:
        raise ValueError(f"--row must be between 0 and {n_rows - 1} for {data}, got {row}")
    X = some_rows(samples.X, np.array([row]))
    guess = saved.model.predict(X)[0]
    label = guess if samples.y is None else saved.labels(samples)[row]
    found = explain_edit(saved.model, X, [label], feature_names=saved.feature_names(samples))
    state = f"label {label_name(label)}" if samples.y is not None else "no label"
    console = Console()
    print_line(console, f"Row {row}: {state}, predicted {label_name(guess)}; {described(saved.oracle)}")
    print_text(console, str(found))


@app.command()
@one_line_errors
def report(
    model: given.Model,
    data: given.Data,
    *,
    output: given.ReportOutput,
    title: given.Title = TITLE,
    rows: given.Examples = 10,
    sizes: given.Sizes = None,
    shape: given.Shape = None,
    label_key: given.LabelKey = None,
    zero_based: given.ZeroBased = None,
    ignore_new_features: given.IgnoreNew = False,
) -> None:
    """Write a report on MODEL and DATA for reviewers, as one HTML file.

    The report has the hashes of both files, clean and certified accuracy,
    rates per class, decisive features, worst perturbations, and what is not
    certified. It needs no scripts and no network.
    """
    check_output(output, data, model)
    numbers = _integers("--sizes", sizes, ",")
    sides = _integers("--shape", shape, "x")
    saved = load_model(model)
    with status("evaluating"):
        samples = saved.samples(data, label_key, zero_based, ignore_new_features)
        image = None if sides is None else ImageShape(*sides)
        subject = saved.subject(samples, image, **data_facts(data, samples))
        content = page(subject, n_changes=numbers, n_examples=rows, title=title)
    write(output, content)
    if not is_standard(output):
        say(f"report written to {output}")


@app.command()
@one_line_errors
def convert(
    source: given.Source,
    folder: given.Folder,
    dtype: given.StoredType = given.DataType.FLOAT64,
    n_features: given.NFeatures = None,
    zero_based: given.FirstFeature = False,
) -> None:
    """Write the SVMlight rows of SOURCE to a folder.

    A fit reads the folder in blocks, with limited memory. The memory of this
    command does not depend on the size of SOURCE. In Python,
    structinv.rows.RowFolder reads the folder, and RowWriter writes rows of
    other files.
    """
    with status("converting"):
        rows = convert_file(source, folder, dtype.value, n_features, int(not zero_based))
    n_rows, n_columns = rows.shape
    counts = f"{n_rows} rows, {n_columns} features, {rows.n_entries} entries, {rows.n_bytes} bytes"
    print_line(Console(), f"{counts}: written to {folder}")


def _integers(option: str, text: str | None, separator: str) -> list[int] | None:
    """Parse an option such as ``0,1,2`` or ``28x28``."""
    if text is None:
        return None
    parts = [part.strip() for part in text.lower().split(separator)]
    if not all(part.isdecimal() for part in parts) or (separator == "x" and len(parts) not in (2, 3)):
        example = "28x28" if separator == "x" else "0,1,2"
        raise ValueError(f"{option} must be integers >= 0, such as {example}, got {text!r}")
    return [int(part) for part in parts]
