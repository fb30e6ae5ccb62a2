"""Selection of transformations and their ranges, for invariant kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from ..estimators.inputs import as_labels, check_targets, flat_rows, shaped
from ..estimators.ridge import OrbitRidge
from ..kernels import Kernel, OrbitMean
from ..kernels.kernel_names import as_kernel
from ..oracles import InvarianceOracle
from ..oracles.base import as_oracle
from ..utils.matrices import refuse_half_or_masked

ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
# Bound of relative rounding errors of means.
ROUNDING = 1e-12

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


def select_widths(
    oracle: InvarianceOracle | Mapping[str, InvarianceOracle],
    X: Any,
    y: Any,
    grid: Grid | None = None,
    *,
    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf",
    alphas: Sequence[float] = ALPHAS,
    n_draws: int | None = None,
    random_state: int = 0,
) -> GridSearchCV:
    """Select transformations and their ranges for an invariant kernel.

    Each setting is one choice of transformations and ranges. Its kernel is the average of the base
    kernel over these transformations (`structinv.kernels.OrbitMean`). An `OrbitRidge` with this kernel
    is fitted to all given samples. The score is that of its leave-one-out predictions: the accuracy for
    classes, the negative squared error for numbers. Pass training samples only. The first
    setting has no transformation. It usually has the best score if the declared invariances do not hold.

    Parameters
    ----------
    oracle : InvarianceOracle or dict of InvarianceOracle
        Oracle with the transformations. For a dict, every subset of its oracles is tried, composed in
        the sequence of the dict. Oracles that depend on labels are not supported.
    X : array-like of shape (n_samples, n_features)
        Samples, or a stack of images.
    y : array-like of shape (n_samples,)
        Class labels, or numbers as in regression if they contain fractions.
    grid : dict, list of dict or None, default=None
        Values of the parameters of a single oracle, as in `GridSearchCV`, such as
        ``{"spread": [5, 20, 90]}``.
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        Base kernel. A name means the kernel with the defaults of `InvariantSVC`.
    alphas : sequence of float, default=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
        Candidate weights of the norm in `OrbitRidge` (> 0). Each score uses the best of them. Add larger
        values for noisier targets.
    n_draws : int or None, default=None
        Number of random transformations, as in `OrbitMean`. By default all transformations are used,
        which requires a finite oracle. Increase it for a more accurate average, at the cost of run time.
    random_state : int, default=0
        Seed of the random transformations. Wider ranges use the same random numbers, rescaled.

    Returns
    -------
    GridSearchCV
        The fitted search. ``best_estimator_.kernel`` is the best kernel. In `cv_results_`, the scores
        are "mean_test_score", and "mean_test_error" are their standard errors over samples. The
        parameters of `grid` have names such as "param_kernel__oracle__spread". The targets of
        `best_estimator_` are -1 and 1 for classes.

    Raises
    ------
    ValueError, TypeError
        If an argument is not valid. The message contains its name.

    See Also
    --------
    select_changes : Selection of an oracle and C by clean and certified accuracy.
    structinv.kernels.OrbitMean : Invariant kernel, averaged over the transformations of an oracle.

    Notes
    -----
    The best score is the maximum of many, so measure the accuracy of the best kernel on a separate test
    set.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.model_selection import select_widths
    >>> from structinv.oracles import Flip, Shifts
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> y = X[:, 0] * X[:, 3] + X[:, 1] * X[:, 2]
    >>> declared = {"mirrored": Flip(shape=(1, 4)), "moved": Shifts(1, shape=(1, 4), fill="wrap")}
    >>> search = select_widths(declared, X, y)
    >>> search.best_estimator_.kernel.oracle
    Flip(shape=(1, 4))
    """
    refuse_half_or_masked("X", X)
    base = _base_kernel(kernel, X)
    # Leave-one-out predictions use all samples, so there is one fold with all of them.
    everything = np.arange(len(X))
    y = column_or_1d(as_labels(y))
    classes = y.dtype.kind != "f" or type_of_target(y) != "continuous"
    mean = partial(OrbitMean, kernel=base, n_draws=n_draws, random_state=random_state)
    search = GridSearchCV(
        OrbitRidge(base, alphas=alphas),
        [{"kernel": [base]}, *_grids(oracle, grid, mean)],
        scoring=partial(_leave_one_out, classes=classes),
        refit=_first_best,
        cv=[(everything, everything)],
        error_score="raise",
    )
    return search.fit(X, _as_numbers(y) if classes else y)


def _base_kernel(kernel: Any, X: Any) -> Kernel:
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError("kernel must be a kernel of features, got 'precomputed'")
    rows = check_array(flat_rows(X), dtype=[np.float64, np.float32], input_name="X")
    return as_kernel(shaped(kernel, None, X), gamma="scale", degree=3, coef0=1.0, X=rows)


def _grids(oracle: Any, grid: Any, mean: Callable[[InvarianceOracle], Kernel]) -> list[dict[str, Any]]:
    """Return the grids of all settings with a transformation."""
    if isinstance(oracle, Mapping):
        if grid is not None:
            raise ValueError("grid must be None for several oracles: pass one oracle")
        named = [as_oracle(each, f"oracle[{name!r}]") for name, each in oracle.items()]
        subsets = [some for size in range(1, len(named) + 1) for some in combinations(named, size)]
        # A @ B applies B, then A.
        return [
            {"kernel": [mean(reduce(lambda before, after: after @ before, some)) for some in subsets]}
        ]
    grids = [grid or {}] if grid is None or isinstance(grid, Mapping) else grid
    own = {"kernel": [mean(as_oracle(oracle, "oracle"))]}
    return [own | {f"kernel__oracle__{name}": values for name, values in each.items()} for each in grids]


def _as_numbers(y: np.ndarray) -> np.ndarray:
    """Return -1 and 1 per class, (n, n_classes), or one column for two classes."""
    check_targets(y)
    known, codes = np.unique(y, return_inverse=True)
    if len(known) < 2:
        raise ValueError("y must contain at least two classes, got only one")
    is_class = codes[:, None] == np.arange(len(known))
    return np.where(is_class[:, 1:] if len(known) == 2 else is_class, 1.0, -1.0)


def _leave_one_out(model: OrbitRidge, X: Any, targets: np.ndarray, classes: bool) -> dict[str, float]:
    """Return the mean and the standard error of the scores of all samples."""
    predictions = model.leave_one_out_predictions_
    if not classes:
        each = -((predictions - targets) ** 2)
    elif targets.shape[1] == 1:
        each = ((predictions > 0) == (targets > 0))[:, 0]
    else:
        each = predictions.argmax(axis=1) == targets.argmax(axis=1)
    return {"score": np.mean(each), "error": np.std(each, ddof=1) / np.sqrt(len(each))}


def _first_best(results: Mapping[str, Any]) -> int:
    """Return the first setting whose score is maximal up to rounding."""
    scores = results["mean_test_score"]
    slack = ROUNDING * abs(np.max(scores))
    return int(np.flatnonzero(scores >= np.max(scores) - slack)[0])
