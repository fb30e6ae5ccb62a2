"""Features by the distribution of responses over an orbit: the baseline of orbit kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.changes import Changes
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer
from .base import OrbitFeatures, refuse_sparse
from .responses import Responses, mean_steps
from .templates import check_templates, unit_templates

# Rows, and members of them, that quantiles are taken from.
QUANTILE_ROWS = 1000
QUANTILE_MEMBERS = 10_000
# Gaps between responses, on either side of a quantile, that its threshold is looked for in.
GAPS = 3


class GroupCDF(OrbitFeatures):
    r"""Distributions of the responses of random templates over an orbit, at some thresholds.

    .. math:: \phi(x) = \bigl(P(\langle w_j, g x\rangle \le b_{jk})\bigr)_{j, k}

    (Mroueh, Voinea and Poggio 2015, eq. 7), with templates w_j of length 1 and random direction.
    Columns stand template by template, thresholds ascending. Templates move in the place of rows where
    changes are fixed linear maps; see `OrbitFourier`.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        See `InvarianceOracle.changes` and `draws`; nothing changes by default. Oracles that depend on
        labels are refused.
    n_components : int, default=100
        Columns of the features: `n_bins` for each template, and what is left for the last.
    n_bins : int, default=10
        Thresholds of each template, near the quantiles ``k / (n_bins + 1)`` of its responses to members
        of training rows. Each lies in the middle of a gap between responses, the widest of the six
        that are nearest, so that rounding moves no response across.
    templates : {"orthogonal", "gaussian", "quasi", "fastfood"}, default="gaussian"
        How directions are drawn; see `OrbitFourier`.
    n_draws : int, optional
        How many changes to draw; without it all members that the oracle lists, by their weights.
    random_state : int, RandomState or None, default=0
        Templates, drawn changes and the rows that quantiles are of depend on it.

    Attributes
    ----------
    templates_ : (p, n_features) array
    thresholds_ : (p, n_bins) array
        Infinite where the last template has fewer.
    oracle_ : InvarianceOracle
    seed_ : int
        `random_state`, or what was drawn from it.
    n_draws_, n_columns_ : int or None, int
        `n_draws` and `n_components`, as they were in `fit`.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

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

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        n_components: int = 100,
        *,
        n_bins: int = 10,
        templates: str = "gaussian",
        n_draws: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.oracle = oracle
        self.n_components = n_components
        self.n_bins = n_bins
        self.templates = templates
        self.n_draws = n_draws
        self.random_state = random_state

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
        if not responses.moves_templates:
            refuse_sparse(X, self.oracle_)
        most = max(1, min(QUANTILE_ROWS, QUANTILE_MEMBERS // changes.size))
        values = _all_responses(responses, X[np.sort(rng.permutation(X.shape[0])[:most])])
        weights = np.tile(changes.weights, len(values) // changes.size)
        resolution = 1e3 * float(np.finfo(X.dtype).eps)
        self.thresholds_ = _thresholds(values, weights, bins, resolution)
        left = self.n_columns_ - bins * (size - 1)
        self.thresholds_[-1, :left] = _thresholds(values[:, -1:], weights, left, resolution)
        self.thresholds_[-1, left:] = np.inf

    def _responses(self) -> Responses:
        return self._keep("responses", lambda: Responses(self._changes(), self.templates_))

    def _features(self, X: Matrix) -> np.ndarray:
        responses = self._responses()
        if not responses.moves_templates:
            refuse_sparse(X, self.oracle_)
        return mean_steps(responses, X, self.thresholds_, self.n_columns_)


def _all_responses(responses: Responses, X: Matrix) -> np.ndarray:
    """Of all members of the rows, member by member, to all templates, (n * s, p)."""
    size, p = responses.changes.size, len(responses.templates)
    found = np.empty((X.shape[0], size, p))

    def use(rows: slice, templates: slice, values: np.ndarray) -> None:
        found[rows, :, templates] = values.reshape(len(values), size, -1)

    responses.each(X, use)
    return found.reshape(-1, p)


def _thresholds(values: np.ndarray, weights: np.ndarray, n_bins: int, resolution: float) -> np.ndarray:
    """Thresholds near the quantiles of each column of (m, p) weighted values, (p, n_bins)."""
    order = np.argsort(values, axis=0, kind="stable")
    values = np.take_along_axis(values, order, axis=0)
    below = np.cumsum(weights[order], axis=0) / np.sum(weights)
    margin = resolution * np.max(np.abs(values), axis=0)
    found = np.empty((values.shape[1], n_bins))
    last = max(len(values) - 2, 0)
    for k in range(n_bins):
        place = np.sum(below < (k + 1) / (n_bins + 1), axis=0)
        near = np.clip(place + np.arange(-GAPS, GAPS)[:, None], 0, last)
        low = np.take_along_axis(values, near, axis=0)
        high = np.take_along_axis(values, np.minimum(near + 1, len(values) - 1), axis=0)
        widest = np.argmax(high - low, axis=0)[None]
        low, high = (np.take_along_axis(part, widest, axis=0)[0] for part in (low, high))
        # Where all are one number, it lies below.
        found[:, k] = np.where(high - low > 2.0 * margin, 0.5 * (low + high), high + margin)
    return np.maximum.accumulate(found, axis=1)
