"""Linear classifier and regressor with worst-case training (robust SVM)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.metaestimators import available_if

from ..certificates.certificate import WorstChange, joined, linear_function, worst_change
from ..dual import Case
from ..dual.plane_cache import BatchedState
from ..oracles import Identity, InvarianceOracle
from ..oracles.third_party import bind
from ..rows import RowSource
from ..rows.sources import MatrixRows
from ..solvers import BMRM, FrankWolfe, InteriorPoint, Solution, Solver
from ..solvers.interior_point import spread_of
from ..solvers.pegasos import Stream
from ..spaces import ExplicitSpace
from ..spaces.base import Space
from ..structures.bound import BoundStructure
from ..terms import Objective
from ..terms.blockwise_term import BlockwiseTerm
from ..terms.worst_case import WorstMargin
from ..utils.matrices import Matrix, squared_lengths
from ..utils.parameters import check_boolean
from ..utils.resources import check_memory
from .advice import (
    LINEAR_PLANES_OF_A_CLASS,
    LINEAR_PLANES_OF_A_ROW,
    linear_functions,
    linear_memory,
    named,
)
from .base import InvariantEstimator, Problem
from .classifier import InvariantClassifier
from .fit_progress import all_or_nothing
from .inputs import (
    as_bytes,
    block_sizes,
    check_oracle_type,
    check_source,
    flat_rows,
    for_oracle,
    in_blocks,
    labels_of_source,
    learn_shape,
    memory_of_blocks,
    refuse_paths,
    shaped,
    source_for_oracle,
)
from .partial_fit import check_streams, learn_batch, learn_in_blocks, stream_of
from .regressor import InvariantRegressor

# Up to this number of weights, bundle methods are fastest.
FEW_WEIGHTS = 16
# Above this mean of C |x|^2, first-order steps are slow. Up to these sizes Newton's method is faster.
LONG = 1000.0
MOST_WEIGHTS, MOST_ROWS = 1000, 10_000
# The same for one function of few weights, or if all rows have the same perturbations.
LONG_FOR_NEWTON, NEWTON_WEIGHTS = 100.0, 100


class LinearMachine(InvariantEstimator):
    """Base class of estimators with weights of features and a constant."""

    fit_intercept: bool
    memory_limit: float | str | None = None
    coef_: np.ndarray
    intercept_: np.ndarray

    _rows = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": [np.float64, np.float32]}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_boolean("fit_intercept", self.fit_intercept)
        as_bytes(self.memory_limit)

    def _memory(self, X: Any, y: Any) -> float:
        if isinstance(X, RowSource):
            _, n_outputs, _ = self._sizes(X, y)
            functions = linear_functions(X.shape[1], n_outputs)
            return memory_of_blocks(X, functions, as_bytes(self.memory_limit))
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        X = check_array(flat_rows(X), estimator=self, input_name="X", **self._rows)
        return self._memory_of(for_oracle(X, oracle), y, oracle)

    def _memory_of(self, X: Matrix, y: Any, oracle: InvarianceOracle) -> float:
        """Return the estimated bytes of a fit on checked rows."""
        labels, n_outputs, _ = self._sizes(X, y)
        entries = X.size if isinstance(X, np.ndarray) else 2 * X.nnz + X.shape[0]
        few = n_outputs == 1 or oracle.finite
        n_planes = LINEAR_PLANES_OF_A_ROW if few else LINEAR_PLANES_OF_A_CLASS * n_outputs
        planes = n_planes * (8.0 * entries + 24.0 * X.shape[0])
        functions = linear_functions(X.shape[1], n_outputs)
        members, _ = linear_memory(X, bind(oracle, X, labels), n_outputs)
        return planes + functions + members

    def _read_rows(self, X: Any, y: Any) -> tuple[Any, np.ndarray, InvarianceOracle]:
        refuse_paths(X)
        if not isinstance(X, RowSource):
            rows, labels, oracle = super()._read_rows(X, y)
            return rows if self.memory_limit is None else MatrixRows(rows), labels, oracle
        learn_shape(self, X)
        oracle = check_oracle_type(self.oracle)
        return source_for_oracle(X, oracle), labels_of_source(self, X, y), oracle

    def _check(self, X: Any, finite: bool = True) -> Any:
        refuse_paths(X)
        return check_source(self, X) if isinstance(X, RowSource) else super()._check(X, finite)

    def _rows_to_change(self, X: Any, oracle: InvarianceOracle | None) -> tuple[Any, InvarianceOracle]:
        if not isinstance(X, RowSource):
            return super()._rows_to_change(X, oracle)
        oracle = check_oracle_type(self.oracle if oracle is None else oracle)
        return source_for_oracle(check_source(self, X), oracle), oracle

    def _objective(self, problem: Problem) -> Objective:
        (n_rows, n_features), n_outputs = problem.rows.shape, problem.n_outputs
        space = ExplicitSpace(n_features, n_outputs, intercept=bool(self.fit_intercept))
        functions = linear_functions(n_features, n_outputs)
        if isinstance(problem.rows, RowSource):
            sizes = block_sizes(problem.rows, functions, as_bytes(self.memory_limit))
            return Objective(space, [problem.in_blocks(sizes)])
        term = problem.worst_case()
        what = f"training with weights for {n_features} features"
        check_memory(what, functions, "hash the features, or renumber them without gaps")
        needed, size = linear_memory(problem.rows, term.bound, n_outputs)
        if needed > 0:
            check_memory(
                named(term.bound, size, n_rows), needed, "use fewer perturbed samples or fewer rows"
            )
        return Objective(space, [term])

    def _best_solver(self, objective: Any) -> tuple[Solver, str]:
        term, n_weights, n_rows = objective.terms[0], objective.space.size, len(objective.weights)
        if isinstance(term, WorstMargin):
            if isinstance(term.oracle, Identity):
                # Frank-Wolfe then takes Newton steps for one point per row, which do not depend on
                # scales and weights.
                return FrankWolfe(), "there is no oracle, and the loss is smooth"
            if n_weights <= FEW_WEIGHTS and n_rows <= MOST_ROWS:
                # Smooth losses need many planes, and few weights make planes of single rows cheap.
                return (
                    InteriorPoint(),
                    f"the loss is smooth, and there are at most {FEW_WEIGHTS} weights",
                )
        if isinstance(term, BlockwiseTerm):
            return _solver_of_blocks(term, objective.space)
        if n_weights <= MOST_WEIGHTS and n_rows <= MOST_ROWS and (reason := _newton(objective)):
            return InteriorPoint(), reason
        if n_weights <= FEW_WEIGHTS:
            # A bundle models the whole objective, so its steps do not depend on scaling.
            return BMRM(), f"there are at most {FEW_WEIGHTS} weights"
        return FrankWolfe(), f"there are more than {FEW_WEIGHTS} weights"

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        space: Any = objective.space
        dtype = problem.rows.dtype
        self.coef_ = space.weights(solution.f).astype(dtype, order="C")
        self.intercept_ = (space.constants(solution.f) + problem.target_mean).astype(dtype)

    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        if isinstance(X, RowSource):
            if points:
                raise TypeError(
                    "X must be an array or a matrix in worst_case, which returns all rows: pass one "
                    "block"
                )

            def worst_of(block: Matrix, rows: slice) -> WorstChange:
                some = labels.structure.bind(labels.classes[labels.codes[rows]], labels.classes)
                return self._worst_change(block, some, oracle, points)

            return joined(list(in_blocks(X, worst_of)), None)
        return worst_change(self.coef_, self.intercept_, oracle, labels, X, points)

    def _checked_scores(self, X: Any) -> np.ndarray:
        # A NaN or infinity in sparse rows makes a score non-finite. A test of the scores is faster than
        # one of the rows, and saves a fifth of the run time.
        X = self._check(X, finite=not sp.issparse(X))
        scores = self._scores(X)
        if isinstance(X, RowSource):
            return scores
        if not np.all(np.isfinite(scores)):
            assert_all_finite(X, input_name="X", estimator_name=type(self).__name__)
        return scores

    def _scores(self, X: Any) -> np.ndarray:
        if isinstance(X, RowSource):
            return np.concatenate(list(in_blocks(X, lambda rows, _: self._scores(rows))))
        if len(self.coef_) == 1:
            return np.asarray(X @ self.coef_[0])[:, None] + self.intercept_
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        """Declare support of sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _newton(objective: Any) -> str:
    """Return the reason why Newton's method is faster than first-order steps; empty if it may not be."""
    term, space = objective.terms[0], objective.space
    if term.X.shape[0] != len(objective.weights):
        return ""
    if sp.issparse(term.X) and term.X.shape[1] > NEWTON_WEIGHTS:
        # Newton's method needs dense planes.
        return ""
    # The ratio does not depend on the units of features and targets.
    length, unit = float(np.mean(objective.weights * squared_lengths(term.X))), term.bound_structure.unit
    if length > LONG * unit:
        return "the mean of C |x|^2 is large"
    few = space.n_outputs == 1 and space.size <= NEWTON_WEIGHTS
    if space.size <= FEW_WEIGHTS or not (few or spread_of(objective) is not None):
        return ""
    if length > LONG_FOR_NEWTON * unit:
        return (
            "the mean of C |x|^2 is large, and weights are few or all rows have the same perturbations"
        )
    smooth_or_regression = isinstance(term, WorstMargin) or not term.bound_structure.structure.labeled
    # States with lists of points or planes are slow for any C.
    if smooth_or_regression and issubclass(Case(term, space).chosen(), BatchedState):
        return (
            "the loss has no in-hull steps, and weights are few or all rows have the same perturbations"
        )
    return ""


