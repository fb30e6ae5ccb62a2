"""The abstract oracle: what may change in an input without changing its label."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils.matrices import Matrix, Rows, dense_rows, take
from .arguments import hint_of
from .hulls import Hull, LabelHull
from .listed_changes import DrawnChanges, ListedChanges
from .listing import changes_of, listed_region
from .query import Query, Violations, worst_of
from .support import Grades, Support
from .words.insertions import Insertions
from .words.word_edits import RowEdits

if TYPE_CHECKING:
    from ..regions import Region
    from .changes import Changes
    from .combinators import Discounted, OnlyFor
    from .compose import Compose
    from .union import Union


@dataclass(frozen=True)
class CountedChanges:
    """Changes of a row that can be counted.

    Attributes
    ----------
    most : int
        How many changes are allowed.
    at_most : callable
        The oracle of at most so many changes, without grades.
    grades : float or sequence of float, optional
        By the number of changes, as in `InvarianceOracle.discounted`.
    """

    most: int
    at_most: Callable[[int], InvarianceOracle]
    grades: float | Sequence[float] | None = None


class InvarianceOracle(BaseEstimator, ABC):
    """A description of S(x), the set of inputs that share the label of x.

    An author writes one method, `support`. The other views (`orbit`, `changes`, `draws`, `tangents`,
    `region`, `sample`, `contains`, `graded_support`) are optional, and asking for an absent one is an
    error that names it. The constructor stores its parameters and does nothing else, so that oracles
    clone, pickle and can be searched over; `validate` is where parameters are checked, before any work.

    S(x) always contains x itself. The rows that an oracle sees never hold the intercept.

    Attributes
    ----------
    supports_sparse : bool
        Whether `support` takes CSR rows.
    finite : bool
        Whether `orbit` lists all of S(x).
    additive : bool
        Whether S(x) = x + B with a set B that does not depend on x.
    convex : bool
        Whether S(x) is convex.
    graded : bool
        Whether answers carry a grade `rho`.
    depends_on_label : bool
        Whether S(x) depends on the true label of x.
    coordinatewise : bool
        Whether with each member those points belong to S(x), too, that have some features of x in the
        place of the member's.
    whole_example : bool
        Whether changes of rows of one example depend on one another; see `BoundOracle.scenarios`. What
        the other views tell is what may happen to a row that is an example by itself.

    Examples
    --------
    >>> import numpy as np
    >>> class SignFlip(InvarianceOracle):
    ...     "The sign of the whole input carries no information."
    ...     def support(self, X, V, assign, cost=None):
    ...         turned = np.sum(X * V[assign], axis=1) < 0
    ...         return Support(np.where(turned[:, None], -X, X))
    >>> X, V = np.array([[1.0, -2.0]]), np.array([[1.0, 1.0]])
    >>> SignFlip().support(X, V, np.array([0])).points
    array([[-1.,  2.]])
    """

    supports_sparse: bool = False
    finite: bool = False
    additive: bool = False
    convex: bool = False
    graded: bool = False
    depends_on_label: bool = False
    coordinatewise: bool = False
    whole_example: bool = False
    # Whether `support` looks through the members of `orbit`, whichever these are.
    _enumerates: bool = False

    @abstractmethod
    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """The member of each S(x) that is furthest along a direction.

        Parameters
        ----------
        X : (n, d) array, or CSR matrix if `supports_sparse`
            The rows asked about. Never changed: what classes outside this package are asked with is
            read-only, here and below.
        V : (p, d) array of float64
            Directions, shared by many rows.
        assign : (n,) array of int
            Row i faces ``V[assign[i]]``.
        cost : (n,) array, optional
            Worth of an ungraded change; only graded oracles need to look at it.

        Returns
        -------
        Support
            ``points[i]`` maximizes ``<V[assign[i]], z> + cost[i] * rho(X[i], z)`` over S(X[i])
            (Teo et al. 2007, eq. 2, with the sign of alg. 2).
        """

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """This oracle on the rows of `X`, asked by row number from then on.

        The bound oracle is of the class that `BOUND` has for exactly this oracle's class. A subclass is
        asked by its own methods.
        """
        self._check_rows(X)
        return BOUND.get(type(self), BoundOracle)(self._prepared(), X, y)

    def _prepared(self) -> Self:
        """This oracle, for one `bind`: what all its answers are made from is made once, and kept.

        By default the oracles that it holds are prepared. One that keeps something returns a copy, whose
        parameters must not change any more: it is never stale and is freed with the bound oracle.
        """
        return self._with_parts(lambda part: part._prepared())

    def _with_parts(self, change: Callable[[InvarianceOracle], InvarianceOracle]) -> Self:
        """A copy with other oracles in the place of those that it holds; itself if none is another."""
        held = self._parts()
        parts = {name: change(part) for name, part in held.items()}
        if all(part is held[name] for name, part in parts.items()):
            return self
        other = copy.copy(self)
        other.__dict__.update(parts)
        return other

    def _parts(self) -> dict[str, InvarianceOracle]:
        """The oracles that it holds, by their parameters."""
        return {name: part for name, part in vars(self).items() if isinstance(part, InvarianceOracle)}

    def _for_rows(self, rows: np.ndarray) -> InvarianceOracle:
        """This oracle for some of the rows that it is bound to.

        Itself, by default. One that knows more of each row than is in X, as the text it comes from,
        returns one that knows these.
        """
        return self

    def for_any_label(self) -> InvarianceOracle:
        """The same changes for rows of every label, where this oracle keeps some labels out.

        What is asked where nobody knows the labels: any row may then be one that changes.
        """
        return self._with_parts(lambda part: part.for_any_label())

    def validate(self, n_features: int | None = None) -> None:
        """Raise ValueError or TypeError if a parameter is out of its range."""

    def check_labels(self, classes: np.ndarray) -> None:
        """Raise ValueError or TypeError if a parameter names labels that no model of these knows.

        Estimators ask before they fit or certify, with the classes of the model. By default the oracles
        that it holds are asked.

        Parameters
        ----------
        classes : (n_classes,) array
            All labels that rows may have, sorted.
        """
        for part in self._parts().values():
            part.check_labels(classes)

    def _check_rows(self, X: Matrix) -> None:
        """Raise unless X has rows, to whose number of features the parameters fit."""
        check_rows(X)
        self.validate(X.shape[1])

    def orbit(self, X: Matrix) -> np.ndarray:
        """All members of each S(x), the identity once and first, as an (n, s, d) array."""
        self._check_rows(X)
        found: Changes | None = None
        if self.finite:
            # An author's `orbit` may ask for that of its parent.
            found = self._changes(X, None) if self._listed_by() == "orbit" else self.changes(X)
        if found is None:
            raise self._absent("orbit")
        return found.members()

    def changes(self, X: Matrix, y: np.ndarray | None = None) -> Changes | None:
        """The members of S(x) by number, the identity first, or some that stand for all of them.

        An author need not write it: `orbit` is enough. One whose changes are fixed linear maps may
        return `LinearChanges`, and one whose set is infinite a subclass of `Changes` with a `mesh`.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
        y : (n,) array, optional
            Labels of the rows, for oracles that depend on them.

        Returns
        -------
        Changes or None
            None where the members cannot be listed.
        """
        self._check_rows(X)
        found: Changes | None
        if self._listed_by() == "orbit":
            found = ListedChanges(self, X, scored=self._enumerates) if self.finite else None
        else:
            found = self._changes(X, y)
        if found is not None:
            # A prepared oracle may keep what it returned.
            found = copy.copy(found)
            found.y, found.source = y, found.source or type(self).__name__
            found.scored &= not self._asked_by_support()
        return found

    def draws(self, X: Matrix, n_draws: int, random_state: int = 0) -> Changes:
        """Changes drawn at random, the same ones for every row: for means over changes.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
        n_draws : int
            How many changes to draw: members of a finite oracle, by their probabilities, else what
            `sample` draws.
        random_state : int, default=0
            The draws depend on this alone.

        Returns
        -------
        Changes
        """
        self._check_rows(X)
        for kind in type(self).__mro__:
            if "_draws" in vars(kind):
                return self._draws(X, n_draws, random_state)
            if not {"changes", "orbit", "sample"}.isdisjoint(vars(kind)):
                break
        return InvarianceOracle._draws(self, X, n_draws, random_state)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        """`changes` of a family, unless a subclass has another `orbit`."""
        return None

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """`draws` of a family, unless a subclass has another list or `sample`."""
        found = changes_of(self, X) if self.finite else None
        if found is None:
            return DrawnChanges(self, X, n_draws, random_state)
        return found.likely().drawn(n_draws, random_state)

    def _listed_by(self) -> str:
        """Which method lists members: an `orbit`, or the `_changes` of a class further up."""
        names, kinds = ("_changes", "orbit"), type(self).__mro__
        return next(name for kind in kinds for name in names if name in vars(kind))

    def _asked_by_support(self) -> bool:
        """Whether a class below the one that lists members has a `support` of its own."""
        for kind in type(self).__mro__:
            if "_changes" in vars(kind):
                return False
            if "support" in vars(kind) or "graded_support" in vars(kind):
                return True
        return False

    def tangents(self, X: Matrix) -> np.ndarray:
        """Derivatives of the changed input at no change, (n, t, d), per unit of each parameter."""
        raise self._absent("tangents")

    def region(self, X: np.ndarray) -> Region:
        """The sets S(x) of dense rows as geometry, for distances between them (`structinv.metrics`).

        By default the list of a finite oracle, or the list of another one with its mesh.
        """
        return listed_region(self, X)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """`n_draws` random members of each S(x), as an (n, n_draws, d) array."""
        raise self._absent("sample")

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether `z` lies in S(`x`), up to rounding; both dense, of shape (d,)."""
        raise self._absent("contains")

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """`support` when a change of a given size counts only `rho` of a full one."""
        raise self._absent("graded support, so it cannot be discounted", verb="has no")

    def member_names(self, size: int) -> list[str]:
        """A short name of each of the `size` members of an author's `orbit`; see `Changes.names`."""
        return ["identity", *(f"change {number}" for number in range(1, size))]

    def counted(self) -> CountedChanges | None:
        """The same changes by their number; None, the default, where they cannot be counted."""
        return None

    def _absent(self, what: str, verb: str = "does not define") -> NotImplementedError:
        name = type(self).__name__
        return NotImplementedError(f"{name} {verb} {what}")

    def __or__(self, other: InvarianceOracle) -> Union:
        """S(x) is everything that either oracle allows."""
        from .union import Union

        return Union(self, other)

    def __matmul__(self, other: InvarianceOracle) -> Compose:
        """First the change of `other`, then one of this oracle."""
        from .compose import Compose

        return Compose(self, other)

    def only_for(self, labels: Any) -> OnlyFor:
        """The same invariance, for rows of the given true labels only."""
        from .combinators import OnlyFor

        return OnlyFor(self, labels)

    def discounted(self, rho: float | Sequence[float]) -> Discounted:
        """The same set, but larger changes cost less when they are missed.

        Parameters
        ----------
        rho : float or sequence of float
            Grades from no change (1, the largest) to the largest change. A sequence is indexed by
            the number of edits (word oracles), by the member of the orbit (finite oracles), or is
            interpolated linearly over the distance to the border (sets with a radius); a number
            stands for the straight line from 1 to it, and in an orbit for the grade of every
            member but the identity.
        """
        from .combinators import Discounted

        return Discounted(self, rho)


