"""Patches of images, their landmarks and features, by loops over cells, changes and landmarks."""

from contextlib import suppress
from unittest import SkipTest

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from structinv.embeddings import PatchOrbits, patches
from structinv.kernels import Gaussian, Laplacian, Polynomial
from structinv.oracles import FiniteOracle, Flip, Identity, Rotations, Shifts, Weighted
from structinv.oracles.changes import LinearChanges
from structinv.oracles.combinators import OnlyFor
from structinv.oracles.images.image_maps import ImageShape

from ..covering import pairs

QUARTERS = (90, 180, 270)
LAWS = {
    "nothing": Identity(),
    "mirror": Flip(),
    "quarters": Rotations(QUARTERS),
    "turns": Rotations([-20, 20], spread=15),
    "background": Shifts(1, fill=0.3),
}


def images(n=12, side=7, channels=1, seed=0):
    return np.random.default_rng(seed).random((n, side * side * channels))


def scaled(patch, made):
    """A patch as the kernel sees it, and its length, by the formula."""
    scaling = made.scaling_
    if made.contrast is not None:
        patch = (patch - patch.mean()) / np.sqrt(patch.var() + scaling.offset)
    if made.whitening is not None:
        patch = scaling.matrix @ (patch - scaling.mean)
    length = np.sqrt(patch @ patch)
    if made.lengths == "given":
        return patch, 1.0
    return patch / max(length, scaling.least), length if made.lengths == "kept" else 1.0


def slowly(made, image, shape):
    """The map of one image, by loops over cells, patches, changes and landmarks."""
    if made.below is not None:
        inner, below_shape = slowly(made.below_, image, shape), made.below_.map_shape_
        image, shape = inner, below_shape
    image = image.reshape(shape.height, shape.width, shape.channels)
    rows, columns = made.grid_.sides
    weights = made.grid_.pooling(made.pool, made.window).reshape(-1, rows, columns)
    kernel, landmarks = made.kernel_, made.landmarks_
    found = np.zeros((len(weights), len(landmarks)))
    for row in range(rows):
        for column in range(columns):
            top, left = row * made.stride, column * made.stride
            patch = image[top : top + made.patch_size, left : left + made.patch_size].reshape(1, -1)
            law = made.changes_.changes
            for weight, member in zip(law.weights, law.on(patch).members()[0], strict=True):
                point, length = scaled(member, made)
                values = [kernel.matrix(point[None], each[None])[0, 0] for each in landmarks]
                found += weight * length * np.outer(weights[:, row, column], values)
    return (found @ made.normalization_).ravel()


@pytest.mark.parametrize("lengths", ["unit", "kept", "given"])
@pytest.mark.parametrize("law", LAWS)
def test_features_are_those_of_the_formula(law, lengths):
    X = images()
    made = PatchOrbits(LAWS[law], 3, 2, n_components=5, lengths=lengths, random_state=0).fit(X)
    found = made.transform(X[:2])
    for row, image in zip(found, X, strict=False):
        np.testing.assert_allclose(row, slowly(made, image, ImageShape(7, 7)), atol=1e-9)


@pytest.mark.parametrize(
    ("window", "contrast", "whitening", "kernel"),
    pairs(
        ["average", "gaussian"],
        [None, 0.1],
        [None, 0.1],
        [None, Polynomial(degree=2, coef0=1.0), Laplacian(0.3)],
    ),
)
def test_features_of_color_images_are_those_of_the_formula(window, contrast, whitening, kernel):
    X, shape = images(side=6, channels=2), (6, 6, 2)
    made = PatchOrbits(
        Flip(), 2, 2, kernel, 5, 2, window=window, shape=shape, contrast=contrast,
        whitening=whitening, landmarks="random", random_state=0,
    ).fit(X)  # fmt: skip
    for row, image in zip(made.transform(X[:2]), X, strict=False):
        np.testing.assert_allclose(row, slowly(made, image, ImageShape(*shape)), atol=1e-8)


