"""Answers of structures: labellings that score highest, or that violate margins most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import answers
from ..matrices import Matrix
from .layout import Layout

if TYPE_CHECKING:
    from .base import Structure


@dataclass(frozen=True)
class Decoding:
    """The labelling of each example that scores highest.

    Parameters
    ----------
    labels : (n_rows,) array of int
        A label for each row.
    upper : (n_blocks,) array, optional
        A bound on the highest score of each example; None where `labels` reach it.
    levels : (n_rows,) array of int, optional
        Which level of its potentials each row uses, where they have a third axis of levels.
    shares : (n_rows, n_labels) array, optional
        Of relaxed inference: how much of each label a row has, of more than `labels` reach.
    features : (n_blocks, n_extra) array or CSR matrix, optional
        What multiplies the extra parameters where labels have these shares.
    """

    labels: np.ndarray
    upper: np.ndarray | None = None
    levels: np.ndarray | None = None
    shares: np.ndarray | None = None
    features: Any = None


@dataclass(frozen=True)
class Separation:
    """The labelling of each block that violates its margin most.

    Parameters
    ----------
    labels : (n_rows,) array of int
        A label for each row; all of them true where nothing violates a margin.
    upper : (n_blocks,) array
        Bound on the block's loss, the maximum over all labellings and changes.
    scale : (n_blocks,) array, optional
        Factor of what labels win (slack rescaling of whole labellings); 1 by default.
    levels : (n_rows,) array of int, optional
        Which level each row uses, where `found` has a third axis of levels.
    shares, features : optional
        Of relaxed inference, as in `Decoding`; they take the place of `labels`.
    """

    labels: np.ndarray
    upper: np.ndarray
    scale: np.ndarray | None = None
    levels: np.ndarray | None = None
    shares: np.ndarray | None = None
    features: Any = None


def decoded(structure: Structure, potentials: np.ndarray, extra: np.ndarray, layout: Layout) -> Decoding:
    """``structure.decode(potentials, extra, layout)``, looked at.

    Structures are not asked about infinite potentials, which stand for bounds that nobody knows: the
    bounds of such examples are infinite, whatever their labels.

    Raises
    ------
    TypeError, ValueError
        If it is no `Decoding`, an array has another shape, or a label is none; the message names the
        class.
    """
    asked, unbounded = without_infinities(potentials, layout)
    source = answers.method(structure, "decode")
    answer = structure.decode(asked, extra, layout)
    found = check_decoding(source, answer, potentials.shape, layout, len(extra))
    if unbounded is None:
        return found
    upper = found.upper
    if upper is None:
        upper = structure.score(asked, found.labels, extra, layout, found.levels)
    return replace(found, upper=np.where(unbounded, np.inf, upper))


def without_infinities(potentials: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray | None]:
    """Potentials below infinity, and which examples had others, (n_blocks,) of bool; None if none."""
    if np.max(potentials, initial=-np.inf) != np.inf:
        return potentials, None
    known = potentials < np.inf
    rows = ~np.all(known.reshape(len(known), -1), axis=1)
    return np.where(known, potentials, 0.0), layout.sums(rows.astype(np.int64)) > 0


def check_decoding(
    source: str, found: Any, shape: tuple[int, ...], layout: Layout, n_extra: int
) -> Decoding:
    """An answer as a decoding of so many rows, labels and levels, or an error that names its source."""
    if not isinstance(found, Decoding):
        raise TypeError(f"{source} must return a Decoding, got {type(found).__name__}")
    labels = answers.integers(source, "labels", found.labels, shape[:1], shape[1])
    upper = found.upper
    if upper is not None:
        upper = answers.numbers(source, "upper", upper, (len(layout),), finite=False)
    levels = check_levels(source, found.levels, shape, layout)
    return Decoding(labels, upper, levels, *check_shares(source, found, shape, (len(layout), n_extra)))


def check_levels(source: str, levels: Any, shape: tuple[int, ...], layout: Layout) -> np.ndarray | None:
    """The level of each row, None where there are none, or an error that names its source."""
    if len(shape) == 2:
        return None
    found = answers.integers(source, "levels", levels, shape[:1], shape[2])
    used = layout.sums(found)
    if np.any(used >= shape[2]):
        raise ValueError(
            f"{source} must return levels that add up to at most {shape[2] - 1} in each example, got "
            f"{used.max()}"
        )
    return found


def check_shares(
    source: str, found: Any, shape: tuple[int, ...], of_features: tuple[int, int]
) -> tuple[Any, Any]:
    """Shares and features of an answer, looked at; two times None where it has no shares."""
    if found.shares is None:
        return None, None
    shares = answers.numbers(source, "shares", found.shares, shape)
    if np.any(shares < 0) or np.any(np.abs(shares.sum(axis=1) - 1.0) > 1e-9):
        raise ValueError(f"{source} must return shares of at least 0 that add up to 1 in each row")
    return shares, check_features(source, found.features, of_features)


def check_features(source: str, found: Any, shape: tuple[int, int]) -> Matrix:
    """Features of examples, an array or a CSR matrix of this shape, looked at."""
    if sp.issparse(found) and found.shape == shape and found.format == "csr":
        answers.places(source, "features", found)
        return found
    return answers.numbers(source, "features", found, shape)
