"""Estimate the memory of a fit in advance."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.listed_changes import listed
from ..utils.matrices import Matrix

# Expected planes per row, and functions in memory, for linear models.
LINEAR_PLANES_OF_A_ROW = 4
LINEAR_PLANES_OF_A_CLASS = 16
LINEAR_FUNCTIONS_AT_ONCE = 8
# Number of rows whose listed perturbed samples are computed together, in linear models.
LINEAR_ROWS_AT_ONCE = 4096


class ResourceEstimateMixin:
    """Mixin of estimators with `estimate_memory`."""

    def estimate_memory(self, X: Any, y: Any = None) -> int:
        """Estimate the maximum memory of a fit in bytes, before the fit.

        The estimate includes memory that grows with samples, perturbed samples and functionals:

        - Linear models: 4 cutting planes per sample, and 8 copies of the weights. With several classes
          and an oracle that is not finite, 16 planes per sample and class. With a finite oracle, also
          the perturbed samples of one block of samples (or transformed weights) and their scores.
        - Kernel SVMs: the stored points, and kernel values between support vectors and points (at most
          `cache_mb`). The points are all perturbed samples if the cache is large enough for their kernel
          values, otherwise support vectors. Also scores of some functions at the points, 12 planes per
          sample, and inner products of planes (at most half of `cache_mb`). With `invariances`, also the
          Gram matrix of the functionals (at most `cache_mb`) and coefficients of their representers.
        - Models with smoothness penalties: a copy of `X`, and the Gram matrix of all functionals with
          its factors (at most five times `cache_mb`). For many functionals, matrices for fast products
          instead. Also some vectors with one coefficient per functional, and with an oracle the memory
          of a kernel SVM. All samples count as labeled.
        - Models of virtual samples: three copies of all virtual samples, and the cache of libsvm or the
          whole kernel matrix.

        `X` itself is only included for models with smoothness penalties. Temporary memory of oracles and
        kernels is not included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.
        y : array-like of shape (n_samples,) or None, default=None
            Labels or targets. Without labels the estimate assumes two classes. Oracles that depend on
            labels require them.

        Returns
        -------
        int
            Estimated bytes.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC, InvariantSVC
        >>> InvariantLinearSVC().estimate_memory(np.zeros((1000, 10))) < 1_000_000
        True
        >>> InvariantSVC(cache_mb=8.0).estimate_memory(np.zeros((1000, 10))) <= 8e6 * 1.5 + 1e6
        True
        """
        return int(self._memory(X, y))

    @abstractmethod
    def _memory(self, X: Any, y: Any) -> float:
        """Return the estimate of `estimate_memory` as a float."""


def named(bound: BoundOracle, size: int, n_rows: int) -> str:
    """Describe an oracle and its number of perturbed samples, for messages."""
    name = type(bound.oracle).__name__
    return (
        f"oracle {name}: {size} perturbed samples for each of {n_rows} rows, {size * n_rows} in total,"
    )


def linear_functions(n_features: int, n_outputs: int) -> float:
    """Return the bytes of all functions in the memory of a solver."""
    return LINEAR_FUNCTIONS_AT_ONCE * 8.0 * (n_features + 1) * n_outputs


def linear_memory(X: Matrix, bound: BoundOracle, n_outputs: int) -> tuple[float, int]:
    """Return the bytes of listed perturbed samples, and their number per row.

    If all perturbations are linear maps, the weights are transformed. Otherwise perturbed samples are
    listed for one portion of rows. Oracles without a list count as one perturbed sample.
    """
    oracle: InvarianceOracle = bound.oracle
    if not oracle.finite or not isinstance(X, np.ndarray):
        return 0.0, 1
    changes = listed(bound)
    size = changes.size
    rows = min(X.shape[0], LINEAR_ROWS_AT_ONCE)
    scores = 8.0 * rows * size * n_outputs
    if changes.adjoint(np.zeros((1, X.shape[1]))) is None:
        return 2 * scores + float(rows) * size * X.shape[1] * X.dtype.itemsize, size
    return 2 * scores + 3 * 8.0 * size * X.shape[1] * n_outputs, size


def virtual_memory(n_rows: int, size: int, n_features: int, itemsize: int) -> float:
    """Return the bytes of virtual samples: two copies here, and the copy of libsvm."""
    return float(n_rows) * size * n_features * (2 * itemsize + 8)
