"""Random templates, and the products of transformed rows with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaincinv

from ..kernels import Kernel
from ..kernels.radial import Spectrum, normals
from ..oracles import InvarianceOracle
from ..oracles.changes import Changes
from ..utils import plugins
from ..utils.jit import LEAN, njit
from ..utils.matrices import Matrix, in_threads, one_blas_thread, products


def unit_templates(kind: str, size: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Draw directions of length 1, (size, n_features) of float64."""
    directions = TEMPLATES[kind](normals(1.0), size, n_features, rng)
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def check_templates(kind: Any) -> None:
    """Raise ValueError unless `kind` is the name of a method to draw templates."""
    if not isinstance(kind, str) or kind not in TEMPLATES:
        raise ValueError(f"templates must be one of {sorted(TEMPLATES)}, got {kind!r}")


def spectrum_of(kernel: Kernel, kind: str) -> Spectrum:
    """Return the spectrum of a kernel, for a method to draw templates."""
    spectrum = kernel.spectral_law()
    if not isinstance(spectrum, Spectrum):
        raise TypeError(
            "kernel must be a function of x - y with a known spectrum, such as Gaussian, Laplacian, "
            f"Matern, got {kernel!r}; OrbitNystroem supports any kernel"
        )
    if kind == "orthogonal" and spectrum.scales(np.array([0.5])) is None:
        raise ValueError(
            f"templates='orthogonal' requires a kernel of Euclidean distances, got {kernel!r}; use "
            "'gaussian'"
        )
    return spectrum


