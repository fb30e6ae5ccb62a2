"""Graphs of labels: inference against enumeration and linear programs, training against cvxpy."""

from __future__ import annotations

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.base import clone

from structinv import InvariantStructuredSVC, load, save
from structinv.certificates.certificate import worst_change
from structinv.oracles import Box, FDrop, Flip, Identity, InvarianceOracle, Shared, Support
from structinv.solvers import FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Decoding, Graph, check_structure
from structinv.structures.decodings import Layout
from structinv.structures.graph import GraphLayout
from structinv.structures.local_polytope import PAIRS_AT_ONCE
from structinv.terms import Objective, WorstCase
from structinv.utils.exceptions import CheckError

from ..covering import each_once
from ..problems import assert_brackets, minimum
from .cases import Turns

LABELS = 3


def drawn(seed, *, forest=False, n_labels=LABELS, n_features=2, largest=6):
    """Return three random graphs, potentials with forbidden labels, weights and a labeling."""
    rng = np.random.default_rng(seed)
    sizes, edges = rng.integers(1, largest, size=3), []
    for size in sizes:
        if forest:
            places = rng.permutation(size)
            tree = [(rng.integers(u), u) for u in range(1, size) if rng.random() < 0.8]
            pairs = [(places[u], places[v])[:: rng.choice([1, -1])] for u, v in tree]
        else:
            pairs = [(u, v) for u, v in product(range(size), repeat=2) if u != v and rng.random() < 0.4]
        edges.append(pairs)
    features = [rng.standard_normal((len(each), n_features)) for each in edges]
    layout = GraphLayout.of_graphs(sizes.tolist(), edges, features)
    potentials = rng.standard_normal((layout.n_rows, n_labels))
    pairwise = rng.choice([0.3, 3.0]) * rng.standard_normal(layout.edge_features.shape[1] * n_labels**2)
    if seed % 3 == 0:
        potentials, pairwise = np.round(potentials), np.round(pairwise)
    if seed % 2 and n_labels > 2:
        potentials[np.arange(layout.n_rows), rng.integers(n_labels, size=layout.n_rows)] = -np.inf
    return layout, potentials, pairwise, rng.integers(n_labels, size=layout.n_rows)


def prepared(structure, layout, n_labels=LABELS):
    return structure.prepared(np.arange(n_labels), np.zeros(layout.n_rows, dtype=int), layout)


def edge_scores(layout, pairwise, n_labels):
    """Return the score of each pair of labels of each edge, from the definition."""
    tables = pairwise.reshape(-1, n_labels, n_labels)
    return np.einsum("ej,jkl->ekl", layout.edge_features, tables)


def enumerated(layout, potentials, pairwise):
    """Return all labelings of each graph, and their scores from the definition."""
    n_labels = potentials.shape[1]
    table = edge_scores(layout, pairwise, n_labels)
    for b in range(len(layout)):
        own = potentials[layout.starts[b] : layout.starts[b + 1]]
        labelings = np.array(list(product(range(n_labels), repeat=len(own))))
        scores = own[np.arange(len(own)), labelings].sum(axis=1)
        for e in range(layout.edge_starts[b], layout.edge_starts[b + 1]):
            u, v = layout.edges[e]
            scores = scores + table[e, labelings[:, u], labelings[:, v]]
        yield b, slice(*layout.starts[b : b + 2]), labelings, scores


def place(labelings, labels):
    return int(np.flatnonzero(np.all(labelings == labels, axis=1))[0])


@pytest.mark.parametrize("structure", [Graph("exact"), Graph("relaxed")], ids=repr)
def test_graphs_keep_the_contract_of_structures(structure):
    check_structure(structure, trials=20)
    check_structure(structure, n_labels=2, longest=6, trials=10)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), forest=st.booleans())
def test_exact_inference_equals_enumeration(seed, forest):
    layout, potentials, pairwise, codes = drawn(seed, forest=forest)
    graph = prepared(Graph("exact"), layout)
    best = graph.decode(potentials, pairwise, layout)
    other = graph.runner_up(potentials, codes, pairwise, layout)
    for b, rows, labelings, scores in enumerated(layout, potentials, pairwise):
        assert scores[place(labelings, best.labels[rows])] == pytest.approx(scores.max(), abs=1e-9)
        differ = np.any(labelings != codes[rows], axis=1)
        highest = scores[differ].max()
        assert other.upper[b] == pytest.approx(highest, abs=1e-9)
        if highest > -np.inf:
            found = place(labelings, other.labels[rows])
            assert differ[found]
            assert scores[found] == pytest.approx(highest, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.0, 1.0))
