"""Semi-supervised kernel regressor with smoothness penalties."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d, validate_data

from ..losses import ScalarLoss
from ..oracles import Identity
from ..solvers import Solution, Status
from ..structures import Regression
from ..terms import Objective
from .advice import warn_if_unexplained
from .base import Problem
from .fit_progress import labeled_alone
from .inputs import as_labels, flat_rows, labels_equal, learn_shape, one_a_row
from .regressor import InvariantRegressor
from .representer_machine import RepresenterMachine

REGRESSOR_LOSSES = ("squared", "epsilon_insensitive", "absolute", "huber")


@dataclass(eq=False, repr=False)
class RepresenterRegressor(RegressorMixin, RepresenterMachine):
    """Kernel regressor with smoothness penalties around all samples.

    Minimizes ``1/2 |f|^2 + C sum_i l(f(x_i) - y_i) + sum over families nu_k sum_j r_k(L_j f)`` over
    functions f in the space of a kernel (Zhang, Lee and Teh 2013, eq. 2). The functionals L_j are
    defined at all samples, with or without a target. The penalties apply to derivatives, differences to
    local averages, or differences along the edges of a graph.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        Kernel of the function space. A callable ``kernel(X, Y)`` returns an array of shape (n_samples_X,
        n_samples_Y). It must have the derivatives that the families require.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training samples more closely. Decrease it for
        noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem. It changes run time and memory, but not the optimum. "auto" is
        the `Representer` solver. Its methods are "newton-cg", "dual-cd" and
        "cvxpy". Other values are "bmrm", "frank_wolfe", "interior_point", "pegasos", "svmstruct" or an
        instance.
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
        Verbosity (>= 0). Set it above 0 to print the progress of a fit to standard error.
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
    invariances : sequence of Functional or BoundFunctional, default=()
        Families of functionals for smoothness penalties, such as derivatives at all training samples. A
        family that was bound to samples (`Functional.bind`) keeps these samples. Add families to make
        the function less sensitive.
    loss : str or ScalarLoss, default="squared"
        Loss of ``f(x) - y``: "squared" (without a factor 1/2), "epsilon_insensitive", "absolute",
        "huber" or an instance, such as ``EpsilonInsensitive(0.01)`` of `structinv.losses`. Choose
        "absolute" or "huber" for targets with outliers.
    invariance_loss : str, ScalarLoss or sequence of them, default="squared"
        Losses of the functionals, one for all families or one per family: "squared", "absolute",
        "epsilon_insensitive", "huber" or an instance, such as ``EpsilonInsensitive(0.01)`` of
        `structinv.losses`. Change it to "absolute" or "huber" to tolerate a few large values.
    nu : float or sequence of float, default=1.0
        Weights of the smoothness penalties (>= 0), one for all families or one per family. Increase a
        weight for a smoother function. A family with weight 0 has no effect.
    bias : bool, default=True
        If True, add a constant that the norm does not penalize. Only the `Representer` solver supports
        it; pass False for others. Without a constant, predictions far from the samples tend to 0.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "laplacian" (> 0). "scale" is
        ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``. Increase it for a more local,
        more flexible function.
    degree : int, default=3
        Degree of the kernel "poly" (>= 1). Increase it for a more flexible function.
    coef0 : float, default=1.0
        Constant of the kernel "poly" (>= 0). Increase it to give the terms of low degree more weight.
    cache_mb : float, default=1000
        Memory for kernel values in units of 10^6 bytes (>= 0). Increase it for faster fits on large data
        sets. Decrease it if a fit exceeds the free memory; see `estimate_memory`.
    losses_on : Functional or None, default=None
        Family with one functional per labeled sample. The losses use the values of these functionals
        instead of the values of f. With `structinv.functionals.VicinalAverages` the model is the vicinal
        SVM: it learns from averages around samples and predicts at samples (Pozdnoukhov and Bengio 2006,
        section 4).
    unlabeled : float or None, default=None
        Value of `y` that marks samples without a target, such as ``np.nan``. By default all samples have
        a target.

    Attributes
    ----------
    alpha_ : ndarray of shape (1, n_functionals)
        Coefficients of the representers: evaluations at samples with a target, then the functionals of
        each family.
    intercept_ : ndarray of shape (1,)
        Constant of the predictions; 0 if ``bias=False``.
    kernel_ : Kernel
        The kernel with resolved parameters.
    min_eigenvalue_ : float or None
        Smallest eigenvalue of the kernel matrix of at most 2000 training samples, before a spectrum
        correction. None for kernels that are positive semi-definite by construction.
    solution_ : Solution
        Solution of the fit with its primal and dual value, its gap, status and history.
    n_iter_ : int
        Number of iterations of the solver.
    n_features_in_ : int
        Number of features in `fit`.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before it reached `tol`. The message contains the status and a remedy.
    IndefiniteKernelWarning
        If the kernel matrix of the training samples has a negative eigenvalue.
    UninformativeFitWarning
        If the predictions of the training samples are no better than a constant.

    See Also
    --------
    RepresenterClassifier : Kernel classifier with smoothness penalties.
    InvariantSVR : Kernel regressor with worst-case training and prediction bounds.
    OrbitRidge : Kernel ridge regression, with an invariant kernel.

    Notes
    -----
    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import RepresenterRegressor
    >>> from structinv.functionals import SecondDerivative
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> straight = RepresenterRegressor(invariances=[SecondDerivative(0, 0)], C=100.0)
    >>> straight.fit(X, 2 * X[:, 0]).predict([[1.5]]).round(1)
    array([3.])

    Some targets are unknown:

    >>> y = np.where(abs(X[:, 0] - 1.5) > 0.5, 2 * X[:, 0], np.nan)
    >>> straight.set_params(unlabeled=np.nan).fit(X, y).predict([[1.5]]).round(1)
    array([3.])
    """

    _: KW_ONLY
    bias: bool = True
    unlabeled: float | None = None

    _losses = REGRESSOR_LOSSES

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        given = X
        learn_shape(self, X)
        X, y, labeled = self._checked_targets(flat_rows(X), y)
        if len(labeled) == 0:
            raise ValueError("y must contain at least one target, got only unlabeled rows")
        targets = y[labeled].astype(np.float64)
        return Problem(
            X,
            targets,
            Identity(),
            Regression(),
            self.C * self._sample_weights(sample_weight, X, labeled),
            learned={},
            labeled=labeled,
            targets=targets[:, None],
            shown=labeled_alone(given, y, sample_weight, labeled),
        )

    def _sizes(self, X: Any, y: Any) -> tuple[np.ndarray | None, int, int]:
        if y is not None:
            one_a_row(y, len(X))
        return None, 1, 2

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Warn if the predictions are no better than a constant."""
        if solution.status in (Status.CONVERGED, Status.WITHIN_PLANE_TOL):
            # Other fits have raised a ConvergenceWarning.
            self._warn_if_unexplained(problem)
        super()._look_at(problem, objective, solution)

    def _warn_if_unexplained(self, problem: Problem) -> None:
        remedies = ["a larger C"]
        if self.loss == "epsilon_insensitive":
            remedies.append("a smaller epsilon of the loss")
        if len(self.invariances):
            remedies.append("a smaller nu")
        if not self.bias:
            remedies.insert(0, "bias=True")
        warn_if_unexplained(
            self,
            problem.labels,
            self._scores(problem.labeled_rows)[:, 0],
            problem.weights,
            remedies,
            stacklevel=6,
            epsilon=float(self._loss().get_params().get("epsilon", 0.0)),
        )

    def _loss(self) -> ScalarLoss:
        loss = super()._loss()
        if loss.of_margins:
            raise ValueError(
                f"loss must be a loss of errors, got {loss!r}, which is a loss of margins of labels"
            )
        return loss

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.unlabeled is not None and not isinstance(self.unlabeled, Real):
            raise TypeError(f"unlabeled must be a number or None, got {self.unlabeled!r}")
        if self.unlabeled is not None and np.isinf(float(self.unlabeled)):
            raise ValueError(f"unlabeled must be finite or NaN, got {self.unlabeled!r}")

    def _checked_targets(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a checked copy of the rows, the targets, and the indices of rows with a target."""
        nan_is_missing = self.unlabeled is not None and np.isnan(float(self.unlabeled))
        missing: Any = False
        given = y = as_labels(y)
        if nan_is_missing and y is not None:
            given = np.array(column_or_1d(y, dtype=np.float64, warn=True))
            missing = np.isnan(given)
            # scikit-learn must check the other targets only.
            given[missing] = 0.0
        try:
            X, given = validate_data(self, X, given, y_numeric=True, copy=True, **self._rows)
        except ValueError as error:
            if nan_is_missing or "y contains NaN" not in str(error):
                raise
            raise ValueError(
                f"{error} Pass unlabeled=np.nan if samples without a target have the target NaN"
            ) from None
        if nan_is_missing:
            given[missing] = np.nan
        if self.unlabeled is None:
            return X, given, np.arange(len(given))
        return X, given, np.flatnonzero(~labels_equal(given, self.unlabeled))

    predict = InvariantRegressor.predict
