"""Estimate the memory and the run time of a fit in advance."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from ..oracles import InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.checked_lists import listed
from ..utils.jit import Stopwatch
from ..utils.matrices import Matrix
from .row_sources import some_rows
from .target_labels import one_a_row

# Numbers of samples in the two small fits for the estimate of seconds.
SMALL = (16, 32)
SMALL_SECONDS = 2.0
# Expected planes per row, and functions in memory, for linear models.
LINEAR_PLANES_OF_A_ROW = 4
LINEAR_PLANES_OF_A_CLASS = 16
LINEAR_FUNCTIONS_AT_ONCE = 8
# Number of rows whose listed perturbed samples are computed together, in linear models.
LINEAR_ROWS_AT_ONCE = 4096


class ResourceEstimateMixin:
    """Mixin of estimators with `estimate_memory` and `estimate_seconds`."""

    # Largest exponent of the number of rows in the run time.
    _largest_power = 2.0

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

    def estimate_seconds(self, X: Any, y: Any) -> float:
        """Estimate the run time of a fit in seconds on this computer.

        Two copies of this estimator are fitted, to 16 and to 32 samples. Their run times are
        extrapolated: the run time is assumed to grow as a power of the number of samples. The power is
        at least 1. It is at most 5/4 for linear models, 3 for ridge regression and 2 for all others.
        Compilation is not included, nor is the time to read samples in blocks.

        Expect errors of an order of magnitude in both directions: the estimate ignores the difficulty of
        the whole problem and the limits of caches. The estimate only distinguishes seconds from hours.

        For at most 32 samples the whole fit is run. Each small fit ends after two seconds, or after
        `max_seconds`, which also limits the estimate. If the first fit reaches its limit, the estimate
        is its time per sample times the number of samples, a lower bound.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.
        y : array-like of shape (n_samples,)
            Labels or targets. For up to 8 classes, the small fits use samples of all classes, equally
            many if possible.

        Returns
        -------
        float
            Estimated seconds.

        Raises
        ------
        ValueError, TypeError, MemoryError
            If `fit` would raise them.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC
        >>> X = np.random.default_rng(0).normal(size=(500, 20))
        >>> 0.0 < InvariantLinearSVC(random_state=0).estimate_seconds(X, X[:, 0] > 0) < 600.0
        True
        """
        n_rows = _num_samples(X)
        order = self._some(y, n_rows)
        times = []
        # The first fit is separate, because it also compiles functions and creates objects of the
        # process.
        for size in (min(SMALL[0], n_rows), *(min(size, n_rows) for size in SMALL)):
            rows = np.sort(order[:size])
            model: Any = clone(self)
            # Small fits write no files, and Ctrl-C ends all of them.
            parameters = model.get_params(deep=False)
            overrides: dict[str, Any] = {
                "checkpoint": None,
                "warm_start": False,
                "on_interrupt": "raise",
                "verbose": 0,
            }
            overrides["max_seconds"] = min(SMALL_SECONDS, parameters.get("max_seconds") or np.inf)
            known = {name: value for name, value in overrides.items() if name in parameters}
            model.set_params(**known)
            watch = Stopwatch()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(some_rows(X, rows), _safe_indexing(y, rows))
            times.append(watch.seconds)
            if times[0] > SMALL_SECONDS:
                return self._at_most(times[0] * max(1.0, n_rows / size))
        once, few, more = times
        if n_rows <= SMALL[1]:
            return more
        power = np.clip(np.log(more / few) / np.log(SMALL[1] / SMALL[0]), 1.0, self._largest_power)
        return self._at_most(max(once - few, 0.0) + more * (n_rows / SMALL[1]) ** power)

    def _some(self, y: Any, n_rows: int) -> np.ndarray:
        """Return indices of rows; the first few represent all rows."""
        return _alternating_classes(one_a_row(y, n_rows))

    def _at_most(self, seconds: float) -> float:
        """Limit an estimate to `max_seconds`, if it is set."""
        limit = getattr(self, "max_seconds", None)
        return float(seconds) if limit is None else min(float(seconds), float(limit))


def _alternating_classes(y: np.ndarray) -> np.ndarray:
    """Return row indices with alternating classes; unchanged for many distinct values."""
    # Labels may have several types, so they are compared as strings.
    classes, codes = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_inverse=True)
    if len(classes) > SMALL[0] // 2:
        return np.arange(len(y))
    rank = np.zeros(len(y), dtype=np.intp)
    for number in range(len(classes)):
        in_class = codes == number
        rank[in_class] = np.arange(np.sum(in_class))
    return np.lexsort((codes, rank))


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
