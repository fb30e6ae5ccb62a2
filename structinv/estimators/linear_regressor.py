"""Linear regressor with worst-case training (robust linear SVR)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from ..certificates.certificate import linear_function
from ..oracles import InvarianceOracle
from ..spaces.base import Space
from ..utils.matrices import Matrix
from .linear_machine import LinearMachine
from .regressor import InvariantRegressor


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
        Solution of the fit for the centered targets, with its primal and dual value, its gap, status,
        history and planes.
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
    **Warm start.** A fit with ``warm_start=True`` starts from the planes of the previous fit, if that
    fit also had ``warm_start=True``. Samples, targets, `epsilon` and `fit_intercept` must be the same,
    and with an intercept also the sample weights; otherwise the fit starts from zero. `C` and the oracle
    may change.

    **Checkpoint.** A killed fit continues from its `checkpoint` if you start it again with the same
    samples, targets, sample weights, parameters and structinv version. Otherwise `fit` raises
    ValueError, and the message contains the difference. These parameters may change: `tol`,
    `max_seconds`, `random_state`, `verbose`, `warm_start`, `memory_limit` and `on_interrupt`.

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