def _solver_of_blocks(term: BlockwiseTerm, space: ExplicitSpace) -> tuple[Solver, str]:
    """Return the solver for rows in blocks, and the reason."""
    if Case(term.sample, space).chosen().packs:
        return FrankWolfe(), "rows are read in blocks"
    return BMRM(), "rows are read in blocks, and dual variables of a block cannot be stored separately"


@dataclass(eq=False, repr=False)
class InvariantLinearSVC(LinearMachine, InvariantClassifier):
    """Linear support vector classifier, trained on worst-case perturbations.

    Minimizes ``1/2 |w|^2 + C sum_i l_i(w)``, where ``l_i`` is the worst-case loss of sample i over its
    perturbation set S(x_i) (Teo, Globerson, Roweis and Smola 2007, eq. 2). Teo's lambda is
    ``1 / (C * n_samples)``. More than two classes are trained jointly, in the form of Crammer and Singer
    and with the hinge loss.

    Without an oracle, with two classes and ``fit_intercept=False``, the model is that of scikit-learn's
    `LinearSVC` with the same `loss`. With ``loss="logistic"`` it is that of `LogisticRegression`.

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle with the perturbations to train against. Without an oracle the fit uses the unperturbed
        samples.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training samples more closely. Decrease it for
        noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem: "auto", "bmrm", "frank_wolfe", "interior_point", "pegasos",
        "svmstruct" or an instance. It changes run time and memory, but not the optimum. "auto" prefers
        "interior_point" for small problems (up to 1000 weights and 10000 samples, and 100 features if X
        is sparse) with large feature values or a large `C`, or with an oracle and a smooth loss.
        Otherwise it selects "bmrm" for up to 16 weights and "frank_wolfe" for more. For samples in
        blocks it selects "frank_wolfe" or "bmrm". `explain_solver` returns the selected solver and the
        reason.
    tol : float, default=1e-3
        Relative duality gap at which the fit ends (>= 0). Decrease it for more accurate scores, at the
        cost of run time.
    max_seconds : float or None, default=None
        Time limit of the fit in seconds (> 0). Without a limit the fit runs until it reaches `tol`. A
        fit that reaches the limit keeps its model and warns.
    random_state : int, RandomState instance or None, default=None
        Seed of the sequence in which the solver visits the samples. Pass an integer for reproducible
        results.
    verbose : int, default=0
        Verbosity (>= 0). Set it above 0 to print the progress of a fit to standard error. For samples in
        blocks, it also prints the finished fraction and the remaining seconds of each pass.
    warm_start : bool, default=False
        If True, a fit starts from the solution of the previous fit; see Notes. Set it to True to fit for
        several values of `C`.
    checkpoint : str, path-like or None, default=None
        File for the state of a running fit; see Notes. Set it for long fits, so that a killed fit can
        continue.
    checkpoint_seconds : float, default=120.0
        Interval between writes of the checkpoint in seconds (> 0). Decrease it to lose less work if the
        process is killed.
    on_interrupt : {"raise", "return"}, default="raise"
        Reaction to Ctrl-C. The estimator keeps the best model found so far, if any. With "raise", `fit`
        then raises KeyboardInterrupt. With "return", `fit` ends with a warning.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        Loss of a margin t: ``max(0, 1 - t)``, its square, or ``log(1 + exp(-t))``. The worst-case loss
        is the loss of the smallest margin in S(x). The last two support two classes only. They do not
        support `cost`, slack rescaling or discounted oracles.
    cost : array-like of shape (n_classes, n_classes) or None, default=None
        Misclassification costs (>= 0, zero diagonal), 1 for every error by default. ``cost[i, j]`` is
        the cost of predicting class j for class i, in the sequence of `classes_`. A data frame is
        aligned with the classes by its labels. Increase an entry to make that error rarer.
    rescaling : {"margin", "slack"}, default="margin"
        Effect of the costs. With "margin" the cost of an error is its required margin. With "slack"
        every required margin is 1 and the cost multiplies the loss.
    fit_intercept : bool, default=True
        If True, add a constant feature 1. Its weight is penalized like all weights, as in liblinear, and
        the oracle does not perturb it. Pass False for texts if class frequencies differ between training
        and prediction: no edit changes the intercept, so a robust model relies on it.
    memory_limit : float, str or None, default=None
        Memory for a fit in addition to the samples, in bytes or as a string such as "4GB". Set it for
        large data sets: samples in memory are then read in blocks, and excess dual variables go to
        temporary files. By default a fit has no limit for samples in memory, and uses most of the free
        memory for samples in files.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes that multiply C (>= 0), 1 by default. "balanced" uses weights that are
        inversely proportional to class frequencies. Increase a weight to make fewer errors in that
        class.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Constants of the decision function.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    solution_ : Solution
        Solution of the fit with its primal and dual value, its gap, status and history.
    n_iter_ : int
        Number of iterations of the solver.
    n_features_in_ : int
        Number of features in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features in `fit`; only if all are strings.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before it reached `tol`. The message contains the status and a remedy.
    UninformativeFitWarning
        If the fit predicts a single class, often because the oracle allows large perturbations.

    See Also
    --------
    InvariantSVC : Kernel classifier for oracles with an orbit or a cover.
    InvariantTextClassifier : Linear classifier of texts, with edits of tokens.
    InvariantLinearSVR : Linear regressor.
    structinv.certify : Certify a linear classifier of scikit-learn.

    Notes
    -----
    **Warm starts and checkpoints.** A fit starts from the function of the previous fit or of the file,
    and from its dual variables, clipped to the values that the new problem allows. Its bounds are valid.
    Samples, labels and parameters may change, but a `checkpoint` requires as many samples and features.
    The page :doc:`Performance </guide/performance>` has the rules.

    **Probabilities.** Scores are not probabilities, even with ``loss="logistic"``, so there is no
    `predict_proba`. Use scikit-learn's `CalibratedClassifierCV`, as in the examples. Its probabilities
    hold for unperturbed samples, and a certificate does not cover them. With ``ensemble=False`` it fits
    the model on the labels 0 and 1, so labels in `only_for` and `class_weight` must be these.

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

    oracle: InvarianceOracle | None = None
    _: KW_ONLY
    loss: str = "hinge"
    cost: ArrayLike | None = None
    rescaling: str = "margin"
    fit_intercept: bool = True
    memory_limit: float | str | None = None
    class_weight: dict | str | None = None

    def rows_of(self, X: Any) -> Any:
        """Return the rows that the weights `coef_` multiply: X itself.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array-like or sparse matrix of shape (n_samples, n_features)
            X, unchanged.
        """
        return X

    def column_names(self) -> np.ndarray:
        """Return the names of the features.

        Returns
        -------
        ndarray of shape (n_features,)
            The names in `fit`, or "x0", "x1", ... if the features had no names.
        """
        known = getattr(self, "feature_names_in_", None)
        n_features = self.coef_.shape[1]
        return np.array([f"x{j}" for j in range(n_features)]) if known is None else known

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        super()._keep(problem, objective, solution)
        self._stream_: Stream | None = stream_of(objective, solution)

    @available_if(check_streams)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on the next batch of a stream; requires ``solver="pegasos"``.

        The method makes one pass over the batch, in mini-batches. Each sample adds a loss with weight C.
        After n samples in total, the objective equals that of `fit` for these n samples. A repeated
        sample counts again. The coefficients are a weighted average of those after each step, with
        larger weights for later steps. With ``Pegasos(average=False)`` they are those after the last
        step.

        ``solution_.dual`` is a valid lower bound of the minimum. An upper bound needs the earlier
        samples, so ``solution_.primal`` and the gap are infinite from the second batch on. Measure the
        accuracy of the model on new samples. Certificates of the model are valid.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or RowSource
            Samples of the batch. Each block of a `RowSource` is one batch; the next block is read in the
            background.
        y : array-like of shape (n_samples,)
            Labels of the batch.
        classes : array-like or None, default=None
            All labels of the stream, only needed in the first call. By default they are the labels in
            the first `y`.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights that multiply C (>= 0), 1 by default.

        Returns
        -------
        InvariantLinearSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            If parameters or data are not valid, such as ``class_weight="balanced"``. The model is then
            unchanged.
        KeyboardInterrupt
            After Ctrl-C, for any value of `on_interrupt`. The model is then the same as before the
            batch.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC
        >>> from structinv.oracles import Box
        >>> model = InvariantLinearSVC(Box(0.5), solver="pegasos", random_state=0)
        >>> for sign in (1, -1):
        ...     rows = np.array([[2.0 * sign, 0.0], [3.0 * sign, 1.0]])
        ...     model = model.partial_fit(rows, [sign, sign], classes=[-1, 1])
        >>> model.predict([[2.0, 0.0], [-2.0, 0.0]]).tolist(), model.solution_.primal
        ([1, -1], inf)
        """
        with all_or_nothing(self):
            learn = learn_in_blocks if isinstance(X, RowSource) else learn_batch
            learn(self, X, y, classes, sample_weight)
        return self


