"""Random Fourier features of kernels between orbits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..kernels import Kernel
from ..kernels.frequencies import normals
from ..oracles import Identity, InvarianceOracle
from ..oracles.changes import Changes
from ..oracles.listing import averaged
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer
from .base import KernelFeatures, refuse_sparse
from .responses import Responses, mean_waves
from .templates import check_templates, draw_templates, spectrum_of


class OrbitFourier(KernelFeatures):
    r"""Random Fourier features of the mean of a kernel over changes of both inputs.

    .. math:: \phi(x) = (2 / D)^{1/2}\,
        \bigl(E \cos\langle w_j, g x\rangle,\ E \sin\langle w_j, g x\rangle\bigr)_{j = 1, \dots, D / 2}

    with templates w_j drawn from the spectrum of a kernel k of ``x - y``, and the mean over the changes
    g of an oracle (Raj, Kumar, Mroueh, Fletcher and Schoelkopf 2017, eq. 7; Rahimi and Recht 2007).
    Then ``<phi(x), phi(x')>`` has the mean ``K(x, x') = E k(g x, g' x')``, the kernel
    `structinv.kernels.OrbitMean`, and an error that falls like ``D^(-1/2)`` with the columns.

    Where changes are fixed linear maps T, as those of images are with a background of 0, the templates
    move and no row does, since ``<w, T x> = <T'w, x>``, whether the maps keep inner products or not: of
    n rows and s changes, s times the templates in the place of n s members. Else members of the rows
    are made, a block at a time.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        See `InvarianceOracle.changes` and `draws`; nothing changes by default. Oracles that depend on
        labels are refused.
    kernel : Kernel, optional
        Gaussian, Laplacian, Matern or RationalQuadratic, or another with `Kernel.spectral_law`;
        ``Gaussian()`` by default. Sums and products have none.
    n_components : int, default=100
        Columns of the features: the cosine and the sine of each template side by side. Of an odd number
        the last is ``cos(<w, x> + b)`` with a random phase b.
    layers : {1, 2}, default=1
        With 2, Fourier features of a Gaussian of width `tau` on those of the first layer: of the kernel
        `structinv.kernels.OrbitDistance`.
    n_hidden : int, optional
        Columns of the first of two layers; `n_components` by default.
    templates : {"orthogonal", "gaussian", "quasi", "fastfood"}, default="orthogonal"
        How they are drawn. "gaussian": independently, from the spectrum, whatever that is. "quasi": by
        Sobol's sequence, scrambled (Avron et al. 2016). "orthogonal": as blocks of orthogonal directions
        with stratified lengths (Yu et al. 2016), and "fastfood": by products of random diagonals and
        Walsh and Hadamard's matrices (Le, Sarlos and Smola 2013), both for kernels of Euclidean
        distances alone, so not for Laplacian. Fastfood saves time when templates are drawn; once moved
        they are as dense as others.
    n_draws : int, optional
        How many changes to draw; without it all members that the oracle lists, by their weights.
    tau : float, default=1.0
        Width of the second layer, above 0.
    random_state : int, RandomState or None, default=0
        Templates and drawn changes depend on it. Changes are those of ``OrbitMean(...,
        random_state=seed_)``.

    Attributes
    ----------
    templates_ : (p, n_features) array
        Before they move.
    second_templates_ : (p, n_hidden) array
        Of the second layer; only with two.
    phases_ : (layers,) array
        In [0, 2 pi), of the last column of each layer, where columns are odd in number.
    kernel_error_ : KernelError
        ``spectral`` and ``frobenius``: relative errors of inner products against the exact kernel, on
        at most 100 rows of `fit`, and on fewer where changes are many. See `kernel_error`.
    orbit_kernel_ : OrbitMean or OrbitDistance
        The exact kernel.
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
    Moved templates are kept in memory up to 270 MB, and moved again for each block of rows beyond that.
    Pickles and model files leave them out.

    CSR rows are fine where templates move.

    `InvariantLinearSVC` on these features is trained, and certified, for changes of the features that
    its own oracle allows. They have forgotten part of what changes the input, but no such certificate
    speaks of the input itself: the features are not linear in it, and `structinv.certify` refuses to go
    through them with ``at="input"``.

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

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        kernel: Kernel | None = None,
        n_components: int = 100,
        *,
        layers: int = 1,
        n_hidden: int | None = None,
        templates: str = "orthogonal",
        n_draws: int | None = None,
        tau: float = 1.0,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.n_components = n_components
        self.layers = layers
        self.n_hidden = n_hidden
        self.templates = templates
        self.n_draws = n_draws
        self.tau = tau
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components)
        check_integer("n_hidden", self.n_hidden, optional=True)
        check_templates(self.templates)
        spectrum_of(self._check_kernel(), self.templates)

    @property
    def _rows(self) -> dict[str, Any]:
        return super()._rows | {"accept_sparse": "csr"}

    def _learn(self, X: Matrix, changes: Changes, rng: np.random.Generator) -> None:
        spectrum = spectrum_of(self._learn_kernel(), self.templates)
        columns = [int(self.n_components)]
        if self.layers == 2:
            columns.insert(0, columns[0] if self.n_hidden is None else int(self.n_hidden))
        draw = partial(draw_templates, self.templates)
        self.templates_ = draw(spectrum, -(-columns[0] // 2), X.shape[1], rng)
        self.__dict__.pop("second_templates_", None)
        if self.layers == 2:
            self.second_templates_ = draw(normals(self.tau), -(-columns[1] // 2), columns[0], rng)
        self.phases_ = rng.uniform(0.0, 2.0 * np.pi, len(columns))
        if not self._first().moves_templates:
            refuse_sparse(X, self.oracle_)
        self._learn_error(X, np.zeros(0, dtype=np.intp), rng)

    def _first(self) -> Responses:
        return self._keep("first", lambda: Responses(self._changes(), self.templates_))

    def _second(self) -> Responses:
        changes = averaged(Identity(), self.second_templates_.shape[1])
        return self._keep("second", lambda: Responses(changes, self.second_templates_))

    def _features(self, X: Matrix) -> np.ndarray:
        if not self._first().moves_templates:
            refuse_sparse(X, self.oracle_)
        if "second_templates_" not in vars(self):
            return mean_waves(self._first(), X, self.n_columns_, self.phases_[0])
        n_hidden = self.second_templates_.shape[1]
        found = np.empty((X.shape[0], self.n_columns_), dtype=X.dtype)
        step = max(1024, self._first().rows_at_once(n_hidden))
        for start in range(0, len(found), step):
            rows = slice(start, start + step)
            hidden = mean_waves(self._first(), X[rows], n_hidden, self.phases_[0])
            found[rows] = mean_waves(self._second(), hidden, self.n_columns_, self.phases_[1])
        return found
