"""Kernel space with representers against dense matrices over all atoms and functionals."""

import numpy as np
import pytest

from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.point_sums import PointSums
from structinv.terms.penalty import FamilyFunctionals

from .cases import DEGREES, D, Model


def model_of(**parameters):
    return Model(representers=True, **parameters)


every_degree = pytest.mark.parametrize("free_degree", DEGREES)


def test_normals_over_atoms_stay_atom_rows():
    model = model_of()
    rows, _ = model.normals(5)
    both = model.space.stack([rows, model.space.element(model.function()[0])])
    assert isinstance(both[:5], PointSums)
    assert isinstance(both[np.array([2, 0])], PointSums)
    assert not isinstance(both[4:], PointSums)
    assert model.space.stack([rows]) is rows
    assert isinstance(model.space.element(model.function(representers=False)[0]), PointSums)
    # Functions of rows that are left out are left out too.
    thrice = model.space.stack([both, both, both])
    assert (len(thrice), list(thrice.functions)) == (18, [5, 11, 17])
    assert list(thrice[np.array([11, 2, 11])].functions) == [0, 2]


def test_functionals_follow_changes_of_coefficients():
    # Steps of single blocks add to the coefficients of atoms themselves.
    model = model_of(free_degree=1, seed=1)
    f, dense = model.function()
    f.functionals()
    f.coefficients[1] += 2.0
    f._values = None
    places = model.space.atoms.points(np.arange(len(model.space.atoms)))
    number = np.flatnonzero(np.all(model.points == places[1], axis=1))[0]
    dense[0][model.n_functionals + number] += 2.0
    model.assert_is(f, *dense)
    assert model.space.dot(f, f) == pytest.approx(np.sum(dense[0] * (model.gram @ dense[0])))


def test_know_stores_computed_functionals():
    model = model_of()
    f, _ = model.function()
    f.know(np.full((model.system.size, 2), 7.0))
    assert np.all(f.functionals() == 7.0)
    f += f
    assert np.all(f.functionals() == 14.0)


@every_degree
def test_unpenalized_part_has_norm_zero(free_degree):
    model = model_of(free_degree=free_degree)
    space = model.space
    n_free = {None: 0, 0: 1, 1: 1 + D}[free_degree]
    assert space.n_free == n_free
    f, dense = model.function(atoms=False, representers=False)
    assert space.dot(f, f) == pytest.approx(0.0, abs=1e-12)
    model.assert_is(f, *dense)
    Z = model.rng.standard_normal((4, D))
    b = np.vstack([dense[1], np.zeros((1 + D - n_free, 2))])
    np.testing.assert_allclose(f.function()(Z), b[0] + Z @ b[1:], atol=1e-12)
    g, (dense_g, _) = model.function()
    wanted = np.sum(dense_g * (model.gram @ dense_g))
    assert space.dot(f + g, f + g) == pytest.approx(wanted)
    rows, dense_rows = model.mixed(3)
    scores = np.einsum("pk,mpk->m", model.at(*dense), dense_rows)
    np.testing.assert_allclose(space.scores(f, rows), scores, atol=1e-11)


def test_points_added_later_have_correct_values():
    model = model_of(cache_mb=0.0, free_degree=1)
    f, dense = model.function()
    before = len(f.values())
    model.space.combine(model.normals(8)[0], np.ones(8)).support()
    assert model.space.atoms.n_known > before
    model.assert_is(f, *dense)


def test_functions_of_other_spaces_raise():
    model = model_of()
    plain = KernelSpace(model.kernel, D, 2)
    with pytest.raises(TypeError, match="only functions of the same space"):
        _ = model.space.zeros() + plain.zeros()
    assert not model.space.accepts(plain.zeros())
    assert model_of().space.accepts(model.space.zeros())


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_families_act_on_all_outputs(n_outputs):
    model = model_of(n_outputs=n_outputs)
    f, dense = model.function()
    at = model.at(*dense)[: model.n_functionals]
    for number, rows in enumerate(model.system.slices):
        family = FamilyFunctionals(model.system, number, n_outputs)
        family.validate(model.space)
        assert family.size == (rows.stop - rows.start) * n_outputs
        np.testing.assert_allclose(family.apply(model.space, f), at[rows].ravel(), atol=1e-11)
        c = model.rng.standard_normal(family.size)
        g = family.combine(model.space, c)
        # It is the adjoint of applying the family.
        assert model.space.dot(f, g) == pytest.approx(c @ family.apply(model.space, f))
        assert model.space.dot(g, f) == pytest.approx(c @ family.apply(model.space, f))
        np.testing.assert_array_equal(g.representers.ravel()[family.places()], c)


def test_families_of_other_spaces_raise():
    model = model_of()
    family = FamilyFunctionals(model.system, 0, 2)
    for space in (model_of().space, KernelSpace(model.kernel, D, 2)):
        with pytest.raises(ValueError, match="RepresenterSpace of the representers"):
            family.validate(space)
    with pytest.raises(ValueError, match="must have the 1 outputs of the family, got 2"):
        FamilyFunctionals(model.system, 0).validate(model.space)
