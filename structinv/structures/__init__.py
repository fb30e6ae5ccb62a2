"""Output structures: classes, numbers, sequences, graphs, label sets, custom."""

from .base import Structure
from .classes import Binary, Multiclass, Regression, RowStructure
from .custom import Custom, check_custom
from .decodings import Decoding, Layout
from .graph import Graph
from .multilabel import Multilabel
from .sequence import Sequence
from .structure_checks import check_structure

REGISTRY: dict[str, type[Structure]] = {
    "binary": Binary,
    "graph": Graph,
    "multiclass": Multiclass,
    "multilabel": Multilabel,
    "regression": Regression,
    "sequence": Sequence,
}

__all__ = [
    "Binary",
    "Custom",
    "Decoding",
    "Graph",
    "Layout",
    "Multilabel",
    "RowStructure",
    "Sequence",
    "Structure",
    "check_custom",
    "check_structure",
]
