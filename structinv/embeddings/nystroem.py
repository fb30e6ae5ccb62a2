"""Nystroem's features of kernels between orbits."""

from __future__ import annotations

import numpy as np

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_matrix
from ..kernels.indefinite import trained_kernel
from ..oracles import InvarianceOracle
from ..oracles.changes import Changes
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer
from .base import KernelFeatures
from .landmarks import LANDMARKS, inverse_root
from .responses import VALUES

# Rows whose kernel with the landmarks is held at once, at least.
ROWS_AT_ONCE = 1024


class OrbitNystroem(KernelFeatures):
    r"""Nystroem's features of a kernel between orbits.

    .. math:: \phi(x) = K(Z, Z)^{-1/2} K(Z, x)

    with landmarks Z and ``K(x, x') = E k(g x, g' x')``, `structinv.kernels.OrbitMean` (Raj, Kumar,
    Mroueh, Fletcher and Schoelkopf 2017, eq. 8; Williams and Seeger 2001). Inner products of features
    are those of the projections onto the span of the landmarks, and exact where that holds all rows.

    Any kernel will do, and the error falls faster than that of `OrbitFourier` where the eigenvalues of
    the kernel's matrix do. Landmarks alone move where changes keep inner products; else rows move, too.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        See `InvarianceOracle.changes` and `draws`; nothing changes by default. Oracles that depend on
        labels are refused.
    kernel : Kernel, optional
        ``Gaussian()`` by default.
    n_components : int, default=100
        How many landmarks there are, and columns of the features; at most the number of rows.
    landmarks : {"random", "kmeans", "leverage"}, default="random"
        Rows, all alike likely; centers of k-means (Zhang, Tsang and Kwok 2008), which are no rows; or
        rows by ridge leverage scores (Alaoui and Mahoney 2015), which a uniform sample of four rows a
        landmark estimates (Musco and Musco 2017), at the price of the kernel of all rows with that
        sample.
    layers : {1, 2}, default=1
        With 2 the kernel is `structinv.kernels.OrbitDistance` of width `tau`.
    n_draws : int, optional
        How many changes to draw; without it all members that the oracle lists, by their weights.
    tau : float, default=1.0
        Width of the second layer, above 0.
    random_state : int, RandomState or None, default=0
        Landmarks and drawn changes depend on it. Changes are those of ``OrbitMean(...,
        random_state=seed_)``.

    Attributes
    ----------
    landmarks_ : (n_components, n_features) array
    landmark_indices_ : (n_components,) array of int
        The rows of `fit` that they are; empty for "kmeans".
    normalization_ : (n_components, n_components) array
        ``K(Z, Z)^(-1/2)``, symmetric. Eigenvalues below ``n_components * eps`` times the largest count
        as 0, and so do their inverses: the columns stay as many, and span fewer dimensions.
    rank_ : int
        How many eigenvalues count.
    kernel_error_ : KernelError
        ``spectral`` and ``frobenius``: relative errors of inner products against the exact kernel, on
        at most 100 rows of `fit` that are no landmarks, if there are such, and on fewer where changes
        are many. See `kernel_error`.
    orbit_kernel_ : OrbitMean or OrbitDistance
        The kernel K.
    min_eigenvalue_ : float or None
        Of the table of at most 2000 rows of `fit`, before a `spectrum` mends it; None for kernels that
        are positive semi-definite by construction. See `structinv.kernels.SetKernel`.
    oracle_ : InvarianceOracle
    seed_ : int
        `random_state`, or what was drawn from it.
    n_draws_, n_columns_ : int or None, int
        `n_draws` and `n_components`, as they were in `fit`.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Notes
    -----
    What is certified for a linear machine on these features is certified around the features, not
    around the input; see `OrbitFourier`.

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

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        kernel: Kernel | None = None,
        n_components: int = 100,
        *,
        landmarks: str = "random",
        layers: int = 1,
        n_draws: int | None = None,
        tau: float = 1.0,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.layers = layers
        self.n_draws = n_draws
        self.tau = tau
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components)
        if not isinstance(self.landmarks, str) or self.landmarks not in LANDMARKS:
            raise ValueError(f"landmarks must be one of {sorted(LANDMARKS)}, got {self.landmarks!r}")
        self._check_kernel()

    def _learn(self, X: Matrix, changes: Changes, rng: np.random.Generator) -> None:
        if self.n_components > len(X):
            raise ValueError(
                f"n_components must be at most the number of rows, as landmarks come from them, got "
                f"n_components={self.n_components} and n_samples={len(X)}"
            )
        self._learn_kernel()
        kernel, self.min_eigenvalue_ = trained_kernel(self.orbit_kernel_, X, type(self).__name__)
        self.orbit_kernel_ = kernel
        found = LANDMARKS[self.landmarks](X, int(self.n_components), self.orbit_kernel_, rng)
        self.landmarks_, self.landmark_indices_ = found
        self.normalization_, self.rank_ = inverse_root(
            self.orbit_kernel_, self.landmarks_, self.landmarks_.dtype
        )
        self._learn_error(X, self.landmark_indices_, rng)

    def _features(self, X: Matrix) -> np.ndarray:
        found = np.empty((len(X), len(self.landmarks_)), dtype=X.dtype)
        step = max(ROWS_AT_ONCE, 4 * VALUES // len(self.landmarks_))
        for first in range(0, len(X), step):
            rows = slice(first, min(first + step, len(X)))
            values = kernel_matrix(self.orbit_kernel_, np.asarray(X[rows]), self.landmarks_)
            found[rows] = values @ self.normalization_.astype(values.dtype, copy=False)
        return found