def _independent(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw independent frequencies (Rahimi and Recht 2007)."""
    source = plugins.method(spectrum, "frequencies")
    frequencies = spectrum.frequencies(rng.random((size, spectrum.n_uniforms(d))), d)
    return plugins.numbers(source, "frequencies", frequencies, (size, d)).astype(np.float64)


def _orthogonal(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw blocks of d orthogonal directions (Yu et al. 2016)."""
    directions = np.empty((size, d))
    for first in range(0, size, d):
        part = directions[first : first + d]
        basis, triangle = np.linalg.qr(rng.standard_normal((d, len(part))))
        # Without the signs, the basis is not uniformly distributed.
        part[:] = (basis * np.sign(np.diagonal(triangle))).T
    return directions * _lengths(spectrum, size, d, rng)


def _lengths(spectrum: Spectrum, size: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw lengths of d standard normal coordinates, times the spectrum's scales, (size, 1)."""
    source = plugins.method(spectrum, "scales")
    scales = plugins.numbers(source, "scales", spectrum.scales(_stratified(size, rng)), (size,))
    # Quantiles of the chi distribution.
    return (np.sqrt(2.0 * gammaincinv(0.5 * d, _stratified(size, rng))) * scales)[:, None]


def _stratified(size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw uniform numbers in [0, 1), one in each of `size` equal parts, shuffled."""
    return (rng.permutation(size) + rng.random(size)) / size


# Functions that draw frequencies of a kernel's spectrum, (size, d) of float64.
TEMPLATES: dict[str, Callable[[Spectrum, int, int, np.random.Generator], np.ndarray]] = {
    "orthogonal": _orthogonal,
    "gaussian": _independent,
}


# Maximum number of products in memory, per thread.
PRODUCTS = 2**20
# Maximum number of columns of a block of products: transformations times templates.
COLUMNS = 2048
# The number of templates of a block is a multiple of this, the length of vector registers.
VECTOR = 32
# Maximum number of values of rows, and of transformed templates or samples, in memory.
VALUES = 2**20
# Maximum number of values of cached templates. Otherwise, each block of rows transforms the templates
# again, so blocks are larger.
KEPT = 2**25

# Called with rows, templates and their products, (rows, changes * templates), ordered by transformation.
Use = Callable[[slice, slice, np.ndarray], None]


class Responses:
    """Products ``<g x, w>`` of rows x, transformations g and templates w, in blocks.

    If transformations are linear maps T, the templates are transformed once, as
    ``<T x, w> = <x, T'w>``. Otherwise the rows are transformed.

    `oracle` is named in errors. Shapes: `templates` (p, d).
    """

    def __init__(self, changes: Changes, templates: np.ndarray, oracle: InvarianceOracle) -> None:
        self.changes = changes
        self.templates = templates
        self._oracle = oracle
        self._moved: dict[tuple[int, Any], np.ndarray] = {}
        self.moves_templates = self._pull_back(slice(0, 1)) is not None

    def each(self, X: Matrix, use: Use) -> None:
        """Call `use` with all products, possibly from several threads.

        Shapes: `X` (n, d).
        """
        if not self.moves_templates:
            self._each_of_members(X, use)
            return
        n, d = X.shape
        step = self.rows_at_once(d)
        for first in range(0, n, step):
            rows = X[first : first + step]
            for part in self._parts():
                self._multiply(rows, first, part, use)

    def _parts(self) -> list[slice]:
        """Return blocks of templates."""
        p = len(self.templates)
        count = max(1, COLUMNS // self.changes.size)
        # A multiple of the length of vector registers, if possible.
        count -= count % VECTOR if count > VECTOR else 0
        return [slice(first, min(first + count, p)) for first in range(0, p, count)]

    def _multiply(self, rows: Matrix, offset: int, part: slice, use: Use) -> None:
        table = self._table(part, rows.dtype)
        columns = np.ascontiguousarray(table.T) if sp.issparse(rows) else table.T
        step = max(1, PRODUCTS // len(table))

        def work(portion: slice) -> None:
            for first in range(portion.start, portion.stop, step):
                last = min(first + step, portion.stop)
                use(slice(offset + first, offset + last), part, products(rows[first:last], columns))

        n = rows.shape[0]
        with one_blas_thread():
            in_threads(work, n, n * len(table))

    def _table(self, part: slice, dtype: Any) -> np.ndarray:
        """Return the transformed templates of a block, one per row, ordered by transformation."""
        key = (part.start, np.dtype(dtype))
        if key in self._moved:
            return self._moved[key]
        transformed = self._pull_back(part)
        assert transformed is not None
        table = transformed.reshape(-1, transformed.shape[2]).astype(dtype, copy=False)
        if self._caches:
            self._moved[key] = table
        return table

    def rows_at_once(self, width: int) -> int:
        """Return the number of rows of a block, for rows of this number of values.

        Blocks are large if templates are not cached, because each block transforms them again.
        """
        return max(256, (VALUES if self._caches else KEPT) // width)

    @property
    def _caches(self) -> bool:
        return self.changes.size * self.templates.size <= KEPT

    def _pull_back(self, part: slice) -> np.ndarray | None:
        return self.changes.adjoint(self.templates[part])

    def _each_of_members(self, X: Matrix, use: Use) -> None:
        if sp.issparse(X):
            raise TypeError(
                f"X must be dense for {type(self._oracle).__name__}, whose transformations are not "
                "linear maps: pass X.toarray()"
            )
        p, d = self.templates.shape
        size = self.changes.size
        templates = self.templates.astype(X.dtype, copy=False)
        step = max(1, VALUES // (size * max(p, d)))
        every = slice(0, p)
        for first in range(0, X.shape[0], step):
            members = self.changes.on(X[first : first + step]).members().astype(X.dtype, copy=False)
            values = (members.reshape(-1, d) @ templates.T).reshape(len(members), -1)

            def work(portion: slice, values: np.ndarray = values, first: int = first) -> None:
                rows = slice(first + portion.start, first + portion.stop)
                use(rows, every, values[portion])

            in_threads(work, len(members), values.size)


def mean_waves(responses: Responses, X: Matrix, n_columns: int, phase: float) -> np.ndarray:
    """Compute averages of cosines and sines over transformations.

    Shapes: `X` (n, d); returns (n, n_columns).
    """
    features = np.empty((X.shape[0], n_columns), dtype=X.dtype)
    weights = responses.changes.weights * np.sqrt(2.0 / n_columns)
    p = len(responses.templates)

    def use(rows: slice, templates: slice, values: np.ndarray) -> None:
        columns = slice(2 * templates.start, 2 * templates.stop)
        waves = np.empty((len(values), 2 * (templates.stop - templates.start)), dtype=values.dtype)
        _take_waves(values, weights, waves)
        if n_columns < 2 * p == columns.stop:
            cosine, sine = waves[:, -2:].T.astype(np.float64)
            waves[:, -2] = np.cos(phase) * cosine - np.sin(phase) * sine
            waves = waves[:, :-1]
        features[rows, columns] = waves

    responses.each(X, use)
    return features


def mean_steps(responses: Responses, X: Matrix, thresholds: np.ndarray, n_columns: int) -> np.ndarray:
    """Compute probabilities over transformations of products below thresholds.

    Shapes: `X` (n, d), `thresholds` (p, b); returns (n, n_columns).
    """
    bins = thresholds.shape[1]
    features = np.empty((X.shape[0], n_columns), dtype=X.dtype)

    def use(rows: slice, templates: slice, values: np.ndarray) -> None:
        first, levels = bins * templates.start, thresholds[templates]
        _mean_steps(values, responses.changes.weights, levels, first, features[rows])

    responses.each(X, use)
    return features


# For each precision: 1 / (2 pi); a number that rounds to integers by addition and subtraction; pi in
# three parts, the first two so short that their integer multiples are exact; 1; 1/2; the largest
# argument for which this is accurate.
_NUMBERS = {
    np.dtype(precision): tuple(map(precision, (0.5 / np.pi, 1.5 * 2.0**bits, *pi, 1.0, 0.5, far)))
    for precision, bits, pi, far in (
        (np.float64, 52, (3.1415926534682512, 1.215420100718692e-10, 5.825464112186712e-20), 1e6),
        (np.float32, 23, (3.140625, 9.67502593994140625e-4, 1.509957990978376432e-7), 2e4),
    )
}
# Coefficients of ``(sin(t) / t - 1) / u`` and ``(cos(t) - 1) / u`` in ``u = t^2``. Of all polynomials of
# this degree they have the smallest error of sine and cosine up to pi / 2: 1e-16, and 5e-9 for float32.
_SERIES = {
    np.dtype(precision): (tuple(map(precision, sine)), tuple(map(precision, cosine)))
    for precision, sine, cosine in (
        (
            np.float64,
            (
                -0.16666666666665805, 0.008333333333262454, -0.00019841269819988124,
                2.7557316064426647e-06, -2.5051850728927444e-08, 1.604727787932999e-10,
                -7.364367820846044e-13,
            ),
            (
                -0.5, 0.04166666666666652, -0.001388888888886941, 2.4801587293935274e-05,
                -2.755731788167417e-07, 2.0876634840498804e-09, -1.1464737613786456e-11,
                4.627548734705352e-14,
            ),
        ),
        (
            np.float32,
            (-0.166666570585899, 0.008333016355439695, -0.00019806547108, 2.5999032629931153e-06),
            (
                -0.5, 0.04166665572994938, -0.0013888568213314884, 2.476924067629506e-05,
                -2.6192484185488086e-07,
            ),
        ),
    )
}  # fmt: skip


def _take_waves(values: np.ndarray, weights: np.ndarray, features: np.ndarray) -> None:
    """Compute weighted cosines and sines in adjacent columns, in the precision of the values.

    The error of each is at most 4 times the precision: 5e-7 in float32, 9e-16 in float64.
    """
    numbers, (sine, cosine) = _NUMBERS[values.dtype], _SERIES[values.dtype]
    weights = weights.astype(values.dtype, copy=False)
    buffers = np.empty((2, values.shape[1] // len(weights)), dtype=values.dtype)
    _mean_waves(values, weights, buffers, features, numbers, sine, cosine)


@njit(**LEAN)
def _mean_waves(values, weights, buffers, features, numbers, of_sine, of_cosine):
    cosines, sines, n_templates = buffers[0], buffers[1], buffers.shape[1]
    for i in range(values.shape[0]):
        row = values[i]
        cosines[:] = 0
        sines[:] = 0
        if _add_waves(row, weights, cosines, sines, numbers, of_sine, of_cosine):
            cosines[:] = 0
            sines[:] = 0
            for j in range(len(row)):
                k, p = j // n_templates, j % n_templates
                cosines[p] += weights[k] * np.cos(np.float64(row[j]))
                sines[p] += weights[k] * np.sin(np.float64(row[j]))
        for j in range(n_templates):
            features[i, 2 * j] = cosines[j]
            features[i, 2 * j + 1] = sines[j]


# No reassociation: the multiples of pi are subtracted part by part.
@njit(**LEAN, fastmath={"contract"})
def _add_waves(row, weights, cosines, sines, numbers, of_sine, of_cosine):
    """Add weighted cosines and sines without branches; return True if an argument is too large.

    With ``x = 2 n pi + 2 t`` they are those of 2 t, and t lies within pi / 2: no sign depends on n.
    """
    over, rounds, pi_1, pi_2, pi_3, one, half, limit = numbers
    far = False
    for k in range(len(weights)):
        weight, run = weights[k], row[k * len(cosines) : (k + 1) * len(cosines)]
        for j in range(len(cosines)):
            x = run[j]
            far |= not abs(x) < limit
            n = (x * over + rounds) - rounds
            # The first difference is exact, so only the second is rounded.
            t = (half * x - n * pi_1) - (n * pi_2 + n * pi_3)
            u = t * t
            sine = t + t * u * _polynomial(u, of_sine)
            cosine = one + u * _polynomial(u, of_cosine)
            product = weight * sine
            cosines[j] += weight * (cosine * cosine) - product * sine
            sines[j] += (product + product) * cosine
    return far


@njit(**LEAN, fastmath={"contract"})
def _polynomial(u, coefficients):
    total = coefficients[len(coefficients) - 1]
    for k in range(len(coefficients) - 2, -1, -1):
        total = total * u + coefficients[k]
    return total


@njit(cache=True, nogil=True)
def _mean_steps(values, weights, thresholds, first, features):
    """Write weighted fractions of values up to each threshold, in the columns from `first` on."""
    n_templates, bins = thresholds.shape
    n_columns = features.shape[1] - first
    n_columns = n_columns if n_columns < n_templates * bins else n_templates * bins
    for i in range(values.shape[0]):
        for column in range(first, first + n_columns):
            features[i, column] = 0
        for k in range(len(weights)):
            for j in range(n_templates):
                value = values[i, k * n_templates + j]
                # Count the value at the first threshold that is not below it. Cumulative sums follow.
                low = np.searchsorted(thresholds[j], value)
                if low < bins and j * bins + low < n_columns:
                    features[i, first + j * bins + low] += weights[k]
        for column in range(n_columns):
            if column % bins > 0:
                features[i, first + column] += features[i, first + column - 1]
