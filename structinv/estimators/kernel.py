"""A kernel machine trained on the worst case of an invariance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..certificates import WorstChange, kernel_worst_change
from ..functionals import BoundFunctional, Functional, Representers
from ..kernels import Kernel, PrecomputedKernel, as_kernel, precision
from ..machine import check_memory
from ..matrices import Matrix
from ..objective import Objective, Penalty, WorstCase
from ..oracles import InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.checked import bind
from ..planes import PlaneSet
from ..solvers import REGISTRY, FrankWolfe, Representer, Solution, Solver
from ..solvers.warm_start import carried
from ..spaces import KernelSpace, RepresenterSpace
from ..spaces.atoms import COLUMNS_WORTH_A_CACHE, AtomRows, expand
from ..spaces.kernel import PLANES_EXPECTED_OF_A_BLOCK
from ..structures import BoundStructure
from .base import InvariantClassifier, check_number
from .continuing import Continuing
from .estimates import checked_labels, named
from .invariances import Invariances
from .margin_losses import HINGE, check_margin_loss, check_two_classes, worst_cases
from .shapes import flat_rows, shaped

# Functions that a solver holds at the same time, as `estimate_memory` counts them.
FUNCTIONS_AT_ONCE = 4
# Coefficients below this share of the largest are rounding, and their atoms no support vectors.
NEGLIGIBLE = 1e-9


class InvariantSVC(InvariantClassifier):
    """Kernel support vector classifier that expects the changes an oracle allows.

    Minimises ``1/2 |f|^2 + C sum_i l_i(f)`` over functions f in the space of a kernel, with ``l_i``
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
    solver : {"auto", "svmstruct", "bmrm", "pegasos", "frank_wolfe"} or Solver, default="auto"
        "auto" is "frank_wolfe", the fastest that was measured.
    tol : float, default=1e-3
        Relative gap between objective and lower bound at which the fit ends.
    epsilon : float, default=0.0
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
    random_state : int, RandomState or None, default=None
        Order in which examples are visited.
    verbose : int, default=0
        Above 0, progress is printed to standard error.
    invariances, nu, invariance_loss, invariance_loss_params
        Families of functionals that the functions pay for too, weights and losses of theirs, on all
        fitted rows and all outputs: a mixed objective, worst case over some changes and flat along
        others; see `RepresenterClassifier`. "auto" is then the `Representer` solver.
    warm_start : bool, default=False
        Whether a fit starts from what the fit before it has found; see Notes.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the estimator is fitted with the best model so far, if there is one, and
        KeyboardInterrupt goes on to the caller; with "return" the fit ends with a warning instead.

    Attributes
    ----------
    support_vectors_ : (m, n_features) array
        The changed inputs z_j, by row and member; empty for "precomputed".
    support_ : (m,) array of int
        The row of X that each support vector comes from.
    support_members_ : (m,) array of int
        Which member of that row's orbit or cover it is; 0 is the row itself. In a continuous set the
        support vector can lie between this member of the cover and its neighbours.
    support_transforms_ : (m,) array of str
        The names of those members, as the oracle has them.
    dual_coef_ : (1, m) or (n_classes, m) array
        The coefficients beta.
    n_support_ : (n_classes,) array of int
        Support vectors of each class's rows.
    alpha_ : (1, n_functionals) or (n_classes, n_functionals) array
        Coefficients of the representers of `invariances`.
    classes_ : (n_classes,) array
    kernel_ : Kernel
        The kernel with its parameters resolved; of "precomputed" a table of the rows in use.
    solution_ : Solution
        ``primal``, ``dual``, ``gap`` (absolute), ``relative_gap``, ``status``, ``history``; ``f`` and
        ``planes`` live in a space of their own that holds nothing but their points.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached; the status says why and what to try.
    UninformativeFitWarning
        If the oracle's changes leave next to nothing to learn: all training rows are predicted to be
        of one class where a fit without changes puts a tenth of the errors right, or the function wins
        less than 1 % of what it wins without changes.

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

    Scores are no probabilities, with logistic losses neither, which are those of changed rows; so there
    is no `predict_proba`. scikit-learn's `CalibratedClassifierCV` learns them from scores of rows that
    were held out; see the examples. They are probabilities for rows as they come, not after a change,
    and a certificate says nothing of them: it holds for the model fitted here, not for those that
    calibration fits on parts of the rows.

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

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        *,
        kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        C: float = 1.0,
        loss: str = "hinge",
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        epsilon: float = 0.0,
        cache_mb: float = 1000,
        max_seconds: float | None = None,
        class_weight: dict | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        invariances: Sequence[Functional | BoundFunctional] = (),
        nu: float | Sequence[float] = 1.0,
        invariance_loss: str | Sequence[str] = "squared",
        invariance_loss_params: dict | Sequence[dict] | None = None,
        warm_start: bool = False,
        on_interrupt: str = "raise",
    ) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.epsilon = epsilon
        self.cache_mb = cache_mb
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.invariances = invariances
        self.nu = nu
        self.invariance_loss = invariance_loss
        self.invariance_loss_params = invariance_loss_params
        self.warm_start = warm_start
        self.on_interrupt = on_interrupt

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_parameters(self) -> InvarianceOracle:
        oracle = super()._check_parameters()
        check_margin_loss(self.loss, oracle)
        check_number("epsilon", self.epsilon, minimum=0.0)
        check_number("cache_mb", self.cache_mb, minimum=0.0, strict=True)
        invariances = self._invariances()
        if self._precomputed and invariances.families:
            raise ValueError(
                "invariances must be empty with kernel='precomputed', which shows no inputs"
            )
        named = "frank_wolfe" if self.solver == "auto" else self.solver
        solver = named if isinstance(named, Solver) else REGISTRY[named]()
        if self.epsilon > 0 and "epsilon" not in solver.get_params():
            raise ValueError(
                "epsilon above 0 needs a solver that adds planes block by block: 'auto', "
                "'frank_wolfe' or 'svmstruct', got "
                f"epsilon={self.epsilon!r} with solver={self.solver!r}"
            )
        if self._precomputed and self.oracle is not None:
            raise ValueError(
                "oracle must be None with kernel='precomputed', which shows no inputs that could "
                f"change, got {self.oracle!r}"
            )
        return oracle

    def _invariances(self) -> Invariances:
        """The families of functionals, checked."""
        return Invariances(self.invariances, self.nu, self.invariance_loss, self.invariance_loss_params)

    def _best_solver(self, objective: Objective) -> Solver:
        return Representer() if isinstance(objective.space, RepresenterSpace) else FrankWolfe()

    def _make_solver(self, objective: Objective) -> Solver:
        solver = super()._make_solver(objective)
        return solver.set_params(epsilon=self.epsilon) if self.epsilon > 0 else solver

    def _worst_cases(self, *problem: Any, **labels: Any) -> WorstCase:
        return worst_cases(self.loss, *problem, **labels)

    def _cost(self, n_classes: int) -> dict[str, Any]:
        check_two_classes(self.loss, n_classes)
        return {}

    def _inputs(self, X: Matrix) -> Matrix:
        if not self._precomputed:
            return X
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be square in fit with kernel='precomputed', got shape {X.shape}")
        return np.arange(float(X.shape[0]))[:, None]

    def _new_space(self, X: Matrix, term: WorstCase) -> KernelSpace:
        size = check_cover(term.bound, type(self).__name__)
        check_known(term, size, 1e6 * self.cache_mb)
        kernel = as_kernel(
            self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X
        )  # fmt: skip
        n_features, n_outputs = term.X.shape[1], term.labels.n_outputs
        invariances, cache_mb = self._invariances(), float(self.cache_mb)
        if not invariances.families:
            return KernelSpace(kernel, n_features, n_outputs, cache_mb=cache_mb)
        parts = [family.parts(kernel) for family in invariances.bound(term.X, self)]
        representers = Representers(kernel, parts, cache_mb)
        return RepresenterSpace(representers, n_features, n_outputs, cache_mb=cache_mb)

    def _penalties(self, space: Any) -> list[Penalty]:
        if not isinstance(space, RepresenterSpace):
            return []
        system: Any = space.system
        return self._invariances().penalties(system, 0, space.n_outputs)

    def _continuing(self, X: Matrix, y: np.ndarray, sample_weight: Any) -> Continuing:
        bring = partial(carried, by_number=self._precomputed)
        # Planes of members are planes of these members whatever the kernel is; those of a table of
        # values know no inputs.
        free = ("kernel", "gamma", "degree", "coef0")
        tables = self._precomputed or isinstance(getattr(self, "kernel_", None), PrecomputedKernel)
        return Continuing(self, X, y, sample_weight, bring, () if tables else free)

    def _keep(self, X: Matrix, term: WorstCase, space: Any, solution: Solution) -> None:
        shrink = _with_small_table if self._precomputed else _small
        space, self.solution_ = compacted(space, solution, shrink)
        self.kernel_: Kernel = space.kernel
        f: Any = self.solution_.f
        used = f.support()
        rows, members = space.atoms.origins[used].T
        order = np.lexsort((members, rows))
        used, rows, members = used[order], rows[order], members[order]
        points = np.zeros((0, 0)) if self._precomputed else space.atoms.points(used)
        self.support_vectors_ = points.astype(X.dtype, copy=False)
        self.support_ = rows
        self.support_members_ = members
        self.support_transforms_ = np.array(term.bound.member_names())[members]
        self.dual_coef_ = np.ascontiguousarray(f.coefficients[used].T, dtype=X.dtype)
        self._representers_: Any = None
        self.alpha_ = np.zeros((term.labels.n_outputs, 0))
        if isinstance(space, RepresenterSpace):
            self._representers_ = space.system
            self.alpha_ = np.ascontiguousarray(f.representers.T)
        self.n_support_ = np.bincount(term.labels.codes[rows], minlength=len(self.classes_))

    def _scores(self, X: Matrix) -> np.ndarray:
        if self._precomputed:
            return X[:, self.support_] @ self.dual_coef_.T
        values = expand(self.kernel_, X, self.support_vectors_, self.dual_coef_.T)
        if self._representers_ is not None:
            values = values + self._representers_.values(self.alpha_.T, X)
        return values.astype(precision(X, self.support_vectors_), copy=False)

    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        if self._precomputed:
            raise ValueError(
                "certify and worst_case need inputs that can change, and kernel='precomputed' shows none"
            )
        check_cover(bind(oracle, X[:1], labels.classes[labels.codes[:1]]), type(self).__name__)
        n_outputs = len(self.dual_coef_)
        space = KernelSpace(self.kernel_, X.shape[1], n_outputs, cache_mb=0.0)
        if self._representers_ is not None:
            system = self._representers_.emptied()
            space = RepresenterSpace(system, X.shape[1], n_outputs, cache_mb=0.0)
        origins = np.column_stack([self.support_, self.support_members_])
        keys = space.atoms.add_points(self.support_vectors_, origins)
        whole = AtomRows(space.atoms, keys, self.dual_coef_.T, np.array([0, len(keys)]))
        f = space.combine(whole, np.ones(1))
        if isinstance(space, RepresenterSpace):
            f += space.of_representers(self.alpha_.T.copy())
        return kernel_worst_change(space, f, oracle, labels, X, points)

    def _memory(self, X: Any, y: Any) -> float:
        oracle = self._check_parameters()
        oracle = shaped(oracle, self, X)
        X = check_array(flat_rows(X), dtype=self._rows["dtype"], estimator=self, input_name="X")
        labels = checked_labels(X, y)
        n_classes = 2 if labels is None else len(np.unique(labels))
        bound = bind(oracle, self._inputs(self._prepare(X, oracle)), labels)
        size = check_cover(bound, type(self).__name__)
        kept, tables = kernel_memory(bound.X, size, n_classes, 1e6 * self.cache_mb)
        return kept + tables + self._memory_of_invariances(bound.X, 1 if n_classes == 2 else n_classes)

    def _memory_of_invariances(self, X: np.ndarray, n_outputs: int) -> int:
        """The table of their Gram matrix, and some functions."""
        families = self._invariances().bound(X, self)
        if not families:
            return 0
        kernel = as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X)
        size = sum(family.parts(kernel)[0].size for family in families)
        table = min(8.0 * size**2, 1e6 * self.cache_mb)
        return int(table + 8 * size * n_outputs * 4 * FUNCTIONS_AT_ONCE)

    def __sklearn_tags__(self) -> Any:
        """Tables of kernel values are cut by rows and columns."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.loss == HINGE
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = not self._precomputed
        return tags


def check_cover(bound: BoundOracle, machine: str) -> int:
    """How many members each row's orbit or cover has; TypeError for an oracle without one.

    Parameters
    ----------
    bound : BoundOracle
    machine : str
        Who asks, for the message.
    """
    first = slice(0, 1)
    try:
        size = bound.cover(first).points.shape[1]
    except NotImplementedError as error:
        raise TypeError(
            f"{machine} needs an oracle with an orbit or a cover; {type(bound.oracle).__name__} has "
            "none; InvariantLinearSVC takes it"
        ) from error
    # An oracle whose answers are graded, but not its members, refuses by name.
    bound.grades(first)
    bound.member_names()
    return size


def _small(space: KernelSpace, normals: AtomRows) -> tuple[KernelSpace, AtomRows]:
    """The same normals in a space that holds nothing but their points."""
    return space.compacted(normals)


def compacted(
    space: KernelSpace,
    solution: Solution,
    shrink: Callable[[KernelSpace, AtomRows], tuple[KernelSpace, AtomRows]] = _small,
) -> tuple[KernelSpace, Solution]:
    """The solution in a space without table and training data; no negligible coefficients."""
    f: Any = solution.f
    planes = solution.planes
    sizes = np.max(np.abs(f.coefficients), axis=1, initial=0.0)
    kept = sizes > NEGLIGIBLE * np.max(sizes, initial=0.0)
    f = f.copy()
    f.coefficients = np.where(kept[:, None], f.coefficients, 0.0)
    used = np.flatnonzero(planes.masses > 0)
    small, rows = shrink(space, space.stack([space.element(f), planes.normals[used]]))
    planes = PlaneSet(
        rows[1:],
        planes.offsets[used],
        planes.blocks[used],
        planes.masses[used],
        planes.summed,
        planes.slopes,
        None if planes.passes is None else planes.passes[used],
    )
    f = small.combine(rows[:1], np.ones(1))
    return small, replace(solution, f=f, planes=planes)


def _with_small_table(space: KernelSpace, normals: AtomRows) -> tuple[KernelSpace, AtomRows]:
    """The same normals over a table that has the rows and columns of their points only."""
    compact, rows = space.compacted(normals)
    numbers = compact.atoms.known[:, 0].astype(np.intp)
    kernel: Any = space.kernel
    table = PrecomputedKernel(kernel.gram[np.ix_(numbers, numbers)])
    small = KernelSpace(table, 1, space.n_outputs, cache_mb=0.0)
    places = np.arange(float(len(numbers)))[:, None]
    keys = small.atoms.add_points(places, compact.atoms.origins)
    small.atoms.slots(keys)
    slots = compact.atoms.slots(rows.keys)
    return small, AtomRows(small.atoms, keys[slots], rows.coefficients, rows.start)


def check_known(term: WorstCase, size: int, cache: float) -> None:
    """Raise MemoryError if the points that a fit keeps do not fit in the memory that is free.

    Tables of the kernel are left out: what of them does not fit is computed again.
    """
    n_classes = len(term.labels.classes)
    kept, _ = kernel_memory(term.X, size, n_classes, cache)
    advice = "list fewer, take fewer rows, or lower cache_mb, so that only those in use are kept"
    check_memory(named(term.bound, size, len(term.X)), kept, advice)


def kernel_memory(X: np.ndarray, size: int, n_classes: int, cache: float) -> tuple[float, float]:
    """Bytes of points and planes, and of tables; by the rules of `AtomStore`."""
    n_rows, n_features = X.shape
    itemsize = X.dtype.itemsize
    n_outputs = 1 if n_classes == 2 else n_classes
    n_points = n_rows * size
    n_planes = n_rows * min(PLANES_EXPECTED_OF_A_BLOCK, size * (n_classes - 1))
    n_atoms = min(n_points, n_planes)
    all_known = min(n_points, COLUMNS_WORTH_A_CACHE) * n_points * itemsize <= cache
    # What grows has room for half as much again.
    n_known = n_points if all_known else 1.5 * n_atoms
    points = n_known * (n_features + FUNCTIONS_AT_ONCE * n_outputs) * itemsize
    # Of known members, all that were ever the worst have a row of it.
    table = min((n_points if all_known else n_atoms) * n_known * itemsize, cache)
    # With the numbers of members, and of the atoms they are.
    planes = n_planes * 8 * (n_outputs + 3) + 24 * n_points
    if all_known:
        return points + planes + 8 * n_points * n_outputs, table
    products = min(1.5**2 * n_planes**2 * itemsize, 0.5 * cache)
    return points + planes, table + products
