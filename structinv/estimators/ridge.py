"""Kernel ridge regression that tells its leave-one-out predictions and its marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import check_scoring
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_matrix
from ..kernels.indefinite import trained_kernel
from ..kernels.kernel_names import as_kernel
from ..kernels.values import precision
from ..spaces.kernel_tiles import expand
from ..utils import plugins
from ..utils.matrices import refuse_half_or_masked
from ..utils.parameters import check_boolean, check_number
from ..utils.resources import check_memory
from .fit_attempt import all_or_nothing, leaving_on_interrupt
from .resource_estimates import ResourceEstimateMixin
from .ridge_systems import FACTORS, RidgePath, ridge_path
from .row_shapes import check_shape, flat_rows, learn_shape, shaped
from .uninformative_fits import FittedRegression, warn_if_unexplained

MARGINAL_LIKELIHOOD = "marginal_likelihood"
# Sums of squares of these are numbers.
LARGEST_TARGET = 1e150


@dataclass(eq=False, repr=False)
class OrbitRidge(ResourceEstimateMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Kernel ridge regression under any kernel of the library, leave-one-out in closed form.

    Minimizes ``sum_i w_i (y_i - f(x_i) - b)^2 + alpha |f|^2`` over functions f in the space of a kernel
    and numbers b, for each of several alphas, and keeps the best of them. The prediction for a row by
    the model fitted without it takes no second fit: with ``G = K + alpha W^-1`` and
    ``P = G^-1 - G^-1 1 1'G^-1 / 1'G^-1 1`` the residual is ``c_i / P_ii``, c being the coefficients, the
    intercept included exactly (Cawley and Talbot 2004). With `structinv.kernels.OrbitMean` the function
    expects the changes of an oracle.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "laplacian", "precomputed"}, Kernel or callable, default="rbf"
        As for `InvariantSVR`: "precomputed" takes tables of kernel values for rows, (n, n) in `fit` and
        (n, n_train) in `predict`; a callable is ``kernel(X, Y)`` with an (n, m) array as answer.
    alphas : float or sequence of float, default=(1e-6, 1e-4, 1e-2, 1.0)
        Weights of the norm to choose from, above 0, in units of the kernel's values: the variance of
        the noise, where the kernel is the covariance of what is to be learned. They say the same as
        `alpha` of `sklearn.kernel_ridge.KernelRidge`.
    gamma, degree, coef0
        See `InvariantSVC`. Rows without weight do not count for ``gamma="scale"``.
    fit_intercept : bool, default=True
        Whether there is b, which the norm does not see.
    scoring : str, callable or None, default=None
        What the best alpha is best at: None for the squared error of the leave-one-out predictions, a
        name or scorer of scikit-learn's ("neg_mean_absolute_error") for what that says of them, and
        "marginal_likelihood" for `log_marginal_likelihood`, summed over targets.

    Attributes
    ----------
    alpha_ : float
        The best of `alphas`.
    alphas_ : (n_alphas,) array
    scores_ : (n_alphas,) array
        Of each of them, by `scoring`; larger is better.
    best_score_ : float
        The largest of these.
    leave_one_out_errors_ : (n_alphas,) or (n_alphas, n_targets) array
        Means of squared leave-one-out residuals, by sample weights, in squared units of the targets.
    leave_one_out_predictions_ : (n,) or (n, n_targets) array
        The prediction for each training row by the model fitted to all others, at `alpha_`. For rows
        without weight that is their prediction.
    dual_coef_ : (n,) or (n, n_targets) array
        Coefficients of ``k(x_i, .)``; 0 for rows without weight.
    intercept_ : float or (n_targets,) array
    variance_ : float or (n_targets,) array
        The factor of kernel and noise that makes the targets likeliest at `alpha_`.
    X_fit_ : (n, n_features) array
        The training rows; of "precomputed" empty.
    min_eigenvalue_ : float or None
        Of the kernel's table of at most 2000 training rows, before a `spectrum` mends it; None for
        kernels that are positive semi-definite by construction, and for "precomputed".
    kernel_ : Kernel or None
        The kernel with its parameters resolved; of "precomputed" None.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Warns
    -----
    scipy.linalg.LinAlgWarning
        If the Gram matrix has an eigenvalue below 0, by rounding, that is larger than the least alpha,
        as those of float32 can have; it is taken as 0.
    UninformativeFitWarning
        If predictions of the training rows are no better than a constant.

    Notes
    -----
    Up to six alphas take a Cholesky factor each, 2/3 n^3 multiplications with its inverse, more take all
    eigenvectors, once. Everything behind the kernel is float64, two or three tables of (n, n).

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import OrbitRidge
    >>> from structinv.kernels import Gaussian, OrbitMean
    >>> from structinv.oracles import Flip
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> model = OrbitRidge(OrbitMean(Flip(shape=(1, 2)), Gaussian())).fit(X, X[:, 0] * X[:, 1])
    >>> bool(np.allclose(model.predict(X), model.predict(X[:, ::-1])))
    True
    >>> plain = OrbitRidge(Gaussian()).fit(X, X[:, 0] * X[:, 1])
    >>> bool(model.best_score_ > plain.best_score_)
    True
    """

    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf"
    _: KW_ONLY
    alphas: float | Sequence[float] | np.ndarray = (1e-6, 1e-4, 1e-2, 1.0)
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    fit_intercept: bool = True
    scoring: str | Callable[..., float] | None = None

    _largest_power = 3.0
    # Eigenvectors cannot be stopped half way, and there is nothing to keep before them.
    on_interrupt = "raise"

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OrbitRidge:
        """Solve for all alphas and keep the best.

        Parameters
        ----------
        X : (n, n_features) array-like, or a stack of images
            Of "precomputed" the (n, n) table, which is left alone.
        y : (n,) or (n, n_targets) array-like
        sample_weight : (n,) array-like, optional
            At least 0, two of them above.

        Returns
        -------
        OrbitRidge
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, for kernels that are not symmetric, or not
            positive semi-definite by more than rounding, and for scores that are NaN.
        MemoryError
            If the tables do not fit in the memory that is free.
        """
        with all_or_nothing(self):
            alphas = self._checked_parameters()
            refuse_half_or_masked("X", X)
            learn_shape(self, X)
            kernel = shaped(self.kernel, self, X)
            X, y = validate_data(
                self,
                flat_rows(X),
                y,
                dtype=[np.float64, np.float32],
                y_numeric=True,
                multi_output=True,
                ensure_min_samples=2,
            )
            self._check_square(X)
            given, weights = y, self._weights(sample_weight, X)
            y = _numbers(y)
            used = np.flatnonzero(weights)
            check_memory(f"a ridge of {len(used)} rows", self._tables(len(used)), "take fewer rows")
            rows = X if len(used) == len(X) else X[used]
            self.kernel_ = self._kernel_of(kernel, rows)
            gram = self._gram(X, rows, used)
            targets = y.reshape(len(y), -1)[used]

            def solve() -> RidgePath:
                return ridge_path(gram, targets, weights[used], alphas, bool(self.fit_intercept))

            path = leaving_on_interrupt(solve)
            self.alphas_ = alphas
            self._keep(X, given, y, path, used, None if sample_weight is None else weights)
            self._look_at_fit(rows, targets, weights[used], used)
        return self

    def log_marginal_likelihood(self, variance: float | None = None) -> np.ndarray:
        r"""The log-probability of the targets under a Gaussian process, for each alpha.

        .. math:: -\tfrac12 y'G^{-1}y / v - \tfrac12 \log |G| - \tfrac n2 \log 2 \pi v,
           \quad G = K + \alpha W^{-1}

        (Rasmussen and Williams 2006, eq. 5.8), v being a factor of kernel and noise together, which
        does not change predictions. With an intercept, whose prior is flat, P takes the place of the
        first G^-1, ``log 1'G^-1 1`` is added to ``log |G|``, and n is one less (the same, eq. 2.45).

        Parameters
        ----------
        variance : float, optional
            The factor v, above 0: 1 takes the kernel as it is. By default the likeliest one of each
            target and alpha, so that kernels of different size compare.

        Returns
        -------
        (n_alphas,) or (n_alphas, n_targets) array
            In nats, for all of `alphas_`.
        """
        check_is_fitted(self)
        if variance is not None:
            check_number("variance", variance, strict=True)
        found = self._evidence_.log_marginal_likelihoods(variance)
        return found[:, 0] if self.dual_coef_.ndim == 1 else found

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets, (n,) or (n, n_targets), float32 where all rows are."""
        check_is_fitted(self)
        refuse_half_or_masked("X", X)
        check_shape(self, X)
        rows = validate_data(self, flat_rows(X), reset=False, dtype=[np.float64, np.float32])
        return self._values(rows)

    def _values(self, X: np.ndarray) -> np.ndarray:
        """Predictions for checked rows."""
        coefficients = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        if self.kernel_ is None:
            values, dtype = X @ coefficients, X.dtype
        else:
            values = expand(self.kernel_, X, self.X_fit_, coefficients)
            dtype = precision(X, self.X_fit_)
        values = values.reshape(len(X), *self.dual_coef_.shape[1:]) + self.intercept_
        return values.astype(dtype, copy=False)

    def _checked_parameters(self) -> np.ndarray:
        """The alphas, all else looked at."""
        check_boolean("fit_intercept", self.fit_intercept)
        if self._asks_scorer:
            check_scoring(self, self.scoring)
        return checked_alphas(self.alphas)

    @property
    def _asks_scorer(self) -> bool:
        return self.scoring is not None and not (
            isinstance(self.scoring, str) and self.scoring == MARGINAL_LIKELIHOOD
        )

    def _check_scores(self, scores: np.ndarray) -> None:
        if scores.dtype.kind not in "biuf" or scores.ndim != 1 or np.any(np.isnan(scores)):
            raise ValueError(
                f"scoring must give a number for each of alphas, got {scores} of {self.scoring!r}"
            )

    def _check_square(self, X: np.ndarray) -> None:
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be square in fit with kernel='precomputed', got shape {X.shape}")

    def _weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if np.count_nonzero(weights) < 2:
            raise ValueError("sample_weight must leave two samples with a weight above 0")
        return weights

    def _kernel_of(self, kernel: Any, rows: np.ndarray) -> Kernel | None:
        self.min_eigenvalue_: float | None = None
        if self._precomputed:
            return None
        kernel = as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=rows)
        found, self.min_eigenvalue_ = trained_kernel(kernel, rows, type(self).__name__)
        return found

    def _gram(self, X: np.ndarray, rows: np.ndarray, used: np.ndarray) -> np.ndarray:
        """The Gram matrix of the rows in use, an array of this fit's own."""
        if self.kernel_ is None:
            return X.copy() if rows is X else X[np.ix_(used, used)]
        found = kernel_matrix(self.kernel_, rows, rows)
        # A third-party class may hand out what it keeps.
        return found.copy() if plugins.is_third_party(self.kernel_) else found

    def _look_at_fit(
        self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray, used: np.ndarray
    ) -> None:
        """Warn where the predictions of a target are no better than a constant."""
        coefficients = self.dual_coef_.reshape(len(self.dual_coef_), -1)[used]
        residuals = self.alpha_ * coefficients / weights[:, None]

        def gram(some: np.ndarray) -> np.ndarray:
            if self.kernel_ is None:
                return X[np.ix_(some, used[some])]
            return kernel_matrix(self.kernel_, X[some], X[some])

        remedies = ["smaller alphas"] if self.fit_intercept else ["fit_intercept=True", "smaller alphas"]
        for target, residual in zip(targets.T, residuals.T, strict=True):
            name = type(self).__name__
            fitted = FittedRegression(name, target, target - residual, weights, gram, remedies)
            if warn_if_unexplained(fitted, stacklevel=3):
                return

    def _tables(self, n_rows: int) -> float:
        """Bytes of the Gram matrix, and of factors or of eigenvectors with what finds them."""
        few = np.size(self.alphas) <= FACTORS
        return (2 if few else 3) * 8.0 * n_rows**2

    def _keep(
        self,
        X: np.ndarray,
        given: np.ndarray,
        y: np.ndarray,
        path: RidgePath,
        used: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        """Learn from the solutions; `given` are the targets as scorers get them."""
        shape, own = y.shape[1:], None if weights is None else weights[used]
        residuals = path.residuals.reshape(len(self.alphas_), len(used), *shape)
        errors = np.average(path.residuals**2, axis=1, weights=own)
        self.leave_one_out_errors_ = errors.reshape(len(errors), *shape)
        self._evidence_ = path.evidence
        if self.scoring is None:
            self.scores_ = -np.mean(errors, axis=1)
        elif self.scoring == MARGINAL_LIKELIHOOD:
            self.scores_ = np.sum(path.evidence.log_marginal_likelihoods(None), axis=1)
        else:
            self.scores_ = self._scores_of(y[used] - residuals, given[used], own)
        self._check_scores(self.scores_)
        best = int(np.argmax(self.scores_))
        self.best_score_ = float(self.scores_[best])
        self.alpha_ = float(self.alphas_[best])
        coefficients = np.zeros((len(X), path.coefficients.shape[2]))
        coefficients[used] = path.coefficients[best]
        self.dual_coef_ = coefficients.reshape(len(X), *shape)
        self.intercept_ = _one_or_many(path.intercepts[best], shape)
        self.variance_ = _one_or_many(path.evidence.variances[best], shape)
        self.X_fit_ = X[:, :0] if self.kernel_ is None else X
        predictions = np.empty(self.dual_coef_.shape)
        predictions[used] = y[used] - residuals[best]
        others = np.setdiff1d(np.arange(len(X)), used)
        if len(others):
            predictions[others] = self._values(X[others])
        self.leave_one_out_predictions_ = predictions

    def _scores_of(
        self, predictions: np.ndarray, y: np.ndarray, weights: np.ndarray | None
    ) -> np.ndarray:
        """What a scorer says of the leave-one-out predictions of each alpha."""
        scorer = check_scoring(self, self.scoring)
        told = {} if weights is None else {"sample_weight": weights}
        return np.array([scorer(_FixedPredictions(), each, y, **told) for each in predictions])

    def _memory(self, X: Any, y: Any) -> float:
        self._checked_parameters()
        X = check_array(flat_rows(X), dtype=[np.float64, np.float32], estimator=self, input_name="X")
        return self._tables(len(X))

    def _some(self, y: Any, n_rows: int) -> np.ndarray:
        return np.arange(n_rows)

    def __sklearn_tags__(self) -> Any:
        """Tables of kernel values are cut by rows and columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = not self._precomputed
        return tags


class _FixedPredictions(RegressorMixin, BaseEstimator):
    """Predictions that are there already, as scorers ask for them."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X


def _numbers(y: np.ndarray) -> np.ndarray:
    """Targets as float64; ValueError where they are none."""
    if y.dtype.kind not in "biufO":
        raise ValueError(f"y must hold numbers, got {y.ravel()[:3].tolist()}")
    found = np.asarray(y, dtype=np.float64)
    if not np.all(np.isfinite(found)):
        raise ValueError("y must hold finite numbers, got None or NaN")
    if np.max(np.abs(found), initial=0.0) > LARGEST_TARGET:
        raise ValueError(
            f"y must hold numbers up to {LARGEST_TARGET:g}, since squares of errors count, got "
            f"{np.max(np.abs(found)):g}: scale the targets"
        )
    return found


def checked_alphas(alphas: Any) -> np.ndarray:
    """Weights of the norm, (n_alphas,) of float64; TypeError or ValueError if they are none."""
    try:
        found = np.atleast_1d(np.asarray(alphas))
    except ValueError:
        raise TypeError(f"alphas must be a number or several, got {alphas!r}") from None
    if found.dtype.kind not in "iuf":
        raise TypeError(f"alphas must be a number or several, got {alphas!r}")
    if found.ndim != 1 or not len(found) or not np.all((found > 0) & (found < np.inf)):
        raise ValueError(f"alphas must hold numbers above 0, at least one, got {alphas!r}")
    return found.astype(np.float64)


def _one_or_many(values: np.ndarray, shape: tuple[int, ...]) -> Any:
    return values.copy() if shape else float(values[0])
