"""Problems with their optima, one for each dual state among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

from structinv.dual import dual_state
from structinv.dual.addition_state import AdditionState
from structinv.dual.box_state import BoxState
from structinv.dual.chain_state import ChainState
from structinv.dual.edit_state import EditState
from structinv.dual.flow_state import FlowState
from structinv.dual.label_state import LabelState, WordLabelState
from structinv.dual.labeling_state import LabelingState
from structinv.dual.linear_member_state import LinearMemberState
from structinv.dual.margin_state import MarginState
from structinv.dual.member_state import MemberState
from structinv.dual.plane_cache import PlaneCache
from structinv.dual.row_state import HingeState, SlopeState, TubeState
from structinv.dual.word_state import WordState
from structinv.losses import Hinge, Logistic, SquaredHinge
from structinv.oracles import FAdd, FDrop, FEdit, Identity, TokenEdits
from structinv.oracles.text.text_edits import ReadTexts
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary, Layout, Sequence
from structinv.structures.classes import Regression
from structinv.terms import Objective, WorstCase
from structinv.terms.worst_case import WorstMargin

from .. import kernel_problems
from ..kernel_problems import KERNELS, features
from ..optima import kernel_optimum, margin_optimum, once, optimum
from ..oracles.cases import D
from ..oracles.orbit_cases import ORBIT_CASE, ORBIT_CASES
from ..problems import CASE, COST, SETTING, SETTINGS, N, chain_rows, minimum, objective, sequences

MARGIN_LOSSES = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "logistic": Logistic()}


def margin_problem(oracle, loss, *, sparse=False, factor=1.0, intercept=True, penalties=()):
    X = sp.csr_matrix(SETTINGS[0].X) if sparse else SETTINGS[0].X
    term = WorstMargin(
        X, SETTINGS[0].y, oracle, MARGIN_LOSSES[loss], factor * np.array(SETTINGS[0].weights)
    )
    return Objective(ExplicitSpace(D, intercept=intercept), [term, *penalties])


WORDS = 30


def edit_rows(n=40, d=WORDS, density=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.5, (n, d)) * (rng.random((n, d)) < density)
    y = (X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0).astype(int)
    y[:2] = 0, 1
    return sp.csr_matrix(X.astype(float)), y


def edit_objective(oracle, loss="hinge", intercept=True, weights=0.3, dense=False, data=None):
    X, y = edit_rows() if data is None else data
    X = X.toarray() if dense else X
    space = ExplicitSpace(X.shape[1], intercept=intercept)
    if loss == "hinge":
        return Objective(space, [WorstCase(X, y, oracle, Binary(), weights)])
    return Objective(space, [WorstMargin(X, y, oracle, MARGIN_LOSSES[loss], weights)])


def changes_of(oracle):
    """What may be done to words, and which rows may change."""
    inner = getattr(oracle, "oracle", oracle)
    return inner.edits(WORDS), np.isin(edit_rows()[1], getattr(oracle, "labels", [0, 1]))


@once
def edit_optimum(oracle, loss="hinge", intercept=True, weights=0.3):
    """The program itself; the K largest gains of a row are the least of K t + sum of gains above t."""
    (X, y), (edits, changed) = edit_rows(), changes_of(oracle)
    X, (n, d) = X.toarray(), X.shape
    w, b, least = cp.Variable(d), cp.Variable(), cp.Variable(n, nonneg=True)
    signs = 2 * y - 1
    each = cp.multiply(-signs[:, None], np.ones((n, 1)) @ cp.reshape(w, (1, d), order="C"))
    own = cp.multiply(X, each)
    added = cp.multiply(edits.value * ((X == 0) | edits.present), each)
    gains = cp.maximum((edits.low - 1) * own, (edits.high - 1) * own, added)
    above = cp.pos(gains - cp.reshape(least, (n, 1), order="C") @ np.ones((1, d)))
    most = edits.max_changes * least + cp.sum(above, axis=1)
    depths = cp.multiply(-signs, X @ w + (b if intercept else 0.0)) + cp.multiply(changed, most)
    short = cp.pos(1 + depths)
    written = {"hinge": short, "squared_hinge": cp.square(short), "logistic": cp.logistic(depths)}
    norm = cp.sum_squares(w) + (cp.square(b) if intercept else 0.0)
    total = 0.5 * norm + np.broadcast_to(weights, n) @ written[loss]
    return cp.Problem(cp.Minimize(total)).solve(solver="CLARABEL")


N_LABELS, N_FEATURES = 3, 4
LENGTHS = (3, 1, 2, 2)
SEQUENCE_WEIGHTS = np.array([0.5, 0.2, 0.4, 0.3])


def sequence_rows(unseen=False):
    """Rows and labels; one that allows all masks here, as no 0 is followed by a 2, nor a 2 by a 2."""
    y = np.array([0, 1, 2, 2, 1, 0, 0, 1])
    y = np.minimum(y, 1) if unseen else y
    rng = np.random.default_rng(0)
    means = rng.standard_normal((N_LABELS, N_FEATURES))
    return means[y] + 0.6 * rng.standard_normal((len(y), N_FEATURES)), y


def sequence_objective(
    *, form=np.asarray, kind=Sequence, oracle=None, intercept=False, allowed=None,
    weights=SEQUENCE_WEIGHTS, unseen=False, **costs,
):  # fmt: skip
    X, y = sequence_rows(unseen)
    oracle = Identity() if oracle is None else oracle
    classes, layout = np.arange(N_LABELS), Layout.of_lengths(LENGTHS)
    term = WorstCase(form(X), y, oracle, kind(allowed), weights, classes, layout=layout, **costs)
    n_pairwise = kind().n_pairwise(N_LABELS)
    return Objective(
        ExplicitSpace(N_FEATURES, N_LABELS, intercept=intercept, n_pairwise=n_pairwise), [term]
    )


def edited(x, oracle):
    """All corners of a row's set of changes."""
    found = [x]
    if oracle is not None:
        for count in range(1, min(oracle.max_changes, len(x)) + 1):
            for places in combinations(range(len(x)), count):
                for factors in product(oracle.factors, repeat=count):
                    found.append(x.copy())
                    found[-1][list(places)] *= factors
    return np.array(found)


