"""Base classes of invariance oracles, unbound and bound to the samples of a fit."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils import plugins
from ..utils.matrices import Matrix, Rows, check_indices, dense_rows, refuse_masked, take
from ..utils.parameters import brief
from .arguments import hint_of
from .listed_changes import ListedChanges, changes_of, draws_of_list, listed_region, most_derived
from .query import Query, Violations, worst_at, worst_of
from .support import Costs, Grades, Support, costs_of

if TYPE_CHECKING:
    from ..regions import Region
    from .affine import RowBoxes
    from .changes import Changes
    from .combinators import Discounted, OnlyFor
    from .compose import Compose
    from .union import Union
    from .words.bound_edits import RowEdits


@dataclass(frozen=True)
class CountedChanges:
    """Perturbations of a sample that consist of a number of edits.

    - `most`: maximum number of edits (>= 0)
    - `at_most`: function from a number of edits to the oracle with at most this number, without grades
    - `grades`: grades by the number of edits, as in `InvarianceOracle.discounted`
    - `note`: similar perturbations that the oracle does not contain, for printed certificates
    - `norm`: norm in which rows have the length 1 before and after the edits; empty for all rows
    - `tokens`: True if edits change tokens of a text; False if each edit changes one feature
    """

    most: int
    at_most: Callable[[int], InvarianceOracle]
    grades: float | Sequence[float] | None = None
    note: str = ""
    norm: str = ""
    tokens: bool = False


class InvarianceOracle(BaseEstimator, ABC):
    """Base class of all oracles: declares the perturbation set S(x) of each sample.

    A subclass must implement `support`. All other methods are optional: `orbit`, `changes`, `tangents`,
    `region`, `sample` and `contains`. They raise NotImplementedError, with
    the name of the class and of the method, if the oracle does not support them.

    The constructor only stores its parameters, so oracles can be cloned, pickled and tuned by grid
    search. `validate` checks the parameters before any work.

    S(x) always contains x. The samples never contain the constant feature of the intercept.

    Attributes
    ----------
    supports_sparse : bool
        True if `support` accepts CSR matrices.
    finite : bool
        True if `orbit` lists all members of S(x).
    additive : bool
        True if S(x) = x + B with a set B that does not depend on x.
    convex : bool
        True if S(x) is convex.
    graded : bool
        True if answers have grades `Support.rho`.
    depends_on_label : bool
        True if S(x) depends on the true label of x. By default, this is True if it is True for an oracle
        among the parameters.
    whole_example : bool
        True if the perturbations of the samples of one example depend on one another, as in `Shared`
        and `Budget`. Then only `BoundOracle.scenarios` describes them. All other methods treat every
        sample as an example. The default is that of `depends_on_label`.

    See Also
    --------
    FiniteOracle : Base class for oracles with a finite list of perturbed samples.
    ImageOracle : Base class for transformations of images.
    check_oracle : Check that a subclass fulfills these requirements.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import InvarianceOracle, Support
    >>> class SignFlip(InvarianceOracle):
    ...     "The label does not depend on the sign of the sample."
    ...     def support(self, X, V, assign, cost=None):
    ...         flipped = np.sum(X * V[assign], axis=1) < 0
    ...         return Support(np.where(flipped[:, None], -X, X))
    >>> X, V = np.array([[1.0, -2.0]]), np.array([[1.0, 1.0]])
    >>> SignFlip().support(X, V, np.array([0])).points
    array([[-1.,  2.]])
    """

    supports_sparse: bool = False
    finite: bool = False
    additive: bool = False
    convex: bool = False
    graded: bool = False
    # True if `support` enumerates the members of `orbit`, including an `orbit` of a subclass.
    _enumerates: bool = False

    @property
    def depends_on_label(self) -> bool:
        """True if one of the parts depends on labels."""
        return any(part.depends_on_label for part in self._parts().values())

    @property
    def whole_example(self) -> bool:
        """True if one of the parts perturbs whole examples."""
        return any(part.whole_example for part in self._parts().values())

    @abstractmethod
    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """Maximize an inner product over S(x), for every sample.

        An oracle that can be `discounted` has a fifth argument ``rho=None``, the grades. If grades are
        given, the answer has the grades of its points, `Support.rho`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples; CSR only if `supports_sparse` is True. Oracle classes from outside structinv get
            read-only arrays, here and in all other methods.
        V : array of shape (n_directions, n_features)
            Directions (float64), shared by many samples.
        assign : array of int of shape (n_samples,)
            Row of `V` for every sample: sample i has the direction ``V[assign[i]]``.
        cost : array of shape (n_samples,), optional
            Misclassification cost at grade 1. Only graded oracles use it.

        Returns
        -------
        Support
            ``points[i]`` maximizes ``<V[assign[i]], z> + cost[i] * rho(X[i], z)`` over S(X[i])
            (Teo et al. 2007, eq. 2, with the sign of alg. 2).
        """

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """Create the bound oracle for samples and labels; its methods take row numbers.

        `BOUND` lists special classes of bound oracles. They apply to the listed oracle classes only, not
        to their subclasses. All other oracles get a `BoundOracle`, which calls their methods.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,), optional
            True labels.

        Returns
        -------
        BoundOracle
            This oracle on the rows of `X`. Do not change its parameters afterwards.
        """
        self._check_rows(X)
        return BOUND.get(type(self), BoundOracle)(self._prepared(), X, y)

    def _prepared(self) -> Self:
        """Return an oracle for one `bind`, with a cache of its intermediate results.

        By default, the parts of a combination are prepared. A subclass with a cache returns a copy,
        whose parameters must not change. The cache is freed with the bound oracle.
        """
        return self._with_parts(lambda part: part._prepared())

    def _with_parts(self, change: Callable[[InvarianceOracle], InvarianceOracle]) -> Self:
        """Return a copy with replaced parts; return this oracle if `change` replaces none."""
        present = self._parts()
        parts = {name: change(part) for name, part in present.items()}
        if all(part is present[name] for name, part in parts.items()):
            return self
        changed = copy.copy(self)
        changed.__dict__.update(parts)
        return changed

    def _parts(self) -> dict[str, InvarianceOracle]:
        """Return the oracles that are parameters of this oracle, by name."""
        return {name: part for name, part in vars(self).items() if isinstance(part, InvarianceOracle)}

    def _no_cover(self) -> str:
        """Return the limit of the parameters above which there is no orbit or cover, for messages."""
        return "".join(part._no_cover() for part in self._parts().values())

    def _for_rows(self, rows: np.ndarray) -> InvarianceOracle:
        """Return the oracle for a subset of the rows that it is bound to.

        Oracles that store data per row, such as texts, select the data of these rows.
        """
        return self._with_parts(lambda part: part._for_rows(rows))

    def for_any_label(self) -> InvarianceOracle:
        """Return the oracle without its restrictions to some labels.

        Samples without labels are certified with this oracle, because they may have any label.

        Returns
        -------
        InvarianceOracle
            The unrestricted oracle; this oracle if it has no such restriction.
        """
        return self._with_parts(lambda part: part.for_any_label())

    def validate(self, n_features: int | None = None) -> None:
        """Check the parameters.

        Parameters
        ----------
        n_features : int, optional
            Number of features of the samples. By default, sizes of parameters are not compared with it.

        Raises
        ------
        TypeError, ValueError
            If a parameter has a wrong type, is out of its range, or does not match `n_features`.
        """

    def check_labels(self, classes: np.ndarray) -> None:
        """Check that labels among the parameters are classes of the model.

        Estimators call this before they fit or certify. By default, it calls the same method of every
        parameter that is an oracle.

        Parameters
        ----------
        classes : array of shape (n_classes,)
            All classes of the model, sorted.

        Raises
        ------
        TypeError, ValueError
            If a label is not a class, or its type differs from that of the classes.
        """
        for part in self._parts().values():
            part.check_labels(classes)

    def _check_rows(self, X: Matrix) -> None:
        """Raise TypeError or ValueError unless X has rows that match the parameters."""
        check_rows(X)
        self.validate(X.shape[1])

    def orbit(self, X: Matrix) -> np.ndarray:
        """List all members of S(x), for every sample.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_members, n_features)
            All members. The sample itself is the first one and occurs once.

        Raises
        ------
        NotImplementedError
            If the oracle is not finite.
        """
        self._check_rows(X)
        found: Changes | None = None
        if self.finite:
            # If a subclass overrides `orbit` and calls this method, `changes` would not end.
            found = self._changes(X, None) if _lists_by_orbit(self) else self.changes(X)
        if found is None:
            raise self._absent("orbit")
        return found.members()

    def changes(self, X: Matrix, y: np.ndarray | None = None) -> Changes | None:
        """Return the numbered list of members of S(x), or of a cover of S(x).

        A subclass with `orbit` inherits this method. Override it to return `LinearChanges` if all
        transformations are fixed linear maps, or a list with a `Changes.mesh` if S(x) is infinite.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,), optional
            True labels, for oracles that depend on them.

        Returns
        -------
        Changes or None
            The list, with the unperturbed sample first; None if members cannot be listed.
        """
        self._check_rows(X)
        found: Changes | None
        if _lists_by_orbit(self):
            found = ListedChanges(self, X, scored=self._enumerates) if self.finite else None
        else:
            found = self._changes(X, y)
        if found is not None:
            # Copy the list, because a prepared oracle may cache it.
            found = copy.copy(found)
            found.y, found.source = y, found.source or type(self).__name__
            # A third-party `support` may describe another set than an inherited list.
            found.scored &= not plugins.writes(self, "support")
        return found

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        """Return the list of members; overridden in turn by `orbit` of a subclass."""
        return None

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """Return draws for `draws_of`; overridden in turn by a list or `sample` of a subclass."""
        return draws_of_list(self, X, n_draws, random_state)

    def tangents(self, X: Matrix) -> np.ndarray:
        """Compute tangents: derivatives with respect to transformation parameters.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_tangents, n_features)
            Derivatives of the transformed sample at the identity, per unit of each parameter.

        Raises
        ------
        NotImplementedError
            If the oracle has no tangents.
        """
        raise self._absent("tangents")

    def region(self, X: np.ndarray) -> Region:
        """Return S(x) as a set of points, for the distances in `structinv.metrics`.

        By default, it contains the members of a finite oracle, or a cover with its mesh.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Dense samples.

        Returns
        -------
        Region
            One set per sample.

        Raises
        ------
        NotImplementedError
            If the oracle lists no members and does not override this method.
        """
        return listed_region(self, X)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw random members of S(x), for every sample.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Samples.
        n_draws : int
            Number of members per sample (>= 0).
        rng : numpy.random.Generator
            Random number generator.

        Returns
        -------
        array of shape (n_samples, n_draws, n_features)
            Random members.

        Raises
        ------
        NotImplementedError
            If the oracle cannot draw members.
        """
        raise self._absent("sample")

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Test membership in S(x), up to rounding.

        Parameters
        ----------
        x : array of shape (n_features,)
            Dense sample.
        z : array of shape (n_features,)
            Dense candidate.

        Returns
        -------
        bool
            True if `z` lies in S(`x`).

        Raises
        ------
        NotImplementedError
            If the oracle cannot test membership.
        """
        raise self._absent("contains")

    def member_names(self, size: int) -> list[str]:
        """Return short names of the members of `orbit`.

        Parameters
        ----------
        size : int
            Number of members.

        Returns
        -------
        list of str
            One name per member. By default, these are "identity", "change 1", "change 2" and so on.
        """
        return ["identity", *(f"change {number}" for number in range(1, size))]

    def counted(self) -> CountedChanges | None:
        """Return the perturbations by their number of edits, for `Budget`.

        Returns
        -------
        CountedChanges or None
            None, the default, if edits cannot be counted.
        """
        return None

    def _refuse_grades(self, rho: Grades) -> None:
        """Raise NotImplementedError if grades are given."""
        if rho is not None:
            raise self._absent("grades, so it cannot be discounted", verb="does not support")

    def _absent(self, what: str, verb: str = "does not define") -> NotImplementedError:
        name = type(self).__name__
        return NotImplementedError(f"{name} {verb} {what}")

    def __or__(self, other: InvarianceOracle) -> Union:
        """Return the union: S(x) contains all perturbed samples of both oracles."""
        from .union import Union

        return Union(self, other)

    def __matmul__(self, other: InvarianceOracle) -> Compose:
        """Return the composition: a perturbation of `other`, then one of this oracle."""
        from .compose import Compose

        return Compose(self, other)

    def only_for(self, labels: Any) -> OnlyFor:
        """Restrict the perturbations to samples of some labels.

        Parameters
        ----------
        labels : label or sequence of labels
            True labels of the samples that change. All of them must be classes of the model.

        Returns
        -------
        OnlyFor
            The restricted oracle.
        """
        from .combinators import OnlyFor

        return OnlyFor(self, labels)

    def discounted(self, rho: float | Sequence[float]) -> Discounted:
        """Reduce the misclassification cost at large perturbations.

        Parameters
        ----------
        rho : float or sequence of float
            Grades in [0, 1], from 1 without perturbation to the grade of the largest one. A sequence has
            one grade per number of edits (`FDrop` and similar oracles), or one per member of the orbit
            (finite oracles). For sets with a radius, a sequence has grades at equal distances from x to
            the border, with linear interpolation. A number is the grade of the largest perturbation;
            grades fall linearly from 1 to this number. In an orbit, a number is the grade of all members
            except the identity.

        Returns
        -------
        Discounted
            The graded oracle.
        """
        from .combinators import Discounted

        return Discounted(self, rho)


# Special bound oracles by the exact class of their oracle; `fast_paths.py` fills this table.
BOUND: dict[type[InvarianceOracle], type[BoundOracle]] = {}


class BoundOracle:
    """An oracle with the samples and labels of one fit.

    Linear models call `worst` for losses, cutting planes and certificates. Block-coordinate solvers call
    `edits` and `boxes`, for special dual variables. Kernel models call only `changes`. Subclasses
    implement fast paths, combinations of oracles, label-dependent sets and joint perturbations.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle that defines S(x).
    X : array or CSR matrix of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,), optional
        True labels.

    Attributes
    ----------
    oracle, X, y
        The arguments, as given.

    See Also
    --------
    InvarianceOracle.bind : Create the bound oracle of an oracle.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> bound = Box(1.0).bind(np.array([[0.0, 0.0], [5.0, 5.0]]))
    >>> bound.support(np.array([1]), np.array([[1.0, -1.0]]), np.array([0])).points
    array([[6., 4.]])
    """

    def __init__(self, oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> None:
        self.oracle = oracle
        self.X = X
        self.y = y

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        """Maximize an inner product over S(x), for some of the rows.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.
        V : array of shape (n_directions, n_features)
            Directions.
        assign : array of int of shape (n_rows,)
            Row of `V` for each of `rows`.
        cost : array of shape (n_rows,), optional
            Misclassification cost at grade 1.
        rho : float or sequence of float, optional
            Grades, as in `InvarianceOracle.discounted`.

        Returns
        -------
        Support
            As in `InvarianceOracle.support`, with one point per entry of `rows`.
        """
        X = take(self.X, rows)
        if rho is None:
            return self.oracle.support(X, V, assign, cost)
        graded: Any = self.oracle
        if "rho" not in inspect.signature(graded.support).parameters:
            graded._refuse_grades(rho)
        return graded.support(X, V, assign, costs_of(cost, assign), rho)

    def worst(self, rows: Rows, query: Query) -> Violations:
        """Compute the loss-augmented argmax of some rows, for each label.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.
        query : Query
            Functions and competing labels of these rows.

        Returns
        -------
        Violations
            Score differences and costs at the worst perturbed samples, for each row and label.
        """
        return worst_of(self, rows, query)

    def unperturbed(self, rows: Rows, query: Query) -> Violations:
        """Compute the same for some rows, as if they were not perturbed.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.
        query : Query
            Functions and competing labels of these rows.

        Returns
        -------
        Violations
            Score differences and costs at the rows themselves.
        """
        return worst_at(take(self.X, rows), query)

    def changes(self) -> Changes | None:
        """Return the list of members for all rows, created on the first call.

        Returns
        -------
        Changes or None
            None if members cannot be listed.
        """
        return self._list

    @cached_property
    def _list(self) -> Changes | None:
        return changes_of(self.oracle, self.X, self.y)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw random members of S(x), for some of the rows.

        Parameters
        ----------
        rows : slice or array of int of shape (n_rows,)
            Rows of `X`.
        n_draws : int
            Number of members per row.
        rng : numpy.random.Generator
            Random number generator.

        Returns
        -------
        array of shape (n_rows, n_draws, n_features)
            Random members.
        """
        return self.oracle.sample(take(self.X, rows), n_draws, rng)

    def contains(self, row: int, z: np.ndarray) -> bool:
        """Test membership in S(x) of a row, up to rounding.

        Parameters
        ----------
        row : int
            Row of `X`.
        z : array of shape (n_features,)
            Dense candidate.

        Returns
        -------
        bool
            True if `z` lies in S(x) of the row.
        """
        return self.oracle.contains(dense_rows(self.X, [row])[0], z)

    def edits(self) -> RowEdits | None:
        """Describe edits of features, for the dual states in `structinv.dual`.

        Returns
        -------
        RowEdits or None
            None, the default, for other sets.
        """
        return None

    def boxes(self) -> RowBoxes | None:
        """Describe bounds of coordinates, for dual states and cutting planes.

        Returns
        -------
        RowBoxes or None
            None, the default, for other sets.
        """
        return None

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        """Return the joint perturbations of examples with several samples.

        The perturbation set of an example is the union of its scenarios. In a scenario of one bound
        oracle, this oracle perturbs each sample independently. A scenario of B + 1 bound oracles is a
        budget: all samples of an example together use at most B edits. In the tuple, bound oracle j
        allows at most j edits of a sample (j = 0, ..., B).

        A scenario need not contain the unperturbed samples, but at least one scenario does.

        Returns
        -------
        list of tuple of BoundOracle
            One tuple of bound oracles per scenario, all on the same rows. By default, the only scenario
            is this bound oracle.
        """
        return [(self,)]