# Oracles with a class of their own for given rows, by their exact class; `fast.py` fills it.
BOUND: dict[type[InvarianceOracle], type[BoundOracle]] = {}


class BoundOracle:
    """An oracle on given rows.

    Linear models ask `worst` for values, planes and certificates. Dual states with in-hull steps ask
    `hull`, `label_hull`, `edits` and `insertions`. Kernel machines ask `changes` only. A subclass serves
    oracles that have a fast path, are made of others, need labels, or change whole examples.

    Parameters
    ----------
    oracle : InvarianceOracle
    X : (n, d) array or CSR matrix
        Rows that may change.
    y : (n,) array, optional
        True labels.

    Attributes
    ----------
    oracle, X, y
        As given.
    """

    def __init__(self, oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> None:
        self.oracle = oracle
        self.X = X
        self.y = y
        self._known_changes: tuple[Changes | None, ...] = ()

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        """`InvarianceOracle.support` on the rows named, ``assign`` having one entry for each.

        With `rho` it is `InvarianceOracle.graded_support`.
        """
        if rho is None:
            return self._support(rows, V, assign, cost)
        worth = np.zeros(len(assign)) if cost is None else cost
        return self.oracle.graded_support(take(self.X, rows), V, assign, worth, rho)

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        """`support` where no grades are asked for; subclasses without any override this alone."""
        return self.oracle.support(take(self.X, rows), V, assign, cost)

    def worst(self, rows: Rows, question: Query) -> Violations:
        """By how much each label exceeds the true one at the worst changes of the rows named.

        Parameters
        ----------
        rows : slice or (n,) array of int
        question : Query
            About these rows.
        """
        return worst_of(self, rows, question)

    def changes(self) -> Changes | None:
        """`InvarianceOracle.changes` of these rows, made once; None where members cannot be listed."""
        if not self._known_changes:
            self._known_changes = (self._new_changes(),)
        return self._known_changes[0]

    def _new_changes(self) -> Changes | None:
        return changes_of(self.oracle, self.X, self.y)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """`InvarianceOracle.sample` on the rows named."""
        return self.oracle.sample(take(self.X, rows), n_draws, rng)

    def contains(self, row: int, z: np.ndarray) -> bool:
        """Whether `z` lies in S(x) of the row."""
        return self.oracle.contains(dense_rows(self.X, [row])[0], z)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull | None:
        """In-hull steps for a two-class loss on all rows, or None where lists of planes do."""
        return None

    def label_hull(
        self, codes: np.ndarray, weights: np.ndarray, cost: np.ndarray, intercept: bool
    ) -> LabelHull | None:
        """In-hull steps for a joint loss of several labels on all rows, or None; see `LabelHull`."""
        return None

    def spread(self) -> np.ndarray | None:
        """Directions r_k, (t, d), where S(x) is x and all sums of them with factors from -1 to 1.

        None, the default, for other sets, and where rows have directions of their own.
        """
        return None

    def edits(self) -> RowEdits | None:
        """The edits of words that may change the rows; None, the default, for other changes."""
        return None

    def insertions(self) -> Insertions | None:
        """The edits that bring words into the rows; None, the default, for other changes."""
        return None

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        """What may happen to examples of several rows, as sets of their rows.

        S of an example is the union over scenarios. In a scenario of one level each row changes by
        itself, as that bound oracle of the same rows says. One of levels 0 to B is a budget: level j is
        what j changes can make of a row, and the levels of an example's rows add up to at most B.

        Each row by itself, by default. A scenario need not contain the unchanged rows; one of them does.
        """
        return [(self,)]


def as_oracle(
    given: Any, name: str = "oracle", default: InvarianceOracle | None = None, hint: str = ""
) -> InvarianceOracle:
    """The oracle that is given for a parameter, or its default for None; TypeError for anything else.

    Parameters
    ----------
    given : object
    name : str
        Of the parameter.
    default : InvarianceOracle, optional
    hint : str
        What to do instead, where that is known.
    """
    if given is None and default is not None:
        return default
    if isinstance(given, InvarianceOracle):
        return given
    written, hint = repr(given), hint or hint_of(given)
    if isinstance(given, type):
        written = f"the class {given.__name__}"
    if isinstance(given, np.ndarray) or sp.issparse(given):
        written, hint = f"rows of shape {given.shape}", ": the oracle comes before the rows"
    kinds = "an InvarianceOracle" + (" or None" if default is not None else "")
    raise TypeError(f"{name} must be {kinds}, got {written}{hint}")


def check_rows(X: Any) -> None:
    """Raise TypeError or ValueError unless these are rows as compiled functions take them."""
    if not isinstance(X, np.ndarray) and not (sp.issparse(X) and X.format == "csr"):
        hint = ": call tocsr()" if sp.issparse(X) else ""
        raise TypeError(f"X must be an array or a CSR matrix, got {type(X).__name__}{hint}")
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n, d), an input a row, got {X.shape}")
