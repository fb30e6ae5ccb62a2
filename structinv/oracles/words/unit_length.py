"""Edits of the words of rows that keep their length, such as TF-IDF rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import (
    Matrix,
    contiguous_writable,
    dense_rows,
    floating,
    in_threads,
    longest_row,
    rounding,
    with_data,
)
from ...utils.parameters import brief
from ..arguments import check_directions, chosen_features
from ..base import CountedChanges, InvarianceOracle, Support
from ..combinators import counted_inside, validate_part
from ..protected import Protected
from ..ratio_kernels import skyband
from .bound_edits import WordEdits, canonical_words
from .edits import EditOracle, FAdd, FDrop, FEdit, FScale
from .unit_kernels import worst_of_length

# Relative tolerance of the search.
_TOLERANCE = 1e-9
_KINDS = FDrop, FScale, FAdd, FEdit


class UnitLength(InvarianceOracle):
    r"""Edits of features of rows that are divided by their length, such as TF-IDF.

    .. math:: S(x) = \{ |x| \, z / |z| : z \in S_{oracle}(x) \}

    All perturbed samples have the length of the sample: 1 for rows of unit length. An edited feature
    changes all others. If all features are removed, the row is zero. A row of zeros has the length 1
    after additions.

    Parameters
    ----------
    oracle : InvarianceOracle
        `FDrop`, `FScale`, `FAdd` or `FEdit`, or `Protected` of one of these. Apply `only_for` and
        ``|`` to the result.
    norm : {"l1", "l2"}, default="l2"
        Length: the sum of absolute values, or the Euclidean length. Pass the norm of the vectorizer.

    See Also
    --------
    FDrop : Removal of features without division.
    TokenEdits : Edits of the tokens of a text, with their exact counts.

    Notes
    -----
    Support functions are exact for ``norm="l1"``. For ``norm="l2"``, they are nearly exact if the
    largest product is positive. Otherwise `Support.upper` is a bound with the correct sign.
    The certified accuracy of two-class models without intercept is therefore exact.

    The value of an addition has the unit of the given row. In a text of length L before the division,
    an inserted word has the value idf / L. S(x) contains all smaller values: ``value=idf / L`` is
    sufficient for all texts of length L or more. `TokenEdits` has the exact values.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import FDrop, UnitLength
    >>> X, v = np.array([[0.6, 0.8, 0.0]]), np.array([[1.0, -1.0, 5.0]])
    >>> UnitLength(FDrop(max_changes=1)).support(X, v, np.array([0])).points
    array([[1., 0., 0.]])
    """

    supports_sparse = True

    def __init__(self, oracle: InvarianceOracle, norm: str = "l2") -> None:
        self.oracle = oracle
        self.norm = norm

    def validate(self, n_features: int | None = None) -> None:
        validate_part("oracle", self.oracle, n_features)
        if type(self._layers()[-1]) not in _KINDS:
            raise ValueError(
                "UnitLength: oracle must be FDrop, FScale, FAdd or FEdit, or Protected of one of these, "
                f"got {self.oracle!r}: apply only_for and | to UnitLength(...)"
            )
        if self.norm not in ("l1", "l2"):
            raise ValueError(f"norm must be 'l1' or 'l2', got {brief(self.norm)}")

    def _layers(self) -> list[InvarianceOracle]:
        """Return the protections, and last the oracle of the edits."""
        layers = [self.oracle]
        while isinstance(layers[-1], Protected):
            layers.append(layers[-1].oracle)
        return layers

    def _edits(self, n_features: int) -> tuple[WordEdits, np.ndarray, np.ndarray]:
        """Return the allowed edits, the largest increases, and the mask of protected features."""
        *protections, part = self._layers()
        fixed = np.zeros(n_features, dtype=bool)
        for protection in protections:
            fixed[chosen_features(protection.features, n_features)] = True
        assert isinstance(part, EditOracle)
        edits = part.edits(n_features)
        return edits, np.where(fixed, 0.0, edits.value) if edits.adds else np.empty(0), fixed

    def counted(self) -> CountedChanges | None:
        found = counted_inside(self.oracle, lambda part: UnitLength(part, self.norm))
        return None if found is None else replace(found, norm=self.norm)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        edits, value, fixed = self._edits(X.shape[1])
        rows = canonical_words(X)
        if rows.dtype != np.float64:
            rows = rows.astype(np.float64)
        if not rows.data.all():
            rows = rows.copy()
            rows.eliminate_zeros()
        n, longest = rows.shape[0], longest_row(rows.indptr)
        most = min(edits.max_changes, rows.shape[1] if value.size else longest)
        V, assign = map(contiguous_writable, (np.asarray(V, dtype=np.float64), np.asarray(assign)))
        where, words = _listed(V, value, most + longest)
        size = rows.nnz + n * (len(words) // len(V))
        (values, upper), edited = np.empty((2, n)), np.empty(rows.nnz)
        added, raised = np.empty((n, most), dtype=np.int64), np.empty((n, most))
        n_added = np.zeros(n, dtype=np.int64)

        def maximize(part: slice) -> None:
            worst_of_length(
                rows.indptr[part.start : part.stop + 1], rows.indices, rows.data, V, assign[part], most,
                edits.low, edits.high, value, value.max(initial=0.0), edits.present and value.size > 0,
                fixed, where, words, self.norm == "l1", _TOLERANCE, values[part], upper[part], edited,
                added[part], raised[part], n_added[part],
            )  # fmt: skip

        in_threads(maximize, n, 8 * size)
        points = with_data(rows, edited)
        if value.size:
            chosen = np.arange(most) < n_added[:, None]
            indptr = np.concatenate([[0], np.cumsum(n_added)])
            additions = sp.csr_matrix((raised[chosen], added[chosen], indptr), shape=rows.shape)
            additions.sort_indices()
            points = points + additions
        points = points.astype(floating(X).dtype, copy=False)
        return Support(points if sp.issparse(X) else points.toarray(), upper)

    def _lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.linalg.norm(rows, ord=int(self.norm[1]), axis=-1)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        self._check_rows(X)
        members, wanted = self.oracle.sample(X, n_draws, rng), self._lengths(dense_rows(X))
        lengths, wanted = self._lengths(members), np.where(wanted > 0, wanted, 1.0)
        factors = wanted[:, None] / np.where(lengths > 0, lengths, 1.0)
        return (members * factors[:, :, None]).astype(members.dtype, copy=False)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        if not z.any():
            return self.oracle.contains(x, z)
        edits, value, fixed = self._edits(len(x))
        wanted = self._lengths(x) if x.any() else 1.0
        if abs(self._lengths(z) - wanted) > rounding(x, z):
            return False
        raised = np.where((x == 0) | edits.present, value, 0.0) if value.size else np.zeros(len(x))
        edges = np.where(fixed, x, np.stack([x, edits.low * x, edits.high * x, x + raised]))
        # If a factor leads to a member of the inner set, then also one that leads to an edge.
        used = z != 0
        factors = np.unique(edges[:, used] / z[used])
        return any(self.oracle.contains(x, factor * z) for factor in factors[factors > 0])


def _listed(V: np.ndarray, value: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features that may be among the `most` best additions of each direction.

    A feature with at least the weight and the value of another one has at least its gain. The features
    of a direction have falling weights.
    """
    words = np.flatnonzero(value)
    order = words[np.argsort(-value[words], kind="stable")]
    parts = [np.empty(len(order), dtype=np.int64) for _ in V]
    for v, kept in zip(V, parts, strict=True):
        number = skyband(v, value, order, most, kept) if len(order) else 0
        kept.resize(number, refcheck=False)
        kept[:] = kept[np.argsort(-v[kept], kind="stable")]
    where = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return where, np.concatenate([*parts, np.empty(0, dtype=np.int64)])
