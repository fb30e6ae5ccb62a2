"""Reports of model files as HTML, with the hashes of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from os import PathLike
from pathlib import Path
from typing import Any

from ..datasets.opening import Source, name_of
from ..oracles import ImageShape
from ..report.writing import page
from ..rows import RowFolder
from .kinds import Data
from .model_file import SavedModel
from .tasks import task_of


@dataclass(frozen=True)
class ReportOptions:
    """Options of `report`."""

    title: str
    sizes: list[int] | None
    n_examples: int
    shape: ImageShape | None


def edit_numbers(text: str | None) -> list[int] | None:
    """Parse ``--sizes``, numbers of edits such as ``0,1,2,5``."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(
            f"--sizes must be integers >= 0 separated by commas, such as 0,1,2, got {text!r}"
        )
    return [int(part) for part in parts]


def model_report(saved: SavedModel, source: Data, X: Any, y: Any, options: ReportOptions) -> bytes:
    """Return the report of a model file on labeled data."""
    oracle = saved.classifier.oracle
    if options.sizes is not None and (oracle is None or oracle.counted() is None):
        raise ValueError(
            f"--sizes requires an oracle with a number of edits, but MODEL has {saved.perturbations}: "
            "remove --sizes"
        )
    if task_of(saved.features).explains:
        saved.check_labels(y)
    subject = saved.subject(source, X, y, options.shape, data_facts(source))
    return page(subject, n_changes=options.sizes, n_examples=options.n_examples, title=options.title)


def data_facts(source: Data) -> dict[str, str]:
    """Return the name and the hash of the test data."""
    if isinstance(source, RowFolder):
        name, digest = str(source.path), folder_hash(source.path)
    else:
        name, digest = name_of(source), file_hash(source)
    return {"Test data": name, "Test data, SHA-256": digest}


def file_hash(source: Source) -> str:
    """Return the SHA-256 of a file, or of a stream from its start."""
    if isinstance(source, (str, PathLike)):
        with open(source, "rb") as stream:
            return file_digest(stream, "sha256").hexdigest()
    source.seek(0)
    return sha256(source.read()).hexdigest()


def folder_hash(folder: Path) -> str:
    """Return the SHA-256 of a list of the folder's files with their hashes."""
    files: Sequence[Path] = sorted(path for path in folder.iterdir() if path.is_file())
    lines = "".join(f"{file_hash(path)}  {path.name}\n" for path in files)
    return f"{sha256(lines.encode()).hexdigest()} (of the output of sha256sum *)"
