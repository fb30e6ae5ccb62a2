"""Laplacian support vector machine (graph regularization), a baseline."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from ..functionals import GraphLaplacian
from .kernel_machine import Invariances
from .representer_classifier import RepresenterClassifier


@dataclass(eq=False, repr=False)
class LapSVC(RepresenterClassifier):
    """Laplacian support vector machine, smooth along a graph of neighbors.

    It is a `RepresenterClassifier` with a squared penalty of the differences along the edges of a graph
    (Belkin, Niyogi and Sindhwani 2006). The graph joins nearest neighbors among all samples, labeled or
    not.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        Kernel of the function space. A callable ``kernel(X, Y)`` returns an array of shape (n_samples_X,
        n_samples_Y).
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
        If True, a fit starts from the solution of the previous fit; see `RepresenterClassifier`. Set it
        to True to fit for several values of `C`.
    checkpoint : str, path-like or None, default=None
        File for the state of a running fit; see `RepresenterClassifier`. Set it for long fits, so that a
        killed fit can continue.
    checkpoint_seconds : float, default=120.0
        Interval between writes of the checkpoint in seconds (> 0). Decrease it to lose less work if the
        process is killed.
    on_interrupt : {"raise", "return"}, default="raise"
        Reaction to Ctrl-C. The estimator keeps the best model found so far, if any. With "raise", `fit`
        then raises KeyboardInterrupt. With "return", `fit` ends with a warning.
    loss : {"logistic", "hinge", "squared_hinge", "squared", "epsilon_insensitive"}, default="hinge"
        Loss of labeled samples. The first three are losses of margins. "squared" and
        "epsilon_insensitive" are losses of ``f(x) - y`` with labels y of -1 and 1. Squared losses have
        no factor 1/2. Choose "logistic" for `predict_proba`.
    nu : float, default=1.0
        Weight of the penalty of the graph (>= 0). In the notation of Belkin et al. it is
        ``gamma_I / (l + u)^2`` times ``1 / (2 gamma_A)``. Increase it for a smoother function.
    bias : bool, default=False
        If True, add a constant that the norm does not penalize. Only the `Representer` solver supports
        it. Set it to True for classes of very different size.
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
    class_weight : dict, "balanced", "per_class" or None, default=None
        Weights of the classes that multiply C (>= 0), 1 by default. "balanced" uses weights that are
        inversely proportional to class frequencies. "per_class" uses ``1 / n`` for a class with n
        labeled samples (Zhang, Lee and Teh 2013, section 6.3). Increase a weight to make fewer errors in
        that class.
    unlabeled : label, "auto" or None, default="auto"
        Value of `y` that marks unlabeled samples; their sample weights are ignored. "auto" is the number
        -1, as in scikit-learn. It also works among strings, as in ``["ham", -1, "spam"]`` in a list or
        with ``dtype=object``. With "auto", -1 is an ordinary class if the only labels are -1 and 1. If
        `y` contains -1 and a single other label that is not 1, `fit` raises ValueError. Pass
        ``unlabeled=-1`` if -1 always means "unlabeled", and None if all samples are labeled.
    n_neighbors : int, default=6
        Number of nearest neighbors in the graph (>= 1). An edge joins two samples if either is among the
        nearest of the other. Increase it for sparse data.
    width : float or None, default=None
        Length scale of the weights of edges, ``exp(-distance^2 / (2 width^2))`` (> 0). By default all
        weights are 1. Decrease it to weaken long edges.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    alpha_ : ndarray of shape (n_outputs, n_functionals)
        Coefficients of the representers: evaluations at labeled samples, then edges of the graph.
    intercept_ : ndarray of shape (n_outputs,)
        Constants of the decision function; 0 if ``bias=False``.
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

    See Also
    --------
    RepresenterClassifier : The same classifier with other smoothness penalties.
    structinv.functionals.GraphLaplacian : The penalized functionals.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import LapSVC
    >>> X = np.array([[0.0], [0.5], [1.0], [3.0], [3.5], [4.0]])
    >>> LapSVC(n_neighbors=1).fit(X, [0, -1, -1, 1, -1, -1]).predict(X).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    _: KW_ONLY
    n_neighbors: int = 6
    width: float | None = None
    loss: str = "hinge"

    # The penalty of the graph fixes these parameters.
    invariances: Any = field(default=(), init=False)
    invariance_loss: str = field(default="squared", init=False)
    losses_on: None = field(default=None, init=False)
    oracle: None = field(default=None, init=False)

    def _invariances(self) -> Invariances:
        return Invariances([GraphLaplacian(self.n_neighbors, self.width)], self.nu, "squared")
