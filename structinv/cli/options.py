"""Arguments and options of the commands, with their help texts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Vectorizer(StrEnum):
    """Values of the words of a text."""

    COUNT = "count"
    LOG = "log"
    TFIDF = "tfidf"


class Format(StrEnum):
    """Formats of files with rows or sentences."""

    SVMLIGHT = "svmlight"
    JSON = "json"
    TABLE = "table"
    CONLL = "conll"


class DataType(StrEnum):
    """Types of stored values."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


class KernelName(StrEnum):
    """Kernels of `fit`."""

    RBF = "rbf"
    POLY = "poly"
    LAPLACIAN = "laplacian"
    LINEAR = "linear"


# Panels of `--help`, in this order.
_DATA = "Data"
_ORACLE = "Oracle"
_MODEL = "Model"
_SOLVER = "Solver"
_OUTPUT = "Output"

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A file (plain or compressed by gzip or xz), - for standard input, or a folder written by"
        " convert. A file contains SVMlight rows, JSON texts (lines or an array), a table (CSV, TSV or"
        " separated by blanks) of numbers or with a column of texts, lines of a label, a tab and a text,"
        " or sentences in columns: first the token, then features such as the part-of-speech tag, then"
        " the label.",
        show_default=False,
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A file written by fit, or - for standard input.", show_default=False
    ),
]
DataFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        rich_help_panel=_DATA,
        help="Format of DATA. Default: conll for names ending in .conll, .iob, .iob2 or .bio; otherwise"
        " detected from the content.",
    ),
]
IgnoreNew = Annotated[
    bool,
    typer.Option(
        "--ignore-new-features",
        rich_help_panel=_DATA,
        metavar="",
        help="SVMlight rows, tables and folders: ignore features that are not in the training data."
        " New words of texts and sentences are always ignored.",
    ),
]
ModelOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        rich_help_panel=_OUTPUT,
        help="Model file to write, or - for standard output.",
        show_default=False,
    ),
]
LabelOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        rich_help_panel=_OUTPUT,
        help="File to write, or - for standard output. Default: standard output.",
    ),
]
ReportOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        rich_help_panel=_OUTPUT,
        help="HTML file to write, or - for standard output.",
        show_default=False,
    ),
]
Title = Annotated[str, typer.Option(rich_help_panel=_OUTPUT, help="Title of the report.")]
Sizes = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_OUTPUT,
        help="Numbers of edits in the table of accuracies, such as 0,1,2,5 (fscale, fdrop, fadd, fedit)."
        " Default: 0, and a quarter, half and twice the number of the model. That number is always"
        " in the table.",
    ),
]
Examples = Annotated[
    int,
    typer.Option(
        "--rows",
        min=0,
        rich_help_panel=_OUTPUT,
        help="Number of rows, texts or sentences whose worst perturbations are shown.",
    ),
]
ReportShape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        rich_help_panel=_DATA,
        help="Show rows as images of height x width pixels, such as 28x28, or height x width x channels."
        " Default: images for models of shifts, rotations, scalings, shears and flip, otherwise tables.",
    ),
]

