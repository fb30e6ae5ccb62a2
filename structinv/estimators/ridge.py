"""Kernel ridge regression with leave-one-out predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import LinAlgWarning, eigh, lapack
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import check_scoring
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ..kernels import Kernel
from ..kernels.indefinite import trained_kernel
from ..kernels.kernel_names import as_kernel
from ..kernels.kernel_values import kernel_matrix, precision
from ..spaces.kernel_tiles import expand
from ..utils import plugins
from ..utils.matrices import first_best, independent, refuse_half_or_masked, refuse_masked
from ..utils.parameters import brief, check_boolean
from ..utils.printing import warn
from ..utils.resources import check_memory
from .advice import ResourceEstimateMixin, warn_if_unexplained
from .fit_progress import all_or_nothing, leaving_on_interrupt
from .inputs import as_labels, check_shape, checked_weights, flat_rows, learn_shape, shaped

# Larger targets overflow in sums of squares.
LARGEST_TARGET = 1e150


@dataclass(eq=False, repr=False)
class OrbitRidge(ResourceEstimateMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Kernel ridge regression with leave-one-out selection of the penalty.

    Minimizes ``sum_i w_i (y_i - f(x_i) - b)^2 + alpha |f|^2`` over functions f in the space of a kernel
    and constants b, for each alpha in `alphas`. It keeps the alpha with the best score. The
    leave-one-out residual of a sample has a closed form. Let W be the diagonal matrix of the sample
    weights w_i, ``G = K + alpha W^-1`` and ``P = G^-1 - G^-1 1 1'G^-1 / 1'G^-1 1``. The residual is
    ``c_i / P_ii``, where c are the coefficients. The formula is exact, also with an intercept (Cawley
    and Talbot 2004). With the kernel `structinv.kernels.OrbitMean` the function is invariant under the
    transformations of an oracle.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "laplacian", "precomputed"}, Kernel or callable, default="rbf"
        Kernel of the function space. A callable ``kernel(X, Y)`` returns an array of shape (n_samples_X,
        n_samples_Y). With "precomputed", X is a kernel matrix: of shape (n_samples, n_samples) in `fit`,
        of shape (n_samples, n_training_samples) in `predict`.
    alphas : float or sequence of float, default=(1e-6, 1e-4, 1e-2, 1.0)
        Candidate weights of the squared norm (> 0), with the meaning of `alpha` in
        `sklearn.kernel_ridge.KernelRidge`. If the kernel is the covariance of the true function, alpha
        is the variance of the noise. Add larger values for noisier targets.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "laplacian" (> 0). "scale" is
        ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``; samples with weight 0 do not
        count. Increase it for a more local, more flexible function.
    degree : int, default=3
        Degree of the kernel "poly" (>= 1). Increase it for a more flexible function.
    coef0 : float, default=1.0
        Constant of the kernel "poly" (>= 0). Increase it to give the terms of low degree more weight.
    fit_intercept : bool, default=True
        If True, add the constant b, which the norm does not penalize. Pass False for centered targets.
    scoring : str, callable or None, default=None
        Criterion of the best alpha. None is the squared error of the leave-one-out predictions. A name
        or scorer of scikit-learn, such as "neg_mean_absolute_error", is applied to these predictions.

    Attributes
    ----------
    alpha_ : float
        Best of `alphas`.
    alphas_ : ndarray of shape (n_alphas,)
        All candidates.
    scores_ : ndarray of shape (n_alphas,)
        Score of each candidate by `scoring`; larger is better.
    best_score_ : float
        Largest score.
    leave_one_out_errors_ : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
        Weighted mean of squared leave-one-out residuals, in squared units of the targets.
    leave_one_out_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Prediction of each training sample by the model fitted to all others, at `alpha_`. For samples
        with weight 0 it is the ordinary prediction.
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Coefficients of ``k(x_i, .)``; 0 for samples with weight 0.
    intercept_ : float or ndarray of shape (n_targets,)
        Constant b.
    X_fit_ : ndarray of shape (n_samples, n_features)
        Training samples; empty for "precomputed".
    min_eigenvalue_ : float or None
        Smallest eigenvalue of the kernel matrix of at most 2000 training samples, before a spectrum
        correction. None for "precomputed" and for kernels that are positive semi-definite by
        construction.
    kernel_ : Kernel or None
        The kernel with resolved parameters; None for "precomputed".
    n_features_in_ : int
        Number of features in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features in `fit`; only if all are strings.

    Warns
    -----
    scipy.linalg.LinAlgWarning
        If rounding gives the kernel matrix a negative eigenvalue of larger magnitude than the smallest
        alpha, as in float32. The eigenvalue is then replaced by 0.
    IndefiniteKernelWarning
        If a kernel has a negative eigenvalue larger than rounding errors, before `fit` raises
        ValueError.
    UninformativeFitWarning
        If the predictions of the training samples are no better than a constant.

    See Also
    --------
    sklearn.kernel_ridge.KernelRidge : Kernel ridge regression for one alpha.
    structinv.kernels.OrbitMean : Invariant kernel, averaged over the transformations of an oracle.
    InvariantSVR : Kernel regressor with worst-case training and prediction bounds.

    Notes
    -----
    For up to six alphas, `fit` computes one Cholesky factorization per alpha. The factorization and the
    inverse of the factor take about ``2/3 n^3`` floating-point operations. For more alphas, it computes
    a single eigendecomposition. All computations except the kernel use float64, with two or three
    matrices of shape (n_samples, n_samples).

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

    # Before the end of the factorization there is no model to keep.
    on_interrupt = "raise"

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a model for each alpha and keep the one with the best score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or a stack of images. For "precomputed" the kernel matrix of shape (n_samples,
            n_samples), which remains unchanged.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the squared errors (>= 0), 1 by default. At least two must be above 0.

        Returns
        -------
        OrbitRidge
            This estimator.

        Raises
        ------
        ValueError, TypeError
            If parameters or data are not valid, if the kernel is not symmetric or not positive
            semi-definite up to rounding, or if a score is NaN.
        MemoryError
            If the matrices exceed the free memory.
        """
        with all_or_nothing(self):
            self._check_parameters()
            alphas = checked_alphas(self.alphas)
            refuse_half_or_masked("X", X)
            learn_shape(self, X)
            kernel = shaped(self.kernel, self, X)
            rows, y = validate_data(
                self,
                flat_rows(X),
                as_labels(y),
                dtype=[np.float64, np.float32],
                y_numeric=True,
                multi_output=True,
                ensure_min_samples=2,
            )
            X = rows if self._precomputed else independent(rows, X)
            if self._precomputed and X.shape[0] != X.shape[1]:
                raise ValueError(
                    f"X must be square in fit with kernel='precomputed', got shape {X.shape}"
                )
            given, weights = y, self._weights(sample_weight, X)
            y = _numbers(y)
            used = np.flatnonzero(weights)
            check_memory(
                f"ridge regression with {len(used)} samples",
                self._tables(len(used)),
                "use fewer samples",
            )
            rows = X if len(used) == len(X) else X[used]
            self.kernel_ = self._kernel_of(kernel, rows)
            gram = self._gram(X, rows, used)
            targets = y.reshape(len(y), -1)[used]

            def solve() -> tuple[np.ndarray, ...]:
                return ridge_path(gram, targets, weights[used], alphas, bool(self.fit_intercept))

            path = leaving_on_interrupt(solve)
            self.alphas_ = alphas
            self._keep(X, given, y, path, used, None if sample_weight is None else weights)
            self._look_at_fit(targets, weights[used], used)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the targets of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or a stack of images. For "precomputed" the kernel matrix of shape (n_samples,
            n_training_samples).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predicted targets; float32 if all samples are float32.
        """
        check_is_fitted(self)
        refuse_half_or_masked("X", X)
        check_shape(self, X)
        rows = validate_data(self, flat_rows(X), reset=False, dtype=[np.float64, np.float32])
        return self._values(rows)

    def _values(self, X: np.ndarray) -> np.ndarray:
        """Return the predictions for checked rows."""
        coefficients = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        if self.kernel_ is None:
            values, dtype = X @ coefficients, X.dtype
        else:
            values = expand(self.kernel_, X, self.X_fit_, coefficients)
            dtype = precision(X, self.X_fit_)
        values = values.reshape(len(X), *self.dual_coef_.shape[1:]) + self.intercept_
        return values.astype(dtype, copy=False)

    def _check_parameters(self) -> None:
        check_boolean("fit_intercept", self.fit_intercept)
        if self.scoring is not None:
            check_scoring(self, self.scoring)
        checked_alphas(self.alphas)

    def _check_scores(self, scores: np.ndarray) -> None:
        if scores.dtype.kind not in "biuf" or scores.ndim != 1 or np.any(np.isnan(scores)):
            raise ValueError(
                f"scoring must return one number per alpha, got {scores} from {self.scoring!r}"
            )

    def _weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        weights = checked_weights(sample_weight, X)
        if np.count_nonzero(weights) < 2:
            raise ValueError("sample_weight must be above 0 for at least two samples")
        return weights

    def _kernel_of(self, kernel: Any, rows: np.ndarray) -> Kernel | None:
        self.min_eigenvalue_: float | None = None
        if self._precomputed:
            return None
        kernel = as_kernel(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=rows)
        found, self.min_eigenvalue_ = trained_kernel(kernel, rows, type(self).__name__)
        return found

    def _gram(self, X: np.ndarray, rows: np.ndarray, used: np.ndarray) -> np.ndarray:
        """Return the kernel matrix of the rows with weight, as a separate array."""
        if self.kernel_ is None:
            return X.copy() if rows is X else X[np.ix_(used, used)]
        found = kernel_matrix(self.kernel_, rows, rows)
        # A third-party class may return an array that it stores.
        return found.copy() if plugins.is_third_party(self.kernel_) else found

    def _look_at_fit(self, targets: np.ndarray, weights: np.ndarray, used: np.ndarray) -> None:
        """Warn if the predictions of a target are no better than a constant."""
        coefficients = self.dual_coef_.reshape(len(self.dual_coef_), -1)[used]
        residuals = self.alpha_ * coefficients / weights[:, None]
        remedies = ["smaller alphas"] if self.fit_intercept else ["fit_intercept=True", "smaller alphas"]
        for target, residual in zip(targets.T, residuals.T, strict=True):
            predictions = target - residual
            if warn_if_unexplained(self, target, predictions, weights, remedies, stacklevel=3):
                return

    def _tables(self, n_rows: int) -> float:
        """Return the bytes of the kernel matrix and of factors or eigenvectors."""
        few = np.size(self.alphas) <= FACTORS
        return (2 if few else 3) * 8.0 * n_rows**2

    def _keep(
        self,
        X: np.ndarray,
        given: np.ndarray,
        y: np.ndarray,
        path: tuple[np.ndarray, ...],
        used: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        """Set the attributes from the solutions; `given` are the targets for scorers."""
        shape, own = y.shape[1:], None if weights is None else weights[used]
        solved, intercepts, residuals = path
        errors = np.average(residuals**2, axis=1, weights=own)
        residuals = residuals.reshape(len(self.alphas_), len(used), *shape)
        self.leave_one_out_errors_ = errors.reshape(len(errors), *shape)
        if self.scoring is None:
            self.scores_ = -np.mean(errors, axis=1)
        else:
            self.scores_ = self._scores_of(y[used] - residuals, given[used], own)
        self._check_scores(self.scores_)
        best = int(first_best(self.scores_[None])[0])
        self.best_score_ = float(self.scores_[best])
        self.alpha_ = float(self.alphas_[best])
        coefficients = np.zeros((len(X), solved.shape[2]))
        coefficients[used] = solved[best]
        self.dual_coef_ = coefficients.reshape(len(X), *shape)
        self.intercept_ = intercepts[best].copy() if shape else float(intercepts[best, 0])
        self.X_fit_ = np.empty((len(X), 0), dtype=X.dtype) if self.kernel_ is None else X
        predictions = np.empty(self.dual_coef_.shape)
        predictions[used] = y[used] - residuals[best]
        others = np.setdiff1d(np.arange(len(X)), used)
        if len(others):
            predictions[others] = self._values(X[others])
        self.leave_one_out_predictions_ = predictions

    def _scores_of(
        self, predictions: np.ndarray, y: np.ndarray, weights: np.ndarray | None
    ) -> np.ndarray:
        """Return the score of the leave-one-out predictions of each alpha."""
        scorer = check_scoring(self, self.scoring)
        keywords = {} if weights is None else {"sample_weight": weights}
        return np.array([scorer(_FixedPredictions(), each, y, **keywords) for each in predictions])

    def _memory(self, X: Any, y: Any) -> float:
        X = check_array(flat_rows(X), dtype=[np.float64, np.float32], estimator=self, input_name="X")
        return self._tables(len(X))

    def __sklearn_tags__(self) -> Any:
        """Declare a pairwise input for precomputed kernels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = not self._precomputed
        return tags