def two_layers(**options):
    below = PatchOrbits(Flip(), 3, n_components=4, pool=4, window="gaussian")
    options = {"n_components": 6, "pool": 2, "whitening": None, "random_state": 0} | options
    return PatchOrbits(patch_size=2, below=below, **options)


def test_second_layer_has_patches_of_the_first_map():
    X = images()
    made = two_layers().fit(X)
    assert made.below_.map_shape_ == ImageShape(4, 4, 4)
    for row, image in zip(made.transform(X[:3]), X, strict=False):
        np.testing.assert_allclose(row, slowly(made, image, ImageShape(7, 7)), atol=1e-9)


def test_features_are_averaged_over_whole_images():
    X = images()
    whole = Rotations([-30, 30], spread=20)
    made = PatchOrbits(patch_size=3, n_components=5, whole=whole, random_state=0).fit(X)
    law = made.whole_changes_.changes
    assert len(set(law.weights)) > 1
    expected = [
        sum(w * slowly(made, z, ImageShape(7, 7)) for w, z in zip(law.weights, members, strict=True))
        for members in law.on(X[:2]).members()
    ]
    np.testing.assert_allclose(made.transform(X[:2]), expected, atol=1e-9)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    ("whole", "change"),
    [
        (Rotations(QUARTERS), lambda stack: np.rot90(stack, axes=(1, 2))),
        (Flip(), lambda stack: stack[:, :, ::-1]),
        (Flip(axis=0), lambda stack: stack[:, ::-1]),
        (Shifts((1, 2, 3), fill="wrap", directions=8), None),
    ],
)
def test_features_are_invariant_to_a_group(whole, change, layers):
    X = images(side=6)
    changed = X if change is None else change(X.reshape(-1, 6, 6)).reshape(len(X), -1)
    options = {"whole": whole, "random_state": 0}
    made = two_layers(**options) if layers == 2 else PatchOrbits(None, 3, n_components=5, **options)
    found = made.fit(X).transform(X)
    np.testing.assert_allclose(made.transform(changed), found, atol=1e-10)
    if change is not None:
        without = clone(made).set_params(whole=None).fit(X)
        assert np.abs(without.transform(changed) - without.transform(X)).max() > 1e-3


@pytest.mark.parametrize(
    ("oracle", "kernel", "moves"),
    [
        (Rotations(QUARTERS), Gaussian(0.5), True),
        (Flip(), Laplacian(0.5), True),
        (Rotations([-20, 20]), Gaussian(0.5), False),
        (Rotations((90,)), Gaussian(0.5), False),  # no group, so that whitening depends on the turn
    ],
)
def test_landmarks_are_transformed_only_if_equivalent(oracle, kernel, moves):
    X = images(n=40)
    made = PatchOrbits(oracle, 3, kernel=kernel, n_components=5, random_state=0).fit(X)
    assert (made.moved_ is not None) == moves
    found = made.transform(X)
    made.moved_ = None
    np.testing.assert_allclose(made.transform(X), found, atol=1e-9)


class Mirrored(FiniteOracle):
    """Nothing, or a reflection across a plane in general position: isometries that reorder nothing."""

    def orbit(self, X):
        normal = np.linspace(1.0, 2.0, X.shape[1])
        turned = X - 2.0 * np.outer(X @ normal, normal) / (normal @ normal)
        return np.stack([X, turned], axis=1)

    def changes(self, X, y=None):
        maps = self.orbit(np.eye(X.shape[1])).swapaxes(0, 1)
        return LinearChanges(X, [sp.csr_matrix(each) for each in maps])