def test_counts_of_wrong_nodes_are_bounds(seed, share):
    layout, potentials, pairwise, codes = drawn(seed, forest=seed % 4 < 2)
    bound = Graph().bind(codes, np.arange(LABELS), layout=layout)
    every = list(enumerated(layout, potentials, pairwise))
    finite = [scores[np.isfinite(scores)] for *_, scores in every]
    lower_bounds = np.array([np.quantile(scores, share) for scores in finite]) - 1e-7
    found = bound.most_wrong(potentials, codes, lower_bounds, pairwise, layout)
    for b, rows, labelings, scores in every:
        wanted = np.sum(labelings != codes[rows], axis=1)[scores >= lower_bounds[b]].max()
        assert wanted <= found[b] <= len(labelings[0])


def local_polytope(own, table, edges):
    """Return the maximum over fractional labelings, by a linear program."""
    n_nodes, n_labels = own.shape
    first = n_nodes * n_labels + np.arange(len(edges))[:, None, None] * n_labels**2
    joint = first + np.arange(n_labels**2).reshape(n_labels, n_labels)
    rows = []
    n_variables = n_nodes * n_labels + len(edges) * n_labels**2
    for u in range(n_nodes):
        rows.append(np.bincount(u * n_labels + np.arange(n_labels), minlength=n_variables))
    for e, ends in enumerate(edges):
        for side, u in enumerate(ends):
            for k in range(n_labels):
                row = np.bincount(np.take(joint[e], k, axis=side), minlength=n_variables).astype(float)
                row[u * n_labels + k] = -1.0
                rows.append(row)
    due = np.r_[np.ones(n_nodes), np.zeros(len(rows) - n_nodes)]
    bounds = [(0, 0 if np.isinf(each) else None) for each in own.ravel()] + [(0, None)] * joint.size
    cost = -np.r_[np.where(np.isinf(own), 0.0, own).ravel(), table.ravel()]
    found = linprog(cost, A_eq=np.array(rows), b_eq=due, bounds=bounds, method="highs")
    assert found.success
    return -found.fun


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n_labels=st.integers(2, 4))
def test_relaxed_inference_solves_the_linear_program(seed, n_labels):
    layout, potentials, pairwise, _ = drawn(seed, n_labels=n_labels, n_features=1, largest=7)
    graph = prepared(Graph("relaxed", tol=1e-9, max_steps=20_000), layout, n_labels)
    found = graph.decode(potentials, pairwise, layout)
    table = edge_scores(layout, pairwise, n_labels)
    reached = graph.score(potentials, found.labels, pairwise, layout)
    if found.fractions is not None:
        np.testing.assert_allclose(found.fractions.sum(axis=1), 1.0, atol=1e-12)
        assert found.fractions.min() >= 0
        assert np.all(found.fractions[np.isinf(potentials)] == 0)
        each = np.where(found.fractions > 0, potentials, 0.0) * found.fractions
        reached = layout.sums(each.sum(axis=1)) + found.features @ pairwise
    for b in np.flatnonzero(~graph._exact(layout, n_labels)):
        edges = slice(*layout.edge_starts[b : b + 2])
        own = potentials[layout.starts[b] : layout.starts[b + 1]]
        best = local_polytope(own, table[edges], layout.edges[edges])
        room = 1e-6 * (1.0 + abs(best))
        assert best - room <= reached[b] <= best + 1e-9 * (1.0 + abs(best))
        if found.upper is not None:
            assert best - 1e-9 * (1.0 + abs(best)) <= found.upper[b] <= best + room


def grid(height, width):
    cells = np.arange(height * width).reshape(height, width)
    right = np.column_stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()])
    return np.vstack([right, np.column_stack([cells[:-1].ravel(), cells[1:].ravel()])])