class _FixedPredictions(RegressorMixin, BaseEstimator):
    """Estimator with stored predictions, for scorers."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X


def _numbers(y: np.ndarray) -> np.ndarray:
    """Return targets as float64; ValueError if they are not finite numbers."""
    if y.dtype.kind not in "biufO":
        raise ValueError(f"y must contain numbers, got {y.ravel()[:3].tolist()}")
    found = np.asarray(y, dtype=np.float64)
    if not np.all(np.isfinite(found)):
        raise ValueError("y must contain finite numbers, got None or NaN")
    if np.max(np.abs(found), initial=0.0) > LARGEST_TARGET:
        raise ValueError(
            f"y must contain numbers up to {LARGEST_TARGET:g}, because errors are squared, got "
            f"{np.max(np.abs(found)):g}: rescale the targets"
        )
    return found


def checked_alphas(alphas: Any) -> np.ndarray:
    """Return candidate weights as float64, (n_alphas,); raise if they are not valid."""
    refuse_masked("alphas", alphas)
    try:
        found = np.atleast_1d(np.asarray(alphas))
    except ValueError:
        raise TypeError(
            f"alphas must be a number or a sequence of numbers, got {brief(alphas)}"
        ) from None
    if found.dtype.kind not in "iuf":
        raise TypeError(f"alphas must be a number or a sequence of numbers, got {brief(alphas)}")
    if found.ndim != 1 or not len(found) or not np.all((found > 0) & (found < np.inf)):
        raise ValueError(f"alphas must contain numbers above 0, and at least one, got {brief(alphas)}")
    return found.astype(np.float64)


# Up to this number of alphas, Cholesky factors are faster than an eigendecomposition.
FACTORS = 6
# Relative rounding error of a kernel matrix. It is that of single precision with sums, since float64
# matrices often contain values that were computed in float32.
ROUNDING = 1e-5
# For more rows, the work space of the faster eigenvalue routine exceeds the integers of LAPACK.
_MOST_ROWS_AT_ONCE = 32_000
# Entries of eigenvectors that are squared at once.
_SQUARED_AT_ONCE = 2**22


def ridge_path(
    gram: np.ndarray, targets: np.ndarray, weights: np.ndarray, alphas: np.ndarray, intercept: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimize ``sum_i w_i (y_i - f(x_i) - b)^2 + alpha |f|^2`` for all alphas.

    Return the coefficients of kernel functions, the constants b, and the residuals ``y_i - f(x_i) - b``
    of fits to all rows except i.

    With ``G = K + alpha W^-1`` and ``P = G^-1 - G^-1 1 1'G^-1 / 1'G^-1 1`` the coefficients are
    ``c = P y``. Without an intercept, ``P = G^-1``. The residual of row i without row i is
    ``c_i / P_ii``, by block inversion of the bordered system. It is exact for any weights (Cawley and
    Talbot 2004).

    Shapes: `gram` (n, n), `targets` (n, n_targets), `weights` (n,), `alphas` (n_alphas,); returns
    `coefficients` (n_alphas, n, n_targets), `intercepts` (n_alphas, n_targets), `residuals` (n_alphas,
    n, n_targets).
    """
    root = np.sqrt(weights)
    _check_symmetric(gram)
    gram = gram.astype(np.float64, copy=False)
    gram *= root[:, None]
    gram *= root
    rounding = ROUNDING * float(np.linalg.norm(gram))
    right = np.column_stack([root[:, None] * targets, root])
    found = None
    if len(alphas) <= FACTORS:
        found = _by_factors(gram, alphas, right, rounding)
    # ``G^-1 [y, 1]`` and the diagonal of ``G^-1``, both scaled by root.
    solved, diagonals = found or _by_eigenvectors(gram, alphas, right, rounding)
    coefficients, of_ones = solved[:, :, :-1], solved[:, :, -1:]
    intercepts = np.zeros((len(solved), right.shape[1] - 1))
    if intercept:
        ones = np.sum(root[:, None] * of_ones, axis=1)
        intercepts = np.einsum("i,kit->kt", root, coefficients) / ones
        coefficients = coefficients - of_ones * intercepts[:, None]
        diagonals = diagonals - of_ones[:, :, 0] ** 2 / ones
    residuals = coefficients / (diagonals * root)[:, :, None]
    return coefficients * root[:, None], intercepts, residuals


