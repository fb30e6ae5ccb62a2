"""The Laplacian support vector machine, as a baseline."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from ..functionals import GraphLaplacian
from ..kernels import Kernel
from ..solvers import Solver
from .invariances import Invariances
from .representer import RepresenterClassifier


class LapSVC(RepresenterClassifier):
    """Laplacian support vector machine (Belkin, Niyogi and Sindhwani 2006): flat along a graph.

    `RepresenterClassifier` with the squared loss on the edges of a graph of nearest neighbours among
    all rows, labelled or not. Its nu is Belkin's ``gamma_I / (l + u)^2`` times ``1 / (2 gamma_A)``.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
    n_neighbors : int, default=6
    width : float, optional
        See `GraphLaplacian`.
    loss : str, default="hinge"
    C, nu, bias, gamma, degree, coef0, solver, tol, class_weight, unlabeled, cache_mb, max_seconds, \
random_state, verbose, warm_start, checkpoint, checkpoint_seconds, on_interrupt
        See `RepresenterClassifier`.

    Attributes
    ----------
    classes_ : (n_classes,) array
    alpha_ : (n_outputs, n_functionals) array
        Coefficients of the representers: of the labelled rows' evaluations, then of the graph's edges.
    intercept_ : (n_outputs,) array
    kernel_ : Kernel
    least_eigenvalue_ : float or None
        Of the kernel matrix; see `RepresenterClassifier`.
    solution_ : Solution
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import LapSVC
    >>> X = np.array([[0.0], [0.5], [1.0], [3.0], [3.5], [4.0]])
    >>> LapSVC(n_neighbors=1).fit(X, [0, -1, -1, 1, -1, -1]).predict(X).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self,
        kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf",
        *,
        n_neighbors: int = 6,
        width: float | None = None,
        loss: str = "hinge",
        C: float = 1.0,
        nu: float = 1.0,
        bias: bool = False,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        class_weight: dict | str | None = None,
        unlabeled: Any = "auto",
        cache_mb: float = 1000,
        max_seconds: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        warm_start: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 120.0,
        on_interrupt: str = "raise",
    ) -> None:
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.width = width
        self.loss = loss
        self.C = C
        self.nu = nu
        self.bias = bias
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.cache_mb = cache_mb
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.on_interrupt = on_interrupt

    # What the graph's penalty leaves no choice in.
    oracle = None
    loss_params = None

    def _invariances(self) -> Invariances:
        return Invariances([GraphLaplacian(self.n_neighbors, self.width)], self.nu, "squared", None)