@once
def sequence_optimum(
    intercept=False, allowed=None, weights=SEQUENCE_WEIGHTS, unseen=False, cost=None,
    position_weight=None, oracle=None,
):  # fmt: skip
    """The optimal value by all labelings and changes, in cvxpy."""
    X, y = sequence_rows(unseen)
    cost = 1.0 - np.eye(N_LABELS) if cost is None else cost
    factors = np.ones(len(y)) if position_weight is None else position_weight
    W, b = (
        cp.Variable((N_LABELS, N_FEATURES)),
        cp.Variable(N_LABELS) if intercept else np.zeros(N_LABELS),
    )
    A, a, e = cp.Variable((N_LABELS, N_LABELS)), cp.Variable(N_LABELS), cp.Variable(N_LABELS)

    def links(labels):
        total = a[labels[0]] + e[labels[-1]]
        for j, k in zip(labels[:-1], labels[1:], strict=True):
            total = total + A[j, k]
        return total

    wins = {
        (t, k): cp.max(edited(X[t], oracle) @ (W[k] - W[y[t]])) + b[k] - b[y[t]]
        for t in range(len(y))
        for k in range(N_LABELS)
        if k != y[t]
    }
    total, first = 0.5 * sum(cp.sum_squares(part) for part in (W, b, A, a, e)), 0
    for length, weight in zip(LENGTHS, weights, strict=True):
        own = slice(first, first + length)
        truth, parts = tuple(y[own].tolist()), [0.0]
        for labels in product(range(N_LABELS), repeat=length):
            pairs = zip(labels[:-1], labels[1:], strict=True)
            if labels != truth and (allowed is None or all(pair in allowed for pair in pairs)):
                margin = float(np.sum(factors[own] * cost[y[own], list(labels)]))
                wrong = [(t, k) for t, k in enumerate(labels, first) if k != y[t]]
                parts.append(sum(wins[each] for each in wrong) + links(labels) - links(truth) + margin)
        total = total + float(weight) * cp.maximum(*parts)
        first += length
    return minimum(total)


