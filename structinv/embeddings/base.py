"""Base class of feature maps of invariant kernels, and validation of their rows."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..kernels import Gaussian, Kernel, OrbitDistance, OrbitMean
from ..kernels.kernel_names import validate_kernel
from ..kernels.kernel_values import kernel_matrix
from ..oracles import Identity, InvarianceOracle
from ..oracles.base import as_oracle
from ..oracles.cache import Cache
from ..oracles.changes import Changes
from ..oracles.columns import check_strings, with_numbers
from ..oracles.images.image_borders import warn_of_fill
from ..oracles.listed_changes import averaged, check_n_draws, check_seed
from ..utils.matrices import Matrix, check_indices, dense, refuse_half_or_masked
from ..utils.parameters import check_number, columns_of, restored_on_error


def checked_rows(transformer: BaseEstimator, X: Any, *, reset: bool, **rules: Any) -> Matrix:
    """Return `X` validated by scikit-learn's `validate_data`, with its `rules`."""
    refuse_half_or_masked("X", X)
    check_indices("X", X)
    shape = getattr(X, "shape", ())
    if isinstance(X, (list, tuple)) and X and getattr(X[0], "ndim", 0) > 1:
        shape = (len(X), *X[0].shape)
    if len(shape) > 2:
        raise ValueError(
            f"X must have shape (n_samples, n_features), got {tuple(shape)}: pass "
            "np.reshape(X, (len(X), -1)), and "
            f"shape={tuple(shape[1:])} for images that are not square"
        )
    return validate_data(transformer, X, reset=reset, **rules)


def checked_random(random_state: Any) -> np.random.RandomState:
    """Return a RandomState."""
    allowed = "random_state must be an integer from 0 to 2**32 - 1, a numpy.random.RandomState or None"
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if whole and not 0 <= int(random_state) < 2**32:
        raise ValueError(f"{allowed}, got {random_state!r}")
    known = random_state is None or random_state is np.random
    if not (whole or known or isinstance(random_state, np.random.RandomState)):
        raise TypeError(f"{allowed}, got {random_state!r}")
    return check_random_state(random_state)


# Maximum number of rows for the kernel error of a fit, and of their transformed samples. Minimum number
# of rows.
HELD = 100
HELD_MEMBERS = 2048
LEAST_HELD = 5


class KernelError(NamedTuple):
    """Relative error of inner products of features, compared with a kernel matrix.

    - `spectral, frobenius`: errors in the spectral and in the Frobenius norm, divided by the norm of the
      kernel matrix
    """

    spectral: float
    frobenius: float


class OrbitFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer with averages over the transformations of an oracle as columns."""

    oracle: Any
    n_components: Any
    n_draws: Any
    random_state: Any
    n_columns_: int
    n_draws_: int | None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw random templates or landmarks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows. Sparse rows are supported if the class and the oracle support them. Features
            are float32 for float32 rows, else float64.
        y : Ignored
            Not used.

        Returns
        -------
        object
            The fitted transformer.

        Raises
        ------
        ValueError, TypeError
            If parameters or rows are invalid, before any work. The state of an earlier fit stays.
        """
        with restored_on_error(self):
            oracle = self._check_oracle()
            self._check_parameters()
            seed = self._seed()
            given = columns_of(X)
            if given is not None:
                check_strings(self, given)
            X = checked_rows(self, X, reset=True, **self._rows)
            warn_of_fill(self.oracle, X)
            self._kept = Cache()
            self.seed_, self.n_draws_ = seed, self.n_draws
            columns = getattr(self, "feature_names_in_", None)
            self.oracle_: InvarianceOracle = clone(with_numbers(oracle, columns))
            changes = self._changes()
            self.n_columns_ = int(self.n_components)
            self._learn(X, changes, np.random.default_rng([self.seed_, 1]))
        return self

    def transform(self, X: Any) -> Matrix:
        """Compute the features of rows in blocks, so a `numpy.memmap` stays on disk.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Features; their dtype is float32 if the rows are float32, else float64.
        """
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False, **self._rows)
        return self._features(X)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError if a parameter is out of its range."""

    @abstractmethod
    def _learn(self, X: Matrix, changes: Changes, rng: np.random.Generator) -> None:
        """Set the attributes that `transform` requires."""

    @abstractmethod
    def _features(self, X: Matrix) -> np.ndarray:
        """Compute `transform` of validated rows."""

    @property
    def _rows(self) -> dict[str, Any]:
        return {"dtype": [np.float64, np.float32], "accept_sparse": False}

    @property
    def _n_features_out(self) -> int:
        return self.n_columns_

    def _check_oracle(self) -> InvarianceOracle:
        check_n_draws(self.n_draws)
        return as_oracle(self.oracle, default=Identity())

    def _seed(self) -> int:
        """Return the seed of the draws: `random_state` itself if it is an integer."""
        if isinstance(self.random_state, Integral) and not isinstance(self.random_state, bool):
            check_seed(self.random_state)
            return int(self.random_state)
        return int(checked_random(self.random_state).randint(2**31 - 1))

    def _keep(self, name: str, make: Any) -> Any:
        """Return a cached object; a loaded transformer computes it again."""
        cache: Cache = self.__dict__.setdefault("_kept", Cache())
        return cache.get(name, make)

    def _changes(self) -> Changes:
        """Return the transformations that features are averages over."""
        return self._keep(
            "changes", lambda: averaged(self.oracle_, self.n_features_in_, self.n_draws_, self.seed_)
        )

    def __sklearn_tags__(self) -> Any:
        """Return the tags; the precision of the rows is preserved."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = bool(self._rows["accept_sparse"])
        return tags


