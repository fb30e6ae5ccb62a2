"""Certificates of rows in partitions: arrays stay on the cluster, and their means are reduced there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed


def lazy_attributes(
    parts: Sequence[Delayed], heights: Sequence[float], kinds: dict[str, Any]
) -> dict[str, da.Array]:
    """Attributes of an object for each partition as arrays, by name and type."""
    arrays = {}
    for name, kind in kinds.items():
        of = delayed(_attribute, pure=False)
        blocks = [
            da.from_delayed(of(part, name), shape=(height,), dtype=kind)
            for part, height in zip(parts, heights, strict=True)
        ]
        arrays[name] = da.concatenate(blocks, allow_unknown_chunksizes=True)
    return arrays


def _attribute(whole: Any, name: str) -> np.ndarray:
    found: np.ndarray = getattr(whole, name)
    return found


@dataclass(frozen=True)
class DaskCertificate:
    """What is proven about rows in partitions; see `structinv.certificates.Certificate`.

    Parameters
    ----------
    margins, attacked : (n,) dask Array of float64
    exact : (n,) dask Array of bool
    """

    margins: da.Array
    attacked: da.Array
    exact: da.Array

    @classmethod
    def of_parts(cls, parts: Sequence[Delayed], heights: Sequence[float]) -> Self:
        """From a certificate of each partition."""
        kinds = {"margins": np.float64, "attacked": np.float64, "exact": np.bool_}
        return cls(**lazy_attributes(parts, heights, kinds))

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
class DaskPredictionBounds:
    """Between which numbers predictions of rows in partitions stay; see `PredictionBounds`.

    Parameters
    ----------
    lowest, highest : (n,) dask Array of float64
    exact : (n,) dask Array of bool
    """

    lowest: da.Array
    highest: da.Array
    exact: da.Array

    @classmethod
    def of_parts(cls, parts: Sequence[Delayed], heights: Sequence[float]) -> Self:
        """From the bounds of each partition."""
        kinds = {"lowest": np.float64, "highest": np.float64, "exact": np.bool_}
        return cls(**lazy_attributes(parts, heights, kinds))

    @property
    def width(self) -> da.Array:
        """How much a prediction can change at most, (n,) dask Array."""
        return self.highest - self.lowest
