"""A kernel's space with representers against dense matrices over all atoms and functionals."""

import numpy as np
import pytest

from structinv.functionals import (
    Evaluation,
    Gradient,
    LocalAverage,
    SecondDerivative,
    TransformDifference,
)
from structinv.functionals.acting import FamilyFunctionals, LinearFunctionals
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Linear, Polynomial
from structinv.spaces import ExplicitSpace, KernelSpace, RepresenterSpace
from structinv.spaces.kernel_space import AtomRows

from .covering import pairs
from .kernel_problems import CACHES
from .oracle_cases import Reorderings, Shrinkings

D = 3
KERNELS = [Gaussian(1.3), Gaussian(1.5) + Polynomial(2, gamma=0.3)]
DEGREES = [None, 0, 1]
every_degree = pytest.mark.parametrize("free_degree", DEGREES)


class Model:
    """A space over the members of rows and functionals at some rows, and the Gram matrix of both.

    A function is told by dense numbers: one for each point, each functional, each free coefficient.
    """

    def __init__(self, cache_mb=100.0, n_outputs=2, kernel=None, free_degree=None, seed=0):
        self.kernel = kernel or Gaussian(1.3)
        self.rng = np.random.default_rng(seed)
        X, Z = self.rng.standard_normal((5, D)), self.rng.standard_normal((3, D))
        families = [
            Evaluation(),
            Gradient(),
            TransformDifference(Reorderings([[0, 1, 2], [2, 1, 0]])),
            LocalAverage(0.5, n_nodes=3),
            SecondDerivative(0, 1),
        ]
        parts = [family.bind(Z).parts(self.kernel) for family in families]
        self.system = Representers(self.kernel, parts, cache_mb=cache_mb)
        self.space = RepresenterSpace(
            self.system, D, n_outputs, free_degree=free_degree, cache_mb=cache_mb
        )
        source = Shrinkings().changes(X)
        self.pool = self.space.atoms.pool(source)
        orbit = source.members()
        self.points, self.size = orbit.reshape(-1, D), orbit.shape[1]
        every = [Evaluation().bind(self.points).parts(self.kernel), *parts]
        # Of atoms and representers.
        self.gram = Representers(self.kernel, every).gram()
        self.n_points, self.n_outputs = len(self.points), n_outputs
        # What points and functionals are of the free functions.
        of_points = np.column_stack([np.ones(self.n_points), self.points])
        self.free = np.vstack([of_points, self.system.monomials(1)])[:, : self.space.n_free]

    def normals(self, m, most=3):
        """Rows of none, one or several atoms, and the same as a dense array."""
        sizes = self.rng.integers(most + 1, size=m)
        numbers = self.rng.integers(self.n_points, size=sizes.sum())
        coefficients = self.rng.standard_normal((sizes.sum(), self.n_outputs))
        dense = np.zeros((m, len(self.gram), self.n_outputs))
        np.add.at(dense, (np.repeat(np.arange(m), sizes), numbers), coefficients)
        keys = self.pool.keys(*np.divmod(numbers, self.size))
        return AtomRows(self.space.atoms, keys, coefficients, np.r_[0, np.cumsum(sizes)]), dense

    def function(self, atoms=True, representers=True, free=True):
        """A function of the kinds that are asked for, and the same as dense arrays."""
        shape = (self.system.size, self.n_outputs)
        r = self.rng.standard_normal(shape) * (self.rng.random(shape) < 0.7) * representers
        b = self.rng.standard_normal((self.space.n_free, self.n_outputs)) * free
        f = self.space.of_representers(r, b)
        dense = np.zeros((len(self.gram), self.n_outputs))
        dense[self.n_points :] = r
        if atoms:
            rows, more = self.normals(4)
            f += self.space.combine(rows, np.ones(4))
            dense += more.sum(axis=0)
        return f, (dense, b)

    def mixed(self, m):
        """Normals of which some have representers, and the same as a dense array."""
        rows, dense = self.normals(m)
        parts, denses = [rows], [dense]
        for atoms in (True, False):
            f, (more, _) = self.function(atoms, free=False)
            parts.append(self.space.element(f))
            denses.append(more[None])
        both, order = self.space.stack([*parts, rows]), self.rng.permutation(2 * m + 2)
        return both[order], np.concatenate([*denses, dense])[order]

    def at(self, dense):
        """What all points and functionals are."""
        return self.gram @ dense[0] + self.free @ dense[1]

    def assert_is(self, f, dense):
        """That an expansion is what dense numbers say, wherever it may be asked."""
        wanted, atol = self.at(dense), 1e-10 * (1.0 + np.abs(dense[0]).max())
        values, functionals = wanted[: self.n_points], wanted[self.n_points :]
        np.testing.assert_allclose(f.functionals(), functionals, atol=atol)
        np.testing.assert_allclose(f.function()(self.points), values, atol=atol)
        known = self.space.atoms.known
        there = f.function()(known) if len(known) else np.zeros((0, self.n_outputs))
        np.testing.assert_allclose(f.values(), there, atol=atol)
        np.testing.assert_allclose(f.representers, dense[0][self.n_points :], atol=1e-12)
        np.testing.assert_allclose(f.free, dense[1], atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "free_degree", "cache_mb"), pairs(KERNELS, DEGREES, CACHES), ids=repr
)
def test_sums_are_what_dense_numbers_say(kernel, free_degree, cache_mb):
    model = Model(cache_mb, kernel=kernel, free_degree=free_degree)
    for kinds in np.ndindex(2, 2, 2):
        model.assert_is(*model.function(*map(bool, kinds)))


