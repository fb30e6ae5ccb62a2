"""The commands; their options stand in `options`, and the work is done by the other files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from sklearn.utils.validation import _num_samples

from .. import __version__
from ..estimators.row_sources import some_rows
from ..solvers import Status
from . import options as given
from .conversion import Conversion
from .converting import convert_file
from .demo import run_demo
from .features import ReadOptions
from .kinds import READING_OPTIONS, data_at, labeled, training_file, unlabeled
from .messages import one_line_errors, say, working_on
from .model_file import SavedModel, load_model
from .predictions import PredictOptions, write_labels
from .reports import counted, explanation_report, training_report
from .tasks import task_of
from .training import (
    build_classifier,
    choose_weight,
    class_weights,
    counts_tokens,
    dense_for,
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
    help="Classifiers that expect the edits, with certificates.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"structinv {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Classifiers that expect the edits, with certificates."""


@app.command()
@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the plots.")] = Path("structinv-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated data.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Less data, in a few seconds.")] = False,
) -> None:
    """Compare hinge loss with robust models on generated mail, on digits and on generated text."""
    run_demo(out, seed=seed, quick=quick, console=Console())


@app.command()
@one_line_errors
def warm(
    family: Annotated[Family, typer.Argument(help="Kind of data.", show_default=True)] = Family.ALL,
) -> None:
    """Compile the functions of the usual fits, predictions and certificates ahead.

    All processors work. Later processes load the functions from the cache on disk, which is the folder
    NUMBA_CACHE_DIR if that is set.
    """
    warm_up(family, Console())


@app.command()
@one_line_errors
def fit(
    context: typer.Context,
    data: given.Data,
    output: given.ModelOutput,
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
    class_weight: given.ClassWeight = None,
    kernel: given.Kernel = None,
    gamma: given.Gamma = None,
    degree: given.Degree = None,
    solver: given.SolverName = "auto",
    tol: given.Tol = 1e-3,
    accept_gap: given.AcceptGap = None,
    max_seconds: given.MaxSeconds = None,
    memory_limit: given.MemoryLimit = None,
    intercept: given.Intercept = True,
    seed: given.Seed = 0,
    format: given.DataFormat = None,
    vectorizer: given.Words = given.Vectorizer.COUNT,
    unit_length: given.UnitLength = False,
    text_key: given.TextKey = "text",
    label_key: given.LabelKey = "label",
    zero_based: given.ZeroBased = None,
) -> None:
    """Train a classifier on DATA and save it.

    The model is saved if its relative gap is at most --accept-gap; otherwise the exit code is 1, after
    Ctrl-C 130, and a file that is there stays as it is.
    """
    check_output(output, data)
    tokens = counts_tokens(oracle, vectorizer.value, unit_length, kernel is not None)
    source, learner = training_file(data, None if format is None else format.value, tokens)
    task = task_of(learner)
    _refuse_idle(context, data, learner, kernel is not None)
    limit, memory = _accepted(tol, accept_gap), limit_of_memory(memory_limit)
    settings: dict[str, Any] = {"max_changes": max_changes, "low": low, "high": high, "radius": radius}
    settings |= {"value": value, "present": present, "add": add, "drop": drop}
    settings |= {"scale": numbers("--scale", scale)}
    settings |= {"pixels": numbers("--pixels", pixels), "degrees": numbers("--degrees", degrees)}
    settings |= {"factors": numbers("--factors", factors), "shape": image_shape(shape)}
    weight = weight_of_losses(C)
    if weight is None and not task.chooses_weight:
        raise ValueError("--C auto is for rows; for sentences C must be a number")
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
    with working_on(f"reading {data.name}"):
        features, X, y = learner.learn(source, reading)
    counts = task.counts(features, X)
    console = Console(stderr=is_standard(output))
    classifier.set_params(class_weight=class_weights(class_weight, task.labels(y)))
    if memory is not None:
        classifier.set_params(memory_limit=memory)
    only_for(classifier, labels_that_change(changing, task.labels(y)))
    if weight is None:
        with working_on("choosing C"):
            classifier.set_params(C=choose_weight(classifier, X, y, console))
    with working_on(f"training on {counted(counts)}"):
        training, interrupted = train(classifier, X, y, counts)
    sound = training["status"] != Status.INCONSISTENT.value
    good = sound and training["relative_gap"] <= limit
    if good:
        write(output, SavedModel(classifier, features, training).content())
        training_report(console, training, output, features.certified)
    else:
        say(
            f"not saved: the relative gap, {training['relative_gap']:.1e} ({training['status']}), is "
            f"not within --accept-gap {limit:g}; {output} is left as it was"
        )
    if interrupted:
        raise typer.Exit(130)
    if not good:
        raise typer.Exit(1)


