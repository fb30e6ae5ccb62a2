"""Kernel features of image patches, pooled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted

from ..kernels import Gaussian, Kernel
from ..kernels.checked_kernel import ISOMETRIES, PERMUTATIONS
from ..kernels.kernel_names import check_kernel
from ..oracles import ImageShape, InvarianceOracle
from ..oracles.arguments import hint_of
from ..oracles.changes import Changes
from ..oracles.images.image_maps import image_shape
from ..utils import plugins
from ..utils.fitted_state import taken_back
from ..utils.parameters import check_integer, check_number
from .embedded_rows import checked_random, checked_rows
from .image_changes import ImageChanges, image_changes
from .landmarks import LANDMARKS, inverse_root
from .patch_grid import WINDOWS, PatchGrid
from .patch_scaling import LENGTHS, PatchScaling
from .patch_values import add_kernel_values

# Values of a kernel that are in memory at once.
AT_ONCE = 2**22


class PatchOrbits(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Images as pooled kernel features of the orbits of their patches.

    .. math:: \psi_c(x) = E_h \sum_p w_{cp}\; K_{ZZ}^{-1/2}\; E_g\, k(Z, u(g\,(h x)_p))

    for cells c of the image, its patches p with pooling weights w, changes g of a patch and h of the
    whole image, landmarks Z learned from training patches, and patches u(p) of normalized contrast,
    whitened and of unit length. The inner product of two such features is, up to what the landmarks
    miss, the sum over cells of the mean of ``k`` between all patches in both: a kernel of images, and
    no network is trained (Coates, Ng and Lee 2011; Mairal et al. 2014; Mairal 2016). They do not
    change where a whole image moves inside its orbit, if its changes are a whole group, all alike.

    The landmarks move in the place of the patches where that is the same: where changes are fixed
    linear maps that keep inner products, and whitening takes no notice of them.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in a patch, an image of shape (size, size, channels); nothing by default. Image
        oracles without a shape get this one.
    patch_size : int, default=5
        Side of a patch, in pixels.
    stride : int, default=1
        Pixels from one patch to the next.
    kernel : Kernel, optional
        Of two patches as they are after `contrast`, `whitening` and `lengths`; ``Gaussian(0.5)`` by
        default.
    n_components : int, default=100
        How many landmarks there are: features of each cell.
    pool : int, default=2
        How many cells there are along each side of the image.
    window : {"average", "gaussian"}, default="average"
        The weights of patches in a cell: all alike, or falling off around its center.
    shape : ImageShape or tuple, optional
        Of the images, ``(height, width)`` or ``(height, width, channels)``, rows being in C order of
        it; None for square images of one channel.
    whole : InvarianceOracle, optional
        What may change in the whole image; nothing by default. Image oracles without a shape get that
        of the images.
    below : PatchOrbits, optional
        A first layer: patches are then those of its map, an image of `pool` by `pool` pixels with
        `n_components` channels. `shape` is then its own, which must be None here, and all changes of
        whole images are in `whole` here.
    contrast : float or None, default=0.01
        A patch less its mean is divided by ``sqrt(variance + contrast * v)``, v being the mean
        variance of training patches; None to leave contrasts alone.
    whitening : float or None, default=0.1
        What is added to the eigenvalues of the covariance of training patches, in units of their
        mean, before patches are whitened by it; None for no whitening.
    lengths : {"unit", "kept", "given"}, default="unit"
        Of patches after whitening: divided by, and forgotten; divided by, with features in proportion
        to them (the homogeneous kernel ``|p| |q| k(p / |p|, q / |q|)`` of Mairal 2016); left as they
        are.
    landmarks : {"kmeans", "random", "leverage"}, default="kmeans"
        Centers of k-means over training patches, or some of these patches, all alike likely or by
        leverage scores; see `OrbitNystroem`.
    n_patches : int, default=100000
        How many training patches are drawn to learn from; all, if there are fewer.
    n_draws, n_whole_draws : int, optional
        How many changes of a patch and of an image to draw; without it all members that the oracle
        lists, by their weights.
    random_state : int, RandomState or None, default=0
        Training patches, landmarks and drawn changes depend on it. None in `below` for what is left of
        that of the layer above.

    Attributes
    ----------
    landmarks_ : (n_components, values of a patch) array
        As the kernel sees them.
    normalization_ : (n_components, n_components) array
        ``K_ZZ^{-1/2}``, symmetric. Eigenvalues below ``n_components`` times the precision of float32
        times the largest count as 0, and so do their inverses, whatever rows `fit` has had: float32
        rows have the features of float64 rows, up to rounding.
    rank_ : int
        How many eigenvalues count.
    pooling_ : (pool * pool, number of patches) array
        The weight of each patch of an image in each cell.
    map_shape_ : ImageShape
        Of the features of an image: rows are in C order of it.
    below_ : PatchOrbits or None
        The first layer, fitted, if there is one.
    n_features_in_ : int

    Raises
    ------
    TypeError, ValueError
        From `fit`, before work starts: for parameters out of their range, patches larger than images,
        more cells than patches along a side, more landmarks than training patches, oracles without a
        changes, rows that are no such images. What an earlier fit has learned stays.

    Notes
    -----
    Answers have the precision of the rows, float32 or float64, and so has the work. Rows are worked on
    in blocks, and features of a row do not depend on the rows beside it.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.embeddings import PatchOrbits
    >>> from structinv.oracles import Flip
    >>> X = np.random.default_rng(0).random((20, 64))
    >>> patches = PatchOrbits(patch_size=3, n_components=4, pool=2, whole=Flip(), random_state=0).fit(X)
    >>> patches.transform(X).shape
    (20, 16)
    >>> mirrored = X.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)
    >>> bool(np.allclose(patches.transform(X), patches.transform(mirrored)))
    True
    """

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        patch_size: int = 5,
        stride: int = 1,
        kernel: Kernel | None = None,
        n_components: int = 100,
        pool: int = 2,
        *,
        window: str = "average",
        shape: ImageShape | tuple[int, ...] | None = None,
        whole: InvarianceOracle | None = None,
        below: PatchOrbits | None = None,
        contrast: float | None = 0.01,
        whitening: float | None = 0.1,
        lengths: str = "unit",
        landmarks: str = "kmeans",
        n_patches: int = 100_000,
        n_draws: int | None = None,
        n_whole_draws: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.oracle = oracle
        self.patch_size = patch_size
        self.stride = stride
        self.kernel = kernel
        self.n_components = n_components
        self.pool = pool
        self.window = window
        self.shape = shape
        self.whole = whole
        self.below = below
        self.contrast = contrast
        self.whitening = whitening
        self.lengths = lengths
        self.landmarks = landmarks
        self.n_patches = n_patches
        self.n_draws = n_draws
        self.n_whole_draws = n_whole_draws
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PatchOrbits:
        """Learn whitening and landmarks from training images.

        Parameters
        ----------
        X : (n, d) array
            A row an image.
        y : ignored

        Returns
        -------
        PatchOrbits
            This one.
        """
        with taken_back(self):
            self._check_parameters()
            X = self._checked_images(X, reset=True)
            for layer, shape in self._shapes(X.shape[1]):
                layer._check_grid(shape, len(X))
            random = checked_random(self.random_state)
            self.whole_changes_ = image_changes(
                self.whole,
                self._image_shape(X.shape[1]),
                self.n_whole_draws,
                _seed(random),
                names=("whole", "n_whole_draws"),
            )
            self._learn(X, self.whole_changes_.changes, random)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Features of images.

        Parameters
        ----------
        X : (n, d) array

        Returns
        -------
        (n, pool * pool * n_components) array
            In C order of `map_shape_`.
        """
        check_is_fitted(self)
        X = self._checked_images(X, reset=False)
        found = np.empty((len(X), self._n_features_out), dtype=X.dtype)
        changes = self.whole_changes_.changes
        weights = changes.weights.astype(X.dtype)
        for part in _blocks(len(X), changes.size * max(X.shape[1], self._n_features_out)):
            members = changes.on(X[part]).members().astype(X.dtype, copy=False)
            maps = self._maps(members.reshape(-1, X.shape[1]))
            found[part] = np.einsum("ijk,j->ik", maps.reshape(*members.shape[:2], -1), weights)
        return found

    @property
    def _n_features_out(self) -> int:
        return self.map_shape_.size

    def __sklearn_tags__(self) -> Any:
        """The precision of the rows stays."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _checked_images(self, X: Any, *, reset: bool) -> np.ndarray:
        X = checked_rows(self, X, reset=reset, dtype=(np.float64, np.float32))
        # Sums of squares have to be numbers, and shares of them.
        largest, info = max(float(X.max()), -float(X.min())), np.finfo(X.dtype)
        least, most = 100.0 * float(info.tiny) ** 0.5, float(info.max) ** 0.25
        if largest and not least <= largest <= most:
            raise ValueError(
                f"X must have largest entries from {least:.1g} to {most:.1g}, got {largest:g}: "
                "scale the images"
            )
        return X

    def _shapes(self, n_features: int) -> Iterator[tuple[PatchOrbits, ImageShape]]:
        """The layers from below, and the shape of the images whose patches they take."""
        if self.below is None:
            yield self, self._image_shape(n_features)
            return
        yield from self.below._shapes(n_features)
        yield self, self.below._map_shape()

    def _image_shape(self, n_features: int) -> ImageShape:
        shape = self.shape if self.below is None else self.below._image_shape(n_features)
        found = image_shape(shape, n_features)
        assert found is not None
        return found

    def _map_shape(self) -> ImageShape:
        return ImageShape(int(self.pool), int(self.pool), int(self.n_components))

    def _check_parameters(self) -> None:
        """Raise unless every parameter is in its range, those of the layers below too."""
        for name in ("patch_size", "stride", "n_components", "pool", "n_patches"):
            check_integer(name, getattr(self, name))
        for name in ("n_draws", "n_whole_draws"):
            check_integer(name, getattr(self, name), optional=True)
        for name in ("contrast", "whitening"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name))
        for name, known in (("window", WINDOWS), ("lengths", LENGTHS), ("landmarks", LANDMARKS)):
            if getattr(self, name) not in tuple(known):
                names = ", ".join(map(repr, known))
                raise ValueError(f"{name} must be one of {names}, got {getattr(self, name)!r}")
        for name in ("oracle", "whole"):
            _check_kind(name, getattr(self, name), InvarianceOracle)
        if self.kernel is not None:
            check_kernel("kernel", self.kernel, allowed="None or a Kernel")
        _check_kind("below", self.below, PatchOrbits)
        checked_random(self.random_state)
        if self.n_components > self.n_patches:
            raise ValueError(
                f"n_components must be at most n_patches, {self.n_patches}, got {self.n_components}"
            )
        if self.below is None:
            return
        if self.shape is not None:
            raise ValueError(f"shape must be given to the lowest layer alone, got {self.shape!r}")
        if self.below.whole is not None or self.below.n_whole_draws is not None:
            raise ValueError(
                "whole and n_whole_draws must be None in the layer below, as the topmost layer changes "
                f"images for all, got {self.below!r}"
            )
        self.below._check_parameters()

    def _check_grid(self, shape: ImageShape, n_images: int) -> None:
        """Raise unless images of this shape have patches enough."""
        if self.patch_size > min(shape.height, shape.width):
            raise ValueError(
                f"patch_size must be at most the sides of the images, {shape}, got {self.patch_size}"
            )
        grid = self._grid(shape)
        if self.pool > min(grid.sides):
            raise ValueError(
                f"pool must be at most the number of patches along a side, {min(grid.sides)}, got "
                f"{self.pool}"
            )
        if self.n_components > n_images * grid.count:
            raise ValueError(
                f"n_components must be at most the number of training patches, {n_images} x "
                f"{grid.count}, got {self.n_components}"
            )
        kernel = Gaussian(0.5) if self.kernel is None else self.kernel
        kernel.validate(grid.patch.size)
        self._patch_changes(grid, 0)

    def _grid(self, shape: ImageShape) -> PatchGrid:
        return PatchGrid(shape, int(self.patch_size), int(self.stride))

    def _patch_changes(self, grid: PatchGrid, seed: int) -> ImageChanges:
        return image_changes(self.oracle, grid.patch, self.n_draws, seed, names=("oracle", "n_draws"))

    def _learn(self, X: np.ndarray, whole: Changes, random: np.random.RandomState) -> None:
        """Learn all layers, from patches of images each of which is changed by some change."""
        self.n_features_in_ = X.shape[1]
        self.below_ = None if self.below is None else clone(self.below)
        if self.below_ is not None:
            own = self.below_.random_state
            self.below_._learn(X, whole, random if own is None else checked_random(own))
        *_, (_, shape) = self._shapes(X.shape[1])
        self.grid_ = self._grid(shape)
        self.pooling_ = self.grid_.pooling(int(self.pool), self.window)
        self.changes_ = self._patch_changes(self.grid_, _seed(random))
        self.kernel_ = Gaussian(0.5) if self.kernel is None else clone(self.kernel)
        self.map_shape_ = self._map_shape()
        patches = self._draw_patches(X, whole, random)
        self.scaling_ = PatchScaling(self.contrast, self.whitening, self.lengths)
        self.scaling_.learn(patches, lambda: _under_in_blocks(self.changes_.changes, patches))
        self.landmarks_ = self._find_landmarks(
            _change_each(self.changes_.changes, patches, random), random
        )
        # The features of one fit are asked for in both precisions.
        root, self.rank_ = inverse_root(self.kernel_, self.landmarks_, np.float32)
        self.normalization_ = root.astype(self.landmarks_.dtype)
        self.moved_ = self._moved_landmarks()

    def _draw_patches(self, X: np.ndarray, whole: Changes, random: np.random.RandomState) -> np.ndarray:
        """Training patches, as they are before anything is done to them, (m, values of a patch)."""
        total = len(X) * self.grid_.count
        drawn = sample_without_replacement(total, min(total, self.n_patches), random_state=random)
        image, position = np.divmod(np.sort(drawn), self.grid_.count)
        images = np.unique(image)
        change = random.choice(whole.size, len(images), p=whole.weights)
        found = np.empty((len(image), self.grid_.patch.size), dtype=X.dtype)
        for number in np.unique(change):
            one, mine = whole.take([number]), images[change == number]
            for part in _blocks(len(mine), max(whole.size * X.shape[1], self.grid_.shape.size)):
                rows = one.on(X[mine[part]]).members()[:, 0].astype(X.dtype, copy=False)
                asked = np.flatnonzero(np.isin(image, mine[part]))
                at = np.searchsorted(mine[part], image[asked])
                found[asked] = self.grid_.cut_at(self._images(rows), at, position[asked])
        return found[random.permutation(len(found))]

    def _find_landmarks(self, patches: np.ndarray, random: np.random.RandomState) -> np.ndarray:
        scaled, _ = self.scaling_.apply(patches)
        rng = np.random.default_rng(_seed(random))
        found, chosen = LANDMARKS[self.landmarks](scaled, int(self.n_components), self.kernel_, rng)
        if len(chosen) or self.lengths == "given":
            return found
        # Means of patches of unit length are shorter.
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.where(norms > 0, norms, norms.dtype.type(1.0))

    def _moved_landmarks(self) -> np.ndarray | None:
        """The landmarks under each change, (s, n_components, d); None where patches must move."""
        changes, symmetry = self.changes_.changes, self.kernel_.symmetry
        linear = changes.linear() if symmetry in (ISOMETRIES, PERMUTATIONS) else None
        if linear is None or not linear.isometric:
            return None
        if not (linear.permutes or symmetry == ISOMETRIES):
            return None
        if not self.scaling_.commutes(each.toarray() for each in linear.maps):
            return None
        return linear.adjoint(self.landmarks_).astype(self.landmarks_.dtype, copy=False)

    def _images(self, X: np.ndarray) -> np.ndarray:
        """What this layer takes patches of: rows, or the map of the layer below."""
        return X if self.below_ is None else self.below_._maps(X)

    def _maps(self, X: np.ndarray) -> np.ndarray:
        """Features of images as they are, (n, values of the map)."""
        pooling = self.pooling_.astype(X.dtype, copy=False)
        changes = self.changes_.changes.size if self.moved_ is None else 1
        count, (n_landmarks, n_values) = self.grid_.count, self.landmarks_.shape
        found = np.zeros((len(X), len(pooling), n_landmarks), dtype=X.dtype)
        for part in _blocks(len(X), count * max(n_landmarks, changes * n_values)):
            patches = self.grid_.cut(self._images(X[part]))
            for weight, (scaled, lengths, landmarks) in self._pairs(patches):
                factors = np.full(len(patches), weight, dtype=X.dtype)
                if lengths is not None:
                    factors *= lengths
                factors = factors.reshape(-1, count)
                add_kernel_values(self.kernel_, scaled, landmarks, pooling, factors, found[part])
        # The kernel's values are looked at here, where they are few.
        found = plugins.numbers(plugins.method(self.kernel_, "matrix"), "values", found, found.shape)
        # One product for all images: each of its own would read the table from memory again.
        found = found.reshape(-1, n_landmarks) @ self.normalization_.astype(X.dtype, copy=False)
        return found.reshape(len(X), -1)

    def _pairs(
        self, patches: np.ndarray
    ) -> Iterator[tuple[float, tuple[np.ndarray, np.ndarray | None, np.ndarray]]]:
        """Changes' weights; patches, lengths where these count, and landmarks, one of them moved."""
        if self.moved_ is None:
            landmarks = self.landmarks_.astype(patches.dtype, copy=False)
            for weight, part in _under(self.changes_.changes, patches):
                yield weight, (*self.scaling_.apply(part), landmarks)
            return
        scaled, lengths = self.scaling_.apply(patches)
        for weight, landmarks in zip(self.changes_.changes.weights, self.moved_, strict=True):
            yield float(weight), (scaled, lengths, landmarks.astype(patches.dtype, copy=False))


def _seed(random: np.random.RandomState) -> int:
    return int(random.randint(np.iinfo(np.int32).max))


def _blocks(n_rows: int, values: int) -> Iterator[slice]:
    """Portions of rows of which each needs so many values."""
    step = max(1, AT_ONCE // values)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def _under(changes: Changes, patches: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """The patches under each change, and its weight."""
    members = changes.on(patches).members()
    for number, weight in enumerate(changes.weights):
        yield float(weight), members[:, number].astype(patches.dtype, copy=False)


def _under_in_blocks(changes: Changes, patches: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    for part in _blocks(len(patches), changes.size * patches.shape[1]):
        yield from _under(changes, patches[part])


def _change_each(changes: Changes, patches: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Every patch under a change of its own, drawn from a list."""
    change = random.choice(changes.size, len(patches), p=changes.weights)
    found = np.empty_like(patches)
    for part in _blocks(len(patches), changes.size * patches.shape[1]):
        members = changes.on(patches[part]).members()
        found[part] = members[np.arange(len(members)), change[part]]
    return found


def _check_kind(name: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise TypeError(
            f"{name} must be None or {article} {kind.__name__}, got {value!r}{hint_of(value)}"
        )
