"""What is predicted: binary, multiclass, and structured outputs of your own."""

from .base import Choice, EncodedOutput, Output, RowOutput
from .binary import Binary
from .multiclass import Multiclass

REGISTRY: dict[str, type[Output]] = {"binary": Binary, "multiclass": Multiclass}

__all__ = ["REGISTRY", "Binary", "Choice", "EncodedOutput", "Multiclass", "Output", "RowOutput"]