@app.command()
@one_line_errors
def evaluate(model: given.Model, data: given.Data, ignore_new_features: given.IgnoreNew = False) -> None:
    """Accuracy on DATA, plain and certified, for all rows and per class.

    Of sentences: of tokens and of whole sentences, and precision, recall and F1 of spans.
    """
    saved = load_model(model, data)
    X, y = labeled(saved.features, data_at(data), ignore_new_features)
    task_of(saved.features).evaluate(Console(), saved, X, y)


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
    """Predict one label per line for the rows of DATA.

    Sentences come back with all their columns and the predicted label as the last.
    """
    if threshold is not None and math.isnan(threshold):
        raise ValueError("--threshold must be a number or an infinity, got nan")
    output = Path("-") if output is None else output
    check_output(output, data, model)
    saved = load_model(model, data)
    asked = PredictOptions(scores, threshold, certify, ignore_new_features)
    source = data_at(data)
    n_labels = write_labels(output, task_of(saved.features).predict(saved, source, asked), source)
    if not is_standard(output):
        say(f"{n_labels} labels written to {output}")


@app.command()
@one_line_errors
def explain(
    model: given.Model, data: given.Data, row: given.Row, ignore_new_features: given.IgnoreNew = False
) -> None:
    """Show the edits that hurt one row most, and how each moves its score.

    Of a row without a label, or with one that the model does not know, it is the predicted label whose
    score is shown.
    """
    saved = load_model(model, data)
    if not task_of(saved.features).explains:
        raise ValueError("explain shows edits of one row, and the model labels whole sentences")
    source = data_at(data)
    X = unlabeled(saved.features, source, ignore_new_features)
    n_rows = _num_samples(X)
    if not 0 <= row < n_rows:
        raise ValueError(f"--row must lie in 0 to {n_rows - 1} for {data}, got {row}")
    try:
        label = labeled(saved.features, source, ignore_new_features)[1][[row]]
    except ValueError as error:
        say(f"the predicted label is explained, as no labels can be read: {error}")
        label = None
    if label is not None and label[0] not in saved.classifier.classes_:
        (name,) = saved.label_names(label)
        say(f"the predicted label is explained, as {name} is no class of the model")
    explanation_report(Console(), saved, some_rows(X, np.array([row])), label, row)


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
    """Write the rows of SOURCE to FOLDER, which structinv.rows.RowFolder reads in blocks.

    The memory that this takes does not grow with SOURCE, unless it holds a JSON array.
    """
    key = None if unlabeled else label_key
    asked = Conversion(
        dtype.value, n_features, zero_based, vocabulary, text_key, key, frozenset(_told(context))
    )
    rows = convert_file(source, folder, asked, overwrite)
    Console().print(
        f"{rows.shape[0]} rows, {rows.shape[1]} features, {rows.n_entries} entries, {rows.n_bytes} "
        f"bytes: written to {escape(str(folder))}",
        highlight=False,
        soft_wrap=True,
    )


def _told(context: typer.Context) -> set[str]:
    """Names of the options that were given."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def _refuse_idle(context: typer.Context, data: Path, learner: Any, kernel: bool) -> None:
    """Raise for an option that was given and has no say about files of this kind, or this machine."""
    told = _told(context)
    for name, option in READING_OPTIONS.items():
        if name in told and name not in learner.options:
            kind = "a folder of rows" if data.is_dir() else "a file of another kind"
            raise ValueError(f"{option} has no say in how {data.name} is read, {kind}")
    if "memory_limit" in told and kernel:
        raise ValueError("--memory-limit is for linear machines, and --kernel asks for another")
    if "intercept" in told and (kernel or not task_of(learner).has_intercept):
        machines = "machines with a kernel" if kernel else "machines of sentences"
        raise ValueError(f"--intercept/--no-intercept: {machines} have no intercept")


def _accepted(tol: float, accept_gap: float | None) -> float:
    """The largest gap of a model that is saved."""
    if accept_gap is None:
        return tol
    if not accept_gap >= 0:
        raise ValueError(f"--accept-gap must be at least 0, got {accept_gap}")
    return accept_gap


def _kernel(name: given.KernelName | None, gamma: str | None, degree: int | None) -> dict[str, Any]:
    """The kernel and its parameters; nothing for a linear machine."""
    more = _without_none({"gamma": gamma, "degree": degree})
    if name is None:
        if more:
            raise ValueError(f"--{next(iter(more))} needs --kernel")
        return {}
    if gamma is not None and gamma not in ("scale", "auto"):
        try:
            more["gamma"] = float(gamma)
        except ValueError:
            raise ValueError(f"--gamma must be scale, auto or a number, got {gamma!r}") from None
    return {"kernel": name.value, **more}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
