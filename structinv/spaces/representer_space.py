"""Kernel expansions with representers of functionals, such as derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..functionals.representers import Representers
from ..utils.row_arrays import Arrays
from .atoms import AtomStore
from .kernel_space import Expansion, KernelSpace
from .point_sums import PointSums

if TYPE_CHECKING:
    from ..oracles.base import BoundOracle


class RepresenterExpansion(Expansion):
    """Sum over atoms, sum over representers, and an unpenalized part.

    Shapes: `coefficients` (m, n_outputs), `representers` (n_functionals, n_outputs), `free` (n_free,
    n_outputs).
    """

    def __init__(
        self,
        space: RepresenterSpace,
        coefficients: np.ndarray,
        representers: np.ndarray,
        free: np.ndarray,
    ) -> None:
        super().__init__(space.atoms, coefficients)
        self.space = space
        self.representers = representers
        self.free = free
        # Cached functionals, and the coefficients of atoms that they belong to.
        self._functionals: np.ndarray | None = None
        self._at = coefficients

    def values(self) -> np.ndarray:
        n_cached = 0 if self._values is None else len(self._values)
        values = super().values()
        if len(values) > n_cached:
            values[n_cached:] += self._without_atoms(self.atoms.known[n_cached:])
        return values

    def functionals(self) -> np.ndarray:
        """Return ``L_j f(., k)``, (n_functionals, n_outputs), as a view."""
        if self._functionals is None:
            values = self.space.system.apply(self.representers)
            values = values + self.space.functionals_of_basis @ self.free
            self._functionals, self._at = values, np.zeros((0, self.coefficients.shape[1]))
        change = self.coefficients.copy()
        change[: len(self._at)] -= self._at
        changed = np.flatnonzero(np.any(change != 0, axis=1))
        if len(changed):
            points = self.atoms.points(changed)
            self._functionals = self._functionals + self.space.system.on_points(points, change[changed])
            self._at = self.coefficients.copy()
        return self._functionals

    def know(self, functionals: np.ndarray) -> None:
        """Cache values of the functionals that the caller has computed."""
        self._functionals, self._at = functionals, self.coefficients.copy()

    def norm_sums(self) -> tuple[np.ndarray, int]:
        total, n_terms = super().norm_sums()
        used = np.flatnonzero(np.any(self.representers != 0, axis=1))
        if len(used):
            norms = np.sqrt(np.maximum(self.space.system.diagonal()[used], 0.0))
            total = total + norms @ np.abs(self.representers[used])
        return total + np.abs(self.free).sum(axis=0), n_terms + len(used)

    def _without_atoms(self, points: np.ndarray) -> np.ndarray:
        total = self.space.basis(points) @ self.free
        if np.any(self.representers):
            total = total + self.space.system.values(self.representers, points)
        return total

    def function(self) -> Callable[[np.ndarray], np.ndarray]:
        of_atoms = super().function()
        return lambda points: of_atoms(points) + self._without_atoms(points)

    def _add(self, other: Expansion, sign: float) -> Self:
        if not isinstance(other, RepresenterExpansion):
            raise TypeError(f"only functions of the same space can be added, got {other!r}")
        known = None if self._functionals is None else self.functionals() + sign * other.functionals()
        super()._add(other, sign)
        self.representers = self.representers + sign * other.representers
        self.free = self.free + sign * other.free
        if known is not None:
            self.know(known)
        return self

    def __imul__(self, factor: float) -> Self:
        known = None if self._functionals is None else factor * self.functionals()
        super().__imul__(factor)
        self.representers = factor * self.representers
        self.free = factor * self.free
        if known is not None:
            self.know(known)
        return self


class RepresenterRows:
    """Normals that are short sums over atoms; some of them add a sum of representers.

    `functions` has these sums by the number of the row.
    """

    def __init__(self, rows: PointSums, functions: dict[int, RepresenterExpansion]) -> None:
        self.rows = rows
        self.functions = functions

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> RepresenterRows | PointSums:
        numbers = np.arange(len(self))[chosen]
        owned = np.flatnonzero(np.isin(numbers, list(self.functions)))
        functions = {int(row): self.functions[int(numbers[row])] for row in owned}
        rows = self.rows[chosen]
        return RepresenterRows(rows, functions) if functions else rows


class RepresenterSpace(KernelSpace):
    """Kernel space with families of functionals and an optional unpenalized part.

    An element is a kernel expansion, as in `KernelSpace`, plus a sum of representers of the functionals.
    It caches the values of the functionals, and sums and multiples update the cache.

    Parameters
    ----------
    system : Representers
        Families of functionals.
    n_features : int
        Number of features of a sample.
    n_outputs : int, default=1
        Number of functions.
    free_degree : int, optional
        Degree of an unpenalized polynomial: 0 for a constant, 1 for a linear function. By default there
        is no polynomial. Most solvers raise an error if there is one.
    cache_mb : float, default=1000
        Maximum memory for kernel values, in MB (10^6 bytes).

    Attributes
    ----------
    n_free : int
        Number of unpenalized coefficients per output.

    See Also
    --------
    KernelSpace : Kernel expansions without functionals.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Evaluation, Gradient
    >>> from structinv.functionals.representers import Representers
    >>> from structinv.kernels import Gaussian
    >>> from structinv.spaces import RepresenterSpace
    >>> X, kernel = np.array([[0.0], [1.0]]), Gaussian()
    >>> families = [family.bind(X).parts(kernel) for family in (Evaluation(), Gradient())]
    >>> space = RepresenterSpace(Representers(kernel, families), 1)
    >>> f = space.of_representers(np.array([[1.0], [0.0], [0.0], [0.0]]))
    >>> f.functionals()[:, 0].round(4)
    array([ 1.    ,  0.6065,  0.    , -0.6065])
    """

    capabilities = frozenset(["kernel members"])

    def __init__(
        self,
        system: Representers,
        n_features: int,
        n_outputs: int = 1,
        *,
        free_degree: int | None = None,
        cache_mb: float = 1000.0,
    ) -> None:
        super().__init__(system.kernel, n_features, n_outputs, cache_mb=cache_mb)
        self.system = system
        self.free_degree = free_degree
        self.n_free = 0 if free_degree is None else 1 + n_features * (free_degree > 0)
        self.functionals_of_basis = np.zeros((system.size, 0))
        if free_degree is not None:
            self.functionals_of_basis = system.monomials(free_degree)

    def basis(self, points: np.ndarray) -> np.ndarray:
        """Return the unpenalized basis functions at points.

        Parameters
        ----------
        points : ndarray of shape (n, n_features)
            Points.

        Returns
        -------
        ndarray of shape (n, n_free)
            Values of the basis functions: the constant, then the coordinates.
        """
        columns = np.column_stack([np.ones(len(points)), points])
        return columns[:, : self.n_free]

    def of_representers(
        self, representers: np.ndarray, free: np.ndarray | None = None
    ) -> RepresenterExpansion:
        """Return a sum of representers and an unpenalized part.

        Parameters
        ----------
        representers : ndarray of shape (n_functionals, n_outputs)
            Coefficients of the representers.
        free : ndarray of shape (n_free, n_outputs), optional
            Coefficients of `basis`; by default zero.

        Returns
        -------
        RepresenterExpansion
            The function.
        """
        free = np.zeros((self.n_free, self.n_outputs)) if free is None else free
        return RepresenterExpansion(self, np.zeros((0, self.n_outputs)), representers, free)

    def zeros(self) -> RepresenterExpansion:
        shape = (self.system.size, self.n_outputs)
        zero = self.of_representers(np.zeros(shape))
        zero.know(np.zeros(shape))
        return zero

    def output_gram(self, f: Expansion, g: Expansion) -> np.ndarray:
        assert isinstance(f, RepresenterExpansion)
        assert isinstance(g, RepresenterExpansion)
        # The unpenalized parts have the norm 0.
        total = np.zeros((self.n_outputs, self.n_outputs))
        of_basis = np.zeros((self.n_free, self.n_outputs))
        used = f.support()
        if len(used):
            total += f.coefficients[used].T @ g.values()[self.atoms.places[used]]
            of_basis += self.basis(self.atoms.points(used)).T @ f.coefficients[used]
        if np.any(f.representers):
            total += f.representers.T @ g.functionals()
            of_basis += self.functionals_of_basis.T @ f.representers
        return total - of_basis.T @ g.free

    def scores(self, f: Expansion, normals: Any) -> np.ndarray:
        assert isinstance(f, RepresenterExpansion)
        normals = self._mixed(normals)
        total = super().scores(f, normals.rows)
        for row, function in normals.functions.items():
            total[row] += np.sum(function.representers * f.functionals())
        return total

    def combine(self, normals: Any, coefficients: np.ndarray) -> RepresenterExpansion:
        normals = self._mixed(normals)
        atoms = super().combine(normals.rows, coefficients)
        total = self.zeros()
        for row, function in normals.functions.items():
            if coefficients[row]:
                part = function.copy()
                part *= coefficients[row]
                total += part
        total.coefficients = atoms.coefficients
        if len(atoms.coefficients):
            # The cached values do not include the atoms.
            total._values = None
        return total

    def gram(self, left: Any, right: Any) -> np.ndarray:
        left, right = self._mixed(left), self._mixed(right)
        total = super().gram(left.rows, right.rows).astype(np.float64, copy=False)
        for row, function in left.functions.items():
            total[row] += super().scores(function, right.rows)
        for column, function in right.functions.items():
            total[:, column] += super().scores(function, left.rows)
            for row, other in left.functions.items():
                total[row, column] += np.sum(other.representers * function.functionals())
        return total

    def stack(self, parts: Sequence[Any]) -> Any:
        mixed = [self._mixed(part) for part in parts]
        if len(mixed) == 1:
            return parts[0]
        firsts = np.cumsum([0, *map(len, mixed)])
        functions = {
            int(first) + row: function
            for part, first in zip(mixed, firsts, strict=False)
            for row, function in part.functions.items()
        }
        return RepresenterRows(PointSums.join([part.rows for part in mixed]), functions)

    def uncached(self, f: Expansion) -> RepresenterExpansion:
        assert isinstance(f, RepresenterExpansion)
        return RepresenterExpansion(self, f.coefficients.copy(), f.representers.copy(), f.free.copy())

    def element(self, f: Expansion) -> Any:
        assert isinstance(f, RepresenterExpansion)
        rows = super().element(f)
        if not np.any(f.representers):
            return rows
        function = self.of_representers(f.representers.copy())
        if len(rows.points) == 0 and not np.any(f.free):
            function.know(f.functionals())
        return RepresenterRows(rows, {0: function})

    def scaled(self, normals: Any, factors: np.ndarray) -> Any:
        mixed = self._mixed(normals)
        rows = mixed.rows.scaled(factors)
        functions = {row: factors[row] * function for row, function in mixed.functions.items()}
        return RepresenterRows(rows, functions) if functions else rows

    def accepts(self, f: Any) -> bool:
        # Only the sizes of the families are compared.
        if not isinstance(f, RepresenterExpansion) or not self._same_widths(f):
            return False
        return (len(f.representers), len(f.free)) == (self.system.size, self.n_free)

    def adopted(self, f: Any, bounds: Sequence[BoundOracle]) -> RepresenterExpansion:
        if f.space is self:
            return f
        total = self.of_representers(f.representers.copy(), f.free.copy())
        if len(f.support()):
            total += super().adopted(f, bounds)
        return total

    def arrays_of(self, f: Expansion) -> Arrays:
        assert isinstance(f, RepresenterExpansion)
        return {**super().arrays_of(f), "representers": f.representers, "free": f.free}

    def from_arrays(self, arrays: Arrays) -> RepresenterExpansion:
        space = self._over(AtomStore.of_points(self.kernel, arrays["points"], arrays["origins"]))
        return RepresenterExpansion(
            space, arrays["coefficients"], arrays["representers"], arrays["free"]
        )

    def _over(self, atoms: AtomStore) -> Self:
        space = super()._over(atoms)
        space.system = self.system.emptied()
        return space

    def compacted(self, f: Expansion) -> tuple[RepresenterSpace, RepresenterExpansion]:
        small = self.from_arrays(self.arrays_of(f))
        return small.space, small

    def _mixed(self, normals: Any) -> RepresenterRows:
        if isinstance(normals, RepresenterRows):
            return normals
        return RepresenterRows(normals, {})
