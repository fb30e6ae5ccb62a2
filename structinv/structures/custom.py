"""Structures that functions of the user's describe: joint features, costs, and the best labeling."""

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

# How far an argmax may stay behind another labeling, as a share of the scores, and be called exact.
SAME = 1e-9
# With which arguments each function is called.
CALLS = {
    "joint_feature": (("x", "y"),),
    "cost": (("y", "y2"),),
    "argmax": (("x", "w"), ("x", "w", "y")),
}


class Custom(BaseEstimator):
    """What nothing else here can say: matchings, rankings, parse trees, with an argmax of your own.

    The score of a labeling y of an input x is ``<w, joint_feature(x, y)>``, and the loss of an example
    is ``max over y' of <w, joint_feature(x, y') - joint_feature(x, y)> + cost(y, y')``. Inputs and
    labelings are any objects. (The contract is that of dlib's structural SVM, King 2009.)

    A gap is as true as `argmax`: where that finds a labeling that is not the best one, its plane is
    valid and the dual value a bound, but the primal value is that of the labelings found.
    `check_custom` compares it with candidates on small examples.

    Parameters
    ----------
    joint_feature : callable
        ``joint_feature(x, y)`` is an array (D,) or a CSR row (1, D).
    cost : callable
        ``cost(y, y2)`` is a number of at least 0: what it costs to say y2 where y is true; 0 for y.
    argmax : callable
        ``argmax(x, w)`` is the labeling of highest score for the weights w, an array (D,) that must
        not be changed; ``argmax(x, w, y)`` that of highest score plus ``cost(y, .)``.

    Examples
    --------
    Which of two objects comes first:

    >>> import numpy as np
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
        """Raise TypeError unless all three are functions that take the arguments they are given."""
        for name, calls in CALLS.items():
            function = getattr(self, name)
            if not callable(function):
                raise TypeError(f"{name} must be a function, got {function!r}")
            for arguments in calls:
                _check_call(name, function, arguments, calls)

    def features_of(self, x: Any, y: Any, n_features: int | None = None) -> Matrix:
        """``joint_feature(x, y)`` as a row (1, D), validated.

        Parameters
        ----------
        x, y : object
        n_features : int, optional
            The D that is due.

        Raises
        ------
        TypeError, ValueError
            If it is no row of finite numbers, or of another width.
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
        """``cost(y, other)``, validated.

        Raises
        ------
        TypeError, ValueError
            If it is no finite number of at least 0.
        """
        return plugins.number("cost", "a cost", self.cost(y, other), least=0.0)

    def best(self, x: Any, w: np.ndarray, y: Any = None) -> Any:
        """``argmax(x, w)``, or ``argmax(x, w, y)``; the weights cannot be changed.

        Raises
        ------
        TypeError
            If the answer is None, as of a function without a ``return``.
        """
        weights = read_only(w)
        found = self.argmax(x, weights) if y is None else self.argmax(x, weights, y)
        if found is None:
            raise TypeError("argmax must return a labeling, got None")
        return found


def _check_call(
    name: str, function: Callable, arguments: tuple[str, ...], calls: tuple[tuple[str, ...], ...]
) -> None:
    """Raise TypeError if a function does not take so many arguments; some do not tell."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        ways = " and ".join(f"{name}({', '.join(each)})" for each in calls)
        raise TypeError(
            f"{name} is called as {ways}, by position, and {name}{signature} does not take "
            f"{len(arguments)} arguments"
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
    """Compare `argmax` with all labelings that you list, for random weights.

    Parameters
    ----------
    custom : Custom
    X, y : sequences
        Small examples.
    candidates : callable
        ``candidates(x)`` lists all labelings of x.
    trials : int, default=10
        How many weights are tried for each example, with the cost and without.
    random_state : int or Generator, default=0

    Raises
    ------
    CheckError
        If another labeling does better, or the true one costs something.
    TypeError, ValueError
        If an answer is of another kind; the message names the function.
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
            raise CheckError(f"cost: the true labeling of example {i} costs something")
        for _ in range(trials):
            w = rng.standard_normal(custom.features_of(x, truth).shape[1])
            for known in (None, truth):
                _check_argmax(custom, i, x, w, known, every)


def _check_argmax(custom: Custom, i: int, x: Any, w: np.ndarray, known: Any, every: list[Any]) -> None:
    def height(labeling: Any) -> float:
        score = float((custom.features_of(x, labeling, len(w)) @ w)[0])
        return score if known is None else score + custom.cost_of(known, labeling)

    reached, best = height(custom.best(x, w, known)), max(map(height, every))
    if abs(reached - best) > SAME * (1.0 + abs(best)):
        what = "score" if known is None else "score and cost"
        raise CheckError(
            f"argmax: for example {i} it reaches a {what} of {reached:.6g}, and the best of the "
            f"{len(every)} candidates {best:.6g}, for weights {w!r}"
        )
