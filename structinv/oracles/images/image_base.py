"""What all geometric changes of images share: the views of the set that a family of maps makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from sklearn.base import clone

from ...utils.matrices import Matrix, rounding, row_dots
from ..arguments import check_directions, profile_of_list
from ..base import Support
from ..changes import Changes, draw_names
from ..weighted import Weighted
from .image_family import ImageFamily
from .image_list import CoverOfImages, MovedImages
from .image_maps import ImageShape, fill_code, image_maps, warp_gains, warps_of
from .image_mesh import mesh_of
from .image_parameters import check_draw, draw, log_density
from .image_paths import Path, furthest
from .image_quadrature import check_rule, nodes_and_weights
from .image_search import halve, passes_by
from .image_tangents import smoothed, step_of

# Halvings of the interval between the neighbors of the best parameter on a grid.
_HALVINGS = 8


class ImageOracle(ImageFamily):
    r"""Images changed by geometric maps that have one parameter.

    .. math:: S(x) = \{x\} \cup \{T_{k,t}\, x : t \in values, k \in families\}

    A new one is a few lines: its constructor stores the parameters below, `parameter` names the one
    that lists the values of a finite set, `neutral` is the value of no change, `geometry` gives the
    map of a value, and `describe` its name. One that changes along several axes or directions names
    them in `families`; one whose maps move on lines or circles tells so in `path`.

    Attributes
    ----------
    parameter : str
        The constructor's parameter with the values of a finite set.
    neutral : float
        The value at which nothing changes.
    distributions : tuple of str
        What the constructor's `distribution` may be.
    shape, order, fill, unitary, interval, resolution, distribution, spread, smoothing
        See `Rotations`.

    Examples
    --------
    >>> import numpy as np
    >>> class Squeezes(ImageOracle):
    ...     "Images made narrower or wider."
    ...     parameter, neutral = "factors", 1.0
    ...     def __init__(self, factors, shape=None):
    ...         self.factors = factors
    ...         self.shape = shape
    ...     def geometry(self, family, values):
    ...         matrices = np.tile(np.eye(2), (len(values), 1, 1))
    ...         matrices[:, 1, 1] = values
    ...         return matrices, np.zeros((len(values), 2))
    ...     def describe(self, family, value):
    ...         return f"squeeze {value:g}"
    >>> Squeezes(2.0, shape=(1, 3)).orbit(np.array([[0.0, 4.0, 0.0]]))
    array([[[0., 4., 0.],
            [2., 4., 2.]]])
    """

    def orbit(self, X: Matrix) -> np.ndarray:
        """See `InvarianceOracle.orbit`; by value, and of one value by family."""
        return super().orbit(self._rows(X)[0])

    def _all_members(self, X: Matrix) -> np.ndarray:
        rows, shape = self._rows(X)
        maps = self._maps(shape)
        size = len(maps.constant)
        return maps.apply(rows, np.tile(np.arange(size), (len(rows), 1)))

    def members_at(self, X: Matrix, values: np.ndarray, family: int = 0) -> np.ndarray:
        """Members of one family at any values of the parameter, (n, m, d).

        Parameters
        ----------
        X : (n, d) array
        values : (m,) array
            Neither listed nor between the ends, necessarily.
        family : int, default=0
            Its place in `families`.
        """
        rows, shape = self._rows(X)
        warps = self._warps(np.full(len(values), family), np.asarray(values, dtype=np.float64))
        maps = image_maps(shape, warps, self.order, self.fill, bool(self.unitary))
        return maps.apply(rows, np.tile(np.arange(len(values)), (len(rows), 1)))

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`.

        With `interval` it is exact where `order` is 1 and all families have a `path`. Otherwise, or
        where there are millions of crossings on a path, the best of a grid is refined, and `upper`
        is infinite.
        """
        rows, shape = self._rows(X)
        check_directions(rows, V, assign, cost)
        found = None if self.finite else self._furthest(rows, shape, V, assign)
        if found is not None:
            return found
        maps = self._maps(shape)
        best = np.argmax(maps.facing_scores(rows, V, assign), axis=1)
        if self.finite:
            return Support(maps.apply(rows, best[:, None])[:, 0])
        points = maps.apply(rows, best[:, None])[:, 0]
        points = self.refined(rows, points, best, lambda z: row_dots(z, V, assign))
        return Support(points, np.full(len(rows), np.inf))

    def _furthest(
        self, rows: np.ndarray, shape: ImageShape, V: np.ndarray, assign: np.ndarray
    ) -> Support | None:
        """The best members of a continuous set by walks; None if a path does not allow it."""
        paths = [self._path(number) for number in range(len(self.families()))]
        if self.order != 1 or any(path is None for path in paths):
            return None
        code, background = fill_code(self.fill)
        shift = background * V.sum(axis=1)[assign]
        best = row_dots(rows, V, assign) - shift
        # The image itself is a member to the last digit, so that it should win ties.
        best += 4e-15 * row_dots(np.abs(rows), np.abs(V), assign)
        points, upper = rows.copy(), best.copy()
        winner, warps = np.full(len(rows), -1), np.zeros((len(rows), 6))
        for number, path in enumerate(paths):
            assert path is not None
            found = furthest(rows, V, assign, shape, path, code, background)
            if found is None:
                return None
            np.maximum(upper, found[0] + found[2], out=upper)
            mine = np.flatnonzero(found[0] > best)
            best[mine], winner[mine] = found[0][mine], number
            values = np.clip(path.value_at(found[1][mine]), *self._ends())
            warps[mine] = self._warps(winner[mine], values)
        moved = np.flatnonzero(winner >= 0)
        points[moved] = self._changed(rows[moved], shape, warps[moved, None])[:, 0]
        return Support(points, upper + shift)

    def _path(self, number: int) -> Path | None:
        """The path of a family, if that is where `geometry` leads, too."""
        return self._once(("path", number), lambda: self._new_path(number))

    def _new_path(self, number: int) -> Path | None:
        low, high = self._ends()
        path = self.path(self.families()[number], low, high)
        if path is None:
            return None
        places = np.linspace(path.low, path.high, 5)
        warps, gains = path.at(places)
        wanted = self._warps(np.full(5, number), path.value_at(places))
        same = np.allclose(warps, wanted, rtol=1e-9, atol=1e-9)
        return path if same and np.allclose(gains, warp_gains(wanted, bool(self.unitary))) else None

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`; finite sets only, by enumeration."""
        if not self.finite:
            raise self._absent("graded support with interval, so it cannot be discounted", "has no")
        rows, shape = self._rows(X)
        check_directions(rows, V, assign, cost)
        maps = self._maps(shape)
        grades = profile_of_list(rho, len(maps.constant))
        scores = maps.facing_scores(rows, V, assign) + cost[:, None] * grades
        best = np.argmax(scores, axis=1)
        return Support(maps.apply(rows, best[:, None])[:, 0], rho=grades[best])

    def mesh(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        """How far members of a continuous set are from the `resolution` members of each family, (n,).

        The bound follows the pixels of the source between neighbors of the grid: a bilinear image
        changes no faster than its neighboring pixels differ. It is infinite for other orders.

        Parameters
        ----------
        rows : (n, d) array
        points : (n, s, d) array
            The members of the grid.
        """
        if self.order != 1:
            return np.full(len(points), np.inf)
        shape = self._shape(rows.shape[1])
        values = [self._neighbors(k) for k in range(len(self.families()))]
        family = np.concatenate([np.full(len(v) - 1, k) for k, v in enumerate(values)])
        low, high = (np.concatenate([v[side] for v in values]) for side in (np.s_[:-1], np.s_[1:]))
        ends = self._warps(family, low), self._warps(family, high)
        code, background = fill_code(self.fill)
        return mesh_of(
            rows, shape, ends, self.turned(low, high), code, background, bool(self.unitary), points
        )

    def refined(
        self,
        rows: np.ndarray,
        points: np.ndarray,
        index: np.ndarray,
        score: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Members moved between their neighbors on the grid to a larger score.

        The neighbors halve in each step.
        """
        if not len(points):
            return points
        shape = self._shape(rows.shape[1])
        table, n_families = self._table(), len(self.families())
        family, value = table.family[index], table.value[index]
        unchanged = family < 0
        reached = score(points)
        # The identity belongs to all families at once.
        for k in range(n_families if np.any(unchanged) else 1):
            now = np.where(unchanged, k, family)
            low, high = self._around(now, value)
            if k > 0:
                low, high = np.where(unchanged, low, value), np.where(unchanged, high, value)
            best, ends, change = value.copy(), (low, high), self._changed_by(rows, shape, now)
            for _ in range(_HALVINGS):
                ends = halve(change, score, best, ends, points, reached)
        return points

    def _neighbors(self, family: int) -> np.ndarray:
        """Values of a family in the cover, with that of no change if the interval has it."""
        low, high = self._ends()
        values = np.linspace(low, high, self.resolution)
        inside = low <= self.neutral <= high
        return np.unique(np.r_[values, self.neutral] if inside else values)

    def _around(self, family: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The neighbors of a value on the grid of its family."""
        low, high = value.copy(), value.copy()
        for k in range(len(self.families())):
            mine = np.flatnonzero(family == k)
            values = self._neighbors(k)
            place = np.argmin(np.abs(values - value[mine, None]), axis=1)
            near = np.isclose(values[place], value[mine], rtol=0, atol=1e-12)
            mine, place = mine[near], place[near]
            low[mine] = values[np.maximum(place - 1, 0)]
            high[mine] = values[np.minimum(place + 1, len(values) - 1)]
        return low, high

    def _changed_by(
        self, rows: np.ndarray, shape: ImageShape, family: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """From a value for each row to the rows as members of the families named."""
        return lambda values: self._changed(rows, shape, self._warps(family, values)[:, None])[:, 0]

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether `z` is a member, up to rounding; with `interval`, by a search for its value."""
        near = 10.0 * rounding(x, z)
        members = self._all_members(x[None, :])[0]
        if np.any(np.max(np.abs(members - z), axis=1, initial=0.0) <= near):
            return True
        return not self.finite and self._fits(x, z, near)

    def _fits(self, x: np.ndarray, z: np.ndarray, near: float) -> bool:
        rows, shape = self._rows(x[None, :])
        steps = np.linspace(*self._ends(), max(257, 8 * max(shape.height, shape.width)))

        for k in range(len(self.families())):
            family = np.full(len(steps), k)
            warps = self._once(("steps", k, shape), partial(self._warps, family, steps))
            points = self._changed(rows, shape, warps[None])[0]

            def change(values: np.ndarray, k: int = k) -> np.ndarray:
                same = np.repeat(rows, len(values), axis=0)
                return self._changed_by(same, shape, np.full(len(values), k))(values)

            if passes_by(z, near, steps, points, change, smooth=self.order > 0):
                return True
        return False

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Members at random, with `distribution` and `spread` over the parameter, (n, n_draws, d).

        Of a finite set each member, the identity among them, is drawn with a probability
        proportional to the density at its value; of an interval values are drawn, with all families
        alike.
        """
        check_draw(n_draws, rng)
        rows, shape = self._rows(X)
        many = len(rows), n_draws
        if self.finite:
            shares = self._shares()
            return self._maps(shape).apply(rows, rng.choice(len(shares), many, p=shares))
        return self._changed(rows, shape, self._drawn_warps(many, rng))

    def _shares(self) -> np.ndarray:
        """The probabilities of the members of a finite set, by the density at their values."""
        logs = log_density(self.distribution, self._table().value, self.neutral, self.spread)
        shares = np.exp(logs - np.max(logs))
        return shares / np.sum(shares)

    def _drawn_warps(self, many: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Warps of random members of a continuous set, (*many, 6)."""
        family = rng.integers(len(self.families()), size=many)
        value = draw(self.distribution, *self._ends(), self.neutral, self.spread, many, rng)
        return self._warps(family.ravel(), value.ravel()).reshape(*many, 6)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        oracle = self._prepared()
        shape = oracle._rows(X)[1]
        table, families = oracle._table(), oracle.families()
        pairs = zip(table.family[1:], table.value[1:], strict=True)
        names = ["identity", *(oracle.describe(families[k], float(value)) for k, value in pairs)]
        if self.finite:
            return MovedImages(X, oracle._maps(shape), names, oracle._shares())
        return CoverOfImages(oracle, X, oracle._maps(shape), names)

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """See `InvarianceOracle.draws`; of maps that are made once."""
        if self.finite:
            return super()._draws(X, n_draws, random_state)
        rng, shape = np.random.default_rng(random_state), self._rows(X)[1]
        warps = self._drawn_warps((n_draws,), rng)
        maps = image_maps(shape, warps, self.order, self.fill, bool(self.unitary))
        return MovedImages(X, maps, draw_names(n_draws))

    def quadrature(self, nodes: int, rule: str | None = None) -> Weighted:
        """Listed values of a continuous set, whose weights give the means over its `distribution`.

        Parameters
        ----------
        nodes : int
            How many values each family has.
        rule : {None, "gauss", "spaced"}
            "gauss" is exact for polynomials of the value (lognormal: of its logarithm) of degree up to
            ``2 * nodes - 1``. "spaced" are values at equal distances with weights by the density: the
            rule for whole turns, uniform (exact for frequencies below `nodes`) or "vonmises". None
            chooses it there, if the distance is at most 1.5 `spread`; else None is "gauss".

        Returns
        -------
        Weighted
            All families alike. The identity has weight only if it is a node.

        Raises
        ------
        TypeError, ValueError
            Without `interval`, or if the number or the rule is none.

        Examples
        --------
        >>> from structinv.oracles import Rotations
        >>> Rotations(interval=(-180, 180)).quadrature(4).weights
        array([0.25, 0.25, 0.25, 0.25])
        """
        check_rule(nodes, rule)
        self.validate()
        if self.interval is None:
            raise ValueError(f"quadrature needs interval, got {self!r}, whose values are listed")
        low, high = self._ends()
        families = np.arange(len(self.families()))
        first, last = (self._warps(families, np.full(len(families), end)) for end in (low, high))
        values, shares = nodes_and_weights(
            nodes,
            rule,
            (low, high),
            (self.distribution, self.neutral, self.spread),
            periodic=bool(np.max(np.abs(first - last)) <= 1e-12),
        )
        listed = clone(self).set_params(**{"interval": None, self.parameter: values.tolist()})
        table, each = listed._table(), np.repeat(shares, len(families)) / len(families)
        return Weighted(listed, np.bincount(table.place[1:], each, len(table.value)))

    def tangents(self, X: Matrix) -> np.ndarray:
        """Derivatives at no change, (n, t, d), per unit of the parameter, one for each family.

        Central differences of the interpolated image; the image is smoothed by a Gaussian of
        standard deviation `smoothing` first (Simard et al. 1998), and differentiated with order 1 if
        `order` is 0.
        """
        rows, shape = self._rows(X)
        warps, steps = [], []
        for family in self.tangent_families():
            near = self.neutral + np.array([1e-4, -1e-4])
            step = step_of(shape, warps_of(*self._geometry(family, near)), 2e-4)
            values = np.array([self.neutral + step, self.neutral - step])
            warps.append(warps_of(*self._geometry(family, values)))
            steps.append(values[0] - values[1])
        order, size = max(self.order, 1), len(steps)
        maps = image_maps(shape, np.concatenate(warps), order, self.fill, bool(self.unitary))
        images = smoothed(rows, shape, self.smoothing, self.fill)
        both = maps.apply(images, np.tile(np.arange(2 * size), (len(rows), 1)))
        both = both.reshape(len(rows), size, 2, shape.size)
        return ((both[:, :, 0] - both[:, :, 1]) / np.array(steps)[:, None]).astype(rows.dtype)
