"""Custom output structures: joint features, a cost and an argmax as functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils import plugins
from ..utils.exceptions import CheckError
from ..utils.matrices import Matrix, read_only

# Largest relative difference between the score of an argmax and the best score.
SAME = 1e-9
# Arguments of the calls of each function.
CALLS = {
    "joint_feature": (("x", "y"),),
    "cost": (("y", "y2"),),
    "argmax": (("x", "w"), ("x", "w", "y")),
}


class Custom(BaseEstimator):
    """Custom structure such as a matching, a ranking or a parse tree.

    The score of a labeling y of an input x is ``<w, joint_feature(x, y)>``. The loss of an example is
    ``max over y' of <w, joint_feature(x, y') - joint_feature(x, y)> + cost(y, y')``. Inputs and
    labelings are any Python objects. The three functions are those of the structural SVM of dlib (King
    2009).

    The duality gap is valid only if `argmax` is exact. If `argmax` misses the best labeling, the dual
    value is still a lower bound of the optimum, but the primal value can be too small. `check_custom`
    compares `argmax` with all candidates on small examples.

    Parameters
    ----------
    joint_feature : callable
        ``joint_feature(x, y)`` returns an array of shape (D,) or a CSR row of shape (1, D).
    cost : callable
        ``cost(y, y2)`` returns the cost of predicting y2 if y is true (>= 0); 0 if they are equal.
    argmax : callable
        ``argmax(x, w)`` returns the labeling with the highest score for the weights w, a read-only array
        of shape (D,). ``argmax(x, w, y)`` returns the labeling with the highest score plus cost
        ``cost(y, .)``.

    See Also
    --------
    check_custom : Test the three functions on small examples.
    Structure : Base class for structures of labeled rows, which also support oracles.

    Examples
    --------
    Predict the first of two items:

    >>> import numpy as np
    >>> from structinv.structures import Custom, check_custom
    >>> def joint_feature(x, y):
    ...     return x[y] - x[1 - y]
    >>> def cost(y, y2):
    ...     return float(y != y2)
    >>> def argmax(x, w, y=None):
    ...     return max((0, 1), key=lambda k: w @ joint_feature(x, k) + (0 if y is None else cost(y, k)))
    >>> first = Custom(joint_feature, cost, argmax)
    >>> first.best(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1.0, 0.0]))
    1
    >>> check_custom(first, [np.eye(2)], [0], candidates=lambda x: (0, 1))
    """

    def __init__(
        self,
        joint_feature: Callable[[Any, Any], Any],
        cost: Callable[[Any, Any], Any],
        argmax: Callable[..., Any],
    ) -> None:
        self.joint_feature = joint_feature
        self.cost = cost
        self.argmax = argmax

    def validate(self) -> None:
        """Raise TypeError unless all functions accept their documented arguments.

        Raises
        ------
        TypeError
            If one of them is not callable, or does not accept these arguments.
        """
        for name, calls in CALLS.items():
            function = getattr(self, name)
            if not callable(function):
                raise TypeError(f"{name} must be a function, got {function!r}")
            for arguments in calls:
                _check_call(name, function, arguments, calls)

    def features_of(self, x: Any, y: Any, n_features: int | None = None) -> Matrix:
        """Return ``joint_feature(x, y)`` as a validated row.

        Parameters
        ----------
        x : object
            Input.
        y : object
            Labeling.
        n_features : int, optional
            Required number of features D; any by default.

        Returns
        -------
        ndarray or CSR matrix of shape (1, D)
            Joint features.

        Raises
        ------
        TypeError, ValueError
            If the result is not a row of D finite numbers.
        """
        found = self.joint_feature(x, y)
        width: Any = "D" if n_features is None else n_features
        if sp.issparse(found):
            return self._sparse(found, width)
        array = np.asarray(found) if isinstance(found, (list, tuple)) else found
        if isinstance(array, np.ndarray) and array.ndim == 2 and len(array) == 1:
            array = array[0]
        return plugins.numbers("joint_feature", "features", array, (width,)).astype(np.float64)[None]

    @staticmethod
    def _sparse(found: Any, width: Any) -> Matrix:
        row = sp.csr_matrix(found, dtype=np.float64)
        if row.shape[0] != 1 or (width != "D" and row.shape[1] != width):
            raise ValueError(
                f"joint_feature must return features of shape (1, {width}), got {row.shape}"
            )
        row.sum_duplicates()
        plugins.numbers("joint_feature", "features", row.data, ("n",))
        return row

    def cost_of(self, y: Any, other: Any) -> float:
        """Return ``cost(y, other)``, validated.

        Parameters
        ----------
        y : object
            True labeling.
        other : object
            Predicted labeling.

        Returns
        -------
        float
            Cost (>= 0).

        Raises
        ------
        TypeError, ValueError
            If the result is not a finite number of at least 0.
        """
        return plugins.number("cost", "a cost", self.cost(y, other), least=0.0)

    def best(self, x: Any, w: np.ndarray, y: Any = None) -> Any:
        """Return ``argmax(x, w)``, or ``argmax(x, w, y)``, with read-only weights.

        Parameters
        ----------
        x : object
            Input.
        w : ndarray of shape (D,)
            Weights.
        y : object, optional
            True labeling, for the loss-augmented argmax.

        Returns
        -------
        object
            Labeling.

        Raises
        ------
        TypeError
            If the result is None, for example from a function without ``return``.
        """
        weights = read_only(w)
        found = self.argmax(x, weights) if y is None else self.argmax(x, weights, y)
        if found is None:
            raise TypeError("argmax must return a labeling, got None")
        return found


def _check_call(
    name: str, function: Callable, arguments: tuple[str, ...], calls: tuple[tuple[str, ...], ...]
) -> None:
    """Raise TypeError if the signature, if available, does not accept the arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        ways = " and ".join(f"{name}({', '.join(each)})" for each in calls)
        raise TypeError(
            f"{name} must accept {len(arguments)} positional arguments, because it is called as {ways}, "
            f"got {name}{signature}"
        ) from None