@pytest.mark.parametrize("seed", range(3))
def test_second_program_solves_grids_with_many_labels(seed):
    rng, n_labels, edges = np.random.default_rng(seed), 6, grid(8, 8)
    features = [rng.standard_normal((len(edges), 3)) for _ in range(2)]
    layout = GraphLayout.of_graphs([64, 64], [edges, edges[::-1]], features)
    potentials = rng.standard_normal((128, n_labels))
    pairwise = rng.standard_normal(3 * n_labels**2)
    assert len(edges) * n_labels**2 > PAIRS_AT_ONCE
    graph = prepared(Graph("relaxed", tol=1e-8), layout, n_labels)
    found = graph.decode(potentials, pairwise, layout)
    assert found.fractions is not None
    each = np.where(found.fractions > 0, potentials, 0.0) * found.fractions
    reached = layout.sums(each.sum(axis=1)) + found.features @ pairwise
    table = edge_scores(layout, pairwise, n_labels)
    for b in range(2):
        part = slice(*layout.edge_starts[b : b + 2])
        best = local_polytope(potentials[64 * b : 64 * (b + 1)], table[part], layout.edges[part])
        assert reached[b] == pytest.approx(best, rel=1e-6)
        assert best - 1e-8 * abs(best) <= found.upper[b] <= best + 1e-6 * abs(best)


def test_exact_inference_raises_for_large_graphs():
    layout = GraphLayout.of_graphs([2, 400], [[(0, 1)], grid(20, 20)])
    with pytest.raises(ValueError, match="inference must be 'auto' or 'relaxed' for graph 1"):
        prepared(Graph("exact"), layout, 3)
    assert prepared(Graph("auto"), layout, 3).relaxes(3, layout)
    # What is narrow has small tables.
    narrow = GraphLayout.of_graphs([400], [grid(4, 100)])
    assert not prepared(Graph("auto"), narrow, 3).relaxes(3, narrow)


@pytest.mark.parametrize("inference", ["exact", "relaxed"])
def test_part_of_a_layout_gives_the_same_labels(inference):
    layout, potentials, pairwise, codes = drawn(7)
    graph = prepared(Graph(inference), layout)
    whole = graph.runner_up(potentials, codes, pairwise, layout)
    for blocks in (np.array([2, 0]), np.array([1])):
        rows, part = layout.rows(blocks), layout.take(blocks)
        found = graph.runner_up(potentials[rows], codes[rows], pairwise, part)
        np.testing.assert_allclose(found.upper, whole.upper[blocks], atol=1e-5)
        again = part.take(np.arange(len(blocks))[::-1])
        assert again.lengths.tolist() == layout.lengths[blocks[::-1]].tolist()
        assert graph.features(codes[rows], part, LABELS).toarray().tolist() == (
            graph.features(codes, layout, LABELS)[blocks].toarray().tolist()
        )


def test_joined_layouts_equal_the_layout_of_all_graphs():
    layout = drawn(7)[0]
    parts = [layout.take(slice(0, 1)), layout.take(slice(1, None))]
    alone = GraphLayout.of(Layout.of_lengths([2, 1]), 1)
    for joined, known in zip(
        GraphLayout.join(parts).compared_fields(), layout.compared_fields(), strict=True
    ):
        np.testing.assert_array_equal(joined, known)
    both = GraphLayout.join([alone, layout])
    assert both.lengths.tolist() == [2, 1, *layout.lengths]
    for found, known in zip(
        both.take(slice(2, None)).compared_fields(), layout.compared_fields(), strict=True
    ):
        np.testing.assert_array_equal(found, known)


# Training.

SIZES = (3, 1, 4)


def examples(seed=0):
    """Return rows, labels and layout of small complete graphs."""
    rng = np.random.default_rng(seed)
    y = rng.integers(LABELS, size=sum(SIZES))
    X = np.eye(LABELS)[y] + rng.standard_normal((len(y), 3))
    edges = [[(u, v) for u in range(n) for v in range(u)] for n in SIZES]
    features = [rng.standard_normal((len(each), 2)) for each in edges]
    return X, y, GraphLayout.of_graphs(SIZES, edges, features)


