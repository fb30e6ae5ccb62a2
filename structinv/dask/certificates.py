"""Certificates of rows in partitions: arrays stay on the cluster, and their means are reduced there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed


@dataclass(frozen=True)
class LazyRows:
    """Arrays with a number for each row in partitions, made of objects with the same attributes.

    The attribute `exact` is of bool, all others of float64.
    """

    @classmethod
    def of_parts(cls, parts: Sequence[Delayed], heights: Sequence[float]) -> Self:
        """From an object for each partition, and how many rows each has."""
        of = delayed(_attribute, pure=False)
        arrays = {}
        for name in [each.name for each in fields(cls)]:
            kind = np.bool_ if name == "exact" else np.float64
            blocks = [
                da.from_delayed(of(part, name), shape=(height,), dtype=kind)
                for part, height in zip(parts, heights, strict=True)
            ]
            arrays[name] = da.concatenate(blocks, allow_unknown_chunksizes=True)
        return cls(**arrays)


def _attribute(whole: Any, name: str) -> np.ndarray:
    found: np.ndarray = getattr(whole, name)
    return found


@dataclass(frozen=True)
class DaskCertificate(LazyRows):
    """What is proven about rows in partitions; see `structinv.certificates.Certificate`.

    Parameters
    ----------
    margins, attacked : (n,) dask Array of float64
    exact : (n,) dask Array of bool
    """

    margins: da.Array
    attacked: da.Array
    exact: da.Array

    @property
    def correct(self) -> da.Array:
        """Rows that no allowed change can turn, (n,) dask Array of bool."""
        return self.margins > 0

    @property
    def accuracy(self) -> float:
        """Share of rows that no allowed change can turn; reduced on the workers."""
        return float(self.correct.mean().compute())

    @property
    def attacked_accuracy(self) -> float:
        """Share of rows that the changes found by the oracle do not turn; reduced on the workers."""
        return float((self.attacked > 0).mean().compute())


@dataclass(frozen=True)
class DaskPredictionBounds(LazyRows):
    """Between which numbers predictions of rows in partitions stay; see `PredictionBounds`.

    Parameters
    ----------
    lowest, highest : (n,) dask Array of float64
    exact : (n,) dask Array of bool
    """

    lowest: da.Array
    highest: da.Array
    exact: da.Array

    @property
    def width(self) -> da.Array:
        """How much a prediction can change at most, (n,) dask Array."""
        return self.highest - self.lowest
