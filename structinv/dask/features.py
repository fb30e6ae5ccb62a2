"""Features of orbits of rows in partitions: what is drawn comes from all rows, and answers are lazy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import dask
import numpy as np
import scipy.sparse as sp
from dask.delayed import delayed
from sklearn.utils.validation import check_is_fitted

from ..embeddings import OrbitFourier, OrbitNystroem
from ..embeddings.base import OrbitFeatures
from ..utils.fitted_state import learned_attributes
from ..utils.matrices import Matrix, refuse_half_or_masked, stack
from .collections import as_array, check_width, in_partitions, pieces, precision, refuse_bags
from .partition import Facts, alike, checked_rows, errors_of, widened


class PartitionedRows:
    """Rows in partitions, of which a fit asks for a few by their numbers.

    Parameters
    ----------
    parts : list of Delayed or Future
        Only those that have rows.
    facts : list of Facts
        About each of them.
    """

    ndim = 2

    def __init__(self, parts: Sequence[Any], facts: Sequence[Facts]) -> None:
        self.parts = list(parts)
        self.edges = np.cumsum([0, *(each.shape[0] for each in facts)])
        self.shape = int(self.edges[-1]), max(each.shape[1] for each in facts)
        self.dtype = np.result_type(*(each.dtype for each in facts))

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Refuse to load all rows, as kernels do that learn from all of them."""
        raise TypeError(
            "X must be an array in memory for kernels that are made positive semi-definite with all "
            "rows of fit, got a Dask collection: fit on a sample in memory"
        )

    def __getitem__(self, numbers: np.ndarray) -> Matrix:
        """Rows by their numbers among all, in that order."""
        owners = np.searchsorted(self.edges, numbers, side="right") - 1
        asked = np.unique(owners)
        take = delayed(_taken, pure=False)
        own = {p: numbers[owners == p] - self.edges[p] for p in asked}
        found = dask.compute(*(take(self.parts[p], own[p], self.shape[1]) for p in asked))
        order = np.concatenate([np.flatnonzero(owners == p) for p in asked])
        rows: Matrix = stack(found)[np.argsort(order)]
        return rows.astype(self.dtype, copy=False)


class DaskFeatures(OrbitFeatures):
    """Features of orbits that are fitted on partitions, and made of them when they are asked for."""

    # The transformer without Dask.
    _local_type: ClassVar[type[OrbitFeatures]]

    dtype_: np.dtype

    def to_local(self) -> Any:
        """The fitted transformer without Dask.

        Returns
        -------
        OrbitNystroem or OrbitFourier

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        local = self._local_type(**self.get_params(deep=False))
        for name, value in learned_attributes(self).items():
            if name != "dtype_":
                setattr(local, name, value)
        return local

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw what rows are compared with.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or rows in memory
            Rows in partitions, which are computed twice: to check all of them, and to take some. Pass
            ``X.persist()`` to read them once.
        y : ignored

        Returns
        -------
        object
            This transformer.

        Raises
        ------
        ValueError, TypeError
            For parameters or rows that cannot be used. The message names the partition, and what an
            earlier fit has learned stays.
        """
        super().fit(X, y)
        return self

    def transform(self, X: Any) -> Any:
        """The features of rows.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or rows in memory

        Returns
        -------
        (n_samples, n_components) dask Array, or array
            A Dask array for rows in partitions, with a block for each of them. float32 if the rows are,
            else float64; the rows of a list are taken to have the precision of those of `fit`.
        """
        if not in_partitions(X):
            return super().transform(X)
        check_is_fitted(self)
        refuse_bags("X", X)
        dtype = self._precision(X)
        model = delayed(self.to_local(), traverse=False, pure=False)
        ask = delayed(_features, pure=False)
        parts = [ask(p, model, part, dtype) for p, part in enumerate(pieces("X", X))]
        return as_array(parts, X, np.zeros((0, self.n_columns_), dtype))

    def _precision(self, X: Any) -> np.dtype:
        """Of the features of a collection, whose width is checked where it is known."""
        if isinstance(X, (list, tuple)):
            return self.dtype_
        check_width(X, self.n_features_in_)
        return precision(X)

    def _check_for_partitions(self) -> None:
        """Raise ValueError for parameters that ask for all rows at once."""

    def _read(self, X: Any) -> Any:
        if not in_partitions(X):
            rows = super()._read(X)
            self.dtype_ = rows.dtype
            return rows
        self._check_for_partitions()
        refuse_bags("X", X)
        parts, ask = pieces("X", X), delayed(_facts, pure=False)
        sparse = bool(self._rows["accept_sparse"])
        known = alike(dask.compute(*(ask(p, part, sparse) for p, part in enumerate(parts))))
        rows = PartitionedRows([parts[p] for p in known], list(known.values()))
        names = next(iter(known.values())).names
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_, self.dtype_ = rows.shape[1], rows.dtype
        return rows


