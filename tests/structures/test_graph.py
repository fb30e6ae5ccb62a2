"""Graphs of labels: layouts, training against cvxpy, certificates, and refused graphs."""

from __future__ import annotations

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone

from structinv import InvariantStructuredSVC, load, save
from structinv.certificates.certificate import worst_change
from structinv.oracles import Box, FDrop, Flip, Identity, InvarianceOracle, Shared, Support
from structinv.solvers import FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Graph
from structinv.structures.decodings import Layout
from structinv.structures.graph import GraphLayout
from structinv.terms import Objective, WorstCase

from ..covering import each_once
from ..problems import assert_brackets, minimum
from .cases import LABELS, Turns, drawn, enumerated, place, prepared


def test_edge_features_of_parts_must_agree():
    with pytest.raises(ValueError, match=r"in all graphs, got \[1, 2\]"):
        Graph().prepared_by(np.arange(2), [2, None, 1])


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
def test_wrong_positions_of_forests_bound_enumeration(oracle):
    for seed in range(6):
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


def test_status_explains_loose_bounds():
    X, y, layout = examples()
    term = WorstCase(X, y, FDrop(1), Graph("relaxed", tol=0.5, max_steps=1), 2.0, layout=layout)
    space = ExplicitSpace(3, LABELS, n_pairwise=term.bound_structure.n_pairwise)
    found = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-4), random_state=0)
    assert found.outcome == "oracle too coarse on the relaxed loss"
    assert "lower tol of the structure" in found.advice


EDGE_FEATURES = {
    "none": lambda edge: (),
    "one": lambda edge: (edge[:, :1],),
    "two": lambda edge: (edge,),
    "two-constant": lambda edge: (np.ones_like(edge),),
}


@pytest.mark.parametrize("features", EDGE_FEATURES)
def test_worst_cases_of_graphs_are_graphs(features):
    X, y, layout = examples()
    given, labels = as_lists(X, y, layout)
    given = [(rows, edges, *EDGE_FEATURES[features](edge)) for rows, edges, edge in given]
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
    for _ in range(10):
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