KINDS = [(True, True), (True, False), (False, True), (False, False)]


@pytest.mark.parametrize(
    ("right", "left", "free_degree", "cache_mb"), pairs(KINDS, KINDS, DEGREES, CACHES)
)
def test_inner_products_are_those_of_the_matrix_without_the_free_part(
    right, left, free_degree, cache_mb
):
    model = Model(cache_mb, free_degree=free_degree)
    (f, (dense_f, _)), (g, (dense_g, _)) = model.function(*left), model.function(*right)
    wanted = dense_f.T @ model.gram @ dense_g
    np.testing.assert_allclose(model.space.output_gram(f, g), wanted, atol=1e-10)
    np.testing.assert_allclose(model.space.output_gram(g, f), wanted.T, atol=1e-10)
    assert model.space.dot(f, g) == pytest.approx(np.trace(wanted), abs=1e-10)
    assert model.space.dot(f, f) == pytest.approx(np.sum(dense_f * (model.gram @ dense_f)), abs=1e-10)


@pytest.mark.parametrize(
    ("n_outputs", "kernel", "free_degree", "cache_mb"),
    pairs([1, 3], KERNELS, DEGREES, CACHES),
    ids=repr,
)
def test_operations_are_those_of_dense_arrays(n_outputs, kernel, free_degree, cache_mb):
    model = Model(cache_mb, n_outputs, kernel, free_degree)
    space = model.space
    for m, k in ((4, 5), (1, 1), (6, 3)):
        left, dense_left = model.mixed(m)
        right, dense_right = model.mixed(k)
        assert space.owns(left)
        wanted = np.einsum("mpk,pq,nqk->mn", dense_left, model.gram, dense_right, optimize=True)
        np.testing.assert_allclose(space.gram(left, right), wanted, atol=1e-10)
        np.testing.assert_allclose(space.gram(right, left), wanted.T, atol=1e-10)
        weights = model.rng.standard_normal(len(left)) * (model.rng.random(len(left)) < 0.8)
        f, nothing = space.combine(left, weights), np.zeros((space.n_free, n_outputs))
        dense_f = np.tensordot(weights, dense_left, 1)
        model.assert_is(f, (dense_f, nothing))
        g, (dense_g, b) = model.function()
        at = model.at((dense_g, b))
        wanted = np.einsum("pk,mpk->m", at, dense_left)
        np.testing.assert_allclose(space.scores(g, left), wanted, atol=1e-10)
        mixed = space.mix(left, weights)
        assert len(mixed) == 1
        model.assert_is(space.combine(mixed, np.array([2.0])), (2.0 * dense_f, nothing))
        np.testing.assert_allclose(space.scores(g, mixed), [np.sum(at * dense_f)], atol=1e-10)
        element = space.element(g)
        assert len(element) == 1
        model.assert_is(space.combine(element, np.array([-0.5])), (-0.5 * dense_g, nothing))


