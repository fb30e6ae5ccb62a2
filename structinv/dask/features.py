"""Features of the invariant kernel for samples in partitions."""

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
from .partition import Facts, check_consistent, checked_rows, errors_of, widened


class PartitionedRows:
    """Rows in partitions, with access to single rows by number."""

    ndim = 2

    def __init__(self, parts: Sequence[Any], facts: Sequence[Facts]) -> None:
        self.parts = list(parts)
        self.edges = np.cumsum([0, *(each.shape[0] for each in facts)])
        self.shape = int(self.edges[-1]), max(each.shape[1] for each in facts)
        self.dtype = np.result_type(*(each.dtype for each in facts))

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Raise TypeError, because kernels that are fitted to all rows would load them."""
        raise TypeError(
            "X must be an array in memory for kernels with a spectrum correction, got a Dask "
            "collection: "
            "fit on a subset in memory"
        )

    def __getitem__(self, numbers: np.ndarray) -> Matrix:
        """Return rows by their numbers among all rows, in the given order."""
        owners = np.searchsorted(self.edges, numbers, side="right") - 1
        used = np.unique(owners)
        take = delayed(_taken, pure=False)
        places = {p: numbers[owners == p] - self.edges[p] for p in used}
        parts = dask.compute(*(take(self.parts[p], places[p], self.shape[1]) for p in used))
        order = np.concatenate([np.flatnonzero(owners == p) for p in used])
        rows: Matrix = stack(parts)[np.argsort(order)]
        return rows.astype(self.dtype, copy=False)


class DaskFeatures(OrbitFeatures):
    """Base class of transformers that are fitted on partitions, with lazy features."""

    # The transformer without Dask.
    _local_type: ClassVar[type[OrbitFeatures]]

    dtype_: np.dtype

    def to_local(self) -> Any:
        """Convert to the fitted transformer without Dask.

        Returns
        -------
        OrbitNystroem or OrbitFourier
            Fitted transformer for samples in memory.

        Raises
        ------
        NotFittedError
            If the transformer is not fitted.
        """
        check_is_fitted(self)
        local = self._local_type(**self.get_params(deep=False))
        for name, value in learned_attributes(self).items():
            if name != "dtype_":
                setattr(local, name, value)
        return local

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the landmarks or the random templates.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or samples in memory
            Samples. Partitions are computed twice: for validation, and for landmarks. Pass
            ``X.persist()`` to compute them once.
        y : object
            Ignored.

        Returns
        -------
        object
            Fitted transformer.

        Raises
        ------
        ValueError, TypeError
            If parameters or samples are invalid. The message names the partition, and the attributes of
            an earlier fit stay.
        """
        super().fit(X, y)
        return self

    def transform(self, X: Any) -> Any:
        """Compute features of samples.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or samples in memory
            Samples.

        Returns
        -------
        dask Array or array of shape (n_samples, n_components)
            Features; lazy for collections, with one block per partition. The dtype is float32 for
            float32 samples, otherwise float64. For a list it is the dtype of the samples of `fit`.
        """
        if not in_partitions(X):
            return super().transform(X)
        check_is_fitted(self)
        refuse_bags("X", X)
        dtype = self._precision(X)
        model = delayed(self.to_local(), traverse=False, pure=False)
        compute = delayed(_features, pure=False)
        parts = [compute(p, model, part, dtype) for p, part in enumerate(pieces("X", X))]
        return as_array(parts, X, np.zeros((0, self.n_columns_), dtype))

    def _precision(self, X: Any) -> np.dtype:
        """Return the dtype of the features; raise ValueError for a wrong number of columns."""
        if isinstance(X, (list, tuple)):
            return self.dtype_
        check_width(X, self.n_features_in_)
        return precision(X)

    def _check_for_partitions(self) -> None:
        """Raise ValueError for parameters that require all rows in memory."""

    def _read(self, X: Any) -> Any:
        if not in_partitions(X):
            rows = super()._read(X)
            self.dtype_ = rows.dtype
            return rows
        self._check_for_partitions()
        refuse_bags("X", X)
        parts, check = pieces("X", X), delayed(_facts, pure=False)
        sparse = bool(self._rows["accept_sparse"])
        filled = check_consistent(
            dask.compute(*(check(p, part, sparse) for p, part in enumerate(parts)))
        )
        rows = PartitionedRows([parts[p] for p in filled], list(filled.values()))
        names = next(iter(filled.values())).names
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_, self.dtype_ = rows.shape[1], rows.dtype
        return rows


