"""Learning from a stream, and what can be certified of it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from structinv import InvariantLinearSVC
from structinv.estimators.inputs import block_sizes
from structinv.oracles import Box, FDrop, Shifts
from structinv.rows.sources import MatrixRows
from structinv.solvers import BMRM, Pegasos
from structinv.terms.blockwise_term import BlockSizes

ORACLES = [None, FDrop(1), Box(0.1), Shifts(1, shape=(3, 4))]


def counts(n_classes=2, n=240, d=12, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_classes, size=n)
    rates = rng.gamma(1.0, 1.0, (n_classes, d))
    return rng.poisson(0.8 * rates[codes]).astype(float), np.array(["a", "b", "c"])[codes]


def streaming(oracle=None, **parameters):
    return InvariantLinearSVC(
        oracle, **{"C": 0.02, "solver": "pegasos", "random_state": 0, **parameters}
    )


def learn(model, X, y, size=30):
    classes = np.unique(y)
    for first in range(0, len(y), size):
        model.partial_fit(X[first : first + size], y[first : first + size], classes=classes)
    return model


def optimum(model, X, y):
    return clone(model).set_params(solver="frank_wolfe", tol=1e-4).fit(X, y).solution_


def objective_of(model, X, y, oracle):
    """The objective of two classes at the model, from its worst margins."""
    losses = 1.0 - model.certify(X, y, oracle=oracle).margins
    scale = np.sum(model.coef_**2) + np.sum(model.intercept_**2)
    return 0.5 * scale + model.C * np.sum(np.maximum(losses, 0.0))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("oracle", ORACLES, ids=str)
def test_the_lower_bound_is_one_of_the_rows_so_far(oracle, n_classes):
    X, y = counts(n_classes)
    model = streaming(oracle)
    for n in (60, 120, 240):
        model.partial_fit(X[n // 2 if n > 60 else 0 : n], y[n // 2 if n > 60 else 0 : n], np.unique(y))
        best = optimum(model, X[:n], y[:n])
        assert 0 < model.solution_.dual <= best.primal
        assert (n == 60) == np.isfinite(model.solution_.primal)
        assert (n == 60) == np.isfinite(model.solution_.gap)
    assert model.n_iter_ == 3
    assert model.solution_.relative_gap == np.inf


def test_the_first_batch_has_a_whole_certificate():
    X, y = counts()
    model = streaming(FDrop(1)).partial_fit(X, y)
    best = optimum(model, X, y)
    assert model.solution_.dual <= best.primal
    assert best.dual <= model.solution_.primal
    assert model.solution_.gap == model.solution_.primal - model.solution_.dual


@pytest.mark.parametrize("oracle", [None, FDrop(1), Box(0.1)], ids=str)
def test_it_comes_close_to_a_fit_on_all_rows(oracle):
    X, y = counts(n=400)
    model = learn(streaming(oracle), X, y)
    fitted = streaming(oracle, max_seconds=60, tol=1e-2).fit(X, y)
    one_pass = streaming(oracle).partial_fit(X, y)
    # The objective of two classes from the margins, which `certify` gives with every oracle.
    values = [objective_of(each, X, y, oracle) for each in (model, fitted, one_pass)]
    assert values[1] == pytest.approx(fitted.solution_.primal, rel=1e-6)
    assert values[2] == pytest.approx(one_pass.solution_.primal, rel=1e-6)
    # Of the way from the zero function to the optimum, most is gone in one pass.
    zero = model.C * len(y)
    assert zero - values[0] > 0.7 * (zero - values[1])
    assert np.mean(model.predict(X) == fitted.predict(X)) > 0.9


def test_sparse_rows_are_dense_rows():
    X, y = counts()
    dense, sparse = learn(streaming(FDrop(1)), X, y), learn(streaming(FDrop(1)), sp.csr_matrix(X), y)
    np.testing.assert_allclose(dense.coef_, sparse.coef_)


def test_weights_are_factors_of_c():
    X, y = counts()
    weighted = streaming(C=0.02).partial_fit(X, y, sample_weight=np.full(len(y), 2.0))
    plain = streaming(C=0.04).partial_fit(X, y)
    np.testing.assert_allclose(weighted.coef_, plain.coef_)
    classes = streaming(class_weight={"a": 2.0, "b": 2.0}).partial_fit(X, y)
    np.testing.assert_allclose(classes.coef_, plain.coef_)


def test_a_batch_may_lack_classes():
    X, y = counts(3)
    model = streaming(solver=Pegasos(batch_size=4)).partial_fit(X, y)
    only = y == "b"
    model.partial_fit(X[only], y[only])
    assert model.classes_.tolist() == ["a", "b", "c"]
    late = streaming().partial_fit(X[only], y[only], classes=["c", "a", "b"])
    assert late.classes_.tolist() == ["a", "b", "c"]
    assert late.partial_fit(X, y).coef_.shape == (3, X.shape[1])


def test_it_goes_on_from_a_fit():
    X, y = counts()
    model = streaming(FDrop(1), tol=0.05).fit(X[:120], y[:120])
    model.partial_fit(X[120:], y[120:])
    assert model.solution_.dual <= optimum(model, X, y).primal
    assert model.solution_.primal == np.inf
    fresh = clone(model).fit(X, y).coef_
    np.testing.assert_array_equal(model.fit(X, y).coef_, fresh)
    other = InvariantLinearSVC(solver="svmstruct").fit(X, y).set_params(solver="pegasos")
    with pytest.raises(ValueError, match="fitted with solver='pegasos'"):
        other.partial_fit(X, y)


@pytest.mark.parametrize("solver", ["auto", "bmrm", "frank_wolfe", BMRM()])
def test_other_solvers_have_no_partial_fit(solver):
    model = InvariantLinearSVC(solver=solver)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as caught:
        model.partial_fit([[1.0], [2.0]], [0, 1])
    assert "partial_fit requires solver='pegasos', got solver=" in str(caught.value.__cause__)


def test_wrong_batches_leave_the_model_as_it_was():
    X, y = counts()
    model = streaming().partial_fit(X, y)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    with pytest.raises(ValueError, match=r"y must contain only labels of the classes \['a' 'b'\], got"):
        model.partial_fit(X, np.where(y == "a", "z", y))
    with pytest.raises(ValueError, match="classes must be those of the first batch"):
        model.partial_fit(X, y, classes=["a", "z"])
    with pytest.raises(ValueError, match="expecting 12 features"):
        model.partial_fit(X[:, :-1], y)
    with pytest.raises(ValueError, match="class_weight must be a dict or None in partial_fit"):
        model.set_params(class_weight="balanced").partial_fit(X, y)
    assert {name: value for name, value in vars(model).items() if name.endswith("_")} == before
    with pytest.raises(ValueError, match="or the first y must contain at least two classes"):
        streaming().partial_fit(X[:1], y[:1])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_of_weight_zero_are_as_absent(n_classes):
    X, y = counts(n_classes)
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.5)
    weight[:60] = weight[90:120] = 0.0
    model, other = streaming(FDrop(1)), streaming(FDrop(1))
    for first in range(0, len(y), 30):
        part = slice(first, first + 30)
        model.partial_fit(X[part], y[part], np.unique(y), weight[part])
        kept = np.flatnonzero(weight[part] > 0) + first
        if len(kept):
            other.partial_fit(X[kept], y[kept], np.unique(y), weight[kept])
        else:
            assert np.all(np.isfinite(model.coef_))
    np.testing.assert_allclose(model.coef_, other.coef_)
    assert model.solution_.dual == pytest.approx(other.solution_.dual)


def test_weights_of_one_class_alone_are_allowed():
    X, y = counts()
    for weight in (y == "a", np.zeros(len(y)), y == "b"):
        model = streaming().partial_fit(X, y, sample_weight=weight.astype(float))
        assert np.all(np.isfinite(model.coef_))


class TestRowsInBlocks:
    @pytest.fixture
    def rows(self, monkeypatch):
        """Rows in some ten blocks, of which the first has one class alone."""
        monkeypatch.setattr(block_sizes, "__defaults__", (BlockSizes(values=200),))
        X, y = counts()
        order = np.argsort(y, kind="stable")
        return MatrixRows(sp.csr_matrix(X[order])), y[order]

    @pytest.mark.parametrize("weighted", [False, True, "some"])
    def test_each_block_is_a_batch(self, rows, weighted):
        rows, y = rows
        weight = np.linspace(0.5, 2.0, len(y)) if weighted else None
        if weighted == "some":
            weight[: len(y) // 2] = 0.0
        whole = streaming(FDrop(1)).partial_fit(rows, y, sample_weight=weight)
        model, edges = streaming(FDrop(1)), rows.edges(200)
        assert len(edges) > 5
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            some = None if weight is None else weight[start:stop]
            model.partial_fit(rows.block(start, stop), y[start:stop], ["a", "b"], some)
        np.testing.assert_array_equal(whole.coef_, model.coef_)
        assert whole.solution_.dual == model.solution_.dual
        assert whole.n_iter_ == len(edges) - 1
        assert whole.solution_.oracle_calls >= (len(y) if weight is None else np.count_nonzero(weight))

    def test_a_stream_goes_on(self, rows):
        rows, y = rows
        model = streaming(FDrop(1)).partial_fit(rows, y)
        before = model.solution_.dual
        model.partial_fit(rows, y).partial_fit(rows.X, y)
        assert model.solution_.dual > before
        assert model.score(rows, y) > 0.8

    def test_an_error_in_a_later_block_takes_all_back(self, rows, monkeypatch):
        rows, y = rows
        model = streaming(FDrop(1)).partial_fit(rows, y)
        coef, stream = model.coef_.copy(), model._stream_
        old = MatrixRows.block

        def block(self, start, stop):
            if stop == self.shape[0]:
                raise OSError("the disk is gone")
            return old(self, start, stop)

        monkeypatch.setattr(MatrixRows, "block", block)
        with pytest.raises(OSError, match="the disk is gone"):
            model.partial_fit(rows, y)
        np.testing.assert_array_equal(model.coef_, coef)
        assert model._stream_ is stream
        new = streaming(FDrop(1))
        with pytest.raises(OSError, match="the disk is gone"):
            new.partial_fit(rows, y)
        assert not hasattr(new, "classes_")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"y": np.array(["a"] * 239 + ["z"])}, "labels of the classes"),
            ({"y": np.array(["a"] * 9)}, "a label for each of the 240 rows, got 9"),
            ({"y": None}, "y should be a 1d array"),
            ({"classes": ["a", "c"]}, "those of the first batch"),
            ({"X": MatrixRows(np.ones((240, 5)))}, "X has 5 features"),
            ({"sample_weight": np.ones(3)}, "sample_weight"),
        ],
    )
    def test_what_cannot_be_used_is_refused_before_the_first_batch(self, rows, change, message):
        rows, y = rows
        model = streaming(FDrop(1)).partial_fit(rows, y)
        stream = model._stream_
        with pytest.raises(ValueError, match=message):
            model.partial_fit(**{"X": rows, "y": y, **change})
        assert model._stream_ is stream

    def test_a_limit_of_memory(self, rows):
        rows, y = rows
        with pytest.raises(MemoryError, match="memory_limit=1000 must be at least"):
            streaming(FDrop(1), memory_limit=1000).partial_fit(rows, y)
