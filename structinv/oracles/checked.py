"""The door through which answers of oracles come in: looked at once, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import answers
from ..matrices import Matrix, Rows, resolution, row_dots, take
from .base import (
    BoundOracle,
    Cover,
    Hull,
    InvarianceOracle,
    Support,
    check_rows,
    dense_rows,
    points_of_cover,
)
from .hulls import LabelHull
from .support import Additions


def bind(oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> CheckedOracle:
    """``oracle.bind(X, y)`` whose answers are looked at before anyone builds on them.

    Parameters
    ----------
    oracle : InvarianceOracle
    X : (n, d) array or CSR matrix
    y : (n,) array, optional

    Raises
    ------
    TypeError
        If `bind` gives no bound oracle.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FiniteOracle
    >>> class Reversal(FiniteOracle):
    ...     "With the axis of the members forgotten."
    ...     def orbit(self, X):
    ...         return np.stack([X, X[:, ::-1]])
    >>> bind(Reversal(), np.ones((3, 2))).orbit(slice(None))
    Traceback (most recent call last):
        ...
    ValueError: Reversal.orbit must return members of shape (3, s, 2), got (2, 3, 2)
    """
    if not isinstance(oracle, InvarianceOracle):
        raise TypeError(f"oracle must be an instance of an InvarianceOracle, got {oracle!r}")
    check_rows(X)
    source = answers.method(oracle, "bind")
    inner = answers.ask(oracle, source, oracle.bind, X, y)
    if not isinstance(inner, BoundOracle):
        raise TypeError(f"{source} must return a BoundOracle, got {type(inner).__name__}")
    if isinstance(inner, CheckedOracle):
        return inner
    return CheckedOracle(inner, oracle, X, y)


def tangents_of(oracle: InvarianceOracle, X: np.ndarray) -> np.ndarray:
    """``oracle.tangents(X)``, looked at.

    Raises
    ------
    TypeError, ValueError
        If it is no finite array of shape (n, t, d).
    """
    source = answers.method(oracle, "tangents")
    found = answers.ask(oracle, source, oracle.tangents, X)
    return answers.numbers(source, "directions", found, (X.shape[0], "t", X.shape[1]))


class CheckedOracle(BoundOracle):
    """A bound oracle whose answers have the type, shape and numbers that the contract says.

    Each view asks the one of `inner` and raises TypeError or ValueError, with the oracle's class, the
    method, what was due and what came, where that is something else. Members keep their number from
    call to call, and the first is the row itself. A look costs a pass over what was just made, or less.

    Parameters
    ----------
    inner : BoundOracle
        What the oracle's `bind` gave.
    oracle : InvarianceOracle
    X : (n, d) array or CSR matrix
    y : (n,) array, optional
    """

    def __init__(
        self, inner: BoundOracle, oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None
    ) -> None:
        super().__init__(oracle, X, y)
        self.inner = inner
        self._stranger = answers.of_a_stranger(oracle)
        # How many members the orbit and the cover have, known from the first answers that show it.
        self._sizes: dict[str, int] = {}
        self._scored = False

    def _ask(self, name: str, *question: Any) -> Any:
        """What `inner` answers."""
        call = getattr(self.inner, name)
        if self._stranger:
            return answers.ask_stranger(self._source(name), call, *question)
        return call(*question)

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        answer = self._supported("support", self._ask("support", rows, V, assign, cost), len(assign))
        return self._look_at_answer("support", answer, (rows, V, assign), cost)

    def graded_support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        found = self._ask("graded_support", rows, V, assign, cost, rho)
        answer = self._supported("graded_support", found, len(assign))
        return self._look_at_answer("graded_support", answer, (rows, V, assign), cost)

    def _look_at_answer(
        self,
        name: str,
        answer: Support,
        question: tuple[Rows, np.ndarray, np.ndarray],
        cost: np.ndarray | None,
    ) -> Support:
        """The answer, unless it does worse than the unchanged row."""
        if self._stranger:
            V, assign = question[1:]
            # The unchanged row has the largest grade, 1.
            bonus: Any = 0.0 if cost is None or answer.rho is None else cost
            reached = answer.upper
            if reached is None:
                reached = row_dots(answer.points, V, assign) + (
                    0.0 if answer.rho is None else bonus * answer.rho
                )
            self._look_at_heights(name, reached, answer.points, question, bonus)
        return answer

    def _look_at_heights(
        self,
        name: str,
        reached: np.ndarray,
        points: Matrix,
        question: tuple[Rows, np.ndarray, np.ndarray],
        bonus: Any = 0.0,
    ) -> None:
        """Raise ValueError if bounds on a support are below the unchanged row: margins would gain."""
        rows, V, assign = question
        X = take(self.X, rows)
        own = row_dots(X, V, assign) + bonus
        worse = np.flatnonzero(reached < own)
        if not len(worse):
            return
        sizes = (bonus + sum(row_dots(abs(part), np.abs(V), assign) for part in (X, points)))[worse]
        missing = own[worse] - reached[worse] - resolution(_numbers(X), _numbers(points)) * sizes
        if np.any(missing > 0):
            row = worse[np.argmax(missing)]
            raise ValueError(
                f"{self._source(name)} must do at least as well as the unchanged row: S(x) contains x; "
                f"got {reached[row]:.6g}, and {own[row]:.6g} without a change, for row {row} of those "
                "asked about"
            )

    def _supported(self, name: str, answer: Any, n_rows: int) -> Support:
        source = self._source(name)
        if not isinstance(answer, Support):
            raise ValueError(f"{source} must return a Support, got {type(answer).__name__}")
        points = answers.rows(source, answer.points, self.X, (n_rows, self.X.shape[1]))
        upper, rho = answer.upper, answer.rho
        if upper is not None:
            upper = answers.numbers(source, "upper", upper, (n_rows,), finite=False)
        if rho is not None:
            rho = answers.grades(source, rho, (n_rows,))
        same = points is answer.points and upper is answer.upper and rho is answer.rho
        return answer if same else Support(points, upper, rho)

    def maximum(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        known = self._ask("maximum", rows, V, assign)
        if known is None:
            return None
        source, shape = self._source("maximum"), (len(assign),)
        if not isinstance(known, tuple) or len(known) != 2:
            raise TypeError(f"{source} must return None or a pair of arrays, got {known!r}")
        values, sizes = known
        values = answers.numbers(source, "values", values, shape)
        if self._stranger:
            self._look_at_heights("maximum", values, take(self.X, rows), (rows, V, assign))
        return values, answers.numbers(source, "sizes", sizes, shape)

    def orbit(self, rows: Rows) -> np.ndarray:
        found = self._ask("orbit", rows)
        members = answers.members(self._source("orbit"), found, dense_rows(self.X, rows))
        self._same_size("orbit", members.shape[1])
        return members

    def cover(self, rows: Rows) -> Cover:
        cover, source = self._ask("cover", rows), self._source("cover")
        points = points_of_cover(self.oracle, cover, dense_rows(self.X, rows))
        self._same_size("cover", points.shape[1])
        mesh = answers.numbers(source, "mesh", cover.mesh, (len(points),), finite=False)
        if np.any(mesh < 0):
            raise ValueError(f"{source} must return a mesh of at least 0, got {mesh.min():g}")
        return replace(cover, points=points, mesh=mesh)

    def _same_size(self, name: str, size: int) -> None:
        """Raise ValueError if a row had another number of members before."""
        known = self._sizes.setdefault("orbit" if name == "orbit" else "cover", size)
        if size != known:
            raise ValueError(
                f"{self._source(name)} must return as many members in every call and for every row, "
                f"got {size} after {known}"
            )

    def size(self) -> int:
        """How many members a `cover` has."""
        if "cover" not in self._sizes:
            self.cover(slice(0, 1))
        return self._sizes["cover"]

    def members(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        made = self._ask("members", rows, index)
        shape = (self.count(rows), self.X.shape[1])
        return answers.rows(self._source("members"), made, self.X, shape)

    def member_names(self) -> list[str]:
        names = self.inner.member_names()
        source = self._source("member_names")
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"{source} must return a list of names, got {names!r}")
        if len(names) != self.size():
            raise ValueError(
                f"{source} must return a name for each of {self.size()} members, got {len(names)}"
            )
        return list(names)

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        return self._ask("pullback", V)

    def member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        scores, source = self._ask("member_scores", rows, V), self._source("member_scores")
        if scores is None:
            if self._scored:
                raise ValueError(f"{source} must return scores in every call or in none, got None")
            return None
        self._scored = True
        table = answers.numbers(source, "scores", scores, (self.count(rows), "s", len(V)))
        if table.shape[1] == 0:
            raise ValueError(f"{source} must return scores of at least one member, got {table.shape}")
        self._same_size("member_scores", table.shape[1])
        return table

    def member_grades(self, rows: Rows, rho: float | Sequence[float]) -> np.ndarray:
        return self._graded("member_grades", self.inner.member_grades(rows, rho), rows)

    def grades(self, rows: Rows) -> np.ndarray | None:
        grades = self.inner.grades(rows)
        return None if grades is None else self._graded("grades", grades, rows)

    def _graded(self, name: str, grades: Any, rows: Rows) -> np.ndarray:
        shape = (self.count(rows), self.size())
        return answers.grades(self._source(name), grades, shape)

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        points = self._ask("refine", rows, index, score)
        shape = (self.count(rows), self.X.shape[1])
        return answers.numbers(self._source("refine"), "points", points, shape)

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        members = self._ask("sample", rows, size, rng)
        shape = (self.count(rows), size, self.X.shape[1])
        return answers.numbers(self._source("sample"), "members", members, shape)

    def contains(self, row: int, z: np.ndarray) -> bool:
        inside = self._ask("contains", row, z)
        if not isinstance(inside, (bool, np.bool_)):
            source = self._source("contains")
            raise TypeError(f"{source} must return True or False, got {inside!r}")
        return bool(inside)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        hull = self._ask("hull", signs, weights, intercept)
        if hull is None:
            return None
        source = self._source("hull")
        if not isinstance(hull, Hull):
            raise TypeError(f"{source} must return None or a Hull, got {type(hull).__name__}")
        return CheckedHull(hull, source, self.X, intercept)

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        hull = self._ask("label_hull", codes, weights, cost, intercept)
        if hull is None:
            return None
        source = self._source("label_hull")
        if not isinstance(hull, LabelHull):
            raise TypeError(f"{source} must return None or a LabelHull, got {type(hull).__name__}")
        return CheckedLabelHull(hull, source, (*self.X.shape, len(cost)), intercept)

    def largest_leads(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> np.ndarray | None:
        leads = self._ask("largest_leads", rows, table, codes, cost, intercept)
        if leads is None:
            return None
        source = self._source("largest_leads")
        leads = answers.numbers(source, "leads", leads, (len(codes),), finite=False)
        if self._stranger:
            own, room = self._unchanged_leads(rows, table, codes, intercept)
            _look_at_leads(source, leads, (own + cost[codes]).max(axis=1), room.max(axis=1))
        return leads

    def leads(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, intercept: bool
    ) -> np.ndarray | None:
        leads = self._ask("leads", rows, table, codes, intercept)
        if leads is None:
            return None
        source, shape = self._source("leads"), (len(codes), table.shape[1])
        leads = answers.numbers(source, "leads", leads, shape, finite=False)
        if self._stranger:
            _look_at_leads(source, leads, *self._unchanged_leads(rows, table, codes, intercept))
        return leads

    def _unchanged_leads(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, intercept: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """What each label wins at the unchanged rows, and how far rounding can move that."""
        X = take(self.X, rows)
        scores = X @ table[: X.shape[1]] + (table[-1] if intercept else 0.0)
        sizes = np.asarray(abs(X) @ np.abs(table[: X.shape[1]]))
        room = resolution(_numbers(X), table) * (1.0 + 2.0 * sizes)
        return scores - scores[np.arange(len(codes)), codes][:, None], room

    def leading(
        self, rows: Rows, table: np.ndarray, codes: np.ndarray, labels: np.ndarray
    ) -> Matrix | None:
        points = self._ask("leading", rows, table, codes, labels)
        if points is None:
            return None
        return answers.rows(self._source("leading"), points, self.X, (len(codes), self.X.shape[1]))

    def edits(self) -> tuple[int, float, float] | None:
        """See `BoundOracle.edits`; None for classes of others, whose own answers count."""
        return None if self._stranger else self.inner.edits()

    def additions(self) -> Additions | None:
        """See `BoundOracle.additions`; None for classes of others, whose own answers count."""
        return None if self._stranger else self.inner.additions()

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        from .scenarios import checked_scenarios

        return checked_scenarios(self)

    def _source(self, name: str) -> str:
        return answers.method(self.oracle, _author(self.oracle, name))


# Which method of an oracle the views that an author need not write are made from.
_MADE_FROM = {"cover": "orbit", "members": "cover", "refine": "members"}


def _author(oracle: InvarianceOracle, name: str) -> str:
    """The method that an author wrote, whose answer the view `name` shows."""
    kind = type(oracle)
    own = vars(kind).get("bind") or getattr(kind, name, None) is not getattr(
        InvarianceOracle, name, None
    )
    if own or name not in _MADE_FROM:
        return name
    return _author(oracle, _MADE_FROM[name])


def _look_at_leads(source: str, leads: np.ndarray, own: np.ndarray, room: np.ndarray) -> None:
    """Raise ValueError if labels win less than at the unchanged rows: margins would gain."""
    if np.any(leads < own - room):
        raise ValueError(f"{source} must do at least as well as the unchanged rows")


def _numbers(X: Matrix) -> np.ndarray:
    return X.data if sp.issparse(X) else np.asarray(X)


class CheckedHull(Hull):
    """In-hull steps whose numbers are looked at.

    Parameters
    ----------
    inner : Hull
    source : str
        The class and method that gave it, for messages.
    X : (n, d) array or CSR matrix
    intercept : bool
    """

    def __init__(self, inner: Hull, source: str, X: Matrix, intercept: bool) -> None:
        self.inner = inner
        self.source = f"{type(inner).__name__} of {source}"
        self.shape = X.shape
        self.n_weights = X.shape[1] + bool(intercept)

    @property
    def offset(self) -> float:
        return float(answers.table(self.source, "offset", np.asarray(self.inner.offset), ()))

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        """See `Hull.sweep`; overflows are the loop's to find, here and below."""
        self.inner.sweep(f, order, gaps)

    def losses(self, f: np.ndarray) -> np.ndarray | None:
        losses = self.inner.losses(f)
        if losses is None:
            return None
        return answers.table(self.source, "losses", losses, self.shape[:1])

    def combination(self) -> np.ndarray:
        found = self.inner.combination()
        return answers.table(self.source, "combination", found, (self.n_weights,))

    def planes(self) -> tuple[Matrix, np.ndarray]:
        return self._looked_at(self.inner.planes())

    def _looked_at(self, found: Any) -> tuple[Matrix, np.ndarray]:
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(f"{self.source} must return planes as normals and levels, got {found!r}")
        normals = found[0]
        # Planes of dense rows may be sparse, as those of words are.
        if sp.issparse(normals) and normals.format == "csr" and normals.shape == self.shape:
            answers.places(self.source, "normals", normals)
            answers.table(self.source, "entries of normals", normals.data, normals.indices.shape)
        else:
            normals = answers.table(self.source, "normals", normals, self.shape)
        return normals, answers.table(self.source, "levels", found[1], self.shape[:1])

    def restore(self, normals: Matrix, levels: np.ndarray) -> None:
        self.inner.restore(normals, levels)

    def planes_by_part(self) -> list[tuple[Matrix, np.ndarray]]:
        parts: Any = self.inner.planes_by_part()
        if not isinstance(parts, list) or not parts:
            raise TypeError(f"{self.source} must return a list of planes, got {parts!r}")
        return [self._looked_at(part) for part in parts]

    def restore_several(
        self, normals: Matrix, levels: np.ndarray, rows: np.ndarray, n_rows: int
    ) -> None:
        self.inner.restore_several(normals, levels, rows, n_rows)

    @property
    def shares(self) -> bool:  # type: ignore[override]
        return bool(self.inner.shares)

    @property
    def levels(self) -> np.ndarray:
        return answers.table(self.source, "levels", self.inner.levels, self.shape[:1])

    def rescale(self, rows: np.ndarray, factors: np.ndarray) -> None:
        self.inner.rescale(rows, factors)

    def candidates(self, f: np.ndarray, rows: np.ndarray) -> tuple[Matrix, Matrix, Any]:
        found = self.inner.candidates(f, rows)
        due = (len(rows), self.shape[1])
        for points in found[:2]:
            if getattr(points, "shape", None) != due:
                raise ValueError(
                    f"{self.source} must return candidates of shape {due}, got "
                    f"{getattr(points, 'shape', None)}"
                )
        return found

    def absorb(
        self, rows: np.ndarray, chosen: np.ndarray, keep: np.ndarray, steps: np.ndarray, corners: Any
    ) -> None:
        self.inner.absorb(rows, chosen, keep, steps, corners)


