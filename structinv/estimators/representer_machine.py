"""Base class of kernel models with smoothness penalties and unlabeled samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from ..functionals import Evaluation, Functional
from ..functionals.base import BoundFunctional
from ..functionals.fast_products import VALUES_AT_ONCE
from ..functionals.representers import Representers
from ..kernels import Kernel
from ..losses import ScalarLoss
from ..losses.combined import Affine
from ..oracles.arguments import hint_of
from ..oracles.third_party import bind
from ..solvers import REGISTRY, Representer, Solution, Solver
from ..solvers.newton_cg import MAX_DIRECT
from ..solvers.representer import METHODS
from ..spaces import RepresenterSpace
from ..structures.example_blocks import check_some
from ..terms import Objective, Penalty, Term
from ..terms.penalty import FamilyFunctionals
from ..utils.parameters import check_boolean, check_number
from .base import Problem
from .inputs import as_loss, checked_weights, flat_rows, shaped
from .kernel_machine import (
    FUNCTIONS_AT_ONCE,
    KernelMachine,
    check_cover,
    compacted,
    kernel_memory,
)

# Copies of the Gram matrix in memory: scaled ones and factors.
COPIES_OF_A_TABLE = 5
# Memory for the computation of an entry of a Gram matrix of second derivatives.
BYTES_OF_AN_ENTRY = 80.0
KERNELS = ("laplacian", "linear", "poly", "rbf")


@dataclass(eq=False, repr=False)
class RepresenterMachine(KernelMachine):
    """Base class of kernel models with smoothness penalties at all samples."""

    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf"
    _: KW_ONLY
    invariances: Sequence[Functional] = ()
    loss: str | ScalarLoss = "squared"
    invariance_loss: str | ScalarLoss | Sequence[str | ScalarLoss] = "squared"
    nu: float | Sequence[float] = 1.0
    bias: bool = False
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    cache_mb: float = 1000
    losses_on: Functional | None = None

    # The losses of labeled rows.
    _losses: ClassVar[tuple[str, ...]] = ()
    _solvers: ClassVar[Mapping[str, Callable[[], Solver]]] = {
        **REGISTRY,
        **{method: partial(Representer, method) for method in METHODS},
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.losses_on is not None:
            if not isinstance(self.losses_on, Functional):
                hint = hint_of(self.losses_on)
                raise TypeError(f"losses_on must be a Functional or None, got {self.losses_on!r}{hint}")
            if self.oracle is not None:
                raise ValueError(
                    "losses_on must be None with an oracle, since worst-case losses are losses of "
                    "scores: remove losses_on or oracle"
                )
        check_number("cache_mb", self.cache_mb)
        check_boolean("bias", self.bias)
        self._loss()
        if isinstance(self.kernel, str) and self.kernel not in KERNELS:
            # "precomputed" is excluded, since functionals require features.
            raise ValueError(
                f"kernel must be one of {list(KERNELS)}, a Kernel or a callable, got {self.kernel!r}"
            )
        self._invariances()

    def _loss(self) -> ScalarLoss:
        """Return the loss of labeled rows, with checked parameters."""
        return as_loss("loss", self.loss, self._losses)

    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        return Representer(), "the objective has losses of functionals"

    def _objective(self, problem: Problem) -> Objective:
        X, cache_mb = problem.rows, float(self.cache_mb)
        kernel = self._trained_kernel(X, X, problem.learned)
        invariances = self._invariances()
        families = [self._labeled_functionals(problem), *invariances.bound(X, self)]
        parts = [family.parts(kernel) for family in families]
        size, n_labeled = parts[0][0].size, len(problem.labeled_rows)
        if size != n_labeled:
            raise ValueError(
                f"losses_on must have one functional for each of the {n_labeled} labeled rows, got "
                f"{size} functionals from {self.losses_on!r}"
            )
        system, n_outputs = Representers(kernel, parts, cache_mb), problem.targets.shape[1]
        degree = 0 if self.bias else None
        space = RepresenterSpace(system, X.shape[1], n_outputs, free_degree=degree, cache_mb=cache_mb)
        loss = self._plain(problem, system) if self.oracle is None else self._worst_case(problem)
        return Objective(space, [loss, *invariances.penalties(system, 1, n_outputs)])

    def _labeled_functionals(self, problem: Problem) -> BoundFunctional:
        """Return the functionals of the losses; values of f at labeled rows by default."""
        if self.losses_on is None:
            return Evaluation(problem.labeled).bind(problem.rows)
        return shaped(self.losses_on, self, problem.rows).bind(problem.labeled_rows)

    def _plain(self, problem: Problem, system: Representers) -> Term:
        """Return the loss of labeled rows without perturbations, separate for each function."""
        n_outputs, targets, loss = problem.targets.shape[1], problem.targets.ravel(), self._loss()
        loss = Affine(loss, targets) if loss.of_margins else Affine(loss, 1.0, targets)
        family = FamilyFunctionals(system, 0, n_outputs)
        return Penalty(family, loss, np.repeat(problem.weights, n_outputs))

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        space: Any = objective.space
        if len(space.atoms):
            # Kernel values of perturbed samples are not needed for predictions.
            _, self.solution_ = compacted(space, solution)
        f: Any = self.solution_.f
        self.kernel_ = space.kernel
        self.alpha_ = np.ascontiguousarray(f.representers.T)
        self.intercept_ = f.free[0].copy() if self.bias else np.zeros(space.n_outputs)
        self._representers_ = space.system
        used = f.support()
        self.support_vectors_ = f.atoms.points(used)
        self.dual_coef_ = np.ascontiguousarray(f.coefficients[used].T)

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Release kernel values that are only needed in a fit."""
        representers: Any = self._representers_
        representers.forget()

    def _scores(self, X: Any) -> np.ndarray:
        return self._expanded(X) + self.intercept_

    def _memory(self, X: Any, y: Any) -> float:
        given = X
        oracle: Any = None if self.oracle is None else shaped(self.oracle, self, X)
        X = check_array(flat_rows(X), dtype=self._rows["dtype"], estimator=self, input_name="X")
        labels, n_outputs, n_classes = self._sizes(X, y)
        families = self._parts(X, given)
        size = len(X) + sum(parts[0].size for parts in families)
        n_formed = sum(part.n_atoms for parts in families for part in parts if part.order > 1)
        needed = X.nbytes + self._tables(len(X), size, n_formed)
        needed += 8.0 * size * n_outputs * 4 * FUNCTIONS_AT_ONCE
        if oracle is not None:
            oracle.validate(X.shape[1])
            members = check_cover(bind(oracle, X, labels), type(self).__name__)
            needed += sum(kernel_memory(X, members, n_classes, 1e6 * self.cache_mb, n_outputs))
        return needed

    def _tables(self, n_rows: int, size: int, n_formed: int) -> float:
        """Return the bytes of Gram matrices, or of matrices for products.

        Entries of the `n_formed` second derivatives are computed in blocks and cached.
        """
        whole = 8.0 * size**2
        named = self.solver if isinstance(self.solver, str) else ""
        if size <= MAX_DIRECT or named in ("dual-cd", "cvxpy"):
            return COPIES_OF_A_TABLE * min(whole, 1e6 * self.cache_mb)
        block = BYTES_OF_AN_ENTRY * min(n_formed * n_rows, VALUES_AT_ONCE)
        return 3 * 8.0 * n_rows**2 + min(8.0 * n_formed * size, 1e6 * self.cache_mb) + block

    def _sample_weights(self, sample_weight: Any, X: np.ndarray, labeled: np.ndarray) -> np.ndarray:
        weights = checked_weights(sample_weight, X)
        weights = weights[labeled]
        check_some("sample_weight", weights, "labeled sample")
        return weights
