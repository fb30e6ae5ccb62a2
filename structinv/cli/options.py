"""Arguments and options of the commands, with their help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Vectorizer(StrEnum):
    """How words of a text become values."""

    COUNT = "count"
    LOG = "log"
    TFIDF = "tfidf"


class Format(StrEnum):
    """Kinds of files with rows or sentences."""

    SVMLIGHT = "svmlight"
    JSON = "json"
    TABLE = "table"
    CONLL = "conll"


class DataType(StrEnum):
    """Types of stored values."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


class KernelName(StrEnum):
    """Kernels that `fit` knows."""

    RBF = "rbf"
    POLY = "poly"
    LAPLACIAN = "laplacian"
    LINEAR = "linear"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="SVMlight rows, JSON of texts (lines or an array), a CSV table, or sentences in columns"
        " (token POS label, in .conll); plain, gzip or xz; - reads standard input. Or a folder of rows"
        " that convert wrote, which is read in blocks.",
        show_default=False,
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A file written by fit; - reads standard input.", show_default=False
    ),
]
DataFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="What DATA holds; found out by default, conll by a name in .conll, .iob, .iob2 or .bio.",
    ),
]
IgnoreNew = Annotated[
    bool, typer.Option("--ignore-new-features", help="Drop features that training did not have.")
]
ModelOutput = Annotated[
    Path,
    typer.Option("--output", "-o", help="The model file to write; - for output.", show_default=False),
]
LabelOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; standard output by default.")
]

OracleName = Annotated[
    str | None,
    typer.Option(
        "--oracle",
        help="What may change in a row: identity (nothing), fscale, fdrop, fadd, fedit, box, segment,"
        " shifts, rotations, scalings, shears, flip or permutations. Of counted texts fdrop and fadd are"
        " about tokens that are deleted or inserted. By default identity with --kernel and for"
        " sentences, fscale otherwise.",
    ),
]
OnlyFor = Annotated[
    str | None,
    typer.Option(
        "--only-for", help="Labels, with commas between, whose rows may change; all by default."
    ),
]
MaxChanges = Annotated[
    int | None,
    typer.Option(help="Edited words per row, or tokens per text (fscale, fdrop, fadd, fedit)."),
]
Low = Annotated[float | None, typer.Option(help="Smallest factor of an edited value (fscale).")]
High = Annotated[float | None, typer.Option(help="Largest factor of an edited value (fscale).")]
Value = Annotated[float | None, typer.Option(help="What an absent value is raised by; 1 (fadd).")]
Present = Annotated[
    bool | None, typer.Option("--present/--absent", help="Raise values that are there, too (fadd).")
]
Add = Annotated[
    float | None,
    typer.Option(help="What an absent value is raised by; nothing is added without (fedit)."),
]
Drop = Annotated[bool | None, typer.Option("--drop/--no-drop", help="Drop words; yes (fedit).")]
Scale = Annotated[str | None, typer.Option(help="Factors of values, such as 0.5,2 (fedit).")]
Radius = Annotated[float | None, typer.Option(help="Largest move of any value, zeros too (box).")]
Pixels = Annotated[str | None, typer.Option(help="Lengths of shifts, such as 1,2 (shifts).")]
Degrees = Annotated[str | None, typer.Option(help="Angles, such as -10,10 (rotations).")]
Factors = Annotated[str | None, typer.Option(help="Factors, such as 0.9,1.1 (scalings, shears).")]
Shape = Annotated[str | None, typer.Option(help="Height x width of images; square by default.")]

C = Annotated[
    str,
    typer.Option(
        "--C",
        help="Weight of the losses; auto tries 1e-4 to 100 on held-out folds, and takes the highest "
        "certified accuracy among clean ones within a standard error of the best (without an oracle the "
        "highest accuracy).",
    ),
]
ClassWeight = Annotated[
    str | None, typer.Option(help="Factors of C: balanced, or such as spam=2,ham=1.")
]
Kernel = Annotated[
    KernelName | None, typer.Option(help="A kernel machine, on dense rows; linear by default.")
]
Gamma = Annotated[str | None, typer.Option(help="Of the kernel: scale, auto or a number.")]
Degree = Annotated[int | None, typer.Option(help="Of the kernel poly.")]
SolverName = Annotated[str, typer.Option("--solver", help="auto, or a solver's name.")]
Tol = Annotated[float, typer.Option(help="Relative gap at which training ends.")]
AcceptGap = Annotated[
    float | None,
    typer.Option(help="Largest relative gap of a model worth saving; --tol by default."),
]
MaxSeconds = Annotated[float | None, typer.Option(help="End training after this time.")]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the solver.")]
Words = Annotated[
    Vectorizer,
    typer.Option(
        "--vectorizer",
        help="Text: counts, log(1 + count), or weighted counts; certificates about tokens need counts.",
    ),
]
UnitLength = Annotated[
    bool,
    typer.Option("--unit-length", help="Text: scale rows to length 1 (certificates hold only nearly)."),
]
TextKey = Annotated[str, typer.Option(help="Text: key of the text.")]
LabelKey = Annotated[str, typer.Option(help="Text: key of the label. Table: column of the label.")]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="SVMlight: the first feature's number; found out by default.",
    ),
]

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        help="What training of a linear machine of rows may hold in memory beside the rows, such as 4GB;"
        " of a folder of rows most of the free memory by default.",
    ),
]

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="SVMlight rows or JSON lines of texts, plain, gzip or xz, or a Parquet file of numbers or"
        " texts; - reads standard input.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder to write.", show_default=False)
]
StoredType = Annotated[DataType, typer.Option("--dtype", help="The type of stored values.")]
NFeatures = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="SVMlight: number of columns, by default the largest feature number. Text: number of"
        " columns that words are hashed into, by default 1048576.",
    ),
]
Vocabulary = Annotated[
    Path | None,
    typer.Option(help="Text: a file with a word a line. These words are counted, and none is hashed."),
]
Unlabeled = Annotated[bool, typer.Option("--unlabeled", help="Text and Parquet: read no labels.")]
ColumnKey = Annotated[str, typer.Option("--text-key", help="Text: key, or Parquet column, of the text.")]
LabelColumn = Annotated[
    str, typer.Option("--label-key", help="Text: key of the label. Parquet: column of the label.")
]
FirstFeature = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="SVMlight: the first feature's number. Found out by default: 0 if a row uses the number 0."
        " If the first such row comes late, the indices written before it are written again.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an older folder of rows.")]

Certify = Annotated[
    bool, typer.Option("--certify", help="Add whether no allowed edit changes the label.")
]
Scores = Annotated[
    bool, typer.Option("--scores", help="Add decision values: one, or one a class for three or more.")
]
Threshold = Annotated[
    float | None,
    typer.Option(help="Two classes: the decision value above which the second is answered; 0."),
]
Row = Annotated[int, typer.Option(help="The row of DATA, counted from 0.", show_default=False)]
