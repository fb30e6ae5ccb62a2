"""Empirical distributions of random projections over an orbit, as features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.changes import Changes
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer
from .base import OrbitFeatures
from .responses import Responses, check_templates, mean_steps, unit_templates

# Maximum numbers of rows and of transformed samples for the quantiles.
QUANTILE_ROWS = 1000
QUANTILE_MEMBERS = 10_000
# Number of gaps between projections on either side of a quantile in which a threshold may lie.
GAPS = 3


@dataclass(eq=False, repr=False)
class GroupCDF(OrbitFeatures):
    r"""Distribution functions of random projections of an orbit, at thresholds.

    .. math:: \phi(x) = \bigl(P(\langle w_j, g x\rangle \le b_{jk})\bigr)_{j, k}

    (Mroueh, Voinea and Poggio 2015, eq. 7), with templates w_j of length 1 and random direction. The
    columns of a template are adjacent, with ascending thresholds. If transformations are linear maps,
    templates are transformed instead of rows; see `OrbitFourier`.

    Parameters
    ----------
    oracle : object
        Same as in `OrbitFourier`.
    n_components : int, default=100
        Number of columns: `n_bins` for each template; the last template has the remaining columns.
    n_bins : int, default=10
        Number of thresholds per template. They are close to the quantiles ``k / (n_bins + 1)`` of the
        projections of transformed training rows. A threshold is the center of a gap between two
        projections: the widest of the six gaps nearest to the quantile. So rounding does not change the
        features.
    templates : {"orthogonal", "gaussian"}, default="gaussian"
        Method to draw directions. "gaussian": independent. "orthogonal": blocks of orthogonal
        directions.
    n_draws : object
        Same as in `OrbitFourier`.
    random_state : int, RandomState or None, default=0
        Seed of templates, drawn transformations and the rows for quantiles.

    Attributes
    ----------
    templates_ : ndarray of shape (n_templates, n_features)
        Directions of length 1.
    thresholds_ : ndarray of shape (n_templates, n_bins)
        Ascending thresholds; infinite values complete the last row if the last template has fewer.
    oracle_, seed_, n_draws_, n_columns_, n_features_in_, feature_names_in_
        Fitted attributes of `OrbitFourier`.

    See Also
    --------
    OrbitFourier : Random features of an invariant kernel.
    OrbitNystroem : Landmark features of an invariant kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.embeddings import GroupCDF
    >>> from structinv.oracles import Rotations
    >>> images = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 1.0]])
    >>> F = GroupCDF(Rotations((90, 180, 270)), n_components=6, n_bins=3).fit_transform(images)
    >>> F[0].tolist() == F[1].tolist(), bool(np.all(np.diff(F.reshape(3, 2, 3), axis=2) >= 0))
    (True, True)
    """

    oracle: InvarianceOracle | None = None
    n_components: int = 100
    _: KW_ONLY
    n_bins: int = 10
    templates: str = "gaussian"
    n_draws: int | None = None
    random_state: int | np.random.RandomState | None = 0

    def _check_parameters(self) -> None:
        check_integer("n_bins", self.n_bins)
        check_integer("n_components", self.n_components)
        check_templates(self.templates)

    @property
    def _rows(self) -> dict[str, Any]:
        return super()._rows | {"accept_sparse": "csr"}

    def _learn(self, X: Matrix, changes: Changes, rng: np.random.Generator) -> None:
        bins = min(int(self.n_bins), self.n_columns_)
        size = -(-self.n_columns_ // bins)
        self.templates_ = unit_templates(self.templates, size, X.shape[1], rng)
        responses = self._responses()
        most = max(1, min(QUANTILE_ROWS, QUANTILE_MEMBERS // changes.size))
        values = _all_responses(responses, X[np.sort(rng.permutation(X.shape[0])[:most])])
        weights = np.tile(changes.weights, len(values) // changes.size)
        resolution = 1e3 * float(np.finfo(X.dtype).eps)
        self.thresholds_ = _thresholds(values, weights, bins, resolution)
        left = self.n_columns_ - bins * (size - 1)
        self.thresholds_[-1, :left] = _thresholds(values[:, -1:], weights, left, resolution)
        self.thresholds_[-1, left:] = np.inf

    def _responses(self) -> Responses:
        return self._keep("responses", lambda: Responses(self._changes(), self.templates_, self.oracle_))

    def _features(self, X: Matrix) -> np.ndarray:
        return mean_steps(self._responses(), X, self.thresholds_, self.n_columns_)


def _all_responses(responses: Responses, X: Matrix) -> np.ndarray:
    """Return the projections of all transformed rows on all templates, (n * s, p)."""
    size, p = responses.changes.size, len(responses.templates)
    projections = np.empty((X.shape[0], size, p))

    def use(rows: slice, templates: slice, values: np.ndarray) -> None:
        projections[rows, :, templates] = values.reshape(len(values), size, -1)

    responses.each(X, use)
    return projections.reshape(-1, p)


def _thresholds(values: np.ndarray, weights: np.ndarray, n_bins: int, resolution: float) -> np.ndarray:
    """Return thresholds near the quantiles of the columns of values (m, p), (p, n_bins)."""
    order = np.argsort(values, axis=0, kind="stable")
    values = np.take_along_axis(values, order, axis=0)
    below = np.cumsum(weights[order], axis=0) / np.sum(weights)
    margin = resolution * np.max(np.abs(values), axis=0)
    thresholds = np.empty((values.shape[1], n_bins))
    last = max(len(values) - 2, 0)
    for k in range(n_bins):
        place = np.sum(below < (k + 1) / (n_bins + 1), axis=0)
        near = np.clip(place + np.arange(-GAPS, GAPS)[:, None], 0, last)
        low = np.take_along_axis(values, near, axis=0)
        high = np.take_along_axis(values, np.minimum(near + 1, len(values) - 1), axis=0)
        widest = np.argmax(high - low, axis=0)[None]
        low, high = (np.take_along_axis(part, widest, axis=0)[0] for part in (low, high))
        # If all values are equal, the threshold is just above them.
        thresholds[:, k] = np.where(high - low > 2.0 * margin, 0.5 * (low + high), high + margin)
    return np.maximum.accumulate(thresholds, axis=1)