def _lists_by_orbit(oracle: InvarianceOracle) -> bool:
    return most_derived(oracle, "_changes", "orbit") == "orbit"


def as_oracle(
    given: Any, name: str = "oracle", default: InvarianceOracle | None = None, hint: str = ""
) -> InvarianceOracle:
    """Validate a parameter that must be an oracle."""
    if given is None and default is not None:
        return default
    if isinstance(given, InvarianceOracle):
        return given
    shown, hint = brief(given), hint or hint_of(given)
    if isinstance(given, type):
        shown = f"the class {given.__name__}"
    shape = getattr(given, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2:
        shown, hint = f"rows of shape {shape}", ": pass the oracle before the rows"
    kinds = "an InvarianceOracle" + (" or None" if default is not None else "")
    raise TypeError(f"{name} must be {kinds}, got {shown}{hint}")


def check_rows(X: Any) -> None:
    """Raise TypeError or ValueError unless X is a plain 2D array or a CSR matrix."""
    if not isinstance(X, np.ndarray) and not (sp.issparse(X) and X.format == "csr"):
        hint = ": call tocsr()" if sp.issparse(X) else ""
        raise TypeError(f"X must be an array or a CSR matrix, got {type(X).__name__}{hint}")
    refuse_masked("X", X)
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}")
    check_indices("X", X)