def test_normals_of_atoms_alone_stay_such():
    model = Model()
    rows, _ = model.normals(5)
    both = model.space.stack([rows, model.space.element(model.function()[0])])
    assert isinstance(both[:5], AtomRows)
    assert isinstance(both[np.array([2, 0])], AtomRows)
    assert not isinstance(both[4:], AtomRows)
    assert model.space.stack([rows]) is rows
    assert isinstance(model.space.element(model.function(representers=False)[0]), AtomRows)
    # Functions that belong to no row that is left are left behind.
    thrice = model.space.stack([both, both, both])
    assert (len(thrice), len(thrice.functions), len(thrice.owned)) == (18, 3, 3)
    assert len(thrice[np.array([11, 2, 11])].functions) == 1


@pytest.mark.parametrize(("seed", "free_degree", "cache_mb"), pairs(range(4), DEGREES, CACHES))
def test_expansions_carry_what_they_are_along(seed, free_degree, cache_mb):
    model = Model(cache_mb, free_degree=free_degree, seed=seed)
    space, rng = model.space, model.rng
    nothing = np.zeros((space.n_free, 2))
    mirrors = [(space.zeros(), (np.zeros((len(model.gram), 2)), nothing.copy()))]
    for _ in range(40):
        f, dense = mirrors[rng.integers(len(mirrors))]
        g, other = mirrors[rng.integers(len(mirrors))]
        action = rng.integers(10)
        if action == 0:
            mirrors.append(model.function(*(rng.random(3) < 0.6)))
        elif action == 1:
            f.values()
        elif action == 2:
            f.functionals()
        elif action == 3:
            mirrors.append((f.copy(), tuple(part.copy() for part in dense)))
        elif action == 4:
            mine, theirs = dense, [part.copy() for part in other]
            f += g
            for part, more in zip(mine, theirs, strict=True):
                part += more
        elif action == 5:
            mine, theirs = dense, [part.copy() for part in other]
            f -= g
            for part, more in zip(mine, theirs, strict=True):
                part -= more
        elif action == 6:
            f *= 0.5
            for part in dense:
                part *= 0.5
        elif action == 7:
            mirrors.append((f + g, tuple(a + b for a, b in zip(dense, other, strict=True))))
        elif action == 8:
            mirrors.append((f - g, tuple(a - b for a, b in zip(dense, other, strict=True))))
        else:
            rows, new = model.mixed(2)
            mirrors.append((space.combine(rows, np.ones(6)), (new.sum(axis=0), nothing.copy())))
        mirrors = mirrors[-6:]
    for f, dense in mirrors:
        model.assert_is(f, dense)
        fresh = space.of_representers(f.representers, f.free)
        fresh.make_room(len(f.coefficients))
        fresh.coefficients += f.coefficients
        model.assert_is(fresh, dense)


def test_coefficients_that_change_in_place_are_seen():
    # Steps of single blocks add to the coefficients of atoms themselves.
    model = Model(free_degree=1)
    f, dense = model.function()
    f.functionals()
    f.coefficients[1] += 2.0
    f._values = None
    places = model.space.atoms.points(np.arange(len(model.space.atoms)))
    number = np.flatnonzero(np.all(model.points == places[1], axis=1))[0]
    dense[0][number] += 2.0
    model.assert_is(f, dense)
    assert model.space.dot(f, f) == pytest.approx(np.sum(dense[0] * (model.gram @ dense[0])))


def test_what_somebody_has_computed_is_taken_over():
    model = Model()
    f, _ = model.function()
    f.know(np.full((model.system.size, 2), 7.0))
    assert np.all(f.functionals() == 7.0)
    f += f
    assert np.all(f.functionals() == 14.0)


def test_a_copy_is_independent():
    model = Model(free_degree=1)
    f, dense = model.function()
    f.values()
    f.functionals()
    other = f.copy()
    other += model.function()[0]
    other *= 3.0
    model.assert_is(f, dense)
    element = model.space.element(f)
    f *= 2.0
    nothing = np.zeros((model.space.n_free, 2))
    model.assert_is(model.space.combine(element, np.ones(1)), (dense[0], nothing))


@every_degree
def test_nothing_is_a_sum_of_nothing(free_degree):
    model = Model(free_degree=free_degree)
    space, zero = model.space, model.space.zeros()
    rows, dense = model.mixed(3)
    f, _ = model.function()
    none, hollow = rows[:0], space.element(zero)
    assert (len(none), len(hollow), len(space.stack([none, hollow]))) == (0, 1, 1)
    assert space.dot(zero, zero) == space.dot(zero, f) == space.dot(f, zero) == 0.0
    np.testing.assert_array_equal(space.scores(zero, rows), np.zeros(8))
    np.testing.assert_array_equal(space.gram(hollow, rows), np.zeros((1, 8)))
    assert space.gram(none, rows).shape == (0, 8)
    nothing = (0.0 * dense[0], np.zeros((space.n_free, 2)))
    for sum_of_none in (space.combine(none, np.zeros(0)), space.combine(hollow, np.ones(1)), f - f):
        model.assert_is(sum_of_none, nothing)
    model.assert_is(zero, nothing)


