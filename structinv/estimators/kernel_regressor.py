"""A kernel regressor trained on the worst case of an invariance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..functionals import Functional
from ..functionals.base import BoundFunctional
from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_matrix
from ..kernels.values import precision
from ..oracles import InvarianceOracle
from ..solvers import Solution
from ..spaces import Space
from ..terms import Objective
from ..utils.matrices import Matrix
from .problem import Problem
from .regressor import InvariantRegressor
from .support_vectors import SupportVectorMachine


@dataclass(eq=False, repr=False)
class InvariantSVR(SupportVectorMachine, InvariantRegressor):
    """Kernel support vector regressor that expects the changes an oracle allows.

    Minimizes ``1/2 |f|^2 + C sum_i max(0, |y_i - f(z_i)| - epsilon)`` over functions f in the space of a
    kernel, with ``z_i`` the worst member of S(x_i). It shares most parameters with `InvariantSVC`.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default. It must have an orbit or a cover, no grades
        (`discounted`), and not depend on labels (`only_for`).
    kernel, gamma, degree, coef0
        See `InvariantSVC`.
    epsilon : float, default=0.1
        How far predictions may be off for nothing, at least 0: the tube of scikit-learn's `SVR`, in
        units of the targets. (That of `InvariantSVC` is the tolerance of planes, a parameter of
        solvers: ``FrankWolfe(plane_tol=...)``.)
    C : float, default=1.0
        Weight of the losses, above 0.
    fit_intercept : bool, default=True
        Whether targets are centered by their weighted mean, which predictions add back. The mean is not
        optimized: a kernel with a constant, like "poly" with `coef0`, brings along a constant that is.
    solver, tol, cache_mb, max_seconds, random_state, verbose, invariances, nu, invariance_loss, \
invariance_loss_params, warm_start, checkpoint, checkpoint_seconds, on_interrupt, \
max_support_vectors
        See `InvariantSVC`. A warm start asks for the same targets and `epsilon`, and with an intercept
        for the same sample weights, too.

    Attributes
    ----------
    support_vectors_, support_, support_members_, support_transforms_, dual_coef_, alpha_, kernel_, \
compression_error_, solution_, n_iter_, n_features_in_, feature_names_in_
        See `InvariantSVC`.
    intercept_ : (1,) array
        The weighted mean of the targets; 0 without an intercept.
    n_support_ : (1,) array of int
    target_mean_ : float

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached; the status says why and what to try.
    UninformativeFitWarning
        If predictions of the training rows are no better than a constant.

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
    invariance_loss: str | Sequence[str] = "squared"
    invariance_loss_params: dict | Sequence[dict] | None = None
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

    def _table(self, X: Matrix, rows: np.ndarray) -> np.ndarray:
        if self._precomputed:
            return X[np.ix_(rows, rows)]
        return kernel_matrix(self.kernel_, X[rows], X[rows])

    def _predictor(self, X: Matrix, oracle: InvarianceOracle) -> tuple[Space, Any, float, float]:
        space, f = self._function(X, oracle, None)
        eps = float(np.finfo(precision(X, self.support_vectors_)).eps)
        return space, f, float(self.intercept_[0]), eps
