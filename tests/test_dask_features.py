"""Features of orbits of rows in partitions: the same draws as in memory, and lazy features."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

pytest.importorskip("distributed")

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import pandas as pd
from dask import delayed
from distributed import Client

from structinv import InvariantLinearSVC
from structinv.dask import DaskInvariantLinearSVC, DaskOrbitFourier, DaskOrbitNystroem
from structinv.embeddings import OrbitFourier, OrbitNystroem
from structinv.kernels import Gaussian, SetKernel
from structinv.oracles import Box, Rotations, Segment

TURNS = Rotations((90, 180, 270))
PAIRS = [(DaskOrbitNystroem, OrbitNystroem), (DaskOrbitFourier, OrbitFourier)]
both = pytest.mark.parametrize(("distributed", "local"), PAIRS, ids=["nystroem", "fourier"])


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((150, 16))


def blocks_of(X, edges):
    """Delayed blocks, of sizes that nobody told."""
    return [delayed(X[a:b]) for a, b in zip([0, *edges], [*edges, X.shape[0]], strict=True)]


def frame(X):
    return dd.from_pandas(pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), npartitions=3)


CUTS = {
    "array": lambda X: da.from_array(X, chunks=(40, 16)),
    "columns": lambda X: da.from_array(X, chunks=((1, 149), 5)),
    "unknown": lambda X: da.from_array(X, chunks=(40, 16))[da.from_array(np.ones(len(X), bool), 40)],
    "delayed": lambda X: blocks_of(X, [0, 0, 30]),
    "frame": frame,
}


@both
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_draws_and_features_are_those_of_the_same_rows_in_memory(rows, distributed, local, cut, dtype):
    X = rows.astype(dtype)
    given = CUTS[cut](X)
    known = local(TURNS, Gaussian(4.0), 12, random_state=3).fit(X)
    found = distributed(TURNS, Gaussian(4.0), 12, random_state=3).fit(given)
    for name in ["landmarks_", "landmark_indices_", "templates_"]:
        np.testing.assert_array_equal(getattr(found, name, None), getattr(known, name, None))
    assert found.kernel_error_ == known.kernel_error_
    features = found.transform(given)
    assert isinstance(features, da.Array)
    assert features.shape[1] == 12
    assert features.dtype == dtype
    computed = features.compute()
    assert computed.dtype == dtype
    np.testing.assert_allclose(computed, known.transform(X), rtol=0, atol=20 * np.finfo(dtype).eps)
    assert type(found.to_local()) is local


def test_random_cuts_give_the_same_landmarks(rows):
    rng = np.random.default_rng(1)
    known = OrbitNystroem(n_components=20).fit(rows).landmark_indices_
    for _ in range(10):
        edges = np.sort(rng.integers(0, len(rows) + 1, size=rng.integers(1, 9)))
        found = DaskOrbitNystroem(n_components=20).fit(blocks_of(rows, edges))
        np.testing.assert_array_equal(found.landmark_indices_, known)
        np.testing.assert_array_equal(found.landmarks_, rows[known])


def test_sparse_blocks(rows):
    X = sp.csr_matrix(rows * (rows > 0.5))
    found = DaskOrbitFourier(n_components=7).fit(blocks_of(X, [50, 50]))
    known = OrbitFourier(n_components=7).fit(X)
    np.testing.assert_allclose(found.transform(blocks_of(X, [20])).compute(), known.transform(X))
    assert found.kernel_error_ == known.kernel_error_


@both
def test_a_kernel_svm_of_partitions(rows, distributed, local):
    X = np.repeat(rows, 2, axis=0)
    X[1::2] = TURNS.orbit(X[::2])[:, 1]
    # The middle of an image is the middle of the turned image.
    y = np.where(X[:, [5, 6, 9, 10]].sum(axis=1) > 0, "bright", "dark")
    options = {"C": 10.0, "random_state": 0, "tol": 1e-2}
    whole = make_pipeline(local(TURNS, Gaussian(4.0), 30), InvariantLinearSVC(Box(0.001), **options))
    optimum = whole.fit(X, y)[-1].solution_
    given, labels = da.from_array(X, chunks=(75, 16)), da.from_array(y, chunks=75)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
        machine = DaskInvariantLinearSVC(Box(0.001), **options)
        model = make_pipeline(distributed(TURNS, Gaussian(4.0), 30), machine).fit(given, labels)
        told = model.predict(given)
        assert isinstance(told, da.Array)
        accuracy = np.mean(told.compute() == y)
        assert accuracy > 0.7
        certificate = machine.certify(model[0].transform(given), labels)
        assert certificate.accuracy <= accuracy
        assert model.score(given, labels) == pytest.approx(accuracy)
    assert machine.solution_.relative_gap <= 1e-2
    assert machine.solution_.dual <= optimum.primal * (1 + 1e-9)
    assert machine.solution_.primal >= optimum.dual * (1 - 1e-9)


@both
def test_rows_in_memory(rows, distributed, local):
    found = distributed(n_components=9).fit(rows)
    known = local(n_components=9).fit_transform(rows)
    np.testing.assert_array_equal(found.transform(rows), known)
    lazy = found.transform(da.from_array(rows, chunks=(40, 16)))
    np.testing.assert_allclose(lazy.compute(), known)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).transform(rows), known)
    assert clone(found).get_params() == local(n_components=9).get_params()
    assert found.get_feature_names_out().shape == (9,)


def test_names_are_those_of_the_last_fit(rows):
    model = DaskOrbitFourier(n_components=4).fit(frame(rows))
    assert model.feature_names_in_.tolist() == [f"x{j}" for j in range(16)]
    assert not hasattr(model.fit(blocks_of(rows, [10])), "feature_names_in_")


def raises(model, message, X, error=ValueError):
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.fit(X)
    assert vars(model) == before


def test_invalid_partitions_are_refused_in_fit(rows):
    array = da.from_array(rows, chunks=(50, 16))
    model = DaskOrbitNystroem(n_components=5)
    hole = rows.copy()
    hole[60, 2] = np.nan
    raises(model, "partition 1: Input X contains NaN", da.from_array(hole, chunks=(50, 16)))
    raises(model, "partition 0 has 16, partition 1 has 4", [*blocks_of(rows, []), delayed(rows[:, :4])])
    raises(model, "X must have rows, got 2 empty partitions", blocks_of(rows[:0], [0]))
    raises(model, "partition 0: X must be dense", blocks_of(sp.csr_matrix(rows), []), TypeError)
    raises(model, "partition 1: .* float16", [delayed(rows), delayed(rows.astype("f2"))], TypeError)
    raises(model, r"partition \d: X must have two dimensions", da.from_array(rows[:, 0], chunks=50))
    raises(model, "X must be a Dask array or DataFrame", dask.bag.from_sequence([1, 2]), TypeError)
    raises(DaskOrbitNystroem(n_components=151), "n_components must be at most", array)
    raises(DaskOrbitNystroem(n_components=0), "n_components must be", array)
    raises(DaskOrbitNystroem(landmarks="kmeans"), "landmarks must be 'random' for samples", array)
    psd_corrected = SetKernel(Segment(0.1, 10.0), Gaussian(0.5), spectrum="clip")
    raises(
        DaskOrbitNystroem(kernel=psd_corrected, n_components=5),
        "spectrum correction",
        array,
        TypeError,
    )


def test_invalid_partitions_are_refused_in_transform(rows):
    model = DaskOrbitFourier(n_components=4).fit(da.from_array(rows, chunks=(50, 16)))
    with pytest.raises(ValueError, match="X must have 16 features, as in fit, got 5"):
        model.transform(da.from_array(rows[:, :5], chunks=(50, 5)))
    with pytest.raises(ValueError, match="X must have two dimensions"):
        model.transform(da.from_array(rows[:, 0], chunks=50))
    with pytest.raises(ValueError, match="4 features"):
        model.transform(blocks_of(rows[:, :4], [])).compute()
