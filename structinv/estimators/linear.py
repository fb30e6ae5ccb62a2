"""A linear classifier trained on the worst case of an invariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, check_array

from ..certificates import WorstChange, worst_change
from ..machine import check_memory
from ..matrices import Matrix
from ..objective import WorstCase
from ..oracles import InvarianceOracle
from ..outputs import Binary, EncodedOutput, Multiclass, Output
from ..outputs.base import check_cost, check_rescaling
from ..solvers import BMRM, FrankWolfe, Solution, Solver
from ..spaces import ExplicitSpace
from .base import InvariantClassifier, canonical
from .estimates import (
    LINEAR_FUNCTIONS_AT_ONCE,
    LINEAR_PLANES_OF_A_CLASS,
    LINEAR_PLANES_OF_A_ROW,
    checked_labels,
    linear_memory,
    named,
)
from .shapes import flat_rows, shaped

FEW_WEIGHTS = 16


class InvariantLinearSVC(InvariantClassifier):
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

    Notes
    -----
    Hinge losses give scores, not probabilities, so there is no `predict_proba`. scikit-learn's
    `CalibratedClassifierCV` learns them from scores of rows that were held out; see the examples. They
    are probabilities for rows as they come, not after a change, and a certificate says nothing of them:
    it holds for the model fitted here, not for those that calibration fits on parts of the rows.

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

    Probabilities, by calibration:

    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import make_blobs
    >>> from structinv.oracles import Box
    >>> X, y = make_blobs(60, centers=2, random_state=0)
    >>> model = InvariantLinearSVC(Box(0.1), random_state=0)
    >>> calibrated = CalibratedClassifierCV(model, ensemble=False).fit(X, y)
    >>> calibrated.predict_proba(X).shape
    (60, 2)
    >>> calibrated.score(X, y) > 0.9
    True
    """

    _rows = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": [np.float64, np.float32]}

    _largest_power = 1.25

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

    def _check_parameters(self) -> InvarianceOracle:
        oracle = super()._check_parameters()
        check_rescaling(self.rescaling)
        return oracle

    def _prepare(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        X = canonical(X)
        if not isinstance(X, np.ndarray) and not oracle.supports_sparse:
            raise TypeError(
                f"{type(oracle).__name__} does not take sparse rows; pass X as a dense array"
            )
        return super()._prepare(X, oracle)

    def _new_output(self, n_classes: int) -> Output:
        check_cost(self.cost, n_classes)
        return self._output(n_classes)

    def _output(self, n_classes: int) -> Output:
        kind = Binary if n_classes == 2 else Multiclass
        return kind(cost=self.cost, rescaling=self.rescaling)

    def estimate_memory(self, X: Any, y: Any = None) -> int:
        """About how many bytes a fit needs at most, told before it.

        Counted are the planes, if there come to be 4 a row (16 a row and class where there are several
        classes, and the oracle does not list its members), some functions, and where the oracle lists
        the members of S(x) the values of all of them for as many rows as are looked at together, and
        either the weights as all changes move them or these members. `X` itself is not counted, nor
        what the oracle works with.

        Parameters
        ----------
        X : (n_samples, n_features) array-like, or sparse matrix where the estimator takes it
        y : (n_samples,) array-like, optional
            Labels; two classes are assumed without them, and oracles that depend on them need them.

        Returns
        -------
        int

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC
        >>> InvariantLinearSVC().estimate_memory(np.zeros((1000, 10))) < 1_000_000
        True
        """
        oracle = shaped(self._check_parameters(), self, X)
        X = check_array(flat_rows(X), estimator=self, input_name="X", **self._rows)
        X, labels = self._prepare(X, oracle), checked_labels(X, y)
        n_classes = 2 if labels is None else len(np.unique(labels))
        n_outputs = 1 if n_classes == 2 else n_classes
        entries = X.size if isinstance(X, np.ndarray) else 2 * X.nnz + X.shape[0]
        few = n_outputs == 1 or oracle.finite
        n_planes = LINEAR_PLANES_OF_A_ROW if few else LINEAR_PLANES_OF_A_CLASS * n_outputs
        planes = n_planes * (8.0 * entries + 24.0 * X.shape[0])
        functions = LINEAR_FUNCTIONS_AT_ONCE * 8.0 * (X.shape[1] + 1) * n_outputs
        members, _ = linear_memory(X, oracle.bind(X, labels), n_outputs)
        return int(planes + functions + members)

    def _new_space(self, X: Matrix, term: WorstCase) -> ExplicitSpace:
        needed, size = linear_memory(X, term.bound, term.output.n_outputs)
        check_memory(named(term.bound, size, X.shape[0]), needed, "list fewer, or take fewer rows")
        return ExplicitSpace(X.shape[1], term.output.n_outputs, intercept=bool(self.fit_intercept))

    def _best_solver(self, space: Any) -> Solver:
        # With few weights a bundle of planes knows the whole objective, however badly it is scaled.
        return BMRM() if space.size <= FEW_WEIGHTS else FrankWolfe()

    def _keep(self, X: Matrix, term: WorstCase, space: ExplicitSpace, solution: Solution) -> None:
        self.coef_ = space.weights(solution.f).astype(X.dtype)
        self.intercept_ = space.constants(solution.f).astype(X.dtype)
        self.solution_: Solution = solution

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

    def _worst_change(
        self, X: Matrix, output: EncodedOutput, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        return worst_change(self.coef_, self.intercept_, oracle, output, X, points)

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
