"""Nyström features of invariant kernels, and their landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import numpy as np

from ..kernels import Kernel
from ..kernels.indefinite import trained_kernel
from ..kernels.kernel_values import kernel_matrix
from ..oracles import InvarianceOracle
from ..oracles.changes import Changes
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer
from .base import KernelFeatures
from .responses import VALUES

Landmarks = tuple[np.ndarray, np.ndarray]


def _random(X: np.ndarray, size: int, rng: np.random.Generator) -> Landmarks:
    chosen = np.sort(rng.choice(len(X), size, replace=False))
    return np.array(X[chosen]), chosen


def _kmeans(X: np.ndarray, size: int, rng: np.random.Generator) -> Landmarks:
    from sklearn.cluster import MiniBatchKMeans  # takes a while to import

    seed = int(rng.integers(2**31 - 1))
    batch = max(1024, 2 * size)
    means = MiniBatchKMeans(size, random_state=seed, n_init=1, batch_size=batch).fit(X)
    return means.cluster_centers_.astype(X.dtype, copy=False), np.zeros(0, dtype=np.intp)


def inverse_root(
    kernel: Kernel, landmarks: np.ndarray, precision: np.dtype | type[np.floating]
) -> tuple[np.ndarray, int]:
    """Compute ``K(Z, Z)^(-1/2)`` of landmarks Z, (m, d), and its rank.

    Shapes: `landmarks` (m, d); returns `root` (m, m).
    """
    # There are few landmarks, so float64 is cheap here.
    points = landmarks.astype(np.float64)
    matrix = kernel_matrix(kernel, points, points)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    nonzero = values > len(values) * np.finfo(precision).eps * max(values[-1], 0.0)
    roots = vectors[:, nonzero] / np.sqrt(values[nonzero])
    return roots @ vectors[:, nonzero].T, int(np.sum(nonzero))


LANDMARKS: dict[str, Callable[[np.ndarray, int, np.random.Generator], Landmarks]] = {
    "random": _random,
    "kmeans": _kmeans,
}


# Minimum number of rows whose kernel with the landmarks is computed at once.
ROWS_AT_ONCE = 1024


@dataclass(eq=False, repr=False)
class OrbitNystroem(KernelFeatures):
    r"""Nyström features of an invariant kernel.

    .. math:: \phi(x) = K(Z, Z)^{-1/2} K(Z, x)

    with landmarks Z and ``K(x, x') = E k(g x, g' x')``, the kernel `structinv.kernels.OrbitMean`. See
    Raj, Kumar, Mroueh, Fletcher and Schölkopf 2017, eq. 8, and Williams and Seeger 2001. Inner products
    of features are inner products of projections onto the span of the landmarks. They are exact for
    samples in that span.

    Any kernel is supported. The error decreases faster than that of `OrbitFourier` if the eigenvalues of
    the kernel matrix decrease fast. Only the landmarks are transformed if the transformations preserve
    inner products; otherwise rows are transformed as well.

    Parameters
    ----------
    oracle, kernel : object
        Same as in `OrbitFourier`, but for any kernel.
    n_components : int, default=100
        Number of landmarks and of columns; at most the number of rows.
    landmarks : {"random", "kmeans"}, default="random"
        Method to select landmarks. "random": rows with equal probabilities. "kmeans": cluster centers
        (Zhang, Tsang and Kwok 2008).
    layers : {1, 2}, default=1
        Number of layers. With 2 the kernel is `structinv.kernels.OrbitDistance` of length scale `tau`.
    n_draws, tau : object
        Same as in `OrbitFourier`.
    random_state : int, RandomState or None, default=0
        Seed of landmarks and drawn transformations. The transformations are those of
        ``OrbitMean(..., random_state=seed_)``.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_components, n_features)
        The landmarks Z.
    landmark_indices_ : ndarray of int of shape (n_components,)
        Row numbers of the landmarks in `fit`; empty for "kmeans".
    normalization_ : ndarray of shape (n_components, n_components)
        The symmetric root ``K(Z, Z)^(-1/2)``. Eigenvalues below ``n_components * eps`` times the largest
        and their inverses count as 0. The number of columns stays the same.
    rank_ : int
        Number of nonzero eigenvalues.
    kernel_error_ : KernelError
        Relative errors ``spectral`` and ``frobenius`` of inner products compared with the exact kernel.
        They are computed on at most 100 rows of `fit`, without landmarks, or fewer if there are many
        transformations.
    orbit_kernel_ : OrbitMean or OrbitDistance
        The kernel K.
    min_eigenvalue_ : float or None
        Smallest eigenvalue of the kernel matrix of at most 2000 rows of `fit`, before a spectrum
        correction. None for kernels that are positive semi-definite by construction.
    oracle_, seed_, n_draws_, n_columns_, n_features_in_, feature_names_in_
        Fitted attributes of `OrbitFourier`.

    See Also
    --------
    OrbitFourier : Random features, for kernels with a known spectrum.
    structinv.kernels.OrbitMean : The exact kernel.

    Notes
    -----
    A certificate of a linear model on these features holds for perturbations of the features, not of the
    input; see `OrbitFourier`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.embeddings import OrbitNystroem
    >>> from structinv.kernels import Gaussian
    >>> from structinv.oracles import Rotations
    >>> images = np.array([[1.0, 0.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 1.0]])
    >>> features = OrbitNystroem(Rotations((90, 180, 270)), Gaussian(2.0), n_components=3)
    >>> F = features.fit_transform(images)
    >>> bool(np.allclose(F @ F.T, features.orbit_kernel_.matrix(images, images)))
    True
    """

    oracle: InvarianceOracle | None = None
    kernel: Kernel | None = None
    n_components: int = 100
    _: KW_ONLY
    landmarks: str = "random"
    layers: int = 1
    n_draws: int | None = None
    tau: float = 1.0
    random_state: int | np.random.RandomState | None = 0

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components)
        if not isinstance(self.landmarks, str) or self.landmarks not in LANDMARKS:
            raise ValueError(f"landmarks must be one of {sorted(LANDMARKS)}, got {self.landmarks!r}")
        self._check_kernel()

    def _learn(self, X: Matrix, changes: Changes, rng: np.random.Generator) -> None:
        if self.n_components > len(X):
            raise ValueError(
                "n_components must be at most the number of samples, because landmarks are samples, "
                f"got n_components={self.n_components} and n_samples={len(X)}"
            )
        self._learn_kernel()
        kernel, self.min_eigenvalue_ = trained_kernel(self.orbit_kernel_, X, type(self).__name__)
        self.orbit_kernel_ = kernel
        select = LANDMARKS[self.landmarks]
        self.landmarks_, self.landmark_indices_ = select(X, int(self.n_components), rng)
        self.normalization_, self.rank_ = inverse_root(
            self.orbit_kernel_, self.landmarks_, self.landmarks_.dtype
        )
        self._learn_error(X, self.landmark_indices_, rng)

    def _features(self, X: Matrix) -> np.ndarray:
        features = np.empty((len(X), len(self.landmarks_)), dtype=X.dtype)
        step = max(ROWS_AT_ONCE, 4 * VALUES // len(self.landmarks_))
        for first in range(0, len(X), step):
            rows = slice(first, min(first + step, len(X)))
            values = kernel_matrix(self.orbit_kernel_, np.asarray(X[rows]), self.landmarks_)
            features[rows] = values @ self.normalization_.astype(values.dtype, copy=False)
        return features
