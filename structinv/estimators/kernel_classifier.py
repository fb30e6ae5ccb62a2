"""A kernel machine trained on the worst case of an invariance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..certificates.certificate import WorstChange, worst_change_in
from ..functionals import Functional
from ..functionals.base import BoundFunctional
from ..kernels import Kernel
from ..oracles import InvarianceOracle
from ..solvers import Solution, Solver
from ..structures.bound import BoundStructure
from ..terms import Objective
from ..utils.matrices import Matrix
from .classifier import InvariantClassifier
from .parameters import check_plane_tol
from .problem import Problem
from .support_vectors import SupportVectorMachine


@dataclass(eq=False, repr=False)
class InvariantSVC(SupportVectorMachine, InvariantClassifier):
    """Kernel support vector classifier that expects the changes an oracle allows.

    Minimizes ``1/2 |f|^2 + C sum_i l_i(f)`` over functions f in the space of a kernel, with ``l_i``
    the loss at the worst member of S(x_i) (Teo, Globerson, Roweis and Smola 2007, eq. 2), the hinge by
    default. The solution is ``f(z, k) = sum_j beta_jk k(z_j, z)`` over changed inputs z_j, the virtual
    support vectors, and only those that are worst at some point of the fit are ever looked at. Two
    classes share one function; more are trained jointly (Crammer and Singer's form, with the hinge),
    not one against one. There is no intercept: a kernel with a constant, like "poly" with `coef0`,
    brings one along, and "rbf" needs none. Teo's lambda is ``1 / (C * n_samples)``.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default. It must have an orbit or a cover: the hull of
        S(x), with which linear models work, says nothing of a function that is not linear.
    kernel : {"rbf", "poly", "linear", "laplacian", "precomputed"}, Kernel or callable, default="rbf"
        A callable is ``kernel(X, Y)`` with an (n, m) array as answer. "precomputed" takes tables of
        kernel values for rows, (n, n) in `fit` and (n, n_train) in `predict`, and no oracle.
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf", "poly" and "laplacian", as in `sklearn.svm.SVC`.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=1.0
        Of "poly"; at least 0.
    C : float, default=1.0
        Weight of the losses, above 0.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        What a margin t costs: ``max(0, 1 - t)``, its square, or ``log(1 + exp(-t))``. The last two are
        for two classes and no discounted changes. With "logistic" every row is a support vector.
    solver : str or Solver, default="auto"
        "svmstruct", "bmrm", "pegasos", "frank_wolfe" or "interior_point". "auto" is "frank_wolfe", the
        fastest that was measured; "interior_point" is for a linear kernel whose C is large for its rows.
    plane_tol : float, default=0.0
        A plane is added only if it lies more than this above its row's planes so far (Teo et al. 2007,
        algorithm 1): fewer support vectors, at a price that shows in ``solution_.gap``. For "auto",
        "frank_wolfe", "svmstruct" and instances of these, whose own value it replaces if it is above
        0. Such a fit also ends, without a warning, when nothing violates by more than that.
    cache_mb : float, default=1000
        Memory for values of the kernel, in units of 10^6 bytes; see `estimate_memory`.
    max_seconds : float, optional
        The fit ends after this time, with a warning. What is under way is not broken off: listing the
        members of all rows, where they are kept, or of a few rows, where they are made anew for each
        question; and the bounds of what was found take one more pass over all rows.
    class_weight : dict or "balanced", optional
        Factors of C for each class.
    invariances, nu, invariance_loss, invariance_loss_params
        Families of functionals that the functions pay for too, weights and losses of theirs, on all
        fitted rows and all outputs: a mixed objective, worst case over some changes and flat along
        others; see `RepresenterClassifier`. "auto" is then the `Representer` solver.
    tol, random_state, verbose, warm_start, checkpoint, checkpoint_seconds, on_interrupt
        See `InvariantLinearSVC`.
    max_support_vectors : int, optional
        Maximum number of support vectors, above 0. A fit that ends with more is compressed by
        ``compress(n_support=max_support_vectors)``, which takes time beyond `max_seconds`. ``solution_``
        then has the objective of the shorter function and its gap to the same lower bound. Ctrl-C,
        before or meanwhile, leaves the whole model. Not with `warm_start`.

    Attributes
    ----------
    support_vectors_ : (m, n_features) array
        The changed inputs z_j, by row and member; empty for "precomputed".
    support_ : (m,) array of int
        The row of X that each support vector comes from.
    support_members_ : (m,) array of int
        Which member of that row's orbit or cover it is; 0 is the row itself. In a continuous set the
        support vector can lie between this member of the cover and its neighbors.
    support_transforms_ : (m,) array of str
        The names of those members, as the oracle has them.
    dual_coef_ : (1, m) or (n_classes, m) array
        The coefficients beta.
    n_support_ : (n_classes,) array of int
        Support vectors of each class's rows.
    alpha_ : (1, n_functionals) or (n_classes, n_functionals) array
        Coefficients of the representers of `invariances`.
    compression_error_ : float
        At most how far, in the norm, the function is from the one that was fitted: 0 unless there is a
        `max_support_vectors` or the model comes from `compress`.
    classes_ : (n_classes,) array
    kernel_ : Kernel
        The kernel with its parameters resolved; of "precomputed" a table of the rows in use.
    min_eigenvalue_ : float or None
        Of the kernel's table of at most 2000 training rows, before a `spectrum` mends it;
        None for kernels that are positive semi-definite by construction.
    solution_ : Solution
        ``primal``, ``dual``, ``gap`` (absolute), ``relative_gap``, ``status``, ``history``; ``f`` and
        ``planes`` live in a space of their own that holds nothing but their points.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Warns
    -----
    ConvergenceWarning, UninformativeFitWarning
        As `InvariantLinearSVC`.
    IndefiniteKernelWarning
        If the kernel is none on the training rows: it has an eigenvalue below 0.

    Notes
    -----
    `certify` and `worst_case` enumerate the members of S(x), not its hull. Where S(x) is a list they
    are exact. Of a continuum they refine the worst member of the cover, and bound what lies between
    by ``|f| L mesh`` with the kernel's Lipschitz constant L: a fine grid makes that useful, and a
    kernel without one ("poly", "laplacian") certifies nothing.

    With ``warm_start=True`` a fit starts from the members and masses of the fit before it, if that had
    ``warm_start=True`` too, and the same rows, labels, `loss`, `invariances` and their losses, by their
    fingerprints; else it starts afresh. C, weights, `nu`, the kernel and the oracle may change: members
    that are none of the new S(x) are dropped, or the new oracle asked at the old function, so that the
    lower bound is as certain as that of a fresh fit.

    A `checkpoint` is kept as in `InvariantLinearSVC`, and `cache_mb` and `max_support_vectors` may
    change, too. It holds numbers of members, points that are no members, and slopes of penalties.

    Scores are no probabilities; `CalibratedClassifierCV` learns them, as `InvariantLinearSVC` says.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantSVC
    >>> from structinv.oracles import Shifts
    >>> strokes = np.array([[1.0, 1, 0, 1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0, 1, 0, 0]])
    >>> names = np.array(["corner", "line"])
    >>> oracle = Shifts(1, shape=(3, 3), fill="wrap")
    >>> model = InvariantSVC(oracle, C=10.0, random_state=0).fit(strokes, names)
    >>> model.predict([[0.0, 0, 0, 1, 1, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1, 0, 0, 1]]).tolist()
    ['corner', 'line']
    >>> model.certify(strokes, names).accuracy, str(model.support_transforms_[-1])
    (1.0, 'shift (0, 1)')

    Probabilities, by calibration:

    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> X, y = X[:60] / 16, y[:60]
    >>> calibrated = CalibratedClassifierCV(InvariantSVC(Shifts(1), random_state=0), ensemble=False)
    >>> calibrated.fit(X, y).predict_proba(X).shape
    (60, 2)
    >>> calibrated.score(X, y) > 0.9
    True
    """

    oracle: InvarianceOracle | None = None
    _: KW_ONLY
    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    loss: str = "hinge"
    plane_tol: float = 0.0
    cache_mb: float = 1000
    class_weight: dict | str | None = None
    invariances: Sequence[Functional | BoundFunctional] = ()
    nu: float | Sequence[float] = 1.0
    invariance_loss: str | Sequence[str] = "squared"
    invariance_loss_params: dict | Sequence[dict] | None = None
    max_support_vectors: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_plane_tol(self.plane_tol, self.solver)

    def _solver(self, objective: Objective) -> Solver:
        solver = super()._solver(objective)
        return solver.set_params(plane_tol=self.plane_tol) if self.plane_tol > 0 else solver

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        super()._keep(problem, objective, solution)
        term: Any = objective.terms[0]
        self._count(term.labels.codes[self.support_])

    def _count(self, codes: np.ndarray) -> None:
        """Remember the classes of the support vectors' rows."""
        self._codes_ = codes
        self.n_support_ = np.bincount(codes, minlength=len(self.classes_))

    def _take_support(self, kept: np.ndarray, points: np.ndarray, coefficients: np.ndarray) -> None:
        codes = vars(self).get("_codes_")
        if codes is None:
            # A file of an older version: a plane adds to the function of its row's class.
            signs = self.dual_coef_.T
            several = signs.shape[1] > 1
            codes = np.argmax(signs, axis=1) if several else (signs[:, 0] > 0).astype(int)
        super()._take_support(kept, points, coefficients)
        self._count(codes[kept])

    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        space, f = self._function(X, oracle, labels.classes[labels.codes[:1]])
        return worst_change_in(space, f, oracle, labels, X, points)
