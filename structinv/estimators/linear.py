"""A linear classifier trained on the worst case of an invariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..certificates import Certificate, certify, worst_case
from ..matrices import Matrix
from ..objective import Objective, WorstCase
from ..oracles import InvarianceOracle
from ..outputs import Binary, EncodedOutput, Multiclass, Output
from ..outputs.base import check_cost, check_rescaling
from ..solvers import Solution, Solver
from ..spaces import ExplicitSpace
from .base import (
    ConvexEstimator,
    all_or_nothing,
    canonical,
    check_number,
    check_oracle_type,
    with_callbacks,
)

_ROWS = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": [np.float64, np.float32]}


class InvariantLinearSVC(ClassifierMixin, ConvexEstimator):
    """Linear support vector classifier that expects the changes an oracle allows.

    Minimises ``1/2 |w|^2 + C sum_i l_i(w)`` with ``l_i`` the hinge loss at the worst member of
    S(x_i) (Teo, Globerson, Roweis and Smola 2007, eq. 2). Without an oracle, with two classes and
    ``fit_intercept=False``, this is exactly ``LinearSVC(loss="hinge")``. More classes are trained
    jointly (Crammer and Singer's form). Teo's lambda is ``1 / (C * n_samples)``.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default.
    C : float, default=1.0
        Weight of the losses, above 0.
    solver : {"auto", "svmstruct", "bmrm", "pegasos", "frank_wolfe"} or Solver, default="auto"
        "auto" is "bmrm" for a model of at most 16 weights, else "frank_wolfe", the fastest on all
        data with many features that were measured.
    tol : float, default=1e-3
        Relative gap between objective and lower bound at which the fit ends.
    max_seconds : float, optional
        The fit ends after this time, with a warning.
    cost : (n_classes, n_classes) array-like, optional
        ``cost[i, j]`` is the cost of predicting class j where class i is true, in the order of
        `classes_`: non-negative, zero diagonal. By default every error costs 1.
    rescaling : {"margin", "slack"}, default="margin"
        Whether an error's cost is the margin asked for, or also multiplies the loss.
    fit_intercept : bool, default=True
        Whether to add a constant feature 1. It is penalised like the others, as in liblinear, and no
        oracle sees it.
    class_weight : dict or "balanced", optional
        Factors of C for each class.
    random_state : int, RandomState or None, default=None
        Order in which examples are visited.
    verbose : int, default=0
        Above 0, progress is printed to standard error.

    Attributes
    ----------
    coef_ : (1, n_features) or (n_classes, n_features) array
    intercept_ : (1,) or (n_classes,) array
    classes_ : (n_classes,) array
    solution_ : Solution
        ``primal``, ``dual``, ``gap`` (absolute), ``relative_gap``, ``status``, ``history``,
        ``planes``.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached; the status says why and what to try. Ctrl-C ends
        a fit that way, too, with the best model so far.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.oracles import FDrop
    >>> X = np.array([[2.0, 1.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0]])
    >>> y = np.array(["spam", "spam", "ham"])
    >>> model = InvariantLinearSVC(FDrop(max_changes=1), C=10.0, random_state=0).fit(X, y)
    >>> model.predict(X).tolist()
    ['spam', 'spam', 'ham']
    >>> model.certify(X, y).accuracy
    1.0
    """

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        *,
        C: float = 1.0,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_seconds: float | None = None,
        cost: ArrayLike | None = None,
        rescaling: str = "margin",
        fit_intercept: bool = True,
        class_weight: dict | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.oracle = oracle
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_seconds = max_seconds
        self.cost = cost
        self.rescaling = rescaling
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantLinearSVC:
        """Train on the worst case of the oracle's changes.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or sparse matrix
            Anything sparse is turned into CSR. Kept in float32 if it is, in float64 otherwise.
        y : (n_samples,) array-like
            Labels of at least two classes.
        sample_weight : (n_samples,) array-like, optional
            Non-negative factors of C.

        Returns
        -------
        InvariantLinearSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, before any work.
        """
        with all_or_nothing(self):
            oracle = self._check_common()
            check_number("C", self.C, minimum=0.0, strict=True)
            check_rescaling(self.rescaling)
            context = self._init_callback_context(max_subtasks=None)
            X, y = validate_data(self, X, y, **_ROWS)
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)
            X = self._prepare(X, oracle)
            check_classification_targets(y)
            classes, codes = np.unique(y, return_inverse=True)
            if len(classes) < 2:
                raise ValueError(f"y must hold at least two classes, got one class: {classes[0]!r}")
            check_cost(self.cost, len(classes))
            weights = self._weights(X, y, codes, classes, sample_weight)
            output = self._output(len(classes))
            n_outputs = 1 if len(classes) == 2 else len(classes)
            space = ExplicitSpace(X.shape[1], n_outputs, intercept=bool(self.fit_intercept))
            objective = Objective(space, [WorstCase(X, y, oracle, output, weights)])
            solution = self._minimise(objective, self._make_solver(space.size), context)
            self.classes_ = classes
            self.coef_ = space.weights(solution.f).astype(X.dtype)
            self.intercept_ = space.constants(solution.f).astype(X.dtype)
            self.solution_: Solution = solution
            self.n_iter_ = solution.iterations
            context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _prepare(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        X = canonical(X)
        if not isinstance(X, np.ndarray) and not oracle.supports_sparse:
            raise TypeError(
                f"{type(oracle).__name__} does not take sparse rows; pass X as a dense array"
            )
        oracle.validate(X.shape[1])
        return X

    def _output(self, n_classes: int) -> Output:
        kind = Binary if n_classes == 2 else Multiclass
        return kind(cost=self.cost, rescaling=self.rescaling)

    def _weights(
        self, X: Matrix, y: np.ndarray, codes: np.ndarray, classes: np.ndarray, sample_weight: Any
    ) -> np.ndarray:
        """C times class weights times sample weights."""
        own = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        factors = compute_class_weight(
            self.class_weight, classes=classes, y=y, sample_weight=own
        )  # fmt: skip
        if self.class_weight == "balanced":
            # A class without a sample that counts has no balance; its samples count nothing anyway.
            factors = np.where(np.isfinite(factors), factors, 0.0)
        if np.any(factors < 0) or not np.all(np.isfinite(factors)):
            raise ValueError(f"class_weight must be non-negative, got {self.class_weight!r}")
        weights = self.C * own * factors[codes]
        if not np.any(weights > 0):
            raise ValueError("sample_weight must leave a sample with a weight above 0")
        return weights

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; (n, n_classes) for more."""
        scores = self._checked_scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels, (n,)."""
        scores = self._checked_scores(X)
        return self.classes_[self._output(len(self.classes_)).predict(scores)]

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Certificate:
        """What no allowed change of the rows can turn.

        Parameters
        ----------
        X : (n, n_features) array-like or sparse matrix
        y : (n,) array-like, optional
            True labels; without them it is certified that the prediction does not change, and the
            predictions stand in for the labels where the oracle depends on them.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        Certificate
            ``margins``, ``correct``, ``accuracy``, ``exact`` and ``attacked``. It speaks of changes
            in the feature space that the model was given, not of the raw input.
        """
        X, output, oracle = self._labelled(X, y, oracle)
        return certify(self.coef_, self.intercept_, oracle, output, X)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Matrix:
        """The rows after the allowed change that lowers the margin of their label most.

        Parameters
        ----------
        X : (n, n_features) array-like or sparse matrix
        y : (n,) array-like, optional
            True labels; without them the predictions take their place.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        (n, n_features) array or CSR matrix
            Sparse if `X` is.
        """
        X, output, oracle = self._labelled(X, y, oracle)
        points: Any = worst_case(self.coef_, self.intercept_, oracle, output, X).points
        # A copy, since the answer of an oracle may share its arrays with the user's X.
        return points.copy()

    def _labelled(
        self, X: Any, y: Any, oracle: InvarianceOracle | None
    ) -> tuple[Matrix, EncodedOutput, InvarianceOracle]:
        """Checked rows, their labels as the output trained for, and the oracle to ask."""
        oracle = check_oracle_type(self.oracle if oracle is None else oracle)
        X = self._prepare(self._check(X), oracle)
        if y is None:
            y = self.classes_[self._output(len(self.classes_)).predict(self._scores(X))]
        y = np.asarray(y)
        if y.shape != (X.shape[0],):
            raise ValueError(f"y must have shape ({X.shape[0]},), one label a row, got {y.shape}")
        return X, self._output(len(self.classes_)).encode(y, self.classes_), oracle

    def _check(self, X: Any, finite: bool = True) -> Matrix:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, ensure_all_finite=finite, **_ROWS)

    def _checked_scores(self, X: Any) -> np.ndarray:
        # A sparse product passes on every stored NaN and infinity: to look for them in the few scores
        # is enough, and a fifth of the time of a prediction.
        X = self._check(X, finite=not sp.issparse(X))
        scores = self._scores(X)
        if not np.all(np.isfinite(scores)):
            assert_all_finite(X, input_name="X", estimator_name=type(self).__name__)
        return scores

    def _scores(self, X: Matrix) -> np.ndarray:
        if len(self.coef_) == 1:
            return np.asarray(X @ self.coef_[0])[:, None] + self.intercept_
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