class CheckedLabelHull(LabelHull):
    """In-hull steps of a joint loss whose numbers are looked at.

    Parameters
    ----------
    inner : LabelHull
    source : str
        The class and method that gave it, for messages.
    shape : (int, int, int)
        How many rows, features and labels there are.
    intercept : bool
    """

    def __init__(
        self, inner: LabelHull, source: str, shape: tuple[int, int, int], intercept: bool
    ) -> None:
        self.inner = inner
        self.source = f"{type(inner).__name__} of {source}"
        self.n_rows, self.n_features, self.n_labels = shape
        self.n_weights = self.n_features + bool(intercept)

    @property
    def offset(self) -> float:
        return float(answers.table(self.source, "offset", np.asarray(self.inner.offset), ()))

    def sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> None:
        """See `LabelHull.sweep`; overflows are the loop's to find, here and below."""
        self.inner.sweep(table, order, gaps, every_label)

    def losses(self, table: np.ndarray) -> np.ndarray:
        return answers.table(self.source, "losses", self.inner.losses(table), (self.n_rows,))

    def combination(self) -> np.ndarray:
        due = (self.n_weights, self.n_labels)
        return answers.table(self.source, "combination", self.inner.combination(), due)

    def points(self) -> tuple[Matrix, np.ndarray, sp.csr_matrix]:
        found: Any = self.inner.points()
        if not isinstance(found, tuple) or len(found) != 3:
            raise TypeError(f"{self.source} must return points, rows and levels, got {found!r}")
        points, rows, levels = found
        shapes = [getattr(part, "shape", None) for part in found]
        if shapes != [(len(rows), self.n_features), (len(rows),), (len(rows), self.n_labels)]:
            raise ValueError(
                f"{self.source} must return points of shape (m, {self.n_features}), rows of shape (m,) "
                f"and levels of shape (m, {self.n_labels}), got {shapes}"
            )
        answers.table(self.source, "levels", levels.data, levels.indices.shape)
        return points, rows, levels

    def restore(self, points: Matrix, rows: np.ndarray, levels: sp.csr_matrix) -> None:
        self.inner.restore(points, rows, levels)
