"""Features of folders of rows, read in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ..datasets.opening import Source, kind_of, name_of
from ..rows import RowFolder, RowSource
from .features import Features, ReadOptions
from .folder_rows import column_notes, rows_for
from .row_files import FORMAT_NAMES, Labels, NumberedFeatures


@dataclass(frozen=True)
class FolderFeatures(Features):
    """Columns of a folder written by `structinv convert` or `RowWriter`.

    - `n_features`: number of columns
    - `columns`: notes of the folder on its columns
    """

    trained_on: ClassVar[str] = "a folder of rows"
    options: ClassVar[frozenset[str]] = frozenset({"memory_limit"})

    n_features: int
    columns: dict[str, Any]

    @classmethod
    def learn(cls, source: RowFolder, reading: ReadOptions) -> tuple[Self, RowFolder, Labels]:
        """Open a training folder, and return its features, unread rows and labels."""
        if reading.dense_for is not None:
            raise ValueError(
                f"{reading.dense_for} requires dense rows, but the folder {source.path} contains "
                "sparse rows: train on a file, or use an oracle for sparse rows, such as fscale, "
                "fdrop or fadd"
            )
        return cls(source.shape[1], column_notes(source)), source, labels_of(source)

    def read(self, source: Source, ignore_new: bool = False) -> tuple[Any, Labels]:
        """Read an SVMlight file, if the training folder was converted from one."""
        first, kind = self.columns.get("first_feature"), kind_of(source)
        if first is None or kind != "svmlight":
            raise ValueError(
                f"MODEL was trained on a folder of rows, but {name_of(source)} contains "
                f"{FORMAT_NAMES[kind]}: convert it with structinv convert and the same options"
            )
        return NumberedFeatures(self.n_features, first == 0).read(source, ignore_new)

    def read_folder(self, rows: RowFolder, ignore_new: bool = False) -> RowSource:
        return rows_for(self.n_features, self.columns, rows, ignore_new)

    def name(self, column: int) -> str:
        """Return the name of a column in the folder's notes, or its number."""
        names = self.columns.get("columns", ())
        # Names are those of the file. They are unusable if a column of texts became one column per word.
        if len(names) == self.n_features:
            return str(names[column])
        return str(column + self.columns.get("first_feature", 0))

    def notes(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        return {"kind": "folder", "columns": self.columns}


def labels_of(rows: RowFolder) -> Labels:
    """Return the labels of a folder."""
    labels = rows.labels
    if labels is None:
        raise ValueError(f"{rows.path} has no labels: convert the file again without --unlabeled")
    return labels
