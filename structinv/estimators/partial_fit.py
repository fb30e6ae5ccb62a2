"""Online learning from batches (partial_fit), with a lower bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..rows import RowSource
from ..solvers import Pegasos, Solution, Status
from ..solvers.pegasos import Stream
from ..terms import Objective
from ..utils.jit import Stopwatch
from ..utils.matrices import refuse_masked
from .advice import linear_functions
from .inputs import (
    as_bytes,
    block_sizes,
    check_oracle_type,
    check_shape,
    check_source,
    check_targets,
    checked_weights,
    class_factors,
    for_oracle,
    in_blocks,
    labeled_rows,
    labels_of_source,
    learn_shape,
    shaped,
    source_for_oracle,
)


def check_streams(estimator: Any) -> bool:
    """Return True, or raise AttributeError unless the solver supports `partial_fit`."""
    if estimator.solver != "pegasos" and not isinstance(estimator.solver, Pegasos):
        raise AttributeError(f"partial_fit requires solver='pegasos', got solver={estimator.solver!r}")
    return True


def learn_batch(estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
    """Train on one batch, as in `InvariantLinearSVC.partial_fit`."""
    estimator._check_parameters()
    first = not hasattr(estimator, "classes_")
    if first:
        learn_shape(estimator, X)
    check_shape(estimator, X)
    oracle = shaped(check_oracle_type(estimator.oracle), estimator, X)
    X, y = labeled_rows(estimator, X, y, reset=first, **estimator._rows)
    X = for_oracle(X, oracle)
    classes = _classes(estimator, y, classes, first)
    oracle.check_labels(classes)
    weights = _weights(estimator, X, y, classes, sample_weight)
    estimator._check_costs(classes)
    problem = estimator._of_classes(X, y, classes, oracle, weights)
    objective: Objective = estimator._objective(problem)
    space: Any = objective.space
    before = Stream(space.zeros(), 0.0, space.zeros()) if first else _stream(estimator, space)
    watch = Stopwatch()
    seed = check_random_state(estimator.random_state).randint(2**31 - 1)
    solver = estimator._solver(objective)
    after = solver.stream(objective, before, np.random.default_rng(seed))
    # The sum of planes defines the bound; its average over steps predicts better.
    f = after.mean if solver.average else after.f
    # The losses of earlier batches are unknown.
    primal = objective.value(f).upper if before.n_rows == 0 else np.inf
    dual = after.offset - 0.5 * space.dot(after.f, after.f)
    solution = Solution(
        f=f.copy(),
        primal=primal,
        dual=dual,
        gap=primal - dual,
        relative_gap=(primal - dual) / primal if 0 < primal < np.inf else np.inf,
        status=Status.ITERATION_LIMIT,
        history=[],
        dual_variables=[],
        iterations=after.n_batches,
        oracle_calls=objective.oracle_calls,
        seconds=watch.seconds,
        compile_seconds=watch.compile_seconds,
    )
    estimator.classes_ = classes
    estimator.n_iter_ = after.n_batches
    estimator.solution_ = solution
    estimator._keep(problem, objective, solution)
    estimator._stream_ = after


def learn_in_blocks(estimator: Any, X: RowSource, y: Any, classes: Any, sample_weight: Any) -> None:
    """Train on the blocks of a source, in their sequence."""
    estimator._check_parameters()
    first = not hasattr(estimator, "classes_")
    X = source_for_oracle(X, check_oracle_type(estimator.oracle))
    if not first:
        check_source(estimator, X)
    y = labels_of_source(estimator, X, y)
    check_targets(y)
    # All labels are checked before the first batch.
    classes = _classes(estimator, y, classes, first)
    weights = None if sample_weight is None else checked_weights(sample_weight, X)
    functions = linear_functions(X.shape[1], 1 if len(classes) == 2 else len(classes))
    sizes = block_sizes(X, functions, as_bytes(estimator.memory_limit))
    watch, asked = Stopwatch(), 0
    for rows, numbers in in_blocks(X, lambda *block: block, sizes.values):
        learn_batch(estimator, rows, y[numbers], classes, None if weights is None else weights[numbers])
        asked += estimator.solution_.oracle_calls
    estimator.solution_ = replace(
        estimator.solution_,
        oracle_calls=asked,
        seconds=watch.seconds,
        compile_seconds=watch.compile_seconds,
    )


def _classes(estimator: Any, y: np.ndarray, classes: Any, first: bool) -> np.ndarray:
    """Return the classes of the stream, which the first batch defines."""
    refuse_masked("classes", classes)
    known = np.unique(y if classes is None else np.asarray(classes)) if first else estimator.classes_
    if not first and classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(f"classes must be those of the first batch, {known}, got {classes!r}")
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise ValueError(
            f"y must contain only labels of the classes {known}, got {unknown.tolist()[0]!r}"
        )
    if len(known) < 2:
        raise ValueError(
            "classes or the first y must contain at least two classes, got one class: "
            f"{known.tolist()[0]!r}"
        )
    return known


def _weights(
    estimator: Any, X: Any, y: np.ndarray, classes: np.ndarray, sample_weight: Any
) -> np.ndarray:
    if isinstance(estimator.class_weight, str):
        raise ValueError(
            "class_weight must be a dict or None in partial_fit, where class frequencies are unknown, "
            f"got {estimator.class_weight!r}"
        )
    factor = checked_weights(sample_weight, X, part=True)
    factors = class_factors(estimator.class_weight, classes, classes, np.ones(len(classes)))
    return estimator.C * factor * factors[np.searchsorted(classes, y)]


def stream_of(objective: Objective, solution: Solution) -> Stream | None:
    """Return the state after a fit with `Pegasos`; None for other solvers."""
    sums = solution.dual_variables[0] if solution.dual_variables else {}
    if "normal" not in sums:
        return None
    f = sums["normal"]
    return Stream(f, float(sums["offset"][0]), f, n_rows=len(objective.weights))


def _stream(estimator: Any, space: Any) -> Stream:
    """Return the state after earlier batches, or after a fit with the same solver."""
    stream = estimator._stream_
    if stream is None:
        raise ValueError(
            "partial_fit requires a model that was fitted with solver='pegasos', but this model was "
            "fitted with another solver: use a new estimator"
        )
    if stream.f.shape != space.zeros().shape:
        raise ValueError(
            "fit_intercept must be the same as in the first batch, got "
            f"{estimator.fit_intercept!r}: use a new estimator to change it"
        )
    return stream
