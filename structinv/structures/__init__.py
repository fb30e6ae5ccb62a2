"""What is predicted: classes, numbers, sequences and graphs of labels, structures of your own."""

from .base import RowStructure, Structure
from .binary import Binary
from .bound import BoundStructure
from .checks import StructureCheckError, check_structure
from .custom import Custom, check_custom
from .decodings import Decoding, Separation
from .graph import Graph
from .graph_layout import GraphLayout
from .layout import Layout
from .multiclass import Multiclass
from .multilabel import Multilabel, positions
from .regression import BoundRegression, Regression
from .rivals import LabelFunctions, Rivals
from .sequence import Sequence

REGISTRY: dict[str, type[Structure]] = {
    "binary": Binary,
    "graph": Graph,
    "multiclass": Multiclass,
    "multilabel": Multilabel,
    "regression": Regression,
    "sequence": Sequence,
}

__all__ = [
    "REGISTRY",
    "Binary",
    "BoundRegression",
    "BoundStructure",
    "Custom",
    "Decoding",
    "LabelFunctions",
    "Graph",
    "GraphLayout",
    "Layout",
    "Multiclass",
    "Multilabel",
    "Regression",
    "Rivals",
    "RowStructure",
    "Separation",
    "Sequence",
    "Structure",
    "StructureCheckError",
    "check_custom",
    "check_structure",
    "positions",
]