OracleName = Annotated[
    str | None,
    typer.Option(
        "--oracle",
        rich_help_panel=_ORACLE,
        help="Allowed perturbations: identity (none), fscale (rescale features), fdrop (remove"
        " features), fadd (add features), fedit (all three), box (change every value), segment"
        " (rescale the row), shifts, rotations, scalings, shears, flip or permutations. The oracles from"
        " shifts to flip transform images; permutations reorders the rows of a matrix. For texts with"
        " --vectorizer count, fdrop deletes tokens and fadd inserts tokens. Default: identity with"
        " --kernel and for sentences, otherwise fscale.",
    ),
]
OnlyFor = Annotated[
    str | None,
    typer.Option(
        "--only-for",
        rich_help_panel=_ORACLE,
        help="Labels whose samples may be perturbed, separated by commas. Default: all labels.",
    ),
]
MaxChanges = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Maximum number of edited features per row, or of edited tokens per text (fscale, fdrop,"
        " fadd, fedit; required).",
    ),
]
Low = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Smallest factor of an edited value (fscale; default 0.5) or of a whole row (segment;"
        " required).",
    ),
]
High = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Largest factor of an edited value (fscale; default 2) or of a whole row (segment;"
        " required).",
    ),
]
Value = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE, help="Largest increase of an added feature (fadd; default 1)."
    ),
]
Present = Annotated[
    bool | None,
    typer.Option(
        "--present/--absent",
        rich_help_panel=_ORACLE,
        metavar="",
        help=(
            "Features that fadd may increase: any (--present), or only those with the value 0 "
            "(--absent; default)."
        ),
    ),
]
Add = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Largest increase of an added feature (fedit). Default: no feature is added.",
    ),
]
Drop = Annotated[
    bool | None,
    typer.Option(
        "--drop/--no-drop",
        rich_help_panel=_ORACLE,
        metavar="",
        help=(
            "Allow (--drop) or forbid (--no-drop) the removal of features, entirely or in part "
            "(fedit; default --drop)."
        ),
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Smallest and largest factor of an edited value, such as 0.5,2 (fedit). Default: no"
        " rescaling.",
    ),
]
Radius = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Largest absolute change of a value, also of a zero (box; required).",
    ),
]
Pixels = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="List of shift lengths in pixels, such as 1,2 (shifts; required). Each length applies to"
        " all four directions.",
    ),
]
Degrees = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="List of angles in degrees (rotations; required). -10,10 allows these two angles, not the"
        " angles between them.",
    ),
]
Factors = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="List of factors, such as 0.9,1.1 for scalings or -0.1,0.1 for shears (required).",
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Height x width of the images, such as 28x28, or height x width x channels. Default:"
        " square images. For permutations: rows x columns of the matrix (required).",
    ),
]

C = Annotated[
    str,
    typer.Option(
        "--C",
        rich_help_panel=_MODEL,
        help="Weight of the losses (> 0), or auto. auto tries powers of ten from 1e-4 to 100 by"
        " cross-validation. It considers the values with a clean accuracy within one standard error of"
        " the best, and selects the value with the highest certified accuracy. With --oracle identity it"
        " selects the value with the highest accuracy.",
    ),
]
MaxFPR = Annotated[
    float | None,
    typer.Option(
        "--max-fpr",
        rich_help_panel=_MODEL,
        help="Two classes, linear models: set the threshold so that at most this fraction of false"
        " positives remains, such as 0.01. A random fifth of DATA sets the threshold, and the model is"
        " trained on the rest. The label to detect is that of --only-for, otherwise the second label in"
        " sorted order. Default: the threshold 0.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_MODEL,
        help="Factor of C for each class: balanced, or a list such as spam=2,ham=1. Default: 1.",
    ),
]
Kernel = Annotated[
    KernelName | None,
    typer.Option(
        rich_help_panel=_MODEL,
        help="Kernel of an SVM, for tables and SVMlight files. Rows are stored as dense arrays. Default:"
        " a linear model without a kernel.",
    ),
]
Gamma = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_MODEL,
        help="Kernel coefficient gamma: scale, auto or a number. Requires --kernel. Default: scale.",
    ),
]
Degree = Annotated[
    int | None, typer.Option(rich_help_panel=_MODEL, help="Degree of --kernel poly. Default: 3.")
]
Intercept = Annotated[
    bool,
    typer.Option(
        "--intercept/--no-intercept",
        rich_help_panel=_MODEL,
        metavar="",
        help="Fit an intercept (linear models of rows and texts).",
    ),
]
SolverName = Annotated[
    str,
    typer.Option(
        "--solver",
        rich_help_panel=_SOLVER,
        help="auto, bmrm, frank_wolfe, interior_point, pegasos, representer or svmstruct.",
    ),
]
Tol = Annotated[
    float,
    typer.Option(rich_help_panel=_SOLVER, help="Relative duality gap at which training ends."),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_SOLVER,
        help="Time limit of training, in seconds. The model at the"
        " limit is saved, with a warning that has its gap. Default: none.",
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, rich_help_panel=_SOLVER, help="Seed of the solver's random numbers.")
]
Words = Annotated[
    Vectorizer,
    typer.Option(
        "--vectorizer",
        rich_help_panel=_DATA,
        help="Text: the feature value of a word is its count, log(1 + count), or its count times the"
        " inverse document frequency. Certificates against token edits require count.",
    ),
]
UnitLength = Annotated[
    bool,
    typer.Option(
        "--unit-length",
        rich_help_panel=_DATA,
        metavar="",
        help="Text: scale rows to Euclidean length 1. Certificates then do not hold for edits of the"
        " text.",
    ),
]
TextKey = Annotated[
    str, typer.Option(rich_help_panel=_DATA, help="Text: JSON key, or column of a table, of the text.")
]
LabelKey = Annotated[
    str,
    typer.Option(rich_help_panel=_DATA, help="JSON key, or column of a table, of the label."),
]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        rich_help_panel=_DATA,
        metavar="",
        help="SVMlight: feature numbers start at 0 (--zero-based) or at 1 (--one-based). Default:"
        " --zero-based if a row has feature number 0, otherwise --one-based.",
    ),
]

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_SOLVER,
        help="Memory limit for training a linear model, in addition to the rows. Example: 4GB. Default:"
        " most of the free memory for a folder of rows, otherwise no limit.",
    ),
]

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="A file of SVMlight rows or JSON texts (lines or an array), plain or compressed by gzip or"
        " xz; - for standard input; or a Parquet file of numbers or texts.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write.", show_default=False)]