def _by_factors(
    gram: np.ndarray, alphas: np.ndarray, right: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return solutions and diagonals of inverses by Cholesky; None if it fails."""
    if _factor(gram, rounding)[1]:
        return None
    solved = np.empty((len(alphas), *right.shape))
    diagonals = np.empty((len(alphas), len(gram)))
    for number, alpha in enumerate(alphas):
        factor, failed = _factor(gram, alpha)
        if failed:
            return None
        solved[number] = lapack.dpotrs(factor, right, lower=1)[0]
        inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        diagonals[number] = np.einsum("ki,ki->i", inverse, inverse)
    return solved, diagonals


def _factor(gram: np.ndarray, added: float) -> tuple[np.ndarray, int]:
    """Return the Cholesky factor of the shifted matrix, and LAPACK's number, nonzero on failure."""
    shifted = np.array(gram.T, order="F")
    np.einsum("ii->i", shifted)[:] += added
    return lapack.dpotrf(shifted, lower=1, clean=1, overwrite_a=1)


def _by_eigenvectors(
    gram: np.ndarray, alphas: np.ndarray, right: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of `_by_factors` by an eigendecomposition; the matrix is overwritten."""
    driver = "evd" if len(gram) <= _MOST_ROWS_AT_ONCE else "evr"
    values, vectors = eigh(gram.T, overwrite_a=True, check_finite=False, driver=driver)
    if values[0] < -rounding:
        raise ValueError(
            "kernel must be positive semi-definite, but the kernel matrix of the rows, scaled by their "
            f"weights, has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}. Pass the kernel "
            "structinv.kernels.psd_corrected(kernel, X)"
        )
    if -values[0] > np.min(alphas):
        warn(
            f"alphas should be larger than rounding errors of the kernel: the smallest is "
            f"{min(alphas):.3g}, and the kernel matrix has the eigenvalue {values[0]:.3g}, which was "
            "replaced by 0",
            LinAlgWarning,
            stacklevel=4,
        )
    shifted = np.maximum(values, 0.0) + alphas[:, None]
    along = vectors.T @ right
    solved = np.stack([vectors @ (along / each[:, None]) for each in shifted])
    diagonals = np.empty((len(gram), len(alphas)))
    step = max(1, _SQUARED_AT_ONCE // len(gram))
    for first in range(0, len(gram), step):
        rows = slice(first, first + step)
        diagonals[rows] = vectors[rows] ** 2 @ (1.0 / shifted).T
    return solved, np.ascontiguousarray(diagonals.T)


def _check_symmetric(gram: np.ndarray) -> None:
    step = max(1, _SQUARED_AT_ONCE // len(gram))
    allowed = ROUNDING * float(np.max(np.abs(gram)))
    for first in range(0, len(gram), step):
        rows = slice(first, first + step)
        off = float(np.max(np.abs(gram[rows] - gram[:, rows].T)))
        if off > allowed:
            raise ValueError(
                "kernel must be symmetric, but the kernel matrix differs from its transpose by up to "
                f"{off:.3g}"
            )
