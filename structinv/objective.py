"""Terms become planes and values: where oracle, output, functional and space meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .dual_states import (
    MOST_MEMBERS,
    DualState,
    HullState,
    Hurried,
    LabelState,
    LinearMemberState,
    MemberState,
    PenaltyState,
    PlaneCache,
    never,
)
from .functionals import Functionals
from .losses import ScalarLoss
from .matrices import ALL_ROWS, Matrix, Rows, count, pick
from .oracles.base import BoundOracle, Cover, InvarianceOracle, Support
from .oracles.checked import bind
from .outputs.base import Choice, Output
from .outputs.checked import choose, encode
from .planes import Planes, PlaneSet
from .spaces import Element, ExplicitSpace, KernelSpace, Space

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Value:
    """A value of the objective.

    Parameters
    ----------
    upper : float
        A bound from above; infinity where an oracle knows none.
    attained : float
        The value over the changes that the oracles found. Equal to `upper` if they are exact.
    """

    upper: float
    attained: float


class Term(ABC):
    """A sum of weighted convex blocks ``c_b phi_b(f)``, given by planes.

    Attributes
    ----------
    weights : (n_blocks,) array
    floors : (n_blocks,) array
        A lower bound of each block.
    """

    weights: np.ndarray
    floors: np.ndarray
    # Whether `planes` can be asked for.
    has_planes: bool = True

    @property
    def n_blocks(self) -> int:
        """How many blocks the term has."""
        return len(self.weights)

    @abstractmethod
    def validate(self, space: Space) -> None:
        """Raise ValueError if the term cannot be evaluated on elements of the space."""

    @abstractmethod
    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        """A plane of each block named that touches it from below at `f`."""

    @abstractmethod
    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """Each block's value at `f`: a bound from above, and what was attained."""

    def portions(self) -> list[Rows]:
        """All blocks, in portions whose planes fit in memory several times over."""
        return [ALL_ROWS]

    def blocks_at_once(self, space: Space) -> int:
        """How many blocks to ask for together, so that a solver can look at the clock in between."""
        return max(1, self.n_blocks)

    def total(self, space: Space, f: Element) -> tuple[float, float]:
        """The weighted sum of `values`."""
        above, reached = self.values(space, f)
        # A block of weight zero counts nothing, be its bound infinite.
        counted = self.weights > 0
        return float(self.weights[counted] @ above[counted]), float(self.weights @ reached)

    @abstractmethod
    def dual_state(self, space: Space, rng: np.random.Generator, epsilon: float = 0.0) -> DualState:
        """A state of the dual variables of this term that block-coordinate solvers improve.

        A plane that rises at most `epsilon` above those that its block has is not taken up.
        """

    @abstractmethod
    def rows_of(self, blocks: Rows) -> int:
        """How many rows an oracle is asked when the blocks named are evaluated."""

    def coordinates(self) -> Coordinates | None:
        """The term as a sum of scalar losses of representers; None if it is none, as by default."""
        return None

    def plane_of_slopes(self, space: Space, slopes: np.ndarray, block: int = 0) -> PlaneSet:
        """The plane that a slope for each of the `coordinates` makes; for terms that have them."""
        raise NotImplementedError(f"{type(self).__name__} has no coordinates")


@dataclass(frozen=True)
class Coordinates:
    """``sum_i weights_i r_i(L_places_i f)``: what a term is to solvers that work on coefficients.

    Parameters
    ----------
    places : slice
        Which functionals of a `RepresenterSpace`, those of all outputs one behind the other.
    loss : ScalarLoss
    weights : (n,) array
    """

    places: slice
    loss: ScalarLoss
    weights: np.ndarray