StoredType = Annotated[
    DataType, typer.Option("--dtype", rich_help_panel=_OUTPUT, help="Type of the stored values.")
]
NFeatures = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=_DATA,
        help="Number of features. SVMlight default: as many as the largest feature number requires."
        " Text default: 1048576. A hash function assigns each word to a feature.",
    ),
]
Vocabulary = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=_DATA,
        help="Text: file with one word per line. Each of these words is a feature; other words are"
        " ignored.",
    ),
]
Unlabeled = Annotated[
    bool,
    typer.Option(
        "--unlabeled", rich_help_panel=_DATA, metavar="", help="Text and Parquet: SOURCE has no labels."
    ),
]
ColumnKey = Annotated[
    str,
    typer.Option("--text-key", rich_help_panel=_DATA, help="JSON key or Parquet column of the text."),
]
LabelColumn = Annotated[
    str,
    typer.Option(
        "--label-key",
        rich_help_panel=_DATA,
        help="JSON key or Parquet column of the label.",
    ),
]
FirstFeature = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        rich_help_panel=_DATA,
        metavar="",
        help="SVMlight: feature numbers start at 0 (--zero-based) or at 1 (--one-based). Default:"
        " --zero-based if a row has feature number 0, otherwise --one-based.",
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", rich_help_panel=_OUTPUT, metavar="", help="Replace an existing folder of rows."
    ),
]

Certify = Annotated[
    bool,
    typer.Option(
        "--certify",
        rich_help_panel=_OUTPUT,
        metavar="",
        help="Add a column: yes if the label is certified, that is, no allowed perturbation changes it;"
        " otherwise no. Labels of DATA are not used, so the perturbations of a model with --only-for"
        " apply to all of DATA.",
    ),
]
Scores = Annotated[
    bool,
    typer.Option(
        "--scores",
        rich_help_panel=_OUTPUT,
        metavar="",
        help="Add decision values: one column for two classes, otherwise one column per class.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_OUTPUT,
        help="Two classes: predict the second label in sorted order if the decision value is above this"
        " number. Default: 0.",
    ),
]
Row = Annotated[
    int, typer.Option(help="Number of the row or text in DATA, counted from 0.", show_default=False)
]
