"""Kernel classifiers that are told how the function should behave around every row."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from ..oracles import InvarianceOracle
from ..solvers import Solution
from ..structures import Binary, Multiclass
from ..terms import Objective
from .callbacks import labeled_alone
from .parameters import check_oracle_type
from .problem import Problem
from .representer_machine import OF_MARGINS, RepresenterMachine
from .row_shapes import flat_rows, learn_shape, shaped
from .target_labels import (
    as_labels,
    check_one_kind,
    check_targets,
    class_factors,
    one_a_row,
    say_what_is_missing,
    without_label,
)
from .uninformative_fits import warn_if_uninformative

CLASSIFIER_LOSSES = (*OF_MARGINS, "squared", "epsilon_insensitive")


def _is_logistic(estimator: Any) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(f"predict_proba needs loss='logistic', got {estimator.loss!r}")
    return True


@dataclass(eq=False, repr=False)
class RepresenterClassifier(ClassifierMixin, RepresenterMachine):
    """Kernel classifier that is told how its function should behave around every row.

    Minimizes ``1/2 |f|^2 + C sum_i l(f(x_i), y_i) + sum over families nu_k sum_j r_k(L_j f)`` over f
    in the space of a kernel (Zhang, Lee and Teh 2013, eq. 2), with labels -1 and +1 inside. The
    families' functionals act around all fitted rows, labeled or not: flat along every feature,
    flat along an image's turn, equal to its local average, smooth over a graph.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        With the derivatives that the families need.
    invariances : sequence of Functional or BoundFunctional, default=()
        Families are bound to all fitted rows; bound ones keep their rows.
    loss : {"logistic", "hinge", "squared_hinge", "squared", "epsilon_insensitive"}, default="logistic"
        Squared losses are without a half; "squared" and "epsilon_insensitive" are of ``f(x) - y``.
    invariance_loss : str or list of str, default="squared"
        One of "squared", "absolute", "epsilon_insensitive" and "huber", for all families or one each.
    C : float, default=1.0
        Weight of the losses, above 0.
    nu : float or list of float, default=1.0
        Weight of the families' losses, for all or one each; 0 switches a family off.
    bias : bool, default=False
        Whether a constant that the norm does not see is added; most solvers refuse it by name.
    oracle : InvarianceOracle, optional
        Labeled rows pay the hinge loss of the worst change that it allows (``loss="hinge"``), as in
        `InvariantSVC`: two classes share one function, more are trained jointly.
    loss_params, invariance_loss_params : dict or list of dict, optional
        ``{"epsilon": 0.1}`` and the like.
    gamma, degree, coef0
        Of kernels by name, as in `sklearn.svm.SVC`.
    solver : str or Solver, default="auto"
        "auto" is the `Representer` solver, whose methods "newton-cg", "dual-interior", "lbfgs",
        "dual-cd" and "cvxpy" can be named; or one of the solvers of `structinv.solvers`.
    class_weight : dict, "balanced" or "per_class", optional
        Factors of C; "per_class" is one over the number of labeled rows of the class (Zhang, Lee and
        Teh 2013, section 6.3).
    unlabeled : label or "auto" or None, default="auto"
        The label of rows without one, whose sample weights do not count. "auto" is the number -1, also
        among strings, as in scikit-learn:
        ``["ham", -1, "spam"]`` as a list or with ``dtype=object``. But {-1, +1} alone are two ordinary
        classes, and -1 beside any other single value is an error: ``unlabeled=-1`` always stands for
        no label, and None for no such label at all.
    cache_mb : float, default=1000
        Memory for values of the kernel, in units of 10^6 bytes.
    tol, max_seconds, random_state, verbose, warm_start, checkpoint, checkpoint_seconds, on_interrupt
        See `InvariantLinearSVC`.
    losses_on : Functional, optional
        What the losses of labels look at, one functional a labeled row: values of f, by default.
        `structinv.functionals.VicinalAverages` makes it the vicinal machine (Pozdnoukhov and Bengio
        2006, section 4), which learns from averages and predicts at points. Not with an oracle.

    Attributes
    ----------
    classes_ : (n_classes,) array
    alpha_ : (n_outputs, n_functionals) array
        Coefficients of the representers: those of the labeled rows' evaluations, then those of each
        family. Two classes have one output; more have one each, against all others.
    intercept_ : (n_outputs,) array
    support_vectors_, dual_coef_ : (m, n_features) and (n_outputs, m) arrays
        Changed rows that joined the expansion with an oracle, and their coefficients.
    kernel_ : Kernel
    min_eigenvalue_ : float or None
        Of the kernel's table of at most 2000 training rows, before a `spectrum` mends it;
        None for kernels that are positive semi-definite by construction.
    solution_ : Solution
    n_iter_ : int
    n_features_in_ : int

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached.
    IndefiniteKernelWarning
        If the kernel is none on the training rows: it has an eigenvalue below 0.
    UninformativeFitWarning
        If the oracle's changes leave next to nothing to learn.

    Notes
    -----
    Like any estimator, `score` compares with the labels it is given, and so counts rows without a
    label as wrong; so does a search that cuts them into test folds.
    `structinv.model_selection.LabeledSplit` keeps them in the training folds, and `labeled_scorer`
    leaves them out of a score.

    With ``warm_start=True`` a fit starts from the slopes of all losses (and, with an oracle, from the
    changed rows) of the fit before it, if that had ``warm_start=True`` too, and the same rows, labels,
    families, losses and kernel, by their fingerprints; else it starts afresh. C, weights, `nu` and the
    oracle may change. The method "cvxpy", which starts from nothing, refuses it.

    A `checkpoint` is kept as in `InvariantLinearSVC`, and `cache_mb` may change, too. It holds
    numbers of members, points that are no members, and slopes of penalties. The method "cvxpy" refuses
    it.

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

    A search over rows of which some have no label:

    >>> from sklearn.model_selection import GridSearchCV
    >>> from structinv.model_selection import LabeledSplit
    >>> known[2:20] = y[2:20]
    >>> search = GridSearchCV(model, {"nu": [0.0, 0.1]}, cv=LabeledSplit(3), error_score="raise")
    >>> sorted(search.fit(X, known).best_params_)
    ['nu']
    """

    _: KW_ONLY
    loss: str = "logistic"
    oracle: InvarianceOracle | None = None
    class_weight: dict | str | None = None
    unlabeled: Any = "auto"

    _losses = CLASSIFIER_LOSSES

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.oracle is not None and self.loss != "hinge":
            raise ValueError(
                "loss must be 'hinge' with an oracle, whose worst case is one of margins, got "
                f"{self.loss!r}"
            )
        weighting = self.class_weight
        named = isinstance(weighting, str) and weighting in ("balanced", "per_class")
        if not named and not isinstance(weighting, (dict, type(None))):
            raise ValueError(
                f"class_weight must be a dict, 'balanced', 'per_class' or None, got {weighting!r}"
            )
        if np.ndim(self.unlabeled) > 0:
            raise TypeError(f"unlabeled must be a label, 'auto' or None, got {self.unlabeled!r}")

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        given = X
        learn_shape(self, X)
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        # A copy, since the functionals keep their rows.
        X, y = validate_data(self, flat_rows(X), as_labels(y), copy=True, **self._rows)
        labeled = np.flatnonzero(~without_label(y, self.unlabeled))
        if len(labeled) == 0:
            raise ValueError("y must hold a labeled row, got none")
        known = y[labeled]
        check_targets(known, say_what_is_missing(self.unlabeled))
        classes, codes = np.unique(known, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got one class: {classes[0]!s}")
        own = self._sample_weights(sample_weight, X, labeled)
        weights = self.C * own * self._class_factors(known, classes, codes, own)
        if not np.any(weights > 0):
            raise ValueError("class_weight must leave a labeled sample with a weight above 0")
        oracle.validate(X.shape[1])
        oracle.check_labels(classes)
        two = len(classes) == 2
        # Each class against all others.
        chosen = codes[:, None] == (np.ones(1) if two else np.arange(len(classes)))
        return Problem(
            X,
            known,
            oracle,
            Binary() if two else Multiclass(),
            weights,
            told=y,
            learned={"classes_": classes},
            classes=classes,
            labeled=labeled,
            targets=np.where(chosen, 1.0, -1.0),
            shown=labeled_alone(given, y, sample_weight, labeled),
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

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution, left: float) -> None:
        """Warn where the oracle's changes leave next to nothing to learn."""
        try:
            warn_if_uninformative(self, problem, objective, solution, left, stacklevel=5)
        finally:
            self._forget_tables()

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; (n, n_classes) for more."""
        scores = self._checked_scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels, (n,)."""
        scores = self._checked_scores(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 0] > 0).astype(int)]
        return self.classes_[np.argmax(scores, axis=1)]

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
