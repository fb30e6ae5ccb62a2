"""The commands and their options; the work is done by the other files of this folder."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .. import __version__
from .demo import run_demo
from .messages import one_line_errors, say, working_on
from .model_file import SavedModel, load_model, save_model
from .reports import evaluation_report, explanation_report, training_report
from .training import TextOptions, build_classifier, read_training, train

app = typer.Typer(
    help="Linear classifiers that expect the edits, with certificates.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Vectorizer(StrEnum):
    """How words of a text become values."""

    COUNT = "count"
    LOG = "log"
    TFIDF = "tfidf"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="SVMlight rows, or JSON lines of text (.jsonl); plain, .gz or .xz.",
        show_default=False,
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file written by fit.", show_default=False)
]
IgnoreNew = Annotated[
    bool, typer.Option("--ignore-new-features", help="Drop features that training did not have.")
]


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
    """Linear classifiers that expect the edits, with certificates."""


@app.command()
@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the plots.")] = Path("structinv-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated data.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Less data, in a few seconds.")] = False,
) -> None:
    """Compare hinge loss with two robust models on generated mail and on digits."""
    run_demo(out, seed=seed, quick=quick, console=Console())


@app.command()
@one_line_errors
def fit(
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The model file to write.", show_default=False)
    ],
    oracle: Annotated[str, typer.Option(help="What may change in a row.")] = "fscale",
    max_changes: Annotated[
        int | None, typer.Option(help="Edited words per row (fscale, fdrop).")
    ] = None,
    low: Annotated[
        float | None, typer.Option(help="Smallest factor of an edited value (fscale).")
    ] = None,
    high: Annotated[
        float | None, typer.Option(help="Largest factor of an edited value (fscale).")
    ] = None,
    radius: Annotated[float | None, typer.Option(help="Largest move of any value (box).")] = None,
    C: Annotated[float, typer.Option("--C", help="Weight of the losses.")] = 1.0,
    solver: Annotated[str, typer.Option(help="auto, or a solver's name.")] = "auto",
    tol: Annotated[float, typer.Option(help="Relative gap at which training ends.")] = 1e-3,
    max_seconds: Annotated[float | None, typer.Option(help="End training after this time.")] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the solver.")] = 0,
    vectorizer: Annotated[
        Vectorizer, typer.Option(help="Text: counts, log(1 + count), or weighted counts.")
    ] = Vectorizer.LOG,
    unit_length: Annotated[
        bool,
        typer.Option(
            "--unit-length", help="Text: scale rows to length 1 (certificates hold only nearly)."
        ),
    ] = False,
    text_key: Annotated[str, typer.Option(help="Text: key of the text.")] = "text",
    label_key: Annotated[str, typer.Option(help="Text: key of the label.")] = "label",
    zero_based: Annotated[
        bool | None,
        typer.Option(
            "--zero-based/--one-based",
            help="SVMlight: the first feature's number; found out by default.",
        ),
    ] = None,
) -> None:
    """Train a classifier on DATA and save it."""
    _check_output(output)
    settings = {"max_changes": max_changes, "low": low, "high": high, "radius": radius}
    given = {name: value for name, value in settings.items() if value is not None}
    classifier = build_classifier(
        oracle,
        given,
        C=C,
        solver=solver,
        tol=tol,
        max_seconds=max_seconds,
        fit_intercept=intercept,
        random_state=seed,
    )
    options = TextOptions(vectorizer.value, unit_length, text_key, label_key)
    with working_on(f"reading {data.name}"):
        features, X, y = read_training(data, options, zero_based)
    with working_on(f"training on {X.shape[0]} rows, {X.shape[1]} features"):
        training = train(classifier, X, y)
    save_model(output, SavedModel(classifier, features, training))
    training_report(Console(), training, output)


@app.command()
@one_line_errors
def evaluate(model: Model, data: Data, ignore_new_features: IgnoreNew = False) -> None:
    """Accuracy on DATA, plain and certified, for all rows and per class."""
    saved = load_model(model)
    X, y = saved.features.read(data, ignore_new_features)
    evaluation_report(Console(), saved, X, y)


@app.command()
@one_line_errors
def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; standard output by default."),
    ] = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Add whether no allowed edit changes the label.")
    ] = False,
    ignore_new_features: IgnoreNew = False,
) -> None:
    """Predict one label per line for the rows of DATA."""
    if output is not None:
        _check_output(output)
    saved = load_model(model)
    X = saved.features.read_unlabelled(data, ignore_new_features)
    lines = saved.label_names(saved.classifier.predict(X))
    if certify:
        firm = saved.classifier.certify(X).correct
        lines = [f"{line}\t{'yes' if sure else 'no'}" for line, sure in zip(lines, firm, strict=True)]
    text = "".join(f"{line}\n" for line in lines)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        say(f"{len(lines)} labels written to {output}")


@app.command()
@one_line_errors
def explain(
    model: Model,
    data: Data,
    row: Annotated[int, typer.Option(help="The row of DATA, counted from 0.", show_default=False)],
    ignore_new_features: IgnoreNew = False,
) -> None:
    """Show the edits that hurt one row most, and how each moves its score."""
    saved = load_model(model)
    X, y = saved.features.read(data, ignore_new_features)
    if not 0 <= row < X.shape[0]:
        raise ValueError(f"--row must lie in 0 to {X.shape[0] - 1} for {data}, got {row}")
    explanation_report(Console(), saved, X[[row]], y[[row]], row)


def _check_output(output: Path) -> None:
    """Fail before the work rather than after it."""
    if output.is_dir():
        raise ValueError(f"--output must be a file, and {output} is a folder")
    if not output.parent.is_dir():
        raise ValueError(f"--output must lie in an existing folder, and {output.parent} is none")