def check_custom(
    custom: Custom,
    X: Sequence[Any],
    y: Sequence[Any],
    candidates: Callable[[Any], Any],
    *,
    trials: int = 10,
    random_state: int | np.random.Generator = 0,
) -> None:
    """Compare `argmax` with all candidate labelings for random weights.

    Parameters
    ----------
    custom : Custom
        Structure to test.
    X, y : sequence
        Small examples and their true labelings.
    candidates : callable
        ``candidates(x)`` lists all labelings of x.
    trials : int, default=10
        Number of random weights per example (>= 1). Each is tested with and without the cost.
    random_state : int or numpy.random.Generator, default=0
        Seed or source of the weights.

    Raises
    ------
    CheckError
        If a candidate has a higher score than `argmax`, or the true labeling has a nonzero cost.
    TypeError, ValueError
        If a result has a wrong type. The message names the function.

    See Also
    --------
    Custom : The structure.
    check_structure : Test a subclass of `Structure`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Custom, check_custom
    >>> custom = Custom(
    ...     joint_feature=lambda x, y: x[y],
    ...     cost=lambda y, y2: float(y != y2),
    ...     argmax=lambda x, w, y=None: int(np.argmax(x @ w + (0 if y is None else np.arange(2) != y))),
    ... )
    >>> check_custom(custom, [np.eye(2)], [0], candidates=lambda x: (0, 1))
    """
    if not isinstance(custom, Custom):
        raise TypeError(f"custom must be a Custom, got {custom!r}")
    custom.validate()
    rng = np.random.default_rng(random_state)
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        every = list(candidates(x))
        if not every:
            raise ValueError(f"candidates must list labelings, got none for example {i}")
        if custom.cost_of(truth, truth) != 0:
            raise CheckError(f"cost: the cost of the true labeling of example {i} must be 0")
        for _ in range(trials):
            w = rng.standard_normal(custom.features_of(x, truth).shape[1])
            for known in (None, truth):
                _check_argmax(custom, i, x, w, known, every)


def _check_argmax(custom: Custom, i: int, x: Any, w: np.ndarray, known: Any, every: list[Any]) -> None:
    def score_of(labeling: Any) -> float:
        score = float((custom.features_of(x, labeling, len(w)) @ w)[0])
        return score if known is None else score + custom.cost_of(known, labeling)

    score, best = score_of(custom.best(x, w, known)), max(map(score_of, every))
    if abs(score - best) > SAME * (1.0 + abs(best)):
        maximized = "score" if known is None else "score plus cost"
        raise CheckError(
            f"argmax: the {maximized} of its labeling of example {i} is {score:.6g}, but the best of "
            f"{len(every)} candidates has {best:.6g}, for weights {w!r}"
        )
