"""Commands of the command line; see module `options` for their options."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from sklearn.utils.validation import _num_samples

from .. import __version__
from ..estimators.row_sources import some_rows
from ..estimators.target_labels import label_name
from ..report.writing import TITLE
from ..solvers import Status
from . import options as given
from .checks import check_explains, check_rows, check_solver
from .conversion import Conversion
from .converting import convert_file
from .demo import run_demo
from .features import ReadOptions
from .kinds import READING_OPTIONS, data_at, labeled, learned, training_file, unlabeled
from .messages import (
    begin,
    escape,
    one_line_errors,
    quiet_console,
    reading_of,
    say,
    training_time,
    working_on,
)
from .model_file import SavedModel, load_model
from .model_report import ReportOptions, edit_numbers, model_report
from .predictions import PredictOptions, write_labels
from .reports import counted, explanation_report, training_report
from .tasks import task_of
from .thresholds import hold_out
from .training import (
    build_classifier,
    choose_weight,
    class_weights,
    counts_tokens,
    dense_for,
    factor_pair,
    image_shape,
    labels_that_change,
    limit_of_memory,
    numbers,
    only_for,
    train,
    weight_of_losses,
)
from .warming import Family, warm_up
from .writing import check_output, is_standard, write

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
    begin("compiling functions", "usually 2 to 8 minutes")
    warm_up(family, Console())


@app.command()
@one_line_errors
def fit(
    context: typer.Context,
    data: given.Data,
    *,
    format: given.DataFormat = None,
    vectorizer: given.Words = given.Vectorizer.COUNT,
    unit_length: given.UnitLength = False,
    text_key: given.TextKey = "text",
    label_key: given.LabelKey = "label",
    zero_based: given.ZeroBased = None,
    oracle: given.OracleName = None,
    max_changes: given.MaxChanges = None,
    low: given.Low = None,
    high: given.High = None,
    value: given.Value = None,
    present: given.Present = None,
    add: given.Add = None,
    drop: given.Drop = None,
    scale: given.Scale = None,
    changing: given.OnlyFor = None,
    radius: given.Radius = None,
    pixels: given.Pixels = None,
    degrees: given.Degrees = None,
    factors: given.Factors = None,
    shape: given.Shape = None,
    C: given.C = "1.0",
    max_fpr: given.MaxFPR = None,
    class_weight: given.ClassWeight = None,
    kernel: given.Kernel = None,
    gamma: given.Gamma = None,
    degree: given.Degree = None,
    intercept: given.Intercept = True,
    solver: given.SolverName = "auto",
    tol: given.Tol = 1e-3,
    max_seconds: given.MaxSeconds = None,
    memory_limit: given.MemoryLimit = None,
    seed: given.Seed = 0,
    output: given.ModelOutput,
) -> None:
    """Train a classifier on DATA and save it.

    A fit that ends before it reaches --tol, such as at --max-seconds, saves
    its model with a warning that has the gap. After Ctrl-C, the exit code is
    130 and an existing file stays unchanged.
    """
    check_output(output, data)
    check_solver(solver)
    if max_fpr is not None and not 0 < max_fpr < 1:
        raise ValueError(f"--max-fpr must be above 0 and below 1, such as 0.01, got {max_fpr}")
    tokens = counts_tokens(oracle, vectorizer.value, unit_length, kernel is not None)
    keys = text_key, label_key
    source, learner = training_file(data, None if format is None else format.value, keys, tokens)
    task = task_of(learner)
    _refuse_unused(context, data, learner, kernel is not None)
    memory = limit_of_memory(memory_limit)
    settings: dict[str, Any] = {"max_changes": max_changes, "low": low, "high": high, "radius": radius}
    settings |= {"value": value, "present": present, "add": add, "drop": drop}
    settings |= {"scale": factor_pair(scale)}
    settings |= {"pixels": numbers("--pixels", pixels), "degrees": numbers("--degrees", degrees)}
    settings |= {"factors": numbers("--factors", factors), "shape": image_shape(shape)}
    weight = weight_of_losses(C)
    if weight is None and not task.chooses_weight:
        raise ValueError("--C must be a number above 0 for sentences, got auto")
    classifier = build_classifier(
        learner.task,
        oracle,
        _without_none(settings),
        _kernel(kernel, gamma, degree),
        C=1.0 if weight is None else weight,
        solver=solver,
        tol=tol,
        max_seconds=max_seconds,
        fit_intercept=intercept,
        random_state=seed,
    )
    dense = dense_for(classifier)
    size = settings["shape"].size if settings["shape"] else 0
    reading = ReadOptions(vectorizer.value, unit_length, text_key, label_key, zero_based, dense, size)
    with working_on(*reading_of(data)):
        features, X, y = learned(learner, source, reading, guessed=format is None)
    if learner.task == "rows":
        check_rows(classifier, oracle, features, X, y)
    console = quiet_console(error=is_standard(output))
    classifier.set_params(class_weight=class_weights(class_weight, task.labels(y)))
    if memory is not None:
        classifier.set_params(memory_limit=memory)
    only_for(classifier, labels_that_change(changing, task.labels(y)))
    held = None
    if max_fpr is not None:
        X, y, held = hold_out(classifier, X, y, max_fpr, seed)
    counts = task.counts(features, X)
    if weight is None:
        with working_on("choosing C", f"{counted(counts)}; {training_time(max_seconds)}"):
            classifier.set_params(C=choose_weight(classifier, X, y, console, max_fpr))
    with working_on("training", f"{counted(counts)}; {training_time(max_seconds)}"):
        training, interrupted = train(classifier, X, y, counts)
    reason = _why_not_saved(training, tol, interrupted)
    if held is not None and reason is None:
        classifier = held.moved(classifier)
        training |= held.notes(classifier)
        nothing = classifier.classes_[int(classifier.intercept_[0] > 0)]
        if features.of_texts and nothing == held.label:
            name = label_name(nothing)
            say(f"warning: at this threshold, texts without any known word are predicted {name}")
    if reason is None:
        write(output, SavedModel(classifier, features, training).content())
        training_report(console, training, output, features.certified)
    else:
        say(f"not saved: {reason} {output} is unchanged")
    if interrupted:
        raise typer.Exit(130)
    if reason is not None:
        raise typer.Exit(1)


@app.command()
@one_line_errors
def evaluate(model: given.Model, data: given.Data, ignore_new_features: given.IgnoreNew = False) -> None:
    """Print clean, attacked and certified accuracy on DATA, overall and per class.

    Clean accuracy is the accuracy on unperturbed samples.

    For sentences, print the accuracy of tokens and of whole sentences. Also
    print precision, recall and F1 of spans (labels B-... and I-...).
    """
    saved = load_model(model, data)
    source = data_at(data)
    with working_on(*reading_of(data)):
        X, y = labeled(saved.features, source, ignore_new_features)
    task_of(saved.features).evaluate(Console(), saved, source, X, y)


@app.command()
@one_line_errors
def predict(
    model: given.Model,
    data: given.Data,
    output: given.LabelOutput = None,
    scores: given.Scores = False,
    threshold: given.Threshold = None,
    certify: given.Certify = False,
    ignore_new_features: given.IgnoreNew = False,
) -> None:
    """Predict the label of each row or text of DATA, one per line.

    For sentences, the output has all columns of DATA and an additional column
    with the predicted label.
    """
    if threshold is not None and math.isnan(threshold):
        raise ValueError("--threshold must be a number or infinite, got nan")
    output = Path("-") if output is None else output
    check_output(output, data, model)
    saved = load_model(model, data)
    begin(*reading_of(data))
    options = PredictOptions(scores, threshold, certify, ignore_new_features)
    source = data_at(data)
    n_labels = write_labels(output, task_of(saved.features).predict(saved, source, options), source)
    if not is_standard(output):
        say(f"{n_labels} labels written to {output}")


@app.command()
@one_line_errors
def explain(
    model: given.Model, data: given.Data, row: given.Row, ignore_new_features: given.IgnoreNew = False
) -> None:
    """Print the most damaging edits of one sample and their effects on its margin.

    The margin is that of the label in DATA. If there is no label, or if it is
    not a class of MODEL, the margin is that of the predicted label.
    """
    saved = load_model(model, data)
    check_explains(saved)
    source = data_at(data)
    X = unlabeled(saved.features, source, ignore_new_features)
    n_rows = _num_samples(X)
    if not 0 <= row < n_rows:
        raise ValueError(f"--row must be between 0 and {n_rows - 1} for {data}, got {row}")
    try:
        label = labeled(saved.features, source, ignore_new_features)[1][[row]]
    except ValueError:
        say("explaining the predicted label, because DATA has no valid labels")
        label = None
    if label is not None and label[0] not in saved.classifier.classes_:
        (name,) = saved.label_names(label)
        say(f"explaining the predicted label, because {name} is not a class of the model")
    explanation_report(Console(), saved, some_rows(X, np.array([row])), label, row)


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
    shape: given.ReportShape = None,
    ignore_new_features: given.IgnoreNew = False,
) -> None:
    """Write a report on MODEL and DATA for reviewers, as one HTML file.

    The report has the hashes of both files, clean and certified accuracy,
    rates per class, decisive features, worst perturbations, and what is not
    certified. It needs no scripts and no network.
    """
    check_output(output, data, model)
    options = ReportOptions(title, edit_numbers(sizes), rows, image_shape(shape))
    saved, source = load_model(model, data), data_at(data)
    with working_on(*reading_of(data)):
        X, y = labeled(saved.features, source, ignore_new_features)
    with working_on("evaluating"):
        content = model_report(saved, source, X, y, options)
    write(output, content)
    if not is_standard(output):
        say(f"report written to {output}")


@app.command()
@one_line_errors
def convert(
    context: typer.Context,
    source: given.Source,
    folder: given.Folder,
    dtype: given.StoredType = given.DataType.FLOAT64,
    n_features: given.NFeatures = None,
    vocabulary: given.Vocabulary = None,
    text_key: given.ColumnKey = "text",
    label_key: given.LabelColumn = "label",
    unlabeled: given.Unlabeled = False,
    zero_based: given.FirstFeature = None,
    overwrite: given.Overwrite = False,
) -> None:
    """Write the rows of SOURCE to a folder, for training with limited memory.

    Memory use does not grow with the size of SOURCE, except for a JSON array.
    In Python, structinv.rows.RowFolder reads the folder.
    """
    key = None if unlabeled else label_key
    options = Conversion(
        dtype.value, n_features, zero_based, vocabulary, text_key, key, frozenset(_passed(context))
    )
    rows = convert_file(source, folder, options, overwrite)
    Console().print(
        f"{rows.shape[0]} rows, {rows.shape[1]} features, {rows.n_entries} entries, {rows.n_bytes} "
        f"bytes: written to {escape(str(folder))}",
        highlight=False,
        soft_wrap=True,
    )


def _passed(context: typer.Context) -> set[str]:
    """Return the names of the options on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def _refuse_unused(context: typer.Context, data: Path, learner: Any, kernel: bool) -> None:
    """Raise ValueError for an option without effect on this format or this model."""
    passed = _passed(context)
    for name, option in READING_OPTIONS.items():
        if name in passed and name not in learner.options:
            raise ValueError(
                f"{option} has no effect on {learner.trained_on} ({data.name}): remove the option"
            )
    if "memory_limit" in passed and kernel:
        raise ValueError("--memory-limit is for linear models only: remove it, or remove --kernel")
    if "intercept" in passed and (kernel or not task_of(learner).has_intercept):
        models = "models with a kernel" if kernel else "models of sentences"
        raise ValueError(f"{models} have no intercept: remove --intercept or --no-intercept")