N_EXTRA = Sequence().n_pairwise(N_LABELS)
LAYOUT = Layout.of_lengths(chain_rows()[2])


def chain_problem(
    name, kernel, *, factor=4.0, cache_mb=100.0, space=None, structure=None, dtype=np.float64
):
    """Sequences under the changes of a case, in a kernel's space with their transitions beside it."""
    X, y, _, weights = chain_rows()
    structure = structure or Sequence()
    pairwise = structure.n_pairwise(N_LABELS)
    space = space or KernelSpace(kernel, D, N_LABELS, n_pairwise=pairwise, cache_mb=cache_mb)
    oracle, weights = ORBIT_CASE[name].oracle, factor * weights
    term = WorstCase(X.astype(dtype), y, oracle, structure, weights, layout=LAYOUT, cost=COST)
    return Objective(space, [term])


@cache
def chain_optimum(name, kernel_name, factor=4.0):
    """The optimal value by all labelings and members: independent of decoding and separation."""
    X, y, lengths, weights = chain_rows()
    case = ORBIT_CASE[name]
    members, grades = case.members(X, y), case.grades(X, y)
    n, s, _ = members.shape
    phi = features(KERNELS[kernel_name], members.reshape(n * s, D))
    W, pairwise = cp.Variable((phi.shape[1], N_LABELS)), cp.Variable(N_EXTRA)
    values = phi @ W
    total, first = 0.5 * (cp.sum_squares(W) + cp.sum_squares(pairwise)), 0
    for length, weight in zip(lengths, weights, strict=True):
        truth, one = y[first : first + length], Layout.of_lengths([length])
        own = Sequence().features(truth, one, N_LABELS).toarray()[0]
        parts = [0.0]
        for labels in sequences(length):
            moved = Sequence().features(labels, one, N_LABELS).toarray()[0] - own
            loss = moved @ pairwise
            for t, (label, true) in enumerate(zip(labels, truth, strict=True)):
                if label != true:
                    i = first + t
                    mine = values[i * s : (i + 1) * s]
                    loss = loss + cp.max(mine[:, label] - mine[:, true] + COST[true][label] * grades[i])
            parts.append(loss)
        total = total + factor * weight * cp.maximum(*parts)
        first += length
    return minimum(total)


SLOPE_RNG = np.random.default_rng(0)
N_SLOPES, SLOPE_D = 80, 6
SLOPE_X = SLOPE_RNG.standard_normal((N_SLOPES, SLOPE_D))
SLOPE_Y = (SLOPE_X[:, 0] + SLOPE_RNG.standard_normal(N_SLOPES) > 0).astype(int)
SLOPE_WEIGHTS = np.where(np.arange(N_SLOPES) % 7 == 0, 0.0, SLOPE_RNG.uniform(0.5, 2.0, N_SLOPES))


def slope_problem(loss, factor=1.0, *, sparse=False, intercept=True, oracle=None, penalties=()):
    rows = sp.csr_matrix(SLOPE_X) if sparse else SLOPE_X
    term = WorstMargin(rows, SLOPE_Y, oracle or Identity(), MARGIN_LOSSES[loss], factor * SLOPE_WEIGHTS)
    return Objective(ExplicitSpace(SLOPE_D, intercept=intercept), [term, *penalties])


