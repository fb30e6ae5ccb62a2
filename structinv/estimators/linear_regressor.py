"""A linear regressor trained on the worst case of an invariance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..certificates.certificate import linear_function
from ..oracles import InvarianceOracle
from ..spaces import Space
from ..utils.matrices import Matrix
from .linear_machine import LinearMachine
from .regressor import InvariantRegressor
from .row_sources import some_rows


@dataclass(eq=False, repr=False)
class InvariantLinearSVR(LinearMachine, InvariantRegressor):
    """Linear support vector regressor that expects the changes an oracle allows.

    Minimizes ``1/2 |w|^2 + C sum_i max(0, |y_i - f(z_i)| - epsilon)`` with ``z_i`` the worst member of
    S(x_i). Without an oracle and with ``fit_intercept=False`` this is exactly scikit-learn's
    ``LinearSVR(loss="epsilon_insensitive")``.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default. Without grades (`discounted`), and none that
        depends on labels (`only_for`).
    epsilon : float, default=0.1
        How far predictions may be off for nothing, at least 0: the tube of scikit-learn's `SVR`, in
        units of the targets. (The tolerance of planes is a parameter of solvers, such as
        ``FrankWolfe(plane_tol=...)``.)
    C : float, default=1.0
        Weight of the losses, above 0.
    fit_intercept : bool, default=True
        Whether targets are centered by their weighted mean, which predictions add back, and a constant
        feature 1 is added. That is penalized like the others, as in liblinear, and no oracle sees it.
    memory_limit : float or str, optional
        See `InvariantLinearSVC`.
    solver : str or Solver, default="auto"
        As in `InvariantLinearSVC`.
    tol, max_seconds, random_state, verbose, checkpoint, checkpoint_seconds, on_interrupt
        See `InvariantLinearSVC`.
    warm_start : bool, default=False
        Whether a fit starts from what the fit before it has found, if that had ``warm_start=True`` too
        and the same rows, targets, `epsilon` and `fit_intercept`, and with an intercept the same
        sample weights; see `InvariantLinearSVC`.

    Attributes
    ----------
    coef_ : (1, n_features) array
    intercept_ : (1,) array
        The weight of the constant feature and the mean of the targets together.
    target_mean_ : float
        The weighted mean of the targets; 0 without an intercept.
    solution_ : Solution
        ``primal``, ``dual``, ``gap`` (absolute), ``relative_gap``, ``status``, ``history``,
        ``planes``; of the targets as they were centered.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached; the status says why and what to try.
    UninformativeFitWarning
        If predictions of the training rows are no better than a constant.

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

    def _table(self, X: Matrix, rows: np.ndarray) -> np.ndarray:
        chosen = some_rows(X, rows)
        found = chosen @ chosen.T
        return found.toarray() if sp.issparse(found) else found

    def _predictor(self, X: Matrix, oracle: InvarianceOracle) -> tuple[Space, Any, float, float]:
        return *linear_function(self.coef_, self.intercept_), 0.0, 0.0
