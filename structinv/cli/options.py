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
        help="A file, plain or compressed by gzip or xz, or - for standard input: SVMlight rows, JSON"
        " texts (lines or an array), a CSV table, or sentences in columns (token POS label). Or a folder"
        " written by convert, which is read in blocks.",
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
        help="Ignore features that the training data does not have.",
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

OracleName = Annotated[
    str | None,
    typer.Option(
        "--oracle",
        rich_help_panel=_ORACLE,
        help="Allowed perturbations: identity (none), fscale, fdrop, fadd, fedit, box, segment, shifts,"
        " rotations, scalings, shears, flip or permutations. For counted texts, fdrop deletes tokens and"
        " fadd inserts tokens. Default: identity with --kernel and for sentences, otherwise fscale.",
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
        help="Maximum number of edited words per row, or edited tokens per text (fscale, fdrop, fadd,"
        " fedit).",
    ),
]
Low = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Smallest factor of an edited value (fscale; default 0.5) or of a row (segment).",
    ),
]
High = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Largest factor of an edited value (fscale; default 2) or of a row (segment).",
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
        help="Whether features with a nonzero value may increase also (fadd; default --absent).",
    ),
]
Add = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Largest increase of an absent feature (fedit). Default: no feature is added.",
    ),
]
Drop = Annotated[
    bool | None,
    typer.Option(
        "--drop/--no-drop",
        rich_help_panel=_ORACLE,
        help="Whether words may be dropped (fedit; default --drop).",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Smallest and largest factor of a value, such as 0.5,2 (fedit). Default: no rescaling.",
    ),
]
Radius = Annotated[
    float | None,
    typer.Option(rich_help_panel=_ORACLE, help="Largest change of every value, zeros included (box)."),
]
Pixels = Annotated[
    str | None,
    typer.Option(rich_help_panel=_ORACLE, help="Lengths of shifts in pixels, such as 1,2 (shifts)."),
]
Degrees = Annotated[
    str | None,
    typer.Option(rich_help_panel=_ORACLE, help="Angles in degrees, such as -10,10 (rotations)."),
]
Factors = Annotated[
    str | None,
    typer.Option(rich_help_panel=_ORACLE, help="Factors, such as 0.9,1.1 (scalings, shears)."),
]
Shape = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ORACLE,
        help="Height x width of the images, such as 28x28, or height x width x channels. Default:"
        " square images.",
    ),
]

C = Annotated[
    str,
    typer.Option(
        "--C",
        rich_help_panel=_MODEL,
        help="Weight of the losses (> 0), or auto. auto tries 1e-4 to 100 on held-out folds. It takes"
        " the highest certified accuracy among clean accuracies within one standard error of the best."
        " With identity it takes the highest accuracy.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_MODEL, help="Factors of C per class: balanced, or such as spam=2,ham=1."
    ),
]
Kernel = Annotated[
    KernelName | None,
    typer.Option(
        rich_help_panel=_MODEL,
        help="Kernel of an SVM on dense rows. Default: a linear model without a kernel.",
    ),
]
Gamma = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_MODEL,
        help="Kernel coefficient gamma: scale, auto or a number. Needs --kernel. Default: scale.",
    ),
]
Degree = Annotated[
    int | None, typer.Option(rich_help_panel=_MODEL, help="Degree of the kernel poly. Default: 3.")
]
Intercept = Annotated[
    bool,
    typer.Option("--intercept/--no-intercept", rich_help_panel=_MODEL, help="Fit an intercept."),
]
SolverName = Annotated[
    str, typer.Option("--solver", rich_help_panel=_SOLVER, help="Name of a solver, or auto.")
]
Tol = Annotated[
    float,
    typer.Option(rich_help_panel=_SOLVER, help="Relative duality gap at which training ends."),
]
AcceptGap = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_OUTPUT,
        help="Largest relative duality gap of a model that is saved. Default: the value of --tol.",
    ),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(rich_help_panel=_SOLVER, help="Time limit of training, in seconds. Default: none."),
]
Seed = Annotated[
    int, typer.Option(min=0, rich_help_panel=_SOLVER, help="Seed of the solver's random numbers.")
]
Words = Annotated[
    Vectorizer,
    typer.Option(
        "--vectorizer",
        rich_help_panel=_DATA,
        help="Text: values of words, which are counts, log(1 + count) or counts weighted by inverse"
        " document frequency. Certificates for tokens need counts.",
    ),
]
UnitLength = Annotated[
    bool,
    typer.Option(
        "--unit-length",
        rich_help_panel=_DATA,
        help="Text: scale rows to length 1. Certificates then hold only approximately.",
    ),
]
TextKey = Annotated[str, typer.Option(rich_help_panel=_DATA, help="Text: key of the text.")]
LabelKey = Annotated[
    str,
    typer.Option(rich_help_panel=_DATA, help="Text: key of the label. Table: column of the label."),
]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        rich_help_panel=_DATA,
        help="SVMlight: number of the first feature. Default: 0 if a row has the number 0, otherwise 1.",
    ),
]

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_SOLVER,
        help="Memory for training a linear model, in addition to the rows, such as 4GB. Default for a"
        " folder of rows: most of the free memory.",
    ),
]

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="SVMlight rows or JSON lines of texts, plain or compressed by gzip or xz, or - for standard"
        " input. Or a Parquet file of numbers or texts.",
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
        help="SVMlight: number of columns (default: the largest feature number). Text: number of columns"
        " for hashed words (default: 1048576).",
    ),
]
Vocabulary = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=_DATA,
        help="Text: file with one word per line. Only these words are counted, without hashing.",
    ),
]
Unlabeled = Annotated[
    bool,
    typer.Option("--unlabeled", rich_help_panel=_DATA, help="Text and Parquet: read no labels."),
]
ColumnKey = Annotated[
    str,
    typer.Option("--text-key", rich_help_panel=_DATA, help="Text: key, or Parquet column, of the text."),
]
LabelColumn = Annotated[
    str,
    typer.Option(
        "--label-key",
        rich_help_panel=_DATA,
        help="Text: key of the label. Parquet: column of the label.",
    ),
]
FirstFeature = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        rich_help_panel=_DATA,
        help="SVMlight: number of the first feature. Default: 0 if a row uses the number 0, otherwise 1."
        " Indices written before the first such row are written again.",
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", rich_help_panel=_OUTPUT, help="Replace an existing folder of rows."),
]

Certify = Annotated[
    bool,
    typer.Option(
        "--certify",
        rich_help_panel=_OUTPUT,
        help="Add a column: yes if no allowed perturbation changes the label.",
    ),
]
Scores = Annotated[
    bool,
    typer.Option(
        "--scores",
        rich_help_panel=_OUTPUT,
        help="Add decision values: one column for two classes, otherwise one column per class.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_OUTPUT,
        help="Two classes: predict the second class for decision values above this number. Default: 0.",
    ),
]
Row = Annotated[int, typer.Option(help="Number of the row of DATA, counted from 0.", show_default=False)]
