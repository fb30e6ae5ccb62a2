"""Kernel classifiers trained on the changed inputs themselves: scikit-learn's SVC on virtual samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..kernels import Kernel
from ..kernels.indefinite import trained_kernel
from ..kernels.kernel_names import as_kernel, resolve_gamma
from ..oracles import InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.checked_oracle import bind
from ..oracles.listing import listed
from ..utils.jit import njit
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer, check_number
from ..utils.resources import check_memory
from .fit_attempt import all_or_nothing, leaving_on_interrupt
from .parameters import check_on_interrupt, check_oracle_type
from .resource_estimates import ResourceEstimateMixin, named, virtual_memory
from .row_shapes import canonical, check_shape, flat_rows, learn_shape, shaped
from .target_labels import class_factors, labeled_rows, one_label_a_row

# What libsvm computes itself, a few columns at a time; all else is one large Gram matrix.
NATIVE = ("linear", "poly", "rbf")

_ROWS = {"accept_sparse": "csr", "accept_large_sparse": False, "dtype": [np.float64, np.float32]}


@dataclass(eq=False, repr=False)
class VirtualSVC(ResourceEstimateMixin, ClassifierMixin, BaseEstimator):
    """scikit-learn's SVC, trained on every member of every row's orbit.

    The plain way to an invariance, here to compare with: as many times larger a problem as an orbit
    has members (see DeCoste and Schoelkopf 2002, section 3). Finite oracles list the members; of
    others `n_draws` random members are drawn beside the row itself.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default. It must be finite or have `sample`.
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        All but the first three need memory for the whole Gram matrix of the virtual samples.
    gamma : {"scale", "auto"} or float, default="scale"
        As in SVC. "scale" looks at the rows of X, not at virtual samples, so that all methods
        compare on the same kernel.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=1.0
        Of "poly".
    C : float, default=1.0
        Weight of the loss of every virtual sample, above 0.
    n_draws : int, default=10
        Random members of each row where the oracle is not finite.
    tol : float, default=1e-3
        Of SVC.
    cache_mb : float, default=1000
        Memory for columns of the kernel, in megabytes.
    class_weight : dict or "balanced", optional
        Factors of C for each class; "balanced" counts virtual samples.
    random_state : int, RandomState or None, default=None
        Which members are drawn.
    on_interrupt : {"raise", "return"}, default="raise"
        As other estimators have it; Ctrl-C raises KeyboardInterrupt either way, since libsvm has
        nothing to keep. It cannot be stopped, either: what it was about goes on behind the scenes.

    Attributes
    ----------
    svc_ : sklearn.svm.SVC
        The machine, whose ``support_`` are positions among the virtual samples.
    classes_ : (n_classes,) array
    support_vectors_ : (n_support, n_features) array or CSR matrix
    support_ : (n_support,) array of int
        The row of X that each support vector comes from.
    support_members_ : (n_support,) array of int
        Which member of that row's orbit it is; 0 is the row itself.
    min_eigenvalue_ : float or None
        Of the kernel's table of at most 2000 training rows, before a `spectrum` mends it; None for
        kernels that are positive semi-definite by construction.
    n_virtual_ : int
        How many samples the machine was trained on, without a row's repeated members.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Notes
    -----
    There is no `certify`: of several classes each pair has a machine with a vote, and votes have no
    margin to bound. `InvariantSVC`, with the same oracle and kernel, gives certificates.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.estimators.virtual import VirtualSVC
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on virtual samples.

        Parameters
        ----------
        X : (n_samples, n_features) array-like, or sparse matrix without an oracle
        y : (n_samples,) array-like
            Labels of at least two classes; each member of an orbit has the label of its row.
        sample_weight : (n_samples,) array-like, optional
            Non-negative factors of C, for every member of a row's orbit.

        Returns
        -------
        object
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, before any work.
        KeyboardInterrupt
            After Ctrl-C, with the model there was before: libsvm gives nothing away before its end.
        """
        with all_or_nothing(self):
            oracle = self._check_parameters()
            learn_shape(self, X)
            oracle = shaped(oracle, self, X)
            X, y = labeled_rows(self, X, y, **_ROWS)
            X = self._prepare(X, oracle)
            new_svc = self._svc_maker(X)
            weights = self._weights(X, sample_weight)
            self._check_classes(y, weights)
            oracle.check_labels(np.unique(y))
            virtual = _VirtualSamples(bind(oracle, X, y), self.n_draws, self.random_state)
            # libsvm leaves rows without weight out, and then counts support vectors without them.
            rows = self._chosen(X, y, weights, np.flatnonzero(weights), new_svc)
            size = virtual.size
            needed = virtual_memory(len(rows), size, X.shape[1], X.dtype.itemsize)
            check_memory(named(virtual.bound, size, len(rows)), needed, "list fewer, or take fewer rows")
            points, origins, members = virtual.of(rows)
            svc = leaving_on_interrupt(lambda: new_svc().fit(points, y[origins], weights[origins]))
            self.svc_: SVC = svc
            self.classes_ = svc.classes_
            self.support_ = origins[svc.support_]
            self.support_members_ = members[svc.support_]
            self.support_vectors_ = points[svc.support_]
            self.n_virtual_ = len(origins)
        return self

    def _memory(self, X: Any, y: Any) -> float:
        oracle = shaped(self._check_parameters(), self, X)
        X = check_array(flat_rows(X), estimator=self, input_name="X", **_ROWS)
        X = self._prepare(X, oracle)
        labels = None if y is None else one_label_a_row(y, X.shape[0])
        size = _VirtualSamples(bind(oracle, X, labels), self.n_draws, 0).size
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
        """Which of the rows with a weight above 0, `heavy`, have their orbits trained on: all."""
        return heavy

    def _check_parameters(self) -> InvarianceOracle:
        check_number("C", self.C, strict=True)
        check_number("tol", self.tol, strict=True)
        check_number("cache_mb", self.cache_mb, strict=True)
        check_on_interrupt(self.on_interrupt)
        check_integer("n_draws", self.n_draws)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError("kernel must not be 'precomputed': its table has no virtual samples")
        return check_oracle_type(self.oracle)

    def _prepare(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        if sp.issparse(X) and self.oracle is not None:
            raise TypeError(
                f"virtual samples do not take sparse rows, as the members that {type(oracle).__name__} "
                "lists or draws are dense; pass X as a dense array, or oracle=None"
            )
        if sp.issparse(X) and not self._native:
            raise TypeError(f"kernel {self.kernel!r} does not take sparse rows; pass X as a dense array")
        oracle.validate(X.shape[1])
        return canonical(X)

    def _weights(self, X: Matrix, sample_weight: Any) -> np.ndarray:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weights > 0):
            raise ValueError("sample_weight must leave a sample with a weight above 0")
        return weights

    def _check_classes(self, y: np.ndarray, weights: np.ndarray) -> None:
        classes = np.unique(y[weights > 0])
        if len(classes) < 2:
            raise ValueError(
                "y must hold at least two classes among the samples with a weight above 0, got one "
                f"class: {classes.tolist()[0]!r}"
            )
        # What libsvm says of a negative one is that the data are too large.
        counted = weights > 0
        class_factors(self.class_weight, classes, y[counted], weights[counted])

    @property
    def _native(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel in NATIVE

    def _svc_maker(self, X: Any) -> Callable[[], SVC]:
        """Makes machines whose kernel belongs to the rows, whatever they are trained on."""
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
        """Scores, as those of SVC: (n,) for two classes, (n, n_classes) for more."""
        X = self._check(X)
        return self.svc_.decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels, (n,)."""
        X = self._check(X)
        return self.svc_.predict(X)

    def _check(self, X: Any) -> Matrix:
        check_is_fitted(self)
        check_shape(self, X)
        return canonical(validate_data(self, flat_rows(X), reset=False, **_ROWS))

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are fine where nothing changes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = self.oracle is None and self._native
        return tags


