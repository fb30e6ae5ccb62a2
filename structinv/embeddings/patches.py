"""Pooled kernel features of image patches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted

from ..kernels import Gaussian, Kernel
from ..kernels.kernel_names import validate_kernel
from ..kernels.kernel_values import ISOMETRIES, PERMUTATIONS
from ..oracles import InvarianceOracle
from ..oracles.arguments import hint_of
from ..oracles.changes import Changes
from ..oracles.images.image_borders import warn_of_fill
from ..oracles.images.image_maps import ImageShape, image_shape
from ..utils import plugins
from ..utils.parameters import check_integer, check_number, restored_on_error
from .base import checked_random, checked_rows
from .nystroem import LANDMARKS, inverse_root
from .patch_grid import (
    LENGTHS,
    WINDOWS,
    ImageChanges,
    PatchGrid,
    PatchScaling,
    add_kernel_values,
    image_changes,
)

# Maximum number of kernel values in memory.
AT_ONCE = 2**22


@dataclass(eq=False, repr=False)
class PatchOrbits(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Pooled kernel features of transformed image patches.

    .. math:: \psi_c(x) = E_h \sum_p w_{cp}\; K_{ZZ}^{-1/2}\; E_g\, k(Z, u(g\,(h x)_p))

    The sum is over the patches p of the image, with pooling weights w for cells c. Transformations of a
    patch are g, and those of the whole image h. Landmarks Z are learned from training patches. A patch
    u(p) has normalized contrast, is whitened and has unit length.

    The inner product of two feature vectors is a kernel of images, up to the error of the landmarks.
    For each cell, k is averaged over all pairs of patches of both images; the kernel is the sum over
    cells. No network is trained (Coates, Ng and Lee 2011; Mairal et al. 2014; Mairal 2016). The features
    are invariant to the transformations of whole images if these are a group with equal weights.

    Landmarks are transformed instead of patches if the result is the same. This requires linear maps
    that preserve inner products and commute with whitening.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        Transformations of a patch, an image of shape (patch_size, patch_size, channels); by default
        none. Image oracles without a shape get this one.
    patch_size : int, default=5
        Side of a patch in pixels.
    stride : int, default=1
        Distance between adjacent patches in pixels.
    kernel : Kernel, optional
        Kernel k of two patches after `contrast`, `whitening` and `lengths`; by default
        ``Gaussian(0.5)``.
    n_components : int, default=100
        Number of landmarks, which is the number of features per cell.
    pool : int, default=2
        Number of cells along each side of the image.
    window : {"average", "gaussian"}, default="average"
        Weights of patches in a cell: equal, or decreasing from its center.
    shape : ImageShape or tuple, optional
        Shape of the images, ``(height, width)`` or ``(height, width, channels)``, with rows in C order.
        By default images are square with one channel.
    whole : InvarianceOracle, optional
        Transformations of the whole image; by default none. Image oracles without a shape get that of
        the images.
    below : PatchOrbits, optional
        First layer. Patches then come from the features of the first layer, as an image of `pool` by
        `pool` pixels with `n_components` channels. Pass `shape` to the first layer, and `whole` to the
        last.
    contrast : float or None, default=0.01
        Constant c of the contrast normalization. A centered patch is divided by ``sqrt(variance + c v)``
        with the mean variance v of training patches. None for no normalization.
    whitening : float or None, default=0.1
        Regularization of the whitening: added to the eigenvalues of the covariance of training patches,
        in units of their mean. None for no whitening.
    lengths : {"unit", "kept", "given"}, default="unit"
        Treatment of the lengths of whitened patches. "unit" divides by them. "kept" also multiplies the
        features by them (the kernel ``|p| |q| k(p / |p|, q / |q|)`` of Mairal 2016). "given" does not
        divide.
    landmarks : {"kmeans", "random"}, default="kmeans"
        Method to select landmarks from training patches: cluster centers, or patches with equal
        probabilities.
    n_patches : int, default=100000
        Maximum number of training patches.
    n_draws, n_whole_draws : int, optional
        Numbers of randomly drawn transformations of a patch and of an image (>= 1). By default averages
        are over all perturbed samples of the oracle's list, with their weights.
    random_state : int, RandomState or None, default=0
        Seed of training patches, landmarks and drawn transformations. None in `below` continues with the
        random numbers of the layer above.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_components, n_values)
        Landmarks, each with the values of a scaled patch.
    normalization_ : ndarray of shape (n_components, n_components)
        The symmetric root ``K_ZZ^{-1/2}``. Eigenvalues below ``n_components`` times float32's precision
        times the largest, and their inverses, count as 0. This holds for rows of any precision, so
        float32 rows have the features of float64 rows up to rounding.
    rank_ : int
        Number of nonzero eigenvalues.
    pooling_ : ndarray of shape (pool * pool, n_patches_per_image)
        Weight of each patch of an image in each cell.
    map_shape_ : ImageShape
        Shape of the features of an image, which are in C order.
    below_ : PatchOrbits or None
        The fitted first layer, if there is one.
    n_features_in_ : int
        Number of features of `fit`.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, a patch is larger than an image, or there are more cells than
        patches along a side. If there are more landmarks than training patches, an oracle has no list,
        or rows do not match `shape`. A failed `fit` leaves an earlier fit unchanged.

    See Also
    --------
    OrbitNystroem : Landmark features of an invariant kernel of whole samples.

    Notes
    -----
    Features and computations have the precision of the rows, float32 or float64. Rows are processed in
    blocks, and the features of a row do not depend on other rows.

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

    oracle: InvarianceOracle | None = None
    patch_size: int = 5
    stride: int = 1
    kernel: Kernel | None = None
    n_components: int = 100
    pool: int = 2
    _: KW_ONLY
    window: str = "average"
    shape: ImageShape | tuple[int, ...] | None = None
    whole: InvarianceOracle | None = None
    below: PatchOrbits | None = None
    contrast: float | None = 0.01
    whitening: float | None = 0.1
    lengths: str = "unit"
    landmarks: str = "kmeans"
    n_patches: int = 100_000
    n_draws: int | None = None
    n_whole_draws: int | None = None
    random_state: int | np.random.RandomState | None = 0

    def fit(self, X: Any, y: Any = None) -> PatchOrbits:
        """Learn contrast, whitening and landmarks from training images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images, one per row.
        y : Ignored
            Not used.

        Returns
        -------
        PatchOrbits
            The fitted transformer.
        """
        with restored_on_error(self):
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
            warn_of_fill(self.whole_changes_.oracle, X)
            self._learn(X, self.whole_changes_.changes, random)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Compute the features of images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images, one per row.

        Returns
        -------
        ndarray of shape (n_samples, pool * pool * n_components)
            Features in C order of `map_shape_`.
        """
        check_is_fitted(self)
        X = self._checked_images(X, reset=False)
        features = np.empty((len(X), self._n_features_out), dtype=X.dtype)
        changes = self.whole_changes_.changes
        weights = changes.weights.astype(X.dtype)
        for part in _blocks(len(X), changes.size * max(X.shape[1], self._n_features_out)):
            members = changes.on(X[part]).members().astype(X.dtype, copy=False)
            maps = self._maps(members.reshape(-1, X.shape[1]))
            features[part] = np.einsum("ijk,j->ik", maps.reshape(*members.shape[:2], -1), weights)
        return features

    @property
    def _n_features_out(self) -> int:
        return self.map_shape_.size

    def __sklearn_tags__(self) -> Any:
        """Return the tags; the precision of the rows is preserved."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _checked_images(self, X: Any, *, reset: bool) -> np.ndarray:
        X = checked_rows(self, X, reset=reset, dtype=(np.float64, np.float32))
        # Sums of squares, and a fraction of them, must be normal numbers.
        largest, info = max(float(X.max()), -float(X.min())), np.finfo(X.dtype)
        least, most = 100.0 * float(info.tiny) ** 0.5, float(info.max) ** 0.25
        if largest and not least <= largest <= most:
            raise ValueError(
                f"the largest absolute value of X must be between {least:.1g} and {most:.1g}, got "
                f"{largest:g}: rescale the images"
            )
        return X

    def _shapes(self, n_features: int) -> Iterator[tuple[PatchOrbits, ImageShape]]:
        """Yield each layer, starting with the first, and the shape of its input images."""
        if self.below is None:
            yield self, self._image_shape(n_features)
            return
        yield from self.below._shapes(n_features)
        yield self, self.below._map_shape()

    def _image_shape(self, n_features: int) -> ImageShape:
        shape = self.shape if self.below is None else self.below._image_shape(n_features)
        known = image_shape(shape, n_features)
        assert known is not None
        return known

    def _map_shape(self) -> ImageShape:
        return ImageShape(int(self.pool), int(self.pool), int(self.n_components))

    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError if a parameter of a layer is out of its range."""
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
            validate_kernel("kernel", self.kernel, allowed="None or a Kernel")
        _check_kind("below", self.below, PatchOrbits)
        checked_random(self.random_state)
        if self.n_components > self.n_patches:
            raise ValueError(
                f"n_components must be at most n_patches, {self.n_patches}, got {self.n_components}"
            )
        if self.below is None:
            return
        if self.shape is not None:
            raise ValueError(f"shape must be None except in the first layer, got {self.shape!r}")
        if self.below.whole is not None or self.below.n_whole_draws is not None:
            raise ValueError(
                "whole and n_whole_draws must be None in the layer below: pass them to the last layer, "
                f"got {self.below!r}"
            )
        self.below._check_parameters()

    def _check_grid(self, shape: ImageShape, n_images: int) -> None:
        """Raise ValueError if images of this shape do not have enough patches."""
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
        """Learn all layers from patches of randomly transformed images."""
        self.n_features_in_ = X.shape[1]
        self.below_ = None if self.below is None else clone(self.below)
        if self.below_ is not None:
            seed = self.below_.random_state
            self.below_._learn(X, whole, random if seed is None else checked_random(seed))
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
        # A model computes features in float32 and in float64, so the root must suit float32.
        root, self.rank_ = inverse_root(self.kernel_, self.landmarks_, np.float32)
        self.normalization_ = root.astype(self.landmarks_.dtype)
        self.moved_ = self._moved_landmarks()

    def _draw_patches(self, X: np.ndarray, whole: Changes, random: np.random.RandomState) -> np.ndarray:
        """Return training patches before scaling, (m, values of a patch)."""
        total = len(X) * self.grid_.count
        drawn = sample_without_replacement(total, min(total, self.n_patches), random_state=random)
        image, position = np.divmod(np.sort(drawn), self.grid_.count)
        images = np.unique(image)
        change = random.choice(whole.size, len(images), p=whole.weights)
        patches = np.empty((len(image), self.grid_.patch.size), dtype=X.dtype)
        for number in np.unique(change):
            one, chosen = whole.take([number]), images[change == number]
            for part in _blocks(len(chosen), max(whole.size * X.shape[1], self.grid_.shape.size)):
                rows = one.on(X[chosen[part]]).members()[:, 0].astype(X.dtype, copy=False)
                those = np.flatnonzero(np.isin(image, chosen[part]))
                at = np.searchsorted(chosen[part], image[those])
                patches[those] = self.grid_.cut_at(self._images(rows), at, position[those])
        return patches[random.permutation(len(patches))]

    def _find_landmarks(self, patches: np.ndarray, random: np.random.RandomState) -> np.ndarray:
        scaled, _ = self.scaling_.apply(patches)
        rng = np.random.default_rng(_seed(random))
        select = LANDMARKS[self.landmarks]
        landmarks, chosen = select(scaled, int(self.n_components), rng)
        if len(chosen) or self.lengths == "given":
            return landmarks
        # Cluster centers of patches of unit length are shorter, so rescale them.
        norms = np.linalg.norm(landmarks, axis=1, keepdims=True)
        return landmarks / np.where(norms > 0, norms, norms.dtype.type(1.0))

    def _moved_landmarks(self) -> np.ndarray | None:
        """Return the landmarks under each transformation, (s, n_components, d), or None.

        None means that patches must be transformed instead.
        """
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
        """Return the input images of this layer: rows, or maps of the layer below."""
        return X if self.below_ is None else self.below_._maps(X)

    def _maps(self, X: np.ndarray) -> np.ndarray:
        """Compute the maps of images, (n, values of a map)."""
        pooling = self.pooling_.astype(X.dtype, copy=False)
        changes = self.changes_.changes.size if self.moved_ is None else 1
        count, (n_landmarks, n_values) = self.grid_.count, self.landmarks_.shape
        features = np.zeros((len(X), len(pooling), n_landmarks), dtype=X.dtype)
        for part in _blocks(len(X), count * max(n_landmarks, changes * n_values)):
            patches = self.grid_.cut(self._images(X[part]))
            for weight, (scaled, lengths, landmarks) in self._pairs(patches):
                factors = np.full(len(patches), weight, dtype=X.dtype)
                if lengths is not None:
                    factors *= lengths
                factors = factors.reshape(-1, count)
                add_kernel_values(self.kernel_, scaled, landmarks, pooling, factors, features[part])
        # Pooled values are checked instead of kernel values, because there are fewer.
        source = plugins.method(self.kernel_, "matrix")
        features = plugins.numbers(source, "values", features, features.shape)
        # One product for all images reads the matrix from memory once.
        features = features.reshape(-1, n_landmarks) @ self.normalization_.astype(X.dtype, copy=False)
        return features.reshape(len(X), -1)

    def _pairs(
        self, patches: np.ndarray
    ) -> Iterator[tuple[float, tuple[np.ndarray, np.ndarray | None, np.ndarray]]]:
        """Yield weights of transformations, patches, lengths (or None) and landmarks.

        Either the patches or the landmarks are transformed.
        """
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
    """Yield blocks of rows of which each requires this number of values."""
    step = max(1, AT_ONCE // values)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def _under(changes: Changes, patches: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Yield the weight of each transformation, and the transformed patches."""
    members = changes.on(patches).members()
    for number, weight in enumerate(changes.weights):
        yield float(weight), members[:, number].astype(patches.dtype, copy=False)


def _under_in_blocks(changes: Changes, patches: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    for part in _blocks(len(patches), changes.size * patches.shape[1]):
        yield from _under(changes, patches[part])


def _change_each(changes: Changes, patches: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Transform every patch with a random transformation."""
    change = random.choice(changes.size, len(patches), p=changes.weights)
    changed = np.empty_like(patches)
    for part in _blocks(len(patches), changes.size * patches.shape[1]):
        members = changes.on(patches[part]).members()
        changed[part] = members[np.arange(len(members)), change[part]]
    return changed


def _check_kind(name: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise TypeError(
            f"{name} must be None or {article} {kind.__name__}, got {value!r}{hint_of(value)}"
        )
