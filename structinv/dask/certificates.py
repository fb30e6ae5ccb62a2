"""Certificates of rows in partitions: arrays stay on the cluster, and their means are reduced there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed

from ..certificates.certificate import Certificate
from ..certificates.predictions import PredictionBounds


def _attribute(whole: Any, name: str) -> np.ndarray:
    found: np.ndarray = getattr(whole, name)
    return found


class LazyRows:
    """Arrays with a number for each row in partitions, made of objects with the same attributes.

    Attributes
    ----------
    kinds : dict of str to dtype
        The types of the arrays, by name.
    nothing : object
        What is said of no rows.
    """

    kinds: ClassVar[dict[str, Any]]
    nothing: ClassVar[Any]

    @classmethod
    def of_parts(cls, parts: Sequence[Delayed], heights: Sequence[float]) -> Self:
        """From an object for each partition, and how many rows each has; NaN where that is not known."""
        of = delayed(_attribute, pure=False)
        arrays = {}
        for name, kind in cls.kinds.items():
            blocks = [
                da.from_delayed(of(part, name), shape=(height,), dtype=kind)
                for part, height in zip(parts, heights, strict=True)
            ]
            arrays[name] = da.concatenate(blocks, allow_unknown_chunksizes=True)
        return cls(**arrays)


@dataclass(frozen=True)
class DaskCertificate(LazyRows):
    """What is proven about rows in partitions; see `structinv.certificates.Certificate`.

    ``dask.persist(certificate)`` and ``dask.compute(certificate)`` return a tuple of one certificate,
    whose arrays are computed: on the workers, or as arrays of NumPy. Otherwise each array is
    computed anew.

    Parameters
    ----------
    margins, attacked : (n,) dask Array of float64
    exact : (n,) dask Array of bool
    """

    margins: da.Array
    attacked: da.Array
    exact: da.Array

    kinds = {"margins": np.float64, "attacked": np.float64, "exact": np.bool_}
    nothing = Certificate(np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))

    @property
    def correct(self) -> da.Array:
        """Rows that no allowed change can turn, (n,) dask Array of bool."""
        return self.margins > 0

    @property
    def accuracy(self) -> float:
        """Share of rows that no allowed change can turn; reduced on the workers."""
        return float(dask.compute(self.correct.mean())[0])

    @property
    def attacked_accuracy(self) -> float:
        """Share of rows that the changes found by the oracle do not turn; reduced on the workers."""
        return float(dask.compute((self.attacked > 0).mean())[0])


@dataclass(frozen=True)
class DaskExampleCertificate(DaskCertificate):
    """What is proven about examples of several rows in partitions; see `Certificate`.

    Parameters
    ----------
    margins, attacked : (n,) dask Array of float64
    exact : (n,) dask Array of bool
    most_wrong, lengths : (n,) dask Array of int64
    """

    most_wrong: da.Array
    lengths: da.Array

    kinds = DaskCertificate.kinds | {"most_wrong": np.int64, "lengths": np.int64}
    nothing = replace(
        DaskCertificate.nothing,
        most_wrong=np.zeros(0, dtype=np.int64),
        lengths=np.zeros(0, dtype=np.int64),
    )

    @property
    def position_accuracy(self) -> float:
        """At least this share of positions is right, whatever changes; reduced on the workers."""
        wrong, size = dask.compute(self.most_wrong.sum(), self.lengths.sum())
        return 1.0 - float(wrong / size)


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

    kinds = {"lowest": np.float64, "highest": np.float64, "exact": np.bool_}
    nothing = PredictionBounds(np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))

    @property
    def width(self) -> da.Array:
        """How much a prediction can change at most, (n,) dask Array."""
        return self.highest - self.lowest
