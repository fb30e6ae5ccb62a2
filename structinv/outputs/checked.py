"""The door through which the tables and choices of outputs come in: looked at once, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import answers
from ..matrices import Rows
from .base import Choice, EncodedOutput, Output


def encode(output: Output, y: np.ndarray, classes: np.ndarray | None = None) -> EncodedOutput:
    """``output.encode(y, classes)`` whose tables have been looked at.

    Parameters
    ----------
    output : Output
    y : (n,) array
    classes : (n_classes,) array, optional

    Raises
    ------
    TypeError, ValueError
        If a table is no array of real numbers, does not fit the others, or codes or groups lead out
        of what they number; the message names the class.
    """
    encoded = output.encode(y, classes)
    source = answers.method(output, "encode")
    if not isinstance(encoded, EncodedOutput):
        raise TypeError(f"{source} must return an EncodedOutput, got {type(encoded).__name__}")
    n_classes = len(encoded.classes)
    answers.integers(source, "codes", encoded.codes, (len(y),), n_classes)
    directions = answers.numbers(source, "directions", encoded.directions, ("a", n_classes, "k"))
    n_alternatives, _, n_outputs = directions.shape
    if n_alternatives == 0 or n_outputs == 0:
        raise ValueError(f"{source} must return directions of at least one alternative and output")
    margins = encoded.margin_directions
    tables = {
        "directions": directions,
        "margin_directions": answers.numbers(source, "margin_directions", margins, directions.shape),
        "rewards": answers.numbers(source, "rewards", encoded.rewards, directions.shape[:2]),
    }
    for name, table in tables.items():
        if table is not getattr(encoded, name):
            setattr(encoded, name, table)
    answers.number(source, "n_extra", encoded.n_extra, least=0)
    groups: Any = encoded.groups
    if groups is not None:
        answers.integers(source, "groups", groups, ("m",), len(y) + 1)
        if len(groups) < 2 or groups[0] != 0 or groups[-1] != len(y) or np.any(np.diff(groups) <= 0):
            raise ValueError(f"{source} must return groups that rise from 0 to {len(y)}, got {groups}")
    return encoded


def choose(
    output: EncodedOutput,
    blocks: Rows,
    gains: np.ndarray,
    rewards: np.ndarray,
    upper: np.ndarray,
    extra: np.ndarray,
    n_blocks: int,
) -> Choice:
    """``output.choose(blocks, gains, rewards, upper, extra)``, looked at.

    Raises
    ------
    TypeError, ValueError
        If it is no `Choice`, an array has another shape, or an alternative is none.
    """
    choice = output.choose(blocks, gains, rewards, upper, extra)
    source = answers.method(output, "choose")
    if not isinstance(choice, Choice):
        raise TypeError(f"{source} must return a Choice, got {type(choice).__name__}")
    n_rows, n_alternatives = gains.shape
    chosen: Any = choice.alternative
    chosen = answers.integers(source, "alternatives", chosen, (n_rows,), n_alternatives, least=-1)
    offsets = answers.numbers(source, "offsets", choice.offsets, (n_blocks,))
    bounds = answers.numbers(source, "upper", choice.upper, (n_blocks,), finite=False)
    if np.any(bounds == -np.inf):
        raise ValueError(f"{source} must return upper above -infinity")
    scale = choice.scale
    if scale is not None:
        scale = answers.numbers(source, "scale", scale, (n_blocks,))
    if choice.extra is not None:
        shape: Any = (n_blocks, len(extra))
        made: Any = choice.extra
        if sp.issparse(made) and made.shape == shape and made.format == "csr":
            answers.places(source, "extra", made)
        else:
            answers.numbers(source, "extra", made, shape)
    return Choice(chosen, offsets, bounds, scale, choice.extra)