@once
def slope_optimum(loss, factor, intercept, penalty=0.0):
    """By Newton's method on the weights, with all second derivatives."""
    rows = np.column_stack([SLOPE_X, np.ones(N_SLOPES)]) if intercept else SLOPE_X
    signed, c, w = (2 * SLOPE_Y - 1)[:, None] * rows, factor * SLOPE_WEIGHTS, np.zeros(rows.shape[1])
    normal = np.eye(len(w))[0] - np.eye(len(w))[1]
    # The squared loss of a penalty is u^2.
    own = np.eye(len(w)) + 2 * penalty * np.outer(normal, normal)
    this = MARGIN_LOSSES[loss]

    def value(w):
        return 0.5 * w @ own @ w + c @ this.value(signed @ w)

    for _ in range(100):
        u = signed @ w
        gradient = own @ w + signed.T @ (c * this.derivative(u))
        way = np.linalg.solve(own + (signed.T * (c * this.curvature(u))) @ signed, -gradient)
        size = 1.0
        while value(w + size * way) > value(w) + 1e-4 * size * gradient @ way and size > 1e-9:
            size *= 0.5
        w = w + size * way
    assert np.abs(gradient).max() < 1e-7 * (1.0 + factor)
    return value(w)


# Two classes and no change have in-hull steps.
MEMBER_LISTS = [
    case for case in ORBIT_CASES if case.scored and case.name not in ("identity", "only_for-none")
]
MEMBER_NAMES = [case.name for case in MEMBER_LISTS]


def state_of(problem, number=0, epsilon=0.0, seed=0):
    """The dual state of a term of a problem."""
    rng = np.random.default_rng(seed)
    return dual_state(problem.terms[number], problem.space, rng, epsilon)


def swept(problem, sweeps=3):
    """A state after some sweeps, and its part of f."""
    state, f = state_of(problem), problem.space.zeros()
    for _ in range(sweeps):
        state.sweep(f)
    return state, f


Made = tuple[Objective, float]


@dataclass(frozen=True)
class StateCase:
    """A dual state, and how a problem that is solved with it and its optimum are made."""

    kind: type
    make: Callable[[], Made]


def explicit(kind: type, name: str, setting: str, sparse: bool = False) -> StateCase:
    def make() -> Made:
        problem = objective(CASE[name].oracle, SETTING[setting], sparse=sparse)
        return problem, optimum(name, setting)

    return StateCase(kind, make)


def in_a_kernel(**options: Any) -> Callable[[], Made]:
    def make() -> Made:
        setting, kernel = SETTING["multiclass"], KERNELS["gaussian"]
        problem = kernel_problems.problem(ORBIT_CASE["halves"].oracle, setting, kernel, **options)
        return problem, kernel_optimum("halves", "multiclass", "gaussian")[0]

    return make


def of_sequences_in_a_kernel() -> Made:
    return chain_problem("union", KERNELS["gaussian"]), chain_optimum("union", "gaussian")


def of_targets() -> Made:
    """Rows with numbers for labels, and a tube around them in which errors cost nothing."""
    X, weights = SETTING["binary"].X, np.where(np.arange(N) == 3, 0.0, np.linspace(0.1, 1.2, N))
    targets = X @ np.linspace(-1.0, 2.0, D) + 0.4 * (-1.0) ** np.arange(N)
    term = WorstCase(X, targets, Identity(), Regression(0.15), weights)
    return Objective(ExplicitSpace(D, intercept=True), [term]), tube_optimum(X, targets, weights)


@once
def tube_optimum(X: Any, targets: Any, weights: Any) -> float:
    w, b = cp.Variable(D), cp.Variable()
    losses = weights @ cp.pos(cp.abs(X @ w + b - targets) - 0.15)
    return minimum(0.5 * cp.sum_squares(w) + 0.5 * cp.square(b) + losses)


def of_sequences(**setting: Any) -> Callable[[], Made]:
    return lambda: (sequence_objective(**setting), sequence_optimum(**setting))


def of_edits(oracle: Any) -> Callable[[], Made]:
    return lambda: (edit_objective(oracle), edit_optimum(oracle))


MOST_TOKENS = 3


def of_texts(edit: str) -> Objective:
    """Texts with repeated words, of which those of one label change."""
    X, y = edit_rows()
    names, counts = np.array([f"word{j}" for j in range(WORDS)]), X.toarray().astype(int)
    words = CountVectorizer().fit(names)
    words.vocabulary_ = {name: j for j, name in enumerate(names)}
    texts = ReadTexts.of(words, [" ".join(np.repeat(names, row)) for row in counts])
    oracle = texts.oracle(TokenEdits(edit, MOST_TOKENS)).only_for(1)
    return edit_objective(oracle, data=(texts.rows, y))