class DaskOrbitNystroem(DaskFeatures, OrbitNystroem):
    """`OrbitNystroem` whose landmarks are rows of a Dask collection.

    Landmarks are drawn uniformly from all rows, wherever these are cut: the same rows in memory have the
    same landmarks for the same `random_state`. Dask's scheduler computes everything, which is the client
    of the process if there is one.

    Parameters
    ----------
    landmarks : {"random"}, default="random"
        The other ways of `OrbitNystroem` ask for all rows: fit on a sample in memory instead.
    oracle, kernel, n_components, layers, n_draws, tau, random_state
        See `OrbitNystroem`. A kernel with a `spectrum` takes rows in memory in `fit`.

    Attributes
    ----------
    dtype_ : dtype
        Of the rows of `fit`.
    landmarks_, landmark_indices_, normalization_, rank_, kernel_error_, orbit_kernel_, \
min_eigenvalue_, oracle_, seed_, n_draws_, n_columns_, n_features_in_, feature_names_in_
        See `OrbitNystroem`. Indices count through all partitions.

    Examples
    --------
    >>> import dask.array as da
    >>> from structinv.dask import DaskOrbitNystroem
    >>> from structinv.kernels import Gaussian
    >>> from structinv.oracles import Rotations
    >>> X = da.random.default_rng(0).normal(size=(1000, 16), chunks=(250, 16))
    >>> F = DaskOrbitNystroem(Rotations((90, 180, 270)), Gaussian(4.0), 50).fit_transform(X)
    >>> F.shape, F.chunks[0], F.dtype
    ((1000, 50), (250, 250, 250, 250), dtype('float64'))
    """

    _local_type = OrbitNystroem

    def _check_for_partitions(self) -> None:
        if self.landmarks != "random":
            raise ValueError(
                f"landmarks must be 'random' for rows in partitions, got {self.landmarks!r}: fit on a "
                "sample in memory"
            )


class DaskOrbitFourier(DaskFeatures, OrbitFourier):
    """`OrbitFourier` of rows in a Dask collection.

    Templates do not depend on rows: the same `random_state` gives those of `OrbitFourier`. Dask's
    scheduler computes everything, which is the client of the process if there is one.

    Parameters
    ----------
    oracle, kernel, n_components, layers, n_hidden, templates, n_draws, tau, random_state
        See `OrbitFourier`.

    Attributes
    ----------
    dtype_ : dtype
        Of the rows of `fit`.
    templates_, second_templates_, phases_, kernel_error_, orbit_kernel_, oracle_, seed_, n_draws_, \
n_columns_, n_features_in_, feature_names_in_
        See `OrbitFourier`.

    Examples
    --------
    >>> import dask.array as da
    >>> from structinv.dask import DaskOrbitFourier
    >>> from structinv.oracles import Rotations
    >>> X = da.random.default_rng(0).normal(size=(1000, 16), chunks=(250, 16))
    >>> F = DaskOrbitFourier(Rotations((90, 180, 270)), n_components=50).fit_transform(X)
    >>> F.shape, F.chunks[0], F.dtype
    ((1000, 50), (250, 250, 250, 250), dtype('float64'))
    """

    _local_type = OrbitFourier


def _facts(number: int, X: Any, sparse: bool) -> Facts:
    """The facts about the rows of a partition, whose number errors name."""
    with errors_of(number):
        refuse_half_or_masked("X", X)
        rows, names = checked_rows(X)
        if sp.issparse(rows) and not sparse:
            raise TypeError("X must be dense, got a sparse matrix: pass dense blocks")
    return Facts(rows.shape, rows.dtype, sp.issparse(rows), names, float(rows.shape[0]), None)


def _taken(X: Any, numbers: np.ndarray, width: int) -> Matrix:
    """Some rows of a partition, with so many features."""
    rows: Matrix = widened(checked_rows(X)[0][numbers], width)
    return rows


def _features(number: int, model: OrbitFeatures, X: Any, dtype: np.dtype) -> np.ndarray:
    """The features of a partition, which may have no rows."""
    with errors_of(number):
        if checked_rows(X)[0].shape[0] == 0:
            return np.zeros((0, model.n_columns_), dtype)
        found: np.ndarray = model.transform(widened(X, model.n_features_in_)).astype(dtype, copy=False)
        return found