@every_degree
def test_the_free_part_costs_nothing_but_is_there(free_degree):
    model = Model(free_degree=free_degree)
    space = model.space
    n_free = {None: 0, 0: 1, 1: 1 + D}[free_degree]
    assert space.n_free == n_free
    f, dense = model.function(atoms=False, representers=False)
    assert space.dot(f, f) == pytest.approx(0.0, abs=1e-12)
    model.assert_is(f, dense)
    Z = model.rng.standard_normal((4, D))
    b = np.vstack([dense[1], np.zeros((1 + D - n_free, 2))])
    np.testing.assert_allclose(f.function()(Z), b[0] + Z @ b[1:], atol=1e-12)
    g, (dense_g, _) = model.function()
    wanted = np.sum(dense_g * (model.gram @ dense_g))
    assert space.dot(f + g, f + g) == pytest.approx(wanted)
    rows, dense_rows = model.mixed(3)
    scores = np.einsum("pk,mpk->m", model.at(dense), dense_rows)
    np.testing.assert_allclose(space.scores(f, rows), scores, atol=1e-11)


def test_points_that_become_known_later_have_their_values():
    model = Model(cache_mb=0.0, free_degree=1)
    f, dense = model.function()
    before = len(f.values())
    model.space.combine(model.normals(8)[0], np.ones(8)).support()
    assert model.space.atoms.n_known > before
    model.assert_is(f, dense)


def test_functions_of_other_spaces_are_refused():
    model = Model()
    plain = KernelSpace(model.kernel, D, 2)
    with pytest.raises(TypeError, match="only functions of the same space"):
        _ = model.space.zeros() + plain.zeros()
    assert not model.space.owns(plain.element(plain.zeros()))
    assert not Model().space.owns(model.mixed(2)[0])


def test_a_compact_copy_keeps_points_and_representers():
    model = Model()
    f, _ = model.function()
    space, rows = model.space.compacted(model.space.element(f))
    again = space.combine(rows, np.ones(1))
    points = np.random.default_rng(3).standard_normal((5, D))
    expected = f.function()(points) - model.space.basis(points) @ f.free
    np.testing.assert_allclose(again.function()(points), expected, atol=1e-10)
    assert len(space.atoms) == len(f.support())


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_families_act_on_all_outputs(n_outputs):
    model = Model(n_outputs=n_outputs)
    f, dense = model.function()
    at = model.at(dense)[model.n_points :]
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


def test_families_of_other_spaces_are_refused():
    model = Model()
    family = FamilyFunctionals(model.system, 0, 2)
    for space in (Model().space, KernelSpace(model.kernel, D, 2)):
        with pytest.raises(ValueError, match="RepresenterSpace of its own representers"):
            family.validate(space)
    with pytest.raises(ValueError, match="of 1 outputs, the space has 2"):
        FamilyFunctionals(model.system, 0).validate(model.space)


def test_linear_functionals_are_those_of_the_linear_kernel():
    rng, space = np.random.default_rng(0), ExplicitSpace(D, 2, intercept=True)
    A, Z = rng.standard_normal((5, 2 * D)), rng.standard_normal((4, D))
    family = LinearFunctionals(A)
    family.validate(space)
    assert family.size == 5
    assert family.places() is None
    f, c = rng.standard_normal(len(space.zeros())), rng.standard_normal(5)
    np.testing.assert_allclose(family.apply(space, f), A @ space.weights(f).ravel())
    g = family.combine(space, c)
    weights = space.weights(f).ravel()
    assert space.weights(g).ravel() @ weights == pytest.approx(c @ family.apply(space, f))
    with pytest.raises(ValueError, match="coefficients must have 6 columns"):
        LinearFunctionals(A[:, :4]).validate(space)
    with pytest.raises(ValueError, match="explicit weights"):
        family.validate(Model().space)
    # Gradients of a linear function are its weights.
    bound = Gradient().bind(Z)
    np.testing.assert_allclose(bound.representers(Linear(), Z), np.tile(Z, (1, 4)))
