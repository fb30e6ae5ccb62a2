"""Machines for objects and labelings that functions of the user's describe."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

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
from .base import InvariantEstimator
from .callbacks import with_callbacks
from .example_inputs import PLANES_OF_AN_EXAMPLE, solver_for
from .problem import Problem
from .resource_estimates import linear_functions


@dataclass(eq=False, repr=False)
class CustomStructuredSVC(InvariantEstimator):
    r"""Learns the weights of joint features from examples of any kind, by an argmax of your own.

    Minimizes

        1/2 |coef_|^2 + C sum_i s_i max over y' of
            [<coef_, joint_feature(x_i, y') - joint_feature(x_i, y_i)> + cost(y_i, y')]

    with the three functions of a `Custom` (Tsochantaridis, Joachims, Hofmann and Altun 2005, margin
    rescaling). Nothing changes: what may change inside an object nobody knows. The gap, too, is as true
    as the argmax, and there is no certificate, which would need the second-best labeling.

    Parameters
    ----------
    structure : Custom
    C : float, default=1.0
        Weight of the losses, above 0.
    solver : {"auto", "svmstruct", "bmrm", "pegasos", "frank_wolfe", "interior_point"} or Solver
        "auto" goes by the mean of ``C |joint_feature(x, y)|^2``, else as in `InvariantStructuredSVC`.
    tol, max_seconds, random_state, verbose, warm_start
        See `InvariantStructuredSVC`.
    checkpoint, checkpoint_seconds, on_interrupt
        See `InvariantStructuredSVC`.

    Attributes
    ----------
    coef_ : (D,) array
    solution_ : Solution
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import CustomStructuredSVC
    >>> from structinv.structures import Custom
    >>> def joint_feature(x, y):
    ...     "Of the item that is picked from a list."
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

    # Nothing changes.
    oracle = None

    _advice = {
        Status.INCONSISTENT: (
            "the lower bound lies above the value: argmax(x, w, y) misses labelings of a higher score "
            "and cost (see check_custom), or the functions are not those of the warm start."
        )
    }

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on pairs of inputs and labelings.

        Parameters
        ----------
        X, y : lists of objects
        sample_weight : (n,) array-like, optional
            Non-negative factors of C.

        Returns
        -------
        CustomStructuredSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters that cannot be used, and for functions that answer with something else.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far; see `on_interrupt`.
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: Any) -> list[Any]:
        """The labeling that `argmax` finds for each input."""
        check_is_fitted(self)
        return [self.structure.best(x, self.coef_) for x in as_list("X", X, "an input")]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the mean cost of the predicted labelings."""
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
        """There is none: a margin needs the second-best labeling, which no argmax tells."""
        raise AttributeError(
            "CustomStructuredSVC has no certify: a margin needs the best labeling other than the true "
            "one, and argmax gives the best of all"
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.structure, Custom):
            raise TypeError(
                f"structure must be a Custom, got {self.structure!r}; InvariantStructuredSVC takes "
                "others"
            )
        self.structure.validate()

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        inputs, labels = _pairs(X, y)
        weights = self.C * example_weights(sample_weight, len(inputs))
        return Problem(inputs, labels, Identity(), self.structure, weights, told=labels, learned={})

    def _some(self, y: Any, n_rows: int) -> np.ndarray:
        # Any examples are as good as others to tell seconds from.
        return np.arange(n_rows)

    def _objective(self, problem: Problem) -> Objective:
        term = JointFeature(problem.rows, problem.labels, problem.structure, problem.weights)
        what = f"training with weights for {term.n_features} joint features"
        check_memory(what, linear_functions(term.n_features, 1), "take fewer of them")
        return Objective(ExplicitSpace(term.n_features), [term])

    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        term: Any = objective.terms[0]
        # One labeling costs one, or so: the functions tell no more before they are asked.
        return solver_for(objective, float(np.mean(term.weights * squared_lengths(term.truths))))

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        space: Any = objective.space
        self.coef_ = np.array(space.weights(solution.f)[0])

    def _memory(self, X: Any, y: Any) -> float:
        self._check_parameters()
        inputs, labels = _pairs(X, y)
        width = self.structure.features_of(inputs[0], labels[0]).shape[1]
        return PLANES_OF_AN_EXAMPLE * 8.0 * width * len(inputs) + linear_functions(width, 1)

    def _scores(self, X: Any) -> np.ndarray:
        raise NotImplementedError("objects have scores only together with labelings")


def _pairs(X: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """Inputs and their labelings, or ValueError if there are not as many."""
    inputs, labels = as_list("X", X, "an input"), as_list("y", y, "a labeling")
    if len(inputs) != len(labels):
        raise ValueError(f"y must have a labeling for each of {len(inputs)} inputs, got {len(labels)}")
    return inputs, labels
