"""Linear classifier and regressor with worst-case training (robust linear SVM)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from ..certificates.certificate import linear_function
from ..oracles import InvarianceOracle
from ..rows import RowSource
from ..solvers import Solution
from ..solvers.pegasos import Stream
from ..spaces.base import Space
from ..terms import Objective
from ..utils.matrices import Matrix
from .classifier import InvariantClassifier
from .fit_progress import all_or_nothing
from .linear_machine import LinearMachine
from .partial_fit import check_streams, learn_batch, learn_in_blocks, stream_of
from .problem import Problem
from .regressor import InvariantRegressor


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
    **Warm start.** A fit with ``warm_start=True`` starts from the function of the previous fit and, if
    that fit also had ``warm_start=True``, from its dual variables. They are clipped to the values that
    the new problem allows, so the bounds are valid. Samples, labels and parameters may change. Dual
    variables start at zero if the number of samples changes.

    **Checkpoint.** A killed fit continues from its `checkpoint` if you start it again with as many
    samples and features. Otherwise `fit` raises ValueError. Parameters may change. The file has the best
    function and the dual variables; `max_seconds` limits the sum of all runs.

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
    **Warm start.** A fit with ``warm_start=True`` starts from the function of the previous fit and, if
    that fit also had ``warm_start=True``, from its dual variables. They are clipped to the values that
    the new problem allows, so the bounds are valid. Samples, targets and parameters may change. Dual
    variables start at zero if the number of samples changes.

    **Checkpoint.** A killed fit continues from its `checkpoint` if you start it again with as many
    samples and features. Otherwise `fit` raises ValueError. Parameters may change. The file has the best
    function and the dual variables; `max_seconds` limits the sum of all runs.

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
