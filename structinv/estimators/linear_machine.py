"""Base class of linear models: rows, weights and automatic choice of the solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite, check_array

from ..certificates.certificate import WorstChange, joined, worst_change
from ..dual import Case
from ..dual.plane_cache import BatchedState
from ..oracles import Identity, InvarianceOracle
from ..oracles.third_party import bind
from ..rows import RowSource
from ..rows.sources import MatrixRows
from ..solvers import BMRM, FrankWolfe, InteriorPoint, Solution, Solver
from ..solvers.interior_point import spread_of
from ..spaces import ExplicitSpace
from ..structures.bound import BoundStructure
from ..terms import Objective
from ..terms.blockwise_term import BlockwiseTerm
from ..terms.worst_case import WorstMargin
from ..utils.matrices import Matrix, squared_lengths
from ..utils.parameters import check_boolean
from ..utils.resources import check_memory
from .base import InvariantEstimator
from .parameters import check_oracle_type
from .problem import Problem
from .resource_estimates import (
    LINEAR_PLANES_OF_A_CLASS,
    LINEAR_PLANES_OF_A_ROW,
    linear_functions,
    linear_memory,
    named,
)
from .row_inputs import (
    as_bytes,
    block_sizes,
    check_source,
    flat_rows,
    for_oracle,
    in_blocks,
    labels_of_source,
    learn_shape,
    memory_of_blocks,
    refuse_paths,
    shaped,
    source_for_oracle,
)

# Up to this number of weights, bundle methods are fastest.
FEW_WEIGHTS = 16
# Above this mean of C |x|^2, first-order steps are slow. Up to these sizes Newton's method is faster.
LONG = 1000.0
MOST_WEIGHTS, MOST_ROWS = 1000, 10_000
# The same for one function of few weights, or if all rows have the same perturbations.
LONG_FOR_NEWTON, NEWTON_WEIGHTS = 100.0, 100


class LinearMachine(InvariantEstimator):
    """Base class of estimators with weights of features and a constant."""

    fit_intercept: bool
    memory_limit: float | str | None = None
    coef_: np.ndarray
    intercept_: np.ndarray

    _rows = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": [np.float64, np.float32]}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_boolean("fit_intercept", self.fit_intercept)
        as_bytes(self.memory_limit)

    def _memory(self, X: Any, y: Any) -> float:
        self._check_parameters()
        if isinstance(X, RowSource):
            _, n_outputs, _ = self._sizes(X, y)
            functions = linear_functions(X.shape[1], n_outputs)
            return memory_of_blocks(X, functions, as_bytes(self.memory_limit))
        oracle = shaped(check_oracle_type(self.oracle), self, X)
        X = check_array(flat_rows(X), estimator=self, input_name="X", **self._rows)
        return self._memory_of(for_oracle(X, oracle), y, oracle)

    def _memory_of(self, X: Matrix, y: Any, oracle: InvarianceOracle) -> float:
        """Return the estimated bytes of a fit on checked rows."""
        labels, n_outputs, _ = self._sizes(X, y)
        entries = X.size if isinstance(X, np.ndarray) else 2 * X.nnz + X.shape[0]
        few = n_outputs == 1 or oracle.finite
        n_planes = LINEAR_PLANES_OF_A_ROW if few else LINEAR_PLANES_OF_A_CLASS * n_outputs
        planes = n_planes * (8.0 * entries + 24.0 * X.shape[0])
        functions = linear_functions(X.shape[1], n_outputs)
        members, _ = linear_memory(X, bind(oracle, X, labels), n_outputs)
        return planes + functions + members

    def _read_rows(self, X: Any, y: Any) -> tuple[Any, np.ndarray, InvarianceOracle]:
        refuse_paths(X)
        if not isinstance(X, RowSource):
            rows, labels, oracle = super()._read_rows(X, y)
            return rows if self.memory_limit is None else MatrixRows(rows), labels, oracle
        learn_shape(self, X)
        oracle = check_oracle_type(self.oracle)
        return source_for_oracle(X, oracle), labels_of_source(self, X, y), oracle

    def _check(self, X: Any, finite: bool = True) -> Any:
        refuse_paths(X)
        return check_source(self, X) if isinstance(X, RowSource) else super()._check(X, finite)

    def _rows_to_change(self, X: Any, oracle: InvarianceOracle | None) -> tuple[Any, InvarianceOracle]:
        if not isinstance(X, RowSource):
            return super()._rows_to_change(X, oracle)
        oracle = check_oracle_type(self.oracle if oracle is None else oracle)
        return source_for_oracle(check_source(self, X), oracle), oracle

    def _objective(self, problem: Problem) -> Objective:
        if isinstance(problem.rows, RowSource):
            return self._objective_in_blocks(problem)
        term = problem.worst_case()
        n_rows, n_features = problem.rows.shape
        what = f"training with weights for {n_features} features"
        weights = linear_functions(n_features, term.n_outputs)
        check_memory(what, weights, "hash the features, or renumber them without gaps")
        needed, size = linear_memory(problem.rows, term.bound, term.n_outputs)
        if needed > 0:
            check_memory(
                named(term.bound, size, n_rows), needed, "use fewer perturbed samples or fewer rows"
            )
        space = ExplicitSpace(n_features, term.n_outputs, intercept=bool(self.fit_intercept))
        return Objective(space, [term])

    def _objective_in_blocks(self, problem: Problem) -> Objective:
        """Return the objective for rows in blocks."""
        n_features, n_outputs = problem.rows.shape[1], problem.n_outputs
        functions = linear_functions(n_features, n_outputs)
        sizes = block_sizes(problem.rows, functions, as_bytes(self.memory_limit))
        term = problem.in_blocks(sizes)
        space = ExplicitSpace(n_features, n_outputs, intercept=bool(self.fit_intercept))
        return Objective(space, [term])

    def _best_solver(self, objective: Any) -> tuple[Solver, str]:
        term, n_weights, n_rows = objective.terms[0], objective.space.size, len(objective.weights)
        if isinstance(term, WorstMargin):
            if isinstance(term.oracle, Identity):
                # Frank-Wolfe then takes Newton steps for one point per row, which do not depend on
                # scales and weights.
                return FrankWolfe(), "there is no oracle, and the loss is smooth"
            if n_weights <= FEW_WEIGHTS and n_rows <= MOST_ROWS:
                # Smooth losses need many planes, and few weights make planes of single rows cheap.
                return (
                    InteriorPoint(),
                    f"the loss is smooth, and there are at most {FEW_WEIGHTS} weights",
                )
        if isinstance(term, BlockwiseTerm):
            return _solver_of_blocks(term, objective.space)
        if n_weights <= MOST_WEIGHTS and n_rows <= MOST_ROWS and (reason := _newton(objective)):
            return InteriorPoint(), reason
        if n_weights <= FEW_WEIGHTS:
            # A bundle models the whole objective, so its steps do not depend on scaling.
            return BMRM(), f"there are at most {FEW_WEIGHTS} weights"
        return FrankWolfe(), f"there are more than {FEW_WEIGHTS} weights"

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        space: Any = objective.space
        dtype = problem.rows.dtype
        self.coef_ = space.weights(solution.f).astype(dtype, order="C")
        self.intercept_ = (space.constants(solution.f) + problem.target_mean).astype(dtype)

    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        if isinstance(X, RowSource):
            if points:
                raise TypeError(
                    "X must be an array or a matrix in worst_case, which returns all rows: pass one "
                    "block"
                )

            def worst_of(block: Matrix, rows: slice) -> WorstChange:
                some = labels.structure.bind(labels.classes[labels.codes[rows]], labels.classes)
                return self._worst_change(block, some, oracle, points)

            return joined(list(in_blocks(X, worst_of)), None)
        return worst_change(self.coef_, self.intercept_, oracle, labels, X, points)

    def _checked_scores(self, X: Any) -> np.ndarray:
        # A NaN or infinity in sparse rows makes a score non-finite. A test of the scores is faster than
        # one of the rows, and saves a fifth of the run time.
        X = self._check(X, finite=not sp.issparse(X))
        scores = self._scores(X)
        if isinstance(X, RowSource):
            return scores
        if not np.all(np.isfinite(scores)):
            assert_all_finite(X, input_name="X", estimator_name=type(self).__name__)
        return scores

    def _scores(self, X: Any) -> np.ndarray:
        if isinstance(X, RowSource):
            return np.concatenate(list(in_blocks(X, lambda rows, _: self._scores(rows))))
        if len(self.coef_) == 1:
            return np.asarray(X @ self.coef_[0])[:, None] + self.intercept_
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        """Declare support of sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _newton(objective: Any) -> str:
    """Return the reason why Newton's method is faster than first-order steps; empty if it may not be."""
    term, space = objective.terms[0], objective.space
    if term.X.shape[0] != len(objective.weights):
        return ""
    if sp.issparse(term.X) and term.X.shape[1] > NEWTON_WEIGHTS:
        # Newton's method needs dense planes.
        return ""
    # The ratio does not depend on the units of features and targets.
    length, unit = float(np.mean(objective.weights * squared_lengths(term.X))), term.labels.unit
    if length > LONG * unit:
        return "the mean of C |x|^2 is large"
    few = space.n_outputs == 1 and space.size <= NEWTON_WEIGHTS
    if space.size <= FEW_WEIGHTS or not (few or spread_of(objective) is not None):
        return ""
    if length > LONG_FOR_NEWTON * unit:
        return (
            "the mean of C |x|^2 is large, and weights are few or all rows have the same perturbations"
        )
    smooth_or_regression = isinstance(term, WorstMargin) or not term.labels.structure.labeled
    # States with lists of points or planes are slow for any C.
    if smooth_or_regression and issubclass(Case(term, space).chosen(), BatchedState):
        return (
            "the loss has no in-hull steps, and weights are few or all rows have the same perturbations"
        )
    return ""


def _solver_of_blocks(term: BlockwiseTerm, space: ExplicitSpace) -> tuple[Solver, str]:
    """Return the solver for rows in blocks, and the reason."""
    if Case(term.sample, space).chosen().packs:
        return FrankWolfe(), "rows are read in blocks"
    return BMRM(), "rows are read in blocks, and dual variables of a block cannot be stored separately"