class KernelFeatures(OrbitFeatures):
    """Features whose inner products approximate an invariant kernel."""

    kernel: Any
    layers: Any
    tau: Any
    oracle_: InvarianceOracle
    kernel_error_: KernelError

    def kernel_error(self, X: Any) -> KernelError:
        """Compute the relative error of inner products of features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. The exact kernel, `structinv.kernels.OrbitMean` or `OrbitDistance`, is computed for all
            pairs of rows, so pass a small sample.

        Returns
        -------
        KernelError
            The ratio ``|F F' - K| / |K|`` in the spectral and in the Frobenius norm (Raj et al. 2017,
            figure 1).
        """
        check_is_fitted(self)
        return self._error(checked_rows(self, X, reset=False, **self._rows))

    def _error(self, X: Matrix) -> KernelError:
        rows = dense(X).astype(np.float64, copy=False)
        features = self._features(X).astype(np.float64, copy=False)
        exact = kernel_matrix(self.orbit_kernel_, rows, rows)
        difference = features @ features.T - exact
        return KernelError(
            _ratio(float(np.linalg.norm(difference, 2)), float(np.linalg.norm(exact, 2))),
            _ratio(float(np.linalg.norm(difference)), float(np.linalg.norm(exact))),
        )

    def _check_kernel(self) -> Kernel:
        """Return the base kernel; raise TypeError or ValueError for invalid parameters."""
        kernel = Gaussian() if self.kernel is None else self.kernel
        validate_kernel("kernel", kernel, allowed="a Kernel or None")
        if not isinstance(self.layers, Integral) or isinstance(self.layers, bool):
            raise TypeError(f"layers must be 1 or 2, got {self.layers!r}")
        if self.layers not in (1, 2):
            raise ValueError(f"layers must be 1 or 2, got {self.layers!r}")
        check_number("tau", self.tau, strict=True)
        return kernel

    def _learn_kernel(self) -> Kernel:
        """Set the exact kernel and return the base kernel."""
        columns = getattr(self, "feature_names_in_", None)
        kernel = clone(with_numbers(self._check_kernel(), columns))
        kernel.validate(self.n_features_in_)
        changes: dict[str, Any] = {"n_draws": self.n_draws_, "random_state": self.seed_}
        self.orbit_kernel_: Kernel = (
            OrbitMean(self.oracle_, kernel, **changes)
            if self.layers == 1
            else OrbitDistance(self.oracle_, kernel, float(self.tau), **changes)
        )
        self.orbit_kernel_.validate(self.n_features_in_)
        return kernel

    def _learn_error(self, X: Matrix, landmarks: np.ndarray, rng: np.random.Generator) -> None:
        """Set `kernel_error_` from rows that are not landmarks, if there are any."""
        if len(landmarks) == X.shape[0]:
            landmarks = landmarks[:0]
        n_others = X.shape[0] - len(landmarks)
        most = max(LEAST_HELD, min(HELD, HELD_MEMBERS // self._changes().size))
        sample = np.sort(rng.choice(n_others, min(most, n_others), replace=False))
        # `sample` contains numbers among the rows without landmarks. Map them to numbers of all rows.
        sample += np.searchsorted(landmarks - np.arange(len(landmarks)), sample, side="right")
        self.kernel_error_ = self._error(X[sample])


def _ratio(error: float, size: float) -> float:
    return error / size if size > 0 else float(error > 0)