def _why_not_saved(training: dict[str, Any], tol: float, interrupted: bool) -> str | None:
    """Return why a model is not saved, with advice; None if it is saved."""
    if training["status"] == Status.INCONSISTENT.value:
        return (
            "the lower bound of the objective exceeds its value, so rounding errors are larger than the "
            "gap. Rescale the features to smaller values."
        )
    if not interrupted or training["relative_gap"] <= tol:
        return None
    return (
        f"training was interrupted at the relative gap {training['relative_gap']:.1e}, above --tol "
        f"{tol:g}. Pass --max-seconds to save the model after this time."
    )


def _kernel(name: given.KernelName | None, gamma: str | None, degree: int | None) -> dict[str, Any]:
    """Return the kernel and its parameters; an empty dict for a linear model."""
    more = _without_none({"gamma": gamma, "degree": degree})
    if name is None:
        if more:
            raise ValueError(
                f"--{next(iter(more))} requires --kernel: pass --kernel, or remove --{next(iter(more))}"
            )
        return {}
    if gamma is not None and gamma not in ("scale", "auto"):
        try:
            more["gamma"] = float(gamma)
        except ValueError:
            raise ValueError(f"--gamma must be scale, auto or a number, got {gamma!r}") from None
    return {"kernel": name.value, **more}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
