"""Labelings of examples in partitions: the problem of all examples together, and lazy answers."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.bag as db
import pandas as pd
from dask import delayed

from structinv import InvariantStructuredSVC, explain_solver
from structinv.dask import DaskInvariantStructuredSVC
from structinv.dask.bundle import MultiCutBundle
from structinv.datasets import conll_features, make_tagged_text
from structinv.oracles import Box, FDrop
from structinv.structures import Decoding, Graph, Multilabel, Sequence, Structure

from ..problems import check_bounds
from .cases import check_released


def sentences():
    texts, y = make_tagged_text(12, random_state=0)
    return conll_features(texts), y


def chains():
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=rng.integers(1, 6)) for _ in range(24)]
    return [np.eye(3)[each] + rng.normal(0, 0.4, (len(each), 3)) for each in y], y


def trees():
    """Trees with features of edges, but for some that have no edges."""
    rng, X, y = np.random.default_rng(0), [], []
    for i in range(24):
        size = 1 if i < 6 else 4
        edges = np.array([(rng.integers(t), t) for t in range(1, size)]).reshape(-1, 2)
        truth = rng.integers(2, size=size)
        rows = 2.0 * truth[:, None] - 1.0 + rng.normal(0, 0.8, (size, 1))
        X.append((rows, edges, rng.normal(size=(len(edges), 2))))
        y.append(np.array(["no", "yes"])[truth])
    return X, y


def label_sets():
    rng = np.random.default_rng(0)
    y = (rng.random((24, 3)) < 0.5).astype(int)
    y[:, 2] = y[:, 0]
    return y + rng.normal(0, 0.5, (24, 3)), y


KINDS = {
    "tokens": (Sequence(), FDrop(1), sentences),
    "tags": (Sequence("iob2"), None, sentences),
    "chains": (Sequence(), Box(0.1), chains),
    "trees": (Graph(), Box(0.1), trees),
    "sets": (Multilabel(), Box(0.1), label_sets),
    "trees of labels": (Multilabel("tree"), Box(0.1), label_sets),
}
of_each_kind = pytest.mark.parametrize("kind", KINDS)


def parts_of(values, edges):
    return [values[a:b] for a, b in zip([0, *edges], [*edges, len(values)], strict=True)]


def pairs(edges, *lists):
    """Delayed tuples of parts of the lists."""
    return [delayed(each) for each in zip(*(parts_of(each, edges) for each in lists), strict=True)]


def model_on(client, structure, oracle=None, **parameters):
    given = {"C": 0.1, "tol": 1e-2, "random_state": 0, **parameters}
    return DaskInvariantStructuredSVC(structure, oracle=oracle, client=client, **given)


@cache
def tagger():
    """A model of all sentences in memory."""
    return InvariantStructuredSVC(Sequence(), C=0.1, tol=1e-3, random_state=0).fit(*sentences())


def check_fit(model, *examples, optimum=None):
    """The optimum of all examples in memory lies within the bounds; return that fit."""
    optimum = optimum or model._in_memory().set_params(tol=1e-3).fit(*examples)
    check_bounds(model, optimum)
    assert model.classes_.tolist() == optimum.classes_.tolist()
    assert model.coef_.shape == optimum.coef_.shape
    check_released(model.client)
    return optimum


def same(found, known):
    """Whether lists of arrays or sparse matrices are equal."""
    for one, other in zip(found, known, strict=True):
        np.testing.assert_array_equal(*(x.toarray() if sp.issparse(x) else x for x in (one, other)))


@of_each_kind
def test_bounds_hold_the_optimum_of_all_examples_together(client, kind):
    structure, oracle, make = KINDS[kind]
    X, y = make()
    tol = 0.03 if make is sentences else 0.01
    found = model_on(client, structure, oracle, tol=tol).fit(pairs([5, 5], X, y))
    optimum = check_fit(found, X, y)
    known = vars(optimum.structure_)
    assert vars(found.structure_).keys() == known.keys()
    for name in ("follows_", "edges_", "n_edge_features_"):
        np.testing.assert_array_equal(vars(found.structure_).get(name), known.get(name))


def test_one_plane_a_round(client):
    X, y = chains()
    found = model_on(client, Sequence(), Box(0.1), solver="bmrm", tol=0.05).fit(pairs([10], X, y))
    check_fit(found, X, y)


@pytest.mark.parametrize(
    "cost",
    [
        pytest.param("hamming", marks=pytest.mark.slow),
        "mean_hamming",
        1.0 + np.tri(3) - 2.0 * np.eye(3),
    ],
)
def test_weights_and_costs(client, cost):
    X, y = chains()
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=24)
    weights[:8] = 0.0  # a partition that counts nothing
    of_positions = [rng.uniform(size=len(each)) for each in y]
    found = model_on(client, Sequence(), class_weight="balanced", cost=cost)
    found.fit(pairs([8, 16], X, y, weights, of_positions))
    check_fit(found, X, y, weights, of_positions)
    parts = [[delayed(part) for part in parts_of(each, [8, 16])] for each in (X, y, weights)]
    with client.as_current():
        assert found.score(*parts) == pytest.approx(found.to_local().score(X, y, weights))


def test_some_partitions_have_no_weights(client):
    X, y = chains()
    of_positions = [np.full(len(each), 0.5) for each in y]
    parts = pairs([8, 16], X, y), pairs([8, 16], X, y, np.ones(24), of_positions)
    found = model_on(client, Sequence()).fit([parts[0][0], parts[1][1], parts[0][2]])
    of_positions = [each if 8 <= i < 16 else 2.0 * each for i, each in enumerate(of_positions)]
    check_fit(found, X, y, None, of_positions)


def test_columns_of_tokens_are_those_of_all_partitions(client):
    X, y = sentences()
    found = model_on(client, Sequence(), tol=0.1).fit(pairs([4, 9], X, y))
    optimum = check_fit(found, X, y, optimum=tagger())
    assert list(found.vectorizer_.vocabulary_) == list(optimum.vectorizer_.vocabulary_)
    hashed = model_on(client, Sequence(), n_hashed=64, tol=0.1).fit(pairs([9], X, y))
    check_fit(hashed, X, y)
    assert hashed.n_features_in_ == 64


def test_columns_are_joined_a_few_partitions_at_a_time(client):
    X, y = sentences()
    found = model_on(client, Sequence(), tol=0.1).fit(pairs(range(1, 12), X, y))
    optimum = check_fit(found, X, y, optimum=tagger())
    assert list(found.vectorizer_.vocabulary_) == list(optimum.vectorizer_.vocabulary_)


def test_labels_of_all_partitions(client):
    X, y = chains()
    order = np.argsort([int(each[0]) for each in y], kind="stable")
    X, y = [X[i] for i in order], [["abc"[label] for label in y[i]] for i in order]
    y[0] = [1 for _ in y[0]]  # no order between numbers and strings
    y[1] = ["b" for _ in y[1]]
    found = model_on(client, Sequence()).fit(pairs([1, 2], X, y))
    check_fit(found, X, y)
    assert found.classes_.dtype == object


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_cut_does_not_change_the_optimum(client, seed):
    X, y = chains()
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, 25, size=rng.integers(1, 5)))
    check_fit(model_on(client, Sequence()).fit(pairs(edges, X, y)), X, y)


@pytest.mark.parametrize("kind", [pytest.param("tokens", marks=pytest.mark.slow), "trees"])
def test_answers_about_bags_and_lists_are_those_of_the_local_estimator(client, kind):
    structure, oracle, make = KINDS[kind]
    X, y = make()
    model = model_on(client, structure, oracle, tol=0.1)
    of_pairs = db.from_sequence(list(zip(X, y, strict=True)), npartitions=3)
    local = model.fit(of_pairs).to_local()
    assert clone(model).client is None
    assert type(local) is InvariantStructuredSVC
    known, (changed, labels) = local.certify(X, y), local.worst_case(X, y)
    delayed_lists = [[delayed(part) for part in parts_of(each, [0, 7])] for each in (X, y)]
    bags = [db.from_sequence(each, npartitions=3) for each in (X, y)]
    with client.as_current():
        for given, truth in (bags, delayed_lists):
            told = model.predict(given)
            assert isinstance(told, db.Bag)
            assert told.npartitions == 3
            same(told.compute(), local.predict(X))
            same(model.decision_function(given).compute(), local.decision_function(X))
            assert model.score(given, truth) == local.score(X, y)
            certificate = model.certify(given, truth)
            worst, leads = dask.compute(*model.worst_case(given, truth))
            same(leads, labels)
            np.testing.assert_allclose(certificate.margins, known.margins)
            np.testing.assert_array_equal(certificate.most_wrong, known.most_wrong)
        assert certificate.position_accuracy == pytest.approx(known.position_accuracy)
        unlabeled = model.certify(bags[0]).correct
    np.testing.assert_array_equal(unlabeled, local.certify(X).correct)
    rows = [each[0] if kind == "trees" else each for each in changed]
    same([each[0] if kind == "trees" else each for each in worst], rows)


def test_answers_about_label_sets_are_arrays(client):
    X, y = label_sets()
    model = model_on(client, Multilabel("tree"), Box(0.1))
    rows, table = da.from_array(X, chunks=(10, -1)), da.from_array(y, chunks=(10, -1))
    local = model.fit(rows, table).to_local()
    check_fit(model, X, y)
    with client.as_current():
        told = model.predict(rows)
        assert isinstance(told, da.Array)
        assert told.shape == (24, 3)
        np.testing.assert_array_equal(told.compute(), local.predict(X))
        np.testing.assert_allclose(model.decision_function(rows).compute(), local.decision_function(X))
        changed, labels = model.worst_case(rows, table)
        np.testing.assert_array_equal(changed.compute(), local.worst_case(X, y)[0])
        np.testing.assert_array_equal(labels.compute(), local.worst_case(X, y)[1])
        assert model.certify(rows, table).accuracy == local.certify(X, y).accuracy
        assert model.score(rows, table) == local.score(X, y)


def test_columns_of_data_frames_are_learned(client):
    X, y = label_sets()
    frames = [pd.DataFrame(part, columns=list("abc")) for part in parts_of(X, [10])]
    found = model_on(client, Multilabel()).fit(
        [delayed(each) for each in frames], [delayed(part) for part in parts_of(y, [10])]
    )
    assert found.feature_names_in_.tolist() == list("abc")


def test_the_same_seed_and_partitions_give_the_same_bits(client):
    X, y = chains()
    first, second = (model_on(client, Sequence(), FDrop(1)).fit(pairs([8], X, y)) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.transitions_, second.transitions_)
    assert first.solution_.dual == second.solution_.dual


def test_a_warm_start_goes_on_from_the_weights(client):
    X, y = sentences()
    model = model_on(client, Sequence(), FDrop(1), warm_start=True, tol=0.1)
    first = model.fit(pairs([4], X, y)).solution_
    again = model.fit(pairs([4], X, y)).solution_
    assert again.history[0].primal <= first.primal * (1 + 1e-9)
    assert again.status.value == "converged"


def test_a_checkpoint_goes_on(monkeypatch, client, tmp_path):
    X, y = chains()
    model = model_on(client, Sequence(), tol=1e-3, checkpoint=tmp_path / "fit.npz")
    step, rounds = MultiCutBundle.step, []

    def interrupted(self, objective, state):
        rounds.append(len(rounds))
        if len(rounds) == 6:
            raise KeyboardInterrupt
        return step(self, objective, state)

    monkeypatch.setattr(MultiCutBundle, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(pairs([8, 16], X, y))
    reached = model.solution_
    monkeypatch.undo()
    found = model.fit(pairs([8, 16], X, y)).solution_
    assert found.status.value == "converged"
    assert found.history[0].primal <= reached.primal * (1 + 1e-9)
    assert reached.dual <= found.primal


def test_examples_in_memory_need_no_client():
    X, y = chains()
    found = DaskInvariantStructuredSVC(Sequence(), kernel="rbf", random_state=0).fit(X, y)
    known = InvariantStructuredSVC(Sequence(), kernel="rbf", random_state=0).fit(X, y)
    np.testing.assert_array_equal(found.dual_coef_, known.dual_coef_)
    plain = DaskInvariantStructuredSVC(Sequence(), random_state=0)
    search = GridSearchCV(plain, {"C": [0.1, 1.0]}, cv=2)
    assert search.fit(X, y).score(X, y) > 0.8


def test_the_solver_of_examples_in_memory_is_explained():
    X, y = chains()
    found = explain_solver(DaskInvariantStructuredSVC(Sequence(), oracle=Box(0.1)), X, y)
    known = explain_solver(InvariantStructuredSVC(Sequence(), oracle=Box(0.1)), X, y)
    assert str(found) == str(known)


class Agreeing(Structure):
    """All rows of an example have the same label."""

    def decode(self, potentials, pairwise, layout):
        best = np.argmax(layout.sums(potentials), axis=1)
        return Decoding(best[layout.owners])

    def allows(self, labels, layout, n_labels):
        first = labels[layout.starts[:-1]][layout.owners]
        return layout.sums(labels != first) == 0


class Learning(Agreeing):
    """One that learns from the labels of all examples."""

    def prepared(self, classes, codes, layout):
        return self


def test_custom_structures(client):
    X, y = chains()
    y = [np.repeat(each[:1], len(each)) for each in y]
    check_fit(model_on(client, Agreeing()).fit(pairs([8], X, y)), X, y)
    message = "Learning must implement `summary` and `prepared_by`"
    raises(model_on(client, Learning()), message, pairs([8], X, y), error=TypeError)


def raises(model, message, *given, error=ValueError):
    with pytest.raises(error, match=message):
        model.fit(*given)
    assert not [name for name in vars(model) if name.endswith("_")]
    check_released(model.client)


def test_refusals_name_the_partition(client):
    X, y = chains()
    model = model_on(client, Sequence())
    few = [*y[:20], y[20][:-1] if len(y[20]) > 1 else [0, 0], *y[21:]]
    raises(model, r"partition 1: y\[10\] must have a label for each", pairs([10], X, few))
    raises(model, r"partition 1: X\[2\] must have at least one row", pairs([5], with_hole(X), y))
    narrow = [*X[:10], *(each[:, :2] for each in X[10:])]
    raises(model, "partition 0 has 3, partition 1 has 2", pairs([10], narrow, y))
    one = [np.zeros(len(each), dtype=int) for each in y]
    raises(model, "at least two classes, got one class: 0", pairs([10], X, one))
    raises(model, "X must have rows, got 2 empty partitions", pairs([0], [], []))
    tokens, tags = sentences()
    mixed = pairs([10], [*tokens[:10], *X[10:]], [*tags[:10], *y[10:]])
    raises(model, "X must have tokens with named features in all partitions", mixed, error=TypeError)
    weights = np.zeros(24)
    raises(model, "sample_weight must be above 0 for at least one", pairs([10], X, y, weights))
    raises(model, r"partition 1: sample_weight\[0\]", pairs([10], X, y, [*[1.0] * 10, *[-1.0] * 14]))
    raises(
        model,
        "above 0 for at least one position",
        pairs([10], X, y, weights + 1, [0.0 * each for each in y]),
    )
    raises(model, "y must not be None", da.from_array(np.eye(3), chunks=2))
    raises(model, "item 1 must be a tuple", db.from_sequence([(X[0], y[0]), 3], npartitions=1))
    raises(model, "y must have as many partitions as X", *lists(X, [10]), *lists(y, [10, 12]))
    raises(model_on(client, Sequence(), kernel="rbf"), "kernel must be 'linear'", pairs([10], X, y))
    raises(model_on(client, Sequence(), plane_tol=0.1), "plane_tol", pairs([10], X, y))
    sets, table = label_sets()
    uneven = [delayed((sets[:10], table[:10])), delayed((sets[10:], table[10:, :2]))]
    raises(model_on(client, Multilabel()), "same number of labels per row", uneven)


def lists(values, edges):
    return ([delayed(part) for part in parts_of(values, edges)],)


def with_hole(X):
    """Examples of which one has no rows."""
    return [*X[:7], X[7][:0], *X[8:]]