@dataclass(eq=False, repr=False)
class InvariantLinearSVR(LinearMachine, InvariantRegressor):
    """Linear support vector regressor, trained on worst-case perturbations.

    Minimizes ``1/2 |w|^2 + C sum_i max(0, |y_i - f(z_i)| - epsilon)``, where ``z_i`` is the sample with
    the largest error in the perturbation set S(x_i). Without an oracle and with ``fit_intercept=False``
    the model is that of scikit-learn's ``LinearSVR(loss="epsilon_insensitive")``.

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle with the perturbations to train against. Without an oracle the fit uses the unperturbed
        samples. Oracles with `Discounted` or `only_for` are not supported.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training samples more closely. Decrease it for
        noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem: "auto", "bmrm", "frank_wolfe", "interior_point", "pegasos",
        "svmstruct" or an instance. It changes run time and memory, but not the optimum. "auto" prefers
        "interior_point" for small problems (up to 1000 weights and 10000 samples, and 100 features if X
        is sparse) with large feature values or a large `C`. Otherwise it selects "bmrm" for up to 16
        weights and "frank_wolfe" for more. For samples in blocks it selects "frank_wolfe" or "bmrm".
        `explain_solver` returns the selected solver and the reason.
    tol : float, default=1e-3
        Relative duality gap at which the fit ends (>= 0). Decrease it for more accurate scores, at the
        cost of run time.
    max_seconds : float or None, default=None
        Time limit of the fit in seconds (> 0). Without a limit the fit runs until it reaches `tol`. A
        fit that reaches the limit keeps its model and warns.
    random_state : int, RandomState instance or None, default=None
        Seed of the sequence in which the solver visits the samples. Pass an integer for reproducible
        results.
    verbose : int, default=0
        Verbosity (>= 0). Set it above 0 to print the progress of a fit to standard error. For samples in
        blocks, it also prints the finished fraction and the remaining seconds of each pass.
    warm_start : bool, default=False
        If True, a fit starts from the solution of the previous fit; see Notes. Set it to True to fit for
        several values of `C`.
    checkpoint : str, path-like or None, default=None
        File for the state of a running fit; see Notes. Set it for long fits, so that a killed fit can
        continue.
    checkpoint_seconds : float, default=120.0
        Interval between writes of the checkpoint in seconds (> 0). Decrease it to lose less work if the
        process is killed.
    on_interrupt : {"raise", "return"}, default="raise"
        Reaction to Ctrl-C. The estimator keeps the best model found so far, if any. With "raise", `fit`
        then raises KeyboardInterrupt. With "return", `fit` ends with a warning.
    epsilon : float, default=0.1
        Half-width of the tube (>= 0), in units of the targets, as in scikit-learn's `SVR`: smaller
        errors cost nothing. Increase it for noisy targets. Decrease it for more accurate predictions.
    fit_intercept : bool, default=True
        If True, subtract the weighted mean of the targets before the fit, and add it to the predictions.
        Also add a constant feature 1. Its weight is penalized like all weights, as in liblinear, and the
        oracle does not perturb it. Pass False for centered targets.
    memory_limit : float, str or None, default=None
        Memory for a fit in addition to the samples, in bytes or as a string such as "4GB". Set it for
        large data sets: samples in memory are then read in blocks, and excess dual variables go to
        temporary files. By default a fit has no limit for samples in memory, and uses most of the free
        memory for samples in files.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,)
        Weight of the constant feature plus the mean of the targets.
    target_mean_ : float
        Weighted mean of the targets; 0 if ``fit_intercept=False``.
    solution_ : Solution
        Solution of the fit for the centered targets, with its primal and dual value, its gap, status
        and history.
    n_iter_ : int
        Number of iterations of the solver.
    n_features_in_ : int
        Number of features in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features in `fit`; only if all are strings.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before it reached `tol`. The message contains the status and a remedy.
    UninformativeFitWarning
        If the predictions of the training samples are no better than a constant.

    See Also
    --------
    InvariantSVR : Kernel regressor for oracles with an orbit or a cover.
    InvariantLinearSVC : Linear classifier.

    Notes
    -----
    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    **Tolerance of planes.** `epsilon` is the tube of the regression. The plane tolerance is a parameter
    of solvers, such as ``FrankWolfe(plane_tol=...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVR
    >>> from structinv.oracles import Box
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> model = InvariantLinearSVR(Box(0.1), C=100.0, random_state=0).fit(X, 2 * X[:, 0] + 1)
    >>> model.predict([[1.5, 0.5]]).round(1)
    array([4.])
    >>> bounds = model.certify([[1.5, 0.5]])
    >>> bool(bounds.lowest[0] < 4.0 < bounds.highest[0]), bounds.exact
    (True, array([ True]))
    """

    oracle: InvarianceOracle | None = None
    _: KW_ONLY
    epsilon: float = 0.1
    fit_intercept: bool = True
    memory_limit: float | str | None = None

    def _predictor(self, X: Matrix, oracle: InvarianceOracle) -> tuple[Space, Any, float, float]:
        return *linear_function(self.coef_, self.intercept_), 0.0, 0.0