class VirtualSupportVectorSVC(VirtualSVC):
    """The virtual support vector machine: SVC on the orbits of the support vectors of SVC.

    The rows that matter to an invariant machine are mostly those that matter to a plain one, so
    only their orbits are trained on (DeCoste and Schoelkopf 2002, section 3.1).

    Parameters
    ----------
    oracle, kernel, gamma, degree, coef0, C, n_draws, tol, cache_mb, class_weight, random_state, \
on_interrupt
        See `VirtualSVC`; those of the machine are of both.

    Attributes
    ----------
    svc_plain_ : sklearn.svm.SVC
        The first machine, trained on the rows of X with a weight above 0.
    svc_, classes_, support_vectors_, support_, support_members_, min_eigenvalue_, n_virtual_, \
n_features_in_, feature_names_in_
        See `VirtualSVC`; of the second machine.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.estimators.virtual import VirtualSupportVectorSVC
    >>> from structinv.oracles import FiniteOracle
    >>> class Mirror(FiniteOracle):
    ...     "The sign of the second feature carries no information."
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


class _VirtualSamples:
    """Members of rows' orbits, each once; refuses oracles that cannot name any."""

    def __init__(self, bound: BoundOracle, n_draws: int, random_state: Any) -> None:
        self.bound = bound
        self.n_draws = n_draws
        self.rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        if not sp.issparse(bound.X):
            self._probe()

    @property
    def size(self) -> int:
        """How many members a row has at most."""
        if sp.issparse(self.bound.X):
            return 1
        return self._members(np.array([0]), np.random.default_rng(0)).shape[1]

    def _probe(self) -> None:
        # On one row, and with numbers of its own: refused before any machine is trained.
        try:
            self._members(np.array([0]), np.random.default_rng(0))
        except NotImplementedError as error:
            name = type(self.bound.oracle).__name__
            raise TypeError(
                f"oracle must list (finite) or sample its members, and {name} does neither: {error}"
            ) from error

    def of(self, rows: np.ndarray) -> tuple[Matrix, np.ndarray, np.ndarray]:
        """Samples, the row that each comes from, and the number it has in that row's orbit."""
        if sp.issparse(self.bound.X):
            return self.bound.X[rows], rows, np.zeros_like(rows)
        members = self._members(rows, self.rng)
        keep = np.ones(members.shape[:2], dtype=bool)
        _first_of_their_kind(members, keep)
        places, numbers = np.nonzero(keep)
        points = members.reshape(-1, members.shape[2]) if np.all(keep) else members[keep]
        return points, rows[places], numbers

    def _members(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = self.bound.X
        if self.bound.oracle.finite:
            members = listed(self.bound).members(rows)
        else:
            drawn = self.bound.sample(rows, self.n_draws, rng)
            members = np.concatenate([X[rows][:, None], drawn], axis=1)
        return np.ascontiguousarray(members, dtype=X.dtype)


@njit(cache=True, nogil=True)
def _first_of_their_kind(members, first):
    """Tell members of an (n, s, d) array that equal an earlier one of their row: False in `first`."""
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
