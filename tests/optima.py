"""Optima of the shared problems, written in cvxpy apart from the package; each is computed once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import cvxpy as cp
import numpy as np

from .kernel_problems import KERNELS, over_members
from .oracles.cases import Case, D
from .oracles.orbit_cases import ORBIT_CASE
from .problems import (
    CASE,
    LABELS,
    SETTING,
    SETTINGS,
    Setting,
    chain_rows,
    minimum,
    sequences,
    transitions,
)


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called once for the texts of its arguments, which need not be hashable."""
    known: dict[str, Any] = {}
    signature = inspect.signature(function)

    @wraps(function)
    def kept(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        key = repr(given.arguments)
        if key not in known:
            known[key] = function(*args, **kwargs)
        return known[key]

    return kept


@dataclass(frozen=True)
class Variables:
    """Weights and constants of each output; a constant that is no variable is zero."""

    W: cp.Variable
    b: Any

    @classmethod
    def of(cls, setting: Setting) -> Variables:
        K = setting.n_outputs
        return cls(cp.Variable((K, D)), cp.Variable(K) if setting.intercept else np.zeros(K))

    @property
    def norm(self) -> Any:
        return 0.5 * cp.sum_squares(self.W) + 0.5 * cp.sum_squares(self.b)

    def against(self, label: int, other: int) -> tuple[Any, Any]:
        """What `other` has more than `label`: weights, and constants."""
        if self.W.shape[0] == 1:
            sign = 1.0 if other == 1 else -1.0
            return sign * self.W[0], sign * self.b[0]
        return self.W[other] - self.W[label], self.b[other] - self.b[label]


def worst_losses(case: Case, setting: Setting, variables: Variables, factor: float = 1.0) -> Any:
    """``sum_i c_i max(0, max over y' of the worst case of G (f_y' - f_y) + D rho)``."""
    total = 0.0
    for x, label, weight in zip(setting.X, setting.y, setting.weights, strict=True):
        if weight == 0.0:
            continue
        parts = [0.0]
        for other in range(setting.n_classes):
            D = float(setting.cost[label][other])
            G = D if setting.slack else 1.0
            if other != label:
                v, constant = variables.against(label, other)
                parts.append(case.graded_support_expression(x, label, G * v, D) + G * constant)
        total = total + factor * weight * cp.maximum(*parts)
    return total


@cache
def optimum(case: str, setting: str, factor: float = 1.0) -> float:
    """The optimal value of `objective`, from the case's own expression of its support."""
    variables = Variables.of(SETTING[setting])
    losses = worst_losses(CASE[case], SETTING[setting], variables, factor)
    return minimum(variables.norm + losses)


_penalized: dict[tuple[str, str, str], float] = {}


def with_penalty(case: str, setting: str, name: str, penalty: Callable[[Any], Any]) -> float:
    """The optimum with a named penalty on the weights of all outputs, one after the other."""
    if (case, setting, name) not in _penalized:
        variables = Variables.of(SETTING[setting])
        losses = worst_losses(CASE[case], SETTING[setting], variables)
        weights = cp.reshape(variables.W, (variables.W.size,), order="C")
        best = minimum(variables.norm + losses + penalty(weights))
        _penalized[case, setting, name] = best
    return _penalized[case, setting, name]


@cache
def chain_optimum(case: str, rescaling: str) -> float:
    """The optimum of `chain_objective`, by all sequences of labels."""
    X, y, lengths, weights = chain_rows()
    W, b, T = cp.Variable((LABELS, D)), cp.Variable(LABELS), cp.Variable(LABELS**2)
    gain = [
        [
            CASE[case].support_expression(x, label, W[other] - W[label]) + b[other] - b[label]
            if other != label
            else 0.0
            for other in range(LABELS)
        ]
        for x, label in zip(X, y, strict=True)
    ]
    total = 0.5 * (cp.sum_squares(W) + cp.sum_squares(b) + cp.sum_squares(T))
    first = 0
    for length, weight in zip(lengths, weights, strict=True):
        truth = y[first : first + length]
        parts = [0.0]
        moves = transitions(sequences(length)) - transitions(truth[None, :])
        for labels, transition in zip(sequences(length), moves, strict=True):
            cost = float(np.sum(labels != truth))
            moved = sum(gain[first + t][label] for t, label in enumerate(labels))
            factor = cost if rescaling == "slack" else 1.0
            parts.append(factor * (moved + transition @ T) + cost)
        total = total + weight * cp.maximum(*parts)
        first += length
    return minimum(total)


def worst_loss(setting, i, mine, grades, factor=1.0):
    """The worst loss of row i of a setting, of expressions at its members and their grades."""
    label, parts = setting.y[i], [0.0]
    for other in set(range(setting.n_classes)) - {label}:
        cost = float(setting.cost[label][other])
        if setting.n_outputs == 1:
            gain = (1.0 if other == 1 else -1.0) * mine[:, 0]
        else:
            gain = mine[:, other] - mine[:, label]
        parts.append(cp.max((cost if setting.slack else 1.0) * gain + cost * grades))
    return factor * setting.weights[i] * cp.maximum(*parts)


@cache
def kernel_optimum(case_name, setting_name, kernel_name, factor=1.0):
    """The optimal value, and what f is at all members, by cvxpy.

    Without a name of a kernel functions are linear, with the constant of the setting.
    """
    case, setting = ORBIT_CASE[case_name], SETTING[setting_name]
    members, grades = (view(setting.X, setting.y) for view in (case.members, case.grades))
    kernel = KERNELS.get(kernel_name, lambda X, Y: X @ Y.T + setting.intercept)

    def loss(i, mine):
        return worst_loss(setting, i, mine, grades[i], factor)

    return over_members(kernel, members, setting.n_outputs, loss)


def written(loss, depth):
    """L(u) as a convex expression, from the definition of the loss."""
    if loss == "logistic":
        return cp.logistic(depth)
    short = cp.pos(1 + depth)
    return cp.square(short) if loss == "squared_hinge" else short


def lowest(expression, loss):
    """The smallest value; the interior-point solver gives up on some exponential cones."""
    if loss != "logistic":
        return minimum(expression)
    program = cp.Problem(cp.Minimize(expression))
    program.solve(solver="SCS", eps=1e-9, max_iters=1_000_000)
    assert program.status == cp.OPTIMAL, program.status
    return float(program.value)


@cache
def margin_optimum(case_name, loss, factor=1.0, penalty=0.0):
    """The optimum of a loss of the worst margin, from the case's own expression of its support."""
    variables = Variables.of(SETTINGS[0])
    total = variables.norm + penalty * cp.sum_squares(variables.W[0, 0] - variables.W[0, 1])
    for x, label, weight in zip(SETTINGS[0].X, SETTINGS[0].y, SETTINGS[0].weights, strict=True):
        v, constant = variables.against(label, 1 - label)
        # The labels are 0 and 1 and the function is the second's: -y f is that of the other label.
        depth = CASE[case_name].support_expression(x, label, v) + constant
        total = total + factor * weight * written(loss, depth)
    return lowest(total, loss)


@cache
def kernel_margin_optimum(case_name, loss):
    """The optimum of a loss of the worst margin over listed members, in a kernel's space."""

    def one(i, mine):
        sign = 1.0 if SETTINGS[0].y[i] == 1 else -1.0
        return SETTINGS[0].weights[i] * written(loss, cp.max(-sign * mine))

    members = ORBIT_CASE[case_name].members(SETTINGS[0].X, SETTINGS[0].y)
    return over_members(KERNELS["gaussian"], members, 1, one, lambda total: lowest(total, loss))[0]