@pytest.mark.parametrize(
    ("kernel", "contrast", "whitening", "moves"),
    [
        (Gaussian(0.5), None, 0.1, True),
        (Laplacian(0.5), None, 0.1, False),
        # The mean of a patch is no mean of its image.
        (Gaussian(0.5), 0.01, None, False),
    ],
)
def test_landmarks_are_reflected_if_values_and_means_are_invariant(kernel, contrast, whitening, moves):
    X = images(n=40)
    options = {"contrast": contrast, "whitening": whitening}
    made = PatchOrbits(Mirrored(), 3, kernel=kernel, n_components=5, **options).fit(X)
    assert (made.moved_ is not None) == moves
    np.testing.assert_allclose(made.transform(X[:1])[0], slowly(made, X[0], ImageShape(7, 7)), atol=1e-9)


@pytest.mark.parametrize("where", ["oracle", "whole"])
def test_landmarks_come_from_patches_transformed_by_the_weights(where):
    # Brighter from left to right, and in the other direction after the change.
    X = np.tile(np.arange(7.0), 7) + 0.1 * images(n=40)
    options = {where: Weighted(Flip(), [1e-9, 1.0])}
    made = PatchOrbits(
        patch_size=3, n_components=30, contrast=None, whitening=None, lengths="given",
        landmarks="random", **options,
    ).fit(X)  # fmt: skip
    landmarks = made.landmarks_.reshape(-1, 3, 3)
    assert np.all(landmarks[:, :, 0] > landmarks[:, :, 2])


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_landmarks_are_not_transformed_if_whitening_depends_on_the_mean(unit):
    X = unit * images(n=40)
    # Whitening by next to nothing but a factor commutes with all changes; the mean does not.
    made = PatchOrbits(
        Weighted(Flip(), [0.9, 0.1]), 3, n_components=5, contrast=None, whitening=1e9
    ).fit(X)  # fmt: skip
    assert made.moved_ is None
    made.set_params(oracle=Flip()).fit(X)
    assert made.moved_ is not None
    np.testing.assert_allclose(made.transform(X[:1])[0], slowly(made, X[0], ImageShape(7, 7)), atol=1e-8)


def test_products_are_exact_if_all_patches_are_landmarks():
    X = images(n=3, side=4)
    made = PatchOrbits(
        patch_size=2, kernel=Gaussian(0.7), n_components=27, pool=1, landmarks="random", random_state=0
    ).fit(X)  # fmt: skip
    found = made.transform(X)
    u, _ = made.scaling_.apply(made.grid_.cut(X))
    means = Gaussian(0.7).matrix(u, u).reshape(3, 9, 3, 9).mean(axis=(1, 3))
    np.testing.assert_allclose(found @ found.T, means, atol=1e-8)


def test_contrast_is_in_units_of_the_variance_of_training_patches():
    X = images(n=30, side=3)
    fit = {"patch_size": 3, "n_components": 4, "pool": 1, "contrast": 0.25, "random_state": 0}
    made = PatchOrbits(**fit).fit(X)
    assert made.scaling_.offset == pytest.approx(0.25 * X.var(axis=1).mean(), rel=1e-12)
    # So the unit of the rows, and their background, do not matter.
    moved = PatchOrbits(**fit).fit(255.0 * X + 9.0)
    np.testing.assert_allclose(moved.transform(255.0 * X + 9.0), made.transform(X), atol=1e-8)


def test_features_do_not_depend_on_blocks(monkeypatch):
    X = images(n=15)
    made = two_layers(whole=Rotations(QUARTERS)).fit(X)
    found = made.transform(X)
    monkeypatch.setattr(patches, "AT_ONCE", 500)
    np.testing.assert_allclose(made.transform(X), found, atol=1e-10)
    np.testing.assert_allclose(np.vstack([made.transform(x[None]) for x in X]), found, atol=1e-10)
    again = clone(made).fit(X)
    np.testing.assert_allclose(again.transform(X), found, atol=1e-6)


def test_single_precision_is_close_where_landmarks_are_nearly_dependent():
    # A wide kernel of many patches: rounding makes most eigenvalues.
    X = images(n=40)
    made = PatchOrbits(patch_size=2, kernel=Gaussian(3.0), n_components=200, landmarks="random").fit(X)
    assert made.rank_ < 200
    found, single = made.transform(X), made.transform(X.astype(np.float32))
    assert np.linalg.norm(single - found) < 1e-3 * np.linalg.norm(found)
    assert {"float32", "float64"} == set(made.__sklearn_tags__().transformer_tags.preserves_dtype)


