"""Semi-supervised kernel classifiers with smoothness penalties."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from ..functionals import GraphLaplacian
from ..losses import ScalarLoss
from ..oracles import InvarianceOracle
from ..solvers import Solution
from ..terms import Objective
from ..utils.parameters import brief
from .advice import warn_if_uninformative
from .base import Problem
from .classifier import LabelingEstimator
from .fit_progress import labeled_alone
from .inputs import (
    as_labels,
    check_one_kind,
    check_oracle_type,
    check_targets,
    class_factors,
    flat_rows,
    learn_shape,
    one_a_row,
    say_what_is_missing,
    shaped,
    without_label,
)
from .kernel_machine import Invariances
from .representer_machine import RepresenterMachine

CLASSIFIER_LOSSES = ("logistic", "hinge", "squared_hinge", "squared", "epsilon_insensitive")


def _is_logistic(estimator: Any) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(f"predict_proba requires loss='logistic', got loss={estimator.loss!r}")
    return True


@dataclass(eq=False, repr=False)
class RepresenterClassifier(LabelingEstimator, RepresenterMachine):
    """Kernel classifier with smoothness penalties around all samples.

    Minimizes ``1/2 |f|^2 + C sum_i l(f(x_i), y_i) + sum over families nu_k sum_j r_k(L_j f)`` over
    functions f in the space of a kernel (Zhang, Lee and Teh 2013, eq. 2). Labels are -1 and 1 in this
    objective. The functionals L_j are defined at all samples, labeled or not. The penalties apply to
    derivatives along features or image transformations, differences to local averages, or differences
    along the edges of a graph.

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
    loss : str or ScalarLoss, default="logistic"
        Loss of labeled samples. "logistic", "hinge" and "squared_hinge" are losses of margins. "squared"
        and "epsilon_insensitive" are losses of ``f(x) - y`` with labels y of -1 and 1. Squared losses
        have no factor 1/2. Choose "logistic" for `predict_proba`. An instance is a loss of margins if
        its attribute `of_margins` is True.
    invariance_loss : str, ScalarLoss or sequence of them, default="squared"
        Losses of the functionals, one for all families or one per family: "squared", "absolute",
        "epsilon_insensitive", "huber" or an instance, such as ``EpsilonInsensitive(0.01)`` of
        `structinv.losses`. Change it to "absolute" or "huber" to tolerate a few large values.
    nu : float or sequence of float, default=1.0
        Weights of the smoothness penalties (>= 0), one for all families or one per family. Increase a
        weight for a smoother function. A family with weight 0 has no effect.
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
    losses_on : Functional or None, default=None
        Family with one functional per labeled sample. The losses use the values of these functionals
        instead of the values of f. With `structinv.functionals.VicinalAverages` the model is the vicinal
        SVM: it learns from averages around samples and predicts at samples (Pozdnoukhov and Bengio 2006,
        section 4). It requires ``oracle=None``.
    oracle : InvarianceOracle or None, default=None
        Oracle with the perturbations to train against. It must have an orbit or a cover, and it requires
        ``loss="hinge"``. Labeled samples then have the worst-case loss of `InvariantSVC`: two classes
        share one function, more are trained jointly.
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

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    alpha_ : ndarray of shape (n_outputs, n_functionals)
        Coefficients of the representers: evaluations at labeled samples, then the functionals of each
        family. Two classes have one output. More classes have one output each, against all others.
    intercept_ : ndarray of shape (n_outputs,)
        Constants of the decision function; 0 if ``bias=False``.
    support_vectors_ : ndarray of shape (n_support, n_features)
        Perturbed samples in the kernel expansion, with an oracle.
    dual_coef_ : ndarray of shape (n_outputs, n_support)
        Coefficients of the support vectors.
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
        If the oracle allows perturbations so large that the fit learns almost nothing.

    See Also
    --------
    InvariantSVC : Kernel classifier with worst-case training and certificates.
    LapSVC : Laplacian support vector machine.
    RepresenterRegressor : Kernel regressor with smoothness penalties.
    structinv.model_selection.labeled_scorer : Scorer that omits unlabeled samples.

    Notes
    -----
    **Scores.** `score` compares predictions with all given labels, so it counts unlabeled samples as
    errors, also in a search. Use `structinv.model_selection.labeled_scorer` to omit them from a score,
    or scikit-learn's `PredefinedSplit` to keep them in the training folds.

    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from structinv import RepresenterClassifier
    >>> from structinv.functionals import Gradient
    >>> from structinv.kernels import Gaussian
    >>> X, y = make_moons(100, noise=0.05, random_state=1)
    >>> known = y.copy()
    >>> known[2:] = -1
    >>> known[:2] = y[:2] = 0, 1
    >>> X[:2] = [0.0, 1.0], [1.0, -0.5]
    >>> model = RepresenterClassifier(Gaussian(0.25), invariances=[Gradient()], nu=0.1)
    >>> float(model.fit(X, known).score(X, y)) > 0.9
    True

    A search with unlabeled samples:

    >>> from sklearn.model_selection import GridSearchCV
    >>> from structinv.model_selection import labeled_scorer
    >>> known[2:20] = y[2:20]
    >>> search = GridSearchCV(model, {"nu": [0.0, 0.1]}, scoring=labeled_scorer(), cv=3)
    >>> sorted(search.fit(X, known).best_params_)
    ['nu']
    """

    _: KW_ONLY
    loss: str | ScalarLoss = "logistic"
    oracle: InvarianceOracle | None = None
    class_weight: dict | str | None = None
    unlabeled: Any = "auto"

    _losses = CLASSIFIER_LOSSES

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.oracle is not None and self.loss != "hinge":
            raise ValueError(
                f"loss must be 'hinge' with an oracle, got loss={self.loss!r}: pass loss='hinge', or "
                "pass invariances instead of oracle"
            )
        weighting = self.class_weight
        named = isinstance(weighting, str) and weighting in ("balanced", "per_class")
        if not named and not isinstance(weighting, (dict, type(None))):
            raise ValueError(
                f"class_weight must be a dict, 'balanced', 'per_class' or None, got {brief(weighting)}"
            )
        if np.ndim(self.unlabeled) > 0:
            raise TypeError(f"unlabeled must be a label, 'auto' or None, got {brief(self.unlabeled)}")

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        original_X = X
        learn_shape(self, X)
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        # The functionals store their rows, so they need a copy.
        X, y = validate_data(self, flat_rows(X), as_labels(y), copy=True, **self._rows)
        labeled = np.flatnonzero(~without_label(y, self.unlabeled))
        if len(labeled) == 0:
            raise ValueError("y must contain at least one label, got only unlabeled rows")
        labels = y[labeled]
        check_targets(labels, say_what_is_missing(self.unlabeled))
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must contain at least two classes, got one class: {classes[0]!s}")
        sample_weights = self._sample_weights(sample_weight, X, labeled)
        weights = self.C * sample_weights * self._class_factors(labels, classes, codes, sample_weights)
        if not np.any(weights > 0):
            raise ValueError("class_weight must be above 0 for the class of at least one labeled sample")
        oracle.validate(X.shape[1])
        oracle.check_labels(classes)
        is_binary = len(classes) == 2
        # One function per class, against all others.
        is_class = codes[:, None] == (np.ones(1) if is_binary else np.arange(len(classes)))
        return Problem(
            X,
            labels,
            oracle,
            self._structure(len(classes)),
            weights,
            learned={"classes_": classes},
            classes=classes,
            labeled=labeled,
            targets=np.where(is_class, 1.0, -1.0),
            shown=labeled_alone(original_X, y, sample_weight, labeled),
        )

    def _sizes(self, X: Any, y: Any) -> tuple[np.ndarray | None, int, int]:
        if y is None:
            return super()._sizes(X, y)
        labels = one_a_row(y, len(X))
        known = labels[~without_label(labels, self.unlabeled)]
        check_one_kind(known, say_what_is_missing(self.unlabeled))
        n_classes = len(np.unique(known))
        return labels, 1 if n_classes == 2 else n_classes, n_classes

    def _class_factors(
        self, y: np.ndarray, classes: np.ndarray, codes: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        if self.class_weight == "per_class":
            return 1.0 / np.bincount(codes)[codes]
        return class_factors(self.class_weight, classes, y, own)[codes]

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Warn if the oracle leaves almost nothing to learn."""
        warn_if_uninformative(self, problem, objective, solution, stacklevel=5)
        super()._look_at(problem, objective, solution)

    @available_if(_is_logistic)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimate class probabilities; only with ``loss="logistic"``.

        With more than two classes, the probabilities of each class against all others are divided by
        their sum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, with one column per entry of ``classes_``.
        """
        scores = self._checked_scores(X)
        if len(self.classes_) == 2:
            return expit(np.hstack([-scores, scores]))
        return softmax(log_expit(scores), axis=1)


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