class DaskOrbitNystroem(DaskFeatures, OrbitNystroem):
    """Nystroem features of the invariant kernel, for Dask collections.

    Landmarks are drawn uniformly from all samples, independently of the partitions. For the same
    `random_state`, `OrbitNystroem` draws the same landmarks from the samples in memory. The computations
    use the client of the process, or Dask's default scheduler.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        Transformations for the average; none by default.
    kernel : Kernel, optional
        Base kernel; ``Gaussian()`` by default. In `fit`, a kernel with a `spectrum` requires samples in
        memory.
    n_components : int, default=100
        Number of landmarks and of features; at most the number of samples.
    landmarks : {"random"}, default="random"
        Choice of landmarks. Other values of `OrbitNystroem` require samples in memory.
    layers : {1, 2}, default=1
        Number of kernels: 1 for the invariant kernel, 2 for `structinv.kernels.OrbitDistance`.
    n_draws : int, optional
        Number of drawn transformations. Default: all transformations of a finite oracle.
    tau : float, default=1.0
        Length scale of the second layer (> 0).
    random_state : int, RandomState or None, default=0
        Seed of the landmarks and of the drawn transformations.

    Attributes
    ----------
    dtype_ : dtype
        Dtype of the samples of `fit`.
    landmark_indices_ : array of int of shape (n_components,)
        Indices of the landmarks among the samples of all partitions.
    landmarks_, normalization_, rank_, kernel_error_, orbit_kernel_, min_eigenvalue_, oracle_, seed_, \
n_draws_, n_columns_, n_features_in_, feature_names_in_
        Fitted attributes of `OrbitNystroem`.

    See Also
    --------
    structinv.embeddings.OrbitNystroem : The same features for samples in memory.
    DaskOrbitFourier : Random features without landmarks.

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
                f"landmarks must be 'random' for samples in partitions, got {self.landmarks!r}: fit on "
                "a "
                "subset in memory"
            )


class DaskOrbitFourier(DaskFeatures, OrbitFourier):
    """Random Fourier features of the invariant kernel, for Dask collections.

    The templates are random vectors, which do not depend on the samples. For the same `random_state`,
    `OrbitFourier` has the same templates. The computations use the client of the process, or Dask's
    default scheduler.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        Transformations for the average; none by default.
    kernel : Kernel, optional
        Base kernel with a spectral density, such as Gaussian, Laplacian, Matern or RationalQuadratic;
        ``Gaussian()`` by default.
    n_components : int, default=100
        Number of features.
    layers : {1, 2}, default=1
        Number of kernels: 1 for the invariant kernel, 2 for `structinv.kernels.OrbitDistance`.
    n_hidden : int, optional
        Number of features of the first of two layers; `n_components` by default.
    templates : {"orthogonal", "gaussian"}, default="orthogonal"
        Sampling method of the templates. "orthogonal" requires a kernel of Euclidean
        distances, unlike Laplacian.
    n_draws : int, optional
        Number of drawn transformations. Default: all transformations of a finite oracle.
    tau : float, default=1.0
        Length scale of the second layer (> 0).
    random_state : int, RandomState or None, default=0
        Seed of the templates and of the drawn transformations.

    Attributes
    ----------
    dtype_ : dtype
        Dtype of the samples of `fit`.
    templates_, second_templates_, phases_, kernel_error_, orbit_kernel_, oracle_, seed_, n_draws_, \
n_columns_, n_features_in_, feature_names_in_
        Fitted attributes of `OrbitFourier`.

    See Also
    --------
    structinv.embeddings.OrbitFourier : The same features for samples in memory.
    DaskOrbitNystroem : Features from landmarks, for any kernel.

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
    """Return the facts about the rows of a partition; errors name the partition."""
    with errors_of(number):
        refuse_half_or_masked("X", X)
        rows, names = checked_rows(X)
        if sp.issparse(rows) and not sparse:
            raise TypeError("X must be dense, got a sparse matrix: pass dense blocks")
    return Facts(rows.shape, rows.dtype, sp.issparse(rows), names, float(rows.shape[0]), None)


def _taken(X: Any, numbers: np.ndarray, width: int) -> Matrix:
    """Return some rows of a partition, widened to a number of features."""
    rows: Matrix = widened(checked_rows(X)[0][numbers], width)
    return rows


def _features(number: int, model: OrbitFeatures, X: Any, dtype: np.dtype) -> np.ndarray:
    """Return the features of a partition, which may be empty."""
    with errors_of(number):
        if checked_rows(X)[0].shape[0] == 0:
            return np.zeros((0, model.n_columns_), dtype)
        features: np.ndarray = model.transform(widened(X, model.n_features_in_))
        return features.astype(dtype, copy=False)