class WorstCase(Term):
    """The worst-case invariant loss of every example (Teo et al. 2007, eq. 2).

    ``l_i(f) = max over y', z in S(x_i) of G (f(z, y') - f(z, y_i)) + D(y_i, y') rho(x_i, z)``

    Parameters
    ----------
    X : (n, d) array or CSR matrix
        Rows without the intercept; CSR with sorted, unique indices.
    y : (n,) array
        True labels.
    oracle : InvarianceOracle
    output : Output
    weights : float or (n_examples,) array, default=1.0
        Weight of each example, C included.
    classes : (n_classes,) array, optional
        All labels there are, where `y` may lack some.
    """

    def __init__(
        self,
        X: Matrix,
        y: np.ndarray,
        oracle: InvarianceOracle,
        output: Output,
        weights: ArrayLike = 1.0,
        classes: np.ndarray | None = None,
    ) -> None:
        self.output = encode(output, y, classes)
        self.oracle = oracle
        self.X = X
        self.bound = bind(oracle, X, y)
        self.weights = check_weights(weights, self.output.n_blocks)
        self.floors = np.zeros(self.output.n_blocks)

    def validate(self, space: Space) -> None:
        """See `Term.validate`."""
        wanted = (self.X.shape[1], self.output.n_outputs, self.output.n_extra)
        given = (space.n_features, space.n_outputs, space.n_extra)
        if wanted != given:
            raise ValueError(
                "the space must have (n_features, n_outputs, n_extra) = "
                f"{wanted} for these rows and this output, got {given}"
            )

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        """See `Term.planes`."""
        return _join(space, [self._evaluate(space, f, part) for part in self._parts(blocks)])

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """See `Term.values`."""
        if space.dot(f, f) == 0:
            return self._values_at_zero(space)
        # Rows that are sparse cost less than directions of all weights, which each portion makes anew.
        at_once = isinstance(space, ExplicitSpace) and sp.issparse(self.X) and not self.oracle.finite
        parts = [ALL_ROWS] if at_once else self._parts(ALL_ROWS)
        answers = [self._evaluate(space, f, part, points=False) for part in parts]
        upper = np.concatenate([answer.upper for answer in answers])
        return upper, np.concatenate([answer.offsets for answer in answers])

    def dual_state(self, space: Space, rng: np.random.Generator, epsilon: float = 0.0) -> DualState:
        """See `Term.dual_state`: in-hull steps, or masses on members of orbits, where there are any."""
        if isinstance(space, ExplicitSpace) and epsilon == 0.0:
            hull = self._hull_state(space, rng) or self._label_state(space, rng)
            if hull is not None:
                return hull
        if isinstance(space, KernelSpace) and self.output.rowwise:
            pool = space.atoms.pool(self.bound)
            listed = pool.mesh is not None and np.all(pool.mesh == 0)
            if listed and pool.size <= MOST_MEMBERS:
                return MemberState(self, space, pool, rng, epsilon)
        if isinstance(space, ExplicitSpace) and self.output.rowwise:
            size = self._listed(space)
            if size:
                return LinearMemberState(self, space, size, rng, epsilon)
        return PlaneCache(self, space, rng, epsilon)

    def _listed(self, space: ExplicitSpace) -> int:
        """How many members each S(x) lists, 0 if it lists none that can be scored and made."""
        if space.n_extra:
            return 0
        scores = self.bound.member_scores(slice(0, 1), np.zeros((space.n_outputs, space.n_features)))
        return 0 if scores is None else scores.shape[1]

    def _hull_state(self, space: ExplicitSpace, rng: np.random.Generator) -> DualState | None:
        """In-hull steps, where the oracle has them for a two-class loss."""
        output = self.output
        margins = output.directions[..., 0]
        # D max(0, 1 - y f) is the plain two-class loss with D as a factor of the weight.
        plain = output.directions.shape == (1, 2, 1) and np.array_equal(np.abs(margins), output.rewards)
        if not plain or not output.rowwise:
            return None
        factor = output.rewards[0, output.codes]
        signs = -np.sign(margins[0, output.codes])
        hull = self.bound.hull(signs, self.weights * factor, space.intercept)
        return None if hull is None else HullState(hull, self, space, signs, factor, rng)

    def _label_state(self, space: ExplicitSpace, rng: np.random.Generator) -> DualState | None:
        """In-hull steps, where the oracle has them for a joint loss of several labels."""
        output, ones = self.output, np.eye(self.output.n_outputs)
        joint = ones[:, None, :] - ones[None, :, :]
        if not output.rowwise or space.n_extra or not np.array_equal(output.directions, joint):
            return None
        cost = output.rewards.T
        hull = self.bound.label_hull(output.codes, self.weights, cost, space.intercept)
        if hull is None:
            return None
        entries = self.X.nnz if sp.issparse(self.X) else self.X.size
        return LabelState(hull, space, output.codes, self.weights, cost, entries, rng)

    def _values_at_zero(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        """No change matters to the zero function, so no oracle is asked."""
        rewards = self.output.rewards[:, self.output.codes].T
        gains, extra = np.zeros(rewards.shape), np.zeros(space.n_extra)
        blocks = self.n_blocks
        upper = choose(self.output, ALL_ROWS, gains, rewards, rewards, extra, blocks).upper
        return upper, upper

    def rows_of(self, blocks: Rows) -> int:
        """See `Term.rows_of`."""
        rows, _ = self.output.rows(blocks)
        return count(rows, self.X.shape[0])

    def portions(self) -> list[Rows]:
        """See `Term.portions`."""
        return self._parts(ALL_ROWS)

    def blocks_at_once(self, space: Space) -> int:
        """See `Term.blocks_at_once`: those of the rows whose members the space holds together."""
        rows = space.rows_at_once(self.bound)
        return max(1, rows * self.n_blocks // max(1, self.X.shape[0]))

    def _parts(self, blocks: Rows) -> list[Rows]:
        """The blocks in portions whose answers fit in memory several times over."""
        n_blocks = count(blocks, self.n_blocks)
        if n_blocks <= ROWS_AT_ONCE or (self.output.directions.shape[0] == 1 and not self.oracle.finite):
            return [blocks]
        edges = range(0, n_blocks, ROWS_AT_ONCE)
        if isinstance(blocks, slice):
            return [slice(edge, min(edge + ROWS_AT_ONCE, n_blocks)) for edge in edges]
        return [blocks[edge : edge + ROWS_AT_ONCE] for edge in edges]

    def _evaluate(self, space: Space, f: Element, blocks: Rows, points: bool = True) -> Planes:
        """Planes of the blocks; without `points` only values, and no normals."""
        output = self.output
        rows, groups = output.rows(blocks)
        codes = output.codes[rows]
        question = OracleQuestion(self.bound, rows)
        tables, worth = output.directions, output.rewards
        worst = space.furthest(f, question, tables, codes, worth, points)
        extra = space.extra(f)
        n_blocks = count(blocks, self.n_blocks)
        gains, rewards = worst.gains, worst.rewards
        choice = choose(output, blocks, gains, rewards, worst.upper, extra, n_blocks)
        if worst.points is None:
            reached = gains + rewards
            attained = choose(output, blocks, gains, rewards, reached, extra, n_blocks).upper
            return Planes(np.zeros((0, 0)), attained, choice.upper, attained)
        normals = space.normals(
            worst.points(choice.alternative),
            self._coefficients(choice, codes, groups),
            groups,
            choice.extra,
        )
        heights = _heights(choice, worst.gains, extra, groups)
        return Planes(normals, choice.offsets, choice.upper, heights)

    def _coefficients(self, choice: Choice, codes: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
        """What each row's point is multiplied with in the normal, (n_rows, n_outputs)."""
        chosen = choice.alternative
        coefficients = -self.output.directions[np.maximum(chosen, 0), codes]
        coefficients[chosen < 0] = 0.0
        if choice.scale is not None:
            sizes = 1 if groups is None else np.diff(groups)
            coefficients *= np.repeat(choice.scale, sizes)[:, None]
        return coefficients


class OracleQuestion:
    """Rows of a bound oracle, of which a space asks.

    Parameters
    ----------
    source : BoundOracle
    rows : slice or (n,) array of int
    """

    def __init__(self, source: BoundOracle, rows: Rows = ALL_ROWS) -> None:
        self.source = source
        self.rows = rows

    def only(self, chosen: np.ndarray) -> OracleQuestion:
        """See `structinv.spaces.Question`, here and below."""
        return OracleQuestion(self.source, pick(self.rows, chosen, -1))

    def support(self, V: np.ndarray, assign: np.ndarray, reward: np.ndarray) -> Support:
        """The member of each S(x) that is furthest along a direction."""
        return self.source.support(self.rows, V, assign, reward)

    def maximum(self, V: np.ndarray, assign: np.ndarray) -> np.ndarray | None:
        """The exact maxima, where they are cheaper than the members that reach them."""
        known = self.source.maximum(self.rows, V, assign)
        return None if known is None else known[0]

    def member_scores(self, V: np.ndarray) -> np.ndarray | None:
        """``<v, z>`` for all members and directions, (n, s, p); None where S(x) is no list."""
        return self.source.member_scores(self.rows, V)

    def members(self, index: np.ndarray) -> Matrix:
        """Member number ``index[i]`` of each row."""
        return self.source.members(self.rows, index)

    def grades(self) -> np.ndarray | None:
        """The grade of each member, (n, s); None if all are 1."""
        return self.source.grades(self.rows)

    def cover(self) -> Cover:
        """Members of each S(x) that stand for all of them."""
        return self.source.cover(self.rows)

    def refine(self, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Members near those named, with no smaller score."""
        return self.source.refine(self.rows, index, score)


def _heights(
    choice: Choice, gains: np.ndarray, extra: np.ndarray, groups: np.ndarray | None
) -> np.ndarray:
    """The value of each block's chosen plane at the point where the oracles were asked."""
    reached = np.take_along_axis(gains, np.maximum(choice.alternative, 0)[:, None], axis=1)[:, 0]
    reached[choice.alternative < 0] = 0.0
    if groups is not None:
        reached = np.add.reduceat(reached, groups[:-1])
    if choice.scale is not None:
        reached = reached * choice.scale
    heights = choice.offsets + reached
    return heights if choice.extra is None else heights - choice.extra @ extra


class Penalty(Term):
    """``sum_j weights_j r(L_j f)``: a scalar loss of each of a family of linear functionals.

    The whole family is one block, so that a plane costs one product with the family. The weight of
    the block is the sum of the weights: planes bound the loss whatever nu is.

    Parameters
    ----------
    functionals : Functionals
    loss : ScalarLoss
    weights : float or (n_functionals,) array, default=1.0
        Weight of each functional, nu included.
    """

    def __init__(self, functionals: Functionals, loss: ScalarLoss, weights: ArrayLike = 1.0) -> None:
        loss.validate()
        self.functionals = functionals
        self.loss = loss
        self.has_planes = loss.has_slopes
        checked = check_weights(weights, functionals.size)
        total = checked.sum()
        self.shares = checked / total if total > 0 else checked
        self.weights = np.array([total])
        self.floors = np.array([self.shares.sum() * loss.floor])

    def validate(self, space: Space) -> None:
        """See `Term.validate`."""
        if not np.all(np.isfinite(self.floors)):
            raise ValueError(
                f"{type(self.loss).__name__} declares no finite floor, so it has no null plane"
            )
        self.functionals.validate(space)

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        """See `Term.planes`."""
        u = self.functionals.apply(space, f)
        slopes = self.loss.derivative(u)
        value = self.shares @ self.loss.value(u)
        normal = self.functionals.combine(space, -self.shares * slopes)
        offset = value - self.shares @ (slopes * u)
        return Planes(space.element(normal), np.array([offset]), np.array([value]), np.array([value]))

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """See `Term.values`."""
        value = self.shares @ self.loss.value(self.functionals.apply(space, f))
        return np.array([value]), np.array([value])

    def plane_of_slopes(self, space: Space, slopes: np.ndarray, block: int = 0) -> PlaneSet:
        """See `Term.plane_of_slopes`; the slopes are in the domain of the loss's conjugate."""
        normal = self.functionals.combine(space, -self.shares * slopes)
        offset = -self.shares @ self.loss.conjugate(slopes)
        number = np.full(1, block, dtype=np.int64)
        return PlaneSet(
            space.element(normal), np.array([offset]), number, np.ones(1), slopes={block: slopes.copy()}
        )

    def dual_state(self, space: Space, rng: np.random.Generator, epsilon: float = 0.0) -> DualState:
        """See `Term.dual_state`: one slope a functional, whatever `epsilon`."""
        return PenaltyState(self.functionals, self.loss, self.weights[0] * self.shares, space, rng)

    def rows_of(self, blocks: Rows) -> int:
        """See `Term.rows_of`; no oracle is asked."""
        return 0

    def coordinates(self) -> Coordinates | None:
        """See `Term.coordinates`."""
        places = self.functionals.places()
        return None if places is None else Coordinates(places, self.loss, self.weights[0] * self.shares)


class Objective:
    """``F(f) = 1/2 |f|^2 + sum of terms``, seen through planes and values only.

    Parameters
    ----------
    space : Space
    terms : sequence of Term
        Their blocks are numbered one after the other.

    Attributes
    ----------
    weights, floors : (n_blocks,) arrays
    rows_asked : int
        How many rows the oracles have been asked so far.
    hurried : callable
        Whether a step under way had better end; the loop sets it for a run, see `Solver.step`.
    """

    def __init__(self, space: Space, terms: Sequence[Term]) -> None:
        if len(terms) == 0:
            raise ValueError("terms must not be empty")
        for term in terms:
            term.validate(space)
        self.space = space
        self.terms = list(terms)
        self.weights = np.concatenate([term.weights for term in terms])
        self.floors = np.concatenate([term.floors for term in terms])
        self.first = np.cumsum([0, *(term.n_blocks for term in terms)])
        self.rows_asked = 0
        self.hurried: Hurried = never

    @property
    def n_blocks(self) -> int:
        """How many blocks all terms have together."""
        return len(self.weights)

    @property
    def rows_of_a_pass(self) -> int:
        """How many rows one pass over all terms asks the oracles about."""
        return sum(term.rows_of(ALL_ROWS) for term in self.terms)

    def planes(self, f: Element, blocks: np.ndarray | None = None) -> Planes:
        """A plane of each block named (all by default, in order) that touches it at `f`."""
        if blocks is None:
            parts = []
            for term in self.terms:
                self.rows_asked += term.rows_of(ALL_ROWS)
                parts.append(term.planes(self.space, f))
            return _join(self.space, parts)
        owner = np.searchsorted(self.first, blocks, side="right") - 1
        parts, places = [], []
        for number, term in enumerate(self.terms):
            place = np.flatnonzero(owner == number)
            if len(place):
                local = blocks[place] - self.first[number]
                self.rows_asked += term.rows_of(local)
                parts.append(term.planes(self.space, f, local))
                places.append(place)
        joined = _join(self.space, parts)
        if len(parts) == 1:
            return joined
        order = np.argsort(np.concatenate(places))
        return Planes(
            joined.normals[order], joined.offsets[order], joined.upper[order], joined.heights[order]
        )

    def plane_of_sum(self, f: Element) -> Planes:
        """The plane at `f` of the weighted sum of all blocks; only a portion is in memory at a time."""
        normal = self.space.zeros()
        numbers = np.zeros(3)
        for term in self.terms:
            self.rows_asked += term.rows_of(ALL_ROWS)
            for blocks in term.portions():
                planes = term.planes(self.space, f, blocks)
                weights = term.weights[blocks]
                normal += self.space.combine(planes.normals, weights)
                # A block of weight zero counts nothing, be its bound infinite.
                upper = np.where(weights > 0, planes.upper, 0.0)
                numbers += [weights @ each for each in (planes.offsets, upper, planes.heights)]
        offset, upper, height = numbers[:, None]
        return Planes(self.space.element(normal), offset, upper, height)

    def value(self, f: Element) -> Value:
        """The objective at `f`."""
        upper = attained = 0.5 * self.space.dot(f, f)
        for term in self.terms:
            self.rows_asked += term.rows_of(ALL_ROWS)
            above, reached = term.total(self.space, f)
            upper += above
            attained += reached
        return Value(float(upper), float(attained))


def check_weights(weights: ArrayLike, size: int) -> np.ndarray:
    """Finite, non-negative weights of the given number, or a ValueError."""
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise ValueError(f"weights must have shape ({size},), got {array.shape}")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError("weights must be finite and non-negative")
    return array


def _join(space: Space, parts: Sequence[Planes]) -> Planes:
    if len(parts) == 1:
        return parts[0]
    return Planes(
        space.stack([part.normals for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.upper for part in parts]),
        np.concatenate([part.heights for part in parts]),
    )
