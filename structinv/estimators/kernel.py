"""Kernel classifier and regressor with worst-case training (robust SVM and SVR)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..certificates.certificate import WorstChange, worst_change_in
from ..functionals import Functional
from ..functionals.base import BoundFunctional
from ..kernels import Kernel
from ..kernels.kernel_values import precision
from ..losses import ScalarLoss
from ..oracles import InvarianceOracle
from ..solvers import Solution
from ..spaces.base import Space
from ..structures.bound import BoundStructure
from ..terms import Objective
from ..utils.matrices import Matrix
from .base import Problem
from .classifier import InvariantClassifier
from .regressor import InvariantRegressor
from .support_vectors import SupportVectorMachine


@dataclass(eq=False, repr=False)
class InvariantSVC(SupportVectorMachine, InvariantClassifier):
    """Kernel support vector classifier, trained on worst-case perturbations.

    Minimizes ``1/2 |f|^2 + C sum_i l_i(f)`` over functions f in the space of a kernel (Teo, Globerson,
    Roweis and Smola 2007, eq. 2). ``l_i`` is the worst-case loss of sample i over its perturbation set
    S(x_i). Teo's lambda is ``1 / (C * n_samples)``. The solution is
    ``f(z, c) = sum_j beta_jc k(z_j, z)`` for class c and the kernel k, where the support vectors z_j are
    perturbed samples. The fit only stores perturbed samples that are the worst case in some iteration.

    Two classes share one function. More classes are trained jointly, in the form of Crammer and Singer
    and with the hinge loss. There is no intercept: "rbf" needs none, and "poly" with `coef0` contains a
    constant.

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle with the perturbations to train against. It must have an orbit or a cover. Without an
        oracle the fit uses the unperturbed samples.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training samples more closely. Decrease it for
        noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem: "auto", "bmrm", "frank_wolfe", "interior_point", "pegasos",
        "representer", "svmstruct" or an instance. It changes run time and memory, but not the optimum.
        "auto" is "representer" with `invariances` and "frank_wolfe" without. Try "interior_point" for a
        linear kernel with a large C.
    tol : float, default=1e-3
        Relative duality gap at which the fit ends (>= 0). Decrease it for more accurate scores, at the
        cost of run time.
    max_seconds : float or None, default=None
        Time limit of the fit in seconds (> 0). Without a limit the fit runs until it reaches `tol`. A
        fit that reaches the limit keeps its model and warns. The fit can exceed the limit: it
        completes the current enumeration of perturbed samples. One more pass over all samples computes
        the bounds.
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
    kernel : {"rbf", "poly", "linear", "laplacian", "precomputed"}, Kernel or callable, default="rbf"
        Kernel of the function space. A callable ``kernel(X, Y)`` returns an array of shape (n_samples_X,
        n_samples_Y). With "precomputed", X is a kernel matrix: of shape (n_samples, n_samples) in `fit`,
        of shape (n_samples, n_training_samples) in `predict`. It requires ``oracle=None``.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "laplacian" (> 0). "scale" is
        ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``. Increase it for a more local,
        more flexible function.
    degree : int, default=3
        Degree of the kernel "poly" (>= 1). Increase it for a more flexible function.
    coef0 : float, default=1.0
        Constant of the kernel "poly" (>= 0). Increase it to give the terms of low degree more weight.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        Loss of a margin t: ``max(0, 1 - t)``, its square, or ``log(1 + exp(-t))``. The worst-case loss
        is the loss of the smallest margin in S(x). The last two require two classes and an oracle
        without discount. With "logistic" every sample is a support vector.
    plane_tol : float, default=0.0
        Plane tolerance (>= 0): the solver stores a plane only if it exceeds the other planes of its
        sample by more than this (Teo et al. 2007, algorithm 1). Increase it for fewer support vectors,
        at the cost of a larger gap in `solution_`. It requires the solver "auto", "frank_wolfe",
        "representer" or "svmstruct", or an instance of these; a value above 0 replaces the tolerance of
        an instance. The fit also ends, without a warning, if no plane exceeds the tolerance.
    cache_mb : float, default=1000
        Memory for kernel values in units of 10^6 bytes (> 0). Increase it for faster fits on large data
        sets. Decrease it if a fit exceeds the free memory; see `estimate_memory`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes that multiply C (>= 0), 1 by default. "balanced" uses weights that are
        inversely proportional to class frequencies. Increase a weight to make fewer errors in that
        class.
    invariances : sequence of Functional or BoundFunctional, default=()
        Families of functionals for smoothness penalties, such as derivatives at all training samples. A
        family that was bound to samples (`Functional.bind`) keeps these samples. Add families to make
        the function less sensitive.
    nu : float or sequence of float, default=1.0
        Weights of the smoothness penalties (>= 0), one for all families or one per family. Increase a
        weight for a smoother function. A family with weight 0 has no effect.
    invariance_loss : str, ScalarLoss or sequence of them, default="squared"
        Losses of the functionals, one for all families or one per family: "squared", "absolute",
        "epsilon_insensitive", "huber" or an instance, such as ``EpsilonInsensitive(0.01)`` of
        `structinv.losses`. Change it to "absolute" or "huber" to tolerate a few large values.
    max_support_vectors : int or None, default=None
        Maximum number of support vectors (>= 1). Set it for faster predictions, at the cost of accuracy.
        A larger model is compressed as by ``compress(n_support=max_support_vectors)``. The compression
        is not included in `max_seconds`. `solution_` then contains the objective of the compressed
        function and its gap to the same lower bound. After Ctrl-C the model remains uncompressed. It
        requires ``warm_start=False``.

    Attributes
    ----------
    support_vectors_ : ndarray of shape (n_support, n_features)
        Perturbed samples in the kernel expansion, sorted by sample and variant. Empty if
        ``kernel="precomputed"``.
    support_ : ndarray of shape (n_support,) of int
        Index of the training sample from which each support vector comes.
    support_members_ : ndarray of shape (n_support,) of int
        Variant of that sample in its orbit or cover; variant 0 is the unperturbed sample. For a
        continuous perturbation set, a support vector can lie between this variant and neighboring
        variants of the cover.
    support_transforms_ : ndarray of shape (n_support,) of str
        Names of these variants, from the oracle.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        Coefficients beta of the support vectors.
    n_support_ : ndarray of shape (n_classes,) of int
        Number of support vectors from samples of each class.
    alpha_ : ndarray of shape (1, n_functionals) or (n_classes, n_functionals)
        Coefficients of the representers of `invariances`.
    compression_error_ : float
        Largest change of a score at the support vectors by the last compression; 0 without one. It is
        not a bound for other samples.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    kernel_ : Kernel
        The kernel with resolved parameters; for "precomputed", a kernel matrix of the support vectors.
    min_eigenvalue_ : float or None
        Smallest eigenvalue of the kernel matrix of at most 2000 training samples, before a spectrum
        correction. None for kernels that are positive semi-definite by construction.
    solution_ : Solution
        Solution of the fit with its primal and dual value, its gap, status and history. Its ``f``
        contains the support vectors only, not all training samples.
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
    IndefiniteKernelWarning
        If the kernel matrix of the training samples has a negative eigenvalue.

    See Also
    --------
    InvariantLinearSVC : Linear classifier, for large or sparse data.
    RepresenterClassifier : Kernel classifier with smoothness penalties and unlabeled samples.
    VirtualSupportVectorSVC : Classifier trained on transformed copies of support vectors.
    InvariantSVR : Kernel regressor.

    Notes
    -----
    **Certificates.** `certify` and `worst_case` enumerate the orbit or cover of S(x). Certificates of a
    finite S(x) are tight. For a continuous S(x), `certify` refines the perturbation, starting at the
    worst variant of the cover. The margin is then reduced by ``|f| L mesh``, where L is the Lipschitz
    constant of the kernel. A fine resolution of the cover makes this term small. "poly" and "laplacian"
    have no such constant, so no sample is certified for a continuous S(x).

    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    **Probabilities.** Scores are not probabilities. Use scikit-learn's `CalibratedClassifierCV`, as in
    the examples. With ``ensemble=False`` it fits the model on the labels 0 and 1, so labels in
    `only_for` and `class_weight` must be these.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantSVC
    >>> from structinv.oracles import Shifts
    >>> strokes = np.array([[1.0, 1, 0, 1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0, 1, 0, 0]])
    >>> names = np.array(["corner", "line"])
    >>> oracle = Shifts(1, shape=(3, 3), fill="wrap")
    >>> model = InvariantSVC(oracle, C=10.0, random_state=0).fit(strokes, names)
    >>> model.predict([[0.0, 0, 0, 1, 1, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1, 0, 0, 1]]).tolist()
    ['corner', 'line']
    >>> model.certify(strokes, names).accuracy, str(model.support_transforms_[-1])
    (1.0, 'shift (0, 1)')

    Probabilities, by calibration:

    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> X, y = X[:60] / 16, y[:60]
    >>> calibrated = CalibratedClassifierCV(InvariantSVC(Shifts(1), random_state=0), ensemble=False)
    >>> calibrated.fit(X, y).predict_proba(X).shape
    (60, 2)
    >>> calibrated.score(X, y) > 0.9
    True
    """

    oracle: InvarianceOracle | None = None
    _: KW_ONLY
    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    loss: str = "hinge"
    plane_tol: float = 0.0
    cache_mb: float = 1000
    class_weight: dict | str | None = None
    invariances: Sequence[Functional | BoundFunctional] = ()
    nu: float | Sequence[float] = 1.0
    invariance_loss: str | ScalarLoss | Sequence[str | ScalarLoss] = "squared"
    max_support_vectors: int | None = None

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        super()._keep(problem, objective, solution)
        term: Any = objective.terms[0]
        self._count(term.bound_structure.codes[self.support_])

    def _count(self, codes: np.ndarray) -> None:
        """Store the classes of the samples of all support vectors."""
        self._codes_ = codes
        self.n_support_ = np.bincount(codes, minlength=len(self.classes_))

    def _take_support(self, kept: np.ndarray, points: np.ndarray, coefficients: np.ndarray) -> None:
        super()._take_support(kept, points, coefficients)
        self._count(self._codes_[kept])

    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        space, f = self._function(X, oracle, labels.classes[labels.codes[:1]])
        return worst_change_in(space, f, oracle, labels, X, points)


@dataclass(eq=False, repr=False)
class InvariantSVR(SupportVectorMachine, InvariantRegressor):
    """Kernel support vector regressor, trained on worst-case perturbations.

    Minimizes ``1/2 |f|^2 + C sum_i max(0, |y_i - f(z_i)| - epsilon)`` over functions f in the space of a
    kernel. ``z_i`` is the sample with the largest error in the perturbation set S(x_i).

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle with the perturbations to train against. It must have an orbit or a cover. Without an
        oracle the fit uses the unperturbed samples. Oracles with `Discounted` or `only_for` are not
        supported.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training samples more closely. Decrease it for
        noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem: "auto", "bmrm", "frank_wolfe", "interior_point", "pegasos",
        "representer", "svmstruct" or an instance. It changes run time and memory, but not the optimum.
        "auto" is "representer" with `invariances` and "frank_wolfe" without. Try "interior_point" for a
        linear kernel with a large C.
    tol : float, default=1e-3
        Relative duality gap at which the fit ends (>= 0). Decrease it for more accurate scores, at the
        cost of run time.
    max_seconds : float or None, default=None
        Time limit of the fit in seconds (> 0). Without a limit the fit runs until it reaches `tol`. A
        fit that reaches the limit keeps its model and warns. The fit can exceed the limit: it
        completes the current enumeration of perturbed samples. One more pass over all samples computes
        the bounds.
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
    kernel : {"rbf", "poly", "linear", "laplacian", "precomputed"}, Kernel or callable, default="rbf"
        Kernel of the function space. A callable ``kernel(X, Y)`` returns an array of shape (n_samples_X,
        n_samples_Y). With "precomputed", X is a kernel matrix: of shape (n_samples, n_samples) in `fit`,
        of shape (n_samples, n_training_samples) in `predict`. It requires ``oracle=None``.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "laplacian" (> 0). "scale" is
        ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``. Increase it for a more local,
        more flexible function.
    degree : int, default=3
        Degree of the kernel "poly" (>= 1). Increase it for a more flexible function.
    coef0 : float, default=1.0
        Constant of the kernel "poly" (>= 0). Increase it to give the terms of low degree more weight.
    epsilon : float, default=0.1
        Half-width of the tube (>= 0), in units of the targets, as in scikit-learn's `SVR`: smaller
        errors cost nothing. Increase it for noisy targets. Decrease it for more accurate predictions.
    fit_intercept : bool, default=True
        If True, subtract the weighted mean of the targets before the fit, and add it to the predictions.
        The mean is not optimized. Pass False for centered targets.
    cache_mb : float, default=1000
        Memory for kernel values in units of 10^6 bytes (> 0). Increase it for faster fits on large data
        sets. Decrease it if a fit exceeds the free memory; see `estimate_memory`.
    invariances : sequence of Functional or BoundFunctional, default=()
        Families of functionals for smoothness penalties, such as derivatives at all training samples. A
        family that was bound to samples (`Functional.bind`) keeps these samples. Add families to make
        the function less sensitive.
    nu : float or sequence of float, default=1.0
        Weights of the smoothness penalties (>= 0), one for all families or one per family. Increase a
        weight for a smoother function. A family with weight 0 has no effect.
    invariance_loss : str, ScalarLoss or sequence of them, default="squared"
        Losses of the functionals, one for all families or one per family: "squared", "absolute",
        "epsilon_insensitive", "huber" or an instance, such as ``EpsilonInsensitive(0.01)`` of
        `structinv.losses`. Change it to "absolute" or "huber" to tolerate a few large values.
    max_support_vectors : int or None, default=None
        Maximum number of support vectors (>= 1). Set it for faster predictions, at the cost of accuracy.
        A larger model is compressed as by ``compress(n_support=max_support_vectors)``. The compression
        is not included in `max_seconds`. `solution_` then contains the objective of the compressed
        function and its gap to the same lower bound. After Ctrl-C the model remains uncompressed. It
        requires ``warm_start=False``.

    Attributes
    ----------
    support_vectors_ : ndarray of shape (n_support, n_features)
        Perturbed samples in the kernel expansion, sorted by sample and variant. Empty if
        ``kernel="precomputed"``.
    support_ : ndarray of shape (n_support,) of int
        Index of the training sample from which each support vector comes.
    support_members_ : ndarray of shape (n_support,) of int
        Variant of that sample in its orbit or cover; variant 0 is the unperturbed sample. For a
        continuous perturbation set, a support vector can lie between this variant and neighboring
        variants of the cover.
    support_transforms_ : ndarray of shape (n_support,) of str
        Names of these variants, from the oracle.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the support vectors.
    n_support_ : ndarray of shape (1,) of int
        Number of support vectors.
    alpha_ : ndarray of shape (1, n_functionals)
        Coefficients of the representers of `invariances`.
    intercept_ : ndarray of shape (1,)
        Weighted mean of the targets; 0 if ``fit_intercept=False``.
    target_mean_ : float
        Weighted mean of the targets; 0 if ``fit_intercept=False``.
    compression_error_ : float
        Largest change of a score at the support vectors by the last compression; 0 without one. It is
        not a bound for other samples.
    kernel_ : Kernel
        The kernel with resolved parameters; for "precomputed", a kernel matrix of the support vectors.
    min_eigenvalue_ : float or None
        Smallest eigenvalue of the kernel matrix of at most 2000 training samples, before a spectrum
        correction. None for kernels that are positive semi-definite by construction.
    solution_ : Solution
        Solution of the fit with its primal and dual value, its gap, status and history. Its ``f``
        contains the support vectors only, not all training samples.
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
    IndefiniteKernelWarning
        If the kernel matrix of the training samples has a negative eigenvalue.

    See Also
    --------
    InvariantLinearSVR : Linear regressor, for large or sparse data.
    OrbitRidge : Kernel ridge regression, with an invariant kernel.
    RepresenterRegressor : Kernel regressor with smoothness penalties.
    InvariantSVC : Kernel classifier.

    Notes
    -----
    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    **Tolerance of planes.** `epsilon` is the tube of the regression. The plane tolerance is a parameter
    of solvers, such as ``FrankWolfe(plane_tol=...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantSVR
    >>> from structinv.oracles import Flip
    >>> X = np.random.default_rng(0).standard_normal((40, 2))
    >>> model = InvariantSVR(Flip(shape=(1, 2)), C=100.0, random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> bool(np.abs(model.predict(X) - model.predict(X[:, ::-1])).max() < 0.3)
    True
    >>> bounds = model.certify(X)
    >>> bool(np.all(bounds.exact & (bounds.lowest <= model.predict(X))))
    True
    """

    oracle: InvarianceOracle | None = None
    _: KW_ONLY
    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    epsilon: float = 0.1
    fit_intercept: bool = True
    cache_mb: float = 1000
    invariances: Sequence[Functional | BoundFunctional] = ()
    nu: float | Sequence[float] = 1.0
    invariance_loss: str | ScalarLoss | Sequence[str | ScalarLoss] = "squared"
    max_support_vectors: int | None = None

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        super()._keep(problem, objective, solution)
        self.intercept_ = np.array([problem.target_mean], dtype=problem.rows.dtype)
        self.n_support_ = np.array([len(self.support_)])

    def _take_support(self, kept: np.ndarray, points: np.ndarray, coefficients: np.ndarray) -> None:
        super()._take_support(kept, points, coefficients)
        self.n_support_ = np.array([len(kept)])

    def _scores(self, X: Matrix) -> np.ndarray:
        return super()._scores(X) + self.intercept_

    def _predictor(self, X: Matrix, oracle: InvarianceOracle) -> tuple[Space, Any, float, float]:
        space, f = self._function(X, oracle, None)
        eps = float(np.finfo(precision(X, self.support_vectors_)).eps)
        return space, f, float(self.intercept_[0]), eps