def of_deleted_tokens() -> Made:
    return of_texts("drop"), deleted_optimum()


def of_inserted_tokens() -> Made:
    # All inserted tokens are the best one.
    oracle = FAdd(1, float(MOST_TOKENS), present=True).only_for(1)
    return of_texts("add"), edit_optimum(oracle)


@once
def deleted_optimum() -> float:
    """Each word of a text has one gain per occurrence."""
    X, y = edit_rows()
    w, b, losses = cp.Variable(WORDS), cp.Variable(), []
    for row, label in zip(X.toarray().astype(int), y, strict=True):
        tokens, sign = np.repeat(np.arange(WORDS), row), 2 * label - 1
        depth = 1 - sign * (row @ w + b)
        if label == 1 and len(tokens):
            depth += cp.sum_largest(cp.pos(sign * w[tokens]), min(MOST_TOKENS, len(tokens)))
        losses.append(cp.pos(depth))
    norm = cp.sum_squares(w) + cp.square(b)
    return minimum(0.5 * norm + 0.3 * cp.sum(cp.hstack(losses)))


def of_margins(loss: str) -> Callable[[], Made]:
    def make() -> Made:
        problem = margin_problem(CASE["fdrop"].oracle, loss)
        return problem, margin_optimum("fdrop", loss)

    return make


def of_slopes(factor: float, intercept: bool) -> Callable[[], Made]:
    def make() -> Made:
        problem = slope_problem("logistic", factor, intercept=intercept)
        return problem, slope_optimum("logistic", factor, intercept)

    return make


# States of oracle cases with averaged planes, for two and for several classes.
AVERAGED = {
    "identity": HingeState,
    "fscale": WordState,
    "fdrop": WordState,
    "box-radii": BoxState,
    "only_for": WordState,
}
LABELS = {
    "identity": LabelState,
    "fscale": WordLabelState,
    "fdrop": WordLabelState,
    "only_for": WordLabelState,
}
STATES = {
    **{f"rows-{name}": explicit(state, name, "binary") for name, state in AVERAGED.items()},
    "rows-slack": explicit(BoxState, "box-radii", "binary-slack"),
    "rows-sparse": explicit(HingeState, "identity", "binary", sparse=True),
    **{
        f"labels-{name}": explicit(state, name, "multiclass", sparse=True)
        for name, state in LABELS.items()
    },
    "deleted tokens": StateCase(WordState, of_deleted_tokens),
    "inserted tokens": StateCase(AdditionState, of_inserted_tokens),
    "additions": StateCase(AdditionState, of_edits(FAdd(1).only_for(1))),
    "edits": StateCase(EditState, of_edits(FEdit(1, add=1.0).only_for(1))),
    "edits of all rows": StateCase(EditState, of_edits(FEdit(1, add=1.0))),
    "margins": StateCase(MarginState, of_margins("squared_hinge")),
    "margins-logistic": StateCase(MarginState, of_margins("logistic")),
    "slopes": StateCase(SlopeState, of_slopes(0.02, False)),
    "slopes-newton": StateCase(SlopeState, of_slopes(300.0, True)),
    "linear members": explicit(LinearMemberState, "finite", "multiclass"),
    "members": StateCase(MemberState, in_a_kernel()),
    "labelings": StateCase(LabelingState, of_sequences_in_a_kernel),
    "tube": StateCase(TubeState, of_targets),
    "flows": StateCase(FlowState, of_sequences(intercept=True)),
    "chains": StateCase(ChainState, of_sequences(oracle=FDrop(1))),
    "planes": explicit(PlaneCache, "fscale", "multiclass-slack"),
    "planes of dense rows": explicit(PlaneCache, "ellipsoid", "binary"),
    # A space with room for no member, so that each question makes all of them again.
    "planes in a kernel": StateCase(PlaneCache, in_a_kernel(cache_mb=0.0)),
}
