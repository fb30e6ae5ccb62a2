"""Certificates of samples in partitions, with arrays that stay on the cluster."""

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
    array: np.ndarray = getattr(whole, name)
    return array


class LazyRows:
    """Base class of lazy arrays with one value per sample in partitions."""

    kinds: ClassVar[dict[str, Any]]
    nothing: ClassVar[Any]

    @classmethod
    def of_parts(cls, parts: Sequence[Delayed], lengths: Sequence[float]) -> Self:
        """Combine the results of all partitions.

        Parameters
        ----------
        parts : list of Delayed
            One object per partition, with the attributes in `kinds`.
        lengths : list of float
            Number of samples of each partition; NaN if unknown.

        Returns
        -------
        LazyRows
            Lazy arrays over all partitions.
        """
        of = delayed(_attribute, pure=False)
        arrays = {}
        for name, kind in cls.kinds.items():
            blocks = [
                da.from_delayed(of(part, name), shape=(length,), dtype=kind)
                for part, length in zip(parts, lengths, strict=True)
            ]
            arrays[name] = da.concatenate(blocks, allow_unknown_chunksizes=True)
        return cls(**arrays)


@dataclass(frozen=True)
class DaskCertificate(LazyRows):
    """Certificate of samples in partitions, with Dask arrays.

    ``dask.persist(certificate)`` computes all arrays once and leaves them on the workers.
    ``dask.compute(certificate)`` converts them to NumPy arrays. Both return a tuple with one
    certificate. Without these calls, every use of an array computes it again.

    Parameters
    ----------
    margins : dask Array of shape (n_samples,)
        Lower bounds of the worst-case margins of true labels; without labels, of predicted labels.
    attacked : dask Array of shape (n_samples,)
        Margins under the perturbations that the oracle found.
    exact : dask Array of bool of shape (n_samples,)
        Whether the bound is tight.

    See Also
    --------
    structinv.certificates.Certificate : Certificate of samples in memory.
    DaskExampleCertificate : Certificate of examples of several samples.

    Examples
    --------
    >>> import dask.array as da
    >>> from structinv.dask import DaskCertificate
    >>> margins = da.from_array([0.5, -0.1], chunks=1)
    >>> certificate = DaskCertificate(margins, margins, margins > 0)
    >>> certificate.accuracy, certificate.correct.compute().tolist()
    (0.5, [True, False])
    """

    margins: da.Array
    attacked: da.Array
    exact: da.Array

    kinds = {"margins": np.float64, "attacked": np.float64, "exact": np.bool_}
    nothing = Certificate(np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))

    @property
    def correct(self) -> da.Array:
        """True for certified samples, dask Array of bool of shape (n_samples,)."""
        return self.margins > 0

    @property
    def accuracy(self) -> float:
        """Certified accuracy, computed on the workers.

        Without labels, it is the fraction of predictions that no perturbation changes.
        """
        return float(dask.compute(self.correct.mean())[0])

    @property
    def attacked_accuracy(self) -> float:
        """Attacked accuracy, computed on the workers.

        Without labels, it is the fraction of predictions that no perturbation found changes.
        """
        return float(dask.compute((self.attacked > 0).mean())[0])


@dataclass(frozen=True)
class DaskExampleCertificate(DaskCertificate):
    """Certificate of examples of several samples in partitions, with Dask arrays.

    Parameters
    ----------
    margins : dask Array of shape (n_examples,)
        Lower bounds of the worst-case margins of whole labelings.
    attacked : dask Array of shape (n_examples,)
        Margins under the perturbations that the oracle found.
    exact : dask Array of bool of shape (n_examples,)
        Whether the bound is tight.
    most_wrong : dask Array of int of shape (n_examples,)
        Upper bounds of the number of wrong labels in each example.
    lengths : dask Array of int of shape (n_examples,)
        Number of positions of each example.

    See Also
    --------
    DaskCertificate : Certificate of single samples.
    structinv.certificates.Certificate : Certificate of examples in memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from structinv.dask import DaskExampleCertificate
    >>> margins, wrong = da.from_array([0.5, -0.1], chunks=1), da.from_array([0, 1], chunks=1)
    >>> certificate = DaskExampleCertificate(margins, margins, margins > 0, wrong, wrong + 3)
    >>> round(certificate.position_accuracy, 3)
    0.857
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
        """Lower bound of the fraction of correct positions, computed on the workers.

        Without labels, it is a lower bound of the fraction of unchanged positions.
        """
        wrong, size = dask.compute(self.most_wrong.sum(), self.lengths.sum())
        return 1.0 - float(wrong / size)


@dataclass(frozen=True)
class DaskPredictionBounds(LazyRows):
    """Prediction bounds of samples in partitions, with Dask arrays.

    Parameters
    ----------
    lowest, highest : dask Array of shape (n_samples,)
        Bounds of the predictions under all allowed perturbations.
    exact : dask Array of bool of shape (n_samples,)
        Whether both bounds are tight.

    See Also
    --------
    structinv.certificates.PredictionBounds : Prediction bounds of samples in memory.
    DaskInvariantLinearSVR : Regressor whose `certify` returns these bounds.

    Examples
    --------
    >>> import dask.array as da
    >>> from structinv.dask import DaskPredictionBounds
    >>> lowest = da.from_array([0.0, 1.0], chunks=1)
    >>> DaskPredictionBounds(lowest, lowest + 0.5, lowest >= 0).width.compute()
    array([0.5, 0.5])
    """

    lowest: da.Array
    highest: da.Array
    exact: da.Array

    kinds = {"lowest": np.float64, "highest": np.float64, "exact": np.bool_}
    nothing = PredictionBounds(np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))

    @property
    def width(self) -> da.Array:
        """Largest minus smallest prediction, dask Array of shape (n_samples,)."""
        return self.highest - self.lowest
