"""The Laplacian support vector machine, as a baseline."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from ..functionals import GraphLaplacian
from .invariances import Invariances
from .representer_classifier import RepresenterClassifier


@dataclass(eq=False, repr=False)
class LapSVC(RepresenterClassifier):
    """Laplacian support vector machine (Belkin, Niyogi and Sindhwani 2006): flat along a graph.

    `RepresenterClassifier` with the squared loss on the edges of a graph of nearest neighbors among
    all rows, labeled or not. Its nu is Belkin's ``gamma_I / (l + u)^2`` times ``1 / (2 gamma_A)``.

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
        Coefficients of the representers: of the labeled rows' evaluations, then of the graph's edges.
    intercept_ : (n_outputs,) array
    kernel_ : Kernel
    min_eigenvalue_ : float or None
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

    _: KW_ONLY
    n_neighbors: int = 6
    width: float | None = None
    loss: str = "hinge"

    # What the graph's penalty leaves no choice in.
    invariances: Any = field(default=(), init=False)
    invariance_loss: str = field(default="squared", init=False)
    invariance_loss_params: None = field(default=None, init=False)
    loss_params: None = field(default=None, init=False)
    losses_on: None = field(default=None, init=False)
    oracle: None = field(default=None, init=False)

    def _invariances(self) -> Invariances:
        return Invariances([GraphLaplacian(self.n_neighbors, self.width)], self.nu, "squared", None)
