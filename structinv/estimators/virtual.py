"""SVM trained on virtual samples (data augmentation), for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..kernels import Kernel
from ..kernels.indefinite import trained_kernel
from ..kernels.kernel_names import as_kernel, resolve_gamma
from ..oracles import InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.images.image_borders import warn_of_fill
from ..oracles.listed_changes import listed
from ..oracles.third_party import bind
from ..structures.example_blocks import check_some
from ..utils.jit import LEAN, njit
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer, check_number
from ..utils.resources import check_memory
from .advice import ResourceEstimateMixin, named, virtual_memory
from .fit_progress import all_or_nothing, leaving_on_interrupt
from .inputs import (
    canonical,
    check_on_interrupt,
    check_oracle_type,
    check_shape,
    checked_weights,
    class_factors,
    flat_rows,
    labeled_rows,
    learn_shape,
    one_label_a_row,
    shaped,
)

if TYPE_CHECKING:
    from sklearn.svm import SVC

# Kernels that libsvm computes by columns. Other kernels need the whole kernel matrix.
NATIVE = ("linear", "poly", "rbf")

_ROWS = {"accept_sparse": "csr", "accept_large_sparse": False, "dtype": [np.float64, np.float32]}


@dataclass(eq=False, repr=False)
class VirtualSVC(ResourceEstimateMixin, ClassifierMixin, BaseEstimator):
    """SVM trained on all transformed copies of each sample (augmentation).

    It is a baseline for invariant models (DeCoste and Schoelkopf 2002, section 3). The number of
    training samples is multiplied by the size of the orbit. A finite oracle lists all transformed
    copies. Other oracles draw `n_draws` random copies in addition to the sample.

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle with the transformations. It must be finite or have `sample`. Without an oracle the model
        is scikit-learn's `SVC`.
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        Kernel of the SVM. "laplacian", a Kernel or a callable require memory for the whole kernel matrix
        of the virtual samples.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "laplacian" (> 0). For the untransformed samples X,
        "scale" is ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``. Increase it for a
        more local, more flexible function.
    degree : int, default=3
        Degree of the kernel "poly" (>= 1). Increase it for a more flexible function.
    coef0 : float, default=1.0
        Constant of the kernel "poly" (>= 0). Increase it to give the terms of low degree more weight.
    C : float, default=1.0
        Weight of the loss of each virtual sample (> 0). Increase it to fit the virtual samples more
        closely. Decrease it for noisy labels.
    n_draws : int, default=10
        Number of random transformations per sample if the oracle is not finite (>= 1). Increase it for a
        better coverage, at the cost of run time.
    tol : float, default=1e-3
        Tolerance of the stopping rule of libsvm (> 0). Decrease it for more accurate scores, at the cost
        of run time.
    cache_mb : float, default=1000
        Memory for columns of the kernel matrix in megabytes (> 0). Increase it for faster fits on large
        data sets.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes that multiply C (>= 0), 1 by default. "balanced" uses weights that are
        inversely proportional to the frequencies of virtual samples. Increase a weight to make fewer
        errors in that class.
    random_state : int, RandomState instance or None, default=None
        Seed of the random transformations. Pass an integer for reproducible results.
    on_interrupt : {"raise", "return"}, default="raise"
        This parameter exists for compatibility with other estimators and has no effect. Ctrl-C always
        raises KeyboardInterrupt, since libsvm stores no intermediate model. libsvm continues its current
        work in the background.

    Attributes
    ----------
    svc_ : sklearn.svm.SVC
        SVM trained on the virtual samples; its ``support_`` contains indices of virtual samples.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors.
    support_ : ndarray of shape (n_support,) of int
        Index of the training sample from which each support vector comes.
    support_members_ : ndarray of shape (n_support,) of int
        Variant of that sample in its orbit; variant 0 is the untransformed sample.
    min_eigenvalue_ : float or None
        Smallest eigenvalue of the kernel matrix of at most 2000 training samples, before a spectrum
        correction. None for kernels that are positive semi-definite by construction.
    n_virtual_ : int
        Number of virtual samples; equal copies of a sample count once.
    n_features_in_ : int
        Number of features in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features in `fit`; only if all are strings.

    See Also
    --------
    VirtualSupportVectorSVC : The same with transformed copies of support vectors only.
    InvariantSVC : Worst-case training with the same oracle and kernel, with certificates.

    Notes
    -----
    There is no `certify`. With several classes, each pair of classes has its own SVM, and the predicted
    class is that with the most votes. Such a vote has no margin. Use `InvariantSVC` for certificates.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import VirtualSVC
    >>> from structinv.oracles import FiniteOracle
    >>> class Reversal(FiniteOracle):
    ...     "A signal read backward keeps its label."
    ...     def orbit(self, X):
    ...         return np.stack([X, X[:, ::-1]], axis=1)
    >>> X = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [3.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    >>> y = np.array(["edge", "middle", "edge", "middle"])
    >>> model = VirtualSVC(Reversal(), C=10.0).fit(X, y)
    >>> model.n_virtual_
    8
    >>> model.predict(X[:, ::-1]).tolist()
    ['edge', 'middle', 'edge', 'middle']
    """

    oracle: InvarianceOracle | None = None
    _: KW_ONLY
    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    C: float = 1.0
    n_draws: int = 10
    tol: float = 1e-3
    cache_mb: float = 1000
    class_weight: dict | str | None = None
    random_state: int | np.random.RandomState | None = None
    on_interrupt: str = "raise"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on virtual samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples. Without an oracle they can be a sparse matrix.
        y : array-like of shape (n_samples,)
            Labels of at least two classes. Each transformed copy has the label of its sample.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights that multiply C for all copies of a sample (>= 0), 1 by default.

        Returns
        -------
        VirtualSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            If parameters or data are not valid, before any work.
        KeyboardInterrupt
            After Ctrl-C. The model is then that of the previous fit.
        """
        with all_or_nothing(self):
            self._check_parameters()
            learn_shape(self, X)
            oracle = shaped(check_oracle_type(self.oracle), self, X)
            X, y = labeled_rows(self, X, y, **_ROWS)
            X = self._prepare(X, oracle)
            new_svc = self._svc_maker(X)
            weights = checked_weights(sample_weight, X)
            check_some("sample_weight", weights, "sample")
            self._check_classes(y, weights)
            oracle.check_labels(np.unique(y))
            bound = bind(oracle, X, y)
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            size = _orbit_size(bound, self.n_draws)
            warn_of_fill(oracle, X)
            # libsvm omits rows without weight, which would shift the indices of support vectors.
            rows = self._chosen(X, y, weights, np.flatnonzero(weights), new_svc)
            needed = virtual_memory(len(rows), size, X.shape[1], X.dtype.itemsize)
            check_memory(
                named(bound, size, len(rows)),
                needed,
                "use fewer transformations or fewer samples",
            )
            rng = np.random.default_rng(seed)
            points, origins, members = _virtual_samples(bound, rows, self.n_draws, rng)
            svc = leaving_on_interrupt(lambda: new_svc().fit(points, y[origins], weights[origins]))
            self.svc_: SVC = svc
            self.classes_ = svc.classes_
            self.support_ = origins[svc.support_]
            self.support_members_ = members[svc.support_]
            self.support_vectors_ = points[svc.support_]
            self.n_virtual_ = len(origins)
        return self

    def _memory(self, X: Any, y: Any) -> float:
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        X = check_array(flat_rows(X), estimator=self, input_name="X", **_ROWS)
        X = self._prepare(X, oracle)
        labels = None if y is None else one_label_a_row(y, X.shape[0])
        size = _orbit_size(bind(oracle, X, labels), self.n_draws)
        entries = X.shape[1] if isinstance(X, np.ndarray) else 2 * X.nnz // max(X.shape[0], 1)
        n_virtual = X.shape[0] * size
        gram = min(1e6 * self.cache_mb, 4.0 * n_virtual**2) if self._native else 16.0 * n_virtual**2
        return virtual_memory(X.shape[0], size, entries, X.dtype.itemsize) + gram

    def _chosen(
        self,
        X: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        heavy: np.ndarray,
        new_svc: Callable[[], SVC],
    ) -> np.ndarray:
        """Return the rows to transform; `heavy` are the rows with a weight above 0."""
        return heavy

    def _check_parameters(self) -> None:
        check_number("C", self.C, strict=True)
        check_number("tol", self.tol, strict=True)
        check_number("cache_mb", self.cache_mb, strict=True)
        check_on_interrupt(self.on_interrupt)
        check_integer("n_draws", self.n_draws)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError("kernel must not be 'precomputed': virtual samples require features")
        check_oracle_type(self.oracle)

    def _prepare(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        if sp.issparse(X) and self.oracle is not None:
            raise TypeError(
                f"X must be a dense array with the oracle {type(oracle).__name__}, whose transformed "
                "samples are dense, got a sparse matrix: convert X, or pass oracle=None"
            )
        if sp.issparse(X) and not self._native:
            raise TypeError(
                f"kernel {self.kernel!r} does not support sparse rows: pass X as a dense array"
            )
        oracle.validate(X.shape[1])
        return canonical(X)

    def _check_classes(self, y: np.ndarray, weights: np.ndarray) -> None:
        classes = np.unique(y[weights > 0])
        if len(classes) < 2:
            raise ValueError(
                "y must contain at least two classes among the samples with a weight above 0, got one "
                f"class: {classes.tolist()[0]!r}"
            )
        # libsvm has a misleading message for negative factors.
        class_factors(self.class_weight, np.unique(y), y, weights)

    @property
    def _native(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel in NATIVE

    def _svc_maker(self, X: Any) -> Callable[[], SVC]:
        """Return a factory of SVMs whose kernel is resolved for X."""
        from sklearn.svm import SVC

        gamma = resolve_gamma(self.gamma, X)
        kernel = shaped(self.kernel, self, X)
        kernel = as_kernel(kernel, gamma=gamma, degree=self.degree, coef0=self.coef0, X=X)
        self.min_eigenvalue_: float | None = None
        if not self._native:
            kernel, self.min_eigenvalue_ = trained_kernel(kernel, X, type(self).__name__)
        settings = {
            "kernel": self.kernel if self._native else kernel,
            "gamma": gamma,
            "degree": self.degree,
            "coef0": self.coef0,
            "C": self.C,
            "tol": self.tol,
            "cache_size": self.cache_mb,
            "class_weight": self.class_weight,
        }
        return lambda: SVC(**settings)

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the scores of samples, as scikit-learn's `SVC`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            One score per sample for two classes, one score per class for more classes.
        """
        X = self._check(X)
        return self.svc_.decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the labels of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        X = self._check(X)
        return self.svc_.predict(X)

    def _check(self, X: Any) -> Matrix:
        check_is_fitted(self)
        check_shape(self, X)
        return canonical(validate_data(self, flat_rows(X), reset=False, **_ROWS))

    def __sklearn_tags__(self) -> Any:
        """Declare support of sparse rows without an oracle."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = self.oracle is None and self._native
        return tags


class VirtualSupportVectorSVC(VirtualSVC):
    """SVM trained on transformed copies of the support vectors of a first SVM.

    This is the virtual support vector method of DeCoste and Schoelkopf (2002, section 3.1). The second
    SVM is trained on the support vectors of the first one and their transformed copies. The method is a
    heuristic: it assumes that other samples, and their copies, have no effect on the second SVM.

    The paper trains one SVM per class against the rest. Here both SVMs are scikit-learn's `SVC`, which
    trains one SVM per pair of classes. The support vectors of any pair are transformed for all pairs.

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle with the transformations. It must be finite or have `sample`. Without an oracle the model
        is scikit-learn's `SVC`.
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        Kernel of the SVM. "laplacian", a Kernel or a callable require memory for the whole kernel matrix
        of the virtual samples.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "laplacian" (> 0). For the untransformed samples X,
        "scale" is ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``. Increase it for a
        more local, more flexible function.
    degree : int, default=3
        Degree of the kernel "poly" (>= 1). Increase it for a more flexible function.
    coef0 : float, default=1.0
        Constant of the kernel "poly" (>= 0). Increase it to give the terms of low degree more weight.
    C : float, default=1.0
        Weight of the loss of each virtual sample (> 0). Increase it to fit the virtual samples more
        closely. Decrease it for noisy labels.
    n_draws : int, default=10
        Number of random transformations per sample if the oracle is not finite (>= 1). Increase it for a
        better coverage, at the cost of run time.
    tol : float, default=1e-3
        Tolerance of the stopping rule of libsvm (> 0). Decrease it for more accurate scores, at the cost
        of run time.
    cache_mb : float, default=1000
        Memory for columns of the kernel matrix in megabytes (> 0). Increase it for faster fits on large
        data sets.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes that multiply C (>= 0), 1 by default. "balanced" uses weights that are
        inversely proportional to the frequencies of virtual samples. Increase a weight to make fewer
        errors in that class.
    random_state : int, RandomState instance or None, default=None
        Seed of the random transformations. Pass an integer for reproducible results.
    on_interrupt : {"raise", "return"}, default="raise"
        This parameter exists for compatibility with other estimators and has no effect. Ctrl-C always
        raises KeyboardInterrupt, since libsvm stores no intermediate model. libsvm continues its current
        work in the background.

    Attributes
    ----------
    svc_plain_ : sklearn.svm.SVC
        First SVM, trained on the samples with a weight above 0.
    svc_ : sklearn.svm.SVC
        Second SVM, trained on the virtual samples; its ``support_`` contains indices of virtual samples.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    support_vectors_ : ndarray or CSR matrix of shape (n_support, n_features)
        Support vectors.
    support_ : ndarray of shape (n_support,) of int
        Index of the training sample from which each support vector comes.
    support_members_ : ndarray of shape (n_support,) of int
        Variant of that sample in its orbit; variant 0 is the untransformed sample.
    min_eigenvalue_ : float or None
        Smallest eigenvalue of the kernel matrix of at most 2000 training samples, before a spectrum
        correction. None for kernels that are positive semi-definite by construction.
    n_virtual_ : int
        Number of virtual samples; equal copies of a sample count once.
    n_features_in_ : int
        Number of features in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features in `fit`; only if all are strings.

    See Also
    --------
    VirtualSVC : The same with transformed copies of all samples.
    InvariantSVC : Worst-case training with the same oracle and kernel, with certificates.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import VirtualSupportVectorSVC
    >>> from structinv.oracles import FiniteOracle
    >>> class Mirror(FiniteOracle):
    ...     "The sign of the second feature has no information."
    ...     def orbit(self, X):
    ...         return np.stack([X, X * [1.0, -1.0]], axis=1)
    >>> X = np.array([[-3.0, 1.0], [-1.0, 2.0], [1.0, -1.0], [4.0, 1.0]])
    >>> model = VirtualSupportVectorSVC(Mirror(), kernel="linear").fit(X, [0, 0, 1, 1])
    >>> model.svc_plain_.support_.tolist(), model.n_virtual_
    ([1, 2], 4)
    >>> (model.svc_plain_.coef_ != 0).tolist(), np.abs(model.svc_.coef_).round(3).tolist()
    ([[True, True]], [[1.0, 0.0]])
    """

    def _chosen(
        self,
        X: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        heavy: np.ndarray,
        new_svc: Callable[[], SVC],
    ) -> np.ndarray:
        some = X if len(heavy) == X.shape[0] else X[heavy]
        self.svc_plain_ = leaving_on_interrupt(lambda: new_svc().fit(some, y[heavy], weights[heavy]))
        return heavy[np.sort(self.svc_plain_.support_)]


def _orbit_size(bound: BoundOracle, n_draws: int) -> int:
    """Return the maximum number of copies per row; TypeError if the oracle cannot list or draw them."""
    if sp.issparse(bound.X):
        return 1
    try:
        # One row and a separate generator raise before any training.
        return _members(bound, np.array([0]), n_draws, np.random.default_rng(0)).shape[1]
    except NotImplementedError as error:
        name = type(bound.oracle).__name__
        raise TypeError(
            f"oracle must be finite or define the method sample, got {name}: {error}"
        ) from error


def _virtual_samples(
    bound: BoundOracle, rows: np.ndarray, n_draws: int, rng: np.random.Generator
) -> tuple[Matrix, np.ndarray, np.ndarray]:
    """Return distinct copies of rows, the row of each copy, and its number in the orbit of that row."""
    if sp.issparse(bound.X):
        return bound.X[rows], rows, np.zeros_like(rows)
    members = _members(bound, rows, n_draws, rng)
    keep = np.ones(members.shape[:2], dtype=bool)
    _mark_duplicates(members, keep)
    places, numbers = np.nonzero(keep)
    points = members.reshape(-1, members.shape[2]) if np.all(keep) else members[keep]
    return points, rows[places], numbers


def _members(bound: BoundOracle, rows: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return all copies of rows, first the rows themselves, (n_rows, size, n_features)."""
    X = bound.X
    if bound.oracle.finite:
        members = listed(bound).members(rows)
    else:
        drawn = bound.sample(rows, n_draws, rng)
        members = np.concatenate([X[rows][:, None], drawn], axis=1)
    return np.ascontiguousarray(members, dtype=X.dtype)


@njit(**LEAN)
def _mark_duplicates(members, first):
    """Set `first` to False for copies that equal an earlier one of the same row, (n, s, d)."""
    n_rows, size, n_features = members.shape
    for i in range(n_rows):
        for j in range(1, size):
            for other in range(j):
                k = 0
                while k < n_features and members[i, j, k] == members[i, other, k]:
                    k += 1
                if k == n_features:
                    first[i, j] = False
                    break
