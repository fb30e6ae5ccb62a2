"""Arguments and options of the commands, with their help texts."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .data import Format, Samples


class DataType(StrEnum):
    """Types of stored values."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


# Options in the panels of `--help`, in this order.
_data, _model, _solver, _output = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Data", "Model", "Solver", "Output")
)

# Options with the kinds and forms of DATA that they are for.
_FITTING = {
    "label_key": ("--label-key", "texts", "tables"),
    "zero_based": ("--zero-based/--one-based", "SVMlight rows"),
    "ignore_new_features": ("--ignore-new-features", "SVMlight rows", "tables"),
    "memory_limit": ("--memory-limit", "rows"),
    "max_fpr": ("--max-fpr", "rows", "texts"),
    "scores": ("--scores", "rows", "texts"),
}

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A file (plain, .gz or .xz), - for standard input, or a folder written by convert. A file"
        " has JSON lines with texts, a table (CSV, TSV) of texts or of numbers, lines of a label, a tab"
        " and a text, SVMlight rows, or sentences in columns: first the token, then features such as"
        " the part-of-speech tag, then the label.",
        show_default=False,
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file of fit or of structinv.save.", show_default=False)
]
DataFormat = Annotated[
    Format | None,
    _data(
        help="Format of DATA. Default: conll for names ending in .conll, .iob, .iob2 or .bio; otherwise"
        " the first line decides.",
    ),
]
LabelKey = Annotated[
    str | None,
    _data(help="JSON key, or column of a table, of the label. Default: that of fit, otherwise label."),
]
ZeroBased = Annotated[
    bool | None,
    _data(
        "--zero-based/--one-based",
        metavar="",
        help="SVMlight: feature numbers start at 0 or at 1. Default: as in fit, otherwise at 1.",
    ),
]
IgnoreNew = Annotated[
    bool,
    _data(
        "--ignore-new-features",
        metavar="",
        help="SVMlight rows and tables: ignore features that MODEL lacks. New words of texts and"
        " sentences are always ignored.",
    ),
]
ModelOutput = Annotated[
    Path,
    _output("--output", "-o", help="Model file to write, or - for standard output.", show_default=False),
]
LabelOutput = Annotated[Path, _output("--output", "-o", help="File to write, or - for standard output.")]
ReportOutput = Annotated[
    Path,
    _output("--output", "-o", help="HTML file to write, or - for standard output.", show_default=False),
]
Title = Annotated[str, _output(help="Title of the report.")]
Sizes = Annotated[
    str | None,
    _output(
        help="Numbers of edits in the table of accuracies, such as 0,1,2,5. Default: 0, and a quarter,"
        " half and twice the number of the model. That number is always in the table."
    ),
]
Examples = Annotated[
    int,
    _output(min=0, help="Number of rows, texts or sentences whose worst perturbations are shown."),
]
Shape = Annotated[
    str | None,
    _data(
        help="Show rows as images of height x width pixels, such as 28x28, or height x width x channels."
        " Default: images for models of shifts, rotations, scalings, shears and flip, otherwise tables.",
    ),
]

OracleName = Annotated[
    str | None,
    _model(
        help="Allowed perturbations. Texts: edit (delete or insert tokens, the default), drop, add or"
        " replace. Rows and sentences: identity (none, the default), fdrop (remove features), fscale"
        " (rescale them by 0.5 to 2), fadd (add features) or fedit (remove features, entirely or in"
        " part). Train models with other oracles, kernels and parameters in Python: the commands take"
        " files of structinv.save.",
    ),
]
MaxChanges = Annotated[
    int | None, _model(help="Maximum number of edits per text, row or token (required).")
]
OnlyFor = Annotated[
    str | None,
    _model(
        "--only-for",
        help="Labels whose samples may be perturbed, separated by commas. Default: all labels.",
    ),
]
C = Annotated[float | None, _model("--C", help="Weight of the losses (> 0). Default: 1.")]
MaxFPR = Annotated[
    float | None,
    _model(
        help="Two classes: set the threshold so that at most this fraction of false positives remains,"
        " such as 0.01. A random fifth of DATA sets the threshold, and the model is trained on the rest."
        " The label to detect is that of --only-for, otherwise the second label in sorted order."
        " Default: the threshold 0.",
    ),
]
SolverName = Annotated[
    str | None,
    _solver(help="auto, bmrm, frank_wolfe, interior_point, pegasos, representer or svmstruct."),
]
Tol = Annotated[
    float | None,
    _solver(
        help="Relative duality gap at which training ends. Default: 0.01 for texts, otherwise 0.001."
    ),
]
MaxSeconds = Annotated[
    float | None,
    _solver(
        help="Time limit of training, in seconds. The model at the limit is saved, with a warning that"
        " has its gap. Default: none."
    ),
]
MemoryLimit = Annotated[
    str | None,
    _solver(
        help="Memory limit for training on rows, in addition to the rows. Example: 4GB. Default: most of"
        " the free memory for a folder of rows, otherwise no limit."
    ),
]
Seed = Annotated[int, _solver(min=0, help="Seed of the solver's random numbers.")]

Certify = Annotated[
    bool,
    _output(
        "--certify",
        metavar="",
        help="Add a column: yes if the label is certified, that is, no allowed perturbation changes it;"
        " otherwise no. Labels of DATA are not used, so the perturbations of a model with --only-for"
        " apply to all of DATA.",
    ),
]
Scores = Annotated[
    bool,
    _output(
        "--scores",
        metavar="",
        help="Add decision values: one column for two classes, otherwise one column per class.",
    ),
]
Row = Annotated[
    int, typer.Option(help="Number of the row or text in DATA, counted from 0.", show_default=False)
]

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="A file of SVMlight rows (plain, .gz or .xz), or - for standard input.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write.", show_default=False)]
StoredType = Annotated[DataType, typer.Option(help="Type of the stored values.")]
NFeatures = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of features. Default: as many as the largest feature number requires."
    ),
]
FirstFeature = Annotated[
    bool,
    typer.Option(
        "--zero-based/--one-based", metavar="", help="Feature numbers start at 0, or at 1 (default)."
    ),
]


def check_fitting(samples: Samples, **given: Any) -> None:
    """Raise ValueError if an option does not fit DATA; None means no option."""
    for name, value in given.items():
        option, *fitting = _FITTING[name]
        if value is not None and not {samples.kind, samples.form} & set(fitting):
            raise ValueError(
                f"{option} is for {' and '.join(fitting)}, but {samples.name} has {samples.form}"
            )