def test_drawn_transformations_are_the_same_in_every_fit():
    X = images()
    made = PatchOrbits(
        Rotations(interval=(-30, 30)), 3, n_components=4, n_draws=3,
        whole=Shifts(interval=(0, 2)), n_whole_draws=2, random_state=3,
    )  # fmt: skip
    found = made.fit(X).transform(X)
    assert made.changes_.changes.size == 3
    assert made.whole_changes_.changes.size == 2
    np.testing.assert_array_equal(clone(made).fit(X).transform(X), found)
    other = clone(made).set_params(random_state=4).fit(X)
    assert np.abs(other.transform(X) - found).max() > 1e-3


REFUSED = [
    ({"patch_size": 8}, ValueError, "patch_size must be at most"),
    ({"stride": 0}, ValueError, "stride"),
    ({"pool": 6}, ValueError, "pool must be at most the number of patches along a side, 5"),
    ({"n_components": 301}, ValueError, "n_components must be at most the number of training patches"),
    ({"n_components": 60, "n_patches": 50}, ValueError, "n_components must be at most n_patches"),
    ({"n_patches": True}, TypeError, "n_patches"),
    ({"contrast": -1.0}, ValueError, "contrast"),
    ({"whitening": "zca"}, TypeError, "whitening"),
    ({"lengths": "one"}, ValueError, "lengths must be one of 'unit', 'kept', 'given'"),
    ({"window": "max"}, ValueError, "window must be one of 'average', 'gaussian'"),
    ({"landmarks": "grid"}, ValueError, "landmarks must be one of 'random', 'kmeans'"),
    ({"kernel": "rbf"}, TypeError, "kernel must be None or a Kernel"),
    ({"oracle": Flip(shape=(7, 7))}, ValueError, "oracle cannot list its transformations"),
    ({"oracle": Rotations(interval=(-9, 9))}, ValueError, "n_draws"),
    ({"whole": Rotations(interval=(-9, 9))}, ValueError, "n_whole_draws"),
    ({"whole": OnlyFor(Flip(), [1])}, ValueError, "whole cannot list its transformations"),
    ({"shape": (5, 5)}, ValueError, "shape"),
    ({"below": Gaussian()}, TypeError, "below must be None or a PatchOrbits"),
    ({"below": PatchOrbits(whole=Flip())}, ValueError, "must be None in the layer below"),
    ({"below": PatchOrbits(pool=2), "shape": (7, 7)}, ValueError, "shape must be None except"),
    ({"below": PatchOrbits(pool=2)}, ValueError, "patch_size must be at most the sides of the images"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_invalid_parameters_are_errors_before_the_fit(options, error, message):
    made = PatchOrbits(**{"patch_size": 3, "n_components": 5} | options)
    with pytest.raises(error, match=message):
        made.fit(images())
    assert vars(made) == made.get_params(deep=False)


def test_rows_of_another_shape_are_errors():
    made = PatchOrbits(patch_size=2, n_components=2)
    with pytest.raises(ValueError, match="shape must be .*not square"):
        made.fit(np.ones((4, 10)))
    with pytest.raises(ValueError, match="NaN"):
        made.fit(np.full((4, 9), np.nan))


class AnyRows(PatchOrbits):
    """Rows of any length as images of one line, which scikit-learn's checks can use."""

    def _image_shape(self, n_features):
        return ImageShape(1, n_features)


ROWS = AnyRows(Flip(), 1, n_components=1, pool=1, whole=Flip(), random_state=0)


def test_patch_orbits_pass_the_checks_of_scikit_learn():
    for _, check in estimator_checks_generator(ROWS):
        with suppress(SkipTest):
            check(clone(ROWS))