def members(oracle, x):
    """Return all perturbed samples of a row, or the corners of S(x)."""
    if isinstance(oracle, FDrop):
        return np.array([x, *(x * (np.arange(3) != j) for j in range(3))])
    if isinstance(oracle, Box):
        return x + oracle.radius * np.array(list(product([-1, 1], repeat=3)))
    if isinstance(oracle, Flip):
        return np.array([x, x[::-1]])
    return x[None]


def optimum(oracle, C, relaxed):
    """Return the optimum by cvxpy: over all labelings, or over the dual of the local polytope."""
    X, y, layout = examples()
    W, pairwise = cp.Variable((LABELS, 3)), [cp.Variable((LABELS, LABELS)) for _ in range(2)]
    total = 0.5 * cp.sum_squares(W) + sum(0.5 * cp.sum_squares(each) for each in pairwise)
    for b in range(len(layout)):
        rows = range(*layout.starts[b : b + 2])
        wins = [
            [
                0.0 if k == y[t] else 1.0 + cp.max(members(oracle, X[t]) @ (W[k] - W[y[t]]))
                for k in range(LABELS)
            ]
            for t in rows
        ]
        edges = range(*layout.edge_starts[b : b + 2])
        tables = [sum(layout.edge_features[e, j] * pairwise[j] for j in range(2)) for e in edges]
        ends = layout.edges[edges.start : edges.stop]
        own = y[rows.start : rows.stop]

        def joined(labels, tables=tables, ends=ends):
            pairs = zip(tables, ends, strict=True)
            return sum((table[labels[u], labels[v]] for table, (u, v) in pairs), 0.0)

        if relaxed:
            loss = 0.0
            for table, (u, v) in zip(tables, ends, strict=True):
                told, ones = cp.Variable((2, LABELS)), np.ones((1, LABELS))
                rows_of, columns_of = (
                    cp.reshape(each, (1, LABELS), order="C") for each in (told[0], told[1])
                )
                loss += cp.max(table - rows_of.T @ ones - ones.T @ columns_of)
                for side, w in enumerate((u, v)):
                    wins[w] = [win + told[side, k] for k, win in enumerate(wins[w])]
            loss += sum(cp.maximum(*win) for win in wins)
        else:
            every = product(range(LABELS), repeat=len(rows))
            parts = [sum(wins[t][k] for t, k in enumerate(each)) + joined(each) for each in every]
            loss = cp.maximum(*parts)
        total += C * (loss - joined(own))
    return minimum(total)


@pytest.mark.filterwarnings("ignore:Objective contains too many subexpressions")
@pytest.mark.parametrize(
    ("oracle", "relaxed"),
    each_once([Identity(), FDrop(1), Box(0.2), Flip(1, shape=(1, 3))], [False, True]),
    ids=repr,
)
def test_training_reaches_the_optimum(oracle, relaxed):
    X, y, layout = examples()
    best = optimum(oracle, 2.0, relaxed)
    for solver in (FrankWolfe(), SVMStruct()):
        structure = Graph("relaxed" if relaxed else "exact", tol=1e-9, max_steps=20_000)
        term = WorstCase(X, y, oracle, structure, 2.0, layout=layout)
        space = ExplicitSpace(3, LABELS, n_pairwise=term.bound_structure.n_pairwise)
        found = solve(Objective(space, [term]), solver, Gap(1e-7), random_state=0)
        assert found.status is Status.CONVERGED
        assert found.primal == pytest.approx(best, rel=1e-6)
        assert found.relaxed is relaxed
        assert found.outcome == ("converged on the relaxed loss" if relaxed else "converged")
        assert_brackets(found, best)


