"""Random Fourier features of invariant kernels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..kernels import Kernel
from ..kernels.radial import normals
from ..oracles import Identity, InvarianceOracle
from ..oracles.changes import Changes
from ..oracles.listed_changes import averaged
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer
from .base import KernelFeatures
from .responses import TEMPLATES, Responses, check_templates, mean_waves, spectrum_of


@dataclass(eq=False, repr=False)
class OrbitFourier(KernelFeatures):
    r"""Random Fourier features of an invariant kernel.

    .. math:: \phi(x) = (2 / D)^{1/2}\,
        \bigl(E \cos\langle w_j, g x\rangle,\ E \sin\langle w_j, g x\rangle\bigr)_{j = 1, \dots, D / 2}

    The templates w_j are drawn from the spectrum of a kernel k of ``x - y``, and the average is over
    the transformations g of an oracle. See Raj, Kumar, Mroueh, Fletcher and Schölkopf 2017, eq. 7, and
    Rahimi and Recht 2007.

    The mean of ``<phi(x), phi(x')>`` is ``K(x, x') = E k(g x, g' x')``, the kernel
    `structinv.kernels.OrbitMean`. The error decreases like ``D^(-1/2)`` with the number of columns.

    Transformations of images with background 0 are linear maps T, so ``<w, T x> = <T'w, x>``. The
    templates are then transformed instead of the rows. For s transformations and n rows, this gives s
    transformed copies of each template, instead of n s transformed rows. For other transformations the
    rows are transformed in blocks.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        Transformations, either a finite list or a distribution for `n_draws`; by default none. The
        oracle must not depend on labels.
    kernel : Kernel, optional
        Gaussian, Laplacian, Matern, or another kernel with `Kernel.spectral_law`; by
        default ``Gaussian()``. Sums and products have no known spectrum.
    n_components : int, default=100
        Number of columns. Cosine and sine of a template are adjacent. For an odd number the last column
        is ``cos(<w, x> + b)`` with a random phase b.
    layers : {1, 2}, default=1
        Number of layers. With 2, the columns are Fourier features of the first layer's features, for a
        Gaussian of length scale `tau`. They approximate `structinv.kernels.OrbitDistance`.
    templates : {"orthogonal", "gaussian"}, default="orthogonal"
        Method to draw templates. "gaussian": independently from the spectrum. "orthogonal": blocks of
        orthogonal directions with stratified lengths (Yu et al. 2016). "orthogonal" requires a kernel of
        Euclidean distances, so it does not support `Laplacian`.
    n_draws : int, optional
        Number of randomly drawn transformations (>= 1). By default the average is over all perturbed
        samples of the oracle's list, with their weights.
    tau : float, default=1.0
        Length scale (> 0) of the second layer.
    random_state : int, RandomState or None, default=0
        Seed of templates and drawn transformations. The transformations are those of
        ``OrbitMean(..., random_state=seed_)``.

    Attributes
    ----------
    templates_ : ndarray of shape (n_templates, n_features)
        Templates before their transformation.
    second_templates_ : ndarray of shape (n_templates, n_components)
        Templates of the second layer; only with two layers.
    phases_ : ndarray of shape (layers,)
        Phases in [0, 2 pi) of the last column of each layer, for odd numbers of columns.
    kernel_error_ : KernelError
        Relative errors ``spectral`` and ``frobenius`` of inner products compared with the exact kernel.
        They are computed on at most 100 rows of `fit`, or fewer if there are many transformations.
    orbit_kernel_ : OrbitMean or OrbitDistance
        The exact kernel.
    oracle_ : InvarianceOracle
        The oracle of `fit`.
    seed_ : int
        `random_state`, or an integer drawn from it.
    n_draws_ : int or None
        `n_draws` of `fit`.
    n_columns_ : int
        `n_components` of `fit`.
    n_features_in_ : int
        Number of features of `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features of `fit`; only if all are strings.

    See Also
    --------
    OrbitNystroem : Landmark features, for any kernel.
    structinv.kernels.OrbitMean : The exact kernel.

    Notes
    -----
    Transformed templates are cached up to 270 MB; larger ones are computed again for each block of rows.
    Pickles and model files do not contain them. Sparse CSR rows are supported if templates are
    transformed.

    `InvariantLinearSVC` on these features is certified for perturbations of the features. Such a
    certificate does not hold for the input, because the features are not linear in it. So
    `structinv.certify` does not support them with ``at="input"``.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.embeddings import OrbitFourier
    >>> from structinv.kernels import Gaussian
    >>> from structinv.oracles import Rotations
    >>> images = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 1.0]])
    >>> features = OrbitFourier(Rotations((90, 180, 270)), Gaussian(2.0), n_components=500)
    >>> F = features.fit_transform(images)
    >>> bool(np.allclose(F[0], F[1])), F.shape
    (True, (3, 500))
    >>> bool(np.max(np.abs(F @ F.T - features.orbit_kernel_.matrix(images, images))) < 0.05)
    True
    """

    oracle: InvarianceOracle | None = None
    kernel: Kernel | None = None
    n_components: int = 100
    _: KW_ONLY
    layers: int = 1
    templates: str = "orthogonal"
    n_draws: int | None = None
    tau: float = 1.0
    random_state: int | np.random.RandomState | None = 0

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components)
        check_templates(self.templates)
        spectrum_of(self._check_kernel(), self.templates)

    @property
    def _rows(self) -> dict[str, Any]:
        return super()._rows | {"accept_sparse": "csr"}

    def _learn(self, X: Matrix, changes: Changes, rng: np.random.Generator) -> None:
        spectrum = spectrum_of(self._learn_kernel(), self.templates)
        columns = int(self.n_components)
        draw = TEMPLATES[self.templates]
        self.templates_ = draw(spectrum, -(-columns // 2), X.shape[1], rng)
        self.__dict__.pop("second_templates_", None)
        if self.layers == 2:
            self.second_templates_ = draw(normals(self.tau), -(-columns // 2), columns, rng)
        self.phases_ = rng.uniform(0.0, 2.0 * np.pi, self.layers)
        self._learn_error(X, np.zeros(0, dtype=np.intp), rng)

    def _first(self) -> Responses:
        return self._keep("first", lambda: Responses(self._changes(), self.templates_, self.oracle_))

    def _second(self) -> Responses:
        nothing = Identity()
        changes = averaged(nothing, self.second_templates_.shape[1])
        return self._keep("second", lambda: Responses(changes, self.second_templates_, nothing))

    def _features(self, X: Matrix) -> np.ndarray:
        if "second_templates_" not in vars(self):
            return mean_waves(self._first(), X, self.n_columns_, self.phases_[0])
        features = np.empty((X.shape[0], self.n_columns_), dtype=X.dtype)
        step = max(1024, self._first().rows_at_once(self.n_columns_))
        for start in range(0, len(features), step):
            rows = slice(start, start + step)
            hidden = mean_waves(self._first(), X[rows], self.n_columns_, self.phases_[0])
            features[rows] = mean_waves(self._second(), hidden, self.n_columns_, self.phases_[1])
        return features
