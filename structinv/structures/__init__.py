"""What is predicted: classes, numbers, sequences and graphs of labels, structures of your own."""

from .base import Decoding, RowStructure, Separation, Structure
from .binary import Binary
from .bound import BoundStructure
from .checks import StructureCheckError, check_structure
from .graph import Graph
from .graph_layout import GraphLayout
from .layout import Layout
from .multiclass import Multiclass
from .regression import BoundRegression, Regression
from .rivals import LabelFunctions, Rivals
from .sequence import Sequence

REGISTRY: dict[str, type[Structure]] = {
    "binary": Binary,
    "graph": Graph,
    "multiclass": Multiclass,
    "regression": Regression,
    "sequence": Sequence,
}

__all__ = [
    "REGISTRY",
    "Binary",
    "BoundRegression",
    "BoundStructure",
    "Decoding",
    "LabelFunctions",
    "Graph",
    "GraphLayout",
    "Layout",
    "Multiclass",
    "Regression",
    "Rivals",
    "RowStructure",
    "Separation",
    "Sequence",
    "Structure",
    "StructureCheckError",
    "check_structure",
]