def test_planes_of_fractional_labels_bound_the_loss():
    X, y, layout = examples()
    term = WorstCase(X, y, FDrop(1), Graph("relaxed", tol=1e-9, max_steps=20_000), layout=layout)
    space, rng = (
        ExplicitSpace(3, LABELS, n_pairwise=term.bound_structure.n_pairwise),
        np.random.default_rng(0),
    )
    f, g = rng.standard_normal((2, space.size))
    # Ends that had better differ, all round a cycle.
    f[-2 * LABELS**2 : -(LABELS**2)] = 0.0
    term.bound_structure.layout.edge_features[:] = 1.0
    f[-(LABELS**2) :] = -5.0 * np.eye(LABELS).ravel()
    planes = term.planes(space, f)
    (asked,) = term._answers(space, f, slice(None), True)
    assert np.any((asked.chosen.fractions > 0) & (asked.chosen.fractions < 1))
    normals = planes.normals
    written = normals.toarray() if hasattr(normals, "toarray") else np.asarray(normals)
    upper, attained = term.values(space, f)
    np.testing.assert_allclose(planes.offsets - written @ f, attained, atol=1e-9)
    np.testing.assert_allclose(upper, attained, atol=1e-6)
    assert np.all(planes.offsets - written @ g <= term.values(space, g)[0] + 1e-9)


def as_lists(X, y, layout):
    """Return the examples in the form that users pass."""
    given, labels = [], []
    for b in range(len(layout)):
        rows, edges = slice(*layout.starts[b : b + 2]), slice(*layout.edge_starts[b : b + 2])
        given.append((X[rows], layout.edges[edges], layout.edge_features[edges]))
        labels.append(y[rows])
    return given, labels


@pytest.mark.parametrize("oracle", [Identity(), FDrop(1)], ids=repr)
def test_certified_margins_equal_enumeration(oracle):
    X, y, layout = examples()
    given, labels = as_lists(X, y, layout)
    model = InvariantStructuredSVC(Graph("exact"), oracle=oracle, C=1.0, tol=1e-4).fit(given, labels)
    relaxed = clone(model).set_params(structure=Graph("relaxed")).fit(given, labels)
    relaxed.coef_, relaxed._pairwise_ = model.coef_, model._pairwise_
    margins = model.certify(given, labels).margins
    below = relaxed.certify(given, labels).margins
    W = model.coef_
    gains = [
        [np.max(members(oracle, x) @ (W[k] - W[c])) for k in range(LABELS)]
        for x, c in zip(X, y, strict=True)
    ]
    for b, rows, labelings, scores in enumerated(layout, np.array(gains), model._pairwise_):
        own = place(labelings, y[rows])
        assert margins[b] == pytest.approx(scores[own] - np.delete(scores, own).max(), abs=1e-9)
        assert below[b] <= margins[b] + 1e-9


@pytest.mark.parametrize("oracle", [Identity(), FDrop(1), Shared(Turns())], ids=repr)
@pytest.mark.parametrize("seed", range(6))
def test_wrong_positions_of_forests_bound_enumeration(oracle, seed):
    layout, _, pairwise, _ = drawn(3 * seed, forest=True, largest=5)
    rng = np.random.default_rng(seed)
    X, coef = rng.standard_normal((layout.n_rows, 3)), rng.standard_normal((LABELS, 3))
    y = prepared(Graph(), layout).decode(X @ coef.T, pairwise, layout).labels
    y = np.where(rng.random(len(y)) < 0.2, rng.integers(LABELS, size=len(y)), y)
    labels = Graph().bind(y, np.arange(LABELS), layout=layout)
    found = worst_change(coef, np.zeros(LABELS), oracle, labels, X, False, pairwise).certificate()
    for b in range(len(layout)):
        part, rows = layout.take([b]), slice(*layout.starts[b : b + 2])
        scores, wrong = [], None
        for Z in changes_of(oracle, X[rows]):
            (_, _, labelings, each), *_ = enumerated(part, Z @ coef.T, pairwise)
            scores.append(each)
            wrong = np.sum(labelings != y[rows], axis=1)
        most = max(wrong[np.argmax(each)] for each in scores)
        assert most <= found.most_wrong[b] <= len(X[rows])


def changes_of(oracle, rows):
    """Return all perturbations of a graph's rows, the unperturbed rows first."""
    if isinstance(oracle, FDrop):
        return [np.array(each) for each in product(*([x * (1 - e) for e in kept(x)] for x in rows))]
    if isinstance(oracle, Shared):
        return list(np.swapaxes(oracle.oracle.orbit(rows), 0, 1))
    return [rows]


def kept(x):
    """Return masks of removed features: none first, then each one."""
    return np.vstack([np.zeros(len(x)), np.eye(len(x))])


