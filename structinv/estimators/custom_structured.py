"""Structured SVM for custom inputs and labelings, with your own argmax."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..oracles import Identity
from ..solvers import Solution, Solver, Status
from ..spaces import ExplicitSpace
from ..structures import Custom
from ..structures.example_blocks import as_list, example_weights
from ..terms import Objective
from ..terms.joint_feature import JointFeature
from ..utils.matrices import squared_lengths
from ..utils.resources import check_memory
from .advice import linear_functions
from .base import InvariantEstimator, Problem
from .examples import PLANES_OF_AN_EXAMPLE, solver_for
from .fit_progress import with_callbacks


@dataclass(eq=False, repr=False)
class CustomStructuredSVC(InvariantEstimator):
    """Structured support vector machine with your own joint features and argmax.

    Minimizes::

        1/2 |coef_|^2 + C sum_i s_i max over y' of
            [<coef_, joint_feature(x_i, y') - joint_feature(x_i, y_i)> + cost(y_i, y')]

    with sample weights s_i and the functions of a `structinv.structures.Custom` (Tsochantaridis,
    Joachims, Hofmann and Altun 2005, margin rescaling). There is no oracle, since the inputs are
    arbitrary objects. The duality gap is valid if `argmax` is correct. There is no certificate, since it
    would require the second-best labeling.

    Parameters
    ----------
    structure : Custom
        Joint features, cost and loss-augmented argmax.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training examples more closely. Decrease it
        for noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem: "auto", "bmrm", "frank_wolfe", "interior_point", "pegasos",
        "svmstruct" or an instance. It changes run time and memory, but not the optimum. "auto" selects
        "interior_point" for up to 1000 weights and 10000 examples if the mean of
        ``C |joint_feature(x, y)|^2`` is above 100, and "frank_wolfe" otherwise.
    tol : float, default=1e-3
        Relative duality gap at which the fit ends (>= 0). Decrease it for more accurate scores, at the
        cost of run time.
    max_seconds : float or None, default=None
        Time limit of the fit in seconds (> 0). Without a limit the fit runs until it reaches `tol`. A
        fit that reaches the limit keeps its model and warns.
    random_state : int, RandomState instance or None, default=None
        Seed of the sequence in which the solver visits the examples. Pass an integer for reproducible
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

    Attributes
    ----------
    coef_ : ndarray of shape (n_joint_features,)
        Weights of the joint features.
    solution_ : Solution
        Solution of the fit with its primal and dual value, its gap, status and history.
    n_iter_ : int
        Number of iterations of the solver.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before it reached `tol`. The message contains the status and a remedy.

    See Also
    --------
    InvariantStructuredSVC : Structured SVM for sequences, graphs and label sets, with certificates.
    structinv.structures.check_custom : Test the functions of a `Custom` on small examples.

    Notes
    -----
    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import CustomStructuredSVC
    >>> from structinv.structures import Custom
    >>> def joint_feature(x, y):
    ...     "Return the features of the selected item."
    ...     return np.asarray(x[y], dtype=float)
    >>> def cost(y, y2):
    ...     return float(y != y2)
    >>> def argmax(x, w, y=None):
    ...     scores = np.array(x) @ w
    ...     return int(np.argmax(scores if y is None else scores + (np.arange(len(x)) != y)))
    >>> X, y = [[(1, 0), (0, 1)], [(0, 2), (3, 0), (1, 1)]], [0, 1]
    >>> model = CustomStructuredSVC(Custom(joint_feature, cost, argmax), random_state=0).fit(X, y)
    >>> model.predict([[(0, 1), (2, 1)]]), model.score(X, y)
    ([1], 0.0)
    """

    structure: Custom
    _: KW_ONLY

    # Inputs are arbitrary objects, so no oracle can perturb them.
    oracle = None

    _advice = {
        Status.INCONSISTENT: (
            "the lower bound is above the primal value: argmax(x, w, y) misses labelings with a higher "
            "score plus cost (use check_custom), or the functions differ from those of the warm start."
        )
    }

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on pairs of inputs and labelings.

        Parameters
        ----------
        X : list of objects
            Inputs.
        y : list of objects
            Labelings, one per input.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights that multiply C (>= 0), 1 by default.

        Returns
        -------
        CustomStructuredSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter is not valid, or if a function of `structure` returns an invalid value.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far, if ``on_interrupt="raise"``.
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: Any) -> list[Any]:
        """Predict the labelings of inputs by `argmax`.

        Parameters
        ----------
        X : list of objects
            Inputs.

        Returns
        -------
        list of objects
            One labeling per input.
        """
        check_is_fitted(self)
        return [self.structure.best(x, self.coef_) for x in as_list("X", X, "an item")]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean cost of the predicted labelings, multiplied by -1.

        Parameters
        ----------
        X : list of objects
            Inputs.
        y : list of objects
            True labelings.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the mean (>= 0), 1 by default.

        Returns
        -------
        float
            Score; at most 0, and larger is better.
        """
        check_is_fitted(self)
        inputs, labels = _pairs(X, y)
        costs = [
            self.structure.cost_of(truth, found)
            for truth, found in zip(labels, self.predict(inputs), strict=True)
        ]
        weights = example_weights(sample_weight, len(costs))
        return -float(np.average(costs, weights=weights)) + 0.0

    @property
    def certify(self) -> Any:
        """Certificate of a prediction; not available for custom structures."""
        raise AttributeError(
            "CustomStructuredSVC has no certify: a margin requires the best labeling except the true "
            "one, and argmax returns the best of all"
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.structure, Custom):
            raise TypeError(
                f"structure must be a Custom, got {self.structure!r}; use InvariantStructuredSVC for "
                "other structures"
            )
        self.structure.validate()

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        inputs, labels = _pairs(X, y)
        weights = self.C * example_weights(sample_weight, len(inputs))
        return Problem(inputs, labels, Identity(), self.structure, weights, learned={})

    def _objective(self, problem: Problem) -> Objective:
        term = JointFeature(problem.rows, problem.labels, problem.structure, problem.weights)
        what = f"training with weights for {term.n_features} joint features"
        check_memory(what, linear_functions(term.n_features, 1), "use fewer joint features")
        return Objective(ExplicitSpace(term.n_features), [term])

    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        term: Any = objective.terms[0]
        # Costs are unknown before the first call; a wrong labeling is assumed to cost about 1.
        return solver_for(objective, float(np.mean(term.weights * squared_lengths(term.truths))))

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        space: Any = objective.space
        self.coef_ = np.array(space.weights(solution.f)[0])

    def _memory(self, X: Any, y: Any) -> float:
        inputs, labels = _pairs(X, y)
        width = self.structure.features_of(inputs[0], labels[0]).shape[1]
        return PLANES_OF_AN_EXAMPLE * 8.0 * width * len(inputs) + linear_functions(width, 1)

    def _scores(self, X: Any) -> np.ndarray:
        raise NotImplementedError(
            "CustomStructuredSVC has no scores, because a score requires a labeling: use predict"
        )


def _pairs(X: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """Return inputs and labelings as lists; ValueError if their numbers differ."""
    inputs, labels = as_list("X", X, "an item"), as_list("y", y, "a labeling")
    if len(inputs) != len(labels):
        raise ValueError(f"y must have one labeling per example ({len(inputs)}), got {len(labels)}")
    return inputs, labels
