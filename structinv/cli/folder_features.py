"""Columns of a folder of rows, which are read in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ..datasets.opening import Source, kind_of, name_of
from ..rows import RowFolder, RowSource
from .features import Features, ReadOptions
from .folder_rows import column_notes, rows_for
from .row_files import SAID, Labels, NumberedFeatures


@dataclass(frozen=True)
class FolderFeatures(Features):
    """Columns of a folder that `structinv convert` or `RowWriter` wrote.

    Parameters
    ----------
    n_features : int
    columns : dict
        What the folder's notes say of its columns.
    """

    trained_on: ClassVar[str] = "a folder of rows"
    options: ClassVar[frozenset[str]] = frozenset({"memory_limit"})

    n_features: int
    columns: dict[str, Any]

    @classmethod
    def learn(cls, source: RowFolder, reading: ReadOptions) -> tuple[Self, RowFolder, Labels]:
        """The rows of a training folder, of which none is read yet, and its labels."""
        if reading.dense_for is not None:
            raise ValueError(
                f"{reading.dense_for} takes dense rows, and the folder {source.path} has sparse ones: "
                "train on a file, or take an oracle for sparse rows, such as fscale, fdrop or fadd"
            )
        return cls(source.shape[1], column_notes(source)), source, labels_of(source)

    def read(self, source: Source, ignore_new: bool = False) -> tuple[Any, Labels]:
        """Rows of an SVMlight file, if the training folder came from one, and labels."""
        first, kind = self.columns.get("first_feature"), kind_of(source)
        if first is None or kind != "svmlight":
            raise ValueError(
                f"the model was trained on a folder of rows, and {name_of(source)} holds {SAID[kind]}: "
                "write it to a folder, with structinv convert and the options of the training folder"
            )
        return NumberedFeatures(self.n_features, first == 0).read(source, ignore_new)

    def read_folder(self, rows: RowFolder, ignore_new: bool = False) -> RowSource:
        return rows_for(self.n_features, self.columns, rows, ignore_new)

    def name(self, column: int) -> str:
        """What the folder's notes call a column, or its number from 0."""
        names = self.columns.get("columns", ())
        # A column of texts has a number for each word.
        if len(names) == self.n_features:
            return str(names[column])
        return str(column + self.columns.get("first_feature", 0))

    def notes(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"kind": "folder", "columns": self.columns}


def labels_of(rows: RowFolder) -> Labels:
    """The labels of a folder; ValueError if it has none."""
    labels = rows.labels
    if labels is None:
        raise ValueError(
            f"{rows.path} has no labels: it was written without; convert the file again, with labels"
        )
    return labels