def test_graphs_work_in_the_estimator(tmp_path):
    X, y, layout = examples()
    given, labels = as_lists(X, np.array(["a", "b", "c"])[y], layout)
    model = InvariantStructuredSVC(Graph(), C=10.0, tol=1e-3).fit(given, labels)
    assert model.pairwise_.shape == (2, LABELS, LABELS)
    assert model.structure_.n_edge_features_ == 2
    assert not hasattr(model.structure, "n_edge_features_") or model.structure.n_edge_features_ is None
    assert 0.8 <= model.score(given, labels) <= 1.0
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    for one, other in zip(model.predict(given), again.predict(given), strict=True):
        np.testing.assert_array_equal(one, other)
    empty = (np.zeros((0, 3)), np.zeros((0, 2), dtype=int), np.zeros((0, 2)))
    assert [len(each) for each in model.predict([given[0], empty])] == [3, 0]
    plain = [graph[:2] for graph in given]
    with pytest.raises(ValueError, match="edges must have 2 features, as in training, got 1"):
        model.predict(plain)
    assert InvariantStructuredSVC(Graph()).fit(plain, labels).pairwise_.shape == (1, LABELS, LABELS)


@pytest.mark.parametrize("inference", ["exact", "relaxed"])
def test_linear_kernel_equals_explicit_features(inference):
    X, y, layout = examples()
    given, labels = as_lists(X, y, layout)
    structure = Graph(inference, tol=1e-8, max_steps=20_000)
    linear = InvariantStructuredSVC(structure, C=2.0, tol=1e-6).fit(given, labels)
    kernel = InvariantStructuredSVC(
        structure, kernel="poly", degree=1, gamma=1.0, coef0=0.0, C=2.0, tol=1e-6
    )
    kernel.fit(given, labels)
    assert kernel.solution_.primal == pytest.approx(linear.solution_.primal, rel=1e-5)
    assert kernel.solution_.relaxed is (inference == "relaxed")


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda g: g[0], TypeError, r"X\[1\] must be \(rows, edges\)"),
        (lambda g: g[:2], ValueError, r"X\[1\] must have edge features if and only if X\[0\] has them"),
        (lambda g: (g[0][:0], *g[1:]), ValueError, r"X\[1\] must have at least one node"),
        (lambda g: (g[0][:, :2], *g[1:]), ValueError, r"X\[1\] must have 3 features"),
        (lambda g: (g[0], g[1] + 1, g[2]), ValueError, r"X\[1\] must have edges between its nodes, 0"),
        (lambda g: (g[0], g[1] * 1.0, g[2]), ValueError, r"X\[1\] must have edges .* of integers"),
        (lambda g: (g[0], g[1] * 0, g[2]), ValueError, r"X\[1\] must have edges between two nodes, got"),
        (lambda g: (g[0], g[1], g[2][1:]), ValueError, r"X\[1\] must have edge features .*, one row"),
        (lambda g: (g[0], g[1], g[2][:, :1]), ValueError, r"X\[1\] must have 2 features per edge, as"),
        (lambda g: (g[0], g[1], g[2] * np.nan), ValueError, r"X\[1\] must have finite edge features"),
    ],
)  # fmt: skip
def test_fit_raises_for_invalid_graphs(change, kind, message):
    given, labels = as_lists(*examples())
    given, labels = [given[0], given[2]], [labels[0], labels[2]]
    given[1] = change(given[1])
    with pytest.raises(kind, match=message):
        InvariantStructuredSVC(Graph()).fit(given, labels)


