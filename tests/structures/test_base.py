"""Output structures: labels, sequences, and the contract of custom structures."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.certificates.certificate import worst_change
from structinv.dual import dual_state, refusals
from structinv.dual.box_state import BoxState
from structinv.dual.plane_cache import PlaneCache
from structinv.oracles import Box, Ellipsoid, FDrop, Identity
from structinv.solvers import FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import (
    REGISTRY,
    Binary,
    Decoding,
    Graph,
    Layout,
    Multilabel,
    RowStructure,
    Sequence,
    Structure,
    check_structure,
)
from structinv.structures.classes import Multiclass
from structinv.structures.graph import GraphLayout
from structinv.structures.multilabel import positions
from structinv.terms import Objective, WorstCase
from structinv.utils.exceptions import CheckError

LABELS, FEATURES = 3, 4
LENGTHS = (3, 1, 2, 3)


def sequences(seed=0):
    """Return rows, labels, lengths and weights of a few short sequences."""
    rng = np.random.default_rng(seed)
    y = rng.integers(LABELS, size=sum(LENGTHS))
    X = rng.standard_normal((LABELS, FEATURES))[y] + 0.6 * rng.standard_normal((len(y), FEATURES))
    return X, y, LENGTHS, np.array([0.5, 0.2, 0.4, 0.3])


def changed(x, n_drops):
    """Return all inputs with a limited number of features removed."""
    masks = product([0.0, 1.0], repeat=len(x))
    return np.array([x * np.array(mask) for mask in masks if sum(mask) >= len(x) - n_drops])


def broken(name, base=Sequence, **methods):
    return type(name, (base,), methods)


def best_alone(self, potentials, pairwise, layout):
    return Decoding(np.argmax(potentials, axis=1))


def decode_with(change):
    """Return the best labels, with a bound that is shifted by a number."""

    def decode(self, potentials, pairwise, layout):
        found = Sequence.decode(self, potentials, pairwise, layout)
        return Decoding(found.labels, self.score(potentials, found.labels, pairwise, layout) + change)

    return decode


def loose(self, potentials, pairwise, layout):
    """Return inexact labels with a valid bound."""
    return Decoding(
        np.argmax(potentials, axis=1), decode_with(1.0)(self, potentials, pairwise, layout).upper
    )


def scaled_features(self, labels, layout, n_labels):
    return Sequence.features(self, labels, layout, n_labels) * (2.0 + len(layout))


def counts_less(self, *asked):
    return Sequence.best_by_wrong(self, *asked) - 0.1


BROKEN = [
    broken("Blind", decode=best_alone),
    broken("Boastful", decode=decode_with(-0.1)),
    broken("Greedy", RowStructure,
           decode=lambda self, potentials, *_: Decoding(np.zeros(len(potentials), dtype=int))),
    broken("Same", runner_up=lambda self, potentials, codes, pairwise, layout:
           Decoding(codes.copy(), np.zeros(len(layout)))),
    broken("Leaky", features=scaled_features),
    broken("Vain", pairwise_score=lambda self, *asked: Sequence.pairwise_score(self, *asked) + 1.0),
    broken("Short", best_by_wrong=counts_less),
]  # fmt: skip
Loose = broken("Loose", decode=loose, runner_up=Structure.runner_up)


TRANSITIONS = {(0, 0), (0, 1), (1, 2), (2, 0), (2, 1)}


@pytest.mark.parametrize(
    "structure", [*(REGISTRY[name]() for name in sorted(REGISTRY)), Loose(), Sequence(TRANSITIONS)]
)
def test_structures_keep_the_contract(structure):
    check_structure(structure)


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_structures_are_found(kind):
    with pytest.raises(CheckError, match=kind.__name__):
        check_structure(kind())


def test_iob2_forbids_chunks_that_start_inside():
    classes = np.array(["B-NP", "B-VP", "I-NP", "I-VP", "O"])
    structure = Sequence("iob2").prepared(classes, np.zeros(0, dtype=int), None)
    assert structure.prepared(classes, np.zeros(0, dtype=int), None) is structure
    for labels in product(range(5), repeat=3):
        names, before = classes[list(labels)], ("O", *classes[list(labels)][:-1])
        fine = all(
            name[0] != "I" or (last != "O" and last[2:] == name[2:])
            for last, name in zip(before, names, strict=True)
        )
        allowed = structure.allows(np.array(labels), Layout.of_lengths([3]), 5)
        assert allowed[0] == fine, names
        potentials = np.eye(5)[list(labels)]
        found = structure.decode(potentials, np.zeros(35), Layout.of_lengths([3])).labels
        assert structure.allows(found, Layout.of_lengths([3]), 5)[0]


def test_a_training_labeling_that_is_forbidden_is_named():
    X, y = np.eye(4), np.array(["a", "b", "b", "a"])
    structure, layout = Sequence({("a", "b"), ("b", "b")}), Layout.of_lengths([2, 2])
    with pytest.raises(ValueError, match=r"that of example 1, \['b', 'a'\]"):
        WorstCase(X, y, Identity(), structure, layout=layout)


ByDecoding = broken("ByDecoding", budgets=True, best_by_wrong=Structure.best_by_wrong)


@pytest.mark.parametrize("structure", [Sequence(), ByDecoding()], ids=repr)
def test_labelings_exactly_at_the_threshold_count(structure):
    labels = bound(structure=structure)
    potentials, pairwise = np.zeros((3, labels.n_labels)), np.zeros(labels.n_pairwise)
    for threshold, most in ((0.0, 3), (1e-9, 0)):
        found = labels.most_wrong(
            potentials, labels.codes, np.array([threshold]), pairwise, labels.layout
        )
        assert found.tolist() == [most]


class Narrow(Sequence):
    def best_by_wrong(self, potentials, codes, pairwise, layout):
        return super().best_by_wrong(potentials, codes, pairwise, layout)[:, :-1]


def test_best_by_wrong_of_wrong_shape_raises():
    with pytest.raises(ValueError, match=r"Narrow\.best_by_wrong must return scores of shape"):
        check_structure(Narrow())


class Squares(ExplicitSpace):
    """Linear functions of squared features, as in a third-party space."""

    def worst(self, f, bound, rows, competitors, points=True, rounding=False):
        raise NotImplementedError

    def weights(self, f):
        return super().weights(f) ** 2


def test_states_of_boxes_require_a_space_linear_in_x():
    X, y = np.array([[1.0, 2.0], [-1.0, 0.5], [0.3, -1.0]]), np.array([0, 1, 1])
    term = WorstCase(X, y, Box(0.2), Binary())
    rng = np.random.default_rng(0)
    assert isinstance(dual_state(term, ExplicitSpace(2), rng), BoxState)
    assert isinstance(dual_state(term, Squares(2), rng), PlaneCache)
    assert refusals(term, Squares(2))["boxes"] == "the space is not linear in x"


class Renamed(ExplicitSpace):
    """Subclass with the same functions."""

    def __init__(self, n_features):
        super().__init__(n_features)


class Declared(ExplicitSpace):
    """Subclass that overrides a method and declares its capabilities again."""

    capabilities = frozenset(["linear in x"])

    def zeros(self):
        return np.zeros(self.size)


@pytest.mark.parametrize("kind", [Renamed, Declared])
def test_subclass_of_space_must_declare_capabilities_again(kind):
    term = WorstCase(np.eye(2), np.array([0, 1]), Box(0.2), Binary())
    assert isinstance(dual_state(term, kind(2), np.random.default_rng(0)), BoxState)


class Halved(WorstCase):
    def planes(self, space, f, blocks=slice(None)):
        raise NotImplementedError


def test_unsupported_dual_states_raise_with_reason():
    rows = np.eye(2), np.array([0, 1])
    space = ExplicitSpace(2)
    reason = refusals(Halved(*rows, Box(0.2), Binary()), space)["boxes"]
    assert reason == "the term is Halved, not WorstCase"
    costly = WorstCase(*rows, Box(0.2), Binary(), cost=[[0, 2], [1, 0]])
    assert "costs differ from 1" in refusals(costly, space)["boxes"]
    assert "plane_tol" in refusals(WorstCase(*rows, Box(0.2), Binary()), space, 0.1)["boxes"]
    several = refusals(WorstCase(*rows, Box(0.2), Multiclass()), ExplicitSpace(2, 2))
    assert several["linear_members"] == "Box has no list of members with scores"
    assert "plane_cache" not in several


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3, 40])
def test_normals_of_several_rows_are_folded_into_one(sparse, n_outputs):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((7, 3)) * (rng.random((7, 3)) < 0.7)
    coefficients = np.where(rng.random((7, n_outputs)) < 0.3, rng.standard_normal((7, n_outputs)), 0)
    starts, pairwise = np.array([0, 2, 3, 7]), rng.standard_normal((3, 5))
    space = ExplicitSpace(3, n_outputs, intercept=True, n_pairwise=5)
    rows = space.normals(sp.csr_matrix(X) if sparse else X, coefficients, starts, pairwise)
    written = rows.toarray() if sp.issparse(rows) else rows
    assert written.shape == (3, space.size)
    whole = np.column_stack([X, np.ones(7)])
    for b, (first, last) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        table = whole[first:last].T @ coefficients[first:last]
        np.testing.assert_allclose(written[b], np.r_[table.ravel(), pairwise[b]], atol=1e-12)


@pytest.mark.parametrize("at_once", [1, 4, 8, 10**9])
@pytest.mark.parametrize("structure", [Sequence(), Multiclass()], ids=repr)
@pytest.mark.parametrize("oracle", [FDrop(1), Ellipsoid(np.eye(FEATURES))], ids=["fdrop", "ellipsoid"])
def test_planes_do_not_depend_on_directions_per_call(monkeypatch, oracle, structure, at_once):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, FEATURES)), rng.integers(LABELS, size=30)
    layout = None if structure.rowwise else Layout.of_lengths([5] * 6)
    term = WorstCase(X, y, oracle, structure, layout=layout)
    space = ExplicitSpace(FEATURES, LABELS, n_pairwise=term.bound_structure.n_pairwise)
    f = rng.standard_normal(space.size)
    whole = term.planes(space, f)
    monkeypatch.setattr("structinv.oracles.query.WEIGHTS_AT_ONCE", at_once * FEATURES)
    planes = term.planes(space, f)
    np.testing.assert_allclose(planes.upper, whole.upper, atol=1e-9)
    np.testing.assert_allclose(planes.offsets - space.scores(f, planes.normals), planes.upper, atol=1e-9)


def test_portions_count_rows(monkeypatch):
    X, y, lengths, weights = sequences()
    monkeypatch.setattr("structinv.terms.worst_case.ROWS_AT_ONCE", 4)
    term = WorstCase(X, y, FDrop(1), Sequence(), weights, layout=Layout.of_lengths(lengths))
    parts = [np.arange(len(lengths))[part] for part in term.portions()]
    assert [part.tolist() for part in parts] == [[0, 1], [2], [3]]
    assert [part.tolist() for part in term.bound_structure.portions(np.array([3, 1, 0, 2]), 4)] == [
        [3, 1], [0], [2],
    ]  # fmt: skip
    # A slice may start after the first example.
    portions = term.bound_structure.portions(slice(1, 4), 4)
    assert [np.arange(len(lengths))[part].tolist() for part in portions] == [[1, 2], [3]]


def test_memory_is_not_cubic_in_the_number_of_labels(monkeypatch):
    """No array has n_labels ** 3 values, or n_labels ** 3 times the number of features."""
    n_labels, rng = 400, np.random.default_rng(0)
    X, y = rng.standard_normal((500, 5)), np.arange(500) % n_labels
    term = WorstCase(X, y, FDrop(1), Multiclass(), 1.0)
    space = ExplicitSpace(5, n_labels)
    largest, zeros = [0], np.zeros

    def watched(shape, *args, **kwargs):
        made = zeros(shape, *args, **kwargs)
        largest[0] = max(largest[0], made.size)
        return made

    monkeypatch.setattr(np, "zeros", watched)
    f = rng.standard_normal(space.size)
    planes = term.planes(space, f)
    monkeypatch.undo()
    assert largest[0] <= 2 * max(n_labels**2, len(X) * n_labels)
    W = space.weights(f)
    for i in range(3):
        gains = [np.max(changed(X[i], 1) @ (W[k] - W[y[i]])) + 1.0 for k in range(n_labels) if k != y[i]]
        assert planes.upper[i] == pytest.approx(max(gains), rel=1e-12)
        assert planes.plane_values[i] == pytest.approx(max(gains), rel=1e-12)


@pytest.mark.parametrize("solver", [FrankWolfe(), SVMStruct()], ids=repr)
def test_examples_of_one_row_need_no_layout(solver):
    """Examples of one row have weights of the first and last label, too."""
    X, y, _, _ = sequences()
    found = []
    for layout in (None, Layout.of_rows(len(y))):
        term = WorstCase(X, y, FDrop(1), Sequence(), 0.5, layout=layout)
        space = ExplicitSpace(FEATURES, LABELS, n_pairwise=Sequence().n_pairwise(LABELS))
        found.append(solve(Objective(space, [term]), solver, Gap(1e-7), random_state=0))
        assert np.any(space.pairwise(found[-1].f) != 0)
    one, other = found
    assert one.status is other.status is Status.CONVERGED
    assert one.primal == pytest.approx(other.primal, rel=1e-6)


def test_unsortable_labels_keep_their_order():
    classes, y = np.array(["a", 1, None], dtype=object), np.array([None, "a", 1, 1], dtype=object)
    assert Sequence().bind(y, classes, layout=Layout.of_lengths([4])).codes.tolist() == [2, 0, 1, 1]
    with pytest.raises(ValueError, match=r"not among the classes: \[2\]"):
        Sequence().bind(np.array([2], dtype=object), classes)


def test_weights_of_positions_multiply_costs():
    labels = Sequence().bind(np.array([0, 1]), cost=[[0, 2], [3, 0]], position_weight=[0.5, 2.0])
    np.testing.assert_array_equal(labels.competitors().costs, [[0, 1], [6, 0]])


def test_memory_of_planes_does_not_grow_with_the_rows_of_an_example():
    rng = np.random.default_rng(0)
    sizes = []
    for length in (5, 50):
        X, y = rng.standard_normal((4 * length, 3)), np.arange(4 * length) % 2
        term = WorstCase(X, y, FDrop(1), Sequence(), layout=Layout.of_lengths([length] * 4))
        space = ExplicitSpace(3, 2, n_pairwise=8)
        planes = term.planes(space, rng.standard_normal(space.size))
        sizes.append(planes.normals.nbytes)
    assert sizes[0] == sizes[1] == 8 * 4 * (3 * 2 + 8)


def iob2():
    labels = np.array(["B-x", "I-x", "O", "B-y", "O", "B-x"])
    return Sequence("iob2"), labels, Layout.of_lengths([2, 1, 1, 2])


def label_sets():
    y = np.random.default_rng(0).integers(2, size=(8, 4))
    y[:, 3] = y[:, 0]
    return Multilabel("tree"), *positions(y)


def graphs():
    edges = [[], [], [(0, 1)], [(1, 0), (0, 2)]]
    features = [np.ones((len(each), 2)) for each in edges]
    return Graph(), np.arange(7) % 2, GraphLayout.of_graphs([1, 1, 2, 3], edges, features)


@pytest.mark.parametrize("make", [iob2, label_sets, graphs])
def test_summaries_of_partitions_equal_those_of_all_examples(make):
    structure, labels, layout = make()
    classes, codes = np.unique(labels, return_inverse=True)
    known = structure.prepared(classes, codes, layout)
    parts = [np.arange(0, 1), np.arange(1, 2), np.arange(2, len(layout))]
    told = [structure.summary(labels[layout.rows(part)], layout.take(part)) for part in parts]
    found = structure.prepared_by(classes, told)
    assert found is not structure
    assert vars(found).keys() == vars(known).keys()
    for name, value in vars(known).items():
        np.testing.assert_array_equal(vars(found)[name], value)
    assert found.prepared(classes, codes, layout) is found


def test_learning_structure_must_implement_summaries():
    class Learning(Sequence):
        def prepared(self, classes, codes, layout):
            return self

    with pytest.raises(TypeError, match="Learning must implement `summary` and `prepared_by`"):
        Learning().prepared_by(np.arange(2), [None])


def test_subclass_of_layout_must_override_join():
    class Nested(Layout):
        pass

    with pytest.raises(TypeError, match="Nested must override join"):
        Nested.join([Nested(np.array([0, 1]))])


class OneChosen(Structure):
    """Exactly one row of each example has label 1, so an example of one row has a single labeling."""

    def decode(self, potentials, pairwise, layout):
        gains = potentials[:, 1] - potentials[:, 0]
        labels = np.zeros(len(gains), dtype=int)
        labels[np.lexsort((-gains, layout.owners))[layout.starts[:-1]]] = 1
        return Decoding(labels)

    def allows(self, labels, layout, n_labels):
        return layout.sums(labels == 1) == 1


def test_examples_may_have_a_single_labeling():
    check_structure(OneChosen(), n_labels=2)


def test_check_structure_still_compares_other_labelings_of_one_chosen_row():
    class Careless(OneChosen):
        def runner_up(self, potentials, codes, pairwise, layout):
            return Decoding(codes.copy())

    with pytest.raises(CheckError, match="Careless.runner_up: the labeling must differ"):
        check_structure(Careless(), n_labels=2)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("allows", r"must return allows of shape \(1,\), got \(2,\)"),
        ("most_wrong", r"must return counts of shape \(1,\), got \(2,\)"),
        ("pairwise_score", r"must return pairwise_score of shape \(1,\), got \(2,\)"),
    ],
)
def test_shapes_of_optional_methods_are_checked(method, message):
    def twice(self, *arguments):
        return np.repeat(getattr(super(Twice, self), method)(*arguments), 2)

    Twice = type("Twice", (Sequence,), {method: twice})
    refused = pytest.raises(ValueError, match=f"Twice.{method} {message}")
    with refused:
        check_structure(Twice())
    labels = bound(structure=Twice())
    pairwise, potentials = np.zeros(labels.n_pairwise), np.zeros((3, labels.n_labels))
    with refused:
        if method == "allows":
            labels.allowed()
        elif method == "most_wrong":
            labels.most_wrong(potentials, labels.codes, np.zeros(1), pairwise, labels.layout)
        else:
            labels.pairwise_gain(
                Decoding(labels.codes, np.zeros(1)), labels.codes, pairwise, labels.layout
            )


def bound(y=(0, 1, 1), structure=None, **given):
    """Labels of one sequence of three rows."""
    return (structure or Sequence()).bind(np.array(y), **{"layout": Layout.of_lengths([3]), **given})


ROWS = np.zeros((3, 4))


def allowed(pairs):
    return lambda: bound([0, 1, 1], Sequence(pairs))


def predicted(n_rows=3, **given):
    return lambda: bound().predict(np.zeros((n_rows, 2)), np.zeros(8), **given)


def attacked(X=ROWS, coef=ROWS[:2], pairwise=None):
    return lambda: worst_change(coef, np.zeros(2), FDrop(1), bound(), X, pairwise=pairwise)


STARTS = "starts must increase from 0 to the number of rows"
LENGTH = "lengths must be integers of at least 1"
FORMATS = "X must be an array or a CSR matrix.*tocsr"
REFUSED = [
    *(
        (lambda lengths=each: Layout.of_lengths(lengths), LENGTH)
        for each in ([3, 0], [1.5], [[1, 2]], [])
    ),
    (lambda: bound(layout=Layout.of_lengths([2, 2])), f"layout.{STARTS}"),
    (lambda: bound(layout=Layout(np.array([0, 3, 3]))), "layout.starts must increase from 0"),
    (lambda: bound(layout=Layout(np.array([0.0, 3.0]))), "layout.starts must contain integers"),
    (lambda: bound(structure=Binary()), "layout must be None for Binary"),
    (lambda: bound(rescaling="slack"), "rescaling must be one of"),
    (lambda: bound(cost=np.ones((2, 2))), "cost must have a zero diagonal"),
    *((lambda w=each: bound(position_weight=w), "position_weight") for each in ([1.0], [-1, 1, 1])),
    (lambda: Multiclass().bind(np.array([1.0, np.nan, 2.0])), "got NaN"),
    (lambda: Multiclass().bind(np.zeros((3, 2))), "y must have shape"),
    (lambda: Multiclass().bind(np.array([0, 1]), np.array([1, 0])), "classes must be sorted"),
    (allowed([(0, 1)]), "sequences of any length"),
    (allowed("iob2"), "requires labels"),
    (predicted(5, layout=Layout.of_lengths([3])), f"{STARTS}, 5"),
    (predicted(layout=Layout(np.array([0, 500]))), "starts must increase"),
    (predicted(layout=Layout(np.array([3]))), "starts must increase"),
    (attacked(), "pairwise must have shape"),
    (attacked(coef=ROWS[:2].T, pairwise=np.zeros(8)), "coef and intercept must have shapes"),
    (lambda: Graph().prepared_by(np.arange(2), [2, None, 1]), r"in all graphs, got \[1, 2\]"),
    (lambda: check_structure(Sequence(), n_labels=30, longest=30), "all labelings are compared"),
    (lambda: check_structure(Sequence(), trials=0), "trials must be at least 1"),
    (lambda: check_structure(Sequence(), longest=0), "longest must be at least 1"),
    (lambda: check_structure(Sequence(), n_labels=1), "n_labels must be at least 2"),
]
WRONG_TYPES = [
    (allowed("bio"), "allowed must be None"),
    (allowed(3), "allowed must be None"),
    (allowed([(0, 1, 2)]), r"got the item \(0, 1, 2\)"),
    (lambda: Multiclass().bind(np.array([1, None, 2], dtype=object)), "labels of one sortable type"),
    *((attacked(sp.csr_matrix((3, 4)).asformat(kind)), FORMATS) for kind in ("csc", "coo", "lil")),
    (lambda: WorstCase(sp.coo_matrix((3, 4)), np.arange(3) % 2, FDrop(1), Binary()), FORMATS),
    (lambda: check_structure(Sequence), "instance of a Structure"),
]


@pytest.mark.parametrize(
    ("call", "message", "error"),
    [(*row, ValueError) for row in REFUSED] + [(*row, TypeError) for row in WRONG_TYPES],
)
def test_wrong_arguments_raise_with_their_name(call, message, error):
    with pytest.raises(error, match=message):
        call()