def test_parameters_out_of_range_raise():
    for parameters, message in (
        ({"inference": "loopy"}, "inference must be one of"),
        ({"tol": 0.0}, "tol must be above 0 and below 1"),
        ({"max_steps": 0}, "max_steps must be an integer of at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            InvariantStructuredSVC(Graph(**parameters)).fit(*as_lists(*examples()))


class Overstated(Graph):
    """Relaxed inference whose shares have a smaller score than its labels."""

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        if found.fractions is None:
            return found
        fractions = np.eye(potentials.shape[1])[found.labels]
        return Decoding(found.labels, found.upper, fractions=fractions, features=found.features)


class Unbalanced(Graph):
    """Relaxed inference whose shares do not add up to 1."""

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        features = self.features(found.labels, layout, potentials.shape[1])
        return Decoding(
            found.labels, found.upper, fractions=np.zeros(potentials.shape), features=features
        )


def test_check_structure_finds_invalid_fractions():
    with pytest.raises(CheckError, match=r"Overstated\.decode: the score of its fractions"):
        check_structure(Overstated("relaxed"), n_labels=2, longest=6, trials=60)
    with pytest.raises(ValueError, match=r"Unbalanced\.decode must return fractions of at least 0"):
        check_structure(Unbalanced("relaxed"))


def test_status_explains_loose_bounds():
    X, y, layout = examples()
    term = WorstCase(X, y, FDrop(1), Graph("relaxed", tol=0.5, max_steps=1), 2.0, layout=layout)
    space = ExplicitSpace(3, LABELS, n_pairwise=term.bound_structure.n_pairwise)
    found = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-4), random_state=0)
    assert found.outcome == "oracle too coarse on the relaxed loss"
    assert "lower tol of the structure" in found.advice


@pytest.mark.parametrize("with_features", [False, True])
def test_worst_cases_of_graphs_are_graphs(with_features):
    X, y, layout = examples()
    given, labels = as_lists(X, y, layout)
    if not with_features:
        given = [graph[:2] for graph in given]
    model = InvariantStructuredSVC(Graph(), oracle=Box(0.3), C=0.5, random_state=0).fit(given, labels)
    changed, found = model.worst_case(given, labels)
    assert [len(graph) for graph in changed] == [len(graph) for graph in given]
    for graph, original in zip(changed, given, strict=True):
        for part, own in zip(graph[1:], original[1:], strict=True):
            np.testing.assert_array_equal(part, own)
    for predicted, told in zip(model.predict(changed), found, strict=True):
        np.testing.assert_array_equal(predicted, told)


@pytest.mark.parametrize("features", [(), ([],), (np.zeros((0, 2)),)], ids=len)
def test_edgeless_graphs_are_predicted_for_any_edge_features(features):
    given, labels = as_lists(*examples())
    model = InvariantStructuredSVC(Graph(), C=0.5, tol=1e-2).fit(given, labels)
    alone = (given[0][0][:1], [], *features)
    (scores,), (labels,) = model.decision_function([alone]), model.predict([alone])
    assert labels == model.classes_[np.argmax(scores)]


def test_planes_of_joint_perturbations_attain_relaxed_values():
    rng = np.random.default_rng(0)
    layout = GraphLayout.of_graphs([4] * 3, [[(u, v) for v in range(4) for u in range(v)]] * 3)
    X, y = rng.standard_normal((12, 3)), rng.integers(LABELS, size=12)
    term = WorstCase(X, y, Shared(Turns()), Graph("relaxed"), layout=layout)
    space = ExplicitSpace(3, LABELS, n_pairwise=term.bound_structure.n_pairwise)
    for _ in range(30):
        f = rng.standard_normal(len(space.zeros()))
        reached = term.values(space, f)[1]
        for block in range(len(layout)):
            planes = term.planes(space, f, np.array([block]))
            assert planes.plane_values[0] == pytest.approx(reached[block], abs=1e-9)


class Boundless(InvarianceOracle):
    """Oracle without perturbations and without upper bounds."""

    def support(self, X, V, assign, cost=None):
        return Support(X.copy(), np.full(len(X), np.inf))


@pytest.mark.parametrize("inference", ["exact", "relaxed"])
@pytest.mark.parametrize("cycle", [False, True])
def test_oracle_without_upper_bounds_certifies_no_graph(inference, cycle):
    edges = [(0, 1), (1, 2), (2, 0)][: 2 + cycle]
    layout, rng = GraphLayout.of_graphs([3], [edges]), np.random.default_rng(0)
    X, y = rng.standard_normal((3, 2)), np.array([0, 1, 1])
    labels = Graph(inference).bind(y, layout=layout)
    for pairwise in rng.standard_normal((5, labels.n_pairwise)):
        found = worst_change(0.1 * np.eye(2), np.zeros(2), Boundless(), labels, X, pairwise=pairwise)
        assert found.bounds == -np.inf
        assert np.isfinite(found.attacked)
        assert found.most_wrong == 3
